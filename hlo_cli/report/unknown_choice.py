"""Errors for names that are not in a list: columns, formats, commands."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.source import HloError, nearest


def unknown_choice_error(noun: str, given: str, known: Iterable[str]) -> HloError:
    """An error with the given name, the nearest known name, and all known names as its hint.

    >>> error = unknown_choice_error("column", "padded", ("shape", "padded_bytes"))
    >>> error.diagnostic.message
    'no column padded; did you mean padded_bytes?'
    >>> error.diagnostic.hint
    'columns: shape, padded_bytes'
    """
    names = tuple(known)
    begins = [name for name in names if given and name.startswith(given)]
    near = begins[0] if begins else nearest(given, names)
    question = f"; did you mean {near}?" if near else ""
    hint = f"{noun}s: {', '.join(names)}" if names else None
    return HloError(f"no {noun} {given}{question}", hint=hint)
