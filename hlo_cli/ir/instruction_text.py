"""What instructions say beyond their operands, as text with its places, and what reads that on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.strings import UnparsedText
from hlo_cli.source import HloError, Span

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.values import AttributeValue
    from hlo_cli.ir.literal import Literal


class Named(Protocol):
    """What has a name, as an instruction."""

    @property
    def name(self) -> str:
        """The name."""


_I = TypeVar("_I", bound=Named, contravariant=True)
Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Names and values of attributes, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named attribute with its value as text, and where the value stands in the source (if it came from one).

    >>> str(Attribute("dimensions", "{0,1}"))
    'dimensions={0,1}'
    """

    name: str
    value: str
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class InstructionText:
    """What an instruction says beyond its operands: attributes, and what stands between the parentheses.

    `argument` is the literal of a constant or the number of a parameter, empty for all others; `argument_span` is where
    it stands in the source, with the comments that `argument` leaves out.
    """

    attributes: tuple[Attribute, ...]
    argument: str = ""
    span: Span | None = None
    argument_span: Span | None = None


class TextReader(Protocol[_I]):
    """Reads what a computation's instructions say, on demand."""

    def whole(self) -> str:
        """All instructions as they are written, where nothing but this says what they are; else nothing."""

    def read(self, index: int) -> InstructionText:
        """The text of the instruction at this place in the computation."""

    def raw(self, index: int) -> tuple[str, str]:
        """The argument, and the attributes as they are written, each with its comma before it."""

    def pairs(self, index: int) -> Pairs:
        """The attributes without their places."""

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """What the text of an attribute's value says."""

    def span(self, index: int) -> Span | None:
        """Where the instruction stands in the source."""

    def metadata(self, instruction: _I) -> Metadata:
        """What an instruction's metadata attribute says."""

    def literal(self, instruction: _I) -> Literal:
        """The values of a constant."""


class NoText(Generic[_I]):
    """Reads nothing: for computations whose instructions were made, not read."""

    def whole(self) -> str:
        """Nothing."""
        return ""

    def read(self, index: int) -> InstructionText:
        """Nothing."""
        return InstructionText(())

    def raw(self, index: int) -> tuple[str, str]:
        """Nothing."""
        return "", ""

    def pairs(self, index: int) -> Pairs:
        """Nothing."""
        return ()

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The text itself."""
        return UnparsedText(text)

    def span(self, index: int) -> Span | None:
        """Nowhere."""
        return None

    def metadata(self, instruction: _I) -> Metadata:
        """Nothing."""
        return NO_METADATA

    def literal(self, instruction: _I) -> Literal:
        """Nothing that could be read."""
        raise HloError(f"the values of {instruction.name} are not known")


NO_TEXT: Final = NoText[Named]()
