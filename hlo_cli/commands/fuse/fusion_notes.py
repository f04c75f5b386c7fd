"""Short notes on operations inside a fusion: repeated or compared operands, changed layouts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count

_SIGNS: Final = {"EQ": "=", "NE": "≠", "GE": "≥", "GT": ">", "LE": "≤", "LT": "<"}
_IN_SIGNS: Final = {"add": "+", "subtract": "-", "multiply": "×", "divide": "/"}
_MAX_INLINE_LENGTH: Final = 12
"""The longest constant that is quoted."""


def operand_note(instruction: Instruction) -> str:
    """A short note on an operation beyond its name and shape; often empty.

    >>> from hlo_cli import parse_module
    >>> operand_note(parse_module("r = f32[32,8] broadcast(f32[8] a), dimensions={1}").entry.root)
    'broadcast × 32'
    >>> operand_note(parse_module("r = f32[32,8]{0,1} copy(f32[32,8]{1,0} a)").entry.root)
    'layout {1,0} → {0,1}'
    """
    match instruction.opcode:
        case opcodes.BROADCAST:
            return _broadcast(instruction)
        case opcodes.COMPARE:
            sign = _SIGNS.get(instruction.attribute("direction") or "", "?")
            return _with_constant(instruction, sign)
        case opcodes.CONVERT:
            return f"from {_type_of(instruction)}"
        case opcodes.CONSTANT:
            return f"constant {instruction.raw[0]}" if is_inline_constant(instruction) else "constant"
        case opcodes.FUSION:
            return f"fusion, {instruction.attribute('kind') or ''}"
        case opcodes.REDUCE:
            return _reduced_dimensions(instruction)
        case opcodes.TRANSPOSE:
            return _layout_change(instruction) or f"permutation {index_text(instruction.integers('dimensions'))}"
        case opcodes.CUSTOM_CALL:
            return instruction.string("custom_call_target") or ""
    return _layout_change(instruction) or _with_constant(instruction, _IN_SIGNS.get(instruction.opcode, ""))


def is_inline_constant(operand: Instruction) -> bool:
    """Whether an operand is a short constant, which the note of its user quotes."""
    if operand.opcode != opcodes.CONSTANT:
        return False
    literal = operand.raw[0]
    return len(literal) <= _MAX_INLINE_LENGTH and "{" not in literal


def repeated_operations(instructions: Iterable[Instruction]) -> str:
    """How many operations repeat values or change layouts, and the first to check; empty if there are none.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { a = f32[8] parameter(0)  b = f32[32,8] broadcast(a), dimensions={1}  ROOT n = negate(b) }"
    >>> repeated_operations(parse_module(text).entry.instructions)
    '1 broadcast, × 32 (b)'
    """
    found = tuple(instructions)
    widest = max(((repeats, i.name) for i in found if (repeats := _repeats(i)) > 1), default=None)
    laid = [(i.name, change) for i in found if (change := _layout_change(i))]
    words = []
    if widest is not None:
        number = sum(_repeats(i) > 1 for i in found)
        words.append(
            f"{format_count(number, 'broadcasts')}, {'up to ' if number > 1 else ''}× {widest[0]:,} ({widest[1]})"
        )
    if laid:
        name, change = laid[0]
        words.append(f"{format_count(len(laid), 'layout changes')}, {change.removeprefix('layout ')} ({name})")
    return "; ".join(words)


def _repeats(instruction: Instruction) -> int:
    """How often a broadcast repeats each element, short constants aside; 1 for every other operation."""
    if (
        instruction.opcode != opcodes.BROADCAST
        or not instruction.operands
        or is_inline_constant(instruction.operands[0])
    ):
        return 1
    given, shape = instruction.operand_shape(0), instruction.shape
    if not isinstance(given, ArrayShape) or not isinstance(shape, ArrayShape) or not given.elements:
        return 1
    return shape.elements // given.elements


def _broadcast(broadcast: Instruction) -> str:
    if not broadcast.operands:
        return "broadcast"
    operand = broadcast.operands[0]
    if is_inline_constant(operand):
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
    found = operand.operands[0] if operand.opcode == opcodes.BROADCAST and operand.operands else operand
    return found.raw[0] if is_inline_constant(found) else ""


def _layout_change(instruction: Instruction) -> str:
    """The change of the dimension order in memory; empty if there is none."""
    if not instruction.operands or not isinstance(instruction.shape, ArrayShape):
        return ""
    given, shape = instruction.operand_shape(0), instruction.shape
    if not isinstance(given, ArrayShape) or given.rank != shape.rank:
        return ""
    before, after = given.layout.minor_to_major, shape.layout.minor_to_major
    return f"layout {index_text(before)} → {index_text(after)}" if before != after and before and after else ""


def _reduced_dimensions(reduce: Instruction) -> str:
    """`over dimensions 0, 2` of a reduce; empty if it reduces none."""
    reduced = reduce.integers("dimensions")
    noun = "dimension" if len(reduced) == 1 else "dimensions"
    return f"over {noun} {', '.join(map(str, reduced))}" if reduced else ""


def _type_of(convert: Instruction) -> str:
    given = convert.operand_shape(0) if convert.operands else None
    return given.element_type.name if isinstance(given, ArrayShape) else "?"
