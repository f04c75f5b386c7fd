"""How the fast path treats the rows of a computation, by opcode."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.opcode import OPCODE_ARITY, takes
from hlo_cli.ir.shape import TupleShape

_INDEX: Final = re.compile(r", index=([0-9]{1,9})(?![^,])").match

CALLERS: Final = frozenset(
    """all-reduce all-reduce-start async-done async-start async-update call conditional custom-call fusion map reduce
    reduce-scatter reduce-window scan scatter select-and-scatter sort while""".split()
)
"""Opcodes that call computations, sugared asynchronous ones aside."""

PLAIN, CALLER, PARAMETER, CONSTANT, TUPLE, ELEMENT = range(16, 22)
KIND_OF: Final = {
    **{opcode: PLAIN if arity is None else arity for opcode, arity in OPCODE_ARITY.items()},
    **dict.fromkeys(CALLERS, CALLER),
    "parameter": PARAMETER,
    "constant": CONSTANT,
    "tuple": TUPLE,
    "get-tuple-element": ELEMENT,
}
"""How the fast path treats an opcode: below PLAIN as one of so many operands; one that is not here may call others."""


def holds(instruction: Instruction, kind: int, tail: str) -> bool:
    """Whether an instruction that takes some values, but no one for which that is plain, surely holds together."""
    if kind == ELEMENT and len(instruction.operands) == 1:
        shape, match = instruction.operands[0].shape, _INDEX(tail)
        return match is not None and type(shape) is TupleShape and int(match[1]) < len(shape.elements)
    if kind == TUPLE:
        shape = instruction.shape
        return isinstance(shape, TupleShape) and len(shape.elements) == len(instruction.operands)
    return takes(instruction.opcode, len(instruction.operands))
