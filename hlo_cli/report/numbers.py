"""Formatting of numbers for people, in sentences and in columns; machine formats get raw values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
SECOND_UNITS: Final = ("ns", "µs", "ms", "s")
RATE_PREFIXES: Final = ("", "k", "M", "G", "T", "P")
"""Decimal prefixes of rates."""
_LARGEST_OF_COLUMN: Final = 9999.5  # rounds to four digits before the point, so that columns of rates stay narrow
_IN_A_SECOND: Final = (1e9, 1e6, 1e3, 1.0)  # of ns, µs, ms, and s
ROUNDING: Final = 1e-9
"""The tolerance for rounding errors in sums of fractions."""


def format_scaled(value: int | float, divisor: int = 1, decimals: int = 0) -> str:
    """A number divided, rounded half up, with thousands commas; a nonzero number is never shown as `0`.

    >>> format_scaled(9804 * 1024, 1024), format_scaled(3676160, 1024, 1)
    ('9,804', '3,590.0')
    >>> format_scaled(8, 1024, 1), format_scaled(0, 1024, 1)
    ('<0.1', '0')
    >>> format_scaled(-1536, 1024, 1), format_scaled(-8, 1024, 1)
    ('-1.5', '>-0.1')
    """
    magnitude, factor = abs(value), 10**decimals
    if not magnitude:
        return "0"
    if isinstance(magnitude, int):
        units = (2 * magnitude * factor + divisor) // (2 * divisor)
    else:
        units = math.floor(magnitude / divisor * factor + 0.5)
    sign = "-" if value < 0 else ""
    if not units:
        return (">-" if sign else "<") + (f"0.{'1':0>{decimals}}" if decimals else "1")
    whole, rest = divmod(units, factor)
    return f"{sign}{whole:,}" + (f".{rest:0{decimals}}" if decimals else "")


def count(value: int | float) -> str:
    """A number of things, with one decimal where it has a fraction.

    >>> count(3412), count(2.25), count(4.0)
    ('3,412', '2.3', '4')
    """
    return format_scaled(value, decimals=0 if value == int(value) else 1)


def format_count(number: int, noun: str) -> str:
    """A number and a noun, which is given in the plural.

    >>> format_count(3652, "instructions"), format_count(1, "copies"), format_count(1, "branches")
    ('3,652 instructions', '1 copy', '1 branch')
    """
    return f"{number:,} {singular(noun) if number == 1 else noun}"


def list_first(names: Sequence[str], most: int) -> str:
    """The first names of many, and the number of the others.

    >>> list_first(["a", "b", "c"], 2), list_first(["a", "b"], 2)
    ('a, b, and 1 more', 'a, b')
    """
    return ", ".join(names[:most]) + (f", and {len(names) - most:,} more" if len(names) > most else "")


def verb(number: int, one: str, several: str) -> str:
    """The form of a verb for a number of subjects.

    >>> verb(1, "differs", "differ"), verb(3, "differs", "differ")
    ('differs', 'differ')
    """
    return one if number == 1 else several


def format_shown(shown: int, total: int, noun: str) -> str:
    """The remark below rows of which only the first are shown; the noun is in the plural.

    >>> format_shown(20, 3412, "shapes")
    'Showing 20 of 3,412 shapes; use --top 0 to show all'
    """
    return f"Showing {shown:,} of {format_count(total, noun)}; use --top 0 to show all"


def singular(noun: str) -> str:
    """The singular of a plural noun.

    >>> [singular(noun) for noun in ("shapes", "copies", "branches", "losses", "bytes", "S")]
    ['shape', 'copy', 'branch', 'loss', 'byte', 'S']
    """
    if noun.endswith("ies"):
        return noun[:-3] + "y"
    if noun.endswith(("ches", "shes", "sses", "xes")):
        return noun[:-2]
    return noun.removesuffix("s")


def plural(noun: str) -> str:
    """The plural of a noun, the inverse of `singular`.

    >>> [plural(noun) for noun in ("fusion", "copy", "batch")]
    ['fusions', 'copies', 'batches']
    """
    if noun.endswith("y"):
        return noun[:-1] + "ies"
    return f"{noun}es" if noun.endswith(("ch", "sh", "ss", "x")) else f"{noun}s"


def byte_unit(largest: int | float) -> int:
    """The index in BYTE_UNITS for a column, so that its largest value has at most four digits before the point.

    >>> BYTE_UNITS[byte_unit(9804 * 1024)], BYTE_UNITS[byte_unit(9999)], BYTE_UNITS[byte_unit(16 * 1024**3)]
    ('KiB', 'B', 'GiB')
    >>> BYTE_UNITS[byte_unit(9999.97 * 1024)]
    'MiB'
    """
    return _unit(largest, 9999.95)  # rounded to one decimal, the largest that stays below 10,000 in its unit


def axis_unit(largest: int | float) -> int:
    """The index in BYTE_UNITS for an axis or a sentence, so that there are at most three digits before the point.

    >>> BYTE_UNITS[axis_unit(3594 * 1024)], BYTE_UNITS[axis_unit(1023)]
    ('MiB', 'B')
    """
    return _unit(largest, 1023.95)  # an axis changes the unit at 1,024, as its ticks are round in the unit


def format_bytes(value: int | float) -> str:
    """A size for a sentence: the unit follows the number, one decimal unless it is whole.

    >>> format_bytes(10039296), format_bytes(360448), format_bytes(512), format_bytes(3)
    ('9.6 MiB', '352 KiB', '512 B', '3 B')
    >>> format_bytes((1 << 20) - 1), format_bytes(1 << 20), format_bytes(25 << 18)
    ('1.0 MiB', '1 MiB', '6.3 MiB')
    """
    unit = axis_unit(value)
    divisor = 1024**unit
    return f"{format_scaled(value, divisor, 0 if not value % divisor else 1)} {BYTE_UNITS[unit]}"


def format_part(part: int, whole: int) -> str:
    """A number of bytes out of another, in one unit unless the part is too small for it.

    >>> format_part(1052672, 3141636), format_part(100, 200), format_part(100, 1 << 20)
    ('1.0 of 3.0 MiB', '100 of 200 B', '100 B of 1 MiB')
    """
    unit = axis_unit(whole)
    if 0 < part * 20 < 1024**unit:  # below 0.05 of the unit, the part would be printed as 0.0
        return f"{format_bytes(part)} of {format_bytes(whole)}"
    decimals = 0 if not (part % 1024**unit or whole % 1024**unit) else 1
    amounts = (format_scaled(amount, 1024**unit, decimals) for amount in (part, whole))
    return f"{' of '.join(amounts)} {BYTE_UNITS[unit]}"


def second_unit(largest: float) -> int:
    """The index in SECOND_UNITS for a column, so that its largest value has at most four digits before the point.

    >>> SECOND_UNITS[second_unit(2e-6)], SECOND_UNITS[second_unit(0.2)], SECOND_UNITS[second_unit(12_000)]
    ('ns', 'ms', 's')
    """
    # as for bytes: four digits before the point in a column
    return next((at for at in range(len(SECOND_UNITS)) if in_second_unit(abs(largest), at) < 9999.95), 3)


def in_second_unit(seconds: float, unit: int) -> float:
    """A time in one of SECOND_UNITS.

    >>> in_second_unit(0.25, 2)
    250.0
    """
    return seconds * _IN_A_SECOND[unit]


def format_seconds(value: float) -> str:
    """A time for a sentence: the unit follows the number, with one decimal.

    >>> format_seconds(0.000_012_34), format_seconds(0.5), format_seconds(0), format_seconds(1e-12)
    ('12.3 µs', '500.0 ms', '0 s', '<0.1 ns')
    """
    unit = next((at for at in range(len(SECOND_UNITS)) if in_second_unit(abs(value), at) < 999.95), 3)
    return f"{format_scaled(in_second_unit(value, unit), decimals=1)} {SECOND_UNITS[unit if value else 3]}"


def format_seconds_range(low: float, value: float, high: float) -> str:
    """A time with its band in the same unit, for a sentence.

    >>> format_seconds_range(0.9e-3, 1.2e-3, 1.62e-3), format_seconds_range(0.8, 1.0, 1.3)
    ('1.2 ms (0.9–1.6)', '1.0 s (0.8–1.3)')
    """
    unit = next((at for at in range(len(SECOND_UNITS)) if in_second_unit(abs(value), at) < 999.95), 3)
    least, most = (format_scaled(in_second_unit(each, unit), decimals=1) for each in (low, high))
    return f"{format_seconds(value)} ({least}–{most})" if value else format_seconds(value)


def format_rate(per_second: float, noun: str) -> str:
    """A rate per second with a decimal prefix, as in vendors' data sheets; `noun` is a short unit.

    >>> format_rate(989.4e12, "flop"), format_rate(819e9, "B"), format_rate(7, "B")
    ('989.4 Tflop/s', '819 GB/s', '7 B/s')
    """
    # RATE_PREFIXES end with peta
    thousands = min(max(math.floor(math.log10(per_second) / 3), 0), 5) if per_second > 0 else 0
    value = round(per_second / 1000**thousands, 1)
    return f"{format_scaled(value, decimals=0 if value == int(value) else 1)} {RATE_PREFIXES[thousands]}{noun}/s"


def format_flops(number: int) -> str:
    """A number of floating-point operations with a decimal prefix from a million on.

    >>> format_flops(1), format_flops(524_288), format_flops(16_777_216), format_flops(117 * 10**14)
    ('1 flop', '524,288 flops', '16.8 Mflop', '11.7 Pflop')
    """
    if abs(number) < 999_950:  # rounded to one decimal of a million, this is 1.0 M
        return format_count(number, "flops")
    at = next((at for at in range(2, _PETA) if abs(number) / 1000**at < _NEXT_PREFIX), _PETA)
    return f"{format_scaled(number, 1000**at, 1)} {RATE_PREFIXES[at]}flop"


_PETA: Final = 5
"""The index of the largest prefix in RATE_PREFIXES: compute is given in petaflops up to any size."""
_NEXT_PREFIX: Final = 999.95
"""Rounded to one decimal, this is 1,000 of a prefix and 1.0 of the next."""


def rate_prefix(largest: float) -> int:
    """The index in RATE_PREFIXES for a column of rates, so that its largest has at most four digits before the point.

    >>> RATE_PREFIXES[rate_prefix(2.453e12)], RATE_PREFIXES[rate_prefix(12e12)]
    ('G', 'T')
    """
    last = len(RATE_PREFIXES) - 1
    return next((at for at in range(last) if abs(largest) / 1000**at < _LARGEST_OF_COLUMN), last)


def format_percent(fraction: float) -> str:
    """A fraction in whole percent, without the sign; 0 and 100 only if exact.

    >>> [format_percent(fraction) for fraction in (0.9346, 0.001, 0.999, 1, 0, sum([0.1] * 10))]
    ['93', '<1', '>99', '100', '0', '100']
    """
    if 0.995 <= fraction < 1 - ROUNDING:  # would be rounded to 100%, which means that nothing is left
        return ">99"
    return format_scaled(fraction * 100)


def format_number(number: float) -> str:
    """A number with four digits.

    >>> format_number(1196.1664), format_number(0.00012344), format_number(0)
    ('1196', '0.0001234', '0')
    """
    return f"{number:.4g}"


def format_ratio(factor: float) -> str:
    """A factor with a times sign.

    >>> format_ratio(9.166), format_ratio(1000)
    ('× 9.2', '× 1,000.0')
    """
    return f"× {format_scaled(factor, decimals=1)}"


_MANY: Final = 1000
"""From here on, the fraction of a number is not shown."""


def format_amount(number: int | float, kind: str) -> str:
    """The value of a field for a sentence: bytes as a size, a share in percent, other kinds as a number.

    >>> format_amount(2048, "bytes"), format_amount(0.5, "share"), format_amount(1200, "count")
    ('2 KiB', '50%', '1,200')
    >>> format_amount(1 / 3, "count"), format_amount(0.001, "share"), format_amount(1.868e10, "count")
    ('0.3333', '<1%', '18,680,000,000')
    """
    match kind:
        case "bytes":
            return format_bytes(round(number))
        case "share":
            return f"{format_percent(number)}%"
    return f"{number:,.4g}" if isinstance(number, float) and abs(number) < _MANY else f"{number:,.0f}"


def _unit(value: int | float, limit: float) -> int:
    for unit in range(len(BYTE_UNITS)):
        if abs(value) / 1024**unit < limit:
            return unit
    return len(BYTE_UNITS) - 1
