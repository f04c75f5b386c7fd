"""How values are held: element types as numpy arrays, and what rules of opcodes are given and return.

Every kernel takes and makes arrays of these forms; nothing else of this room knows how narrow integers or small
floats lie in numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import FLOAT_FORMATS, PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.ir.instruction import Computation, Instruction


# --- element types as numpy arrays ---
# Which array holds them, and how results become values of the type.
#
# Integers narrower than a byte are held one a byte; floats that numpy lacks as float32 arrays whose values the type
# represents. Mirrors `primitive_util::NativeTypeOf` and the conversions of xla/types.h.


Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = Literal["exact", "widen"]
"""Floats as the text says, rounded after every instruction; or all of them as f64, never rounded."""

_NATIVE = frozenset(("f16", "f32", "f64"))


@cache
def carrier(element_type: PrimitiveType, floats: Floats = "exact") -> np.dtype[np.generic]:
    """The numpy type whose arrays hold values of an element type.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> [str(carrier(PRIMITIVE_TYPES[name])) for name in ("pred", "s4", "u64", "bf16", "f64", "c64")]
    ['bool', 'int8', 'uint64', 'float32', 'float64', 'complex64']
    >>> str(carrier(PRIMITIVE_TYPES["bf16"], "widen"))
    'float64'
    """
    match element_type.kind:
        case "pred":
            return np.dtype(np.bool_)
        case "signed":
            return np.dtype(f"i{element_type.byte_width}")
        case "unsigned":
            return np.dtype(f"u{element_type.byte_width}")
        case "float":
            return np.dtype(np.float64 if floats == "widen" or element_type.bits == 64 else np.float32)
        case _:
            return np.dtype(np.complex128 if floats == "widen" or element_type.bits == 128 else np.complex64)


def settle(values: Array, element_type: PrimitiveType, floats: Floats = "exact") -> Array:
    """Results of arithmetic as values of the type: integers wrap, and floats are rounded to the nearest, ties to even.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> settle(np.array([9], np.int32), PRIMITIVE_TYPES["s4"]).tolist()
    [-7]
    >>> settle(np.array([1.001], np.float32), PRIMITIVE_TYPES["bf16"]).tolist()
    [1.0]
    """
    if element_type.kind in ("signed", "unsigned"):
        return wrapped(values, element_type)
    if element_type.kind == "float" and floats == "exact":
        return rounded(values, element_type.name)
    kept = carrier(element_type, floats)
    return values if values.dtype == kept else values.astype(kept)


def wrapped(values: Array, element_type: PrimitiveType) -> Array:
    """Integers with the low bits of the given ones.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> wrapped(np.array([8, -1, 255]), PRIMITIVE_TYPES["u4"]).tolist()
    [8, 15, 15]
    """
    carried = values if values.dtype == carrier(element_type) else values.astype(carrier(element_type))
    if element_type.bits >= 8:
        return carried
    # Narrow integers are held as int8; the unused high bits are the sign.
    unused = 8 - element_type.bits
    if element_type.kind == "unsigned":
        return np.asarray(np.bitwise_and(carried, np.uint8((1 << element_type.bits) - 1)))
    shifted = np.left_shift(carried.view(np.uint8), np.uint8(unused)).view(np.int8)
    return np.asarray(np.right_shift(shifted, np.int8(unused)))


def rounded(values: Array, name: str) -> Array:
    """Floats rounded to a type, in its carrier; what is too large becomes what the type has for it.

    >>> rounded(np.array([7.0, 500.0, 1e6]), "f8e4m3fn").tolist(), rounded(np.array([99.0]), "f4e2m1fn").tolist()
    ([7.0, nan, nan], [6.0])
    """
    if name in ("f32", "f64"):
        return values.astype(np.float32 if name == "f32" else np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        if name == "f16":
            return values.astype(np.float16).astype(np.float32)
        if name == "bf16":
            return _bfloat16(values.astype(np.float32, copy=False))
        return in_blocks(values, lambda block: _narrow(block, name))


def to_bits(values: Array, element_type: PrimitiveType) -> Array:
    """The bits of values, as unsigned integers of whole bytes.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> to_bits(np.array([1.5], np.float32), PRIMITIVE_TYPES["bf16"]).tolist()
    [16320]
    """
    unsigned = np.dtype(f"u{element_type.byte_width}")
    if element_type.kind == "pred":
        return values.astype(np.uint8)
    if element_type.kind in ("signed", "unsigned"):
        bits = values.view(unsigned)
        return bits if element_type.bits >= 8 else np.asarray(bits & np.uint8((1 << element_type.bits) - 1))
    name = element_type.name
    if name in _NATIVE:
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(f"f{element_type.byte_width}", copy=False).view(unsigned)
    if name == "bf16":
        return (values.astype(np.float32, copy=False).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return _codes(values, name)


def from_bits(bits: Array, element_type: PrimitiveType, floats: Floats = "exact") -> Array:
    """The values whose bits are given, in their carrier.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> from_bits(np.array([15], np.uint8), PRIMITIVE_TYPES["s4"]).tolist()
    [-1]
    """
    name, numpy_type = element_type.name, carrier(element_type, floats)
    if element_type.kind == "pred":
        return np.asarray(bits != 0)
    if element_type.kind in ("signed", "unsigned"):
        return wrapped(bits.view(f"i{element_type.byte_width}"), element_type)
    if name in _NATIVE:
        return bits.view(f"f{element_type.byte_width}").astype(numpy_type, copy=False)
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(numpy_type, copy=False)
    with np.errstate(invalid="ignore"):  # of NaN that signal
        return np.asarray(values_of_codes(name)[bits.astype(np.intp)]).astype(numpy_type, copy=False)


@cache
def values_of_codes(name: str) -> npt.NDArray[np.float32]:
    """The value of every code of a float of 8 bits or less, by the table of its format.

    >>> values_of_codes("f4e2m1fn")[:8].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """
    form = FLOAT_FORMATS[name]
    codes = np.arange(1 << form.bits, dtype=np.uint32)
    values = np.array([form.value(code) for code in codes.tolist()], np.float32)
    shift, mask = np.uint32(23 - form.mantissa_bits), np.uint32((1 << form.mantissa_bits) - 1)
    # NaN of IEEE types keep their payloads in the upper mantissa bits.
    payloads = np.where(form.special == "ieee", (codes & mask) << shift, np.uint32(0x400000))
    signs = ((codes & np.uint32(form.sign)) != 0).astype(np.uint32) << np.uint32(31)
    bits = signs | np.uint32(0x7F800000) | payloads
    return np.where(np.isnan(values), bits.view(np.float32), values)


@cache
def _grid(name: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The finite values that are not negative, ascending, and the midpoints between each and the next.

    The last midpoint is that to the value which the type would have next, from which on a value overflows.
    """
    form = FLOAT_FORMATS[name]
    table = values_of_codes(name)
    positive = table[: form.sign] if form.sign else table
    finite = positive[np.isfinite(positive)].astype(np.float64)
    # A virtual step above the largest value: halfway to it, rounding overflows.
    beyond = finite[-1] + (finite[-1] - finite[-2])
    following = np.append(finite[1:], beyond)
    return finite, (finite + following) / 2


