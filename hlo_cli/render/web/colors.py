"""Which colors do pictures, pages, and the nodes of graphs have, on light and on dark screens?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from hlo_cli.report.graph import Drawing
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds
from hlo_cli.report.text import Role

# --- pictures and pages ---
# The colors of pictures and pages, in a light and a dark scheme.
#
# The ten of the buffers are Paul Tol's light scheme, made for readers with color vision deficiency, with two more;
# black text is readable on all of them.


BANDS: Final = (
    "#77aadd", "#ee8866", "#eedd88", "#44bb99", "#ffaabb",
    "#bbcc33", "#99ddff", "#c8a2d8", "#aaaa00", "#d8b58b",
)  # fmt: skip


class Scheme(NamedTuple):
    """The color of each element.

    Texts are `ink`, `quiet`, `alarm`, `name`, `waste`, `saving`, or `odd`, on `paper`, `wash`, or `chosen`, which is
    behind a selected row; `found` is behind searched words in `ink`. Bars are `busy`, what has no color of its own is
    `rest` or `other`, lines are `rule`, and `pick` marks a selection.
    """

    paper: str
    ink: str
    quiet: str
    rule: str
    other: str
    rest: str
    alarm: str
    name: str
    waste: str
    saving: str
    odd: str
    wash: str
    busy: str
    pick: str
    chosen: str
    found: str


LIGHT: Final = Scheme(
    paper="#ffffff", ink="#1f2328", quiet="#59636e", rule="#d8dee4", other="#b4bcc6", rest="#dde2e8",
    alarm="#c0271f", name="#0a6a75", waste="#8a5a00", saving="#1a7f37", odd="#8e3a9d",
    wash="#f5f7f9", busy="#7f93a8", pick="#0a6a75", chosen="#eaf5f7", found="#f3df9f",
)  # fmt: skip
DARK: Final = Scheme(
    paper="#11151a", ink="#e6edf3", quiet="#9aa4af", rule="#30363d", other="#5d6773", rest="#3a424b",
    alarm="#ff7b72", name="#56c2d0", waste="#d9a441", saving="#56d364", odd="#d48ae0",
    wash="#181d24", busy="#6f8296", pick="#56c2d0", chosen="#17323a", found="#5a4a1f",
)  # fmt: skip

_LOOKS: Final[dict[Role, str]] = {
    "strong": "font-weight:600", "quiet": "color:{quiet};fill:{quiet}", "name": "color:{name};fill:{name}",
    "waste": "color:{waste};fill:{waste}", "alarm": "color:{alarm};fill:{alarm}",
    "saving": "color:{saving};fill:{saving}", "even": "color:{name};fill:{name}", "odd": "color:{odd};fill:{odd}",
}  # fmt: skip

_PICTURE: Final = """\
svg.hlo .paper{{fill:{paper}}}
svg.hlo text{{fill:{ink}}}
svg.hlo .grid{{stroke:{rule}}}
svg.hlo .bracket{{stroke:{quiet}}}
svg.hlo .band{{stroke:{paper}}}
svg.hlo .other{{fill:{other}}}
svg.hlo .rest{{fill:{rest}}}
svg.hlo .total{{stroke:{ink}}}
svg.hlo .limit{{stroke:{alarm}}}
svg.hlo .peak{{stroke:{alarm}}}
svg.hlo .mark,svg.hlo .cross{{stroke:{ink}}}
svg.hlo .exposed{{fill:{waste}}}
svg.hlo .even-cell{{fill:{name};fill-opacity:.12}}
svg.hlo .odd-cell{{fill:{odd};fill-opacity:.12}}
svg.hlo .waste-cell{{fill:{waste};fill-opacity:.1}}
svg.hlo .strong-cell{{fill:{ink};fill-opacity:.2;stroke:{ink}}}
svg.hlo .line{{fill:none;stroke:{quiet}}}
"""

FIXED: Final = """\
svg.hlo{max-width:100%;height:auto;
font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif}
svg.hlo .code{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
svg.hlo .head{font-size:15px;font-weight:600}
svg.hlo .title{font-size:18px;font-weight:600}
svg.hlo .on{fill:#111;pointer-events:none}
svg.hlo .band{stroke-width:.6}
svg.hlo .thin{stroke-width:0}
svg.hlo .total,svg.hlo .bracket,svg.hlo .limit,svg.hlo .peak,svg.hlo .mark,svg.hlo .cross{fill:none}
svg.hlo .limit{stroke-width:1.5;stroke-dasharray:6 3}
svg.hlo .peak,svg.hlo .mark{stroke-dasharray:2 2}
svg.hlo .end{text-anchor:end}
svg.hlo .middle{text-anchor:middle}
"""


def picture_css(*, variables: bool = False) -> str:
    """The style of pictures: common rules, light colors, and dark ones for readers with a dark screen.

    With `variables`, for a page, the colors are those of the variables of the page.

    >>> "prefers-color-scheme:dark" in picture_css(), "prefers-color-scheme:dark" in picture_css(variables=True)
    (True, False)
    """
    fills = "".join(f"svg.hlo .b{at}{{fill:{color}}}\n" for at, color in enumerate(BANDS))
    rules = _PICTURE + roles("svg.hlo ")
    return FIXED + (in_variables(rules) if variables else _in_both(rules)) + fills


def in_variables(css: str) -> str:
    """Rules with the colors that the variables of a page hold, so that the page can change between its schemes.

    >>> in_variables("p{{color:{ink}}}")
    'p{color:var(--ink)}'
    """
    return css.format_map({name: f"var(--{name})" for name in Scheme._fields})


def variables() -> tuple[str, str]:
    """The variables with the colors of the light scheme, and of the dark one, as declarations.

    >>> variables()[0].partition(";")[0]
    '--paper:#ffffff'
    """
    light, dark = (
        ";".join(f"--{name}:{color}" for name, color in scheme._asdict().items()) for scheme in (LIGHT, DARK)
    )
    return f"{light};color-scheme:light", f"{dark};color-scheme:dark"


def page_variables() -> str:
    """The colors as CSS variables `--NAME`, and those of buffers as `--band-0` and on.

    The scheme is that of the reader's system, or `data-theme` of the root element, `light` or `dark`; print is light.

    >>> "--wash:#f5f7f9" in page_variables(), "--band-0:#77aadd" in page_variables()
    (True, True)
    """
    light, dark = (_variables(scheme) for scheme in (LIGHT, DARK))
    bands = "".join(f"--band-{at}:{color};" for at, color in enumerate(BANDS))
    return (
        f":root{{color-scheme:light;{bands}{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
    )


def _variables(scheme: Scheme) -> str:
    return "".join(f"--{name}:{color};" for name, color in scheme._asdict().items())


def roles(before: str = "") -> str:
    """One rule for each role, with placeholders for colors."""
    return "".join(f"{before}.{role}{{{{{look}}}}}\n" for role, look in _LOOKS.items())


def _in_both(css: str) -> str:
    """Rules with the colors of the light scheme, and again with those of the dark one for readers who prefer it.

    >>> print(_in_both("p{{color:{ink}}}"))
    p{color:#1f2328}@media(prefers-color-scheme:dark){p{color:#e6edf3}}
    """
    light, dark = css.format_map(LIGHT._asdict()), css.format_map(DARK._asdict())
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"


# --- graphs ---
# The colors of graphs: of each kind of instruction, of numbers on a scale, and of changes.
#
# The colors of kinds are those of `NodeColorsForScheme` in xla/service/hlo_graph_dumper.cc.


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

_COLORS: Final = (
    ("matmul", _BLUE),
    ("reduction", _PURPLE),
    ("elementwise, slicing or sorting", _YELLOW),
    ("data movement", _GREEN),
    ("precision", _RED),
    ("fusion, other", _GRAY),
    ("control flow, custom call", _DARK_GREEN),
    ("collective", _BROWN),
    ("parameter", _DARK_ORANGE),
    ("small parameter", _ORANGE),
    ("constant, scalar, free", _WHITE),
)
KINDS: Final = {kind: paint for kinds, paint in _COLORS for kind in kinds.split(", ")}
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
_LEAST_BYTES: Final = 4096  # up to a page of 4 KiB an edge is hair-thin: scalars and indices are most edges


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
