"""What is shown on a terminal: the whole report, a line for each finding, or their number for each rule?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.render.draw.prose import items_in_lines, painter, text_lines
from hlo_cli.render.style import Style, sanitize
from hlo_cli.report.findings import Finding, Findings
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Line, Run

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


# --- the whole report ---
# A report for a terminal: the answer, the parts that support it, and the next commands.


NEXT = "next: "
_DRAWERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("table", "tree", "facts"), "table"),
    **dict.fromkeys(("figure", "anatomy"), "quotations"),
    **dict.fromkeys(("findings", "overview"), "verdicts"),
    "passage": "prose",
    "timeline": "charts",
    "diff": "diffs",
    "graph": "rails",
}
"""The file in `draw` for each kind of part: with `lines_of_` and the kind, and `footer_of_` if it has a footer."""


def render_screen(report: Report, style: Style) -> Iterator[str]:
    r"""The screen, line by line, without notes, which go to standard error.

    >>> report = Report("diff", "No difference in 98 instructions", next=("hlo parse a.hlo",))
    >>> "".join(render_screen(report, Style()))
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
        footer = _part_footer(part, style)
    if has_findings:
        yield from items_in_lines(footer, style)
        yield ()
        yield from text_lines(report.answer, style, "strong")
        footer = ()
    yield from items_in_lines(footer, style)
    yield from _next_lines(report.next, style)


def part_lines(part: Part, style: Style) -> Iterator[Line]:
    """The lines of one part, without its footer; each kind of part has a file of `draw`, imported on first use."""
    drawn: Iterator[Line] = getattr(_drawer(part), f"lines_of_{part.kind}")(part, style)
    return drawn


def _part_footer(part: Part, style: Style) -> tuple[str, ...]:
    """The footer of a part: the number of shown rows."""
    footer_of = getattr(_drawer(part), f"footer_of_{part.kind}", None)
    footer: tuple[str, ...] = footer_of(part, style) if footer_of is not None else ()
    return footer


def _drawer(part: Part) -> ModuleType:
    return import_module(f"hlo_cli.render.draw.{_DRAWERS[part.kind]}")


MAX_NEXT = 2
"""The most next commands on a screen: a list of more is a menu, and `hlo` itself is one."""


def _next_lines(commands: Sequence[str], style: Style) -> Iterator[Line]:
    """The first two next commands, one per line, never broken or shortened, so that a line can be pasted.

    >>> from hlo_cli.report.text import plain_text
    >>> commands = "hlo layout DUMP --by source", "hlo parse DUMP"
    >>> for line in _next_lines(commands, Style(width=20)): print(plain_text(line))
    next: hlo layout DUMP --by source
          hlo parse DUMP
    """
    for at, command in enumerate(commands[:MAX_NEXT]):
        yield (Run((" " * len(NEXT) if at else NEXT) + style.show(command), "quiet"),)


# --- for the consoles of rich ---
# A report that rich prints on any of its consoles, as wide as there is room.


@dataclass(frozen=True, slots=True)
class Screen:
    """A report as a renderable of rich.

    >>> from rich.console import Console
    >>> Console(width=40).print(Screen(Report("diff", "No [red]difference")))
    No [red]difference
    """

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The lines of the screen, with the styles of terminals if the console has colors."""
        from rich.text import Text

        paint = painter(color=not (console.no_color or console.color_system is None))
        for line in screen_lines(self.report, Style(width=options.max_width, ascii=options.ascii_only)):
            yield Text.from_ansi(paint(line))


# --- findings of each rule ---
# For `lint --statistics`.


def render_summary(report: Report, style: Style) -> Iterator[str]:
    r"""The answer and a table with one row for each rule.

    >>> list(render_summary(Report("lint", "Nothing found", parts=(Findings("findings", (), ()),)), Style()))
    ['Nothing found\n']
    """
    return render_screen(statistics_of(report), style)


def statistics_of(report: Report) -> Report:
    """The report with the number of findings of each rule in place of the findings."""
    parts = tuple(part.statistics() if isinstance(part, Findings) else part for part in report.parts)
    return replace(report, parts=parts)


# --- one line each ---
# Findings as lines in the style of compilers: place, rule, severity, message.


def render_concise(report: Report, style: Style) -> Iterator[str]:
    r"""One line for each group, at its worst finding; one for each finding if the style is verbose.

    >>> from hlo_cli.report.findings import Finding
    >>> from hlo_cli.source import Source, Span
    >>> finding = Finding("warning", "mostly padding", Source("a.txt", "x\ny = 1"), Span(2, 3), code="HLO101")
    >>> report = Report("lint", "", parts=(Findings("findings", (finding,), ()),))
    >>> list(render_concise(report, Style()))
    ['a.txt:2:1: HLO101 warning mostly padding\n']
    """
    for part in report.parts:
        if isinstance(part, Findings) and style.verbose:
            yield from (_line(each, each.message) for each in part.first(style.top))
        elif isinstance(part, Findings):
            for group in part.groups[: style.top or None]:
                details = f" ({group.remark})" if group.remark else ""
                yield _line(group.worst, group.message + details)


def _line(each: Finding, message: str) -> str:
    return sanitize(f"{each.where}: {each.code} {each.severity} {message}") + "\n"
