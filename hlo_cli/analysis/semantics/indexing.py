"""Opcodes that read or write at computed positions: dynamic slices, gather, and scatter.

Mirrors `HandleDynamicSlice`, `HandleGather`, and `HandleScatter` of the evaluator: starts of slices are clamped so
that the whole slice is inside; updates of a scatter that are not wholly inside are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.reducers import SUMS, plain_reducer
from hlo_cli.analysis.semantics.sort_keys import stable_order
from hlo_cli.analysis.semantics.values import (
    Computed,
    Kernel,
    Rule,
    Taking,
    Value,
    array_of,
    array_shape,
    is_only_here,
)
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import (
    ScatterDimensionNumbers,
    gather_dimension_numbers,
    scatter_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction

Integers: TypeAlias = npt.NDArray[np.int64]
Combine = Callable[[Sequence[Array]], tuple[Array, ...]]


def _starts(indices: tuple[Array, ...], rank: int) -> list[int]:
    """The start in each dimension: one scalar each, or all in one array as in old texts."""
    if (len(indices) == 1 and rank != 1) or (len(indices) == 1 and indices[0].ndim == 1):
        return [int(each) for each in indices[0].reshape(-1)]
    return [int(each) for each in indices]


def dynamic_slice(instruction: Instruction, computed: Computed) -> Kernel:
    """A slice of a fixed size at a computed start."""
    sizes = array_shape(instruction).dimensions

    def kernel(x: Array, *indices: Array) -> Array:
        starts = _starts(indices, x.ndim)
        clamped = [max(0, min(start, whole - size)) for start, whole, size in zip(starts, x.shape, sizes, strict=True)]
        return x[tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))]

    return kernel


def dynamic_update_slice(instruction: Instruction, computed: Computed) -> Kernel:
    """An array with a slice replaced at a computed start: in place if nothing else holds the array, as in a loop."""

    def take(operands: list[Value]) -> Value:
        is_free = is_only_here(operands)
        x, update, *indices = map(array_of, operands)
        starts = _starts(tuple(indices), x.ndim)
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
        laid = x.transpose([*parts, *whole])
        if not index:
            found = np.broadcast_to(laid, (*places, *laid.shape))
        elif len(index) == 1:
            found = laid.take(index[0], 0)
        else:
            found = laid[tuple(index)]
        found = np.broadcast_to(found, (*places, *(sizes[at] for at in (*inner, *whole))))
        found = np.moveaxis(
            found, range(len(places), found.ndim), [len(places) + window.index(at) for at in (*inner, *whole)]
        )
        order = [0] * rank
        for at, place in enumerate(batch):
            order[place] = at
        for at, place in enumerate(numbers.offset_dims):
            order[place] = len(places) + at
        return found.transpose(order)

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
        found = _targets(operands[0].shape, updates[0].shape, array_of(given[count]), numbers)
        results = [operand.reshape(-1).copy() for operand in operands]
        flat = [update.transpose(found.order).reshape(found.is_inside.size, found.offsets.size) for update in updates]
        if not found.is_inside.all():
            flat = [update[found.is_inside] for update in flat]
        if flat[0].size:
            _combine(results, flat, found, combine, at_once)
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
    starts = np.zeros((*places, len(sizes)), np.int64)
    for at, dimension in enumerate(numbers.scatter_dims_to_operand_dims):
        starts[..., dimension] = vectors[..., at]
    for of_operand, of_indices in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        place = of_indices - (of_indices > numbers.index_vector_dim)
        shape = [-1 if at == place else 1 for at in range(len(places))]
        starts[..., of_operand] = np.arange(places[place]).reshape(shape)
    room = np.array(sizes, np.int64) - np.array(extent, np.int64)
    inside = np.logical_and.reduce((starts >= 0) & (starts <= room), axis=-1) if sizes else np.ones(places, bool)
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int64) if sizes else np.zeros(0, np.int64)
    offsets = np.zeros([extent[at] for at in window], np.int64)
    for position, dimension in enumerate(window):
        spread = [1] * len(window)
        spread[position] = extent[dimension]
        offsets = offsets + (np.arange(extent[dimension]) * strides[dimension]).reshape(spread)
    kept = starts[inside]
    wide = kept[:, [at for at, size in enumerate(extent) if size > 1]]
    order = (*scatter_dims, *numbers.update_window_dims)
    return _Targets(
        kept @ strides, offsets.reshape(-1), inside.reshape(-1), order, are_lines=bool((wide == wide[:1]).all())
    )


_MANY: Final = 64
"""The number of updates of one target from which numpy combines all of them one after another, if it can."""


def _sequential(instruction: Instruction, computed: Computed) -> np.ufunc | None:
    """The function that numpy applies to updates one after another; None if results are rounded to another type."""
    kind = array_shape(instruction).element_type
    is_held = kind.kind == "float" and (computed.floats == "widen" or kind.name in ("f32", "f64"))
    if not is_held and not (kind.kind in ("signed", "unsigned") and kind.bits >= 8):
        return None
    return plain_reducer(instruction.called_computations[0])


def _combine(
    results: Sequence[Array], updates: Sequence[Array], found: _Targets, combine: Combine, at_once: np.ufunc | None
) -> None:
    """Combines updates into the results: those with one target in the order of the updates."""
    first, offsets = found.first, found.offsets
    if not found.are_lines:
        first, offsets = (first[:, np.newaxis] + offsets).reshape(-1), offsets[:1]
        updates = [update.reshape(-1, 1) for update in updates]
    width = len(offsets)
    if at_once in SUMS and int(np.bincount(first).max()) > _MANY:
        at_once.at(results[0], (first[:, np.newaxis] + offsets).reshape(-1), updates[0].reshape(-1))
        return
    are_rows = not (first % width).any() and results[0].size % width == 0 and bool((offsets == np.arange(width)).all())
    if are_rows:  # the lines are those of the array, if it is cut into lines of this length
        results, first = [result.reshape(-1, width) for result in results], first // width
    for chosen in rounds_of(first):
        places = first[chosen] if are_rows else first[chosen, np.newaxis] + offsets
        new = combine([*(result[places] for result in results), *(update[chosen] for update in updates)])
        for result, values in zip(results, new, strict=True):
            result[places] = values


def rounds_of(targets: Integers) -> list[Integers]:
    """Groups of updates with distinct targets: the first update of every target, then the second of each, and so on."""
    if not targets.size:
        return []
    order = stable_order(targets.astype(np.int32) if int(targets.max()) < 1 << 31 else targets)
    sorted_targets = targets[order]
    begins = np.flatnonzero(np.r_[True, sorted_targets[1:] != sorted_targets[:-1]])
    lengths = np.diff(np.r_[begins, len(order)])
    rank = np.arange(len(order)) - np.repeat(begins, lengths)
    by_rank = stable_order(rank.astype(np.int32) if len(rank) < 1 << 31 else rank)
    ends = np.cumsum(np.bincount(rank))
    return np.split(order[by_rank], ends[:-1])


HANDLERS: Final[dict[str, Rule]] = {
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    opcodes.SCATTER: scatter,
}
"""The rule of each opcode with computed positions."""
