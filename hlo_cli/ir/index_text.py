"""Numbers in brackets, as XLA prints indices, dimension orders, and sizes.

Mirrors `ShapeIndex::ToString` of xla/shape_util.cc, and the format of all other lists of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable


def index_text(numbers: Iterable[object], brackets: str = "{}") -> str:
    """Numbers as XLA prints an index.

    >>> index_text((1, 0)), index_text(()), index_text((8, 128), "[]")
    ('{1,0}', '{}', '[8,128]')
    """
    return brackets[0] + ",".join(map(str, numbers)) + brackets[1]


def index_suffix(index: tuple[int, ...]) -> str:
    """The suffix of a value's name that selects an element; empty for the whole value.

    >>> index_suffix((1,)), index_suffix(())
    ('{1}', '')
    """
    return index_text(index) if index else ""


def tuple_text(numbers: Iterable[object]) -> str:
    """Numbers in parentheses, as in documents and in XLA's iota transposes.

    >>> tuple_text((3, 5)), tuple_text((3,))
    ('(3,5)', '(3)')
    """
    return index_text(numbers, "()")


def read_index(text: str) -> tuple[int, ...]:
    """The numbers of a text without its brackets.

    >>> read_index("1,0"), read_index("")
    ((1, 0), ())
    """
    return tuple(map(int, text.split(","))) if text else ()
