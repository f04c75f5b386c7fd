"""Assertions that cannot fail on a module, and conditions that are always or never true.

What is known without looking at single operations: numbers are not negative, shares are at most 100%, some opcodes
exist only before or only after optimization, and only TPUs pad arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Final, TypeVar

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.partly_known import ORDERS, ranges_compared
from hlo_cli.analysis.query.fields import PLURALS, Fields
from hlo_cli.analysis.query.intervals import NOT_NEGATIVE, UNBOUNDED, Interval, interval_of
from hlo_cli.analysis.query.program_stage import program_stage
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.expressions import (
    Arithmetic,
    Both,
    Calculation,
    Comparison,
    Condition,
    Either,
    Expectation,
    Field,
    Flag,
    Golden,
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
from hlo_cli.ir.memory_space import memory_space
from hlo_cli.ir.module import Module
from hlo_cli.source import Span

T = TypeVar("T")

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
_MADE_BY_COMPILER: Final = frozenset((opcodes.FUSION, opcodes.BITCAST))
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


def cautions_of(module: Module, expectation: Expectation, fields: Fields[T]) -> tuple[Caution, ...]:
    """Reasons why an assertion cannot fail on a module, and parts of its conditions that are always or never true.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.query.logical_operations import operation_fields
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["none(bytes < 0 and opcode == copy)"]'))
    >>> [(each.message, each.cannot_fail) for each in cautions_of(module, stated, operation_fields(module))]
    [('bytes < 0 is never true', True)]
    """
    ranges = _Ranges(module, fields)
    left, right = ranges.of_term(expectation.quantity), ranges.of_term(expectation.limit)
    cannot_fail = ranges_compared(expectation.operator, left, right) is True
    reasons = tuple(dict.fromkeys(ranges.reasons))
    if cannot_fail and not reasons:
        quantity = next(quantities_in(expectation.quantity))
        text = _text(quantity.where, expectation.quantity.span)
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
            return (0 if low >= 0 else -inf), (0 if high <= 0 or not can_be_true else inf)
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
                names = (*_fields_in(condition.left), *_fields_in(condition.right))
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
        if answer is True and _ALWAYS.issuperset(names):
            self.reasons.append(Caution(f"{_text(where, compared.span)} is always true", "remove it"))
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
                both = f"{_text(where, other.span)} and {_text(where, part.span)}"
                self.reasons.append(Caution(f"{both} {_NEVER}", "use `or`, or `in (a, b)`"))
                return True
        return False

    def _never(self, where: Where, span: Span, why: str, hint: str = "") -> _Range:
        self.reasons.append(Caution(f"{_text(where, span)} {why}", hint))
        return False, True


def _is_single(field: Field) -> bool:
    """Whether a field has one value, which is one text."""
    return field.name in ("opcode", "dtype", "rank", "computation", "memory_space", "name")


def _fields_in(operand: Operand) -> Iterator[str]:
    match operand:
        case Field():
            yield operand.name
        case Arithmetic():
            yield from _fields_in(operand.left)
            yield from _fields_in(operand.right)


def _text(where: Where, span: Span) -> str:
    return " ".join(where.source.slice(span).split())
