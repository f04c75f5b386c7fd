"""Units of computed numbers: bytes can be added to bytes and divided by bytes, but not added to a count."""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import ArithmeticOperator, Number

NumberKind = Literal["count", "bytes", "share"]


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of a number: bytes to a power, -1 for "per byte".

    `is_share` means that the number can be written in percent: a share, or a ratio of numbers of the same unit.
    `is_constant` means that it is computed from plain numbers, which have the unit of what they are added to.

    >>> COUNT == Unit(), BYTES.power
    (True, 1)
    """

    power: int = 0
    is_share: bool = False
    is_constant: bool = False

    @property
    def kind(self) -> NumberKind:
        """The kind of number to show."""
        if self.power == 1:
            return "bytes"
        return "share" if self.is_share and not self.power else "count"

    @property
    def words(self) -> str:
        """The unit in a message."""
        if self.power == 1:
            return "a size in bytes"
        if self.power:
            return "a number per byte" if self.power == -1 else f"bytes to the power of {self.power}"
        return "a percentage" if self.is_share else "a number"

    @property
    def _is_plain(self) -> bool:
        return self.is_constant and not self.power and not self.is_share


COUNT: Final = Unit()
BYTES: Final = Unit(1)
SHARE: Final = Unit(is_share=True)
_BY_KIND: Final = {"count": COUNT, "names": COUNT, "bytes": BYTES, "share": SHARE, "seconds": COUNT}


def unit_of_kind(kind: str) -> Unit | None:
    """Unit of a field of a kind; None if its values are not numbers. A list counts as its length.

    >>> unit_of_kind("names") == COUNT, unit_of_kind("text")
    (True, None)
    """
    return _BY_KIND.get(kind)


def unit_of_number(number: Number) -> Unit:
    """Unit of a number as written.

    >>> from hlo_cli.source import Span
    >>> unit_of_number(Number(2048, "bytes", "2KiB", Span(0, 4))).words
    'a size in bytes'
    """
    return Unit(power=int(number.unit == "bytes"), is_share=number.unit == "percent", is_constant=True)


def combined(symbol: ArithmeticOperator, left: Unit, right: Unit) -> Unit | None:
    """Unit of a result; None for a sum of different units, and for the product of two sizes.

    >>> combined("*", BYTES, COUNT) == BYTES, combined("/", BYTES, BYTES).kind, combined("+", BYTES, COUNT)
    (True, 'share', None)
    """
    is_constant = left.is_constant and right.is_constant
    if symbol in ("+", "-"):
        return common(left, right)
    power = left.power + (right.power if symbol == "*" else -right.power)
    if abs(power) > 1:
        return None
    if symbol == "/":
        is_ratio = left.power == right.power and not right.is_constant
        return Unit(power, is_ratio or (left.is_share and right._is_plain), is_constant)
    is_share = (left.is_share or left._is_plain) and (right.is_share or right._is_plain)
    return Unit(power, is_share and (left.is_share or right.is_share) and not power, is_constant)


def common(left: Unit, right: Unit) -> Unit | None:
    """Unit in which two numbers can be compared or added; None if there is none.

    >>> common(BYTES, Unit(is_constant=True)) == BYTES, common(COUNT, Unit(is_share=True, is_constant=True))
    (True, None)
    """
    if left._is_plain:
        return Unit(right.power, right.is_share, right.is_constant)
    if right._is_plain:
        return left
    if left.power != right.power:
        return None
    for one, other in ((left, right), (right, left)):
        if one.is_share and one.is_constant and not other.is_share:
            return None
    return Unit(left.power, left.is_share and right.is_share, left.is_constant and right.is_constant)
