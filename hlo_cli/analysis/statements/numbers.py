"""Numbers of a module that are compared: memory, work with all iterations of loops, and collectives by kind."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.cost.cost_analysis import KernelCost, kernel_total
from hlo_cli.analysis.dataflow.executions import sequential_executions
from hlo_cli.analysis.query.module_metrics import ModuleMetrics, module_metrics
from hlo_cli.analysis.statements.parallelism import collectives_of
from hlo_cli.analysis.statements.statement import Collectives
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class ModuleNumbers:
    """Metrics of a module, and its flops and bytes accessed in one execution: loops count as often as they run.

    A loop of unknown trip count counts as one iteration. `collectives` are by kind, each in the text once.
    """

    metrics: ModuleMetrics
    flops: int
    bytes_accessed: int
    collectives: Mapping[str, Collectives]


@no_garbage_collection()
def numbers_of(module: Module) -> ModuleNumbers:
    """The numbers of a module.

    >>> from hlo_cli import parse_module
    >>> numbers = numbers_of(parse_module("ENTRY e { p = f32[9] parameter(0)  ROOT n = f32[9] negate(p) }"))
    >>> numbers.flops, numbers.bytes_accessed, numbers.collectives
    (9, 72, {})
    """
    metrics = module_metrics(module)
    total = _all_iterations(module)
    collectives = {each.kind: each for each in collectives_of(module.instructions)}
    return ModuleNumbers(metrics, total.flops, total.bytes, collectives)


def _all_iterations(module: Module) -> KernelCost:
    """What the kernels of all computations do in one execution of the module, every branch taken."""
    total = KernelCost()
    for computation, executions in sequential_executions(module).items():
        total += kernel_total(computation.instructions) * executions.count
    return total
