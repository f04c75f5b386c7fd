"""How a constant's numbers are written, exactly as XLA prints them; floats that numpy lacks are codes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.layout import FLOAT_FORMATS
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# --- floats that numpy lacks ---
# Floats that numpy lacks, to and from their codes: bf16, and those of 8 bits and less.
#
# Mirrors the types that xla/types.h takes from ml_dtypes. A type of 8 bits is a table of 256 values, and rounding to
# it a search among the midpoints between them, so no other package is needed.


@cache
def values_of_codes(name: str) -> npt.NDArray[np.float32]:
    """The value of every code of a type of 8 bits or less; float32 holds each exactly.

    >>> values_of_codes("f4e2m1fn")[:8].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """
    import numpy as np

    form = FLOAT_FORMATS[name]
    codes = np.arange(form.sign or 1 << form.bits)
    if form.special == "scale":
        return np.append(np.ldexp(1.0, codes[:-1] - form.bias), np.nan).astype(np.float32)
    exponent, fraction = codes >> form.mantissa_bits, codes & ((1 << form.mantissa_bits) - 1)
    significand = np.where(exponent > 0, fraction + (1 << form.mantissa_bits), fraction)
    positive = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - form.bias - form.mantissa_bits)
    if form.special == "ieee":
        positive[exponent == exponent[-1]] = np.nan
        positive[form.nan(0)] = np.inf
    elif form.special == "fn":
        positive[-1] = np.nan
    negative = -positive
    if form.special == "fnuz":
        negative[0] = -np.nan
    return np.concatenate((positive, negative)).astype(np.float32)


def decode(name: str, codes: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """The values of codes of bf16 or of a narrower type.

    >>> import numpy as np
    >>> decode("bf16", np.array([0x3fc0], np.uint16)).tolist()
    [1.5]
    """
    import numpy as np

    if name == "bf16":
        return np.asarray(codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.asarray(np.take(values_of_codes(name), codes.astype(np.intp)))


def encode(name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.generic]:
    """The codes of bf16, or of a narrower type, nearest to the values; ties to even, as in XLA.

    Finite values must be in the range of the type. bf16 is rounded by way of 32 bits, and ties of f8e8m0fnu go up,
    as in XLA; but XLA reads 5.9e-39, its own text for the smallest f8e8m0fnu, as the next value.

    >>> import numpy as np
    >>> encode("f4e2m1fn", np.array([1.25, 1.75, -np.inf])).tolist()
    [2, 4, 15]
    """
    return _bfloat16(values) if name == "bf16" else _narrow(name, values)


def _bfloat16(values: npt.NDArray[np.float64]) -> npt.NDArray[np.generic]:
    import numpy as np

    with np.errstate(over="ignore"):
        bits = values.astype(np.float32).view(np.uint32)
    # round to nearest, ties to even, on the upper half of the bits, as Eigen::bfloat16
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40  # a NaN whose set bits are all in the lower half would become infinity
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def _narrow(name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.generic]:
    import numpy as np

    form = FLOAT_FORMATS[name]
    finite, midpoints = _grid(name)
    magnitudes = np.abs(values)
    codes = np.searchsorted(midpoints, magnitudes, side="right" if form.special == "scale" else "left")
    if form.special != "scale":
        ties = midpoints[np.minimum(codes, len(midpoints) - 1)] == magnitudes
        codes += ties & (codes & 1 == 1)
    minus = np.where(np.signbit(values), form.sign, 0)
    is_nan = np.isnan(values)
    match form.special:
        case "ieee":
            codes[np.isinf(values)] = form.nan(0)
            codes[is_nan] = form.nan(1 << (form.mantissa_bits - 1))
        case "finite":  # NaN becomes a zero of the other sign
            codes[is_nan] = 0
            minus[is_nan] ^= form.sign
        case "fnuz":
            minus[codes == 0] = 0
            codes[is_nan | np.isinf(values)] = form.sign
        case _:
            codes[is_nan | np.isinf(values)] = len(finite)
    return (codes | minus).astype(np.uint8)


@cache
def _grid(name: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The finite nonnegative values by code, and the midpoints between each and the next."""
    import numpy as np

    table = values_of_codes(name).astype(np.float64)
    form = FLOAT_FORMATS[name]
    positive = table[: form.sign] if form.sign else table
    finite = positive[np.isfinite(positive)]
    return finite, (finite[:-1] + finite[1:]) / 2


# --- numbers as text ---
# Numbers to the text of a literal, exactly as XLA prints it.
#
# Mirrors `DenseArrayPrintHelper` of xla/literal.cc and `RoundTripFpToString` of xla/util.cc.


