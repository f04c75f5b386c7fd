"""The parts of a comparison on where two programs begin to differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.comparison.first_difference import DifferingValues, ExecutionValues, FirstDifference
from hlo_cli.analysis.evaluate.run import summary_of
from hlo_cli.analysis.semantics.typed_values import Value, arrays_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import Shape
from hlo_cli.report.report import Part
from hlo_cli.report.table import Cell, Column, Fact, Facts, Row, Table
from hlo_cli.source import Diagnostic, Span

_VALUES: Final = (
    Column("side", "module"),
    Column("value_role", "role"),
    Column("value", "value", "name"),
    Column("shape", "shape", "shape"),
    Column("least", "least", "number"),
    Column("most", "most", "number"),
    Column("mean", "mean", "number"),
    Column("rms", "rms", "number", from_width=120),
    Column("nan", "NaN", "count", role="alarm"),
    Column("inf", "Inf", "count", role="alarm"),
    Column("first", "first elements", from_width=120),
)


_LONGEST_VALUE: Final = 40


def difference_facts(difference: FirstDifference, old: Module, new: Module) -> Part:
    """The instruction, where it is, what it is called by, and why it is named."""
    instruction = difference.instruction
    location = new.location(instruction)
    facts = [
        Fact("instruction", (), _line(instruction), is_whole=True),
        *_place_fact("at", instruction, new),
        *([Fact("in", (), _callers(difference), is_whole=True)] if difference.callers else []),
        *([Fact("device", (), str(difference.place.device))] if difference.place.device else []),
        *([Fact("execution", (), f"{difference.execution:,}, from 0")] if difference.execution else []),
        Fact("evidence", (), evidence_of(difference), is_whole=True),
        *([Fact("counterpart", (), _line(difference.counterpart), is_whole=True)] if difference.counterpart else []),
        *(_place_fact("its place", difference.counterpart, old) if difference.counterpart is not None else []),
        *([Fact("op_name", (), instruction.metadata.op_name)] if instruction.metadata.op_name else []),
        *([Fact("source", (), str(location))] if location is not None else []),
    ]
    return Facts("first_difference", tuple(facts), title="First instruction that differs")


def evidence_of(difference: FirstDifference) -> str:
    """Why the instruction is named, and how certain that is."""
    match difference.evidence:
        case "operands":
            return "the first module computes another value from the same operands"
        case "repair":
            where = "" if difference.repair.endswith(" after it") else " in its place"
            return f"with {difference.repair}{where}, all results agree"
        case "counterpart":
            return "the operands are right, and the value of its counterpart is missing; one of its users may be wrong"
        case _:
            return "the operands are right, and the first module does not have its value; one of its users may be wrong"


def difference_numbers(difference: FirstDifference | None, new: Module | None) -> dict[str, Cell]:
    """The same for programs."""
    if difference is None or new is None:
        return {"first_difference": None}
    instruction, other = difference.instruction, difference.counterpart
    span = instruction.span
    position = new.source.position(span.start) if span is not None else None
    location = new.location(instruction)
    return {
        "first_difference": {
            "instruction": instruction.name,
            "computation": instruction.computation.name,
            "opcode": instruction.opcode,
            "operands": tuple(each.name for each in instruction.operands),
            "line": None if position is None else position.line,
            "column": None if position is None else position.column,
            "device": difference.place.device,
            "execution": difference.execution,
            "callers": tuple(each.name for each in difference.callers),
            "iterations": difference.iterations,
            "evidence": difference.evidence,
            "repair": difference.repair or None,
            "counterpart": None if other is None else other.name,
            "counterpart_opcode": None if other is None else other.opcode,
            "op_name": instruction.metadata.op_name or None,
            "source": None if location is None else str(location),
        }
    }


def difference_mark(difference: FirstDifference, new: Module) -> Diagnostic:
    """The line of the instruction with its opcode marked, and the reason."""
    instruction = difference.instruction
    span = instruction.span
    if span is not None:
        found = new.source.text.find(f"{instruction.opcode}(", span.start)
        end = new.source.text.find("\n", span.start)
        if found >= 0 and (end < 0 or found < end):
            span = Span(found, found + len(instruction.opcode))
    return Diagnostic(
        "warning",
        f"{instruction.name} is the first instruction that differs: {evidence_of(difference)}",
        new.source,
        span,
        instruction=instruction.name,
        computation=instruction.computation.name,
    )


def values_table(values: DifferingValues) -> Table:
    """What goes into the instruction and comes out, in both modules, without rounding."""
    rows = [
        row
        for module, each in (("first", values.old), ("second", values.new))
        if each is not None
        for row in _rows(module, each)
    ]
    title = "Operands and results, widened"
    return Table("first_difference_values", _VALUES, tuple(rows), noun="values", title=title, main=False)


def _rows(module: str, values: ExecutionValues) -> Iterator[Row]:
    instruction = values.place.instruction
    for at, (operand, value) in enumerate(zip(instruction.operands, values.operands, strict=True)):
        if not instruction.operand_index(at):
            yield from _summaries(module, f"operand {at}", operand.name, value, operand.shape)
    yield from _summaries(module, "result", instruction.name, values.result, instruction.shape)


def _summaries(module: str, role: str, name: str, value: Value, shape: Shape) -> Iterator[Row]:
    for index, array, leaf in arrays_of(value, shape):
        summary = summary_of(array)
        yield (
            module, role, f"{name}{index_text(index)}" if index else name, str(leaf), summary.least, summary.most,
            summary.mean, summary.rms, summary.nan, summary.inf, summary.first_text,
        )  # fmt: skip


def _line(instruction: Instruction) -> str:
    given = ", ".join(each.name for each in instruction.operands)
    if instruction.opcode == opcodes.CONSTANT:
        value = instruction.raw[0]
        given = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    return f"{instruction.name} = {instruction.shape} {instruction.opcode}({given})"


def _place_fact(label: str, instruction: Instruction, module: Module) -> list[Fact]:
    if instruction.span is None:
        return [Fact(label, (), instruction.computation.name)]
    position = module.source.position(instruction.span.start)
    name = module.source.name or "-"
    return [Fact(label, (), f"{name}:{position.line}:{position.column}", is_whole=True)]


def _callers(difference: FirstDifference) -> str:
    words = []
    for caller, iteration in zip(difference.callers, difference.iterations, strict=True):
        words.append(f"{caller.name} (iteration {iteration:,})" if caller.opcode == opcodes.WHILE else caller.name)
    return " > ".join(words)
