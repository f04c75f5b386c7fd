"""Diffs on a screen: a sign, a line number, and of a changed line what changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.paint import cut_line
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.numbers import counted
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, take, take_last
from hlo_cli.report.diff import SIGNS, Diff, DiffLine, Piece, Sign
from hlo_cli.report.text import Line, Role, Run, plain_text

ROLES: Final[dict[Sign, Role]] = {" ": "quiet", "~": "waste", "+": "saving", "-": "alarm", ">": "name"}
_KEPT: Final = (80, 64, 48, 40, 32, 24, 16, 12, 8)  # cells of an unchanged stretch, as a line gets narrower


def lines(diff: Diff, style: Style) -> Iterator[Line]:
    """The title and the hunks, each under what it is part of; what moved away is seen where it went.

    >>> from hlo_cli.report.diff import Hunk
    >>> changed = DiffLine("~", "  dot = f32[8]{0,1} dot(a)", "  dot = f32[8]{1,0} dot(a)", 9, 9)
    >>> hunk = Hunk((changed, DiffLine(">", "  b", "  b", 3, 10)), "main.17", 8)
    >>> for line in lines(Diff("text", (hunk,), folded=1), Style()): print(plain_text(line))
    main.17
           … 8 lines
     9 ~   dot = f32[8]{0,1 → 1,0} dot(a)
    10 >   b  from line 3
           … 1 line
    """
    if diff.title:
        yield from text_lines(diff.title, style)
    shown = diff.seen.first(style.rows_shown(diff.limit, diff.changes))
    digits = len(str(max((_number(line) for hunk in shown.hunks for line in hunk.lines), default=0)))
    heading = ""
    for hunk in shown.hunks:
        if hunk.heading != heading:
            heading = hunk.heading
            yield (Run(style.show(heading), "name"),)
        yield from _left_out(hunk.folded, digits, style)
        for line in hunk.lines:
            yield cut_line(_line(line, digits, style), style.room, style.dots)
    yield from _left_out(shown.folded, digits, style)


def footer(diff: Diff, style: Style) -> tuple[str, ...]:
    """How much of the diff is seen, and how many lines each sign stands at.

    >>> from hlo_cli.report.diff import Hunk
    >>> footer(Diff("text", (Hunk((DiffLine("+", None, "a", None, 1),) * 30),)), Style())
    ('20 of 30 changed lines', '--top 0 shows all', '+ 30 added')
    """
    shown, counts = style.rows_shown(diff.limit, diff.changes), diff.counts
    part = (f"{shown:,} of {counted(diff.changes, diff.noun)}", "--top 0 shows all") if shown < diff.changes else ()
    return (*part, *(f"{sign} {counts[word]:,} {word}" for sign, word in SIGNS.items() if counts[word]))


def runs_of(piece: Piece) -> tuple[Run, ...]:
    """A changed stretch as it is written: one word becomes another; else what went and what came, each in brackets.

    >>> plain_text(runs_of(Piece("0,1", "1,0"))), plain_text(runs_of(Piece("", ", calls=%b")))
    ('0,1 → 1,0', '{+, calls=%b+}')
    """
    if not piece.is_changed:
        return (Run(piece.new),)
    if piece.old and piece.new and len((piece.old + piece.new).split()) == 1:
        return Run(piece.old, "alarm"), Run(" → ", "quiet"), Run(piece.new, "saving")
    went = (Run(f"[-{piece.old}-]", "alarm"),) if piece.old else ()
    return (*went, Run(f"{{+{piece.new}+}}", "saving")) if piece.new else went


def _number(line: DiffLine) -> int:
    return (line.old_line if line.new_line is None else line.new_line) or 0


def _left_out(count: int, digits: int, style: Style) -> Iterator[Line]:
    if count:
        words = f"{'':{digits}}     {style.dots} {counted(count, 'lines')}"
        yield (Run(words, "quiet"),)


def _line(line: DiffLine, digits: int, style: Style) -> Line:
    role = ROLES[line.sign]
    lead = (Run(f"{_number(line):>{digits}} ", "quiet"), Run(f"{line.sign} ", role))
    origin = f"  from line {line.old_line:,}" if line.sign == ">" else ""
    room = style.room - digits - 3 - len(origin)
    if line.old != line.new and line.old is not None and line.new is not None:
        return (*lead, *_fitted(line.pieces, room, style), Run(origin, "quiet"))
    text = cut_line((Run(style.show(line.text), "plain" if line.sign == ">" else role),), room, style.dots)
    return (*lead, *text, Run(origin, "quiet"))


def _fitted(pieces: tuple[Piece, ...], room: int, style: Style) -> Line:
    """A changed line in the room there is: what did not change loses its middle, so that what did is seen."""
    shown = [tuple(Run(style.show(run.text), run.role) for run in runs_of(piece)) for piece in pieces]
    line = tuple(run for runs in shown for run in runs)
    for kept in _KEPT:
        if cell_width(plain_text(line)) <= room:
            return line
        line = tuple(run for at, runs in enumerate(shown) for run in _shorter(runs, kept, at + 1 == len(shown), style))
    return cut_line(line, room, style.dots)


def _shorter(runs: tuple[Run, ...], kept: int, is_last: bool, style: Style) -> Iterator[Run]:
    for run in runs:
        most = kept if run.role == "plain" else 2 * kept
        if cell_width(run.text) <= most:
            yield run
        else:
            tail = 0 if is_last and run.role == "plain" else (most - len(style.dots)) // 2
            text = take(run.text, most - len(style.dots) - tail) + style.dots + take_last(run.text, tail)
            yield Run(text, run.role)
