"""What is a page whose script draws it: the head that needs no script, and the data that the script reads?"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, Literal
from urllib.parse import quote

from hlo_cli.dataclass import dataclass
from hlo_cli.render.machine import Json, diagnostic_value, json_value
from hlo_cli.render.style import Style, sanitize
from hlo_cli.render.web.charts import figure_of_spans, span_column
from hlo_cli.render.web.colors import page_variables
from hlo_cli.render.web.html_parts import part_css, part_lines
from hlo_cli.render.web.markup import path_shortener, safe, short
from hlo_cli.render.web.page import body_lines, page_css, policy, report_css, script, style_sheets, subject_of
from hlo_cli.report.findings import Findings
from hlo_cli.report.graph import Graph
from hlo_cli.report.numbers import format_bytes, format_part, format_seconds
from hlo_cli.report.overview import Action, Gauge, Overview, Section, Tone, Verdict
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row, Table, Tree
from hlo_cli.report.timeline import Timeline

# --- the head ---
# What can be read without a script.


SIGNS: Final[dict[Tone, str]] = {"good": "✓", "warning": "▲", "bad": "✕", "neutral": ""}
"""The sign of a verdict, so that its color is not needed to tell it."""

_MOST_GAUGES: Final = 3  # in one tile of the overview: HBM, VMEM, and one more; the memory section has all
_COMMANDS: Final = {
    "report": ("hlo memspace", "hlo schedule", "hlo fuse", "hlo layout", "hlo lint"),
    "graph": ("hlo graph --format svg", "hlo graph --format tree", "hlo parse --tree"),
}


def _verdict_list(overview: Overview) -> str:
    """The verdicts as a list of links to their sections.

    >>> import re
    >>> verdict = Verdict("Memory", "good", "Fits v5e", section="memory", gauges=(Gauge("HBM", 1 << 30, 4 << 30),))
    >>> markup = _verdict_list(Overview("overview", "", "", (verdict,), ()))
    >>> print(re.sub("<[^>]*>", "", markup))
    <BLANKLINE>
    Memory ✓ Fits v5e
    HBM  1 of 4 GiB
    <BLANKLINE>
    >>> 'href="#memory"' in markup, "width:25%" in markup
    (True, True)
    """
    if not overview.verdicts:
        return ""
    elsewhere = [section.sentence for section in overview.sections]
    return "\n".join(('<ul class="verdicts">', *(_verdict(each, elsewhere) for each in overview.verdicts), "</ul>"))


def _navigation(sections: tuple[Section, ...]) -> str:
    """The links to the sections, in a bar to which scripts add their controls."""
    links = "".join(f'<a href="#{safe(section.key)}">{safe(section.title)}</a>' for section in sections)
    return f'<nav id="nav" aria-label="Sections"><div><div class="links">{links}</div></div></nav>'


def _section_skeleton(section: Section, content: str = "") -> str:
    """A section with its title, its sentence, and what is there without a script, which adds controls and pictures.

    >>> print(_section_skeleton(Section("padding", "Padding", "No padding.")))
    <section id="padding" aria-labelledby="padding-title">
    <div class="lead"><h2 id="padding-title">Padding</h2><p>No padding.</p></div>
    </section>
    """
    key = safe(section.key)
    title = f'<h2 id="{key}-title">{safe(section.title)}</h2>'
    lead = f'<div class="lead">{title}<p>{safe(section.sentence)}</p></div>'
    return f'<section id="{key}" aria-labelledby="{key}-title">\n{lead}\n{content}</section>'


def _action_list(actions: Sequence[Action]) -> str:
    """What to do first: for each change the costs, what is wrong, where, and how to mend it.

    >>> import re
    >>> markup = _action_list((Action("w is copied", "Donate w.", cost_bytes=2048, source="a/m.py:3"),))
    >>> print(re.sub("<[^>]*>", "", markup).rstrip())
    <BLANKLINE>
    2 KiB
    w is copied m.py:3
    Donate w.
    """
    if not actions:
        return ""
    fixes = [action.fix for action in actions]
    items = (_action(action, fixes[:at]) for at, action in enumerate(actions))
    # Where no action has both, bytes and time need one column, not an empty one.
    is_narrow = not any(action.cost_bytes and action.seconds for action in actions)
    return "\n".join((f'<ol class="actions{" narrow" if is_narrow else ""}">', *items, "</ol>\n"))


def _action(action: Action, earlier: Sequence[str]) -> str:
    """One item; a fix that an earlier one has is named by that item's number."""
    costs = [format_bytes(action.cost_bytes)] if action.cost_bytes else []
    costs += [format_seconds(action.seconds) + ("" if action.is_measured else " est.")] if action.seconds else []
    shown = "".join(f"<span>{safe(cost)}</span>" for cost in costs)
    if costs and action.certainty:
        shown = f'{shown}<span class="quiet certainty">{safe(action.certainty)}</span>'
    place = os.path.basename(action.source)
    # the message often names the line already
    line = f" <code>{safe(place)}</code>" if place and place not in action.message else ""
    name = action.instruction
    section = "findings" if action.code else "memory"
    link = f' <a class="name code" href="#{section}?select={safe(quote(name))}">{safe(name)}</a>' if name else ""
    rule = f' <span class="quiet">{safe(action.code)}</span>' if action.code else ""
    what = f'<p class="what">{safe(action.message)}{line}{link}{rule}</p>'
    words = f"See {earlier.index(action.fix) + 1}." if action.fix in earlier else action.fix
    fix = f'\n<p class="fix">{safe(words)}</p>' if words else ""
    return f'<li><p class="costs">{shown}</p>\n{what}{fix}</li>'


