"""Overviews as text: the title, the facts, and a line for each verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.style import Style
from hlo_cli.report.overview import Overview, Tone
from hlo_cli.report.text import Line

SIGNS: Final[dict[Tone, str]] = {"good": "✓", "warning": "▲", "bad": "✕", "neutral": "·"}


def lines(overview: Overview, style: Style) -> Iterator[Line]:
    """The lines of an overview.

    >>> from hlo_cli.report.overview import Verdict
    >>> from hlo_cli.report.text import plain_text
    >>> verdict = Verdict("Memory", "good", "Fits v5e", "1.8 of 15.8 GiB", section="memory")
    >>> overview = Overview("overview", "jit_step on TPU v5e", "4,619 instructions", (verdict,), ())
    >>> for line in lines(overview, Style()): print(plain_text(line))
    jit_step on TPU v5e
    4,619 instructions
    ✓ Memory: Fits v5e (1.8 of 15.8 GiB)
    """
    yield from text_lines(overview.title, style, "strong")
    yield from text_lines(overview.details, style)
    for verdict in overview.verdicts:
        more = f" ({verdict.sentence})" if verdict.sentence else ""
        yield from text_lines(f"{SIGNS[verdict.tone]} {verdict.title}: {verdict.headline}{more}", style)
