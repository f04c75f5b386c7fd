"""Three-valued comparison of numbers that are known only partly: true, false, or None if undecidable."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Final

from hlo_cli.dataclass import dataclass

ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "in": operator.eq,
    "!=": operator.ne,
    "not in": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# The same comparison with its sides exchanged; equality is its own mirror.
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number of which only a lower bound is known."""

    number: float


NOT_KNOWN: Final = AtLeast(float("-inf"))
"""A number without any known bound."""


def compared(sign: str, left: float | AtLeast, right: float | AtLeast) -> bool | None:
    """Compares two numbers by an operator of `ORDERS`; None if the unknown part of either decides.

    >>> compared(">", AtLeast(4), 3), compared("<", AtLeast(4), 3), compared(">", AtLeast(4), 5)
    (True, False, None)
    >>> compared("<", 3, AtLeast(4)), compared("==", AtLeast(4), AtLeast(4))
    (True, None)
    """
    if isinstance(right, AtLeast):
        return None if isinstance(left, AtLeast) else compared(_MIRRORED.get(sign, sign), right, left)
    if not isinstance(left, AtLeast):
        return ORDERS[sign](left, right)
    # A lower bound decides only if the whole range above it is on one side of the other number.
    if not ORDERS[">=" if sign in ("<", ">=") else ">"](left.number, right):
        return None
    return sign in (">", ">=", "!=", "not in")


def within(sign: str, low: float, high: float, limit: float) -> bool | None:
    """Compares a number between `low` and `high` with `limit`; None if the result depends on the number.

    >>> within("<", 2, 4, 5), within("<", 2, 4, 3), within("==", 2, 4, 5), within("!=", 2, 2, 2)
    (True, None, False, False)
    """
    # Both ends differ from the limit, yet a number between them may equal it.
    if sign in ("==", "!=") and low < limit < high:
        return None
    ends = {ORDERS[sign](low, limit), ORDERS[sign](high, limit)}
    return ends.pop() if len(ends) == 1 else None


def ranges_compared(sign: str, left: tuple[float, float], right: tuple[float, float]) -> bool | None:
    """Compares two numbers between bounds; None if the result depends on the numbers.

    >>> [ranges_compared(sign, (2, 4), (5, 9)) for sign in ("<", ">=", "==")], ranges_compared("<", (2, 4), (3, 9))
    ([True, False, False], None)
    >>> [ranges_compared(sign, (2, 4), (3, 9)) for sign in ("==", "!=")], ranges_compared("==", (2, 2), (2, 2))
    ([None, None], True)
    """
    if sign in ("==", "!="):
        if left[1] < right[0] or right[1] < left[0]:
            return sign == "!="
        return sign == "==" if left[0] == left[1] == right[0] == right[1] else None
    answers = {ORDERS[sign](a, b) for a in left for b in right}
    return answers.pop() if len(answers) == 1 else None


def both(answers: Iterable[bool | None]) -> bool | None:
    """Logical and of three-valued answers: False if any is False, else None if any is None.

    >>> both((True, None)), both((None, False)), both(())
    (None, False, True)
    """
    result: bool | None = True
    for answer in answers:
        if answer is None:
            result = None
        elif not answer:
            return False
    return result


def either(answers: Iterable[bool | None]) -> bool | None:
    """Logical or of three-valued answers: True if any is True, else None if any is None.

    >>> either((False, None)), either((None, True)), either(())
    (None, True, False)
    """
    result: bool | None = False
    for answer in answers:
        if answer:
            return True
        if answer is None:
            result = None
    return result
