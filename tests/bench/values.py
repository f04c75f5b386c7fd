"""What the bench reads beyond instructions: every distinct value of every attribute."""

from __future__ import annotations

from hlo_cli.ir.module import Module
from hlo_cli.syntax.scanning.attributes import split_attributes
from hlo_cli.syntax.text.instruction_lines import LineReader
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.syntax.values.attribute_values import read_attribute_value, read_value_text


def with_every_value(text: str) -> Module:
    """The module of a text, each distinct value of its attributes read once, metadata and configurations too."""
    read_value_text.cache_clear()
    module = parse_module(text)
    rows: set[tuple[str, str]] = set()
    for computation in module.computations:
        assert isinstance(computation.reader, LineReader), "the bench's dumps are regular"
        opcodes = [instruction.opcode for instruction in computation.instructions]
        rows.update(zip(opcodes, computation.reader.tails(), strict=True))
    for opcode, name, value in {(opcode, *pair) for opcode, tail in rows for pair in split_attributes(tail) or ()}:
        read_attribute_value(opcode, name, value)
    return module
