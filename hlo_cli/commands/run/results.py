"""How results are called in tables: their index, and the instruction that makes them."""

from __future__ import annotations

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ShapeIndex


def result_label(index: ShapeIndex) -> str:
    """The number of a result; the index of one in nested tuples.

    >>> result_label(()), result_label((3,)), result_label((1, 0))
    ('0', '3', '{1,0}')
    """
    return index_text(index) if len(index) > 1 else str(index[0]) if index else "0"


def result_name(root: Instruction, index: ShapeIndex) -> str:
    """The name of the instruction that makes a result: the operand of a tuple, or the root."""
    return root.operands[index[0]].name if root.opcode == opcodes.TUPLE and index else root.name
