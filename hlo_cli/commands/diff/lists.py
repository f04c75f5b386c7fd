"""Many names in a few words: the first of a list, runs of layers, labels of arguments, and the outermost scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from hlo_cli.analysis.origin.scopes_and_moves import generalize
from hlo_cli.lazy_regex import lazy_regex

MAX_LISTED: Final = 3
"""The most items that a sentence lists."""
_NUMBERED: Final = lazy_regex(r"(.*?)([0-9]+)(\D*)")


def listed(items: Iterable[str], last: str = ", ") -> str:
    """The first items, and how many more there are.

    >>> listed("abcde"), listed(["a", "b"], " and ")
    ('a, b, c, and 2 more', 'a and b')
    """
    given = list(items)
    if len(given) > MAX_LISTED:
        return f"{', '.join(given[:MAX_LISTED])}, and {len(given) - MAX_LISTED:,} more"
    return ", ".join([*given[:-2], last.join(given[-2:])])


def shorten_run(names: Sequence[str]) -> str:
    """Names with consecutive numbers by their first and last one.

    >>> shorten_run(["layers_4", "layers_5", "layers_6", "layers_7"]), shorten_run(["layers_4", "layers_5"])
    ('layers_4 to layers_7', 'layers_4, layers_5')
    """
    found = [match for match in map(_NUMBERED.fullmatch, names) if match is not None]
    if len(found) != len(names) or len(names) <= MAX_LISTED or len({(each[1], each[3]) for each in found}) > 1:
        return listed(names)
    numbers = [int(each[2]) for each in found]
    is_run = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return f"{names[0]} to {names[-1]}" if is_run else listed(names)


def outermost(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes that are in none of the others.

    >>> outermost(["layers_*/mlp", "layers_*", "head"])
    ('layers_*', 'head')
    """
    given = dict.fromkeys(scopes)
    inner = {each for each in given if any(each[:at] in given for at, letter in enumerate(each) if letter == "/")}
    return tuple(each for each in given if each not in inner)


def shorten_labels(labels: Sequence[str]) -> str:
    """A few names for many labels: the parts that they share, with how many share each.

    >>> shorten_labels(["m['a']", "m['b']", "v['a']", "v['b']"])
    'm[…] ×2 and v[…] ×2'
    >>> shorten_labels(["layers[0]['b']", "layers[1]['b']"])
    "layers[*]['b'] ×2"
    """
    general = Counter(generalize(label) for label in labels)
    if len(general) > MAX_LISTED:
        for depth in range(6, 0, -1):
            cut = Counter(_cut(name, depth) for name in general.elements())
            if len(cut) <= MAX_LISTED:
                general = cut
                break
    return listed([f"{name} ×{n:,}" if n > 1 else name for name, n in general.most_common()], " and ")


def _cut(label: str, depth: int) -> str:
    """A label up to so many parts."""
    ends = [at for at, letter in enumerate(label) if letter in "[."]
    return f"{label[: ends[depth - 1]]}[…]" if len(ends) >= depth else label
