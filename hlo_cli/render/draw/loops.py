"""Loops as text: brackets below the axis of a timeline, inner loops below outer ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.render.bins import Axis
from hlo_cli.render.draw.strip import Strip
from hlo_cli.render.style import Style
from hlo_cli.render.truncate import shorten_name
from hlo_cli.render.width import cell_width
from hlo_cli.report.cell import UNKNOWN
from hlo_cli.report.loop import Loop
from hlo_cli.report.numbers import format_count
from hlo_cli.report.text import Line

MAX_LINES: Final = 4
MIN_NAME_WIDTH: Final = 6


def loop_lines(loops: Sequence[Loop], axis: Axis, style: Style) -> Iterator[Line]:
    """A line for each depth, and the number of loops not shown; if loops compete for cells, the longest is shown."""
    omitted = 0
    for depth, level in enumerate(loop_levels(loops, axis.steps)):
        if depth >= MAX_LINES:
            omitted += len(level)
            continue
        strip = Strip(style.room)
        drawn = [
            loop for loop in sorted(level, key=lambda loop: loop.start - loop.end) if _bracket(strip, loop, axis, style)
        ]
        for loop in drawn:
            _put_name_after(strip, loop, axis, style)
        omitted += len(level) - len(drawn)
        yield strip.line()
    if omitted:
        strip = Strip(style.room)
        strip.put(axis.margin, f"{format_count(omitted, 'more loops')}", "quiet")
        yield strip.line()


def loop_levels(loops: Sequence[Loop], steps: int) -> list[list[Loop]]:
    """The loops by depth, outermost first, cut to the range of steps.

    >>> [[loop.name for loop in level] for level in loop_levels((Loop("in", 2, 3), Loop("out", 1, 8)), 9)]
    [['out'], ['in']]
    """
    inside = [
        Loop(loop.name, max(loop.start, 0), min(loop.end, steps - 1), loop.trips)
        for loop in loops
        if loop.start <= min(loop.end, steps - 1) and loop.end >= 0
    ]
    levels: list[list[Loop]] = []
    open_ends: list[int] = []
    for loop in sorted(inside, key=lambda loop: (loop.start, -loop.end)):
        while open_ends and open_ends[-1] < loop.start:
            open_ends.pop()
        levels += [[]] if len(open_ends) == len(levels) else []
        levels[len(open_ends)].append(loop)
        open_ends.append(loop.end)
    return levels


def trips_text(loop: Loop) -> str:
    """The trip count of a loop, as written after its name.

    >>> trips_text(Loop("while.10", 0, 1, 32)), trips_text(Loop("while.8", 0, 1, UNKNOWN)), trips_text(Loop("f", 0, 1))
    (' × 32', ' × ?', '')
    """
    if loop.trips is None:
        return ""
    return " × ?" if loop.trips is UNKNOWN else f" × {loop.trips:,}"


def _bracket(strip: Strip, loop: Loop, axis: Axis, style: Style) -> bool:
    start, end = axis.cell(loop.start), axis.cell(loop.end)
    if not strip.is_free(start, end + 1):
        return False
    wide = end - start + 1
    if wide == 1:
        return strip.put(start, style.show_figure("│"), "quiet")
    name, trips = _label(loop, wide - 4, style)
    blanks = wide - 2 - (cell_width(name + trips) + 2 if name else 0)
    left = blanks // 2
    begin = style.show_figure("└" + "─" * left) + (" " if name else "")
    finish = (" " if name else "") + style.show_figure("─" * (blanks - left) + "┘")
    strip.put(start, begin, "quiet")
    strip.put(start + len(begin), name, "name")
    strip.put(start + len(begin) + cell_width(name), trips + finish, "quiet")
    return True


def _put_name_after(strip: Strip, loop: Loop, axis: Axis, style: Style) -> None:
    """Puts the name to the right of a bracket that is too narrow for it, if there is room before the next."""
    start, end = axis.cell(loop.start), axis.cell(loop.end)
    name, trips = _label(loop, end - start - 3, style)
    if name:
        return
    name, trips = style.show(loop.name), style.show(trips_text(loop))
    at = end + 2
    if strip.is_free(at - 1, at + cell_width(name + trips) + 1):
        strip.put(at, name, "name")
        strip.put(at + cell_width(name), trips, "quiet")


def _label(loop: Loop, room: int, style: Style) -> tuple[str, str]:
    """The name and trips in `room` cells, the name shortened if needed; empty if too little of it would be left."""
    name, trips = style.show(loop.name), style.show(trips_text(loop))
    left = room - cell_width(trips)
    if cell_width(name) > left:
        name = shorten_name(name, left, style.dots) if left >= MIN_NAME_WIDTH else ""
    return (name, trips) if name else ("", "")
