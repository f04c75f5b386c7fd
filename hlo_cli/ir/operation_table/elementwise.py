"""Elementwise operations: each element of the result depends on the elements of the operands at the same index."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.operation import Operation, Trait

_EACH: Final = "elementwise; the operand has the shape of the result"
_BOTH: Final = "elementwise; operands have the shape of the result"
_BITS: Final = "elementwise; bitwise on integers, logical on pred"


def _unary(opcode: str, does: str, about: str = _EACH, *traits: Trait) -> Operation:
    return Operation(opcode, 1, does, about, ("elementwise", *traits))


def _function(opcode: str, does: str, about: str = _EACH) -> Operation:
    """A transcendental function, whose result accuracy can be set."""
    return Operation(opcode, 1, does, about, ("elementwise", "transcendental"), optional=("result_accuracy",))


def _binary(opcode: str, does: str, about: str = _BOTH, *traits: Trait) -> Operation:
    return Operation(opcode, 2, does, about, ("elementwise", *traits))


ROWS: Final = (
    _unary("abs", "Computes absolute values", "elementwise; the magnitude of complex numbers", "other type"),
    _function("acos", "Computes arccosines"),
    _function("acosh", "Computes inverse hyperbolic cosines"),
    _binary("add", "Adds two arrays", _BOTH, "commutative"),
    _binary("and", "Computes bitwise or logical AND", _BITS, "commutative"),
    _function("asin", "Computes arcsines"),
    _function("asinh", "Computes inverse hyperbolic sines"),
    _binary(
        "atan2",
        "Computes atan2(y, x)",
        "elementwise; y is the first operand, x the second",
        "transcendental",
    ),
    _function("atanh", "Computes inverse hyperbolic tangents"),
    _unary(
        "bitcast-convert",
        "Reinterprets bits as another type",
        "a wider type removes the last dimension, a narrower type adds one",
        "other type",
        "needs shape",
    ),
    _function("cbrt", "Computes cube roots"),
    _unary("ceil", "Rounds up to integers"),
    Operation(
        "clamp",
        3,
        "Clamps values to a range",
        "elementwise; operands: lower bound, values, upper bound",
        ("elementwise",),
    ),
    Operation(
        "compare",
        2,
        "Compares two arrays",
        "elementwise; the result is pred, direction selects the comparison",
        ("elementwise", "other type"),
        required=("direction",),
        optional=("order", "type"),
    ),
    _binary("complex", "Builds complex numbers", "elementwise; operands: real parts, imaginary parts", "other type"),
    _unary(
        "convert",
        "Converts to another type",
        "elementwise; values are rounded or truncated to the new type",
        "other type",
        "needs shape",
    ),
    _function("cosine", "Computes cosines"),
    _function("cosh", "Computes hyperbolic cosines"),
    _unary("count-leading-zeros", "Counts leading zero bits"),
    _binary("divide", "Divides two arrays", f"{_BOTH}; integer division rounds toward zero"),
    _function("erf", "Computes the error function"),
    _function("exponential", "Computes exponentials", f"{_EACH}; e to the power of x"),
    _function("exponential-minus-one", "Computes exp(x) - 1", f"{_EACH}; accurate near zero"),
    _unary("floor", "Rounds down to integers"),
    _unary("imag", "Extracts imaginary parts", "elementwise; the result is real", "other type"),
    _unary(
        "is-finite",
        "Tests for finite values",
        "elementwise; the result is pred, false for infinities and NaN",
        "other type",
    ),
    _function("log", "Computes natural logarithms"),
    _function("log-plus-one", "Computes log(1 + x)", f"{_EACH}; accurate near zero"),
    _function("logistic", "Computes the sigmoid", f"{_EACH}; the logistic function 1 / (1 + exp(-x))"),
    _binary("maximum", "Computes the elementwise maximum", f"{_BOTH}; NaN propagates", "commutative"),
    _binary("minimum", "Computes the elementwise minimum", f"{_BOTH}; NaN propagates", "commutative"),
    _binary(
        "mulhi",
        "Computes the high bits of integer products",
        "elementwise; the upper half of each double-width product",
    ),
    _binary("multiply", "Multiplies two arrays", _BOTH, "commutative"),
    _unary("negate", "Negates values"),
    _unary("not", "Inverts bits", _BITS),
    _binary("or", "Computes bitwise or logical OR", _BITS, "commutative"),
    _unary("popcnt", "Counts set bits"),
    _binary(
        "power",
        "Raises values to powers",
        "elementwise; the first operand to the power of the second",
        "transcendental",
    ),
    _unary("real", "Extracts real parts", "elementwise; the result is real", "other type"),
    Operation(
        "reduce-precision",
        1,
        "Rounds to a lower-precision format",
        "elementwise; the element type stays the same",
        ("elementwise", "needs shape"),
        required=("exponent_bits", "mantissa_bits"),
    ),
    _binary("remainder", "Computes remainders", f"{_BOTH}; the sign is that of the dividend"),
    _unary("round-nearest-afz", "Rounds to the nearest integers", f"{_EACH}; ties round away from zero"),
    _unary("round-nearest-even", "Rounds to the nearest integers", f"{_EACH}; ties round to even"),
    _function("rsqrt", "Computes reciprocal square roots", f"{_EACH}; 1 / sqrt(x)"),
    Operation(
        "select",
        3,
        "Selects from two arrays by a predicate",
        "elementwise; the second operand where the first is true, else the third",
        ("elementwise",),
    ),
    _binary("shift-left", "Shifts bits left", f"{_BOTH}; fills with zeros"),
    _binary("shift-right-arithmetic", "Shifts bits right", f"{_BOTH}; fills with the sign bit"),
    _binary("shift-right-logical", "Shifts bits right", f"{_BOTH}; fills with zeros"),
    _unary("sign", "Computes signs", "elementwise; -1, 0, or 1 for real numbers, x / |x| for complex numbers"),
    _function("sine", "Computes sines"),
    _function("sinh", "Computes hyperbolic sines"),
    _function("sqrt", "Computes square roots"),
    _binary(
        "stochastic-convert",
        "Converts with stochastic rounding",
        "elementwise; operands: values, random bits",
        "other type",
        "needs shape",
    ),
    _binary("subtract", "Subtracts two arrays"),
    _function("tan", "Computes tangents"),
    _function("tanh", "Computes hyperbolic tangents"),
    _binary("xor", "Computes bitwise or logical XOR", _BITS, "commutative"),
)
