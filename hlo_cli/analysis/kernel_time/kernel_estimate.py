"""Estimated time of a kernel from its roofline, or from XLA's own model, with a band.

On a GPU, a kernel that XLA generates takes the time of XLA's model (`gpu_kernels.py`); other kernels take the larger of
their compute time and their memory time at the share of the peak rates that is usually reached; a matmul takes the time
of its shape, if that is longer. All take the time of their launch in addition. On other chips, no kernels were
measured: the estimate is the roofline. The constants are in `hardware/time_model.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS
from hlo_cli.analysis.cost.matmul_time import matmul_time
from hlo_cli.analysis.cost.matmul_type import matmul_type
from hlo_cli.analysis.cost.matmuls import Matmul
from hlo_cli.analysis.cost.needed_bytes import needed_cost
from hlo_cli.analysis.cost.roofline import Roofline, matmuls_within, roofline, type_among
from hlo_cli.analysis.dataflow.computation_contexts import CONTROL_FLOW
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.estimate import NO_TIME, Estimate, EstimateSource, longest, total
from hlo_cli.analysis.hardware.time_model import KERNEL_BAND, KERNEL_SLOWDOWN, LAUNCH_SECONDS, TPU_BAND
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ANNOTATIONS
from hlo_cli.ir.shape import ArrayShape

if TYPE_CHECKING:  # only GPUs need the model
    from hlo_cli.analysis.kernel_time.gpu_kernels import GpuKernel

_COMMAND_BUFFER: Final = "command_buffer"
"""Name of a computation that XLA launches as one graph (xla/service/gpu/transforms/command_buffer_scheduling.cc)."""
_VIEWS: Final = frozenset((opcodes.RESHAPE, opcodes.BITCAST))
_TILED_STAGES: Final = 11
"""Stages of a sort within one tile."""
_GPU_SOURCES: Final[frozenset[EstimateSource]] = frozenset(("roofline", "launch floor"))
_XLA_SOURCES: Final[frozenset[EstimateSource]] = frozenset(("XLA model", "launch floor"))


def kernel_roofline(
    instruction: Instruction, cost: Cost, chip: ChipSpec, element_type: str | None = None
) -> tuple[Roofline, Sequence[Matmul]]:
    """The roofline of a kernel and its matmuls; on a GPU, without operands that it does not read.

    `element_type` is that of its flops, if at hand.

    >>> from hlo_cli import chip_spec, parse_module
    >>> add = parse_module("r = f32[9] add(f32[9] a, f32[9] b)").entry.root
    >>> kernel_roofline(add, Cost({"bytes accessed": 3.35232e12}), chip_spec("h100"))[0].seconds
    1.0
    """
    matmuls = matmuls_within(instruction)
    needed = needed_cost(instruction, cost) if chip.cores else cost
    return roofline(needed, chip, element_type or type_among(instruction, matmuls)), matmuls


def kernel_estimate(
    instruction: Instruction,
    found: Roofline,
    matmuls: Sequence[Matmul],
    chip: ChipSpec,
    kernel: GpuKernel | None = None,
) -> Estimate:
    """The predicted time of a kernel with this roofline and these matmuls; `kernel` is XLA's own account of it.

    >>> from hlo_cli import chip_spec, parse_module
    >>> text = "r = f32[512,512] dot(f32[512,9] a, f32[9,512] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = parse_module(text).entry.root
    >>> long = Roofline("memory", 1.0, 2.0, 1.0)
    >>> kernel_estimate(dot, long, matmuls_within(dot), chip_spec("v5e"))
    Estimate(low=1.0, seconds=2.0, high=3.84, sources=frozenset({'roofline'}))
    """
    if not chip.cores:
        least, most = found.at_least_seconds, found.seconds * TPU_BAND[1]
        return Estimate(least, found.seconds, most, frozenset(("roofline",)))
    if moves_nothing(instruction):
        return NO_TIME
    launches, work = 1, KERNEL_SLOWDOWN * found.seconds
    if instruction.opcode in NO_KERNELS:
        launches = _kernels_of(instruction)
    elif instruction.opcode == opcodes.SORT:
        launches = sort_kernels(instruction)
        work *= launches
    estimate = _launched(instruction, work, launches, _GPU_SOURCES)
    if kernel is not None:
        estimate = _widened(_launched(instruction, kernel.seconds, 1, _XLA_SOURCES), estimate)
    shapes = [_matmul_time(each, chip) for each in matmuls]
    if known := [each for each in shapes if each is not None]:
        product = total(known)
        is_alone = len(known) == 1 and matmuls[0].instruction is instruction and "table" in product.sources
        estimate = product if is_alone else longest(product, estimate)
    return estimate.at_least(found.at_least_seconds)


def _launched(instruction: Instruction, work: float, launches: int, sources: frozenset[EstimateSource]) -> Estimate:
    """Kernels with this work in seconds; those of a command buffer may launch faster."""
    launch = launches * LAUNCH_SECONDS
    seconds = work + launch
    certain = work if instruction.computation.name.startswith(_COMMAND_BUFFER) else seconds
    return Estimate(KERNEL_BAND[0] * certain, seconds, KERNEL_BAND[1] * seconds, sources, launch)


def _widened(estimate: Estimate, other: Estimate) -> Estimate:
    """An estimate whose band contains that of another."""
    low, high = min(estimate.low, other.low), max(estimate.high, other.high)
    return Estimate(low, estimate.seconds, high, estimate.sources, estimate.launch_seconds)


def _matmul_time(matmul: Matmul, chip: ChipSpec) -> Estimate | None:
    is_convolution = isinstance(matmul.numbers, ConvolutionDimensionNumbers)
    shape = matmul.batch, matmul.m, matmul.n, matmul.k
    return matmul_time(shape, matmul_type(matmul), chip, moved_bytes=matmul.logical_bytes if is_convolution else None)


def sort_kernels(sort: Instruction) -> int:
    """The number of kernels of a sort, each of which reads and writes all operands.

    Compares at distances below a tile of 2,048 elements share a kernel; each larger distance of the bitonic network
    takes a kernel of its own. Mirrors `EmitSort` of xla/service/gpu (ir_emitter_unnested.cc).

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[{}] sort(f32[{}] a), dimensions={{0}}, to_apply=f"
    >>> [sort_kernels(parse_module(text.format(size, size)).entry.root) for size in (1000, 2048, 2049, 65536)]
    [1, 1, 3, 21]
    """
    array = next((leaf for _, leaf in sort.shape.leaves if isinstance(leaf, ArrayShape)), None)
    dimension = next(iter(sort.integers("dimensions")), -1)
    if array is None or not 0 <= dimension < array.rank:
        return 1
    stages = max(array.sizes[dimension] - 1, 0).bit_length()
    return 1 + sum(stage - _TILED_STAGES + 2 for stage in range(_TILED_STAGES, stages))


def _kernels_of(instruction: Instruction) -> int:
    """The number of kernels that a loop or call runs, one iteration of each loop."""
    found, seen = 0, set[Computation]()
    waiting = [instruction]
    while waiting:
        for computation in waiting.pop().called_computations:
            if computation not in seen:
                seen.add(computation)
                waiting += (each for each in computation.instructions if each.opcode in CONTROL_FLOW)
                found += sum(each.opcode not in NO_KERNELS for each in computation.instructions)
    return found


def moves_nothing(instruction: Instruction) -> bool:
    """Whether GPU compilers make a bitcast of an operation, or remove it.

    >>> from hlo_cli import parse_module
    >>> moves_nothing(parse_module("r = f32[6] reshape(f32[2,3] a)").entry.root)
    True
    """
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return instruction.string("custom_call_target") in ANNOTATIONS
    if instruction.opcode != opcodes.FUSION:
        return instruction.opcode in _VIEWS
    inner = (each.opcode for computation in instruction.called_computations for each in computation.instructions)
    return all(opcode in _VIEWS or opcode in NO_KERNELS for opcode in inner)
