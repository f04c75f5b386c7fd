"""The lines of a diff shown on a screen: changes with their neighbors, and the beginning of long blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from hlo_cli.render.style import Style
from hlo_cli.report.diff import SIGNS, Diff, DiffLine
from hlo_cli.report.numbers import format_count

_MAX_BLOCK_LINES: Final = 6
_OF_A_BLOCK: Final = 3


class Shown(NamedTuple):
    """A shown line of a diff, or a text for omitted lines; and the heading of its hunk."""

    heading: str
    line: DiffLine | None
    omitted: str = ""


def shown_lines(diff: Diff, style: Style) -> list[Shown]:
    """The shown lines of a diff: as many changes as the style allows, with one line of context.

    If the user gives the number of changes, every line up to the last of them is shown.

    >>> from hlo_cli.report.diff import Hunk
    >>> lines = [DiffLine("-" if 3 < n < 13 else " ", "x", "x", n, n) for n in range(1, 20)]
    >>> for shown in shown_lines(Diff("text", (Hunk(tuple(lines), "main"),)), Style()):
    ...     print(shown.line.old_line if shown.line else shown.omitted)
    2 lines
    3
    4
    5
    6
    6 more removed
    13
    6 lines
    """
    is_brief = style.top is None
    left = style.rows_shown(diff.limit, diff.changes)
    seen = diff.seen if is_brief else diff.seen.first(left)
    shown: list[Shown] = []
    unseen = 0
    for hunk in seen.hunks:
        unseen += hunk.folded
        for line, more in _brief(hunk.lines) if is_brief else ((line, 0) for line in hunk.lines):
            if line is None:
                unseen += more
                continue
            if line.sign in SIGNS and not left:
                return shown
            shown += _words(hunk.heading, unseen)
            unseen = 0
            shown.append(Shown(hunk.heading, line))
            left -= line.sign in SIGNS
            shown += [Shown(hunk.heading, None, f"{more:,} more {SIGNS[line.sign]}")] if more else []
    return [*shown, *_words(shown[-1].heading if shown else "", unseen + seen.folded)]


def _words(heading: str, unseen: int) -> list[Shown]:
    return [Shown(heading, None, format_count(unseen, "lines"))] if unseen else []


def _brief(lines: Sequence[DiffLine]) -> Iterator[tuple[DiffLine | None, int]]:
    """Lines, each with the number of lines of its block omitted after it; None for omitted unchanged lines."""
    groups = [(sign, list(group)) for sign, group in groupby(lines, lambda line: line.sign)]
    for at, (sign, group) in enumerate(groups):
        if sign in SIGNS:
            kept = _OF_A_BLOCK if sign in "+-" and len(group) > _MAX_BLOCK_LINES else len(group)
            yield from ((line, 0) for line in group[: kept - 1])
            yield group[kept - 1], len(group) - kept
            continue
        first, last = int(at > 0), int(at + 1 < len(groups))
        middle = group[first : len(group) - last]
        yield from ((line, 0) for line in group[:first])
        if len(middle) > 1:
            yield None, len(middle)
        else:
            yield from ((line, 0) for line in middle)
        yield from ((line, 0) for line in group[len(group) - last :] if len(group) > first)
