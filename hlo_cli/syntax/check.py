"""What a module's text says that XLA's grammar, as we know it, does not have: looked for when somebody asks."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Findings, Module
from hlo_cli.ir.opcode import is_known
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, Shape, UnknownShape
from hlo_cli.source import Diagnostic, HloError, Span
from hlo_cli.syntax.attributes import HEADER_ATTRIBUTES, attributes_of
from hlo_cli.syntax.lines import RowReader
from hlo_cli.syntax.notes import Notes
from hlo_cli.syntax.recover import MAX_ERRORS
from hlo_cli.syntax.scanner import STRING
from hlo_cli.syntax.values import read_attributes


def _nested(depth: int) -> str:
    """What may stand in a value: braces up to a depth, other brackets that hold no brackets themselves."""
    plain = r"[^\[\](){}\"'/]*+"
    flat = rf"{plain}(?:{STRING}{plain})*+"
    inner = flat
    for _ in range(depth):
        piece = rf"\{{{inner}\}}|\({flat}\)|\[{flat}\]|{STRING}|/\*index=[0-9]++\*/"
        inner = rf"{plain}(?:(?:{piece}){plain})*+"
    return inner


def _json(depth: int) -> str:
    """A dictionary as `backend_config` has it: only braces and double quotes count."""
    string = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    plain = r'[^{}"]*+'
    inner = rf"{plain}(?:{string}{plain})*+"
    for _ in range(depth):
        inner = rf"{plain}(?:(?:\{{{inner}\}}|{string}){plain})*+"
    return rf"\{{{inner}\}}"


_BRACKETS: Final = rf"\{{{_nested(3)}\}}|\({_nested(1)}\)|\[{_nested(0)}\]"
_PIECE: Final = rf"[^ \t\n\r,{{}}()\[\]\"'/=<]++|<=|{_BRACKETS}|{STRING}|[ ](?=[{{\[(])|, device_ids="
_ATTRIBUTE: Final = re.compile(
    rf", ([A-Za-z_][A-Za-z0-9_.\-]*+)=(?:(?<=, backend_config=){_json(4)}|(?:{_PIECE})++)", re.DOTALL
)
"""One attribute. Splitting by it leaves nothing between the names where a text is attributes and nothing else."""

Seen = dict[tuple[str, ...], tuple[Instruction, int]]
"""An opcode with the names of its attributes: the first such instruction, and how many there are."""


def check_module(module: Module, noted: Notes | None = None) -> Findings:
    """Errors and notes that reading left for later: the grammar of attributes, unknown names, unknown types.

    `noted` is what was noted while reading.
    """
    errors: list[Diagnostic] = []
    seen: Seen = {}
    for computation in module.computations:
        if isinstance(computation.reader, RowReader):
            _look_at_rows(computation, computation.reader, seen, errors)
        else:
            for instruction in computation.instructions:
                _see(seen, (instruction.opcode, *(a.name for a in instruction.attributes)), instruction)
    notes = Notes(module.source)
    _note_header(module, notes)
    _note_names(seen, notes)
    _note_shapes(module, notes)
    found = (*(noted.diagnostics() if noted else ()), *notes.diagnostics())
    return Findings(tuple(errors), tuple(sorted(found, key=lambda note: note.span.start if note.span else 0)))


def _look_at_rows(computation: Computation, reader: RowReader, seen: Seen, errors: list[Diagnostic]) -> None:
    """Split the attributes off every line; the exact reader judges where more than an instruction's head is left."""
    instructions, split = computation.instructions, _ATTRIBUTE.split
    keys = []
    for index, line in enumerate(reader.lines()):
        head, *parts = split(line)
        if "".join(parts[1::2]) or head[-1:] != ")" or ")," in head:
            parts = _read_exactly(reader, index, errors)
        keys.append((instructions[index].opcode, *parts[::2]))
    first_of = dict(zip(reversed(keys), reversed(instructions), strict=True))
    for key, times in Counter(keys).items():
        first, before = seen.get(key) or (first_of[key], 0)
        seen[key] = first, before + times


def _read_exactly(reader: RowReader, index: int, errors: list[Diagnostic]) -> list[str]:
    scanner = reader.tail(index)
    try:
        attributes = read_attributes(scanner)
        if not scanner.at_end():
            raise scanner.error("expected a comma before the next attribute")
    except HloError as error:
        errors.extend(error.diagnostics if len(errors) < MAX_ERRORS else ())
        return []
    return [part for attribute in attributes for part in (attribute.name, "")]


def _see(seen: Seen, key: tuple[str, ...], instruction: Instruction) -> None:
    first, times = seen.get(key, (instruction, 0))
    seen[key] = first, times + 1


def _note_header(module: Module, notes: Notes) -> None:
    for attribute in module.header:
        if attribute.name not in HEADER_ATTRIBUTES and attribute.span is not None:
            message = f"header attribute {attribute.name} is not known; kept as text"
            notes.add("unknown-attribute", message, _whole(module, attribute.name, attribute.span))


def _note_names(seen: Seen, notes: Notes) -> None:
    for (opcode, *names), (first, times) in seen.items():
        if not is_known(opcode):
            notes.add("unknown-opcode", f"opcode {opcode} is not known; kept as text", _place(first), times)
            continue
        rules = attributes_of(opcode)
        unknown = Counter(name for name in names if name not in rules)
        spans = {a.name: a.span for a in reversed(first.attributes)} if unknown else {}
        for name, each in unknown.items():
            message = f"attribute {name} of {opcode} is not known; kept as text"
            notes.add("unknown-attribute", message, spans.get(name) or _place(first), times * each)


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


def _place(instruction: Instruction) -> Span:
    return instruction.span or Span(0, 0)


def _whole(module: Module, name: str, value: Span) -> Span:
    start = module.source.text.rfind(name, 0, value.start)
    return Span(max(start, 0), value.end)
