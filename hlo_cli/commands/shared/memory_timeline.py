"""Memory usage at every step by kind of value: the chart of `hlo memspace` and `hlo schedule`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.memory.memory_model import LiveValue, MemoryAnalysis, MemorySpaceUsage
from hlo_cli.commands.shared.loop_brackets import loops_of
from hlo_cli.ir.memory_space import space_number
from hlo_cli.report.lazy_rows import LazyRows
from hlo_cli.report.timeline import Band, Mark, Timeline, Track
from hlo_cli.report.unknown_choice import unknown_choice_error

EVERY_SPACE = "all"


def memory_timeline(
    memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], *, limits: Mapping[int, int], marked: int | None = None
) -> Timeline:
    """A track for each memory space, with its limit if it has one, and the loops below; `marked` is a step to mark.

    The rows add up to the totals: a value that reuses the memory of another begins where the other ends.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] negate(p) }"
    >>> memory = memory_analysis(parse_module(text))
    >>> memory_timeline(memory, memory.spaces, limits={}).tracks[0].totals
    (8, 16, 16)
    """
    marks = () if marked is None else (Mark(marked, step_label(memory, marked) or ""),)
    tracks = tuple(
        Track(space.name, space.timeline, _bands(memory, space), limit_bytes=limits.get(space.number), marks=marks)
        for space in spaces
    )
    names = tuple(instruction.name for instruction in memory.sequence)
    return Timeline("buffers", tracks, tuple(loops_of(memory.runs)), instructions=names)


def chosen_spaces(memory: MemoryAnalysis, wanted: str | None) -> tuple[MemorySpaceUsage, ...]:
    """The memory spaces with a name or number, or `all`; by default, the one with the highest peak."""
    if not memory.spaces:
        return ()
    if wanted is None:
        return (max(memory.spaces, key=lambda space: (space.peak_bytes, -space.number)),)
    if wanted == EVERY_SPACE:
        return memory.spaces
    space = named_space(memory, wanted)
    if space is None:
        raise unknown_choice_error("memory space", wanted, (each.name for each in memory.spaces))
    return (space,)


def named_space(memory: MemoryAnalysis, wanted: str) -> MemorySpaceUsage | None:
    """The memory space with a name or number; None if it is empty."""
    number = space_number(wanted, memory.target)
    return memory.space(number) if number is not None else None


def step_label(memory: MemoryAnalysis, step: int) -> str | None:
    """The name of the instruction that runs at a step."""
    return memory.sequence[step].name if step < len(memory.sequence) else None


def _bands(memory: MemoryAnalysis, space: MemorySpaceUsage) -> LazyRows[Band]:
    """The values of a memory space as bands of the chart, computed on demand: a chart of totals does not need them."""
    occupancies = tuple(space.occupancies())
    return LazyRows(len(occupancies), lambda: (_band(memory, *occupancy) for occupancy in occupancies))


def _band(memory: MemoryAnalysis, value: LiveValue, first: int, last: int, then: LiveValue | None) -> Band:
    location = memory.module.location(value.instruction)
    return Band(
        str(value),
        first,
        max(first, last),
        value.padded_bytes if first <= last else 0,
        kind=value.kind,
        shape=str(value.shape),
        op_name=value.instruction.metadata.op_name,
        source=str(location) if location is not None else "",
        reused_by=str(then) if then is not None else "",
    )
