"""What instructions, computations and modules cost: flops, transcendentals and bytes, as XLA counts them.

Mirrors xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.costs.figures import EXACT, Cost, Rules
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


def cost_of(instruction: Instruction, *, rules: Rules = EXACT) -> Cost:
    """What one instruction costs, with the computations that it calls."""
    raise NotImplementedError


def computation_cost(computation: Computation, *, rules: Rules = EXACT) -> Cost:
    """The sum over the instructions of a computation."""
    raise NotImplementedError


def costs_of(module: Module, *, rules: Rules = EXACT) -> Mapping[Instruction, Cost]:
    """What every instruction costs, those inside fusions and other called computations too."""
    raise NotImplementedError


def module_cost(module: Module, *, rules: Rules = EXACT) -> Cost:
    """The sum over the entry computation, which is what XLA calls the cost of a module."""
    raise NotImplementedError
