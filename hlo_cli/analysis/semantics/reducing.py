"""Reductions: over dimensions, over windows, and the selection within windows.

Mirrors `HandleReduce`, `HandleReduceWindow`, and `HandleSelectAndScatter` of the evaluator. A reduction may be grouped
in any way; here it is a tree over each dimension, one vectorized call a level, and sums are made in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.elementwise import has_negative_zero
from hlo_cli.analysis.semantics.indexing import rounds_of
from hlo_cli.analysis.semantics.number_types import Array, settle
from hlo_cli.analysis.semantics.reducers import (
    OF_PREDICATES,
    SUMS,
    Merge,
    combined_windows,
    identity_of,
    merged_windows,
    paddings,
    plain_reducer,
)
from hlo_cli.analysis.semantics.shaping import padded
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, array_of, first_array
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

Combine = Callable[[Sequence[Array]], tuple[Array, ...]]


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
            logical = OF_PREDICATES[function.__name__]
            found = logical.reduce(x, axis=dimensions) if x.size else initial
            return np.broadcast_to(np.asarray(logical(found, initial)), shape.dimensions)
        held = _WIDE.get(x.dtype.kind, x.dtype) if is_sum else x.dtype
        start = initial.astype(held)
        if not dimensions:
            return settle(np.asarray(function(x.astype(held, copy=False), start)), kind, computed.floats)
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


def _window_slices(window: Sequence[WindowDimension], at: tuple[int, ...], counts: Sequence[int]) -> tuple[slice, ...]:
    """The elements at one place of the window, for all positions of the window."""
    return tuple(
        slice(place * each.window_dilation, place * each.window_dilation + (count - 1) * each.stride + 1, each.stride)
        for each, place, count in zip(window, at, counts, strict=True)
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

    def kernel(*given: Value) -> Value:
        arrays, initial = [array_of(each) for each in given[:count]], [array_of(each) for each in given[count:]]
        counts = [each.positions(size) for each, size in zip(window, arrays[0].shape, strict=True)]
        present = padded(np.ones(arrays[0].shape, bool), np.array(False), paddings(window))
        spread = [padded(x, np.zeros((), x.dtype), paddings(window)) for x in arrays]
        results = tuple(np.broadcast_to(each, counts) for each in initial)
        if 0 in counts:
            return results[0] if count == 1 else results
        if prod(each.size for each in window) > _FEW:
            *found, here = merged_windows((*spread, present), window, _present_merge(combine))
            new = combine([*results, *found])
            results = tuple(np.where(here, n, old) for n, old in zip(new, results, strict=True))
            return results[0] if count == 1 else results
        for at in _positions(window):
            taken = _window_slices(window, at, counts)
            here = present[taken]
            if here.any():
                new = combine([*results, *(x[taken] for x in spread)])
                results = tuple(np.where(here, n, old) for n, old in zip(new, results, strict=True))
        return results[0] if count == 1 else results

    return kernel


_FEW: Final = 64
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
        elif has_negative_zero(x) or has_negative_zero(initial):
            combine = computed.vectorized(instruction.called_computations[0])
            spread = padded(x, identity_of(name, x.dtype), paddings(window))
            [found] = merged_windows((spread,), window, lambda a, b: combine((*a, *b)))
            return combine([initial, found])[0]
        found = combined_windows(x, window, function, identity_of(name, x.dtype))
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
            for at in _positions(window):
                taken = _window_slices(window, at, source.shape)
                here, value = present[taken], spread[taken]
                takes = here & ((chosen < 0) | ~select([values, value])[0])
                chosen, values = np.where(takes, numbered[taken], chosen), np.where(takes, value, values)
        result = np.full(x.size, initial, x.dtype)
        places, given = chosen.reshape(-1), source.reshape(-1)
        sources = np.flatnonzero(places >= 0)
        for chosen_round in rounds_of(places[sources]):
            updates = sources[chosen_round]
            result[places[updates]] = combine([given[updates], result[places[updates]]])[0]
        return result.reshape(x.shape)

    return kernel


HANDLERS: Final[dict[str, Rule]] = {
    opcodes.REDUCE: reduce,
    "reduce-window": reduce_window,
    "select-and-scatter": select_and_scatter,
}
"""The rule of each reduction."""
