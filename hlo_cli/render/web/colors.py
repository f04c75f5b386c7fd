"""The colors of pictures and pages, in a light and a dark scheme.

The ten of the buffers are Paul Tol's light scheme, made for readers with color vision deficiency, with two more; black
text is readable on all of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hlo_cli.report.text import Role

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
    wash="#f5f7f9", busy="#7f93a8", pick="#0a6a75", chosen="#e7f3f5", found="#f3df9f",
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
    return FIXED + (in_variables(rules) if variables else in_both(rules)) + fills


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


def in_both(css: str) -> str:
    """Rules with the colors of the light scheme, and again with those of the dark one for readers who prefer it.

    >>> print(in_both("p{{color:{ink}}}"))
    p{color:#1f2328}@media(prefers-color-scheme:dark){p{color:#e6edf3}}
    """
    light, dark = css.format_map(LIGHT._asdict()), css.format_map(DARK._asdict())
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
