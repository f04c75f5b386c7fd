"""What in a module's text XLA's grammar does not know, and which instructions contradict themselves; on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Findings, Module
from hlo_cli.ir.notation import UnparsedText, index_text
from hlo_cli.ir.operations import CONTROL_PREDECESSORS, is_known, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, Shape, UnknownShape, subshape
from hlo_cli.source import Diagnostic, HloError, Source, Span, counted, did_you_mean
from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES, Kind, attributes_of
from hlo_cli.syntax.literal_reading import read_literal
from hlo_cli.syntax.opaque import CALLED
from hlo_cli.syntax.operation_checks import operand_count
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.attributes import (
    around_metadata,
    expect_no_attribute,
    read_attributes,
    split_attributes,
)
from hlo_cli.syntax.scanning.error_help import MAX_ERRORS, like, opcode_like, type_like
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.text.instruction_lines import LineReader, Notes, ParsedInstruction, read_operands
from hlo_cli.syntax.values.attribute_values import parse_failure, read_header_value, read_value_text

# --- instructions ---
# Notes on inconsistent instructions: operands, numbers, names, and values that do not fit.
#
# Mirrors errors of `ParseInstructionRhs` and `ParseComputation` of xla/hlo/parser/hlo_parser.cc; here they are notes.


_LONGEST_LITERAL: Final = 300
"""The longest literal to check; longer ones come from compilers, not from hand."""
_NAMED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
"""The characters of names."""


def _note_instructions(module: Module, notes: Notes) -> None:
    """Notes problems in all computations. A line or a body with an error gets no further notes."""
    if not module.is_part:
        _note_entry(module, notes)
    errors = [error.span for error in module.read_errors if error.span is not None]
    literals: dict[tuple[Shape, str], tuple[str, int] | None] = {}
    are_printed = any(instruction.operands for instruction in module.instructions)
    # A module has a hundred thousand instructions of a few dozen opcodes.
    known: dict[str, tuple[bool, int | None, str]] = {}
    for computation in module.computations:
        body = computation.span
        is_whole = body is None or not any(body.start <= error.start < body.end for error in errors)
        for instruction in computation.instructions:
            if (facts := known.get(instruction.opcode)) is None:
                written = instruction.written_opcode
                facts = known[instruction.opcode] = is_known(written), operand_count(written), written
            is_whole, expected = is_whole and facts[0], facts[1]
            if expected is not None and expected != len(instruction.operands) and are_printed:
                _note_count(instruction, expected, notes)
            if facts[2] == opcodes.CONSTANT:
                _note_literal(instruction, literals, notes)
        _note_elements(computation, notes)
        _note_numbers(computation, notes, is_whole=is_whole and not module.is_part)
        if not module.is_part:
            _note_waits(computation, notes)
        if is_whole and not module.is_part:
            _note_root(computation, notes)


def place_of(source: Source, instruction: Instruction, word: str) -> Span:
    """The span of a word in an instruction, or of the instruction if the word is not in it."""
    span = instruction.span or Span(0, 0)
    at = source.text.find(f" {word}", span.start, span.end)
    return span if at < 0 else Span(at + 1, at + 1 + len(word))


def _note_entry(module: Module, notes: Notes) -> None:
    text = module.source.text
    heads = [computation.span for computation in module.computations if computation.span is not None]
    if any(text.startswith(("{", "("), head.start) for head in heads):
        return  # bodies written in place, and texts printed without names, are not marked
    entries = [head for head in heads if text.startswith("ENTRY", head.start)]
    if heads and not entries and not module.read_errors:
        message = f"no ENTRY computation; using the last one, {module.entry.name}"
        notes.add("no-entry", message, Span(heads[-1].start, heads[-1].start + 1))
    for second in entries[1:]:
        message = f"duplicate ENTRY; using the first one, {module.entry.name}"
        notes.add("second-entry", message, Span(second.start, second.start + len("ENTRY")))


def _note_count(instruction: Instruction, expected: int, notes: Notes) -> None:
    """Notes the number of operands in the text; an undefined one is an error already, and not reported twice."""
    if operand_count(instruction.written_opcode, [attribute.name for attribute in instruction.attributes]) is None:
        return
    place, written = (
        place_of(notes.source, instruction, instruction.written_opcode),
        ParsedInstruction(0, opcode=instruction.written_opcode),
    )
    try:
        read_operands(Scanner(notes.source, place.end), written, 0)
    except HloError:
        return
    count = len(written.operands)
    if count != expected and not written.elided:
        message = f"{instruction.written_opcode} needs {counted(expected, 'operands')}, found {count}"
        notes.add("operand-count", message, place)


def _note_literal(
    instruction: Instruction, seen: dict[tuple[Shape, str], tuple[str, int] | None], notes: Notes
) -> None:
    text, shape = instruction.raw[0], instruction.shape
    if len(text) > _LONGEST_LITERAL or "..." in text or not isinstance(shape, ArrayShape):
        return
    if (shape, text) not in seen:
        seen[shape, text] = _literal_problem(text, shape)
    if (problem := seen[shape, text]) is not None:
        message, offset = problem
        place = place_of(notes.source, instruction, "constant(")
        start = place.end + offset if notes.source.text.startswith(text, place.end) else place.start
        notes.add("literal", f"literal does not match {shape}: {message}", Span(start, start + 1))


def _literal_problem(text: str, shape: ArrayShape) -> tuple[str, int] | None:
    tokens = Tokens(Source("", text))
    try:
        read_literal(tokens, shape)
        if tokens.kind != tk.END:
            tokens.fail("expected end of literal")
    except HloError as error:
        return error.diagnostic.message, error.diagnostic.span.start if error.diagnostic.span else 0
    return None


def _note_elements(computation: Computation, notes: Notes) -> None:
    for number, indices in computation.operand_indices.items():
        instruction = computation.instructions[number]
        for operand, index in zip(instruction.operands, indices, strict=True):
            if operand.shape != UnknownShape() and subshape(operand.shape, index) is None:
                message = f"{operand.name} has no element {index_text(index)} (shape {operand.shape})"
                word = operand.name + "".join(f"#{i}" for i in index)
                notes.add("element", message, _place_of_name(notes.source, instruction, word))


def _note_numbers(computation: Computation, notes: Notes, *, is_whole: bool) -> None:
    """Notes parameters that are not numbered from 0, each number once, without a gap."""
    seen: set[int] = set()
    for parameter in computation.parameters:
        number, message = parameter.parameter_number, ""
        if number is None:
            message = f"parameter {parameter.name} has no number"
        elif number in seen:
            message = f"duplicate parameter number {number} in {computation.name}"
        elif is_whole and number >= len(computation.parameters):
            count = len(computation.parameters)
            has = f"{computation.name} has {counted(count, 'parameters')}"
            message = f"parameter number {number} is out of range: {has}"
        if message:
            notes.add("parameter-number", message, place_of(notes.source, parameter, opcodes.PARAMETER))
        seen.add(-1 if number is None else number)


def _note_waits(computation: Computation, notes: Notes) -> None:
    """Notes names in control-predecessors; those of unreadable lines are errors already."""
    body, text = computation.span, notes.source.text
    if body is None or text.find(CONTROL_PREDECESSORS, body.start, body.end) < 0:
        return
    names = {instruction.name for instruction in computation.instructions}
    for instruction, name in _waits(computation):
        if name not in names and text.find(f"{name} =", body.start, body.end) < 0:
            message = f"instruction '{name}' not found in {computation.name}"
            place = _place_of_name(notes.source, instruction, name)
            notes.add("control-predecessor", message, place, hint=partial(like, name, names))


def _waits(computation: Computation) -> Iterator[tuple[Instruction, str]]:
    for instruction in computation.instructions:
        if CONTROL_PREDECESSORS in instruction.raw[1]:
            yield from ((instruction, name) for name in instruction.control_predecessors)


def _place_of_name(source: Source, instruction: Instruction, name: str) -> Span:
    """The span of a name in an instruction, or of the instruction if the name is in another form."""
    span = instruction.span or Span(0, 0)
    start = source.text.find("(", span.start, span.end)
    at = source.text.find(name, start, span.end)
    while at >= 0 and (source.text[at - 1] in _NAMED or source.text[at + len(name)] in _NAMED):
        at = source.text.find(name, at + 1, span.end)
    return span if at < 0 else Span(at, at + len(name))


def _note_root(computation: Computation, notes: Notes) -> None:
    body, root = computation.span, computation.root
    if body is None or root is None or notes.source.text.find("ROOT", body.start, body.end) >= 0:
        return
    message = f"{computation.name} has no ROOT; using the last instruction, {root.name}"
    notes.add("no-root", message, root.span or body)


# --- a module ---
# Parts of a module's text that are outside XLA's known grammar, found on demand.


_LONGEST: Final = 60  # of a value that an error quotes; its place in the text is shown below
_TAKEN: Final = ("missing-attribute", CALLED)
_CANNOT_FAIL: Final = frozenset((Kind.COMPUTATION, Kind.LITERAL, Kind.METADATA, Kind.STRING_OR_JSON))
"""Kinds of values without a grammar, or whose reader skips unknown parts."""


_Row = tuple[str, str]
"""An opcode, and the text after the operands; equal rows have the same attributes."""
_Problem = tuple[str, str, str]
"""The unusual attribute, or empty for an unusual opcode; the code and the message of the note."""


def check_module(module: Module, noted: Notes | None = None) -> Findings:
    """Errors and notes that reading deferred: attributes with their values, unknown names, unknown types.

    `noted` are the notes from reading.
    """
    errors: list[Diagnostic] = []
    notes = Notes(module.source)
    _note_header(module, notes)
    _note_rows([c for c in module.computations if isinstance(c.reader, LineReader)], notes, errors)
    for computation in module.computations:
        if not isinstance(computation.reader, LineReader):
            for instruction in computation.instructions:
                _note_one(instruction, [(a.name, a.value) for a in instruction.attributes], notes)
    _note_shapes(module, notes)
    _note_instructions(module, notes)
    diagnostics = _not_blamed((*(noted.diagnostics() if noted else ()), *notes.diagnostics()), module, errors)
    return Findings(tuple(errors), tuple(sorted(diagnostics, key=lambda note: note.span.start if note.span else 0)))


def _not_blamed(notes: Iterable[Diagnostic], module: Module, errors: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The notes without those on missing parts of a line with an error, which may have consumed them."""
    wrong = {error.position.line for error in (*module.read_errors, *errors) if error.position is not None}
    for note in notes:
        if note.code not in _TAKEN or note.position is None or note.position.line not in wrong:
            yield note


