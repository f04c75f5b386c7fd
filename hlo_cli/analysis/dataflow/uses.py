"""Uses of a value through instructions that forward it, such as bitcasts and get-tuple-elements."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

FORWARDING: Final = frozenset(
    (opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT, opcodes.COPY_DONE, opcodes.ASYNC_DONE, opcodes.OPT_BARRIER)
)
"""Opcodes that forward their operand or one of its elements."""


def producer_of(instruction: Instruction) -> Instruction:
    """Returns the instruction that computes a value, through all forwarding ones."""
    while instruction.opcode in FORWARDING and instruction.operands:
        instruction = instruction.operands[0]
    return instruction


def uses_of(definer: Instruction, users: Users) -> tuple[Instruction, ...]:
    """Returns the instructions that use a value, directly or through forwarding ones."""
    found: dict[Instruction, None] = {}
    worklist, seen = [definer], {definer}
    while worklist:
        for user in users.get(worklist.pop(), ()):
            if user.opcode not in FORWARDING:
                found[user] = None
            elif user not in seen:
                seen.add(user)
                worklist.append(user)
    return tuple(found)
