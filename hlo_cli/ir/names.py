"""Unused names for instructions and computations."""

from __future__ import annotations

from collections.abc import Container


def free_name(wanted: str, taken: Container[str], copies: dict[str, int]) -> str:
    """The name itself, or with a number that makes it unique; `copies` holds the numbers given so far.

    >>> free_name("add", {"add", "add.1"}, {}), free_name("sub", {"add"}, {})
    ('add.2', 'sub')
    """
    name = wanted
    while name in taken:
        copies[wanted] = copies.get(wanted, 0) + 1
        name = f"{wanted}.{copies[wanted]}"
    return name
