"""What a module's text says that XLA's grammar, as we know it, does not have: looked for when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Findings, Module
from hlo_cli.ir.opcode import is_known
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, Shape, UnknownShape
from hlo_cli.ir.strings import UnreadText
from hlo_cli.source import Diagnostic, HloError, Span
from hlo_cli.syntax.attributes import HEADER_ATTRIBUTES, Kind, attributes_of
from hlo_cli.syntax.lines import RowReader
from hlo_cli.syntax.notes import Notes
from hlo_cli.syntax.recover import MAX_ERRORS
from hlo_cli.syntax.split import split_attributes
from hlo_cli.syntax.typed import read_header_value, read_value_text
from hlo_cli.syntax.values import read_attributes

_LONGEST: Final = 60
_K = TypeVar("_K")
_CANNOT_FAIL: Final = frozenset((Kind.COMPUTATION, Kind.LITERAL, Kind.METADATA, Kind.STRING_OR_JSON))
"""Kinds of values that are taken for what they are, or whose reader passes over what it does not know."""


@dataclass(slots=True)
class _Seen:
    """The first instruction of each opcode, of each attribute of an opcode and of each of its values, and how many."""

    opcodes: dict[str, tuple[Instruction, int]] = field(default_factory=dict)
    attributes: dict[tuple[str, str], tuple[Instruction, int]] = field(default_factory=dict)
    values: dict[tuple[str, str, str], tuple[Instruction, int]] = field(default_factory=dict)

    def add(self, instruction: Instruction, pairs: Iterable[tuple[str, str]], times: int = 1) -> None:
        """So many instructions with these attributes, of which this is the first."""
        opcode = instruction.opcode
        _count(self.opcodes, opcode, instruction, times)
        for name, text in pairs:
            _count(self.attributes, (opcode, name), instruction, times)
            _count(self.values, (opcode, name, text), instruction, times)


def _count(seen: dict[_K, tuple[Instruction, int]], key: _K, instruction: Instruction, times: int) -> None:
    first, before = seen.get(key) or (instruction, 0)
    seen[key] = first, before + times


def check_module(module: Module, noted: Notes | None = None) -> Findings:
    """Errors and notes that reading left for later: the grammar of attributes, unknown names, unknown types.

    `noted` is what was noted while reading.
    """
    errors: list[Diagnostic] = []
    seen = _Seen()
    for computation in module.computations:
        if isinstance(computation.reader, RowReader):
            _look_at_rows(computation, computation.reader, seen, errors)
        else:
            for instruction in computation.instructions:
                seen.add(instruction, [(a.name, a.value) for a in instruction.attributes])
    notes = Notes(module.source)
    _note_header(module, notes)
    _note_names(seen, notes)
    _note_values(seen, notes)
    _note_shapes(module, notes)
    found = (*(noted.diagnostics() if noted else ()), *notes.diagnostics())
    return Findings(tuple(errors), tuple(sorted(found, key=lambda note: note.span.start if note.span else 0)))


def _look_at_rows(computation: Computation, reader: RowReader, seen: _Seen, errors: list[Diagnostic]) -> None:
    """Cut the attributes of every line apart, each distinct text once; the exact reader judges what is not cut."""
    instructions = computation.instructions
    keys = list(zip([i.opcode for i in instructions], _tails(reader), strict=True))
    first_of = dict(zip(reversed(keys), reversed(instructions), strict=True))
    for key, times in Counter(keys).items():
        pairs = split_attributes(key[1])
        if pairs is not None:
            seen.add(first_of[key], pairs, times)
        else:
            for instruction in [i for i, other in zip(instructions, keys, strict=True) if other == key]:
                seen.add(instruction, _read_exactly(reader, instruction.index, errors))


def _tails(reader: RowReader) -> Iterator[str]:
    """What stands behind the operands of each line, from the comma on; where that begins is plain to see in most."""
    for index, line in enumerate(reader.lines()):
        head, found, tail = line.partition("), ")
        if ")," in head or not (found or line[-1:] == ")") or (found and "=" not in tail.partition(" ")[0]):
            yield reader.raw(index)[1]
        else:
            yield found[1:] + tail


def _read_exactly(reader: RowReader, index: int, errors: list[Diagnostic]) -> list[tuple[str, str]]:
    scanner = reader.tail(index)
    try:
        attributes = read_attributes(scanner)
        if not scanner.at_end():
            raise scanner.error("expected a comma before the next attribute")
    except HloError as error:
        errors.extend(error.diagnostics if len(errors) < MAX_ERRORS else ())
        return []
    return [(attribute.name, attribute.value) for attribute in attributes]


def _note_header(module: Module, notes: Notes) -> None:
    for attribute in module.header:
        if attribute.span is None:
            continue
        if attribute.name not in HEADER_ATTRIBUTES:
            message = f"header attribute {attribute.name} is not known; kept as text"
            notes.add("unknown-attribute", message, _whole(module, attribute.name, attribute.span))
        elif isinstance(read_header_value(attribute.name, attribute.value), UnreadText):
            message = f"value {_shortened(attribute.value)} of header attribute {attribute.name} is not understood"
            notes.add("unread-value", f"{message}; kept as text", _whole(module, attribute.name, attribute.span))


def _note_names(seen: _Seen, notes: Notes) -> None:
    for opcode, (first, times) in seen.opcodes.items():
        if not is_known(opcode):
            notes.add("unknown-opcode", f"opcode {opcode} is not known; kept as text", _place(first), times)
    for (opcode, name), (first, times) in seen.attributes.items():
        if is_known(opcode) and name not in attributes_of(opcode):
            message = f"attribute {name} of {opcode} is not known; kept as text"
            notes.add("unknown-attribute", message, _place_of(first, name), times)


def _note_values(seen: _Seen, notes: Notes) -> None:
    for (opcode, name, text), (first, times) in seen.values.items():
        rule = attributes_of(opcode).get(name)
        if rule is None or rule.kind in _CANNOT_FAIL or not isinstance(read_value_text(rule.kind, text), UnreadText):
            continue
        message = f"value {_shortened(text)} of attribute {name} of {opcode} is not understood; kept as text"
        notes.add("unread-value", message, _place_of(first, name), times)


def _note_shapes(module: Module, notes: Notes) -> None:
    """Element types that are not known, and layouts that do not fit their shape."""
    used: dict[int, tuple[Shape, Instruction, int]] = {}
    for instruction in module.instructions:
        shape = instruction.shape
        _, first, times = used.get(id(shape)) or (shape, instruction, 0)
        used[id(shape)] = shape, first, times + 1
    for shape, first, times in used.values():
        for leaf in dict.fromkeys(leaf for _, leaf in shape.leaves):
            if (found := _wrong_with(leaf)) is not None:
                notes.add(*found, _place(first), times)


def _wrong_with(leaf: Leaf) -> tuple[str, str] | None:
    if isinstance(leaf, UnknownShape) and leaf.text:
        element_type = leaf.text.partition("[")[0].strip()
        return "unknown-type", f"type {element_type} is not known; its size counts as 0"
    array = leaf.array if isinstance(leaf, BufferShape) else leaf
    if isinstance(array, ArrayShape) and (problem := array.problem) is not None:
        return "layout", f"the layout of {array} does not fit: {problem}"
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _place(instruction: Instruction) -> Span:
    return instruction.span or Span(0, 0)


def _place_of(instruction: Instruction, name: str) -> Span:
    spans = {attribute.name: attribute.span for attribute in reversed(instruction.attributes)}
    return spans.get(name) or _place(instruction)


def _whole(module: Module, name: str, value: Span) -> Span:
    start = module.source.text.rfind(name, 0, value.start)
    return Span(max(start, 0), value.end)
