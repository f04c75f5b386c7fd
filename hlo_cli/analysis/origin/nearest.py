"""The nearest users of values: for each value, the first instruction with a source location that reads it."""

from __future__ import annotations

from collections.abc import Container

from hlo_cli.analysis.origin.moves import Moves, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


def nearest_users(module: Module, moves: Moves, sourced: Container[Instruction]) -> dict[Value, Instruction]:
    """Returns the nearest sourced user of each value, through moves; the first in the text of equally near ones.

    The bodies of fusions tell which of their instructions uses an operand; a fusion itself is asked last. Each value
    is visited once.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m ENTRY e { p = f32[2] parameter(0) c = f32[2] copy(p) n = f32[2] negate(c) }")
    >>> nearest_users(module, Moves(module), {module.instruction("n")})
    {(<copy c>, ()): <negate n>, (<parameter p>, ()): <negate n>}
    """
    found: dict[Value, Instruction] = {}
    users = [each for each in module.instructions if each in sourced]
    for is_fusion in (False, True):
        near: list[Value] = []
        for user in users:
            if (user.opcode == opcodes.FUSION) is is_fusion:
                near += [value for value in operand_values(user) if found.setdefault(value, user) is user]
        while near:
            further: list[Value] = []
            for value in near:
                step = moves.step(value)
                if step is None and value[0] in sourced:
                    continue  # its own operands have it as their user
                for before in operand_values(value[0]) if step is None else (step.value,):
                    if before not in found:
                        found[before] = found[value]
                        further.append(before)
            near = further
    return found


def operand_values(instruction: Instruction) -> list[Value]:
    """The values that an instruction reads: its operands, or elements of them.

    >>> from hlo_cli import parse_module
    >>> operand_values(parse_module("r = f32[2] add(a, b)").entry.root)
    [(<parameter a>, ()), (<parameter b>, ())]
    """
    return [(operand, instruction.operand_index(at)) for at, operand in enumerate(instruction.operands)]


def is_filler(instruction: Instruction) -> bool:
    """Whether a value is a constant or filled with one, which passes share among the places that use it.

    >>> from hlo_cli import parse_module
    >>> is_filler(parse_module("r = s32[2] iota(), iota_dimension=0").entry.root)
    True
    """
    if instruction.opcode == opcodes.BROADCAST and instruction.operands:
        return instruction.operands[0].opcode == opcodes.CONSTANT
    return instruction.opcode in (opcodes.CONSTANT, opcodes.IOTA)
