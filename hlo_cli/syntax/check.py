"""What a module's text says that XLA's grammar, as we know it, does not have: looked for when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

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
from hlo_cli.syntax.split import split_attributes, split_tail
from hlo_cli.syntax.typed import read_header_value, read_value_text
from hlo_cli.syntax.values import read_attributes

_LONGEST: Final = 60
_CANNOT_FAIL: Final = frozenset((Kind.COMPUTATION, Kind.LITERAL, Kind.METADATA, Kind.STRING_OR_JSON))
"""Kinds of values that are taken for what they are, or whose reader passes over what it does not know."""


@dataclass(slots=True)
class _Seen:
    """How often each opcode is there, and each value of an attribute of an opcode."""

    opcodes: Counter[str] = field(default_factory=Counter)
    values: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, opcode: str, pairs: Iterable[tuple[str, str]], times: int = 1) -> None:
        """So many instructions with these attributes."""
        self.opcodes[opcode] += times
        for name, text in pairs:
            self.values[opcode, name, text] += times

    def attributes(self) -> Counter[tuple[str, str]]:
        """How often each attribute of an opcode is there."""
        found: Counter[tuple[str, str]] = Counter()
        for (opcode, name, _), times in self.values.items():
            found[opcode, name] += times
        return found


class _Places:
    """Where opcodes, attributes and values stand first; looked for once, if there is anything to note."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._spans: dict[tuple[str, ...], Span] = {}

    def first(self, *key: str) -> Span:
        """The place of an opcode, an attribute of it, or a value of that."""
        if not self._spans:
            for instruction in self._module.instructions:
                self._add((instruction.opcode,), instruction.span)
                for attribute in instruction.attributes:
                    self._add((instruction.opcode, attribute.name), attribute.span or instruction.span)
                    self._add((instruction.opcode, attribute.name, attribute.value), attribute.span or instruction.span)
        return self._spans.get(key) or Span(0, 0)

    def _add(self, key: tuple[str, ...], span: Span | None) -> None:
        if span is not None:
            self._spans.setdefault(key, span)


def check_module(module: Module, noted: Notes | None = None) -> Findings:
    """Errors and notes that reading left for later: the grammar of attributes, unknown names, unknown types.

    `noted` is what was noted while reading.
    """
    errors: list[Diagnostic] = []
    seen = _Seen()
    _look_at_rows([c for c in module.computations if isinstance(c.reader, RowReader)], seen, errors)
    for computation in module.computations:
        if not isinstance(computation.reader, RowReader):
            for instruction in computation.instructions:
                seen.add(instruction.opcode, [(a.name, a.value) for a in instruction.attributes])
    notes = Notes(module.source)
    _note_header(module, notes)
    places = _Places(module)
    _note_names(seen, notes, places)
    _note_values(seen, notes, places)
    _note_shapes(module, notes)
    found = (*(noted.diagnostics() if noted else ()), *notes.diagnostics())
    return Findings(tuple(errors), tuple(sorted(found, key=lambda note: note.span.start if note.span else 0)))


def _look_at_rows(computations: Sequence[Computation], seen: _Seen, errors: list[Diagnostic]) -> None:
    """Cut the attributes of every line apart, each distinct text once; the rest is looked at line by line."""
    counts: Counter[tuple[str, str]] = Counter()
    for computation in computations:
        counts.update(_tails(computation))
    odd = set()
    for (opcode, tail), times in counts.items():
        if (pairs := split_tail(tail)) is None:
            odd.add((opcode, tail))
        else:
            seen.add(opcode, pairs, times)
    for computation in computations if odd else ():
        for instruction, key in zip(computation.instructions, _tails(computation), strict=True):
            if key in odd:
                seen.add(instruction.opcode, _read(instruction, errors))


def _tails(computation: Computation) -> Iterable[tuple[str, str]]:
    """Each line's opcode, and what stands behind the first parenthesis that a comma follows."""
    assert isinstance(computation.reader, RowReader)
    return zip(
        [instruction.opcode for instruction in computation.instructions], computation.reader.tails(), strict=True
    )


def _read(instruction: Instruction, errors: list[Diagnostic]) -> list[tuple[str, str]]:
    """The attributes of one line, as the exact reader takes them if need be."""
    reader = instruction.computation.reader
    assert isinstance(reader, RowReader)
    if (pairs := split_attributes(reader.raw(instruction.index)[1])) is not None:
        return pairs
    scanner = reader.tail(instruction.index)
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


def _note_names(seen: _Seen, notes: Notes, places: _Places) -> None:
    for opcode, times in seen.opcodes.items():
        if not is_known(opcode):
            notes.add("unknown-opcode", f"opcode {opcode} is not known; kept as text", places.first(opcode), times)
    for (opcode, name), times in seen.attributes().items():
        if is_known(opcode) and name not in attributes_of(opcode):
            message = f"attribute {name} of {opcode} is not known; kept as text"
            notes.add("unknown-attribute", message, places.first(opcode, name), times)


def _note_values(seen: _Seen, notes: Notes, places: _Places) -> None:
    for (opcode, name, text), times in seen.values.items():
        rule = attributes_of(opcode).get(name)
        if rule is None or rule.kind in _CANNOT_FAIL or not isinstance(read_value_text(rule.kind, text), UnreadText):
            continue
        message = f"value {_shortened(text)} of attribute {name} of {opcode} is not understood; kept as text"
        notes.add("unread-value", message, places.first(opcode, name, text), times)


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


def _whole(module: Module, name: str, value: Span) -> Span:
    start = module.source.text.rfind(name, 0, value.start)
    return Span(max(start, 0), value.end)
