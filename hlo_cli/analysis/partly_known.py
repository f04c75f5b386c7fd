"""Numbers of which a part is not known, and what can still be said of them: true, false, or None where nobody knows."""

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
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number that is at least so large; nobody knows by how much it is larger."""

    number: float


NOT_KNOWN: Final = AtLeast(float("-inf"))
"""A value of which nothing is known."""


def compared(sign: str, one: float | AtLeast, other: float | AtLeast) -> bool | None:
    """Whether two numbers compare so, None where that hangs on what is not known of them.

    >>> compared(">", AtLeast(4), 3), compared("<", AtLeast(4), 3), compared(">", AtLeast(4), 5)
    (True, False, None)
    >>> compared("<", 3, AtLeast(4)), compared("==", AtLeast(4), AtLeast(4))
    (True, None)
    """
    if isinstance(other, AtLeast):
        return None if isinstance(one, AtLeast) else compared(_TURNED.get(sign, sign), other, one)
    if not isinstance(one, AtLeast):
        return ORDERS[sign](one, other)
    if not ORDERS[">=" if sign in ("<", ">=") else ">"](one.number, other):
        return None
    return sign in (">", ">=", "!=", "not in")


def within(sign: str, low: float, high: float, limit: float) -> bool | None:
    """Whether a number from `low` to `high` compares so with a limit, None where some of them do and others do not.

    >>> within("<", 2, 4, 5), within("<", 2, 4, 3), within("==", 2, 4, 5), within("!=", 2, 2, 2)
    (True, None, False, False)
    """
    if sign in ("==", "!=") and low < limit < high:
        return None
    ends = {ORDERS[sign](low, limit), ORDERS[sign](high, limit)}
    return ends.pop() if len(ends) == 1 else None


def both(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are true: one that is false decides, whatever is not known.

    >>> both((True, None)), both((None, False)), both(())
    (None, False, True)
    """
    found: bool | None = True
    for answer in answers:
        if answer is None:
            found = None
        elif not answer:
            return False
    return found


def either(answers: Iterable[bool | None]) -> bool | None:
    """Whether any is true: one that is decides, whatever is not known.

    >>> either((False, None)), either((None, True)), either(())
    (None, True, False)
    """
    found: bool | None = False
    for answer in answers:
        if answer:
            return True
        if answer is None:
            found = None
    return found
