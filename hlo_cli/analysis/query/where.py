"""What a condition or a computed number says of an object: fields, units, arithmetic, and filter expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from hlo_cli.analysis.partly_known import NOT_KNOWN, ORDERS, AtLeast, both, compared, either
from hlo_cli.analysis.query.patterns import matcher
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Field,
    Flag,
    Not,
    Number,
    Operand,
    Relation,
    Text,
    Where,
)
from hlo_cli.source import FORMER_NAMES, HloError, Span, did_you_mean, nearest

# --- kinds of fields, and functions that read them ---


T = TypeVar("T")
MEASURED: Final = frozenset(
    ("time", "self_time", "mean_time", "calls", "achieved_bandwidth", "achieved_flops", "roofline_fraction")
)
"""Fields of measured operations, which only `hlo profile` has."""
Kind = Literal["text", "name", "names", "shape", "count", "bytes", "share", "seconds", "flag", "attribute"]
FieldValue: TypeAlias = "str | int | float | bool | tuple[str, ...] | AtLeast | None"
Predicate = Callable[[T], "bool | None"]
"""Test of an object; None if the result is unknown."""

PLURALS: Final = {f"{name}s": name for name in ("kernel", "product", "convolution", "collective", "host_transfer")}
"""Flags that can be written in the plural, as in `count(kernels)`."""
NUMBERS: Final = ("count", "bytes", "share", "seconds")


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Kind of a field and the function that reads it; None for an object without the field.

    `check` raises HloError for a comparison that can never be true, or always is.
    """

    kind: Kind
    read: Callable[[T], FieldValue]
    check: Callable[[Where, Comparison], None] | None = None


@dataclass(frozen=True, slots=True)
class Fields(Generic[T]):
    """Fields and functions that can be used for one kind of object.

    `places` are fields with elements, such as `dims[0]`; `attribute` returns readers for other names; `others` are such
    names, for suggestions.
    """

    readers: Mapping[str, Reader[T]]
    places: Mapping[str, Callable[[str], Reader[T] | None]] = field(default_factory=dict)
    attribute: Callable[[str], Reader[T] | None] = lambda name: None
    others: tuple[str, ...] = ()
    functions: Mapping[str, Callable[[Where, Call], Predicate[T]]] = field(default_factory=dict)

    def find(self, where: Where, asked: Field) -> Reader[T]:
        """Reader of a field; HloError with the nearest name if there is none."""
        if asked.place is None:
            name = PLURALS.get(asked.name, asked.name)
            if (reader := self.readers.get(name) or self.attribute(asked.name)) is not None:
                return reader
        elif (taken := self.places.get(asked.name)) is not None:
            if (reader := taken(asked.place)) is not None:
                return reader
            raise where.error(f"{asked.name} has no {asked.place}", asked.span)
        known = (*self.readers, *self.others)
        # The first field that begins like the name, as in `flop`, before the nearest one.
        close = next((name for name in known if name.startswith(asked.name)), None) or nearest(asked.name, known)
        hint = did_you_mean(close) if close != asked.name else None
        if "-" in asked.name and asked.name.partition("-")[0] in self.readers:
            hint = "write spaces around -"
        elif (former := FORMER_NAMES.get(asked.name)) is not None:
            hint = did_you_mean(former) if former in self.readers else f"renamed to {former}, a field of instructions"
        elif asked.name in MEASURED:
            hint = "only `hlo profile TRACE` has measured fields"
        raise where.error(f"unknown field '{asked}'", asked.span, hint or self._available())

    def _available(self) -> str:
        """The hint for an unknown field: the columns of a table, or where the fields of instructions are listed."""
        if self.places or not self.readers:
            return "see `hlo help where` for all fields"
        return f"available: {', '.join(self.readers)}"


# --- units: bytes can be added to bytes and divided by bytes, but not added to a count ---


