"""The error function on arrays, to the last place but one of f64.

XLA has approximations of its own. Those of fdlibm's `s_erf.c` are closer: a polynomial, or a quotient of them, for each
range of magnitudes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F64 = npt.NDArray[np.float64]

_P: Final = (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
             -5.77027029648944159157e-03, -2.37630166566501626084e-05)  # fmt: skip
_Q: Final = (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
             1.32494738004321644526e-04, -3.96022827877536812320e-06)  # fmt: skip
_ONE: Final = 8.45062911510467529297e-01
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
    return _ONE + _polynomial(s, _P1) / _polynomial(s, _Q1)


def _middle(x: F64) -> F64:
    return _tail(x, _P2, _Q2)


def _large(x: F64) -> F64:
    return _tail(x, _P3, _Q3)


def _tail(x: F64, above: tuple[float, ...], below: tuple[float, ...]) -> F64:
    s = 1.0 / (x * x)
    rough = x.astype(np.float32).astype(np.float64)  # its square is exact
    # exp(−x²) in two factors, as in s_erf.c: squared at once, x would lose half of its digits in the exponent.
    found = np.exp(-rough * rough - 0.5625)
    found *= np.exp((rough - x) * (rough + x) + _polynomial(s, above) / _polynomial(s, below))
    return 1.0 - found / x
