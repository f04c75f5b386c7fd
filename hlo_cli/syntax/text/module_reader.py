"""Reads a module's text: takes the fast path where the text provably allows it, and the exact one elsewhere.

Mirrors `HloParserImpl::ParseHloModule` of xla/hlo/parser/hlo_parser.cc, but continues after errors, keeps unknown
parts, and reports all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import NO_TEXT, Attribute, Computation, free_name
from hlo_cli.ir.module import Findings, Module
from hlo_cli.ir.notation import unquote
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.scanning import error_recovery
from hlo_cli.syntax.scanning.attributes import read_attributes
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shapes import MAX_NESTING
from hlo_cli.syntax.text.build import Builder
from hlo_cli.syntax.text.computation_header import HEAD, STARTS_HEADER, STARTS_MODULE, read_head
from hlo_cli.syntax.text.gate import close_gate
from hlo_cli.syntax.text.instruction_parser import ParsedBlock, ParsedInstruction, read_statement
from hlo_cli.syntax.text.lines import NotLineStructured, is_fully_split, read_rows
from hlo_cli.syntax.text.link import link_calls
from hlo_cli.syntax.text.notes import Notes
from hlo_cli.syntax.text.omitted_shapes import Infer, infer_shapes, nest_async_operands
from hlo_cli.syntax.text.single_instruction import read_single_instruction
from hlo_cli.syntax.values.header import Header, parse_stack_tables, read_header, typed_header_value


class TooManyErrors(Exception):
    """Reading stops at a number of errors."""


class ModuleReader:
    """Reads one module; its state is what has been read so far."""

    def __init__(self, source: Source, infer: Infer | None, builder: Builder | None = None) -> None:
        self.source = source
        self.infer = infer
        self.builder = builder or Builder(source)
        self.header = Header("", ())
        self.computations: list[Computation] = []
        self.names: set[str] = set()
        self.copies: dict[str, int] = {}

    def read(self) -> Module:
        """The module; HloError for a text without an instruction."""
        scanner = Scanner(self.source)
        if scanner.at_end():
            raise HloError("empty input", Span(0, 0), source=self.source)
        with suppress(TooManyErrors):
            self._read_text(scanner)
        return self._module(self.header)

    def _read_text(self, scanner: Scanner) -> None:
        if not STARTS_MODULE.match(scanner.text, scanner.pos):
            self._read_single(scanner)
        else:
            self.header = self._read_header(scanner)
            self._read_computations(scanner)

    def _link(self) -> None:
        """Resolves the calls, once all computations have been read."""
        link_calls(self.builder, self.computations)

    @property
    def _is_part(self) -> bool:
        """Whether the text lacks computations that are called, or, a single instruction, shapes of its operands."""
        shapes = (parameter.shape for parameter in self.computations[0].parameters if self.builder.is_single)
        return bool(self.builder.unresolved) or UnknownShape() in shapes

    def _module(self, header: Header) -> Module:
        self._link()
        if self.infer is not None:
            infer_shapes(self.builder, self.infer)
        nest_async_operands(self.builder, self.computations)
        if not any(computation.instructions for computation in self.computations):
            diagnostics = self.builder.diagnostics
            raise HloError.of(diagnostics or [Diagnostic("error", "no instructions found", self.source, Span(0, 0))])
        close_gate(self.builder, self.computations)
        entries = [computation for computation in self.computations if computation.is_entry]
        entry = entries[0] if entries else self.computations[-1]
        entry.is_entry = True
        return Module(
            header.name or f"module_{entry.name}",
            tuple(self.computations),
            entry,
            self.source,
            header.attributes,
            header.is_scheduled,
            header.stack_tables,
            parse_stack_tables,
            tuple(self.builder.diagnostics),
            partial(_look_through, self.builder.notes),
            is_fully_split,
            typed_header_value,
            is_part=self._is_part,
            is_truncated=self.builder.cut is self.computations[-1] or (not entries and _is_whole_program(header)),
            has_entry=bool(entries),
        )

    def _read_header(self, scanner: Scanner) -> Header:
        if not STARTS_HEADER.match(scanner.text, scanner.pos):
            self.builder.is_open = True
            return Header("", ())
        start = scanner.skip()
        try:
            header = read_header(scanner)
            if not header.name:
                self.builder.notes.add("nameless", "unnamed module; generated a name", Span(start, start + 9))
            return header
        except HloError as error:
            self._note(error.diagnostics)
            self._resume_at_computation(scanner, start)
            return Header("", ())

    def _read_single(self, scanner: Scanner) -> None:
        self.builder.is_single = self.builder.is_open = True
        computation = Computation("entry_computation", is_entry=True)
        self.computations.append(computation)
        try:
            statements = read_single_instruction(scanner)
        except HloError as error:
            self._note(error.diagnostics)
            return
        self._fill(computation, statements, 0)
        shapeless = self.builder.shapeless  # parameters made for operands may stay so
        self.builder.shapeless = [instruction for instruction in shapeless if instruction.opcode != "parameter"]

    def _read_computations(self, scanner: Scanner) -> None:
        while (match := HEAD.match(scanner.text, scanner.pos)) is not None or not scanner.at_end():
            self._read_next(scanner, match)

    def _read_next(self, scanner: Scanner, match: re.Match[str] | None) -> None:
        """Reads a computation; after an error, reading continues at the next one."""
        start = scanner.pos
        try:
            self._read_computation(scanner, match)
        except HloError as error:
            self.builder.lost.add(error_recovery.head_name(scanner.text, start))
            self._note(error.diagnostics)
            self._resume_at_computation(scanner, start)

    def _read_computation(self, scanner: Scanner, match: re.Match[str] | None) -> None:
        """Reads the computation whose header was matched, or the next other one, or an attribute of the last one."""
        if match is not None:
            start, scanner.pos = match.start(1), match.end()
            is_entry, name = match[2] is not None, match[3]
        elif self.computations and scanner.at(","):
            for attribute in read_attributes(scanner):
                self._computation_attribute(self.computations[-1], attribute)
            return
        else:
            start = scanner.skip()
            is_entry, name = read_head(scanner)
        if not name or name in self.names:
            self._note_name(name, Span(start, scanner.pos))
        computation = Computation(self._free(name or "computation"), is_entry=is_entry)
        self.computations.append(computation)
        if match is None or not self._read_fast(scanner, computation):
            self._fill(computation, self._read_body(scanner, computation), 0)
        computation.span = Span(start, scanner.pos)

    def _note_name(self, name: str, head: Span) -> None:
        if not name:
            self.builder.nameless = True
            self.builder.notes.add("nameless", "unnamed computation; generated a name", head)
        else:
            message = f"duplicate computation name {name}; references resolve to the first"
            self.builder.notes.add("duplicate-name", message, head)

    def _computation_attribute(self, computation: Computation, attribute: Attribute) -> None:
        if attribute.name == "execution_thread":
            computation.execution_thread = unquote(attribute.value)
        elif attribute.name == "backend_config":
            computation.backend_config = unquote(attribute.value) if attribute.value[:1] == '"' else attribute.value
        elif attribute.span is not None:
            message = f"unknown computation attribute {attribute.name}"
            self.builder.report(message, attribute.span.start, attribute.span.end)

    def _read_fast(self, scanner: Scanner, computation: Computation) -> bool:
        start, end = scanner.pos, self._body_end(scanner)
        rows = read_rows(self.source, start, end) if end >= 0 else None
        if rows is None:
            return False
        calls, diagnostics = len(self.builder.calls), len(self.builder.diagnostics)
        try:
            self.builder.from_rows(computation, rows, start, end)
        except NotLineStructured:
            del self.builder.calls[calls:], self.builder.diagnostics[diagnostics:]
            computation.reader = NO_TEXT
            return False
        scanner.pos = end + 2
        return True

    def _body_end(self, scanner: Scanner) -> int:
        """The line break before the closing brace of a body; negative if there is none."""
        return scanner.text.find("\n}", scanner.pos, scanner.end)

    def _read_body(self, scanner: Scanner, computation: Computation) -> list[ParsedInstruction]:
        """The statements up to the closing brace, which the scanner moves over."""
        statements: list[ParsedInstruction] = []
        opening = start = scanner.pos
        while not scanner.accept("}"):
            if scanner.at_end():
                self._note_end(computation, start)
                break
            if HEAD.match(scanner.text, scanner.pos) is not None:
                self._note_end(computation, start, len(scanner.text[: scanner.pos].rstrip()))
                break
            start = scanner.pos
            try:
                statements.append(read_statement(scanner))
            except HloError as error:
                if not self._resume_at_statement(scanner, start, error):
                    if not error_recovery.is_closed(self.source, opening - 1, scanner.end):
                        self._note_end(computation, start)
                    break
        return statements

    def _note_end(self, computation: Computation, last: int, end: int | None = None) -> None:
        self.builder.cut = computation
        end = len(self.source.text.rstrip()) if end is None else end
        self._note(error_recovery.unclosed(self.source, last, end, computation.name).diagnostics)

    def _fill(self, computation: Computation, statements: list[ParsedInstruction], depth: int) -> None:
        for statement in statements:
            for attribute, blocks in statement.blocks.items():
                self._read_blocks(statement, attribute, blocks, depth + 1)
        self.builder.from_statements(computation, statements)

    def _read_blocks(
        self, statement: ParsedInstruction, attribute: str, blocks: Sequence[ParsedBlock], depth: int
    ) -> None:
        """Inline bodies become computations of their own, before their caller; names replace them.

        The `depth` callers of nested bodies are at the end, the innermost first.
        """
        if depth > MAX_NESTING:
            raise HloError(
                "bodies are nested too deeply", Span(blocks[0].start, blocks[0].start + 1), source=self.source
            )
        names = []
        for block in blocks:
            if block.name:
                names.append(f"%{block.name}")
                continue
            body = Computation(self._free(f"{statement.name}.{attribute}"), span=Span(block.start, block.end))
            names.append(f"%{body.name}")
            self.computations.insert(-depth, body)
            scanner = Scanner(self.source, block.start + 1, block.end)
            self._fill(body, self._read_body(scanner, body), depth)
        value = (
            names[0] if len(names) == 1 and not attribute.endswith("_computations") else "{" + ", ".join(names) + "}"
        )
        statement.attributes = [
            Attribute(a.name, value, a.span) if a.name == attribute else a for a in statement.attributes
        ]

    def _free(self, wanted: str) -> str:
        name = free_name(wanted, self.names, self.copies)
        self.names.add(name)
        return name

    def _note(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.builder.diagnostics.extend(diagnostics)
        if len(self.builder.diagnostics) >= error_recovery.MAX_ERRORS:
            raise TooManyErrors

    def _resume_at_statement(self, scanner: Scanner, start: int, error: HloError) -> bool:
        """Moves to the next line that begins an instruction or ends the body; the failed one is recorded by name."""
        resume = error_recovery.next_statement(scanner.text, start, scanner.end)
        scanner.pos = scanner.end if resume is None else resume
        self.builder.failed |= error_recovery.unreadable_names(scanner.text, start, scanner.pos)
        self._note(error_recovery.within(error, scanner.text, start, scanner.pos))
        return resume is not None

    def _resume_at_computation(self, scanner: Scanner, start: int) -> None:
        scanner.pos = error_recovery.next_computation(scanner.text, max(start + 1, scanner.pos))


def _is_whole_program(header: Header) -> bool:
    """Whether the header describes an entry, so that a text without one is truncated."""
    return any(attribute.name == "entry_computation_layout" for attribute in header.attributes)


def _look_through(notes: Notes, module: Module) -> Findings:
    from hlo_cli.syntax.text.check import check_module  # compiling its expressions is slow

    with no_garbage_collection():
        return check_module(module, notes)
