"""Elementwise opcodes, where numpy's functions are XLA's or can be made so.

Mirrors xla/hlo/evaluator/hlo_evaluator_typed_visitor.h; where the evaluator and XLA:CPU disagree, XLA:CPU decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.number_types import Array, wrapped
from hlo_cli.analysis.evaluate.values import Computed, Kernel, Rule, Value, element_type, operand_array_shape, settled
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.primitive import PrimitiveType

Function = Callable[..., Array]


def unary(function: Function, integers: Function | None = None) -> Rule:
    """The rule for a function of one operand, with another one for integers and booleans if they need it."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        settle = settled(instruction, computed.floats)
        kind = operand_array_shape(instruction, 0).element_type
        if integers is not None and kind.kind in ("pred", "signed", "unsigned"):
            return lambda x: settle(integers(x, kind))
        return lambda x: settle(function(x))

    return rule


def binary(function: Function, integers: Function | None = None) -> Rule:
    """The same for two operands; a function of integers also gets their type."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        settle = settled(instruction, computed.floats)
        kind = operand_array_shape(instruction, 0).element_type
        if integers is not None and kind.kind in ("pred", "signed", "unsigned"):
            return lambda x, y: settle(integers(x, y, kind))
        return lambda x, y: settle(function(x, y))

    return rule


# Integers


def _add(x: Array, y: Array, kind: PrimitiveType) -> Array:
    return np.asarray(x | y if kind.kind == "pred" else x + y)


def _subtract(x: Array, y: Array, kind: PrimitiveType) -> Array:
    return np.asarray(x ^ y if kind.kind == "pred" else x - y)


def _multiply(x: Array, y: Array, kind: PrimitiveType) -> Array:
    return np.asarray(x & y if kind.kind == "pred" else x * y)


def _divide(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Toward zero; by zero: all bits set; the minimum by -1: the minimum."""
    if kind.kind == "pred":
        return np.asarray(_divide(x.astype(np.uint8), y.astype(np.uint8), _U8) != 0)
    by_zero = y == 0
    safe = np.where(by_zero, np.ones_like(y), y)
    if kind.kind == "unsigned":
        return np.where(by_zero, _all_bits(kind, x), x // safe)
    overflows = safe == -1
    safe = np.where(overflows, np.ones_like(y), safe)
    quotient = x // safe
    quotient = quotient + ((quotient < 0) & (quotient * safe != x))
    return np.where(by_zero, np.full_like(x, -1), np.where(overflows, np.negative(x), quotient))


_U8: Final = PrimitiveType("u8", 8, "unsigned")


def _all_bits(kind: PrimitiveType, x: Array) -> Array:
    return np.full_like(x, (1 << kind.bits) - 1)


def _remainder(x: Array, y: Array, kind: PrimitiveType) -> Array:
    if kind.kind == "pred":
        return np.asarray(_remainder(x.astype(np.uint8), y.astype(np.uint8), _U8) != 0)
    keeps = y == 0
    vanishes = (y == -1) if kind.kind == "signed" else np.zeros_like(keeps)
    safe = np.where(keeps | vanishes, np.ones_like(y), y)
    return np.where(keeps, x, np.where(vanishes, np.zeros_like(x), np.fmod(x, safe)))


_POWER_BITS: Final = 6
"""The bits of an integer exponent that XLA looks at: larger powers of all but 0 and 1 overflow, mostly to 0."""


def _power(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """By squaring, which wraps, six times as XLA does; a negative exponent leaves 1 and -1, and makes all else 0."""
    if kind.kind == "pred":
        return np.asarray(x | ~y)
    x, y = np.broadcast_arrays(x, y)
    result, base, exponent = np.ones_like(x), x.copy(), y.astype(np.uint64)
    for _ in range(_POWER_BITS):
        result = np.where(exponent & np.uint64(1), result * base, result)
        base = base * base
        exponent = exponent >> np.uint64(1)
    signed = wrapped(y, PrimitiveType("", kind.bits, "signed")) if kind.kind == "unsigned" else y
    minus = np.negative(np.ones_like(x))
    odd = (y & 1).astype(bool)
    of_negative = np.where(x == 1, x, np.where(x == minus, np.where(odd, x, np.negative(x)), np.zeros_like(x)))
    return np.where(signed < 0, of_negative, result)


def _abs(x: Array, kind: PrimitiveType) -> Array:
    return x if kind.kind != "signed" else np.abs(x)


def _negate(x: Array, kind: PrimitiveType) -> Array:
    return np.negative(x)


def _sign(x: Array, kind: PrimitiveType) -> Array:
    return np.sign(x)


def _not(x: Array, kind: PrimitiveType) -> Array:
    return ~x


def _popcnt(x: Array, kind: PrimitiveType) -> Array:
    """The bits that are set; of a type narrower than a byte, those of the byte that holds it."""
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype)


def _count_leading_zeros(x: Array, kind: PrimitiveType) -> Array:
    bits = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    if kind.bits < 8:
        bits = bits & np.uint64((1 << kind.bits) - 1)
    left = np.full(bits.shape, kind.bits, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        high = bits >= np.uint64(1 << shift)
        left = left - np.where(high, shift, 0)
        bits = np.where(high, bits >> np.uint64(shift), bits)
    return np.asarray(left - (bits != 0)).astype(x.dtype)


def _shift(direction: str) -> Function:
    def shift(x: Array, y: Array, kind: PrimitiveType) -> Array:
        if kind.kind == "pred":
            return np.asarray(shift(x.astype(np.uint8), y.astype(np.uint8), PrimitiveType("u1", 1, "unsigned")) != 0)
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
    products = np.broadcast_arrays(x, y)
    numbers = [(int(a) * int(b)) >> 64 for a, b in zip(products[0].flat, products[1].flat, strict=True)]
    return np.array(numbers, x.dtype).reshape(products[0].shape)


# Floats


def _maximum(x: Array, y: Array) -> Array:
    """NaN on either side wins, and +0 over -0."""
    larger = np.maximum(x, y)
    zeros = (x == 0) & (y == 0)
    return np.where(zeros & ~(np.signbit(x) & np.signbit(y)), np.zeros_like(larger), larger) if zeros.any() else larger


def _minimum(x: Array, y: Array) -> Array:
    smaller = np.minimum(x, y)
    zeros = (x == 0) & (y == 0)
    negative = zeros & (np.signbit(x) | np.signbit(y))
    return np.where(negative, np.negative(np.zeros_like(smaller)), smaller) if zeros.any() else smaller


def _complex_or(real: Function, complex_: Function) -> Function:
    return lambda *given: complex_(*given) if np.iscomplexobj(given[0]) else real(*given)


def _complex_sign(x: Array) -> Array:
    size = np.abs(x)
    return np.where(size == 0, np.zeros_like(x), x / np.where(size == 0, np.ones_like(size), size))


def _float_sign(x: Array) -> Array:
    return np.where((x == 0) | np.isnan(x), x, np.sign(x))


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


def _erf(x: Array) -> Array:
    flat = [math.erf(value) for value in x.astype(np.float64).ravel().tolist()]
    return np.array(flat, np.float64).reshape(x.shape)


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
    function = _COMPARE[instruction.attribute("direction") or "EQ"]
    if instruction.attribute("type") != "TOTALORDER":
        return function
    return lambda x, y: function(ordered(x), ordered(y))


def ordered(x: Array) -> Array:
    """Signed integers in the total order of floats; other values as they are."""
    if x.dtype.kind != "f":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def complex_number(instruction: Instruction, computed: Computed) -> Kernel:
    """A complex number of its two parts, which may be infinite."""

    def kernel(real: Array, imaginary: Array) -> Array:
        result = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), np.result_type(real.dtype, np.complex64))
        result.real, result.imag = real, imaginary
        return result

    return kernel


