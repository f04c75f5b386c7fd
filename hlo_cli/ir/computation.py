"""Computations: a list of instructions with parameters and a root. Mirrors xla/hlo/ir/hlo_computation.h."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.instruction import Instruction, InstructionText, Pairs, TextReader
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.ir.strings import UnparsedText
from hlo_cli.source import HloError, Span

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.values import AttributeValue
    from hlo_cli.ir.literal import Literal


class NoText:
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

    def metadata(self, instruction: Instruction) -> Metadata:
        """Nothing."""
        return NO_METADATA

    def literal(self, instruction: Instruction) -> Literal:
        """Nothing that could be read."""
        raise HloError(f"the values of {instruction.name} are not known")


NO_TEXT: Final = NoText()


@dataclass(slots=True, eq=False, repr=False)
class Computation:
    """A named list of instructions, in the order of the text, which is the schedule if the module is scheduled.

    `parameters` stand by number. `root` is None if the text ends before it. `operand_indices` holds, for the
    instructions that take elements of tuples directly (`%t#0`), which element each operand takes. `span` reaches from
    the name to the closing brace.
    """

    name: str
    instructions: tuple[Instruction, ...] = ()
    parameters: tuple[Instruction, ...] = ()
    root: Instruction | None = None
    is_entry: bool = False
    execution_thread: str = "main"
    span: Span | None = None
    reader: TextReader = NO_TEXT
    operand_indices: Mapping[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)

    def instruction(self, name: str) -> Instruction | None:
        """The instruction of this name, with or without a leading %, or None."""
        name = name.removeprefix("%")
        return next((i for i in self.instructions if i.name == name), None)

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self.instructions)} instructions>"


def free_name(wanted: str, taken: Container[str], copies: dict[str, int]) -> str:
    """The name itself, or with a number behind it that makes it free; `copies` holds the numbers given so far.

    >>> free_name("add", {"add", "add.1"}, {}), free_name("sub", {"add"}, {})
    ('add.2', 'sub')
    """
    name = wanted
    while name in taken:
        copies[wanted] = copies.get(wanted, 0) + 1
        name = f"{wanted}.{copies[wanted]}"
    return name
