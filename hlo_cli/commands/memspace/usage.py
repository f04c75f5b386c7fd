"""How much memory is used at every step, and by what? The options that select, the chart, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import by_option, each_option, flag, jobs_option, option, timeout_option
from hlo_cli.commands.options.filters import where_option
from hlo_cli.commands.options.io_options import check_options, given_about, given_in
from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import UNKNOWN, Column, DeferredRows, LazyRows, Row, Share, Table
from hlo_cli.report.timeline import Band, Mark, Timeline, Track
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.live_ranges import Release
    from hlo_cli.analysis.memory.memory_analysis import LiveValue, MemoryAnalysis, MemorySpaceUsage
    from hlo_cli.analysis.query.module_summary import ProgramStage

# --- the chart ---
# Memory usage at every step by kind of value: the chart of `hlo memspace` and `hlo schedule`.


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


_Occupancy: TypeAlias = "tuple[LiveValue, int, int, LiveValue | None]"
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
    from hlo_cli.commands.modules.instruction_columns import loops_of

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
    from hlo_cli.ir.memory_space import space_number

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
    from hlo_cli.analysis.cache import computed_once
    from hlo_cli.analysis.dataflow.value_sets import first_users, value_at
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


# --- options ---
# Options of `hlo memspace`.


RELEASES: Final[tuple[Release, ...]] = ("0.10.2", "2026-08")
_LIMITS: Final = ("--limit", "--chip")


@dataclass(frozen=True, slots=True)
class MemspaceOptions:
    """The memory space, the step, the rows, and the limit that are selected."""

    grouping: str = by_option("Group by", before=("value",), after=("op_name", "kind", "shape", "opcode"), about="one")
    at: str | None = option(
        "--at",
        "NAME",
        group="Reports",
        is_common=True,
        complete=completion.instructions,
        help="Show values that are live at this instruction instead of at the peak.",
        about="one",
        one_of="report",
    )
    value: str | None = option(
        "--value",
        "NAME",
        group="Reports",
        is_common=True,
        complete=completion.instructions,
        help="Show live range, uses, and allocation of a value: NAME, or NAME{1} for a tuple element.",
        about="one",
        one_of="report",
        excludes=(*_LIMITS, "--space", "--where", "--by"),
    )
    traffic: bool = flag(
        "--traffic",
        group="Reports",
        is_common=True,
        help="List transfers between memory spaces and how early each one is issued.",
        about="one",
        one_of="report",
        excludes=(*_LIMITS, "--space", "--by"),
    )
    compare: bool = flag(
        "--compare",
        group="Reports",
        help="Compare the computed numbers with the compiler's buffer assignment.",
        about="one",
        one_of="report",
        excludes=("--limit", "--space", "--where", "--by"),
    )
    oom: str | None = option(
        "--oom",
        "FILE",
        group="Reports",
        is_common=True,
        complete=completion.files,
        help="Explain an out-of-memory error message (- for stdin).",
        about="one",
        one_of="report",
        excludes=(*_LIMITS, "--space", "--where", "--by"),
    )
    space: str | None = option(
        "--space",
        "SPACE",
        group="Filters",
        is_common=True,
        default_text="largest peak",
        complete=completion.memory_spaces,
        help="Show this memory space, by name (HBM, VMEM) or number, or `all` of them.",
    )
    where: str | None = where_option(about="one")
    limit: str | None = option(
        "--limit",
        "SIZE",
        group="Limits",
        is_common=True,
        help="Exit with code 1 if the module needs more than SIZE, such as 16GiB.",
        one_of="limit",
    )
    chip: str | None = option(
        "--chip",
        "NAME",
        group="Limits",
        is_common=True,
        complete=completion.chips,
        help="Exit with code 1 if an optimized module does not fit this chip, such as v5e or h100.",
        one_of="limit",
    )
    gate_unoptimized: bool = flag(
        "--gate-unoptimized",
        group="Limits",
        help="Apply --chip to modules before optimization as well.",
        needs="--chip NAME",
        needs_hint="--limit SIZE applies to every module",
    )
    release: Release = option(
        "--xla-release",
        "NAME",
        group="Model",
        choices=RELEASES,
        default=RELEASES[0],
        help=f"Follow the buffer assignment rules of this XLA release: {joined_by_or(RELEASES)}.",
    )
    each: bool = each_option()
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    @property
    def limit_bytes(self) -> int | None:
        """The bytes of --limit; HloError for a text that is not a size."""
        from hlo_cli.syntax.byte_sizes import parse_size

        return None if self.limit is None else parse_size(self.limit)

    @property
    def about_one(self) -> tuple[str, ...]:
        """The given options that require a single module, as typed; rows of many modules support the others."""
        spaces = ("--space all",) if self.space == EVERY_SPACE else ()
        if self.space and given_in(self, "limit"):
            spaces = ("--space",)
        return (*given_about(self, "one"), *spaces)

    def check(self) -> None:
        """Raises HloError for options without effect, and for a limit that nothing fits."""
        check_options(self)
        if self.limit_bytes == 0:
            raise HloError("--limit must be greater than 0", hint="for example --limit 16GiB")

    def is_verdict(self, stage: ProgramStage) -> bool:
        """Whether exceeding the limit fails: always for an optimized program, before that only for an explicit limit.

        >>> on_chip, limited = MemspaceOptions(chip="v5e"), MemspaceOptions(limit="1")
        >>> on_chip.is_verdict("before optimization"), limited.is_verdict("before optimization")
        (False, True)
        """
        return stage == "optimized" or self.limit_bytes is not None or self.gate_unoptimized


def step_of(memory: MemoryAnalysis, name: str) -> int:
    """The step at which the named instruction runs; HloError if it has no step of its own."""
    instruction = memory.module.instruction(name)
    if instruction not in memory.positions:
        inside = instruction.computation.name
        raise HloError(
            f"'{instruction.name}' has no step of its own: it is part of {inside}",
            hint=f"use the instruction that calls {inside}",
        )
    return memory.positions[instruction]


# --- spaces and live values ---
# The tables of `hlo memspace`: the memory spaces, and the live values at a step.


def memory_spaces_table(memory: MemoryAnalysis, *, limits: Mapping[int, int]) -> Table:
    """One row for each memory space; `limits` are the bytes of those whose capacity is known, by number."""
    is_estimate = any(space.offsets == "estimated" for space in memory.spaces)
    columns = (
        Column("space", "space"),
        Column("memory_space", "S(n)", "count", person=False),
        Column("values", "values", "count"),
        Column("logical_bytes", "data", "bytes", from_width=120),
        Column("padded_bytes", "padded", "bytes", from_width=120),
        Column("argument_bytes", "arguments", "bytes", from_width=120),
        Column("output_bytes", "outputs", "bytes", from_width=120),
        Column("aliased_bytes", "aliased", "bytes", from_width=120),
        Column("temporary_bytes", "temporaries", "bytes", from_width=120),
        Column("constant_bytes", "constants", "bytes", person=False),
        Column("fragmentation_bytes", "fragmentation", "bytes", person=False),
        Column("allocated_bytes", "est. allocated" if is_estimate else "allocated", "bytes"),
        Column("offsets", "offsets", person=False),
        Column("limit_bytes", "limit", "bytes", person=False),
        Column("peak_bytes", "live peak", "bytes"),
        Column("peak_step", "step", "step"),
        Column("peak_instruction", "at instruction", "name", role="name"),
    )
    rows = tuple(_space_row(memory, space, limits.get(space.number)) for space in memory.spaces)
    return Table("spaces", columns, rows, noun="spaces", main=False, limit=0)


def live_values_table(
    memory: MemoryAnalysis, live: Sequence[tuple[MemorySpaceUsage, LiveValue]], *, title: str, marked: frozenset[int]
) -> Table:
    """One row for each live buffer."""
    several = len({space.number for space, _ in live}) > 1
    total = sum(value.padded_bytes for _, value in live)
    columns = (
        Column("space", "space", person=several),
        Column("bytes", "", "bytes", total="sum"),
        Column("logical_bytes", "data", "bytes", total="sum", person=False),
        Column("share", "", "percent", total="sum"),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True)),
        Column("steps", "steps", "range", machine=False),
        Column("start", "start", "step", person=False),
        Column("end", "end", "step", person=False),
        Column("kind", "kind"),
        Column("value", "value", "name", role="name"),
        Column("shape", "shape", "shape"),
        Column("opcode", "opcode", "opcode", from_width=120),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", rank=4),
        Column("allocation", "allocation", "count", person=False),
        Column("offset", "offset", "address", person=False),
    )
    rows = tuple(_value_row(memory, space, value, total) for space, value in live)
    return Table("live_values", columns, rows, title=title, noun="values", limit=10, marked=marked)


def _space_row(memory: MemoryAnalysis, space: MemorySpaceUsage, limit: int | None) -> Row:
    from hlo_cli.analysis.memory.memory_analysis import allocated_bytes

    totals = space.totals
    allocated = allocated_bytes(memory, space)
    return (
        space.name,
        space.number,
        len(space.values),
        sum(value.logical_bytes for value in space.values),
        sum(value.padded_bytes for value in space.values),
        totals.arguments,
        totals.outputs,
        totals.aliased,
        totals.temporaries,
        totals.constants,
        totals.fragmentation,
        UNKNOWN if allocated is None else allocated,
        space.offsets,
        limit,
        space.peak_bytes,
        space.peak,
        step_label(memory, space.peak),
    )


def _value_row(memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue, total: int) -> Row:
    instruction = value.instruction
    return (
        space.name,
        value.padded_bytes,
        value.logical_bytes,
        value.padded_bytes / total if total else 0.0,
        _padding(value),
        f"{value.start:,}–{value.end:,}",
        value.start,
        value.end,
        format_kind(memory, value),
        str(value),
        str(value.shape),
        instruction.opcode,
        instruction.metadata.op_name or None,
        _source(memory, value),
        value.allocation,
        value.offset,
    )


def _padding(value: LiveValue) -> float:
    return 1 - value.logical_bytes / value.padded_bytes if value.padded_bytes else 0.0


def format_kind(memory: MemoryAnalysis, value: LiveValue) -> str:
    """The kind of a value's buffer; `donated` is an argument that results may reuse but are not known to."""
    if value.kind == "argument" and (allocation := memory.allocation_of(value)) is not None and allocation.is_donated:
        return "donated"
    return value.kind


def _source(memory: MemoryAnalysis, value: LiveValue) -> str | None:
    location = memory.module.location(value.instruction)
    return str(location) if location is not None else None
