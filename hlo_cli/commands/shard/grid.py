"""The drawing of an array on devices: tiles as cells, with the devices that hold each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Final

from hlo_cli.analysis.sharding.placement import Shard, ShardedArray, devices_text
from hlo_cli.commands.shape.explained import dimension_names
from hlo_cli.dataclass import dataclass
from hlo_cli.report.figure import Figure, Grid, GridCell, Joint, Side
from hlo_cli.report.numbers import format_count
from hlo_cli.report.text import Line, Run

_MOST: Final = 8
"""The number of rows and columns that are drawn in full."""
_RULED: Final = 4
"""The number of rows that have rules between them."""
_FEWER: Final = (_MOST, 5, 4, 3, 2)
_DEVICES: Final = (16, 8, 6, 4, 3, 2, 1)
"""The numbers of devices, or of runs of devices, that a cell lists, at most."""


@dataclass(frozen=True, slots=True)
class _Plane:
    """The two dimensions that are drawn, and the tile of the others."""

    array: ShardedArray
    rows: int | None
    columns: int | None
    tile: tuple[int, ...]
    holders: dict[tuple[int, ...], list[int]]

    def parts(self, dimension: int | None) -> int:
        """The number of tiles along a dimension."""
        return 1 if dimension is None else self.array.placement.parts[dimension]

    def at(self, row: int, column: int) -> tuple[int, ...]:
        """The tile in a cell."""
        index = list(self.tile)
        for dimension, at in ((self.rows, row), (self.columns, column)):
            if dimension is not None:
                index[dimension] = at
        return tuple(index)


def grid_figure(array: ShardedArray, shards: Sequence[Shard], marked: Shard | None = None) -> Figure | None:
    """The drawing of the tiles with their devices; None if no dimension is divided."""
    if not array.placement.is_tiled or array.placement.tiles == 1:
        return None
    plane = _plane(array, shards, marked)
    return Figure("grid", lambda room: tuple(_lines(plane, room, marked)))


def tile_range(size: int, tile_size: int, at: int) -> str:
    """The positions of a tile along a dimension, and the padding at its end.

    >>> tile_range(10, 3, 0), tile_range(10, 3, 3), tile_range(4, 3, 2)
    ('0–2', '9 ·2', '·3')
    """
    start, limit = min(at * tile_size, size), min((at + 1) * tile_size, size)
    padding = f"·{tile_size - (limit - start)}" if limit - start < tile_size else ""
    if start == limit:
        return padding or "-"
    held = str(start) if limit == start + 1 else f"{start}–{limit - 1}"
    return f"{held} {padding}" if padding else held


def _plane(array: ShardedArray, shards: Sequence[Shard], marked: Shard | None) -> _Plane:
    parts = array.placement.parts
    cut = [d for d, part in enumerate(parts) if part > 1]
    if len(cut) > 1:
        rows, columns = cut[0], cut[1]
    else:
        is_last = cut[0] == len(parts) - 1
        rows, columns = (cut[0] - 1, cut[0]) if is_last else (cut[0], len(parts) - 1)
    holders: dict[tuple[int, ...], list[int]] = {}
    for shard in shards:
        holders.setdefault(shard.tile, []).append(shard.device)
    tile = marked.tile if marked is not None else (0,) * len(parts)
    return _Plane(array, rows if rows >= 0 else None, columns, tile, holders)


def _lines(plane: _Plane, room: int, marked: Shard | None) -> Iterator[Line]:
    wanted = plane.tile if marked is not None else None
    grid = _fitting(plane, room, marked, wanted)
    yield from grid.lines()
    for text in (*_remarks(plane), *_omitted(plane, grid)):
        yield (Run(text, "quiet"),)


def _fitting(plane: _Plane, room: int, marked: Shard | None, wanted: tuple[int, ...] | None) -> Grid:
    """The grid with the most tiles and devices that fits; the smallest one if none does."""
    rows = _visible(plane.parts(plane.rows), _MOST, wanted[plane.rows] if wanted and plane.rows is not None else 0)
    at = wanted[plane.columns] if wanted and plane.columns is not None else 0
    found: Grid | None = None
    for count in _FEWER:
        columns = _visible(plane.parts(plane.columns), count, at)
        for most in _DEVICES:
            found = _grid(plane, rows, columns, most, marked)
            if found.width <= room:
                return found
    assert found is not None
    return found


def _visible(count: int, most: int, wanted: int) -> tuple[int, ...]:
    """All positions, or the first ones, the last one, and the wanted one."""
    if count <= most:
        return tuple(range(count))
    return tuple(sorted({*range(max(min(most, _MOST - 1) - 2, 1)), count - 1, wanted}))


def _grid(plane: _Plane, rows: Sequence[int], columns: Sequence[int], most: int, marked: Shard | None) -> Grid:
    names = dimension_names(plane.array.shape.rank)
    cells = tuple(
        tuple(_cell(plane, row, column, most, marked, (at + other) % 2 == 1) for other, column in enumerate(columns))
        for at, row in enumerate(rows)
    )
    sides = _side(plane, plane.rows, rows, names), _side(plane, plane.columns, columns, names)
    if len(rows) > _RULED:  # without rules between rows, so that the drawing stays low
        joints: tuple[Joint, ...] = tuple("none" if joint == "tile" else joint for joint in sides[0].joints)
        return Grid(replace(sides[0], joints=joints), sides[1], cells)
    return Grid(*sides, cells)


def _cell(plane: _Plane, row: int, column: int, most: int, marked: Shard | None, is_odd: bool) -> GridCell:
    tile = plane.at(row, column)
    sizes, tile_sizes = plane.array.shape.sizes, plane.array.shard.sizes
    is_empty = any(at * part >= size > 0 for at, part, size in zip(tile, tile_sizes, sizes, strict=True))
    text = devices_text(plane.holders.get(tile, ()), most)
    return GridCell(0, is_empty, marked is not None and marked.tile == tile, is_odd, text)


def _side(plane: _Plane, dimension: int | None, shown: Sequence[int], names: Sequence[str]) -> Side:
    if dimension is None:
        return Side("", ("",), ())
    size, tile_size = plane.array.shape.sizes[dimension], plane.array.shard.sizes[dimension]
    joints: tuple[Joint, ...] = tuple("tile" if b == a + 1 else "gap" for a, b in pairwise(shown))
    return Side(names[dimension], tuple(tile_range(size, tile_size, at) for at in shown), joints)


def _remarks(plane: _Plane) -> Iterator[str]:
    """What the marks of padding mean."""
    array = plane.array
    for d, (size, tile_size) in enumerate(zip(array.shape.sizes, array.shard.sizes, strict=True)):
        if d in (plane.rows, plane.columns) and array.placement.parts[d] * tile_size > size:
            yield "· is padding past the end of the array; a device with · holds nothing else"
            return


def _omitted(plane: _Plane, grid: Grid) -> Iterator[str]:
    """What is not drawn: tiles along the two dimensions, those along others, and devices in a cell."""
    array, names = plane.array, dimension_names(plane.array.shape.rank)
    drawn = ((plane.rows, len(grid.rows.labels)), (plane.columns, len(grid.columns.labels)))
    cuts = [
        f"{plane.parts(d) - count:,} of {plane.parts(d):,} tiles along {names[d]}"
        for d, count in drawn
        if d is not None and plane.parts(d) > count
    ]
    if cuts:
        yield f"not shown: {' and '.join(cuts)}"
    others = [d for d, part in enumerate(array.placement.parts) if part > 1 and d not in (plane.rows, plane.columns)]
    if others:
        where = ", ".join(
            f"{names[d]} {tile_range(array.shape.sizes[d], array.shard.sizes[d], plane.tile[d])}" for d in others
        )
        planes = prod(array.placement.parts[d] for d in others)
        yield f"drawn for {where}: 1 of {format_count(planes, 'planes')}"
    if any("+" in cell.text for row in grid.cells for cell in row):
        yield f"{array.placement.sharers:,} devices hold each tile; + counts those that are not listed"
