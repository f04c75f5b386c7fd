"""Reads a part of a module: lines of computations, in a text that may begin and end anywhere."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.names import free_name
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Span, counted
from hlo_cli.syntax.scanning.attributes import read_attributes
from hlo_cli.syntax.scanning.scanner import STRING, Scanner
from hlo_cli.syntax.text.module_reader import ModuleReader
from hlo_cli.syntax.text.omitted_shapes import Infer
from hlo_cli.syntax.text.part_build import PartBuilder
from hlo_cli.syntax.text.part_shapes import infer_missing
from hlo_cli.syntax.text.parts import STATEMENT, WholeLines
from hlo_cli.syntax.values.header import SECTIONS, read_stack_tables

_TABLE_ROWS = lazy_regex(
    rf"(?:(?:{'|'.join(SECTIONS)})[ \t\r]*+\n\s*+|[0-9]++[ \t]++(?:{STRING}|\{{[^{{}}]*+\}})\s*+)++", re.DOTALL
)
"""Stack tables, which may lack their first lines."""


class PartReader(ModuleReader):
    """Reads a part of a module; `_headless` are the computations whose beginning is not in the text.

    The entry is the computation marked so, else the last one, as in modules.
    """

    def __init__(self, lines: WholeLines, infer: Infer | None) -> None:
        self._part = PartBuilder(lines.source)
        super().__init__(lines.source, infer, self._part)
        self._end = lines.end
        self._headless: list[Computation] = []
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
            with suppress(HloError):
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
        self._headless.append(computation)
        self.computations.append(computation)
        scanner.pos = scanner.text.rfind("\n", 0, start)
        if scanner.text[scanner.pos : start].strip() or not self._read_fast(scanner, computation):
            scanner.pos = start
            self._fill(computation, self._read_body(scanner, computation), 0)
        computation.span = Span(start, scanner.pos)

    def _read_fast(self, scanner: Scanner, computation: Computation) -> bool:
        is_closed = super()._body_end(scanner) >= 0
        is_read = super()._read_fast(scanner, computation)
        if is_read and not is_closed:
            scanner.pos = scanner.end
            self._note_end(computation, self._end)
        return is_read

    def _body_end(self, scanner: Scanner) -> int:
        end = super()._body_end(scanner)
        return self._end if end < 0 <= scanner.pos < self._end else end

    def _note_end(self, computation: Computation, last: int, end: int | None = None) -> None:
        if computation not in self._headless:
            end = len(self.source.text.rstrip()) if end is None else end
            message = f"the end of computation {computation.name} is not in this text"
            self._part.notes.add("part", message, Span(end - 1, end))

    def _link(self) -> None:
        self.computations = [computation for computation in self.computations if computation.instructions]
        self._name_headless()
        super()._link()
        part = self._part
        part.shapeless = [each for each in part.shapeless if each.opcode != opcodes.PARAMETER]
        if part.missing:
            unknown = infer_missing(part.missing)
            count = counted(len(part.missing), "operands")
            message = f"part of a module: {count} {_are(len(part.missing))} not in this text; read as parameters"
            message += f", {unknown:,} of unknown shape" if unknown else ""
            part.notes.add("part", message, part.missing[0].span or Span(0, 0))

    def _name_headless(self) -> None:
        """Names the computations without a beginning, as no other computation is named in the text."""
        taken = self.names.union(call.name for call in self._part.calls)
        for computation in [each for each in self._headless if each.instructions]:
            is_last = computation is self.computations[-1]
            is_entry = is_last and not any(each.is_entry for each in self.computations)
            computation.name = free_name("entry_computation" if is_entry else "computation", taken, self.copies)
            taken.add(computation.name)
            assert computation.span is not None
            start = computation.span.start
            message = f"the beginning of a computation is not in this text; generated the name {computation.name}"
            self._part.notes.add("part", message, Span(start, self.source.text.index("\n", start)))
        last = self.computations[-1:]
        if last and last[0] not in self._headless and not any(each.is_entry for each in self.computations):
            start = last[0].span.start if last[0].span is not None else 0
            message = f"no ENTRY computation; using the last one, {last[0].name}"
            self._part.notes.add("no-entry", message, Span(start, start + 1))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
