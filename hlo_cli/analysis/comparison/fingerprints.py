"""Fingerprints of arrays: numbers that layouts, reshapes, and transposes leave alone, and others that they do not.

Names do not survive compilers, values do: with floats widened, two compilations of a program have arrays with the same
fingerprints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, inf, isfinite, log
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.evaluate.program import CACHED
from hlo_cli.analysis.semantics.number_types import Array

TOLERANCE: Final = 1e-6
"""How far numbers of two fingerprints may be apart, relative to the magnitudes of the array."""
_FINE: Final = 1e-11
"""The same for two runs of nearly the same text, which round alike."""
_DEVICE_TURN: Final = 0.37
"""By which share of its weight the order of elements counts more on each next device, so that exchanged parts show."""
_GRAIN: Final = 64.0
_MIN_SPREAD: Final = 32
_SLOTS_PER_E: Final = 1e4
_WEIGHTS: Final = 4096
_FIRST: Final = 64
_HUGE: Final = 1e90
"""The magnitude from which on arrays are scaled by 1e-240, as their squares would not be finite in sums."""
_SHRUNK: Final = 1e-240
_FIRST_TURN: Final = 0.7548776662466927
_SECOND_TURN: Final = 0.5698402909980532


class Print(NamedTuple):
    """Numbers of an array as given out by `Prints`: equal for equal arrays.

    `free` ignores the order of elements, `ordered` does not, and `fine` does not either and allows less rounding.
    `size` counts elements, and `largest` is their largest finite magnitude. `is_telling` is false for values that are
    found in any program, such as small integers, so that having them means little.
    """

    free: int
    ordered: int
    fine: int
    size: int
    largest: float
    is_telling: bool


class Numbers(NamedTuple):
    """What a fingerprint is made of; all but `weighted` ignore the order of elements, and add up over parts."""

    size: int
    other: float
    total: float
    magnitude: float
    squares: float
    most: float
    least: float
    weighted: float
    is_telling: bool

    @property
    def largest(self) -> float:
        """The largest finite magnitude."""
        return max(abs(self.most), abs(self.least))

    def divided(self, by: float) -> Numbers:
        """Those of one of so many equal copies, or of several if `by` is below 1; without an order."""
        return self._replace(
            size=round(self.size / by),
            other=self.other / by,
            total=self.total / by,
            magnitude=self.magnitude / by,
            squares=self.squares / by,
            weighted=0.0,
        )


def combined(parts: Sequence[Numbers]) -> Numbers:
    """The numbers of the values of all devices together, the first device first."""
    if len(parts) == 1:
        return parts[0]
    return Numbers(
        sum(each.size for each in parts),
        sum(each.other for each in parts),
        sum(each.total for each in parts),
        sum(each.magnitude for each in parts),
        sum(each.squares for each in parts),
        max(each.most for each in parts),
        min(each.least for each in parts),
        sum((1.0 + at * _DEVICE_TURN) * each.weighted for at, each in enumerate(parts)),
        is_telling=any(each.is_telling for each in parts),
    )


class Prints:
    """Gives equal arrays equal numbers, within rounding.

    >>> prints = Prints()
    >>> one, turned, other = map(prints.of, (np.array([[1.0, 2.5]]), np.array([2.5, 1.0]), np.array([1.0, 2.0])))
    >>> one.free == turned.free, one.ordered == turned.ordered, one.free == other.free
    (True, False, False)
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self._kept: dict[tuple[int, float, int], list[tuple[Numbers, Print]]] = {}
        self._next = 0
        self._tolerance = tolerance
        self._weights = np.zeros(0)
        self._weight_sums: dict[int, float] = {}

    def of(self, array: Array, scale: float = 0.0) -> Print:
        """The fingerprint of an array; elements far below `scale`, the magnitude of the operands, are rounding."""
        return self.print_of(self.numbers_of(array, scale))

    def print_of(self, numbers: Numbers) -> Print:
        """The fingerprint of an array, or of the parts of one, with these numbers."""
        found = list(self._alike(numbers))
        exact = next((each for each in found if _is_in_order(each[0], numbers, _FINE)), None)
        if exact is not None:
            return exact[1]
        same_order = next((each for each in found if _is_in_order(each[0], numbers, self._tolerance)), None)
        made = Print(
            found[0][1].free if found else self.number(),
            same_order[1].ordered if same_order is not None else self.number(),
            self.number(),
            numbers.size,
            numbers.largest,
            numbers.is_telling,
        )
        self._kept.setdefault((numbers.size, numbers.other, _slot(numbers)), []).append((numbers, made))
        return made

    def found(self, numbers: Numbers) -> Print | None:
        """The fingerprint of an array that was seen, in any order of its elements; None if there is none."""
        return next((each[1] for each in self._alike(numbers)), None)

    def number(self) -> int:
        """A number that no fingerprint has."""
        self._next += 1
        return self._next

    def _alike(self, numbers: Numbers) -> Iterator[tuple[Numbers, Print]]:
        at = _slot(numbers)
        for place in (at - 1, at, at + 1) if numbers.squares > 0 else (at,):
            for each in self._kept.get((numbers.size, numbers.other, place), ()):
                if _is_close(each[0], numbers, self._tolerance):
                    yield each

    def numbers_of(self, array: Array, scale: float = 0.0) -> Numbers:
        """The numbers of an array; the cheapest that tell arrays apart, as each value of a run has to get them."""
        values = np.asarray(array)
        if values.size > 1 and not any(values.strides) and values.dtype.kind != "c":  # a scalar that is broadcast
            one = self.numbers_of(values.reshape(-1)[:1].copy(), scale)
            if one.other == 0:
                return self._repeated(one, values.size)
        if values.dtype.kind == "c":
            wide = np.concatenate([part.astype(np.float64).reshape(-1) for part in (values.real, values.imag)])
        else:
            wide = values.astype(np.float64, copy=False).reshape(-1)
        if not wide.size:
            return _nothing(0, 0.0)
        sums, other = self._sums(wide), 0.0
        if not isfinite(sums.magnitude) or max(sums.most, -sums.least) > _HUGE:
            return self._unusual(wide)
        if max(sums.most, -sums.least) <= _FINE * scale:
            return _nothing(wide.size, other)
        return Numbers(wide.size, other, *sums, is_telling=_is_telling(wide, sums.most, sums.least))

    def _unusual(self, wide: Array) -> Numbers:
        """The numbers of an array with elements that are not finite, or whose squares would not be."""
        is_finite = np.isfinite(wide)
        nans, infinities = float(np.isnan(wide).sum()), float((wide == np.inf).sum())
        other = nans + 0.25 * infinities + 0.375 * float((wide == -np.inf).sum())
        finite = wide[is_finite]
        if not finite.size:
            return _nothing(wide.size, other)
        is_telling = _is_telling(finite, float(finite.max()), float(finite.min()))
        whole = np.where(is_finite, wide, 0.0)
        if float(np.abs(finite).max()) > _HUGE:
            whole, other = whole * _SHRUNK, other + 0.125
        sums = self._sums(whole)
        return Numbers(wide.size, other, *sums, is_telling=is_telling)

    def _sums(self, whole: Array) -> _Sums:
        """All sums in one pass, part by part, so that a cache holds what it works on."""
        weights = self._weights_for(whole.size)
        total = magnitude = squares = weighted = 0.0
        most, least = -inf, inf
        for start in range(0, whole.size, CACHED):
            part = whole[start : start + CACHED]
            low, added = float(part.min()), float(part.sum())
            total += added
            magnitude += added if low >= 0 else float(np.abs(part).sum())
            squares += float(np.dot(part, part))
            weighted += float(np.dot(part, weights[start : start + CACHED]))
            most, least = max(most, float(part.max())), min(least, low)
        return _Sums(total, magnitude, squares, most, least, weighted)

    def _repeated(self, one: Numbers, size: int) -> Numbers:
        """The numbers of one element that is repeated."""
        if size not in self._weight_sums:
            self._weight_sums[size] = float(self._weights_for(size).sum())
        return one.divided(1.0 / size)._replace(size=size, weighted=one.total * self._weight_sums[size])

    def _weights_for(self, size: int) -> Array:
        """Weights without a pattern, the same for each place of an array; made once for the largest so far."""
        if size > self._weights.size:
            places = np.arange(max(_WEIGHTS, 1 << max(0, size - 1).bit_length()), dtype=np.float64)
            self._weights = np.asarray(np.cos(places * places * _FIRST_TURN + places * _SECOND_TURN))
        return self._weights[:size]


