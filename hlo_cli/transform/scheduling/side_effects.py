"""Side effects of instructions; instructions with the same effect keep their order.

Mirrors `HloInstruction::HasSideEffect` of xla/hlo/ir/hlo_instruction.cc. Collectives count too, as all devices must
execute them in the same order, also across programs that are compiled together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from hlo_cli.analysis.schedule.async_overlap import is_end
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.opcodes import OPAQUE
from hlo_cli.ir.operations import CHANNEL_OPCODES, COLLECTIVES, HOST_FEEDS, RANDOM_STATE

Effect = Literal["outside", "random", "collective"]

_NONE: Final = frozenset[Effect]()
_ALL_EFFECTS: Final = frozenset[Effect](get_args(Effect))
"""Effects of an unknown opcode."""
_EFFECTS_BY_OPCODE: Final[Mapping[str, frozenset[Effect]]] = {
    **dict.fromkeys((*HOST_FEEDS, *CHANNEL_OPCODES), frozenset[Effect](("outside",))),
    # HasSideEffectNoRecurse counts random numbers too.
    **dict.fromkeys(RANDOM_STATE, frozenset[Effect](("random",))),
    **dict.fromkeys(
        (each for opcode in COLLECTIVES for each in (opcode, f"{opcode}-start")), frozenset[Effect](("collective",))
    ),
}

Effects = Mapping[Instruction, frozenset[Effect]]
"""Instructions with side effects."""


def effects_of(computations: Iterable[Computation]) -> Effects:
    """Side effects of instructions, including their callees; callees must precede callers.

    The done of a collective has no effect, as its position does not matter to other devices.

    >>> from hlo_cli import parse_module
    >>> effects_of(parse_module("o = token[] outfeed(f32[] p, token[] t)").computations)
    {<outfeed o>: frozenset({'outside'})}
    """
    inside: dict[Computation, frozenset[Effect]] = {}
    found: dict[Instruction, frozenset[Effect]] = {}
    for computation in computations:
        among: set[Effect] = set()
        for instruction in computation.instructions:
            effects = _opcode_effects(instruction)
            if instruction.called_computations and not is_end(instruction):
                effects = effects.union(*(inside.get(called, _NONE) for called in instruction.called_computations))
            if effects:
                found[instruction] = effects
                among |= effects
        inside[computation] = frozenset(among)
    return found


def _opcode_effects(instruction: Instruction) -> frozenset[Effect]:
    opcode = instruction.opcode
    if opcode in _EFFECTS_BY_OPCODE:
        return _EFFECTS_BY_OPCODE[opcode]
    if opcode.endswith(OPAQUE):
        return _ALL_EFFECTS
    has_effect = opcode == opcodes.CUSTOM_CALL and instruction.flag("custom_call_has_side_effect")
    return _EFFECTS_BY_OPCODE["send"] if has_effect else _NONE
