"""When does a value live, when does it move between memory spaces, and does the compiler agree?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from hlo_cli.analysis.dataflow.flat_schedule import async_chains, places_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow, dataflow_of, uses_of_value, value_at
from hlo_cli.analysis.memory.memory_analysis import (
    LiveValue,
    MemoryAnalysis,
    MemorySpaceUsage,
    allocated_bytes,
    assigned_values,
    compiled_memory,
    value_key,
)
from hlo_cli.analysis.schedule.async_overlap import Transfer, transfers_of
from hlo_cli.commands.memspace.compiler_files import compiler_live_ranges
from hlo_cli.commands.memspace.usage import last_step_of
from hlo_cli.commands.modules.instruction_tables import rows_where
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import BufferAssignment, DumpedLiveRanges
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.notation import read_value_name
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.report.numbers import format_bytes, format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Amount, Cell, Column, Fact, Facts, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError

# --- --value: one value ---
# `hlo memspace DUMP --value NAME`: the live range of one value, its users, and the values that share its memory.


def report_of_value(loaded: Loaded, memory: MemoryAnalysis, name: str) -> Report:
    """The live range and uses of a value, its aliases, and the values in the same memory at other times."""
    places = places_of(memory.module)
    dataflow = dataflow_of(places, async_chains(places.instructions))
    space, value = _value_named(memory, dataflow, name)
    uses = _uses(memory, dataflow, value)
    return Report(
        "memspace",
        _value_answer(memory, space, value, uses),
        numbers={
            "value": str(value),
            "space": space.name,
            "kind": value.kind,
            "start": value.start,
            "end": last_step_of(memory, value),
            "logical_bytes": value.logical_bytes,
            "padded_bytes": value.padded_bytes,
            "uses": len(uses),
        },
        parts=(
            _value_facts(memory, space, value),
            _uses_table(memory, uses),
            _aliases_table(memory, value),
            _same_memory_table(memory, value),
        ),
        notes=program_notes(loaded),
        input=input_facts(loaded),
    )


def _value_named(memory: MemoryAnalysis, dataflow: Dataflow, text: str) -> tuple[MemorySpaceUsage, LiveValue]:
    named = read_value_name(text)
    if named is None:
        raise HloError(
            f"invalid value name '{text}'", hint="use a name such as fusion.2, or fusion.2{1} for a tuple element"
        )
    name, index = named
    instruction = memory.module.instruction(name)
    defined = [(s, v) for s in memory.spaces for v in s.values if v.instruction is instruction and not v.is_phi]
    defined = defined or [(s, v) for s in memory.spaces for v in s.values if v.instruction is instruction]
    exact = [pair for pair in defined if pair[1].index == index]
    if exact or (defined and not index):
        # A name without an index means the largest of the values that its instruction defines.
        return max(exact or defined, key=lambda pair: pair[1].padded_bytes)
    forwarded = _forwarded_value(memory, dataflow, instruction, index)
    if forwarded is not None:
        return forwarded
    if defined:
        raise HloError(
            f"value '{text}' not found",
            hint=f"available: {', '.join(str(value) for _, value in defined[:5])}",
        )
    is_executed = instruction in memory.positions
    hint = f"use --at {instruction.name} to list values live at that point" if is_executed else None
    raise HloError(f"'{instruction.name}' does not define a value in memory", hint=hint)


def _forwarded_value(
    memory: MemoryAnalysis, dataflow: Dataflow, instruction: Instruction, index: ShapeIndex
) -> tuple[MemorySpaceUsage, LiveValue] | None:
    """The value that an instruction only forwards, at an index of its result."""
    value = value_at(dataflow, instruction, index)
    if value is None:
        return None
    definition = dataflow.places.instructions[dataflow.places.owner[value]], dataflow.places.index(value)
    return next(((s, v) for s in memory.spaces for v in s.values if (v.instruction, v.index) == definition), None)


def _uses(memory: MemoryAnalysis, dataflow: Dataflow, value: LiveValue) -> tuple[Instruction, ...]:
    definition = value_at(dataflow, value.instruction, value.index)
    uses = uses_of_value(dataflow, definition) if definition is not None else ()
    return tuple(sorted((use for use in uses if use in memory.positions), key=memory.positions.__getitem__))


def _value_answer(
    memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue, uses: Sequence[Instruction]
) -> str:
    size = format_bytes(value.padded_bytes)
    steps = f"steps {value.start:,}–{last_step_of(memory, value):,} of {len(memory.sequence):,}"
    live_range = f"{value} occupies {size} of {space.name} in {steps}"
    if value.end >= len(memory.sequence) - 1:
        return f"{live_range}; live until the end"
    return f"{live_range}; last used by {uses[-1].name}" if uses else f"{live_range}; never used"


def _value_facts(memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue) -> Facts:
    instruction = value.instruction
    location = memory.module.location(instruction)
    allocation = memory.allocation_of(value)
    offset = "" if value.offset is None else f", offset {value.offset:,}"
    facts = [
        Fact(
            "defined", (Amount("step", value.start, "step"),), f"{instruction.opcode} in {instruction.computation.name}"
        ),
        Fact(
            "freed",
            (Amount("step", last := last_step_of(memory, value), "step"),),
            f"live for {format_count(last - value.start + 1, 'steps')}",
        ),
        Fact("kind", (), f"{value.kind} in {space.name}"),
        Fact("shape", (Amount("bytes", value.padded_bytes, "bytes"),), str(value.shape)),
        Fact("data", (Amount("bytes", value.logical_bytes, "bytes"),)),
    ]
    if allocation is not None:
        amount = (Amount("bytes", allocation.size, "bytes"),)
        facts.append(Fact("allocation", amount, f"index {allocation.index}{offset}"))
    if instruction.metadata.op_name:
        facts.append(Fact("from", (), instruction.metadata.op_name))
    if location is not None:
        facts.append(Fact("source", (), str(location)))
    return Facts("live_range", tuple(facts))


def _uses_table(memory: MemoryAnalysis, uses: Sequence[Instruction]) -> Table:
    columns: tuple[Column[Instruction], ...] = (
        Column("step", "step", "step", of=lambda use: memory.positions[use]),
        Column("user", "used by", "name", role="name", of=lambda use: use.name),
        Column("opcode", "opcode", "opcode", of=lambda use: use.opcode),
        Column("computation", "computation", "name", rank=3, of=lambda use: use.computation.name),
        Column("op_name", "op_name", "op_name", rank=2, of=lambda use: use.metadata.op_name or None),
    )
    rows = rows_from(columns, uses)
    return Table("uses", columns, rows, noun="uses", limit=10, person=bool(rows))


def _value_columns(memory: MemoryAnalysis) -> tuple[Column[LiveValue], ...]:
    return (
        Column("start", "start", "step", of=lambda other: other.start),
        Column("end", "end", "step", of=lambda other: last_step_of(memory, other)),
        Column("bytes", "", "bytes", of=lambda other: other.padded_bytes),
        Column("kind", "kind", of=lambda other: other.kind),
        Column("value", "value", "name", role="name", of=lambda other: str(other)),
        Column("shape", "shape", "shape", of=lambda other: str(other.shape)),
    )


def _aliases_table(memory: MemoryAnalysis, value: LiveValue) -> Table:
    columns = _value_columns(memory)
    rows = rows_from(columns, (other for other in memory.holders_of(value) if other is not value))
    title = "Aliased values (same buffer)"
    return Table("aliases", columns, rows, title=title, noun="values", main=False, limit=10, person=bool(rows))


def _same_memory_table(memory: MemoryAnalysis, value: LiveValue) -> Table:
    """Values of other buffers in the same memory at other times."""
    allocation = memory.allocation_of(value)
    others = allocation.values if allocation is not None else ()
    columns = _value_columns(memory)
    rows = rows_from(columns, (other for other in others if _share_bytes(value, other)))
    title = "Same memory at other times"
    return Table("memory_reuses", columns, rows, title=title, noun="values", main=False, limit=5, person=bool(rows))


def _share_bytes(value: LiveValue, other: LiveValue) -> bool:
    # Values of one buffer are its aliases, which have a table of their own.
    if other.buffer == value.buffer or value.offset is None or other.offset is None:
        return False
    return other.offset < value.offset + value.padded_bytes and value.offset < other.offset + other.padded_bytes


# --- --traffic: transfers ---
# `hlo memspace DUMP --traffic`: transfers between memory spaces, and their distance from the first use.


_SPACES_OF_ONE_COPY = 2  # a value that is copied once is in two spaces, which is no surprise


def report_of_traffic(loaded: Loaded, memory: MemoryAnalysis, where: str | None) -> Report:
    """One row for each pair of memory spaces, and one for each transfer."""
    transfers = transfers_of(memory.sequence)
    everything = _transfer_table(memory, transfers)
    table = everything if where is None else rows_where(where, everything)
    checked = Passage("nothing", (f"Checked {format_count(len(memory.sequence), 'instructions')}.",))
    parts = _directions_table(memory, transfers), table, _repeated_copies_table(memory, transfers)
    return Report(
        "memspace",
        _traffic_answer(memory, transfers),
        numbers={
            "transfers": len(transfers),
            "bytes": sum(transfer.shape.padded_bytes for transfer in transfers),
            "prefetches": sum(transfer.is_prefetch for transfer in transfers),
            "values_in_several_spaces": len({transfer.source for transfer in transfers}),
        },
        parts=parts if transfers else (checked, table),
        notes=program_notes(loaded),
        input=input_facts(loaded),
    )


def _traffic_answer(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> str:
    if not transfers:
        return "No transfers between memory spaces" + _only_space_in_words(memory)
    moved = format_bytes(sum(transfer.shape.padded_bytes for transfer in transfers))
    prefetched = [transfer for transfer in transfers if transfer.is_prefetch]
    # With nothing in between, the transfer might as well be synchronous.
    late = sum(transfer.done_step == transfer.start_step + 1 for transfer in transfers)
    words = f"{format_count(len(transfers), 'transfers')} {'moves' if len(transfers) == 1 else 'move'} {moved}"
    if prefetched:
        words += f"; {len(prefetched):,} {'is a prefetch' if len(prefetched) == 1 else 'are prefetches'}"
    if late:
        words += f"; {format_count(late, 'transfers')} {'has' if late == 1 else 'have'} no step between start and done"
    return words


def _only_space_in_words(memory: MemoryAnalysis) -> str:
    spaces = [space.name for space in memory.spaces]
    return f": all values are in {spaces[0]}" if len(spaces) == 1 else ""


def _repeated_copies_table(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> Table:
    """Values that are copied more than once, with the memory spaces that hold each, in the order of the copies."""
    spaces: dict[Instruction, list[int]] = {}
    for transfer in transfers:
        visited = spaces.setdefault(transfer.source, [transfer.from_space])
        visited.append(transfer.to_space)
    columns = (
        Column("value", "value", "name", role="name", of=lambda source, visited: source.name),
        Column(
            "spaces",
            "spaces",
            of=lambda source, visited: " → ".join(space_name(space, memory.target) for space in dict.fromkeys(visited)),
        ),
        Column("copies", "copies", "count", of=lambda source, visited: len(visited) - 1),
    )
    rows = rows_from_tuples(
        columns, ((source, visited) for source, visited in spaces.items() if len(visited) > _SPACES_OF_ONE_COPY)
    )
    title = "Copied more than once"
    return Table("repeated_copies", columns, rows, title=title, noun="values", main=False, limit=5, person=bool(rows))


def _directions_table(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> Table:
    directions: dict[tuple[int, int], list[Transfer]] = {}
    for transfer in transfers:
        directions.setdefault((transfer.from_space, transfer.to_space), []).append(transfer)

    def names(spaces: tuple[int, int]) -> tuple[str, str]:
        return space_name(spaces[0], memory.target), space_name(spaces[1], memory.target)

    columns: tuple[Column[tuple[int, int], list[Transfer]], ...] = (
        Column("from", "from", of=lambda spaces, moved: names(spaces)[0]),
        Column("to", "to", of=lambda spaces, moved: names(spaces)[1]),
        Column("transfers", "transfers", "count", total="sum", of=lambda spaces, moved: len(moved)),
        Column("values", "values", "count", of=lambda spaces, moved: len({transfer.source for transfer in moved})),
        Column("bytes", "", "bytes", total="sum",
               of=lambda spaces, moved: sum(transfer.shape.padded_bytes for transfer in moved)),
        Column("opcodes", "opcodes", of=lambda spaces, moved: _opcodes(moved)),
    )  # fmt: skip
    ranked = sorted(directions.items(), key=lambda direction: names(direction[0]))
    rows = rows_from_tuples(columns, ranked)
    return Table("directions", columns, rows, noun="directions", main=False)


def _opcodes(moved: Iterable[Transfer]) -> str:
    counts = Counter(transfer.instruction.opcode for transfer in moved)
    return ", ".join(f"{opcode} {number}" for opcode, number in counts.most_common())


def _transfer_table(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> Table:
    columns: tuple[Column[Transfer], ...] = (
        Column("start", "start", "step", of=lambda transfer: transfer.start_step),
        Column("done", "done", "step", of=lambda transfer: transfer.done_step),
        Column("first_use_step", "first use", "step", of=lambda transfer: transfer.used_step),
        Column("prefetch_distance", "distance", "count", of=lambda transfer: transfer.prefetch_distance),
        Column("bytes", "", "bytes", total="sum", of=lambda transfer: transfer.shape.padded_bytes),
        Column("from", "from", of=lambda transfer: space_name(transfer.from_space, memory.target)),
        Column("to", "to", of=lambda transfer: space_name(transfer.to_space, memory.target)),
        Column("instruction", "instruction", "name", role="name", of=lambda transfer: transfer.instruction.name),
        Column("source_value", "value", "name", role="name",
               of=lambda transfer: transfer.source.name if transfer.source is not transfer.instruction else None),
        Column("shape", "shape", "shape", rank=5, of=lambda transfer: str(transfer.shape)),
        Column("source", "source", "source", from_width=120, rank=4,
               of=lambda transfer: _location(memory, transfer.instruction)),
    )  # fmt: skip
    return Table("transfers", columns, rows_from(columns, transfers), noun="transfers")


def _location(memory: MemoryAnalysis, instruction: Instruction) -> str | None:
    location = memory.module.location(instruction)
    return None if location is None else str(location)


# --- --compare: the buffer assignment ---
# `hlo memspace DUMP --compare`: memory usage computed from the text against the compiler's buffer assignment.


def report_of_comparison(loaded: Loaded, memory: MemoryAnalysis, assignment: BufferAssignment) -> Report:
    """The totals of every space in both versions, and the values whose sizes, offsets, or live ranges differ."""
    theirs = compiled_memory(memory, assignment)
    totals = tuple(_compared_totals(memory, theirs))
    differing = tuple(_differing_values(memory, assignment))
    ranges = compiler_live_ranges(loaded)
    differing_ranges = _differing_live_ranges(memory, ranges) if ranges is not None else None
    return Report(
        "memspace",
        _comparison_answer(memory, totals, differing, differing_ranges),
        numbers={
            "values": len(memory.values),
            "differing_values": len(differing),
            "differing_totals": sum(total.differs for total in totals),
            "differing_live_ranges": UNKNOWN if differing_ranges is None else len(differing_ranges),
            "live_range_peak_step": memory.live_range_peak_step,
            "compiler_live_range_peak_step": UNKNOWN if ranges is None else ranges.peak_time,
        },
        parts=(_totals_table(totals), _values_table(differing), _live_ranges_table(differing_ranges or ())),
        notes=program_notes(loaded),
        input=input_facts(loaded),
    )


def _comparison_answer(
    memory: MemoryAnalysis,
    totals: Sequence[_Total],
    differing: Sequence[_Difference],
    differing_ranges: Sequence[_RangePair] | None,
) -> str:
    values = format_count(len(memory.values), "values")
    all_values = f"all {values}" if len(memory.values) != 1 else values
    all_totals = "all totals" if UNKNOWN not in (total.difference_bytes for total in totals) else "all known totals"
    wrong = [total for total in totals if total.differs]
    if differing_ranges:
        number = f"{len(differing_ranges):,} of {format_count(len(memory.values), 'live ranges')}"
        return f"{number} {verb(len(differing_ranges), 'differs', 'differ')} from the compiler's"
    if not wrong and not differing:
        compared = "sizes" if differing_ranges is None else "live ranges and sizes"
        return f"The computed numbers match the compiler's: {all_totals}, and the {compared} of {all_values}"
    worst = max(wrong, key=lambda total: abs(total.known_difference), default=None)
    words = f"{len(differing):,} of {values} {verb(len(differing), 'differs', 'differ')} from the compiler's"
    if worst is None:
        return f"{words}; {all_totals} match"
    return f"{words}; {worst.space} {worst.name} differ by {format_bytes(abs(worst.known_difference))}"


@dataclass(frozen=True, slots=True)
class _Total:
    """A total of a memory space: ours and the compiler's."""

    space: str
    name: str
    computed_bytes: Cell
    compiler_bytes: Cell

    @property
    def difference_bytes(self) -> Cell:
        """Ours less the compiler's; unknown if either is."""
        mine, its = self.computed_bytes, self.compiler_bytes
        return mine - its if isinstance(mine, int) and isinstance(its, int) else UNKNOWN

    @property
    def differs(self) -> bool:
        """Whether it does, as far as is known."""
        return self.known_difference != 0

    @property
    def known_difference(self) -> int:
        """The difference, 0 if it is unknown."""
        difference = self.difference_bytes
        return difference if isinstance(difference, int) else 0


