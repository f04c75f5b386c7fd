"""Floats that numpy lacks, to and from their codes: bf16, and those of 8 bits and less.

Mirrors the types that xla/types.h takes from ml_dtypes. A type of 8 bits is a table of 256 values, and rounding to
it a search among the midpoints between them, so no other package is needed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from hlo_cli.ir.layout import FLOAT_FORMATS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
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
