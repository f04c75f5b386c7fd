"""Summaries of arrays: extremes, mean, and what is not finite."""

from __future__ import annotations

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.dataclass import dataclass

MAX_FIRST = 4


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
    first: tuple[float, ...]


def summary_of(array: Array) -> Summary:
    """The summary of an array.

    >>> summary_of(np.array([1.0, np.nan, 3.0, 0.0]))
    Summary(least=0.0, most=3.0, mean=1.3333333333333333, rms=1.8257418583505538, zeros=1, nan=1, inf=0, \
first=(1.0, nan, 3.0, 0.0))
    """
    values = np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)
    finite = values[np.isfinite(values)].astype(np.float64)
    first = tuple(float(each) for each in values.reshape(-1)[:MAX_FIRST])
    nan, inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    zeros = int((values == 0).sum())
    if not finite.size:
        return Summary(None, None, None, None, zeros, nan, inf, first)
    rms = float(np.sqrt(np.mean(finite * finite)))
    return Summary(float(finite.min()), float(finite.max()), float(finite.mean()), rms, zeros, nan, inf, first)