def _compared_totals(ours: MemoryAnalysis, theirs: MemoryAnalysis) -> Iterator[_Total]:
    for our, their in zip(ours.spaces, theirs.spaces, strict=True):
        is_known = our.offsets != "unknown"
        mine: Cell = our.totals.temporary_bytes if is_known else UNKNOWN
        yield _Total(our.name, "temporaries", mine, their.totals.temporary_bytes)
        mine = allocated_bytes(ours, our) if is_known else UNKNOWN
        yield _Total(our.name, "allocations", mine, allocated_bytes(theirs, their))


def _totals_table(totals: Sequence[_Total]) -> Table:
    columns: tuple[Column[_Total], ...] = (
        Column("space", "space", of=lambda total: total.space),
        Column("total", "total", of=lambda total: total.name),
        Column("computed_bytes", "computed", "bytes", exact=True, of=lambda total: total.computed_bytes),
        Column("compiler_bytes", "compiler", "bytes", exact=True, of=lambda total: total.compiler_bytes),
        Column("difference_bytes", "difference", "bytes", role="waste", exact=True,
               of=lambda total: total.difference_bytes),
    )  # fmt: skip
    return Table("totals", columns, rows_from(columns, totals), noun="totals", limit=0)


def _differing_values(memory: MemoryAnalysis, assignment: BufferAssignment) -> Iterator[_Difference]:
    """Values that the assignment lacks, or has with another size or offset."""
    assigned = assigned_values(assignment)
    for value in memory.values:
        place = assigned.get(value_key(value))
        if place is None:
            yield _Difference(value, None, None, "not in the buffer assignment")
        elif place.bytes != value.padded_bytes:
            yield _Difference(value, place.bytes, place.offset, "size")
        elif value.offset is not None and value.offset != place.offset:
            yield _Difference(value, place.bytes, place.offset, "offset")


