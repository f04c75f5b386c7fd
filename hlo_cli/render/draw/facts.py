"""Facts as text: labels, aligned amounts, and remarks cut to the width."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.draw.cells import in_words
from hlo_cli.render.draw.paint import cut_line
from hlo_cli.render.draw.prose import fill, text_lines
from hlo_cli.render.style import Style
from hlo_cli.render.truncate import shorten_text
from hlo_cli.render.width import cell_width, pad
from hlo_cli.report.column import Column
from hlo_cli.report.facts import Amount, Fact, Facts
from hlo_cli.report.text import Line, Run

AFTER_LABEL = "  "
AFTER_AMOUNT = "   "
_NARROWEST = 20
"""The narrowest column of whole remarks."""


def lines(facts: Facts, style: Style) -> Iterator[Line]:
    """One line for each fact.

    >>> from hlo_cli.report.text import plain_text
    >>> arguments = Fact("arguments", (Amount("count", 63), Amount("bytes", 5872025, "bytes")))
    >>> opcodes = Fact("opcodes", (Amount("count", 1046),), "parameter 822, convert 468, broadcast 366")
    >>> for line in lines(Facts("module", (arguments, opcodes)), Style(width=50)): print(plain_text(line))
    arguments     63   5.6 MiB
    opcodes    1,046   parameter 822, convert 468 …
    """
    if facts.title:
        yield from text_lines(facts.title, style)
    labels = max((cell_width(style.show(fact.label)) for fact in facts.facts), default=0)
    texts = [[_amount(amount, style) for amount in fact.amounts] for fact in facts.facts]
    widths = [
        max(cell_width(row[at]) for row in texts if at < len(row)) for at in range(max(map(len, texts), default=0))
    ]
    for fact, row in zip(facts.facts, texts, strict=True):
        amounts = [pad(text, width, right=True) for text, width in zip(row, widths, strict=False)]
        line = pad(style.show(fact.label), labels) + AFTER_LABEL + AFTER_AMOUNT.join(amounts)
        if fact.is_whole:
            yield from _whole(fact, line, style)
            continue
        yield cut_line((Run((line + _remark(fact, line, style)).rstrip()),), style.room, style.dots)


def _whole(fact: Fact, before: str, style: Style) -> Iterator[Line]:
    """The whole remark, its further lines below its first."""
    lead = before + (AFTER_AMOUNT if fact.amounts else "")
    indent = cell_width(lead)
    for at, part in enumerate(fill((Run(style.show(fact.remark)),), max(style.room - indent, _NARROWEST))):
        yield (Run(" " * indent if at else lead), *part)


def shorten_list(text: str, room: int, dots: str) -> str:
    """A comma-separated list without its last items, or another text without its end.

    >>> shorten_list("parameter 822, convert 468", 20, "…")
    'parameter 822 …'
    """
    if cell_width(text) <= room:
        return text
    cut = shorten_text(text, room - 1, "")
    comma = cut.rfind(", ", 0, max(0, room - len(dots)))
    return f"{cut[:comma]} {dots}" if comma > 0 else shorten_text(text, max(room, 0), dots)


def _amount(amount: Amount, style: Style) -> str:
    return style.show(in_words(Column(amount.name, amount.name, amount.unit), amount.value))


def _remark(fact: Fact, before: str, style: Style) -> str:
    if not fact.remark:
        return ""
    lead = AFTER_AMOUNT if fact.amounts else ""
    return lead + shorten_list(style.show(fact.remark), style.room - cell_width(before + lead), style.dots)
