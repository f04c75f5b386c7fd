"""How far the results of two runs are apart, and whether two programs are the same but for rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from hlo_cli.analysis.evaluate.run import Run, arrays_of
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import Shape, ShapeIndex

ROUNDING: Final = 1e-6
"""The widened distance up to which only rounding differs."""
APPROXIMATION: Final = 1e-3
"""The widened distance up to which a constant was rounded, or an approximation replaced."""

Verdict: TypeAlias = Literal["identical", "rounding", "unknown", "approximation", "different"]


@dataclass(frozen=True, slots=True)
class Distance:
    """How far one result is apart: exactly, and with every float as f64.

    A distance is the largest difference over the largest finite magnitude; infinite where only one value is finite.
    Not known if the place of the result on devices is unknown.
    """

    index: ShapeIndex
    exact: float
    widened: float
    is_known: bool = True

    @property
    def verdict(self) -> Verdict:
        """What the distances mean.

        >>> Distance((), 0.5, 1e-12).verdict, Distance((), 0.5, 0.1).verdict
        ('rounding', 'different')
        """
        if not self.is_known:
            return "unknown"
        if self.exact == 0 and self.widened <= ROUNDING:
            return "identical"
        if self.widened <= ROUNDING:
            return "rounding"
        return "approximation" if self.widened <= APPROXIMATION else "different"


_ORDER: Final[tuple[Verdict, ...]] = ("identical", "rounding", "unknown", "approximation", "different")


def verdict_of(distances: Sequence[Distance]) -> Verdict:
    """The verdict on all results: that of the worst."""
    return max((each.verdict for each in distances), key=_ORDER.index, default="identical")


def distances(
    exact: tuple[Run, Run], widened: tuple[Run, Run], shapes: tuple[Shape, Shape], *, is_rewrite: bool = False
) -> tuple[Distance, ...]:
    """The distance of each array of the results of two programs, which have to have the same arrays.

    With `is_rewrite`, arrays whose place on devices is unknown are at the same place in both.
    """
    rows = []
    pairs = zip(*(arrays_of(run.result, shape) for run, shape in zip(exact, shapes, strict=True)), strict=True)
    wide = zip(*(arrays_of(run.result, shape) for run, shape in zip(widened, shapes, strict=True)), strict=True)
    unknown = frozenset() if is_rewrite else exact[0].unknown | exact[1].unknown
    for (old, new), (old_wide, new_wide) in zip(pairs, wide, strict=True):
        if old[0] in unknown:
            rows.append(Distance(old[0], 0.0, 0.0, is_known=False))
            continue
        rows.append(Distance(old[0], distance(old[1], new[1]), distance(old_wide[1], new_wide[1])))
    return tuple(rows)


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
        apart = max(abs(int(a) - int(b)) for a, b in zip(old[differs].flat, new[differs].flat, strict=True))
        return apart / max(1, max(abs(int(old.max())), abs(int(old.min()))))
    a, b = old.astype(np.complex128), new.astype(np.complex128)
    finite = np.isfinite(a) & np.isfinite(b)
    same = finite | (a == b) | (np.isnan(a) & np.isnan(b))
    if not same.all():
        return float("inf")
    if not finite.any():
        return 0.0
    apart_ = float(np.abs(a[finite] - b[finite]).max())
    return apart_ / (float(np.abs(a[finite]).max()) or 1.0) if apart_ else 0.0
