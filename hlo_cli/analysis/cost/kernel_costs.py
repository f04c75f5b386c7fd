"""How much work the instructions of a schedule are: which of them are kernels, and what those cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from hlo_cli.analysis.cost.cost import RUN, Cost
from hlo_cli.analysis.cost.cost_analysis import costs_among
from hlo_cli.analysis.dataflow.computation_contexts import CONTROL_FLOW
from hlo_cli.analysis.dataflow.flat_schedule import Run
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction

NO_KERNELS: Final = operations.NO_KERNELS | CONTROL_FLOW
"""Opcodes that start no kernel of their own; what loops, branches and calls run is in the schedule itself."""
_MOST_TIMES: Final = 10**18
"""No program lives to see more rounds, even of a nanosecond."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Kernels, and what XLA's cost analysis says that they do: operations, and bytes that they read and write.

    `unknown` counts operations of which nobody knows what they cost; they add nothing to the flops.
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


def works_of(instructions: Iterable[Instruction]) -> Mapping[Instruction, KernelCost]:
    """What each kernel among some instructions does when it runs once.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }").entry
    >>> works_of(entry.instructions)
    {<add a>: KernelCost(kernels=1, flops=2, bytes=24)}
    """
    return {each: work_of(cost) for each, cost in costs_of_kernels(instructions).items()}


def works_of_all(instructions: Iterable[Instruction]) -> Mapping[Instruction, KernelCost]:
    """What each of some instructions does, loops and calls with all that they run.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  f { a = s8[9] parameter(0) ROOT n = s8[9] not(a) }"
    >>> entry = parse_module(text + " ENTRY e { p = s8[9] parameter(0) ROOT c = s8[9] call(p), to_apply=f }").entry
    >>> works_of_all(entry.instructions)
    {<call c>: KernelCost(kernels=1, flops=9, bytes=18)}
    """
    costs = costs_among((i for i in instructions if i.opcode not in NO_KERNELS or i.opcode in CONTROL_FLOW), rules=RUN)
    return {each: work_of(cost) for each, cost in costs.items()}


def costs_of_kernels(instructions: Iterable[Instruction]) -> Mapping[Instruction, Cost]:
    """What each kernel among some instructions costs when it runs once, with all figures.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }").entry
    >>> [(kernel.name, cost.bytes_accessed) for kernel, cost in costs_of_kernels(entry.instructions).items()]
    [('a', 24)]
    """
    return costs_among((i for i in instructions if i.opcode not in NO_KERNELS), rules=RUN)


def work_of(cost: Cost) -> KernelCost:
    """The work of one kernel with this cost.

    >>> work_of(Cost({"flops": 2.0, "bytes accessed": 24}))
    KernelCost(kernels=1, flops=2, bytes=24)
    """
    return KernelCost(1, round(cost.flops), round(cost.bytes_accessed), cost.unknown)


def times_run(runs: Iterable[Run]) -> Mapping[Computation, int | None]:
    """How often each computation of a schedule runs, None below a loop whose text does not tell, or claims too much.

    A branch counts as if it were taken, and a condition as often as the body.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> times_run(memory_analysis(module).runs)
    {<computation e: 1 instructions>: 1}
    """
    times: dict[Computation, int | None] = {}
    for run in runs:
        if run.caller is None:
            times[run.computation] = 1
            continue
        around = times.get(run.caller.computation)
        own = trip_count(run.caller) if run.caller.opcode == opcodes.WHILE else 1
        product = None if around is None or own is None else around * own
        times[run.computation] = product if product is not None and product <= _MOST_TIMES else None
    return times


def times_counted(runs: Iterable[Run]) -> Mapping[Computation, int]:
    """How often each computation of a schedule counts in a sum: a loop whose text does not tell runs one round a time.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> times_counted(memory_analysis(module).runs)
    {<computation e: 1 instructions>: 1}
    """
    times: dict[Computation, int] = {}
    for run in runs:
        around = times.get(run.caller.computation, 1) if run.caller is not None else 1
        own = trip_count(run.caller) if run.caller is not None and run.caller.opcode == opcodes.WHILE else 1
        times[run.computation] = around if own is None or around * own > _MOST_TIMES else around * own
    return times
