"""Tables with spans as pictures: a line for each row, with its name and a bar over its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.bars import stretch_of
from hlo_cli.render.draw.cells import in_words
from hlo_cli.render.style import Style
from hlo_cli.render.truncate import shorten_name
from hlo_cli.render.web.axes import AXIS_HEIGHT, brackets, step_axis, time_axis
from hlo_cli.render.web.markup import safe, safe_lines, short
from hlo_cli.render.web.picture import GLYPH, LEFT, WIDTH, Frame
from hlo_cli.report.numbers import format_shown
from hlo_cli.report.table import Table

ROW: Final = 18
MAX_ROWS: Final = 200
MIN_WIDTH: Final = 1.5
NAME: Final = 40
LEGEND: Final = 12


def span_column(table: Table) -> int | None:
    """The index of the column with spans, if any.

    >>> from hlo_cli.report.column import Column
    >>> span_column(Table("pairs", (Column("name", "", "name"), Column("span", "step", "span", steps=9)), ()))
    1
    """
    return next((at for at in table.visible(person=True) if table.columns[at].unit == "span"), None)


def gantt(table: Table, style: Style, top: float) -> tuple[list[str], float]:
    """The elements of the picture from `top` on, and its lower edge.

    >>> from hlo_cli.report.column import Column
    >>> columns = (Column("name", "", "name"), Column("span", "step", "span", steps=9))
    >>> elements, end = gantt(Table("pairs", columns, (("a", (3, 5, True)),)), Style(), 0)
    >>> elements[1], end
    ('<rect class="b0" x="310" y="4" width="240" height="11"/>', 72)
    """
    at = span_column(table)
    assert at is not None
    shown = style.rows_shown(MAX_ROWS, len(table.rows), main=table.main)
    steps = max(table.columns[at].steps, 1)
    frame = Frame(top, steps, 0)
    elements = [line for row in range(shown) for line in _bar(table, row, at, top + row * ROW, frame)]
    bottom = top + shown * ROW
    seconds = table.columns[at].seconds
    elements += time_axis(frame, seconds, bottom) if seconds else step_axis(frame, steps, bottom)
    bottom += AXIS_HEIGHT
    loops, height = brackets(table.columns[at].loops, frame, steps, bottom, counts_steps=not seconds)
    elements += loops
    bottom += height + LEGEND
    elements += _legend(bottom)
    if shown < len(table.rows):
        words = format_shown(shown, len(table.rows), table.noun)
        elements.append(f'<text class="quiet" x="{LEFT}" y="{short(bottom)}">{safe(words)}</text>')
    return elements, bottom + ROW


def _legend(y: float) -> Iterator[str]:
    """The legend of the colors of bars, on the right below the axis."""
    x: float = LEFT + WIDTH
    for looks, words in (("exposed", "exposed"), ("b0", "overlapped")):
        x -= GLYPH * len(words)
        yield f'<text class="quiet" x="{short(x)}" y="{short(y)}">{words}</text>'
        x -= 14
        yield f'<rect class="{looks}" x="{short(x)}" y="{short(y - 9)}" width="9" height="9"/>'
        x -= 14


def _bar(table: Table, row: int, at: int, y: float, frame: Frame) -> Iterator[str]:
    cells = table.rows[row]
    visible = table.visible(person=True)
    label = next((each for each in visible if table.columns[each].unit == "name"), table.label_index(visible))
    name = "" if label is None else in_words(table.columns[label], cells[label])
    facts = [
        f"{column.title or column.name} {in_words(column, cell)}"
        for each in visible
        for column, cell in [(table.columns[each], cells[each])]
        if each != label
    ]
    yield f"<g><title>{safe_lines([name, *facts])}</title>"
    left = right = frame.x(0)
    stretch = stretch_of(cells[at])
    if stretch and stretch.start < frame.columns:
        left = frame.x(stretch.start)
        right = max(min(frame.x(stretch.end + 1), frame.x(frame.columns)), left + MIN_WIDTH)
        exposed_x = min(max(frame.x(stretch.exposed_from), left), right)
        for looks, begin, end in (("b0", left, exposed_x), ("exposed", exposed_x, right)):
            if begin < end:
                size = f'x="{short(begin)}" y="{short(y + 4)}" width="{short(end - begin)}" height="11"'
                yield f'<rect class="{looks}" {size}/>'
    yield f"{_name(shorten_name(name, NAME), left, right, y + 13)}</g>"


def _name(name: str, left: float, right: float, y: float) -> str:
    """The name after the bar, before it, or on it, depending on the room."""
    wide = len(name) * GLYPH
    looks, x = "code on", left + 4
    if right + 6 + wide <= LEFT + WIDTH:
        looks, x = "code", right + 6
    elif left - 6 >= wide:
        looks, x = "code end", left - 6
    return f'<text class="{looks}" x="{short(x)}" y="{short(y)}">{safe(name)}</text>'
