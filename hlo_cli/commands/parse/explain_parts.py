"""The parts of an instruction's line, shape, operands, and attributes, each with its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.layout.layout_steps import shape_tokens
from hlo_cli.commands.parse.attribute_descriptions import attribute_label, describe_attribute
from hlo_cli.commands.parse.sharding_meaning import sharding_meaning
from hlo_cli.commands.shape.explained import default_space, shape_segments
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.operations import CALLING_ATTRIBUTES
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape, UnknownShape, subshape
from hlo_cli.report.figure import Break, Explanation, Segment
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Cell

MANY: Final = 8
"""The most operands, or elements of a tuple, that are quoted; more would leave no room for their meanings."""
_LONG_VALUE: Final = 48
_ELIDED: Final = frozenset(("metadata", "backend_config"))
_MIN_INSIDE: Final = 2

Segments = list[Segment]
Rows = list[Explanation]


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """The context of an instruction: module, target, whether it is typed alone, and whether it is inside a kernel."""

    module: Module
    target: str | None
    is_alone: bool = False
    is_in_memory: bool = True
    most_operands: int = MANY

    def space(self, space: int) -> str:
        """The name of a memory space; empty where values are not in memory."""
        return space_name(space, self.target) if self.is_in_memory else ""


def shape_parts_of(shape: Shape, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    """Adds the parts of the shape; those of a tuple by leaf, each with its size."""
    first = _next_part(rows)
    array = shape.array if isinstance(shape, BufferShape) else shape
    if isinstance(array, ArrayShape):
        new, meanings = shape_segments(shape_tokens(shape), first, array, numbered=True, target=setting.target)
        segments += new
        rows += meanings
        if not array.memory_space and setting.is_in_memory:
            rows.append(Explanation(None, "space", "not specified", default_space(setting.target)))
    elif isinstance(shape, TupleShape):
        _tuple_parts(shape, setting, segments, rows)
    elif shape != UnknownShape():
        segments.append(Segment(str(shape), first))
        rows.append(Explanation(first, "type", str(shape), _ZERO_SIZE.get(str(shape), "unknown type")))
    if shape != UnknownShape():
        segments.append(Segment(" "))


def operand_parts(instruction: Instruction, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    """Adds the parts between the parentheses: operands, a parameter number, or a constant."""
    segments.append(Segment("("))
    argument = instruction.text.argument
    if argument and not instruction.operands:
        part = _next_part(rows)
        shown = _short(argument)
        segments.append(Segment(shown, part))
        is_number = instruction.opcode == opcodes.PARAMETER
        rows.append(Explanation(part, "number" if is_number else "value", shown, _argument(instruction)))
    count, most = len(instruction.operands), setting.most_operands
    shown_count = count if not most or count <= most + 1 else most
    for at in range(shown_count):
        segments += [Segment(", ")] if at else []
        _operand_part(instruction, at, setting, segments, rows)
    if shown_count < count:
        segments.append(Segment(f", … {count - shown_count:,} more", None, Break.NEVER))
        shapes = [instruction.operand_shape(at) for at in range(shown_count, count)]
        total = sum(shape.padded_bytes for shape in shapes)
        rows.append(Explanation(None, "operands", f"{count - shown_count:,} more", "", (total, "")))
    segments.append(Segment(")"))


def attribute_parts(instruction: Instruction, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    """Adds each attribute with its meaning; for metadata, the location in the user's program."""
    for attribute in instruction.attributes:
        segments.append(Segment(", "))
        part = _next_part(rows)
        value = _value(attribute)
        segments.append(Segment(f"{attribute.name}={value}", part, Break.MAY))
        if attribute.name == "metadata":
            rows.append(_source_of(setting.module, instruction, part))
            continue
        meaning = describe_attribute(instruction.opcode, attribute.name, attribute.value)
        if attribute.name in CALLING_ATTRIBUTES:
            meaning = _called(instruction, attribute.value, meaning)
        if attribute.name == "sharding":
            meaning = sharding_meaning(instruction, None if setting.is_alone else setting.module) or meaning
        meaning = meaning or "unknown attribute"
        rows.append(Explanation(part, attribute_label(attribute.name), value, meaning))


