"""Tables with spans as pictures: few as a line for each row with its name, many packed into lanes by operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.render.draw.bars import stretch_of
from hlo_cli.render.draw.cells import in_words
from hlo_cli.render.style import Style
from hlo_cli.render.web.axes import AXIS_HEIGHT, brackets, step_axis, time_axis
from hlo_cli.render.web.lanes import lanes_of
from hlo_cli.render.web.markup import safe, safe_lines, short, shortened
from hlo_cli.render.web.picture import GLYPH, NARROW, Frame, Room, document
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Table

ROW: Final = 18
WIDE_SPANS: Final = Room(1100, 20, 950, "wide")
MAX_NAMED: Final = 24  # more bars than these are packed into lanes, so that axis and legend stay in sight
MAX_BARS: Final = 2000
MIN_WIDTH: Final = 1.5
NAME: Final = 40
LEGEND: Final = 26
LANE_NAME: Final = 16
LANES_HEIGHT: Final = 200  # aimed at; a lane is not lower than the least height
LANE_HEIGHTS: Final = (4, 12)


def span_column(table: Table) -> int | None:
    """The index of the column with spans, if any.

    >>> from hlo_cli.report.column import Column
    >>> span_column(Table("pairs", (Column("name", "", "name"), Column("span", "step", "span", steps=9)), ()))
    1
    """
    return next((at for at in table.visible(person=True) if table.columns[at].unit == "span"), None)


def figure_of_spans(table: Table, style: Style) -> Iterator[str]:
    """The picture for a page, in a wide and a narrow form, of which the page shows the one that fits."""
    label = f"Steps of {format_count(len(table.rows), table.noun)}"
    for room in (WIDE_SPANS, NARROW):
        elements, height = gantt(table, style, 0, room)
        yield from document(elements, height, label=label, room=room)


def gantt(table: Table, style: Style, top: float, room: Room = WIDE_SPANS) -> tuple[list[str], float]:
    """The elements of the picture from `top` on, and its lower edge.

    >>> from hlo_cli.report.column import Column
    >>> columns = (Column("name", "", "name"), Column("span", "step", "span", steps=9))
    >>> elements, end = gantt(Table("pairs", columns, (("a", (3, 5, True)),)), Style(), 0)
    >>> elements[6], end
    ('<rect class="b0" x="336.7" y="30" width="316.7" height="11"/>', 80)
    """
    at = span_column(table)
    assert at is not None
    rows = _rows(table, at, style)
    column = table.columns[at]
    steps = max(column.steps, 1)
    frame = Frame(top + LEGEND, steps, 0, room)
    elements = list(_legend(table, len(rows), at, top + LEGEND / 2 + 2, room))
    if len(rows) <= MAX_NAMED:
        elements += [line for n, row in enumerate(rows) for line in _bar(table, row, at, frame.top + n * ROW, frame)]
        bottom = frame.top + len(rows) * ROW
    else:
        drawn, bottom = _lanes(table, rows, at, frame)
        elements += drawn
    elements += time_axis(frame, column.seconds, bottom) if column.seconds else step_axis(frame, steps, bottom)
    bottom += AXIS_HEIGHT
    loops, height = brackets(column.loops, frame, steps, bottom, counts_steps=not column.seconds)
    return [*elements, *loops], bottom + height + 12


def _rows(table: Table, at: int, style: Style) -> list[int]:
    """The indices of the rows with a bar: all, or those with the longest exposed parts, then the longest."""
    if style.top is not None or len(table.rows) <= MAX_BARS:
        return list(range(style.rows_shown(MAX_BARS, len(table.rows), main=table.main)))
    order = []
    for row, cells in enumerate(table.rows):
        stretch = stretch_of(cells[at])
        if stretch is not None:
            order.append((stretch.exposed_from - stretch.end, stretch.start - stretch.end, row))
    return sorted(row for _, _, row in sorted(order)[:MAX_BARS])


def _legend(table: Table, shown: int, at: int, y: float, room: Room) -> Iterator[str]:
    """What the bars are and what their colors mean, in one line above them."""
    column = table.columns[at]
    bars = format_count(len(table.rows), table.noun)
    bars = bars if shown == len(table.rows) else f"{shown:,} of {bars}{' (the longest)' if shown == MAX_BARS else ''}"
    axis = f"{'measured' if column.is_measured else 'estimated'} time" if column.seconds else "steps"
    x: float = room.left
    for looks, words in () if column.is_measured else (("b0", "overlapped"), ("exposed", "exposed")):
        yield f'<rect class="{looks}" x="{short(x)}" y="{short(y - 10)}" width="11" height="11"/>'
        yield f'<text x="{short(x + 16)}" y="{short(y)}">{words}</text>'
        x += 16 + GLYPH * len(words) + 10
    words = f"{bars} over {axis}"
    words = words if x + GLYPH * len(words) <= room.page else bars
    yield f'<text class="quiet" x="{short(x)}" y="{short(y)}">{safe(words)}</text>'


def _lanes(table: Table, rows: Sequence[int], at: int, frame: Frame) -> tuple[list[str], float]:
    """The bars of each operation in as few lanes as keep them apart, and the lower edge."""
    groups = lanes_of(
        [table.rows[row] for row in rows],
        at,
        _group_column(table),
        MIN_WIDTH * frame.columns / frame.room.width,
    )
    least, most = LANE_HEIGHTS
    count = sum(len(lanes) for lanes in groups.values())
    high = min(max(LANES_HEIGHT // max(count, 1), least), most)
    elements = []
    y = frame.top
    for name, lanes in groups.items():
        if name:
            bars = sum(map(len, lanes))
            elements.append(
                f'<text class="quiet" x="{frame.room.left}" y="{short(y + 12)}">{safe(name)} · {bars:,}</text>'
            )
            y += LANE_NAME
        for lane in lanes:
            for row in (rows[n] for n in lane):
                elements.append(f"<g{_named(table, row, [at])}")
                elements += [*_rects(table, row, at, y, high - 1, frame), "</g>"]
            y += high
        y += 4
    return elements, y


def _group_column(table: Table) -> int | None:
    lanes = (at for at, column in enumerate(table.columns) if column.is_lane)
    return next(lanes, next((at for at, column in enumerate(table.columns) if column.unit == "opcode"), None))


def _bar(table: Table, row: int, at: int, y: float, frame: Frame) -> Iterator[str]:
    """The bar of a row, with its name."""
    yield f"<g{_named(table, row, table.visible(person=True))}"
    rects = list(_rects(table, row, at, y + 4, 11, frame))
    yield from rects
    stretch = stretch_of(table.rows[row][at])
    left = right = frame.x(0)
    if stretch and rects:
        left = frame.x(stretch.start)
        right = max(min(frame.x(stretch.end + 1), frame.x(frame.columns)), left + MIN_WIDTH)
    yield f"{_name(_label(table, row), left, right, y + 13, frame.room)}</g>"


def _named(table: Table, row: int, told: Sequence[int]) -> str:
    """The attribute that links a bar to its row, and its title: the name, and the cells of the given columns."""
    cells = table.rows[row]
    label = _label_column(table)
    facts = [
        f"{column.title or column.name} {in_words(column, cell)}"
        for each in told
        for column, cell in [(table.columns[each], cells[each])]
        if each != label and cell is not None
    ]
    name = _label(table, row)
    return f' data-v="{safe(name)}"><title>{safe_lines([name, *facts])}</title>'


def _label_column(table: Table) -> int | None:
    visible = table.visible(person=True)
    return next((each for each in visible if table.columns[each].unit == "name"), table.label_index(visible))


def _label(table: Table, row: int) -> str:
    label = _label_column(table)
    return "" if label is None else in_words(table.columns[label], table.rows[row][label])


def _rects(table: Table, row: int, at: int, y: float, high: float, frame: Frame) -> Iterator[str]:
    """The overlapped part of a bar, and the exposed part."""
    stretch = stretch_of(table.rows[row][at])
    if stretch is None or stretch.start >= frame.columns:
        return
    left = frame.x(stretch.start)
    right = max(min(frame.x(stretch.end + 1), frame.x(frame.columns)), left + MIN_WIDTH)
    # a bar that is drawn wider than it is keeps the color of what it is
    exposed_x = right if stretch.exposed_from > stretch.end else max(frame.x(stretch.exposed_from), left)
    exposed_x = min(exposed_x, right)
    for looks, begin, end in (("b0", left, exposed_x), ("exposed", exposed_x, right)):
        if begin < end:
            size = f'x="{short(begin)}" y="{short(y)}" width="{short(end - begin)}" height="{short(high)}"'
            yield f'<rect class="{looks}" {size}/>'


def _name(name: str, left: float, right: float, y: float, room: Room) -> str:
    """The name after the bar, before it, or on it, depending on the room."""
    after, before = room.page - 4 - right - 6, left - 6
    length = min(NAME, int(max(after, before, right - left - 8) / GLYPH))
    name = shortened(name, length)
    wide = len(name) * GLYPH
    looks, x = "code on", left + 4
    if after >= wide:
        looks, x = "code", right + 6
    elif before >= wide:
        looks, x = "code end", left - 6
    return f'<text class="{looks}" x="{short(x)}" y="{short(y)}">{safe(name)}</text>'
