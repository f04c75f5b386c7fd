"""Memory usage at every step by kind of value: the chart of `hlo memspace` and `hlo schedule`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.dataflow.value_sets import first_users, value_at
from hlo_cli.analysis.memory.memory_analysis import LiveValue, MemoryAnalysis, MemorySpaceUsage
from hlo_cli.commands.modules.instruction_columns import loops_of
from hlo_cli.ir.memory_space import space_number
from hlo_cli.report.table import Column, DeferredRows, LazyRows, Row
from hlo_cli.report.timeline import Band, Mark, Timeline, Track
from hlo_cli.report.unknown_choice import unknown_choice_error

EVERY_SPACE: Final = "all"
_MAX_USERS: Final = 12
"""The number of users named in a row."""
_DETAILS: Final = (
    Column("logical_bytes", "data", "bytes", total="sum"),
    Column("live_end", "live until", "step"),
    Column("opcode", "opcode", "opcode"),
    Column("index", "index", "index"),
    Column("allocation", "allocation", "count"),
    Column("offset", "offset", "address"),
    Column("origin", "origin", "source"),
    Column("user_count", "users", "count"),
    Column("users", "used by", "name"),
)
"""The columns of what is known of a value in addition to its band."""


_Occupancy: TypeAlias = tuple[LiveValue, int, int, LiveValue | None]
"""A value, the first and the last step at which it occupies its memory, and the value that takes its place."""


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
    tracks: list[Track] = []
    for space in spaces:
        found, limit = tuple(space.occupancies()), limits.get(space.number)
        bands, details = _bands(memory, found), _details(memory, found)
        tracks.append(Track(space.name, space.timeline, bands, limit_bytes=limit, marks=marks, details=details))
    names = tuple(instruction.name for instruction in memory.sequence)
    loops = tuple(loops_of(memory.runs))
    return Timeline("buffers", tuple(tracks), loops, instructions=names, details=_DETAILS)


def chosen_spaces(memory: MemoryAnalysis, wanted: str | None) -> tuple[MemorySpaceUsage, ...]:
    """The memory spaces with a name or number, or `all`; by default, the one with the highest peak."""
    if wanted is None or not memory.spaces:
        return () if memory.fullest is None else (memory.fullest,)
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


def _bands(memory: MemoryAnalysis, occupancies: Sequence[_Occupancy]) -> LazyRows[Band]:
    """The values of a memory space as bands of the chart, computed on demand: a chart of totals does not need them."""
    return LazyRows(len(occupancies), lambda: (_band(memory, *occupancy) for occupancy in occupancies))


def _band(memory: MemoryAnalysis, value: LiveValue, first: int, last: int, then: LiveValue | None) -> Band:
    location = memory.module.location(value.instruction)
    return band_of(value, first, last, then, source=str(location) if location is not None else "")


def band_of(value: LiveValue, first: int, last: int, then: LiveValue | None, *, source: str = "") -> Band:
    """A value of a memory space as a band: the steps in which it occupies memory, and what reuses that then."""
    return Band(
        str(value),
        first,
        max(first, last),
        value.padded_bytes if first <= last else 0,
        kind=value.kind,
        shape=str(value.shape),
        op_name=value.instruction.metadata.op_name,
        source=source,
        reused_by=str(then) if then is not None else "",
    )


def _details(memory: MemoryAnalysis, occupancies: Sequence[_Occupancy]) -> DeferredRows[Row]:
    """A row of `_DETAILS` for each band; users and origins take time, so all are computed when they are read."""
    return DeferredRows(lambda: tuple(_detail_rows(memory, occupancies)))


def _detail_rows(memory: MemoryAnalysis, occupancies: Sequence[_Occupancy]) -> Iterator[Row]:
    from hlo_cli.analysis.origin.origins import UNKNOWN_KEY, keys_of

    dataflow, keys = memory.facts.dataflow, keys_of(memory.module, "source")
    users = computed_once(first_users, dataflow, memory.sequence, _MAX_USERS)
    for value, first, last, _ in occupancies:
        instruction, index = value.instruction, value.index
        at = value_at(dataflow, instruction, index)
        using = users.get(at) if at is not None else None
        origin = keys(instruction, index) if memory.module.location(instruction) is None else UNKNOWN_KEY
        yield (
            value.logical_bytes if first <= last else 0,
            value.end if value.end != max(first, last) else None,
            instruction.opcode,
            index or None,
            value.allocation if value.allocation >= 0 else None,
            value.offset,
            origin if origin != UNKNOWN_KEY else None,
            using.number if using is not None else 0,
            tuple(user.name for user in using.first) if using is not None else (),
        )