def _codes(values: Array, name: str) -> Array:
    """The codes of values that the type represents."""
    upper = values.astype(np.float32, copy=False).view(np.uint32) >> np.uint32(16)
    return np.asarray(_codes_of_upper_bits(name)[upper])


@cache
def _codes_of_upper_bits(name: str) -> npt.NDArray[np.uint8]:
    """The code of every value of the type, at the upper 16 bits of the value as an f32."""
    with np.errstate(all="ignore"):
        return _searched_codes(_upper_bits(), name)


@cache
def _upper_bits() -> npt.NDArray[np.float32]:
    """The f32 of all upper 16 bits, whose lower ones are zero."""
    return (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32)


def _searched_codes(values: Array, name: str) -> Array:
    form = FLOAT_FORMATS[name]
    finite, _ = _grid(name)
    wide = values.astype(np.float64)
    codes = np.minimum(np.searchsorted(finite, np.abs(wide)), len(finite) - 1)
    codes = np.where(np.signbit(wide) & (form.sign > 0), codes | form.sign, codes)
    not_finite = ~np.isfinite(wide)
    infinite = form.nan(0) if form.special == "ieee" else 0
    signs = np.where(np.signbit(wide), form.sign, 0) if form.special in ("ieee", "fn") else 0
    other = np.where(np.isinf(wide), infinite | signs, _nan_codes(values, name) | signs)
    return np.where(not_finite, other, codes).astype(np.uint8)


