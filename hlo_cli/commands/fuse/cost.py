"""`hlo fuse DUMP --cost`: the cost of every instruction, as XLA's cost analysis counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from hlo_cli.analysis.cost.cost_analysis import computation_cost, cost_analysis
from hlo_cli.analysis.cost.counting import EXACT, XLA, Cost, Number
from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, columns_for, model_of, notes_on_costs
from hlo_cli.commands.modules.instruction_columns import with_traffic
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.filters import chosen as chosen_among
from hlo_cli.commands.options.filters import instructions_where
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row, Table
from hlo_cli.report.text import Passage

_XLA_VALUES = "exact XLA values: float32 sums in XLA's order, with -1 for each custom call"


@dataclass(frozen=True, slots=True)
class _Counted:
    """The computed costs of a computation, with the options they were computed under."""

    loaded: Loaded
    computation: Computation
    costs: Mapping[Instruction, Cost]
    as_xla: bool
    timing: TimingColumns | None

    def number(self, value: Number) -> Cell:
        """A number for display: rounded, unless XLA's own numbers are selected."""
        return float(value) if self.as_xla else round(value)

    def figure(self, value: Number, instruction: Instruction) -> Cell:
        """A number of an instruction; unknown for a call of unknown cost, unless XLA's own numbers are selected.

        Callers of such a call, and totals, have the known part, and the number of unknown calls.
        """
        is_unknown = self.costs[instruction].unknown and instruction.opcode == opcodes.CUSTOM_CALL and not self.as_xla
        return UNKNOWN if is_unknown else self.number(value)


def report_of_costs(
    loaded: Loaded,
    *,
    as_xla: bool,
    within: Computation | None,
    where: str | None,
    timing: TimingColumns | None,
    argument: str,
    asked: Collection[str] = (),
) -> Report:
    """One row for each instruction of the entry or of the selected computation, those with most bytes accessed first.

    An expression without a computation selects from all of them, without totals: a call has the cost of its callee.
    `asked` are the columns that the user names; they may be those of collectives.
    """
    module, rules = loaded.module, XLA if as_xla else EXACT
    found = _Counted(loaded, within or module.entry, cost_analysis(module, rules=rules), as_xla, timing)
    is_everywhere = within is None and where is not None
    candidates = tuple(module.instructions) if is_everywhere else found.computation.instructions
    test = None if where is None else instructions_where(where, module)
    chosen, passed_over = chosen_among(test, candidates, "instructions")
    table = _table(found, chosen, asked, is_summed=not is_everywhere)
    no_rows = Passage("nothing", (f"No matches among {format_count(len(candidates), 'instructions')}.",))
    total = computation_cost(found.computation, rules=rules)
    return Report(
        "fuse",
        _answer(found, total),
        numbers={
            "rules": "xla float32" if as_xla else "exact",
            "computation": found.computation.name,
            "flops": found.number(total.flops),
            "transcendentals": found.number(total.transcendentals),
            "bytes": found.number(total.bytes_accessed),
            "operations_of_unknown_cost": total.unknown,
            "properties": dict(total.properties),
            **model_of(timing),
        },
        parts=(table,) if table.rows else (no_rows, table),
        next=_next(found, chosen, argument),
        notes=(*passed_over, *program_notes(loaded), *notes_on_costs(loaded, timing, counts_loops=True)),
        input=input_facts(loaded),
    )


def _answer(found: _Counted, total: Cost) -> str:
    name = found.loaded.module.name if found.computation.is_entry else found.computation.name
    accessed = round(total.bytes_accessed)
    size = format_bytes(accessed) if accessed >= 0 else f"{accessed:,} B"
    bound = "at least " if total.unknown and not found.as_xla else ""
    words = f"{name}: {bound}{round(total.flops):,} flops, {round(total.transcendentals):,} transcendentals,"
    words += f" {size} accessed"
    return f"{words}; {format_count(total.unknown, 'operations')} of unknown cost" if total.unknown else words


def _table(found: _Counted, chosen: Iterable[Instruction], asked: Collection[str], *, is_summed: bool) -> Table:
    origins = origins_of(found.loaded.module)
    total: Literal["sum"] | None = "sum" if is_summed else None
    columns = (
        Column("flops", "flops", "count", total=total),
        Column("transcendentals", "transc.", "count", total=total),
        Column("bytes", "accessed", "bytes", total=total),
        Column("output_bytes", "output", "bytes", total=total),
        Column("operand_bytes", "operand bytes", from_width=200, align="right", rank=6),
        Column("operand_utilization", "utilization", align="right", from_width=200, rank=3),
        Column("intensity", "flops/B", "count", from_width=120),
        *columns_for(found.timing),
        Column(
            "unknown_costs", "unknown cost", "count", total=total, person=any(found.costs[i].unknown for i in chosen)
        ),
        Column("instruction", "instruction", "name", role="name"),
        Column("opcode", "opcode", rank=7),
        Column("shape", "shape", "shape", from_width=120, rank=5),
        Column("computation", "computation", "name", person=not is_summed, rank=5),
        Column("source", "source", "source", rank=4),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("properties", "properties", person=False),
    )
    ranked = sorted(chosen, key=lambda each: _rank(found.costs[each], each.name))
    rows = tuple(_row(found, instruction, origins) for instruction in ranked)
    footnote = _XLA_VALUES if found.as_xla else ""
    table = Table("costs", columns, rows, noun="instructions", footnote=footnote)
    return with_traffic(table, ranked, found.loaded.module, asked)


def _rank(cost: Cost, name: str) -> tuple[Number, Number, Number, str]:
    return -cost.bytes_accessed, -cost.unknown, -cost.flops, name


def _row(found: _Counted, instruction: Instruction, origins: Origins) -> Row:
    cost = found.costs[instruction]
    origin = origins.own(instruction)
    operands = range(len(instruction.operands))
    return (
        found.figure(cost.flops, instruction),
        found.figure(cost.transcendentals, instruction),
        found.figure(cost.bytes_accessed, instruction),
        found.figure(cost.output_bytes, instruction),
        tuple(found.figure(cost.operand_bytes(number), instruction) for number in operands) or None,
        tuple(cost.operand_utilization(number) for number in operands) or None,
        cost.intensity,
        *(found.timing.cells(instruction, cost) if found.timing is not None else ()),
        cost.unknown,
        instruction.name,
        instruction.opcode,
        str(instruction.shape),
        instruction.computation.name,
        origin.source or None,
        origin.op_name or None,
        dict(cost.properties),
    )


def _next(found: _Counted, chosen: Iterable[Instruction], argument: str) -> tuple[str, ...]:
    """Commands to see inside the most expensive loop or call or, without one, the most expensive fusion."""
    callers = [each for each in chosen if each.called_computations and each.opcode in (*CONTROL_FLOW, opcodes.FUSION)]
    if not argument or argument == "-" or not callers:
        return ()
    first = max(callers, key=lambda each: (each.opcode != opcodes.FUSION, found.costs[each].bytes_accessed))
    return (f"hlo fuse {argument} --cost --computation {first.called_computations[0].name}",)
