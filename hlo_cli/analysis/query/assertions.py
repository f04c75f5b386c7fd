"""Evaluates assertions on a module: whether each passes, the measured value, and where.

The assertion language is specific to this tool; `logical_operations.py` defines what counts as one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.partly_known import ranges_compared
from hlo_cli.analysis.query.fields import Kind, Predicate
from hlo_cli.analysis.query.ineffective import Caution, cautions_of
from hlo_cli.analysis.query.logical_operations import LogicalOperation, operation_fields
from hlo_cli.analysis.query.lowered_forms import LoweredForm, lowered_forms
from hlo_cli.analysis.query.measurements import Measurement, Measurer, Part, SkippedError
from hlo_cli.analysis.query.patterns import call_matcher
from hlo_cli.analysis.query.term_units import check_units_of
from hlo_cli.analysis.query.unmatched import unmatched_conditions
from hlo_cli.analysis.query.where import predicate
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import (
    Both,
    Call,
    Comparison,
    Expectation,
    Flag,
    Limit,
    Number,
    Quantity,
    Term,
    Where,
    quantities_in,
)
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source

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
    """
    quantities = tuple(quantities_in(expectation.quantity))
    if not quantities:
        span, source = expectation.quantity.span, Source("", expectation.text)
        raise HloError("no quantity to measure", span, source=source, hint="for example, count(opcode == copy) <= 3")
    nothing = Computation("", is_entry=True)
    fields = operation_fields(Module("", (nothing,), nothing, Source("", "")), attributes)
    check_units_of(expectation, replace(fields, functions=dict.fromkeys(fields.functions, _match_nothing)))


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
            cautions = cautions_of(self._module, expectation, self._measurer.fields)
            unmatched = unmatched_conditions(expectation, self._measurer) if result.is_met else ()
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
    if left.found is None and left.is_exact:  # the maximum of no values
        return sign in (_TRUE_FOR_EQUAL if right.found is None and right.is_exact else _TRUE_FOR_EMPTY)
    return ranges_compared(sign, (left.low, left.high), (right.low, right.high))
