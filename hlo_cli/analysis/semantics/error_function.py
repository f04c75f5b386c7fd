"""How the error function is computed on arrays, to the last place but one of f64.

XLA has approximations of its own. Those of fdlibm's `s_erf.c` are closer: a polynomial, or a quotient of them, for each
range of magnitudes.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.semantics.typed_values import Array

F64 = npt.NDArray[np.float64]

# pp, qq, pa, qa, ra, sa, rb, and sb of s_erf.c.
_P: Final = (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
             -5.77027029648944159157e-03, -2.37630166566501626084e-05)  # fmt: skip
_Q: Final = (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
             1.32494738004321644526e-04, -3.96022827877536812320e-06)  # fmt: skip
_ERF_OF_ONE: Final = 8.45062911510467529297e-01
"""The error function of 1, rounded to f32."""
_P1: Final = (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
              3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
              -2.16637559486879084300e-03)  # fmt: skip
_Q1: Final = (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
              1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02)  # fmt: skip
_P2: Final = (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
              -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
              -8.12874355063065934246e+01, -9.81432934416914548592e+00)  # fmt: skip
_Q2: Final = (1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
              6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
              6.57024977031928170135e+00, -6.04244152148580987438e-02)  # fmt: skip
_P3: Final = (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
              -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
              -4.83519191608651397019e+02)  # fmt: skip
_Q3: Final = (1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
              3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
              -2.24409524465858183362e+01)  # fmt: skip


def erf(x: Array) -> Array:
    """The error function of floats, in their type; of many of 32 bits by a table."""
    if x.dtype != np.float32:
        return error_function(x)
    return error_function(x) if x.size < _FEW else single_error_function(x)


def error_function(x: Array) -> Array:
    """The error function of floats, in their type.

    >>> error_function(np.array([0.0, -1.0, 2.0, np.inf])).round(6).tolist()
    [0.0, -0.842701, 0.995322, 1.0]
    """
    wide = x.astype(np.float64, copy=False)
    size = np.abs(wide)
    result = np.where(np.isnan(wide), wide, 1.0)
    # The ranges of s_erf.c: its own bounds, 2.857142 for 1/0.35, and beyond 6 the result rounds to 1.
    for low, high, function in (
        (0.0, 0.84375, _small),
        (0.84375, 1.25, _about_one),
        (1.25, 2.857142, _middle),
        (2.857142, 6.0, _large),
    ):
        inside = (size >= low) & (size < high)
        if inside.any():
            result[inside] = function(size[inside])
    return np.copysign(result, wide).astype(x.dtype, copy=False)


_FEW: Final = 4096  # chosen: the table takes as long as so many elements
"""Below so many elements, no table is made for them."""
_GRID: Final = 4096
"""Parabolas in a unit: each is as close as 2e-13."""
_FLAT: Final = 4.0
"""From here on, the error function of f32 is 1."""
_TO_GRID: Final = 1.5 * 2.0**52 / _GRID
"""Added to a number, it leaves the nearest point of the grid in the lowest bits."""
_NEAR: Final = 1 << 13
"""Units of 64 bits: numbers so near to the middle of two of 32 bits may be rounded to either; 985 were measured."""
_AT_ONCE: Final = 1 << 14  # measured: more do not stay in the cache, fewer take more calls
"""The elements that are computed at once."""
_SMALL: Final = 1e-30
"""Below it, results of 32 bits may have fewer digits."""


@cache
def _parabolas() -> tuple[F64, F64, F64]:
    """The factors of a parabola through erf(x) / x around each point of the grid."""
    points = np.arange(-1, 2 * int(_FLAT) * _GRID + 2) / (2 * _GRID)
    points[1] = 1.0  # 0 / 0
    values = error_function(points) / points
    values[1] = 2 / np.sqrt(np.pi)
    left, middle, right = values[:-2:2], values[1:-1:2], values[2::2]
    return middle, (right - left) * _GRID, (right - 2 * middle + left) * (2 * _GRID * _GRID)


def single_error_function(x: Array) -> Array:
    """The same for f32, to the last bit, in a fifth of the time.

    >>> single_error_function(np.float32([0.0, -1.0, 2.0, np.inf])).round(6).tolist()
    [0.0, -0.8427010178565979, 0.9953219890594482, 1.0]
    """
    flat = np.ascontiguousarray(x).reshape(-1)
    result = np.empty(flat.shape, np.float32)
    left: list[npt.NDArray[np.int64]] = []
    for start in range(0, flat.size, _AT_ONCE):
        block = flat[start : start + _AT_ONCE]
        found, is_left = _by_parabolas(block)
        np.copysign(found, block, out=result[start : start + _AT_ONCE])
        if is_left.any():
            left.append(np.flatnonzero(is_left) + start)
    if left:
        places = np.concatenate(left)
        result[places] = error_function(flat[places])
    return result.reshape(x.shape)


def _by_parabolas(x: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The error function of magnitudes, and for which of them it may not be rounded as that of f64 is."""
    size = np.abs(x).astype(np.float64)
    # The sign of NaN is kept with its other bits.
    is_left = ~(size >= _SMALL)
    is_left &= x != 0
    np.minimum(size, _FLAT, out=size)
    shifted = size + _TO_GRID
    at = shifted.view(np.int64) & (8 * _GRID - 1)
    shifted -= _TO_GRID
    np.subtract(size, shifted, out=shifted)
    constant, slope, bend = _parabolas()
    found = bend.take(at, mode="clip")
    found *= shifted
    factor = slope.take(at, mode="clip")
    found += factor
    found *= shifted
    constant.take(at, mode="clip", out=factor)
    found += factor
    found *= size
    rest = found.view(np.int64) & ((1 << 29) - 1)
    rest -= (1 << 28) - _NEAR
    is_left |= rest.view(np.uint64) < 2 * _NEAR
    return found.astype(np.float32), is_left


def _polynomial(x: F64, factors: tuple[float, ...]) -> F64:
    result = np.full_like(x, factors[-1])
    for factor in factors[-2::-1]:
        result *= x
        result += factor
    return result


def _small(x: F64) -> F64:
    square = x * x
    return x + x * (_polynomial(square, _P) / _polynomial(square, _Q))


def _about_one(x: F64) -> F64:
    s = x - 1.0
    return _ERF_OF_ONE + _polynomial(s, _P1) / _polynomial(s, _Q1)


def _middle(x: F64) -> F64:
    return _tail(x, _P2, _Q2)


def _large(x: F64) -> F64:
    return _tail(x, _P3, _Q3)


def _tail(x: F64, above: tuple[float, ...], below: tuple[float, ...]) -> F64:
    s = 1.0 / (x * x)
    rough = x.astype(np.float32).astype(np.float64)  # its square is exact
    # exp(−x²) in two factors, as in s_erf.c: squared at once, x would lose half of its digits in the exponent.
    product = np.exp(-rough * rough - 0.5625)
    product *= np.exp((rough - x) * (rough + x) + _polynomial(s, above) / _polynomial(s, below))
    return 1.0 - product / x
