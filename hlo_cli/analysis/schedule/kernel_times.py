"""How long does a kernel take on a chip: its roofline, the time of a matmul, the predicted time with a band?

On a GPU, kernels that XLA generates take the time of XLA's own model (`fusion/gpu_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS, costs_of_kernels
from hlo_cli.analysis.cost.counting import BYTES, Cost, Number, output_key
from hlo_cli.analysis.cost.matmuls import (
    MAY_BE_MATMULS,
    Matmul,
    attention_of,
    convolution_kind,
    matmul_of,
    matmul_type,
)
from hlo_cli.analysis.dataflow.dependencies import callees_first, instruction_post_order, target_of_root
from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW, executions_of, trip_count
from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.chip_table import Calibration
from hlo_cli.analysis.hardware.chips import cores_together, is_tpu
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice, device_of
from hlo_cli.analysis.hardware.measured_times import matmul_time
from hlo_cli.analysis.hardware.time_model import (
    ATTENTION_BAND,
    CONVOLUTION_FACTORS,
    KERNEL_BAND,
    KERNEL_SLOWDOWN,
    LAUNCH_SECONDS,
    LONG_LOOP,
    LOOP_LAUNCH_SECONDS,
    NO_TIME,
    TF32_ON_REQUEST,
    TPU_BAND,
    TPU_FLOOR_SECONDS,
    TPU_MATMUL_FACTOR,
    TPU_MATMUL_MOST,
    TPU_TOUCHED_BAND,
    TPU_TOUCHED_FACTOR,
    TPU_VMEM_RATE,
    UNMEASURED_CONVOLUTIONS,
    Band,
    Estimate,
    EstimateSource,
    longest,
    total,
)
from hlo_cli.analysis.schedule.kernel_classes import SMALL, SMALL_SHARE, kernel_class
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import (
    ANNOTATIONS,
    ASYNC_COLLECTIVE_DONE,
    ASYNC_COLLECTIVE_START,
    CHANNEL_STARTS,
    COLLECTIVES,
    ELEMENTWISE,
    HOST_FEEDS,
    MOVES,
    wrapped_opcode,
)
from hlo_cli.ir.shape import ArrayShape, Shape

if TYPE_CHECKING:
    from hlo_cli.analysis.fusion.gpu_kernels import GpuKernel, GpuKernels


# --- bytes that a fusion needs ---
# XLA's cost analysis counts a whole operand if a gather reads from it, or if anything is between it and a slice. A
# kernel computes only the elements of its result, and reads only what they depend on.


_PARTIAL_READS: Final = frozenset((opcodes.GATHER, opcodes.SLICE, opcodes.DYNAMIC_SLICE))
"""Operations that read as many elements of their first operand as their result has."""
_ONE_TO_ONE: Final = ELEMENTWISE | (MOVES - _PARTIAL_READS)
"""Operations that need at most one element of each operand for each element of their result."""


def needed_cost(instruction: Instruction, cost: Cost) -> Cost:
    """The cost of an operation without the bytes that it does not need; that of XLA unless it gathers or slices.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''f { p = f32[1000,64] parameter(0)  i = s32[8] parameter(1)
    ...   g = f32[8,64] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    ...     index_vector_dim=1, slice_sizes={1,64}
    ...   ROOT n = f32[8,64] negate(g) }
    ... ENTRY e { a = f32[1000,64] parameter(0)  j = s32[8] parameter(1)
    ...   ROOT r = f32[8,64] fusion(a, j), kind=kLoop, calls=f }'''
    >>> fusion = parse_module(text).entry.root
    >>> cost_of(fusion).bytes_accessed, needed_cost(fusion, cost_of(fusion)).bytes_accessed
    (258080, 4128)
    """
    if instruction.opcode != opcodes.FUSION or not instruction.called_computations:
        return cost
    body = instruction.called_computations[0]
    if body.root is None or not any(each.opcode in _PARTIAL_READS for each in body.instructions):
        return cost
    # From the root: infinite means all of it, which the size of each value then bounds.
    needed: dict[Instruction, float] = {body.root: inf}
    unneeded = 0.0
    numbers = {parameter: number for number, parameter in enumerate(body.parameters)}
    for each in _users_first(body):
        shape = each.shape
        elements = shape.elements if isinstance(shape, ArrayShape) else inf
        count = min(needed.get(each, 0.0), elements)
        if each.opcode == opcodes.PARAMETER and isinstance(shape, ArrayShape) and elements:
            read = cost.operand_bytes(numbers[each])
            # In proportion: XLA's own figure where it already counted a slice is kept, as it is not larger.
            unneeded += max(read - ceil(count / elements * shape.logical_bytes), 0)
        for number, operand in enumerate(each.operands):
            needed[operand] = needed.get(operand, 0.0) + _needed_of(each, number, count)
    accessed = cost.bytes_accessed - round(unneeded)
    return Cost({**cost.properties, BYTES: accessed}, cost.unknown) if unneeded else cost


def _users_first(body: Computation) -> Iterator[Instruction]:
    """The instructions of a computation, users before their operands; a text has them in the opposite order."""
    instructions = body.instructions
    # The order of control dependencies does not matter here, and takes long to find.
    if all(operand.index < each.index for each in instructions for operand in each.operands):
        return reversed(instructions)
    return (instructions[position] for position in reversed(instruction_post_order(body)))


def _needed_of(user: Instruction, number: int, count: float) -> float:
    """How many elements of an operand are needed for so many of the result, at most."""
    if user.opcode in _ONE_TO_ONE or (user.opcode in _PARTIAL_READS and not number):
        return count
    return inf if count else 0.0


# --- bytes in VMEM ---
# A TPU kernel reads and writes what the compiler assigned to VMEM without the main memory.


def vmem_bytes(instruction: Instruction, cost: Cost) -> Number:
    """Those of the bytes that an operation of a TPU accesses that are in VMEM.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = "r = f32[1024]{0:T(1024)} negate(f32[1024]{0:T(1024)S(1)} a)"
    >>> negate = parse_module(text).entry.root
    >>> vmem_bytes(negate, cost_of(negate)), cost_of(negate).bytes_accessed
    (4096, 8192)
    """
    found: Number = 0
    for number in range(len(instruction.operands)):
        if _is_in_vmem(instruction.operand_shape(number)):
            found += cost.operand_bytes(number)
    for index, leaf in instruction.shape.leaves:
        if _is_in_vmem(leaf):
            # A tuple without bytes of each leaf, such as that of a sort, writes its leaves.
            found += cost.properties.get(output_key(index), leaf.logical_bytes if index else cost.output_bytes)
    return min(found, cost.bytes_accessed)


def _is_in_vmem(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and shape.layout.memory_space == TpuMemorySpace.VMEM


# --- the roofline ---
# The minimum time is the larger of flops at the peak rate and bytes at the bandwidth of their memory. Mirrors the
# bottleneck in `HloCostAnalysis::Postprocess` of xla/service/hlo_cost_analysis.cc, which knows the main memory alone.


Bound = Literal["compute", "memory", "vmem", "links", "free", "unknown"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bound of an operation, and its times in seconds at the roofline; None if the rate is unknown.

    `ridge` is the intensity, in flops per byte, from which on operations of this type are compute bound.
    `uncached_seconds` is the memory time if everything that fits in caches stays there, and `uniform_seconds` is that
    of a TPU as if VMEM were main memory.
    """

    bound: Bound
    compute_seconds: float | None
    memory_seconds: float
    ridge: float | None
    uncached_seconds: float = 0.0
    uniform_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Larger of compute and memory time, if all bytes that are not in VMEM go through the main memory."""
        return max(self.compute_seconds or 0.0, self.memory_seconds)

    @property
    def at_least_seconds(self) -> float:
        """Lower bound for any schedule, even if caches are used fully."""
        return max(self.compute_seconds or 0.0, self.uncached_seconds)


def roofline(cost: Cost, throughput: ChipSpec, element_type: str, in_vmem: Number = 0) -> Roofline:
    """Roofline of a cost on a chip that computes in `element_type`; `in_vmem` of its bytes do not use main memory.

    The bound is `unknown` if a part of the cost or the rate of the chip is unknown, and `free` if the cost is zero.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> v5e = chip_spec("v5e")
    >>> roofline(Cost({"flops": 4e12, "bytes accessed": 1e9}), v5e, "bf16").bound
    'compute'
    >>> found = roofline(Cost({"flops": 1e9, "bytes accessed": 819e9}), v5e, "bf16")
    >>> found.bound, found.seconds, round(found.ridge)
    ('memory', 1.0, 241)
    >>> roofline(Cost({"flops": 1e9, "bytes accessed": 819e9}), v5e, "bf16", in_vmem=819e9).bound
    'vmem'
    >>> roofline(Cost(), v5e, "bf16").bound, roofline(Cost({}, unknown=1), v5e, "bf16").bound
    ('free', 'unknown')
    """
    peak, flops = throughput.at_most(element_type), max(cost.flops, 0)
    bandwidth, accessed = throughput.memory.per_second, max(cost.bytes_accessed, 0)
    main, vmem = (accessed - in_vmem) / bandwidth, in_vmem / (TPU_VMEM_RATE * bandwidth)
    memory, uncached = main + vmem, max(accessed - throughput.cache_bytes, 0) / bandwidth
    if peak is None:  # nothing to calculate takes no time, whatever the chip
        # A rate that is unknown leaves only kernels without flops certain.
        compute, ridge = (None if flops else 0.0), None
    else:
        compute, ridge = flops / peak.per_second, peak.per_second / bandwidth
    bound = _bound_of(cost, compute, memory)
    if bound == "memory" and vmem > main:
        bound = "vmem"
    return Roofline(bound, compute, memory, ridge, uncached, accessed / bandwidth)


def compute_type(instruction: Instruction) -> str:
    """Element type of most flops of an operation: that of its largest matmul, else of its result.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2,5] dot(s8[2,3] a, s8[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> compute_type(parse_module(text).entry.root)
    's8'
    """
    return computed_once(_compute_type, instruction)


def _compute_type(instruction: Instruction) -> str:
    return _type_among(instruction, matmuls_within(instruction))


def matmuls_within(instruction: Instruction) -> Sequence[Matmul]:
    """Matmuls of an operation and of all that it calls.

    >>> from hlo_cli import parse_module
    >>> matmuls_within(parse_module("r = f32[2] negate(f32[2] a)").entry.root)
    []
    """
    inner = (i for computation in callees_first(instruction.called_computations) for i in computation.instructions)
    matmuls = (matmul_of(each) for each in (instruction, *inner) if each.opcode in MAY_BE_MATMULS)
    return [matmul for matmul in matmuls if matmul is not None]


def _type_among(instruction: Instruction, matmuls: Sequence[Matmul]) -> str:
    """`compute_type` of an operation with these matmuls.

    >>> from hlo_cli import parse_module
    >>> _type_among(parse_module("r = s8[2] negate(s8[2] a)").entry.root, ())
    's8'
    """
    if matmuls:
        return matmul_type(max(matmuls, key=lambda matmul: matmul.flops))
    arrays = (leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape))
    # Tokens and empty tuples compute nothing; any type does.
    return next((array.element_type.name for array in arrays), "f32")


def _bound_of(cost: Cost, compute: float | None, memory: float) -> Bound:
    if cost.unknown or compute is None:
        return "unknown"
    if not compute and not memory:
        return "free"
    return "compute" if compute >= memory else "memory"


# --- estimated time of a kernel ---
# On a GPU, a kernel that XLA generates takes the time of XLA's model (`gpu_kernels` of fusion); others take the larger
# of their compute time and their memory time at the share of the peak rates that is usually reached; a matmul takes the
# time of its shape, if that is longer. All take the time of their launch in addition. On other chips, no kernels were
# measured: the estimate is the roofline. The constants are in `hardware/time_model.py`.


# Kernels of a graph launch faster by an amount that no table has, so that only their lower end changes.
_COMMAND_BUFFER: Final = "command_buffer"
"""Name of a computation that XLA launches as one graph (xla/service/gpu/transforms/command_buffer_scheduling.cc)."""
_VIEW_OPCODES: Final = frozenset((opcodes.RESHAPE, opcodes.BITCAST))
_TILED_STAGES: Final = 11  # 2 to this power is the tile of 2,048 elements
"""Stages of a sort within one tile."""
# The launch is named apart, as it is most of the time of small kernels.
_GPU_SOURCES: Final[frozenset[EstimateSource]] = frozenset(("roofline", "launch floor"))
_XLA_SOURCES: Final[frozenset[EstimateSource]] = frozenset(("XLA model", "launch floor"))


def _kernel_roofline(
    instruction: Instruction, cost: Cost, chip: ChipSpec, element_type: str | None = None
) -> tuple[Roofline, Sequence[Matmul]]:
    """The roofline of a kernel and its matmuls; on a GPU, without operands that it does not read.

    `element_type` is that of its flops, if at hand.

    >>> from hlo_cli import chip_spec, parse_module
    >>> add = parse_module("r = f32[9] add(f32[9] a, f32[9] b)").entry.root
    >>> _kernel_roofline(add, Cost({"bytes accessed": 3.35232e12}), chip_spec("h100"))[0].seconds
    1.0
    """
    matmuls = matmuls_within(instruction)
    needed = needed_cost(instruction, cost) if chip.cores else cost
    in_vmem = vmem_bytes(instruction, needed) if is_tpu(chip.chip) else 0
    return roofline(needed, chip, element_type or _type_among(instruction, matmuls), in_vmem), matmuls


def _kernel_estimate(
    instruction: Instruction,
    kernel_roofline: Roofline,
    matmuls: Sequence[Matmul],
    chip: ChipSpec,
    kernel: GpuKernel | None = None,
    launch_seconds: float = LAUNCH_SECONDS,
) -> Estimate:
    """The predicted time of a kernel with this roofline and these matmuls; `kernel` is XLA's own account of it.

    `launch_seconds` is what its launch takes.

    >>> from hlo_cli import chip_spec, parse_module
    >>> text = "r = f32[512,512] dot(f32[512,9] a, f32[9,512] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = parse_module(text).entry.root
    >>> long = Roofline("memory", 1.0, 2.0, 1.0)
    >>> _kernel_estimate(dot, long, matmuls_within(dot), chip_spec("v5e"))
    Estimate(low=1.0, seconds=2.48, high=2.84, sources=frozenset({'roofline'}))
    """
    if not chip.cores:
        return _estimate_of_tpu(instruction, kernel_roofline, matmuls, chip)
    if moves_nothing(instruction):
        return NO_TIME
    launches, work = 1, KERNEL_SLOWDOWN * kernel_roofline.seconds
    if instruction.opcode in NO_KERNELS:
        launches = _kernels_of(instruction)
    elif instruction.opcode == opcodes.SORT:
        launches = _sort_kernels(instruction)
        work *= launches
    estimate = _launched(instruction, work, launches * launch_seconds, _GPU_SOURCES)
    if kernel is not None:
        # XLA's model is the better guess, but was made to compare fusions: its band is that of the roofline, too.
        estimate = _widened(_launched(instruction, kernel.seconds, launch_seconds, _XLA_SOURCES), estimate)
    if (attention := _time_of_attention(instruction, chip)) is not None:
        return longest(attention, estimate).at_least(kernel_roofline.at_least_seconds)
    shapes = [_time_of_matmul(each, chip) for each in matmuls]
    if known := [each for each in shapes if each is not None]:
        product = total(known)
        # A measured matmul needs no bound of other kernels; in a fusion more is computed with it.
        is_alone = len(known) == 1 and matmuls[0].instruction is instruction and "table" in product.sources
        estimate = product if is_alone else longest(product, estimate)
        # Together, as the slow part of a convolution may be its memory accesses.
        if (kind := convolution_kind(max(matmuls, key=lambda each: each.flops))) is not None:
            estimate = _as_convolution(estimate, kind, chip)
    return estimate.at_least(kernel_roofline.at_least_seconds)


def _estimate_of_tpu(
    instruction: Instruction, kernel_roofline: Roofline, matmuls: Sequence[Matmul], chip: ChipSpec
) -> Estimate:
    """The time of an operation of a TPU, or of a chip of the user without cores, of which only rates are known."""
    least, seconds, (_, most) = kernel_roofline.at_least_seconds, kernel_roofline.seconds, TPU_BAND
    if not is_tpu(chip.chip):
        return Estimate(least, seconds, seconds * most, frozenset(("roofline",)))
    # The rate of VMEM is uncertain: the band ends where it would be that of the main memory.
    slowest = max(seconds, kernel_roofline.uniform_seconds)
    if matmuls:
        seconds, most = seconds * TPU_MATMUL_FACTOR, TPU_MATMUL_MOST / TPU_MATMUL_FACTOR
        slowest *= TPU_MATMUL_FACTOR
    elif touched := _touched_bytes(instruction):
        rate = chip.memory.per_second / cores_together(chip.chip)  # one core updates slices, as on v5p
        tiles = TPU_TOUCHED_FACTOR * touched / rate
        if tiles > seconds:
            seconds = slowest = tiles
            most = TPU_TOUCHED_BAND[1]
            least = max(least, tiles * TPU_TOUCHED_BAND[0])
    if seconds:
        # Not below the bound of the roofline, which is 0 for what fits into VMEM.
        seconds = max(seconds, TPU_FLOOR_SECONDS)
    return Estimate(min(least, seconds), seconds, max(seconds, slowest) * most, frozenset(("roofline",)))


def _touched_bytes(instruction: Instruction) -> int:
    """The bytes of the tiles in main memory that slice updates read and write, of those that change parts of tiles.

    >>> from hlo_cli import parse_module
    >>> layout = "{1,0:T(8,128)}"
    >>> operands = f"f32[64,1024]{layout} a, f32[64,1]{layout} u, s32[] i, s32[] j"
    >>> text = f"r = f32[64,1024]{layout} dynamic-update-slice({operands})"
    >>> _touched_bytes(parse_module(text).entry.root)  # a tile of 128 columns for one of them
    65536
    """
    inner = (each for called in instruction.called_computations for each in called.instructions)
    touched = 0
    for each in (instruction, *(inner if instruction.opcode == opcodes.FUSION else ())):
        if each.opcode == opcodes.DYNAMIC_UPDATE_SLICE and len(each.operands) > 1:
            whole, update = each.shape, each.operand_shape(1)
            is_array = isinstance(whole, ArrayShape) and isinstance(update, ArrayShape)
            if is_array and whole.layout.memory_space == MemorySpace.MAIN and whole.rank == update.rank:
                # The tiles are those of the array that is updated, whatever the layout of the update.
                padded = replace(whole, dimensions=update.dimensions).padded_bytes
                touched += 2 * padded if padded > update.logical_bytes else 0
    return touched


def _as_convolution(matmul: Estimate, kind: str, chip: ChipSpec) -> Estimate:
    """The time of a convolution whose equivalent matmul has this estimate."""
    is_measured = chip.chip in TF32_ON_REQUEST  # chips of AMD
    factor, band = CONVOLUTION_FACTORS[kind] if is_measured else (1.0, UNMEASURED_CONVOLUTIONS)
    seconds = matmul.seconds * factor
    return Estimate(seconds * band[0], seconds, seconds * band[1], frozenset(("convolution",)))


def _time_of_attention(instruction: Instruction, chip: ChipSpec) -> Estimate | None:
    """The time of the matmuls of attention in a library, one after the other in one kernel."""
    found = attention_of(instruction)
    if found is None:
        return None
    shape = found.batch, found.queries, found.keys, found.head
    kind = "tf32" if found.element_type == "f32" else found.element_type
    # Scores stay in the cores: only the operands of the call are read, and its results are written.
    once = matmul_time(shape, kind, chip, moved_bytes=0)
    return None if once is None else _rebanded(once * found.products, ATTENTION_BAND)


def _rebanded(estimate: Estimate, band: Band) -> Estimate:
    """An estimate with another band."""
    seconds = estimate.seconds
    return Estimate(seconds * band[0], seconds, seconds * band[1], estimate.sources, estimate.launch_seconds)


def _launched(instruction: Instruction, work: float, launch: float, sources: frozenset[EstimateSource]) -> Estimate:
    """Kernels with this work and time of launches in seconds; those of a command buffer may launch faster."""
    seconds = work + launch
    certain = work if instruction.computation.name.startswith(_COMMAND_BUFFER) else seconds
    return Estimate(KERNEL_BAND[0] * certain, seconds, KERNEL_BAND[1] * seconds, sources, launch)


def _widened(estimate: Estimate, other: Estimate) -> Estimate:
    """An estimate whose band contains that of another."""
    low, high = min(estimate.low, other.low), max(estimate.high, other.high)
    return Estimate(low, estimate.seconds, high, estimate.sources, estimate.launch_seconds)


def _time_of_matmul(matmul: Matmul, chip: ChipSpec) -> Estimate | None:
    is_convolution = isinstance(matmul.numbers, ConvolutionDimensionNumbers)
    shape = matmul.batch, matmul.m, matmul.n, matmul.k
    lhs, rhs, result = (each.element_type.name for each in (matmul.lhs, matmul.rhs, matmul.result))
    types, moved = f"{lhs}x{rhs}->{result}", matmul.logical_bytes if is_convolution else None
    return matmul_time(shape, matmul_type(matmul), chip, types=types, moved_bytes=moved)


def _sort_kernels(sort: Instruction) -> int:
    """The number of kernels of a sort, each of which reads and writes all operands.

    Compares at distances below a tile of 2,048 elements share a kernel; each larger distance of the bitonic network
    takes a kernel of its own. Mirrors `EmitSort` of xla/service/gpu (ir_emitter_unnested.cc).

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[{}] sort(f32[{}] a), dimensions={{0}}, to_apply=f"
    >>> [_sort_kernels(parse_module(text.format(size, size)).entry.root) for size in (1000, 2048, 2049, 65536)]
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
    count, visited = 0, set[Computation]()
    waiting = [instruction]
    while waiting:
        for computation in waiting.pop().called_computations:
            if computation not in visited:
                visited.add(computation)
                waiting += (each for each in computation.instructions if each.opcode in CONTROL_FLOW)
                count += sum(each.opcode not in NO_KERNELS for each in computation.instructions)
    return count


def moves_nothing(instruction: Instruction) -> bool:
    """Whether GPU compilers make a bitcast of an operation, or remove it.

    >>> from hlo_cli import parse_module
    >>> moves_nothing(parse_module("r = f32[6] reshape(f32[2,3] a)").entry.root)
    True
    """
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return instruction.string("custom_call_target") in ANNOTATIONS
    if instruction.opcode != opcodes.FUSION:
        return instruction.opcode in _VIEW_OPCODES
    inner = (each.opcode for computation in instruction.called_computations for each in computation.instructions)
    return all(opcode in _VIEW_OPCODES or opcode in NO_KERNELS for opcode in inner)


# --- predicted times, which commands ask ---


_OTHER_LINKS: Final = COLLECTIVES | HOST_FEEDS | CHANNEL_STARTS


def _calibrated(estimate: Estimate, calibration: Calibration, kind: str) -> Estimate:
    """The time of a kernel on a machine that was measured, from that of the model."""
    work = estimate.kernel_seconds
    if work <= SMALL_SHARE * calibration.seconds_per_kernel:
        kind = SMALL
    found = calibration.of(kind)
    seconds = found.seconds + found.factor * work
    sources = frozenset[EstimateSource](("calibration",))
    return Estimate(seconds * found.low, seconds, seconds * found.high, sources, found.seconds)


class Prediction(NamedTuple):
    """The roofline of a kernel, its predicted time, and XLA's own account of it, if there is one.

    With `kernel`, the bound of the roofline is that of XLA's model.
    """

    roofline: Roofline
    estimate: Estimate
    kernel: GpuKernel | None = None

    @property
    def kernel_seconds(self) -> float:
        """The time of the kernel without its launch."""
        return self.estimate.kernel_seconds if self.kernel is None else self.kernel.seconds


class KernelTimes:
    """Predicted times of kernels on a chip; XLA's model runs once for each computation of which a kernel is asked.

    With `by_roofline`, all kernels have the time of their roofline: fusions that XLA's GPU compiler did not make may
    read and compute far more often, by its model, than any kernel that it would make.

    >>> from hlo_cli import chip_spec, parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> sine = parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry.root
    >>> for chip in ("h100", "v5e"):
    ...     found = KernelTimes(chip_spec(chip)).predict(sine, cost_of(sine))
    ...     times = found.kernel_seconds, found.estimate.launch_seconds
    ...     print(found.roofline.bound, [f"{seconds * 1e6:.2f}" for seconds in times], *sorted(found.estimate.sources))
    compute ['14.44', '2.95'] XLA model launch floor
    memory ['9.77', '0.00'] roofline
    """

    __slots__ = ("_device", "_executions", "_is_asked", "_kernels", "_uncomputed", "chip")

    def __init__(self, chip: ChipSpec, *, by_roofline: bool = False, module: Module | None = None) -> None:
        """Prepares the times; with `module`, kernels in it that the chip never launches take no time."""
        self.chip = chip
        has_counters = module is not None and bool(chip.cores)
        self._uncomputed = _conditions_of_counted_loops(module) if module is not None and has_counters else frozenset()
        self._executions = executions_of(module) if module is not None and has_counters else {}
        self._device: GpuDevice | None = None
        self._is_asked = by_roofline
        self._kernels: GpuKernels | None = None

    def predict(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction:
        """The prediction of a kernel; `element_type` is that of its flops, if at hand."""
        kernel_roofline, matmuls = _kernel_roofline(instruction, cost, self.chip, element_type)
        is_no_call = instruction.opcode == opcodes.CUSTOM_CALL and not is_launched(instruction)
        if is_no_call or instruction.computation in self._uncomputed:
            return Prediction(replace(kernel_roofline, bound="free"), NO_TIME)
        if kernel_roofline.bound == "unknown" and attention_of(instruction) is not None:
            # XLA has no cost of such a call, but its matmuls are known.
            kernel_roofline = replace(kernel_roofline, bound="compute")
        kernel = None if matmuls else self.generated(instruction)
        if kernel is not None:
            kernel_roofline = replace(kernel_roofline, bound="compute" if kernel.is_compute_bound else "memory")
        launch = self._launch_seconds(instruction)
        estimate = _kernel_estimate(instruction, kernel_roofline, matmuls, self.chip, kernel, launch)
        if self.chip.calibration is not None and estimate.seconds:
            estimate = _calibrated(estimate, self.chip.calibration, kernel_class(instruction, cost, matmuls))
            kernel = None  # the time is no longer that of XLA's model
        return Prediction(kernel_roofline, estimate, kernel)

    def _launch_seconds(self, instruction: Instruction) -> float:
        """What a launch takes: less in a long loop, where the host is ahead of the device."""
        runs = self._executions.get(instruction.computation)
        return LOOP_LAUNCH_SECONDS if runs is not None and runs.count >= LONG_LOOP else LAUNCH_SECONDS

    def generated(self, instruction: Instruction) -> GpuKernel | None:
        """A kernel that XLA generates, by its own model; None for others, and on chips without figures."""
        if not self._is_asked:
            self._device, self._is_asked = device_of(self.chip), True
        if self._device is None or moves_nothing(instruction):
            return None
        from hlo_cli.analysis.fusion.gpu_kernels import GpuKernels

        if self._kernels is None:
            self._kernels = computed_once(GpuKernels, self._device)
        return self._kernels.of(instruction.computation).get(instruction)

    def known(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction | None:
        """The prediction of a kernel; None if its cost or rate is unknown.

        It is unknown for transfers between chips, too, which do not use memory alone.
        """
        prediction = self.least(instruction, cost, element_type)
        return None if prediction is None or prediction.roofline.bound == "unknown" else prediction

    def least(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction | None:
        """The prediction from what is known of the cost of a kernel, at least its launch; None for other transfers."""
        opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
        if opcode in _OTHER_LINKS or _is_part_of_transfer(instruction):
            return None
        return self.predict(instruction, cost, element_type)


def _is_part_of_transfer(instruction: Instruction) -> bool:
    """Whether a TPU fusion only starts or ends a collective, whose time is that on the links."""
    return target_of_root(instruction) in (ASYNC_COLLECTIVE_START, ASYNC_COLLECTIVE_DONE)


def _conditions_of_counted_loops(module: Module) -> frozenset[Computation]:
    """The conditions of loops that GPUs do not compute, as in xla/backends/gpu/runtime/while_thunk.cc.

    >>> from hlo_cli import parse_module
    >>> _conditions_of_counted_loops(parse_module("r = f32[2] negate(f32[2] p)"))
    frozenset()
    """
    loops = (each for each in module.instructions if each.opcode == opcodes.WHILE and trip_count(each) is not None)
    return frozenset(each for loop in loops for each in loop.called_computations[1:])


def predicted_times(instructions: Iterable[Instruction], chip: ChipSpec) -> Mapping[Instruction, Estimate]:
    """The predicted time of one run of each kernel among the instructions; kernels of unknown time are left out.

    >>> from hlo_cli import chip_spec, parse_module
    >>> entry = parse_module("r = f32[1000000] add(f32[1000000] a, f32[1000000] b)").entry
    >>> [found.name for found in predicted_times(entry.instructions, chip_spec("h100"))]
    ['r']
    """
    times = KernelTimes(chip)
    predictions = {each: times.known(each, cost) for each, cost in costs_of_kernels(instructions).items()}
    return {each: prediction.estimate for each, prediction in predictions.items() if prediction is not None}
