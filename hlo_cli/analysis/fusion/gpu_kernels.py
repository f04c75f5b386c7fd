"""How long do the kernels take that XLA:GPU generates, by its own model, as its fusion passes compute it?

Mirrors `EstimateRunTimeForInstruction` of xla/service/gpu/model/gpu_performance_model.cc. Kernels of libraries and of
Triton, matmuls, and collectives are not modeled; neither are chips without figures in `hardware/gpu_devices.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.dataflow.dependencies import EqualComputations, callees_first
from hlo_cli.analysis.fusion.gpu_emitters import bytes_of
from hlo_cli.analysis.fusion.gpu_model import KernelModel, KernelTime
from hlo_cli.analysis.fusion.gpu_rules import can_be_fused, is_triton
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.analysis.fusion.mutable_graph import Node, body_of
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import MATMULS, takes
from hlo_cli.ir.shape import ArrayShape, Shape

_FREE: Final = frozenset((opcodes.CONSTANT, opcodes.BITCAST))  # they launch nothing, though XLA can fuse them


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
    def arithmetic_seconds(self) -> float:
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

    @property
    def bytes_per_second(self) -> float:
        """The bandwidth that its blocks can use."""
        return self.time.blocks * self.device.clock_rate_ghz * 1e9 * self.device.transaction_bytes_per_clock


def gpu_kernels(computation: Computation, device: GpuDevice) -> Mapping[Instruction, GpuKernel]:
    """The generated kernels of a computation, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> entry = parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry
    >>> kernel, = gpu_kernels(entry, gpu_device("h100")).values()
    >>> f"{kernel.seconds * 1e6:.2f} µs", kernel.time.blocks, kernel.reads, kernel.is_compute_bound
    ('14.44 µs', 1954, (4000000,), True)
    """
    return GpuKernels(device).of(computation)


class GpuKernels:
    """The generated kernels of several computations; fusions that are equal but for names are modeled once.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> entry = parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry
    >>> GpuKernels(gpu_device("h100")).of(entry).keys() == gpu_kernels(entry, gpu_device("h100")).keys()
    True
    """

    __slots__ = ("_checks", "_device", "_equal", "_found", "_known")

    def __init__(self, device: GpuDevice) -> None:
        self._device = device
        self._checks = _Checks()
        self._equal = computed_once(EqualComputations)
        self._known: dict[tuple[object, ...], GpuKernel] = {}
        self._found: dict[Computation, Mapping[Instruction, GpuKernel]] = {}

    def of(self, computation: Computation) -> Mapping[Instruction, GpuKernel]:
        """The generated kernels of a computation, in the order of the text."""
        found = self._found.get(computation)
        if found is None:
            found = self._found[computation] = self._model(computation) if self._checks.is_sound(computation) else {}
        return found

    def _model(self, computation: Computation) -> Mapping[Instruction, GpuKernel]:
        model = KernelModel(self._device)
        kernels: dict[Instruction, GpuKernel] = {}
        # Nodes are made by the ten thousand and refer to each other; collecting them half way costs and frees nothing.
        with no_garbage_collection():
            for node in body_of(computation).nodes:
                if not _is_modeled(node):
                    continue
                key = self._key(node)
                kernel = self._known.get(key) if key else None
                if kernel is None:
                    reads = model.work(node).reads
                    sizes = tuple(bytes_of(operand.shape) for operand in node.operands)
                    kernel = GpuKernel(model.time(node), self._device, reads, sizes)
                    if key:
                        self._known[key] = kernel
                kernels[node.instruction] = kernel
        return kernels

    def _key(self, node: Node) -> tuple[object, ...]:
        """What the kernel of a fusion depends on; empty for other nodes, whose model is quick."""
        instruction = node.instruction
        if node.opcode != opcodes.FUSION or not (called := instruction.called_computations):
            return ()
        firsts = [self._equal.first(computation) for computation in callees_first(called)]
        attributes = tuple([pair for pair in instruction.pairs if pair[0] not in ("calls", "metadata")])
        # By identity, as hashing a shape is slow; an operand may be given twice.
        places: dict[Node, int] = {}
        operands = [(id(each.shape), each.opcode, places.setdefault(each, at)) for at, each in enumerate(node.operands)]
        return firsts[-1], id(instruction.shape), attributes, *operands


def _is_modeled(node: Node) -> bool:
    """Whether a node is a kernel that XLA generates without Triton."""
    if node.opcode in _FREE or not can_be_fused(node) or is_triton(node):
        return False
    if node.opcode == opcodes.FUSION and node.body is None:
        return False
    arrays = (leaf for _, leaf in node.shape.leaves if isinstance(leaf, ArrayShape))
    # Tiled layouts are those of TPUs; the model of a GPU says nothing about them.
    if any(array.layout.tiles for array in arrays):
        return False
    # A matmul in a fusion is emitted by Triton or cuDNN, whatever the kind says.
    return node.body is None or MATMULS.isdisjoint(node.body.by_opcode)


class _Checks:
    """Whether computations can be modeled: texts may be damaged, and the model takes consistent shapes for granted."""

    def __init__(self) -> None:
        self._computations: dict[Computation, bool] = {}
        self._shapes: dict[int, bool] = {}

    def is_sound(self, computation: Computation) -> bool:
        """Whether no root, operand, or layout of a computation and of the bodies of its fusions is missing or wrong."""
        found = self._computations.get(computation)
        if found is None:
            self._computations[computation] = False  # of a fusion that contains itself
            found = computation.root is not None and all(map(self._is_consistent, computation.instructions))
            self._computations[computation] = found
        return found

    def _is_consistent(self, instruction: Instruction) -> bool:
        computation, index, operands = instruction.computation, instruction.index, instruction.operands
        if not takes(instruction.opcode, len(operands)) or not self._has_layout(instruction.shape):
            return False
        # The graph is walked in the order of the text, so an operand has to come first.
        if not all(operand.computation is computation and operand.index < index for operand in operands):
            return False
        match instruction.opcode:
            case opcodes.FUSION:
                return all(map(self.is_sound, instruction.called_computations))
            # What follows are the attributes that the model indexes with; a wrong one would raise there.
            case opcodes.TRANSPOSE:
                ranks = {_rank_of(operands[0].shape), _rank_of(instruction.shape)}
                return {len(instruction.integers("dimensions"))} == ranks and _fits(instruction)
            case opcodes.REDUCE_WINDOW:
                window = instruction.window
                return window is not None and len(window.dimensions) == _rank_of(operands[0].shape)
            case opcodes.SCATTER:
                rank = _rank_of(operands[len(operands) // 2 + 1].shape)
                return all(0 <= d < rank for d in instruction.integers("update_window_dims"))
            case opcodes.CONCATENATE | opcodes.REDUCE:
                return _fits(instruction)
        return True

    def _has_layout(self, shape: Shape) -> bool:
        """Whether the layouts of the arrays of a shape name each dimension once; shapes are few."""
        is_complete = self._shapes.get(id(shape))
        if is_complete is None:
            arrays = (leaf for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))
            is_complete = self._shapes[id(shape)] = all(
                sorted(array.layout.minor_to_major) == list(range(array.rank)) for array in arrays
            )
        return is_complete


def _fits(instruction: Instruction) -> bool:
    """Whether its first operands have the dimensions that an operation names."""
    dimensions, rank = instruction.integers("dimensions"), _rank_of(instruction.operands[0].shape)
    shapes = [each.shape for each in instruction.operands] if instruction.opcode == opcodes.CONCATENATE else []
    shapes += [instruction.shape] if shapes else []
    return bool(dimensions) and all(0 <= d < rank for d in dimensions) and all(_rank_of(s) == rank for s in shapes)


def _rank_of(shape: Shape) -> int:
    return shape.rank if isinstance(shape, ArrayShape) else -1