def _note_rows(computations: Sequence[Computation], notes: Notes, errors: list[Diagnostic]) -> None:
    """Splits the attributes of every line, each distinct text once; lines that fail are checked one by one."""
    rows: set[_Row] = set()
    for computation in computations:
        rows.update(_rows(computation))
    known: dict[tuple[str, str, str | None], bool] = {}
    odd: set[_Row] = set()
    for opcode, tail in rows:
        # the value of metadata cannot have a problem, and is rarely shared
        apart = opcode, *around_metadata(tail)
        if (is_odd := known.get(apart)) is None:
            is_odd = known[apart] = _is_odd(*apart)
        if is_odd:
            odd.add((opcode, tail))
    same: dict[_Row, tuple[Instruction, list[tuple[str, str]], int]] = {}
    for computation in computations if odd else ():
        for instruction, row in zip(computation.instructions, _rows(computation), strict=True):
            if row not in odd:
                continue
            if (pairs := split_attributes(row[1])) is not None:
                first, _, times = same.get(row) or (instruction, pairs, 0)
                same[row] = first, pairs, times + 1
            elif (read := _attribute_pairs(instruction, errors)) is not None:
                _note_one(instruction, read, notes)
    for first, pairs, times in same.values():
        _note_one(first, pairs, notes, times)