def _script_notice(kind: str) -> str:
    """For readers without scripts: the commands that print what the page would draw.

    >>> _script_notice("graph")[:60]
    '<noscript><p>Charts and tables on this page need JavaScript.'
    """
    commands = ", ".join(f"<code>{command}</code>" for command in _COMMANDS[kind])
    text = f"Charts and tables on this page need JavaScript. These commands print the same numbers: {commands}."
    return f"<noscript><p>{text}</p></noscript>"


def ending(report: Report) -> Iterator[str]:
    """The notes about the reading of the dump."""
    yield '<footer id="foot">\n'
    for note in report.notes:
        yield f"<p>{safe(note.severity)}: {safe(note.message)}</p>\n"
    yield "</footer>\n"


def _verdict(verdict: Verdict, elsewhere: Sequence[str]) -> str:
    """A verdict as a link to its section; it repeats neither its gauges nor what sections say."""
    tone = verdict.tone
    gauges = _gauges(verdict.gauges)
    has_limits = any(gauge.limit_bytes is not None for gauge in verdict.gauges)
    words = verdict.brief if gauges and verdict.brief else verdict.headline
    sign = f'<span class="sign" role="img" aria-label="{tone}">{SIGNS[tone]}</span> ' if SIGNS[tone] else ""
    headline = f"<strong>{sign}{safe(words)}</strong>"
    text = "" if gauges and has_limits else _without(verdict.sentence, elsewhere)
    sentence = f'\n<span class="sentence">{safe(text)}</span>' if text else ""
    title = f'<span class="title">{safe(verdict.title)}</span>'
    return f'<li class="{tone}"><a href="#{safe(verdict.section)}">{title} {headline}{gauges}{sentence}</a></li>'


def _without(text: str, elsewhere: Sequence[str]) -> str:
    """A text without the sentences that stand elsewhere.

    >>> _without("A step lasts 5 ms. 21 kernels take 4 ms.", ["21 kernels take 4 ms.", ""])
    'A step lasts 5 ms.'
    """
    for sentence in filter(None, elsewhere):
        text = text.replace(sentence, "")
    return " ".join(text.split())


