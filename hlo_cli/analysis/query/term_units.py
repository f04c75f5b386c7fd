"""Units of the terms of assertions; errors for those that do not fit together."""

from __future__ import annotations

from typing import Final, TypeVar

from hlo_cli.analysis.query.computed import computed
from hlo_cli.analysis.query.fields import Fields
from hlo_cli.analysis.query.units import BYTES, COUNT, Unit, combined, common, unit_of_number
from hlo_cli.analysis.query.where import predicate
from hlo_cli.ir.expressions import (
    ArithmeticOperator,
    Calculation,
    Expectation,
    Golden,
    Number,
    Quantity,
    Term,
    Where,
    quantities_in,
)
from hlo_cli.source import HloError, Span

T = TypeVar("T")
_VERBS: Final[dict[ArithmeticOperator, str]] = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


def check_units_of(expectation: Expectation, fields: Fields[T]) -> None:
    """Raises HloError for unknown fields, and for units that differ.

    >>> from hlo_cli.analysis.query.fields import Reader
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["sum(n) <= 2 * peak.hbm"]'))
    >>> check_units_of(stated, Fields({"n": Reader("count", len)}))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:1: error: cannot compare sum(n) (a number) and 2 * peak.hbm (a size in bytes)
    """
    quantity, limit = expectation.quantity, expectation.limit
    left = unit_of_term(quantity, fields)
    right = unit_of_term(limit, fields, golden=left)
    if common(left, right) is not None:
        return
    where = _place(quantity)
    if isinstance(limit, Number) and isinstance(quantity, Quantity):
        if quantity.field is None and not quantity.space:
            raise where.error(f"expected a number of operations, found {limit.text}", limit.span)
        measured = quantity.span if quantity.field is None else quantity.field.span
        raise where.error(f"wrong unit for {where.source.slice(measured)}: {limit.text}", limit.span)
    raise _unit_error(where, "compare", (quantity, left), (limit, right))


def unit_of_term(term: Term, fields: Fields[T], *, golden: Unit = COUNT) -> Unit:
    """Unit of a term; HloError for unknown fields, and for units that differ. `golden` is the unit of `golden`.

    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import parse_expectation
    >>> unit_of_term(parse_expectation("2 * peak.hbm <= golden")[0], Fields({})).words
    'a size in bytes'
    """
    match term:
        case Number():
            return unit_of_number(term)
        case Golden():
            return golden
        case Quantity():
            if term.space:
                return BYTES
            predicate(term.where, fields)
            return COUNT if term.field is None else computed(term.where, term.field, fields).unit
        case Calculation():
            left = unit_of_term(term.left, fields, golden=golden)
            right = unit_of_term(term.right, fields, golden=golden)
            unit = combined(term.operator, left, right)
            if unit is None:
                raise _unit_error(_place(term), _VERBS[term.operator], (term.left, left), (term.right, right))
            return unit


def _place(term: Term) -> Where:
    """The text that errors of a term are about."""
    return next(quantities_in(term)).where


def _unit_error(where: Where, verb: str, left: tuple[Term, Unit], right: tuple[Term, Unit]) -> HloError:
    texts = [" ".join(where.source.slice(term.span).split()) for term, _ in (left, right)]
    words = [f"{text} ({unit.words})" for text, (_, unit) in zip(texts, (left, right), strict=True)]
    hint = "multiply a size by a number" if verb == "multiply" else "both need the same unit"
    span = Span(left[0].span.start, right[0].span.end)
    return where.error(f"cannot {verb} {words[0]} and {words[1]}", span, hint)
