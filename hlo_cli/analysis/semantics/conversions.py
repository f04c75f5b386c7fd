"""Conversions between element types: of numbers, of bits, and of the number of bits of a float.

Mirrors `HandleConvert`, `HandleBitcastConvert`, `HandleReducePrecision`, and
`HandleStochasticConvert` of the evaluator.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array, Floats, carrier, from_bits, settle, to_bits, wrapped
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, array_shape, element_type, operand_array_shape
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.source import HloError


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
        if target.name == "bf16" and wide.dtype == np.float64 and floats == "exact":
            wide = wide.astype(np.float32)
        return settle(wide, target, floats)
    if x.dtype.kind != "f":
        return wrapped(x, target)
    return _integers(x, target)


def _integers(x: Array, target: PrimitiveType) -> Array:
    low, high = _range(target)
    whole = np.trunc(x.astype(np.float64))
    held = carrier(target)
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
    if computed.floats == "widen":
        return lambda x: x
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
        bits = np.asarray((bits + half + last) & kept)
    result = bits.view(x.dtype)
    if exponent_bits < source_exponent_bits:
        largest = (1 << (exponent_bits - 1)) - 1
        stored_exponents = np.asarray(bits >> unsigned.type(stored)).astype(np.int64) & (
            (1 << (width - stored - 1)) - 1
        )
        exponents = stored_exponents - ((1 << (width - stored - 2)) - 1)
        result = np.where(exponents > largest, np.copysign(np.inf, x), result)
        result = np.where(exponents <= -largest, np.copysign(0.0, x), result)
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

HANDLERS: Final[dict[str, Rule]] = {
    "bitcast-convert": bitcast_convert,
    "convert": convert,
    "reduce-precision": reduce_precision,
    opcodes.STOCHASTIC_CONVERT: stochastic_convert,
}
"""The rule of each opcode that converts."""
