"""Arithmetic of intervals: the bounds of a result, given the bounds of both operands."""

from __future__ import annotations

from itertools import product
from math import inf, isinf, isnan
from typing import Final

from hlo_cli.ir.expressions import ArithmeticOperator

Interval = tuple[float, float]
UNBOUNDED: Final[Interval] = (-inf, inf)
NOT_NEGATIVE: Final[Interval] = (0, inf)


def interval_of(symbol: ArithmeticOperator, left: Interval, right: Interval) -> Interval:
    """Bounds of the result of an operator; unbounded for a division by an interval that contains 0.

    >>> interval_of("-", (0, 3), (1, 2)), interval_of("*", (0, inf), (0, 0)), interval_of("/", (4, 8), (2, inf))
    ((-2, 2), (0, 0), (0, 4.0))
    """
    if symbol == "/" and right[0] <= 0 <= right[1]:
        return UNBOUNDED
    ends = [result_of(symbol, a, b) for a, b in product(left, right)]
    return min(ends), max(ends)


def result_of(symbol: ArithmeticOperator, a: float, b: float) -> float:
    """Result of an operator for ends of intervals: 0 times infinity is 0.

    >>> result_of("*", 0, inf), result_of("/", 3, inf), result_of("+", 1, 2)
    (0, 0, 3)
    """
    if symbol == "*":
        return a * b if a and b else 0
    if symbol == "/":
        return inf if not b else 0 if isinf(b) else a / b
    found = a + b if symbol == "+" else a - b
    return 0 if isnan(found) else found
