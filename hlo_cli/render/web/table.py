"""Tables and trees in HTML: all rows, one unit per column, sorted by a click on a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from hlo_cli.render.draw.bars import stretch_of
from hlo_cli.render.draw.cells import Entry, Writing, entries_of, writing_of
from hlo_cli.render.draw.table import ending_of, sums_of
from hlo_cli.render.style import Style
from hlo_cli.render.web.colors import BANDS
from hlo_cli.render.web.markup import safe, short
from hlo_cli.report.cell import Cell
from hlo_cli.report.column import CODE_UNITS, Column
from hlo_cli.report.numbers import format_shown
from hlo_cli.report.table import Table
from hlo_cli.report.tree import Tree, walk

MAX_ROWS: Final = 10_000
LONG: Final = 40  # rows beyond which a table scrolls in its own box
WRAPPED: Final = frozenset(("shape", "op_name"))  # length from which text may be broken anywhere


def table_lines(table: Table, style: Style, key: str) -> Iterator[str]:
    """The table, one line for each row; its sums are in the footer, which is not sorted.

    >>> columns = (Column("bytes", "size", "bytes", total="sum"), Column("value", "value", "name"))
    >>> for line in table_lines(Table("sizes", columns, ((64, "a"), (32, "<b>"))), Style(), "t0"): print(line)
    <div><table id="t0" class="sort">
    <thead><tr><th>size <i>B</i></th><th>value</th></tr></thead><tbody>
    <tr><td>64</td><td>a</td></tr>
    <tr><td>32</td><td>&lt;b&gt;</td></tr>
    </tbody><tfoot>
    <tr><td>96</td><td>total</td></tr>
    </tfoot></table></div>
    """
    shown = style.rows_shown(MAX_ROWS, len(table.rows), main=table.main)
    rows = table.rows[:shown]
    visible = table.visible(person=True)
    sums = sums_of(table, shown)
    label = table.label_index(visible)
    lanes = []
    titles = []
    for at in visible:
        column, cells = table.columns[at], [row[at] for row in rows]
        totals = [row[at] for _, row, _ in sums]
        writing = writing_of(column, cells, (*(totals if column.total else ()), *table.alike(at, rows)))
        endings = [
            ending_of(column, cell, words if at == label else "", writing, style)
            for cell, (words, _, _) in zip(totals, sums, strict=True)
        ]
        titles.append(_title(column, writing))
        lanes.append(_lane(column, cells, [*entries_of(column, cells, writing, style), *endings]))
    scrolls = ' class="long"' if shown > LONG else ""
    yield f'<div{scrolls}><table id="{key}" class="sort">'
    yield f"<thead><tr>{''.join(titles)}</tr></thead><tbody>"
    for at in range(shown):
        yield _row([lane[at] for lane in lanes], "strong" if at in table.marked else "")
    yield "</tbody><tfoot>"
    for at, (_, _, role) in enumerate(sums, start=shown):
        yield _row([lane[at] for lane in lanes], "" if role == "plain" else role)
    yield "</tfoot></table></div>"
    footer = format_shown(shown, len(table.rows), table.noun) if shown < len(table.rows) else ""
    for words in (footer, table.footnote):
        yield from [f'<p class="quiet">{safe(words)}</p>'] if words else []


def tree_lines(tree: Tree, style: Style, key: str) -> Iterator[str]:
    """The rows of a tree, indented by depth.

    >>> from hlo_cli.report.tree import Branch
    >>> tree = Tree("calls", (Column("name", "computation", "name"),), (Branch(("main",), (Branch(("body",)),)),))
    >>> list(tree_lines(tree, Style(), "t0"))[3]
    '<tr><td style="padding-left:2em">body</td></tr>'
    """
    found = list(walk(tree.roots))
    cells = [[branch.cells[at] for _, branch in found] for at in range(len(tree.columns))]
    writings = [writing_of(column, each) for column, each in zip(tree.columns, cells, strict=True)]
    lanes = [
        _lane(column, each, entries_of(column, each, writing, style))
        for column, each, writing in zip(tree.columns, cells, writings, strict=True)
    ]
    yield f'<div><table id="{key}">'
    titles = "".join(_title(column, writing) for column, writing in zip(tree.columns, writings, strict=True))
    yield f"<thead><tr>{titles}</tr></thead><tbody>"
    for at, (depth, branch) in enumerate(found):
        row = [
            lane[at] if cell is not None or lane is lanes[0] else ""
            for lane, cell in zip(lanes, branch.cells, strict=True)
        ]
        indented = f'<tr><td style="padding-left:{2 * depth}em">' if depth else "<tr><td>"
        yield _row(row, "").replace("<tr><td>", indented, 1)
    yield "</tbody></table></div>"


def column_css(columns: Sequence[Column], key: str) -> str:
    """The style of the cells of each column, shared by all rows.

    >>> column_css((Column("bytes", "", "bytes"), Column("value", "value", "name")), "t0")
    '#t0 tr>:nth-child(1){text-align:right}#t0 td:nth-child(2){font-family:var(--code);color:var(--name)}'
    """
    rules = []
    for at, column in enumerate(columns, start=1):
        looks = []
        if column.is_right_aligned:
            rules.append(f"#{key} tr>:nth-child({at}){{text-align:right}}")
        if column.unit in CODE_UNITS:
            looks.append("font-family:var(--code)")
        if column.unit == "name":
            looks.append("color:var(--name)")
        if column.unit in WRAPPED:
            looks.append("overflow-wrap:anywhere;min-width:12em")
        if column.unit == "span":
            looks.append("width:24em")
        rules += [f"#{key} td:nth-child({at}){{{';'.join(looks)}}}"] if looks else []
    return "".join(rules)


def _title(column: Column, writing: Writing) -> str:
    words = " ".join(safe(part) for part in (column.group, column.title) if part)
    unit = f"<i>{safe(writing.unit)}</i>" if writing.unit else ""
    return f"<th>{' '.join(part for part in (words, unit) if part)}</th>"


def _row(cells: Sequence[str], role: str) -> str:
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{role}">{row}</tr>' if role else f"<tr>{row}</tr>"


def _lane(column: Column, cells: Sequence[Cell], entries: Sequence[Entry]) -> list[str]:
    """The entries of a column as content of its cells; a span also has a bar."""
    texts = [_content(column, entry) for entry in entries]
    if column.unit == "span" and column.steps:
        texts[: len(cells)] = [_bar(cell, text, column.steps) for cell, text in zip(cells, texts, strict=False)]
    return texts


def _content(column: Column, entry: Entry) -> str:
    text = safe(entry.text)
    if column.unit == "page" and entry.text not in ("-", "?"):
        return f'<a href="./{safe(quote(entry.text))}">{text}</a>'
    return text if entry.role == "plain" or column.unit == "name" else f'<span class="{entry.role}">{text}</span>'


def _bar(cell: Cell, text: str, steps: int) -> str:
    stretch = stretch_of(cell)
    if stretch is None:
        return text
    left, wide = 100 * stretch.start / steps, 100 * (stretch.end + 1 - stretch.start) / steps
    looks = "overlapped" if stretch.exposed_from > stretch.start else "exposed"
    flying = 100 * (stretch.exposed_from - stretch.start) / (stretch.end + 1 - stretch.start)
    mixed = f";background:linear-gradient(90deg,{BANDS[0]} {short(flying)}%,var(--waste) 0)" if 0 < flying < 100 else ""
    return f'<b class="{looks}" style="margin-left:{short(left)}%;width:{short(wide)}%{mixed}">{text}</b>'
