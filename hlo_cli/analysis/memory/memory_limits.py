"""Whether a program fits into a device's memory."""

from __future__ import annotations

from hlo_cli.analysis.hardware.chip import Chip
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, Offsets, SpaceUsage
from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """What a program takes of a memory space, and how much there is; `offsets` says how well the first is known."""

    space: int
    name: str
    taken_bytes: int
    limit_bytes: int
    offsets: Offsets

    @property
    def excess_bytes(self) -> int:
        """How much too large it is; nothing or less if it fits."""
        return self.taken_bytes - self.limit_bytes


def fits_of(memory: MemoryAnalysis, limit_bytes: int | None, chip: Chip | None) -> tuple[MemoryFit, ...]:
    """What the program takes of each memory that has a limit: main memory's, or those of a chip."""
    found = [(space, limit_bytes if not space.number else None) for space in memory.spaces]
    if chip is not None and limit_bytes is None:
        limits = {space.number: chip.limit(space.number) for space in memory.spaces}
        found = [(space, limit.bytes if (limit := limits[space.number]) else None) for space in memory.spaces]
    return tuple(
        MemoryFit(space.number, space.name, _taken(memory, space), limit, space.offsets)
        for space, limit in found
        if limit
    )


def arena_bytes(memory: MemoryAnalysis, space: SpaceUsage) -> int | None:
    """What the program takes of a space in all: every allocation there; None where the text cannot tell."""
    if space.offsets == "unknown":
        return None
    return sum(a.size for a in memory.allocations if a.space == space.number and a.kind != "thread-local")


def _taken(memory: MemoryAnalysis, space: SpaceUsage) -> int:
    """All allocations of a space; the most that is alive at once where the text does not tell how values lie."""
    arena = arena_bytes(memory, space)
    return space.peak_bytes if arena is None else arena
