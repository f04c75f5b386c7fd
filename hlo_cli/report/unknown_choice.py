"""The one form of errors about unknown names: columns, tables, formats, chips, settings, commands, and the like.

Raise `unknown_choice_error` wherever a user names something from a list. The message is a fact, `unknown column 'x'`;
the hint suggests the nearest name, or lists what is available.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hlo_cli.source import HloError, did_you_mean, nearest

MAX_LISTED: Final = 40
"""The number of names above which they are not listed."""


def unknown_choice_error(noun: str, given: str, known: Iterable[str], *, listed_by: str | None = None) -> HloError:
    """An error for a name that is not in a list, with the nearest known name or all known names as its hint.

    `noun` is in the singular. `listed_by` is a command that lists all names, for lists too long for a hint.

    >>> error = unknown_choice_error("column", "padded", ("shape", "padded_bytes"))
    >>> error.diagnostic.message, error.diagnostic.hint
    ("unknown column 'padded'", "did you mean 'padded_bytes'?")
    >>> unknown_choice_error("column", "x", ("shape", "padded_bytes")).diagnostic.hint
    'available: shape, padded_bytes'
    >>> unknown_choice_error("topic", "x", ("where", "dump"), listed_by="hlo help").diagnostic.hint
    'run `hlo help` to list all topics'
    """
    return HloError(f"unknown {noun} '{given}'", hint=choice_hint(noun, given, known, listed_by=listed_by))


def choice_hint(noun: str, given: str, known: Iterable[str], *, listed_by: str | None = None) -> str | None:
    """The hint of such an error, for messages of another form; None if nothing is known.

    >>> choice_hint("instruction", "ad.1", ("add.1", "mul"))
    "did you mean 'add.1'?"
    >>> choice_hint("instruction", "x", ())
    """
    names = tuple(known)
    begins = [name for name in names if given and name.startswith(given)]
    near = begins[0] if begins else nearest(given, names)
    if near:
        return did_you_mean(near)
    if listed_by:
        from hlo_cli.report.numbers import plural

        return f"run `{listed_by}` to list all {plural(noun)}"
    return f"available: {', '.join(names)}" if 0 < len(names) <= MAX_LISTED else None
