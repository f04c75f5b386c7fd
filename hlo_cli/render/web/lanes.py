"""Lanes: bars that do not overlap share a line, so that many fit in a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from hlo_cli.render.draw.bars import stretch_of
from hlo_cli.report.cell import Row


def lanes_of(rows: Sequence[Row], span: int, group: int | None, least: float = 0) -> Mapping[str, list[list[int]]]:
    """For each text in the column `group`, the one with most rows first, lanes of indices of rows.

    Bars in a lane begin after the end of the one before them, and at least `least` steps after its start. A bar takes
    the lane that is free for the longest time, so the number of lanes is the smallest possible.

    >>> rows = (("copy", (0, 3, True)), ("slice", (1, 2, True)), ("copy", (2, 5, True)), ("copy", (4, 4, False)))
    >>> dict(lanes_of(rows, 1, 0))
    {'copy': [[0, 3], [2]], 'slice': [[1]]}
    """
    groups: dict[str, list[tuple[int, int, int]]] = {}
    for at, row in enumerate(rows):
        stretch = stretch_of(row[span])
        if stretch is not None:
            name = "" if group is None else str(row[group] or "")
            groups.setdefault(name, []).append((stretch.start, stretch.end, at))
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: _packed(sorted(bars), least) for name, bars in ordered}


def _packed(bars: Sequence[tuple[int, int, int]], least: float) -> list[list[int]]:
    """Each bar, in the order of their starts, in a lane that is free there."""
    lanes: list[list[int]] = []
    free: list[tuple[float, int]] = []  # where each lane is free from
    for start, end, at in bars:
        if free and free[0][0] <= start:
            _, lane = heappop(free)
        else:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(at)
        heappush(free, (max(end + 1, start + least), lane))
    return lanes
