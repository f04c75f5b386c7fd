"""Rows of selected operations, and sums of what their calls do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hlo_cli.analysis.profile.profile import Profile
from hlo_cli.ir.traces.trace import Integers


def rows_of(profile: Profile, operations: Iterable[int]) -> Integers:
    """The indices of the rows of operations, which are given as indices into `Profile.operations`, in their order."""
    chosen = np.zeros(len(profile.operations), np.bool_)
    chosen[list(operations)] = True
    return np.flatnonzero(chosen[profile.codes]).astype(np.int64)


def sums_by(profile: Profile, groups: Integers, count: int, amounts: Sequence[float]) -> Sequence[float]:
    """For each of `count` groups, the sum of the amounts of the operations of its rows; rows below 0 are left out.

    `amounts[i]` is that of one call of `Profile.operations[i]`.
    """
    kept = groups >= 0
    calls = profile.occurrences.counts if profile.call_weights is None else profile.call_weights
    weights = np.array(amounts, np.float64)[profile.codes[kept]] * calls[kept]
    result: list[float] = np.bincount(groups[kept], weights, count).tolist()
    return result
