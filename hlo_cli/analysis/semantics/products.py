"""What opcodes and library calls compute that sum products: dots, ragged dots, convolutions, cuBLAS, cuDNN."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from math import prod
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.semantics.typed_values import (
    Array,
    Computed,
    Kernel,
    Rule,
    Value,
    array_shape,
    first_array,
    operand_array_shape,
    settled,
    settled_shape,
    zeros_of,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import (
    BlockScalingConfig,
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    SparsityConfig,
    TensorSparsity,
    WindowDimension,
    convolution_dimension_numbers,
    dot_dimension_numbers,
    ragged_dot_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape
from hlo_cli.source import HloError

# --- dots ---
# Sums of products, made in f64 and rounded once; and operands that hold only a part of each block.
#
# Mirrors `HandleDot`, `HandleScaledDot`, and `MaterializeSparseOperand` of the evaluator.


EXACT_IN_F64: Final = 1 << 52
"""Integers below this are exact in f64, and so are their sums."""


def dot(instruction: Instruction, computed: Computed) -> Kernel:
    """Products summed over the contracting dimensions: batch, then free dimensions of the left, then of the right."""
    numbers = dot_dimension_numbers(instruction)
    assert numbers is not None
    settle_ = settled(instruction, computed.floats)
    is_pred = array_shape(instruction).element_type.kind == "pred"

    def kernel(x: Array, y: Array) -> Array:
        if is_pred:
            return np.asarray(contracted(x.astype(np.int64), y.astype(np.int64), numbers) != 0)
        return settle_(contracted(x, y, numbers))

    return _of_dense_operands(instruction, kernel)


def contracted(x: Array, y: Array, numbers: DotDimensionNumbers) -> Array:
    """The sums of products of two arrays, in the widest type of their kind.

    >>> contracted(np.array([[1, 2]]), np.array([[3], [4]]), DotDimensionNumbers((1,), (0,))).tolist()
    [[11]]
    """
    batch, left_sum, right_sum = (
        numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions,
    )  # fmt: skip
    left_free = [at for at in range(x.ndim) if at not in batch and at not in left_sum]
    right_free = [at for at in range(y.ndim) if at not in numbers.rhs_batch_dimensions and at not in right_sum]
    left = x.transpose([*batch, *left_free, *left_sum])
    right = y.transpose([*numbers.rhs_batch_dimensions, *right_sum, *right_free])
    batches = [x.shape[at] for at in batch]
    free = [x.shape[at] for at in left_free], [y.shape[at] for at in right_free]
    terms = prod(x.shape[at] for at in left_sum)
    found = products(
        left.reshape(prod(batches), prod(free[0]), terms), right.reshape(prod(batches), terms, prod(free[1]))
    )
    return found.reshape([*batches, *free[0], *free[1]])


def products(left: Array, right: Array) -> Array:
    """Batched matrix products; integers exactly, modulo 2^64."""
    kinds = {left.dtype.kind, right.dtype.kind}
    # Complex products in c128.
    if "c" in kinds:
        return np.asarray(np.matmul(left.astype(np.complex128), right.astype(np.complex128)))
    if "f" in kinds:
        with np.errstate(invalid="ignore", over="ignore"):
            return _matmul(left.astype(np.float64), right.astype(np.float64))
    # The largest sum decides whether f64, which BLAS multiplies fast, is exact for integers.
    largest = magnitude(left) * magnitude(right) * left.shape[-1]
    if largest < EXACT_IN_F64:  # only faster
        return _matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
    wide = np.uint64 if kinds == {"u"} else np.int64
    return np.asarray(np.matmul(left.astype(wide), right.astype(wide)))


_ONE_THREAD: Final = 1 << 18
"""Multiplications up to which OpenBLAS uses one thread: interface/gemm.c, 4 times SMP_THRESHOLD_MIN of param.h."""
_MOST_PARTS: Final = 64
"""Products of more parts are long beside the start of threads."""
_LEAST_ROWS: Final = 4  # of fewer, BLAS makes another kind of product, which is slower and rounds differently


def _matmul(left: Array, right: Array) -> Array:
    """Batched matrix products of f64, small ones in parts that one thread multiplies.

    Threads wait for each other, which other processes prolong: 32 × 128 × 512 took 8.3 ms on two cores at a load of 10,
    and takes 0.1 ms in parts.

    >>> ones = np.ones((1, 64, 128))
    >>> bool((_matmul(ones, ones.transpose(0, 2, 1)) == 128).all())
    True
    """
    batch, rows, terms = left.shape
    columns = right.shape[2]
    multiplications = rows * terms * columns
    if not _ONE_THREAD < multiplications <= _MOST_PARTS * _ONE_THREAD:  # only faster
        return np.asarray(np.matmul(left, right))
    parts = -(-multiplications // _ONE_THREAD)
    step = max(-(-max(rows, columns) // parts), _LEAST_ROWS)
    found = np.empty((batch, rows, columns))
    for at in range(0, max(rows, columns), step):
        if rows >= columns:
            found[:, at : at + step] = np.matmul(left[:, at : at + step], right)
        else:
            found[:, :, at : at + step] = np.matmul(left, right[:, :, at : at + step])
    return found


def magnitude(x: Array) -> int:
    """The largest absolute value of integers.

    >>> magnitude(np.array([3, -5]))
    5
    """
    return max(abs(int(x.max())), abs(int(x.min()))) if x.size else 0


def scaled_dot(instruction: Instruction, computed: Computed) -> Kernel:
    """A dot of operands that are multiplied with their scales first, each scale repeated over a block."""
    numbers = dot_dimension_numbers(instruction)
    assert numbers is not None
    settle_ = settled(instruction, computed.floats)

    def kernel(x: Array, y: Array, x_scale: Array, y_scale: Array) -> Array:
        return settle_(contracted(_scaled(x, x_scale), _scaled(y, y_scale), numbers))

    return kernel


def _scaled(x: Array, scale: Array) -> Array:
    if not scale.ndim:
        return x.astype(np.float64)
    wide = scale.astype(np.float64)
    for at, size in enumerate(x.shape):
        # A scale repeats over the elements of its block.
        wide = np.repeat(wide, size // wide.shape[at] if wide.shape[at] else 1, axis=at)
    return x.astype(np.float64) * wide


def _of_dense_operands(instruction: Instruction, kernel: Kernel) -> Kernel:
    """The kernel of an instruction of two operands, given them as the `sparsity_config` packs them."""
    if instruction.value_of("block_scaling_config", BlockScalingConfig) is not None:
        # no public source says how scales are applied
        raise HloError(f"cannot evaluate {instruction.name}: operands with block scales", instruction.span)
    config = instruction.value_of("sparsity_config", SparsityConfig)
    if config is None:
        return kernel
    for side in (config.lhs, config.rhs):
        if side is not None and side.stride > 1:
            raise HloError(f"cannot evaluate {instruction.name}: sparse blocks with a stride", instruction.span)

    def dense(*operands: Array) -> Value:
        pairs = zip(operands[:2], (config.lhs, config.rhs), strict=True)
        return kernel(*(x if side is None else _unpacked(x, operands[side.idx], side) for x, side in pairs))

    return dense


def _unpacked(x: Array, positions: Array, sparsity: TensorSparsity) -> Array:
    """The array with all elements of each block, of which `x` holds those at the given positions; the others are 0.

    >>> _unpacked(np.array([7, 8]), np.array([1, 0]), TensorSparsity(1, 3, 0)).tolist()
    [0, 7, 0, 8, 0, 0]
    """
    axis, count = sparsity.dimension, sparsity.num_non_zero
    sizes = [size // count * sparsity.block_size if place == axis else size for place, size in enumerate(x.shape)]
    first = np.arange(x.shape[axis]) // count * sparsity.block_size
    shaped = first.reshape([-1 if place == axis else 1 for place in range(x.ndim)])
    result = np.zeros(sizes, x.dtype)
    # Positions out of a block are clamped, as the evaluator does.
    within = np.clip(positions.astype(np.int64), 0, sparsity.block_size - 1)
    np.put_along_axis(result, shaped + within, x, axis)
    return result


DOT_RULES: Final[dict[str, Rule]] = {
    "dot": dot,
    "scaled-dot": scaled_dot,
}
"""The rule of each dot."""


# --- dots in groups ---
# The ragged dimension of the left side is cut into groups, whose sizes are an operand.
#
# Mirrors `HandleRaggedDot` of xla/hlo/evaluator/hlo_evaluator_typed_visitor.h.


@dataclass(frozen=True, slots=True)
class _Ragged:
    """The dimensions of a dot, the ragged one of the left side, and the one of groups of the right side, if any."""

    numbers: DotDimensionNumbers
    ragged: int
    group: int | None
    rank: int

    @property
    def free(self) -> list[int]:
        """The free dimensions of the left side."""
        taken = (*self.numbers.lhs_batch_dimensions, *self.numbers.lhs_contracting_dimensions)
        return [at for at in range(self.rank) if at not in taken]

    @property
    def outer(self) -> list[int]:
        """The dimensions of the left side that may have groups of their own, in the order of the sizes of groups."""
        # Groups of a batch, a contracting, or a free dimension: each has its own outer dimensions.
        batch, summed = self.numbers.lhs_batch_dimensions, self.numbers.lhs_contracting_dimensions
        if self.ragged in batch:
            return list(batch[: batch.index(self.ragged)])
        if self.ragged in summed:
            return [*batch, *summed[: summed.index(self.ragged)]]
        return [*batch, *(at for at in self.free if at < self.ragged)]

    def of_right(self, dimension: int) -> int | None:
        """The dimension of the right side that goes with one of the left side."""
        pairs = (
            (self.numbers.lhs_batch_dimensions, self.numbers.rhs_batch_dimensions),
            (self.numbers.lhs_contracting_dimensions, self.numbers.rhs_contracting_dimensions),
        )
        for left, right in pairs:
            if dimension in left:
                return right[left.index(dimension)]
        return None

    def of_result(self, dimension: int) -> int | None:
        """Where a dimension of the left side is in the result, without the dimension of groups."""
        batch = self.numbers.lhs_batch_dimensions
        if dimension in batch:
            return batch.index(dimension)
        return len(batch) + self.free.index(dimension) if dimension in self.free else None


def ragged_dot(instruction: Instruction, computed: Computed) -> Kernel:
    """A dot in groups.

    Groups of a free dimension each meet their own part of the right side, and rows beyond all groups are 0. Groups of
    a contracting dimension are summed alone, and are the first dimension of the result. Of a batch dimension,
    batches beyond all groups are 0. Dimensions before the ragged one may have groups of their own.
    """
    ragged = ragged_dot_dimension_numbers(instruction)
    assert ragged is not None
    if len(ragged.lhs_ragged_dimensions) != 1:
        raise HloError(f"cannot evaluate {instruction.name}: it has not one ragged dimension", instruction.span)
    group = ragged.rhs_group_dimensions[0] if ragged.rhs_group_dimensions else None
    rank = operand_array_shape(instruction, 0).rank
    about = _Ragged(ragged.dot_dimension_numbers, ragged.lhs_ragged_dimensions[0], group, rank)
    settle_, sizes = settled(instruction, computed.floats), array_shape(instruction).dimensions
    if about.ragged in about.numbers.lhs_contracting_dimensions:
        return lambda x, y, groups: settle_(_each_outer(about, x, y, groups, sizes, _sums_of_groups))
    if about.ragged in about.numbers.lhs_batch_dimensions:
        return lambda x, y, groups: settle_(_each_outer(about, x, y, groups, sizes, _batches_of_groups))
    return lambda x, y, groups: settle_(_each_outer(about, x, y, groups, sizes, _rows_of_groups))


Part = Callable[[_Ragged, Array, Array, Array], Array]


def _each_outer(about: _Ragged, x: Array, y: Array, groups: Array, sizes: tuple[int, ...], part: Part) -> Array:
    """The results for each element of the outer dimensions, which have groups of their own."""
    if groups.ndim == 1:
        # One list of groups is for all elements of the outer dimensions.
        return part(about, x, y, _bounds(groups, x.shape[about.ragged]))
    outer = about.outer
    has_groups = about.ragged in about.numbers.lhs_contracting_dimensions
    total: Array | None = None
    for place in np.ndindex(groups.shape[:-1]):
        chosen = dict(zip(outer, place, strict=True))
        left, right = x, y
        into = [slice(None)] * len(sizes)
        for dimension, index in chosen.items():
            left = _range(left, dimension, index, index + 1)
            if (other := about.of_right(dimension)) is not None:
                right = _range(right, other, index, index + 1)
            if (result := about.of_result(dimension)) is not None:
                into[result + has_groups] = slice(index, index + 1)
        result_part = part(about, left, right, _bounds(groups[place], x.shape[about.ragged]))
        if total is None:
            total = np.zeros(sizes, result_part.dtype)
        total[tuple(into)] += result_part
    return np.zeros(sizes) if total is None else total


def _bounds(groups: Array, size: int) -> Array:
    """Where each group begins and, last, where the last one ends, within the ragged dimension."""
    # Sizes beyond the end are cut off.
    return np.clip(np.concatenate(([0], np.cumsum(groups.astype(np.int64)))), 0, size)


def _sums_of_groups(about: _Ragged, x: Array, y: Array, bounds: Array) -> Array:
    other = about.of_right(about.ragged)
    assert other is not None
    return np.stack([
        contracted(_range(x, about.ragged, begin, end), _range(y, other, begin, end), about.numbers)
        for begin, end in pairwise(bounds)
    ])  # fmt: skip


def _batches_of_groups(about: _Ragged, x: Array, y: Array, bounds: Array) -> Array:
    found = contracted(x, y, about.numbers)
    at = about.of_result(about.ragged)
    found[tuple(slice(bounds[-1] if axis == at else 0, None) for axis in range(found.ndim))] = 0
    return found


def _rows_of_groups(about: _Ragged, x: Array, y: Array, bounds: Array) -> Array:
    assert about.group is not None
    inner = _without(about.numbers, about.group)
    axis = about.of_result(about.ragged)
    parts = [
        contracted(_range(x, about.ragged, begin, end), np.take(y, number, about.group), inner)
        for number, (begin, end) in enumerate(pairwise(bounds))
    ]
    # Rows after the last group are zero.
    left = contracted(_range(x, about.ragged, bounds[-1], None), _no_group(y, about.group), inner)
    return np.concatenate([*parts, np.zeros_like(left)], axis=axis)


def _no_group(y: Array, group: int) -> Array:
    return np.zeros([size for at, size in enumerate(y.shape) if at != group], y.dtype)


def _range(x: Array, dimension: int, begin: int, end: int | None) -> Array:
    return x[tuple(slice(begin, end) if at == dimension else slice(None) for at in range(x.ndim))]


def _without(numbers: DotDimensionNumbers, group: int) -> DotDimensionNumbers:
    """The numbers once the group dimension of the right side is gone."""
    return DotDimensionNumbers(
        numbers.lhs_contracting_dimensions,
        tuple(at - (at > group) for at in numbers.rhs_contracting_dimensions),
        numbers.lhs_batch_dimensions,
        tuple(at - (at > group) for at in numbers.rhs_batch_dimensions),
    )


RAGGED_DOT_RULES: Final[dict[str, Rule]] = {"ragged-dot": ragged_dot}
"""The rule of dots in groups."""


# --- convolutions ---
# Sums of products under a window, made in f64 and rounded once.
#
# Mirrors `HandleConvolution` of xla/hlo/evaluator/hlo_evaluator_typed_visitor.h.


_BLOCK: Final = 1 << 22
"""The most elements that the windows of one product take: 32 MiB of f64."""


class Places(NamedTuple):
    """The dimensions of each array in the order batch, feature, space; of the kernel: output feature, input feature."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]


