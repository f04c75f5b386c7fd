"""Cost of elementwise operations: one flop or one transcendental per element, whatever the type.

Mirrors `HloCostAnalysis::HandleElementwiseOp` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import FLOPS, TRANSCENDENTALS, Properties
from hlo_cli.analysis.cost.counting import CostCounter, Handler
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ELEMENTWISE, TRANSCENDENTAL

FLOP_OPCODES: Final = ELEMENTWISE - TRANSCENDENTAL - {opcodes.COPY}


def one_flop_an_element(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts one flop per element of the result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost_of(parse_module("r = s32[5,3] xor(s32[5,3] a, s32[5,3] b)").entry.root).flops
    15
    """
    properties[FLOPS] = counter.measure(instruction.shape).elements


def one_transcendental_an_element(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts one transcendental per element of the result, in all leaves of a tuple.

    Random number generators count as such, with the elements of their state.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[5,3] tanh(f32[5,3] a)").entry.root)
    >>> cost.flops, cost.transcendentals
    (0, 15)
    """
    leaves = instruction.shape.leaves
    properties[TRANSCENDENTALS] = sum(counter.measure(leaf).elements for _, leaf in leaves)


HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(FLOP_OPCODES, one_flop_an_element),
    **dict.fromkeys((*TRANSCENDENTAL, "rng", "rng-bit-generator"), one_transcendental_an_element),
}
"""What counts the cost of each opcode of this family."""
