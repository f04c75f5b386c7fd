"""Static pages: complete without a script; the script sorts, filters, and links charts with tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.paths import path_shortener
from hlo_cli.render.style import Style
from hlo_cli.render.web import assets
from hlo_cli.render.web.colors import in_variables, picture_css, roles, variables
from hlo_cli.render.web.markup import safe
from hlo_cli.render.web.parts import charts_of, part_css, part_lines
from hlo_cli.render.web.subject import subject_of
from hlo_cli.render.web.table import MAX_ROWS
from hlo_cli.report.report import Report

SCRIPT: Final = "static"  # the module in `js/` that enhances pages


def page(report: Report, style: Style) -> Iterator[str]:
    r"""The page, in pieces: the head, the answer, charts, the other parts, and what to run next.

    >>> written = "".join(page(Report("diff", "No <difference>", next=("hlo parse a",)), Style()))
    >>> written[written.index("<h1>"):written.index("</header>")]
    '<h1>No &lt;difference&gt;</h1>\n<p class="details">hlo diff</p>\n'
    """
    code = assets.script(SCRIPT)
    subject = subject_of(report)
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{assets.policy(code)}"/>\n'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1"/>\n'
    yield '<meta name="referrer" content="no-referrer"/>\n'
    title = " · ".join(part for part in (subject.title, subject.details) if part)
    yield f"<title>{safe(title)}</title>\n<style>{page_css()}{assets.style('static')}{report_css(report, 'part')}"
    yield "</style></head>\n"
    yield '<body class="hlo"><header>\n'
    yield f"<h1>{safe(subject.title or report.answer)}</h1>\n" if subject.title or report.answer else ""
    yield f'<p class="details">{safe(subject.details)}</p>\n</header>\n<main>\n'
    yield f'<p class="answer">{safe(report.answer)}</p>\n' if subject.title and report.answer else ""
    for line in body_lines(report, style, "part"):
        yield line + "\n"
    yield f"</main>\n<script>{code}</script></body></html>\n"


def body_lines(report: Report, style: Style, key: str, most: int = MAX_ROWS) -> Iterator[str]:
    """The parts of a report, the charts first, then the commands to run next and the notes."""
    parts = [(f"{key}{at}", part) for at, part in enumerate(report.seen_parts)]
    for name, part in parts:
        yield from charts_of(part, style, name)
    for name, part in parts:
        yield from part_lines(part, style, name, most)
    shorten = path_shortener(report, ())
    if report.next:
        commands = "\n      ".join(safe(shorten(line)) for line in report.next)
        yield f'<pre class="quiet" tabindex="0" role="group" aria-label="Next commands">next: {commands}</pre>'
    for note in report.notes:
        yield f'<p class="quiet">{safe(note.severity)}: {safe(shorten(note.message))}</p>'


def report_css(report: Report, key: str) -> str:
    """The style of the columns of all parts; `key` begins the classes of their tables."""
    return "".join(part_css(part, f"{key}{at}") for at, part in enumerate(report.seen_parts))


def page_css() -> str:
    """The style of a page, including pictures: all rules are about the class `hlo` and what is in it.

    >>> "--ink:#1f2328" in page_css()
    True
    """
    light, dark = variables()
    schemes = (
        f".hlo{{{light}}}@media(prefers-color-scheme:dark){{.hlo{{{dark}}}}}"
        f"[data-theme=light] .hlo{{{light}}}[data-theme=dark] .hlo{{{dark}}}\n"
    )
    return schemes + part_style()


def part_style() -> str:
    """The style of parts and pictures, with the colors of variables."""
    return assets.style("parts") + in_variables(roles(".hlo ")) + picture_css(variables=True)
