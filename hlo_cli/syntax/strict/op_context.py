"""Instructions and computations during strict reading: enough to check their uses.

Mirrors the state of `HloParserImpl` in xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import Span
from hlo_cli.syntax.scanning.tokens import Tokens


@dataclass(slots=True)
class KnownInstruction:
    """A defined instruction; its shape is None if the text omits it and it requires inference.

    `wrapped` is the opcode inside an asynchronous operation. An unreadable instruction has no opcode.
    """

    opcode: str = ""
    shape: Shape | None = None
    wrapped: str = ""
    thread: str = "main"
    calls: str = ""
    channel_id: int | None = None


@dataclass(slots=True)
class ParsedBody:
    """A defined computation: its instructions by name, its parameters by number, and its root.

    `failed` is true if some instruction was unreadable.
    """

    name: str = ""
    named: dict[str, KnownInstruction] = field(default_factory=dict)
    parameters: dict[int, Span] = field(default_factory=dict)
    root: KnownInstruction | None = None
    last: KnownInstruction | None = None
    failed: bool = False

    @property
    def result(self) -> KnownInstruction:
        """The instruction whose value the computation returns."""
        return self.root or self.last or KnownInstruction()


@dataclass(slots=True)
class OperationChecker:
    """One instruction as read, before its rules are checked."""

    tokens: Tokens
    opcode: str
    span: Span
    shape: Shape | None
    operands: list[KnownInstruction] = field(default_factory=list)
    attributes: dict[str, object] = field(default_factory=dict)
    spans: Mapping[str, Span] = field(default_factory=dict)

    def fail(self, message: str, attribute: str = "") -> None:
        """Raises an error at the opcode, or at an attribute."""
        span = self.spans.get(attribute, self.span)
        self.tokens.fail(message, span.start, span.end)

    def ints(self, attribute: str) -> tuple[int, ...] | None:
        """The numbers of an attribute that lists numbers, or None if it is absent."""
        value = self.attributes.get(attribute)
        return tuple(n for n in value if isinstance(n, int)) if isinstance(value, tuple) else None

    def lists(self, attribute: str) -> tuple[tuple[object, ...], ...] | None:
        """The lists of an attribute that lists lists, or None if it is absent."""
        value = self.attributes.get(attribute)
        return tuple(part for part in value if isinstance(part, tuple)) if isinstance(value, tuple) else None

    def integer(self, attribute: str) -> int | None:
        """The number of an attribute, or None if it is absent."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, int) else None

    def body(self, attribute: str) -> ParsedBody | None:
        """The computation of an attribute, or None if it is absent."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, ParsedBody) else None

    def operand_shape(self, position: int) -> Shape | None:
        """The shape of an operand, or None if there is no such operand or its shape is unknown."""
        return self.operands[position].shape if position < len(self.operands) else None


def rank_of(shape: Shape | None) -> int | None:
    """The number of dimensions, 0 if not an array, None if unknown."""
    if shape is None:
        return None
    return shape.rank if isinstance(shape, ArrayShape) else 0


def is_scalar(shape: Shape, *types: str) -> bool:
    """Whether the shape is a scalar, of one of these types if any are given."""
    if not isinstance(shape, ArrayShape) or shape.rank:
        return False
    return not types or shape.element_type in [PRIMITIVE_TYPES[name] for name in types]
