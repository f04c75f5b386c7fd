"""Arguments of a module: made up by type and seed, or given and checked against its parameters.

Made-up numbers respect what the program needs where that can be seen: second moments of an optimizer are not negative,
as their square root is taken, and indices are in range. Otherwise a healthy step would be full of NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, inf
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.semantics.control import called
from hlo_cli.analysis.semantics.number_types import Array, Floats, carrier, rounded, settle, wrapped
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ArrayLiteral
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import MOVES
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import HloError

MAX_INTEGER: Final = 3
"""Integers are from 0 to this: as indices, most of them are within bounds."""


@dataclass(frozen=True, slots=True)
class Range:
    """What numbers a program takes: at least `low`, at most `high`, and not zero if it divides by them.

    >>> Range(low=0).moved(np.array([-2.0, 1.0])).tolist()
    [2.0, 1.0]
    >>> Range(low=0, high=8).integers, Range(high=1).integers, Range(not_zero=True).integers
    ((0, 3), (0, 1), (1, 3))
    """

    low: float = -inf
    high: float = inf
    not_zero: bool = False

    def both(self, other: Range) -> Range:
        """What satisfies both; without any such number, what satisfies this one."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, high, self.not_zero or other.not_zero) if low <= high else self

    def moved(self, values: Array) -> Array:
        """Standard normal numbers moved into the range: mirrored at one bound, squeezed between two."""
        if self.low > -inf and self.high < inf:
            return np.asarray(self.low + (self.high - self.low) / (1 + np.exp(-values)))
        if self.low > -inf:
            return np.asarray(self.low + np.abs(values))
        return np.asarray(self.high - np.abs(values)) if self.high < inf else values

    @property
    def integers(self) -> tuple[int, int]:
        """The least and the largest integer to draw, of 0 to `MAX_INTEGER` where the range has some of them."""
        least = int(max(0, ceil(self.low)) if self.low > -inf else 0)
        least = max(least, int(self.not_zero))
        most = max(MAX_INTEGER, least)
        return least, max(least, min(most, floor(self.high))) if self.high < inf else most


ANY: Final = Range()
Ranges: TypeAlias = Mapping[int, Mapping[ShapeIndex, Range]]
"""The ranges of arguments, by the number of the parameter and the index of the array in it."""


def made_up(
    shape: Shape,
    number: int,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    ranges: Mapping[ShapeIndex, Range] = MappingProxyType({}),
) -> Value:
    """A value for parameter `number`: floats are standard normal, integers small and not negative.

    The numbers depend only on the seed, the number of the parameter, its sizes, and the `ranges` of its arrays, so that
    two dumps of one program get the same. None for tokens.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> made_up(parse_shape("s32[4]"), 0).tolist()
    [3, 2, 2, 1]
    """
    if isinstance(shape, TupleShape):
        return tuple(
            made_up(
                each,
                number * 1000 + at + 1,
                seed=seed,
                floats=floats,
                ranges={index[1:]: found for index, found in ranges.items() if index[:1] == (at,)},
            )
            for at, each in enumerate(shape.elements)
        )
    if not isinstance(shape, ArrayShape):
        return None
    random = np.random.default_rng([seed, number])
    return _array(random, shape.element_type, shape.dimensions, floats, ranges.get((), ANY))


def _array(
    random: np.random.Generator, kind: PrimitiveType, sizes: tuple[int, ...], floats: Floats, within: Range
) -> Array:
    match kind.kind:
        case "pred":
            return random.integers(0, 2, sizes).astype(bool)
        case "signed" | "unsigned":
            least, most = within.integers
            return wrapped(np.asarray(random.integers(least, most, sizes, endpoint=True)), kind)
        case "float":
            drawn = within.moved(np.asarray(random.standard_normal(sizes), np.float32))
            return rounded(drawn.astype(np.float32), kind.name).astype(carrier(kind, floats))
        case _:
            parts = random.standard_normal((2, *sizes))
            return np.asarray((parts[0] + 1j * parts[1]).astype(np.complex64)).astype(carrier(kind, floats))


def made_up_arguments(
    module: Module,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    ranges: Ranges | None = None,
    before_each: Callable[[Instruction], None] = lambda parameter: None,
) -> tuple[Value, ...]:
    """Arguments by type and seed, one for each parameter of the entry, within `ranges`: by default, what it needs.

    Two modules get the same arguments if the ranges are the same; see `made_up`, `argument_ranges`, and
    `common_ranges`.
    """
    found, ranges = [], argument_ranges(module) if ranges is None else ranges
    for at, parameter in enumerate(module.entry.parameters):
        before_each(parameter)
        found.append(made_up(parameter.shape, at, seed=seed, floats=floats, ranges=ranges.get(at, {})))
    return tuple(found)


