"""Interactive pages: a head that can be read without a script, the data, and one script that draws the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from hlo_cli.render.web.assets import policy, script, style
from hlo_cli.render.web.colors import page_variables
from hlo_cli.render.web.head import ending, navigation, script_notice, section_skeleton, verdict_list
from hlo_cli.render.web.markup import safe
from hlo_cli.render.web.page_data import encoded_page
from hlo_cli.report.overview import Overview
from hlo_cli.report.report import Report

STYLES = {"report": ("base", "tables", "report"), "graph": ("base", "graph")}


def interactive_page(report: Report, kind: Literal["report", "graph"], title: str, details: str) -> Iterator[str]:
    """The page, in parts; `kind` names its script in `js/` and selects its style sheets in `css/`.

    >>> "<h1>jit_f</h1>" in "".join(interactive_page(Report("graph", ""), "graph", "jit_f", "2 instructions"))
    True
    """
    code = script(kind)
    data, shorten = encoded_page(report)
    overview = next((part for part in report.parts if isinstance(part, Overview)), None)
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy(code)}"/>\n'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1"/>\n'
    yield '<meta name="referrer" content="no-referrer"/>\n'
    yield f"<title>{safe(title)} · hlo {kind}</title>\n"
    yield f"<style>\n{page_variables()}{style(*STYLES[kind])}</style></head><body>\n"
    yield f'<header id="head"><h1>{safe(title)}</h1><p class="details">{safe(details)}</p>\n'
    yield f"{verdict_list(overview)}</header>\n{navigation(overview.sections)}\n" if overview else "</header>\n"
    yield f'<main id="main">{script_notice(kind)}\n'
    for section in overview.sections if overview else ():
        yield section_skeleton(section) + "\n"
    yield "</main>\n"
    yield from ending(_with_texts(report, shorten))
    yield f'<script type="text/plain" id="data">{data}</script>\n'
    yield f"<script>{code}</script></body></html>\n"


def _with_texts(report: Report, shorten: Callable[[str], str]) -> Report:
    """A report whose notes and commands name no directories."""
    notes = tuple(replace(note, message=shorten(note.message)) for note in report.notes)
    return replace(report, notes=notes, next=tuple(map(shorten, report.next)))