def _rows(computation: Computation) -> Iterable[_Row]:
    assert isinstance(computation.reader, LineReader)
    return zip([i.written_opcode for i in computation.instructions], computation.reader.tails(), strict=True)


def _is_odd(opcode: str, before: str, after: str | None) -> bool:
    """Whether attributes around metadata may have a problem, or do not split; `before` is all if `after` is None."""
    pairs, rest = split_attributes(before), split_attributes(after or "")
    if pairs is None or rest is None:
        return True
    return bool(_problems(opcode, pairs if after is None else (*pairs, ("metadata", ""), *rest)))


def _problems(opcode: str, pairs: Sequence[tuple[str, str]]) -> list[_Problem]:
    """The problems of an opcode and its attributes."""
    if not is_known(opcode):
        return [("", "unknown-opcode", f"unknown opcode {opcode}; kept as text")]
    rules = attributes_of(opcode)
    missing, second = _odd_names(opcode, tuple([name for name, _ in pairs]))
    unreadable = [
        problem
        for name, text in pairs
        if (rule := rules.get(name)) is None or rule.kind not in _CANNOT_FAIL
        if (problem := _problem_with(opcode, name, text)) is not None
    ]
    return [*missing, *unreadable, *second]


@lru_cache(maxsize=4096)
def _odd_names(opcode: str, names: tuple[str, ...]) -> tuple[list[_Problem], list[_Problem]]:
    """The problems of the names alone, which many lines share: missing names, and repeated ones."""
    rules = attributes_of(opcode)
    missing = [
        ("", "missing-attribute", f"missing attribute {name} on {opcode}")
        for name, rule in rules.items()
        if rule.required and name not in names and rules.keys() >= set(names)
    ]
    second = [
        (name, "second-attribute", f"duplicate attribute {name} on {opcode}; using the first")
        for name, times in Counter(names).items()
        if times > 1
    ]
    return missing, second


def _problem_with(opcode: str, name: str, text: str) -> _Problem | None:
    rule = attributes_of(opcode).get(name)
    if rule is None and (wrapped := wrapped_opcode(opcode)) and name in attributes_of(f"{wrapped}-start"):
        return name, "repeated-attribute", f"{name} on {opcode} repeats that of {wrapped}-start; kept as text"
    if rule is None:
        return name, "unknown-attribute", f"unknown attribute {name} on {opcode}; kept as text"
    if isinstance(read_value_text(rule.kind, text), UnparsedText):
        message = f"could not parse {name}={_shortened(text)} on {opcode}; kept as text"
        return name, "unread-value", message
    return None


