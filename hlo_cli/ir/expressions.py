"""What users ask of modules, as trees: conditions of `--where`, and expectations of a team in a file.

The languages are this tool's own, not XLA's; `syntax/conditions.py` and `syntax/expectations.py` read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, Source, Span

# --- conditions ---
# A `--where` expression as a tree. The language is this tool's own, not XLA's.


Operator = Literal["==", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "not in"]
Pattern = Literal["part", "glob", "expression"]
ArithmeticOperator = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Field:
    """The left side of a comparison: a field, or one item of it, such as `dims[0]`.

    >>> str(Field("dims", Span(0, 7), "0"))
    'dims[0]'
    """

    name: str
    span: Span
    place: str | None = None

    def __str__(self) -> str:
        return self.name if self.place is None else f"{self.name}[{self.place}]"


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, and its unit: bytes, percent, seconds, or none.

    >>> Number(2048, "bytes", "2KiB", Span(0, 4)).value
    2048
    """

    value: int | float
    unit: Literal["", "bytes", "percent", "seconds"]
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers joined by an operator; `span` covers both.

    >>> bytes_, trips = Field("bytes", Span(0, 5)), Field("trips", Span(8, 13))
    >>> Arithmetic("*", bytes_, trips, Span(0, 13)).operator
    '*'
    """

    operator: ArithmeticOperator
    left: Operand
    right: Operand
    span: Span


Operand: TypeAlias = "Field | Number | Arithmetic"
"""A number that can be computed for each object."""


@dataclass(frozen=True, slots=True)
class Text:
    """A name or other text. Quoted, it is a regular expression if a pattern is expected; unquoted, it is a glob.

    >>> Text("fusion*", Span(0, 7)).pattern, Text("fusion", Span(0, 6)).pattern
    ('glob', 'part')
    """

    text: str
    span: Span
    is_quoted: bool = False

    @property
    def pattern(self) -> Pattern:
        """The pattern of this text: exact, a glob, or a regular expression."""
        if self.is_quoted:
            return "expression"
        return "glob" if any(wild in self.text for wild in "*?…") else "part"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a field with one value, or with several for `in`."""

    field: Field
    operator: Operator
    values: tuple[Number | Text, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Relation:
    """A comparison of two numbers of which at least one is computed, such as `bytes * trips > 1GiB`."""

    left: Operand
    operator: Operator
    right: Operand
    span: Span


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean field on its own."""

    field: Field


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one name, such as `uses(%a)`; `span` covers the function's name.

    With `is_pattern`, as in `uses(~copy)`, the argument is matched as by the operator `~`.
    """

    function: str
    argument: Text
    span: Span
    is_pattern: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """True where its part is false."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Both:
    """True where all parts joined by `and` are."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """True where any part joined by `or` is."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = "Comparison | Relation | Flag | Call | Not | Both | Either"


@dataclass(frozen=True, slots=True)
class Where:
    """A whole expression with its text, so that errors can be shown in place.

    >>> where = Where(Source("", "fused"), Flag(Field("fused", Span(0, 5))))
    >>> where.error("no", where.condition.field.span).diagnostic.span
    Span(start=0, end=5)
    """

    source: Source
    condition: Condition

    def error(self, message: str, span: Span, hint: str | None = None) -> HloError:
        """An error at a span of the expression."""
        return HloError(message, span, source=self.source, hint=hint)


# --- expectations ---
# Expectations of a team about its modules, as a tree. The language is this tool's own, not XLA's.


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
