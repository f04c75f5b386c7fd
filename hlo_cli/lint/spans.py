"""Spans of parts of an instruction in the text."""

from __future__ import annotations

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import Span


def shape_span(module: Module, instruction: Instruction) -> Span | None:
    """The span of an instruction's shape; of the whole instruction if the text omits the shape.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { ROOT p = f32[2,3]{1,0} parameter(0) }")
    >>> module.source.slice(shape_span(module, module.entry.root))
    'f32[2,3]{1,0}'
    """
    span = instruction.span
    if span is None:
        return None
    text = module.source.text
    start = text.find("=", span.start, span.end) + 1
    while start < span.end and text[start].isspace():
        start += 1
    end = text.find(f" {instruction.opcode}(", start, span.end)
    return Span(start, end) if start and end > start else span


def attribute_span(instruction: Instruction, *names: str) -> Span | None:
    """The span of the value of the first of these attributes; None, for the whole instruction, if it has none of them.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[2] slice(f32[9] a), slice={[1:3]}")
    >>> module.source.slice(attribute_span(module.entry.root, "slice"))
    '{[1:3]}'
    """
    attributes = instruction.attributes
    return next((a.span for name in names for a in attributes if a.name == name), None)


def header_span(module: Module, name: str) -> Span | None:
    """The span of the value of an attribute of the header; the beginning of the text if it is unknown.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=4  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> module.source.slice(header_span(module, "num_partitions"))
    '4'
    """
    return next((attribute.span for attribute in module.header if attribute.name == name), None)
