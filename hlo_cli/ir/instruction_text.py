"""The text of instructions beyond their operands, with its spans, and the readers that provide it on demand."""

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
    """Objects with a name, such as instructions."""

    @property
    def name(self) -> str:
        """The name."""


_I = TypeVar("_I", bound=Named, contravariant=True)
Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Names and values of attributes, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named attribute with its value as text, and the span of the value in the source (if it was read).

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
    """The text of an instruction beyond its operands: attributes, and the argument between the parentheses.

    `argument` is the literal of a constant or the number of a parameter, empty for all others; `argument_span` is its
    span in the source, including the comments that `argument` omits.
    """

    attributes: tuple[Attribute, ...]
    argument: str = ""
    span: Span | None = None
    argument_span: Span | None = None


class TextReader(Protocol[_I]):
    """Reads the text of a computation's instructions on demand."""

    def whole(self) -> str:
        """All instructions as written, if this text alone defines them; else empty."""

    def read(self, index: int) -> InstructionText:
        """The text of the instruction at this index in the computation."""

    def raw(self, index: int) -> tuple[str, str]:
        """The argument, and the attributes as written, each preceded by a comma."""

    def pairs(self, index: int) -> Pairs:
        """The attributes without their spans."""

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""

    def span(self, index: int) -> Span | None:
        """The span of the instruction in the source."""

    def metadata(self, instruction: _I) -> Metadata:
        """The value of an instruction's metadata attribute."""

    def literal(self, instruction: _I) -> Literal:
        """The values of a constant."""


class NoText(Generic[_I]):
    """A reader without text: for computations whose instructions were created, not read."""

    def whole(self) -> str:
        """Empty."""
        return ""

    def read(self, index: int) -> InstructionText:
        """Empty."""
        return InstructionText(())

    def raw(self, index: int) -> tuple[str, str]:
        """Empty."""
        return "", ""

    def pairs(self, index: int) -> Pairs:
        """Empty."""
        return ()

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The text itself."""
        return UnparsedText(text)

    def span(self, index: int) -> Span | None:
        """None."""
        return None

    def metadata(self, instruction: _I) -> Metadata:
        """Empty."""
        return NO_METADATA

    def literal(self, instruction: _I) -> Literal:
        """A literal without readable values."""
        raise HloError(f"the value of {instruction.name} is unknown")


NO_TEXT: Final = NoText[Named]()
