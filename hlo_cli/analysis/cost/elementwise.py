"""Operations that do one thing to every element: a flop, or a transcendental, whatever the type.

Mirrors `HloCostAnalysis::HandleElementwiseOp` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import FLOPS, TRANSCENDENTALS, Figures
from hlo_cli.analysis.cost.counting import CostCounter
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ELEMENTWISE, TRANSCENDENTAL

FLOP_OPCODES: Final = ELEMENTWISE - TRANSCENDENTAL - {opcodes.COPY}


def one_flop_an_element(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """As many flops as the result has elements.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost_of(parse_module("r = s32[5,3] xor(s32[5,3] a, s32[5,3] b)").entry.root).flops
    15
    """
    figures[FLOPS] = count.measure(instruction.shape).elements


def one_transcendental_an_element(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """As many transcendentals as the result has elements, in all its parts.

    Random numbers count as such: a generator's state is among what it makes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[5,3] tanh(f32[5,3] a)").entry.root)
    >>> cost.flops, cost.transcendentals
    (0, 15)
    """
    leaves = instruction.shape.leaves
    figures[TRANSCENDENTALS] = sum(count.measure(leaf).elements for _, leaf in leaves)
