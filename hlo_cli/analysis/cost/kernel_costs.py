"""Compute and memory traffic of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from hlo_cli.analysis.cost.cost import RUN, Cost
from hlo_cli.analysis.cost.cost_analysis import costs_among
from hlo_cli.analysis.dataflow.computation_contexts import CONTROL_FLOW
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import operations
from hlo_cli.ir.instruction import Instruction

NO_KERNELS: Final = operations.NO_KERNELS | CONTROL_FLOW
"""Opcodes that launch no kernel of their own; computations that control flow runs are in the schedule themselves."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Number of kernels with their total flops and bytes accessed.

    `unknown` is the number of operations of unknown cost, which add no flops.
    """

    kernels: int = 0
    flops: int = 0
    bytes: int = 0
    unknown: int = field(default=0, repr=False)

    def __add__(self, other: KernelCost) -> KernelCost:
        return KernelCost(
            self.kernels + other.kernels,
            self.flops + other.flops,
            self.bytes + other.bytes,
            self.unknown + other.unknown,
        )

    def __sub__(self, other: KernelCost) -> KernelCost:
        return self + other * -1

    def __mul__(self, times: int) -> KernelCost:
        return KernelCost(self.kernels * times, self.flops * times, self.bytes * times, self.unknown * times)

    def __floordiv__(self, times: int) -> KernelCost:
        return KernelCost(self.kernels // times, self.flops // times, self.bytes // times, self.unknown // times)


def kernel_costs(instructions: Iterable[Instruction]) -> Mapping[Instruction, KernelCost]:
    """Cost of one run of each kernel among the instructions.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }").entry
    >>> kernel_costs(entry.instructions)
    {<add a>: KernelCost(kernels=1, flops=2, bytes=24)}
    """
    return {each: kernel_cost_of(cost) for each, cost in costs_of_kernels(instructions).items()}


def inclusive_costs(instructions: Iterable[Instruction]) -> Mapping[Instruction, KernelCost]:
    """Cost of each instruction; loops and calls include all that they run.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  f { a = s8[9] parameter(0) ROOT n = s8[9] not(a) }"
    >>> entry = parse_module(text + " ENTRY e { p = s8[9] parameter(0) ROOT c = s8[9] call(p), to_apply=f }").entry
    >>> inclusive_costs(entry.instructions)
    {<call c>: KernelCost(kernels=1, flops=9, bytes=18)}
    """
    costs = costs_among((i for i in instructions if i.opcode not in NO_KERNELS or i.opcode in CONTROL_FLOW), rules=RUN)
    return {each: kernel_cost_of(cost) for each, cost in costs.items()}


def costs_of_kernels(instructions: Iterable[Instruction]) -> Mapping[Instruction, Cost]:
    """All cost properties of one run of each kernel among the instructions.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }").entry
    >>> [(kernel.name, cost.bytes_accessed) for kernel, cost in costs_of_kernels(entry.instructions).items()]
    [('a', 24)]
    """
    return costs_among((i for i in instructions if i.opcode not in NO_KERNELS), rules=RUN)


def kernel_cost_of(cost: Cost) -> KernelCost:
    """Kernel cost of one kernel with these properties.

    >>> kernel_cost_of(Cost({"flops": 2.0, "bytes accessed": 24}))
    KernelCost(kernels=1, flops=2, bytes=24)
    """
    return KernelCost(1, round(cost.flops), round(cost.bytes_accessed), cost.unknown)
