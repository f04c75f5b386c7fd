"""Which fusions does a module have, what is in each, and how much memory traffic do they avoid?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import cost_analysis
from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
from hlo_cli.analysis.fusion.kernels import (
    Fusion,
    Kernel,
    backend_of,
    estimated_cycles,
    fusion_of,
    fusions_of,
    kernels_of,
    launched_costs,
)
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.analysis.origin.scopes_and_moves import Origin
from hlo_cli.analysis.schedule.kernel_times import Prediction
from hlo_cli.commands.fuse.kernel_kinds import (
    TimingColumns,
    columns_for,
    fused_operations,
    kernel_kinds_table,
    kernels_table,
    model_facts,
    model_numbers,
    model_of,
    notes_on_costs,
    timing_of,
)
from hlo_cli.commands.modules.by import with_origins
from hlo_cli.commands.modules.instruction_tables import rows_where
from hlo_cli.commands.modules.loading import (
    Loaded,
    Many,
    check_running,
    devices_together,
    input_facts,
    notes_of,
    program_notes,
    stage_of,
)
from hlo_cli.commands.modules.many import ERRORS, UPPER_BOUND, ModuleAnswer, Rows, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.report.numbers import count, format_bytes, format_count, format_percent, format_scaled, plural
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import (
    ROWS_FOR_A_PERSON,
    UNKNOWN,
    Branch,
    Cell,
    Column,
    Fact,
    Facts,
    Share,
    Table,
    Tree,
    columns_of_part,
    number_of,
    row_from,
    rows_from,
    with_cell,
)
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError

# --- one row for each fusion ---
# `hlo fuse DUMP`: one row for each fusion, the memory traffic that fusion avoids, and the kinds of kernels.


_MAX_NAMED_OPCODES = 3  # more would not fit into the one line of an answer
"""The most opcodes of kernels that the answer names."""

# The same words as of `--by`, whose columns add up in the same way.
_LAUNCHES_NOTE = Diagnostic("note", "costs are those of all iterations of loops")
_SAVED_NOTE = Diagnostic(
    "note", "saved is the memory traffic of the operations without fusion, minus that of the fusion"
)


@dataclass(frozen=True, slots=True)
class _FusedModule:
    """A module with its costs, kernels, and fusions; it `repeats` if the costs of one run of each add up to nothing."""

    loaded: Loaded
    costs: Mapping[Instruction, Cost]
    kernels: Mapping[Instruction, Kernel]
    fusions: tuple[Fusion, ...]
    timing: TimingColumns | None
    is_compiled: bool
    repeats: bool

    def times(self, instruction: Instruction) -> int | None:
        """The number of executions of an instruction; 0 for instructions in applied or dead computations."""
        kernel = self.kernels.get(instruction)
        return kernel.times if kernel is not None else 0

    def runs(self, fusion: Fusion) -> int:
        """By what the cost of a fusion counts: its executions, one iteration of a loop of unknown trip count.

        Where no fusion repeats, each counts once, also those in computations that nothing executes.
        """
        if not self.repeats:
            return 1
        kernel = self.kernels.get(fusion.instruction)
        return kernel.executions.count if kernel is not None else 0


def report_of_fusions(
    loaded: Loaded, *, within: Computation | None, where: str | None, timing: TimingColumns | None, argument: str
) -> Report:
    """The fusions, those that avoid most traffic first, and the number of kernels of each kind."""
    module = loaded.module
    costs = cost_analysis(module)
    kernels = {kernel.instruction: kernel for kernel in kernels_of(module)}
    listed = {i: k for i, k in kernels.items() if within is None or i.computation is within}
    fusions = fusions_of(module, costs=costs)
    # the body is part of one kernel, so a table of its fusions would be empty
    if fusion := next((each for each in fusions if each.body is within), None):
        raise HloError(f"{fusion.body.name} is the body of {fusion.name}", hint=f"run `hlo fuse DUMP {fusion.name}`")
    chosen = tuple(fusion for fusion in fusions if within is None or fusion.instruction.computation is within)
    repeats = any(i in listed and listed[i].times != 1 for i in (fusion.instruction for fusion in chosen))
    fused = _FusedModule(loaded, costs, listed, chosen, timing, target_of(module) is not None, repeats)
    everything = _fusions_table(fused)
    table = everything if where is None else _narrowed(everything, fused, where)
    return Report(
        "fuse",
        _table_answer(fused),
        numbers={**_numbers(fused, within), **model_of(timing)},
        parts=_parts(fused, everything, table),
        next=_next_of_table(fused, table, argument),
        notes=(*program_notes(loaded), *_notes(fused)),
        input=input_facts(loaded),
    )


def _narrowed(everything: Table, fused: _FusedModule, where: str) -> Table:
    ranked = {fusion.name: fusion.instruction for fusion in fused.fusions}
    fusion_column = everything.column_index("fusion")
    operations = [(ranked[str(row[fusion_column])], ()) for row in everything.rows]
    return rows_where(where, with_origins(everything, operations, fused.loaded.module, where))


def _parts(fused: _FusedModule, everything: Table, table: Table) -> tuple[Part, ...]:
    launched = tuple(fused.kernels.values())
    costs = {**fused.costs, **launched_costs(fused.loaded.module)}
    kinds = kernel_kinds_table(launched, costs, fused.timing)
    every = kernels_table(launched, costs, fused.timing, fusions=fused.fusions, module=fused.loaded.module)
    if not everything.rows:
        return Passage("nothing", (_why_nothing(fused),)), table, replace(kinds, person=fused.is_compiled), every
    if not table.rows:
        return Passage("nothing", (f"No matches among {format_count(len(everything.rows), 'fusions')}.",)), table, every
    return table, kinds, every


def _why_nothing(fused: _FusedModule) -> str:
    if not fused.is_compiled:
        return "The module is not optimized yet, so it has no fusions."
    return f"Checked {format_count(fused.loaded.module.instruction_count, 'instructions')}."


def _table_answer(fused: _FusedModule) -> str:
    kernels = [kernel for kernel in fused.kernels.values() if not kernel.is_transfer]
    # an async operation is one kernel, whose name is that of its synchronous form
    opcodes = Counter(kernel.instruction.opcode.removesuffix("-start") for kernel in kernels).most_common()
    named = [format_count(number, plural(opcode)) for opcode, number in opcodes[:_MAX_NAMED_OPCODES]]
    rest = sum(number for _, number in opcodes[_MAX_NAMED_OPCODES:])
    named += [format_count(rest, "others")] if rest else []
    if not fused.fusions and not fused.is_compiled:
        return f"No fusions yet in {format_count(len(kernels), 'operations')}{_in_detail(named)}"
    words = f"{format_count(len(kernels), 'kernels')}{_in_detail(named)}" if kernels else "No kernels"
    launches = _launches(kernels)
    if launches != len(kernels):
        words += (
            "; launch count unknown (loops without a known trip count)"
            if launches is None
            else f"; {format_count(launches, 'launches')}"
        )
    if not fused.fusions:
        return f"{words}; no fusions"
    saved = sum(fusion.saved_bytes * fused.runs(fusion) for fusion in fused.fusions)
    whole = sum(fusion.unfused_bytes * fused.runs(fusion) for fusion in fused.fusions)
    return f"{words}; {_avoided_traffic(saved, whole)}"


def _avoided_traffic(saved: int, unfused: int) -> str:
    """The memory traffic that fusion avoids, out of that of the unfused operations.

    >>> _avoided_traffic(1024, 4096), _avoided_traffic(0, 4096)
    ('fusion avoids 1 KiB (25%) of memory traffic', 'fusion avoids no memory traffic')
    >>> _avoided_traffic(-1024, 4096)
    "by XLA's cost analysis, fusion adds 1 KiB of memory traffic"
    """
    if saved < 0:
        return f"by XLA's cost analysis, fusion adds {format_bytes(-saved)} of memory traffic"
    amount = f"{format_bytes(saved)} ({format_percent(saved / unfused)}%) of" if saved else "no"
    return f"fusion avoids {amount} memory traffic"


def _in_detail(named: Sequence[str]) -> str:
    return f" ({', '.join(named)})" if named else ""


def _launches(kernels: Sequence[Kernel]) -> int | None:
    times = [kernel.times for kernel in kernels]
    return sum(known) if len(known := [each for each in times if each is not None]) == len(times) else None


def _numbers(fused: _FusedModule, within: Computation | None) -> dict[str, int | float | str | None]:
    kernels = [kernel for kernel in fused.kernels.values() if not kernel.is_transfer]
    summed = [fused.costs[each] for each in (within or fused.loaded.module.entry).instructions]
    return {
        "kernels": len(kernels),
        "launches": _launches(kernels),
        "transfers": len(fused.kernels) - len(kernels),
        "fusions": len(fused.fusions),
        "read_bytes": sum(fusion.read_bytes for fusion in fused.fusions),
        "written_bytes": sum(fusion.written_bytes for fusion in fused.fusions),
        "saved_bytes": sum(fusion.saved_bytes for fusion in fused.fusions),
        "unfused_bytes": sum(fusion.unfused_bytes for fusion in fused.fusions),
        "total_saved_bytes": sum(fusion.saved_bytes * fused.runs(fusion) for fusion in fused.fusions),
        "total_unfused_bytes": sum(fusion.unfused_bytes * fused.runs(fusion) for fusion in fused.fusions),
        "flops": sum(round(cost.flops) for cost in summed),
        "transcendentals": sum(round(cost.transcendentals) for cost in summed),
        "bytes": sum(round(cost.bytes_accessed) for cost in summed),
        "operations_of_unknown_cost": sum(cost.unknown for cost in summed),
    }


def _fusions_table(fused: _FusedModule) -> Table:
    module = fused.loaded.module
    origins = origins_of(module)
    # the TPU compiler alone writes them
    cycles = any(estimated_cycles(fusion.instruction) is not None for fusion in fused.fusions)
    columns: tuple[Column[_FusionRow], ...] = (
        *_cost_columns(fused),
        Column("intensity", "flops/B", "count", from_width=120, rank=5, of=lambda row: row.fusion.cost.intensity),
        *_times(fused),
        Column("execution_count", "executions", "count", person=fused.repeats, rank=7,
               of=lambda row: UNKNOWN if row.times is None else row.times),
        Column("estimated_cycles", "cycles", "count", total="sum", person=cycles and not fused.repeats, rank=7,
               of=lambda row: estimated_cycles(row.fusion.instruction)),
        Column("total_cycles", "cycles", "count", total="sum", person=cycles and fused.repeats, rank=7,
               of=lambda row: _times_runs(estimated_cycles(row.fusion.instruction), row)),
        Column("kind", "kind", rank=6, of=lambda row: row.fusion.kind or None),
        Column("operations", "ops", "count", total="sum", of=lambda row: len(row.fusion.operations)),
        Column("hero", "hero", from_width=120,
               of=lambda row: ", ".join(dict.fromkeys(hero.opcode for hero in row.fusion.heroes)) or None),
        Column("operands", "in", "count", from_width=120, rank=5, of=lambda row: len(row.fusion.instruction.operands)),
        Column("outputs", "out", "count", from_width=120, rank=5,
               of=lambda row: sum(1 for _ in row.fusion.instruction.shape.leaves)),
        Column("provider", "provider", from_width=120, rank=7,
               of=lambda row: row.kernel.backend.provider if row.kernel is not None else None),
        Column("fusion", "fusion", "name", role="name", of=lambda row: row.fusion.instruction.name),
        Column("details", "details", from_width=120, rank=2,
               of=lambda row: row.kernel.backend.details or None if row.kernel is not None else None),
        Column("source", "source", "source", rank=4, of=lambda row: row.origin.source or None),
        Column("op_name", "op_name", "op_name", from_width=120, rank=3, of=lambda row: row.origin.op_name or None),
        Column("fused", "fused operations", from_width=200, rank=1, of=lambda row: fused_operations(row.fusion)),
        Column("kernel_kind", "kernel kind", person=False,
               of=lambda row: row.kernel.backend.kind if row.kernel is not None else None),
        Column("unknown_costs", "unknown cost", "count", person=False, of=lambda row: row.fusion.cost.unknown),
        Column("bytes", "accessed", "bytes", person=False, of=lambda row: row.fusion.accessed_bytes),
        Column("unfused_bytes", "unfused", "bytes", person=False, of=lambda row: row.fusion.unfused_bytes),
        Column("called_computation", "body", "name", person=False, of=lambda row: row.fusion.body.name),
        Column("computation", "computation", "name", person=False,
               of=lambda row: row.fusion.instruction.computation.name),
        Column("op_names", "op_names", person=False, of=lambda row: row.op_names),
        Column("sources", "sources", person=False, of=lambda row: row.sources),
    )  # fmt: skip
    ranked = sorted(fused.fusions, key=lambda each: (-each.saved_bytes * fused.runs(each), each.name))
    rows = rows_from(columns, (_fusion_row(fused, fusion, origins) for fusion in ranked))
    return Table("fusions", columns, rows, noun="fusions", footnote=_on_negative(fused.fusions))


def _cost_columns(fused: _FusedModule) -> tuple[Column[_FusionRow], ...]:
    """The costs of one launch, or, where fusions are launched several times, of all, in whose order the rows are."""
    one, several = not fused.repeats, fused.repeats
    # With times, names need the room of flops more: see `--by`.
    flops_from = 120 if fused.timing else 0
    return (
        Column("saved_bytes", "saved", "bytes", role="saving", total="sum", person=one,
               of=lambda row: row.fusion.saved_bytes),
        Column("total_saved_bytes", "saved", "bytes", role="saving", total="sum", person=several,
               of=lambda row: row.fusion.saved_bytes * row.runs),
        Column("read_bytes", "read", "bytes", total="sum", person=one, of=lambda row: row.fusion.read_bytes),
        Column("total_read_bytes", "read", "bytes", total="sum", person=several,
               of=lambda row: row.fusion.read_bytes * row.runs),
        Column("written_bytes", "written", "bytes", total="sum", person=one, of=lambda row: row.fusion.written_bytes),
        Column("total_written_bytes", "written", "bytes", total="sum", person=several,
               of=lambda row: row.fusion.written_bytes * row.runs),
        Column("flops", "flops", "flops", total="sum", person=one, from_width=flops_from,
               of=lambda row: round(row.fusion.cost.flops)),
        Column("total_flops", "flops", "flops", total="sum", person=several, from_width=flops_from,
               of=lambda row: round(row.fusion.cost.flops) * row.runs),
        Column("transcendentals", "transc.", "count", total="sum", person=one, from_width=120, rank=5,
               of=lambda row: round(row.fusion.cost.transcendentals)),
        Column("total_transcendentals", "transc.", "count", total="sum", person=several, from_width=120, rank=5,
               of=lambda row: round(row.fusion.cost.transcendentals) * row.runs),
    )  # fmt: skip


def _times(fused: _FusedModule) -> Iterator[Column[_FusionRow]]:
    """The times of one launch; where fusions have several, a person sees that of all, `total_seconds`."""
    for column in columns_of_part(columns_for(fused.timing), lambda row: row.prediction):
        yield replace(column, person=column.person and not (column.total and fused.repeats))
        if column.name == "estimated_seconds":
            of_all = with_cell(column, partial(_of_all_launches, column))
            yield replace(of_all, name="total_seconds", person=fused.repeats)


def _of_all_launches(column: Column[_FusionRow], row: _FusionRow) -> Cell:
    return _times_runs(row_from((column,), row)[0], row)


def _times_runs(cell: Cell, row: _FusionRow) -> Cell:
    number = number_of(cell)
    return cell if number is None else number * row.runs


def _on_negative(fusions: Sequence[Fusion]) -> str:
    """The reason why some fusions have negative savings; empty if there are none."""
    if not (number := sum(fusion.saved_bytes < 0 for fusion in fusions)):
        return ""
    verb = "has" if number == 1 else "have"
    return (
        f"{number:,} of {format_count(len(fusions), 'fusions')} {verb} a negative saving: XLA's cost analysis counts"
        " only the accessed part of a slice operand outside a fusion, but the whole operand inside one"
    )


@dataclass(frozen=True, slots=True)
class _FusionRow:
    """A fusion as a kernel: its executions, its predicted time on a chip, and where it comes from."""

    fusion: Fusion
    kernel: Kernel | None
    times: int | None
    runs: int
    prediction: Prediction | None
    origin: Origin
    op_names: tuple[str, ...]
    sources: tuple[str, ...]


def _fusion_row(fused: _FusedModule, fusion: Fusion, origins: Origins) -> _FusionRow:
    instruction = fusion.instruction
    op_names, sources = origins.of_all(fusion.body.instructions)
    return _FusionRow(
        fusion,
        fused.kernels.get(instruction),
        fused.times(instruction),
        fused.runs(fusion),
        None if fused.timing is None else fused.timing.prediction(instruction, fusion.cost),
        origins.own(instruction),
        op_names,
        sources,
    )


def _notes(fused: _FusedModule) -> tuple[Diagnostic, ...]:
    """Notes on how costs are counted, if any are shown."""
    if not (fused.fusions or fused.is_compiled):
        return ()
    costs = notes_on_costs(fused.loaded, fused.timing)
    if any(kernel.times != 1 for kernel in fused.kernels.values()):
        costs = (*costs, _LAUNCHES_NOTE)
    return (*costs, _SAVED_NOTE) if fused.fusions else costs


def _next_of_table(fused: _FusedModule, table: Table, argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    if not fused.fusions:
        return (f"hlo fuse {argument} {'--why-not' if fused.is_compiled else '--run-pass'}",) if fused.kernels else ()
    if not table.rows:
        return ()
    first = table.rows[0][table.column_index("fusion")]
    return (f"hlo fuse {argument} {first}", f"hlo fuse {argument} --cost")


# --- notes on fused operations ---
# Short notes on operations inside a fusion: repeated or compared operands, changed layouts.


_COMPARISON_SIGNS: Final = {"EQ": "=", "NE": "≠", "GE": "≥", "GT": ">", "LE": "≤", "LT": "<"}
_ARITHMETIC_SIGNS: Final = {"add": "+", "subtract": "-", "multiply": "×", "divide": "/"}
_MAX_INLINE_LENGTH: Final = 12  # a float32 with its sign and exponent still fits, such as -1.17549e-38
"""The longest constant that is quoted."""


def _operand_note(instruction: Instruction) -> str:
    """A short note on an operation beyond its name and shape; often empty.

    >>> from hlo_cli import parse_module
    >>> _operand_note(parse_module("r = f32[32,8] broadcast(f32[8] a), dimensions={1}").entry.root)
    'broadcast × 32'
    >>> _operand_note(parse_module("r = f32[32,8]{0,1} copy(f32[32,8]{1,0} a)").entry.root)
    'layout {1,0} → {0,1}'
    """
    match instruction.opcode:
        case opcodes.BROADCAST:
            return _broadcast_note(instruction)
        case opcodes.COMPARE:
            sign = _COMPARISON_SIGNS.get(instruction.attribute("direction") or "", "?")
            return _with_constant(instruction, sign)
        case opcodes.CONVERT:
            return f"from {_converted_type(instruction)}"
        case opcodes.CONSTANT:
            return f"constant {instruction.raw[0]}" if _is_inline_constant(instruction) else "constant"
        case opcodes.FUSION:
            return f"fusion, {instruction.attribute('kind') or ''}"
        case opcodes.REDUCE:
            return _reduced_dimensions(instruction)
        case opcodes.TRANSPOSE:
            return _layout_change(instruction) or f"permutation {index_text(instruction.integers('dimensions'))}"
        case opcodes.CUSTOM_CALL:
            return instruction.string("custom_call_target") or ""
    return _layout_change(instruction) or _with_constant(instruction, _ARITHMETIC_SIGNS.get(instruction.opcode, ""))


def _is_inline_constant(operand: Instruction) -> bool:
    """Whether an operand is a short constant, which the note of its user quotes."""
    if operand.opcode != opcodes.CONSTANT:
        return False
    literal = operand.raw[0]
    return len(literal) <= _MAX_INLINE_LENGTH and "{" not in literal


def _repeated_operations(instructions: Iterable[Instruction]) -> str:
    """How many operations repeat values or change layouts, and the first to check; empty if there are none.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { a = f32[8] parameter(0)  b = f32[32,8] broadcast(a), dimensions={1}  ROOT n = negate(b) }"
    >>> _repeated_operations(parse_module(text).entry.instructions)
    '1 broadcast, × 32 (b)'
    """
    operations = tuple(instructions)
    widest = max(((repeats, i.name) for i in operations if (repeats := _repeats(i)) > 1), default=None)
    changes = [(i.name, change) for i in operations if (change := _layout_change(i))]
    words = []
    if widest is not None:
        number = sum(_repeats(i) > 1 for i in operations)
        words.append(
            f"{format_count(number, 'broadcasts')}, {'up to ' if number > 1 else ''}× {widest[0]:,} ({widest[1]})"
        )
    if changes:
        name, change = changes[0]
        words.append(f"{format_count(len(changes), 'layout changes')}, {change.removeprefix('layout ')} ({name})")
    return "; ".join(words)


def _repeats(instruction: Instruction) -> int:
    """How often a broadcast repeats each element, short constants aside; 1 for every other operation."""
    if (
        instruction.opcode != opcodes.BROADCAST
        or not instruction.operands
        or _is_inline_constant(instruction.operands[0])
    ):
        return 1
    operand_shape, shape = instruction.operand_shape(0), instruction.shape
    if not isinstance(operand_shape, ArrayShape) or not isinstance(shape, ArrayShape) or not operand_shape.elements:
        return 1
    return shape.elements // operand_shape.elements


def _broadcast_note(broadcast: Instruction) -> str:
    if not broadcast.operands:
        return "broadcast"
    operand = broadcast.operands[0]
    if _is_inline_constant(operand):
        return f"constant {operand.raw[0]}"
    return f"broadcast × {_repeats(broadcast):,}"


def _with_constant(instruction: Instruction, sign: str) -> str:
    """`add.10 > 0`, where one of two operands is a constant or a broadcast of one."""
    if not sign or len(instruction.operands) != 2:
        return ""
    shown = [_constant_of(operand) or operand.name for operand in instruction.operands]
    is_with_constant = any(_constant_of(operand) for operand in instruction.operands)
    return f"{shown[0]} {sign} {shown[1]}" if is_with_constant or instruction.opcode == opcodes.COMPARE else ""


def _constant_of(operand: Instruction) -> str:
    constant = operand.operands[0] if operand.opcode == opcodes.BROADCAST and operand.operands else operand
    return constant.raw[0] if _is_inline_constant(constant) else ""


def _layout_change(instruction: Instruction) -> str:
    """The change of the dimension order in memory; empty if there is none."""
    if not instruction.operands or not isinstance(instruction.shape, ArrayShape):
        return ""
    operand_shape, shape = instruction.operand_shape(0), instruction.shape
    if not isinstance(operand_shape, ArrayShape) or operand_shape.rank != shape.rank:
        return ""
    before, after = operand_shape.layout.minor_to_major, shape.layout.minor_to_major
    return f"layout {index_text(before)} → {index_text(after)}" if before != after and before and after else ""


def _reduced_dimensions(reduce: Instruction) -> str:
    """`over dimensions 0, 2` of a reduce; empty if it reduces none."""
    reduced = reduce.integers("dimensions")
    noun = "dimension" if len(reduced) == 1 else "dimensions"
    return f"over {noun} {', '.join(map(str, reduced))}" if reduced else ""


def _converted_type(convert: Instruction) -> str:
    operand_shape = convert.operand_shape(0) if convert.operands else None
    return operand_shape.element_type.name if isinstance(operand_shape, ArrayShape) else "?"


# --- one fusion as a tree ---
# `hlo fuse DUMP NAME`: one fusion, its body as a tree from the result down to its operands.


_SHOWN_ABOVE: Final = "(shown above)"


@dataclass(frozen=True, slots=True)
class _BodyRow:
    """An instruction of a body; without an origin, one that is shown further up.

    `outside` is the operand of the fusion that a parameter stands for, and `bytes` what is read or written.
    """

    instruction: Instruction
    note: str | None = _SHOWN_ABOVE
    outside: str | None = None
    bytes: int | None = None
    origin: Origin | None = None

    @property
    def shape(self) -> str | None:
        """The whole shape, in its first row."""
        return None if self.origin is None else str(self.instruction.shape)

    @property
    def type(self) -> str | None:
        """The shape of an array without its layout."""
        return (
            None
            if isinstance(self.instruction.shape, TupleShape) or self.shape is None
            else self.shape.partition("{")[0]
        )


_BODY_COLUMNS: Final[tuple[Column[_BodyRow], ...]] = (
    Column("instruction", "instruction", "name", of=lambda row: row.instruction.name),
    Column("type", "shape", "shape", rank=6, machine=False, of=lambda row: row.type),
    Column("description", "", rank=7, machine=False, of=lambda row: row.outside or row.note),
    Column("shape", "shape", "shape", person=False, of=lambda row: row.shape),
    Column("note", "note", person=False, of=lambda row: row.note),
    Column("outside", "outside", "name", person=False, of=lambda row: row.outside),
    Column("bytes", "", "bytes", of=lambda row: row.bytes),
    Column("opcode", "opcode", from_width=120, rank=3, of=lambda row: row.instruction.opcode),
    Column("source", "source", "source", rank=2, of=lambda row: row.origin.source or None if row.origin else None),
    Column("op_name", "op_name", "op_name", from_width=120, rank=1,
           of=lambda row: row.origin.op_name or None if row.origin else None),
)  # fmt: skip


def report_of_fusion(loaded: Loaded, name: str, *, timing: TimingColumns | None, argument: str = "") -> Report:
    """The fusion of this name, or the fusion that calls the computation of this name."""
    module = loaded.module
    instruction = _fusion_named(module, name)
    fusion = fusion_of(instruction)
    parts: tuple[Part, ...] = (Facts(opcodes.FUSION, _fusion_facts(module, fusion, timing)), _body_tree(module, fusion))
    return Report(
        "fuse",
        _tree_answer(fusion),
        numbers={
            opcodes.FUSION: instruction.name,
            "kind": fusion.kind,
            "called_computation": fusion.body.name,
            "heroes": tuple(hero.name for hero in fusion.heroes),
            "operations": len(fusion.operations),
            "read_bytes": fusion.read_bytes,
            "written_bytes": fusion.written_bytes,
            "saved_bytes": fusion.saved_bytes,
            "flops": round(fusion.cost.flops),
            "transcendentals": round(fusion.cost.transcendentals),
            "intensity": fusion.cost.intensity,
            "operations_of_unknown_cost": fusion.cost.unknown,
            **(model_numbers(timing.prediction(instruction, fusion.cost), instruction) if timing is not None else {}),
            **model_of(timing),
        },
        parts=parts,
        next=_next_of_tree(fusion, argument),
        notes=(*notes_of(loaded), *notes_on_costs(loaded, timing)),
        input=input_facts(loaded),
    )


def _fusion_named(module: Module, name: str) -> Instruction:
    bare = name.removeprefix("%")
    called = {c.name: i for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations}
    instruction = called.get(bare) or module.instruction(bare)
    if instruction.opcode == opcodes.FUSION and instruction.called_computations:
        return instruction
    if instruction.opcode == opcodes.FUSION:
        raise HloError(f"the body of {instruction.name} is not in the text")
    around = next((i for i in called.values() if instruction.computation in i.called_computations), None)
    hint = (
        f"it is part of {around.name}" if around is not None else f"run `hlo parse DUMP --explain {instruction.name}`"
    )
    raise HloError(f"'{instruction.name}' is not a fusion: its opcode is {instruction.opcode}", hint=hint)


def _tree_answer(fusion: Fusion) -> str:
    """The traffic that the fusion avoids, in sizes of one unit."""
    sizes = f"reads {format_bytes(fusion.read_bytes)}, writes {format_bytes(fusion.written_bytes)}"
    saved = fusion.saved_bytes
    avoided = f"avoids {format_bytes(saved)} of traffic" if saved > 0 else "avoids no traffic"
    number = len(fusion.operations)
    return f"1 kernel{f' instead of {number:,}' if number > 1 else ''}: {sizes}, {avoided}"


def _fusion_facts(module: Module, fusion: Fusion, timing: TimingColumns | None) -> tuple[Fact, ...]:
    cost, backend = fusion.cost, backend_of(fusion.instruction, target_of(module))
    kernel = ", ".join(
        word
        for word in (fusion.kind, backend.provider if backend.provider != "unknown" else "", backend.details)
        if word
    )
    cost_words = f"{count(cost.flops)} flops, {count(cost.transcendentals)} transcendentals"
    if cost.intensity is not None:
        cost_words += f", {format_scaled(cost.intensity, decimals=1)} flops/byte"
    if cost.unknown:
        cost_words += f", {format_count(cost.unknown, 'operations')} of unknown cost"
    facts = [
        Fact("kernel", remark=kernel),
        Fact("hero", remark=", ".join(f"{hero.name} ({hero.opcode})" for hero in fusion.heroes)),
        Fact("cost", remark=cost_words),
    ]
    if timing is not None:
        facts.append(Fact("time", remark=timing.describe(fusion.instruction, cost)))
        facts += model_facts(timing.prediction(fusion.instruction, cost), fusion.instruction)
    # the tree below is cut at so many rows, so what it would have shown is summed up
    if len(fusion.body.instructions) > ROWS_FOR_A_PERSON:
        summary = (
            Fact("reads", remark=_largest_read(fusion)),
            Fact("contains", remark=_repeated_operations(fusion.body.instructions)),
        )
        facts += [fact for fact in summary if fact.remark]
    return tuple(facts)


def _largest_read(fusion: Fusion) -> str:
    """The number of operands, and the operand of which most bytes are read."""
    read = {i.name: round(fusion.traffic.operand_bytes(number)) for number, i in enumerate(fusion.instruction.operands)}
    if not read:
        return ""
    most = max(read, key=read.__getitem__)
    return f"{format_count(len(read), 'operands')}; largest {most}, {format_bytes(read[most])}"


def _next_of_tree(fusion: Fusion, argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    inside = next((each.name for each in fusion.body.instructions if each.opcode == opcodes.FUSION), None)
    deeper = (f"hlo fuse {argument} {inside}",) if inside is not None else ()
    return (*deeper, f"hlo parse {argument} --explain {fusion.name}")


@dataclass(slots=True)
class _Pending:
    """An unfinished row: its instruction, the branches added so far, and the operands left to add."""

    instruction: Instruction
    branches: list[Branch]
    left: list[Instruction]


def _body_tree(module: Module, fusion: Fusion) -> Tree:
    """Every instruction once, from the root to the parameters; repeated ones are marked `(shown above)`."""
    rows = _BodyRows(module, fusion)
    root = fusion.body.root
    stack = [_Pending(root, [], rows.shown_operands(root))] if root is not None else []
    shown = {root}
    roots: list[Branch] = []
    while stack:
        top = stack[-1]
        if top.left:
            operand = top.left.pop(0)
            # an operand without operands is one row: it costs no more than a remark that it is above
            if operand in shown and rows.shown_operands(operand):
                top.branches.append(Branch(row_from(_BODY_COLUMNS, rows.repeated_row(operand))))
            else:
                shown.add(operand)
                stack.append(_Pending(operand, [], rows.shown_operands(operand)))
            continue
        stack.pop()
        done = Branch(row_from(_BODY_COLUMNS, rows.row(top.instruction)), tuple(top.branches))
        (stack[-1].branches if stack else roots).append(done)
    return Tree("body", _BODY_COLUMNS, tuple(roots), noun="instructions")


class _BodyRows:
    """The rows of a fusion's body."""

    def __init__(self, module: Module, fusion: Fusion) -> None:
        """Prepares the rows; source locations are looked up on demand."""
        self._fusion = fusion
        self._origins = origins_of(module)
        root = fusion.body.root
        # the tuple of a multi-output fusion is not written: its elements are the buffers
        is_tuple = root is not None and root.opcode == opcodes.TUPLE
        self._written = set(root.operands if is_tuple and root is not None else (root,))

    def shown_operands(self, instruction: Instruction) -> list[Instruction]:
        """The operands that get rows of their own, each once, without constants of one element."""
        # a reader needs the value alone, which the row of the user quotes
        return [operand for operand in dict.fromkeys(instruction.operands) if not _is_inline_constant(operand)]

    def repeated_row(self, instruction: Instruction) -> _BodyRow:
        """The row of an instruction that is shown further up."""
        return _BodyRow(instruction)

    def row(self, instruction: Instruction) -> _BodyRow:
        """The row of an instruction, with the bytes read or written there."""
        notes = ("output" if instruction in self._written else "", _operand_note(instruction))
        note = ", ".join(each for each in notes if each) or None
        outside, accessed = self._outside(instruction), self._bytes(instruction)
        return _BodyRow(instruction, note, outside, accessed, self._origins.own(instruction))

    def _outside(self, instruction: Instruction) -> str | None:
        number = instruction.parameter_number
        operands = self._fusion.instruction.operands
        return operands[number].name if number is not None and number < len(operands) else None

    def _bytes(self, instruction: Instruction) -> int | None:
        if (number := instruction.parameter_number) is not None:
            return round(self._fusion.traffic.operand_bytes(number))
        if instruction in self._written and isinstance(instruction.shape, ArrayShape):
            # hlo_cost_analysis.cc counts the update alone, as the rest of the buffer stays where it is
            in_place = instruction.opcode == opcodes.DYNAMIC_UPDATE_SLICE and len(instruction.operands) > 1
            return (instruction.operand_shape(1) if in_place else instruction.shape).logical_bytes
        return None


