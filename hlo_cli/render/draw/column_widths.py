"""Fitting of a table to a screen: the columns to keep, and their widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hlo_cli.render.draw.cells import Entry
from hlo_cli.render.width import cell_width
from hlo_cli.report.column import KEEP, Column

GAP = 2
Widths = Mapping[str, int]

# cells by unit: width before others are dropped for it, width while others are shortened, minimum width
WANTED: Widths = MappingProxyType({"name": 32, "shape": 48, "op_name": 40, "source": 20, "opcode": 24, "span": 30})
FAIR: Widths = MappingProxyType({"name": 20, "shape": 20, "op_name": 24, "source": 20, "opcode": 16, "span": 20})
MIN_WIDTHS: Widths = MappingProxyType({"name": 10, "shape": 9, "op_name": 10, "source": 10, "opcode": 8, "span": 10})
TEXT = (60, 16, 9)
SHORTENED_IN_ORDER = (("span",), ("op_name", "source", "opcode", "text"), ("name",), ("shape",))


class Lane(NamedTuple):
    """A column ready to print: header lines from top to bottom, and one entry for each row."""

    column: Column
    header: tuple[str, ...]
    entries: tuple[Entry, ...]
    natural: int

    @property
    def header_width(self) -> int:
        """The width of the header in cells."""
        return max(map(cell_width, self.header), default=0)


def lane_of(column: Column, header: tuple[str, ...], entries: Sequence[Entry]) -> Lane:
    """A lane with its natural width: that of its widest text.

    >>> lane_of(Column("n", "count", "count"), ("count",), (Entry("3"),)).natural
    5
    """
    texts = max((cell_width(entry.lead) + cell_width(entry.text) for entry in entries), default=0)
    return Lane(column, header, tuple(entries), max(texts, max(map(cell_width, header), default=0)))


def fit(lanes: Sequence[Lane], room: int, *, sorted_by: str = "", label: str = "") -> list[tuple[Lane, int]]:
    """The lanes that stay and their widths, together at most `room` cells.

    Columns of low rank are dropped first, then texts, names, and finally shapes are shortened. Numbers, the sort
    column, and the label column are dropped only if no other column is left.

    >>> name, size = Column("name", "", "name"), Column("bytes", "", "bytes")
    >>> lanes = [lane_of(name, (), (Entry("x" * 50),)), lane_of(size, (), (Entry("1,024"),))]
    >>> [width for _, width in fit(lanes, 40)]
    [33, 5]
    """
    staying = list(lanes)
    for leaver in _low_ranks(lanes, sorted_by):
        if _total(_limited(staying, WANTED, TEXT[0])) <= room:
            break
        staying.remove(leaver)
    for leaver in _last_to_leave(staying, sorted_by, label):
        if _total(_limited(staying, MIN_WIDTHS, TEXT[2])) <= room:
            break
        staying.remove(leaver)
    widths = _grown(staying, _limited(staying, WANTED, TEXT[0]), room)
    for floors, text in ((FAIR, TEXT[1]), (MIN_WIDTHS, TEXT[2])):
        for units in SHORTENED_IN_ORDER:
            _shrink(staying, widths, room, units, _limited(staying, floors, text))
    if staying and _total(widths) > room:
        widths[-1] = max(1, widths[-1] - (_total(widths) - room))
    return list(zip(staying, widths, strict=True))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _limited(lanes: Sequence[Lane], limits: Widths, text: int) -> list[int]:
    return [
        lane.natural
        if _is_rigid(lane.column)
        else min(lane.natural, max(limits.get(lane.column.unit, text), lane.header_width))
        for lane in lanes
    ]


def _is_rigid(column: Column) -> bool:
    """Whether its texts are never shortened: numbers, ranges, and columns aligned like numbers."""
    return column.is_right_aligned or column.is_numeric or column.unit in ("flag", "change", "range")


def _low_ranks(lanes: Sequence[Lane], sorted_by: str) -> list[Lane]:
    may = [
        (lane.column.rank, -at, lane)
        for at, lane in enumerate(lanes)
        if lane.column.rank < KEEP and not _is_rigid(lane.column) and lane.column.name != sorted_by
    ]
    return [lane for _, _, lane in sorted(may, key=_first_two)]


def _last_to_leave(lanes: Sequence[Lane], sorted_by: str, label: str) -> list[Lane]:
    def reluctance(lane: Lane) -> int:
        if lane.column.name == sorted_by:
            return 3
        return 2 if lane.column.name == label else int(_is_rigid(lane.column))

    may = [(reluctance(lane), lane.column.rank, -at, lane) for at, lane in enumerate(lanes)]
    return [lane for *_, lane in sorted(may, key=lambda each: each[:3])][:-1]


def _first_two(each: tuple[int, int, Lane]) -> tuple[int, int]:
    return each[:2]


def _grown(lanes: Sequence[Lane], widths: list[int], room: int) -> list[int]:
    for at, lane in enumerate(lanes):
        widths[at] += max(0, min(lane.natural - widths[at], room - _total(widths)))
    return widths


def _shrink(lanes: Sequence[Lane], widths: list[int], room: int, units: tuple[str, ...], floors: Sequence[int]) -> None:
    may = [at for at, lane in enumerate(lanes) if lane.column.unit in units]
    for _ in range(_total(widths) - room):
        open_lanes = [at for at in may if widths[at] > floors[at]]
        if not open_lanes:
            return
        widths[max(open_lanes, key=lambda at: widths[at])] -= 1
