"""Rails: the lines beside a list of nodes, one for each value on its way from its node to its last user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

NODE: Final = "●"
LOOSE: Final = "○"
"""A node whose value has no rail, as too many others are on the way."""


class Rail(NamedTuple):
    """The drawing beside a node, and those of its operands that have no rail."""

    text: str
    missing: tuple[int, ...]


def rails(nodes: Sequence[int], operands: Mapping[int, Sequence[int]], most: int) -> list[Rail]:
    """The rail of each node; operands precede their users, and at most `most` values have one at a time.

    >>> for rail in rails([0, 1, 2, 3], {1: [0], 2: [0], 3: [1, 2]}, 8): print(rail.text)
    ●
    ├─●
    ● │
    ●─┘
    """
    left = dict.fromkeys(nodes, 0)
    for node in nodes:
        for operand in operands.get(node, ()):
            left[operand] += 1
    lanes: list[int | None] = []
    found: list[Rail] = []
    for node in nodes:
        places = {operand: at for at, operand in enumerate(lanes) if operand is not None}
        used = [(operand, places[operand]) for operand in operands.get(node, ()) if operand in places]
        missing = tuple([operand for operand in operands.get(node, ()) if operand not in places])
        for operand in operands.get(node, ()):
            left[operand] -= 1
        ending = [at for operand, at in used if not left[operand]]
        own = min(ending) if ending else next((at for at, each in enumerate(lanes) if each is None), len(lanes))
        has_rail = own < most
        found.append(Rail(_drawn(lanes, {at: not left[each] for each, at in used}, own, has_rail=has_rail), missing))
        for at in ending:
            lanes[at] = None
        if own == len(lanes):
            lanes.append(None)
        lanes[own] = node if left[node] and has_rail else None
        while lanes and lanes[-1] is None:
            lanes.pop()
    return found


def _drawn(lanes: Sequence[int | None], used: Mapping[int, bool], own: int, *, has_rail: bool) -> str:
    """One row: `used` are the lanes of the operands, and whether they end here."""
    first, last = min((*used, own)), max((*used, own))
    cells: list[str] = []
    for at in range(max(len(lanes), own + 1)):
        is_within = first <= at <= last
        if at == own:
            glyph = NODE if has_rail else LOOSE
        elif at in used:
            glyph = _joint(at == first, at == last, ends=used[at])
        elif at < len(lanes) and lanes[at] is not None:
            glyph = "│"
        else:
            glyph = "─" if is_within else " "
        cells.append(glyph + ("─" if is_within and at < last else " "))
    return "".join(cells).rstrip()


def _joint(is_first: bool, is_last: bool, *, ends: bool) -> str:
    if is_first:
        return "└" if ends else "├"
    if is_last:
        return "┘" if ends else "┤"
    return "┴" if ends else "┼"
