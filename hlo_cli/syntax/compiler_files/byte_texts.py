"""Sizes in bytes as XLA formats them: parsed and printed.

Mirrors `HumanReadableNumBytes` of tsl/platform/numbers.cc; TPU compilers write `2.00G` for `2.00GiB`.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

BYTES: Final = r"-?[0-9]{1,19}+(?:\.[0-9]{1,9}+)?(?:[KMGTPE]i?)?B?"
"""A number of bytes as a regular expression."""

_UNITS: Final = "KMGTPE"
_BYTES = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([KMGTPE]?)i?B?")


def byte_text(number: int) -> str:
    """A number of bytes with three or four digits.

    >>> byte_text(512), byte_text(419528), byte_text(3474844), byte_text(2**63 - 1)
    ('512B', '409.7KiB', '3.31MiB', '8.00EiB')
    """
    sign, number = "-" * (number < 0), abs(number)
    if number < 1024:
        return f"{sign}{number}B"
    unit = 0
    while number >= 1 << 20 and unit < len(_UNITS) - 1:
        number >>= 10
        unit += 1
    return f"{sign}{number / 1024:.{1 if unit == 0 else 2}f}{_UNITS[unit]}iB"


def byte_number(text: str) -> int:
    """The number of bytes in a text, as exact as its digits are.

    >>> byte_number("0B"), byte_number("12.0K"), byte_number("3.31MiB"), byte_number("100")
    (0, 12288, 3470787, 100)
    """
    match = _BYTES.fullmatch(text)
    if match is None:
        raise ValueError(f"not a number of bytes: {text}")
    power = _UNITS.index(match[2]) + 1 if match[2] else 0
    return int((Decimal(match[1]) * (1 << 10 * power)).to_integral_value(ROUND_HALF_EVEN))
