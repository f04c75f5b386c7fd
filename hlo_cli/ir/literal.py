"""Literals: the values of constants. Mirrors `LiteralBase` of xla/literal.h.

Values are read from their text or bytes on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_ELIDED: Final = "{...}"
_MOST_SHORT: Final = 10
"""The most elements of an array that is printed where large constants are omitted."""


class LiteralValues(Protocol):
    """The values of an array literal in any storage; unreadable ones raise HloError with their span."""

    def stored(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as stored bits, one element each, in logical order."""

    def array(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as numbers."""

    def to_string(self, shape: ArrayShape) -> str:
        """The text that XLA prints for the values."""


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """The values of an array. `values` is None if a dump omits them, as `{...}`.

    >>> from hlo_cli.syntax.literals.read import parse_literal
    >>> literal = parse_literal("s32[2,2]{1,0} {{1, 2}, {3, 4}}")
    >>> literal.array().tolist()
    [[1, 2], [3, 4]]
    >>> literal.to_string(), literal.is_elided
    ('{ { 1, 2 }, { 3, 4 } }', False)
    >>> print(literal)
    s32[2,2]{1,0} { { 1, 2 }, { 3, 4 } }
    """

    shape: ArrayShape
    values: LiteralValues | None

    def __str__(self) -> str:
        return f"{self.shape} {self.to_string()}"

    @property
    def is_elided(self) -> bool:
        """Whether the values are unknown, because the dump omits them."""
        return self.values is None

    def array(self) -> npt.NDArray[np.generic]:
        """The values as numbers: narrow integers as 8 bits, floats that numpy lacks as the equal float32."""
        return self._known().array(self.shape)

    def stored(self) -> npt.NDArray[np.generic]:
        """The values as stored bits: like `array`, but bf16 as uint16 and floats of 8 bits and less as uint8 codes."""
        return self._known().stored(self.shape)

    def to_string(self, *, print_large_constants: bool = True) -> str:
        """The text XLA prints: on one line, without the shape; optionally as in dumps, which omit large arrays."""
        if self.values is None or (not print_large_constants and self.shape.elements > _MOST_SHORT):
            return _ELIDED
        return self.values.to_string(self.shape)

    def _known(self) -> LiteralValues:
        if self.values is None:
            raise HloError(
                f"the dump omits the values of this {self.shape} constant",
                hint="dump with --xla_dump_large_constants",
            )
        return self.values


@dataclass(frozen=True, slots=True)
class TupleLiteral:
    """The values of a tuple.

    >>> from hlo_cli.syntax.literals.read import parse_literal
    >>> literal = parse_literal("(f32[] 1.5, (s8[2]{0} {1, 2}))")
    >>> literal.to_string(), literal.to_string(print_large_constants=False)
    ('( 1.5, ( {1, 2} ) )', '{...}')
    """

    shape: TupleShape
    elements: tuple[Literal, ...]

    def __str__(self) -> str:
        return "( " + ", ".join(map(str, self.elements)) + " )"

    @property
    def is_elided(self) -> bool:
        """Whether the dump omits any values."""
        return any(element.is_elided for element in self.elements)

    def to_string(self, *, print_large_constants: bool = True) -> str:
        """The text XLA prints; dumps omit the values of every tuple."""
        if not print_large_constants:
            return _ELIDED
        return "( " + ", ".join(element.to_string() for element in self.elements) + " )"


Literal = ArrayLiteral | TupleLiteral
