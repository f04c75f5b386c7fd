"""Numbers computed from the fields of one object: `bytes * trips`.

A number without the field is None, and so is every result that it is part of. A lower bound stays one where the
result grows with it; else nothing is known of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from hlo_cli.analysis.partly_known import NOT_KNOWN, AtLeast
from hlo_cli.analysis.query.fields import Fields, FieldValue
from hlo_cli.analysis.query.units import Unit, combined, common, unit_of_kind, unit_of_number
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import Arithmetic, ArithmeticOperator, Field, Number, Operand, Relation, Where
from hlo_cli.source import HloError, Span

T = TypeVar("T")
Value = int | float | AtLeast

_VERBS: Final[dict[ArithmeticOperator, str]] = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_NUMERIC_FIELDS: Final = "use padded_bytes, bytes, flops, elements, or users; see `hlo help where` for all fields"


@dataclass(frozen=True, slots=True)
class Computed(Generic[T]):
    """Unit of a number and the function that computes it; None where a field is missing."""

    unit: Unit
    read: Callable[[T], Value | None]


def computed(where: Where, operand: Operand, fields: Fields[T]) -> Computed[T]:
    """The number of an arithmetic expression; HloError for unknown fields, those of text, and units that differ.

    >>> from hlo_cli.analysis.query.fields import Fields, Reader
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.conditions import parse_operand
    >>> length = Fields({"n": Reader("count", len)})
    >>> computed(Where(Source("", "n * 2"), None), parse_operand("n * 2"), length).read("four")
    8
    """
    match operand:
        case Number():
            value = operand.value
            return Computed(unit_of_number(operand), lambda thing: value)
        case Field():
            reader = fields.find(where, operand)
            unit = unit_of_kind(reader.kind)
            if unit is None:
                raise where.error(f"'{operand}' is not numeric", operand.span, _NUMERIC_FIELDS)
            read = reader.read
            return Computed(unit, lambda thing: number_of(read(thing)))
        case Arithmetic():
            return _arithmetic(where, operand, fields)


def number_of(value: FieldValue) -> Value | None:
    """Field value as a number: of a list of names, its length.

    >>> number_of(("a", "b")), number_of(3), number_of("text")
    (2, 3, None)
    """
    if isinstance(value, tuple):
        return len(value)
    return value if isinstance(value, int | float | AtLeast) else None


def check_units(where: Where, relation: Relation, left: Unit, right: Unit) -> None:
    """Raises HloError for a comparison of different units.

    >>> from hlo_cli.analysis.query.units import BYTES, COUNT
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.conditions import parse_where
    >>> where = parse_where("bytes * 2 > trips + 1")
    >>> check_units(where, where.condition, BYTES, COUNT)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:1: error: cannot compare bytes * 2 (a size in bytes) and trips + 1 (a number)
    """
    if common(left, right) is None:
        raise _unit_error(where, "compare", relation.left, left, relation.right, right, relation.span)


def calculated(symbol: ArithmeticOperator, left: Value, right: Value) -> Value | None:
    """Result of an operator for numbers that may be lower bounds; None for a division by zero.

    >>> calculated("*", AtLeast(2), 3), calculated("-", 5, 3), calculated("/", 1, 0)
    (AtLeast(number=6), 2, None)
    """
    a, b = (each.number if isinstance(each, AtLeast) else each for each in (left, right))
    if symbol == "/" and not b:
        return None
    if isinstance(left, AtLeast) or isinstance(right, AtLeast):
        grows = _grows(symbol, a, b, is_right_bound=isinstance(right, AtLeast))
        return AtLeast(_exact(symbol, a, b)) if grows else NOT_KNOWN
    return _exact(symbol, a, b)


def _arithmetic(where: Where, operand: Arithmetic, fields: Fields[T]) -> Computed[T]:
    left, right = computed(where, operand.left, fields), computed(where, operand.right, fields)
    symbol = operand.operator
    unit = combined(symbol, left.unit, right.unit)
    if unit is None:
        raise _unit_error(where, _VERBS[symbol], operand.left, left.unit, operand.right, right.unit, operand.span)
    first, second = left.read, right.read

    def read(thing: T) -> Value | None:
        a, b = first(thing), second(thing)
        return None if a is None or b is None else calculated(symbol, a, b)

    return Computed(unit, read)


def _unit_error(where: Where, verb: str, left: Operand, one: Unit, right: Operand, other: Unit, span: Span) -> HloError:
    first, second = (" ".join(where.source.slice(each.span).split()) for each in (left, right))
    hint = "both need the same unit" if verb != "multiply" else "multiply a size by a number"
    return where.error(f"cannot {verb} {first} ({one.words}) and {second} ({other.words})", span, hint)


def _exact(symbol: ArithmeticOperator, a: float, b: float) -> int | float:
    match symbol:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b


def _grows(symbol: ArithmeticOperator, a: float, b: float, *, is_right_bound: bool) -> bool:
    """Whether the result for lower bounds is itself a lower bound."""
    match symbol:
        case "+":
            return True
        case "-":
            return not is_right_bound
        case "*":
            return a >= 0 and b >= 0
        case "/":
            return not is_right_bound and a >= 0 and b > 0
