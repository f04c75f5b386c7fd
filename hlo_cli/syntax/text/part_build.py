"""Computations of which the text has only some lines: operands that it lacks become parameters of the computation."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.instruction import Computation, Instruction, InstructionText
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.source import Source, Span
from hlo_cli.syntax.text.build import Builder, Named
from hlo_cli.syntax.text.instruction_parser import ParsedInstruction, ParsedOperand
from hlo_cli.syntax.text.lines import LineReader, Row


class PartBuilder(Builder):
    """Builds the computations of a part of a module; `missing` are the operands that it lacks."""

    __slots__ = ("_defined", "_unnamed", "missing")

    def __init__(self, source: Source) -> None:
        super().__init__(source, is_open=True)
        self.missing: list[Instruction] = []
        self._defined: set[str] = set()
        self._unnamed = 0

    def from_rows(self, computation: Computation, rows: Sequence[Row], start: int, end: int) -> None:
        """Fills a computation with the rows between two offsets of the source."""
        self.made.clear()
        self._defined.clear()
        super().from_rows(computation, rows, start, end)

    def from_statements(self, computation: Computation, statements: Sequence[ParsedInstruction]) -> None:
        """Fills a computation with statements that were read one by one."""
        self.made.clear()
        self._unnamed = 0
        self._defined = {statement.name for statement in statements}
        super().from_statements(computation, statements)

    def _lines(self, start: int, end: int, rows: Sequence[Row]) -> LineReader:
        return PartLines(self.source, start, end, rows)

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
                taken = {index + len(made): each for index, each in self.elements[computation].items()}
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

    def __init__(self, source: Source, start: int, end: int, rows: Sequence[Row]) -> None:
        super().__init__(source, start, end, rows)
        self.shift = 0

    def whole(self) -> str:
        """All lines; empty if there are parameters without a line."""
        return "" if self.shift else super().whole()

    def tails(self) -> list[str]:
        """The text of each line after the first parenthesis followed by a comma; empty for the parameters."""
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
