"""Values that lie at one place take turns: whose turn it is at every position, and how much that is altogether.

Where one value takes over from another both are alive at that position; the later one counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

Life = tuple[int, int, int, int]
"""When a value starts and ends, how many bytes it has, and its slot."""


class Turn(NamedTuple):
    """From when until when, both included, a value is what its slot holds; `last` before `first` says never.

    `value` is its number among the lives, `then` that of the value which takes over, None where it just ends.
    """

    value: int
    first: int
    last: int
    then: int | None


def turns(lives: Iterable[Life]) -> list[Turn]:
    """The turns of values, in no order; one that outlives another that took over has a second turn.

    >>> turns([(0, 2, 8, 0), (2, 3, 4, 0)])
    [Turn(value=0, first=0, last=1, then=1), Turn(value=1, first=2, last=3, then=None)]
    >>> [turn[:3] for turn in turns([(0, 9, 8, 0), (2, 3, 4, 0), (1, 5, 0, 0)])]
    [(0, 0, 1), (2, 1, 5), (1, 2, 3), (0, 4, 9)]
    """
    found: list[Turn] = []
    holding: dict[int, tuple[int, int, int]] = {}
    outlived: dict[int, list[tuple[int, int]]] = {}
    for number, (start, end, size, slot) in enumerate(lives):
        if not size:  # such lie anywhere
            found.append(Turn(number, start, end, None))
            continue
        held = holding.get(slot)
        while held is not None and held[2] < start:
            found.append(Turn(*held, None))
            held = _resumed(outlived.get(slot), held[2])
        if held is not None:
            found.append(Turn(held[0], held[1], start - 1, number))
            if held[2] > end:
                outlived.setdefault(slot, []).append((held[0], held[2]))
        holding[slot] = (number, start, end)
    for slot, last in holding.items():
        held = last
        while held is not None:
            found.append(Turn(*held, None))
            held = _resumed(outlived.get(slot), held[2])
    return found


def _resumed(outlived: list[tuple[int, int]] | None, behind: int) -> tuple[int, int, int] | None:
    """Whose turn it is again behind a position, if anybody is left."""
    while outlived:
        number, end = outlived.pop()
        if end > behind:
            return number, behind + 1, end
    return None


def timeline(lives: Iterable[Life], end: int) -> list[int]:
    """The bytes alive at every position up to the end, each slot counted once; the lives are in order of starts.

    >>> timeline([(0, 2, 8, 0), (2, 3, 4, 0)], 4)
    [8, 8, 4, 4, 0]
    """
    known = list(lives)
    change = [0] * (end + 2)
    for value, first, last, _ in turns(known):
        size = known[value][2]
        change[first] += size
        change[last + 1] -= size
    alive = 0
    for position, changed in enumerate(change):
        alive += changed
        change[position] = alive
    return change[:-1]
