"""Metrics of a module, for a first comparison of two modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hlo_cli.analysis.cost.cost_analysis import main_costs_among
from hlo_cli.analysis.cost.counting import BYTES, EXACT, FLOPS
from hlo_cli.analysis.dataflow.dependencies import values_of
from hlo_cli.analysis.fusion.kernels import kernels_of
from hlo_cli.analysis.memory.order_independent import order_independent_facts
from hlo_cli.analysis.memory.peaks import peaks_from_definition
from hlo_cli.analysis.query.module_summary import number_of_collectives
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class ModuleMetrics:
    """Size, cost, and memory use of a module; loop bodies count once, and the costs are those of XLA's cost analysis.

    Sizes of values are padded for the target; `padding_bytes` is their padding. `peak_bytes` is by memory space, in the
    order of the text if the module is not scheduled.
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
def module_metrics(module: Module) -> ModuleMetrics:
    """Metrics of a module.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9]{0:T(128)} parameter(0)  ROOT n = f32[9]{0:T(128)} negate(p) }"
    >>> metrics = module_metrics(parse_module(text))
    >>> metrics.kernels, metrics.argument_bytes, metrics.value_bytes, metrics.padding_bytes
    (1, 512, 1024, 952)
    """
    costs = list(main_costs_among(module.entry.instructions, rules=EXACT))
    values = [value for value in values_of(module) if not value.is_context]
    padded = sum(value.shape.padded_bytes for value in values)
    opcodes = Counter([instruction.opcode for instruction in module.instructions])
    return ModuleMetrics(
        instructions=module.instruction_count,
        computations=len(module.computations),
        kernels=sum(not kernel.is_transfer for kernel in kernels_of(module)),
        collectives=number_of_collectives(module, opcodes),
        flops=sum(round(cost.get(FLOPS, 0)) for cost in costs),
        bytes_accessed=sum(round(cost.get(BYTES, 0)) for cost in costs),
        argument_bytes=sum(parameter.shape.padded_bytes for parameter in module.entry.parameters),
        value_bytes=padded,
        padding_bytes=padded - sum(value.shape.logical_bytes for value in values),
        peak_bytes=_peaks(module),
    )


def _peaks(module: Module) -> Mapping[int, int]:
    """Peak of live bytes in each memory space with a buffer."""
    facts = order_independent_facts(module)
    peaks = peaks_from_definition(facts)
    return {space: peaks.get(space, 0) for space in sorted({buffer.space for buffer in facts.buffers})}
