"""Do assertions on a module hold, what values were measured, and which assertions cannot fail?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from math import inf, isinf, isnan
from typing import Final, TypeVar

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.partly_known import ORDERS, AtLeast, ranges_compared
from hlo_cli.analysis.query.logical_operations import (
    LogicalOperation,
    counted_once,
    logical_operations,
    operation_fields,
)
from hlo_cli.analysis.query.module_summary import program_stage
from hlo_cli.analysis.query.patterns import LoweredForm, call_matcher, lowered_forms
from hlo_cli.analysis.query.where import (
    BYTES,
    COUNT,
    PLURALS,
    Computed,
    Fields,
    Kind,
    Predicate,
    Unit,
    combined,
    common,
    computed,
    predicate,
    unit_of_number,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Both,
    Calculation,
    Call,
    Comparison,
    Condition,
    Either,
    Expectation,
    Field,
    Flag,
    Golden,
    Limit,
    Not,
    Number,
    Operand,
    Quantity,
    Relation,
    Term,
    Text,
    Where,
    quantities_in,
)
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import memory_space, space_number
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source, Span

# --- bounds of a result, given the bounds of both operands ---


Interval = tuple[float, float]
UNBOUNDED: Final[Interval] = (-inf, inf)
NOT_NEGATIVE: Final[Interval] = (0, inf)


def interval_of(symbol: ArithmeticOperator, left: Interval, right: Interval) -> Interval:
    """Bounds of the result of an operator; unbounded for a division by an interval that contains 0.

    >>> interval_of("-", (0, 3), (1, 2)), interval_of("*", (0, inf), (0, 0)), interval_of("/", (4, 8), (2, inf))
    ((-2, 2), (0, 0), (0, 4.0))
    """
    # The quotient may be anything around a pole, so no bound is left.
    if symbol == "/" and right[0] <= 0 <= right[1]:
        return UNBOUNDED
    ends = [result_of(symbol, a, b) for a, b in product(left, right)]
    return min(ends), max(ends)


def result_of(symbol: ArithmeticOperator, a: float, b: float) -> float:
    """Result of an operator for ends of intervals: 0 times infinity is 0.

    >>> result_of("*", 0, inf), result_of("/", 3, inf), result_of("+", 1, 2)
    (0, 0, 3)
    """
    if symbol == "*":
        # Zero times infinity is zero: a count of nothing is nothing, whatever each would cost.
        return a * b if a and b else 0
    if symbol == "/":
        return inf if not b else 0 if isinf(b) else a / b
    found = a + b if symbol == "+" else a - b
    return 0 if isnan(found) else found


# --- units of terms, and errors for those that do not fit together ---


T = TypeVar("T")
_VERBS: Final[dict[ArithmeticOperator, str]] = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


def _check_units_of(expectation: Expectation, fields: Fields[T]) -> None:
    """Raises HloError for unknown fields, and for units that differ.

    >>> from hlo_cli.analysis.query.where import Reader
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["sum(n) <= 2 * peak.hbm"]'))
    >>> _check_units_of(stated, Fields({"n": Reader("count", len)}))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:1: error: cannot compare sum(n) (a number) and 2 * peak.hbm (a size in bytes)
      help: both need the same unit
    """
    quantity, limit = expectation.quantity, expectation.limit
    left = _unit_of_term(quantity, fields)
    # Golden takes the unit of the other side, so it fits whatever is measured.
    right = _unit_of_term(limit, fields, golden=left)
    if common(left, right) is not None:
        return
    where = _place(quantity)
    if isinstance(limit, Number) and isinstance(quantity, Quantity):
        if quantity.field is None and not quantity.space:
            raise where.error(f"expected a number of operations, found {limit.text}", limit.span)
        measured = quantity.span if quantity.field is None else quantity.field.span
        raise where.error(f"wrong unit for {where.source.slice(measured)}: {limit.text}", limit.span)
    raise _unit_error(where, "compare", (quantity, left), (limit, right))


def _unit_of_term(term: Term, fields: Fields[T], *, golden: Unit = COUNT) -> Unit:
    """Unit of a term; HloError for unknown fields, and for units that differ. `golden` is the unit of `golden`.

    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import parse_expectation
    >>> _unit_of_term(parse_expectation("2 * peak.hbm <= golden")[0], Fields({})).words
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
            left = _unit_of_term(term.left, fields, golden=golden)
            right = _unit_of_term(term.right, fields, golden=golden)
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


