"""A changed line as text: changes are marked, and unchanged text is shortened to fit."""

from __future__ import annotations

from typing import Final

from hlo_cli.render.draw.paint import cut_line
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, take, take_last
from hlo_cli.report.diff import Piece
from hlo_cli.report.text import Line, Run, plain_text

_KEPT: Final = (80, 64, 48, 40, 32, 24, 16, 12)  # cells of a piece, as a line gets narrower
_NAME: Final = 20


def changed_line(pieces: tuple[Piece, ...], room: int, style: Style) -> Line:
    """The line of the pieces in `room` cells: unchanged pieces are cut in the middle, the first at its end.

    >>> pieces = (Piece("%a = f32[", "%a = f32["), Piece("8", "16"), Piece("] copy(%p)", "] copy(%p)"))
    >>> plain_text(changed_line(pieces, 80, Style()))
    '%a = f32[8 → 16] copy(%p)'
    """
    shown = [tuple(Run(style.show(run.text), run.role) for run in runs_of(piece)) for piece in pieces]
    line = tuple(run for runs in shown for run in runs)
    for kept in _KEPT:
        if cell_width(plain_text(line)) <= room:
            return line
        line = tuple(_shorter(run, kept, at, len(shown), style) for at, runs in enumerate(shown) for run in runs)
    return cut_line(line, room, style.dots)


def runs_of(piece: Piece) -> Line:
    """The runs of a piece: `old → new` for one word, else removed and added text in brackets.

    >>> plain_text(runs_of(Piece("0,1", "1,0"))), plain_text(runs_of(Piece("", ", calls=%b")))
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
    most = 2 * kept if run.role != "plain" else max(kept, _NAME) if at == 0 else kept
    if cell_width(text) <= most:
        return run
    tail = 0 if at + 1 == pieces and run.role == "plain" else (6 if at == 0 else (most - len(dots)) // 2)
    return Run(take(text, most - len(dots) - tail) + dots + take_last(text, tail), run.role)
