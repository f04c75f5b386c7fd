"""What a part of a module means: lines of computations that may begin and end anywhere, with missing operands."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.instruction import Computation, Instruction, InstructionText, free_name
from hlo_cli.ir.operations import BINARY, OTHER_TYPE, UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, counted
from hlo_cli.syntax.scanning import error_help
from hlo_cli.syntax.scanning.attributes import read_attributes
from hlo_cli.syntax.scanning.scanner import STRING, Scanner
from hlo_cli.syntax.text.build import Builder, Infer, Named
from hlo_cli.syntax.text.instruction_lines import LineReader, ParsedInstruction, ParsedOperand
from hlo_cli.syntax.text.module_reader import STATEMENT, ModuleReader, TooManyErrors, WholeLines
from hlo_cli.syntax.values.attribute_values import SECTIONS, read_stack_tables

# --- shapes of missing operands ---
# Shapes of the operands that a part of a module lacks, where one of their users determines them.


_SAME_SHAPE: Final = (UNARY | BINARY) - OTHER_TYPE  # element-wise, so that any operand has the shape of the result
_SAME_POSITIONS: Final = {"clamp": (1,), opcodes.DYNAMIC_UPDATE_SLICE: (0,), opcodes.SELECT: (1, 2)}
"""The operands that have the shape of the result."""


def _infer_missing(missing: Iterable[Instruction]) -> int:
    """Sets the unknown shapes of parameters that stand for missing operands; returns the number that stay unknown.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ROOT t = (f32[2], s8[3]) tuple(a, b)\\n}")
    >>> [str(parameter.shape) for parameter in module.entry.parameters]
    ['f32[2]{0}', 's8[3]{0}']
    """
    unknown = {parameter for parameter in missing if parameter.shape == UnknownShape()}
    count = len(unknown)
    for computation in dict.fromkeys(parameter.computation for parameter in unknown):
        for instruction in computation.instructions:
            for position, operand in enumerate(instruction.operands):
                if operand not in unknown or instruction.operand_index(position):
                    continue
                shape = _operand_shape(instruction, position)
                if shape is not None and shape != UnknownShape():
                    operand.shape = shape
                    unknown.discard(operand)
                    count -= 1
    return count


def _operand_shape(user: Instruction, position: int) -> Shape | None:
    """The shape that an operand must have, or None if the instruction does not determine it."""
    opcode, shape, count = user.opcode, user.shape, len(user.operands)
    if opcode == opcodes.TUPLE:
        return shape.elements[position] if isinstance(shape, TupleShape) and len(shape.elements) == count else None
    if opcode in (opcodes.WHILE, opcodes.OPT_BARRIER):
        return shape
    if opcode in (opcodes.FUSION, opcodes.CALL) and len(user.called_computations) == 1:
        parameters = user.called_computations[0].parameters
        return parameters[position].shape if len(parameters) == count else None
    is_same = opcode in _SAME_SHAPE or position in _SAME_POSITIONS.get(opcode, ())
    if not is_same or not isinstance(shape, ArrayShape):
        return None
    return replace(shape, layout=replace(shape.layout, memory_space=0))


# --- lines to computations ---
# Computations of which the text has only some lines: operands that it lacks become parameters of the computation.


class PartBuilder(Builder):
    """Builds the computations of a part of a module; `missing` are the operands that it lacks."""

    __slots__ = ("_defined", "_unnamed", "missing")

    def __init__(self, source: Source) -> None:
        super().__init__(source, is_open=True)
        self.missing: list[Instruction] = []
        self._defined: set[str] = set()
        self._unnamed = 0

    def from_body(self, computation: Computation, start: int, end: int) -> bool:
        """Fills a computation with the lines between two offsets; false if they are not one instruction each."""
        self.made.clear()
        self._defined.clear()
        return super().from_body(computation, start, end)

    def from_statements(self, computation: Computation, statements: Sequence[ParsedInstruction]) -> None:
        """Fills a computation with statements that were read one by one."""
        self.made.clear()
        self._unnamed = 0
        self._defined = {statement.name for statement in statements}
        super().from_statements(computation, statements)

    def _lines(self, start: int, end: int, arguments: array[int], tails: array[int]) -> LineReader:
        return PartLines(self.source, start, end, arguments, tails)

    def _resolve(self, instruction: Instruction, statement: ParsedInstruction, named: Named) -> None:
        for operand in statement.operands:
            if not operand.name:
                operand.name = self._free_name(named)
            if operand.name not in named and operand.name not in self._defined:
                named[operand.name] = self._parameter(operand, instruction.computation)
        super()._resolve(instruction, statement, named)

    def _free_name(self, named: Named) -> str:
        while (name := f"_{self._unnamed}") in named or name in self._defined:
            self._unnamed += 1
        return name

    def _parameter(self, operand: ParsedOperand, computation: Computation) -> Instruction:
        shape = operand.shape or UnknownShape()
        parameter = Instruction(operand.name, shape, opcodes.PARAMETER, (), computation, 0)
        self.made[parameter] = operand.span
        return parameter

    def _finish(
        self,
        computation: Computation,
        instructions: list[Instruction],
        parameters: list[tuple[int, Instruction]],
        root: Instruction | None,
    ) -> None:
        """Inserts the parameters that were made, before all instructions and numbered after all other parameters."""
        if made := self.made:
            instructions = [instruction for instruction in instructions if instruction not in made]
            first = max((number for number, _ in parameters), default=-1) + 1
            for index, (parameter, span) in enumerate(made.items()):
                parameter.index = index
                text = InstructionText((), str(first + index), span, Span(span.start, span.start))
                parameter._text = text
                parameters.append((first + index, parameter))
            for instruction in instructions:
                instruction.index += len(made)
            if computation in self.elements:
                taken = {index + len(made): element for index, element in self.elements[computation].items()}
                computation.operand_indices = self.elements[computation] = taken
            if isinstance(computation.reader, PartLines):
                computation.reader.shift = len(made)
            instructions = [*made, *instructions]
            self.incomplete.add(computation)
            self.missing += made
        super()._finish(computation, instructions, parameters, root)


class PartLines(LineReader):
    """Reads the lines of a computation whose first `shift` instructions are parameters without a line."""

    __slots__ = ("shift",)

    def __init__(self, source: Source, start: int, end: int, arguments: array[int], tails: array[int]) -> None:
        super().__init__(source, start, end, arguments, tails)
        self.shift = 0

    def whole(self) -> str:
        """All lines; empty if there are parameters without a line."""
        return "" if self.shift else super().whole()

    def tails(self) -> list[str]:
        """The attributes on each line, each preceded by a comma; empty for the parameters."""
        return [*[""] * self.shift, *super().tails()]

    def span(self, index: int) -> Span:
        """The line without its indentation."""
        return super().span(index - self.shift)

    def metadata(self, instruction: Instruction) -> Metadata:
        """The metadata of the instruction on a line."""
        return NO_METADATA if instruction.index < self.shift else super().metadata(instruction)

    def _cut(self, index: int) -> tuple[int, int, int]:
        return super()._cut(index - self.shift)

    def _match(self, index: int) -> re.Match[str]:
        return super()._match(index - self.shift)


# --- reading a part ---
# Reads a part of a module: lines of computations, in a text that may begin and end anywhere.


_TABLE_ROWS = lazy_regex(
    rf"(?:(?:{'|'.join(SECTIONS)})[ \t\r]*+\n\s*+|[0-9]++[ \t]++(?:{STRING}|\{{[^{{}}]*+\}})\s*+)++", re.DOTALL
)
"""Stack tables, which may lack their first lines."""
_MOST_UNCLOSED: Final = 5
"""The most computations without an end before each line is read exactly, because the end of the next may be far."""
_MOST_NAMED: Final = 3
"""The most computations without a beginning that get a note each."""


class PartReader(ModuleReader):
    """Reads a part of a module; `_headless` are the computations whose beginning is not in the text.

    The entry is the computation marked so, else the last one, as in modules.
    """

    def __init__(self, lines: WholeLines, infer: Infer | None) -> None:
        self._part = PartBuilder(lines.source)
        super().__init__(lines.source, infer, self._part)
        self._end = lines.end
        self._last_brace = lines.source.text.rfind("\n}")
        self._unclosed = 0
        self._headless: dict[Computation, None] = {}
        for message, span in lines.notes:
            self._part.notes.add("part", message, span)

    @property
    def _is_part(self) -> bool:
        return True

    def _read_text(self, scanner: Scanner) -> None:
        self.header = self._read_header(scanner)
        if (match := _TABLE_ROWS.match(scanner.text, scanner.skip())) is not None:
            if not self.header.stack_tables and scanner.at(SECTIONS[0]):
                self.header = replace(self.header, stack_tables=read_stack_tables(scanner))
            else:
                self._part.notes.add("part", "skipped incomplete stack tables", Span(scanner.pos, match.end()))
            scanner.pos = match.end()
        self._read_computations(scanner)

    def _read_next(self, scanner: Scanner, match: re.Match[str] | None) -> None:
        if match is not None:
            super()._read_next(scanner, match)
        elif scanner.accept("}"):
            place = Span(scanner.pos - 1, scanner.pos)
            self._part.notes.add("part", "skipped a closing brace without a computation", place)
            with suppress(HloError):  # attributes of a computation whose begin is missing: nothing belongs to them
                read_attributes(scanner)
        elif STATEMENT.match(scanner.text, scanner.pos):
            start = scanner.pos
            try:
                self._read_headless(scanner)
            except HloError as error:
                self._note(error.diagnostics)
                self._resume_at_computation(scanner, start)
        else:
            super()._read_next(scanner, match)

    def _read_headless(self, scanner: Scanner) -> None:
        """Reads instructions up to a closing brace, the next computation, or the end."""
        computation, start = Computation(""), scanner.pos
        self._headless[computation] = None
        self.computations.append(computation)
        scanner.pos = scanner.text.rfind("\n", 0, start)
        if scanner.text[scanner.pos : start].strip() or not self._read_fast(scanner, computation):
            scanner.pos = start
            self._fill(computation, self._read_body(scanner, computation), 0)
        computation.span = Span(start, scanner.pos)

    def _read_fast(self, scanner: Scanner, computation: Computation) -> bool:
        if self._unclosed > _MOST_UNCLOSED:
            return False
        end = self._body_end(scanner)
        if not super()._read_fast(scanner, computation):
            return False
        if not scanner.text.startswith("\n}", end):
            scanner.pos = end
            self._note_end(computation, end, end)
        return True

    def _body_end(self, scanner: Scanner) -> int:
        """The line break before the closing brace, before the next computation, or after the last line."""
        text, start = scanner.text, scanner.pos
        closing = super()._body_end(scanner) if start <= self._last_brace else -1
        end = self._end if closing < 0 else closing
        head = error_help.next_computation(text, start, end)
        return len(text[:head].rstrip()) if head < end else end if start < end else -1

    def _note_end(self, computation: Computation, last: int, end: int | None = None) -> None:
        self._unclosed += 1
        if self._unclosed > error_help.MAX_ERRORS:
            self._part.report("too many computations have no end; skipped the rest", last, last + 1)
            raise TooManyErrors
        if computation not in self._headless:
            end = len(self.source.text.rstrip()) if end is None else end
            message = f"the end of computation {computation.name} is not in this text"
            self._part.notes.add("part", message, Span(end - 1, end))

    def _link(self) -> None:
        self.computations = [computation for computation in self.computations if computation.instructions]
        self._name_headless()
        super()._link()
        part = self._part
        part.shapeless = [instruction for instruction in part.shapeless if instruction.opcode != opcodes.PARAMETER]
        if part.missing:
            unknown = _infer_missing(part.missing)
            count = len(part.missing)
            words = (
                "is not in this text; read as a parameter" if count == 1 else "are not in this text; read as parameters"
            )
            message = f"part of a module: {counted(count, 'operands')} {words}"
            message += f", {unknown:,} of unknown shape" if unknown else ""
            part.notes.add("part", message, part.missing[0].span or Span(0, 0))

    def _name_headless(self) -> None:
        """Names the computations without a beginning, as no other computation is named in the text."""
        taken = self.names.union(call.name for call in self._part.calls)
        last = self.computations[-1] if self.computations else None
        entry = last if not any(computation.is_entry for computation in self.computations) else None
        headless = [computation for computation in self._headless if computation.instructions]
        for computation in headless:
            kind = "entry_computation" if computation is entry else "computation"
            computation.name = free_name(kind, taken, self.copies)
            taken.add(computation.name)
            if len(headless) <= _MOST_NAMED:
                message = f"the beginning of a computation is not in this text; generated the name {computation.name}"
                self._part.notes.add("part", message, self._first_line(computation))
        if len(headless) > _MOST_NAMED:
            message = f"the beginnings of {len(headless):,} computations are not in this text; generated names"
            self._part.notes.add("part", message, self._first_line(headless[0]))
        if entry is not None and entry not in self._headless:
            message = f"no ENTRY computation; using the last one, {entry.name}"
            self._part.notes.add("no-entry", message, self._first_line(entry))

    def _first_line(self, computation: Computation) -> Span:
        start = computation.span.start if computation.span is not None else 0
        return Span(start, self.source.text.find("\n", start))
