"""Elementwise opcodes, where numpy's functions are XLA's or can be made so.

Mirrors xla/hlo/evaluator/hlo_evaluator_typed_visitor.h; where the evaluator and XLA:CPU disagree, XLA:CPU decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from hlo_cli.analysis.error_function import error_function
from hlo_cli.analysis.semantics import integers
from hlo_cli.analysis.semantics.number_types import Array, in_blocks
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, element_type, operand_array_shape, settled
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import HloError

Function = Callable[..., Array]


def unary(function: Function, of_integers: Function | None = None) -> Rule:
    """The rule for a function of one operand, with another one for integers and booleans if they need it."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        settle = settled(instruction, computed.floats)
        kind = operand_array_shape(instruction, 0).element_type
        if of_integers is not None and kind.kind in ("pred", "signed", "unsigned"):
            return lambda x: settle(of_integers(x, kind))
        return lambda x: settle(function(x))

    return rule


def binary(function: Function, of_integers: Function | None = None) -> Rule:
    """The same for two operands; a function of integers also gets their type."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        settle = settled(instruction, computed.floats)
        kind = operand_array_shape(instruction, 0).element_type
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
    real, imaginary = wide.real, wide.imag
    near = np.log1p(real * (2 + real) + imaginary * imaginary) / 2
    size = np.where(np.abs(wide) < 2, near, np.log(np.hypot(1 + real, imaginary)))
    return _complex(size, np.arctan2(imaginary, 1 + real))


def _complex(real: Array, imaginary: Array) -> Array:
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imaginary
    return result


def _erf(x: Array) -> Array:
    return in_blocks(x, error_function) if x.dtype == np.float32 else error_function(x)


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
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def complex_number(instruction: Instruction, computed: Computed) -> Kernel:
    """A complex number of its two parts, which may be infinite."""

    return lambda real, imaginary: _complex(*np.broadcast_arrays(real, imaginary))


def _real(x: Array) -> Array:
    return np.real(x).copy()


def _imag(x: Array) -> Array:
    return np.imag(x).copy() if np.iscomplexobj(x) else np.zeros_like(x)


def _is_finite(x: Array) -> Array:
    return np.isfinite(x)


HANDLERS: Final[dict[str, Rule]] = {
    "abs": unary(np.abs, integers.absolute),
    "acos": unary(np.arccos),
    "acosh": unary(np.arccosh),
    "add": binary(np.add, integers.add),
    "and": binary(np.bitwise_and),
    "asin": unary(np.arcsin),
    "asinh": unary(np.arcsinh),
    "atan2": binary(_complex_or(np.arctan2, _complex_atan2)),
    "atanh": unary(np.arctanh),
    "cbrt": unary(np.cbrt),
    "ceil": unary(np.ceil),
    "clamp": clamp,
    "compare": compare,
    opcodes.COMPLEX: complex_number,
    "cosine": unary(np.cos),
    "cosh": unary(np.cosh),
    "count-leading-zeros": unary(np.abs, integers.count_leading_zeros),
    "divide": binary(_divide_floats, integers.divide),
    "erf": unary(_erf),
    "exponential": unary(np.exp),
    "exponential-minus-one": unary(np.expm1),
    "floor": unary(np.floor),
    "imag": unary(_imag),
    "is-finite": unary(_is_finite),
    "log": unary(np.log),
    "log-plus-one": unary(_complex_or(np.log1p, _complex_log_plus_one)),
    "logistic": unary(_logistic),
    "maximum": binary(_complex_or(_maximum, np.maximum), lambda x, y, kind: np.maximum(x, y)),
    "minimum": binary(_complex_or(_minimum, np.minimum), lambda x, y, kind: np.minimum(x, y)),
    "mulhi": binary(np.multiply, integers.multiply_high),
    "multiply": binary(np.multiply, integers.multiply),
    "negate": unary(np.negative, integers.negate),
    "not": unary(np.invert, integers.invert),
    "or": binary(np.bitwise_or),
    "popcnt": unary(np.abs, integers.popcnt),
    "power": binary(_complex_or(np.power, _complex_power), integers.power),
    "real": unary(_real),
    "remainder": binary(_fmod, integers.remainder),
    "round-nearest-afz": unary(_half_away),
    "round-nearest-even": unary(np.rint),
    "rsqrt": unary(_reciprocal_root),
    "select": select,
    "shift-left": binary(np.left_shift, integers.shift_function("left")),
    "shift-right-arithmetic": binary(np.right_shift, integers.shift_function("arithmetic")),
    "shift-right-logical": binary(np.right_shift, integers.shift_function("logical")),
    "sign": unary(_complex_or(_float_sign, _complex_sign), integers.sign),
    "sine": unary(np.sin),
    "sinh": unary(np.sinh),
    "sqrt": unary(np.sqrt),
    "subtract": binary(np.subtract, integers.subtract),
    "tan": unary(np.tan),
    "tanh": unary(np.tanh),
    "xor": binary(np.bitwise_xor),
}
"""The rule of each elementwise opcode; conversions are in conversions.py."""
