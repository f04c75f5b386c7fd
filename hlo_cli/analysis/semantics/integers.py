"""Integers and booleans elementwise, where numpy is undefined or another: division, shifts, powers, and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array, wrapped
from hlo_cli.ir.layout import PrimitiveType

Function = Callable[..., Array]


def add(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Wrapping; or of booleans."""
    return np.asarray(x | y if kind.kind == "pred" else x + y)


def subtract(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Wrapping; exclusive or of booleans."""
    return np.asarray(x ^ y if kind.kind == "pred" else x - y)


def multiply(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Wrapping; and of booleans."""
    return np.asarray(x & y if kind.kind == "pred" else x * y)


def divide(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """Toward zero; by zero: all bits set; the minimum by -1: the minimum."""
    if kind.kind == "pred":
        return np.asarray(divide(x.astype(np.uint8), y.astype(np.uint8), _U8) != 0)
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


def remainder(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """The sign of the dividend; by zero: the dividend."""
    if kind.kind == "pred":
        return np.asarray(remainder(x.astype(np.uint8), y.astype(np.uint8), _U8) != 0)
    keeps = y == 0
    vanishes = (y == -1) if kind.kind == "signed" else np.zeros_like(keeps)
    safe = np.where(keeps | vanishes, np.ones_like(y), y)
    return np.where(keeps, x, np.where(vanishes, np.zeros_like(x), np.fmod(x, safe)))


_POWER_BITS: Final = 6
"""The bits of an integer exponent that XLA looks at: larger powers of all but 0 and 1 overflow, mostly to 0."""


def power(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """By squaring, which wraps, six times as XLA does; a negative exponent leaves 1 and -1, and makes all else 0."""
    if kind.kind == "pred":
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
    of_negative = np.where(x == 1, x, np.where(x == minus, np.where(odd, x, np.negative(x)), np.zeros_like(x)))
    return np.where(signed < 0, of_negative, result)


def absolute(x: Array, kind: PrimitiveType) -> Array:
    """The minimum stays the minimum."""
    return x if kind.kind != "signed" else np.abs(x)


def negate(x: Array, kind: PrimitiveType) -> Array:
    """The minimum stays the minimum."""
    return np.negative(x)


def sign(x: Array, kind: PrimitiveType) -> Array:
    """-1, 0, or 1."""
    return np.sign(x)


def invert(x: Array, kind: PrimitiveType) -> Array:
    """All bits turned; booleans negated."""
    return ~x


def popcnt(x: Array, kind: PrimitiveType) -> Array:
    """The bits that are set; of a type of 4 bits, those of the byte that holds it, as XLA counts."""
    held = np.ascontiguousarray(x).reshape(x.shape)
    if kind.bits < 4:
        held = held & held.dtype.type((1 << kind.bits) - 1)
    whole = held.reshape(-1).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    return np.asarray(np.unpackbits(whole, axis=-1).sum(axis=-1)).astype(x.dtype)


def count_leading_zeros(x: Array, kind: PrimitiveType) -> Array:
    """Zeros above the highest bit that is set, within the width of the type."""
    bits = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    if kind.bits < 8:
        bits = bits & np.uint64((1 << kind.bits) - 1)
    left = np.full(bits.shape, kind.bits, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        high = bits >= np.uint64(1 << shift)
        left = left - np.where(high, shift, 0)
        bits = np.where(high, bits >> np.uint64(shift), bits)
    return np.asarray(left - (bits != 0)).astype(x.dtype)


def shift_function(direction: str) -> Function:
    """A shift: `left`, `logical`, or `arithmetic`; by less than 0 or by the width and more, all bits leave."""

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


def multiply_high(x: Array, y: Array, kind: PrimitiveType) -> Array:
    """The upper half of the product of twice the width."""
    if kind.bits < 64:
        wide = x.astype(np.int64 if kind.kind == "signed" else np.uint64)
        return wrapped((wide * y.astype(wide.dtype)) >> wide.dtype.type(kind.bits), kind)
    products = np.broadcast_arrays(x, y)
    numbers = [(int(a) * int(b)) >> 64 for a, b in zip(products[0].flat, products[1].flat, strict=True)]
    return np.array(numbers, x.dtype).reshape(products[0].shape)
