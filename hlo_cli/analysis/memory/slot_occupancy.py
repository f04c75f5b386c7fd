"""Occupancy of slots: which of the values at one offset is current at each position, and the live bytes over time.

Where one value overwrites another, both are live at that position; only the new one counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

SlotRange = tuple[int, int, int, int]
"""Start, end (inclusive), bytes, and slot of a value."""


class Occupancy(NamedTuple):
    """An interval of positions, inclusive, in which a value occupies its slot; empty if `last` is `first - 1`.

    `value` is its index in the list of ranges, `then` that of the value that overwrites it, or None.
    """

    value: int
    first: int
    last: int
    then: int | None


def occupancies(ranges: Iterable[SlotRange]) -> list[Occupancy]:
    """Returns the occupancies of values, unordered; a value may occupy its slot again after one that overwrote it.

    >>> occupancies([(0, 2, 8, 0), (2, 3, 4, 0)])
    [Occupancy(value=0, first=0, last=1, then=1), Occupancy(value=1, first=2, last=3, then=None)]
    >>> [occupancy[:3] for occupancy in occupancies([(0, 9, 8, 0), (2, 3, 4, 0), (1, 5, 0, 0)])]
    [(0, 0, 1), (2, 1, 5), (1, 2, 3), (0, 4, 9)]
    """
    found: list[Occupancy] = []
    current: dict[int, tuple[int, int, int]] = {}
    outlived: dict[int, list[tuple[int, int]]] = {}
    for number, (start, end, size, slot) in enumerate(ranges):
        if not size:  # empty values have no location
            found.append(Occupancy(number, start, end, None))
            continue
        occupant = current.get(slot)
        while occupant is not None and occupant[2] < start:
            found.append(Occupancy(*occupant, None))
            occupant = _resumed(outlived.get(slot), occupant[2])
        if occupant is not None:
            found.append(Occupancy(occupant[0], occupant[1], start - 1, number))
            if occupant[2] > end:
                outlived.setdefault(slot, []).append((occupant[0], occupant[2]))
        current[slot] = (number, start, end)
    for slot, last in current.items():
        occupant = last
        while occupant is not None:
            found.append(Occupancy(*occupant, None))
            occupant = _resumed(outlived.get(slot), occupant[2])
    return found


def _resumed(outlived: list[tuple[int, int]] | None, after: int) -> tuple[int, int, int] | None:
    """Returns the value that occupies a slot again after position `after`, with its first and last position."""
    while outlived:
        number, end = outlived.pop()
        if end > after:
            return number, after + 1, end
    return None


def timeline(ranges: Iterable[SlotRange], end: int) -> list[int]:
    """Returns the live bytes at positions 0 to `end`, each slot counted once; `ranges` are sorted by start.

    >>> timeline([(0, 2, 8, 0), (2, 3, 4, 0)], 4)
    [8, 8, 4, 4, 0]
    """
    known = list(ranges)
    change = [0] * (end + 2)
    for value, first, last, _ in occupancies(known):
        size = known[value][2]
        change[first] += size
        change[last + 1] -= size
    live = 0
    for position, changed in enumerate(change):
        live += changed
        change[position] = live
    return change[:-1]