def _note_one(instruction: Instruction, pairs: Sequence[tuple[str, str]], notes: Notes, times: int = 1) -> None:
    """Notes the problems of an instruction, counted with its equals."""
    spans = {attribute.name: attribute.span for attribute in reversed(instruction.attributes)}
    for name, code, message in _problems(instruction.written_opcode, pairs):
        span = spans.get(name)
        if span is None:
            place = place_of(notes.source, instruction, instruction.written_opcode)
        else:
            place = span if code == "unread-value" else _before(notes.source, name, span)
        notes.add(code, message, place, times, hint=partial(_meant, instruction.written_opcode, pairs, name, code))


def _meant(opcode: str, pairs: Iterable[tuple[str, str]], name: str, code: str) -> str | None:
    """A suggestion for an unusual opcode, attribute, or value."""
    match code:
        case "unknown-opcode":
            return did_you_mean(opcode_like(opcode))
        case "unknown-attribute":
            return like(name, attributes_of(opcode))
        case "unread-value":
            kind = attributes_of(opcode)[name].kind
            return next(filter(None, (parse_failure(kind, text) for other, text in pairs if other == name)), None)
    return None


def _before(source: Source, name: str, value: Span) -> Span:
    """The span of an attribute's name, found before its value."""
    start = source.text.rfind(name, 0, value.start)
    return value if start < 0 else Span(start, start + len(name))


def _attribute_pairs(instruction: Instruction, errors: list[Diagnostic]) -> list[tuple[str, str]] | None:
    """The attributes of one line, by the exact reader if needed; None if it fails."""
    reader = instruction.computation.reader
    assert isinstance(reader, LineReader)
    if (pairs := split_attributes(reader.raw(instruction.index)[1])) is not None:
        return pairs
    scanner = reader.tail(instruction.index)
    try:
        attributes = read_attributes(scanner)
        expect_no_attribute(scanner)
        if not scanner.at_end():
            raise scanner.error("expected a comma before the next attribute")
    except HloError as error:
        errors.extend(error.diagnostics if len(errors) < MAX_ERRORS else ())
        return None
    return [(attribute.name, attribute.value) for attribute in attributes]


def _note_header(module: Module, notes: Notes) -> None:
    for attribute in module.header:
        if attribute.span is None:
            continue
        if attribute.name not in HEADER_ATTRIBUTES:
            message = f"unknown header attribute {attribute.name}; kept as text"
            place = _whole(module, attribute.name, attribute.span)
            notes.add("unknown-attribute", message, place, hint=partial(like, attribute.name, HEADER_ATTRIBUTES))
        elif isinstance(read_header_value(attribute.name, attribute.value), UnparsedText):
            message = f"could not parse header attribute {attribute.name}={_shortened(attribute.value)}"
            hint = partial(parse_failure, HEADER_ATTRIBUTES[attribute.name].kind, attribute.value)
            place = _whole(module, attribute.name, attribute.span)
            notes.add("unread-value", f"{message}; kept as text", place, hint=hint)


def _note_shapes(module: Module, notes: Notes) -> None:
    """Notes unknown element types, and layouts that do not fit their shape."""
    shapes = {id(shape): shape for shape in [instruction.shape for instruction in module.instructions]}
    odd = {key: problem for key, shape in shapes.items() if (problem := _wrong_leaves(shape))}
    for instruction in module.instructions if odd else ():
        for code, message, word in odd.get(id(instruction.shape), ()):
            hint = partial(_meant_type, word, code)
            notes.add(code, message, place_of(module.source, instruction, word), hint=hint)


def _meant_type(word: str, code: str) -> str | None:
    return did_you_mean(type_like(word)) if code == "unknown-type" else None


def _wrong_leaves(shape: Shape) -> list[tuple[str, str, str]]:
    leaves = {id(leaf): leaf for _, leaf in shape.leaves}
    return [problem for leaf in leaves.values() if (problem := _wrong_with(leaf)) is not None]


def _wrong_with(leaf: Leaf) -> tuple[str, str, str] | None:
    """The code and the message of a note, and the word to point at."""
    if isinstance(leaf, UnknownShape) and leaf.text:
        element_type = leaf.text.partition("[")[0].strip()
        return "unknown-type", f"unknown element type {element_type}; size counted as 0", element_type
    array = leaf.array if isinstance(leaf, BufferShape) else leaf
    if isinstance(array, ArrayShape) and (problem := array.problem) is not None:
        return "layout", f"invalid layout of {array}: {problem}", str(array)
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _whole(module: Module, name: str, value: Span) -> Span:
    start = module.source.text.rfind(name, 0, value.start)
    return Span(max(start, 0), value.end)
