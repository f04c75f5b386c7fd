"""Evaluates assertions on a module: whether each passes, the measured value, and where.

The assertion language is specific to this tool; `logical_operations.py` defines what counts as one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from math import inf
from typing import Final

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.partly_known import AtLeast, within
from hlo_cli.analysis.query.fields import NUMBERS, Fields, FieldValue, Kind, Predicate
from hlo_cli.analysis.query.logical_operations import LogicalOperation, logical_operations, operation_fields
from hlo_cli.analysis.query.lowered_forms import LoweredForm, lowered_forms
from hlo_cli.analysis.query.patterns import call_matcher
from hlo_cli.analysis.query.where import predicate
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.assertion import Expectation, Quantity
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import space_number
from hlo_cli.ir.module import Module
from hlo_cli.ir.where import Both, Call, Comparison, Flag, Where
from hlo_cli.source import HloError, Source

_TRUE_FOR_EMPTY: Final = ("<", "<=", "!=")
"""Operators with which the maximum of no values passes."""
_UNITS: Final[dict[Kind, str]] = {"bytes": "bytes", "share": "percent"}


@dataclass(frozen=True, slots=True)
class Part:
    """Counted instruction and its value; None if it counts as one."""

    instruction: Instruction
    value: int | float | None


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """Result of an assertion.

    - `is_met` is None if it was skipped or depends on an unknown cost; `remark` is the reason.
    - `found` is the measured value as far as known, None for the maximum of no values; `kind` is its kind.
    - `parts` are the counted instructions, largest first, else in the order of the text.
    - `lowered_forms` are named opcodes that the module has in another form.
    """

    expectation: Expectation
    is_met: bool | None
    found: int | float | None = None
    kind: Kind = "count"
    parts: tuple[Part, ...] = ()
    remark: str = ""
    lowered_forms: tuple[LoweredForm, ...] = ()


def check_assertions(
    module: Module,
    expectations: Iterable[Expectation],
    *,
    attributes: Collection[str] = (),
    memory: Callable[[], MemoryAnalysis],
) -> tuple[AssertionResult, ...]:
    """Evaluates the assertions whose sections match the module; `memory` is called only if required.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.queries.assertions import read_expectations
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> stated = read_expectations(Source("e.toml", 'expect = ["none(opcode == negate)", "max(padded_bytes) < 1kB"]'))
    >>> [(each.is_met, each.found) for each in check_assertions(module, stated, memory=lambda: memory_analysis(module))]
    [(False, 1), (True, 8)]
    """
    evaluator = _Evaluator(module, attributes, memory)
    return tuple(evaluator(each) for each in expectations if evaluator.applies(each))


def check_expectation(expectation: Expectation, attributes: Collection[str]) -> None:
    """Raises HloError if an assertion uses unknown fields or compares different kinds.

    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.queries.assertions import read_expectations
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["sum(opcode) < 3"]'))
    >>> check_expectation(stated, ())
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:5: error: 'opcode' is not numeric
    """
    nothing = Computation("", is_entry=True)
    fields = operation_fields(Module("", (nothing,), nothing, Source("", "")), attributes)
    if expectation.quantity.function != "max_peak":
        _measure_of(expectation, replace(fields, functions=dict.fromkeys(fields.functions, _match_nothing)))


def _match_nothing(where: Where, call: Call) -> Predicate[LogicalOperation]:
    """Predicate of a function whose names are those of another module: only the pattern is checked."""
    call_matcher(where, call)
    return lambda each: False


@dataclass(frozen=True, slots=True)
class _Measure:
    """Predicate for the operations that count, and the value of each."""

    matches: Predicate[LogicalOperation]
    value: Callable[[LogicalOperation], int | float | AtLeast | None]
    kind: Kind = "count"


def _measure_of(expectation: Expectation, fields: Fields[LogicalOperation]) -> _Measure:
    quantity, limit = expectation.quantity, expectation.limit
    where, asked = quantity.where, quantity.field
    matches = predicate(where, fields)
    if asked is None:
        if limit.unit:
            raise where.error(f"expected a number of operations, found {limit.text}", limit.span)
        return _Measure(matches, lambda each: None)
    reader = fields.find(where, asked)
    if reader.kind not in (*NUMBERS, "names"):
        hint = "use padded_bytes, bytes, flops, elements, or users; see `hlo help where` for all fields"
        raise where.error(f"'{asked}' is not numeric", asked.span, hint)
    if limit.unit and limit.unit != _UNITS.get(reader.kind):
        raise where.error(f"wrong unit for {asked}: {limit.text}", limit.span)
    return _Measure(matches, lambda each: _number(reader.read(each)), reader.kind)


def _number(value: FieldValue) -> int | float | AtLeast | None:
    """Field value as a number: of a list of names, its length."""
    if isinstance(value, tuple):
        return len(value)
    return value if isinstance(value, int | float | AtLeast) else None


def _range(function: str, found: int | float | None, unknown_count: int) -> tuple[float, float]:
    """Bounds of a quantity if `unknown_count` operations may count, or have at least a known value."""
    match function:
        case "min":
            return -inf, inf
        case "sum" | "max":
            return -inf if found is None else found, inf
        case _:
            return found or 0, (found or 0) + unknown_count


class _Evaluator:
    """Evaluates assertions on one module; operations and memory are computed on first use."""

    def __init__(self, module: Module, attributes: Collection[str], memory: Callable[[], MemoryAnalysis]) -> None:
        self._module = module
        self._attributes = attributes
        self._memory = memory

    @cached_property
    def _target(self) -> str | None:
        return target_of(self._module)

    @cached_property
    def _operations(self) -> tuple[LogicalOperation, ...]:
        return logical_operations(self._module)

    @cached_property
    def _fields(self) -> Fields[LogicalOperation]:
        return operation_fields(self._module, self._attributes)

    @cached_property
    def _spaces(self) -> Mapping[int, MemorySpaceUsage]:
        return {space.number: space for space in self._memory().spaces}

    def applies(self, expectation: Expectation) -> bool:
        """Whether the module matches all sections of an assertion."""
        names = {"module": self._module.name, "target": self._target or ""}
        return all(fnmatchcase(names[section.kind], section.pattern) for section in expectation.sections)

    def __call__(self, expectation: Expectation) -> AssertionResult:
        if self._module.errors:
            return AssertionResult(expectation, False, remark="could not be evaluated: the text has errors")
        try:
            if expectation.quantity.function == "max_peak":
                return self._peak(expectation)
            lowered = lowered_forms(self._module, expectation.quantity.where)
            return replace(self._measure_operations(expectation), lowered_forms=lowered)
        except HloError as error:
            return AssertionResult(expectation, False, remark=f"could not be evaluated: {error.diagnostic.message}")

    def _peak(self, expectation: Expectation) -> AssertionResult:
        space = expectation.quantity.space
        number = space_number(space, self._target)
        if number is None:
            why = (
                f"{self._target.upper()} has no {space.upper()} memory"
                if self._target
                else "the module is not compiled for a target"
            )
            return AssertionResult(expectation, None, remark=why)
        found = self._spaces.get(number)
        if found is None:
            return self._evaluate(expectation, 0, "bytes", ())
        parts = (Part(value.instruction, value.padded_bytes) for value in found.live_at(found.peak))
        return self._evaluate(expectation, found.peak_bytes, "bytes", tuple(parts))

    def _measure_operations(self, expectation: Expectation) -> AssertionResult:
        measure = _measure_of(expectation, self._fields)
        counted: list[LogicalOperation] = []
        unknown_count = 0
        for each in self._operations:
            matches = measure.matches(each)
            unknown_count += matches is None
            if matches:
                counted.append(each)
        parts: list[Part] = []
        for each in counted:
            value = measure.value(each)
            if isinstance(value, AtLeast):
                unknown_count += 1
                value = round(value.number)
            parts.append(Part(each.instruction, value))
        values = [part.value for part in parts if part.value is not None]
        found: int | float | None = len(parts)
        match expectation.quantity.function:
            case "sum":
                found = sum(values)
            case "max":
                found = max(values, default=None)
            case "min":
                found = min(values, default=None)
        direction = 1 if expectation.quantity.function == "min" else -1
        parts.sort(key=lambda part: direction * (part.value or 0))
        return self._evaluate(expectation, found, measure.kind, tuple(parts), unknown_count=unknown_count)

    def _evaluate(
        self,
        expectation: Expectation,
        found: int | float | None,
        kind: Kind,
        parts: tuple[Part, ...],
        *,
        unknown_count: int = 0,
    ) -> AssertionResult:
        limit, sign = expectation.limit.value, expectation.operator
        if unknown_count:
            low, high = _range(expectation.quantity.function, found, unknown_count)
            is_met = within(sign, low, high, limit)
        else:
            is_met = sign in _TRUE_FOR_EMPTY if found is None else within(sign, found, found, limit)
        if is_met is None:
            who = "1 operation" if unknown_count == 1 else f"{unknown_count:,} operations"
            return AssertionResult(
                expectation, None, found, kind, parts, f"could not be evaluated: unknown cost of {who}"
            )
        remark = "" if is_met or parts else self._near_misses(expectation.quantity)
        return AssertionResult(expectation, is_met, found, kind, parts, remark)

    def _near_misses(self, quantity: Quantity) -> str:
        """For conditions joined by `and` that never hold together: how often each holds."""
        where = quantity.where
        if not isinstance(where.condition, Both) or quantity.function == "max_peak":
            return ""
        counts_by_part: list[str] = []
        for part in where.condition.parts:
            if not isinstance(part, Comparison | Flag):
                return ""
            span = part.span if isinstance(part, Comparison) else part.field.span
            test = predicate(replace(where, condition=part), self._fields)
            number = sum(test(each) is True for each in self._operations)
            counts_by_part.append(f"{number:,} with {where.source.slice(span)}")
        return ", ".join(counts_by_part)
