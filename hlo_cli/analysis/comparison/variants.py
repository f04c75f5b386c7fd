"""Other forms of an instruction: another opcode, direction, order of operands, constant, element, or dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import combinations
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.program import constant
from hlo_cli.analysis.semantics.number_types import Array, carrier
from hlo_cli.analysis.semantics.rules import rules
from hlo_cli.analysis.semantics.values import Computed, Kernel, Value, array_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.window import PaddingConfig, Slice
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import BINARY, UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

_DIRECTIONS: Final[Mapping[str, Callable[..., Array]]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
_ARITHMETIC: Final = (opcodes.ADD, "subtract", "multiply", "divide", "maximum", "minimum")
_LOGIC: Final = ("and", "or", "xor", "shift-left", "shift-right-logical")
_FUNCTIONS: Final = (
    "negate", "abs", "exponential", "log", "sine", "cosine", "tanh", "sqrt", "rsqrt", "floor", "ceil", "logistic",
)  # fmt: skip
_MAX_CONSTANTS: Final = 12
_PLACED: Final = frozenset((opcodes.BROADCAST, opcodes.DOT, opcodes.IOTA, opcodes.TRANSPOSE))
_TAKING: Final = frozenset((opcodes.CONCATENATE, opcodes.DOT, opcodes.REDUCE))


@dataclass(frozen=True, slots=True)
class Variant:
    """Another form of an instruction, in words that go after "with", and what it computes from the kernel as it is.

    `computation` is the one that it calls instead of its own, if any. One that `is_unlikely` has another opcode than
    the name of the instruction begins with, which is that of the opcode that the compiler made it with.
    """

    words: str
    kernel: Callable[[Kernel, Sequence[Value]], Value]
    computation: Computation | None = None
    is_unlikely: bool = False


@dataclass(frozen=True, slots=True)
class Material:
    """What other forms are made of: the scalar constants of the other program by element type, the most frequent first,
    and its computations of scalars.
    """

    constants: Mapping[str, Sequence[Array]]
    computations: Sequence[Computation] = ()


def material_of(module: Module) -> Material:
    """The constants and the computations of a module, few of each type."""
    found: dict[str, dict[float | int | complex | bool, tuple[int, Array]]] = {}
    scalar: dict[str, Computation] = {}
    for computation in module.computations:
        if computation.parameters and all(_is_scalar(each.shape) for each in computation.parameters):
            text = " ".join(f"{each.opcode}{each.attribute('direction')}" for each in computation.instructions)
            scalar.setdefault(f"{_signature(computation)} {text}", computation)
        for instruction in computation.instructions:
            shape, literal = instruction.shape, instruction.literal
            if instruction.opcode != opcodes.CONSTANT or not isinstance(shape, ArrayShape) or literal is None:
                continue
            if shape.elements == 1:
                value = np.asarray(constant(literal, "widen")).reshape(())
                times = found.setdefault(shape.element_type.name, {})
                times[value.item()] = times.get(value.item(), (0, value))[0] + 1, value
    constants: dict[str, list[Array]] = {
        kind: [value for _, value in sorted(times.values(), key=lambda each: -each[0])[:_MAX_CONSTANTS]]
        for kind, times in found.items()
    }
    for values in constants.values():  # compilers multiply by the reciprocal of a divisor
        values += [np.reciprocal(each) for each in values if each.dtype.kind == "f" and each != 0]
    return Material(constants, tuple(scalar.values()))


def _is_scalar(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and not shape.dimensions


def _signature(computation: Computation) -> str:
    """The types of the parameters and of the result."""
    root = computation.root
    shapes = [each.shape for each in computation.parameters] + ([] if root is None else [root.shape])
    leaves = (leaf for shape in shapes for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))
    return " ".join(leaf.element_type.name for leaf in leaves)


def variants(instruction: Instruction, computed: Computed, material: Material) -> Iterator[Variant]:
    """The other forms of an instruction."""
    opcode, shape = instruction.opcode, instruction.shape
    if len(instruction.called_computations) == 1:
        yield from _calls(instruction, computed, material)
    if opcode == opcodes.GET_TUPLE_ELEMENT:
        yield from _elements(instruction)
    elif not isinstance(shape, ArrayShape):
        return
    elif opcode == opcodes.CONSTANT:
        if shape.elements == 1:
            usual = [np.array(each).astype(carrier(shape.element_type, computed.floats)) for each in (0, 1, -1)]
            for value in (*material.constants.get(shape.element_type.name, ()), *usual):
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
    is_unlikely = instruction.name.startswith(instruction.opcode)
    for other in others:
        if other != instruction.opcode:
            yield Variant(other, _calling(rules()[other](instruction, computed)), is_unlikely=is_unlikely)


def _calls(instruction: Instruction, computed: Computed, material: Material) -> Iterator[Variant]:
    """Other computations of scalars with the same types."""
    [own] = instruction.called_computations
    if not all(_is_scalar(each.shape) for each in own.parameters):
        return
    for other in material.computations:
        if _signature(other) == _signature(own):
            altered = copy(instruction)
            altered.called_computations = (other,)
            kernel = rules()[instruction.opcode](altered, computed)
            yield Variant(f"{other.name} of the first module", _calling(kernel), other)


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
