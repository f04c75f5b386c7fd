"""Rows and statements to computations: names are resolved to instructions, and operands refer to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from operator import itemgetter
from typing import Final, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, free_name
from hlo_cli.ir.operations import CALLING_ATTRIBUTES
from hlo_cli.ir.shape import Shape, ShapeIndex, UnknownShape
from hlo_cli.source import Diagnostic, HloError, Source, Span, nearest
from hlo_cli.syntax.opaque import oversized
from hlo_cli.syntax.scanning.error_recovery import MAX_ERRORS
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shapes import plain_shape, read_shape
from hlo_cli.syntax.scanning.suggestions import ONE_RESULT, defined_below
from hlo_cli.syntax.text.instruction_parser import ParsedInstruction, ParsedOperand, read_operands
from hlo_cli.syntax.text.kinds import CALLER, FREE, KIND_OF, PARAMETER, holds
from hlo_cli.syntax.text.lines import LineReader, NotLineStructured, Row
from hlo_cli.syntax.text.notes import Notes
from hlo_cli.syntax.values.text_reader import WrittenReader

_CALLING: Final = "|".join(CALLING_ATTRIBUTES)
_CALLS = re.compile(rf"(?:,|\*/)\s*+({_CALLING})\s*+=\s*+(?:%?([A-Za-z_][A-Za-z0-9_.\-]*+)|(\{{[^{{}}=]*+\}})|)")
_FUSION_CALL = re.compile(r", kind=k[A-Z][a-z]++, calls=%?([A-Za-z_][A-Za-z0-9_.\-]*+)(?![^,])")
_INDEX_MARK = re.compile(r"/\*index=[0-9]++\*/")
_REFERENCE = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*+)")
Named = dict[str, Instruction]


class Call(NamedTuple):
    """A call of a computation by name, linked when all computations are known."""

    instruction: Instruction
    attribute: str
    name: str


@dataclass(slots=True)
class Builder:
    """State while a module is read: shapes by text, unlinked calls, and errors.

    `failed` are names of unreadable instructions, `lost` those of unreadable computations: using one of them is not a
    second error. `nameless` is true if computations were printed without names, so that calls cannot be linked;
    `is_single` if the text is one instruction, and `is_open` if it has no header: called computations may be elsewhere,
    and `unresolved` instructions call such. `made` are the parameters made for operands that the current computation
    lacks, as `incomplete` ones do. `cut` is a truncated computation: only a marked root counts. `elements` are the
    operand indices of computations with any. `shapeless` are the instructions without a shape in the text, callees
    before their callers. `suspects` may be malformed (`opaque.py`), as may `callers`; all instructions may if a shape
    `is_oversized`. `is_elided` is true if operands were omitted.
    """

    source: Source
    shapes: dict[str, Shape] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    shapeless: list[Instruction] = field(default_factory=list)
    suspects: list[Instruction] = field(default_factory=list)
    callers: list[Instruction] = field(default_factory=list)
    is_oversized: bool = False
    is_elided: bool = False
    diagnostics: list[Diagnostic] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    notes: Notes = field(init=False)
    nameless: bool = False
    is_single: bool = False
    is_open: bool = False
    unresolved: set[Instruction] = field(default_factory=set)
    made: dict[Instruction, Span] = field(default_factory=dict)
    incomplete: set[Computation] = field(default_factory=set)
    cut: Computation | None = None
    copies: dict[str, int] = field(default_factory=dict)
    elements: dict[Computation, dict[int, tuple[ShapeIndex, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.notes = Notes(self.source)

    def from_rows(self, computation: Computation, rows: Sequence[Row], start: int, end: int) -> None:
        """Fills a computation with the rows between two offsets of the source."""
        reader = computation.reader = self._lines(start, end, rows)
        named: Named = {}
        parameters: list[tuple[int, Instruction]] = []
        suspects: list[Instruction] = []
        callers: list[Instruction] = []
        root, shapes, kind_of, instruction_of = None, self.shapes, KIND_OF.get, named.__getitem__
        free, caller, parameter = FREE, CALLER, PARAMETER  # read for every instruction
        new = Instruction.__new__  # setting the slots here takes half the time of a call of __init__
        for index, (is_root, name, shape_text, opcode, operands, tail) in enumerate(rows):
            shape = shapes.get(shape_text) or self._shape(shape_text)
            instruction = new(Instruction)
            instruction.name = name
            instruction.shape = shape
            instruction.opcode = opcode
            instruction.operands = instruction.called_computations = ()
            instruction.computation = computation
            instruction.index = index
            instruction._text = None
            kind = kind_of(opcode, caller)
            if kind >= parameter:
                if kind == parameter:
                    number = int(operands) if operands.isdecimal() and len(operands) < 10 else 0
                    parameters.append((number, instruction))
            elif operands:
                try:
                    if "," not in operands:
                        instruction.operands = (named[operands[1:] if operands[0] == "%" else operands],)
                        if kind != 1 and kind < free and not holds(instruction, kind, tail):
                            suspects.append(instruction)
                    else:
                        if "/" in operands:
                            operands = _INDEX_MARK.sub("", operands)
                        names = operands[1:].split(", %") if operands[0] == "%" else operands.split(", ")
                        instruction.operands = taken = tuple(map(instruction_of, names))
                        if kind != len(taken) and kind < free and not holds(instruction, kind, tail):
                            suspects.append(instruction)
                except KeyError:
                    self._read_operands(instruction, reader, named)
                    suspects.append(instruction)
            elif 0 < kind < caller:
                suspects.append(instruction)
            if kind == caller:
                callers.append(instruction)
                if tail:
                    self._find_calls(instruction, tail, reader)
            if is_root:
                if root is not None:
                    raise NotLineStructured
                root = instruction
            named[name] = instruction
        if len(named) != len(rows) + len(self.made):
            raise NotLineStructured
        self.suspects += suspects
        self.callers += callers
        self._finish(computation, list(named.values()), parameters, root)

    def from_statements(self, computation: Computation, statements: Sequence[ParsedInstruction]) -> None:
        """Fills a computation with statements that were read one by one."""
        computation.reader = WrittenReader(self.source)
        named: Named = {}
        self.copies.clear()
        instructions: list[Instruction] = []
        root = None
        for statement in statements:
            instruction = self._instruction(computation, statement, named, instructions)
            if statement.is_root:
                if root is not None:
                    self.report("duplicate ROOT in this computation", statement.start, statement.start + 4, ONE_RESULT)
                root = instruction
        parameters = [(_number(i.text.argument), i) for i in instructions if i.opcode == opcodes.PARAMETER]
        self._finish(computation, instructions, parameters, root)
        if computation is self.cut:
            computation.root = root

    def _lines(self, start: int, end: int, rows: Sequence[Row]) -> LineReader:
        return LineReader(self.source, start, end, rows)

    def _finish(
        self,
        computation: Computation,
        instructions: list[Instruction],
        parameters: list[tuple[int, Instruction]],
        root: Instruction | None,
    ) -> None:
        """Sets the instructions of a computation, with its parameters in the order of their numbers."""
        computation.instructions = tuple(instructions)
        computation.root = root if root is not None else (instructions[-1] if instructions else None)
        if len(parameters) > 1:
            parameters.sort(key=itemgetter(0))
        computation.parameters = tuple([instruction for _, instruction in parameters])

    @property
    def is_full(self) -> bool:
        """Whether further errors are not worth the time to describe them."""
        return len(self.diagnostics) >= MAX_ERRORS

    def report(self, message: str, start: int, end: int, hint: str | None = None) -> None:
        """Records an error at a span, unless there are too many already."""
        if not self.is_full:
            self.diagnostics.append(Diagnostic("error", message, self.source, Span(start, end), hint))

    def _shape(self, text: str) -> Shape:
        """The shape in a row; unreadable ones are left to the exact path, which sees the text after them."""
        shape = plain_shape(text)
        if shape is None:
            scanner = Scanner(Source(self.source.name, text))
            try:
                shape = read_shape(scanner)
            except HloError as error:
                raise NotLineStructured from error
            if not scanner.at_end():
                raise NotLineStructured
        self.shapes[text] = shape
        self.is_oversized = self.is_oversized or oversized(shape) is not None
        return shape

    def _find_calls(self, instruction: Instruction, tail: str, reader: LineReader) -> None:
        if tail.count("{") != tail.count("}"):
            raise NotLineStructured
        if instruction.opcode == opcodes.FUSION and (match := _FUSION_CALL.match(tail)) is not None:
            self.calls.append(Call(instruction, "calls", match[1]))
            return
        before_strings, quote, rest = tail.partition('"')
        if "'" in before_strings or (quote and _CALLS.search(rest)):
            self._link_attributes(instruction, reader.read(instruction.index).attributes)
            return
        for attribute, name, listed in _CALLS.findall(before_strings):
            if name:
                self.calls.append(Call(instruction, attribute, name))
            elif not listed:
                raise NotLineStructured
            else:
                self._call(instruction, attribute, _REFERENCE.findall(listed))

    def _link_attributes(self, instruction: Instruction, attributes: Sequence[Attribute]) -> None:
        for attribute in attributes:
            if attribute.name in CALLING_ATTRIBUTES:
                self._call(instruction, attribute.name, _REFERENCE.findall(attribute.value))

    def _call(self, instruction: Instruction, attribute: str, names: Sequence[str]) -> None:
        self.calls.extend(Call(instruction, attribute, name) for name in names)

    def _read_operands(self, instruction: Instruction, reader: LineReader, named: Named) -> None:
        """Operands that are not plain names of defined instructions: with shapes, elements, or unknown."""
        statement = ParsedInstruction(0, opcode=instruction.opcode)
        try:
            read_operands(reader.operands(instruction.index), statement, 0)
        except HloError as error:
            self.diagnostics.extend(() if self.is_full else error.diagnostics)
            return
        if any(operand.nested is not None or not operand.name for operand in statement.operands):
            raise NotLineStructured
        self._resolve(instruction, statement, named)

    def _instruction(
        self, computation: Computation, statement: ParsedInstruction, named: Named, instructions: list[Instruction]
    ) -> Instruction:
        """The instruction of a statement, appended after those nested in its operands."""
        for operand in statement.operands:
            if operand.nested is not None:
                operand.name = self._instruction(computation, operand.nested, named, instructions).name
        statement.name = statement.name or free_name(f"{statement.opcode}.anon", named, self.copies)
        text = InstructionText(
            tuple(statement.attributes),
            statement.argument,
            Span(statement.start, statement.end),
            statement.argument_span,
        )
        instruction = Instruction(
            statement.name, statement.shape, statement.opcode, (), computation, len(instructions), text
        )
        if statement.shape == UnknownShape():
            self.shapeless.append(instruction)
        self._resolve(instruction, statement, named)
        self._link_attributes(instruction, statement.attributes)
        self.callers.append(instruction)
        if statement.name in named:
            duplicate = f"duplicate instruction name {statement.name} in {computation.name}"
            message = f"{duplicate}; references resolve to the last one before them"
            self.notes.add("duplicate-name", message, Span(statement.start, statement.end))
        named[statement.name] = instruction
        instructions.append(instruction)
        self.suspects.append(instruction)
        return instruction

    def _resolve(self, instruction: Instruction, statement: ParsedInstruction, named: Named) -> None:
        operands = statement.operands
        if statement.elided:
            self.is_elided = True
            span = instruction.span or statement.opcode_span
            self.notes.add("elided", f"operands of {instruction.opcode} are omitted", span)
        found = [(named[operand.name], operand.elements) for operand in operands if operand.name in named]
        instruction.operands = tuple(operand for operand, _ in found)
        if any(elements for _, elements in found):
            self.elements.setdefault(instruction.computation, {})[instruction.index] = tuple(e for _, e in found)
            instruction.computation.operand_indices = self.elements[instruction.computation]
        for operand in operands:
            if operand.name not in named and operand.name not in self.failed:
                self._undefined(operand, instruction.computation, named)

    def _undefined(self, operand: ParsedOperand, computation: Computation, named: Named) -> None:
        if self.is_full:
            return
        close = nearest(operand.name, named)
        hint = defined_below(self.source, operand.name, operand.span.end)
        if hint is None and close is not None and (span := named[close].span) is not None:
            hint = f"did you mean '{close}' (line {self.source.position(span.start).line})?"
        what = f"undefined operand '{operand.name}'" if operand.name else "unnamed operand"
        self.report(f"{what} in {computation.name}".removesuffix(" in "), operand.span.start, operand.span.end, hint)


def _number(argument: str) -> int:
    argument = argument.strip()
    return int(argument) if argument.isdecimal() and len(argument) < 10 else 0
