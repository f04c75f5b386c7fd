"""What if the schedule were another? `--reorder GOAL` with its effect, and `--desugar` and `--sugar`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from hlo_cli.analysis.dataflow.flat_schedule import is_end, is_start
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.memory.assignment import memory_delta
from hlo_cli.analysis.memory.buffers import order_independent_facts
from hlo_cli.analysis.memory.memory_analysis import allocated_bytes, memory_analysis
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, analyze_overlap, async_pairs
from hlo_cli.analysis.schedule.step_time import TimeEstimate, estimate_time, sum_if_known
from hlo_cli.commands.modules.instruction_tables import rows_where
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, program_notes
from hlo_cli.commands.modules.rewriting import module_diff, verify_if
from hlo_cli.commands.options.chips import time_model, time_notes
from hlo_cli.commands.schedule.async_table import order_notes
from hlo_cli.commands.schedule.messages import is_or_are
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, rows_from, rows_from_tuples, unknown_if_none
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic
from hlo_cli.syntax.byte_sizes import parse_size
from hlo_cli.transform import reorder
from hlo_cli.transform.in_place_hazards import copies_note
from hlo_cli.transform.reorder import Goal, MovedBlock, ReorderedModule, moved_blocks
from hlo_cli.transform.schedule.latency_scheduler import BY_BYTES, times_on_chip
from hlo_cli.transform.sugar import desugar, sugar

# --- the new order ---


def new_order(module: Module, goal: Goal, *, limit: str | None, throughput: ChipSpec | None) -> ReorderedModule:
    """A module in a new order; `limit` is a size such as 12GiB for the main memory.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }")
    >>> new_order(module, "dfs", limit=None, throughput=None).module.is_scheduled
    True
    """
    limits = {} if limit is None else {0: parse_size(limit)}
    times = None
    if throughput is not None and goal == "latency":
        # Only this goal weighs transfers against compute; the others do not look at durations.
        times = times_on_chip(analyze_overlap(module), throughput)
    return reorder.reorder_with_peaks(module, goal, limits=limits, latency_model=times)


# --- moved blocks ---


@dataclass(frozen=True, slots=True)
class _Move:
    """A block with the steps of its first instruction in both orders, and the memory that it allocates or frees."""

    block: MovedBlock
    from_step: int | None
    to_step: int | None
    growth_bytes: int

    @property
    def distance(self) -> int | None:
        """The steps by which it is later."""
        return None if self.from_step is None or self.to_step is None else self.to_step - self.from_step

    @property
    def first(self) -> Instruction:
        """Its first instruction."""
        return self.block.instructions[0]

    @property
    def last(self) -> Instruction:
        """Its last instruction."""
        return self.block.instructions[-1]


def _moved_table(old: Module, new: Module, blocks: Sequence[MovedBlock]) -> Table:
    """One row for each block, with the steps of its first instruction in both orders."""
    before, after = memory_delta(order_independent_facts(old)).positions, memory_delta(order_independent_facts(new))
    users: dict[Instruction, Instruction] = {}
    for user in new.instructions:
        for operand in user.operands:
            # The first user in the new order is the one that waited for the operand.
            users.setdefault(operand, user)
    several = any(len(block.instructions) > 1 for block in blocks)
    moves = (
        _Move(
            block,
            before.get(block.before[0]),
            after.positions.get(block.instructions[0]),
            sum(after.bytes.get(instruction, 0) for instruction in block.instructions),
        )
        for block in blocks
    )
    columns: tuple[Column[_Move], ...] = (
        Column("from_step", "from", "step", of=lambda move: move.from_step),
        Column("to_step", "to", "step", of=lambda move: move.to_step),
        Column("distance", "distance", "count", from_width=120, of=lambda move: move.distance),
        Column("instructions", "count", "count", rank=4, of=lambda move: len(move.block.instructions)),
        Column("first", "first", "name", role="name", of=lambda move: move.first.name),
        Column("last", "last", "name", rank=2, person=several,
               of=lambda move: move.last.name if move.last is not move.first else None),
        Column("reason", "reason", rank=5, of=lambda move: _reason_of_move(move, users)),
        Column("new_predecessor", "now after", "name", rank=3,
               of=lambda move: move.block.follows.name if move.block.follows is not None else None),
        Column("growth_bytes", "memory change", "bytes", person=False, of=lambda move: move.growth_bytes),
        Column("computation", "computation", "name", from_width=120, of=lambda move: move.first.computation.name),
        Column("op_name", "op_name", "op_name", from_width=200, rank=1,
               of=lambda move: move.first.metadata.op_name or None),
    )  # fmt: skip
    return Table("moved_blocks", columns, rows_from(columns, moves), noun="blocks", title="Moved blocks")


def _reason_of_move(move: _Move, users: Mapping[Instruction, Instruction]) -> str | None:
    """The likely reason for a move, judged by the block alone; None for a block that stays at its step."""
    if not move.distance:
        return None
    block, growth, is_sooner = move.block, move.growth_bytes, move.distance < 0
    when = "sooner" if is_sooner else "later"
    if any(map(is_start, block.instructions)):
        return f"starts {when}"
    if any(map(is_end, block.instructions)):
        return f"ends {when}"
    # Freeing sooner, or allocating later, is what makes room; the reverse is a side effect of another move.
    if growth and (growth < 0) == is_sooner:
        return f"{'frees' if growth < 0 else 'allocates'} {format_bytes(abs(growth))} {when}"
    user = users.get(block.instructions[-1])
    return f"for {user.name}" if is_sooner and user is not None else None


# --- its effect ---
# `hlo schedule DUMP --reorder GOAL`: another order, its effect on memory and overlap, and the moved blocks.


def report_of_reordering(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    new: ReorderedModule,
    *,
    goal: Goal,
    within: Computation | None,
    where: str | None,
    argument: str,
    options: str,
    has_limit: bool = False,
    throughput: ChipSpec | None = None,
    verify: bool = False,
) -> Report:
    """Peaks of memory and the overlap of transfers before and after, one row for each moved block, and the verdict."""
    new_overlap = analyze_overlap(new.module)
    blocks = [
        block
        for block in moved_blocks(loaded.module, new.module)
        if within is None or block.before[0].computation is within
    ]
    everything = _moved_table(loaded.module, new.module, blocks)
    table = everything if where is None else rows_where(where, everything)
    exposures = _Exposure(overlap, throughput), _Exposure(new_overlap, throughput)
    peaks = _peak_changes(new)
    totals = _total_changes(loaded.module, new.module)
    # --reorder memory lowers what is allocated; the other goals are held to the peak of live bytes.
    memory = totals if goal == "memory" else peaks
    # A module without a schedule is worth writing even if nothing moved: the new one has one.
    is_new = not loaded.module.is_scheduled
    moved = sum(len(block.instructions) for block in blocks)
    report = Report(
        "schedule",
        _reorder_answer(goal, memory, exposures, moved, len(blocks), is_new=is_new, has_limit=has_limit),
        numbers={
            "reorder": goal,
            "moved_instructions": moved,
            "blocks": len(blocks),
            **_changes_by_space(peaks),
            **_changes_by_space(totals),
            "constant_bytes": sum(new.before.constants.values()),
            "unoverlapped_before": exposures[0].unoverlapped,
            "unoverlapped_after": exposures[1].unoverlapped,
            "unoverlapped_bytes_before": exposures[0].unoverlapped_bytes,
            "unoverlapped_bytes_after": exposures[1].unoverlapped_bytes,
            **_seconds_before_and_after(exposures, throughput),
        },
        parts=(_memory_table(peaks, totals), *_overlap_tables(exposures), table),
        next=(f"hlo schedule {argument} {options} -o new.hlo",)
        if argument not in ("", "-") and (moved or is_new)
        else (),
        notes=(
            *_reorder_notes(overlap, new, goal, throughput),
            *_unknown_notes(exposures),
            *(Diagnostic("note", words) for words in copies_note(new.copies)),
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )
    return verify_if(verify, loaded.module, new.module).added_to(report)


class _Exposure:
    """The number of transfers, how many of them and of their bytes overlap no kernel, and the time on a chip."""

    def __init__(self, overlap: OverlapAnalysis, throughput: ChipSpec | None) -> None:
        self.pairs = len(overlap.intervals)
        self.transfers = self.pairs + len(overlap.synchronous)
        self.unoverlapped = len(overlap.unoverlapped)
        self.unoverlapped_bytes = sum(overlap.unoverlapped.values())
        self.step = None if throughput is None else estimate_time(overlap, throughput)


def _seconds_before_and_after(exposures: tuple[_Exposure, _Exposure], throughput: ChipSpec | None) -> dict[str, Cell]:
    """Time and wait time per execution before and after, and the time model; empty without a chip."""
    before, after = exposures[0].step, exposures[1].step
    if throughput is None or before is None or after is None:
        return {}
    return {
        "exposed_seconds_before": _exposed_seconds(before),
        "exposed_seconds_after": _exposed_seconds(after),
        "execution_seconds_before": before.least_seconds,
        "execution_seconds_after": after.least_seconds,
        "lower_bounds": _lower_bounds(before, after),
        "time_model": time_model(throughput),
    }


def _exposed_seconds(step: TimeEstimate) -> float | None:
    return sum_if_known(step.exposed.values())


def _lower_bounds(before: TimeEstimate, after: TimeEstimate) -> tuple[str, ...]:
    """Names of the times that have both a known and an unknown part."""
    named = (("execution_seconds_before", before), ("execution_seconds_after", after))
    return tuple(name for name, step in named if not step.is_known and step.least_seconds is not None)


def _unknown_notes(exposures: tuple[_Exposure, _Exposure]) -> Iterable[Diagnostic]:
    if any(each.step is not None and not each.step.is_known for each in exposures):
        yield Diagnostic("note", "parts of the execution have unknown duration; the times omit them")


@dataclass(frozen=True, slots=True)
class _ByteChange:
    """The bytes of a memory space before and after, either its `total` of allocations or its `peak` of live bytes."""

    name: str
    quantity: Literal["total", "peak"]
    before: int
    after: int


def _changes_by_space(changes: Sequence[_ByteChange]) -> dict[str, Mapping[str, int]]:
    """The bytes before and after by memory space, under the names of JSON."""
    quantity = changes[0].quantity if changes else "total"
    return {
        f"{quantity}_bytes_before": {change.name: change.before for change in changes},
        f"{quantity}_bytes_after": {change.name: change.after for change in changes},
    }


def _peak_changes(new: ReorderedModule) -> list[_ByteChange]:
    """The peaks of live bytes in each memory space."""
    target = target_of(new.module)
    return [
        _ByteChange(space_name(space, target), "peak", new.before.whole.get(space, 0), new.after.whole.get(space, 0))
        for space in sorted(new.before.whole.keys() | new.after.whole.keys())
    ]


def _total_changes(module: Module, new: Module) -> list[_ByteChange]:
    """The totals of all allocations in each memory space, as in `hlo memspace`, without spaces where none is known."""
    allocated: list[dict[int, int]] = []
    for each in (module, new):
        memory = memory_analysis(each)
        sizes = {space.number: allocated_bytes(memory, space) for space in memory.spaces}
        allocated.append({number: size for number, size in sizes.items() if size is not None})
    before, after = allocated
    spaces = sorted(before.keys() | after.keys())
    target = target_of(new)
    return [_ByteChange(space_name(n, target), "total", before.get(n, 0), after.get(n, 0)) for n in spaces]


def _reorder_answer(
    goal: Goal,
    memory: Sequence[_ByteChange],
    exposures: tuple[_Exposure, _Exposure],
    moved: int,
    blocks: int,
    *,
    is_new: bool,
    has_limit: bool,
) -> str:
    if not moved:
        words = "The text order becomes the schedule" if is_new else "The schedule is unchanged"
        return f"{words}: {_why_unchanged(goal, exposures[0], has_limit=has_limit)}"
    changes = [_memory_in_words(memory)]
    if exposures[0].pairs:
        # What the goal is about comes first.
        changes.insert(0 if goal == "latency" else 1, _exposure_in_words(exposures))
    where = "" if blocks == 1 else f" in {blocks:,} blocks"
    words = f"{'; '.join(changes)}; {format_count(moved, 'instructions')} moved{where}"
    return words[0].upper() + words[1:]


def _memory_in_words(changes: Sequence[_ByteChange]) -> str:
    """The memory space that changes most, or the largest one if no change is significant."""
    largest = max(bytes_ for each in changes for bytes_ in (each.before, each.after))
    main = max(
        changes, key=lambda each: (_significant_change(each.after - each.before, largest), each.before, each.after)
    )
    name, old, new = f"{main.name} {main.quantity}", main.before, main.after
    if new == old:
        return f"{name}: unchanged at {format_bytes(new)}"
    # Both round to the same text, so only the difference says anything.
    if format_bytes(new) == format_bytes(old):
        return f"{name}: {format_bytes(new)} ({format_bytes(abs(new - old))} {_less_or_more(new - old)})"
    change = f" ({format_percent(abs(new - old) / old)}% {_less_or_more(new - old)})" if old else ""
    return f"{name}: {format_bytes(old)} → {format_bytes(new)}{change}"


def _less_or_more(change: int) -> str:
    return "less" if change < 0 else "more"


def _significant_change(change: int, largest: int) -> int:
    # A change below a thousandth of the largest size is no answer; chosen, not measured.
    return abs(change) if abs(change) * 1000 > largest else 0


def _exposure_in_words(exposures: tuple[_Exposure, _Exposure]) -> str:
    before, after = exposures[0].step, exposures[1].step
    if before is None or after is None:
        old, new = exposures[0].unoverlapped, exposures[1].unoverlapped
        change = f"unchanged at {old:,}" if old == new else f"{old:,} → {new:,}"
        return f"transfers without overlap: {change} of {exposures[1].transfers:,}"
    # Not one transfer has a known time, so there are no numbers to compare.
    if _exposed_seconds(before) is None and not any(interval.total_seconds for interval in before.intervals):
        return f"exposed time of {format_count(exposures[1].pairs, 'pairs')} is unknown on {after.throughput.chip}"
    least = "at least " if _exposed_seconds(after) is None else ""
    new_time, old_time = format_seconds(after.exposed_seconds), format_seconds(before.exposed_seconds)
    if new_time == old_time:
        return f"exposed time: unchanged at {least}{new_time}"
    return f"exposed time: {least}{old_time} → {least}{new_time}"


def _why_unchanged(goal: Goal, exposure: _Exposure, *, has_limit: bool) -> str:
    match goal:
        case "memory":
            return "no schedule found with a smaller total of main memory"
        case "latency" if not exposure.pairs:
            return "no async operations"
        case "latency" if has_limit:
            return "no schedule found within the memory limit that overlaps more"
        case "latency":
            return "no schedule found that overlaps more without more memory"
    return "already in this order"


def _memory_table(peaks: Sequence[_ByteChange], totals: Sequence[_ByteChange]) -> Table:
    """One row for each memory space: the total of its allocations and the peak of live bytes, before and after."""
    total_of, peak_of = ({each.name: each for each in changes} for changes in (totals, peaks))
    columns: tuple[Column[str, _ByteChange | None, _ByteChange | None], ...] = (
        Column("space", "space", of=lambda name, total, peak: name),
        Column("total_before_bytes", "total", "bytes", of=lambda name, total, peak: total.before if total else UNKNOWN),
        Column("total_after_bytes", "after", "bytes", like="total_before_bytes",
               of=lambda name, total, peak: total.after if total else UNKNOWN),
        Column("total_change_bytes", "change", "bytes",
               of=lambda name, total, peak: total.after - total.before if total else UNKNOWN),
        Column("before_bytes", "live peak", "bytes", of=lambda name, total, peak: peak.before if peak else UNKNOWN),
        Column("after_bytes", "after", "bytes", like="before_bytes",
               of=lambda name, total, peak: peak.after if peak else UNKNOWN),
        Column("change_bytes", "change", "bytes",
               of=lambda name, total, peak: peak.after - peak.before if peak else UNKNOWN),
    )  # fmt: skip
    names = dict.fromkeys((*peak_of, *total_of))
    rows = rows_from_tuples(columns, ((name, total_of.get(name), peak_of.get(name)) for name in names))
    return Table("memory", columns, rows, noun="spaces", main=False)


def _overlap_tables(exposures: tuple[_Exposure, _Exposure]) -> tuple[Table, ...]:
    """The table of overlap of all transfers, before and after; none without async operations, which alone can move."""
    if not exposures[0].pairs:
        return ()
    timed: tuple[Column[str, _Exposure], ...] = (
        Column(
            "exposed_seconds",
            "exposed time",
            "seconds",
            of=lambda order, exposure: unknown_if_none(_exposed_seconds(exposure.step) if exposure.step else None),
        ),
        Column(
            "execution_seconds",
            "total time",
            "seconds",
            of=lambda order, exposure: unknown_if_none(exposure.step.least_seconds if exposure.step else None),
        ),
    )
    columns: tuple[Column[str, _Exposure], ...] = (
        Column("order", "order", of=lambda order, exposure: order),
        # Async or not: the columns without overlap count both.
        Column("transfers", "transfers", "count", of=lambda order, exposure: exposure.transfers),
        Column("pairs", "async", "count", person=exposures[0].pairs < exposures[0].transfers,
               of=lambda order, exposure: exposure.pairs),
        Column("unoverlapped", "no overlap", "count", of=lambda order, exposure: exposure.unoverlapped),
        Column("unoverlapped_bytes", "no overlap", "bytes", of=lambda order, exposure: exposure.unoverlapped_bytes),
        *(timed if exposures[0].step else ()),
    )  # fmt: skip
    rows = rows_from_tuples(columns, zip(("before", "after"), exposures, strict=True))
    return (Table("overlaps", columns, rows, noun="orders", main=False),)


def _reorder_notes(
    overlap: OverlapAnalysis, new: ReorderedModule, goal: Goal, throughput: ChipSpec | None
) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    size = sum(new.before.constants.values())
    if any(_is_formatted_differently(peaks.from_definition, peaks.whole) for peaks in (new.before, new.after)):
        words = f"constants ({format_bytes(size)}) count as live for the whole execution"
        yield Diagnostic("note", f"{words}; hlo memspace counts each from its definition")
    # The compiler waits for these at their start, so no order hides them.
    marked = sum(interval.is_sync is True for interval in overlap.intervals)
    if marked and goal == "latency":
        number = f"{format_count(marked, 'pairs')} {is_or_are(marked)}"
        yield Diagnostic("note", f"{number} synchronous in any order (marked is_sync)")
    if throughput is not None:
        yield from time_notes(throughput, overlap.module)
    elif goal == "latency":
        yield Diagnostic("note", BY_BYTES, hint="use --chip NAME for chip-specific times")


def _is_formatted_differently(sizes: Mapping[int, int], others: Mapping[int, int]) -> bool:
    """Whether sizes differ in their formatted form."""
    return any(format_bytes(size) != format_bytes(others.get(space, 0)) for space, size in sizes.items())


# --- --desugar and --sugar ---
# `hlo schedule DUMP --desugar` and `--sugar`: async operations expanded or shortened, as a diff.


Direction = Literal["desugar", "sugar"]


def with_sugar(module: Module, direction: Direction) -> Module:
    """Expands or shortens the async operations of a module.

    `t#0`, an element of a tuple, is expanded too, but never introduced: fewer readers of HLO know it.
    """
    return desugar(module) if direction == "desugar" else sugar(module, elements=False)


def report_of_sugar(loaded: Loaded, new: Module, *, direction: Direction, argument: str) -> Report:
    """The diff, and how many operations were expanded or shortened."""
    old, path = loaded.module, loaded.input.path or "-"
    before, after = (_count_operations(module, direction) for module in (old, new))
    elements = _count_elements(new) - _count_elements(old)
    words = "expanded" if direction == "desugar" else "shortened"
    diff = module_diff(old, new, old_name=path, new_name=f"{path} ({words})")
    return Report(
        "schedule",
        _sugar_answer(direction, before - after, before, elements, old.instruction_count),
        numbers={
            "operations": before - after,
            "operations_left": after,
            "elements": elements,
            "computations_before": len(old.computations),
            "computations_after": len(new.computations),
        },
        parts=(diff,) if diff.hunks else (Passage("nothing", (_why_nothing(direction, before),)), diff),
        next=_next_commands(argument, direction) if diff.hunks else (),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _count_operations(module: Module, direction: Direction) -> int:
    """The number of async operations that can be expanded or may be shortened."""
    form = "sugared" if direction == "desugar" else "generic"
    return sum(pair.form == form for pair in async_pairs(module).pairs)


def _count_elements(module: Module) -> int:
    return sum(instruction.opcode == opcodes.GET_TUPLE_ELEMENT for instruction in module.instructions)


def _sugar_answer(direction: Direction, changed: int, count: int, elements: int, instructions: int) -> str:
    if direction == "sugar":
        if not changed:
            return f"Nothing to shorten in {format_count(instructions, 'instructions')}"
        part = (
            f"{changed:,} of {format_count(count, 'async-starts')}"
            if changed < count
            else format_count(changed, "async-starts")
        )
        return f"{part} shortened; wrapped {'computation' if changed == 1 else 'computations'} removed"
    if not (changed or elements):
        return f"No short forms to expand in {format_count(instructions, 'instructions')}"
    operations = format_count(changed, "async operations") if changed else ""
    expanded_elements = format_count(elements, "tuple elements") if elements else ""
    return f"{' and '.join(part for part in (operations, expanded_elements) if part)} expanded"


def _why_nothing(direction: Direction, remaining: int) -> str:
    if direction == "desugar":
        return "Short forms are, for example, slice-start and t#0 (a tuple element)."
    if not remaining:
        return "Only an async-start that wraps a single operation has a short form."
    starts = "The async-start wraps" if remaining == 1 else f"Each of the {remaining:,} async-starts wraps"
    return f"{starts} several operations, or one whose short form would be ambiguous."


def _next_commands(argument: str, direction: Direction) -> tuple[str, ...]:
    is_file = argument and argument != "-"
    return (f"hlo schedule {argument} --{direction} -o new.hlo",) if is_file else ()
