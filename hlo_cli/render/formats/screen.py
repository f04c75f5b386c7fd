"""A report for a terminal: the answer, the parts that support it, and the next commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType

from hlo_cli.render.draw.paint import painter
from hlo_cli.render.draw.prose import items_in_lines, text_lines
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Findings
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Line, Run

NEXT = "next: "


def render(report: Report, style: Style) -> Iterator[str]:
    r"""The screen, line by line, without notes, which go to standard error.

    >>> report = Report("diff", "No difference in 98 instructions", next=("hlo parse a.hlo",))
    >>> "".join(render(report, Style()))
    'No difference in 98 instructions\nnext: hlo parse a.hlo\n'
    """
    paint = painter(color=style.color)
    for line in screen_lines(report, style):
        yield paint(line) + "\n"


def screen_lines(report: Report, style: Style) -> Iterator[Line]:
    """The lines of the screen, without colors: parts separated by blank lines.

    The answer comes first, but after findings, which may fill several screens, so that it stays visible.
    """
    has_findings = any(isinstance(part, Findings) and part.found for part in report.parts)
    answer = () if has_findings else text_lines(report.answer, style, "strong")
    begun = bool(report.answer) and not has_findings
    yield from answer
    footer: tuple[str, ...] = ()
    for part in report.seen_parts:
        yield from items_in_lines(footer, style)
        if begun:
            yield ()
        begun = True
        yield from part_lines(part, style)
        footer = part_footer(part, style)
    if has_findings:
        yield from items_in_lines(footer, style)
        yield ()
        yield from text_lines(report.answer, style, "strong")
        footer = ()
    yield from items_in_lines(footer, style)
    yield from next_lines(report.next, style)


def part_lines(part: Part, style: Style) -> Iterator[Line]:
    """The lines of one part, without its footer; each kind of part is drawn by the file of its name."""
    drawn: Iterator[Line] = _drawer(part).lines(part, style)
    return drawn


def part_footer(part: Part, style: Style) -> tuple[str, ...]:
    """The footer of a part: the number of shown rows."""
    drawer = _drawer(part)
    footer: tuple[str, ...] = drawer.footer(part, style) if hasattr(drawer, "footer") else ()
    return footer


def _drawer(part: Part) -> ModuleType:
    return import_module(f"hlo_cli.render.draw.{type(part).__name__.lower()}")


def next_lines(commands: Sequence[str], style: Style) -> Iterator[Line]:
    """The next commands, one per line, never broken or shortened, so that a line can be pasted.

    >>> from hlo_cli.report.text import plain_text
    >>> commands = "hlo layout DUMP --by source", "hlo parse DUMP"
    >>> for line in next_lines(commands, Style(width=20)): print(plain_text(line))
    next: hlo layout DUMP --by source
          hlo parse DUMP
    """
    for at, command in enumerate(commands):
        yield (Run((" " * len(NEXT) if at else NEXT) + style.show(command), "quiet"),)
