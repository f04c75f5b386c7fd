"""Element types as numpy arrays: which array holds them, and how results become values of the type.

Integers narrower than a byte are held one a byte; floats that numpy lacks as float32 arrays whose values the type
represents. Mirrors `primitive_util::NativeTypeOf` and the conversions of xla/types.h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo_cli.ir.layout import FLOAT_FORMATS, PrimitiveType

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
    held = values if values.dtype == carrier(element_type) else values.astype(carrier(element_type))
    if element_type.bits >= 8:
        return held
    unused = 8 - element_type.bits
    if element_type.kind == "unsigned":
        return np.asarray(np.bitwise_and(held, np.uint8((1 << element_type.bits) - 1)))
    shifted = np.left_shift(held.view(np.uint8), np.uint8(unused)).view(np.int8)
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
            return in_blocks(values.astype(np.float32, copy=False), _bfloat16)
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
    name, kept = element_type.name, carrier(element_type, floats)
    if element_type.kind == "pred":
        return np.asarray(bits != 0)
    if element_type.kind in ("signed", "unsigned"):
        return wrapped(bits.view(f"i{element_type.byte_width}"), element_type)
    if name in _NATIVE:
        return bits.view(f"f{element_type.byte_width}").astype(kept, copy=False)
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(kept, copy=False)
    with np.errstate(invalid="ignore"):  # of NaN that signal
        return np.asarray(values_of_codes(name)[bits.astype(np.intp)]).astype(kept, copy=False)


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
    given = values.astype(np.float64)
    codes = np.minimum(np.searchsorted(finite, np.abs(given)), len(finite) - 1)
    codes = np.where(np.signbit(given) & (form.sign > 0), codes | form.sign, codes)
    not_finite = ~np.isfinite(given)
    infinite = form.nan(0) if form.special == "ieee" else 0
    signs = np.where(np.signbit(given), form.sign, 0) if form.special in ("ieee", "fn") else 0
    other = np.where(np.isinf(given), infinite | signs, _nan_codes(values, name) | signs)
    return np.where(not_finite, other, codes).astype(np.uint8)


def _nan_codes(values: Array, name: str) -> Array | int:
    """The codes of NaN without signs; types with payloads take the upper bits of those of f32."""
    form = FLOAT_FORMATS[name]
    width = form.mantissa_bits
    if form.special != "ieee":
        return {"fnuz": form.sign, "finite": 0}.get(form.special, (form.sign or 1 << form.bits) - 1)
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


def _bfloat16(values: Array) -> Array:
    bits = values.view(np.uint32)
    result = bits >> np.uint32(16)
    result &= np.uint32(1)
    result += np.uint32(0x7FFF)
    result += bits
    result &= np.uint32(0xFFFF0000)
    is_nan = np.isnan(values)
    if is_nan.any():
        result = np.where(is_nan, (bits & np.uint32(0xFFFF0000)) | np.uint32(0x400000), result)
    return np.asarray(result).view(np.float32)


def _narrow(values: Array, name: str) -> Array:
    """Floats of 8 bits or less: read from a table, by the upper 16 bits as an f32 and whether there are others.

    All halfway cases of these types have fewer bits, so that one bit for all others tells on which side a value is.
    """
    if values.dtype == np.float64:
        if name == "f8e8m0fnu":  # has halfway cases among the denormals of f32
            return _searched(values, name)
        bits = values.view(np.uint64)
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
    given = values.astype(np.float64)
    magnitudes = np.abs(given)
    places = np.searchsorted(midpoints, magnitudes, side="right" if form.special == "scale" else "left")
    if form.special != "scale":
        ties = midpoints[np.minimum(places, len(midpoints) - 1)] == magnitudes
        places = places + (ties & (places & 1 == 1))
    result = np.copysign(finite[np.minimum(places, len(finite) - 1)], given)
    too_large = places >= len(finite)
    match form.special:
        case "ieee":
            result = np.where(too_large, np.copysign(np.inf, given), result)
        case "fn":
            result = np.where(too_large, np.copysign(np.nan, given), result)
        case "fnuz":
            result = np.where(too_large, -np.nan, np.where(result == 0, 0.0, result))
        case "scale":
            result = np.where(too_large | (given <= 0), np.nan, np.abs(result))
        case "finite":
            pass
    if form.special == "finite":
        result = np.where(np.isnan(given), np.copysign(0.0, -np.copysign(1.0, given)), result)
    else:
        only = -np.nan if form.special == "fnuz" else given  # its code has the bit of the sign
        result = np.where(np.isnan(given), only, result)
    return result.astype(np.float32)
