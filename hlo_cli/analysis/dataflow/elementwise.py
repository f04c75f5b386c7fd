"""Elementwise instructions: each element of the result depends only on the operands' elements at the same index.

Mirrors `HloInstruction::IsElementwiseOnOperand` of xla/hlo/ir/hlo_instruction.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.users import users_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape

_ELEMENTWISE: Final = ELEMENTWISE - {opcodes.BITCAST_CONVERT} | {opcodes.MAP, opcodes.RNG}


def is_elementwise_on(instruction: Instruction, position: int) -> bool:
    """Returns whether an instruction is elementwise on the operand at a position.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry.root
    >>> is_elementwise_on(root, 0), is_elementwise_on(root, 1)
    (True, False)
    """
    if instruction.opcode in _ELEMENTWISE:
        return True
    match instruction.opcode:
        # hlo_instruction.cc, IsElementwiseOnOperand: a dynamic-update-slice counts as elementwise on operand 0.
        case opcodes.DYNAMIC_UPDATE_SLICE:
            return position == 0
        case "bitcast-convert":
            given = instruction.operand_shape(position)
            return (
                isinstance(instruction.shape, ArrayShape)
                and isinstance(given, ArrayShape)
                and (instruction.shape.element_type.bits == given.element_type.bits)
            )
        case opcodes.FUSION:
            return _is_fused_elementwise(instruction, position)
    return False


def _is_fused_elementwise(fusion: Instruction, position: int) -> bool:
    """Returns whether all instructions from a fusion's parameter to its root are elementwise."""
    called = fusion.called_computations[:1]
    if not called or position >= len(called[0].parameters):
        return False
    users = users_of(called[0])
    waiting, seen = [called[0].parameters[position]], set[Instruction]()
    while waiting:
        instruction = waiting.pop()
        for user in users.get(instruction, ()):
            if user.opcode == opcodes.FUSION or not is_elementwise_on(user, user.operands.index(instruction)):
                return False
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return True
