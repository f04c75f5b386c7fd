"""How does each kind of part of a report look in HTML: tables, trees, diffs, figures of tiles, and the others?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final
from urllib.parse import quote

from hlo_cli.render.draw.cells import Entry, Writing, entries_of, in_words, writing_of
from hlo_cli.render.draw.charts import stretch_of
from hlo_cli.render.draw.diffs import ROLES, footer_of_diff
from hlo_cli.render.draw.prose import BETWEEN
from hlo_cli.render.draw.table import ending_of, sums_of
from hlo_cli.render.style import Style
from hlo_cli.render.web.charts import figure_of_spans, figure_of_timeline, span_column
from hlo_cli.render.web.colors import BANDS
from hlo_cli.render.web.markup import safe, short, spans
from hlo_cli.render.width import cell_width, shorten_text
from hlo_cli.report.diff import Diff, DiffLine, Piece
from hlo_cli.report.figure import Anatomy, Figure, Segment, letter
from hlo_cli.report.findings import Findings
from hlo_cli.report.numbers import format_count, format_shown
from hlo_cli.report.report import Part
from hlo_cli.report.table import CODE_UNITS, Cell, Column, Fact, Facts, Table, Tree, number_of, walk
from hlo_cli.report.text import Line, Passage, Role, Text, line_of, plain_text
from hlo_cli.report.timeline import Timeline

# --- tables and trees ---
# All rows, one unit per column, sorted by a click on a header.


MAX_ROWS: Final = 10_000  # a page of more rows is slow to open and to sort; csv and json have all
LONG_TABLE: Final = 40  # rows beyond which a table scrolls in its own box
LOW_RANK: Final = 4  # columns up to this rank leave small screens
MIN_BARS: Final = 3  # two numbers are compared without bars
FALLING_SHARE: Final = 0.9  # sorted by another column that is nearly the same, the bars still fall
WRAPPED_SHAPE: Final = 28  # length from which a shape or an op_name may be broken into lines
WRAPPED_TEXT: Final = 48  # length from which any text may be
FOLDED_TEXT: Final = 90  # length from which only the first lines are shown


def _table_lines(table: Table, style: Style, key: str, most: int = MAX_ROWS) -> Iterator[str]:
    """The table in a box in which it scrolls, one line for each row; its sums are in the footer, which is not sorted.

    `key` is the class of the table, which `_column_css` refers to; `most` is the number of rows shown by default.

    >>> columns = (Column("bytes", "size", "bytes", total="sum"), Column("value", "value", "name"))
    >>> lines = _table_lines(Table("sizes", columns, ((64, "a"), (32, "<b>"))), Style(), "t0")
    >>> for line in lines: print(line.replace(' scope="col"', ""))
    <div class="box" tabindex="0" role="region" aria-label="sizes"><table class="sort t0 named" data-name="0">
    <thead><tr><th data-c="value">value</th><th data-c="bytes" data-u="bytes">size <i>B</i></th></tr></thead>
    <tbody>
    <tr><td>a</td><td data-n="64">64</td></tr>
    <tr><td>&lt;b&gt;</td><td data-n="32">32</td></tr>
    </tbody><tfoot>
    <tr><td>total</td><td>96</td></tr>
    </tfoot></table></div>
    """
    shown = style.rows_shown(most, len(table.rows), main=table.main)
    rows = table.rows[:shown]
    visible = _in_order(table)
    sums = sums_of(table, shown)
    label = table.label_index(visible)
    page = _page_column(table)
    measured = _bar_column(table)
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
        lane = _measured(lane, cells) if at == measured else lane
        lane = _linked(lane, [row[page] for row in rows]) if page is not None and at == label else lane
        lanes.append(_summed(lane, cells) if sums and column.total == "sum" else lane)
    looks = "" if table.columns[visible[0]].is_numeric else " named"
    yield f'{_box(table.title or table.name, shown)}<table class="sort {key}{looks}"{_names(table, visible)}>'
    yield f"<thead><tr>{''.join(titles)}</tr></thead>"
    yield "<tbody>"
    for at in range(shown):
        yield _table_row([lane[at] for lane in lanes], "strong" if at in table.marked else "")
    yield "</tbody><tfoot>" if sums else "</tbody>"
    for at, (_, _, role) in enumerate(sums, start=shown):
        yield _table_row([lane[at] for lane in lanes], "" if role == "plain" else role)
    yield "</tfoot></table></div>" if sums else "</table></div>"
    footer = format_shown(shown, len(table.rows), table.noun) if shown < len(table.rows) else ""
    for words in (footer, table.footnote):
        yield from [f'<p class="quiet">{safe(words)}</p>'] if words else []


def _tree_lines(tree: Tree, style: Style, key: str) -> Iterator[str]:
    """The rows of a tree, indented by depth.

    >>> from hlo_cli.report.table import Branch
    >>> tree = Tree("calls", (Column("name", "computation", "name"),), (Branch(("main",), (Branch(("body",)),)),))
    >>> list(_tree_lines(tree, Style(), "t0"))[4]
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
        yield _table_row(row, "")
    yield "</tbody></table></div>"


