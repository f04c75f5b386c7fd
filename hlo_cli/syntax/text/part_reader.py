"""Reads a part of a module: lines of computations, in a text that may begin and end anywhere."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, free_name
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Span, counted
from hlo_cli.syntax.scanning import error_recovery
from hlo_cli.syntax.scanning.attributes import read_attributes
from hlo_cli.syntax.scanning.scanner import STRING, Scanner
from hlo_cli.syntax.text.module_reader import ModuleReader, TooManyErrors
from hlo_cli.syntax.text.omitted_shapes import Infer
from hlo_cli.syntax.text.part_build import PartBuilder
from hlo_cli.syntax.text.part_shapes import infer_missing
from hlo_cli.syntax.text.parts import STATEMENT, WholeLines
from hlo_cli.syntax.values.header import SECTIONS, read_stack_tables

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
        head = error_recovery.next_computation(text, start, end)
        return len(text[:head].rstrip()) if head < end else end if start < end else -1

    def _note_end(self, computation: Computation, last: int, end: int | None = None) -> None:
        self._unclosed += 1
        if self._unclosed > error_recovery.MAX_ERRORS:
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
        part.shapeless = [each for each in part.shapeless if each.opcode != opcodes.PARAMETER]
        if part.missing:
            unknown = infer_missing(part.missing)
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
        entry = last if not any(each.is_entry for each in self.computations) else None
        headless = [computation for computation in self._headless if computation.instructions]
        for computation in headless:
            wanted = "entry_computation" if computation is entry else "computation"
            computation.name = free_name(wanted, taken, self.copies)
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
