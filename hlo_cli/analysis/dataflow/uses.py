"""Who uses a value, also under the other names that it is handed on by."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

HANDS_ON: Final = frozenset(
    (opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT, opcodes.COPY_DONE, opcodes.ASYNC_DONE, opcodes.OPT_BARRIER)
)
"""Opcodes that give what they are given, or an element of it."""


def producer_of(instruction: Instruction) -> Instruction:
    """The instruction that made a value, which others only hand on."""
    while instruction.opcode in HANDS_ON and instruction.operands:
        instruction = instruction.operands[0]
    return instruction


def uses_of(made: Instruction, users: Users) -> tuple[Instruction, ...]:
    """The instructions that do something with a value, be it under another name."""
    found: dict[Instruction, None] = {}
    waiting, seen = [made], {made}
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user.opcode not in HANDS_ON:
                found[user] = None
            elif user not in seen:
                seen.add(user)
                waiting.append(user)
    return tuple(found)
