"""Columns: their names, units, and priorities when the screen is narrow."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.report.loop import Loop
    from hlo_cli.report.text import Role

Unit = Literal[
    "count",  # a number of things
    "bytes",
    "seconds",
    "percent",  # a fraction from 0 to 1, shown as a whole number of hundredths
    "ratio",  # a factor, shown with a times sign
    "flop/second",  # rates, shown with a decimal prefix: Tflop/s, GB/s
    "byte/second",
    "number",  # any number, shown with four digits
    "step",  # a position in the schedule
    "line",  # a line number
    "address",  # an offset, shown in hexadecimal
    "index",  # a tuple of integers, shown as (0,5)
    # first step, last step, whether compute overlaps, and optionally the first step without overlap:
    "span",  # a bar over all steps
    "range",  # first and last step as text, which is never shortened
    "flag",  # true or false
    "change",  # one of ~ + - >
    "name",  # a name that commands accept
    "shape",
    "opcode",
    "op_name",
    "source",  # file:line
    "page",  # the name of a file next to the report, a link on pages
    "text",
]

NUMERIC: Final[frozenset[str]] = frozenset(
    (
        *("count", "bytes", "seconds", "percent", "ratio", "flop/second", "byte/second", "number"),
        *("step", "line", "address", "index"),
    )
)
KEEP: Final = 9


CODE_UNITS: Final = frozenset(("name", "shape", "op_name", "source", "opcode"))
"""Units of cells that hold HLO text, in a monospaced font where a format has one."""


@dataclass(frozen=True, slots=True)
class Share:
    """The total of a percent column: the sum of column `part` over the sum of `whole`, or, with `rest`, one minus that.

    >>> Share("logical_bytes", "padded_bytes", rest=True).of(1, 4)
    0.75
    """

    part: str
    whole: str
    rest: bool = False

    def of(self, part: int | float, whole: int | float) -> float | None:
        """The share for two given sums, None if `whole` is 0."""
        if not whole:
            return None
        return 1 - part / whole if self.rest else part / whole


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `name` is for machines and for `--columns` and `--sort`, `title` for people.

    When the screen is too narrow, columns of the lowest `rank` are dropped first, those of rank `KEEP` only when
    shortening is not enough. `from_width` is the narrowest screen that shows the column: 0, 120, or 200.
    `person=False` or `machine=False` hides it from one kind of reader unless it is requested by name. A column of
    spans has the number of `steps` and their `loops`; if the steps are parts of a time, also the total in `seconds`.

    >>> Column("padded_bytes", "padded", "bytes", total="sum").is_numeric
    True
    """

    name: str
    title: str
    unit: Unit = "text"
    _: KW_ONLY
    rank: int = KEEP
    from_width: int = 0
    total: Literal["sum"] | Share | None = None
    role: Role | None = None
    group: str = ""  # a header over neighboring columns of the same group
    like: str = ""  # the column that it shares a unit with, such as `before` for `after`
    exact: bool = False  # bytes in full, without a unit
    inline: bool = False  # the unit is after the title, not below it
    align: Literal["left", "right"] | None = None
    person: bool = True
    machine: bool = True
    steps: int = 0
    seconds: float = 0
    is_measured: bool = False  # of spans: times that were measured, so that all bars are alike
    is_lane: bool = False  # rows with one text share lanes in a picture of spans; by default, those of one opcode
    loops: tuple[Loop, ...] = ()

    @property
    def is_numeric(self) -> bool:
        """Whether its cells are numbers or positions, which are never shortened."""
        return self.unit in NUMERIC

    @property
    def is_right_aligned(self) -> bool:
        """Whether cells are right-aligned: numbers are by default, `align` overrides it."""
        return self.align == "right" if self.align else self.is_numeric
