"""Names that differ across a module, as in protos and unlike in text. Mirrors xla/service/name_uniquer.cc."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import count


def unique_names(names: Iterable[str]) -> list[str]:
    """The names in their order, those that were there before with a number behind a dot that is free.

    >>> unique_names(["p", "p", "p.1", "p", "q.3", "q.3"])
    ['p', 'p.1', 'p.2', 'p.3', 'q.3', 'q.0']
    """
    used: defaultdict[str, set[int]] = defaultdict(set)
    numbers: defaultdict[str, Iterable[int]] = defaultdict(count)
    found = []
    for name in names:
        root, number = _split(name)
        if number in used[root]:
            number = next(free for free in numbers[root] if free not in used[root])
            name = f"{root}.{number}"
        used[root].add(number)
        found.append(name)
    return found


def _split(name: str) -> tuple[str, int]:
    """The name without its number; a name that has none counts as the first of its kind."""
    root, dot, digits = name.rpartition(".")
    if dot and root and digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        return root, int(digits)
    return name, 0


_MOST_DIGITS = 18