def _features_first(numbers: ConvolutionDimensionNumbers) -> Places:
    """The order in which `convolved` takes dimensions.

    >>> _features_first(ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,)))
    Places(input=(0, 2, 1), kernel=(2, 1, 0), output=(0, 2, 1))
    """
    return Places(
        (numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions),
        (
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ),
        (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions),
    )


def convolution(instruction: Instruction, computed: Computed) -> Kernel:
    """A convolution with strides, padding, dilations, reversal, and groups of features or batches."""
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None:
        raise HloError(f"cannot evaluate {instruction.name}: it has no dim_labels", instruction.span)
    places = _features_first(numbers)
    window = instruction.window.dimensions if instruction.window is not None else ()
    features = instruction.integer("feature_group_count") or 1
    batches = instruction.integer("batch_group_count") or 1
    # XLA has either groups of features or of batches, not both.
    settle_ = settled(instruction, computed.floats)
    back = np.argsort(places.output)

    def kernel(x: Array, w: Array) -> Array:
        found = convolved(x.transpose(places.input), w.transpose(places.kernel), window, features, batches)
        return settle_(found.transpose(back))

    return _of_dense_operands(instruction, kernel)


def convolved(x: Array, w: Array, window: Sequence[WindowDimension], features: int = 1, batches: int = 1) -> Array:
    """The convolution of `x[batch, feature, ...]` with `w[output, feature, ...]`.

    >>> x, w = np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2))
    >>> convolved(x, w, (WindowDimension(2),)).tolist()
    [[[1.0, 3.0, 5.0]]]
    """
    flips = tuple(2 + at for at, each in enumerate(window) if each.window_reversal)
    w = np.flip(w, flips) if flips else w
    counts = [each.positions(size) for each, size in zip(window, x.shape[2:], strict=True)]
    wide, kind = _carried(x, w)
    groups = max(features, batches)
    batch, outputs = x.shape[0] // batches, w.shape[0]
    result = np.zeros((groups, batch, *counts, outputs // groups), wide)
    if result.size and x.size and w.size:
        given = _by_group(x, features, batches).astype(wide, order="C")
        taps = np.moveaxis(w.reshape(groups, outputs // groups, *w.shape[1:]), (1, 2), (-1, -2)).astype(wide, order="C")
        with np.errstate(invalid="ignore", over="ignore"):
            _accumulate(result, given, taps, window, counts)
    found = np.moveaxis(np.moveaxis(result, -1, 1), 2, 0)
    return found.reshape(batch, outputs, *counts).astype(kind, copy=False)


def _by_group(x: Array, features: int, batches: int) -> Array:
    """`x[batch, feature, ...]` as `[group, batch, ..., feature]`."""
    batch, feature = x.shape[:2]
    if batches > 1:
        return np.moveaxis(x.reshape(batches, batch // batches, *x.shape[1:]), 2, -1)
    split = x.reshape(batch, features, feature // features, *x.shape[2:])
    return np.moveaxis(np.moveaxis(split, 1, 0), 2, -1)


def _carried(x: Array, w: Array) -> tuple[type[np.generic], type[np.generic]]:
    """The type to compute in, and that of the result: integers in f64 while that is exact."""
    kinds = {x.dtype.kind, w.dtype.kind}
    if "c" in kinds:
        return np.complex128, np.complex128
    if kinds & {"f", "V"}:
        return np.float64, np.float64
    # As for dots: exact integers go through BLAS.
    exact = magnitude(x) * magnitude(w) * max(w.size, 1) < EXACT_IN_F64
    return (np.float64 if exact else np.int64), np.int64


def _accumulate(result: Array, x: Array, w: Array, window: Sequence[WindowDimension], counts: Sequence[int]) -> None:
    """Adds the convolution of `x[group, batch, ..., feature]` and `w[group, ..., feature, output]`.

    Windows are laid out as rows of one matrix; but if many elements of them are padding or holes, or windows are larger
    than the result, each position is a product of what it reaches alone.
    """
    sizes = x.shape[2:-1]
    taps = [_reached(each, size, count) for each, size, count in zip(window, sizes, counts, strict=True)]
    pairs = prod(sum(len(range(each.start, each.stop, each.step)) for _, each, _ in dim) for dim in taps)
    every = prod(counts) * prod(each.size for each in window)
    # Windows as rows of one matrix pay if most elements of windows meet the input.
    is_dense = all(each.base_dilation == 1 for each in window) and 2 * pairs > every
    # Gradients of weights have windows as large as the input: then the loop is over the few results.
    by_output = prod(counts) < prod(map(len, taps))
    # Padding is multiplied there, and infinity times zero would be NaN.
    if is_dense and not by_output and window and bool(np.isfinite(w).all()):
        _by_rows(result, x, w, window, counts)
        return
    if not by_output:
        for chosen in product(*taps):
            at, outputs, inputs = ([part[n] for part in chosen] for n in range(3))
            part = _product(x[:, :, *inputs], w[:, *at])
            result[:, :, *outputs] += part
        return
    _by_result(result, x, w, [_by_position(dim, count) for dim, count in zip(taps, counts, strict=True)])


def _by_result(result: Array, x: Array, w: Array, reached: Sequence[Sequence[tuple[int, slice, slice]]]) -> None:
    for place in product(*reached):
        at, inside, inputs = ([part[n] for part in place] for n in range(3))
        block, weights = x[:, :, *inputs], w[:, *inside]
        groups, batch = x.shape[:2]
        rows = block.reshape(groups, batch, -1)
        result[:, :, *at] = rows @ weights.reshape(groups, rows.shape[-1], w.shape[-1])


def _product(x: Array, w: Array) -> Array:
    """`x[group, ..., feature]` times `w[group, feature, output]`."""
    rows = x.reshape(x.shape[0], -1, x.shape[-1])
    return np.asarray((rows @ w).reshape(*x.shape[:-1], w.shape[-1]))


def _reached(dimension: WindowDimension, size: int, count: int) -> list[tuple[int, slice, slice]]:
    """For each element of the window that ever meets the input: it, the positions where it does, and what it meets."""
    taps = []
    positions = np.arange(count, dtype=np.int64) * dimension.stride - dimension.padding_low
    for tap in range(dimension.size):
        indices = positions + tap * dimension.window_dilation
        [met] = np.nonzero(
            (indices >= 0)
            & (indices <= (size - 1) * dimension.base_dilation)
            & (indices % dimension.base_dilation == 0)
        )
        if met.size:
            taps.append((tap, _progression(met), _progression(indices[met] // dimension.base_dilation)))
    return taps


def _progression(indices: Array) -> slice:
    first, last = int(indices[0]), int(indices[-1])
    step = int(indices[1]) - first if len(indices) > 1 else 1
    return slice(first, last + 1, step)


def _by_position(taps: Sequence[tuple[int, slice, slice]], count: int) -> list[tuple[int, slice, slice]]:
    """The same for each position: it, the elements of the window that meet the input there, and what they meet."""
    inside: list[list[int]] = [[] for _ in range(count)]
    inputs: list[list[int]] = [[] for _ in range(count)]
    for tap, positions, met in taps:
        for position, index in zip(_members(positions), _members(met), strict=True):
            inside[position].append(tap)
            inputs[position].append(index)
    return [
        (at, _progression(np.array(inside[at])), _progression(np.array(inputs[at])))
        for at in range(count) if inside[at]
    ]  # fmt: skip


def _members(chosen: slice) -> Iterator[int]:
    return iter(range(chosen.start, chosen.stop, chosen.step))


def _by_rows(result: Array, x: Array, w: Array, window: Sequence[WindowDimension], counts: Sequence[int]) -> None:
    """The windows of as many positions as fit a block are the rows of one matrix."""
    groups, batch, features = x.shape[0], x.shape[1], x.shape[-1]
    low = [max(each.padding_low, 0) for each in window]
    high = [max(each.padding_high, 0) for each in window]
    cuts = tuple(
        slice(max(-each.padding_low, 0), size - max(-each.padding_high, 0))
        for each, size in zip(window, x.shape[2:-1], strict=True)
    )
    spread = np.pad(x[:, :, *cuts], [(0, 0), (0, 0), *zip(low, high, strict=True), (0, 0)])
    axes = tuple(range(2, 2 + len(window)))
    views = np.lib.stride_tricks.sliding_window_view(spread, [each.dilated_size for each in window], axes)
    strides = tuple(slice(0, (n - 1) * each.stride + 1, each.stride) for each, n in zip(window, counts, strict=True))
    inner = tuple(slice(None, None, each.window_dilation) for each in window)
    views = views[:, :, *strides, :, *inner]
    views = np.moveaxis(views, 2 + len(window), -1)
    terms = features * prod(each.size for each in window)
    weights = w.reshape(groups, terms, w.shape[-1])
    lines = max(1, _BLOCK // max(1, groups * terms * prod(counts[1:])))
    images = max(1, lines // max(1, counts[0]))
    for start in range(0, batch, images):
        for first in range(0, counts[0], lines):
            block = views[:, start : start + images, first : first + lines]
            rows = block.reshape(groups, -1, terms) @ weights
            result[:, start : start + images, first : first + lines] = rows.reshape(*block.shape[: 2 + len(window)], -1)


def filter_gradient(x: Array, gradient: Array, window: Sequence[WindowDimension], groups: int = 1) -> Array:
    """The gradient of the filter of a convolution by that of its result, all in the order that `convolved` takes.

    >>> filter_gradient(np.array([[[1.0, 2.0, 3.0]]]), np.array([[[1.0, 10.0]]]), (WindowDimension(2),)).tolist()
    [[[21.0, 32.0]]]
    """
    steps = []
    for dimension, size, count in zip(window, x.shape[2:], gradient.shape[2:], strict=True):
        # The result's gradient slides over the input: strides and window dilation change places.
        reach = dimension.window_dilation * (dimension.size - 1) + dimension.stride * (count - 1) + 1
        high = reach - dimension.padding_low - ((size - 1) * dimension.base_dilation + 1)
        steps.append(
            WindowDimension(
                count, dimension.window_dilation, dimension.padding_low, high, dimension.base_dilation, dimension.stride
            )
        )
    parts = [
        convolved(a.swapaxes(0, 1), b.swapaxes(0, 1), steps).swapaxes(0, 1)
        for a, b in zip(np.split(x, groups, 1), np.split(gradient, groups, 1), strict=True)
    ]
    return _unflipped(np.concatenate(parts), window)


def _unflipped(w: Array, window: Sequence[WindowDimension]) -> Array:
    flips = tuple(2 + at for at, each in enumerate(window) if each.window_reversal)
    return np.flip(w, flips) if flips else w


def input_gradient(
    gradient: Array, w: Array, window: Sequence[WindowDimension], sizes: Sequence[int], groups: int = 1
) -> Array:
    """The gradient of the input, of these spatial sizes, by that of the result.

    >>> input_gradient(np.array([[[1.0, 10.0]]]), np.array([[[2.0, 3.0]]]), (WindowDimension(2),), [3]).tolist()
    [[[2.0, 23.0, 30.0]]]
    """
    flipped = np.flip(_unflipped(w, window), tuple(range(2, w.ndim)))
    steps = []
    for dimension, size, count in zip(window, sizes, gradient.shape[2:], strict=True):
        reach = dimension.window_dilation * (dimension.size - 1)
        low = reach - dimension.padding_low
        high = (size - 1) * dimension.base_dilation + 1 + reach - low - (dimension.stride * (count - 1) + 1)
        steps.append(
            WindowDimension(
                dimension.size, dimension.base_dilation, low, high, dimension.stride, dimension.window_dilation
            )
        )
    parts = [
        convolved(a, b.swapaxes(0, 1), steps)
        for a, b in zip(np.split(gradient, groups, 1), np.split(flipped, groups), strict=True)
    ]
    return np.concatenate(parts, 1)


CONVOLUTION_RULES: Final[dict[str, Rule]] = {"convolution": convolution}
"""The rule of convolutions."""


# --- libraries of GPUs ---
# Custom calls to libraries of GPUs: products of cuBLAS, and convolutions of cuDNN.
#
# Mirrors gemm_rewriter.cc and conv_rewriter.cc, which make them, and backend_configs.proto.


def _gelu(x: Array) -> Array:
    # The tanh form with 0.044715, as cuBLAS computes it.
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


_EPILOGUES: Final[dict[str, Callable[[Array], Array]]] = {"": lambda x: x, "GELU": _gelu, "RELU": _relu, "SILU": _silu}
"""What the epilogue of a product of cuBLAS does once a bias was added."""


def _configuration(instruction: Instruction, key: str) -> dict[str, object]:
    found = json.loads(instruction.attribute("backend_config") or "{}")
    inner = found.get(key, found)
    return inner if isinstance(inner, dict) else {}


def _number(configuration: dict[str, object], key: str, default: float) -> float:
    found = configuration.get(key, default)
    return float(found) if isinstance(found, int | float | str) else default


def _gemm(instruction: Instruction, computed: Computed) -> Kernel:
    """`alpha A B + beta C`, and its epilogue: a bias, an activation, and the value before it as one more result."""
    config = _configuration(instruction, "gemm_backend_config")
    # The epilogue is a word of its parts: BIAS, an activation, AUX.
    epilogue = str(config.get("epilogue") or "DEFAULT").removeprefix("DEFAULT")
    name = epilogue.removesuffix("_AUX")
    has_bias = name.startswith("BIAS")
    name = name.removeprefix("BIAS").removeprefix("_")
    if name not in _EPILOGUES:
        raise HloError(f"cannot evaluate {instruction.name}: the epilogue {epilogue} is unknown", instruction.span)
    activation = _EPILOGUES[name]
    numbers = _contracting(config)
    alpha, beta = _number(config, "alpha_real", 1), _number(config, "beta", 0)
    result_shape = first_array(instruction)
    settle = settled_shape(result_shape, computed.floats)
    minor = result_shape.layout.minor_to_major
    is_tuple = isinstance(instruction.shape, TupleShape)
    count = 2 if epilogue.endswith("_AUX") else 1

    def kernel(a: Array, b: Array, *others: Array) -> Value:
        result = alpha * contracted(a, b, numbers)
        if beta:
            result = result + beta * others[0]
        if has_bias:
            # cuBLAS adds a bias along the most minor dimension.
            result = result + _as_minor(others[1 if beta else 0], result.ndim, minor)
        results: list[Value] = [settle(activation(result)), settle(result)]
        return (*results[:count], *_scratch(instruction, computed, count)) if is_tuple else results[0]

    return kernel


def _contracting(config: dict[str, object]) -> DotDimensionNumbers:
    dims = config["dot_dimension_numbers"]
    assert isinstance(dims, dict)
    return DotDimensionNumbers(
        *(
            tuple(map(int, dims.get(f"{side}_{word}_dimensions", ())))
            for word in ("contracting", "batch")
            for side in ("lhs", "rhs")
        )
    )


def _as_minor(bias: Array, rank: int, minor: Sequence[int]) -> Array:
    """A bias along the dimensions of the result that are the most minor in memory."""
    if bias.ndim != 1 or not minor:
        return bias
    sizes = [1] * rank
    sizes[minor[0]] = bias.shape[0]
    return bias.reshape(sizes)


def _scratch(instruction: Instruction, computed: Computed, count: int = 1) -> Sequence[Value]:
    """Scratch memory, which is the result after those that are values."""
    shape = instruction.shape
    return [zeros_of(each, computed) for each in shape.elements[count:]] if isinstance(shape, TupleShape) else ()


def _activation(config: dict[str, object], instruction: Instruction) -> Callable[[Array], Array]:
    """The activation of a convolution."""
    mode = str(config.get("activation_mode") or "kNone")
    slope = _number(config, "leakyrelu_alpha", 0)
    functions: dict[str, Callable[[Array], Array]] = {
        "kElu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "kLeakyRelu": lambda x: np.where(x > 0, x, slope * x),
        "kNone": lambda x: x,
        "kRelu": _relu,
        "kRelu6": lambda x: np.clip(x, 0, 6),
        "kSigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "kTanh": np.tanh,
    }
    if mode not in functions:
        raise HloError(f"cannot evaluate {instruction.name}: the activation {mode} is unknown", instruction.span)
    return functions[mode]


def _labels(instruction: Instruction) -> ConvolutionDimensionNumbers:
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None:
        raise HloError(f"cannot evaluate {instruction.name}: it has no dim_labels", instruction.span)
    return numbers


def _convolution(instruction: Instruction, computed: Computed) -> Kernel:
    """A forward convolution, scaled, with a bias, a side input, and an activation if it has them."""
    numbers = _labels(instruction)
    window = instruction.window.dimensions if instruction.window is not None else ()
    groups = instruction.integer("feature_group_count") or 1
    config = _configuration(instruction, "cudnn_conv_backend_config")
    scale, side_scale = _number(config, "conv_result_scale", 1), _number(config, "side_input_scale", 0)
    activation = _activation(config, instruction)
    settle = settled_shape(first_array(instruction), computed.floats)
    places = _features_first(numbers)

    def kernel(x: Array, w: Array, *others: Array) -> Value:
        result = convolved(x.transpose(places.input), w.transpose(places.kernel), window, groups)
        result = (scale * result).transpose(np.argsort(places.output))
        if len(others) > 1 and side_scale:
            result = result + side_scale * others[1]
        if others:
            sizes = [1] * result.ndim
            sizes[numbers.output_feature_dimension] = -1
            result = result + others[0].reshape(sizes)
        return (settle(activation(result)), *_scratch(instruction, computed))

    return kernel


def _filter_gradient(instruction: Instruction, computed: Computed) -> Kernel:
    """The gradient of the filter; labels and window are those of the forward convolution."""
    window = instruction.window.dimensions if instruction.window is not None else ()
    groups = instruction.integer("feature_group_count") or 1
    settle = settled_shape(first_array(instruction), computed.floats)
    scale = _number(_configuration(instruction, "cudnn_conv_backend_config"), "conv_result_scale", 1)
    places = _features_first(_labels(instruction))

    def kernel(x: Array, gradient: Array, *others: Array) -> Value:
        found = filter_gradient(x.transpose(places.input), gradient.transpose(places.output), window, groups)
        return (settle(scale * found.transpose(np.argsort(places.kernel))), *_scratch(instruction, computed))

    return kernel


def _input_gradient(instruction: Instruction, computed: Computed) -> Kernel:
    """The gradient of the input; labels and window are those of the forward convolution."""
    window = instruction.window.dimensions if instruction.window is not None else ()
    groups = instruction.integer("feature_group_count") or 1
    shape = first_array(instruction)
    settle = settled_shape(shape, computed.floats)
    scale = _number(_configuration(instruction, "cudnn_conv_backend_config"), "conv_result_scale", 1)
    places = _features_first(_labels(instruction))
    sizes = [shape.dimensions[at] for at in places.input[2:]]

    def kernel(gradient: Array, w: Array, *others: Array) -> Value:
        found = input_gradient(gradient.transpose(places.output), w.transpose(places.kernel), window, sizes, groups)
        return (settle(scale * found.transpose(np.argsort(places.input))), *_scratch(instruction, computed))

    return kernel


LIBRARY_CALLS: Final[dict[str, Rule]] = {
    "__cublas$gemm": _gemm,
    "__cublas$lt$matmul": _gemm,
    "__cudnn$convBackwardFilter": _filter_gradient,
    "__cudnn$convBackwardInput": _input_gradient,
    "__cudnn$convBiasActivationForward": _convolution,
    "__cudnn$convForward": _convolution,
}
"""The rule of each target of a library."""
