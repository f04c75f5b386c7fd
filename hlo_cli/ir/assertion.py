"""Expectations of a team about its modules, as a tree. The language is this tool's own, not XLA's."""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.where import Both, Condition, Field, Number, Where
from hlo_cli.source import Source, Span

Function = Literal["count", "sum", "max", "min", "none", "exists", "max_peak"]
Limit = Literal["==", "!=", "<", "<=", ">", ">="]
SectionKind = Literal["module", "target"]

EVERYTHING: Final[Condition] = Both(())
"""The condition that matches everything."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A function of a field, or of no field, over all operations that match a condition.

    For a peak, `space` is the memory space, and there is no condition.
    """

    function: Function
    where: Where
    field: Field | None = None
    space: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """The modules that an expectation applies to: those of a name, or those compiled for a target."""

    kind: SectionKind
    pattern: str

    def __str__(self) -> str:
        return f"{self.kind} {self.pattern}"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A limit on a quantity in the modules of all its sections, with its reason, and its place in a file.

    >>> quantity = Quantity("max_peak", Where(Source("", ""), EVERYTHING), space="hbm")
    >>> limit, file = Number(2, "bytes", "2", Span(15, 16)), Source("e.toml", "max_peak.hbm = 2")
    >>> Expectation("max_peak.hbm <= 2", quantity, "<=", limit, file, Span(0, 16)).place
    'e.toml:1'
    """

    text: str
    quantity: Quantity
    operator: Limit
    limit: Number
    source: Source
    span: Span
    why: str = ""
    sections: tuple[Section, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def place(self) -> str:
        """File and line, such as `e.toml:1`."""
        return f"{self.source.name}:{self.source.position(self.span.start).line}"
