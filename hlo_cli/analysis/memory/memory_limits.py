"""Whether a program fits into the memory of a device."""

from __future__ import annotations

from hlo_cli.analysis.hardware.chip_table import Chip
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, MemorySpaceUsage, Offsets
from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """The bytes needed in a memory space and the bytes available; `offsets` is the accuracy of the former."""

    space: int
    name: str
    needed_bytes: int
    limit_bytes: int
    offsets: Offsets

    @property
    def excess_bytes(self) -> int:
        """The bytes above the limit; 0 or less if the program fits."""
        return self.needed_bytes - self.limit_bytes


def memory_fits(memory: MemoryAnalysis, limit_bytes: int | None, chip: Chip | None) -> tuple[MemoryFit, ...]:
    """Returns one result per memory space with a limit: `limit_bytes` for main memory, else the limits of `chip`."""
    found = [(space, limit_bytes if not space.number else None) for space in memory.spaces]
    if chip is not None and limit_bytes is None:
        limits = {space.number: chip.limit(space.number) for space in memory.spaces}
        found = [(space, limit.bytes if (limit := limits[space.number]) else None) for space in memory.spaces]
    return tuple(
        MemoryFit(space.number, space.name, _needed_bytes(memory, space), limit, space.offsets)
        for space, limit in found
        if limit
    )


def allocated_bytes(memory: MemoryAnalysis, space: MemorySpaceUsage) -> int | None:
    """Returns the total of all allocations in a memory space; None if offsets are unknown."""
    if space.offsets == "unknown":
        return None
    return sum(a.size for a in memory.allocations if a.space == space.number and a.kind != "thread-local")


def _needed_bytes(memory: MemoryAnalysis, space: MemorySpaceUsage) -> int:
    """Returns the total of all allocations in a memory space, or the peak of live bytes if offsets are unknown."""
    allocated = allocated_bytes(memory, space)
    return space.peak_bytes if allocated is None else allocated
