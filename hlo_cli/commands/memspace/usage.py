"""How much memory is used at every step, and by what? The chart, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.dataflow.value_sets import FirstUsers, first_users, value_at
from hlo_cli.analysis.memory.heaps import scratch_bytes
from hlo_cli.analysis.memory.memory_analysis import (
    LiveValue,
    MemoryAnalysis,
    MemoryFit,
    MemorySpaceUsage,
    allocated_bytes,
)
from hlo_cli.commands.memspace.options import EVERY_SPACE
from hlo_cli.commands.modules.instruction_tables import loops_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace, space_number
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.table import (
    UNKNOWN,
    Cell,
    Column,
    DeferredRows,
    LazyRows,
    Row,
    Share,
    Table,
    rows_from,
    rows_from_tuples,
    unknown_if_none,
)
from hlo_cli.report.timeline import Band, Mark, Timeline, Track
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.kernels.pallas_kernels import PallasKernel

# --- the chart ---
# Of `hlo memspace` and `hlo schedule`: memory usage at every step by kind of value.


_MAX_USERS: Final = 12
"""The number of users named in a row."""


@dataclass(frozen=True, slots=True)
class _Detail:
    """A value with the steps in which it occupies memory, the source of what it is computed from, and its users."""

    value: LiveValue
    first: int
    last: int
    live_until: int
    origin: str | None
    users: FirstUsers | None

    @property
    def known_origin(self) -> str | None:
        """The origin; None if it is unknown."""
        from hlo_cli.analysis.origin.origins import UNKNOWN_KEY

        return None if self.origin == UNKNOWN_KEY else self.origin


_DETAILS: Final[tuple[Column[_Detail], ...]] = (
    Column("logical_bytes", "data", "bytes", total="sum",
           of=lambda detail: detail.value.logical_bytes if detail.first <= detail.last else 0),
    Column("live_end", "live until", "step",
           of=lambda detail: detail.live_until if detail.live_until != max(detail.first, detail.last) else None),
    Column("opcode", "opcode", "opcode", of=lambda detail: detail.value.instruction.opcode),
    Column("index", "index", "index", of=lambda detail: detail.value.index or None),
    Column("allocation", "allocation", "count",
           of=lambda detail: detail.value.allocation if detail.value.allocation >= 0 else None),
    Column("offset", "offset", "address", of=lambda detail: detail.value.offset),
    Column("origin", "origin", "source", of=lambda detail: detail.known_origin),
    Column("user_count", "users", "count", of=lambda detail: detail.users.number if detail.users is not None else 0),
    Column("users", "used by", "name",
           of=lambda detail: tuple(user.name for user in detail.users.first) if detail.users is not None else ()),
)  # fmt: skip
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
    (8, 16)
    """
    marks = () if marked is None else (Mark(marked, step_label(memory, marked) or ""),)
    tracks: list[Track] = []
    for space in spaces:
        occupancies, limit = occupancies_by_step(memory, space), limits.get(space.number)
        bands, details = _bands(memory, occupancies), _details(memory, occupancies)
        totals = space.timeline[: len(memory.sequence)]
        tracks.append(Track(space.name, totals, bands, limit_bytes=limit, marks=marks, details=details))
    names = tuple(instruction.name for instruction in memory.sequence)
    loops = tuple(loops_of(memory.runs))
    return Timeline("buffers", tuple(tracks), loops, instructions=names, details=_DETAILS)


def occupancies_by_step(memory: MemoryAnalysis, space: MemorySpaceUsage) -> tuple[_Occupancy, ...]:
    """The values of a memory space and when they occupy it, up to the last step.

    As in XLA, what is live at the end is live one position longer, at which nothing runs.
    """
    last_step = len(memory.sequence) - 1
    return tuple((value, first, min(last, last_step), then) for value, first, last, then in space.occupancies())


def last_step_of(memory: MemoryAnalysis, value: LiveValue) -> int:
    """The last step at which a value is live; XLA counts the end of the program as a position more."""
    return min(value.end, len(memory.sequence) - 1)


def decisive_fit(fits: Sequence[MemoryFit]) -> MemoryFit | None:
    """The result that decides: the space furthest above its limit, else main memory; None without limits.

    >>> from dataclasses import replace
    >>> hbm, vmem = MemoryFit(0, "HBM", 2, 16, "exact"), MemoryFit(1, "VMEM", 7, 8, "exact")
    >>> decisive_fit((hbm, vmem)).name, decisive_fit((hbm, replace(vmem, limit_bytes=6))).name
    ('HBM', 'VMEM')
    """
    fullest = max(fits, key=lambda fit: fit.needed_bytes / fit.limit_bytes, default=None)
    if fullest is None or fullest.excess_bytes > 0:
        return fullest
    return next((fit for fit in fits if fit.space == MemorySpace.MAIN), fullest)


def chosen_spaces(memory: MemoryAnalysis, wanted: str | None) -> tuple[MemorySpaceUsage, ...]:
    """The memory spaces with a name or number, or `all`; by default main memory, if it has values."""
    if wanted is None or not memory.spaces:
        return () if memory.main is None else (memory.main,)
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
        # A value that is overwritten at once has `last` before `first`: a band of one step without bytes.
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
    return DeferredRows(lambda: rows_from(_DETAILS, _details_of(memory, occupancies)))


