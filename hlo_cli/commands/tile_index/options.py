"""Options of `hlo tile-index`."""

from __future__ import annotations

from contextlib import suppress

from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class TileIndexOptions:
    """Options for the elements; names are those of the command's parameters."""

    inverse: bool = False
    as_bytes: bool = False
    explain: bool = False
    everything: bool = False
    verify: bool = False
    draw: bool = False
    base: str = "0"
    element_bytes: int | None = None

    @property
    def address(self) -> int:
        """The address at which the buffer begins, in bytes; HloError if `base` does not fit 64 bits.

        >>> TileIndexOptions(base="0x1000").address
        4096
        """
        from hlo_cli.syntax.scanning.scanner import int64

        with suppress(ValueError):
            if (address := int64(self.base.replace("_", ""), 0)) is not None and address >= 0:
                return address
        raise HloError(
            f"invalid value '{self.base[:40]}' for --base: expected a 64-bit address", hint="for example 4096 or 0x1000"
        )

    @property
    def picture(self) -> str:
        """The given option that shows more than a table of indices; empty if none is given."""
        given = {"--explain": self.explain, "--draw": self.draw, "--verify": self.verify}
        return next((name for name, is_given in given.items() if is_given), "")

    @property
    def bits(self) -> int | None:
        """The bits of an element, if not those of its type."""
        return None if self.element_bytes is None else 8 * self.element_bytes
