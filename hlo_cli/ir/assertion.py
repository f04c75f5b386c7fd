"""Expectations: what a team states of its modules, as a tree. The language is this tool's own, not XLA's."""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.where import Both, Condition, Field, Number, Where
from hlo_cli.source import Source, Span

Function = Literal["count", "sum", "max", "min", "none", "exists", "max_peak"]
Limit = Literal["==", "!=", "<", "<=", ">", ">="]
SectionKind = Literal["module", "target"]

EVERYTHING: Final[Condition] = Both(())
"""The condition that holds of everything."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is counted or added up: a function of a field, or of none, over all operations that a condition holds of.

    Of a peak, `space` is the memory that is meant, and there is no condition.
    """

    function: Function
    where: Where
    field: Field | None = None
    space: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Of which modules something is expected: those of a name, or those compiled for a target."""

    kind: SectionKind
    pattern: str

    def __str__(self) -> str:
        return f"{self.kind} {self.pattern}"


@dataclass(frozen=True, slots=True)
class Expectation:
    """That a quantity keeps to a limit in the modules of all its sections, with why, and where in which file it stands.

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
        """File and line, as people write them."""
        return f"{self.source.name}:{self.source.position(self.span.start).line}"
