"""What opcodes compute that gather, scatter, slice at computed positions, or reduce.

A scatter combines by the reducers of reductions, and the selection within windows is a scatter: so all are
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.semantics.elementwise import has_negative_zero
from hlo_cli.analysis.semantics.rearranging import padded, stable_order
from hlo_cli.analysis.semantics.typed_values import (
    Array,
    Computed,
    Kernel,
    Rule,
    Taking,
    Value,
    array_of,
    array_shape,
    first_array,
    is_only_here,
    settle,
)
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import (
    ScatterDimensionNumbers,
    WindowDimension,
    gather_dimension_numbers,
    scatter_dimension_numbers,
)
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape

# --- reducers and moving windows ---
# Reducers that are one function of numpy, and windows of them that move over arrays.
#
# The reducer of a `reduce-window` is associative by the definition of the opcode, so elements may be grouped in any way
# as long as their order stays: one dimension after another, and a window of n elements by log n calls.


Arrays = tuple[Array, ...]
Merge = Callable[[Arrays, Arrays], Arrays]
"""Combines the arrays of earlier elements with those of later ones."""

_BLOCK: Final = 1 << 19
"""The elements that are combined at once where the first dimension has no window, so that they stay in the cache."""
_SHORT: Final = 4
"""The largest window whose elements are combined one after another."""

_KNOWN: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
}

SUMS: Final = (np.add, np.multiply)
"""Those that round, so that the order of elements matters."""
OF_PREDICATES: Final[dict[str, np.ufunc]] = {
    "add": np.logical_or,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
    "multiply": np.logical_and,
}
"""What the functions are of booleans, by their names."""


def plain_reducer(computation: Computation) -> np.ufunc | None:
    """The function of a computation that applies it to its two parameters; None for any other computation.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
    >>> plain_reducer(parse_module(text).entry) is np.add
    True
    """
    root = computation.root
    # Two parameters and one operation; anything more is computed as it is.
    if root is None or len(computation.instructions) != 3 or root.opcode not in _KNOWN or len(root.operands) != 2:
        return None
    numbers = {operand.parameter_number for operand in root.operands}
    return _KNOWN[root.opcode] if numbers == {0, 1} else None


def _identity_of(name: str, kind: np.dtype[Any]) -> Array:
    """What a function of numpy leaves as it is; -0 for sums, which +0 would change.

    >>> _identity_of("maximum", np.dtype(np.int8)).tolist(), _identity_of("minimum", np.dtype(np.float32)).tolist()
    (-128, inf)
    """
    # -0 is neutral in sums: +0 would turn a sum of -0 into +0.
    if _KNOWN[name] in SUMS:
        return np.array(1 if name == "multiply" else -0.0 if kind.kind == "f" else 0, kind)
    if kind.kind == "b":
        return np.array(name == "minimum")
    if kind.kind == "f":
        return np.array(np.inf if name == "minimum" else -np.inf, kind)
    return np.array(np.iinfo(kind).max if name == "minimum" else np.iinfo(kind).min, kind)


def _paddings(window: Sequence[WindowDimension]) -> list[tuple[int, int, int]]:
    """The padding of each dimension, and between its elements, as `padded` takes it.

    >>> _paddings([WindowDimension(3, padding_low=1, base_dilation=2)])
    [(1, 0, 1)]
    """
    return [(each.padding_low, each.padding_high, each.base_dilation - 1) for each in window]


def _combined_windows(x: Array, window: Sequence[WindowDimension], function: np.ufunc, identity: object) -> Array:
    """The elements of each window combined by a function; padding and holes are its identity.

    >>> x, window = np.arange(5.0), [WindowDimension(5, padding_low=4)]
    >>> _combined_windows(x, window, np.add, 0.0).tolist()
    [0.0, 1.0, 3.0, 6.0, 10.0]
    """

    def merge(left: Arrays, right: Arrays) -> Arrays:
        return (np.asarray(function(left[0], right[0])),)

    def block(part: Array) -> Array:
        config = _paddings(window)
        # Holes and padding hold the identity, so they combine without being looked at.
        spread = padded(part, np.array(identity, part.dtype), config) if any(map(any, config)) else part
        return _merged_windows((spread,), window, merge)[0]

    lines = max(1, _BLOCK // max(1, prod(x.shape[1:])))
    # Blocks of the first dimension stay in the cache, if it has no window.
    if not window or window[0] != WindowDimension(1) or lines >= x.shape[0]:
        return block(x)
    return np.concatenate([block(x[at : at + lines]) for at in range(0, x.shape[0], lines)])


def _merged_windows(arrays: Arrays, window: Sequence[WindowDimension], merge: Merge) -> Arrays:
    """The elements of each window of arrays that are padded already, in their order, one dimension after another.

    >>> _merged_windows((np.arange(6),), [WindowDimension(5)], lambda x, y: (x[0] + y[0],))
    (array([10, 15]),)
    """
    for axis, dimension in enumerate(window):
        free = arrays[0].shape[axis] - dimension.dilated_size
        count = free // dimension.stride + 1 if free >= 0 else 0
        if count == 0:
            sizes = [count if place == axis else size for place, size in enumerate(arrays[0].shape)]
            arrays = tuple(np.empty(sizes, x.dtype) for x in arrays)
        # Short windows, or those that hardly overlap, are cheaper one element at a time.
        elif dimension.size <= _SHORT or dimension.size <= 2 * dimension.stride:
            arrays = _one_by_one(arrays, axis, dimension, count, merge)
        else:
            arrays = _doubled(arrays, axis, dimension, count, merge)
    return arrays


def _one_by_one(arrays: Arrays, axis: int, dimension: WindowDimension, count: int, merge: Merge) -> Arrays:
    merged = _part(arrays, axis, 0, count, dimension.stride)
    for tap in range(1, dimension.size):
        merged = merge(merged, _part(arrays, axis, tap * dimension.window_dilation, count, dimension.stride))
    return merged


def _doubled(arrays: Arrays, axis: int, dimension: WindowDimension, count: int, merge: Merge) -> Arrays:
    """Windows of 1, 2, 4 … elements, of which the binary digits of the size select some that follow each other."""
    merged: Arrays = ()
    width, first = 1, 0
    while True:
        # The binary digits of the size select windows of 1, 2, 4 … that follow each other.
        if dimension.size & width:
            part = _part(arrays, axis, first * dimension.window_dilation, count, dimension.stride)
            merged = merge(merged, part) if merged else part
            first += width
        if 2 * width > dimension.size:
            return merged
        reach = width * dimension.window_dilation
        left = arrays[0].shape[axis] - reach
        arrays = merge(_part(arrays, axis, 0, left, 1), _part(arrays, axis, reach, left, 1))
        width *= 2


def _part(arrays: Arrays, axis: int, start: int, count: int, stride: int) -> Arrays:
    taken = (slice(None),) * axis + (slice(start, start + (count - 1) * stride + 1, stride),)
    return tuple(x[taken] for x in arrays)


# --- computed positions ---
# Opcodes that read or write at computed positions: dynamic slices, gather, and scatter.
#
# Mirrors `HandleDynamicSlice`, `HandleGather`, and `HandleScatter` of the evaluator: starts of slices are clamped so
# that the whole slice is inside; updates of a scatter that are not wholly inside are dropped.


Integers: TypeAlias = npt.NDArray[np.int64]
Combine = Callable[[Sequence[Array]], tuple[Array, ...]]


def _starts(indices: tuple[Array, ...], rank: int) -> list[int]:
    """The start in each dimension: one scalar each, or all in one array as in old texts."""
    # Old texts give all starts in one array.
    if (len(indices) == 1 and rank != 1) or (len(indices) == 1 and indices[0].ndim == 1):
        return [int(each) for each in indices[0].reshape(-1)]
    return [int(each) for each in indices]


def dynamic_slice(instruction: Instruction, computed: Computed) -> Kernel:
    """A slice of a fixed size at a computed start."""
    sizes = array_shape(instruction).dimensions

    def kernel(x: Array, *indices: Array) -> Array:
        starts = _starts(indices, x.ndim)
        # XLA clamps so that the whole slice is inside.
        clamped = [max(0, min(start, whole - size)) for start, whole, size in zip(starts, x.shape, sizes, strict=True)]
        return x[tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))]

    return kernel


def dynamic_update_slice(instruction: Instruction, computed: Computed) -> Kernel:
    """An array with a slice replaced at a computed start: in place if nothing else holds the array, as in a loop."""

    def take(operands: list[Value]) -> Value:
        is_free = is_only_here(operands)
        x, update, *indices = map(array_of, operands)
        starts = _starts(tuple(indices), x.ndim)
        # Only an array that nothing else refers to may be overwritten.
        result = x if is_free and x.dtype == update.dtype else x.copy()
        clamped = [
            max(0, min(start, whole - size)) for start, whole, size in zip(starts, x.shape, update.shape, strict=True)
        ]
        result[tuple(slice(at, at + size) for at, size in zip(clamped, update.shape, strict=True))] = update
        return result

    return Taking(take)


def _index_vectors(indices: Array, vector_dimension: int) -> Integers:
    """The index vectors as the last dimension; an implicit one has a single element."""
    if vector_dimension == indices.ndim:
        indices = indices[..., np.newaxis]
    moved = np.moveaxis(indices, vector_dimension, -1)
    # Unsigned starts beyond int64 are clamped all the same.
    if moved.dtype.kind == "u" and moved.dtype.itemsize == 8:
        moved = np.minimum(moved, np.uint64(2**63 - 1))
    return moved.astype(np.int64)


def gather(instruction: Instruction, computed: Computed) -> Kernel:
    """Slices of an operand at computed starts."""
    numbers = gather_dimension_numbers(instruction)
    assert numbers is not None
    slice_sizes = instruction.integers("slice_sizes")
    rank = len(array_shape(instruction).dimensions)
    hidden = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = [at for at in range(len(slice_sizes)) if at not in hidden]
    batch = [at for at in range(rank) if at not in numbers.offset_dims]

    def kernel(x: Array, indices: Array) -> Array:
        vectors = _index_vectors(indices, numbers.index_vector_dim)
        sizes = [min(pair) for pair in zip(slice_sizes, x.shape, strict=True)]  # a dynamic size is at most its bound
        places = vectors.shape[:-1]
        starts = np.zeros((*places, x.ndim), np.int64)
        for at, dimension in enumerate(numbers.start_index_map):
            starts[..., dimension] = np.clip(vectors[..., at], 0, x.shape[dimension] - sizes[dimension])
        for of_operand, of_indices in zip(
            numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
        ):
            # The index vector dimension is not among the batch dimensions of the starts.
            place = of_indices - (of_indices > numbers.index_vector_dim)
            counted = np.arange(places[place]).reshape([-1 if at == place else 1 for at in range(len(places))])
            starts[..., of_operand] = counted
        # window dimensions that are taken whole need no positions, and are copied at once
        whole = [at for at in window if sizes[at] == x.shape[at]]
        parts = [at for at in range(x.ndim) if at not in whole]
        inner = [at for at in window if at not in whole]
        index = []
        for dimension in parts:
            positions = starts[..., dimension].reshape([*places, *([1] * len(inner))])
            if dimension in inner:
                spread = [1] * len(inner)
                spread[inner.index(dimension)] = sizes[dimension]
                positions = positions + np.arange(sizes[dimension]).reshape(spread)
            index.append(positions)
        # Dimensions taken whole need no index.
        laid = x.transpose([*parts, *whole])
        if not index:
            windows = np.broadcast_to(laid, (*places, *laid.shape))
        elif len(index) == 1:  # only faster
            windows = laid.take(index[0], 0)
        else:
            windows = laid[tuple(index)]
        windows = np.broadcast_to(windows, (*places, *(sizes[at] for at in (*inner, *whole))))
        windows = np.moveaxis(
            windows, range(len(places), windows.ndim), [len(places) + window.index(at) for at in (*inner, *whole)]
        )
        order = [0] * rank
        for at, place in enumerate(batch):
            order[place] = at
        for at, place in enumerate(numbers.offset_dims):
            order[place] = len(places) + at
        return windows.transpose(order)

    return kernel


def scatter(instruction: Instruction, computed: Computed) -> Kernel:
    """Operands with updates combined into them, in row-major order of the scatter dimensions."""
    numbers = scatter_dimension_numbers(instruction)
    assert numbers is not None
    combine = computed.vectorized(instruction.called_computations[0])
    count = len(instruction.operands) // 2
    at_once = _sequential(instruction, computed) if count == 1 else None

    def kernel(*given: Value) -> Value:
        operands = [array_of(each) for each in given[:count]]
        updates = [array_of(each) for each in given[count + 1 :]]
        targets = _targets(operands[0].shape, updates[0].shape, array_of(given[count]), numbers)
        results = [operand.reshape(-1).copy() for operand in operands]
        flat = [
            update.transpose(targets.order).reshape(targets.is_inside.size, targets.offsets.size) for update in updates
        ]
        if not targets.is_inside.all():
            flat = [update[targets.is_inside] for update in flat]
        if flat[0].size:
            _combine(results, flat, targets, combine, at_once)
        shaped = tuple(result.reshape(operand.shape) for result, operand in zip(results, operands, strict=True))
        return shaped[0] if count == 1 else shaped

    return kernel


class _Targets(NamedTuple):
    """Where updates go: the first element of those wholly inside, and how far from it all elements of one are.

    `order` are the dimensions of the updates, those of the scatter first. Of `are_lines`, two updates have the same
    elements if their first is the same, and else no element in common.
    """

    first: Integers
    offsets: Integers
    is_inside: npt.NDArray[np.bool_]
    order: tuple[int, ...]
    are_lines: bool


def _targets(
    sizes: tuple[int, ...], update_sizes: tuple[int, ...], indices: Array, numbers: ScatterDimensionNumbers
) -> _Targets:
    vectors = _index_vectors(indices, numbers.index_vector_dim)
    places = vectors.shape[:-1]
    scatter_dims = [at for at in range(len(update_sizes)) if at not in numbers.update_window_dims]
    hidden = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    window = [at for at in range(len(sizes)) if at not in hidden]
    extent = [1] * len(sizes)
    for dimension, place in zip(window, numbers.update_window_dims, strict=True):
        extent[dimension] = update_sizes[place]
    # A column for each dimension: rows of a few numbers are slow in numpy. Other dimensions start at 0.
    starts: dict[int, Integers] = {
        dimension: vectors[..., at] for at, dimension in enumerate(numbers.scatter_dims_to_operand_dims)
    }
    for of_operand, of_indices in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        place = of_indices - (of_indices > numbers.index_vector_dim)
        shape = [-1 if at == place else 1 for at in range(len(places))]
        starts[of_operand] = np.broadcast_to(np.arange(places[place]).reshape(shape), places)
    # XLA drops an update that is not wholly inside, it does not clamp it.
    inside = np.full(places, all(length <= size for length, size in zip(extent, sizes, strict=True)))
    for dimension, start in starts.items():
        inside &= start >= 0
        inside &= start <= sizes[dimension] - extent[dimension]
    is_whole = bool(inside.all())
    columns = {dimension: start.reshape(-1) if is_whole else start[inside] for dimension, start in starts.items()}
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int64) if sizes else np.zeros(0, np.int64)
    first = np.zeros(np.count_nonzero(inside), np.int64)
    for dimension, column in columns.items():
        first += column * strides[dimension] if strides[dimension] != 1 else column
    offsets = np.zeros([extent[at] for at in window], np.int64)
    for position, dimension in enumerate(window):
        spread = [1] * len(window)
        spread[position] = extent[dimension]
        offsets = offsets + (np.arange(extent[dimension]) * strides[dimension]).reshape(spread)
    order = (*scatter_dims, *numbers.update_window_dims)
    are_lines = all(extent[each] == 1 or bool((column == column[:1]).all()) for each, column in columns.items())
    return _Targets(first, offsets.reshape(-1), inside.reshape(-1), order, are_lines)


InOrder: TypeAlias = Callable[[Array, Integers, Array], bool]
"""Combines values into an array at given places, one after another; False, and no change, if that is not exact."""

_IN_ORDER: Final[dict[str, np.ufunc]] = {
    "add": np.add, "and": np.bitwise_and, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply,
    "or": np.bitwise_or, "subtract": np.subtract, "xor": np.bitwise_xor,
}  # fmt: skip
_ROUNDED: Final = ("add", "multiply", "subtract")
"""Those whose results are rounded."""
_MAX_ROUNDS: Final = 64
"""The most updates of one target that are combined in rounds, if numpy can combine them one after another."""
_LONG_LINE: Final = 16  # measured: rounds copy whole lines, numpy combines element by element
_PLACES: Final = 1 << 14  # their numbers stay in the nearest caches, chosen
"""The places that are computed at once."""


def _sequential(instruction: Instruction, computed: Computed) -> InOrder | None:
    """Applies a reducer to updates one after another; None if numpy has no function for that."""
    computation = instruction.called_computations[0]
    root, kind = computation.root, array_shape(instruction).element_type
    if root is None:
        return None
    if root.parameter_number == 1 and len(computation.parameters) == 2:
        return _assign
    numbers = [operand.parameter_number for operand in root.operands]
    is_ordered = numbers == [0, 1] or (numbers == [1, 0] and root.opcode != "subtract")
    if root.opcode not in _IN_ORDER or len(computation.instructions) != 3 or not is_ordered:
        return None
    is_rounded = root.opcode in _ROUNDED
    match kind.kind:
        case "float":
            held = ("f32", "f64") if is_rounded else ("bf16", "f16", "f32", "f64")
            is_held = computed.floats == "widen" or kind.name in held
        case "signed" | "unsigned":
            is_held = kind.bits >= 8 or not is_rounded
        case _:
            is_held = kind.kind == "pred" and not is_rounded
    if not is_held:
        return None
    return partial(_apply, _IN_ORDER[root.opcode])


def _assign(result: Array, places: Integers, values: Array) -> bool:
    result[places] = values  # of several values for one place, numpy keeps the last
    return True


def _apply(function: np.ufunc, result: Array, places: Integers, values: Array) -> bool:
    if result.dtype.kind != "f":
        function.at(result, places, values)
        return True
    touched: Integers | slice = slice(None) if result.size <= places.size else places
    before = result[touched].copy()
    # numpy returns either of two zeros, and either of two NaN.
    if function in (np.maximum, np.minimum) and (has_negative_zero(values) or has_negative_zero(before)):
        return False
    function.at(result, places, values)
    if not np.isnan(result[touched]).any():
        return True
    result[touched] = before
    return False


def _combine(
    results: Sequence[Array], updates: Sequence[Array], targets: _Targets, combine: Combine, at_once: InOrder | None
) -> None:
    """Combines updates into the results: those with one target in the order of the updates."""
    first, offsets = targets.first, targets.offsets
    if not targets.are_lines:
        first, offsets = (first[:, np.newaxis] + offsets).reshape(-1), offsets[:1]
        updates = [update.reshape(-1, 1) for update in updates]
    width, done = len(offsets), 0
    # Rounds are faster for long lines, and slow for many updates of one target.
    if at_once is not None and (width < _LONG_LINE or int(np.bincount(first).max()) > _MAX_ROUNDS):
        block = max(1, _PLACES // width) if width > 1 else len(first)
        while done < len(first):
            part = slice(done, done + block)
            places = (first[part, np.newaxis] + offsets).reshape(-1) if width > 1 else first
            if not at_once(results[0], places, updates[0][part].reshape(-1)):
                break
            done += block
    first, updates = first[done:], [update[done:] for update in updates]
    are_rows = not (first % width).any() and results[0].size % width == 0 and bool((offsets == np.arange(width)).all())
    if are_rows:  # the lines are those of the array, if it is cut into lines of this length
        results, first = [result.reshape(-1, width) for result in results], first // width
    # Updates of one target follow each other in rounds, so their order stays.
    for chosen in _rounds_of(first):
        places = first[chosen] if are_rows else first[chosen, np.newaxis] + offsets
        new = combine([*(result[places] for result in results), *(update[chosen] for update in updates)])
        for result, values in zip(results, new, strict=True):
            result[places] = values


def _rounds_of(targets: Integers) -> list[Integers]:
    """Groups of updates with distinct targets: the first update of every target, then the second of each, and so on."""
    if not targets.size:
        return []
    # Sorting 32 bits is faster than 64.
    order = stable_order(targets.astype(np.int32) if int(targets.max()) < 1 << 31 else targets)
    sorted_targets = targets[order]
    begins = np.flatnonzero(np.r_[True, sorted_targets[1:] != sorted_targets[:-1]])
    lengths = np.diff(np.r_[begins, len(order)])
    rank = np.arange(len(order)) - np.repeat(begins, lengths)
    by_rank = stable_order(rank.astype(np.int32) if len(rank) < 1 << 31 else rank)
    ends = np.cumsum(np.bincount(rank))
    return np.split(order[by_rank], ends[:-1])


INDEXING_RULES: Final[dict[str, Rule]] = {
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    opcodes.SCATTER: scatter,
}
"""The rule of each opcode with computed positions."""


# --- reductions ---
# Over dimensions, over windows, and the selection within windows.
#
# Mirrors `HandleReduce`, `HandleReduceWindow`, and `HandleSelectAndScatter` of the evaluator. A reduction may be
# grouped in any way; here it is a tree over each dimension, one vectorized call a level, and sums are made in f64.


def reduce(instruction: Instruction, computed: Computed) -> Kernel:
    """Combines the elements along some dimensions with an initial value."""
    dimensions = instruction.integers("dimensions")
    computation = instruction.called_computations[0]
    count = len(instruction.operands) // 2
    if count == 1 and (known := plain_reducer(computation)) is not None:
        return _plain_reduce(instruction, known, dimensions, computed)
    combine = computed.vectorized(computation)

    def kernel(*given: Value) -> Value:
        arrays = [array_of(each) for each in given[:count]]
        initial = [array_of(each) for each in given[count:]]
        result = reduced(arrays, initial, dimensions, combine)
        return result[0] if count == 1 else result

    return kernel


def _plain_reduce(
    instruction: Instruction, function: np.ufunc, dimensions: tuple[int, ...], computed: Computed
) -> Kernel:
    shape = instruction.shape
    assert isinstance(shape, ArrayShape)
    kind = shape.element_type
    is_sum = function in SUMS

    def kernel(x: Array, initial: Array) -> Array:
        if kind.kind == "pred":
            # Sums and products of booleans are or and and.
            logical = OF_PREDICATES[function.__name__]
            found = logical.reduce(x, axis=dimensions) if x.size else initial
            return np.broadcast_to(np.asarray(logical(found, initial)), shape.dimensions)
        held = _WIDE.get(x.dtype.kind, x.dtype) if is_sum else x.dtype
        start = initial.astype(held)
        if not dimensions:
            return settle(np.asarray(function(x.astype(held, copy=False), start)), kind, computed.floats)
        # Sums in f64: as near to every compiler's order as these are to each other.
        total = function.reduce(x, axis=dimensions, initial=start[()], dtype=held)  # converts block by block
        return settle(np.asarray(total), kind, computed.floats)

    return kernel


def reduced(
    arrays: Sequence[Array], initial: Sequence[Array], dimensions: Sequence[int], combine: Combine
) -> tuple[Array, ...]:
    """The elements of arrays combined along dimensions, pairwise in a tree, and last with the initial values."""
    kept = [at for at in range(arrays[0].ndim) if at not in dimensions]
    sizes = [arrays[0].shape[at] for at in kept]
    moved = [np.moveaxis(x, kept, range(len(kept))).reshape(*sizes, -1) for x in arrays]
    starts = tuple(np.broadcast_to(each, sizes) for each in initial)
    if moved[0].shape[-1] == 0:
        return starts
    # A tree of pairs: log n calls, and rounding like that of parallel hardware.
    while (length := moved[0].shape[-1]) > 1:
        half = length // 2
        pairs = combine([*(x[..., : 2 * half : 2] for x in moved), *(x[..., 1 : 2 * half : 2] for x in moved)])
        moved = [
            np.concatenate((new, x[..., 2 * half :]), axis=-1) if length % 2 else new
            for new, x in zip(pairs, moved, strict=True)
        ]
    return combine([*starts, *(x[..., 0] for x in moved)])


def _positions(window: Sequence[WindowDimension]) -> Iterator[tuple[int, ...]]:
    return product(*(range(each.size) for each in window))


def _window_slices(
    window: Sequence[WindowDimension], taps: tuple[int, ...], counts: Sequence[int]
) -> tuple[slice, ...]:
    """The elements at one place of the window, for all positions of the window."""
    return tuple(
        slice(place * each.window_dilation, place * each.window_dilation + (count - 1) * each.stride + 1, each.stride)
        for each, place, count in zip(window, taps, counts, strict=True)
    )


def reduce_window(instruction: Instruction, computed: Computed) -> Kernel:
    """Combines the elements of each window; padding and holes are skipped."""
    window = instruction.window.dimensions if instruction.window is not None else ()
    count = len(instruction.operands) // 2
    computation = instruction.called_computations[0]
    combine = computed.vectorized(computation)
    known = plain_reducer(computation) if count == 1 else None

    if known is not None:
        return _plain_windows(instruction, known, window, computed)

    def kernel(*values: Value) -> Value:
        arrays, initial = [array_of(each) for each in values[:count]], [array_of(each) for each in values[count:]]
        counts = [each.positions(size) for each, size in zip(window, arrays[0].shape, strict=True)]
        present = padded(np.ones(arrays[0].shape, bool), np.array(False), _paddings(window))
        spread = [padded(x, np.zeros((), x.dtype), _paddings(window)) for x in arrays]
        results = tuple(np.broadcast_to(each, counts) for each in initial)
        if 0 in counts:
            return results[0] if count == 1 else results
        # A large window takes too many calls one by one.
        if prod(each.size for each in window) > _MAX_SMALL_WINDOW:
            *found, is_present = _merged_windows((*spread, present), window, _present_merge(combine))
            new = combine([*results, *found])
            results = tuple(np.where(is_present, n, old) for n, old in zip(new, results, strict=True))
            return results[0] if count == 1 else results
        for taps in _positions(window):
            taken = _window_slices(window, taps, counts)
            is_present = present[taken]
            if is_present.any():
                new = combine([*results, *(x[taken] for x in spread)])
                results = tuple(np.where(is_present, n, old) for n, old in zip(new, results, strict=True))
        return results[0] if count == 1 else results

    return kernel


_MAX_SMALL_WINDOW: Final = 64
"""The largest window whose elements are combined one after another by any computation."""


def _present_merge(combine: Combine) -> Merge:
    """Combines values where both are present; the last array tells where one is."""

    def merge(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
        before, after = left[-1], right[-1]
        both = combine([*left[:-1], *right[:-1]])
        every = zip(both, left[:-1], right[:-1], strict=True)
        return (*(np.where(before & after, new, np.where(before, a, b)) for new, a, b in every), before | after)

    return merge


def _plain_windows(
    instruction: Instruction, function: np.ufunc, window: Sequence[WindowDimension], computed: Computed
) -> Kernel:
    """Windows combined by a function of numpy; sums and products are made in f64 and rounded once."""
    kind = first_array(instruction).element_type
    name, is_sum = function.__name__, function in SUMS
    if kind.kind == "pred":
        function = OF_PREDICATES[name]

    def kernel(x: Array, initial: Array) -> Array:
        if is_sum:
            x = x.astype(_WIDE.get(x.dtype.kind, x.dtype), copy=False)
        # numpy's maximum does not tell zeros apart, the rule of the opcode does.
        elif has_negative_zero(x) or has_negative_zero(initial):
            combine = computed.vectorized(instruction.called_computations[0])
            spread = padded(x, _identity_of(name, x.dtype), _paddings(window))
            [found] = _merged_windows((spread,), window, lambda a, b: combine((*a, *b)))
            return combine([initial, found])[0]
        found = _combined_windows(x, window, function, _identity_of(name, x.dtype))
        return settle(np.asarray(function(initial.astype(x.dtype), found)), kind, computed.floats)

    return kernel


_WIDE: Final = {"f": np.float64, "c": np.complex128}


def select_and_scatter(instruction: Instruction, computed: Computed) -> Kernel:
    """Adds each source element to the place that its window selects.

    The first element of a window is chosen first; a later one takes over where `select(chosen, it)` is false.
    """
    window = instruction.window.dimensions if instruction.window is not None else ()
    select = computed.vectorized(instruction.called_computations[0])
    combine = computed.vectorized(instruction.called_computations[1])

    def kernel(x: Array, source: Array, initial: Array) -> Array:
        config = [(each.padding_low, each.padding_high, 0) for each in window]
        present = padded(np.ones(x.shape, bool), np.array(False), config)
        spread = padded(x, np.zeros((), x.dtype), config)
        numbered = padded(np.arange(x.size).reshape(x.shape), np.array(-1), config)
        chosen = np.full(source.shape, -1, np.int64)
        values = np.zeros(source.shape, x.dtype)
        if source.size:
            for taps in _positions(window):
                taken = _window_slices(window, taps, source.shape)
                is_present, value = present[taken], spread[taken]
                # The first of equal elements stays under GE, as XLA specifies.
                takes = is_present & ((chosen < 0) | ~select([values, value])[0])
                chosen, values = np.where(takes, numbered[taken], chosen), np.where(takes, value, values)
        result = np.full(x.size, initial, x.dtype)
        places, updates_by_place = chosen.reshape(-1), source.reshape(-1)
        sources = np.flatnonzero(places >= 0)
        # Several windows may select one element.
        for chosen_round in _rounds_of(places[sources]):
            updates = sources[chosen_round]
            result[places[updates]] = combine([updates_by_place[updates], result[places[updates]]])[0]
        return result.reshape(x.shape)

    return kernel


REDUCING_RULES: Final[dict[str, Rule]] = {
    opcodes.REDUCE: reduce,
    "reduce-window": reduce_window,
    "select-and-scatter": select_and_scatter,
}
"""The rule of each reduction."""