def _column_css(table: Table | Tree, key: str) -> str:
    """The style of the cells of each column, shared by all rows; the least important ones leave a small screen.

    >>> columns = (Column("bytes", "", "bytes"), Column("value", "value", "name"), Column("form", "form", rank=2))
    >>> for rule in _column_css(Table("sizes", columns, ()), "t0").replace("}", "}\\n").splitlines(): print(rule)
    .hlo .t0 td:nth-child(1){font-family:var(--code)}
    .hlo .t0 tbody td:nth-child(1){color:var(--name)}
    .hlo .t0 tr>:nth-child(2){text-align:right}
    @media print,(max-width:640px){.hlo .t0 tr>:nth-child(3){display:none}
    }
    """
    columns = [table.columns[at] for at in _in_order(table)] if isinstance(table, Table) else table.columns
    rules = []
    small = []
    kept = _kept(table)
    for at, column in enumerate(columns, start=1):
        looks, name = [], ""
        if column.is_right_aligned:
            rules.append(f".hlo .{key} tr>:nth-child({at}){{text-align:right}}")
        if column.unit in CODE_UNITS:
            looks.append("font-family:var(--code)")
        if column.unit == "name":
            name = f".hlo .{key} tbody td:nth-child({at}){{color:var(--name)}}"  # not the word `total` below
        if column.unit == "span":
            looks.append("width:24em;min-width:12em")
        if column.name not in kept and (column.rank <= LOW_RANK or column.from_width):
            small.append(f".hlo .{key} tr>:nth-child({at})")
        rules += [f".hlo .{key} td:nth-child({at}){{{';'.join(looks)}}}"] if looks else []
        rules += [name] if name else []
    return "".join(rules) + (f"@media print,(max-width:640px){{{','.join(small)}{{display:none}}}}" if small else "")


