"""A report as one self-contained HTML page: answer, tables, drawings, and timelines.

Its security policy allows only the page's own script, by its hash, even if text from a dump were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

from hlo_cli.render.style import Style
from hlo_cli.render.web.interactive import interactive_page
from hlo_cli.render.web.markup import encoded, safe
from hlo_cli.render.web.page import SCRIPT, page_css
from hlo_cli.render.web.parts import part_css, part_lines
from hlo_cli.report.report import Report

WHOLE = 250  # the width from which no column is omitted


def render(report: Report, style: Style) -> Iterator[str]:
    r"""The page, line by line.

    >>> page = "".join(render(Report("diff", "No <difference>", next=("hlo parse a",)), Style()))
    >>> page[page.index("<h1>"):page.index("<script>")]
    '<h1>No &lt;difference&gt;</h1>\n<pre class="quiet">next: hlo parse a</pre>\n'
    """
    overview = next((part for part in report.parts if part.kind == "overview"), None)
    graph = next((part for part in report.parts if part.kind == "graph"), None)
    if overview is not None:
        lines = interactive_page(report, "report", overview.title, overview.details)
    elif graph is not None:
        lines = interactive_page(report, "graph", graph.title, graph.details)
    else:
        lines = _page(report, Style(width=WHOLE, top=style.top))
    for line in lines:
        yield encoded(line, ascii=style.ascii)


def _page(report: Report, style: Style) -> Iterator[str]:
    parts = [(f"part{at}", part) for at, part in enumerate(report.seen_parts)]
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_policy()}"/>\n'
    yield '<meta name="viewport" content="width=device-width"/>\n'
    yield f"<title>{safe(_title(report))}</title>\n<style>{page_css()}"
    yield "".join(part_css(part, key) for key, part in parts)
    yield "</style></head><body>\n"
    yield f"<h1>{safe(report.answer)}</h1>\n" if report.answer else ""
    for key, part in parts:
        for line in part_lines(part, style, key):
            yield line + "\n"
    yield from _ending(report)
    yield f"<script>{SCRIPT}</script></body></html>\n"


def _ending(report: Report) -> Iterator[str]:
    if report.next:
        commands = "\n      ".join(map(safe, report.next))
        yield f'<pre class="quiet">next: {commands}</pre>\n'
    for note in report.notes:
        yield f'<p class="quiet">{safe(note.severity)}: {safe(note.message)}</p>\n'


def _title(report: Report) -> str:
    path = report.input.get("path")
    return f"hlo {report.command}: {path}" if isinstance(path, str) else f"hlo {report.command}"


def _policy() -> str:
    """The security policy of the page: its own style, and the one script with this hash."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
