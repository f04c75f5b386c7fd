"""Overviews as text: the facts, and for each verdict its sign, title, headline, and sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.prose import fill
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width
from hlo_cli.report.overview import Overview, Tone, Verdict
from hlo_cli.report.text import Line, Role, Run

SIGNS: Final[dict[Tone, str]] = {"good": "✓", "warning": "▲", "bad": "✕", "neutral": "·"}
_ROLES: Final[dict[Tone, Role]] = {"good": "saving", "warning": "waste", "bad": "alarm", "neutral": "plain"}
_BETWEEN: Final = "  "


def lines(overview: Overview, style: Style) -> Iterator[Line]:
    """The lines of an overview, without its title, which begins the answer.

    >>> from hlo_cli.report.text import plain_text
    >>> verdict = Verdict("Memory", "good", "Fits v5e: 1.8 of 15.8 GiB", "HBM needs 1.8 GiB.", section="memory")
    >>> overview = Overview("overview", "jit_step on TPU v5e", "4,619 instructions", (verdict,), ())
    >>> for line in lines(overview, Style()): print(plain_text(line))
    4,619 instructions
    <BLANKLINE>
    ✓  Memory  Fits v5e: 1.8 of 15.8 GiB
               HBM needs 1.8 GiB.
    """
    yield from fill((Run(style.show(overview.details), "quiet"),), style.prose_room)
    yield ()
    wide = max((cell_width(style.show(verdict.title)) for verdict in overview.verdicts), default=0)
    for verdict in overview.verdicts:
        yield from _verdict(verdict, wide, style)


def _verdict(verdict: Verdict, wide: int, style: Style) -> Iterator[Line]:
    sign, title = style.show(SIGNS[verdict.tone]), style.show(verdict.title)
    begin = Run(f"{sign}{_BETWEEN}", _ROLES[verdict.tone]), Run(f"{title:<{wide}}{_BETWEEN}")
    indent = cell_width("".join(run.text for run in begin))
    headline = fill((Run(style.show(verdict.headline), "strong"),), style.prose_room - indent)
    sentence = fill((Run(style.show(verdict.sentence)),), style.prose_room - indent) if verdict.sentence else iter(())
    for at, line in enumerate((*headline, *sentence)):
        yield (*(begin if not at else (Run(" " * indent),)), *line)
