"""Reads the attributes and literals of a computation's instructions on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.instruction import Attribute, Instruction, InstructionText, Pairs
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.literals.read import literal_at
from hlo_cli.syntax.proto.corruption import with_place
from hlo_cli.syntax.proto.field_scan import KIND, NUMBERS
from hlo_cli.syntax.proto.literals import literal_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.text_cache import ELIDED, Texts
from hlo_cli.syntax.proto.wire import bytes_in, read_fields
from hlo_cli.syntax.scanning.attributes import readable_attributes
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.split_attributes import split_attributes
from hlo_cli.syntax.values.text_reader import typed_value

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.value_types import AttributeValue
    from hlo_cli.ir.instruction import Computation


class ProtoReader:
    """The instructions of one computation in a proto. A proto has no lines, so nothing has a span."""

    __slots__ = ("_computation", "_data", "_texts", "by_number")

    def __init__(
        self, computation: Computation, data: Sequence[bytes], by_number: Mapping[int, Instruction], texts: Texts
    ) -> None:
        self._computation = computation
        self._data = data
        self.by_number = by_number
        self._texts = texts

    def whole(self) -> str:
        """Empty, as a proto is not text."""
        return ""

    def read(self, index: int) -> InstructionText:
        """The attributes and the argument."""
        argument, text = self.raw(index)
        return InstructionText(tuple(Attribute(name, value) for name, value in _pairs_in(text)), argument)

    def raw(self, index: int) -> tuple[str, str]:
        """The argument, and the attributes as XLA prints them."""
        instruction = self._computation.instructions[index]
        data = self._data[index]
        try:
            return self._texts.argument(instruction, data), self._texts.attributes(instruction, data, self._name)
        except HloError as error:
            raise self._blamed(instruction, error) from None

    def pairs(self, index: int) -> Pairs:
        """Names and values of the attributes."""
        return _pairs_in(self.raw(index)[1])

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""
        return typed_value(opcode, attribute, text)

    def span(self, index: int) -> None:
        """None, as a proto has no spans."""
        return

    def metadata(self, instruction: Instruction) -> Metadata:
        """The source location and op_name of the instruction."""
        try:
            found = dict(read_fields(self._data[instruction.index]))
            return self._texts.metadata[bytes_in(found, NUMBERS["metadata"])]
        except HloError as error:
            raise self._blamed(instruction, error) from None

    def literal(self, instruction: Instruction) -> Literal:
        """The values of a constant; XLA may omit them, as in text."""
        try:
            message = Message(KIND, self._data[instruction.index])
            if not message.has("literal"):
                return literal_at(Source("", ELIDED), Span(0, len(ELIDED)), instruction.shape)
            return literal_of(message.message("literal"))
        except HloError as error:
            raise self._blamed(instruction, error) from None

    def _name(self, number: int) -> str:
        if (found := self.by_number.get(number)) is None:
            raise HloError(f"an instruction of {self._computation.name} has unknown control predecessor id {number}")
        return f"%{found.name}"

    def _blamed(self, instruction: Instruction, error: HloError) -> HloError:
        """The error with the name of its instruction or, if the file is corrupt, with the place."""
        named = HloError(f"{instruction.name}: {error.diagnostic.message}", hint=error.diagnostic.hint)
        return with_place(named, self._texts.file)


def _pairs_in(text: str) -> Pairs:
    pairs = split_attributes(text)
    if pairs is not None:
        return pairs
    return [(attribute.name, attribute.value) for attribute in readable_attributes(Scanner(Source("", text)))]