# --- what a program needs of its arguments ---

_MOVES: Final = (MOVES - {opcodes.GET_TUPLE_ELEMENT}) | {
    opcodes.ALL_GATHER, opcodes.COLLECTIVE_PERMUTE, opcodes.CONVERT, opcodes.COPY_DONE, opcodes.DYNAMIC_SLICE,
    opcodes.GATHER, "reduce-precision",
}  # fmt: skip
"""Opcodes whose elements are those of operand 0."""
_SUMS: Final = frozenset((opcodes.ADD, opcodes.ALL_REDUCE, opcodes.REDUCE, opcodes.REDUCE_SCATTER))
_NEEDS: Final[dict[str, Range]] = {
    "sqrt": Range(low=0), "rsqrt": Range(low=0), "log": Range(low=0), "log-plus-one": Range(low=-1),
    "acos": Range(-1, 1), "asin": Range(-1, 1), "atanh": Range(-1, 1), "acosh": Range(low=1), "erf-inv": Range(-1, 1),
}  # fmt: skip
"""What an operand must be, so that the result is a number."""
_EPSILON: Final = 0.01
"""What programs add under a square root so that it is not zero: at most this much, whatever the layer."""
_MOST_NEEDS: Final = 200_000
"""Needs to follow at most, so that made-up arguments take no longer than the run: about a second."""


def common_ranges(*modules: Module) -> Ranges:
    """What all modules need of the parameters that they have in common; the first decides on contradictions."""
    found: dict[int, dict[ShapeIndex, Range]] = {}
    for module in modules:
        for number, ranges in argument_ranges(module).items():
            into = found.setdefault(number, {})
            for index, each in ranges.items():
                into[index] = into.get(index, ANY).both(each)
    return found


def argument_ranges(module: Module) -> dict[int, dict[ShapeIndex, Range]]:
    """What a module needs of its parameters, by number and index: followed back from roots, logarithms, and indices.

    Sums and products of what must not be negative must not be negative themselves; `1 - x` must not exceed 1. What
    cannot be seen so simply is not followed: the arguments are then made up as any others.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { v = f32[4] parameter(0)  g = f32[4] parameter(1)  s = f32[4] multiply(g, g)"
    >>> argument_ranges(parse_module(text + "  a = f32[4] add(v, s)  ROOT r = f32[4] sqrt(a) }"))
    {0: {(): Range(low=0, high=inf, not_zero=False)}}
    """
    return cached_per_module(_needs, module)


def _needs(module: Module) -> dict[int, dict[ShapeIndex, Range]]:
    return _Needs(module).found


