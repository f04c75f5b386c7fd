"""The keys by which a comparison of two elements sorts, so that they are computed once and not for each comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.semantics.elementwise import ordered
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, array_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction

Order: TypeAlias = npt.NDArray[np.int64]

_MOST: Final = 400
"""The largest comparison, in instructions, that is looked at: each may be nested in the next."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A value computed from one element of each operand, and how two of them are compared."""

    value: Instruction
    is_ascending: bool
    is_total: bool


def sort_keys(computation: Computation) -> tuple[SortKey, ...] | None:
    """The keys of a comparison, the first of which decides unless it is equal; None if it compares otherwise.

    A comparison has keys if both sides are the same function of one element and the other, as in all that JAX writes.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GT }"
    >>> sort_keys(parse_module(text).entry)
    (SortKey(value=<parameter a>, is_ascending=False, is_total=False),)
    """
    root = computation.root
    if root is None or len(computation.instructions) > _MOST:
        return None
    found: list[SortKey] = []
    while (parts := _alternatives(root)) is not None:
        key, root = parts
        found.append(key)
    last = _strict(root)
    return None if last is None else (*found, last)


def _alternatives(root: Instruction) -> tuple[SortKey, Instruction] | None:
    """The key of `less or (equal and rest)`, with the rest."""
    if root.opcode != "or":
        return None
    for less, both in (root.operands, root.operands[::-1]):
        if both.opcode != "and" or (key := _strict(less)) is None:
            continue
        for same, rest in (both.operands, both.operands[::-1]):
            if _is_equality(same, key):
                return key, rest
    return None


def _strict(instruction: Instruction) -> SortKey | None:
    """The key of a strict comparison of an element with the other one."""
    direction = instruction.attribute("direction")
    if instruction.opcode != opcodes.COMPARE or direction not in ("LT", "GT"):
        return None
    left, right = instruction.operands
    if not _is_mirrored(left, right):
        return None
    sides = _sides(left)
    if len(sides) != 1:
        return None
    is_ascending = (direction == "LT") == (sides == {0})
    return SortKey(left, is_ascending, instruction.attribute("type") == "TOTALORDER")


def _is_equality(instruction: Instruction, key: SortKey) -> bool:
    if instruction.opcode != opcodes.COMPARE or instruction.attribute("direction") != "EQ":
        return False
    if (instruction.attribute("type") == "TOTALORDER") != key.is_total:
        return False
    left, right = instruction.operands
    return _is_mirrored(left, right) and (_is_same(left, key.value) or _is_same(right, key.value))


def _is_mirrored(left: Instruction, right: Instruction) -> bool:
    """Whether two values are the same function of the two elements, each of the other one."""
    return _agree(left, right, 1)


def _is_same(left: Instruction, right: Instruction) -> bool:
    return _agree(left, right, 0)


def _agree(left: Instruction, right: Instruction, swapped: int) -> bool:
    """Whether two values are made alike, of parameters whose numbers are the same, or those of the other element."""
    seen: set[tuple[Instruction, Instruction]] = set()
    pending = [(left, right)]
    while pending:
        a, b = pair = pending.pop()
        if pair in seen:
            continue
        seen.add(pair)
        if a.opcode != b.opcode or a.shape != b.shape or len(a.operands) != len(b.operands) or a.called_computations:
            return False
        if (number := a.parameter_number) is not None:
            if b.parameter_number != number ^ swapped:
                return False
        elif a is not b and (_attributes(a) != _attributes(b) or _constant(a) != _constant(b)):
            return False
        pending += zip(a.operands, b.operands, strict=True)
    return True


def _attributes(instruction: Instruction) -> list[tuple[str, str]]:
    return [pair for pair in instruction.pairs if pair[0] not in ("metadata", "backend_config")]


def _constant(instruction: Instruction) -> str:
    return instruction.raw[0] if instruction.opcode == opcodes.CONSTANT else ""


def _sides(value: Instruction) -> set[int]:
    """0 for the first element, 1 for the second one: those that a value is made of."""
    return {each.parameter_number % 2 for each in _made_of(value) if each.parameter_number is not None}


def _made_of(value: Instruction) -> set[Instruction]:
    seen, pending = {value}, [value]
    while pending:
        new = set(pending.pop().operands) - seen
        seen |= new
        pending += new
    return seen


def key_function(key: SortKey, computation: Computation, computed: Computed) -> Callable[[Sequence[Array]], Array]:
    """Computes a key of all elements from the operands of the sort, element by element."""
    needed = _made_of(key.value)
    steps = [
        (each, computed.kernel(each, on_arrays=True))
        for each in computation.instructions
        if each in needed and each.parameter_number is None
    ]
    given = [(each, each.parameter_number // 2) for each in needed if each.parameter_number is not None]

    def run(operands: Sequence[Array]) -> Array:
        values = {each: operands[at] for each, at in given}
        for each, kernel in steps:
            values[each] = array_of(kernel(*(values[operand] for operand in each.operands)))
        return values[key.value]

    return run


def order_by(keys: Sequence[tuple[SortKey, Array]]) -> Order | None:
    """The stable order of the last dimension by keys and their values; None for values without order, such as NaN.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = s8[] parameter(0)  b = s8[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GT }"
    >>> [key] = sort_keys(parse_module(text).entry)
    >>> order_by([(key, np.array([1, 3, 3, 2]))]).tolist()
    [1, 2, 3, 0]
    """
    order: Order | None = None
    for key, values in reversed(keys):
        numbers = _numbers(key, values)
        if numbers is None:
            return None
        if order is None:
            order = stable_order(numbers)
        else:
            order = np.take_along_axis(order, stable_order(np.take_along_axis(numbers, order, -1)), -1)
    return order


def _numbers(key: SortKey, values: Array) -> Array | None:
    """Integers that are in the order of a key."""
    if values.dtype.kind == "c" or (values.dtype.kind == "f" and not key.is_total and bool(np.isnan(values).any())):
        return None
    if values.dtype.kind == "f":
        values = ordered(values if key.is_total else values + values.dtype.type(0))  # zeros are equal: -0 becomes +0
    return values if key.is_ascending else np.invert(values)


def stable_order(numbers: Array) -> Order:
    """The order of integers along the last dimension, equal ones as they are.

    Numbers of 32 bits are sorted as one number of 64 bits with their position, which is faster than a stable sort.

    >>> stable_order(np.array([3, 1, 3, -1])).tolist()
    [3, 1, 0, 2]
    """
    if numbers.dtype.itemsize > 4 or numbers.dtype.itemsize < 4 or numbers.shape[-1] < _PACKED:
        return np.argsort(numbers, axis=-1, kind="stable")
    wide = np.uint64 if numbers.dtype.kind == "u" else np.int64
    high = numbers.astype(wide) << wide(32)
    high |= np.arange(numbers.shape[-1], dtype=wide)
    high.sort(axis=-1)
    high &= wide(0xFFFFFFFF)
    return high.astype(np.int64)


_PACKED: Final = 64
"""The shortest dimension for which that pays."""
