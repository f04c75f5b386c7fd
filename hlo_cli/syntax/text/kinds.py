"""The handling of opcodes on the fast path."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operation_table import ANY
from hlo_cli.ir.operations import CALLERS, OPCODE_ARITY, OPERAND_COUNTS, takes
from hlo_cli.ir.shape import TupleShape

_INDEX: Final = re.compile(r", index=([0-9]{1,9})(?![^,])").match

PLAIN, TUPLE, ELEMENT, FREE, CALLER, PARAMETER, CONSTANT = range(16, 23)
KIND_OF: Final = {
    **{opcode: PLAIN if arity is None else arity for opcode, arity in OPCODE_ARITY.items()},
    **{opcode: FREE for opcode, (least, most) in OPERAND_COUNTS.items() if least <= 1 and most == ANY},
    **dict.fromkeys(CALLERS, CALLER),
    opcodes.PARAMETER: PARAMETER,
    opcodes.CONSTANT: CONSTANT,
    opcodes.TUPLE: TUPLE,
    opcodes.GET_TUPLE_ELEMENT: ELEMENT,
}
"""The handling of each opcode on the fast path; opcodes that are not listed may be callers.

Below PLAIN it is the number of operands; up to ELEMENT a check is needed (`holds`); FREE is any number from one.
"""


def holds(instruction: Instruction, kind: int, tail: str) -> bool:
    """Whether an instruction with operands, of a kind that needs a check, is certainly well-formed."""
    if kind == ELEMENT and len(instruction.operands) == 1:
        shape, match = instruction.operands[0].shape, _INDEX(tail)
        return match is not None and type(shape) is TupleShape and int(match[1]) < len(shape.elements)
    if kind == TUPLE:
        shape = instruction.shape
        return isinstance(shape, TupleShape) and len(shape.elements) == len(instruction.operands)
    return takes(instruction.opcode, len(instruction.operands))
