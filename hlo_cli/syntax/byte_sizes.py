"""How many bytes a text means, as people write sizes on command lines, in conditions, and in settings."""

from __future__ import annotations

from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, did_you_mean, nearest

UNITS: Final[dict[str, int]] = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    "KB": 1000,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
"""The units of bytes: kB is 1000 bytes, KiB 1024."""

# 16G means GiB, as XLA prints sizes of memory
_SHORT: Final = {letter: 1024**power for power, letter in enumerate("KMGT", 1)}
"""As XLA writes sizes: 15.48G are GiB."""
_SIZE: Final = lazy_regex(r"\s*+([0-9]{1,30}(?:\.[0-9]{0,30})?)\s*+([A-Za-z]*+)\s*+")


def parse_size(text: str) -> int:
    """The bytes of a size; a plain number is bytes, and a single letter is a unit of 1024, as in XLA's output.

    >>> parse_size("16GiB") == 16 * 2**30, parse_size("1.5 kB"), parse_size("2M")
    (True, 1500, 2097152)
    >>> parse_size("16 Gib")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:4: error: unknown unit 'Gib'
      help: did you mean 'GiB'?
    """
    match = _SIZE.fullmatch(text)
    hint = f"units: {', '.join(UNITS)}"
    if match is None:
        message = f"expected a size, such as 16GiB, found '{text[:40]}'"  # of what an error quotes
        raise HloError(message, Span(0, max(len(text), 1)), source=Source("", text), hint=hint)
    number, unit = match.groups()
    factor = 1 if not unit else UNITS.get(unit) or _SHORT.get(unit)
    if factor is None:
        hint = did_you_mean(unit_meant(unit)) or hint
        raise HloError(f"unknown unit '{unit}'", Span(*match.span(2)), source=Source("", text), hint=hint)
    whole, _, fraction = number.partition(".")
    return int(whole) * factor + int(fraction or "0") * factor // int("1" + "0" * len(fraction))


def unit_meant(unit: str) -> str | None:
    """The unit closest to an unknown one, or None.

    >>> unit_meant("gib"), unit_meant("m"), unit_meant("light years")
    ('GiB', 'MiB', None)
    """
    like = (unit.lower(), f"{unit}ib".lower())
    return next((known for known in UNITS if known.lower() in like), None) or nearest(unit, UNITS)
