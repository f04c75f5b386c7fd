"""Parts of a report in HTML, one function for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.cells import in_words
from hlo_cli.render.style import Style
from hlo_cli.render.web.diff import diff_css, diff_lines
from hlo_cli.render.web.gantt import gantt, span_column
from hlo_cli.render.web.markup import safe, spans
from hlo_cli.render.web.picture import document
from hlo_cli.render.web.table import column_css, table_lines, tree_lines
from hlo_cli.render.web.timeline import drawing
from hlo_cli.report.anatomy import Anatomy, Segment, letter
from hlo_cli.report.column import Column
from hlo_cli.report.diff import Diff
from hlo_cli.report.facts import Fact, Facts
from hlo_cli.report.figure import Figure
from hlo_cli.report.findings import Findings
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage, line_of
from hlo_cli.report.timeline import Timeline
from hlo_cli.report.tree import Tree

FIGURE_ROOM: Final = 120


def part_lines(part: Part, style: Style, key: str) -> Iterator[str]:
    """The title of a part and the part; `key` is the unique id of its element.

    >>> list(part_lines(Passage("advice", ("a < b",), "To save"), Style(), "part1"))
    ['<h2>To save</h2>', '<p>a &lt; b</p>']
    """
    if not isinstance(part, Anatomy) and part.title:
        yield f"<h2>{spans(line_of(part.title))}</h2>"
    match part:
        case Table():
            if span_column(part) is not None:
                elements, height = gantt(part, style, 0)
                label = f"Steps of {format_count(len(part.rows), part.noun)}"
                yield f"<figure>{''.join(document(elements, height, label=label))}</figure>"
            yield from table_lines(part, style, key)
        case Findings():
            yield from table_lines(part.groups_table(person=True), style, key)
        case Tree():
            yield from tree_lines(part, style, key)
        case Facts():
            yield "<table>"
            most = max((len(fact.amounts) for fact in part.facts), default=0)
            yield from (_fact(fact, most) for fact in part.facts)
            yield "</table>"
        case Anatomy():
            yield from _anatomy(part)
        case Figure():
            yield f"<pre>{chr(10).join(map(spans, part.draw(FIGURE_ROOM)))}</pre>"
        case Passage():
            yield from (f"<p>{spans(line_of(each))}</p>" for each in part.paragraphs)
        case Diff():
            yield from diff_lines(part, style, key)
        case Timeline():
            elements, height = drawing(part, 0, key=f"{key}t", with_readout=True)
            label = f"Live bytes at every step: {', '.join(track.name for track in part.tracks)}"
            yield f"<figure>{''.join(document(elements, height, label=label))}</figure>"


def part_css(part: Part, key: str) -> str:
    """The style of the columns of a part."""
    match part:
        case Findings():
            return part_css(part.groups_table(person=True), key)
        case Table():
            return column_css([part.columns[at] for at in part.visible(person=True)], key)
        case Tree():
            return column_css(part.columns, key)
        case Diff():
            return diff_css(key)
        case _:
            return ""


def _fact(fact: Fact, most: int) -> str:
    amounts = "".join(
        f'<td class="number">{safe(in_words(Column(amount.name, "", amount.unit), amount.value))}</td>'
        for amount in fact.amounts
    )
    wide = f' colspan="{1 + most - len(fact.amounts)}"'
    return f"<tr><th>{safe(fact.label)}</th>{amounts}<td{wide}>{safe(fact.remark)}</td></tr>"


def _anatomy(anatomy: Anatomy) -> Iterator[str]:
    yield f'<p class="quoted">{"".join(map(_segment, anatomy.segments))}</p>'
    yield "<table>"
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
