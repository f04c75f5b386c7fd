"""Measures the terms of assertions on a module: counts, sums, peaks, and what is computed from them.

Each measured value has bounds: the cost of an unknown custom call is at least 0, and so is a sum that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from math import inf

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.computed import Computed, computed
from hlo_cli.analysis.query.fields import Fields, Predicate
from hlo_cli.analysis.query.intervals import UNBOUNDED, interval_of, result_of
from hlo_cli.analysis.query.logical_operations import (
    LogicalOperation,
    counted_once,
    logical_operations,
    operation_fields,
)
from hlo_cli.analysis.query.term_units import unit_of_term
from hlo_cli.analysis.query.units import BYTES, COUNT, Unit, unit_of_number
from hlo_cli.analysis.query.where import predicate
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Calculation,
    Field,
    Golden,
    Number,
    Operand,
    Quantity,
    Term,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_number
from hlo_cli.ir.module import Module


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
                unit = unit_of_term(term, self.fields, golden=COUNT if golden is None else golden.unit)
                left, right = self.measure(term.left, golden), self.measure(term.right, golden)
                return _calculated(term.operator, left, right, unit)
            case Quantity():
                return self._peak(term.space) if term.function == "max_peak" else self._measured(term)

    def _peak(self, space: str) -> Measurement:
        number = space_number(space, self.target)
        if number is None:
            has_none = f"{self.target.upper()} has no {space.upper()} memory" if self.target else None
            raise SkippedError(has_none or "the module is not compiled for a target")
        found = self._spaces.get(number)
        if found is None:
            return exactly(0, BYTES)
        parts = tuple(Part(value.instruction, value.padded_bytes) for value in found.live_at(found.peak))
        return exactly(found.peak_bytes, BYTES, parts)

    def _measured(self, quantity: Quantity) -> Measurement:
        where, function = quantity.where, quantity.function
        measure = None if quantity.field is None else computed(where, quantity.field, self.fields)
        unit = COUNT if measure is None else measure.unit
        summed = _fields_in(quantity.field) if function == "sum" else ()
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
        matching = [each for each, is_counted in tested if is_counted]
        unknown_count = sum(is_counted is None for _, is_counted in tested)
        for each in counted_once(self._module, self.operations, matching, summed) if summed else matching:
            value = None if measure is None else measure.read(each)
            if isinstance(value, AtLeast):
                unknown_count += 1
                value = round(value.number) if value.number > -inf else None
            if measure is None or value is not None:
                parts.append(Part(each.instruction, value))
        return parts, unknown_count


def _fields_in(operand: Operand | None) -> frozenset[str]:
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


def _range(function: str, found: int | float | None, unknown_count: int) -> tuple[float, float]:
    """Bounds of a quantity if `unknown_count` operations may count, or have at least a known value."""
    value = found or 0
    if not unknown_count:
        return value, value
    match function:
        case "min":
            return UNBOUNDED
        case "sum" | "max":
            return -inf if found is None else found, inf
        case _:
            return value, value + unknown_count


def _calculated(symbol: ArithmeticOperator, left: Measurement, right: Measurement, unit: Unit) -> Measurement:
    if symbol == "/" and right.is_exact and not right.low:
        raise SkippedError("division by 0")
    unknown_count = left.unknown_count + right.unknown_count
    low, high = interval_of(symbol, (left.low, left.high), (right.low, right.high))
    found = result_of(symbol, left.found or 0, right.found or 0) if right.found or symbol != "/" else None
    of_parts = left if left.parts else right
    return Measurement(found, low, high, unit, unknown_count, of_parts.parts, of_parts.parts_unit)
