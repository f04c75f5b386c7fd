"""Tables and trees in HTML: all rows, one unit per column, sorted by a click on a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from urllib.parse import quote

from hlo_cli.render.draw.bars import stretch_of
from hlo_cli.render.draw.cells import Entry, Writing, entries_of, writing_of
from hlo_cli.render.draw.table import ending_of, sums_of
from hlo_cli.render.style import Style
from hlo_cli.render.web.colors import BANDS
from hlo_cli.render.web.markup import safe, short
from hlo_cli.report.cell import Cell, number_of
from hlo_cli.report.column import CODE_UNITS, Column
from hlo_cli.report.numbers import format_shown
from hlo_cli.report.table import Table
from hlo_cli.report.text import Text, line_of, plain_text
from hlo_cli.report.tree import Tree, walk

MAX_ROWS: Final = 10_000
LONG: Final = 40  # rows beyond which a table scrolls in its own box
LOW_RANK: Final = 4  # columns up to this rank leave small screens
MIN_BARS: Final = 3
MOSTLY: Final = 0.9
WRAPPED: Final = 28  # length from which a shape or an op_name may be broken into lines
LONG_TEXT: Final = 48  # length from which any text may be
FOLDED: Final = 90  # length from which only the first lines are shown


def table_lines(table: Table, style: Style, key: str, most: int = MAX_ROWS) -> Iterator[str]:
    """The table in a box in which it scrolls, one line for each row; its sums are in the footer, which is not sorted.

    `key` is the class of the table, which `column_css` refers to; `most` is the number of rows shown by default.

    >>> columns = (Column("bytes", "size", "bytes", total="sum"), Column("value", "value", "name"))
    >>> for line in table_lines(Table("sizes", columns, ((64, "a"), (32, "<b>"))), Style(), "t0"): print(line)
    <div class="box" tabindex="0" role="region" aria-label="sizes"><table class="sort t0 named" data-name="0">
    <thead><tr><th scope="col" data-c="value">value</th><th scope="col" data-c="bytes">size <i>B</i></th></tr></thead>
    <tbody>
    <tr><td>a</td><td>64</td></tr>
    <tr><td>&lt;b&gt;</td><td>32</td></tr>
    </tbody><tfoot>
    <tr><td>total</td><td>96</td></tr>
    </tfoot></table></div>
    """
    shown = style.rows_shown(most, len(table.rows), main=table.main)
    rows = table.rows[:shown]
    visible = _in_order(table)
    sums = sums_of(table, shown)
    label = table.label_index(visible)
    measured = bar_column(table)
    lanes = []
    titles = []
    for at in visible:
        column, cells = table.columns[at], [row[at] for row in rows]
        totals = [row[at] for _, row, _ in sums]
        alike = table.alike(at, (*rows, *(row for _, row, _ in sums)) if column.total else rows)
        writing = writing_of(column, cells, (*(totals if column.total else ()), *alike))
        endings = [
            ending_of(column, cell, words if at == label else "", writing, style)
            for cell, (words, _, _) in zip(totals, sums, strict=True)
        ]
        titles.append(_title(column, writing))
        lane = _lane(column, cells, [*entries_of(column, cells, writing, style), *endings])
        lanes.append(_measured(lane, cells) if at == measured else lane)
    looks = "" if table.columns[visible[0]].is_numeric else " named"
    yield f'{_box(table.title or table.name, shown)}<table class="sort {key}{looks}"{_names(table, visible)}>'
    yield f"<thead><tr>{''.join(titles)}</tr></thead>"
    yield "<tbody>"
    for at in range(shown):
        yield _row([lane[at] for lane in lanes], "strong" if at in table.marked else "")
    yield "</tbody><tfoot>" if sums else "</tbody>"
    for at, (_, _, role) in enumerate(sums, start=shown):
        yield _row([lane[at] for lane in lanes], "" if role == "plain" else role)
    yield "</tfoot></table></div>" if sums else "</table></div>"
    footer = format_shown(shown, len(table.rows), table.noun) if shown < len(table.rows) else ""
    for words in (footer, table.footnote):
        yield from [f'<p class="quiet">{safe(words)}</p>'] if words else []


def tree_lines(tree: Tree, style: Style, key: str) -> Iterator[str]:
    """The rows of a tree, indented by depth.

    >>> from hlo_cli.report.tree import Branch
    >>> tree = Tree("calls", (Column("name", "computation", "name"),), (Branch(("main",), (Branch(("body",)),)),))
    >>> list(tree_lines(tree, Style(), "t0"))[4]
    '<tr><td><span style="padding-left:2em">body</span></td></tr>'
    """
    found = list(walk(tree.roots))
    cells = [[branch.cells[at] for _, branch in found] for at in range(len(tree.columns))]
    writings = [writing_of(column, each) for column, each in zip(tree.columns, cells, strict=True)]
    lanes = [
        _lane(column, each, entries_of(column, each, writing, style))
        for column, each, writing in zip(tree.columns, cells, writings, strict=True)
    ]
    yield f'{_box(tree.title or tree.name, len(found))}<table class="{key}">'
    titles = "".join(_title(column, writing) for column, writing in zip(tree.columns, writings, strict=True))
    yield f"<thead><tr>{titles}</tr></thead>"
    yield "<tbody>"
    for at, (depth, branch) in enumerate(found):
        row = [
            lane[at] if cell is not None or lane is lanes[0] else "<td>"
            for lane, cell in zip(lanes, branch.cells, strict=True)
        ]
        if depth:
            opening, _, content = row[0].partition(">")
            row[0] = f'{opening}><span style="padding-left:{2 * depth}em">{content}</span>'
        yield _row(row, "")
    yield "</tbody></table></div>"


def column_css(table: Table | Tree, key: str) -> str:
    """The style of the cells of each column, shared by all rows; the least important ones leave a small screen.

    >>> columns = (Column("bytes", "", "bytes"), Column("value", "value", "name"), Column("form", "form", rank=2))
    >>> for rule in column_css(Table("sizes", columns, ()), "t0").replace("}", "}\\n").splitlines(): print(rule)
    .hlo .t0 td:nth-child(1){font-family:var(--code);color:var(--name)}
    .hlo .t0 tr>:nth-child(2){text-align:right}
    @media print,(max-width:640px){.hlo .t0 tr>:nth-child(3){display:none}
    }
    """
    columns = [table.columns[at] for at in _in_order(table)] if isinstance(table, Table) else table.columns
    rules = []
    small = []
    kept = _kept(table)
    for at, column in enumerate(columns, start=1):
        looks = []
        if column.is_right_aligned:
            rules.append(f".hlo .{key} tr>:nth-child({at}){{text-align:right}}")
        if column.unit in CODE_UNITS:
            looks.append("font-family:var(--code)")
        if column.unit == "name":
            looks.append("color:var(--name)")
        if column.unit == "span":
            looks.append("width:24em;min-width:12em")
        if column.name not in kept and (column.rank <= LOW_RANK or column.from_width):
            small.append(f".hlo .{key} tr>:nth-child({at})")
        rules += [f".hlo .{key} td:nth-child({at}){{{';'.join(looks)}}}"] if looks else []
    return "".join(rules) + (f"@media print,(max-width:640px){{{','.join(small)}{{display:none}}}}" if small else "")


def bar_column(table: Table) -> int | None:
    """The index of the column whose numbers have bars: the first of bytes or seconds by which the rows fall, if any.

    >>> bar_column(Table("sizes", (Column("value", "", "name"), Column("bytes", "", "bytes")), (("a", 1),) * 3))
    1
    """
    visible = table.visible(person=True)
    if len(table.rows) < MIN_BARS or any(table.columns[at].unit == "span" for at in visible):
        return None
    wanted = (at for at in visible if table.columns[at].unit in ("bytes", "seconds") and not table.columns[at].exact)
    return next((at for at in wanted if _falls([row[at] for row in table.rows[:MAX_ROWS]])), None)


def _falls(cells: Sequence[Cell]) -> bool:
    """Whether the first number is the largest, and most of the others are at most as large as the one before."""
    values = [number_of(cell) or 0 for cell in cells]
    falling = sum(before >= after for before, after in pairwise(values))
    return len(values) > 1 and values[0] == max(values) and values[1] > 0 and falling >= MOSTLY * (len(values) - 1)


def _in_order(table: Table) -> list[int]:
    """The indices of the visible columns; a column of names or shapes comes first, where it stays in sight.

    A column of other text before the numbers stays first.
    """
    visible = list(table.visible(person=True))
    units = [table.columns[at].unit for at in visible]
    first = next((n for n, unit in enumerate(units) if unit in ("name", "shape")), 0)
    if table.selected or not first or not table.columns[visible[0]].is_numeric:
        return visible
    return [visible[first], *visible[:first], *visible[first + 1 :]]


def _kept(table: Table | Tree) -> tuple[str, ...]:
    """The names of the columns that stay on small screens, whatever their rank."""
    if isinstance(table, Tree):
        return (table.columns[0].name,)
    kept = [table.label_index(table.visible(person=True)), bar_column(table)]
    return (table.sorted_by, *(table.columns[at].name for at in kept if at is not None))


def _box(title: Text, rows: int) -> str:
    looks = "box long" if rows > LONG else "box"
    return f'<div class="{looks}" tabindex="0" role="region" aria-label="{safe(plain_text(line_of(title)))}">'


def _names(table: Table, visible: Sequence[int]) -> str:
    """The attribute with the position of the column with names, which links rows to a chart."""
    return next((f' data-name="{n}"' for n, at in enumerate(visible) if table.columns[at].unit == "name"), "")


def _title(column: Column, writing: Writing) -> str:
    words = " ".join(safe(part) for part in (column.group, column.title) if part)
    unit = f"<i>{safe(writing.unit)}</i>" if writing.unit else ""
    return f'<th scope="col" data-c="{safe(column.name)}">{" ".join(part for part in (words, unit) if part)}</th>'


def _row(cells: Sequence[str], role: str) -> str:
    row = "".join(f"{cell}</td>" for cell in cells)
    return f'<tr class="{role}">{row}</tr>' if role else f"<tr>{row}</tr>"


def _lane(column: Column, cells: Sequence[Cell], entries: Sequence[Entry]) -> list[str]:
    """The entries of a column as cells without their end tags; a span also has a bar."""
    texts = [_content(column, entry) for entry in entries]
    if column.unit == "span" and column.steps:
        texts[: len(cells)] = [_bar(cell, text, column.steps) for cell, text in zip(cells, texts, strict=False)]
        return [f"<td>{text}" for text in texts]
    wrapped = WRAPPED if column.unit in ("shape", "op_name") else LONG_TEXT
    return [
        f"<td>{text}" if len(entry.text) <= wrapped else f'<td class="wrap">{text}'
        if len(entry.text) <= FOLDED else f'<td class="wrap"><details><summary>{text}</summary></details>'
        for entry, text in zip(entries, texts, strict=True)
    ]  # fmt: skip


def _measured(lane: Sequence[str], cells: Sequence[Cell]) -> list[str]:
    """The cells of a column of numbers, with bars as long as their shares of the largest."""
    values = [number_of(cell) or 0 for cell in cells]
    largest = max(values, default=0)
    bars = [f'<td class="bar" style="--b:{_share(value, largest)}"' for value in values]
    bars += ['<td class="bar"'] * (len(lane) - len(bars))
    return [bar + cell.removeprefix("<td") for bar, cell in zip(bars, lane, strict=True)]


def _share(value: float, largest: float) -> str:
    return f"{max(value / largest, 0):.3f}".rstrip("0").rstrip(".") if largest > 0 else "0"


def _content(column: Column, entry: Entry) -> str:
    text = safe(entry.text)
    if column.unit == "page" and entry.text not in ("-", "?"):
        return f'<a href="./{safe(quote(entry.text))}" aria-label="open {text}">open</a>'
    if column.unit == "source" and "/" in entry.text:
        directory, _, file = entry.text.rpartition("/")
        return f'<span class="dir">{safe(directory)}/</span>{safe(file)}'
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