class _Sums(NamedTuple):
    total: float
    magnitude: float
    squares: float
    most: float
    least: float
    weighted: float


def _is_telling(wide: Array, most: float, least: float) -> bool:
    return max(most, -least) >= 2.0**20 or most - least >= _MIN_SPREAD or _has_fractions(wide)


def _nothing(size: int, other: float) -> Numbers:
    return Numbers(size, other, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, is_telling=False)


def _has_fractions(wide: Array) -> bool:
    """Whether elements are not all small multiples of 1/64; most arrays show it at their beginning."""
    for part in (wide[:_FIRST], wide[_FIRST:]):
        grains = part * _GRAIN
        if not (grains == np.rint(grains)).all():
            return True
    return False


def _slot(numbers: Numbers) -> int:
    return floor(log(numbers.squares) * _SLOTS_PER_E) if numbers.squares > 0 else 0


def _is_close(a: Numbers, b: Numbers, tolerance: float) -> bool:
    scale = tolerance * max(a.magnitude, b.magnitude, 1e-300)
    largest = tolerance * max(a.largest, b.largest, 1e-300)
    return (
        abs(a.total - b.total) <= scale
        and abs(a.magnitude - b.magnitude) <= scale
        and abs(a.most - b.most) <= largest
        and abs(a.least - b.least) <= largest
        and abs(a.squares - b.squares) <= 4 * tolerance * max(a.squares, b.squares)
    )


def _is_in_order(a: Numbers, b: Numbers, tolerance: float) -> bool:
    scale = tolerance * max(a.magnitude, b.magnitude, 1e-300)
    return (
        abs(a.weighted - b.weighted) <= scale
        and abs(a.total - b.total) <= scale
        and abs(a.squares - b.squares) <= 4 * tolerance * max(a.squares, b.squares)
    )
