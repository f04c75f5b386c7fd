"""Diffs in HTML: line numbers of both sides, a sign, and the removed and added text of a changed line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.render.draw.diff import ROLES, footer
from hlo_cli.render.draw.prose import BETWEEN
from hlo_cli.render.style import Style
from hlo_cli.render.web.markup import safe
from hlo_cli.report.diff import Diff, DiffLine, Piece
from hlo_cli.report.numbers import format_count

MAX_LINES: Final = 10_000
KINDS: Final = {"+": ' class="added"', "-": ' class="removed"', "~": ' class="changed"'}


def diff_lines(diff: Diff, style: Style, most: int = MAX_LINES) -> Iterator[str]:
    """The diff, one row for each line; moved lines are shown at their new position.

    >>> from hlo_cli.report.diff import Hunk
    >>> changed = DiffLine("~", "a = f32[8]", "a = f32[<9]", 3, 4)
    >>> for line in diff_lines(Diff("text", (Hunk((changed,), "main", 1),)), Style()): print(line)
    <div class="box" tabindex="0" role="region" aria-label="changed lines"><table class="diff">
    <tr><th colspan="4">main</th></tr>
    <tr class="quiet"><td colspan="3"></td><td>… 1 line</td></tr>
    <tr class="changed"><td>3</td><td>4</td><td class="waste">~</td><td>a = f32[<del>8</del><ins>&lt;9</ins>]</td></tr>
    </table></div>
    <p class="quiet">~ 1 changed</p>
    """
    shown = diff.seen.first(style.rows_shown(most, diff.changes))
    yield '<div class="box" tabindex="0" role="region" aria-label="changed lines"><table class="diff">'
    heading = ""
    for hunk in shown.hunks:
        if hunk.heading != heading:
            heading = hunk.heading
            yield f'<tr><th colspan="4">{safe(heading)}</th></tr>'
        yield from _left_out(hunk.folded)
        yield from map(_row, hunk.lines)
    yield from _left_out(shown.folded)
    yield "</table></div>"
    yield f'<p class="quiet">{safe(BETWEEN.join(footer(diff, replace(style, top=shown.changes))))}</p>'


def _left_out(count: int) -> Iterator[str]:
    if count:
        yield f'<tr class="quiet"><td colspan="3"></td><td>… {format_count(count, "lines")}</td></tr>'


def _row(line: DiffLine) -> str:
    text = "".join(map(_piece, line.pieces))
    if line.sign in "+-":
        tag = "ins" if line.sign == "+" else "del"
        text = f"<{tag}>{text}</{tag}>"
    role = f' class="{ROLES[line.sign]}"' if line.sign != " " else ""
    look = ' class="quiet"' if line.sign == " " else ""
    kind = KINDS.get(line.sign, "")
    numbers = f"<td>{line.old_line or ''}</td><td>{line.new_line or ''}</td>"
    return f"<tr{kind}>{numbers}<td{role}>{line.sign.strip()}</td><td{look}>{text}</td></tr>"


def _piece(piece: Piece) -> str:
    if not piece.is_changed:
        return safe(piece.new)
    went = f"<del>{safe(piece.old)}</del>" if piece.old else ""
    return went + (f"<ins>{safe(piece.new)}</ins>" if piece.new else "")