# --- fusions of many dumps ---
# `hlo fuse` of many dumps: the traffic that fusion avoids in each module, and violations of XLA's fusion rules.


_MODULE_COLUMNS: Final[tuple[Column[ModuleAnswer], ...]] = (
    Column("kernels", "kernels", "count", total="sum", of=lambda answer: answer.numbers["kernels"]),
    Column("launches", "launches", "count", total="sum", from_width=120, of=lambda answer: answer.numbers["launches"]),
    Column("fusions", "fusions", "count", total="sum", of=lambda answer: answer.numbers["fusions"]),
    Column("saved_bytes", "saved", "bytes", total="sum", person=False,
           of=lambda answer: answer.numbers["saved_bytes"]),
    Column("unfused_bytes", "unfused", "bytes", total="sum", person=False,
           of=lambda answer: answer.numbers["unfused_bytes"]),
    Column("total_saved_bytes", "saved", "bytes", role="saving", total="sum",
           of=lambda answer: answer.numbers["total_saved_bytes"]),
    Column("total_unfused_bytes", "unfused", "bytes", total="sum", from_width=120,
           of=lambda answer: answer.numbers["total_unfused_bytes"]),
    Column("saved_share", "saved", "percent", total=Share("total_saved_bytes", "total_unfused_bytes"),
           of=lambda answer: answer.numbers["saved_share"]),
    Column("flops", "flops", "flops", total="sum", from_width=120, of=lambda answer: answer.numbers["flops"]),
    Column("bytes", "accessed", "bytes", total="sum", from_width=120, of=lambda answer: answer.numbers["bytes"]),
)  # fmt: skip
_TIME_COLUMNS: Final[tuple[Column[ModuleAnswer], ...]] = (
    Column("estimated_seconds", "est.", "seconds", total="sum", of=lambda answer: answer.numbers["estimated_seconds"]),
)


