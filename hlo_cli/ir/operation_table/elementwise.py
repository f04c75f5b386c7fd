"""Elementwise operations: each element of the result depends on the elements of the operands at the same index."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.operation import Operation, Trait

_EACH: Final = "elementwise: one operand, shaped like the result"
_BOTH: Final = "elementwise: operands shaped like the result"
_BITS: Final = "elementwise, on bits; on pred it is logic"


def _unary(opcode: str, does: str, about: str = _EACH, *traits: Trait) -> Operation:
    return Operation(opcode, 1, does, about, ("elementwise", *traits))


def _function(opcode: str, does: str, about: str = _EACH) -> Operation:
    """A transcendental function, whose result accuracy can be set."""
    return Operation(opcode, 1, does, about, ("elementwise", "transcendental"), optional=("result_accuracy",))


def _binary(opcode: str, does: str, about: str = _BOTH, *traits: Trait) -> Operation:
    return Operation(opcode, 2, does, about, ("elementwise", *traits))


ROWS: Final = (
    _unary("abs", "Takes absolute values", "elementwise; of a complex number its magnitude", "other type"),
    _function("acos", "Takes inverse cosines"),
    _function("acosh", "Takes inverse hyperbolic cosines"),
    _binary("add", "Adds two arrays"),
    _binary("and", "Ands two arrays", _BITS),
    _function("asin", "Takes inverse sines"),
    _function("asinh", "Takes inverse hyperbolic sines"),
    _binary(
        "atan2",
        "Takes the angle of two coordinates",
        "elementwise: the angle of the point (second, first)",
        "transcendental",
    ),
    _function("atanh", "Takes inverse hyperbolic tangents"),
    _unary(
        "bitcast-convert",
        "Reads the same bits as another type",
        "elementwise; a wider type takes a dimension away",
        "other type",
        "needs shape",
    ),
    _function("cbrt", "Takes cube roots"),
    _unary("ceil", "Rounds up"),
    Operation(
        "clamp",
        3,
        "Holds values between two limits",
        "elementwise: operands are lower limit, values, upper limit",
        ("elementwise",),
    ),
    Operation(
        "compare",
        2,
        "Compares two arrays",
        "elementwise; the result is pred, direction says which comparison",
        ("elementwise", "other type"),
        required=("direction",),
        optional=("order", "type"),
    ),
    _binary("complex", "Makes complex numbers", "elementwise: real parts, then imaginary parts", "other type"),
    _unary(
        "convert",
        "Converts to another type",
        "elementwise; values are rounded or cut to the new type",
        "other type",
        "needs shape",
    ),
    _function("cosine", "Takes cosines"),
    _function("cosh", "Takes hyperbolic cosines"),
    _unary("count-leading-zeros", "Counts leading zero bits"),
    _binary("divide", "Divides two arrays", f"{_BOTH}; integers round towards zero"),
    _function("erf", "Takes error functions"),
    _function("exponential", "Takes exponentials", f"{_EACH}; e to the power of each"),
    _function("exponential-minus-one", "Takes exponentials less one", f"{_EACH}; exact near zero"),
    _unary("floor", "Rounds down"),
    _unary("imag", "Takes imaginary parts", "elementwise; the result is real", "other type"),
    _unary(
        "is-finite",
        "Asks which values are finite",
        "elementwise; the result is pred, false for inf and nan",
        "other type",
    ),
    _function("log", "Takes natural logarithms"),
    _function("log-plus-one", "Takes logarithms of one more", f"{_EACH}; exact near zero"),
    _function("logistic", "Takes logistic functions", f"{_EACH}; 1 / (1 + e^-x), the sigmoid"),
    _binary("maximum", "Takes the larger of two arrays", f"{_BOTH}; nan wins"),
    _binary("minimum", "Takes the smaller of two arrays", f"{_BOTH}; nan wins"),
    _binary(
        "mulhi", "Takes the high halves of products", "elementwise, on integers: the upper bits of the full product"
    ),
    _binary("multiply", "Multiplies two arrays"),
    _unary("negate", "Changes signs"),
    _unary("not", "Inverts bits", _BITS),
    _binary("or", "Ors two arrays", _BITS),
    _unary("popcnt", "Counts bits that are set"),
    _binary("power", "Raises to powers", "elementwise: the first operand to the power of the second", "transcendental"),
    _unary("real", "Takes real parts", "elementwise; the result is real", "other type"),
    Operation(
        "reduce-precision",
        1,
        "Rounds to fewer bits",
        "elementwise; the type stays, values become those of a smaller",
        ("elementwise", "needs shape"),
        required=("exponent_bits", "mantissa_bits"),
    ),
    _binary("remainder", "Takes remainders", f"{_BOTH}; the sign is that of the dividend"),
    _unary("round-nearest-afz", "Rounds to whole numbers", f"{_EACH}; halves go away from zero"),
    _unary("round-nearest-even", "Rounds to whole numbers", f"{_EACH}; halves go to the even neighbour"),
    _function("rsqrt", "Takes inverse square roots", f"{_EACH}; 1 / sqrt(x)"),
    Operation(
        "select",
        3,
        "Chooses between two arrays",
        "elementwise: the second where the first is true, else the third",
        ("elementwise",),
    ),
    _binary("shift-left", "Shifts bits left", f"{_BOTH}; zeros come in"),
    _binary("shift-right-arithmetic", "Shifts bits right", f"{_BOTH}; copies of the sign bit come in"),
    _binary("shift-right-logical", "Shifts bits right", f"{_BOTH}; zeros come in"),
    _unary("sign", "Takes signs", f"{_EACH}; -1, 0 or 1"),
    _function("sine", "Takes sines"),
    _function("sinh", "Takes hyperbolic sines"),
    _function("sqrt", "Takes square roots"),
    _binary(
        "stochastic-convert",
        "Converts, rounding at random",
        "elementwise: values, then random bits that decide",
        "other type",
        "needs shape",
    ),
    _binary("subtract", "Subtracts two arrays"),
    _function("tan", "Takes tangents"),
    _function("tanh", "Takes hyperbolic tangents"),
    _binary("xor", "Xors two arrays", _BITS),
)
