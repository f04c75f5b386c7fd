"""Measured operations with the least time that they need, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.profile.roofs import Floor
from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.measures import Measure
    from hlo_cli.analysis.profile.profile import Operation

NO_INSTRUCTION: Final = "(no instruction)"
"""What stands for the instruction of a kernel that belongs to none."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """An operation with its times on all devices, and the least time of one call."""

    operation: Operation
    measure: Measure
    floor: Floor

    @property
    def instruction_name(self) -> str:
        """The name of the instruction; of a kernel without one, `(no instruction)`."""
        return self.operation.name if self.operation.is_joined else NO_INSTRUCTION

    @property
    def lost(self) -> float:
        """The time above the least time, in seconds; 0 without a floor, below 0 above 100% of the roof."""
        return self.measure.total - self.floor.seconds * self.measure.calls if self.floor.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Sum:
    """Times of several operations on all devices, in seconds, with the work of those whose work is known.

    `flops` and `bytes` are None if no operation has them. `work_time` is the total time of those that have any.
    """

    operations: int = 0
    calls: int = 0
    events: int = 0
    total: float = 0.0
    self_time: float = 0.0
    flops: float | None = None
    bytes: float | None = None
    compute: float = 0.0
    memory: float = 0.0
    work_time: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean time of an event."""
        return self.total / self.events if self.events else None

    @property
    def flop_rate(self) -> float | None:
        """Floating-point operations per second of one device, while these operations run."""
        return None if self.flops is None or not self.work_time else self.flops / self.work_time

    @property
    def byte_rate(self) -> float | None:
        """Bytes accessed per second by one device, while these operations run."""
        return None if self.bytes is None or not self.work_time else self.bytes / self.work_time

    @property
    def bound(self) -> str | None:
        """The resource of which the largest part of the peak is used; None if neither is."""
        if not self.roof:
            return None
        return "flops" if self.compute >= self.memory else "memory"

    @property
    def roof(self) -> float | None:
        """The part of the peak of that resource; None without work or peaks.

        >>> Sum(total=2.0, compute=0.5, memory=1.0, work_time=2.0).roof
        0.5
        """
        floor = max(self.compute, self.memory)
        return floor / self.work_time if floor and self.work_time else None


def sum_of(timed: Iterable[Timed]) -> Sum:
    """The sum of operations."""
    operations = calls = events = 0
    total = own = compute = memory = work_time = flops = accessed = 0.0
    has_flops = has_bytes = False
    for each in timed:
        operation, measure = each.operation, each.measure
        operations, calls, events = operations + 1, calls + measure.calls, events + measure.events
        total, own = total + measure.total, own + measure.self_time
        compute, memory = compute + each.floor.compute * measure.calls, memory + each.floor.memory * measure.calls
        if operation.flops is not None:
            has_flops, flops = True, flops + operation.flops * measure.calls
        if operation.bytes is not None:
            has_bytes, accessed = True, accessed + operation.bytes * measure.calls
        if operation.flops is not None or operation.bytes is not None:
            work_time += measure.total
    return Sum(
        operations,
        calls,
        events,
        total,
        own,
        flops if has_flops else None,
        accessed if has_bytes else None,
        compute,
        memory,
        work_time,
    )
