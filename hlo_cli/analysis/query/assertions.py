"""What a module makes of expectations: whether each is met, what was found, and where.

The language and its words are this tool's own; what counts as one operation is told in `operations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from math import inf
from typing import Final

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, SpaceUsage
from hlo_cli.analysis.partly_known import AtLeast, within
from hlo_cli.analysis.query.logical_operations import LogicalOperation, operation_fields, operations_of
from hlo_cli.analysis.query.patterns import name_matcher
from hlo_cli.analysis.query.spellings import Spelling, other_spellings
from hlo_cli.analysis.query.where import NUMBERS, Fields, FieldValue, Kind, Predicate, predicate
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.assertion import Expectation, Quantity
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_number
from hlo_cli.ir.module import Module
from hlo_cli.ir.where import Both, Comparison, Flag, Text, Where
from hlo_cli.source import HloError, Source

_NOTHING_KEEPS: Final = ("<", "<=", "!=")
"""The limits that the largest of nothing keeps."""
_UNITS: Final[dict[Kind, str]] = {"bytes": "bytes", "share": "percent"}


@dataclass(frozen=True, slots=True)
class Part:
    """An instruction that counts, and how much; None where it counts as one."""

    instruction: Instruction
    amount: int | float | None


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """Whether an expectation is met, None where it cannot be asked or hangs on an unknown cost; `remark` is the reason.

    `found` is what was measured, as far as it is known, None for the largest of nothing, and `kind` says what it
    counts; `parts` are what that is of, the largest first, else in the order of the text. `spellings` are opcodes that
    the expectation names and that the module has under another name.
    """

    expectation: Expectation
    is_met: bool | None
    found: int | float | None = None
    kind: Kind = "count"
    parts: tuple[Part, ...] = ()
    remark: str = ""
    spellings: tuple[Spelling, ...] = ()


def check_assertions(
    module: Module,
    expectations: Iterable[Expectation],
    *,
    attributes: Collection[str] = (),
    memory: Callable[[], MemoryAnalysis],
) -> tuple[AssertionResult, ...]:
    """A verdict on every expectation whose sections the module is in; `memory` is asked for only if it is needed.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.queries.assertions import read_expectations
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> stated = read_expectations(Source("e.toml", 'expect = ["none(opcode == negate)", "max(padded_bytes) < 1kB"]'))
    >>> [(each.is_met, each.found) for each in check_assertions(module, stated, memory=lambda: memory_analysis(module))]
    [(False, 1), (True, 8)]
    """
    judge = _Judge(module, attributes, memory)
    return tuple(judge(each) for each in expectations if judge.is_meant(each))


def check_expectation(expectation: Expectation, attributes: Collection[str]) -> None:
    """HloError where an expectation asks for fields that nothing has, or compares unlike things.

    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.queries.assertions import read_expectations
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["sum(opcode) < 3"]'))
    >>> check_expectation(stated, ())
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:5: error: opcode is no number
    """
    nothing = Computation("", is_entry=True)
    fields = operation_fields(Module("", (nothing,), nothing, Source("", "")), attributes)
    if expectation.quantity.function != "max_peak":
        _measure(expectation, replace(fields, functions=dict.fromkeys(fields.functions, _any_name)))


def _any_name(where: Where, text: Text) -> Predicate[LogicalOperation]:
    """The test of a function whose names are those of another module: only the pattern is looked at."""
    name_matcher(where, text)
    return lambda each: False


@dataclass(frozen=True, slots=True)
class _Measure:
    """Which operations count, and how much each."""

    counts: Predicate[LogicalOperation]
    amount: Callable[[LogicalOperation], int | float | AtLeast | None]
    kind: Kind = "count"


def _measure(expectation: Expectation, fields: Fields[LogicalOperation]) -> _Measure:
    quantity, limit = expectation.quantity, expectation.limit
    where, asked = quantity.where, quantity.field
    counts = predicate(where, fields)
    if asked is None:
        if limit.unit:
            raise where.error(f"{limit.text} is no number of operations", limit.span)
        return _Measure(counts, lambda each: None)
    reader = fields.find(where, asked)
    if reader.kind not in (*NUMBERS, "names"):
        hint = "as padded_bytes, bytes, flops, elements, users; hlo help where lists the fields"
        raise where.error(f"{asked} is no number", asked.span, hint)
    if limit.unit and limit.unit != _UNITS.get(reader.kind):
        raise where.error(f"{asked} does not count in such units", limit.span)
    return _Measure(counts, lambda each: _number(reader.read(each)), reader.kind)


def _number(value: FieldValue) -> int | float | AtLeast | None:
    """A field as a number: of names, how many there are."""
    if isinstance(value, tuple):
        return len(value)
    return value if isinstance(value, int | float | AtLeast) else None


def _range(function: str, found: int | float | None, open_ones: int) -> tuple[float, float]:
    """From where to where a quantity may lie if so many operations may count, or count for more than is known."""
    match function:
        case "min":
            return -inf, inf
        case "sum" | "max":
            return -inf if found is None else found, inf
        case _:
            return found or 0, (found or 0) + open_ones


class _Judge:
    """What is asked of one module; its operations are found when they are needed."""

    def __init__(self, module: Module, attributes: Collection[str], memory: Callable[[], MemoryAnalysis]) -> None:
        self._module = module
        self._attributes = attributes
        self._memory = memory

    @cached_property
    def _target(self) -> str | None:
        return target_of(self._module)

    @cached_property
    def _operations(self) -> tuple[LogicalOperation, ...]:
        return operations_of(self._module)

    @cached_property
    def _fields(self) -> Fields[LogicalOperation]:
        return operation_fields(self._module, self._attributes)

    @cached_property
    def _spaces(self) -> Mapping[int, SpaceUsage]:
        return {space.number: space for space in self._memory().spaces}

    def is_meant(self, expectation: Expectation) -> bool:
        """Whether the module is in all sections that an expectation stands in."""
        names = {"module": self._module.name, "target": self._target or ""}
        return all(fnmatchcase(names[section.kind], section.pattern) for section in expectation.sections)

    def __call__(self, expectation: Expectation) -> AssertionResult:
        if self._module.errors:
            return AssertionResult(expectation, False, remark="cannot be told: the text could not be read whole")
        try:
            if expectation.quantity.function == "max_peak":
                return self._peak(expectation)
            spellings = other_spellings(self._module, expectation.quantity.where)
            return replace(self._measured(expectation), spellings=spellings)
        except HloError as error:
            return AssertionResult(expectation, False, remark=f"cannot be told: {error.diagnostic.message}")

    def _peak(self, expectation: Expectation) -> AssertionResult:
        space = expectation.quantity.space
        number = space_number(space, self._target)
        if number is None:
            why = (
                f"a {self._target.upper()} has no {space.upper()}"
                if self._target
                else "not compiled for any target yet"
            )
            return AssertionResult(expectation, None, remark=why)
        found = self._spaces.get(number)
        if found is None:
            return self._judged(expectation, 0, "bytes", ())
        parts = (Part(value.instruction, value.padded_bytes) for value in found.live_at(found.peak))
        return self._judged(expectation, found.peak_bytes, "bytes", tuple(parts))

    def _measured(self, expectation: Expectation) -> AssertionResult:
        measure = _measure(expectation, self._fields)
        counted: list[LogicalOperation] = []
        open_ones = 0
        for each in self._operations:
            counts = measure.counts(each)
            open_ones += counts is None
            if counts:
                counted.append(each)
        parts: list[Part] = []
        for each in counted:
            amount = measure.amount(each)
            if isinstance(amount, AtLeast):
                open_ones += 1
                amount = round(amount.number)
            parts.append(Part(each.instruction, amount))
        amounts = [part.amount for part in parts if part.amount is not None]
        found: int | float | None = len(parts)
        match expectation.quantity.function:
            case "sum":
                found = sum(amounts)
            case "max":
                found = max(amounts, default=None)
            case "min":
                found = min(amounts, default=None)
        turned = 1 if expectation.quantity.function == "min" else -1
        parts.sort(key=lambda part: turned * (part.amount or 0))
        return self._judged(expectation, found, measure.kind, tuple(parts), open_ones=open_ones)

    def _judged(
        self,
        expectation: Expectation,
        found: int | float | None,
        kind: Kind,
        parts: tuple[Part, ...],
        *,
        open_ones: int = 0,
    ) -> AssertionResult:
        limit, sign = expectation.limit.value, expectation.operator
        if open_ones:
            low, high = _range(expectation.quantity.function, found, open_ones)
            is_met = within(sign, low, high, limit)
        else:
            is_met = sign in _NOTHING_KEEPS if found is None else within(sign, found, found, limit)
        if is_met is None:
            who = "1 operation" if open_ones == 1 else f"{open_ones:,} operations"
            return AssertionResult(
                expectation, None, found, kind, parts, f"cannot be told: the cost of {who} is unknown"
            )
        remark = "" if is_met or parts else self._nearly(expectation.quantity)
        return AssertionResult(expectation, is_met, found, kind, parts, remark)

    def _nearly(self, quantity: Quantity) -> str:
        """Of conditions joined by `and` that never hold together, how often each does."""
        where = quantity.where
        if not isinstance(where.condition, Both) or quantity.function == "max_peak":
            return ""
        held: list[str] = []
        for part in where.condition.parts:
            if not isinstance(part, Comparison | Flag):
                return ""
            span = part.span if isinstance(part, Comparison) else part.field.span
            test = predicate(replace(where, condition=part), self._fields)
            number = sum(test(each) is True for each in self._operations)
            held.append(f"{number:,} with {where.source.slice(span)}")
        return ", ".join(held)
