"""Diffs as text: a sign, a line number, and the changes of a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.changed_line import changed_line
from hlo_cli.render.draw.diff_hunks import shown_lines
from hlo_cli.render.draw.paint import cut_line
from hlo_cli.render.draw.prose import BETWEEN, text_lines
from hlo_cli.render.style import Style
from hlo_cli.report.diff import SIGNS, Diff, DiffLine, Sign
from hlo_cli.report.numbers import format_shown
from hlo_cli.report.text import Line, Role, Run

ROLES: Final[dict[Sign, Role]] = {" ": "quiet", "~": "waste", "+": "saving", "-": "alarm", ">": "name"}


def lines(diff: Diff, style: Style) -> Iterator[Line]:
    """The title and the hunks, each under its heading; moved lines are shown at their new position.

    >>> from hlo_cli.report.diff import Hunk
    >>> changed = DiffLine("~", "  dot = f32[8]{0,1} dot(a)", "  dot = f32[8]{1,0} dot(a)", 9, 9)
    >>> hunk = Hunk((changed, DiffLine(">", "  b", "  b", 3, 10)), "main.17", 8)
    >>> from hlo_cli.report.text import plain_text
    >>> for line in lines(Diff("text", (hunk,), folded=1), Style()): print(plain_text(line))
    main.17
           … 8 lines
     9 ~   dot = f32[8]{0,1 → 1,0} dot(a)
    10 >   b  from line 3
           … 1 line
    """
    if diff.title:
        yield from text_lines(diff.title, style)
    shown = shown_lines(diff, style)
    digits = len(str(max((_number(each.line) for each in shown if each.line), default=0)))
    heading = ""
    for each in shown:
        if each.heading != heading:
            heading = each.heading
            yield (Run(style.show(heading), "name"),)
        if each.line is not None:
            yield cut_line(_line(each.line, digits, style), style.room, style.dots)
        else:
            yield (Run(f"{'':{digits}}     {style.dots} {each.omitted}", "quiet"),)


def footer(diff: Diff, style: Style) -> tuple[str, ...]:
    """The number of shown changes, and the number of lines with each sign.

    >>> from hlo_cli.report.diff import Hunk
    >>> footer(Diff("text", (Hunk((DiffLine("~", "a", "b", 1, 1),) * 30),)), Style())
    ('Showing 20 of 30 changed lines; use --top 0 to show all', '~ 30 changed')
    >>> footer(Diff("text", (Hunk((DiffLine("~", "a", "b", 1, 1), DiffLine("+", None, "b", 1, 2))),)), Style())
    ('~ 1 changed · + 1 added',)
    """
    shown = sum(each.line is not None and each.line.sign in SIGNS for each in shown_lines(diff, style))
    counts = diff.counts
    part = (format_shown(shown, diff.changes, diff.noun),) if shown < diff.changes else ()
    by_sign = BETWEEN.join(f"{sign} {counts[word]:,} {word}" for sign, word in SIGNS.items() if counts[word])
    return (*part, *([by_sign] if by_sign else ()))


def _number(line: DiffLine) -> int:
    return (line.old_line if line.new_line is None else line.new_line) or 0


def _line(line: DiffLine, digits: int, style: Style) -> Line:
    role = ROLES[line.sign]
    lead = (Run(f"{_number(line):>{digits}} ", "quiet"), Run(f"{line.sign} ", role))
    origin = f"  from line {line.old_line:,}" if line.sign == ">" else ""
    room = style.room - digits - 3 - len(origin)
    if line.old != line.new and line.old is not None and line.new is not None:
        return (*lead, *changed_line(line.pieces, room, style), Run(origin, "quiet"))
    text = cut_line((Run(style.show(line.text), "plain" if line.sign == ">" else role),), room, style.dots)
    return (*lead, *text, Run(origin, "quiet"))
