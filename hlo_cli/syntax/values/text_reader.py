"""Reads attribute values in general, and those of instructions that carry their own text.

Mirrors `ParseAttributes` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.instruction import Instruction, NoText
from hlo_cli.source import Source, Span
from hlo_cli.syntax.literals.read import literal_at
from hlo_cli.syntax.values.metadata import parse_metadata

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.value_types import AttributeValue


def typed_value(opcode: str, attribute: str, text: str) -> AttributeValue:
    """The value of an attribute; the grammars are imported with the first value."""
    from hlo_cli.syntax.values.attribute_values import read_attribute_value

    return read_attribute_value(opcode, attribute, text)


class WrittenReader(NoText[Instruction]):
    """Reads the values and the metadata of instructions that carry their own text."""

    __slots__ = ("_source",)

    def __init__(self, source: Source) -> None:
        self._source = source

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""
        return typed_value(opcode, attribute, text)

    def metadata(self, instruction: Instruction) -> Metadata:
        """The value of the metadata attribute."""
        value = instruction.attribute("metadata")
        return NO_METADATA if value is None else parse_metadata(value)

    def literal(self, instruction: Instruction) -> Literal:
        """The values of a constant."""
        text = instruction.text
        if text.argument_span is None:
            return literal_at(Source("", text.argument), Span(0, len(text.argument)), instruction.shape)
        return literal_at(self._source, text.argument_span, instruction.shape)