# --- measured terms ---
# Each measured value has bounds: the cost of an unknown custom call is at least 0, and so is a sum that has it.


class SkippedError(Exception):
    """A term has no value in a module; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Part:
    """Counted instruction and its value; None if it counts as one."""

    instruction: Instruction
    value: int | float | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """Value of a term in a module.

    - `found` is the value as far as known, None for the maximum or minimum of no values.
    - `low` and `high` bound it; they differ if the costs of `unknown_count` operations are unknown.
    - `parts` are the counted instructions with values of `parts_unit`, largest first, else in the order of the text.
    """

    found: int | float | None
    low: float
    high: float
    unit: Unit = COUNT
    unknown_count: int = 0
    parts: tuple[Part, ...] = ()
    parts_unit: Unit = COUNT

    @property
    def is_exact(self) -> bool:
        """Whether the value is known."""
        return self.low == self.high


def exactly(value: int | float | None, unit: Unit, parts: tuple[Part, ...] = ()) -> Measurement:
    """Measurement of a known value; no value counts as 0 in arithmetic.

    >>> exactly(3, COUNT).low, exactly(None, BYTES).high
    (3, 0)
    """
    bound = value or 0
    return Measurement(value, bound, bound, unit, parts=parts, parts_unit=unit)


class Measurer:
    """Measures terms on one module; operations and memory are computed on first use."""

    def __init__(self, module: Module, attributes: Collection[str], memory: Callable[[], MemoryAnalysis]) -> None:
        """Prepares the measurement; `memory` is called only if required."""
        self._module = module
        self._attributes = attributes
        self._memory = memory

    @cached_property
    def target(self) -> str | None:
        """The target of the module."""
        return target_of(self._module)

    @cached_property
    def operations(self) -> tuple[LogicalOperation, ...]:
        """The logical operations of the module."""
        return logical_operations(self._module)

    @cached_property
    def fields(self) -> Fields[LogicalOperation]:
        """The fields of the operations."""
        return operation_fields(self._module, self._attributes)

    @cached_property
    def _spaces(self) -> Mapping[int, MemorySpaceUsage]:
        return {space.number: space for space in self._memory().spaces}

    def measure(self, term: Term, golden: Measurement | None = None) -> Measurement:
        """The value of a term; SkippedError without one, HloError for names that the module does not have.

        >>> from hlo_cli import memory_analysis, parse_module
        >>> from hlo_cli.syntax.expectations import parse_expectation
        >>> module = parse_module("r = f32[2] negate(f32[2] p)")
        >>> quantity, _, limit = parse_expectation("sum(padded_bytes) / count(rank == 1) <= golden")
        >>> Measurer(module, (), lambda: memory_analysis(module)).measure(quantity).found
        8.0
        """
        match term:
            case Number():
                return exactly(term.value, unit_of_number(term))
            case Golden():
                if golden is None:
                    raise SkippedError("no value in a golden module")
                return golden
            case Calculation():
                unit = _unit_of_term(term, self.fields, golden=COUNT if golden is None else golden.unit)
                left, right = self.measure(term.left, golden), self.measure(term.right, golden)
                return _calculated(term.operator, left, right, unit)
            case Quantity():
                # A peak is not a sum over operations: no condition selects it.
                return self._peak(term.space) if term.function == "max_peak" else self._measured(term)

    def _peak(self, space: str) -> Measurement:
        number = space_number(space, self.target)
        if number is None:
            has_none = f"{self.target.upper()} has no {space.upper()} memory" if self.target else None
            raise SkippedError(has_none or "the module is not compiled for a target")
        found = self._spaces.get(number)
        if found is None:
            # A memory space that the module does not use has a peak of 0.
            return exactly(0, BYTES)
        parts = tuple(Part(value.instruction, value.padded_bytes) for value in found.live_at(found.peak_step))
        return exactly(found.peak_bytes, BYTES, parts)

    def _measured(self, quantity: Quantity) -> Measurement:
        where, function = quantity.where, quantity.function
        measure = None if quantity.field is None else computed(where, quantity.field, self.fields)
        unit = COUNT if measure is None else measure.unit
        summed = _names_of_fields(quantity.field) if function == "sum" else ()
        parts, unknown_count = self._parts(predicate(where, self.fields), measure, summed)
        values = [part.value for part in parts if part.value is not None]
        found: int | float | None
        match function:
            case "sum":
                found = sum(values)
            case "max":
                found = max(values, default=None)
            case "min":
                found = min(values, default=None)
            case _:
                found = len(parts)
        if function == "sum":
            # Parts of a sum that add nothing do not explain it.
            parts = [part for part in parts if part.value]
        direction = 1 if function == "min" else -1
        parts.sort(key=lambda part: direction * (part.value or 0))
        low, high = _range(function, found, unknown_count)
        return Measurement(found, low, high, unit, unknown_count, tuple(parts), unit)

    def _parts(
        self,
        matches: Predicate[LogicalOperation],
        measure: Computed[LogicalOperation] | None,
        summed: Collection[str],
    ) -> tuple[list[Part], int]:
        """The operations that count with their values, and how many may count or have a lower bound only.

        A sum of the fields `summed` counts nothing twice.
        """
        parts: list[Part] = []
        tested = [(each, matches(each)) for each in self.operations]
        # Operations for which the condition is unknown may or may not count.
        matching = [each for each, is_counted in tested if is_counted]
        unknown_count = sum(is_counted is None for _, is_counted in tested)
        for each in counted_once(self._module, self.operations, matching, summed) if summed else matching:
            value = None if measure is None else measure.read(each)
            if isinstance(value, AtLeast):
                unknown_count += 1
                # A bound of minus infinity says nothing and is left out of the sum.
                value = round(value.number) if value.number > -inf else None
            if measure is None or value is not None:
                parts.append(Part(each.instruction, value))
        return parts, unknown_count


def _names_of_fields(operand: Operand | None) -> frozenset[str]:
    """Names of the fields that a number is computed from."""
    names: set[str] = set()
    waiting = [operand]
    while waiting:
        match waiting.pop():
            case Field() as field:
                names.add(field.name)
            case Arithmetic(left=left, right=right):
                waiting += (left, right)
    return frozenset(names)


def _range(function: str, known: int | float | None, unknown_count: int) -> tuple[float, float]:
    """Bounds of a quantity if `unknown_count` operations may count, or have at least a known value."""
    value = known or 0
    if not unknown_count:
        return value, value
    match function:
        case "min":
            # A single unknown value may be below any known one.
            return UNBOUNDED
        case "sum" | "max":
            # Without a known value even the sign of an unknown one is open.
            return -inf if known is None else known, inf
        case _:
            return value, value + unknown_count


def _calculated(symbol: ArithmeticOperator, left: Measurement, right: Measurement, unit: Unit) -> Measurement:
    if symbol == "/" and right.is_exact and not right.low:
        raise SkippedError("division by 0")
    unknown_count = left.unknown_count + right.unknown_count
    low, high = interval_of(symbol, (left.low, left.high), (right.low, right.high))
    found = result_of(symbol, left.found or 0, right.found or 0) if right.found or symbol != "/" else None
    # What a quotient or a product consists of is shown by the side with instructions.
    of_parts = left if left.parts else right
    return Measurement(found, low, high, unit, unknown_count, of_parts.parts, of_parts.parts_unit)


# --- assertions that cannot fail ---
# What is known without looking at single operations: numbers are not negative, shares are at most 100%, some opcodes
# exist only before or only after optimization, and only TPUs pad arrays.


# In these fields every operation has a number, so a fixed range means the condition is always true.
_ALWAYS: Final = frozenset(
    "bytes flops transcendentals intensity logical_bytes padded_bytes padding_bytes padding operands users "
    "called_computations trips".split()
)
"""Numeric fields that every operation has."""
_DOMAINS: Final[dict[str, Interval]] = {
    "count": NOT_NEGATIVE,
    "names": NOT_NEGATIVE,
    "bytes": NOT_NEGATIVE,
    "share": (0, 1),
}
_PADDING: Final = ("padding", "padding_bytes")
# Frameworks emit no fusions, and bitcasts need layouts, which compilers assign.
_MADE_BY_COMPILER: Final = frozenset((opcodes.FUSION, opcodes.BITCAST))
# Each compiler runs passes that expand these: xla/hlo/transforms/expanders, and some of its own.
_EXPANDED: Final[dict[str, frozenset[str]]] = {
    "tpu": frozenset(("opt-barrier", "cholesky", "triangular-solve", "fft", "real", "imag", "topk")),
    "gpu": frozenset(("opt-barrier", "call", "topk", "rng-bit-generator")),
    "cpu": frozenset(("opt-barrier", "topk", "rng-bit-generator")),
}
"""Opcodes that the compilers of a target replace by others in every module."""
_EXPANDED_EVERYWHERE: Final = frozenset(
    "batch-norm-training batch-norm-inference batch-norm-grad get-dimension-size set-dimension-size "
    "stochastic-convert rng".split()
)
_UNOPTIMIZED: Final = "before optimization"
_AFTER: Final = "check the optimized module instead, such as after_optimizations.txt"
_TARGET_NAMES: Final = {"tpu": "TPU", "gpu": "GPU", "cpu": "CPU"}
_Range = tuple[bool, bool]
"""Whether a condition can be true, and whether it can be false."""


@dataclass(frozen=True, slots=True)
class Caution:
    """A fixed part of an assertion and what to do; with `cannot_fail`, the whole assertion is fixed."""

    message: str
    hint: str = ""
    cannot_fail: bool = False


def _cautions_of(module: Module, expectation: Expectation, fields: Fields[T]) -> tuple[Caution, ...]:
    """Reasons why an assertion cannot fail on a module, and parts of its conditions that are always or never true.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.query.logical_operations import operation_fields
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["none(bytes < 0 and opcode == copy)"]'))
    >>> [(each.message, each.cannot_fail) for each in _cautions_of(module, stated, operation_fields(module))]
    [('bytes < 0 is never true', True)]
    """
    ranges = _Ranges(module, fields)
    left, right = ranges.of_term(expectation.quantity), ranges.of_term(expectation.limit)
    cannot_fail = ranges_compared(expectation.operator, left, right) is True
    reasons = tuple(dict.fromkeys(ranges.reasons))
    if cannot_fail and not reasons:
        quantity = next(quantities_in(expectation.quantity))
        text = _text_at(quantity.where, expectation.quantity.span)
        bounds = f"at least {left[0]:g}" if left[1] == inf else f"at most {left[1]:g}"
        reasons = (Caution(f"{text} is always {bounds}", "use a stricter limit"),)
    return tuple(replace(each, cannot_fail=cannot_fail) for each in reasons)


_NEVER: Final = "is never true"


class _Ranges:
    """Ranges of terms and conditions for any module of the same target and stage; `reasons` collects what is fixed."""

    def __init__(self, module: Module, fields: Fields[T]) -> None:
        self._module = module
        self._kind_of: Callable[[Where, Field], str] = lambda where, field: fields.find(where, field).kind
        self.reasons: list[Caution] = []

    @cached_property
    def _target(self) -> str | None:
        return target_of(self._module)

    @cached_property
    def _is_optimized(self) -> bool:
        return program_stage(self._module) != _UNOPTIMIZED

    @cached_property
    def _pads(self) -> bool:
        """Whether arrays can have padding: on TPU, and with bounded dimensions."""
        # Only TPUs have tiled layouts; bounded dynamic dimensions are padded to their bound.
        return (self._target == "tpu" and self._is_optimized) or "[<=" in self._module.source.text

    def of_term(self, term: Term) -> Interval:
        """The range of a term."""
        match term:
            case Number():
                return term.value, term.value
            case Golden():
                return UNBOUNDED
            case Calculation():
                return interval_of(term.operator, self.of_term(term.left), self.of_term(term.right))
            case Quantity():
                return self._of_quantity(term)

    def _of_quantity(self, quantity: Quantity) -> Interval:
        if quantity.space:
            return NOT_NEGATIVE
        can_be_true, can_be_false = self._of_condition(quantity.where, quantity.where.condition)
        if quantity.field is None:
            return (0 if can_be_false else 1), (inf if can_be_true else 0)
        low, high = self._of_operand(quantity.where, quantity.field)
        if quantity.function == "sum":
            # A sum is 0 where nothing matches, and unbounded as any number may match.
            return (0 if low >= 0 else -inf), (0 if high <= 0 or not can_be_true else inf)
        # Maximum and minimum of nothing count as 0.
        return (min(low, 0), max(high, 0)) if can_be_true else (0, 0)

    def _of_operand(self, where: Where, operand: Operand) -> Interval:
        match operand:
            case Number():
                return operand.value, operand.value
            case Field():
                if operand.name in _PADDING and not self._pads:
                    return 0, 0
                return _DOMAINS.get(self._kind_of(where, operand), UNBOUNDED)
            case Arithmetic():
                left, right = self._of_operand(where, operand.left), self._of_operand(where, operand.right)
                return interval_of(operand.operator, left, right)

    def _of_condition(self, where: Where, condition: Condition) -> _Range:
        match condition:
            case Not(part):
                can_be_true, can_be_false = self._of_condition(where, part)
                return can_be_false, can_be_true
            case Both(parts):
                ranges = [self._of_condition(where, part) for part in parts]
                # `Both` may be impossible although each part is possible.
                is_possible = all(can for can, _ in ranges) and not self._contradicts(where, parts)
                return is_possible, any(can for _, can in ranges)
            case Either(parts):
                ranges = [self._of_condition(where, part) for part in parts]
                return any(can for can, _ in ranges), all(can for _, can in ranges)
            case Flag(field):
                name = PLURALS.get(field.name, field.name)
                if name in ("fused", "async") and not self._is_optimized:
                    return self._never(where, field.span, f"{_NEVER} {_UNOPTIMIZED}", _AFTER)
                if name == "library" and self._target == "tpu":
                    return self._never(where, field.span, f"{_NEVER} on TPU: all kernels are compiled", "use kernel")
            case Comparison():
                return self._of_comparison(where, condition)
            case Relation():
                left, right = self._of_operand(where, condition.left), self._of_operand(where, condition.right)
                names = (*_fields_of_operand(condition.left), *_fields_of_operand(condition.right))
                return self._of_ranges(where, condition, left, right, names)
        return True, True

    def _of_comparison(self, where: Where, comparison: Comparison) -> _Range:
        field, values = comparison.field, comparison.values
        if field.name == "opcode" and field.place is None:
            return self._of_opcodes(where, comparison)
        if field.name == "memory_space" and comparison.operator in ("==", "in"):
            return self._of_spaces(where, comparison)
        [value] = values[:1]
        if len(values) > 1 or not isinstance(value, Number) or comparison.operator not in ORDERS:
            return True, True
        limit = (value.value, value.value)
        return self._of_ranges(where, comparison, self._of_operand(where, field), limit, (field.name,))

    def _of_ranges(
        self, where: Where, compared: Comparison | Relation, left: Interval, right: Interval, names: Collection[str]
    ) -> _Range:
        answer = ranges_compared(compared.operator, left, right)
        if answer is False:
            return self._never(where, compared.span, self._why(names), "" if self._pads else self._padding_hint(names))
        # Only of fields that every operation has: a missing one makes a comparison false.
        if answer is True and _ALWAYS.issuperset(names):
            self.reasons.append(Caution(f"{_text_at(where, compared.span)} is always true", "remove it"))
            return True, False
        return True, True

    def _why(self, names: Collection[str]) -> str:
        if not self._pads and any(name in _PADDING for name in names):
            when = f"on {_TARGET_NAMES[self._target]}" if self._target and self._is_optimized else _UNOPTIMIZED
            return f"{_NEVER} {when}: arrays have no padding"
        return _NEVER

    def _padding_hint(self, names: Collection[str]) -> str:
        return "check a module compiled for TPU" if any(name in _PADDING for name in names) else ""

    def _of_opcodes(self, where: Where, comparison: Comparison) -> _Range:
        named = [value.text for value in comparison.values if isinstance(value, Text)]
        if comparison.operator not in ("==", "in") or not named:
            return True, True
        present = {each.opcode for each in self._module.instructions}
        if not self._is_optimized and _MADE_BY_COMPILER.issuperset(named) and not present.intersection(named):
            return self._never(where, comparison.span, f"{_NEVER} {_UNOPTIMIZED}", _AFTER)
        target = self._target
        gone = _EXPANDED.get(target or "", frozenset()) | _EXPANDED_EVERYWHERE
        if target and self._is_optimized and gone.issuperset(named) and not present.intersection(named):
            why = f"{_NEVER} on {_TARGET_NAMES[target]}: the compiler replaces {', '.join(named)}"
            return self._never(where, comparison.span, why, "name what the compiler makes of it, or check op_name")
        return True, True

    def _of_spaces(self, where: Where, comparison: Comparison) -> _Range:
        target, values = self._target, comparison.values
        if target is None or any(
            not isinstance(each, Number) or memory_space(int(each.value), target) for each in values
        ):
            return True, True
        why = f"{_NEVER} on {_TARGET_NAMES[target]}: it has no such memory space"
        return self._never(where, comparison.span, why, "see `hlo help memory` for memory spaces")

    def _contradicts(self, where: Where, parts: Collection[Condition]) -> bool:
        """Whether conditions exclude each other: a flag and its negation, or two values of one field."""
        # Two equal values of one field cannot both hold; lists such as `in` can.
        equal: dict[str, Comparison] = {}
        flags = {part.field.name for part in parts if isinstance(part, Flag)}
        for part in parts:
            if isinstance(part, Not) and isinstance(part.part, Flag) and part.part.field.name in flags:
                self.reasons.append(Caution(f"{part.part.field} and not {part.part.field} {_NEVER}"))
                return True
            if not isinstance(part, Comparison) or part.operator != "==" or not _is_single(part.field):
                continue
            other = equal.setdefault(str(part.field), part)
            if other.values[0].text != part.values[0].text:
                both = f"{_text_at(where, other.span)} and {_text_at(where, part.span)}"
                self.reasons.append(Caution(f"{both} {_NEVER}", "use `or`, or `in (a, b)`"))
                return True
        return False

    def _never(self, where: Where, span: Span, why: str, hint: str = "") -> _Range:
        self.reasons.append(Caution(f"{_text_at(where, span)} {why}", hint))
        return False, True


def _is_single(field: Field) -> bool:
    """Whether a field has one value, which is one text."""
    return field.name in ("opcode", "dtype", "rank", "computation", "memory_space", "name")


def _fields_of_operand(operand: Operand) -> Iterator[str]:
    match operand:
        case Field():
            yield operand.name
        case Arithmetic():
            yield from _fields_of_operand(operand.left)
            yield from _fields_of_operand(operand.right)


def _text_at(where: Where, span: Span) -> str:
    return " ".join(where.source.slice(span).split())


# --- conditions that nothing meets ---
# `none(op_name ~ mpl and opcode == copy)` passes whatever the module does, if `mlp` is meant.


_OF_PROGRAM: Final = ("op_name", "op_type", "source")
"""Fields of the user's program."""
_POSITIVE: Final = ("==", "~", "in")


