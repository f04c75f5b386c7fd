"""How many bytes a text means: sizes on command lines, in conditions, and in settings, and those that XLA prints."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, did_you_mean, nearest

# --- sizes that people write ---


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


# --- sizes that XLA prints ---
# Mirrors `HumanReadableNumBytes` of tsl/platform/numbers.cc; TPU compilers write `2.00G` for `2.00GiB`.


BYTES: Final = r"-?[0-9]{1,19}+(?:\.[0-9]{1,9}+)?(?:[KMGTPE]i?)?B?"
"""A number of bytes as a regular expression."""

_LETTERS: Final = "KMGTPE"
_BYTES: Final = lazy_regex(r"(-?[0-9]+(?:\.[0-9]+)?)([KMGTPE]?)i?B?")


def byte_text(number: int) -> str:
    """A number of bytes with three or four digits.

    >>> byte_text(512), byte_text(419528), byte_text(3474844), byte_text(2**63 - 1)
    ('512B', '409.7KiB', '3.31MiB', '8.00EiB')
    """
    sign, number = "-" * (number < 0), abs(number)
    if number < 1024:
        return f"{sign}{number}B"
    unit = 0
    while number >= 1 << 20 and unit < len(_LETTERS) - 1:
        number >>= 10
        unit += 1
    return f"{sign}{number / 1024:.{1 if unit == 0 else 2}f}{_LETTERS[unit]}iB"


def byte_number(text: str) -> int:
    """The number of bytes in a text, as exact as its digits are.

    >>> byte_number("0B"), byte_number("12.0K"), byte_number("3.31MiB"), byte_number("100")
    (0, 12288, 3470787, 100)
    """
    match = _BYTES.fullmatch(text)
    if match is None:
        raise ValueError(f"not a number of bytes: {text}")
    from decimal import ROUND_HALF_EVEN, Decimal  # few commands read sizes that XLA printed

    power = _LETTERS.index(match[2]) + 1 if match[2] else 0
    return int((Decimal(match[1]) * (1 << 10 * power)).to_integral_value(ROUND_HALF_EVEN))


SIZE: Final = r"-?\d[\d,]*(?:\.\d{1,18})?(?:[eE]\+?\d{1,18})?[ ]?(?:[KMGTPE]i?B?|B|bytes)?(?![A-Za-z])"
"""A size as a regular expression, in any form that XLA, JAX, and people write."""
_SIZE_PARTS: Final = lazy_regex(r"(-?\d+(?:\.\d+)?)\s?(?:([KMGTPE])?i?B?|bytes)")
_MOST_DIGITS: Final = 24  # longer ones are no amounts, and Python refuses to read texts of thousands


@lru_cache(maxsize=4096)  # the sizes of a report recur
def size_of(text: str) -> int:
    """The bytes that a text states, rounded as it is there, with commas or a blank before the unit; else 0.

    >>> size_of("1.5MiB"), size_of("4B"), size_of("5,242,948"), size_of("2 GiB"), size_of("many")
    (1572864, 4, 5242948, 2147483648, 0)
    """
    match = _SIZE_PARTS.fullmatch(text.replace(",", "").strip())
    if match is None or len(match[1]) > _MOST_DIGITS:
        return 0
    return byte_number(f"{match[1]}{match[2] or ''}")
