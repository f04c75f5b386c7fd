"""How long does a kernel take on a chip: its roofline, the time of a matmul, the predicted time with a band?

On a GPU, kernels that XLA generates take the time of XLA's own model (`fusion/gpu_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, exp, inf, log, log2, sqrt
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS, costs_of_kernels
from hlo_cli.analysis.cost.counting import BYTES, Cost
from hlo_cli.analysis.cost.matmuls import Matmul, matmul_of, matmul_type
from hlo_cli.analysis.dataflow.dependencies import callees_first, instruction_post_order, target_of_root
from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW, trip_count
from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.hardware.chip_specs import ChipSpec, chip_spec
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice, device_of
from hlo_cli.analysis.hardware.time_model import (
    KERNEL_BAND,
    KERNEL_SLOWDOWN,
    LAUNCH_SECONDS,
    MATMUL_MODELS,
    MEASURED_AS,
    NO_TIME,
    OTHER_MATMULS,
    SHAPE_BAND,
    TABLE_BANDS,
    TF32_ON_REQUEST,
    TPU_BAND,
    Estimate,
    EstimateSource,
    MatmulModel,
    MatmulTimes,
    around,
    longest,
    matmul_times,
    total,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers
from hlo_cli.ir.instruction import Computation, Instruction
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
from hlo_cli.ir.shape import ArrayShape

if TYPE_CHECKING:
    from hlo_cli.analysis.fusion.gpu_kernels import GpuKernel


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


# --- the roofline ---
# The minimum time is the larger of flops at the peak rate and bytes at the bandwidth of the main memory. Mirrors the
# bottleneck in `HloCostAnalysis::Postprocess` of xla/service/hlo_cost_analysis.cc.


Bound = Literal["compute", "memory", "free", "unknown"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bound of an operation, and its times in seconds at the roofline; None if the rate is unknown.

    `ridge` is the intensity, in flops per byte, from which on operations of this type are compute bound.
    `uncached_seconds` is the memory time if everything that fits in caches stays there.
    """

    bound: Bound
    compute_seconds: float | None
    memory_seconds: float
    ridge: float | None
    uncached_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Larger of compute and memory time, if all bytes go through the main memory."""
        return max(self.compute_seconds or 0.0, self.memory_seconds)

    @property
    def at_least_seconds(self) -> float:
        """Lower bound for any schedule, even if caches are used fully."""
        return max(self.compute_seconds or 0.0, self.uncached_seconds)


def roofline(cost: Cost, throughput: ChipSpec, element_type: str) -> Roofline:
    """Roofline of a cost on a chip that computes in `element_type`.

    The bound is `unknown` if a part of the cost or the rate of the chip is unknown, and `free` if the cost is zero.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> v5e = chip_spec("v5e")
    >>> roofline(Cost({"flops": 4e12, "bytes accessed": 1e9}), v5e, "bf16").bound
    'compute'
    >>> found = roofline(Cost({"flops": 1e9, "bytes accessed": 819e9}), v5e, "bf16")
    >>> found.bound, found.seconds, round(found.ridge)
    ('memory', 1.0, 241)
    >>> roofline(Cost(), v5e, "bf16").bound, roofline(Cost({}, unknown=1), v5e, "bf16").bound
    ('free', 'unknown')
    """
    peak, flops = throughput.at_most(element_type), max(cost.flops, 0)
    bandwidth, accessed = throughput.memory.per_second, max(cost.bytes_accessed, 0)
    memory, uncached = accessed / bandwidth, max(accessed - throughput.cache_bytes, 0) / bandwidth
    if peak is None:  # nothing to calculate takes no time, whatever the chip
        # A rate that is unknown leaves only kernels without flops certain.
        compute, ridge = (None if flops else 0.0), None
    else:
        compute, ridge = flops / peak.per_second, peak.per_second / bandwidth
    return Roofline(_bound_of(cost, compute, memory), compute, memory, ridge, uncached)


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
    matmuls = (matmul_of(each) for each in (instruction, *inner))
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


# --- time of a matmul on a GPU ---
# A model of tiles and waves, corrected by measured times of similar shapes.
#
# Libraries and autotuning choose the best tile, so the model takes the fastest of several tile sizes. If the result has
# fewer tiles than the chip has cores, k is split among several cores; if it is a vector, scalar units compute it.


MatmulShape: TypeAlias = tuple[int, int, int, int]
"""Batch, m, n, and k."""
_Point: TypeAlias = tuple[float, float, float, float]

# Blocks that libraries have kernels for, from square to narrow; chosen, not fitted.
_TILES: Final = ((256, 256), (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 32))
_SPLIT_FACTORS: Final = (1, 2, 4, 8)  # split-k factors of libraries; chosen, not fitted
_SPLIT_SECONDS: Final = 1e-6  # chosen, not fitted: a barrier between blocks
"""The time in which cores exchange their parts of a sum."""
_ELEMENT_BYTES: Final = {"bf16": (2, 2), "f32": (4, 4), "f8": (1, 2)}
"""Bytes of an operand element and of a result element, by type as in the tables."""
_NEIGHBOR_COUNT: Final = 8  # chosen, not fitted: about the corners of a cell in the grid of measured shapes
_MAX_DISTANCE: Final = 1.5
"""Distance of the nearest measured shape from which on the table says little."""
# Which table has the rate of a type: f16 runs as bf16, f32 is measured in TF32.
_TABLE_TYPES: Final = {"bf16": "bf16", "f16": "bf16", "tf32": "f32", "f8": "f8"}


@dataclass(frozen=True, slots=True)
class Unit:
    """What the model of a matmul knows of a chip: cores, and rates per second.

    `scalar_flops_per_second` is the rate of the units that multiply without matrices.
    """

    cores: int
    flops_per_second: float
    scalar_flops_per_second: float
    bytes_per_second: float


def matmul_time(shape: MatmulShape, kind: str, chip: ChipSpec, *, moved_bytes: int | None = None) -> Estimate | None:
    """The time of a matmul that multiplies in `kind`, a type as from `matmul_type`; None if the chip has no cores.

    `moved_bytes` are those of operands and result, if they are not matrices of this shape, as of a convolution.

    >>> from hlo_cli import chip_spec
    >>> for chip in ("h100", "gb200", "mi350"):
    ...     found = matmul_time((1, 3000, 4096, 4096), "bf16", chip_spec(chip))
    ...     print(f"{found.seconds * 1e6:.0f} µs", *found.sources)
    135 µs table
    73 µs table
    61 µs shape model
    """
    rate = chip.flops_of(kind)
    if rate is None or not chip.cores:
        return None
    if chip.chip in TF32_ON_REQUEST and kind == "tf32":
        return matmul_time(shape, "f32 highest", chip, moved_bytes=moved_bytes)
    plain = "f8" if kind.startswith("f8") else kind
    return _modeled_matmul_time(shape, plain, chip.chip, unit_of(chip, rate.per_second), moved_bytes)


def unit_of(chip: ChipSpec, flops_per_second: float) -> Unit:
    """What the model knows of a chip that multiplies at this rate.

    >>> from hlo_cli import chip_spec
    >>> unit_of(chip_spec("a100-80gb"), 312e12).scalar_flops_per_second
    19500000000000.0
    """
    scalar = chip.flops_of("f32 highest")
    slow = flops_per_second if scalar is None else min(flops_per_second, scalar.per_second)
    return Unit(chip.cores, flops_per_second, slow, chip.memory.per_second)


@lru_cache(maxsize=4096)
def _modeled_matmul_time(shape: MatmulShape, kind: str, chip: str, unit: Unit, moved_bytes: int | None) -> Estimate:
    key = (MEASURED_AS.get(chip, ""), _TABLE_TYPES.get(kind, ""))
    model = MATMUL_MODELS.get(key, OTHER_MATMULS)
    if chip in TF32_ON_REQUEST:
        # The slowdown is contained in the share, so that it is not applied twice.
        shared = 1 / KERNEL_SLOWDOWN  # with other kernels: what was measured is a mean over all of them
        model = replace(model, launch_seconds=LAUNCH_SECONDS, tile_seconds=0.0, memory_share=shared)
    seconds = modeled_seconds(shape, element_bytes(kind), unit, model, moved_bytes)
    if key not in MATMUL_MODELS:
        return around(seconds, SHAPE_BAND if key[0] else KERNEL_BAND, "shape model")
    distance, correction = correction_near(shape, *_measured_points(*key))
    if distance > _MAX_DISTANCE:
        return around(seconds * exp(correction), SHAPE_BAND, "shape model")
    return around(seconds * exp(correction), TABLE_BANDS[key], "table")


def modeled_seconds(
    shape: MatmulShape, sizes: tuple[float, float], unit: Unit, model: MatmulModel, moved_bytes: int | None = None
) -> float:
    """The time of a matmul by the model alone; `sizes` are the bytes of an operand element and a result element.

    >>> unit = Unit(100, 1e15, 1e14, 3e12)
    >>> model = MatmulModel(0.0, 1.0, 1.0, 0.0, 1.0)
    >>> f"{modeled_seconds((1, 12800, 12800, 8192), (2, 2), unit, model):.2e}"  # 100 × 100 tiles, in 100 waves
    '2.68e-03'
    """
    batch, m, n, k = shape
    operand_bytes, result_bytes = sizes
    rate = unit.flops_per_second / unit.cores
    bandwidth = unit.bytes_per_second * model.memory_share
    flops = 2 * batch * m * n * k
    # A matrix times a vector: no tile of the matrix units is filled, and scalar units are as fast.
    best = flops / unit.scalar_flops_per_second
    for rows, columns in _TILES:
        tiles = batch * ceil(m / rows) * ceil(n / columns)
        step = max(2 * rows * columns / model.share, (rows + columns) * operand_bytes / model.bytes_per_flop) / rate
        for parts in _SPLIT_FACTORS:
            waves = ceil(tiles * parts / unit.cores)
            seconds = waves * (ceil(k / parts) * step + model.tile_seconds)
            if parts > 1:
                # Partial sums are f32, 4 bytes, whatever the types of the matrices.
                seconds += _SPLIT_SECONDS + 4 * batch * m * n * parts / bandwidth
            best = min(best, seconds)
    moved = moved_bytes if moved_bytes is not None else batch * (operand_bytes * (m * k + k * n) + result_bytes * m * n)
    return model.launch_seconds + max(best, moved / bandwidth)


@lru_cache(maxsize=16)
def _measured_points(chip: str, kind: str) -> tuple[Sequence[_Point], Sequence[float]]:
    """Places of the measured shapes, and logarithms of measured over modeled time."""
    return residuals(matmul_times()[chip, kind], kind, measured_unit(chip, kind), MATMUL_MODELS[chip, kind])


def measured_unit(chip: str, kind: str) -> Unit:
    """What the model knows of a measured chip; f32 multiplies in TF32.

    >>> measured_unit("h100", "f32").flops_per_second
    494700000000000.0
    """

    spec = chip_spec(chip)
    rate = spec.flops_of("tf32" if kind == "f32" else kind)
    assert rate is not None
    return unit_of(spec, rate.per_second)


def residuals(
    times: MatmulTimes, kind: str, unit: Unit, model: MatmulModel
) -> tuple[Sequence[_Point], Sequence[float]]:
    """Places of measured shapes, and logarithms of measured over modeled time."""
    sizes = element_bytes(kind)
    logs = [log(seconds / modeled_seconds(shape, sizes, unit, model)) for shape, seconds in times.items()]
    return [_point_of(shape) for shape in times], logs


def correction_near(shape: MatmulShape, places: Sequence[_Point], logs: Sequence[float]) -> tuple[float, float]:
    """Distance of the nearest place, and the mean of the logarithms there, weighted by distance.

    >>> from hlo_cli.analysis.hardware.time_model import OTHER_MATMULS
    >>> unit, shape = Unit(132, 9.9e14, 6.7e13, 3.35e12), (1, 512, 512, 512)
    >>> double = {shape: 2 * modeled_seconds(shape, (2, 2), unit, OTHER_MATMULS)}
    >>> near = residuals(double, "bf16", unit, OTHER_MATMULS)
    >>> round(exp(correction_near((1, 640, 512, 512), *near)[1]), 6)
    2.0
    """
    a, b, c, d = _point_of(shape)
    near = sorted(
        ((p - a) ** 2 + (q - b) ** 2 + (r - c) ** 2 + (s - d) ** 2, each)
        for (p, q, r, s), each in zip(places, logs, strict=True)
    )[:_NEIGHBOR_COUNT]
    # Near shapes decide: a steep weight, bounded where a shape was measured itself. Chosen; the held-out quarter judged
    # it.
    weights = [(sqrt(squared) + 0.05) ** -3 for squared, _ in near]
    mean = sum(weight * each for weight, (_, each) in zip(weights, near, strict=True)) / sum(weights)
    return sqrt(near[0][0]), mean


def _point_of(shape: MatmulShape) -> _Point:
    """Shapes of similar time are near: size of the result, its shape, batch, and k, as powers of two."""
    batch, m, n, k = (log2(max(size, 1)) for size in shape)
    # The number of tiles and k decide the time, the aspect less; factors chosen, judged on the held-out shapes.
    return 0.7 * (batch + m + n), 0.4 * (m - n), batch, k


def element_bytes(kind: str) -> tuple[float, float]:
    """Bytes of an element of the operands and of the result of a matmul that multiplies in a type.

    >>> element_bytes("tf32"), element_bytes("f8"), element_bytes("s8")
    ((4, 4), (1, 2), (1, 2))
    """
    named = _TABLE_TYPES.get(kind, "f8" if kind.startswith(("s", "u", "f4", "f6")) else "f32")
    return _ELEMENT_BYTES[named]


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
    return roofline(needed, chip, element_type or _type_among(instruction, matmuls)), matmuls


def _kernel_estimate(
    instruction: Instruction,
    kernel_roofline: Roofline,
    matmuls: Sequence[Matmul],
    chip: ChipSpec,
    kernel: GpuKernel | None = None,
) -> Estimate:
    """The predicted time of a kernel with this roofline and these matmuls; `kernel` is XLA's own account of it.

    >>> from hlo_cli import chip_spec, parse_module
    >>> text = "r = f32[512,512] dot(f32[512,9] a, f32[9,512] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = parse_module(text).entry.root
    >>> long = Roofline("memory", 1.0, 2.0, 1.0)
    >>> _kernel_estimate(dot, long, matmuls_within(dot), chip_spec("v5e"))
    Estimate(low=1.0, seconds=2.0, high=3.84, sources=frozenset({'roofline'}))
    """
    if not chip.cores:
        # Lower than the band: what stays in VMEM is no traffic of the main memory.
        least, most = kernel_roofline.at_least_seconds, kernel_roofline.seconds * TPU_BAND[1]
        return Estimate(least, kernel_roofline.seconds, most, frozenset(("roofline",)))
    if moves_nothing(instruction):
        return NO_TIME
    launches, work = 1, KERNEL_SLOWDOWN * kernel_roofline.seconds
    if instruction.opcode in NO_KERNELS:
        launches = _kernels_of(instruction)
    elif instruction.opcode == opcodes.SORT:
        launches = _sort_kernels(instruction)
        work *= launches
    estimate = _launched(instruction, work, launches, _GPU_SOURCES)
    if kernel is not None:
        # XLA's model is the better guess, but was made to compare fusions: its band is that of the roofline, too.
        estimate = _widened(_launched(instruction, kernel.seconds, 1, _XLA_SOURCES), estimate)
    shapes = [_time_of_matmul(each, chip) for each in matmuls]
    if known := [each for each in shapes if each is not None]:
        product = total(known)
        # A measured matmul needs no bound of other kernels; in a fusion more is computed with it.
        is_alone = len(known) == 1 and matmuls[0].instruction is instruction and "table" in product.sources
        estimate = product if is_alone else longest(product, estimate)
    return estimate.at_least(kernel_roofline.at_least_seconds)


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


def _time_of_matmul(matmul: Matmul, chip: ChipSpec) -> Estimate | None:
    is_convolution = isinstance(matmul.numbers, ConvolutionDimensionNumbers)
    shape = matmul.batch, matmul.m, matmul.n, matmul.k
    return matmul_time(shape, matmul_type(matmul), chip, moved_bytes=matmul.logical_bytes if is_convolution else None)


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

    __slots__ = ("_device", "_is_asked", "_kernels", "_uncomputed", "chip")

    def __init__(self, chip: ChipSpec, *, by_roofline: bool = False, module: Module | None = None) -> None:
        """Prepares the times; with `module`, kernels in it that the chip never launches take no time."""
        self.chip = chip
        has_counters = module is not None and bool(chip.cores)
        self._uncomputed = _conditions_of_counted_loops(module) if module is not None and has_counters else frozenset()
        self._device: GpuDevice | None = None
        self._is_asked = by_roofline
        self._kernels: dict[Computation, Mapping[Instruction, GpuKernel]] = {}

    def predict(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction:
        """The prediction of a kernel; `element_type` is that of its flops, if at hand."""
        kernel_roofline, matmuls = _kernel_roofline(instruction, cost, self.chip, element_type)
        is_no_call = instruction.opcode == opcodes.CUSTOM_CALL and not is_launched(instruction)
        if is_no_call or instruction.computation in self._uncomputed:
            return Prediction(replace(kernel_roofline, bound="free"), NO_TIME)
        kernel = None if matmuls else self.generated(instruction)
        if kernel is not None:
            kernel_roofline = replace(kernel_roofline, bound="compute" if kernel.is_compute_bound else "memory")
        return Prediction(
            kernel_roofline, _kernel_estimate(instruction, kernel_roofline, matmuls, self.chip, kernel), kernel
        )

    def generated(self, instruction: Instruction) -> GpuKernel | None:
        """A kernel that XLA generates, by its own model; None for others, and on chips without figures."""
        if not self._is_asked:
            self._device, self._is_asked = _device_of(self.chip), True
        if self._device is None or moves_nothing(instruction):
            return None
        from hlo_cli.analysis.fusion.gpu_kernels import gpu_kernels

        computation = instruction.computation
        kernels = self._kernels.get(computation)
        if kernels is None:
            kernels = self._kernels[computation] = computed_once(gpu_kernels, computation, self._device)
        return kernels.get(instruction)

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


def _device_of(chip: ChipSpec) -> GpuDevice | None:

    return device_of(chip)
