"""The grid of a table: lanes side by side under their headers and a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.render.draw.cells import Entry
from hlo_cli.render.draw.column_widths import GAP, Lane
from hlo_cli.render.style import Style
from hlo_cli.render.truncate import SHORTENERS, shorten_text
from hlo_cli.render.width import cell_width, pad
from hlo_cli.report.text import Line, Role, Run

Fitted = Sequence[tuple[Lane, int]]


def header_lines(fitted: Fitted, style: Style) -> Iterator[Line]:
    """The names of groups, the names of columns with their units, and the rule below them.

    A last text column without a name has no rule: it holds remarks.
    """
    if any(lane.column.group for lane, _ in fitted):
        yield _row([(_cut(text, width, style), width, True, "quiet") for text, width in _groups(fitted, style)])
    height = max((len(lane.header) for lane, _ in fitted), default=0)
    for line in range(height):
        yield _row([
            (_cut(_header(lane, height, line), width, style), width, lane.column.is_right_aligned, "quiet")
            for lane, width in fitted
        ])  # fmt: skip
    rules = [(style.show("─") * width if _has_rule(fitted, at) else "") for at, (_, width) in enumerate(fitted)]
    yield _row([(rule, width, False, "quiet") for rule, (_, width) in zip(rules, fitted, strict=True)])


def row_line(fitted: Fitted, row: int, style: Style, role: Role | None = None) -> Line:
    """One row; a `role` replaces those of its entries."""
    cells: list[tuple[str, int, bool, Role]] = []
    for lane, width in fitted:
        entry = lane.entries[row]
        text = shortened(lane, entry, width, style)
        cells.append((text, width, lane.column.is_right_aligned, role or entry.role))
    return _row(cells, fitted[0][0].entries[row].lead if fitted else "")


def shortened(lane: Lane, entry: Entry, width: int, style: Style) -> str:
    """The text of an entry after its lead, in the cells that its lane has."""
    if lane.natural <= width:
        return entry.lead + entry.text
    lead = shorten_text(entry.lead, width, style.dots)
    shorten = shorten_text if entry.fixed else SHORTENERS.get(lane.column.unit, shorten_text)
    return lead + shorten(entry.text, width - cell_width(lead), style.dots)


def _row(cells: Sequence[tuple[str, int, bool, Role]], lead: str = "") -> Line:
    runs: list[Run] = []
    blanks = 0
    for at, (text, width, right, role) in enumerate(cells):
        fill = pad("", width - cell_width(text))
        blanks += GAP if at else 0
        if not text:
            blanks += width
            continue
        if right:
            blanks += len(fill)
        if blanks:
            runs.append(Run(" " * blanks))
        if not at and lead and text.startswith(lead):
            runs.append(Run(lead, "quiet"))
            text = text.removeprefix(lead)
        runs.append(Run(text, role))
        blanks = 0 if right else len(fill)
    return tuple(runs)


def _cut(text: str, width: int, style: Style) -> str:
    return shorten_text(text, width, style.dots)


def _header(lane: Lane, height: int, line: int) -> str:
    at = line - (height - len(lane.header))
    return lane.header[at] if at >= 0 else ""


def _has_rule(fitted: Fitted, at: int) -> bool:
    lane, _ = fitted[at]
    return bool(any(lane.header)) or lane.column.is_numeric or at < len(fitted) - 1


def _groups(fitted: Fitted, style: Style) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(fitted):
        end, group = at + 1, fitted[at][0].column.group
        while group and end < len(fitted) and fitted[end][0].column.group == group:
            end += 1
        yield style.show(group), sum(width for _, width in fitted[at:end]) + GAP * (end - at - 1)
        at = end