def _gauges(gauges: tuple[Gauge, ...]) -> str:
    """The gauges with limits, else those of several memories; the headline has the number of a single one."""
    limited = tuple(gauge for gauge in gauges if gauge.limit_bytes is not None)
    shown = (limited or (gauges if len(gauges) > 1 else ()))[:_MOST_GAUGES]
    return f'\n<span class="gauges">{"".join(map(_gauge, shown))}</span>' if shown else ""


def _gauge(gauge: Gauge) -> str:
    """A name, a track, and the numbers; without a limit there is nothing to fill."""
    name = f"<span>{safe(gauge.name)}</span>"
    if gauge.limit_bytes is None:
        return f'<span class="gauge">{name} <span></span> <span>{format_bytes(gauge.used_bytes)}</span></span>'
    share = min(100.0, 100 * gauge.used_bytes / max(1, gauge.limit_bytes))
    over = ' class="over"' if gauge.used_bytes > gauge.limit_bytes else ""
    track = f'<span class="track"><span{over} style="width:{short(share)}%"></span></span>'
    return f'<span class="gauge">{name} {track} <span>{format_part(gauge.used_bytes, gauge.limit_bytes)}</span></span>'


# --- the data ---
# The JSON of the report, with texts once, columns in place of records, compressed.


TEXT: Final = "text"
TEXTS: Final = "texts"
PLAIN: Final = "plain"


