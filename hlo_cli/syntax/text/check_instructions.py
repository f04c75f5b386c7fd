"""Notes on inconsistent instructions: operands, numbers, names, and values that do not fit.

Mirrors errors of `ParseInstructionRhs` and `ParseComputation` of xla/hlo/parser/hlo_parser.cc; here they are notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import is_known
from hlo_cli.ir.shape import ArrayShape, Shape, UnknownShape, subshape
from hlo_cli.source import HloError, Source, Span, counted
from hlo_cli.syntax.literals.grammar import read_literal
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.suggestions import like
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.strict.op_checks import operand_count
from hlo_cli.syntax.text.instruction_parser import ParsedInstruction, read_operands
from hlo_cli.syntax.text.notes import Notes

_LONGEST_LITERAL: Final = 300
"""The longest literal to check; longer ones come from compilers, not from hand."""
_NAMED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
"""The characters of names."""
_WAITS: Final = "control-predecessors="


def note_instructions(module: Module, notes: Notes) -> None:
    """Notes problems in all computations. A line or a body with an error gets no further notes."""
    if not module.is_part:
        _note_entry(module, notes)
    errors = [error.span for error in module.read_errors if error.span is not None]
    literals: dict[tuple[Shape, str], tuple[str, int] | None] = {}
    are_printed = any(instruction.operands for instruction in module.instructions)
    for computation in module.computations:
        body = computation.span
        is_whole = body is None or not any(body.start <= error.start < body.end for error in errors)
        is_whole = is_whole and all(is_known(instruction.written_opcode) for instruction in computation.instructions)
        for instruction in computation.instructions:
            wanted = operand_count(instruction.written_opcode)
            if wanted is not None and wanted != len(instruction.operands) and are_printed:
                _note_count(instruction, wanted, notes)
            if instruction.written_opcode == opcodes.CONSTANT:
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


def _note_count(instruction: Instruction, wanted: int, notes: Notes) -> None:
    """Notes the number of operands in the text; an undefined one is an error already, and not reported twice."""
    if operand_count(instruction.written_opcode, [each.name for each in instruction.attributes]) is None:
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
    if count != wanted and not written.elided:
        message = f"{instruction.written_opcode} needs {counted(wanted, 'operands')}, found {count}"
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
    if body is None or text.find(_WAITS, body.start, body.end) < 0:
        return
    names = {instruction.name for instruction in computation.instructions}
    for instruction, name in _waits(computation):
        if name not in names and text.find(f"{name} =", body.start, body.end) < 0:
            message = f"instruction '{name}' not found in {computation.name}"
            place = _place_of_name(notes.source, instruction, name)
            notes.add("control-predecessor", message, place, hint=partial(like, name, names))


def _waits(computation: Computation) -> Iterator[tuple[Instruction, str]]:
    for instruction in computation.instructions:
        if _WAITS in instruction.raw[1]:
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
