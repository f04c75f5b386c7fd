"""Other forms of an instruction: another opcode, direction, order of operands, constant, element, or dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.rules import rules
from hlo_cli.analysis.semantics.values import Computed, Kernel, Value, array_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.window import PaddingConfig, Slice
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import BINARY, UNARY
from hlo_cli.ir.shape import ArrayShape, TupleShape

_DIRECTIONS: Final[Mapping[str, Callable[..., Array]]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
_ARITHMETIC: Final = (opcodes.ADD, "subtract", "multiply", "divide", "maximum", "minimum")
_LOGIC: Final = ("and", "or", "xor", "shift-left", "shift-right-logical")
_FUNCTIONS: Final = (
    "negate", "abs", "exponential", "log", "sine", "cosine", "tanh", "sqrt", "rsqrt", "floor", "ceil", "logistic",
)  # fmt: skip
_PLACED: Final = frozenset((opcodes.BROADCAST, opcodes.DOT, opcodes.IOTA, opcodes.TRANSPOSE))
_TAKING: Final = frozenset((opcodes.CONCATENATE, opcodes.DOT, opcodes.REDUCE))


@dataclass(frozen=True, slots=True)
class Variant:
    """Another form of an instruction, in words that go after "with", and what it computes from the kernel as it is."""

    words: str
    kernel: Callable[[Kernel, Sequence[Value]], Value]


def variants(
    instruction: Instruction, computed: Computed, constants: Mapping[str, Sequence[Array]]
) -> Iterator[Variant]:
    """The other forms of an instruction; constants are those of the other program, by element type."""
    opcode, shape = instruction.opcode, instruction.shape
    if opcode == opcodes.GET_TUPLE_ELEMENT:
        yield from _elements(instruction)
    elif not isinstance(shape, ArrayShape):
        return
    elif opcode == opcodes.CONSTANT:
        if shape.elements == 1:
            for value in constants.get(shape.element_type.name, ()):
                yield Variant(f"constant {value.item():g}", _always(value.reshape(shape.dimensions)))
    elif opcode == opcodes.COMPARE:
        for direction, function in _DIRECTIONS.items():
            if direction != instruction.attribute("direction"):
                yield Variant(f"direction {direction}", _calling(function))
        yield Variant("operands swapped", _swapped)
    elif opcode in BINARY:
        yield Variant("operands swapped", _swapped)
        yield from _opcodes(instruction, computed, _ARITHMETIC)
        if not _is_real_or_complex(shape):
            yield from _opcodes(instruction, computed, _LOGIC)
    elif opcode in UNARY and _is_real_or_complex(shape):
        yield from _opcodes(instruction, computed, _FUNCTIONS)
    else:
        yield from _moves(instruction, shape)


def _is_real_or_complex(shape: ArrayShape) -> bool:
    return shape.element_type.kind == "float" or shape.element_type.is_complex


def _always(value: Array) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: value


def _calling(function: Callable[..., Value]) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: function(*operands)


def _swapped(kernel: Kernel, operands: Sequence[Value]) -> Value:
    return kernel(*reversed(operands))


def _opcodes(instruction: Instruction, computed: Computed, others: Sequence[str]) -> Iterator[Variant]:
    for other in others:
        if other != instruction.opcode:
            yield Variant(other, _calling(rules()[other](instruction, computed)))


def _elements(instruction: Instruction) -> Iterator[Variant]:
    whole = instruction.operand_shape(0)
    if not isinstance(whole, TupleShape):
        return
    for at, each in enumerate(whole.elements):
        if at != instruction.integer("index") and str(each) == str(instruction.shape):
            yield Variant(f"index {at}", _element(at))


def _element(at: int) -> Callable[[Kernel, Sequence[Value]], Value]:
    def kernel(own: Kernel, operands: Sequence[Value]) -> Value:
        [whole] = operands
        assert isinstance(whole, tuple)
        return whole[at]

    return kernel


def _moves(instruction: Instruction, shape: ArrayShape) -> Iterator[Variant]:
    """Dimensions of equal sizes in another order, other ends of slices and paddings."""
    opcode = instruction.opcode
    rank = len(shape.dimensions)
    if opcode == opcodes.IOTA:
        for at in range(rank):
            if at != instruction.integer("iota_dimension"):
                yield Variant(f"iota_dimension {at}", _counting(at))
    elif opcode in _PLACED:
        for i, j in _equal(shape.dimensions):
            yield Variant(f"dimensions {i} and {j} swapped", _result(partial(np.swapaxes, axis1=i, axis2=j)))
    if opcode in _TAKING and isinstance(given := instruction.operand_shape(0), ArrayShape):
        for i, j in _equal(given.dimensions):
            yield Variant(f"dimensions {i} and {j} of operand 0 swapped", _operand(i, j))
    if opcode == "reverse":
        for axes in (*((at,) for at in range(rank)), *combinations(range(rank), 2)):
            yield Variant("other dimensions", _result(partial(np.flip, axis=axes)))
    if opcode == opcodes.SLICE and (taken := instruction.value_of(opcodes.SLICE, Slice)) is not None:
        yield from _slices(instruction, taken)
    if opcode == opcodes.PAD and (config := instruction.value_of("padding", PaddingConfig)) is not None:
        for at, each in enumerate(config.dimensions):
            if each.edge_padding_low != each.edge_padding_high:
                by = each.edge_padding_high - each.edge_padding_low
                yield Variant("low and high swapped", _result(partial(np.roll, shift=by, axis=at)))


def _equal(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((i, j) for i, j in combinations(range(len(sizes)), 2) if sizes[i] == sizes[j] > 1)


def _result(change: Callable[[Array], Array]) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: change(array_of(kernel(*operands)))


def _operand(i: int, j: int) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: kernel(np.swapaxes(array_of(operands[0]), i, j), *operands[1:])


def _counting(at: int) -> Callable[[Kernel, Sequence[Value]], Value]:
    def kernel(own: Kernel, operands: Sequence[Value]) -> Value:
        as_is = array_of(own(*operands))
        sizes = [as_is.shape[at] if each == at else 1 for each in range(as_is.ndim)]
        return np.broadcast_to(np.arange(as_is.shape[at], dtype=as_is.dtype).reshape(sizes), as_is.shape)

    return kernel


def _slices(instruction: Instruction, taken: Slice) -> Iterator[Variant]:
    given = instruction.operand_shape(0)
    assert isinstance(given, ArrayShape)
    for at, each in enumerate(taken.dimensions):
        for by in (1, -1):
            if each.start + by >= 0 and each.limit + by <= given.dimensions[at]:
                ranges = [slice(d.start, d.limit, d.stride) for d in taken.dimensions]
                ranges[at] = slice(each.start + by, each.limit + by, each.stride)
                yield Variant(f"start {each.start + by}", _ranges(tuple(ranges)))


def _ranges(ranges: tuple[slice, ...]) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: array_of(operands[0])[ranges]