def _differing_live_ranges(memory: MemoryAnalysis, ranges: DumpedLiveRanges) -> tuple[_RangePair, ...]:
    """Values whose live range differs from the compiler's, and values that only one side has.

    A value of the compiler whose name sugar hides from the text matches any value with the same live range.
    """
    theirs = {str(dumped.place): (dumped.start, dumped.end) for dumped in ranges.ranges}
    ours = {str(value): (value.start, value.end) for value in memory.values}
    hidden = {
        str(dumped.place): (dumped.start, dumped.end) for dumped in ranges.ranges if dumped.place.instruction is None
    }
    spare = Counter(live_range for name, live_range in ours.items() if name not in theirs)
    differing: list[_RangePair] = []
    for name in dict.fromkeys((*theirs, *ours)):
        our, their = ours.get(name), theirs.get(name)
        if our is None and name in hidden and spare[hidden[name]]:
            spare[hidden[name]] -= 1
        elif our is not None and their is not None and our != their:
            differing.append((name, our, their))
        elif our is None and their is not None:
            differing.append((name, None, their))
    only_computed = [(name, own, None) for name, own in ours.items() if name not in theirs and spare[own] > 0]
    return (*differing, *only_computed)


_LiveRange: TypeAlias = tuple[int, int]
_RangePair: TypeAlias = tuple[str, _LiveRange | None, _LiveRange | None]
"""A value with its live range in the text and in the compiler, None where it is not."""


