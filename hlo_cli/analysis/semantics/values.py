"""Values of instructions, and what the rules of opcodes are given and return."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array, Floats, carrier, settle
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.ir.instruction import Computation, Instruction

Value: TypeAlias = "Array | tuple[Value, ...] | None"
"""An array in logical index order, a tuple of values, or None for a token."""

Kernel: TypeAlias = Callable[..., "Value"]
"""Computes a value from those of the operands."""


class Taken(list["Value"]):
    """Operands that a computation takes from its caller, which no longer holds them: it empties the list."""


@dataclass(frozen=True, slots=True)
class Taking:
    """A kernel that takes its operands, so that those which no one else holds may be overwritten.

    Whether anyone does is told by Python's count of references. A program calls `take` with operands that are dead
    afterwards; as a function, this is a kernel like others, and overwrites nothing.
    """

    take: Callable[[list[Value]], Value]

    def __call__(self, *operands: Value) -> Value:
        """The value for operands that the caller holds."""
        return self.take(Taken(operands))


def is_only_here(operands: list[Value]) -> bool:
    """Whether the first operand is an array that nothing but this list refers to, with elements of its own.

    >>> array = np.zeros(2)
    >>> is_only_here(Taken([array])), is_only_here(Taken([np.zeros(2)]))
    (False, True)
    """
    first = operands[0]
    if not isinstance(first, np.ndarray) or first.base is not None or not first.flags["W"]:
        return False
    del first
    return sys.getrefcount(operands[0]) == _ONLY_HERE


def _references() -> int:
    operands = Taken([np.zeros(1)])
    return sys.getrefcount(operands[0])


_ONLY_HERE: Final = _references()
"""The count of references of an array in a list alone, by this Python."""


class Computed(Protocol):
    """What a rule may ask of its program: computations as functions, how floats are held, when a loop is given up.

    `states` are numbers that last from one instruction to the next, such as a counter of random draws.
    """

    floats: Floats
    max_iterations: int
    states: dict[str, int]

    def function(self, computation: Computation) -> Callable[[Sequence[Value]], Value]:
        """Runs a computation on the values of its parameters."""

    def vectorized(self, computation: Computation) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
        """Runs a computation of scalars on whole arrays, element by element."""

    def kernel(self, instruction: Instruction, *, on_arrays: bool = False) -> Kernel:
        """The function that computes an instruction; with `on_arrays`, one of scalars on arrays of any shape."""


Rule: TypeAlias = "Callable[[Instruction, Computed], Kernel]"
"""Reads the attributes of an instruction once, and returns its kernel."""


def arrays_of(value: Value, shape: Shape) -> Iterator[tuple[ShapeIndex, Array, ArrayShape]]:
    """The arrays of a value with their indices and shapes; tokens and contexts of asynchronous operations have none."""
    if value is None:
        return
    if isinstance(shape, TupleShape):
        assert isinstance(value, tuple)
        for at, (part, inner) in enumerate(zip(value, shape.elements, strict=False)):
            for index, array, leaf in arrays_of(part, inner):
                yield (at, *index), array, leaf
    elif isinstance(shape, ArrayShape):
        yield (), np.asarray(value), shape


# --- the shape of a value ---


Form: TypeAlias = "tuple[tuple[int, ...], np.dtype[np.generic]] | None"
"""Sizes and numpy type of an array; None for what is looked at in detail."""


def form_of(shape: Shape, floats: Floats) -> Form:
    """The form of every value of a shape; None for tuples, tokens, and arrays whose size is known at run time."""
    if not isinstance(shape, ArrayShape) or shape.is_dynamic:
        return None
    return shape.dimensions, carrier(shape.element_type, floats)


def has_form(value: Value, form: Form) -> bool:
    """Whether a value is an array of a form; this is asked of each value that is computed, so that it must be quick."""
    return (
        form is not None and not isinstance(value, tuple) and value is not None and (value.shape, value.dtype) == form
    )


def shape_problem(value: Value, shape: Shape, floats: Floats, *, is_pending: bool = False) -> str:
    """How a value contradicts a shape, such as "f32[] instead of f32[64]"; empty if it has that shape.

    A rule that returns a value of another shape has computed something else, and everything after it is wrong. A value
    `is_pending` between the start of an asynchronous operation and its end: contexts and what is still to come are
    absent. Dynamic dimensions have at most the size of the shape.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape_problem(np.float32(1), parse_shape("f32[64]"), "exact")
    'f32[] instead of f32[64]'
    >>> shape_problem((np.zeros(2, np.int32), None), parse_shape("(s32[2], token[])"), "exact")
    ''
    """
    if isinstance(shape, TupleShape):
        if not isinstance(value, tuple):
            return "" if value is None and is_pending else f"{_form(value, shape)} instead of a tuple"
        missing = len(shape.elements) - len(value)
        if missing < 0 or (missing and not is_pending):
            return f"a tuple of {len(value)} values instead of {len(shape.elements)}"
        pairs = zip(value, shape.elements, strict=False)
        return next(filter(None, (shape_problem(v, s, floats, is_pending=is_pending) for v, s in pairs)), "")
    if not isinstance(shape, ArrayShape) or (value is None and is_pending):
        return ""
    if value is None or isinstance(value, tuple):
        return f"{_form(value, shape)} instead of {shape.to_string(layout=False)}"
    sizes = zip(value.shape, shape.dimensions, shape.dynamic_dimensions, strict=False)
    fits = value.ndim == len(shape.dimensions) and all(a == b or (d and a < b) for a, b, d in sizes)
    if fits and value.dtype == carrier(shape.element_type, floats):
        return ""
    found = _form(value, shape) if not fits else f"values of type {value.dtype}"
    return f"{found} instead of {shape.to_string(layout=False)}"


def _form(value: Value, shape: Shape) -> str:
    """A value as its shape would be printed."""
    if value is None:
        return "no value"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} values"
    kind = shape.element_type.name if isinstance(shape, ArrayShape) else str(value.dtype)
    return f"{kind}[{','.join(map(str, value.shape))}]"


def array_of(value: Value) -> Array:
    """The value of an instruction whose shape is an array."""
    assert value is not None
    assert not isinstance(value, tuple)
    return value


def array_shape(instruction: Instruction) -> ArrayShape:
    """The shape of an instruction whose result is an array; HloError with its place if it is something else."""
    return _array(instruction.shape, instruction)


def operand_array_shape(instruction: Instruction, position: int) -> ArrayShape:
    """The shape of an operand that is an array."""
    return _array(instruction.operand_shape(position), instruction)


def element_type(instruction: Instruction) -> PrimitiveType:
    """The element type of an array result."""
    return array_shape(instruction).element_type


def first_array(instruction: Instruction) -> ArrayShape:
    """The shape of the result, or of the first of several, which has to be an array."""
    shape = instruction.shape.elements[0] if isinstance(instruction.shape, TupleShape) else instruction.shape
    return _array(shape, instruction)


def settled(instruction: Instruction, floats: Floats) -> Callable[[Array], Array]:
    """Turns results of arithmetic into values of the instruction's element type."""
    return _settling(element_type(instruction), floats)