def _nan_codes(values: Array, name: str) -> Array | int:
    """The codes of NaN without signs; types with payloads take the upper bits of those of f32."""
    form = FLOAT_FORMATS[name]
    width = form.mantissa_bits
    if form.special != "ieee":
        return {"fnuz": form.sign, "finite": 0}.get(form.special, (form.sign or 1 << form.bits) - 1)
    # A payload cut to zero would become infinity, so the quiet bit is set.
    payloads = (values.view(np.uint32).astype(np.int64) >> (23 - width)) & ((1 << width) - 1)
    return form.nan(0) | np.where(payloads == 0, 1 << (width - 1), payloads)


_BLOCK: Final = 1 << 15
"""The elements that are rounded at once, so that what lies between is in the cache."""


def in_blocks(values: Array, function: Callable[[Array], Array]) -> Array:
    """A function of floats applied to each element, to a block of a large array at a time; f32 in row-major order.

    >>> in_blocks(np.float32([[1.5, -2.5]]), np.negative).tolist()
    [[-1.5, 2.5]]
    """
    if values.size <= _BLOCK:
        return function(values)
    flat = np.ascontiguousarray(values).reshape(-1)
    result = np.empty(flat.shape, np.float32)
    for at in range(0, flat.size, _BLOCK):
        result[at : at + _BLOCK] = function(flat[at : at + _BLOCK])
    return result.reshape(values.shape)


def _bfloat16(values: Array, *, in_place: bool = False) -> Array:
    """Floats of 32 bits rounded to bf16, a block at a time into the array that is returned."""
    held = np.ascontiguousarray(values).reshape(-1)
    result = held.view(np.uint32) if in_place else np.empty(held.shape, np.uint32)
    between = np.empty(min(held.size, _BLOCK), np.uint32)
    for at in range(0, held.size, _BLOCK):
        block = held[at : at + _BLOCK]
        bits, less = block.view(np.uint32), between[: block.size]
        is_nan = np.isnan(block)
        # NaN is made quiet, as rounding could carry its mantissa into infinity.
        quiet = (bits[is_nan] & np.uint32(0xFFFF0000)) | np.uint32(0x400000) if is_nan.any() else None
        # Half of the last bit plus the bit itself rounds ties to even.
        np.right_shift(bits, np.uint32(16), out=less)
        less &= np.uint32(1)
        less += np.uint32(0x7FFF)
        less += bits
        np.bitwise_and(less, np.uint32(0xFFFF0000), out=result[at : at + _BLOCK])
        if quiet is not None:
            result[at : at + _BLOCK][is_nan] = quiet
    return result.view(np.float32).reshape(values.shape)


def _narrow(values: Array, name: str) -> Array:
    """Floats of 8 bits or less: read from a table, by the upper 16 bits as an f32 and whether there are others.

    All halfway cases of these types have fewer bits, so that one bit for all others tells on which side a value is.
    """
    if values.dtype == np.float64:
        if name == "f8e8m0fnu":  # has halfway cases among the denormals of f32
            return _searched(values, name)
        bits = values.view(np.uint64)
        # A sticky bit keeps f64 from rounding twice on the way to f32.
        others = ((bits & _LOWER) != 0).astype(np.uint64) << np.uint64(29)
        values = np.asarray((bits | others) & ~_LOWER).view(np.float64).astype(np.float32)
    held = values.view(np.uint32)
    index = held >> np.uint32(16)
    index |= (held & np.uint32(0xFFFF)) != 0
    return np.asarray(_rounded_upper_bits(name)[index])


