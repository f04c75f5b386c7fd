"""How findings write numbers."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """A number of bytes, in the largest unit of which there is one.

    >>> size(2883584), size(352 * 1024), size(12)
    ('2.8 MiB', '352 KiB', '12 B')
    """
    power = min(max(0, (abs(count).bit_length() - 1) // 10), len(_UNITS) - 1)
    number = f"{count / 1024**power:.1f}".removesuffix(".0") if power else str(count)
    return f"{number} {_UNITS[power]}"


def amount(number: int | float, kind: str) -> str:
    """What a field of some kind says, in words: bytes as a size, a share in hundredths, anything else as a number.

    >>> amount(2048, "bytes"), amount(0.5, "share"), amount(1200, "count"), amount(0.3333333, "count")
    ('2 KiB', '50%', '1,200', '0.3333')
    """
    match kind:
        case "bytes":
            return size(round(number))
        case "share":
            return f"{number:.0%}"
    return f"{number:,.4g}" if isinstance(number, float) else f"{number:,}"