def settled_shape(shape: ArrayShape, floats: Floats) -> Callable[[Array], Array]:
    """The same for a shape, such as of the first result of several."""
    return _settling(shape.element_type, floats)


def _settling(kind: PrimitiveType, floats: Floats) -> Callable[[Array], Array]:
    """`settle` for one type: types that numpy has need no more than a conversion."""
    held = carrier(kind, floats)
    rounds = kind.kind == "float" and floats == "exact" and kind.name not in ("f32", "f64")
    if rounds or (kind.kind in ("signed", "unsigned") and kind.bits < 8):
        return lambda values: settle(values, kind, floats)
    return lambda values: values if values.dtype == held else values.astype(held)


def settled_all(instruction: Instruction, floats: Floats) -> list[Callable[[Array], Array]]:
    """The same for each array of a result that is a tuple."""
    elements = instruction.shape.elements if isinstance(instruction.shape, TupleShape) else ()
    return [settled_shape(each, floats) for each in elements if isinstance(each, ArrayShape)]


def zeros_of(shape: Shape, computed: Computed) -> Value:
    """Zeros of a shape."""
    if isinstance(shape, TupleShape):
        return tuple(zeros_of(each, computed) for each in shape.elements)
    if not isinstance(shape, ArrayShape):
        return None
    return np.zeros(shape.dimensions, carrier(shape.element_type, computed.floats))


def _array(shape: object, instruction: Instruction) -> ArrayShape:
    if isinstance(shape, ArrayShape):
        return shape
    raise HloError(
        f"{instruction.opcode} {instruction.name} has an operand or result that is not an array", instruction.span
    )