def _unmatched_conditions(expectation: Expectation, measurer: Measurer) -> tuple[str, ...]:
    """Parts of the conditions of an assertion that no operation meets, as written.

    A part that is all of a condition is what the assertion is about: it counts only if the module has no such metadata
    at all, or for an argument that does not exist.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> module = parse_module('r = f32[2] negate(f32[2] p), metadata={op_name="f/mlp/neg"}')
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["none(op_name ~ mpl and opcode == copy)"]'))
    >>> _unmatched_conditions(stated, Measurer(module, (), lambda: memory_analysis(module)))
    ('op_name ~ mpl',)
    """
    found: dict[str, None] = {}
    for quantity in (*quantities_in(expectation.quantity), *quantities_in(expectation.limit)):
        condition = quantity.where.condition
        parts = condition.parts if isinstance(condition, Both) else (condition,)
        for part in parts:
            # Conditions on the user's program are what typing mistakes hide in.
            if _is_of_program(part) and not any(_matching(quantity.where, part, measurer)):
                is_whole = len(parts) == 1
                # A module without any op_name has no mistake to point to.
                if not is_whole or isinstance(part, Call) or not _has_field(part, measurer):
                    found[_text_of_condition(quantity.where, part)] = None
    return tuple(found)


def _is_of_program(part: Condition) -> bool:
    if isinstance(part, Comparison):
        return part.field.name in _OF_PROGRAM and part.operator in _POSITIVE
    return isinstance(part, Call) and part.function == "of_argument"