@dataclass(frozen=True, slots=True)
class _ModuleReport:
    """The report of one module, reduced to numbers; called for every module."""

    timing: TimingColumns | None

    def __call__(self, module: Module, input: Input) -> ModuleAnswer:
        check_running(module)
        loaded = Loaded(module, input)
        timing = timing_of(loaded, None if self.timing is None else self.timing.throughput)  # it remembers kernels
        report = report_of_fusions(loaded, within=None, where=None, timing=timing, argument="")
        saved, unfused = (number_of(report.numbers[name]) or 0 for name in ("total_saved_bytes", "total_unfused_bytes"))
        kinds = next(table for table in report.tables if table.name == "kernel_kinds")
        seconds = _total_seconds(kinds) if self.timing is not None else None
        share = saved / unfused if unfused else None
        launches = report.numbers["launches"]
        numbers = {
            **report.numbers,
            "launches": UNKNOWN if launches is None else launches,
            "saved_share": share,
            "estimated_seconds": seconds,
        }
        violations = tuple(each.excerpt() for each in verify_fusions(module))
        return ModuleAnswer(stage_of(loaded) == "optimized", numbers, violations, devices_together(loaded))


def fuse_each(
    many: Many, reading: InputOptions, jobs: int | None, timing: TimingColumns | None, output: OutputOptions
) -> int:
    """Writes the table and returns the exit code."""
    results = list(map_inputs(many, reading, jobs, _ModuleReport(timing)))
    answers = [each.answer for each in results if each.answer is not None]
    unfinished = sum(not each.is_program for each in answers)
    times = (*_TIME_COLUMNS, replace(UPPER_BOUND, person=unfinished > 0)) if timing is not None else ()
    columns = (*_MODULE_COLUMNS, *times, ERRORS)
    return finish_each(
        "fuse",
        many,
        reading,
        results,
        Rows(
            columns,
            findings=lambda answer: answer.broken,
            fails=lambda answer: bool(answer.broken),
            devices=lambda answer: answer.devices,
        ),
        answer=_modules_answer(answers),
        numbers={"errors": sum(each.errors for each in answers)},
        unfinished=None if timing is None else unfinished,
        output=output,
    )


def _total_seconds(kinds: Table) -> Cell:
    """The total time of all kernels, each counted once, as in the table of one module."""
    return kinds.total_of(tuple(kinds.rows))[kinds.column_index("estimated_seconds")]


def _modules_answer(answers: Sequence[ModuleAnswer]) -> str:
    kernels, fusions, saved, unfused = (
        sum(int(number_of(each.numbers[name]) or 0) for each in answers)
        for name in ("kernels", "fusions", "total_saved_bytes", "total_unfused_bytes")
    )
    totals = f"{format_count(kernels, 'kernels')}, {format_count(fusions, 'fusions')}"
    words = f"{format_count(len(answers), 'modules')}: {totals}"
    if fusions and unfused:
        words += f"; {_avoided_traffic(saved, unfused)}"
    if failing := sum(bool(each.broken) for each in answers):
        words += f"; {failing:,} with malformed fusions"
    return words
