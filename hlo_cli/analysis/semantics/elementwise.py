"""What opcodes compute that make each element alone: arithmetic, comparisons, conversions, random bits."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.semantics.error_function import erf
from hlo_cli.analysis.semantics.typed_values import (
    Array,
    Computed,
    Floats,
    Kernel,
    Rule,
    Value,
    array_shape,
    carrier,
    element_type,
    from_bits,
    operand_array_shape,
    settle,
    settled,
    to_bits,
    wrapped,
)
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.source import HloError

# --- integers and booleans ---
# Integers and booleans elementwise, where numpy is undefined or another: division, shifts, powers, and bits.


Function = Callable[..., Array]


def _add_integers(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Wrapping; or of booleans."""
    return np.asarray(x | y if kind.kind == "pred" else x + y)


def _subtract_integers(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Wrapping; exclusive or of booleans."""
    return np.asarray(x ^ y if kind.kind == "pred" else x - y)


def _multiply_integers(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Wrapping; and of booleans."""
    return np.asarray(x & y if kind.kind == "pred" else x * y)


def _divide_integers(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Toward zero; by zero: all bits set; the minimum by -1: the minimum."""
    if kind.kind == "pred":
        return np.asarray(_divide_integers(x.astype(np.uint8), y.astype(np.uint8), _U8) != 0)
    by_zero = y == 0
    safe = np.where(by_zero, np.ones_like(y), y)
    if kind.kind == "unsigned":
        # elemental_ir_emitter.cc, EmitIntegerDivide: a division by zero gives all bits set.
        return np.where(by_zero, _all_bits(kind, x), x // safe)
    overflows = safe == -1
    # numpy warns of MIN / -1, and its result depends on the processor.
    safe = np.where(overflows, np.ones_like(y), safe)
    quotient = x // safe
    # numpy floors, XLA truncates.
    quotient = quotient + ((quotient < 0) & (quotient * safe != x))
    return np.where(by_zero, np.full_like(x, -1), np.where(overflows, np.negative(x), quotient))


_U8: Final = PrimitiveType("u8", 8, "unsigned")


def _all_bits(kind: PrimitiveType, x: Array) -> Array:
    return np.full_like(x, (1 << kind.bits) - 1)


def _remainder_of_integers(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """The sign of the dividend; by zero: the dividend."""
    if kind.kind == "pred":
        return np.asarray(_remainder_of_integers(x.astype(np.uint8), y.astype(np.uint8), _U8) != 0)
    keeps = y == 0
    vanishes = (y == -1) if kind.kind == "signed" else np.zeros_like(keeps)
    safe = np.where(keeps | vanishes, np.ones_like(y), y)
    return np.where(keeps, x, np.where(vanishes, np.zeros_like(x), np.fmod(x, safe)))


_POWER_BITS: Final = 6
"""The bits of an integer exponent that XLA looks at: larger powers of all but 0 and 1 overflow, mostly to 0."""


def _power_of_integers(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """By squaring, which wraps, six times as XLA does; a negative exponent leaves 1 and -1, and makes all else 0."""
    if kind.kind == "pred":
        # x^y of booleans: 0^0 = 1, 0^1 = 0, 1^y = 1.
        return np.asarray(x | ~y)
    x, y = np.broadcast_arrays(x, y)
    result, base, exponent = np.ones_like(x), x.copy(), y.astype(np.uint64)
    for _ in range(_POWER_BITS):
        result = np.where(exponent & np.uint64(1), result * base, result)
        base = base * base
        exponent = exponent >> np.uint64(1)
    bits = max(kind.bits, 8)  # an exponent of 4 bits is one of 8 to XLA, and never negative
    signed = wrapped(y, PrimitiveType("", bits, "signed")) if kind.kind == "unsigned" else y
    minus = np.negative(np.ones_like(x))
    odd = (y & 1).astype(bool)
    # XLA:CPU gives ±1 by parity for a base of -1, where the evaluator gives 0; the CPU decides here.
    of_negative = np.where(x == 1, x, np.where(x == minus, np.where(odd, x, np.negative(x)), np.zeros_like(x)))
    return np.where(signed < 0, of_negative, result)


def _absolute_integers(x: Array, kind: PrimitiveType) -> Array:
    """The minimum stays the minimum."""
    return x if kind.kind != "signed" else np.abs(x)


def _negate_integers(x: Array, kind: PrimitiveType) -> Array:
    """The minimum stays the minimum."""
    return np.negative(x)


def _sign_of_integers(x: Array, kind: PrimitiveType) -> Array:
    """-1, 0, or 1."""
    return np.sign(x)


def _invert_bits(x: Array, kind: PrimitiveType) -> Array:
    """All bits turned; booleans negated."""
    return ~x


def popcnt(x: Array, kind: PrimitiveType) -> Array:
    """The bits that are set; of a type of 4 bits, those of the byte that holds it, as XLA counts."""
    held = np.ascontiguousarray(x).reshape(x.shape)
    # Of s4, XLA:CPU and the evaluator count the bits of the sign-extended byte, so -1 has 8.
    if kind.bits < 4:
        held = held & held.dtype.type((1 << kind.bits) - 1)
    whole = held.reshape(-1).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    return np.asarray(np.unpackbits(whole, axis=-1).sum(axis=-1)).astype(x.dtype)


def _count_leading_zeros(x: Array, kind: PrimitiveType) -> Array:
    """Zeros above the highest bit that is set, within the width of the type."""
    bits = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    if kind.bits < 8:
        bits = bits & np.uint64((1 << kind.bits) - 1)
    left = np.full(bits.shape, kind.bits, np.int64)
    # Binary search for the highest bit, as numpy has no function for it.
    for shift in (32, 16, 8, 4, 2, 1):
        high = bits >= np.uint64(1 << shift)
        left = left - np.where(high, shift, 0)
        bits = np.where(high, bits >> np.uint64(shift), bits)
    return np.asarray(left - (bits != 0)).astype(x.dtype)


def _shift_function(direction: str) -> Function:
    """A shift: `left`, `logical`, or `arithmetic`; by less than 0 or by the width and more, all bits leave."""

    def shift(x: Array, y: Array, kind: PrimitiveType) -> Array:
        if kind.kind == "pred":
            return np.asarray(shift(x.astype(np.uint8), y.astype(np.uint8), PrimitiveType("u1", 1, "unsigned")) != 0)
        # Shifts by the width or more are undefined in numpy: amounts are set to 0 and results replaced.
        amount = np.where((y < 0) | (y >= kind.bits), np.zeros_like(y), y)
        outside = (y < 0) | (y >= kind.bits)
        if direction == "left":
            return np.where(outside, np.zeros_like(x), np.left_shift(x, amount))
        if direction == "logical":
            bits = x.view(f"u{x.dtype.itemsize}")
            if kind.bits < 8:
                bits = bits & np.uint8((1 << kind.bits) - 1)
            moved = np.right_shift(bits, amount.view(bits.dtype)).view(x.dtype)
            return np.where(outside, np.zeros_like(x), moved)
        signed = wrapped(x, PrimitiveType("", kind.bits, "signed"))
        filled = np.where(signed < 0, np.full_like(signed, -1), np.zeros_like(signed))
        return wrapped(np.where(outside, filled, np.right_shift(signed, amount.view(signed.dtype))), kind)

    return shift


def _multiply_high(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """The upper half of the product of twice the width."""
    if kind.bits < 64:
        wide = x.astype(np.int64 if kind.kind == "signed" else np.uint64)
        return wrapped((wide * y.astype(wide.dtype)) >> wide.dtype.type(kind.bits), kind)
    # No numpy type has 128 bits.
    products = np.broadcast_arrays(x, y)
    numbers = [(int(a) * int(b)) >> 64 for a, b in zip(products[0].flat, products[1].flat, strict=True)]
    return np.array(numbers, x.dtype).reshape(products[0].shape)


# --- elementwise opcodes ---
# Elementwise opcodes, where numpy's functions are XLA's or can be made so.
#
# Mirrors xla/hlo/evaluator/hlo_evaluator_typed_visitor.h; where the evaluator and XLA:CPU disagree, XLA:CPU decides.


def unary(function: Function, of_integers: Function | None = None, *, is_exact: bool = False) -> Rule:
    """The rule for a function of one operand, with another one for integers and booleans if they need it.

    A function `is_exact` if its results are among the values of the type of its operands.
    """

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        kind = operand_array_shape(instruction, 0).element_type
        settle = settled(
            instruction, computed.floats, exact_of=kind if is_exact else None, are_new=_makes_new(function, is_exact)
        )
        if of_integers is not None and kind.kind in ("pred", "signed", "unsigned"):
            return lambda x: settle(of_integers(x, kind))
        return lambda x: settle(function(x))

    return rule


def _makes_new(function: Function, is_exact: bool) -> bool:
    """Whether results that are to be rounded are in an array of their own, as those of numpy's own functions."""
    return isinstance(function, np.ufunc) and not is_exact


def binary(function: Function, of_integers: Function | None = None, *, is_exact: bool = False) -> Rule:
    """The same for two operands; a function of integers also gets their type."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        kind = operand_array_shape(instruction, 0).element_type
        settle = settled(
            instruction, computed.floats, exact_of=kind if is_exact else None, are_new=_makes_new(function, is_exact)
        )
        if of_integers is not None and kind.kind in ("pred", "signed", "unsigned"):
            return lambda x, y: settle(of_integers(x, y, kind))
        return lambda x, y: settle(function(x, y))

    return rule


def has_negative_zero(x: Array) -> bool:
    """Whether an array of floats has a zero whose sign matters to maximum and minimum.

    >>> has_negative_zero(np.array([0.0, -1.0])), has_negative_zero(np.array([-0.0]))
    (False, True)
    """
    if x.dtype.kind != "f":
        return False
    bits = x.view(f"u{x.dtype.itemsize}")
    return bool((bits == bits.dtype.type(1 << (8 * x.dtype.itemsize - 1))).any())


def _maximum(x: Array, y: Array) -> Array:
    """NaN on either side wins, and +0 over -0."""
    larger = np.maximum(x, y)
    zeros = _both_zero(x, y)
    if zeros is None:
        return np.asarray(larger)
    # numpy returns either zero; XLA:CPU has max(-0, +0) = +0, the evaluator the first operand.
    return np.where(zeros & ~(np.signbit(x) & np.signbit(y)), np.zeros_like(larger), larger)


def _minimum(x: Array, y: Array) -> Array:
    smaller = np.minimum(x, y)
    zeros = _both_zero(x, y)
    if zeros is None:
        return np.asarray(smaller)
    return np.where(zeros & (np.signbit(x) | np.signbit(y)), np.negative(np.zeros_like(smaller)), smaller)


def _both_zero(x: Array, y: Array) -> Array | None:
    """Where both are zero; None if that is nowhere."""
    if any(y.strides):
        x, y = y, x  # one that is the same number everywhere is seen at once
    zeros = _zeros(y)
    if not zeros.any():
        return None
    zeros = zeros & _zeros(x)
    return np.asarray(zeros) if zeros.any() else None


def _zeros(x: Array) -> Array:
    """Where an array is zero; of a number that is repeated, one answer."""
    return np.equal(x if any(x.strides) or not x.size else x[(0,) * x.ndim], 0)


def _complex_or(real: Function, complex_: Function) -> Function:
    return lambda *given: complex_(*given) if np.iscomplexobj(given[0]) else real(*given)


def _complex_sign(x: Array) -> Array:
    size = np.abs(x)
    return np.where(size == 0, np.zeros_like(x), x / np.where(size == 0, np.ones_like(size), size))


def _float_sign(x: Array) -> Array:
    return np.where((x == 0) | np.isnan(x), x, np.sign(x))


# trunc(x + 0.5) would be wrong for 0.49999997, which rounds up in the addition.
def _half_away(x: Array) -> Array:
    whole = np.trunc(x)
    moved = whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), np.zeros_like(x))
    return np.asarray(np.copysign(moved, x))


def _logistic(x: Array) -> Array:
    one = x.dtype.type(1)
    return np.asarray(one / (one + np.exp(np.negative(x))))


def _reciprocal_root(x: Array) -> Array:
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def _complex_atan2(y: Array, x: Array) -> Array:
    return np.asarray(-1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)))


def _complex_log_plus_one(x: Array) -> Array:
    """Without the cancellation of `log(1 + x)` where x or the logarithm is small."""
    wide = x.astype(np.complex128)
    # Around 1, log|1 + z| is half of log1p of |1 + z|² - 1, without cancellation.
    real, imaginary = wide.real, wide.imag
    near = np.log1p(real * (2 + real) + imaginary * imaginary) / 2
    length = np.hypot(1 + real, imaginary)
    # Far from 1, nothing cancels, and the square could overflow.
    size = np.where((length > 0.5) & (length < 3), near, np.log(length))
    return _complex(size, np.arctan2(imaginary, 1 + real))


def _complex(real: Array, imaginary: Array) -> Array:
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imaginary
    return result


def _divide_floats(x: Array, y: Array) -> Array:
    return np.divide(x, y)


def _complex_power(x: Array, y: Array) -> Array:
    return np.power(x, y)


def _fmod(x: Array, y: Array) -> Array:
    return np.fmod(x, y)


def clamp(instruction: Instruction, computed: Computed) -> Kernel:
    """`min(high, max(x, low))`: the upper bound wins if they cross; any NaN gives NaN."""
    settle = settled(instruction, computed.floats)
    if element_type(instruction).kind == "float":
        # The upper bound is applied last: it wins if the bounds cross, as in `HandleClamp`.
        return lambda low, x, high: settle(_minimum(high, _maximum(x, low)))
    return lambda low, x, high: settle(np.minimum(high, np.maximum(x, low)))


def select(instruction: Instruction, computed: Computed) -> Kernel:
    """One of two values, element by element; a scalar predicate selects whole values, tuples too."""

    def kernel(chosen: Array, first: Value, second: Value) -> Value:
        if isinstance(first, tuple | None) or isinstance(second, tuple | None):
            return first if chosen else second
        return np.where(chosen, first, second)

    return kernel


_COMPARE: Final[dict[str, Function]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def compare(instruction: Instruction, computed: Computed) -> Kernel:
    """A comparison; with `type=TOTALORDER`, by the bits of floats: -NaN is first and +NaN last."""
    direction = instruction.attribute("direction") or "EQ"
    function = _COMPARE[direction]
    if operand_array_shape(instruction, 0).element_type.is_complex and direction not in ("EQ", "NE"):
        raise HloError(f"cannot evaluate {instruction.name}: complex numbers have no order", instruction.span)
    if instruction.attribute("type") != "TOTALORDER":
        return function
    return lambda x, y: function(ordered(x), ordered(y))


def ordered(x: Array) -> Array:
    """Signed integers in the total order of floats; other values as they are."""
    if x.dtype.kind != "f":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    # The lower bits of negative floats in reverse order sort as signed integers.
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _complex_number(instruction: Instruction, computed: Computed) -> Kernel:
    """A complex number of its two parts, which may be infinite."""

    return lambda real, imaginary: _complex(*np.broadcast_arrays(real, imaginary))


def _real(x: Array) -> Array:
    return np.real(x).copy()


def _imag(x: Array) -> Array:
    return np.imag(x).copy() if np.iscomplexobj(x) else np.zeros_like(x)


def _is_finite(x: Array) -> Array:
    return np.isfinite(x)


class Elementwise(NamedTuple):
    """The function of an opcode, and another one for integers and booleans if they need it; see `unary`."""

    function: Function
    of_integers: Function | None = None
    is_exact: bool = False


_UNARY: Final[dict[str, Elementwise]] = {
    "abs": Elementwise(np.abs, _absolute_integers, is_exact=True),
    "acos": Elementwise(np.arccos),
    "acosh": Elementwise(np.arccosh),
    "asin": Elementwise(np.arcsin),
    "asinh": Elementwise(np.arcsinh),
    "atanh": Elementwise(np.arctanh),
    "cbrt": Elementwise(np.cbrt),
    "ceil": Elementwise(np.ceil),
    "cosine": Elementwise(np.cos),
    "cosh": Elementwise(np.cosh),
    "count-leading-zeros": Elementwise(np.abs, _count_leading_zeros),
    "erf": Elementwise(erf),
    "exponential": Elementwise(np.exp),
    "exponential-minus-one": Elementwise(np.expm1),
    "floor": Elementwise(np.floor),
    "imag": Elementwise(_imag),
    "is-finite": Elementwise(_is_finite),
    "log": Elementwise(np.log),
    "log-plus-one": Elementwise(_complex_or(np.log1p, _complex_log_plus_one)),
    "logistic": Elementwise(_logistic),
    "negate": Elementwise(np.negative, _negate_integers, is_exact=True),
    "not": Elementwise(np.invert, _invert_bits),
    "popcnt": Elementwise(np.abs, popcnt),
    "real": Elementwise(_real),
    "round-nearest-afz": Elementwise(_half_away),
    "round-nearest-even": Elementwise(np.rint),
    "rsqrt": Elementwise(_reciprocal_root),
    "sign": Elementwise(_complex_or(_float_sign, _complex_sign), _sign_of_integers),
    "sine": Elementwise(np.sin),
    "sinh": Elementwise(np.sinh),
    "sqrt": Elementwise(np.sqrt),
    "tan": Elementwise(np.tan),
    "tanh": Elementwise(np.tanh),
}
_BINARY: Final[dict[str, Elementwise]] = {
    "add": Elementwise(np.add, _add_integers),
    "and": Elementwise(np.bitwise_and),
    "atan2": Elementwise(_complex_or(np.arctan2, _complex_atan2)),
    "divide": Elementwise(_divide_floats, _divide_integers),
    "maximum": Elementwise(_complex_or(_maximum, np.maximum), lambda x, y, kind: np.maximum(x, y), is_exact=True),
    "minimum": Elementwise(_complex_or(_minimum, np.minimum), lambda x, y, kind: np.minimum(x, y), is_exact=True),
    "mulhi": Elementwise(np.multiply, _multiply_high),
    "multiply": Elementwise(np.multiply, _multiply_integers),
    "or": Elementwise(np.bitwise_or),
    "power": Elementwise(_complex_or(np.power, _complex_power), _power_of_integers),
    "remainder": Elementwise(_fmod, _remainder_of_integers),
    "shift-left": Elementwise(np.left_shift, _shift_function("left")),
    "shift-right-arithmetic": Elementwise(np.right_shift, _shift_function("arithmetic")),
    "shift-right-logical": Elementwise(np.right_shift, _shift_function("logical")),
    "subtract": Elementwise(np.subtract, _subtract_integers),
    "xor": Elementwise(np.bitwise_xor),
}


def elementwise_function(opcode: str, kind: PrimitiveType) -> Function:
    """The function of an elementwise opcode on arrays of a type, whose results are not yet rounded.

    >>> divide = elementwise_function("divide", PrimitiveType("s32", 32, "signed"))
    >>> divide(np.array([-7]), np.array([2])).tolist()
    [-3]
    """
    row = _UNARY.get(opcode) or _BINARY[opcode]
    of_integers = row.of_integers
    if of_integers is not None and kind.kind in ("pred", "signed", "unsigned"):
        return lambda *operands: of_integers(*operands, kind)
    return row.function


ELEMENTWISE_RULES: Final[dict[str, Rule]] = {
    **{opcode: unary(row.function, row.of_integers, is_exact=row.is_exact) for opcode, row in _UNARY.items()},
    **{opcode: binary(row.function, row.of_integers, is_exact=row.is_exact) for opcode, row in _BINARY.items()},
    "clamp": clamp,
    "compare": compare,
    opcodes.COMPLEX: _complex_number,
    "select": select,
}
"""The rule of each elementwise opcode; conversions are in the next section."""


# --- conversions between element types ---
# Of numbers, of bits, and of the number of bits of a float.
#
# Mirrors `HandleConvert`, `HandleBitcastConvert`, `HandleReducePrecision`, and
# `HandleStochasticConvert` of the evaluator.


def converted(x: Array, source: PrimitiveType, target: PrimitiveType, floats: Floats) -> Array:
    """Numbers of one type as those of another, as XLA converts them.

    Floats become integers toward zero, saturate, and NaN becomes 0; integers keep their low bits; NaN is true.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES as types
    >>> converted(np.float32([np.nan, -1.9, 1e9]), types["f32"], types["s8"], "exact").tolist()
    [0, -1, 127]
    """
    if target.is_complex:
        return x.astype(carrier(target, floats))
    if source.is_complex:
        x = np.real(x)
    if target.kind == "pred":
        return np.asarray(x != 0)
    if target.kind == "float":
        wide = (
            x
            if x.dtype.kind == "f"
            else x.astype(np.float64 if target.name == "f64" or x.dtype.itemsize > 2 else np.float32)
        )
        # XLA:CPU converts f64 to bf16 by way of f32, which rounds twice.
        if target.name == "bf16" and wide.dtype == np.float64 and floats == "exact":
            wide = wide.astype(np.float32)
        return settle(wide, target, floats)
    if x.dtype.kind != "f":
        return wrapped(x, target)
    return _integers(x, target)


def _integers(x: Array, target: PrimitiveType) -> Array:
    low, high = _range(target)
    # NaN becomes 0, other numbers are truncated and saturate.
    whole = np.trunc(x.astype(np.float64))
    held = carrier(target)
    # Strictly inside: the largest integers of 64 bits are not exact in f64.
    inside = (whole > low) & (whole < high)
    result = np.where(inside, whole, 0).astype(held)
    result = np.where(whole >= high, np.array(high, held), result)
    return np.where(whole <= low, np.array(low, held), result)


def _range(kind: PrimitiveType) -> tuple[int, int]:
    if kind.kind == "unsigned":
        return 0, (1 << kind.bits) - 1
    return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1


def convert(instruction: Instruction, computed: Computed) -> Kernel:
    """A conversion of numbers."""
    source, target = operand_array_shape(instruction, 0).element_type, element_type(instruction)
    return lambda x: converted(x, source, target, computed.floats)


def reinterpreted(
    x: Array, source: PrimitiveType, target: PrimitiveType, sizes: tuple[int, ...], floats: Floats
) -> Array:
    """The bits of values as values of another type; a last dimension appears or vanishes with another width."""
    if source.is_complex or target.is_complex:
        held = x.astype(np.dtype(f"c{source.bits // 8}")) if source.is_complex else x
        return np.ascontiguousarray(held).view(carrier(target)).reshape(sizes)
    bits = to_bits(np.ascontiguousarray(x), source)
    if source.bits == target.bits:
        return from_bits(bits, target, floats).reshape(sizes)
    if source.bits >= 8 and target.bits >= 8:
        return from_bits(np.ascontiguousarray(bits).reshape(-1).view(f"u{target.byte_width}"), target, floats).reshape(
            sizes
        )
    single = _to_single_bits(bits, source.bits)
    return from_bits(_of_single_bits(single, target), target, floats).reshape(sizes)


def _to_single_bits(bits: Array, width: int) -> Array:
    """Every bit as an element of its own, the lowest first."""
    places = np.arange(width).astype(bits.dtype)
    return np.asarray((bits.reshape(-1, 1) >> places) & bits.dtype.type(1)).astype(np.uint8).reshape(-1)


def _of_single_bits(single: Array, target: PrimitiveType) -> Array:
    held = np.dtype(f"u{target.byte_width}")
    places = np.arange(target.bits).astype(held)
    grouped = single.reshape(-1, target.bits).astype(held) << places
    return np.asarray(np.bitwise_or.reduce(grouped, axis=1))


def bitcast_convert(instruction: Instruction, computed: Computed) -> Kernel:
    """The same bits as another type."""
    shape, source = array_shape(instruction), operand_array_shape(instruction, 0).element_type
    return lambda x: reinterpreted(x, source, shape.element_type, shape.dimensions, computed.floats)


def elementwise_bitcast(instruction: Instruction, computed: Computed) -> Kernel:
    """The same bits as another type of the same width, in an array of any shape."""
    source, target = operand_array_shape(instruction, 0).element_type, element_type(instruction)
    return lambda x: reinterpreted(x, source, target, x.shape, computed.floats)


def reduce_precision(instruction: Instruction, computed: Computed) -> Kernel:
    """Rounds to fewer bits, ties to even; larger exponents become infinite, smaller ones zero."""
    exponent = instruction.integer("exponent_bits") or 0
    mantissa = instruction.integer("mantissa_bits") or 0
    kind = element_type(instruction)
    # Widened runs have no rounding at all, so this is the identity.
    if computed.floats == "widen":
        return lambda x: x
    # f8e8m0fnu has more exponents than f16, in which XLA:CPU computes the other types of 8 bits and less.
    form = FLOAT_FORMATS["f16" if kind.bits <= 8 and kind.name != "f8e8m0fnu" else kind.name]  # as XLA:CPU computes
    own = form.bits - form.mantissa_bits - bool(form.sign)
    return lambda x: settle(_reduced(x, own, exponent, mantissa), kind)


def _reduced(x: Array, source_exponent_bits: int, exponent_bits: int, mantissa_bits: int) -> Array:
    width, stored = (64, 52) if x.dtype.itemsize == 8 else (32, 23)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    bits, dropped = x.view(unsigned), stored - mantissa_bits
    if dropped > 0:
        one = unsigned.type(1)
        last = (bits >> unsigned.type(dropped)) & one
        half = (one << unsigned.type(dropped - 1)) - one
        kept = ~((one << unsigned.type(dropped)) - one)
        # Adding half of the last bit, and the bit itself for ties to even, may carry into the exponent.
        bits = np.asarray((bits + half + last) & kept)
    result = bits.view(x.dtype)
    if exponent_bits < source_exponent_bits:
        largest = (1 << (exponent_bits - 1)) - 1
        stored_exponents = np.asarray(bits >> unsigned.type(stored)).astype(np.int64) & (
            (1 << (width - stored - 1)) - 1
        )
        exponents = stored_exponents - ((1 << (width - stored - 2)) - 1)
        result = np.where(exponents > largest, np.copysign(np.inf, x), result)
        # Denormal results are flushed to zero, as in `EmitReducePrecisionIR` (xla/service/elemental_ir_emitter.cc).
        result = np.where(exponents <= -largest, np.copysign(0.0, x), result)
    # NaN stays NaN with 0 mantissa bits, as on XLA:CPU; the evaluator makes it infinite.
    return np.where(np.isnan(x), x, result).astype(x.dtype)


def stochastic_convert(instruction: Instruction, computed: Computed) -> Kernel:
    """A conversion to integers that rounds away from zero if random bits are below the fraction.

    Conversions to floats have no rule in XLA that does not depend on the target.
    """
    target = element_type(instruction)
    if target.kind not in ("signed", "unsigned"):
        raise HloError(f"cannot evaluate {instruction.name}: stochastic-convert to floats is unknown", instruction.span)
    width = operand_array_shape(instruction, 1).element_type.bits
    low, high = _range(target)

    def kernel(x: Array, random: Array) -> Array:
        wide = x.astype(np.float64)
        size = np.abs(np.where(np.isfinite(wide), wide, 0))
        whole = np.trunc(size)
        limit = np.ldexp(size - whole, width).astype(np.uint64)
        size = whole + (random.astype(np.uint64) < limit)
        found = converted(np.copysign(size, wide), _WIDE, target, "exact")
        found = np.where(wide >= high, _bound(high, target), np.where(wide <= low, _bound(low, target), found))
        return np.asarray(np.where(np.isnan(wide), _bound(0, target), found)).astype(carrier(target))

    return kernel


def _bound(number: int, kind: PrimitiveType) -> Array:
    return np.array(number).astype(carrier(kind))


_WIDE: Final = PRIMITIVE_TYPES["f64"]

CONVERSION_RULES: Final[dict[str, Rule]] = {
    "bitcast-convert": bitcast_convert,
    "convert": convert,
    "reduce-precision": reduce_precision,
    opcodes.STOCHASTIC_CONVERT: stochastic_convert,
}
"""The rule of each opcode that converts."""


# --- random bits ---
# Random bits exactly as XLA makes them: ThreeFry and Philox, both counter based.
#
# Mirrors xla/hlo/builder/lib/prng.cc and xla/service/rng_bit_generator_expander.cc.


U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

# Of the ThreeFry paper for 2x32, in prng.cc.
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = 0x1BD11BDA  # the parity of ThreeFry's keys for 32-bit words, in prng.cc
_LOW: Final = np.uint64(0xFFFFFFFF)


def _threefry(key: int, counters: U64) -> tuple[U32, U32]:
    """The two words of each counter: 20 rounds of ThreeFry 2x32."""
    keys = [key & 0xFFFFFFFF, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ _PARITY)
    words = [(counters & _LOW).astype(np.uint32), (counters >> np.uint64(32)).astype(np.uint32)]
    with np.errstate(over="ignore"):
        x, y = words[0] + np.uint32(keys[0]), words[1] + np.uint32(keys[1])
        # Keys enter after every four rounds.
        for block in range(5):
            for rotation in _ROTATIONS[block % 2]:
                x = x + y
                y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
                y = x ^ y
            x = x + np.uint32(keys[(block + 1) % 3])
            y = y + np.uint32((keys[(block + 2) % 3] + block + 1) & 0xFFFFFFFF)
    return x, y


def _philox(key: int, counter: int, blocks: int) -> U32:
    """Four words of each block of a counter of 128 bits: 10 rounds of Philox 4x32."""
    numbers = np.arange(blocks, dtype=np.uint64)
    low = numbers + np.uint64(counter & (2**64 - 1))
    carry = (low < numbers).astype(np.uint64)
    high = carry + np.uint64(counter >> 64)
    words = [low & _LOW, low >> np.uint64(32), high & _LOW, high >> np.uint64(32)]
    first, second = key & 0xFFFFFFFF, key >> 32
    # Ten rounds, and the multipliers and Weyl steps of the Philox paper, as in prng.cc.
    for _ in range(10):
        a, b = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (b >> np.uint64(32)) ^ words[1] ^ np.uint64(first), b & _LOW,
            (a >> np.uint64(32)) ^ words[3] ^ np.uint64(second), a & _LOW,
        ]  # fmt: skip
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words, axis=-1).astype(np.uint32).reshape(-1)


def rng_bit_generator(instruction: Instruction, computed: Computed) -> Kernel:
    """The next state, and random bits; the bits alone if the state is not asked for."""
    has_state = isinstance(instruction.shape, TupleShape)
    shape = instruction.shape.elements[1] if isinstance(instruction.shape, TupleShape) else instruction.shape
    assert isinstance(shape, ArrayShape)
    is_threefry = "three_fry" in (instruction.attribute("algorithm") or "")

    def kernel(state: Array) -> Value:
        words = [int(each) for each in np.ascontiguousarray(state).reshape(-1).view(np.uint64)]
        bits, words = (_threefry_bits if is_threefry else _philox_bits)(words, shape)
        new = np.array(words, np.uint64).view(state.dtype).reshape(state.shape)
        found = wrapped(bits.astype(np.uint64).astype(f"u{shape.element_type.byte_width}"), shape.element_type)
        return (new, found) if has_state else found

    return kernel


def _threefry_bits(state: list[int], shape: ArrayShape) -> tuple[Array, list[int]]:
    sizes = shape.dimensions
    mask = 2**64 - 1
    if shape.element_type.bits == 64:
        count = prod(sizes)
        counters = np.uint64(state[1]) + np.arange(count, dtype=np.uint64)
        x, y = _threefry(state[0], counters)
        bits = x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))
        return bits.reshape(sizes), [state[0], (state[1] + count) & mask, *state[2:]]
    # A scalar takes the first word of one counter.
    if not sizes:
        x, _ = _threefry(state[0], np.array([state[1]], np.uint64))
        return x.reshape(()), [state[0], (state[1] + 1) & mask, *state[2:]]
    # prng.cc splits the first even dimension; without one, the largest is rounded up.
    even = [axis for axis, size in enumerate(sizes) if size % 2 == 0]
    axis = even[0] if even else max(range(len(sizes)), key=lambda place: sizes[place])
    half = [(size + 1) // 2 if place == axis else size for place, size in enumerate(sizes)]
    count = prod(half)
    counters = np.uint64(state[1]) + np.arange(count, dtype=np.uint64)
    x, y = (word.reshape(half) for word in _threefry(state[0], counters))
    # The two words of a counter become neighbors along the split dimension.
    joined = np.stack((x, y), axis=axis + 1).reshape(
        [2 * size if place == axis else size for place, size in enumerate(half)]
    )
    cut = joined[tuple(slice(0, size) for size in sizes)]
    return cut, [state[0], (state[1] + count) & mask, *state[2:]]


def _philox_bits(state: list[int], shape: ArrayShape) -> tuple[Array, list[int]]:
    count = prod(shape.dimensions)
    # With a state of two words the key is the upper half of the counter, too.
    counter = state[1] + ((state[2] << 64) if len(state) > 2 else (state[0] << 64))
    wide = shape.element_type.bits == 64
    blocks = -(-count // (2 if wide else 4))
    words = _philox(state[0], counter, blocks)
    after = (counter + blocks) & (2**128 - 1)
    new = [state[0], after & (2**64 - 1), *([after >> 64] if len(state) > 2 else [])]
    if wide:
        pairs = words.reshape(-1, 2).astype(np.uint64)
        return (pairs[:, 0] | (pairs[:, 1] << np.uint64(32)))[:count].reshape(shape.dimensions), new
    return words[:count].reshape(shape.dimensions), new


UNSTATED_DRAWS: Final = frozenset(("rng", "rng-get-and-update-state"))
"""Opcodes whose numbers no text states, so that those of a run are other ones than a compiler's."""


def rng(instruction: Instruction, computed: Computed) -> Kernel:
    """Draws of a uniform or normal distribution: always the same ones for a shape, but not those of a compiler."""
    shape = array_shape(instruction)
    is_normal = "normal" in (instruction.attribute("distribution") or "")
    settle_ = settled(instruction, computed.floats)

    def kernel(first: Array, second: Array) -> Array:
        # Seeded by shape, so that two programs draw the same numbers.
        draws = np.random.Generator(np.random.Philox([int(is_normal), *shape.dimensions]))
        a, b = first.astype(np.float64), second.astype(np.float64)
        if is_normal:
            return settle_(a + b * draws.standard_normal(shape.dimensions))
        places = draws.random(shape.dimensions)
        if shape.element_type.kind == "pred":
            return places >= 0.5
        found = a + (b - a) * places
        return settle_(found if first.dtype.kind == "f" else np.floor(found).astype(np.int64))

    return kernel


_FIRST_STATE: Final = 0x7012395
"""The state that XLA:CPU starts with."""


def _rng_get_and_update_state(instruction: Instruction, computed: Computed) -> Kernel:
    """A counter of the module, which then moves on by a step; it begins like that of XLA:CPU."""
    shape = array_shape(instruction)
    step = instruction.integer("delta") or 0

    def kernel() -> Array:
        state = computed.states.get("rng", _FIRST_STATE)
        computed.states["rng"] = (state + step) & (2**128 - 1)
        words = np.array([state & (2**64 - 1), state >> 64], np.uint64)
        return words[: shape.elements].reshape(shape.dimensions)

    return kernel


RANDOM_RULES: Final[dict[str, Rule]] = {
    "rng": rng,
    "rng-bit-generator": rng_bit_generator,
    "rng-get-and-update-state": _rng_get_and_update_state,
}
"""The rule of each opcode with random bits."""
