"""A report as a fragment of HTML for a cell of a notebook."""

from __future__ import annotations

from hlo_cli.render.style import Style
from hlo_cli.render.web.markup import safe
from hlo_cli.render.web.parts import part_css, part_lines
from hlo_cli.report.report import Report


def fragment(report: Report, *, top: int | None = None) -> str:
    """The answer and the parts, without scripts."""
    parts = [(f"hlo-{report.command}-{at}", part) for at, part in enumerate(report.seen_parts)]
    style = Style(width=250, top=top)
    css = "".join(part_css(part, key) for key, part in parts)
    body = "".join(line + "\n" for key, part in parts for line in part_lines(part, style, key))
    return f'<div class="hlo-view"><style>{css}</style><p><strong>{safe(report.answer)}</strong></p>\n{body}</div>'