def _matching(where: Where, part: Condition, measurer: Measurer) -> Iterator[LogicalOperation]:
    test = predicate(replace(where, condition=part), measurer.fields)
    return (each for each in measurer.operations if test(each) is not False)


def _has_field(part: Condition, measurer: Measurer) -> bool:
    if not isinstance(part, Comparison):
        return True
    read = measurer.fields.readers[part.field.name].read
    return any(read(each) is not None for each in measurer.operations)


def _text_of_condition(where: Where, part: Condition) -> str:
    text = where.source.text
    match part:
        case Comparison():
            return " ".join(text[part.span.start : part.span.end].split())
        case Call():
            closed = text.find(")", part.argument.span.end)
            return " ".join(text[part.span.start : closed + 1].split())
        case _:
            return ""


# --- the assertions ---
# The assertion language is specific to this tool; `logical_operations.py` defines what counts as one operation.


_TRUE_FOR_EMPTY: Final = ("<", "<=", "!=")
"""Operators with which the maximum of no values passes."""
_TRUE_FOR_EQUAL: Final = ("<=", ">=", "==")


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """Result of an assertion.

    - `is_met` is None if it was skipped or depends on an unknown cost; `remark` is the reason.
    - `found` is the measured value as far as known, None for the maximum of no values; `kind` is its kind.
    - `limit` is the value that it was compared with, None if there is none.
    - `parts` are the counted instructions with values of `parts_kind`, largest first, else in the order of the text.
    - `lowered_forms` are named opcodes that the module has in another form; `cautions` other reasons why the assertion
      cannot fail. `unmatched` are parts of its conditions that no operation meets, if it passed.
    """

    expectation: Expectation
    is_met: bool | None
    found: int | float | None = None
    kind: Kind = "count"
    parts: tuple[Part, ...] = ()
    remark: str = ""
    lowered_forms: tuple[LoweredForm, ...] = ()
    limit: int | float | None = None
    parts_kind: Kind = "count"
    cautions: tuple[Caution, ...] = ()
    unmatched: tuple[str, ...] = ()

    @property
    def has_computed_limit(self) -> bool:
        """Whether the limit is not just a number in the assertion."""
        return self.limit is not None and not isinstance(self.expectation.limit, Number)


