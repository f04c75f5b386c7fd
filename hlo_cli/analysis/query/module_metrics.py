"""A module in a few numbers: what two of them are compared by before anything else is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hlo_cli.analysis.cost.kernel_costs import KernelCost, kernel_costs
from hlo_cli.analysis.dataflow.values import sequentially_executed, values_of
from hlo_cli.analysis.memory.order_independent import order_independent_facts
from hlo_cli.analysis.memory.peaks import peaks_of
from hlo_cli.analysis.schedule.async_pairs import COLLECTIVES
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class ModuleMetrics:
    """How large a module is, what it does when each loop runs once, and what it takes in memory.

    Sizes of values are padded as on the target; `padding_bytes` is what of them is no data. `peak_bytes` is by the
    number of the memory space, in the order of the text where the module has no schedule.
    """

    instructions: int
    computations: int
    kernels: int
    collectives: int
    flops: int
    bytes_accessed: int
    argument_bytes: int
    value_bytes: int
    padding_bytes: int
    peak_bytes: Mapping[int, int]


@no_garbage_collection()
def figures_of(module: Module) -> ModuleMetrics:
    """The numbers of a module.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9]{0:T(128)} parameter(0)  ROOT n = f32[9]{0:T(128)} negate(p) }"
    >>> figures = figures_of(parse_module(text))
    >>> figures.kernels, figures.argument_bytes, figures.value_bytes, figures.padding_bytes
    (1, 512, 1024, 952)
    """
    sequential = sequentially_executed(module)
    work = sum(kernel_costs(i for c in sequential for i in c.instructions).values(), KernelCost())
    values = [value for value in values_of(module) if not value.is_context]
    padded = sum(value.shape.padded_bytes for value in values)
    opcodes = Counter([instruction.opcode for instruction in module.instructions])
    return ModuleMetrics(
        instructions=module.instruction_count,
        computations=len(module.computations),
        kernels=work.kernels,
        collectives=sum(n for opcode, n in opcodes.items() if opcode.removesuffix("-start") in COLLECTIVES),
        flops=work.flops,
        bytes_accessed=work.bytes,
        argument_bytes=sum(parameter.shape.padded_bytes for parameter in module.entry.parameters),
        value_bytes=padded,
        padding_bytes=padded - sum(value.shape.logical_bytes for value in values),
        peak_bytes=_peaks(module),
    )


def _peaks(module: Module) -> Mapping[int, int]:
    """The most bytes alive in each memory space that anything has its place in, be it for no time at all."""
    facts = order_independent_facts(module)
    peaks = peaks_of(facts, {}).standing
    return {space: peaks.get(space, 0) for space in sorted({buffer.space for buffer in facts.buffers})}
