"""Predicted time of a kernel on a chip, with a band.

On a GPU, a kernel takes the larger of its compute time and its memory time at the share of the peak rates that is
usually reached, and the time of its launch; a matmul takes the time of its shape, if that is longer. On other chips,
no kernels were measured: the prediction is the roofline. The constants are in `hardware/time_model.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS, costs_of_kernels
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
from hlo_cli.ir.attributes.dimension_numbers import ConvolutionDimensionNumbers
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ANNOTATIONS, CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape

_OTHER_LINKS: Final = COLLECTIVES | HOST_FEEDS | CHANNEL_STARTS
_COMMAND_BUFFER: Final = "command_buffer"
"""Name of a computation that XLA launches as one graph (xla/service/gpu/transforms/command_buffer_scheduling.cc)."""
_VIEWS: Final = frozenset((opcodes.RESHAPE, opcodes.BITCAST))
_TILED_STAGES: Final = 11
"""Stages of a sort within one tile."""
_GPU_SOURCES: Final[frozenset[EstimateSource]] = frozenset(("roofline", "launch floor"))


def predicted_times(instructions: Iterable[Instruction], chip: ChipSpec) -> Mapping[Instruction, Estimate]:
    """The predicted time of one run of each kernel among the instructions; kernels of unknown time are left out.

    >>> from hlo_cli import chip_spec, parse_module
    >>> entry = parse_module("r = f32[1000000] add(f32[1000000] a, f32[1000000] b)").entry
    >>> [found.name for found in predicted_times(entry.instructions, chip_spec("h100"))]
    ['r']
    """
    costs = costs_of_kernels(instructions)
    found = {each: predicted_time(each, chip, cost=cost) for each, cost in costs.items()}
    return {each: estimate for each, estimate in found.items() if estimate is not None}


def predicted_time(instruction: Instruction, chip: ChipSpec, *, cost: Cost | None = None) -> Estimate | None:
    """The predicted time of one run of a kernel; None if its cost or rate is unknown, or for a transfer between chips.

    `cost` is that of the instruction, if it is at hand. Operations that launch no kernel take no time. For
    collectives, see `predicted_collective_time` of `sharding/link_time.py`.

    >>> from hlo_cli import chip_spec, parse_module
    >>> text = "r = f32[512,512] dot(f32[512,9] a, f32[9,512] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = parse_module(text).entry.root
    >>> for chip in ("h100", "a100-80gb", "v5e"):
    ...     found = predicted_time(dot, chip_spec(chip))
    ...     print(", ".join(f"{seconds * 1e6:.1f}" for seconds in (found.low, found.seconds, found.high)))
    4.9, 6.1, 7.6
    4.1, 5.8, 8.4
    0.0, 1.3, 2.5
    """
    if cost is None:
        if instruction.opcode in NO_KERNELS:
            return NO_TIME
        cost = costs_of_kernels((instruction,))[instruction]
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
    if opcode in _OTHER_LINKS:
        return None
    found, matmuls = kernel_roofline(instruction, cost, chip)
    return None if found.bound == "unknown" else kernel_estimate(instruction, found, matmuls, chip)


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


def kernel_estimate(instruction: Instruction, found: Roofline, matmuls: Sequence[Matmul], chip: ChipSpec) -> Estimate:
    """The predicted time of a kernel with this roofline and these matmuls.

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
    if _moves_nothing(instruction):
        return NO_TIME
    work = KERNEL_SLOWDOWN * found.seconds
    launches = 1
    if instruction.opcode in NO_KERNELS:
        launches = _kernels_of(instruction)
    elif instruction.opcode == opcodes.SORT:
        launches = sort_kernels(instruction)
        work *= launches
    seconds = work + launches * LAUNCH_SECONDS
    certain = work if instruction.computation.name.startswith(_COMMAND_BUFFER) else seconds
    estimate = Estimate(KERNEL_BAND[0] * certain, seconds, KERNEL_BAND[1] * seconds, _GPU_SOURCES)
    shapes = [_matmul_time(each, chip) for each in matmuls]
    if known := [each for each in shapes if each is not None]:
        product = total(known)
        is_alone = len(known) == 1 and matmuls[0].instruction is instruction and "table" in product.sources
        estimate = product if is_alone else longest(product, estimate)
    return estimate.at_least(found.at_least_seconds)


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


def _moves_nothing(instruction: Instruction) -> bool:
    """Whether GPU compilers make a bitcast of an operation, or remove it."""
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return instruction.string("custom_call_target") in ANNOTATIONS
    if instruction.opcode != opcodes.FUSION:
        return instruction.opcode in _VIEWS
    inner = (each.opcode for computation in instruction.called_computations for each in computation.instructions)
    return all(opcode in _VIEWS or opcode in NO_KERNELS for opcode in inner)