def _details_of(memory: MemoryAnalysis, occupancies: Sequence[_Occupancy]) -> Iterator[_Detail]:
    from hlo_cli.analysis.origin.origins import keys_of

    dataflow, keys = memory.facts.dataflow, keys_of(memory.module, "source")
    users = computed_once(first_users, dataflow, memory.sequence, _MAX_USERS)
    for value, first, last, _ in occupancies:
        instruction, index = value.instruction, value.index
        place = value_at(dataflow, instruction, index)
        origin = keys(instruction, index) if memory.module.location(instruction) is None else None
        yield _Detail(
            value, first, last, last_step_of(memory, value), origin, users.get(place) if place is not None else None
        )


def step_of(memory: MemoryAnalysis, name: str) -> int:
    """The step at which the named instruction runs; HloError if it has no step of its own."""
    instruction = memory.module.instruction(name)
    if instruction not in memory.positions:
        computation = instruction.computation.name
        raise HloError(
            f"'{instruction.name}' has no step of its own: it is part of {computation}",
            hint=f"use the instruction that calls {computation}",
        )
    return memory.positions[instruction]


# --- spaces and live values ---


def memory_spaces_table(memory: MemoryAnalysis, *, limits: Mapping[int, int]) -> Table:
    """One row for each memory space; `limits` are the bytes of those whose capacity is known, by number."""
    is_estimate = any(space.offsets == "estimated" for space in memory.spaces)
    columns: tuple[Column[MemorySpaceUsage], ...] = (
        Column("space", "space", of=lambda space: space.name),
        Column("memory_space", "S(n)", "count", person=False, of=lambda space: space.number),
        Column("values", "values", "count", of=lambda space: len(space.values)),
        Column("logical_bytes", "data", "bytes", from_width=120,
               of=lambda space: sum(value.logical_bytes for value in space.values)),
        Column("padded_bytes", "padded", "bytes", from_width=120,
               of=lambda space: sum(value.padded_bytes for value in space.values)),
        Column("argument_bytes", "arguments", "bytes", from_width=120, of=lambda space: space.totals.argument_bytes),
        Column("output_bytes", "outputs", "bytes", from_width=120, of=lambda space: space.totals.output_bytes),
        Column("aliased_bytes", "aliased", "bytes", from_width=120, of=lambda space: space.totals.aliased_bytes),
        Column("temporary_bytes", "temporaries", "bytes", from_width=120,
               of=lambda space: space.totals.temporary_bytes),
        Column("constant_bytes", "constants", "bytes", person=False, of=lambda space: space.totals.constant_bytes),
        Column("fragmentation_bytes", "fragmentation", "bytes", person=False,
               of=lambda space: space.totals.fragmentation_bytes),
        Column("allocated_bytes", "est. allocated" if is_estimate else "allocated", "bytes",
               of=lambda space: _allocated(memory, space)),
        Column("offsets", "offsets", person=False, of=lambda space: space.offsets),
        Column("limit_bytes", "limit", "bytes", person=False, of=lambda space: limits.get(space.number)),
        Column("peak_bytes", "live peak", "bytes", of=lambda space: space.peak_bytes),
        Column("peak_step", "step", "step", of=lambda space: space.peak_step),
        Column("peak_instruction", "at instruction", "name", role="name",
               of=lambda space: step_label(memory, space.peak_step)),
    )  # fmt: skip
    rows = rows_from(columns, memory.spaces)
    return Table("spaces", columns, rows, noun="spaces", main=False, limit=0)


def live_values_table(
    memory: MemoryAnalysis, live: Sequence[tuple[MemorySpaceUsage, LiveValue]], *, title: str, marked: frozenset[int]
) -> Table:
    """One row for each live buffer."""
    several = len({space.number for space, _ in live}) > 1
    total = sum(value.padded_bytes for _, value in live)
    columns: tuple[Column[MemorySpaceUsage, LiveValue], ...] = (
        Column("space", "space", person=several, of=lambda space, value: space.name),
        Column("bytes", "", "bytes", total="sum", of=lambda space, value: value.padded_bytes),
        Column("logical_bytes", "data", "bytes", total="sum", person=False,
               of=lambda space, value: value.logical_bytes),
        Column("share", "", "percent", total="sum",
               of=lambda space, value: value.padded_bytes / total if total else 0.0),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True),
               of=lambda space, value: _padding(value)),
        Column("steps", "steps", "range", machine=False,
               of=lambda space, value: f"{value.start:,}–{last_step_of(memory, value):,}"),
        Column("start", "start", "step", person=False, of=lambda space, value: value.start),
        Column("end", "end", "step", person=False, of=lambda space, value: last_step_of(memory, value)),
        Column("kind", "kind", of=lambda space, value: format_kind(memory, value)),
        Column("value", "value", "name", role="name", of=lambda space, value: str(value)),
        Column("shape", "shape", "shape", of=lambda space, value: str(value.shape)),
        Column("opcode", "opcode", "opcode", from_width=120, of=lambda space, value: value.instruction.opcode),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2,
               of=lambda space, value: value.instruction.metadata.op_name or None),
        Column("source", "source", "source", rank=4, of=lambda space, value: _source(memory, value)),
        Column("allocation", "allocation", "count", person=False, of=lambda space, value: value.allocation),
        Column("offset", "offset", "address", person=False, of=lambda space, value: value.offset),
    )  # fmt: skip
    rows = rows_from_tuples(columns, live)
    return Table("live_values", columns, rows, title=title, noun="values", limit=10, marked=marked)


