"""Expectations of a team about its modules, as a tree. The language is this tool's own, not XLA's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.where import ArithmeticOperator, Both, Condition, Number, Operand, Where
from hlo_cli.source import Source, Span

Function = Literal["count", "sum", "max", "min", "none", "exists", "max_peak"]
Limit = Literal["==", "!=", "<", "<=", ">", ">="]
SectionKind = Literal["module", "target"]

EVERYTHING: Final[Condition] = Both(())
"""The condition that matches everything."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A function of a number, or of no number, over all operations that match a condition; `span` is its text.

    For a peak, `space` is the memory space, and there is no condition.
    """

    function: Function
    where: Where
    field: Operand | None = None
    space: str = ""
    span: Span = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Golden:
    """The value of an assertion's left side in the golden module."""

    span: Span


@dataclass(frozen=True, slots=True)
class Calculation:
    """Two quantities joined by an operator; `span` covers both."""

    operator: ArithmeticOperator
    left: Term
    right: Term
    span: Span


Term: TypeAlias = "Quantity | Number | Golden | Calculation"


def quantities_in(term: Term) -> Iterator[Quantity]:
    """Yields the quantities of a term.

    >>> peak = Quantity("max_peak", Where(Source("", ""), EVERYTHING), space="hbm")
    >>> len(list(quantities_in(Calculation("+", peak, peak, Span(0, 0)))))
    2
    """
    match term:
        case Quantity():
            yield term
        case Calculation():
            yield from quantities_in(term.left)
            yield from quantities_in(term.right)


def golden_in(term: Term) -> Golden | None:
    """The first reference to the golden module in a term, if any.

    >>> golden_in(Calculation("*", Golden(Span(0, 6)), Number(2, "", "2", Span(9, 10)), Span(0, 10))).span.end
    6
    """
    match term:
        case Golden():
            return term
        case Calculation():
            return golden_in(term.left) or golden_in(term.right)
        case _:
            return None


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

    Both can be computed from several quantities.

    >>> quantity = Quantity("max_peak", Where(Source("", ""), EVERYTHING), space="hbm")
    >>> limit, file = Number(2, "bytes", "2", Span(15, 16)), Source("e.toml", "max_peak.hbm = 2")
    >>> Expectation("max_peak.hbm <= 2", quantity, "<=", limit, file, Span(0, 16)).place
    'e.toml:1'
    """

    text: str
    quantity: Term
    operator: Limit
    limit: Term
    source: Source
    span: Span
    why: str = ""
    sections: tuple[Section, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def uses_golden(self) -> bool:
        """Whether the limit depends on the golden module."""
        return golden_in(self.limit) is not None

    @property
    def place(self) -> str:
        """File and line, such as `e.toml:1`."""
        return f"{self.source.name}:{self.source.position(self.span.start).line}"
