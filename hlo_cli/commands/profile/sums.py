"""Sums of measured operations, and their cells: time for each device, share, calls, rates, and the part of the roof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column, Share

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.measures import Measure
    from hlo_cli.analysis.profile.profile import Operation, Profile

DEVICE_NOUNS: Final = {"TPU": "cores", "GPU": "GPUs", "CPU": "devices"}
"""What each platform calls the devices of a trace."""


@dataclass(frozen=True, slots=True)
class Sum:
    """Times of several operations on all devices, in seconds, with the work of those whose work is known.

    `flops`, `bytes`, and `main_bytes` are None if no operation has them.
    """

    operations: int
    calls: int
    events: int
    total: float
    self_time: float
    flops: float | None
    bytes: float | None
    main_bytes: float | None

    @property
    def mean(self) -> float:
        """The mean time of an event."""
        return self.total / self.events if self.events else 0.0

    @property
    def flop_rate(self) -> float | None:
        """Floating-point operations per second of one device."""
        return None if self.flops is None or not self.total else self.flops / self.total

    @property
    def byte_rate(self) -> float | None:
        """Bytes accessed per second by one device."""
        return None if self.bytes is None or not self.total else self.bytes / self.total


def sum_of(measured: Iterable[tuple[Operation, Measure]]) -> Sum:
    """The sum of operations with their times."""
    listed = list(measured)
    return Sum(
        len(listed),
        sum(measure.calls for _, measure in listed),
        sum(measure.events for _, measure in listed),
        sum(measure.total for _, measure in listed),
        sum(measure.self_time for _, measure in listed),
        _work((operation.flops, measure.calls) for operation, measure in listed),
        _work((operation.bytes, measure.calls) for operation, measure in listed),
        _work((operation.main_bytes, measure.calls) for operation, measure in listed),
    )


def _work(parts: Iterable[tuple[float | None, int]]) -> float | None:
    known = [each * calls for each, calls in parts if each is not None]
    return sum(known) if known else None


def time_columns(profile: Profile) -> tuple[Column, ...]:
    """The columns of `time_cells`: times and calls, for people those of one device."""
    is_many = len(profile.devices) > 1
    group = f"per {DEVICE_NOUNS[profile.platform].removesuffix('s')}" if is_many else ""
    return (
        Column("seconds", "self", "seconds", total="sum", group=group),
        Column("device_calls", "calls", "count", total="sum", group=group, person=is_many, rank=6),
        Column("calls", "calls", "count", total="sum", person=not is_many, rank=6),
        Column("share", "share", "percent", total="sum"),
        Column("self_seconds", "self", "seconds", total="sum", person=False),
        Column("total_seconds", "total", "seconds", total="sum", person=False),
    )


def time_cells(profile: Profile, each: Sum) -> Row:
    """Times and calls of a sum; shares are parts of the time of all devices, idle time included."""
    devices = len(profile.devices)
    whole = profile.total_ps * 1e-12
    share = each.self_time / whole if whole else None
    calls = each.calls / devices
    return (
        each.self_time / devices,
        round(calls) if calls == round(calls) else calls,
        each.calls,
        share,
        each.self_time,
        each.total,
    )


def rate_columns(profile: Profile, sums: Sequence[Sum]) -> tuple[Column, ...]:
    """The columns of `rate_cells`; the part of the roof only if the peaks of the device are known."""
    has_flops, has_bytes = any(each.flops for each in sums), any(each.bytes for each in sums)
    roof = (
        Column("bound", "bound", rank=5),
        Column("roofline_fraction", "of roof", "percent", rank=7),
    )
    return (
        Column("flops", "flops", "count", total="sum", person=False),
        Column("bytes", "bytes", "bytes", total="sum", person=False),
        Column("flop_rate", "", "flop/second", total=Share("flops", "total_seconds"), rank=7, person=has_flops),
        Column("byte_rate", "", "byte/second", total=Share("bytes", "total_seconds"), rank=7, person=has_bytes),
        *(roof if profile.peaks is not None else ()),
    )


def rate_cells(profile: Profile, each: Sum) -> Row:
    """Work and rates of a sum, the resource that bounds it, and its part of that resource's peak."""
    cells: Row = (each.flops, each.bytes, each.flop_rate, each.byte_rate)
    if profile.peaks is None:
        return cells
    return *cells, *roof_of(profile, each)


def roof_of(profile: Profile, each: Sum) -> tuple[str | None, float | None]:
    """The resource with the highest part of its peak, and that part; None if the work is unknown or zero."""
    peaks = profile.peaks
    if peaks is None or not each.total:
        return None, None
    read = each.bytes if each.main_bytes is None else each.main_bytes
    parts = {
        "flops": (each.flops or 0.0) / each.total / peaks.flops if peaks.flops else 0.0,
        "memory": (read or 0.0) / each.total / peaks.main_bytes if peaks.main_bytes else 0.0,
    }
    name = max(parts, key=lambda part: parts[part])
    return (name, parts[name]) if parts[name] else (None, None)