GoldenValues = Mapping[int, Measurement]
"""Values of the left sides of assertions in the golden module, by the index of the assertion."""


def check_assertions(
    module: Module,
    expectations: Iterable[Expectation],
    *,
    attributes: Collection[str] = (),
    memory: Callable[[], MemoryAnalysis],
    golden: GoldenValues | None = None,
) -> tuple[AssertionResult, ...]:
    """Evaluates the assertions whose sections match the module; `memory` is called only if required.

    `golden` holds the values that `golden_values` returned for the golden module, None if there is no such module.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> stated = read_expectations(Source("e.toml", 'expect = ["none(opcode == negate)", "max(padded_bytes) < 1kB"]'))
    >>> [(each.is_met, each.found) for each in check_assertions(module, stated, memory=lambda: memory_analysis(module))]
    [(False, 1), (True, 8)]
    """
    evaluator = _Evaluator(module, attributes, memory)
    return tuple(
        evaluator(each, None if golden is None else golden.get(number))
        for number, each in enumerate(expectations)
        if evaluator.applies(each)
    )


def golden_values(
    module: Module,
    expectations: Iterable[Expectation],
    *,
    attributes: Collection[str] = (),
    memory: Callable[[], MemoryAnalysis],
) -> GoldenValues:
    """Measures the quantities that assertions compare with those of this module; those without a value are omitted.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> stated = read_expectations(Source("e.toml", 'expect = ["none(fused)", "sum(padded_bytes) <= golden"]'))
    >>> {at: each.found for at, each in golden_values(module, stated, memory=lambda: memory_analysis(module)).items()}
    {1: 16}
    """
    measurer = Measurer(module, attributes, memory)
    found: dict[int, Measurement] = {}
    for number, each in enumerate(expectations):
        if each.uses_golden and not module.errors:
            try:
                found[number] = replace(measurer.measure(each.quantity), parts=())
            except (SkippedError, HloError):
                continue
    return found