NumberKind = Literal["count", "bytes", "share"]


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of a number: bytes to a power, -1 for "per byte".

    `is_share` means that the number can be written in percent: a share, or a ratio of numbers of the same unit.
    `is_constant` means that it is computed from plain numbers, which have the unit of what they are added to.

    >>> COUNT == Unit(), BYTES.power
    (True, 1)
    """

    power: int = 0
    is_share: bool = False
    is_constant: bool = False

    @property
    def kind(self) -> NumberKind:
        """The kind of number to show."""
        if self.power == 1:
            return "bytes"
        return "share" if self.is_share and not self.power else "count"

    @property
    def words(self) -> str:
        """The unit in a message."""
        if self.power == 1:
            return "a size in bytes"
        if self.power:
            return "a number per byte" if self.power == -1 else f"bytes to the power of {self.power}"
        return "a percentage" if self.is_share else "a number"

    @property
    def _is_plain(self) -> bool:
        return self.is_constant and not self.power and not self.is_share


COUNT: Final = Unit()
BYTES: Final = Unit(1)
SHARE: Final = Unit(is_share=True)
_BY_KIND: Final = {"count": COUNT, "names": COUNT, "bytes": BYTES, "share": SHARE, "seconds": COUNT}


def _unit_of_kind(kind: str) -> Unit | None:
    """Unit of a field of a kind; None if its values are not numbers. A list counts as its length.

    >>> _unit_of_kind("names") == COUNT, _unit_of_kind("text")
    (True, None)
    """
    return _BY_KIND.get(kind)


def unit_of_number(number: Number) -> Unit:
    """Unit of a number as written.

    >>> from hlo_cli.source import Span
    >>> unit_of_number(Number(2048, "bytes", "2KiB", Span(0, 4))).words
    'a size in bytes'
    """
    return Unit(power=int(number.unit == "bytes"), is_share=number.unit == "percent", is_constant=True)


def combined(symbol: ArithmeticOperator, left: Unit, right: Unit) -> Unit | None:
    """Unit of a result; None for a sum of different units, and for the product of two sizes.

    >>> combined("*", BYTES, COUNT) == BYTES, combined("/", BYTES, BYTES).kind, combined("+", BYTES, COUNT)
    (True, 'share', None)
    """
    is_constant = left.is_constant and right.is_constant
    if symbol in ("+", "-"):
        return common(left, right)
    power = left.power + (right.power if symbol == "*" else -right.power)
    # Square bytes have no meaning here.
    if abs(power) > 1:
        return None
    if symbol == "/":
        # A ratio of equal units is a share, unless the divisor is a number of the text.
        is_ratio = left.power == right.power and not right.is_constant
        return Unit(power, is_ratio or (left.is_share and right._is_plain), is_constant)
    is_share = (left.is_share or left._is_plain) and (right.is_share or right._is_plain)
    return Unit(power, is_share and (left.is_share or right.is_share) and not power, is_constant)


def common(left: Unit, right: Unit) -> Unit | None:
    """Unit in which two numbers can be compared or added; None if there is none.

    >>> common(BYTES, Unit(is_constant=True)) == BYTES, common(COUNT, Unit(is_share=True, is_constant=True))
    (True, None)
    """
    if left._is_plain:
        return Unit(right.power, right.is_share, right.is_constant)
    if right._is_plain:
        return left
    if left.power != right.power:
        return None
    # 50% is no size and no count: only shares compare with it.
    for one, other in ((left, right), (right, left)):
        if one.is_share and one.is_constant and not other.is_share:
            return None
    return Unit(left.power, left.is_share and right.is_share, left.is_constant and right.is_constant)


# --- numbers computed from the fields of one object, such as `bytes * trips` ---
# A number without the field is None, and so is every result that it is part of. A lower bound stays one where the
# result grows with it; else nothing is known of the result.


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

    >>> from hlo_cli.analysis.query.where import Fields, Reader
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
            unit = _unit_of_kind(reader.kind)
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


def _check_units(where: Where, relation: Relation, left: Unit, right: Unit) -> None:
    """Raises HloError for a comparison of different units.

    >>> from hlo_cli.analysis.query.where import BYTES, COUNT
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.conditions import parse_where
    >>> where = parse_where("bytes * 2 > trips + 1")
    >>> _check_units(where, where.condition, BYTES, COUNT)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:1: error: cannot compare bytes * 2 (a size in bytes) and trips + 1 (a number)
      help: both need the same unit
    """
    if common(left, right) is None:
        raise _unit_error(where, "compare", relation.left, left, relation.right, right, relation.span)


def _calculated(symbol: ArithmeticOperator, left: Value, right: Value) -> Value | None:
    """Result of an operator for numbers that may be lower bounds; None for a division by zero.

    >>> _calculated("*", AtLeast(2), 3), _calculated("-", 5, 3), _calculated("/", 1, 0)
    (AtLeast(number=6), 2, None)
    """
    a, b = (each.number if isinstance(each, AtLeast) else each for each in (left, right))
    if symbol == "/" and not b:
        return None
    if isinstance(left, AtLeast) or isinstance(right, AtLeast):
        grows = _grows(symbol, a, b, is_right_bound=isinstance(right, AtLeast))
        # A result that does not grow with its operands has no bound.
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
        return None if a is None or b is None else _calculated(symbol, a, b)

    return Computed(unit, read)


def _unit_error(
    where: Where, verb: str, left: Operand, unit: Unit, right: Operand, other_unit: Unit, span: Span
) -> HloError:
    first, second = (" ".join(where.source.slice(each.span).split()) for each in (left, right))
    hint = "both need the same unit" if verb != "multiply" else "multiply a size by a number"
    return where.error(f"cannot {verb} {first} ({unit.words}) and {second} ({other_unit.words})", span, hint)


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
            # Subtracting a lower bound gives an upper bound.
            return not is_right_bound
        case "*":
            return a >= 0 and b >= 0
        case "/":
            return not is_right_bound and a >= 0 and b > 0


# --- filter expressions ---
# A comparison with a missing value is false for every operator; `has` tests whether it exists. A comparison with an
# unknown value is None, and so is every result that depends on it.


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

    >>> from hlo_cli.analysis.query.where import Fields, Reader
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
        # An unknown value is not known to exist.
        return lambda thing: (value := reader.read(thing)) not in (None, ()) and not isinstance(value, AtLeast)
    if call.function not in fields.functions:
        raise where.error(f"{call.function}() applies only to instructions", call.span)
    return fields.functions[call.function](where, call)


def _relation(where: Where, relation: Relation, fields: Fields[T]) -> Predicate[T]:
    one, other = computed(where, relation.left, fields), computed(where, relation.right, fields)
    _check_units(where, relation, one.unit, other.unit)
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
        # A missing value makes every comparison false; negation is applied to known answers only.
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
    # Units are compared by kind: seconds are no bytes.
    if number.unit and kind != {"bytes": "bytes", "percent": "share", "seconds": "seconds"}[number.unit]:
        unit = (
            number.unit.replace("percent", "a percentage")
            .replace("bytes", "a size in bytes")
            .replace("seconds", "a time")
        )
        raise _kind_error(where, comparison, kind, f"{number.text} is {unit}")
    # 50 without a sign is meant as 50%, and is no share of 5,000%.
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
    # A glob in a comparison was meant as a pattern, unless it is a shape with brackets.
    if text.pattern == "glob" and not any(bracket in wanted for bracket in "[{"):
        hint = f'use ~ to match a pattern, or quote "{wanted}" to compare text'
        raise where.error(f"{comparison.operator} compares the whole text", text.span, hint)
    # Without braces a shape means any layout.
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
        # Thirty digits are enough for any integer of a text.
        return int(value[:30]) if isinstance(value, str) else None
    except ValueError:
        pass
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _kind_error(where: Where, comparison: Comparison, kind: Kind, why: str, hint: str | None = None) -> HloError:
    return where.error(f"{comparison.field} is {_KIND_NAMES[kind]}; {why}", comparison.span, hint)
