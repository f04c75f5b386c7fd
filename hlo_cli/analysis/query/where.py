"""Compiles a filter expression to a predicate, given the readers of fields.

A comparison with a missing value is false for every operator; `has` tests whether it exists. A comparison with an
unknown value is None, and so is every result that depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from hlo_cli.analysis.partly_known import ORDERS, AtLeast, both, compared, either
from hlo_cli.analysis.query.computed import check_units, computed
from hlo_cli.analysis.query.fields import NUMBERS, Fields, FieldValue, Kind, Predicate, Reader
from hlo_cli.analysis.query.patterns import matcher
from hlo_cli.ir.expressions import (
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Field,
    Flag,
    Not,
    Number,
    Relation,
    Text,
    Where,
)
from hlo_cli.source import HloError

T = TypeVar("T")
Test = Callable[[FieldValue], "bool | None"]

_KIND_NAMES: Final[dict[Kind, str]] = {
    "text": "text",
    "name": "a name",
    "names": "a list of names",
    "shape": "a shape",
    "count": "a number",
    "bytes": "a size in bytes",
    "share": "a percentage from 0% to 100%",
    "seconds": "a time",
    "flag": "a flag",
    "attribute": "an attribute",
}
_LAYOUT = re.compile(r"\{[^{}]*\}")


def predicate(where: Where, fields: Fields[T]) -> Predicate[T]:
    """Predicate of an expression; HloError for unknown fields or comparisons of different kinds.

    >>> from hlo_cli.analysis.query.fields import Fields, Reader
    >>> from hlo_cli.syntax.conditions import parse_where
    >>> long = predicate(parse_where("n > 3"), Fields({"n": Reader("count", len)}))
    >>> long("four"), long("one")
    (True, False)
    """
    return _condition(where, where.condition, fields)


def _condition(where: Where, condition: Condition, fields: Fields[T]) -> Predicate[T]:
    match condition:
        case Not(part):
            negated = _condition(where, part, fields)
            return lambda thing: None if (answer := negated(thing)) is None else not answer
        case Both(parts):
            tests = [_condition(where, part, fields) for part in parts]
            return lambda thing: both(test(thing) for test in tests)
        case Either(parts):
            tests = [_condition(where, part, fields) for part in parts]
            return lambda thing: either(test(thing) for test in tests)
        case Flag(asked):
            return _flag(where, asked, fields)
        case Call():
            return _call(where, condition, fields)
        case Comparison():
            return _comparison(where, condition, fields)
        case Relation():
            return _relation(where, condition, fields)


def _flag(where: Where, asked: Field, fields: Fields[T]) -> Predicate[T]:
    reader = fields.find(where, asked)
    if reader.kind != "flag":
        hint = f"compare it ({asked} == …) or use has({asked})"
        raise where.error(f"{asked} is {_KIND_NAMES[reader.kind]}, not a flag", asked.span, hint)
    read = reader.read
    return lambda thing: None if isinstance(value := read(thing), AtLeast) else value is True


def _call(where: Where, call: Call, fields: Fields[T]) -> Predicate[T]:
    if call.function == "has":
        name, bracket, place = call.argument.text.partition("[")
        reader = fields.find(where, Field(name, call.argument.span, place.removesuffix("]") if bracket else None))
        return lambda thing: (value := reader.read(thing)) not in (None, ()) and not isinstance(value, AtLeast)
    if call.function not in fields.functions:
        raise where.error(f"{call.function}() applies only to instructions", call.span)
    return fields.functions[call.function](where, call)


def _relation(where: Where, relation: Relation, fields: Fields[T]) -> Predicate[T]:
    one, other = computed(where, relation.left, fields), computed(where, relation.right, fields)
    check_units(where, relation, one.unit, other.unit)
    return _compare_readers(one.read, relation.operator, other.read)


def _comparison(where: Where, comparison: Comparison, fields: Fields[T]) -> Predicate[T]:
    reader = fields.find(where, comparison.field)
    if reader.check is not None:
        reader.check(where, comparison)
    if (other := _other_field(comparison, reader, fields)) is not None:
        return _compare_readers(reader.read, comparison.operator, other.read)
    negative = comparison.operator in ("!=", "!~", "not in")
    tests = [_test(where, comparison, reader.kind, value) for value in comparison.values]
    test = tests[0] if len(tests) == 1 else lambda value: either(test(value) for test in tests)
    read = reader.read

    def holds(thing: T) -> bool | None:
        value = read(thing)
        if value is None:
            return False
        if isinstance(value, AtLeast) and reader.kind not in NUMBERS:
            return None
        answer = test(value)
        return None if answer is None else answer is not negative

    return holds


def _other_field(comparison: Comparison, reader: Reader[T], fields: Fields[T]) -> Reader[T] | None:
    """Field with which a number is compared, as in `padded_bytes > logical_bytes`."""
    value = comparison.values[0]
    if reader.kind not in NUMBERS or comparison.operator not in ORDERS or not isinstance(value, Text):
        return None
    other = fields.readers.get(value.text)
    return other if other is not None and other.kind in NUMBERS and len(comparison.values) == 1 else None


def _compare_readers(left: Callable[[T], FieldValue], sign: str, right: Callable[[T], FieldValue]) -> Predicate[T]:
    def holds(thing: T) -> bool | None:
        a, b = left(thing), right(thing)
        if isinstance(a, int | float | AtLeast) and isinstance(b, int | float | AtLeast):
            return compared(sign, a, b)
        return False

    return holds


def _test(where: Where, comparison: Comparison, kind: Kind, value: Number | Text) -> Test:
    """Test of a field value against one value of a comparison, without its negation."""
    sign = comparison.operator
    if sign in ("~", "!~"):
        if kind in (*NUMBERS, "flag"):
            raise _kind_error(where, comparison, kind, f"{sign} needs text", f"use {comparison.field} == …")
        text = value if isinstance(value, Text) else Text(value.text, value.span)
        return _each(kind, matcher(where, text))
    if isinstance(value, Number):
        return _number_test(where, comparison, kind, value)
    if sign in ("<", "<=", ">", ">="):
        unknown = kind in (*NUMBERS, "names", "attribute")
        message = f"'{value.text}' is not a number" if unknown else f"{sign} needs a number"
        raise _kind_error(where, comparison, kind, message, _spaces_hint(value) if unknown else None)
    return _text_test(where, comparison, kind, value)


def _number_test(where: Where, comparison: Comparison, kind: Kind, number: Number) -> Test:
    if kind in ("text", "name", "shape", "flag"):
        hint = f'to compare as text, write "{number.text}"' if kind != "flag" else "use true or false"
        raise _kind_error(where, comparison, kind, f"{number.text} is a number", hint)
    if number.unit and kind != {"bytes": "bytes", "percent": "share", "seconds": "seconds"}[number.unit]:
        unit = (
            number.unit.replace("percent", "a percentage")
            .replace("bytes", "a size in bytes")
            .replace("seconds", "a time")
        )
        raise _kind_error(where, comparison, kind, f"{number.text} is {unit}")
    if kind == "share" and abs(number.value) > 1:
        raise where.error(f"{comparison.field} is at most 100%", number.span, f"use {number.text}%")
    compare, limit = ORDERS[_without_negation(comparison.operator)], number.value
    match kind:
        case "names":
            return lambda value: isinstance(value, tuple) and compare(len(value), limit)
        case "attribute":
            return lambda value: (parsed := _as_number(value)) is not None and compare(parsed, limit)
        case _:
            sign = _without_negation(comparison.operator)
            return lambda value: isinstance(value, int | float | AtLeast) and compared(sign, value, limit)


def _text_test(where: Where, comparison: Comparison, kind: Kind, text: Text) -> Test:
    wanted = text.text
    if kind in NUMBERS:
        hint = (
            "write spaces around operators" if not text.is_quoted and any(mark in wanted for mark in "*/+-") else None
        )
        raise _kind_error(where, comparison, kind, f"'{wanted}' is not a number or a numeric field", hint)
    if kind == "flag":
        if wanted not in ("true", "false"):
            raise _kind_error(where, comparison, kind, f"'{wanted}' is not true or false")
        return lambda value: value is (wanted == "true")
    if text.pattern == "glob" and not any(bracket in wanted for bracket in "[{"):
        hint = f'use ~ to match a pattern, or quote "{wanted}" to compare text'
        raise where.error(f"{comparison.operator} compares the whole text", text.span, hint)
    if kind == "shape" and "{" not in wanted:
        return lambda value: isinstance(value, str) and wanted in (value, _LAYOUT.sub("", value))
    if kind in ("name", "names", "attribute"):
        wanted = wanted.removeprefix("%")
    return _each(kind, lambda value: value == wanted)


def _spaces_hint(text: Text) -> str | None:
    """Hint for a word that may be meant as arithmetic."""
    is_arithmetic = not text.is_quoted and any(mark in text.text for mark in "*/+-")
    return "write spaces around operators" if is_arithmetic else None


def _each(kind: Kind, test: Callable[[str], bool]) -> Test:
    """Test of one text, or of any in a list; the % that attributes have before names is ignored."""
    if kind == "names":
        return lambda value: isinstance(value, tuple) and any(test(name) for name in value)
    if kind == "attribute":
        return lambda value: isinstance(value, str) and test(value.removeprefix("%"))
    return lambda value: isinstance(value, str) and test(value)


def _without_negation(sign: str) -> str:
    return {"!=": "==", "not in": "in"}.get(sign, sign)


def _as_number(value: FieldValue) -> float | int | None:
    try:
        return int(value[:30]) if isinstance(value, str) else None
    except ValueError:
        pass
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _kind_error(where: Where, comparison: Comparison, kind: Kind, why: str, hint: str | None = None) -> HloError:
    return where.error(f"{comparison.field} is {_KIND_NAMES[kind]}; {why}", comparison.span, hint)
