"""An array as a drawing: the rows and columns that fit, their labels, and what is omitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from hlo_cli.analysis.layout.addresses import Axis, Plane, plane_of, position_in_plane, visible_positions
from hlo_cli.commands.shared.shape_descriptions import dimension_names
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.figure import Figure, Grid, GridCell, Side
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Line, Run

MAX_LINES = 24
"""The most lines of a drawing; with its answer it fits one screen."""
FEW_ROWS = 7
_MIN_COLUMN_WIDTH = 3
_MACHINE_WIDTH = 80

Place = tuple[int, int]


def figure_of(shape: ArrayShape, *, elements: Sequence[tuple[int, ...]] = (), title: str = "") -> Figure:
    """The drawing of an array's positions; `elements` are logical indices to mark, the first one chooses the plane.

    >>> from hlo_cli.report.text import plain_text
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> for line in figure_of(parse_shape("f32[3]{0:T(4)}")).draw(80): print(plain_text(line))
    x     0  1  2 ·3
       ┌─────────────┐
       │  0  1  2 ·3 │
       └─────────────┘
    """
    plane = plane_of(shape, elements[0] if elements else ())
    found = [position_in_plane(shape, plane, element) for element in elements]
    marked = frozenset(place for place in found if place is not None)

    def draw(room: int) -> tuple[Line, ...]:
        if not shape.slots:
            return ((Run("The array is empty."),),)
        grid = grid_for(shape, plane, room, marked)
        return (*grid.lines(), *_omissions(shape, plane, grid, room, len(found) - len(marked)))

    return Figure("figure", draw, title=title, data=_data(shape, plane, marked))


def grid_for(shape: ArrayShape, plane: Plane, room: int, marked: frozenset[Place] = frozenset()) -> Grid:
    """The largest grid of a plane that fits the room and MAX_LINES lines."""
    rows, has_dashes = _rows(plane, [row for row, _ in marked])
    wanted = [*(column for _, column in marked), *_last_of_fold(plane)]
    count = min(plane.columns.padded, max(room // _MIN_COLUMN_WIDTH, 1))
    grid = _grid(shape, plane, rows, visible_positions(plane.columns, count, wanted), marked, has_dashes=has_dashes)
    while grid.width > room and count > 1:
        count -= max(1, (grid.width - room) // (room // _MIN_COLUMN_WIDTH + 1))
        grid = _grid(shape, plane, rows, visible_positions(plane.columns, count, wanted), marked, has_dashes=has_dashes)
    return grid


def _rows(plane: Plane, wanted: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """The rows to draw, and whether the edges of inner tiles fit between them."""
    axis = plane.rows
    for count in (axis.padded, FEW_ROWS):
        rows = visible_positions(axis, min(count, MAX_LINES), wanted)
        joints = axis.joints(rows)
        height = 3 + len(rows) + sum(joint in ("tile", "gap") for joint in joints)
        for has_dashes in (True, False):
            if height + (joints.count("part") if has_dashes else 0) <= MAX_LINES:
                return rows, has_dashes
    return visible_positions(axis, FEW_ROWS), False


def _last_of_fold(plane: Plane) -> tuple[int, ...]:
    """The columns around the end of the data of a folded array; its last row may end early."""
    size = plane.tail.bounds[0][-1] if plane.fold else 0
    return ((size - 1) % plane.fold, size % plane.fold) if plane.fold and size % plane.fold else ()


def _grid(
    shape: ArrayShape,
    plane: Plane,
    rows: Sequence[int],
    columns: Sequence[int],
    marked: frozenset[Place],
    *,
    has_dashes: bool,
) -> Grid:
    cells = tuple(tuple(_cell(plane, row, column, (row, column) in marked) for column in columns) for row in rows)
    names = dimension_names(shape.rank)
    labels = tuple(_label(plane.rows, row, plane.fold) for row in rows)
    if plane.rows.padded == 1 and not plane.rows.dimensions and not plane.fold:
        labels = ("",) * len(rows)
    return Grid(
        Side(_name(plane.rows, names), labels, plane.rows.joints(rows)),
        Side(
            _name(plane.columns, names), tuple(_label(plane.columns, c) for c in columns), plane.columns.joints(columns)
        ),
        cells,
        has_parts=bool(plane.columns.part),
        has_dashes=has_dashes,
    )


def _cell(plane: Plane, row: int, column: int, is_marked: bool) -> GridCell:
    across = column // plane.columns.tile if plane.columns.tile else 0
    down = row // plane.rows.tile if plane.rows.tile else 0
    return GridCell(plane.linear_index(row, column), plane.is_padding(row, column), is_marked, (across + down) % 2 == 1)


def _label(axis: Axis, position: int, fold: int = 0) -> str:
    return ("·" if position >= axis.size else "") + str(position * (fold or 1))


def _name(axis: Axis, names: Sequence[str]) -> str:
    return "".join(names[d] for d in axis.dimensions)


def _omissions(shape: ArrayShape, plane: Plane, grid: Grid, room: int, elsewhere: int) -> Iterator[Line]:
    """A description of what the drawing omits."""
    omitted = []
    for count, axis, noun in (
        (len(grid.rows.labels), plane.rows, "rows"),
        (len(grid.columns.labels), plane.columns, "columns"),
    ):
        if count < axis.padded:
            omitted.append(f"{axis.padded - count:,} of {format_count(axis.padded, noun)}")
    if (planes := prod(plane.tail.bounds[0][:-2])) > 1:
        names = [_axis_name(shape, dimension) for dimension in range(len(plane.lead))]
        where = ", ".join(f"{name} {at}" for name, at in zip(names, plane.lead, strict=True))
        omitted.append(f"{planes - 1:,} of {format_count(planes, 'planes')} (all except {where})")
    if omitted:
        yield from _lines("not shown: " + "; ".join(omitted), room)
    if (more := shape.slots - planes * plane.rows.padded * plane.columns.padded) > 0:
        yield from _lines(
            f"{format_count(more, 'more padding positions')} {'is' if more == 1 else 'are'} not shown", room
        )
    if elsewhere:
        yield from _lines(
            f"{format_count(elsewhere, 'requested elements')} {'is' if elsewhere == 1 else 'are'} in other planes", room
        )


def _axis_name(shape: ArrayShape, physical: int) -> str:
    from hlo_cli.analysis.layout.layout_steps import physical_dimensions

    dimensions = physical_dimensions(shape)[physical].dimensions
    return "".join(dimension_names(shape.rank)[d] for d in dimensions) or "added"


def _lines(text: str, room: int) -> Iterator[Line]:
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > room:
            yield (Run(line, "quiet"),)
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield (Run(line, "quiet"),)


def _data(shape: ArrayShape, plane: Plane, marked: frozenset[Place]) -> dict[str, Cell]:
    """The drawing for 80 columns as data: positions, linear indices, and which of them are padding."""
    if not shape.slots:
        return {"rows": (), "columns": (), "linear_indices": (), "padding": ()}
    rows, _ = _rows(plane, [row for row, _ in marked])
    grid = grid_for(shape, plane, _MACHINE_WIDTH, marked)
    columns = tuple(int(label.removeprefix("·")) for label in grid.columns.labels)
    return {
        "rows": rows,
        "columns": columns,
        "fold": plane.fold,
        "plane": plane.lead,
        "tile": (plane.rows.tile, plane.columns.tile),
        "part": (plane.rows.part, plane.columns.part),
        "linear_indices": tuple(tuple(cell.number for cell in row) for row in grid.cells),
        "padding": tuple(tuple(cell.is_padding for cell in row) for row in grid.cells),
    }
