"""Which share of the cases `make test` runs, the rest being slow, for `make oracle`; and the share of each process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def every(nth: int, cases: Iterable[Case], *, slow: int | None = None) -> list[object]:
    """All cases as parameters of a test: every so manieth is quick, so many after it are slow, the rest for `make judge`.

    All others are slow unless their number is given.

    >>> [[mark.name for mark in getattr(case, "marks", ())] for case in every(3, "abcd", slow=1)]
    [[], ['slow'], ['long'], []]
    """
    return [
        _marked(case, pytest.mark.slow if slow is None or at % nth <= slow else pytest.mark.long) if at % nth else case
        for at, case in enumerate(cases)
    ]


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


def _marked(case: object, mark: pytest.MarkDecorator) -> object:
    """A parameter, or several of one case, that gives a test a mark."""
    several = case if isinstance(case, tuple) else (case,)
    return pytest.param(*several, marks=mark)


def examples(thorough: int) -> int:
    """How many examples Hypothesis tries where so many are thorough: a share of them where it is to be quick.

    >>> 0 < examples(300) <= 300
    True
    """
    from hypothesis import settings  # a large import that programs which only mark tests do not need

    return max(10, thorough * settings().max_examples // 100)