_MOST_EMPTY: Final = 10**6
"""The most pairs of empty braces that are printed."""


def array_text(stored: npt.NDArray[np.generic], shape: ArrayShape) -> str:
    """The elements of an array, given as stored bits, as text with braces.

    >>> import numpy as np
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> array_text(np.array([[0.1, 1e10], [1, np.nan]], np.float32), parse_shape("f32[2,2]"))
    '{ { 0.1, 1e+10 }, { 1, nan } }'
    """
    if stored.size == 0 and prod(stored.shape[:-1]) > _MOST_EMPTY:
        raise HloError(f"{shape} is too large to print")
    return nested(_element_texts(stored.ravel(), shape), stored.shape)


def nested(texts: Sequence[str], sizes: Sequence[int]) -> str:
    """Elements in the braces of an array of these sizes; above three dimensions, with index comments.

    >>> nested("abcd", (2, 2)), nested("ab", (2, 1)), nested("", (2, 0))
    ('{ { a, b }, { c, d } }', '{ {a}, {b} }', '{ {}, {} }')
    >>> nested("a", (1, 1, 1, 1))
    '{ { /*i0=0*/ { /*i1=0*/ {a} } } }'
    """
    rank = len(sizes)
    if rank == 0:
        return texts[0]
    space = " " if rank > 1 and sizes[-1] > 1 else ""
    blocks = _braced(texts, sizes, rank - 1, f"{{{space}", f"{space}}}")
    for level in reversed(range(rank - 1)):
        blocks = _braced(blocks, sizes, level, "{ ", " }")
    return blocks[0]


def _braced(texts: Sequence[str], sizes: Sequence[int], level: int, opened: str, closed: str) -> list[str]:
    """The blocks of one dimension, each with its texts."""
    rank, size = len(sizes), sizes[level]
    blocks = []
    for block in range(prod(sizes[:level])):
        start = opened
        if rank > 3 and 0 < level < rank - 1:
            start = f"{{ /*i{level - 1}={block % sizes[level - 1]}*/" + (" " if size else "")
        blocks.append(start + ", ".join(texts[block * size : (block + 1) * size]) + closed)
    return blocks


def _element_texts(stored: npt.NDArray[np.generic], shape: ArrayShape) -> list[str]:
    import numpy as np

    name, kind = shape.element_type.name, shape.element_type.kind
    if kind == "pred":
        words = ("0", "1") if shape.rank else ("false", "true")
        return [words[value] for value in stored.tolist()]
    if kind == "complex":
        parts = _wide_texts(stored.view(stored.real.dtype), "f32" if name == "c64" else "f64")
        return [f"({real}, {imaginary})" for real, imaginary in zip(parts[::2], parts[1::2], strict=True)]
    if kind != "float":
        return list(map(str, stored.tolist()))
    if stored.dtype.itemsize > 2:
        return _wide_texts(stored, name)
    codes = stored.view(np.uint16) if name == "f16" else stored
    return [_text_of_code(name, code) for code in codes.tolist()]


@cache
def _text_of_code(name: str, code: int) -> str:
    """One float of 16 bits or less, with enough digits to be unique."""
    import numpy as np

    form = FLOAT_FORMATS[name]
    if name == "f16":
        value = float(np.uint16(code).view(np.float16))
    else:
        value = float(decode(name, np.array([code], np.uint16 if name == "bf16" else np.uint8))[0])
    if value != value:
        return _nan_text(name, code)
    return f"{value:.{form.digits}g}"


def _nan_text(name: str, code: int) -> str:
    form = FLOAT_FORMATS[name]
    text = "-nan" if code & form.sign else "nan"
    payload = code & ((1 << form.payload_bits) - 1)
    return text if form.payload_bits == 0 or payload == 1 << (form.payload_bits - 1) else f"{text}(0x{payload:x})"


def _wide_texts(values: npt.NDArray[np.generic], name: str) -> list[str]:
    """Floats with the digits that round-trip from decimal or, if those are too few, from binary."""
    import numpy as np

    form = FLOAT_FORMATS[name]
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = values.astype(np.float64).tolist()
        # digits that survive decimal → binary → decimal: FLT_DIG and DBL_DIG; most numbers need no more
        texts = [f"{number:.{6 if name == 'f32' else 15}g}" for number in numbers]
        read = np.fromiter(map(float, texts), np.float64, len(texts)).astype(values.dtype)
    for index in np.flatnonzero(read != values).tolist():
        number = numbers[index]
        if number == number:
            texts[index] = f"{number:.{form.digits}g}"
        else:
            texts[index] = _nan_text(name, int(values.view(f"<u{form.bits // 8}")[index]))
    return texts
