"""Who uses a value, also under the other names that it is handed on by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hlo_cli.ir.instruction import Instruction

HANDS_ON: Final = frozenset(("bitcast", "get-tuple-element", "copy-done", "async-done", "opt-barrier"))
"""Opcodes that give what they are given, or an element of it."""

Users = Mapping[Instruction, Sequence[Instruction]]


def users_among(instructions: Iterable[Instruction]) -> Users:
    """For each instruction those that take it as an operand, each once, in order.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }").entry
    >>> users_among(entry.instructions)[entry.parameters[0]]
    [<add a>]
    """
    users: dict[Instruction, list[Instruction]] = {}
    for instruction in instructions:
        for operand in dict.fromkeys(instruction.operands):
            users.setdefault(operand, []).append(instruction)
    return users


def maker_of(instruction: Instruction) -> Instruction:
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