def _allocated(memory: MemoryAnalysis, space: MemorySpaceUsage) -> Cell:
    return unknown_if_none(allocated_bytes(memory, space))


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


def scratch_notes(memory: MemoryAnalysis) -> Iterator[Diagnostic]:
    """Why a TPU allocates far more of a memory than its values need: each kernel has its scratch there as it runs."""
    for space in memory.spaces if memory.target == "tpu" else ():
        if space.number == MemorySpace.MAIN:
            continue
        unused = (allocated_bytes(memory, space) or 0) - space.peak_bytes
        # where values fill the memory, scratch explains nothing
        if unused > space.peak_bytes and (scratch := min(scratch_bytes(memory.module, space.number), unused)):
            words = f"{format_bytes(scratch)} of the allocated {space.name} are scratch of kernels (scoped memory)"
            yield Diagnostic("note", f"{words}; the live peak counts values only")


# --- kernels ---


def kernel_tables(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], wanted: str | None) -> tuple[Table, ...]:
    """What Pallas kernels hold in VMEM while they run, which no value shows; none if VMEM is not shown."""
    kernels = _kernels_of(memory) if _shows_vmem(spaces, wanted) else ()
    if not kernels:
        return ()
    vmem = memory.space(TpuMemorySpace.VMEM)
    columns: tuple[Column[PallasKernel], ...] = (
        Column("kernel", "kernel", "name", role="name", of=lambda kernel: kernel.instruction.name),
        Column("step", "step", "step", of=lambda kernel: memory.positions.get(kernel.instruction)),
        Column("vmem_bytes", TpuMemorySpace.VMEM.label, "bytes",
               of=lambda kernel: UNKNOWN if kernel.error else kernel.vmem_bytes),
        Column("used_vmem_bytes", "used", "bytes", of=lambda kernel: unknown_if_none(kernel.used_vmem_bytes)),
        Column("values_bytes", "values", "bytes",
               of=lambda kernel: 0 if vmem is None else _live_bytes(memory, vmem, kernel)),
        Column("limit_bytes", "limit", "bytes", of=lambda kernel: kernel.limit_bytes),
    )  # fmt: skip
    ranked = sorted(kernels, key=lambda kernel: -_held_bytes(kernel))
    title = "VMEM of kernels while they run, next to values"
    rows = rows_from(columns, ranked)
    return (Table("kernels", columns, rows, title=title, noun="kernels", main=False, limit=_MOST_KERNELS),)


_MOST_KERNELS: Final = 5  # the values are what the command is about


def kernel_notes(
    memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], wanted: str | None
) -> Iterator[Diagnostic]:
    """How much VMEM the largest Pallas kernel holds, where only values of other memories are shown."""
    kernels = [] if _shows_vmem(spaces, wanted) else [each for each in _kernels_of(memory) if not each.error]
    if kernels:
        largest = max(kernels, key=_held_bytes)
        words = f"{largest.instruction.name} holds {format_bytes(_held_bytes(largest))} of VMEM while it runs"
        among = f", the most of {len(kernels):,} Pallas kernels" if len(kernels) > 1 else ""
        yield Diagnostic("note", f"{words}{among}")


def _shows_vmem(spaces: Sequence[MemorySpaceUsage], wanted: str | None) -> bool:
    """Whether a report is on VMEM too, so that it has room for what kernels hold there."""
    return wanted == EVERY_SPACE or any(space.number == TpuMemorySpace.VMEM for space in spaces)


def _kernels_of(memory: MemoryAnalysis) -> tuple[PallasKernel, ...]:
    if memory.target != "tpu":
        return ()
    from hlo_cli.analysis.hardware.target import is_pallas

    if not any(map(is_pallas, memory.sequence)):  # few modules have kernels, whose bodies take time to read
        return ()
    from hlo_cli.analysis.kernels.pallas_kernels import pallas_kernels_of

    chip = memory.generation if memory.is_generation_known else None
    return pallas_kernels_of(memory.module, chip=chip)


def _held_bytes(kernel: PallasKernel) -> int:
    """What the compiler says that a kernel uses, else its windows and scratch."""
    return kernel.used_vmem_bytes if kernel.used_vmem_bytes is not None else kernel.vmem_bytes


def _live_bytes(memory: MemoryAnalysis, space: MemorySpaceUsage, kernel: PallasKernel) -> Cell:
    step = memory.positions.get(kernel.instruction)
    return UNKNOWN if step is None else space.timeline[step]