def _tuple_parts(shape: TupleShape, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    shown = 0
    leaves = sum(1 for _ in shape.leaves)
    most = leaves if leaves <= MANY + 1 else MANY
    for piece in shape_tokens(shape):
        if piece.role != "leaf":
            segments.append(Segment(piece.text))
            continue
        if shown == most:
            segments.append(Segment(f"… {leaves - shown:,} more)"))
            total = sum(leaf.padded_bytes for _, leaf in tuple(shape.leaves)[shown:])
            rows.append(Explanation(None, "elements", f"{leaves - shown:,} more", "", (total, "")))
            return
        shown += 1
        part = _next_part(rows)
        segments.append(Segment(piece.text, part, Break.MAY))
        leaf = subshape(shape, piece.index) or UnknownShape()
        rows.append(Explanation(part, "element", index_text(piece.index), str(leaf), _details(leaf, setting)))


def _operand_part(instruction: Instruction, at: int, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    operand, index = instruction.operands[at], instruction.operand_index(at)
    shape, part = instruction.operand_shape(at), _next_part(rows)
    suffix = "".join(f"#{i}" for i in index)
    segments.append(Segment(f"{operand.name}{suffix}", part, Break.MAY))
    name = operand.name + index_suffix(index)
    if shape == UnknownShape():
        rows.append(Explanation(part, "operand", name, "shape not in the text"))
    else:
        rows.append(Explanation(part, "operand", name, str(shape), _details(shape, setting)))


def _details(shape: Shape, setting: ExplainContext) -> tuple[Cell, ...]:
    if isinstance(shape, ArrayShape | BufferShape):
        return shape.padded_bytes, setting.space(shape.layout.memory_space)
    return (shape.padded_bytes, "") if isinstance(shape, TupleShape) else ("", "")


def _argument(instruction: Instruction) -> str:
    if instruction.opcode == opcodes.PARAMETER:
        return "parameter number, from 0"
    argument = instruction.text.argument
    if "..." in argument:
        return "omitted from the dump"
    return "constant value" if argument == _short(argument) else "first values of the constant"


def _source_of(module: Module, instruction: Instruction, part: int) -> Explanation:
    location = module.location(instruction)
    source = str(location) if location is not None else ""
    op_name = instruction.metadata.op_name
    if not op_name and not source:
        return Explanation(part, "metadata", "{…}", "no source information")
    return Explanation(part, "source", op_name or source, source if op_name else "")


def _called(instruction: Instruction, value: str, meaning: str) -> str:
    """The role of a called computation, and its operation if it has only one."""
    named = value.replace("%", "").strip("{} ").split(", ")
    called = [c for c in instruction.called_computations if c.name in named]
    return f"{meaning}: {', '.join(map(_inside, called))}" if 0 < len(called) <= _MIN_INSIDE else meaning


def _inside(computation: Computation) -> str:
    inside = [i for i in computation.instructions if i.opcode != opcodes.PARAMETER]
    if len(inside) == 1:
        return inside[0].opcode
    return format_count(len(computation.instructions), "instructions")


def _value(attribute: Attribute) -> str:
    if attribute.name in _ELIDED:
        return "{…}"
    value = attribute.value.replace("%", "") if attribute.name in CALLING_ATTRIBUTES else attribute.value
    return _short(value)


def _short(value: str) -> str:
    if len(value) <= _LONG_VALUE:
        return value
    closing = value[-1] if value[-1] in "}])\"'" else ""
    return value[: _LONG_VALUE - 2].rstrip() + "…" + closing


def _next_part(rows: Sequence[Explanation]) -> int:
    return sum(row.part is not None for row in rows)


_ZERO_SIZE: Final = {
    "token[]": "token: orders side effects, holds no data",
    "opaque[]": "opaque: contents known only to producer and consumers",
}
