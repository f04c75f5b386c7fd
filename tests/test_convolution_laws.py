"""Convolutions by their definition, and their gradients by adjointness: ⟨conv(x, w), g⟩ = ⟨x, input⟩ = ⟨w, filter⟩."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from hlo_cli.analysis.semantics.products import convolved, filter_gradient, input_gradient
from hlo_cli.analysis.semantics.typed_values import Array
from hlo_cli.ir.attributes.value_types import WindowDimension


def windows(random: Random, rank: int) -> tuple[tuple[WindowDimension, ...], list[int]]:
    """A window, and the spatial sizes of an input in which it has a position."""
    while True:
        window = tuple(
            WindowDimension(
                random.randrange(1, 4),
                random.randrange(1, 4),
                random.randrange(3),
                random.randrange(3),
                random.randrange(1, 3),
                random.randrange(1, 3),
                random.random() < 0.3,
            )
            for _ in range(rank)
        )
        sizes = [random.randrange(1, 6) for _ in range(rank)]
        if all(each.positions(size) > 0 for each, size in zip(window, sizes, strict=True)):
            return window, sizes


def by_definition(x: Array, w: Array, window: tuple[WindowDimension, ...], groups: int) -> Array:
    """One multiplication after another, of the elements at which a position of the window has no hole."""
    counts = [each.positions(size) for each, size in zip(window, x.shape[2:], strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *counts))
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    for place, tap in product(np.ndindex(*counts), np.ndindex(*w.shape[2:])):
        at, is_there = [], True
        for each, size, position, number in zip(window, x.shape[2:], place, tap, strict=True):
            step = each.size - 1 - number if each.window_reversal else number
            dilated = position * each.stride + step * each.window_dilation - each.padding_low
            at.append(dilated // each.base_dilation)
            is_there &= dilated >= 0 and dilated % each.base_dilation == 0 and dilated // each.base_dilation < size
        for group in range(groups) if is_there else ():
            given = x[(slice(None), slice(group * inputs, (group + 1) * inputs), *at)]
            taps = w[(slice(group * outputs, (group + 1) * outputs), slice(None), *tap)]
            result[(slice(None), slice(group * outputs, (group + 1) * outputs), *place)] += given @ taps.T
    return result


@pytest.mark.parametrize("seed", range(24))
def test_gradients_are_adjoint_to_the_convolution(seed: int) -> None:
    random, numbers = Random(seed), np.random.default_rng(seed)
    window, sizes = windows(random, 1 + seed % 2)
    groups = random.choice((1, 1, 2))
    x = numbers.integers(-9, 9, (2, 2 * groups, *sizes)).astype(float)
    w = numbers.integers(-9, 9, (3 * groups, 2, *(each.size for each in window))).astype(float)
    result = convolved(x, w, window, groups)
    np.testing.assert_array_equal(result, by_definition(x, w, window, groups))
    gradient = numbers.integers(-9, 9, result.shape).astype(float)
    by_input = input_gradient(gradient, w, window, sizes, groups)
    by_filter = filter_gradient(x, gradient, window, groups)
    assert (by_input.shape, by_filter.shape) == (x.shape, w.shape)
    assert (result * gradient).sum() == (x * by_input).sum() == (w * by_filter).sum()
    # Not only the sums: each element is what the result changes by with one of the input, and of the filter.
    for of, found in ((x, by_input), (w, by_filter)):
        at = tuple(random.randrange(size) for size in of.shape)
        one = np.zeros(of.shape)
        one[at] = 1
        changed = by_definition(one, w, window, groups) if of is x else by_definition(x, one, window, groups)
        assert found[at] == (changed * gradient).sum()
