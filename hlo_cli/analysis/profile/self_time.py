"""Self time: the duration of an event less those of the events directly inside it.

Mirrors the nesting of xprof/convert/xplane_to_op_metrics_db.cc.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.ir.traces.trace import Integers

_MOST: Final = 1 << 62
"""A bound on the sum of nested times, which only corrupt files exceed."""


def self_times(begins_ps: Integers, durations_ps: Integers) -> Integers:
    """The self time of each event of one line, whose events are in the order of `nested_order`.

    The parent of an event is the nearest earlier one, among those not yet left, that includes it.

    >>> self_times(np.array([0, 0, 4, 20]), np.array([10, 3, 4, 5])).tolist()
    [3, 3, 4, 5]
    """
    result = durations_ps.copy()
    if len(result) < 2 or not _overlaps(begins_ps, durations_ps):
        return result
    begins, durations = begins_ps.tolist(), durations_ps.tolist()
    inside = [0] * len(begins)
    stack: list[tuple[int, int, int]] = []
    for at, (begin, duration) in enumerate(zip(begins, durations, strict=True)):
        end = begin + duration
        while stack and not (stack[-1][0] <= begin and end <= stack[-1][1]):
            stack.pop()
        if stack:
            inside[stack[-1][2]] += duration
        stack.append((begin, end, at))
    return result - np.array([min(each, _MOST) for each in inside], np.int64)


def nested_order(begins_ps: Integers, durations_ps: Integers) -> Integers:
    """The order in which events that begin together are nested: the longest first.

    >>> nested_order(np.array([5, 0, 0]), np.array([1, 3, 10])).tolist()
    [2, 1, 0]
    """
    return np.lexsort((-durations_ps, begins_ps)).astype(np.int64)


def _overlaps(begins_ps: Integers, durations_ps: Integers) -> bool:
    """Whether any event begins before the one before it has ended."""
    return bool((begins_ps[1:] < (begins_ps + durations_ps)[:-1]).any() or not durations_ps.all())
