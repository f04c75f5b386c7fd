"""Which share of the cases `make test` runs, the rest being slow, for `make oracle`; and the share of each process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def every(nth: int, cases: Iterable[Case]) -> list[object]:
    """All cases as parameters of a test, of which all but every so manieth are slow.

    >>> [getattr(case, "marks", ()) != () for case in every(2, "abc")]
    [False, True, False]
    """
    return [_slow(case) if at % nth else case for at, case in enumerate(cases)]


def parts(number: int) -> list[object]:
    """The numbers of so many parts of a test as its parameters: the first is a sample, the others are for `make judge`.

    >>> [getattr(part, "marks", ()) != () for part in parts(3)]
    [False, True, True]
    """
    return [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, number))]


def long_first(cases: Sequence[Case], is_long: Callable[[Case], bool], processes: int) -> list[Case]:
    """The cases in as many parts of equal length as there are processes, those that are long first in each.

    pytest-xdist gives each process a part; then processes that are done take cases from the ends of others, which
    should be short. Long cases stay in their order, as neighbors share what they compile.

    >>> "".join(long_first("aBcDeFgH", str.isupper, 2))
    'BDacFHeg'
    """
    long = [case for case in cases if is_long(case)]
    short = [case for case in cases if not is_long(case)]
    found: list[Case] = []
    for process in range(processes):
        first, last = (len(long) * each // processes for each in (process, process + 1))
        found += long[first:last]
        filled = len(cases) * (process + 1) // processes - len(found)
        found += short[:filled]
        del short[:filled]
    return found


def _slow(case: object) -> object:
    """A parameter, or several of one case, that makes a test slow."""
    several = case if isinstance(case, tuple) else (case,)
    return pytest.param(*several, marks=pytest.mark.slow)


def examples(thorough: int) -> int:
    """How many examples Hypothesis tries where so many are thorough: a share of them where it is to be quick.

    >>> 0 < examples(300) <= 300
    True
    """
    from hypothesis import settings  # a large import that programs which only mark tests do not need

    return max(10, thorough * settings().max_examples // 100)
