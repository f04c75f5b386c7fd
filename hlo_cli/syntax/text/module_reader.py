"""How a text is read that is a module, a single instruction, or begins as a part of one.

Takes the fast path where the text provably allows it, the exact one elsewhere. Mirrors xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import NO_TEXT, Attribute, Computation, free_name
from hlo_cli.ir.module import PART_MARK, Findings, Module
from hlo_cli.ir.notation import unquote
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.scanning import error_help
from hlo_cli.syntax.scanning.attributes import read_attributes
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shape_reader import MAX_NESTING, read_shape
from hlo_cli.syntax.text.build import Builder, Infer, close_gate, infer_shapes, link_calls, nest_async_operands
from hlo_cli.syntax.text.instruction_lines import (
    Notes,
    NotLineStructured,
    ParsedBlock,
    ParsedInstruction,
    ParsedOperand,
    is_fully_split,
    read_operation,
    read_rows,
    read_statement,
)
from hlo_cli.syntax.values.attribute_values import SECTIONS, Header, parse_stack_tables, read_header, read_header_value

# --- headers of computations ---
# The headers of computations, and the beginning of a text: a module or a single instruction.
#
# Mirrors `ParseComputation` and the dispatch of `HloParserImpl::Run` of xla/hlo/parser/hlo_parser.cc.


_PARAMETERS = r"\((?:[^()\n\"']++|\((?:[^()\n\"']++|\((?:[^()\n\"']++|\([^()\n\"']*+\))*+\))*+\))*+\)"
HEAD = re.compile(
    r"[ \n]*+((ENTRY )?%?([A-Za-z_][A-Za-z0-9_.\-]*+) "
    rf"(?:{_PARAMETERS} -> (?:[^{{}}\n\"']++|\{{[^{{}}\n\"'=]*+\}})++)?\{{)(?=\n[ \t\n]*+[^0-9: \t\n])"
)
STARTS_HEADER = re.compile(r"(?i:HloModule)\b(?![ \t]*+=)")
STARTS_MODULE = re.compile(
    STARTS_HEADER.pattern + r"|ENTRY\b|%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t\n\r]*+(?:\{|\()",
)


def _read_head(scanner: Scanner) -> tuple[bool, str]:
    """Reads `ENTRY? name? (signature)? {` with any spacing."""
    is_entry = scanner.accept_word("ENTRY")
    if scanner.text[scanner.skip() : scanner.pos + 1] in (")", "]", "}"):
        raise scanner.error(f"unmatched '{scanner.text[scanner.pos]}'", scanner.pos)
    name = "" if scanner.at("{") or scanner.at("(") else scanner.name("the name of a computation")
    if scanner.at("("):
        scanner.balanced()
        scanner.expect("->", "after the parameters")
        read_shape(scanner)
    scanner.expect("{", "before the instructions")
    return is_entry, name


# --- a single instruction ---
# A single instruction, such as one pasted on a command line; its operands become parameters.
#
# Mirrors `HloParserImpl::ParseSingleInstruction` of xla/hlo/parser/hlo_parser.cc.


_NAMED_INSTRUCTION = lazy_regex(r"(?:ROOT[ \t\n\r]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t\n\r]*+=")


def _read_single_instruction(scanner: Scanner) -> list[ParsedInstruction]:
    """The instruction, as the root after one parameter for each operand that it names; a comma after it is ignored."""
    scanner.end = len(scanner.text.rstrip().removesuffix(","))
    statement = ParsedInstruction(scanner.skip(), is_root=True)
    if _NAMED_INSTRUCTION.match(scanner.text, scanner.pos):
        scanner.accept_word("ROOT")
        statement.name = scanner.name("the name of an instruction")
        scanner.expect("=", f"after '{statement.name}'")
    read_operation(scanner, statement)
    if not scanner.at_end():
        raise scanner.error("expected end of instruction")
    statement.name = statement.name or statement.opcode
    parameters: dict[str, ParsedInstruction] = {}
    _add_parameters(statement, parameters)
    return [*parameters.values(), statement]


def _add_parameters(statement: ParsedInstruction, parameters: dict[str, ParsedInstruction]) -> None:
    for operand in statement.operands:
        if operand.nested is not None:
            _add_parameters(operand.nested, parameters)
            continue
        operand.name = operand.name or f"_{len(parameters)}"
        if operand.name not in parameters:
            parameters[operand.name] = _parameter(operand, len(parameters))


def _parameter(operand: ParsedOperand, number: int) -> ParsedInstruction:
    return ParsedInstruction(
        operand.span.start,
        operand.name,
        shape=operand.shape or UnknownShape(),
        opcode=opcodes.PARAMETER,
        opcode_span=operand.span,
        argument=str(number),
        argument_span=Span(operand.span.start, operand.span.start),
        end=operand.span.end,
    )


# --- a module ---
# Reads a module's text: takes the fast path where the text provably allows it, and the exact one elsewhere.
#
# Mirrors `HloParserImpl::ParseHloModule` of xla/hlo/parser/hlo_parser.cc, but continues after errors, keeps unknown
# parts, and reports all of them.


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
        with suppress(TooManyErrors):  # what was read before is the module; the errors are noted in it
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
            if header.name and not self.computations and _CUT_TABLE.search(self.source.text):
                end = len(self.source.text)
                message = "unexpected end of input in the tables of stack frames, before the first computation"
                hint = "the file is truncated: copy or dump it again"
                raise HloError(message, Span(end - 1, end), source=self.source, hint=hint)
            diagnostics = diagnostics or [Diagnostic("error", "no instructions found", self.source, Span(0, 0))]
            raise HloError.of(map(self._told_of_the_end, diagnostics))
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
            read_header_value,
            is_part=self._is_part,
            is_truncated=self.builder.cut is self.computations[-1] or (not entries and _is_whole_program(header)),
            has_entry=bool(entries),
        )

    def _told_of_the_end(self, found: Diagnostic) -> Diagnostic:
        """The same, with a hint if nothing follows its place: the text of a module may have been cut there."""
        text = self.source.text
        is_last = found.span is not None and found.span.end >= len(text.rstrip()) and STARTS_MODULE.match(text)
        hint = "the text ends here; if it is truncated, copy or dump it again"
        return replace(found, hint=hint) if is_last and not found.hint else found

    def _read_header(self, scanner: Scanner) -> Header:
        if not STARTS_HEADER.match(scanner.text, scanner.pos):
            self.builder.is_open = True
            return Header("", ())
        start = scanner.skip()
        try:
            header = read_header(scanner)
            if not header.name:
                # the length of HloModule
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
            statements = _read_single_instruction(scanner)
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
            self.builder.lost.add(error_help.head_name(scanner.text, start))
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
            is_entry, name = _read_head(scanner)
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
        if end < 0:
            return False
        calls, diagnostics = len(self.builder.calls), len(self.builder.diagnostics)
        try:
            if not self.builder.from_body(computation, start, end):
                return False
        # what the rows have added is taken back: the scanner reads the computation from its begin
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
                    if not error_help.is_closed(self.source, opening - 1, scanner.end):
                        self._note_end(computation, start)
                    break
        return statements

    def _note_end(self, computation: Computation, last: int, end: int | None = None) -> None:
        self.builder.cut = computation
        end = len(self.source.text.rstrip()) if end is None else end
        self._note(error_help.unclosed(self.source, last, end, computation.name).diagnostics)

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

    def _free(self, base: str) -> str:
        name = free_name(base, self.names, self.copies)
        self.names.add(name)
        return name

    def _note(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.builder.diagnostics.extend(diagnostics)
        if len(self.builder.diagnostics) >= error_help.MAX_ERRORS:
            raise TooManyErrors

    def _resume_at_statement(self, scanner: Scanner, start: int, error: HloError) -> bool:
        """Moves to the next line that begins an instruction or ends the body; the failed one is recorded by name."""
        resume = error_help.next_statement(scanner.text, start, scanner.end)
        scanner.pos = scanner.end if resume is None else resume
        self.builder.failed |= error_help.unreadable_names(scanner.text, start, scanner.pos)
        self._note(error_help.within(error, scanner.text, start, scanner.pos))
        return resume is not None

    def _resume_at_computation(self, scanner: Scanner, start: int) -> None:
        scanner.pos = error_help.next_computation(scanner.text, max(start + 1, scanner.pos))


def _is_whole_program(header: Header) -> bool:
    """Whether the header describes an entry, so that a text without one is truncated."""
    return any(attribute.name == "entry_computation_layout" for attribute in header.attributes)


def _look_through(notes: Notes, module: Module) -> Findings:
    from hlo_cli.syntax.text.check import check_module  # compiling its expressions is slow

    with no_garbage_collection():
        return check_module(module, notes)


# --- how parts begin ---
# Parts of a module's text, as people paste them: how they begin, and the lines of them that are not whole.


_NAMED_TEXT: Final = r"(?:ROOT[ \t]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t]*+=(?!=)"
# what XLA prints after the brace that ends a computation
_THREAD: Final = r"(?:, execution_thread=\"[^\"\n]*+\")?+(?:, backend_config=[^\n]*+)?+"
STATEMENT = lazy_regex(_NAMED_TEXT)
"""The beginning of an instruction."""
_VALUE: Final = r"[ \t]*+(?:\(|[a-z][a-z0-9]*+\[|[a-z][a-z0-9\-]*+\()"
_LINE = lazy_regex(rf"[ \t]*+(?:{_NAMED_TEXT}{_VALUE}|\}}{_THREAD}[ \t]*+(?:\n|\Z))")
"""A line that begins an instruction or ends a computation."""
_NEXT_LINE = lazy_regex(rf"\n{_LINE.pattern}")
_STARTS_COMPUTATION: Final = r"ENTRY\b|%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t]*+(?:\{|\((?:\)[ \t]*+->|[%\w.\-]++[ \t]*+:))"
# `FileNames` and the other tables of stack frames, and their rows
_TABLE: Final = rf"(?:{'|'.join(SECTIONS)})[ \t]*+\n|[0-9]++[ \t]++[{{\"]"
_CUT_TABLE = lazy_regex(rf"\n(?:(?:{'|'.join(SECTIONS)})[ \t]*+\n?+|[0-9]++[ \t]*+(?:[{{\"][^\n]*+)?+\n?+)\Z")
"""The end of a text that is cut in a table of stack frames: in a row, or after one or the name of a table."""
_READABLE = lazy_regex(
    rf"[ \t]*+(?:/[/*]|{STARTS_HEADER.pattern}|{_TABLE}|(?:\}}[ \t]*+)?+(?:{_STARTS_COMPUTATION}))|{_LINE.pattern}"
)
"""A line that may begin a part."""
_AFTER_CUT = lazy_regex(rf"\n(?:[ \t]*+\n)*+(?:[ \t]*+(?:{_TABLE})|{_LINE.pattern})")
"""A line after an incomplete one."""
# a line that was cut before it tells whether it is a computation or an instruction
_CUT_HEAD = lazy_regex(r"ENTRY\b|(?:ROOT[ \t]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t]*+(?:\(|\Z)")
_COMMA = lazy_regex(rf",(?={_NEXT_LINE.pattern}|\Z)")
"""A comma between two instructions, as in a list."""
_ENTRY = lazy_regex(r"(?<![\w.\-%\"])ENTRY[ \t\n]")  # not the end of a name, nor in a string
_WORDS: Final = "snip|snipped|cut|elided|omitted|skipped|truncated|more|etc"
_ELIDED = lazy_regex(
    r"(?m)\n(?=[ \t]*+(?:(?://|#)[ \t]*+)?"
    r"(?:(?:\.\.|\u2026|\u22ee|\u22ef)[^=\n]*+|[.:]++[ \t]*+"
    rf"|{_NAMED_TEXT}[ \t]*+(?:[a-z][a-z0-9]*+\[[0-9,<=?]*+\](?:\{{[^}}\n]*+\}})?+[ \t]++)?+(?:\.\.|\u2026)[^\n]*+"
    rf"|[<\[(\-]++[ \t]*+(?:\.\.|\u2026|[0-9]*+[ ]?+(?:lines )?+(?:{_WORDS})\b)[^=\n]*+)$)"
)
"""The line break before a line that stands for omitted ones, such as `...`, `// ...`, or `[12 lines omitted]`, or
before an instruction without its opcode, such as `x = f32[2] ...`."""


@dataclass(frozen=True, slots=True)
class WholeLines:
    """The text of a part between line breaks, with incomplete lines as comments, and notes on those.

    `end` is the line break after the last line that is whole.
    """

    source: Source
    end: int
    notes: tuple[tuple[str, Span], ...]


def begins_as_part(text: str) -> bool:
    """Whether a text without a header begins with a computation, but is not a whole module; or was printed as a part.

    >>> begins_as_part("%f { ROOT a = f32[] parameter(0) }"), begins_as_part("ENTRY %e { a = f32[] parameter(0) }")
    (True, False)
    """
    start = Scanner(Source("", text)).skip()
    if STARTS_HEADER.match(text, start):
        return text.startswith(f"\n\n{PART_MARK}\n", text.find("\n", start))
    if not STARTS_MODULE.match(text, start):
        return False
    return _begins_cut(text, start) or not _ENTRY.search(text, start) or not _is_closed(text) or is_elided(text)


def is_several_lines(text: str) -> bool:
    """Whether a text that is not an instruction has lines of a computation, of which only the first may be incomplete.

    >>> is_several_lines("a = f32[] parameter(0)\\nb = f32[] negate(a)"), is_several_lines("step 1\\nstep 2")
    (True, False)
    """
    start = Scanner(Source("", text)).skip()
    if STATEMENT.match(text, start) or _READABLE.match(text, start):
        return _NEXT_LINE.search(text, start) is not None
    return _begins_cut(text, start)


def is_elided(text: str) -> bool:
    """Whether a line stands for omitted ones.

    >>> is_elided("a = f32[] parameter(0)\\n  ...\\n"), is_elided("c = f32[9] constant({...})")
    (True, False)
    """
    return _ELIDED.search(f"\n{text}") is not None


def whole_lines(source: Source) -> WholeLines:
    """The lines of a part; those omitted or incomplete become comments, which keeps the numbers of the lines.

    >>> whole_lines(Source("", "...\\na = f32[] parameter(0)\\nb = f32[] neg")).source.text
    '\\n// ...\\na = f32[] parameter(0)\\n// b = f32[] neg\\n'
    """
    notes: list[tuple[str, int]] = []
    text = "\n" + _COMMA.sub("", source.text.rstrip())
    if (match := _ELIDED.search(text)) is not None:
        text, count = _ELIDED.subn("\n// ", text)
        notes += [("lines are omitted in this text", match.start() + 1)] * count
    start = len(text) - len(text.lstrip())
    if _begins_cut(text, start):
        start = text.rfind("\n", 0, start) + 1
        text = f"{text[:start]}// {text[start:]}"
        notes.append(("skipped the first line, which is incomplete or not HLO", start))
    start = text.rfind("\n") + 1
    if start > 1 and _is_cut(text[start:]):
        text = f"{text[:start]}// {text[start:]}"
        notes.append(("skipped the last line, which is incomplete or not HLO", start))
    text += "\n"
    end = len(text) - 1
    while text.startswith("//", start := text.rfind("\n", 0, end) + 1) and start > 1:
        end = start - 1
    spans = tuple((message, Span(at, text.index("\n", at + 1))) for message, at in notes)
    return WholeLines(Source(source.name, text, source.first_line - 1), end, spans)


def _begins_cut(text: str, start: int) -> bool:
    """Whether the first line is incomplete: it begins nothing, and what follows are lines of a computation."""
    end = -1 if _READABLE.match(text, start) else text.find("\n", start)
    return end >= 0 and _AFTER_CUT.match(text, end) is not None


def _is_closed(text: str) -> bool:
    """Whether the last line ends a computation; approximate, as for braces in strings."""
    text = text.rstrip()
    last = text[text.rfind("\n") + 1 :].strip()
    return last.startswith("}") or (
        last.endswith("}") and (last.count("}") > last.count("{") or _ENTRY.search(last) is not None)
    )


def _is_cut(line: str) -> bool:
    """Whether a line begins an instruction, or the header of a computation, that it does not end."""
    indented = len(line) - len(line.lstrip())
    if not STATEMENT.match(line, indented):
        return "{" not in line and _CUT_HEAD.match(line, indented) is not None
    source = Source("", f"\n{line}\n")
    rows = read_rows(source, 0, len(line) + 1)
    if rows is not None and not rows[0][5]:
        return False
    scanner = Scanner(source)
    try:
        read_statement(scanner)
    except HloError as error:
        span = error.diagnostic.span
        return span is None or span.end >= len(line) or not scanner.text[span.end :].strip() or _is_open(error)
    return False


def _is_open(error: HloError) -> bool:
    return error.diagnostic.message.startswith("unclosed")
