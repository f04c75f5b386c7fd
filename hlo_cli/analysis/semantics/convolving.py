"""Convolutions: sums of products under a window, made in f64 and rounded once.

Mirrors `HandleConvolution` of xla/hlo/evaluator/hlo_evaluator_typed_visitor.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.semantics.contracting import EXACT_IN_F64, magnitude, of_dense_operands
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, settled
from hlo_cli.ir.attributes.value_types import (
    ConvolutionDimensionNumbers,
    WindowDimension,
    convolution_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import HloError

_BLOCK: Final = 1 << 22
"""The most elements that the windows of one product take: 32 MiB of f64."""


class Places(NamedTuple):
    """The dimensions of each array in the order batch, feature, space; of the kernel: output feature, input feature."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]


def features_first(numbers: ConvolutionDimensionNumbers) -> Places:
    """The order in which `convolved` takes dimensions.

    >>> features_first(ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,)))
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
    places = features_first(numbers)
    window = instruction.window.dimensions if instruction.window is not None else ()
    features = instruction.integer("feature_group_count") or 1
    batches = instruction.integer("batch_group_count") or 1
    settle_ = settled(instruction, computed.floats)
    back = np.argsort(places.output)

    def kernel(x: Array, w: Array) -> Array:
        found = convolved(x.transpose(places.input), w.transpose(places.kernel), window, features, batches)
        return settle_(found.transpose(back))

    return of_dense_operands(instruction, kernel)


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
    is_dense = all(each.base_dilation == 1 for each in window) and 2 * pairs > every
    by_output = prod(counts) < prod(map(len, taps))
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


def _reached(each: WindowDimension, size: int, count: int) -> list[tuple[int, slice, slice]]:
    """For each element of the window that ever meets the input: it, the positions where it does, and what it meets."""
    found = []
    positions = np.arange(count, dtype=np.int64) * each.stride - each.padding_low
    for tap in range(each.size):
        indices = positions + tap * each.window_dilation
        [met] = np.nonzero(
            (indices >= 0) & (indices <= (size - 1) * each.base_dilation) & (indices % each.base_dilation == 0)
        )
        if met.size:
            found.append((tap, _progression(met), _progression(indices[met] // each.base_dilation)))
    return found


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
    for each, size, count in zip(window, x.shape[2:], gradient.shape[2:], strict=True):
        reach = each.window_dilation * (each.size - 1) + each.stride * (count - 1) + 1
        high = reach - each.padding_low - ((size - 1) * each.base_dilation + 1)
        steps.append(
            WindowDimension(count, each.window_dilation, each.padding_low, high, each.base_dilation, each.stride)
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
    for each, size, count in zip(window, sizes, gradient.shape[2:], strict=True):
        reach = each.window_dilation * (each.size - 1)
        low = reach - each.padding_low
        high = (size - 1) * each.base_dilation + 1 + reach - low - (each.stride * (count - 1) + 1)
        steps.append(WindowDimension(each.size, each.base_dilation, low, high, each.stride, each.window_dilation))
    parts = [
        convolved(a, b.swapaxes(0, 1), steps)
        for a, b in zip(np.split(gradient, groups, 1), np.split(flipped, groups), strict=True)
    ]
    return np.concatenate(parts, 1)


HANDLERS: Final[dict[str, Rule]] = {"convolution": convolution}
"""The rule of convolutions."""
