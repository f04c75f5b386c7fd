"""Sizes and slices of shards in sentences."""

from __future__ import annotations

import shlex
from typing import Final

from hlo_cli.report.numbers import format_bytes, format_count

_EXACT: Final = 10_000_000
"""Bytes below which a size is given in full."""


def format_size(count: int) -> str:
    """Bytes, in full unless they are many.

    >>> format_size(258_048), format_size(1 << 30)
    ('258,048 bytes', '1 GiB')
    """
    return format_count(count, "bytes") if count < _EXACT else format_bytes(count)


def size_part(part: int, whole: int) -> str:
    """Bytes out of others, in full unless they are many.

    >>> size_part(96, 384), size_part(1 << 21, 1 << 24), size_part(1 << 26, 1 << 33)
    ('96 of 384 bytes', '2 of 16 MiB', '64 MiB of 8 GiB')
    """
    if whole < _EXACT:
        return f"{part:,} of {format_count(whole, 'bytes')}"
    shown, of = format_bytes(part), format_bytes(whole)
    return f"{shown.split()[0]} of {of}" if shown.split()[1] == of.split()[1] else f"{shown} of {of}"


def quoted_argument(text: str) -> str:
    """The text as an argument on a command line, in double quotes if it has single ones.

    >>> print(quoted_argument("{replicated}"), quoted_argument("P('x')"), quoted_argument("dump.hlo:p.1"))
    '{replicated}' "P('x')" dump.hlo:p.1
    """
    if "'" in text and not any(mark in text for mark in '"$`\\!'):
        return f'"{text}"'
    return shlex.quote(text)
