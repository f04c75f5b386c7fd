"""How does a table fit a screen: as many rows as wanted, sums of the others; and how do trees and facts?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.render.draw.cells import (
    Entry,
    Lane,
    Writing,
    apart,
    cell_text,
    entries_of,
    fit,
    header_lines,
    in_words,
    lane_of,
    row_line,
    writing_of,
)
from hlo_cli.render.draw.charts import span_lane
from hlo_cli.render.draw.prose import cut_line, fill, text_lines
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, pad, shorten_text
from hlo_cli.report.numbers import format_shown, singular
from hlo_cli.report.table import Amount, Branch, Cell, Column, Fact, Facts, Row, Table, Tree, walk
from hlo_cli.report.text import Line, Role, Run

# --- tables ---
# The requested number of rows, the sums of the others, and a remark on omitted rows.


TOTAL = "total"


def lines_of_table(table: Table, style: Style) -> Iterator[Line]:
    """The lines of a table: title, header, rows, the sums of omitted rows, and the total.

    >>> from hlo_cli.report.text import plain_text
    >>> columns = (Column("bytes", "size", "bytes", total="sum"), Column("value", "value", "name"))
    >>> table = Table("sizes", columns, ((64, "a"), (32, "b"), (16, "c")), noun="values")
    >>> for line in lines_of_table(table, Style(top=1)): print(plain_text(line))
    size
       B  value
    ────  ─────────────
      64  a
      48  2 more values
     112  total
    """
    if table.title:
        yield from text_lines(table.title, style)
    shown = shown_rows(table, style)
    rows = [table.rows[at] for at in shown]
    sums = sums_of(table, len(rows))
    visible = [at for at in table.visible(person=True) if style.room >= _from(table, at)]
    lanes = [_lane_of_table(table, at, rows, sums, visible, style) for at in visible]
    label = table.label_index(visible)
    fitted = fit(lanes, style.room, sorted_by=table.sorted_by, label="" if label is None else table.columns[label].name)
    fitted = [
        (_spans(table, lane, rows, width, style) if lane.column.unit == "span" else apart(lane, width, style), width)
        for lane, width in fitted
    ]
    yield from header_lines(fitted, style)
    for row, at in enumerate(shown):
        yield row_line(fitted, row, style, "strong" if at in table.marked else None)
    for at, (_, _, role) in enumerate(sums, start=len(rows)):
        yield row_line(fitted, at, style, role)


def shown_rows(table: Table, style: Style) -> Sequence[int]:
    """The indices of the rows that are shown: the first ones, without idle ones unless there is room for all.

    >>> steps = tuple((step,) for step in range(9))
    >>> table = Table("steps", (Column("step", "step", "step"),), steps, limit=3, idle=frozenset((0, 1, 5)))
    >>> shown_rows(table, Style()), shown_rows(table, Style(top=0))
    ([2, 3, 4], range(0, 9))
    """
    count = style.rows_shown(table.limit, len(table.rows), main=table.main)
    if count == len(table.rows) or not table.idle or table.has_totals:
        return range(count)
    return [at for at in range(len(table.rows)) if at not in table.idle][:count] or range(count)


def footer_of_table(table: Table, style: Style) -> tuple[str, ...]:
    """The footer of a table: the number of shown rows, the option to show all, and its footnote.

    If the user gave the number of rows, it is shown only if there is no row of sums.
    """
    shown = len(shown_rows(table, style))
    counting = shown < len(table.rows) and (style.top is None or not sums_of(table, shown))
    seen = format_shown(shown, len(table.rows), table.noun)
    return (*((seen,) if counting else ()), *((table.footnote,) if table.footnote else ()))


def column_header(column: Column, writing: Writing) -> tuple[str, ...]:
    """The lines above a column: its name, and its unit below or, if `inline`, after it.

    >>> column_header(Column("padded_bytes", "padded", "bytes"), Writing("KiB", str))
    ('padded', 'KiB')
    >>> column_header(Column("pad", "pad", "percent", inline=True), Writing("%", str))
    ('pad %',)
    """
    parts = tuple(part for part in (column.title, writing.unit) if part)
    return (" ".join(parts),) if column.inline else parts or ("",)


def sums_of(table: Table, shown: int) -> list[tuple[str, Row, Role]]:
    """The rows after the first `shown`: the sums of omitted rows and the total, with their labels.

    >>> columns = (Column("bytes", "", "bytes", total="sum"), Column("value", "value", "name"))
    >>> sums_of(Table("sizes", columns, ((64, "a"), (32, "b")), noun="values"), 1)
    [('1 more value', (32, None), 'quiet'), ('total', (96, None), 'plain')]
    """
    left = len(table.rows) - shown
    is_folded = table.folded and shown == table.limit and left > 0
    if not (table.has_totals or is_folded) or len(table.rows) < 2 or not shown:
        return []
    more = f"{left:,} more {singular(table.noun) if left == 1 else table.noun}"
    if is_folded:
        more = f"{left:,} {table.folded}"
    if not table.has_totals:
        return [(more, table.total_of(table.rows[shown:]), "quiet")]
    everything = table.total_row or table.total_of(table.rows)
    rest: list[tuple[str, Row, Role]] = [(more, table.total_of(table.rows[shown:]), "quiet")] if left else []
    return [*rest, (TOTAL, everything, "plain")]


def ending_of(column: Column, total: Cell, words: str, writing: Writing, style: Style) -> Entry:
    """The entry of a column in a row of sums: the label in the label column, empty if it has no sum.

    >>> column = Column("count", "n", "count", total="sum")
    >>> ending_of(column, 3412, "", writing_of(column, ()), Style()).text
    '3,412'
    """
    if words or (total is None and (column.total is None or column.unit == "span")):
        return Entry(style.show(words), fixed=True)
    return Entry(style.show(cell_text(total, writing)), fixed=True)


def _from(table: Table, at: int) -> int:
    column = table.columns[at]
    return 0 if table.selected or column.name == table.sorted_by else column.from_width


def _lane_of_table(
    table: Table, at: int, rows: Sequence[Row], sums: Sequence[tuple[str, Row, Role]], visible: list[int], style: Style
) -> Lane:
    column = table.columns[at]
    cells: list[Cell] = [row[at] for row in rows]
    totals: list[Cell] = [row[at] for _, row, _ in sums]
    alike = table.alike(at, (*rows, *(row for _, row, _ in sums)) if column.total else rows)
    writing = writing_of(column, cells, (*(totals if column.total else ()), *alike))
    is_labeled = at == table.label_index(visible)
    endings = (
        ending_of(column, cell, words if is_labeled else "", writing, style)
        for cell, (words, _, _) in zip(totals, sums, strict=True)
    )
    header = tuple(style.show(line) for line in column_header(column, writing))
    lane = lane_of(column, header, tuple(chain(entries_of(column, cells, writing, style), endings)))
    return lane._replace(natural=min(column.steps, style.room)) if column.unit == "span" else lane


def _spans(table: Table, lane: Lane, rows: Sequence[Row], width: int, style: Style) -> Lane:
    at = table.column_index(lane.column.name)
    return span_lane(lane, [row[at] for row in rows], width, style)


# --- trees ---
# The rows nearest to the roots, with lines that show the nesting.


MORE, LAST, DOWN, BLANK = "├─ ", "└─ ", "│  ", "   "
ASCII = {MORE: "|- ", LAST: "`- ", DOWN: "|  ", BLANK: BLANK}
DEEPEST, DEEPEST_CUT = 8, 6
"""The number of levels drawn before a row, and the number that is kept if the first ones are cut off."""


class Drawn(NamedTuple):
    """One line of a tree: its prefix, and its branch or the number of rows not shown there."""

    lead: str
    branch: Branch | None
    omitted: int = 0


def lines_of_tree(tree: Tree, style: Style) -> Iterator[Line]:
    """The lines of a tree: title, header, and rows.

    >>> from hlo_cli.report.table import Column
    >>> from hlo_cli.report.text import plain_text
    >>> root = Branch(("main",), (Branch(("while.10",), (Branch(("body",)),)), Branch(("while.11",)), Branch(("add",))))
    >>> for line in lines_of_tree(Tree("calls", (Column("name", "computation", "name"),), (root,)), Style(top=3)):
    ...     print(plain_text(line))
    computation
    ────────────
    main
    ├─ while.10
    │  └─ 1 more
    ├─ while.11
    └─ 1 more
    """
    if tree.title:
        yield from text_lines(tree.title, style)
    drawn = _drawn_rows(tree, style)
    seen = [at for at, column in enumerate(tree.columns) if column.person and style.room >= column.from_width]
    lanes = [_lane_of_tree(tree, at, drawn, style) for at in seen]
    fitted = fit(lanes, style.room, label=tree.columns[0].name)
    yield from header_lines(fitted, style)
    for row, each in enumerate(drawn):
        yield row_line(fitted, row, style, None if each.branch else "quiet")


def footer_of_tree(tree: Tree, style: Style) -> tuple[str, ...]:
    """The number of shown rows and the option to show all, if some are not shown."""
    size = sum(1 for _ in walk(tree.roots))
    shown = style.rows_shown(tree.limit, size)
    return (format_shown(shown, size, tree.noun),) if shown < size else ()


def _drawn_rows(tree: Tree, style: Style) -> list[Drawn]:
    """The shown rows, those nearest to the roots, and the numbers of other rows in their places."""
    size = sum(1 for _ in walk(tree.roots))
    roots = _nearest(tree.roots, style.rows_shown(tree.limit, size))
    rows: list[Drawn] = []
    waiting: list[tuple[_Node | int, str, str]] = [(root, "", "") for root in reversed(roots)]
    while waiting:
        node, lead, indent = waiting.pop()
        if isinstance(node, int):
            rows.append(Drawn(lead, None, node))
            continue
        rows.append(Drawn(lead, node.branch))
        below: list[_Node | int] = [*node.seen]
        omitted = sum(child.size for child in node.branch.children[len(node.seen) :])
        below += [omitted] if omitted else []
        for child in reversed(below):
            last = child is below[-1]
            waiting.append((child, indent + (LAST if last else MORE), indent + (BLANK if last else DOWN)))
    roots_left = sum(root.size for root in tree.roots[len(roots) :])
    return [*rows, Drawn("", None, roots_left)] if roots_left else rows


@dataclass(frozen=True, slots=True)
class _Node:
    branch: Branch
    seen: list[_Node] = field(default_factory=list)


def _nearest(roots: tuple[Branch, ...], count: int) -> list[_Node]:
    first = [_Node(root) for root in roots[:count]]
    left = count - len(first)
    waiting = deque(first)
    while waiting and left > 0:
        node = waiting.popleft()
        node.seen.extend(_Node(child) for child in node.branch.children[:left])
        left -= len(node.seen)
        waiting.extend(node.seen)
    return first


def _lane_of_tree(tree: Tree, at: int, drawn: list[Drawn], style: Style) -> Lane:
    column = tree.columns[at]
    cells = [each.branch.cells[at] for each in drawn if each.branch]
    writing = writing_of(column, cells)
    texts = iter(entries_of(column, cells, writing, style))
    drawn_cells = [next(texts) if each.branch else Entry("", fixed=True) for each in drawn]
    entries = [
        Entry("") if each.branch and each.branch.cells[at] is None else entry
        for entry, each in zip(drawn_cells, drawn, strict=True)
    ]
    if at == 0:
        entries = [
            (entry if each.branch else Entry(f"{each.omitted:,} more"))._replace(lead=lead)
            for entry, each, lead in zip(entries, drawn, _leads(drawn, style), strict=True)
        ]
    return lane_of(column, tuple(style.show(line) for line in column_header(column, writing)), entries)


def _leads(drawn: list[Drawn], style: Style) -> Iterator[str]:
    """The prefix of each row; the first levels of a long prefix are cut off and counted.

    Consecutive rows lose the same number of levels where possible, so that their lines connect.
    """
    cut = 0
    for each in drawn:
        steps = [each.lead[at : at + 3] for at in range(0, len(each.lead), 3)]
        if not cut < len(steps) <= cut + (DEEPEST_CUT if cut else DEEPEST):
            cut = len(steps) - DEEPEST_CUT // 2 if len(steps) > DEEPEST else 0
        lines = "".join(ASCII.get(step, step) if style.ascii else step for step in steps[cut:])
        yield f"{style.dots}{cut:<3} {lines}" if cut else lines


# --- facts ---
# Labels, aligned amounts, and remarks cut to the width.


AFTER_LABEL = "  "
AFTER_AMOUNT = "   "
_MIN_REMARK_WIDTH = 20
"""The narrowest column of whole remarks: three words a line."""


def lines_of_facts(facts: Facts, style: Style) -> Iterator[Line]:
    """One line for each fact.

    >>> from hlo_cli.report.text import plain_text
    >>> arguments = Fact("arguments", (Amount("count", 63), Amount("bytes", 5872025, "bytes")))
    >>> opcodes = Fact("opcodes", (Amount("count", 1046),), "parameter 822, convert 468, broadcast 366")
    >>> for line in lines_of_facts(Facts("module", (arguments, opcodes)), Style(width=50)): print(plain_text(line))
    arguments     63   5.6 MiB
    opcodes    1,046   parameter 822, convert 468 …
    """
    if facts.title:
        yield from text_lines(facts.title, style)
    shown = [fact for fact in facts.facts if fact.person]
    labels = max((cell_width(style.show(fact.label)) for fact in shown), default=0)
    texts = [[_amount(amount, style) for amount in fact.amounts] for fact in shown]
    widths = [
        max(cell_width(row[at]) for row in texts if at < len(row)) for at in range(max(map(len, texts), default=0))
    ]
    for fact, row in zip(shown, texts, strict=True):
        amounts = [pad(text, width, right=True) for text, width in zip(row, widths, strict=False)]
        line = pad(style.show(fact.label), labels) + AFTER_LABEL + AFTER_AMOUNT.join(amounts)
        if fact.is_whole:
            yield from _whole(fact, line, style)
            continue
        yield cut_line((Run((line + _remark(fact, line, style)).rstrip()),), style.room, style.dots)


def _whole(fact: Fact, before: str, style: Style) -> Iterator[Line]:
    """The whole remark, its further lines below its first.

    >>> from hlo_cli.report.text import plain_text
    >>> path = Fact("op_name", remark="jit(step)/encoder/layer_3/attention/dot_general", is_whole=True)
    >>> for line in lines_of_facts(Facts("culprit", (path,)), Style(width=36)): print(plain_text(line))
    op_name  jit(step)/encoder/layer_3/a
             ttention/dot_general
    """
    lead = before + (AFTER_AMOUNT if fact.amounts else "")
    indent = cell_width(lead)
    for at, part in enumerate(fill((Run(style.show(fact.remark)),), max(style.room - indent, _MIN_REMARK_WIDTH))):
        yield (Run(" " * indent if at else lead), *part)


def _shorten_list(text: str, room: int, dots: str) -> str:
    """A comma-separated list without its last items, or another text without its end.

    >>> _shorten_list("parameter 822, convert 468", 20, "…")
    'parameter 822 …'
    """
    if cell_width(text) <= room:
        return text
    cut = shorten_text(text, room - 1, "")
    comma = cut.rfind(", ", 0, max(0, room - len(dots)))
    return f"{cut[:comma]} {dots}" if comma > 0 else shorten_text(text, max(room, 0), dots)


def _amount(amount: Amount, style: Style) -> str:
    return style.show(in_words(Column(amount.name, amount.name, amount.unit), amount.value))


def _remark(fact: Fact, before: str, style: Style) -> str:
    if not fact.remark:
        return ""
    lead = AFTER_AMOUNT if fact.amounts else ""
    return lead + _shorten_list(style.show(fact.remark), style.room - cell_width(before + lead), style.dots)