def _live_ranges_table(pairs: Sequence[_RangePair]) -> Table:
    columns: tuple[Column[str, _LiveRange | None, _LiveRange | None], ...] = (
        Column("value", "value", "name", role="name", of=lambda name, ours, theirs: name),
        Column("start", "start", "step", of=lambda name, ours, theirs: ours[0] if ours else None),
        Column("end", "end", "step", of=lambda name, ours, theirs: ours[1] if ours else None),
        Column("compiler_start", "compiler start", "step", of=lambda name, ours, theirs: theirs[0] if theirs else None),
        Column("compiler_end", "compiler end", "step", of=lambda name, ours, theirs: theirs[1] if theirs else None),
    )
    rows = rows_from_tuples(columns, pairs)
    return Table("live_ranges", columns, rows, noun="live ranges", main=False, limit=10, person=bool(rows))


@dataclass(frozen=True, slots=True)
class _Difference:
    """A value whose place the compiler has otherwise: its bytes and offset there, None if it has none."""

    value: LiveValue
    compiler_bytes: int | None
    compiler_offset: int | None
    words: str


def _values_table(differences: Sequence[_Difference]) -> Table:
    columns: tuple[Column[_Difference], ...] = (
        Column("difference", "difference", of=lambda difference: difference.words),
        Column("computed_bytes", "computed", "bytes", exact=True, of=lambda difference: difference.value.padded_bytes),
        Column("compiler_bytes", "compiler", "bytes", exact=True, of=lambda difference: difference.compiler_bytes),
        Column("computed_offset", "offset", "address", of=lambda difference: difference.value.offset),
        Column("compiler_offset", "compiler offset", "address", of=lambda difference: difference.compiler_offset),
        Column("kind", "kind", rank=3, of=lambda difference: difference.value.kind),
        Column("value", "value", "name", role="name", of=lambda difference: str(difference.value)),
        Column("shape", "shape", "shape", of=lambda difference: str(difference.value.shape)),
    )
    rows = rows_from(columns, differences)
    return Table("differences", columns, rows, noun="values", main=False, limit=10, person=bool(rows))
