"""Kernels that XLA:GPU generates, with their time by its own model, as its fusion passes compute it.

Mirrors `EstimateRunTimeForInstruction` of xla/service/gpu/model/gpu_performance_model.cc. Kernels of libraries and of
Triton, matmuls, and collectives are not modeled; neither are chips without figures in `hardware/gpu_devices.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.analysis.fusion.graph import Node, body_of
from hlo_cli.analysis.gpu_fusion.durations import TICKS_PER_SECOND
from hlo_cli.analysis.gpu_fusion.model import KernelModel, KernelTime
from hlo_cli.analysis.gpu_fusion.rules import can_be_fused, is_triton
from hlo_cli.analysis.gpu_fusion.shapes import bytes_of
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice, gpu_device
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import MATMULS, takes
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

_FREE: Final = frozenset((opcodes.CONSTANT, opcodes.BITCAST))


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """A generated kernel on a GPU: its time by XLA's model, and the bytes that it reads of each operand.

    An element that is read several times counts as often. `operand_bytes` are the sizes of the operands.
    """

    time: KernelTime
    device: GpuDevice
    reads: tuple[int, ...]
    operand_bytes: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """The time of the kernel without its launch."""
        return self.time.ticks / TICKS_PER_SECOND

    @property
    def compute_seconds(self) -> float:
        """The time of its cycles."""
        return self.time.compute_ticks / TICKS_PER_SECOND

    @property
    def memory_seconds(self) -> float:
        """The time of its reads and writes."""
        return self.time.memory_ticks / TICKS_PER_SECOND

    @property
    def is_compute_bound(self) -> bool:
        """Whether its cycles take longer than its reads and writes."""
        return self.time.compute_ticks > self.time.memory_ticks

    @property
    def busy_cores(self) -> int:
        """The number of cores that have a block."""
        return min(self.time.blocks, self.device.core_count)


def device_of(chip: ChipSpec) -> GpuDevice | None:
    """The figures of a GPU that XLA's model uses; None for other chips, and for those with rates of the user.

    >>> from hlo_cli import chip_spec
    >>> device_of(chip_spec("h100")).core_count, device_of(chip_spec("v5e")), device_of(chip_spec("t4"))
    (132, None, None)
    """
    if not chip.cores:
        return None
    try:
        known = find_chip(chip.chip)
        return gpu_device(known.name) if known.spec is chip or known.spec == chip else None
    except HloError:
        return None


def gpu_kernels(computation: Computation, device: GpuDevice) -> Mapping[Instruction, GpuKernel]:
    """The generated kernels of a computation, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> entry = parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry
    >>> kernel, = gpu_kernels(entry, gpu_device("h100")).values()
    >>> f"{kernel.seconds * 1e6:.2f} µs", kernel.time.blocks, kernel.reads, kernel.is_compute_bound
    ('14.44 µs', 1954, (4000000,), True)
    """
    if not _is_sound(computation, {}):
        return {}
    model = KernelModel(device)
    found: dict[Instruction, GpuKernel] = {}
    with no_garbage_collection():
        for node in body_of(computation).nodes:
            if _is_modeled(node):
                reads = model.work(node).reads
                sizes = tuple(bytes_of(operand.shape) for operand in node.operands)
                found[node.instruction] = GpuKernel(model.time(node), device, reads, sizes)
    return found


def _is_modeled(node: Node) -> bool:
    """Whether a node is a kernel that XLA generates without Triton."""
    if node.opcode in _FREE or not can_be_fused(node) or is_triton(node):
        return False
    if node.opcode == opcodes.FUSION and node.body is None:
        return False
    arrays = (leaf for _, leaf in node.shape.leaves if isinstance(leaf, ArrayShape))
    if any(array.layout.tiles for array in arrays):
        return False
    return node.body is None or not any(each.opcode in MATMULS for each in node.body.nodes)


def _is_sound(computation: Computation, known: dict[Computation, bool]) -> bool:
    """Whether a computation and the bodies of its fusions are complete: no root or operand is missing in the text."""
    if computation not in known:
        known[computation] = False  # of a fusion that contains itself
        known[computation] = computation.root is not None and all(
            _is_complete(each)
            and (each.opcode != opcodes.FUSION or all(_is_sound(body, known) for body in each.called_computations))
            for each in computation.instructions
        )
    return known[computation]


def _is_complete(instruction: Instruction) -> bool:
    computation, index = instruction.computation, instruction.index
    return takes(instruction.opcode, len(instruction.operands)) and all(
        operand.computation is computation and operand.index < index for operand in instruction.operands
    )
