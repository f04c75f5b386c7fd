"""Sizes and slices of shards in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.report.numbers import format_bytes, format_count, format_part

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.shards import Shard

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

    >>> size_part(96, 384), size_part(1 << 21, 1 << 24)
    ('96 of 384 bytes', '2 of 16 MiB')
    """
    return f"{part:,} of {format_count(whole, 'bytes')}" if whole < _EXACT else format_part(part, whole)


def shard_text(shard: Shard) -> str:
    """The part as an index in Python.

    >>> from hlo_cli.analysis.sharding.shards import Shard
    >>> shard_text(Shard(0, (1, 0), 0, (8, 0), (16, 3)))
    '[8:16, 0:3]'
    """
    return f"[{', '.join(f'{start}:{limit}' for start, limit in zip(shard.starts, shard.limits, strict=True))}]"
