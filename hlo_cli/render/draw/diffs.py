"""How is a diff shown: which lines, which words of a line, on a screen or in the unified format?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from hlo_cli.render.draw.prose import BETWEEN, cut_line, text_lines
from hlo_cli.render.style import Style, sanitize
from hlo_cli.render.width import cell_width, take, take_last
from hlo_cli.report.diff import SIGNS, Diff, DiffLine, Hunk, Piece, Sign
from hlo_cli.report.numbers import format_count, format_shown
from hlo_cli.report.text import Line, Role, Run, plain_text

# --- one changed line ---
# Changes are marked, and unchanged text is shortened to fit.


_PIECE_CELLS: Final = (80, 64, 48, 40, 32, 24, 16, 12)  # cells of a piece, as a line gets narrower
_NAME_CELLS: Final = 20  # the name before `=`, by which a line is known, is cut last


def _changed_line(pieces: tuple[Piece, ...], room: int, style: Style) -> Line:
    """The line of the pieces in `room` cells: unchanged pieces are cut in the middle, the first at its end.

    >>> pieces = (Piece("%a = f32[", "%a = f32["), Piece("8", "16"), Piece("] copy(%p)", "] copy(%p)"))
    >>> plain_text(_changed_line(pieces, 80, Style()))
    '%a = f32[8 → 16] copy(%p)'
    """
    shown = [tuple(Run(style.show(run.text), run.role) for run in _runs_of(piece)) for piece in pieces]
    line = tuple(run for runs in shown for run in runs)
    for kept in _PIECE_CELLS:
        if cell_width(plain_text(line)) <= room:
            return line
        line = tuple(_shorter(run, kept, at, len(shown), style) for at, runs in enumerate(shown) for run in runs)
    return cut_line(line, room, style.dots)


def _runs_of(piece: Piece) -> Line:
    """The runs of a piece: `old → new` for one word, else removed and added text in brackets.

    >>> plain_text(_runs_of(Piece("0,1", "1,0"))), plain_text(_runs_of(Piece("", ", calls=%b")))
    ('0,1 → 1,0', '{+, calls=%b+}')
    """
    if not piece.is_changed:
        return (Run(piece.new),)
    if piece.old and piece.new and not any(map(str.isspace, piece.old + piece.new)):
        return Run(piece.old, "alarm"), Run(" → ", "quiet"), Run(piece.new, "saving")
    went = (Run(f"[-{piece.old}-]", "alarm"),) if piece.old else ()
    return (*went, Run(f"{{+{piece.new}+}}", "saving")) if piece.new else went


def _shorter(run: Run, kept: int, at: int, pieces: int, style: Style) -> Run:
    """A run in fewer cells: the first keeps its name, the last its beginning, the others both ends."""
    text, dots = run.text, style.dots
    most = 2 * kept if run.role != "plain" else max(kept, _NAME_CELLS) if at == 0 else kept
    if cell_width(text) <= most:
        return run
    tail = 0 if at + 1 == pieces and run.role == "plain" else (6 if at == 0 else (most - len(dots)) // 2)
    return Run(take(text, most - len(dots) - tail) + dots + take_last(text, tail), run.role)


# --- the shown lines ---
# Changes with their neighbors, and the beginning of long blocks.


_MAX_BLOCK_LINES: Final = 6  # a computation that was added as a whole is known by its first lines
_FIRST_LINES: Final = 3  # the header and the first instructions; --format md has all


class Shown(NamedTuple):
    """A shown line of a diff, or a text for omitted lines; and the heading of its hunk."""

    heading: str
    line: DiffLine | None
    omitted: str = ""


def _shown_lines(diff: Diff, style: Style) -> list[Shown]:
    """The shown lines of a diff: as many changes as the style allows, with one line of context.

    If the user gives the number of changes, every line up to the last of them is shown.

    >>> from hlo_cli.report.diff import Hunk
    >>> lines = [DiffLine("-" if 3 < n < 13 else " ", "x", "x", n, n) for n in range(1, 20)]
    >>> for shown in _shown_lines(Diff("text", (Hunk(tuple(lines), "main"),)), Style()):
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
            kept = _FIRST_LINES if sign in "+-" and len(group) > _MAX_BLOCK_LINES else len(group)
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


