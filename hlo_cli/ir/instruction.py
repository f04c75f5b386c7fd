"""Instructions: one operation with its operands, attributes and place in the text.

Mirrors xla/hlo/ir/hlo_instruction.h. A dump holds them by the hundred thousand, so they are small slotted
objects whose attributes are read from the text when somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hlo_cli.ir.metadata import Metadata
from hlo_cli.ir.shape import Shape, ShapeIndex, UnknownShape, subshape
from hlo_cli.source import Span

if TYPE_CHECKING:
    from hlo_cli.ir.computation import Computation
    from hlo_cli.ir.literal import Literal


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


class TextReader(Protocol):
    """Reads what a computation's instructions say, on demand."""

    def read(self, index: int) -> InstructionText:
        """The text of the instruction at this place in the computation."""

    def raw(self, index: int) -> tuple[str, str]:
        """The argument, and the attributes as they are written, each with its comma before it."""

    def span(self, index: int) -> Span:
        """Where the instruction stands in the source."""

    def metadata(self, instruction: Instruction) -> Metadata:
        """What an instruction's metadata attribute says."""

    def literal(self, instruction: Instruction) -> Literal:
        """The values of a constant."""


class Instruction:
    """One instruction of a computation; read-only from outside, compared by identity.

    `operands` are the instructions whose values it takes. Where the text takes an element of an operand
    directly (`%t#0`), `operand_index` says which. `called_computations` stand in XLA's order.
    """

    __slots__ = ("_text", "called_computations", "computation", "index", "name", "opcode", "operands", "shape")

    name: str
    shape: Shape
    opcode: str
    operands: tuple[Instruction, ...]
    called_computations: tuple[Computation, ...]
    computation: Computation
    index: int

    def __init__(
        self,
        name: str,
        shape: Shape,
        opcode: str,
        operands: tuple[Instruction, ...],
        computation: Computation,
        index: int,
        text: InstructionText | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.opcode = opcode
        self.operands = operands
        self.called_computations = ()
        self.computation = computation
        self.index = index
        self._text = text

    @property
    def text(self) -> InstructionText:
        """Attributes and argument; read from the source anew each time, as they are rarely asked for twice."""
        return self._text if self._text is not None else self.computation.reader.read(self.index)

    @property
    def raw(self) -> tuple[str, str]:
        """The argument, and the attributes as they are written, each with its comma before it: what printing needs."""
        if self._text is None:
            return self.computation.reader.raw(self.index)
        return self._text.argument, "".join(f", {attribute}" for attribute in self._text.attributes)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes in the order of the text, metadata and backend_config among them."""
        return self.text.attributes

    def attribute(self, name: str) -> str | None:
        """The text of one attribute's value, or None if the instruction does not have it."""
        return next((a.value for a in self.text.attributes if a.name == name), None)

    @property
    def metadata(self) -> Metadata:
        """Where the instruction comes from; all empty where the text does not say."""
        return self.computation.reader.metadata(self)

    @property
    def literal(self) -> Literal | None:
        """The values of a constant, read from the text when they are asked for; None for other instructions.

        >>> from hlo_cli import parse_module
        >>> parse_module("ROOT c = s4[2]{0} constant({-8, 7})").entry.root.literal.array()
        array([-8,  7], dtype=int8)
        """
        return self.computation.reader.literal(self) if self.opcode == "constant" else None

    @property
    def span(self) -> Span | None:
        """Where the instruction stands in its module's source; None if it was made, not read."""
        if self._text is not None:
            return self._text.span
        return self.computation.reader.span(self.index)

    @property
    def is_root(self) -> bool:
        """Whether the computation returns this instruction's value."""
        return self.computation.root is self

    @property
    def parameter_number(self) -> int | None:
        """Which parameter this is, or None for all other opcodes and for what is too long to be a number of one."""
        if self.opcode != "parameter":
            return None
        argument = self.text.argument.strip()
        return int(argument) if argument.isdecimal() and len(argument) < 20 else None

    def operand_index(self, position: int) -> ShapeIndex:
        """Which element of the operand at `position` is taken; () for the operand itself."""
        taken = self.computation.operand_indices.get(self.index)
        return taken[position] if taken else ()

    def operand_shape(self, position: int) -> Shape:
        """The shape of the value taken at `position`; unknown where the operand's shape has no such element."""
        shape = subshape(self.operands[position].shape, self.operand_index(position))
        return shape if shape is not None else UnknownShape()

    def __repr__(self) -> str:
        return f"<{self.opcode} {self.name}>"