def _bar_column(table: Table) -> int | None:
    """The index of the column whose numbers have bars: the first of bytes or seconds by which the rows fall, if any.

    >>> columns = (Column("value", "", "name"), Column("bytes", "", "bytes"))
    >>> _bar_column(Table("sizes", columns, (("a", 3), ("b", 1), ("c", 1))))
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
    is_level = len(set(values)) == 1  # bars of one length say nothing
    return (
        not is_level
        and len(values) > 1
        and values[0] == max(values)
        and values[1] > 0
        and falling >= FALLING_SHARE * (len(values) - 1)
    )


def _in_order(table: Table) -> list[int]:
    """The indices of the visible columns; a column of names or shapes comes first, where it stays in sight.

    A column of other text before the numbers stays first. Columns without any cell leave, unless they are selected.
    """
    shown = table.visible(person=True)
    visible = [at for at in shown if table.columns[at].unit != "page"] or list(shown)
    if table.rows and not table.selected:
        visible = [at for at in visible if any(row[at] is not None for row in table.rows)] or visible
    units = [table.columns[at].unit for at in visible]
    first = next((n for n, unit in enumerate(units) if unit in ("name", "shape")), 0)
    if table.selected or not first or not table.columns[visible[0]].is_numeric:
        return visible
    return [visible[first], *visible[:first], *visible[first + 1 :]]


def _kept(table: Table | Tree) -> tuple[str, ...]:
    """The names of the columns that stay on small screens, whatever their rank."""
    if isinstance(table, Tree):
        return (table.columns[0].name,)
    kept = [table.label_index(table.visible(person=True)), _bar_column(table)]
    return (table.sorted_by, *(table.columns[at].name for at in kept if at is not None))


def _box(title: Text, rows: int) -> str:
    looks = "box long" if rows > LONG_TABLE else "box"
    return f'<div class="{looks}" tabindex="0" role="region" aria-label="{safe(plain_text(line_of(title)))}">'


def _names(table: Table, visible: Sequence[int]) -> str:
    """The attribute with the position of the column with names, which links rows to a chart."""
    return next((f' data-name="{n}"' for n, at in enumerate(visible) if table.columns[at].unit == "name"), "")


def _title(column: Column, writing: Writing) -> str:
    words = " ".join(safe(part) for part in (column.group, column.title) if part)
    unit = f"<i>{safe(writing.unit)}</i>" if writing.unit else ""
    kind = f' data-u="{column.unit}"' if column.total == "sum" else ""
    return f'<th scope="col" data-c="{safe(column.name)}"{kind}>{" ".join(part for part in (words, unit) if part)}</th>'


def _table_row(cells: Sequence[str], role: str) -> str:
    row = "".join(f"{cell}</td>" for cell in cells)
    return f'<tr class="{role}">{row}</tr>' if role else f"<tr>{row}</tr>"


def _lane(column: Column, cells: Sequence[Cell], entries: Sequence[Entry]) -> list[str]:
    """The entries of a column as cells without their end tags; a span also has a bar."""
    texts = [_content(column, entry) for entry in entries]
    if column.unit == "span" and column.steps:
        texts[: len(cells)] = [_bar(cell, text, column.steps) for cell, text in zip(cells, texts, strict=False)]
        return [f"<td>{text}" for text in texts]
    wrapped = WRAPPED_SHAPE if column.unit in ("shape", "op_name") else WRAPPED_TEXT
    return [
        f"<td>{text}" if len(entry.text) <= wrapped else f'<td class="wrap">{text}'
        if len(entry.text) <= FOLDED_TEXT else f'<td class="wrap"><details><summary>{text}</summary></details>'
        for entry, text in zip(entries, texts, strict=True)
    ]  # fmt: skip


def _measured(lane: Sequence[str], cells: Sequence[Cell]) -> list[str]:
    """The cells of a column of numbers, with bars as long as their shares of the largest."""
    values = [number_of(cell) or 0 for cell in cells]
    largest = max(values, default=0)
    bars = [f'<td class="bar" style="--b:{_share(value, largest)}"' for value in values]
    bars += ['<td class="bar"'] * (len(lane) - len(bars))
    return [bar + cell.removeprefix("<td") for bar, cell in zip(bars, lane, strict=True)]


def _page_column(table: Table) -> int | None:
    """The index of the column with the pages of rows, which become links on their names."""
    return next((at for at in table.visible(person=True) if table.columns[at].unit == "page"), None)


def _linked(lane: Sequence[str], pages: Sequence[Cell]) -> list[str]:
    """The cells of names as links to the pages of their rows: files next to this one, or places in it."""
    linked = []
    for cell, page in zip(lane, pages, strict=False):
        opening, _, content = cell.partition(">")
        if isinstance(page, str):
            address = page if page.startswith("#") else f"./{quote(page)}"
            linked.append(f'{opening}><a href="{safe(address)}">{content}</a>')
        else:
            linked.append(cell)
    return [*linked, *lane[len(pages) :]]


def _summed(lane: Sequence[str], cells: Sequence[Cell]) -> list[str]:
    """The cells of a column with their numbers, of which a search adds up those that are left."""
    numbers = [number_of(cell) for cell in cells]
    named = ["" if number is None else f' data-n="{number!r}"' for number in numbers]
    texts = [f"<td{number}{cell.removeprefix('<td')}" for number, cell in zip(named, lane, strict=False)]
    return [*texts, *lane[len(cells) :]]


def _share(value: float, largest: float) -> str:
    return f"{max(value / largest, 0):.3f}".rstrip("0").rstrip(".") if largest > 0 else "0"


def _content(column: Column, entry: Entry) -> str:
    text = safe(entry.text)
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


# --- diffs ---
# Line numbers of both sides, a sign, and the removed and added text of a changed line.


MAX_LINES: Final = 10_000  # a page of more lines is slow to open and to search; md has all
ROW_CLASSES: Final = {"+": ' class="added"', "-": ' class="removed"', "~": ' class="changed"'}


def _diff_lines(diff: Diff, style: Style, most: int = MAX_LINES) -> Iterator[str]:
    """The diff, one row for each line; moved lines are shown at their new position.

    >>> from hlo_cli.report.diff import Hunk
    >>> changed = DiffLine("~", "a = f32[8]", "a = f32[<9]", 3, 4)
    >>> for line in _diff_lines(Diff("text", (Hunk((changed,), "main", 1),)), Style()): print(line)
    <div class="box" tabindex="0" role="region" aria-label="changed lines"><table class="diff">
    <tr><th colspan="4">main</th></tr>
    <tr class="quiet"><td colspan="3"></td><td>… 1 line</td></tr>
    <tr class="changed"><td>3</td><td>4</td><td class="waste">~</td><td>a = f32[<del>8</del><ins>&lt;9</ins>]</td></tr>
    </table></div>
    <p class="quiet">~ 1 changed</p>
    """
    shown = diff.seen.first(style.rows_shown(most, diff.changes))
    yield '<div class="box" tabindex="0" role="region" aria-label="changed lines"><table class="diff">'
    heading = ""
    for hunk in shown.hunks:
        if hunk.heading != heading:
            heading = hunk.heading
            yield f'<tr><th colspan="4">{safe(heading)}</th></tr>'
        yield from _left_out(hunk.folded)
        yield from map(_diff_row, hunk.lines)
    yield from _left_out(shown.folded)
    yield "</table></div>"
    yield f'<p class="quiet">{safe(BETWEEN.join(footer_of_diff(diff, replace(style, top=shown.changes))))}</p>'


def _left_out(count: int) -> Iterator[str]:
    if count:
        yield f'<tr class="quiet"><td colspan="3"></td><td>… {format_count(count, "lines")}</td></tr>'


def _diff_row(line: DiffLine) -> str:
    text = "".join(map(_piece, line.pieces))
    if line.sign in "+-":
        tag = "ins" if line.sign == "+" else "del"
        text = f"<{tag}>{text}</{tag}>"
    role = f' class="{ROLES[line.sign]}"' if line.sign != " " else ""
    look = ' class="quiet"' if line.sign == " " else ""
    kind = ROW_CLASSES.get(line.sign, "")
    numbers = f"<td>{line.old_line or ''}</td><td>{line.new_line or ''}</td>"
    return f"<tr{kind}>{numbers}<td{role}>{line.sign.strip()}</td><td{look}>{text}</td></tr>"


def _piece(piece: Piece) -> str:
    if not piece.is_changed:
        return safe(piece.new)
    went = f"<del>{safe(piece.old)}</del>" if piece.old else ""
    return went + (f"<ins>{safe(piece.new)}</ins>" if piece.new else "")


# --- figures of tiles ---
# The cells of a drawing in boxes become colored squares between crisp lines.


CHARACTER_WIDTH: Final = 8.4  # px: a character of monospaced type of 14 px
LINE_HEIGHT: Final = 24  # px: cells of a figure are about as high as three characters are wide
MAX_CENTERED: Final = 24  # characters: a word or a number in a cell; a sentence begins at its left edge
MAX_LENGTH: Final = 400  # characters of a sentence beside a figure; the picture does not grow with it
NAMED_RULE_HEIGHT: Final = (
    16  # px: the upper line of a box with the name of a dimension in it, lower than a row of text
)
RULE_HEIGHT: Final = 8  # the height of a line without text
# for each glyph, whether its line goes left, right, up, and down
_SIDES: Final = {
    "─": "lr", "│": "ud", "┊": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu",
    "├": "rud", "┤": "lud", "┬": "lrd", "┴": "lru", "┼": "lrud",
}  # fmt: skip
_FILLED: Final[frozenset[Role]] = frozenset(("even", "odd", "waste", "strong"))


def is_grid(lines: Sequence[Line]) -> bool:
    """Whether a drawing has boxes.

    >>> from hlo_cli.report.text import Run
    >>> is_grid([(Run("┌──┐"),)]), is_grid([(Run("a + b"),)])
    (True, False)
    """
    return any("┌" in run.text for line in lines for run in line)


def grid_elements(lines: Sequence[Line], left: float, top: float) -> tuple[list[str], float, float]:
    """The elements of a drawing in boxes from `left` and `top` on, its right edge, and its lower edge.

    >>> from hlo_cli.report.text import Run
    >>> lines = [(Run("┌───┐"),), (Run("│ "), Run("7", "even"), Run(" │")), (Run("└───┘"),)]
    >>> elements, right, bottom = grid_elements(lines, 0, 0)
    >>> elements[0], right, bottom
    ('<rect class="even-cell" x="4.2" y="8" width="33.6" height="24"/>', 42.0, 40)
    """
    fills: list[str] = []
    texts: list[str] = []
    strokes: list[str] = []
    y, widest = top, 0
    for line in lines:
        text = plain_text(line)
        widest = max(widest, cell_width(text))
        high = _height(text)
        strokes += _strokes(text, left, y, high)
        fills += _fills(line, text, left, y, high)
        at = 0
        for run in line:
            if run.role != "plain":
                texts.append(_text(run.text, run.role, left + at * CHARACTER_WIDTH, y + high / 2 + 4))
            else:
                texts += _words(run.text, left + at * CHARACTER_WIDTH, y + high / 2 + 4)
            at += cell_width(run.text)
        y += high
    path = [f'<path class="line" d="{"".join(strokes)}"/>'] if strokes else []
    return [*fills, *path, *texts], left + widest * CHARACTER_WIDTH, y


def _fills(line: Line, text: str, left: float, y: float, high: float) -> Iterator[str]:
    """The colored squares of a row: each up to the line next to it, or to the middle between it and its neighbor."""
    ends = list(accumulate((cell_width(run.text) for run in line), initial=0))
    cells = [
        (start, end, run.role) for (start, end), run in zip(pairwise(ends), line, strict=True) if run.role in _FILLED
    ]
    for at, (start, end, role) in enumerate(cells):
        before = text[cells[at - 1][1] if at else 0 : start]
        after = text[end : cells[at + 1][0] if at + 1 < len(cells) else len(text)]
        begin, stop = start - _gap(before[::-1]), end + _gap(after)
        size = f'width="{short((stop - begin) * CHARACTER_WIDTH)}" height="{short(high)}"'
        yield f'<rect class="{role}-cell" x="{short(left + begin * CHARACTER_WIDTH)}" y="{short(y)}" {size}/>'


def _gap(text: str) -> float:
    """How far a cell extends into the text up to its neighbor: to the middle of the next line, or half of the way.

    >>> _gap("  │ "), _gap(" ")
    (2.5, 0.5)
    """
    lines = [at for at, glyph in enumerate(text) if glyph in _SIDES]
    return lines[0] + 0.5 if lines else min(len(text) / 2, 1)


def _height(text: str) -> int:
    """The height of a line; the upper line of a box has the name of a dimension at most."""
    if "┌" in text and not _is_rule(text):
        return NAMED_RULE_HEIGHT
    return RULE_HEIGHT if _is_rule(text) else LINE_HEIGHT


def _is_rule(text: str) -> bool:
    return bool(text.strip()) and all(glyph in _SIDES or glyph == " " for glyph in text) and "─" in text


def _strokes(text: str, left: float, y: float, high: float) -> Iterator[str]:
    """The lines of the glyphs of a row; those to the right and left in one stroke."""
    start: float | None = None
    middle = y + high / 2
    for at, glyph in enumerate(f"{text} "):
        sides = _SIDES.get(glyph, "")
        x = left + at * CHARACTER_WIDTH
        if "u" in sides or "d" in sides:
            ends = y if "u" in sides else middle, y + high if "d" in sides else middle
            yield f"M{short(x + CHARACTER_WIDTH / 2)} {short(ends[0])}V{short(ends[1])}"
        if "l" in sides and start is None:
            start = x
        if "r" not in sides and start is not None:
            yield f"M{short(start)} {short(middle)}H{short(x + CHARACTER_WIDTH / 2 if 'l' in sides else x)}"
            start = None
        if "r" in sides and start is None:
            start = x + CHARACTER_WIDTH / 2


def _words(text: str, left: float, y: float) -> Iterator[str]:
    """The texts between the glyphs of boxes; a sentence stays together."""
    at = 0
    word, begin = "", 0
    for glyph in f"{text}  ":
        is_gap = glyph in _SIDES or (glyph == " " and (not word or word.endswith(" ")))
        if is_gap and word.strip():
            yield _text(word.rstrip(), "plain", left + begin * CHARACTER_WIDTH, y)
        if is_gap:
            word = ""
        else:
            begin = at if not word else begin
            word += glyph
        at += cell_width(glyph)


def _text(text: str, role: Role, x: float, y: float) -> str:
    """A text; a short one is centered in its cells, so that fonts of another width do no harm."""
    length = cell_width(text)
    looks = f"code {role}" if role != "plain" else "code"
    if length <= MAX_CENTERED:
        looks, x = f"{looks} middle", x + length * CHARACTER_WIDTH / 2
    return f'<text class="{looks}" x="{short(x)}" y="{short(y)}">{safe(shorten_text(text.strip(), MAX_LENGTH))}</text>'


# --- all kinds of parts ---
# One function for each kind.


FIGURE_ROOM: Final = 120  # characters of code type that fit a page


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
            yield from _table_lines(part, style, key, most)
        case Findings():
            yield from _findings_lines(part, style, key, most)
        case Tree():
            yield from _tree_lines(part, style, key)
        case Facts():
            yield '<table class="facts">'
            amounts = max((len(fact.amounts) for fact in part.facts), default=0)
            yield from (_fact(fact, amounts) for fact in part.facts)
            yield "</table>"
        case Anatomy():
            yield from _anatomy(part)
        case Figure():
            yield from _figure(part) if part.on_pages else ()
        case Passage():
            yield from (f"<p>{spans(line_of(each))}</p>" for each in part.paragraphs)
        case Diff():
            yield from _diff_lines(part, style, most)


_FOLDED: Final = "folded"
"""What follows the key of a table in the key of its folded part."""


def _findings_lines(part: Findings, style: Style, key: str, most: int) -> Iterator[str]:
    """The groups that the user's program can change, and folded below those that it cannot."""
    if part.own_groups or not part.folded_words:
        yield from _table_lines(part.groups_table(person=True, among=part.own_groups), style, key, most)
    if part.folded_words:
        yield f"<details><summary>{safe(part.folded_words)}</summary>"
        folded = part.groups_table(person=True, among=part.library_groups)
        yield from _table_lines(folded, style, f"{key}{_FOLDED}", most)
        yield "</details>"


def part_css(part: Part, key: str) -> str:
    """The style of the columns of a part."""
    match part:
        case Findings():
            table = part.groups_table(person=True)
            return part_css(table, key) + (part_css(table, f"{key}{_FOLDED}") if part.folded_words else "")
        case Table():
            return _column_css(part, key)
        case Tree():
            return _column_css(part, key)
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
