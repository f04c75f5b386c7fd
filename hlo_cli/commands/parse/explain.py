"""`hlo parse --explain`: one instruction explained, each part underlined and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.dataflow.executions import computation_kinds, trip_count
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.commands.parse.collective_rows import collective_at, collective_numbers, collective_rows
from hlo_cli.commands.parse.explain_parts import MANY, ExplainContext, attribute_parts, operand_parts, shape_parts_of
from hlo_cli.commands.parse.opcode_descriptions import describe_operation
from hlo_cli.commands.shape.explained import NAMED, shape_numbers
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, UnknownShape
from hlo_cli.report.figure import Anatomy, Break, Explanation, Segment
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.scanning.error_help import check_types
from hlo_cli.syntax.text.parser import parse_module

_DETAILS: Final = (Column("bytes", "", "bytes"), Column("space", ""))
_OPERANDS: Final = (
    Column("operand", "operand", "name"),
    Column("index", "element", "index"),
    Column("logical_bytes", "data", "bytes"),
    Column("padded_bytes", "", "bytes"),
    Column("space", "space"),
    Column("shape", "shape", "shape"),
)


def explain_instruction(module: Module, instruction: Instruction, *, most_operands: int = MANY) -> Report:
    """Explains an instruction of a module part by part; at most `most_operands` operands are quoted.

    >>> module = parse_module("HloModule m  ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] add(x, x) }")
    >>> explain_instruction(module, module.entry.root).answer
    'Adds two arrays: 2 f32 elements, 8 B, no padding'
    """
    kind = computation_kinds(module)[instruction.computation]
    is_in_memory = kind not in ("fused", "applied")
    setting = ExplainContext(module, target_of(module), is_in_memory=is_in_memory, most_operands=most_operands)
    return _report(instruction, setting, is_named=True)


def explain_text(text: str, *, most_operands: int = MANY) -> Report:
    """Explains an instruction given as text; HloError, with its span, if the text is not an instruction.

    >>> explain_text("add.1 = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} add(a, b)").answer
    'Adds two arrays: 1,024 bf16 elements, 2 KiB in VMEM, no padding'
    """
    check_types(text)
    module = parse_module(Source("instruction", text), infer=omitted_shape)
    if module.errors:
        raise HloError.of(module.errors)
    return explain_alone(module, module.entry.root or module.entry.instructions[-1], most_operands=most_operands)


def explain_alone(
    module: Module, instruction: Instruction, *, most_operands: int = MANY, notes: Sequence[Diagnostic] = ()
) -> Report:
    """Explains the only instruction of a text, with notes on the text; its operands are not in the text.

    >>> module = parse_module("%y = f32[2] add(f32[2] %x, f32[2] %x)")
    >>> explain_alone(module, module.instruction("y")).answer
    'Adds two arrays: 2 f32 elements, 8 B, no padding'
    """
    setting = ExplainContext(module, target_of(module), is_alone=True, most_operands=most_operands)
    report = _report(instruction, setting, is_named=bool(NAMED.match(module.source.text.strip())))
    return replace(report, notes=(*notes, *report.notes))


def _report(instruction: Instruction, setting: ExplainContext, *, is_named: bool) -> Report:
    users = () if setting.is_alone else _users(instruction)
    return Report(
        "parse",
        _answer(instruction, setting),
        numbers=_numbers(instruction, users, setting),
        parts=(_anatomy(instruction, users, setting, is_named=is_named), _operand_table(instruction, setting)),
        notes=_notes(instruction),
    )


def _anatomy(
    instruction: Instruction, users: Sequence[Instruction], setting: ExplainContext, *, is_named: bool
) -> Anatomy:
    segments: list[Segment] = []
    rows: list[Explanation] = []
    if is_named:
        segments += [Segment(instruction.name, 0), Segment(" = ")]
        label = "instruction name; the leading % is optional" if setting.is_alone else ""
        rows.append(Explanation(0, "name", instruction.name, label))
    shape_parts_of(instruction.shape, setting, segments, rows)
    part = sum(row.part is not None for row in rows)
    segments.append(Segment(instruction.opcode, part, Break.SHOULD))
    rows.append(Explanation(part, "opcode", instruction.opcode, describe_operation(instruction).about))
    operand_parts(instruction, setting, segments, rows)
    attribute_parts(instruction, setting, segments, rows)
    if (collective := collective_at(instruction, setting.module)) is not None:
        rows += collective_rows(collective, setting.module)
    if not setting.is_alone:
        rows.append(Explanation(None, "in", "", _place(instruction)))
    if users:
        shown = ", ".join(user.name for user in users[:3])
        rows.append(Explanation(None, "used by", "", shown + (f" … {len(users) - 3} more" if len(users) > 3 else "")))
    return Anatomy("instruction", tuple(segments), tuple(rows), _DETAILS)


def _place(instruction: Instruction) -> str:
    computation = instruction.computation
    position = f"{computation.name}, instruction {instruction.index + 1:,} of {len(computation.instructions):,}"
    return f"{position} (root)" if instruction.is_root else position


def _answer(instruction: Instruction, setting: ExplainContext) -> str:
    """One sentence on what the instruction does and how large its result is."""
    if instruction.opcode == opcodes.FUSION:
        parts = [format_count(len(instruction.operands), "operands")]
        parts += [format_count(len(called.instructions), "instructions") for called in instruction.called_computations]
        return f"Fusion with {' and '.join(parts)}; {_output(instruction.shape, setting)}"
    size = _size(instruction.shape, setting)
    return f"{_does(instruction)}: {size}" if size else _does(instruction)


def _does(instruction: Instruction) -> str:
    match instruction.opcode:
        case opcodes.PARAMETER if (number := instruction.parameter_number) is not None:
            return f"Parameter {number} of {instruction.computation.name}"
        case opcodes.WHILE if (trips := trip_count(instruction)) is not None:
            return f"Loop with trip count {trips:,}"
        case _:
            return describe_operation(instruction).does


def _size(shape: Shape, setting: ExplainContext) -> str:
    match shape:
        case ArrayShape():
            what = format_count(shape.elements, f"{shape.element_type} elements")
            if not setting.is_in_memory:
                return f"{what}, not stored in memory"
            where = setting.space(shape.memory_space) if shape.memory_space else ""
            where = f" in {where}" if where else ""
            return f"{what}, {format_bytes(shape.padded_bytes)}{where}, {_padding(shape)}"
        case TupleShape():
            return f"{format_count(sum(1 for _ in shape.leaves), 'values')}, {format_bytes(shape.padded_bytes)}"
        case UnknownShape():
            return f"of {shape}" if shape.text else "shape not given"
        case _:
            return format_bytes(shape.padded_bytes) if shape.padded_bytes else ""


def _padding(shape: ArrayShape) -> str:
    padding = shape.padded_bytes - shape.metadata_bytes - shape.logical_bytes
    return f"{format_percent(padding / shape.padded_bytes)}% padding" if padding > 0 else "no padding"


def _output(shape: Shape, setting: ExplainContext) -> str:
    if not setting.is_in_memory:
        return "part of the enclosing kernel"
    spaces = {leaf.layout.memory_space for _, leaf in shape.leaves if leaf.layout is not None}
    where = f" to {setting.space(spaces.pop())}" if len(spaces) == 1 and setting.target else ""
    return f"writes {format_bytes(shape.padded_bytes)}{where}"


def _users(instruction: Instruction) -> tuple[Instruction, ...]:
    return tuple(user for user in instruction.computation.instructions if instruction in user.operands)


def _operand_table(instruction: Instruction, setting: ExplainContext) -> Table:
    """All operands, for programs."""
    rows: list[tuple[Cell, ...]] = []
    for at, operand in enumerate(instruction.operands):
        shape = instruction.operand_shape(at)
        space = shape.layout.memory_space if shape.layout is not None else None
        known = None if space is None else setting.space(space) or None
        sizes = (shape.logical_bytes, shape.padded_bytes) if shape != UnknownShape() else (None, None)
        rows.append((operand.name, instruction.operand_index(at) or None, *sizes, known, str(shape) or None))
    return Table("operands", _OPERANDS, tuple(rows), noun="operands", main=False, person=False)


def _numbers(instruction: Instruction, users: Sequence[Instruction], setting: ExplainContext) -> dict[str, Cell]:
    location = setting.module.location(instruction)
    shape = instruction.shape
    collective = collective_at(instruction, setting.module)
    fits = isinstance(shape, ArrayShape) and shape.problem is None
    return {
        "name": instruction.name,
        "opcode": instruction.opcode,
        "computation": instruction.computation.name,
        "step": instruction.index,
        "target": setting.target,
        "in_memory": setting.is_in_memory,
        "shape": str(shape) or None,
        "logical_bytes": shape.logical_bytes,
        "padded_bytes": shape.padded_bytes,
        "array": shape_numbers(shape) if fits and isinstance(shape, ArrayShape) else None,
        "attributes": {attribute.name: attribute.value for attribute in instruction.attributes},
        "argument": instruction.text.argument or None,
        "called_computations": tuple(called.name for called in instruction.called_computations),
        "users": tuple(user.name for user in users),
        "op_name": instruction.metadata.op_name or None,
        "source": str(location) if location is not None else None,
        **({} if collective is None else {"collective": collective_numbers(collective)}),
    }


def _notes(instruction: Instruction) -> tuple[Diagnostic, ...]:
    problems = [
        f"{leaf}: {leaf.problem}"
        for _, leaf in instruction.shape.leaves
        if isinstance(leaf, ArrayShape) and leaf.problem is not None
    ]
    return tuple(Diagnostic("note", problem) for problem in problems)
