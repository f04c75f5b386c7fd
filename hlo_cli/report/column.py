"""Columns: what one is called, what its numbers count, and when it is worth its room."""

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
    "step",  # a position in the schedule
    "line",  # a line number
    "address",  # an offset, shown in hexadecimal
    "index",  # a tuple of integers, shown as (0,5)
    # first step, last step, whether something else is done meanwhile, and perhaps the step from which on nothing is:
    "span",  # a bar over all steps
    "flag",  # true or false
    "change",  # one of ~ + - >
    "name",  # what can be typed back into a command
    "shape",
    "opcode",
    "op_name",
    "source",  # file:line
    "text",
]

NUMERIC: Final[frozenset[str]] = frozenset(
    ("count", "bytes", "seconds", "percent", "ratio", "step", "line", "address", "index")
)
KEEP: Final = 9


CODE_UNITS: Final = frozenset(("name", "shape", "op_name", "source", "opcode"))
"""Units of cells that hold HLO text, in a monospaced font where a format has one."""


@dataclass(frozen=True, slots=True)
class Share:
    """How a percent column is totalled: the sum of column `part` over the sum of `whole`, or what is missing to it.

    >>> Share("logical_bytes", "padded_bytes", rest=True).of(1, 4)
    0.75
    """

    part: str
    whole: str
    rest: bool = False

    def of(self, part: int | float, whole: int | float) -> float | None:
        """The share for two given sums, None where there is nothing to share."""
        if not whole:
            return None
        return 1 - part / whole if self.rest else part / whole


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `name` is for machines and for `--columns` and `--sort`, `title` for people.

    `rank` says who leaves when there is no room, the lowest first; columns of rank `KEEP` leave only when
    shortening is not enough. `from_width` is the narrowest screen that shows it: 0, 120 or 200. A column for
    only one kind of reader is `person=False` or `machine=False`; asked for by name, both see it. A column of
    spans says how many `steps` there are, and which of them are `loops`; if they are parts of a time, how many
    `seconds` all of them take.

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
    group: str = ""  # a header over neighbouring columns of the same group
    like: str = ""  # the column that it shares a unit with, as what is after does with what was before
    exact: bool = False  # bytes in full, without a unit
    inline: bool = False  # the unit stands behind the title, not under it
    align: Literal["left", "right"] | None = None
    person: bool = True
    machine: bool = True
    steps: int = 0
    seconds: float = 0
    loops: tuple[Loop, ...] = ()

    @property
    def is_numeric(self) -> bool:
        """Whether its cells are numbers or places, which are never shortened."""
        return self.unit in NUMERIC

    @property
    def is_right_aligned(self) -> bool:
        """Whether cells end at the right edge: numbers do, unless `align` says otherwise."""
        return self.align == "right" if self.align else self.is_numeric