def _real(x: Array) -> Array:
    return np.real(x).copy()


def _imag(x: Array) -> Array:
    return np.imag(x).copy() if np.iscomplexobj(x) else np.zeros_like(x)


def _is_finite(x: Array) -> Array:
    return np.isfinite(x)


HANDLERS: Final[dict[str, Rule]] = {
    "abs": unary(np.abs, _abs),
    "acos": unary(np.arccos),
    "acosh": unary(np.arccosh),
    "add": binary(np.add, _add),
    "and": binary(np.bitwise_and),
    "asin": unary(np.arcsin),
    "asinh": unary(np.arcsinh),
    "atan2": binary(_complex_or(np.arctan2, _complex_atan2)),
    "atanh": unary(np.arctanh),
    "cbrt": unary(np.cbrt),
    "ceil": unary(np.ceil),
    "clamp": clamp,
    "compare": compare,
    "complex": complex_number,
    "cosine": unary(np.cos),
    "cosh": unary(np.cosh),
    "count-leading-zeros": unary(np.abs, _count_leading_zeros),
    "divide": binary(_divide_floats, _divide),
    "erf": unary(_erf),
    "exponential": unary(np.exp),
    "exponential-minus-one": unary(np.expm1),
    "floor": unary(np.floor),
    "imag": unary(_imag),
    "is-finite": unary(_is_finite),
    "log": unary(np.log),
    "log-plus-one": unary(np.log1p),
    "logistic": unary(_logistic),
    "maximum": binary(_complex_or(_maximum, np.maximum), lambda x, y, kind: np.maximum(x, y)),
    "minimum": binary(_complex_or(_minimum, np.minimum), lambda x, y, kind: np.minimum(x, y)),
    "mulhi": binary(np.multiply, _multiply_high),
    "multiply": binary(np.multiply, _multiply),
    "negate": unary(np.negative, _negate),
    "not": unary(np.invert, _not),
    "or": binary(np.bitwise_or),
    "popcnt": unary(np.abs, _popcnt),
    "power": binary(_complex_or(np.power, _complex_power), _power),
    "real": unary(_real),
    "remainder": binary(_fmod, _remainder),
    "round-nearest-afz": unary(_half_away),
    "round-nearest-even": unary(np.rint),
    "rsqrt": unary(_reciprocal_root),
    "select": select,
    "shift-left": binary(np.left_shift, _shift("left")),
    "shift-right-arithmetic": binary(np.right_shift, _shift("arithmetic")),
    "shift-right-logical": binary(np.right_shift, _shift("logical")),
    "sign": unary(_complex_or(_float_sign, _complex_sign), _sign),
    "sine": unary(np.sin),
    "sinh": unary(np.sinh),
    "sqrt": unary(np.sqrt),
    "subtract": binary(np.subtract, _subtract),
    "tan": unary(np.tan),
    "tanh": unary(np.tanh),
    "xor": binary(np.bitwise_xor),
}
"""The rule of each elementwise opcode; conversions are in conversions.py."""