class _Needs:
    """The needs of all values, followed from users to operands and from called computations to their callers."""

    def __init__(self, module: Module) -> None:
        self.found: dict[int, dict[ShapeIndex, Range]] = {}
        self._entry = module.entry
        self._known: dict[tuple[Instruction, ShapeIndex], Range] = {}
        self._pending: list[tuple[Instruction, ShapeIndex, Range]] = []
        self._callers: dict[Computation, list[Instruction]] = {}
        for each in module.instructions:
            for computation in each.called_computations:
                self._callers.setdefault(computation, []).append(each)
        for each in module.instructions:
            self._begin(each)
        for _ in range(_MOST_NEEDS):
            if not self._pending:
                break
            self._follow(*self._pending.pop())

    def _begin(self, instruction: Instruction) -> None:
        """The needs of one instruction itself."""
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in _NEEDS and operands:
            self._need(operands[0], (), _NEEDS[opcode])
        elif opcode == "divide" and len(operands) == 2:
            self._need(operands[1], (), Range(not_zero=True))
        elif opcode == "power" and len(operands) == 2:
            exponent = _number(operands[1])
            if exponent is None or exponent != int(exponent):
                self._need(operands[0], (), Range(low=0))
        elif opcode == opcodes.GATHER and len(operands) == 2:
            self._need(operands[1], (), Range(0, _last_start(instruction)))
        elif opcode == opcodes.DYNAMIC_SLICE and isinstance(shape := instruction.operand_shape(0), ArrayShape):
            sizes = instruction.integers("dynamic_slice_sizes")
            for operand, size, part in zip(operands[1:], shape.dimensions, sizes, strict=False):
                self._need(operand, (), Range(0, size - part))

    def _need(self, value: Instruction, index: ShapeIndex, need: Range) -> None:
        before = self._known.get((value, index), ANY)
        after = before.both(need)
        if after != before:
            self._known[value, index] = after
            self._pending.append((value, index, after))

    def _follow(self, value: Instruction, index: ShapeIndex, need: Range) -> None:
        opcode, operands = value.opcode, value.operands
        if opcode == opcodes.PARAMETER:
            self._follow_parameter(value, index, need)
        elif opcode == opcodes.GET_TUPLE_ELEMENT:
            self._need(operands[0], (value.integer("index") or 0, *index), need)
        elif opcode == opcodes.TUPLE and index and index[0] < len(operands):
            self._need(operands[index[0]], index[1:], need)
        elif opcode == opcodes.COPY_START:
            self._need(operands[0], (), need)
        elif value.called_computations and opcode in _CALLS:
            for computation in value.called_computations:
                if computation.root is not None and (opcode != opcodes.WHILE or computation is not _condition(value)):
                    self._need(computation.root, index, need)
            if opcode == opcodes.WHILE:
                self._need(operands[0], index, need)
        elif opcode in _MOVES and operands:
            self._need(operands[0], index if opcode in ("copy", opcodes.OPT_BARRIER) else (), need)
        elif opcode in (opcodes.CONCATENATE, opcodes.PAD, opcodes.DYNAMIC_UPDATE_SLICE):
            for each in operands if opcode == opcodes.CONCATENATE else operands[:2]:
                self._need(each, (), need)
        elif opcode == "select":
            self._follow_select(operands, need)
        elif not index:
            self._follow_arithmetic(value, need)

    def _follow_parameter(self, value: Instruction, index: ShapeIndex, need: Range) -> None:
        number = value.parameter_number or 0
        if value.computation is self._entry:
            ranges = self.found.setdefault(number, {})
            ranges[index] = ranges.get(index, ANY).both(need)
            return
        for caller in self._callers.get(value.computation, ()):
            if caller.opcode == opcodes.WHILE:
                body = next((each for each in caller.called_computations if each is not _condition(caller)), None)
                if body is not None and body.root is not None:
                    self._need(body.root, index, need)
            if caller.opcode == opcodes.CONDITIONAL:
                number = 1 + caller.called_computations.index(value.computation)
            if caller.opcode in _CALLS and number < len(caller.operands):
                self._need(caller.operands[number], index, need)

    def _follow_select(self, operands: Sequence[Instruction], need: Range) -> None:
        """Both sides; of `select(i < 0, i + size, i)`, with which JAX wraps indices, the index alone."""
        for at, other in ((1, 2), (2, 1)):
            shifted = operands[at]
            if shifted.opcode == opcodes.ADD and operands[other] in shifted.operands:
                self._need(operands[other], (), need)
                return
        for each in operands[1:]:
            self._need(each, (), need)

    def _follow_arithmetic(self, value: Instruction, need: Range) -> None:
        opcode, operands = value.opcode, value.operands
        numbers = [_number(each) for each in operands[:2]]
        if opcode == "negate":
            self._need(operands[0], (), Range(-need.high, -need.low, need.not_zero))
        elif opcode in ("maximum", "minimum", "clamp") or len(operands) < 2:
            return
        elif opcode == "subtract" and numbers[0] is not None:
            self._need(operands[1], (), Range(numbers[0] - need.high, numbers[0] - need.low))
        elif opcode == "subtract" and numbers[1] is not None:
            self._need(operands[0], (), Range(need.low + numbers[1], need.high + numbers[1]))
        elif opcode == opcodes.ADD and None in numbers and (number := _only(numbers)) is not None:
            self._need(operands[numbers.index(None)], (), Range(need.low - number, need.high - number))
        elif opcode in ("multiply", "divide") and (number := _only(numbers)) is not None and None in numbers:
            self._follow_scaled(value, numbers.index(None), number, need)
        elif opcode == "power" and numbers[0] is not None and 0 < numbers[0] < 1 and need.high <= 1:
            # A decay to the power of a step, as in the bias correction of Adam: at most 1 if no step is negative.
            self._need(operands[1], (), Range(low=0))
        elif need.low >= -_EPSILON and (opcode in _SUMS or opcode in ("multiply", "divide")):
            if opcode == "multiply" and _base(operands[0]) is _base(operands[1]):
                return
            for each in operands[:1] if opcode != opcodes.ADD and opcode in _SUMS else operands:
                self._need(each, (), Range(low=0, not_zero=need.not_zero and opcode == "multiply"))

    def _follow_scaled(self, value: Instruction, at: int, number: float, need: Range) -> None:
        """One operand is a number: its sign and size decide."""
        if value.opcode == "divide" and at == 1:
            bounds = (0.0, inf) if need.low >= 0 and number > 0 else (-inf, inf)
        elif number == 0:
            return
        else:
            factor = number if value.opcode == "multiply" else 1 / number
            low, high = need.low / factor, need.high / factor
            bounds = (low, high) if factor > 0 else (high, low)
        self._need(value.operands[at], (), Range(*bounds, need.not_zero))