_LOWER: Final = np.uint64((1 << 29) - 1)
"""The bits of an f64 that an f32 lacks."""


@cache
def _rounded_upper_bits(name: str) -> npt.NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return _searched(_upper_bits(), name)


def _searched(values: Array, name: str) -> npt.NDArray[np.float32]:
    form = FLOAT_FORMATS[name]
    finite, midpoints = _grid(name)
    wide = values.astype(np.float64)
    magnitudes = np.abs(wide)
    # f8e8m0fnu has only powers of two, and rounds ties up.
    places = np.searchsorted(midpoints, magnitudes, side="right" if form.special == "scale" else "left")
    if form.special != "scale":
        ties = midpoints[np.minimum(places, len(midpoints) - 1)] == magnitudes
        places = places + (ties & (places & 1 == 1))
    result = np.copysign(finite[np.minimum(places, len(finite) - 1)], wide)
    too_large = places >= len(finite)
    match form.special:
        case "ieee":
            result = np.where(too_large, np.copysign(np.inf, wide), result)
        case "fn":
            result = np.where(too_large, np.copysign(np.nan, wide), result)
        case "fnuz":
            # fnuz types have no infinity and no -0.
            result = np.where(too_large, -np.nan, np.where(result == 0, 0.0, result))
        case "scale":
            result = np.where(too_large | (wide <= 0), np.nan, np.abs(result))
        case "finite":
            pass
    if form.special == "finite":
        result = np.where(np.isnan(wide), np.copysign(0.0, -np.copysign(1.0, wide)), result)
    else:
        only = -np.nan if form.special == "fnuz" else wide  # its code has the bit of the sign
        result = np.where(np.isnan(wide), only, result)
    return result.astype(np.float32)


# --- values of instructions ---
# Values of instructions, and what the rules of opcodes are given and return.


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
    # A view shares elements that it does not refer to.
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

    def advance(self, instruction: Instruction) -> Callable[[Value, int], tuple[Value, int]] | None:
        """Computes iterations of a loop: from a state and their count to those after some more; None if it cannot."""

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


# numpy and the rules raise these for impossible sizes; MemoryError and RecursionError are reported elsewhere.
MISFITS: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What kernels raise for sizes and attributes that contradict each other."""


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
    >>> shape_problem(np.float32(1), parse_shape("(f32[])"), "exact")
    'float32[] instead of a tuple'
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
    # A dynamic size may be below its bound.
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


def settled(
    instruction: Instruction, floats: Floats, *, exact_of: PrimitiveType | None = None, are_new: bool = False
) -> Callable[[Array], Array]:
    """Turns results of arithmetic into values of the instruction's element type.

    `exact_of` is the type of the operands, if the results are among its values, such as those of maximum. Results that
    `are_new` are in an array that nothing else has, and may be overwritten.
    """
    kind = element_type(instruction)
    settle_all = _settling(kind, floats)
    if are_new and kind.name == "bf16" and floats == "exact":
        # New memory takes as long as the rounding itself.
        return lambda values: _bfloat16(values, in_place=True) if _can_be_overwritten(values) else settle_all(values)
    # Types of 8 bits have no negative zero, or no negative numbers.
    if exact_of is None or exact_of is not kind or kind.name not in ("bf16", "f16") or floats != "exact":
        return settle_all
    # NaN alone may change: a signaling one becomes quiet.
    return lambda values: settle_all(values) if np.isnan(values).any() else values


def _can_be_overwritten(values: Array) -> bool:
    return values.dtype == np.float32 and values.flags.c_contiguous and values.flags.writeable


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
