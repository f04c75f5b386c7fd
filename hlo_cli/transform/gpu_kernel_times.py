"""Time of each kernel of a module on a GPU, by XLA's model, without those that it does not know."""

from __future__ import annotations

from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS
from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelModel
from hlo_cli.analysis.fusion.gpu_rules import can_be_fused, is_triton
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.analysis.fusion.mutable_graph import graph_of
from hlo_cli.analysis.hardware.chip_specs import gpu_device
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.transform.gpu_fuse import gpu_computations

_FREE = (opcodes.CONSTANT, opcodes.BITCAST)


@dataclass(frozen=True, slots=True)
class GpuKernelTimes:
    """Seconds of each kernel with its launch, by name, and the number of kernels that the model does not know."""

    seconds: dict[str, float]
    unknown: int

    @property
    def total(self) -> float:
        """Seconds of all known kernels, each run once."""
        return sum(self.seconds.values())


def gpu_kernel_times(module: Module, chip: str) -> GpuKernelTimes:
    """Times of the kernels of a module, each run once; HloError for a chip without figures.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  s = f32[9] sort(p), to_apply=c  ROOT n = f32[9] negate(s) }"
    >>> gpu_kernel_times(parse_module(text), "h100")
    GpuKernelTimes(seconds={'n': 1.00075e-06}, unknown=1)
    """
    model = KernelModel(gpu_device(chip))
    found: dict[str, float] = {}
    unknown = 0
    for computation in gpu_computations(module):
        for node in graph_of(computation, module.source.text).nodes:
            if can_be_fused(node) and node.opcode not in _FREE and not is_triton(node):
                found[node.name] = (LAUNCH + model.time(node).ticks) / TICKS_PER_SECOND
            else:
                unknown += node.opcode not in NO_KERNELS
    return GpuKernelTimes(found, unknown)