_CALLS: Final = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE))


def _condition(loop: Instruction) -> Computation:
    return called(loop, "condition")


def _only(numbers: Sequence[float | None]) -> float | None:
    """The one number of two operands, of which the other is not known."""
    return next((each for each in numbers if each is not None), None)


def _number(value: Instruction) -> float | None:
    """The number that all elements of a value are, if it is a constant of one element, or made of one."""
    while value.opcode in ("bitcast", "broadcast", "convert", "copy", "reshape") and value.operands:
        value = value.operands[0]
    literal = value.literal if value.opcode == opcodes.CONSTANT else None
    if not isinstance(literal, ArrayLiteral) or literal.is_elided or literal.shape.elements != 1:
        return None
    array = literal.array()
    return float(array.reshape(-1)[0]) if array.dtype.kind in "fiu" else None


def _base(value: Instruction) -> Instruction:
    """What a value is a positive multiple of: the product of two multiples of one value is not negative."""
    while value.operands:
        if value.opcode in ("bitcast", "broadcast", "convert", "copy", "reshape"):
            value = value.operands[0]
            continue
        numbers = [_number(each) for each in value.operands] if value.opcode == "multiply" else []
        number = _only(numbers)
        if number is None or number <= 0 or None not in numbers:
            break
        value = value.operands[numbers.index(None)]
    return value


def _last_start(gather: Instruction) -> float:
    """The largest index at which every slice of a gather fits."""
    shape, sizes = gather.operand_shape(0), gather.integers("slice_sizes")
    numbers = gather.integers("start_index_map")
    if not isinstance(shape, ArrayShape):
        return inf
    return min((shape.dimensions[at] - sizes[at] for at in numbers if at < min(shape.rank, len(sizes))), default=inf)


def check_count(values: Sequence[Value], module: Module) -> None:
    """HloError if the entry has another number of parameters."""
    count = len(module.entry.parameters)
    if len(values) != count:
        raise HloError(f"the module has {count} parameters, not {len(values)}")


def checked(value: Value, shape: Shape, name: str, floats: Floats) -> Value:
    """A value in the carriers of a shape, rounded to its types; HloError if its sizes are others."""
    if isinstance(shape, TupleShape):
        if not isinstance(value, tuple) or len(value) != len(shape.elements):
            raise HloError(f"{name} has to be a tuple of {len(shape.elements)} values")
        return tuple(
            checked(part, inner, f"{name}, element {at}", floats)
            for at, (part, inner) in enumerate(zip(value, shape.elements, strict=True))
        )
    if not isinstance(shape, ArrayShape):
        return None
    array = np.asarray(value)
    kind = "void" if array.dtype.type is np.void else array.dtype.kind
    if kind in ("void", "S", "U", "O", "M", "m") or (kind == "c" and not shape.element_type.is_complex):
        raise HloError(f"{name} has elements of type {array.dtype}, but the parameter is {shape}")
    if array.shape != shape.dimensions:
        sizes = ",".join(map(str, array.shape))
        raise HloError(f"{name} has sizes [{sizes}], but the parameter is {shape}")
    _check_numbers(array, shape, name)
    is_float = array.dtype in (np.float32, np.float64) and shape.element_type.kind == "float"
    held = array if is_float else array.astype(carrier(shape.element_type, floats))
    return settle(held, shape.element_type, floats)


def _check_numbers(array: Array, shape: ArrayShape, name: str) -> None:
    """HloError for numbers that integers or booleans cannot hold."""
    kind = shape.element_type
    if kind.kind not in ("pred", "signed", "unsigned") or array.dtype.kind == "b" or not array.size:
        return
    least = -(1 << (kind.bits - 1)) if kind.kind == "signed" else 0
    most = (1 << (kind.bits - (kind.kind == "signed"))) - 1 if kind.kind != "pred" else 1
    is_integral = array.dtype.kind in "iu" or bool((np.isfinite(array) & (array == np.trunc(array))).all())
    if not is_integral or int(array.min()) < least or int(array.max()) > most:
        raise HloError(f"{name} has numbers that {kind} cannot hold, but the parameter is {shape}")
