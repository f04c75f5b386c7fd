"""Colors: the style of each role on a terminal, in its own eight colors and without backgrounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from hlo_cli.render.width import cell_width, take
from hlo_cli.report.text import Line, Role, Run, plain_text

LOOKS: Mapping[Role, str] = MappingProxyType({
    "strong": "bold", "quiet": "dim", "name": "cyan", "waste": "yellow",
    "alarm": "red", "saving": "green", "even": "cyan", "odd": "magenta",
})  # fmt: skip


def painter(*, color: bool) -> Callable[[Line], str]:
    r"""A function from a line to text, with escape sequences if `color`.

    >>> painter(color=True)((Run("fusion.2", "name"), Run(" is big")))
    '\x1b[36mfusion.2\x1b[0m is big'
    >>> painter(color=False)((Run("fusion.2", "name"), Run(" is big")))
    'fusion.2 is big'
    """
    return _painted if color else plain_text


def cut_line(line: Line, room: int, dots: str) -> Line:
    """The line cut to `room` cells; a cut line ends in dots.

    >>> plain_text(cut_line((Run("abc", "name"), Run("def")), 4, "…"))
    'abc…'
    """
    if sum(cell_width(run.text) for run in line) <= room:
        return line
    kept: list[Run] = []
    left = room - len(dots)
    for run in line:
        part = take(run.text, left)
        kept.append(Run(part, run.role))
        left -= cell_width(part)
        if part != run.text:
            break
    return tuple(kept) if kept[-1].text.endswith(dots) else (*kept, Run(dots, "quiet"))


def _painted(line: Line) -> str:
    out: list[str] = []
    at = 0
    while at < len(line):
        end, role = at + 1, line[at].role
        while end < len(line) and line[end].role == role:
            end += 1
        text = "".join(run.text for run in line[at:end])
        begin, stop = _codes(role) if text.strip() else ("", "")
        out.append(f"{begin}{text}{stop}")
        at = end
    return "".join(out)


@cache
def _codes(role: Role) -> tuple[str, str]:
    from rich.color import ColorSystem
    from rich.style import Style

    if role not in LOOKS:
        return "", ""
    begin, _, end = Style.parse(LOOKS[role]).render("|", color_system=ColorSystem.STANDARD).partition("|")
    return begin, end
