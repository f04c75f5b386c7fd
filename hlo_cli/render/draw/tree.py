"""Trees as text: the rows nearest to the roots, with lines that show the nesting."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.render.draw.cells import Entry, entries_of, writing_of
from hlo_cli.render.draw.column_widths import Lane, fit, lane_of
from hlo_cli.render.draw.grid import header_lines, row_line
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.draw.table import column_header
from hlo_cli.render.style import Style
from hlo_cli.report.numbers import format_shown
from hlo_cli.report.text import Line
from hlo_cli.report.tree import Branch, Tree, walk

MORE, LAST, DOWN, BLANK = "├─ ", "└─ ", "│  ", "   "
ASCII = {MORE: "|- ", LAST: "`- ", DOWN: "|  ", BLANK: BLANK}
DEEPEST, DEEPEST_CUT = 8, 6
"""The number of levels drawn before a row, and the number that is kept if the first ones are cut off."""


class Drawn(NamedTuple):
    """One line of a tree: its prefix, and its branch or the number of rows not shown there."""

    lead: str
    branch: Branch | None
    omitted: int = 0


def lines(tree: Tree, style: Style) -> Iterator[Line]:
    """The lines of a tree: title, header, and rows.

    >>> from hlo_cli.report.column import Column
    >>> from hlo_cli.report.text import plain_text
    >>> root = Branch(("main",), (Branch(("while.10",), (Branch(("body",)),)), Branch(("while.11",)), Branch(("add",))))
    >>> for line in lines(Tree("calls", (Column("name", "computation", "name"),), (root,)), Style(top=3)):
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
    drawn = drawn_rows(tree, style)
    seen = [at for at, column in enumerate(tree.columns) if column.person and style.room >= column.from_width]
    lanes = [_lane(tree, at, drawn, style) for at in seen]
    fitted = fit(lanes, style.room, label=tree.columns[0].name)
    yield from header_lines(fitted, style)
    for row, each in enumerate(drawn):
        yield row_line(fitted, row, style, None if each.branch else "quiet")


def footer(tree: Tree, style: Style) -> tuple[str, ...]:
    """The number of shown rows and the option to show all, if some are not shown."""
    size = sum(1 for _ in walk(tree.roots))
    shown = style.rows_shown(tree.limit, size)
    return (format_shown(shown, size, tree.noun),) if shown < size else ()


def drawn_rows(tree: Tree, style: Style) -> list[Drawn]:
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


def _lane(tree: Tree, at: int, drawn: list[Drawn], style: Style) -> Lane:
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
