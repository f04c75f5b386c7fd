"""What instructions do besides giving a value: instructions with the same effect keep their order.

Mirrors `HloInstruction::HasSideEffect` of xla/hlo/ir/hlo_instruction.cc. Collectives count too: all devices must come
to them in the same order, be they of one program or of several that were compiled together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from hlo_cli.analysis.schedule.async_pairs import is_end
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.opcodes import OPAQUE
from hlo_cli.ir.operations import CHANNEL_OPCODES, COLLECTIVES, HOST_FEEDS, RANDOM_STATE

Effect = Literal["outside", "random", "collective"]

_NONE: Final = frozenset[Effect]()
_ANY: Final = frozenset[Effect](get_args(Effect))
"""Of what does not hold together: nobody knows what it does."""
_EFFECT: Final[Mapping[str, frozenset[Effect]]] = {
    **dict.fromkeys((*HOST_FEEDS, *CHANNEL_OPCODES), frozenset[Effect](("outside",))),
    **dict.fromkeys(RANDOM_STATE, frozenset[Effect](("random",))),
    **dict.fromkeys(
        (each for opcode in COLLECTIVES for each in (opcode, f"{opcode}-start")), frozenset[Effect](("collective",))
    ),
}

Effects = Mapping[Instruction, frozenset[Effect]]
"""The instructions that have effects, with these."""


def effects_of(computations: Iterable[Computation]) -> Effects:
    """The effects of instructions, those of what they call among them; what is called must stand before what calls it.

    What waits for a collective has none: when it waits is its own affair.

    >>> from hlo_cli import parse_module
    >>> effects_of(parse_module("o = token[] outfeed(f32[] p, token[] t)").computations)
    {<outfeed o>: frozenset({'outside'})}
    """
    inside: dict[Computation, frozenset[Effect]] = {}
    found: dict[Instruction, frozenset[Effect]] = {}
    for computation in computations:
        among: set[Effect] = set()
        for instruction in computation.instructions:
            effects = _of_opcode(instruction)
            if instruction.called_computations and not is_end(instruction):
                effects = effects.union(*(inside.get(called, _NONE) for called in instruction.called_computations))
            if effects:
                found[instruction] = effects
                among |= effects
        inside[computation] = frozenset(among)
    return found


def _of_opcode(instruction: Instruction) -> frozenset[Effect]:
    opcode = instruction.opcode
    if opcode in _EFFECT:
        return _EFFECT[opcode]
    if opcode.endswith(OPAQUE):
        return _ANY
    has_effect = opcode == opcodes.CUSTOM_CALL and instruction.flag("custom_call_has_side_effect")
    return _EFFECT["send"] if has_effect else _NONE
