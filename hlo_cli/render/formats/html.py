"""A report as one self-contained HTML page: answer, charts, tables, and drawings.

Its security policy allows only the page's own script, by its hash, even if text from a dump were not escaped.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.style import Style
from hlo_cli.render.web.interactive import interactive_page
from hlo_cli.render.web.markup import encoded
from hlo_cli.render.web.page import page
from hlo_cli.report.report import Report

WHOLE = 250  # the width from which no column is omitted


def render(report: Report, style: Style) -> Iterator[str]:
    r"""The page, line by line.

    >>> written = "".join(render(Report("diff", "No <difference>", next=("hlo parse a",)), Style()))
    >>> written[written.index("<main>"):written.index("<script>")]
    '<main>\n<pre class="quiet" tabindex="0" role="group" aria-label="Next commands">next: hlo parse a</pre>\n</main>\n'
    """
    overview = next((part for part in report.parts if part.kind == "overview"), None)
    graph = next((part for part in report.parts if part.kind == "graph"), None)
    if overview is not None:
        lines = interactive_page(report, "report", overview.title, overview.details)
    elif graph is not None:
        lines = interactive_page(report, "graph", graph.title, graph.details)
    else:
        lines = page(report, Style(width=WHOLE, top=style.top))
    for line in lines:
        yield encoded(line, ascii=style.ascii)
