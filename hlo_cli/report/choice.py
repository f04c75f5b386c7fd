"""Errors for names that are not in a list: columns, formats, commands."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.source import HloError


def not_among(noun: str, given: str, known: Iterable[str]) -> HloError:
    """An error that says what was asked for, the nearest name there is, and all of them as its hint.

    >>> error = not_among("column", "padded", ("shape", "padded_bytes"))
    >>> error.diagnostic.message
    'no column padded; did you mean padded_bytes?'
    >>> error.diagnostic.hint
    'columns: shape, padded_bytes'
    """
    from difflib import get_close_matches

    names = tuple(known)
    begins = [name for name in names if given and name.startswith(given)]
    near = begins or get_close_matches(given, names, n=1)
    question = f"; did you mean {near[0]}?" if near else ""
    hint = f"{noun}s: {', '.join(names)}" if names else None
    return HloError(f"no {noun} {given}{question}", hint=hint)
