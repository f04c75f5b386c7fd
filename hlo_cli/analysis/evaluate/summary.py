"""Summaries of arrays: extremes, mean, and what is not finite."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod, sqrt
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.dataclass import dataclass

MAX_FIRST = 4
_BLOCK: Final = 1 << 22
"""Elements that are looked at together: 32 MiB of f64."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Numbers of an array; those of the finite elements are None if there are none. Complex ones by magnitude."""

    least: float | None
    most: float | None
    mean: float | None
    rms: float | None
    zeros: int
    nan: int
    inf: int
    first: tuple[complex, ...]

    @property
    def first_text(self) -> str:
        """The first elements with four digits; integers have all.

        >>> summary_of(np.array([123456, 7])).first_text, summary_of(np.array([1 / 3, 3 - 4j])).first_text
        ('123456 7', '0.3333+0j 3-4j')
        """
        return " ".join(str(each) if isinstance(each, int) else f"{each:.4g}" for each in self.first)


def summary_of(array: Array) -> Summary:
    """The summary of an array; a broadcast one is as fast as what was broadcast.

    >>> summary_of(np.array([1.0, np.nan, 3.0, 0.0]))
    Summary(least=0.0, most=3.0, mean=1.3333333333333333, rms=1.8257418583505538, zeros=1, nan=1, inf=0, \
first=(1.0, nan, 3.0, 0.0))
    >>> summary_of(np.broadcast_to(0.0, (1 << 40,))).zeros == 1 << 40
    True
    """
    once = array[tuple(slice(0, 1) if not stride else slice(None) for stride in array.strides)]
    times = prod(array.shape) // max(1, once.size) if once.size else 0
    beginning = _beginning(array)
    first = tuple((beginning.astype(int) if beginning.dtype.kind == "b" else beginning).tolist())
    least, most, total, squares = float("inf"), float("-inf"), 0.0, 0.0
    count = zeros = nan = inf = 0
    for block in _blocks(once):
        values = _magnitudes(block)
        finite = values[np.isfinite(values)]
        zeros += int((values == 0).sum())
        nan, inf = nan + int(np.isnan(values).sum()), inf + int(np.isinf(values).sum())
        if finite.size:
            least, most = min(least, float(finite.min())), max(most, float(finite.max()))
            total, squares = total + float(finite.sum()), squares + float((finite * finite).sum())
            count += finite.size
    zeros, nan, inf = zeros * times, nan * times, inf * times
    if not count:
        return Summary(None, None, None, None, zeros, nan, inf, first)
    return Summary(least, most, total / count, sqrt(squares / count), zeros, nan, inf, first)


def _magnitudes(array: Array) -> Array:
    return np.abs(array).astype(np.float64) if array.dtype.kind == "c" else array.astype(np.float64)


def _beginning(array: Array) -> Array:
    """The first elements in row-major order."""
    while array.ndim > 1 and array.size:
        rows = -(-MAX_FIRST // max(1, prod(array.shape[1:])))
        if array.shape[0] > rows:
            array = array[:rows]
        if prod(array.shape[1:]) <= _BLOCK:
            break
        array = array[0]
    return array[:MAX_FIRST] if array.ndim == 1 else array.reshape(-1)[:MAX_FIRST]


def _blocks(array: Array) -> Iterator[Array]:
    """The elements in parts of limited size, in any order."""
    if array.size <= _BLOCK or not array.ndim:
        yield array.reshape(-1)
        return
    along = max(range(array.ndim), key=lambda at: array.shape[at])
    moved = np.moveaxis(array, along, 0)
    rows = max(1, _BLOCK // max(1, array.size // array.shape[along]))
    for at in range(0, array.shape[along], rows):
        part = moved[at : at + rows]
        yield from (part.reshape(-1),) if rows > 1 or part.size <= _BLOCK else _blocks(part)
