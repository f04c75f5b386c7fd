"""The longest increasing part of a sequence: what keeps its order while the rest moves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def longest_increasing(numbers: Sequence[int]) -> frozenset[int]:
    """The places of a longest increasing subsequence.

    >>> sorted(longest_increasing([0, 4, 1, 2, 5, 3]))
    [0, 2, 3, 5]
    """
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect_left(tails, number)
        tails[length : length + 1] = [number]
        ends[length : length + 1] = [place]
        before.append(ends[length - 1] if length else -1)
    found: list[int] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return frozenset(found)
