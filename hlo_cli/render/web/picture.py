"""Pictures of tracks: the buffers as stacked areas, with the peak, the limit, the axes, and a legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hlo_cli.render.truncate import shorten_text
from hlo_cli.render.web.markup import safe, safe_lines, short, shortened
from hlo_cli.render.web.stack import Layer, Stack
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.timeline import Band

LEFT: Final = 70
WIDTH: Final = 720
HEIGHT: Final = 240
PAGE_WIDTH: Final = 1100
GLYPH: Final = 7.3  # the width of a character of code
MIN_LABEL_HEIGHT: Final = 12
MIN_EDGED_HEIGHT: Final = 3  # the outline of a thinner area would hide it
MAX_TEXT_LENGTH: Final = 300
LEGEND_GAP: Final = 26
LEGEND_INDENT: Final = 18
LEGEND_SIZE: Final = 78  # the room of a number of bytes
LEGEND_ROW: Final = 19
MIN_LEGEND: Final = 200


class Room(NamedTuple):
    """The width of a picture, the left edge and the width of its charts, and its name as a class.

    The legend is right of a chart in a wide picture, and below it in a narrow one.
    """

    page: int
    left: int
    width: int
    name: str = ""

    @property
    def is_narrow(self) -> bool:
        """Whether nothing fits right of the chart."""
        return self.page - self.left - self.width < MIN_LEGEND

    @property
    def right(self) -> int:
        """The right edge of the charts."""
        return self.left + self.width


WIDE: Final = Room(PAGE_WIDTH, LEFT, WIDTH, "wide")
NARROW: Final = Room(360, 52, 296, "narrow")


class Frame(NamedTuple):
    """The frame of a chart: its upper edge, its columns, the bytes of its height, and its place in the width."""

    top: float
    columns: int
    scale: int
    room: Room = WIDE

    def x(self, column: float) -> float:
        """The x coordinate of the left edge of a column."""
        return self.room.left + column * self.room.width / self.columns

    def y(self, value: float) -> float:
        """The y coordinate of a number of bytes."""
        return self.top + HEIGHT - (value * HEIGHT / self.scale if self.scale else 0)


def areas(stack: Stack, frame: Frame, key: str) -> Iterator[str]:
    """The layers, the line of the totals above them, and the names of layers with room for one.

    >>> from hlo_cli.render.web.stack import stack_of
    >>> from hlo_cli.report.timeline import Track
    >>> track = Track("HBM", (8, 8), (Band("a", 0, 1, 8),))
    >>> next(areas(stack_of(track), Frame(0, 2, 8), "t0")).partition("<title>")[0]
    '<path class="band b0" data-b="t0b0" data-v="a" d="M70 0H790V240H70Z">'
    """
    for layer in stack.layers:
        looks = f"band b{layer.rank}" if layer.rank is not None else "band other" if layer.band else "band rest"
        if layer.band and layer.band.bytes * HEIGHT < MIN_EDGED_HEIGHT * frame.scale:
            looks += " thin"
        linked = f' data-b="{key}b{layer.rank}"' if layer.rank is not None else ""
        linked += f' data-v="{safe(layer.band.label)}"' if layer.band else ""
        words = [rest_words(stack)] if layer.band is None else band_words(layer.band, stack.scale.peak)
        title = safe_lines(words[:1] if frame.room.is_narrow else words)  # details are in the wide form and the table
        yield f'<path class="{looks}"{linked} d="{outline(layer, frame)}"><title>{title}</title></path>'
    yield f'<path class="total" d="{_edge(stack.totals, frame)}"/>'
    for layer in stack.layers:
        yield from _label(layer, frame)


def outline(layer: Layer, frame: Frame) -> str:
    """The path around a layer: along its upper edge to the right, and back along the lower one."""
    runs = list(layer.runs)
    first = runs[0][0]
    there = "".join(
        f"V{short(frame.y(layer.tops[start - first]))}H{short(frame.x(end))}" if start > first else
        f"M{short(frame.x(start))} {short(frame.y(layer.tops[0]))}H{short(frame.x(end))}"
        for start, end in runs
    )  # fmt: skip
    back = "".join(
        f"V{short(frame.y(layer.bottoms[start - first]))}H{short(frame.x(start))}" for start, _ in reversed(runs)
    )
    return f"{there}{back}Z"


def rest_words(stack: Stack) -> str:
    """The name of the layer of all buffers that are not drawn separately.

    >>> from hlo_cli.render.web.stack import stack_of
    >>> from hlo_cli.report.timeline import Track
    >>> rest_words(stack_of(Track("HBM", (9,), (Band("a", 0, 0, 0),))))
    '1 smaller buffer'
    """
    return format_count(stack.smaller, "smaller buffers") if stack.smaller else "other memory"


def band_words(band: Band, peak: int) -> list[str]:
    """The properties of a buffer, one per line.

    >>> band_words(Band("copy.10", 15, 17, 661504, kind="temp", source="model.py:3"), 3676160)
    ['copy.10', '646 KiB, 18% of the peak', 'steps 15–17, temp', 'model.py:3']
    """
    size = format_bytes(band.bytes)
    share = band.bytes / peak if peak else 0
    steps = f"steps {band.start:,}–{band.end:,}" if band.end > band.start else f"step {band.start:,}"
    words = (
        band.label, band.shape,
        f"{size}, {format_percent(share)}% of the peak",
        f"{steps}, {band.kind}" if band.kind else steps,
        band.op_name, band.source,
    )  # fmt: skip
    return [shorten_text(text, MAX_TEXT_LENGTH) for text in words if text]


def legend(stack: Stack, frame: Frame, key: str, top: float) -> tuple[list[str], float]:
    """The largest buffers at the peak with their sizes, the size of all others there, and the lower edge.

    It begins at `top`, right of the chart or, in a narrow picture, below it.
    """
    if not stack.largest:
        return [], top
    room = frame.room
    left = room.left if room.is_narrow else room.right + LEGEND_GAP
    at = top + 12
    drawn = [f'<text class="quiet" x="{left}" y="{short(at)}">At the peak</text>']
    length = int((room.page - left - LEGEND_INDENT - LEGEND_SIZE) / GLYPH)
    for rank, band in enumerate(stack.largest):
        at += LEGEND_ROW
        name = shortened(band.label, length)
        drawn.append(
            f'<g data-b="{key}b{rank}" data-v="{safe(band.label)}">'
            f"<title>{safe_lines(band_words(band, stack.scale.peak))}</title>"
            f'<rect class="b{rank}" x="{left}" y="{short(at - 10)}" width="11" height="11"/>'
            f'<text class="code" x="{left + LEGEND_INDENT}" y="{short(at)}">{safe(name)}</text>'
            f"{_size(band.bytes, room, at)}</g>"
        )
    rest = stack.scale.peak - sum(band.bytes for band in stack.largest)
    if rest > 0:
        at += LEGEND_ROW
        words = f'<text class="quiet" x="{left + LEGEND_INDENT}" y="{short(at)}">Other buffers</text>'
        swatch = f'<rect class="other" x="{left}" y="{short(at - 10)}" width="11" height="11"/>'
        drawn.append(f"{swatch}{words}{_size(rest, room, at)}")
    return drawn, at + 8


def limit_line(limit: int | None, frame: Frame) -> Iterator[str]:
    """The line of the limit, if it is within the picture."""
    if limit is None:
        return
    y = frame.y(limit)
    room = frame.room
    yield f'<path class="limit" d="M{room.left} {short(y)}h{room.width}"/>'
    words = f"limit {format_bytes(limit)}"
    baseline = short(y + 13 if y < frame.top + 12 else y - 4)
    yield f'<text class="alarm end" x="{room.right - 4}" y="{baseline}">{words}</text>'


def _size(value: int, room: Room, at: float) -> str:
    x = min(room.page - 10, room.left + room.width) if room.is_narrow else room.page - 10
    return f'<text class="end" x="{x}" y="{short(at)}">{format_bytes(value)}</text>'


def _edge(totals: Sequence[int], frame: Frame) -> str:
    path = [f"M{frame.room.left} {short(frame.y(totals[0]))}"]
    path += [
        f"H{short(frame.x(column))}V{short(frame.y(totals[column]))}"
        for column in range(1, len(totals))
        if totals[column] != totals[column - 1]
    ]
    return "".join(path) + f"H{frame.room.right}"


def _label(layer: Layer, frame: Frame) -> Iterator[str]:
    """The name of a buffer in its longest stretch at one height, if it is tall and wide enough there."""
    if layer.band is None or frame.scale == 0 or layer.band.bytes * HEIGHT < MIN_LABEL_HEIGHT * frame.scale:
        return
    start, end = max(layer.runs, key=lambda run: run[1] - run[0])
    room = int((frame.x(end) - frame.x(start) - 8) / GLYPH)
    if room < min(len(layer.band.label), 8):
        return
    middle = layer.bottoms[start - layer.start] + layer.band.bytes / 2
    on = " on" if layer.rank is not None else " off"
    yield (
        f'<text class="code middle{on}" x="{short((frame.x(start) + frame.x(end)) / 2)}"'
        f' y="{short(frame.y(middle) + 4)}">{safe(shortened(layer.band.label, room))}</text>'
    )


def document(
    elements: list[str], height: float, *, style: str = "", title: str = "", label: str = "", room: Room = WIDE
) -> Iterator[str]:
    """The root element of a picture, with one line for each element in it; `label` is for screen readers."""
    size = f'viewBox="0 0 {room.page} {short(height)}" width="{room.page}" height="{short(height)}"'
    named = f' aria-label="{safe(label)}"' if label else ""
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="hlo {room.name}" {size} role="img"{named}>\n'
    yield f"<title>{safe(title)}</title>\n{style}\n" if title else ""
    yield f'<rect class="paper" width="{room.page}" height="{short(height)}"/>\n'
    for element in elements:
        yield element + "\n"
    yield "</svg>\n"