def _encoded_page(report: Report) -> tuple[str, Callable[[str], str]]:
    """The data as ASCII that cannot end its element: gzip in base64, the same for the same report.

    With it comes the function that removes directories from the other texts of the page.

    >>> table = Table("sizes", (Column("value", "value", "name"), Column("bytes", "", "bytes")), (("b", 4),))
    >>> text, _ = _encoded_page(Report("memspace", "It fits", parts=(table,)))
    >>> data = json.loads(gzip.decompress(base64.b64decode(text)))
    >>> data["strings"], [column["cells"] for column in data["tables"]["sizes"]["columns"]]
    (['b'], [[0], [4]])
    >>> _encoded_page(Report("report", "", input={"path": "/home/ada/step/m.txt"}))[1]("found in /home/ada/step/")
    'found in step/'
    """
    tables = _tables_of(report)
    shorten = path_shortener(report, [table for _, table in tables.values()])
    text = json.dumps(_data(report, tables, _Page(shorten)), allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode(), shorten


def _tables_of(report: Report) -> dict[str, tuple[Part, Table]]:
    """The parts with rows and their tables, by the name of the part; rows are computed once, here.

    Measured events are left out: their picture is in the page.
    """
    timeline = events_of(report)
    parts = [part for part in report.parts if isinstance(part, Graph) or not report.has_graph]  # graphs fold by script
    found = ((part, table) for part in parts if part is not timeline and (table := _table_of(part)) is not None)
    return {part.name: (part, replace(table, rows=tuple(table.rows))) for part, table in found}


def _data(report: Report, tables: Mapping[str, tuple[Part, Table]], page: _Page) -> dict[str, Json]:
    """What `js/data.js` reads. `strings` has every text once, sanitized; an unknown number is `"?"`.

    A column of a table has its name, title, unit, and `cells`: with the form `text`, indices into `strings`; with
    `texts`, lists of them; else raw values. Of the rows of a timeline, only the largest are in it; `omitted` is the
    number of the others in each track, and the sum of their bytes.
    """
    overview = next((part for part in report.parts if isinstance(part, Overview)), None)
    graph = next((part for part in report.parts if isinstance(part, Graph)), None)
    timelines = [part for part in report.parts if isinstance(part, Timeline)]
    return {
        "schema": report.schema,
        "input": page.clean(json_value(report.input)),
        "answer": page.text(report.answer),
        "numbers": page.clean(json_value(report.numbers)),
        "overview": None if overview is None else page.clean(json_value(overview.data)),
        "graph": None if graph is None else page.clean(json_value(graph.data)),
        "tables": {
            table.name: page.limited(part, table) if isinstance(part, Timeline) else page.table(table, table.rows)
            for part, table in tables.values()
        },
        "timelines": {part.name: page.timeline(part, "steps" in tables) for part in timelines},
        "next": [page.text(line) for line in report.next],
        "notes": [page.clean(diagnostic_value(note)) for note in report.notes],
        "strings": list(page.strings),
    }


def _table_of(part: Part) -> Table | None:
    if isinstance(part, Graph):
        return part.nodes
    return part.as_table() if isinstance(part, Table | Tree | Timeline | Findings) else None


@dataclass(frozen=True, slots=True)
class _Page:
    """The strings of a page, the function that removes directories from them, and the places of texts among them."""

    shorten: Callable[[str], str]
    strings: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """A text as it is on the page."""
        return sanitize(self.shorten(text))

    def timeline(self, timeline: Timeline, has_steps: bool) -> Json:
        """What is not in the rows of a timeline; the names of its steps too, unless a table has them."""
        data = self.clean(json_value(timeline.data))
        if has_steps or not isinstance(data, dict):
            return data
        return {**data, "instructions": [self._index(name) for name in timeline.instructions]}

    def limited(self, timeline: Timeline, table: Table) -> dict[str, Json]:
        """The rows of a timeline that occupy most bytes for most steps, and what the others sum up to."""
        kept, omitted = _largest_rows(table, timeline.page_limit)
        described = self.table(table, kept)
        return {**described, "omitted": omitted} if omitted else described

    def table(self, table: Table, rows: Sequence[Row]) -> dict[str, Json]:
        """The columns of a table with these rows."""
        all_rows = list(rows)
        columns = [self._column(column, [row[at] for row in all_rows]) for at, column in enumerate(table.columns)]
        return {"title": self.text(table.title), "noun": table.noun, "rows": len(all_rows), "columns": columns}

    def _column(self, column: Column, cells: list[Cell]) -> Json:
        form = _form(cells)
        values: list[Json]
        if form == TEXT:
            values = [self._index(cell) for cell in cells]
        elif form == TEXTS:
            values = [[self._index(each) for each in cell] if isinstance(cell, tuple) else None for cell in cells]
        else:
            values = [self._value(cell) for cell in cells]
        described: dict[str, Json] = {"name": column.name, "title": column.title, "unit": column.unit, "form": form}
        if column.group:
            described["group"] = column.group
        if column.total is not None:
            described["total"] = True
        return {**described, "cells": values}

    def _value(self, cell: Cell) -> Json:
        if cell is None or isinstance(cell, int):
            return cell
        return "?" if cell is UNKNOWN else self.clean(json_value(cell))

    def _index(self, text: Cell) -> int | None:
        if not isinstance(text, str):
            return None
        at = self.places.get(text)
        if at is None:
            at = self.places[text] = self.strings.setdefault(self.text(text), len(self.strings))
        return at

    def clean(self, value: Json) -> Json:
        """A JSON value with its texts as they are on the page, keys included."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.clean(each) for each in value]
            case dict():
                return {self.text(key): self.clean(each) for key, each in value.items()}
            case _:
                return value


def _largest_rows(table: Table, most: int) -> tuple[Sequence[Row], dict[str, Json]]:
    """The rows of at most `most` buffers of each memory, by bytes times steps; the number and bytes of the others.

    >>> columns = tuple(Column(name, name) for name in ("space", "start", "end", "bytes"))
    >>> _largest_rows(Table("buffers", columns, (("HBM", 0, 9, 4), ("HBM", 0, 0, 8), ("VMEM", 1, 1, 2))), 1)
    ([('HBM', 0, 9, 4), ('VMEM', 1, 1, 2)], {'HBM': {'rows': 1, 'bytes': 8}})
    """
    space, start, end, size = (table.column_index(name) for name in ("space", "start", "end", "bytes"))
    rows, places = list(table.rows), dict[str, list[int]]()
    for at, row in enumerate(rows):
        places.setdefault(str(row[space]), []).append(at)
    omitted: dict[str, Json] = {}
    left_out = set[int]()
    for name, among in places.items():
        if len(among) > most:
            areas = {
                at: _number(rows[at][size]) * (_number(rows[at][end]) - _number(rows[at][start]) + 1) for at in among
            }
            least = sorted(among, key=lambda at: (-areas[at], at))[most:]
            left_out.update(least)
            omitted[name] = {"rows": len(least), "bytes": sum(_number(rows[at][size]) for at in least)}
    return [row for at, row in enumerate(rows) if at not in left_out], omitted


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


def _form(cells: list[Cell]) -> str:
    if any(isinstance(cell, str) for cell in cells) and all(isinstance(cell, str | None) for cell in cells):
        return TEXT
    if any(cells) and all(isinstance(cell, tuple) and all(isinstance(each, str) for each in cell) for cell in cells):
        return TEXTS
    return PLAIN


# --- the page ---
# The head, the data, and one script that draws the rest.


WHOLE_WIDTH: Final = 250  # characters: no column of the table of modules is left out
STYLES = {"report": ("base", "tables", "spans", "report"), "graph": ("base", "graph")}


def interactive_page(report: Report, kind: Literal["report", "graph"], title: str, details: str) -> Iterator[str]:
    """The page, in parts; `kind` names its script in `js/` and selects its style sheets in `css/`.

    >>> "<h1>jit_f</h1>" in "".join(interactive_page(Report("graph", ""), "graph", "jit_f", "2 instructions"))
    True
    """
    pieces = _pieces_of(report, kind, title, details)
    yield from _head(f"{title} · hlo {kind}", kind, page_css() if events_of(report) else "")
    yield pieces.body
    yield f'<script type="text/plain" id="data">{pieces.data}</script>\n'
    yield f"<script>{script(kind)}</script></body></html>\n"


def _head(title: str, kind: Literal["report", "graph"], css: str = "") -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy(script(kind))}"/>\n'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1"/>\n'
    yield '<meta name="referrer" content="no-referrer"/>\n'
    yield f"<title>{safe(title)}</title>\n"
    yield f"<style>\n{page_variables()}{style_sheets(*STYLES[kind])}{css}</style></head><body>\n"


def _pieces_of(
    report: Report, kind: Literal["report", "graph"], title: str, details: str, more: str = ""
) -> PagePieces:
    """What of a page is its own: the head, the sections that need no script, `more` below them, and the data."""
    data, shorten = _encoded_page(report)
    overview = next((part for part in report.parts if isinstance(part, Overview)), None)
    head = f'<header id="head"><h1>{safe(title)}</h1><p class="details">{safe(details)}</p>\n'
    head += f"{_verdict_list(overview)}</header>\n{_navigation(overview.sections)}\n" if overview else "</header>\n"
    actions = [_without_directories(each, shorten) for each in overview.actions] if overview else []
    events = events_of(report)
    contents = {"first": _action_list(actions), "timeline": "" if events is None else _picture_of(events)}
    sections = [
        _section_skeleton(section, contents.get(section.key, "")) + "\n"
        for section in (overview.sections if overview else ())
    ]
    main = f'<main id="main">{_script_notice(kind)}\n{"".join(sections)}{more}</main>\n'
    return PagePieces(title, f"{head}{main}{''.join(ending(_with_texts(report, shorten)))}", data)


def memory_timeline_of(report: Report) -> Timeline | None:
    """The buffers of memories over time in a report for people, if it has them one by one."""
    found = (part for part in report.seen_parts if isinstance(part, Timeline) and part.name == "buffers")
    return next((part for part in found if any(track.bands for track in part.tracks)), None)


def memory_page(report: Report, timeline: Timeline, style: Style) -> Iterator[str]:
    """The page of a report with the buffers of memories over time: their picture is that of `hlo report`.

    What else the report has is below it, complete without a script.
    """
    subject = subject_of(report)
    spaces = [part for part in report.parts if isinstance(part, Table) and part.name == "spaces"]
    answer = report.answer if report.answer.endswith(".") else f"{report.answer}."
    sections = (Section("memory", "Memory", answer, (timeline.name,)),)
    drawn: tuple[Part, ...] = (Overview("overview", subject.title, subject.details, (), sections), timeline, *spaces)
    others = replace(report, parts=tuple(part for part in report.parts if part not in drawn), notes=())
    lines = "".join(f"{line}\n" for line in body_lines(others, style, "part"))
    pieces = _pieces_of(
        replace(report, parts=drawn), "report", subject.title, subject.details, f'<div class="hlo">\n{lines}</div>\n'
    )
    yield from _head(f"{subject.title} · {subject.details}", "report", f"{page_css()}{report_css(others, 'part')}")
    yield pieces.body
    yield f'<script type="text/plain" id="data">{pieces.data}</script>\n'
    yield f"<script>{script('report')}</script></body></html>\n"


def events_of(report: Report) -> Table | None:
    """The measured events of a report, which are drawn over time."""
    found = (part for part in report.parts if isinstance(part, Table) and part.name == "timeline")
    return next((table for table in found if span_column(table) is not None), None)


def _picture_of(events: Table) -> str:
    """The lanes of measured events, in a wide and a narrow form; a script zooms it."""
    return f'<div class="hlo"><figure>{"".join(figure_of_spans(events, Style(top=0)))}</figure></div>\n'


# --- several pages in one file ---
# A file for the mail: the page of the main module, those of others behind their names, and a table of all modules.


@dataclass(frozen=True, slots=True)
class PagePieces:
    """What is a page's own: its title, its HTML, and its data as `_encoded_page` writes them."""

    title: str
    body: str
    data: str


def report_pieces(report: Report) -> PagePieces:
    """The pieces of the page of a report with an overview."""
    overview = next(part for part in report.parts if isinstance(part, Overview))
    return _pieces_of(report, "report", overview.title, overview.details)


def pages_in_one(pages: Sequence[PagePieces], names: Sequence[str], index: Report, remark: str) -> Iterator[str]:
    """One file with several pages, of which the first is shown; links with the names of the others switch to them.

    `index` has a table of all modules, whose links are `#first?module=N`; `remark` says what is left out. Without a
    script, the first page and the table can be read.
    """
    table = index.main_table
    key = "modules"
    yield from _head(f"{pages[0].title} · hlo report", "report", f"{page_css()}{part_css(table, key)}")
    links = "".join(
        f'<a href="#first?module={at}"{" aria-current=true" if not at else ""}>{safe(name)}</a>'
        for at, name in enumerate(names)
    )
    yield f'<div id="modules" role="navigation" aria-label="Modules"><div class="links">{links}</div>\n'
    yield f'<a class="quiet" href="#all-modules">{safe(remark or "all modules")}</a></div>\n'
    yield f'<div id="page">\n{pages[0].body}</div>\n'
    yield '<section id="all-modules" aria-labelledby="all-modules-title"><div class="hlo">\n'
    yield f'<h2 id="all-modules-title">All modules</h2>\n<p class="quiet">{safe(index.answer)}.</p>\n'
    for line in part_lines(table, Style(width=WHOLE_WIDTH, top=0), key):
        yield line + "\n"
    yield "</div></section>\n"
    for at, each in enumerate(pages[1:], start=1):
        yield f'<template id="page-{at}">\n{each.body}</template>\n'
        yield f'<script type="text/plain" id="data-{at}">{each.data}</script>\n'
    yield f'<script type="text/plain" id="data">{pages[0].data}</script>\n'
    yield f"<script>{script('report')}</script></body></html>\n"


def _without_directories(action: Action, shorten: Callable[[str], str]) -> Action:
    """An action whose texts name no directories."""
    return replace(action, message=shorten(action.message), fix=shorten(action.fix), source=shorten(action.source))


def _with_texts(report: Report, shorten: Callable[[str], str]) -> Report:
    """A report whose notes and commands name no directories."""
    notes = tuple(replace(note, message=shorten(note.message)) for note in report.notes)
    return replace(report, notes=notes, next=tuple(map(shorten, report.next)))
