"""How far the results of two runs are apart, and whether two programs are the same but for rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, Literal, TypeAlias

import numpy as np

from hlo_cli.analysis.comparison.rounding import Rounding
from hlo_cli.analysis.evaluate.run import Run
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import arrays_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.primitive import FLOAT_FORMATS, PrimitiveType
from hlo_cli.ir.shape import Shape, ShapeIndex

ROUNDING: Final = 1e-6
"""The widened distance up to which only rounding differs: compilers fold constants in f32, by 16 units in the last
place at most."""
APPROXIMATION: Final = 1e-3
"""The widened distance up to which a constant was rounded, or an approximation replaced."""
MODES: Final[tuple[Floats, Floats]] = ("exact", "widen")
"""How floats are held in the two runs of a comparison."""

Verdict: TypeAlias = Literal[
    "identical", "rounding", "overflow", "unknown", "approximation", "discontinuity", "different"
]
_WIDE_BITS: Final = 32
"""Narrower floats round small differences away, so that results that are identical as written prove little."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far one result is apart: exactly, and with every float as f64.

    A distance is the largest difference over the largest finite magnitude; infinite where only one value is finite.
    `ulp` is the largest exact difference in units in the last place of the element type; where terms cancel it means
    little. `nan` and `inf` count such elements of the exact results, before and after. `expected` is the exact distance
    that rounding explains. Not known if the place of the result on devices is unknown. Results without an element type
    are wide floats.
    """

    index: ShapeIndex
    exact: float
    widened: float
    is_known: bool = True
    ulp: float = 0.0
    nan: tuple[int, int] = (0, 0)
    inf: tuple[int, int] = (0, 0)
    expected: Rounding | None = None
    element_type: PrimitiveType | None = None

    @property
    def verdict(self) -> Verdict:
        """What the distances mean; constants that are folded in f32 may show in the widened run alone.

        Integers are the same or different. `overflow` is NaN or infinity in one run as written, though both agree
        without rounding.

        >>> Distance((), 0.5, 1e-12).verdict, Distance((), 0.5, 0.1).verdict, Distance((), 0.0, 1e-5).verdict
        ('rounding', 'different', 'identical')
        >>> Distance((), float("inf"), 1e-12).verdict
        'overflow'
        """
        if not self.is_known:
            return "unknown"
        kind = self.element_type
        if kind is not None and kind.kind in ("pred", "signed", "unsigned"):
            return "identical" if self.exact == 0 else "rounding" if self.widened == 0 else "different"
        is_wide = kind is None or kind.bits >= _WIDE_BITS
        if self.exact == 0 and self.widened <= (APPROXIMATION if is_wide else ROUNDING):
            return "identical"
        if self.widened <= ROUNDING:
            return "rounding" if isfinite(self.exact) else "overflow"
        return "approximation" if self.widened <= APPROXIMATION else "different"

    @property
    def is_amplified(self) -> bool:
        """Whether the program enlarges rounding: the exact distance is above what rounding alone explains."""
        return self.expected is not None and self.verdict == "rounding" and self.exact > self.expected.bound


_ORDER: Final[tuple[Verdict, ...]] = (
    "identical", "rounding", "overflow", "unknown", "approximation", "discontinuity", "different",
)  # fmt: skip


def verdict_of(distances: Sequence[Distance]) -> Verdict:
    """The verdict on all results: that of the worst."""
    return max((each.verdict for each in distances), key=_ORDER.index, default="identical")


def distances(
    exact: tuple[Run, Run],
    widened: tuple[Run, Run],
    shapes: tuple[Shape, Shape],
    *,
    is_rewrite: bool = False,
    expected: Mapping[ShapeIndex, Rounding] | None = None,
) -> tuple[Distance, ...]:
    """The distance of each array of the results of two programs, which have to have the same arrays.

    With `is_rewrite`, arrays whose place on devices is unknown are at the same place in both.
    """
    rows = []
    pairs = zip(*(arrays_of(run.result, shape) for run, shape in zip(exact, shapes, strict=True)), strict=True)
    wide = zip(*(arrays_of(run.result, shape) for run, shape in zip(widened, shapes, strict=True)), strict=True)
    unknown = frozenset() if is_rewrite else exact[0].unknown | exact[1].unknown
    for ((index, old, leaf), (_, new, _)), (old_wide, new_wide) in zip(pairs, wide, strict=True):
        if index in unknown:
            rows.append(Distance(index, 0.0, 0.0, is_known=False))
            continue
        rows.append(
            Distance(
                index,
                distance(old, new),
                distance(old_wide[1], new_wide[1]),
                ulp=ulps(old, new, leaf.element_type),
                nan=(_count(np.isnan, old), _count(np.isnan, new)),
                inf=(_count(np.isinf, old), _count(np.isinf, new)),
                expected=(expected or {}).get(index),
                element_type=leaf.element_type,
            )
        )
    return tuple(rows)


def _count(test: np.ufunc, array: Array) -> int:
    return int(test(array.astype(np.complex128)).sum()) if array.dtype.kind not in "biu" else 0


def ulps(old: Array, new: Array, kind: PrimitiveType) -> float:
    """The largest difference in units in the last place of the larger magnitude; infinite where only one is finite.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> ulps(np.float32([1, 2]), np.float32([1, 2 + 2**-22]), parse_shape("f32[2]").element_type)
    1.0
    """
    if old.shape != new.shape:
        return float("inf")
    form = FLOAT_FORMATS.get({"c64": "f32", "c128": "f64"}.get(kind.name, kind.name))
    if form is None or not old.size or old.dtype.kind in "biu":
        return 0.0 if not old.size else _largest_difference(old, new)
    parts = ((np.real(old), np.real(new)), (np.imag(old), np.imag(new))) if kind.is_complex else ((old, new),)
    most = 0.0
    for one, two in parts:
        a, b = one.astype(np.float64), two.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        if not (finite | (a == b) | (np.isnan(a) & np.isnan(b))).all():
            return float("inf")
        a, b = a[finite], b[finite]
        exponents = np.maximum(np.frexp(np.maximum(np.abs(a), np.abs(b)))[1] - 1, 1 - form.bias)
        units = np.ldexp(1.0, np.maximum(exponents - form.mantissa_bits, -1074))
        most = max(most, float((np.abs(a - b) / units).max(initial=0.0)))
    return most


def _largest_difference(old: Array, new: Array) -> float:
    differs = old != new
    return float(
        max((abs(int(a) - int(b)) for a, b in zip(old[differs].flat, new[differs].flat, strict=True)), default=0)
    )


def distance(old: Array, new: Array) -> float:
    """The largest difference over the largest finite magnitude of the first; infinite for other sizes.

    >>> distance(np.array([1.0, 4.0]), np.array([1.0, 3.0])), distance(np.array([1.0]), np.array([np.nan]))
    (0.25, inf)
    """
    if old.shape != new.shape:
        return float("inf")
    if not old.size:
        return 0.0
    if old.dtype.kind in "biu" and new.dtype.kind in "biu":
        differs = old != new
        if not differs.any():
            return 0.0
        return _largest_difference(old, new) / max(1, max(abs(int(old.max())), abs(int(old.min()))))
    a, b = old.astype(np.complex128), new.astype(np.complex128)
    finite = np.isfinite(a) & np.isfinite(b)
    same = finite | (a == b) | (np.isnan(a) & np.isnan(b))
    if not same.all():
        return float("inf")
    if not finite.any():
        return 0.0
    apart_ = float(np.abs(a[finite] - b[finite]).max())
    return apart_ / (float(np.abs(a[finite]).max()) or 1.0) if apart_ else 0.0
