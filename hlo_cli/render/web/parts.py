"""Parts of a report in HTML, one function for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.cells import in_words
from hlo_cli.render.style import Style
from hlo_cli.render.web.cells import grid_elements, is_grid
from hlo_cli.render.web.diff import diff_lines
from hlo_cli.render.web.gantt import figure_of_spans, span_column
from hlo_cli.render.web.markup import safe, short, spans
from hlo_cli.render.web.table import MAX_ROWS, column_css, table_lines, tree_lines
from hlo_cli.render.web.timeline import figure_of_timeline
from hlo_cli.report.anatomy import Anatomy, Segment, letter
from hlo_cli.report.column import Column
from hlo_cli.report.diff import Diff
from hlo_cli.report.facts import Fact, Facts
from hlo_cli.report.figure import Figure
from hlo_cli.report.findings import Findings
from hlo_cli.report.report import Part
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage, line_of, plain_text
from hlo_cli.report.timeline import Timeline
from hlo_cli.report.tree import Tree

FIGURE_ROOM: Final = 120


def charts_of(part: Part, style: Style, key: str) -> Iterator[str]:
    """The chart of a part, which a page shows before all tables: a timeline, or the spans of a table."""
    if isinstance(part, Timeline):
        title = f"<h2>{spans(line_of(part.title))}</h2>" if part.title else ""
        yield f"{title}<figure>{''.join(figure_of_timeline(part, key))}</figure>"
    elif isinstance(part, Table) and span_column(part) is not None:
        yield f"<figure>{''.join(figure_of_spans(part, style))}</figure>"


def part_lines(part: Part, style: Style, key: str, most: int = MAX_ROWS) -> Iterator[str]:
    """The title of a part and the part, without its chart; `most` is the number of rows of a table shown by default.

    >>> list(part_lines(Passage("advice", ("a < b",), "To save"), Style(), "part1"))
    ['<h2>To save</h2>', '<p>a &lt; b</p>']
    """
    if not isinstance(part, Anatomy | Timeline) and part.title:
        yield f"<h2>{spans(line_of(part.title))}</h2>"
    match part:
        case Table():
            yield from table_lines(part, style, key, most)
        case Findings():
            yield from table_lines(part.groups_table(person=True), style, key, most)
        case Tree():
            yield from tree_lines(part, style, key)
        case Facts():
            yield '<table class="facts">'
            amounts = max((len(fact.amounts) for fact in part.facts), default=0)
            yield from (_fact(fact, amounts) for fact in part.facts)
            yield "</table>"
        case Anatomy():
            yield from _anatomy(part)
        case Figure():
            yield from _figure(part)
        case Passage():
            yield from (f"<p>{spans(line_of(each))}</p>" for each in part.paragraphs)
        case Diff():
            yield from diff_lines(part, style, most)


def part_css(part: Part, key: str) -> str:
    """The style of the columns of a part."""
    match part:
        case Findings():
            return part_css(part.groups_table(person=True), key)
        case Table():
            return column_css(part, key)
        case Tree():
            return column_css(part, key)
        case _:
            return ""


def _fact(fact: Fact, most: int) -> str:
    amounts = "".join(
        f'<td class="number">{safe(in_words(Column(amount.name, "", amount.unit), amount.value))}</td>'
        for amount in fact.amounts
    )
    wide = f' colspan="{1 + most - len(fact.amounts)}"'
    return f"<tr><th>{safe(fact.label)}</th>{amounts}<td{wide}>{safe(fact.remark)}</td></tr>"


def _figure(figure: Figure) -> Iterator[str]:
    """A drawing in boxes as a picture, any other as text."""
    drawn = figure.draw(FIGURE_ROOM)
    label = safe(plain_text(line_of(figure.title)) or figure.name)
    if not is_grid(drawn):
        yield f'<pre tabindex="0" role="region" aria-label="{label}">{chr(10).join(map(spans, drawn))}</pre>'
        return
    elements, right, bottom = grid_elements(drawn, 0, 2)
    size = f'viewBox="0 0 {short(right)} {short(bottom + 2)}" width="{short(right)}" height="{short(bottom + 2)}"'
    yield f'<div class="box" tabindex="0" role="region" aria-label="{label}">'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="hlo grid" {size}>{"".join(elements)}</svg></div>'


def _anatomy(anatomy: Anatomy) -> Iterator[str]:
    yield f'<p class="quoted">{"".join(map(_segment, anatomy.segments))}</p>'
    yield '<table class="anatomy">'
    for each in anatomy.explanations:
        role = _role(each.part)
        name = "" if each.part is None else letter(each.part)
        details = "".join(
            f'<td class="number">{safe(in_words(column, cell))}</td>'
            for column, cell in zip(anatomy.columns, each.details, strict=False)
        )
        yield (
            f'<tr><td class="{role}">{name}</td><th>{safe(each.label)}</th>'
            f'<td class="code {role}">{safe(each.value)}</td><td>{spans(line_of(each.meaning))}</td>{details}</tr>'
        )
    yield "</table>"


def _segment(segment: Segment) -> str:
    if segment.part is None:
        return safe(segment.text)
    return f'<ruby class="{_role(segment.part)}">{safe(segment.text)}<rt>{letter(segment.part)}</rt></ruby>'


def _role(part: int | None) -> str:
    if part is None:
        return "plain"
    return "odd" if part % 2 else "even"
