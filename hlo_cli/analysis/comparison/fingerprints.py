"""Fingerprints of arrays: numbers that layouts, reshapes, and transposes leave alone, and others that they do not.

Names do not survive compilers, values do: with floats widened, two compilations of a program have arrays with the same
fingerprints.
"""

from __future__ import annotations

from functools import lru_cache
from math import floor, log
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array

TOLERANCE: Final = 1e-6
"""How far numbers of two fingerprints may be apart, relative to the magnitudes of the array."""
_FINE: Final = 1e-11
"""The same for two runs of nearly the same text, which round alike."""
_GRAIN: Final = 64.0
_MIN_SPREAD: Final = 32
_SLOTS_PER_E: Final = 1e4
_WEIGHTS: Final = 4096
_HUGE: Final = 1e120
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


class _Numbers(NamedTuple):
    size: int
    other: float
    total: float
    magnitude: float
    squares: float
    most: float
    least: float
    wave: float
    weighted: float
    is_telling: bool


class Prints:
    """Gives equal arrays equal numbers, within rounding.

    >>> prints = Prints()
    >>> one, turned, other = map(prints.of, (np.array([[1.0, 2.5]]), np.array([2.5, 1.0]), np.array([1.0, 2.0])))
    >>> one.free == turned.free, one.ordered == turned.ordered, one.free == other.free
    (True, False, False)
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, float, int], list[tuple[_Numbers, Print]]] = {}
        self._next = 0

    def of(self, array: Array, scale: float = 0.0) -> Print:
        """The fingerprint of an array; elements far below `scale`, the magnitude of the operands, are rounding."""
        numbers = _numbers(np.asarray(array), scale)
        where = numbers.squares
        at = floor(log(where) * _SLOTS_PER_E) if where > 0 else 0
        key = numbers.size, numbers.other
        found = [
            each
            for place in ((at - 1, at, at + 1) if where > 0 else (at,))
            for each in self._kept.get((*key, place), ())
            if _is_close(each[0], numbers)
        ]
        same_order = next((each for each in found if _is_in_order(each[0], numbers, TOLERANCE)), None)
        exact = next((each for each in found if _is_in_order(each[0], numbers, _FINE)), None)
        if exact is not None:
            return exact[1]
        made = Print(
            found[0][1].free if found else self._number(),
            same_order[1].ordered if same_order is not None else self._number(),
            self._number(),
            numbers.size,
            max(abs(numbers.most), abs(numbers.least)),
            numbers.is_telling,
        )
        self._kept.setdefault((*key, at), []).append((numbers, made))
        return made

    def _number(self) -> int:
        self._next += 1
        return self._next


def _numbers(values: Array, scale: float) -> _Numbers:
    parts = [np.real(values), np.imag(values)] if values.dtype.kind == "c" else [values]
    wide = np.concatenate([part.astype(np.float64).reshape(-1) for part in parts]) if len(parts) > 1 else (
        parts[0].astype(np.float64).reshape(-1)
    )  # fmt: skip
    whole = wide
    is_finite = np.isfinite(wide)
    other = 0.0
    if not is_finite.all():
        other = (
            float(np.isnan(wide).sum()) + 0.25 * float((wide == np.inf).sum()) + 0.375 * float((wide == -np.inf).sum())
        )
        whole, wide = np.where(is_finite, wide, 0.0), wide[is_finite]
    if not wide.size:
        return _Numbers(whole.size, other, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, is_telling=False)
    if float(np.abs(wide).max()) > _HUGE:  # whose squares would not be finite
        whole, wide, other = whole / _HUGE**2, wide / _HUGE**2, other + 0.125
    magnitudes = np.abs(wide)
    most, least = float(wide.max()), float(wide.min())
    largest = max(abs(most), abs(least))
    if largest <= _FINE * scale:
        return _Numbers(whole.size, other, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, is_telling=False)
    grains = wide * _GRAIN
    is_simple = largest < 2.0**20 and most - least < _MIN_SPREAD and bool((grains == np.rint(grains)).all())
    return _Numbers(
        whole.size, other, float(wide.sum()), float(magnitudes.sum()), float((wide * wide).sum()), most, least,
        float(np.sin(magnitudes).sum()), float((whole * _weights(whole.size)).sum()), is_telling=not is_simple,
    )  # fmt: skip


def _weights(size: int) -> Array:
    """Weights without a pattern, the same for each place of an array."""
    held = _all_weights(max(_WEIGHTS, 1 << max(0, size - 1).bit_length()))
    return held[:size]


@lru_cache(maxsize=2)
def _all_weights(size: int) -> Array:
    places = np.arange(size, dtype=np.float64)
    return np.asarray(np.cos(places * places * _FIRST_TURN + places * _SECOND_TURN))


def _is_close(a: _Numbers, b: _Numbers) -> bool:
    scale = max(a.magnitude, b.magnitude, 1e-300)
    largest = max(abs(a.most), abs(a.least), abs(b.most), abs(b.least), 1e-300)
    return (
        abs(a.total - b.total) <= TOLERANCE * scale
        and abs(a.magnitude - b.magnitude) <= TOLERANCE * scale
        and abs(a.most - b.most) <= TOLERANCE * largest
        and abs(a.least - b.least) <= TOLERANCE * largest
        and abs(a.wave - b.wave) <= TOLERANCE * max(scale, 1.0)
    )


def _is_in_order(a: _Numbers, b: _Numbers, tolerance: float) -> bool:
    scale = max(a.magnitude, b.magnitude, 1e-300)
    return (
        abs(a.weighted - b.weighted) <= tolerance * scale
        and abs(a.total - b.total) <= tolerance * scale
        and abs(a.squares - b.squares) <= 4 * tolerance * max(a.squares, b.squares)
        and abs(a.wave - b.wave) <= tolerance * max(scale, 1.0)
    )
