"""Conditions: a `--where` expression as a tree. The language is this tool's own, not XLA's."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, Source, Span

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