# --- the diff on a screen ---
# A sign, a line number, and the changes of a line.


ROLES: Final[dict[Sign, Role]] = {" ": "quiet", "~": "waste", "+": "saving", "-": "alarm", ">": "name"}


def lines_of_diff(diff: Diff, style: Style) -> Iterator[Line]:
    """The title and the hunks, each under its heading; moved lines are shown at their new position.

    >>> from hlo_cli.report.diff import Hunk
    >>> changed = DiffLine("~", "  dot = f32[8]{0,1} dot(a)", "  dot = f32[8]{1,0} dot(a)", 9, 9)
    >>> hunk = Hunk((changed, DiffLine(">", "  b", "  b", 3, 10)), "main.17", 8)
    >>> from hlo_cli.report.text import plain_text
    >>> for line in lines_of_diff(Diff("text", (hunk,), folded=1), Style()): print(plain_text(line))
    main.17
           … 8 lines
     9 ~   dot = f32[8]{0,1 → 1,0} dot(a)
    10 >   b  from line 3
           … 1 line
    """
    if diff.title:
        yield from text_lines(diff.title, style)
    shown = _shown_lines(diff, style)
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


def footer_of_diff(diff: Diff, style: Style) -> tuple[str, ...]:
    """The number of shown changes, and the number of lines with each sign.

    >>> from hlo_cli.report.diff import Hunk
    >>> footer_of_diff(Diff("text", (Hunk((DiffLine("~", "a", "b", 1, 1),) * 30),)), Style())
    ('Showing 20 of 30 changed lines; use --top 0 to show all', '~ 30 changed')
    >>> footer_of_diff(Diff("text", (Hunk((DiffLine("~", "a", "b", 1, 1), DiffLine("+", None, "b", 1, 2))),)), Style())
    ('~ 1 changed · + 1 added',)
    """
    shown = sum(each.line is not None and each.line.sign in SIGNS for each in _shown_lines(diff, style))
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
        return (*lead, *_changed_line(line.pieces, room, style), Run(origin, "quiet"))
    text = cut_line((Run(style.show(line.text), "plain" if line.sign == ">" else role),), room, style.dots)
    return (*lead, *text, Run(origin, "quiet"))


# --- the unified format ---
# `patch` reads it.


def unified_lines(diff: Diff) -> Iterator[str]:
    """The diff in unified format, empty if nothing changed; control characters are escaped.

    >>> added, changed = DiffLine("+", None, "c", None, 6), DiffLine("~", "b = 1", "b = 2", 5, 5)
    >>> hunk = Hunk((DiffLine(" ", "a", "a", 4, 4), changed, added), "main", folded=3)
    >>> for line in unified_lines(Diff("text", (hunk,), old_name="x", new_name="y")): print(line)
    --- x
    +++ y
    @@ -4,2 +4,3 @@ main
     a
    -b = 1
    +b = 2
    +c
    """
    if diff.hunks:
        yield f"--- {sanitize(diff.old_name)}"
        yield f"+++ {sanitize(diff.new_name)}"
    line = new_line = 1
    for hunk in diff.hunks:
        line, new_line = line + hunk.folded, new_line + hunk.folded
        lines, new_lines = _count(hunk, "+>"), _count(hunk, "-<")
        places = f"@@ -{_range(line, lines)} +{_range(new_line, new_lines)} @@"
        yield f"{places} {sanitize(hunk.heading)}" if hunk.heading else places
        for is_context, group in groupby(hunk.lines, lambda each: each.sign == " "):
            together = tuple(group)
            yield from (" " + sanitize(each.text) for each in together) if is_context else _replaced(together)
        line, new_line = line + lines, new_line + new_lines


def _count(hunk: Hunk, other_side: str) -> int:
    return sum(line.sign not in other_side for line in hunk.lines)


def _range(first: int, lines: int) -> str:
    """The range of a hunk header; for no lines, the line before them."""
    return f"{first},{lines}" if lines else f"{first - 1},0"


def _replaced(lines: Iterable[DiffLine]) -> Iterator[str]:
    """The old lines, then the new ones."""
    together = tuple(lines)
    yield from ("-" + sanitize(line.old) for line in together if line.old is not None and line.sign not in "+>")
    yield from ("+" + sanitize(line.new) for line in together if line.new is not None and line.sign not in "-<")