def check_expectation(expectation: Expectation, attributes: Collection[str]) -> None:
    """Raises HloError if an assertion uses unknown fields or compares different kinds.

    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["sum(opcode) < 3"]'))
    >>> check_expectation(stated, ())
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:5: error: 'opcode' is not numeric
      help: use padded_bytes, bytes, flops, elements, or users; see `hlo help where` for all fields
    """
    quantities = tuple(quantities_in(expectation.quantity))
    if not quantities:
        span, source = expectation.quantity.span, Source("", expectation.text)
        raise HloError("no quantity to measure", span, source=source, hint="for example, count(opcode == copy) <= 3")
    nothing = Computation("", is_entry=True)
    fields = operation_fields(Module("", (nothing,), nothing, Source("", "")), attributes)
    _check_units_of(expectation, replace(fields, functions=dict.fromkeys(fields.functions, _match_nothing)))


def _match_nothing(where: Where, call: Call) -> Predicate[LogicalOperation]:
    """Predicate of a function whose names are those of another module: only the pattern is checked."""
    call_matcher(where, call)
    return lambda each: False


class _Evaluator:
    """Evaluates assertions on one module."""

    def __init__(self, module: Module, attributes: Collection[str], memory: Callable[[], MemoryAnalysis]) -> None:
        self._module = module
        self._measurer = Measurer(module, attributes, memory)

    def applies(self, expectation: Expectation) -> bool:
        """Whether the module matches all sections of an assertion."""
        return all(
            fnmatchcase(self._module.name if section.kind == "module" else self._measurer.target or "", section.pattern)
            # Names of targets and modules are patterns of the shell, as in settings of other tools.
            for section in expectation.sections
        )

    def __call__(self, expectation: Expectation, golden: Measurement | None) -> AssertionResult:
        if golden is None and expectation.uses_golden:
            return AssertionResult(expectation, None, remark="the golden dump has no value for this module")
        if self._module.errors:
            return AssertionResult(expectation, False, remark="could not be evaluated: the text has errors")
        try:
            result = self._evaluate(expectation, golden)
            wheres = [each.where for term in _sides(expectation) for each in quantities_in(term)]
            lowered = dict.fromkeys(form for where in wheres for form in lowered_forms(self._module, where))
            cautions = _cautions_of(self._module, expectation, self._measurer.fields)
            # A passing assertion is the one that may pass for the wrong reason.
            unmatched = _unmatched_conditions(expectation, self._measurer) if result.is_met else ()
            return replace(result, lowered_forms=tuple(lowered), cautions=cautions, unmatched=unmatched)
        except SkippedError as skipped:
            return AssertionResult(expectation, None, remark=str(skipped))
        except HloError as error:
            return AssertionResult(expectation, False, remark=f"could not be evaluated: {error.diagnostic.message}")

    def _evaluate(self, expectation: Expectation, golden: Measurement | None) -> AssertionResult:
        left = self._measurer.measure(expectation.quantity)
        right = self._measurer.measure(expectation.limit, golden)
        result = AssertionResult(
            expectation,
            _is_met(expectation.operator, left, right),
            left.found,
            left.unit.kind,
            left.parts,
            limit=right.found,
            parts_kind=left.parts_unit.kind,
        )
        if result.is_met is None:
            number = left.unknown_count + right.unknown_count
            who = "1 operation" if number == 1 else f"{number:,} operations"
            return replace(result, remark=f"could not be evaluated: unknown cost of {who}")
        near = "" if result.is_met or left.parts else self._near_misses(expectation.quantity)
        # The parts show why a failing assertion fails; without any, the conditions do.
        return replace(result, remark=near)

    def _near_misses(self, quantity: Term) -> str:
        """For conditions joined by `and` that never hold together: how often each holds."""
        if not isinstance(quantity, Quantity) or not isinstance(quantity.where.condition, Both):
            return ""
        where = quantity.where
        counts_by_part: list[str] = []
        for part in quantity.where.condition.parts:
            if not isinstance(part, Comparison | Flag):
                return ""
            span = part.span if isinstance(part, Comparison) else part.field.span
            test = predicate(replace(where, condition=part), self._measurer.fields)
            number = sum(test(each) is True for each in self._measurer.operations)
            counts_by_part.append(f"{number:,} with {where.source.slice(span)}")
        return ", ".join(counts_by_part)


def _sides(expectation: Expectation) -> tuple[Term, Term]:
    return expectation.quantity, expectation.limit


def _is_met(sign: Limit, left: Measurement, right: Measurement) -> bool | None:
    # The maximum of no values is below every limit and equals only another such maximum.
    if left.found is None and left.is_exact:  # the maximum of no values
        return sign in (_TRUE_FOR_EQUAL if right.found is None and right.is_exact else _TRUE_FOR_EMPTY)
    return ranges_compared(sign, (left.low, left.high), (right.low, right.high))
