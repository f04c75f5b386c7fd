"""The colors of graphs: of each kind of instruction, of numbers on a scale, and of changes.

The colors of kinds are those of `NodeColorsForScheme` in xla/service/hlo_graph_dumper.cc.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from hlo_cli.report.graph import Drawing
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds


class Paint(NamedTuple):
    """The colors of the area, the outline, and the text of a node."""

    fill: str
    line: str
    ink: str


_BLUE: Final = Paint("#1565c0", "#003c8f", "#ffffff")
_BROWN: Final = Paint("#bcaaa4", "#8c7b75", "#000000")
_DARK_GREEN: Final = Paint("#2e7d32", "#005005", "#ffffff")
_DARK_ORANGE: Final = Paint("#ffb74d", "#c88719", "#000000")
_GRAY: Final = Paint("#cfd8dc", "#9ea7aa", "#000000")
_GREEN: Final = Paint("#c8e6c9", "#97b498", "#000000")
_ORANGE: Final = Paint("#ffe0b2", "#cbae82", "#000000")
_PURPLE: Final = Paint("#e1bee7", "#af8eb5", "#000000")
_RED: Final = Paint("#ffcdd2", "#cb9ca1", "#000000")
_WHITE: Final = Paint("#ffffff", "#9e9e9e", "#000000")
_YELLOW: Final = Paint("#fff9c4", "#cbc693", "#000000")

KINDS: Final[dict[str, Paint]] = {
    "matmul": _BLUE,
    "reduction": _PURPLE,
    "elementwise": _YELLOW,
    "slice or sort": _YELLOW,
    "data movement": _GREEN,
    "precision": _RED,
    "fusion": _GRAY,
    "control flow": _DARK_GREEN,
    "custom call": _DARK_GREEN,
    "collective": _BROWN,
    "parameter": _DARK_ORANGE,
    "small parameter": _ORANGE,
    "constant": _WHITE,
    "scalar": _WHITE,
    "free": _WHITE,
    "other": _GRAY,
}
"""The color of each kind, in the order of legends."""

CHANGES: Final[dict[str, tuple[str, str]]] = {
    "added": ("+", "#1a7f37"),
    "removed": ("-", "#c0271f"),
    "changed": ("~", "#8a5a00"),
    "moved": (">", "#8e3a9d"),
}
"""The sign and the color of each change between two modules."""

_COLD, _HOT = "#fffaf3", "#d9480f"
_DARK_COLD, _DARK_HOT = "#1d242c", "#ff9d5c"
_DARK_PAPER: Final = "#11151a"
_MOST_WIDTH, _LEAST_WIDTH = 7.0, 0.6
_LEAST_BYTES: Final = 4096


def paints_of(drawing: Drawing) -> tuple[Paint, ...]:
    """The color of each node: of its kind, or of its number if the drawing has a scale."""
    if not drawing.heat:
        return tuple([KINDS.get(node.kind, KINDS["other"]) for node in drawing.nodes])
    most = most_heat(drawing)
    return tuple([heat_paint(share(node.heat, most)) for node in drawing.nodes])


def most_heat(drawing: Drawing) -> float:
    """The largest number of the nodes that are no boxes, at the end of the scale.

    >>> most_heat(Drawing((), ()))
    0
    """
    return max((node.heat for node in drawing.nodes if node.heat is not None and not node.clusters), default=0)


def amount(heat: str, value: float) -> str:
    """A number on the scale, with its unit.

    >>> amount("bytes", 4096.0), amount("flops", 1200.0), amount("time", 1e-6)
    ('4 KiB', '1,200 flops', '1.0 µs')
    """
    match heat:
        case "flops":
            return format_count(round(value), "flops")
        case "time":
            return format_seconds(value)
        case _:
            return format_bytes(round(value))


def line_width(bytes_: int) -> float:
    """The width of an edge: the logarithm of its bytes, from 0.6 to 7.

    >>> line_width(0), line_width(1 << 20), line_width(1 << 40)
    (0.6, 3.4, 7.0)
    """
    width = math.log2(max(1, bytes_ / _LEAST_BYTES)) * 0.42
    return round(max(_LEAST_WIDTH, min(_MOST_WIDTH, width)), 1)


def share(value: float | None, most: float) -> float:
    """The place of a number on the scale of colors, from 0 to 1: a square root, so that small numbers differ.

    >>> share(25, 100), share(None, 100), share(0, 0)
    (0.5, 0.0, 0.0)
    """
    return math.sqrt(max(0.0, value) / most) if value is not None and most > 0 else 0.0


def heat_paint(place: float) -> Paint:
    """The colors of a place on the scale.

    >>> heat_paint(0.0), heat_paint(1.0)
    (Paint(fill='#fffaf3', line='#bfbcb6', ink='#000000'), Paint(fill='#d9480f', line='#a3360b', ink='#ffffff'))
    """
    fill = mix(_COLD, _HOT, place)
    return Paint(fill, mix(fill, "#000000", 0.25), "#ffffff" if place > 0.75 else "#000000")


def dark_heat_paint(place: float) -> Paint:
    """The colors of a place on the scale, on a dark screen."""
    fill = mix(_DARK_COLD, _DARK_HOT, place)
    return Paint(fill, mix(fill, "#ffffff", 0.25), "#000000" if place > 0.55 else "#e6edf3")


def dark_paint(paint: Paint) -> Paint:
    """The colors of a kind on a dark screen: darker, unless they are dark already.

    >>> dark_paint(KINDS["matmul"]).ink, dark_paint(KINDS["fusion"]).ink
    ('#ffffff', '#e6edf3')
    """
    if paint.ink == "#ffffff":
        return Paint(paint.fill, mix(paint.fill, "#ffffff", 0.35), "#ffffff")
    if paint.fill == "#ffffff":
        return Paint("#20262d", "#5d6773", "#e6edf3")
    return Paint(mix(paint.fill, _DARK_PAPER, 0.62), mix(paint.fill, _DARK_PAPER, 0.2), "#e6edf3")


def mix(first: str, second: str, place: float) -> str:
    """The color at a place between two colors, from 0 to 1.

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    parts = zip(_parts(first), _parts(second), strict=True)
    return "#" + "".join(f"{math.floor(a + (b - a) * place + 0.5):02x}" for a, b in parts)


def _parts(color: str) -> Iterable[int]:
    return (int(color[at : at + 2], 16) for at in (1, 3, 5))
