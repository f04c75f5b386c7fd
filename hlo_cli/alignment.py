"""Alignment of two sequences: pairs of equal elements that a diff leaves in place.

XLA has no counterpart. It is patience diff: elements that occur once on both sides are anchors, so that names, which
are common in dumps, match and brackets do not; the time is that of sorting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
_DEEPEST = 16  # levels of anchors between anchors: limited, so that repetitive texts do not take quadratic time


def aligned(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """Positions of equal elements in the same order, as found by patience diff, not always a longest sequence.

    >>> aligned("abcd}", "bxcad}")
    [(1, 0), (2, 2), (3, 4), (4, 5)]
    """
    found: list[Pair] = []
    waiting = [(0, len(old), 0, len(new), _DEEPEST)]
    while waiting:
        at, end, new_at, new_end, depth = waiting.pop()
        while at < end and new_at < new_end and old[at] == new[new_at]:
            found.append((at, new_at))
            at, new_at = at + 1, new_at + 1
        while at < end and new_at < new_end and old[end - 1] == new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
            found.append((end, new_end))
        if at == end or new_at == new_end or not depth:
            continue
        anchors = _anchors(old, new, range(at, end), range(new_at, new_end))
        found += anchors
        for next_at, next_new in [*anchors, (end, new_end)] if anchors else ():
            if at < next_at and new_at < next_new:
                waiting.append((at, next_at, new_at, next_new, depth - 1))
            at, new_at = next_at + 1, next_new + 1
    return sorted(found)


def _anchors(old: Sequence[Hashable], new: Sequence[Hashable], here: range, there: range) -> list[Pair]:
    """Elements that occur once on both sides; if there are none, the first, second, … of repeated elements."""
    places, new_places = _places(old, here), _places(new, there)
    once = [
        (at[0], new_places[each][0]) for each, at in places.items() if len(at) == 1 == len(new_places.get(each, ()))
    ]
    pairs = once or sorted(
        pair for each, at in places.items() for pair in zip(at, new_places.get(each, ()), strict=False)
    )
    stays = longest_increasing([place for _, place in pairs])
    return [pair for at, pair in enumerate(pairs) if at in stays]


def _places(sequence: Sequence[Hashable], where: range) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = {}
    for at in where:
        places.setdefault(sequence[at], []).append(at)
    return places


def longest_increasing(numbers: Sequence[int]) -> frozenset[int]:
    """The positions of a longest increasing subsequence.

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
