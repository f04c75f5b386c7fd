"""A report as a piece of HTML for a notebook: answer, charts, and tables, without a script."""

from __future__ import annotations

import hashlib

from hlo_cli.render.style import Style
from hlo_cli.render.web.colors import variables
from hlo_cli.render.web.markup import safe
from hlo_cli.render.web.page import body_lines, part_style, report_css
from hlo_cli.report.report import Report

WHOLE = 250  # the width from which no column is omitted
MAX_ROWS = 100
# notebooks stripe and center tables, in colors of their own
_RESET = """\
.hlo.fragment table{margin-left:0;margin-right:0;table-layout:auto}
.hlo.fragment tbody tr:nth-child(n){background:none}
.hlo.fragment tbody tr:nth-child(n):hover{background:color-mix(in srgb,var(--rule) 45%,transparent)}
"""
_PLACEHOLDER = "\x00"  # no sanitized text has it
# what notebooks set on elements around an output when their own scheme is light or dark
_LIGHT = '[data-jp-theme-light="true"] .hlo,.vscode-light .hlo,[data-theme=light] .hlo,html[theme=light] .hlo'
_DARK = '[data-jp-theme-light="false"] .hlo,.vscode-dark .hlo,[data-theme=dark] .hlo,html[theme=dark] .hlo'


def fragment(report: Report, *, top: int | None = None) -> str:
    """The answer, charts, and tables of a report as one element; `top` is the number of rows of main tables.

    All styles are about the class `hlo`; no element has an id, and columns have classes that depend on the content, so
    several fragments can be on one page. The same report gives the same text.

    >>> text = fragment(Report("memspace", "It <fits>"))
    >>> text[:24], text[text.index("</style>"):]
    ('<div class="hlo fragment', '</style>\\n<p class="answer">It &lt;fits&gt;</p>\\n</div>\\n')
    """
    style = Style(width=WHOLE, top=top)
    # the classes of columns are those of a digest of the content, so the content is written with a placeholder first
    body = "\n".join(body_lines(report, style, _PLACEHOLDER, MAX_ROWS))
    key = "k" + hashlib.sha256(body.encode()).hexdigest()[:10]
    answer = [f'<p class="answer">{safe(report.answer)}</p>'] if report.answer else []
    css = f"{scheme_css()}{part_style()}{_RESET}{report_css(report, key)}"
    lines = (
        f'<div class="hlo fragment">\n<style>\n{css}</style>',
        *answer,
        *([body.replace(_PLACEHOLDER, key)] if body else []),
        "</div>\n",
    )
    return "\n".join(lines)


def scheme_css() -> str:
    """The colors of a fragment: those of the notebook if it names its scheme, else those of the system.

    >>> "prefers-color-scheme:dark" in scheme_css()
    True
    """
    light, dark = variables()
    system = f".hlo{{{light}}}@media(prefers-color-scheme:dark){{.hlo{{{dark}}}}}"
    return f"{system}\n{_LIGHT}{{{light}}}\n{_DARK}{{{dark}}}\n"
