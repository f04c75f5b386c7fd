"""What a line of a computation says: by one regular expression where it is provably enough, else token by token."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.attributes.value_types import AttributeValue, Literal
from hlo_cli.ir.instruction import Attribute, Instruction, InstructionText, Pairs
from hlo_cli.ir.operations import ARGUMENT_OPCODES, CALLING_ATTRIBUTES, is_known
from hlo_cli.ir.shape import Shape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.literal_reading import literal_at
from hlo_cli.syntax.scanning.attributes import (
    expect_no_attribute,
    one_line,
    read_attribute,
    readable_attributes,
    split_attributes,
)
from hlo_cli.syntax.scanning.error_help import FORM
from hlo_cli.syntax.scanning.scanner import SPACE, Scanner
from hlo_cli.syntax.scanning.shape_reader import MAX_NESTING, listed, read_shape
from hlo_cli.syntax.values.attribute_values import parse_metadata, read_attribute_value

if TYPE_CHECKING:
    from hlo_cli.ir.module import Module


# --- notes on a text ---
# One for each distinct problem, with its count and its first span, up to a limit.


MAX_NOTES: Final = 1000
"""The most distinct problems; further ones are only counted."""

_LONGEST: Final = 300
"""The most characters of a note; names and shapes may have any length."""

_MOST_HINTS: Final = 100
"""The most notes with suggestions, as finding them is slow."""


def _no_hint() -> None:
    return None


@dataclass(slots=True)
class Notes:
    """Collects notes on one source.

    >>> notes = Notes(Source("m.hlo", "frob"))
    >>> notes.add("opcode", "unknown opcode frob", Span(0, 4))
    >>> notes.add("opcode", "unknown opcode frob", Span(9, 13))
    >>> [note.message for note in notes.diagnostics()]
    ['unknown opcode frob (2 times)']
    """

    source: Source
    _seen: dict[tuple[str, str], tuple[Span, int]] = field(default_factory=dict)
    _hints: dict[tuple[str, str], str] = field(default_factory=dict)
    _unseen: tuple[Span, int] | None = None

    def add(
        self, code: str, message: str, span: Span, times: int = 1, *, hint: Callable[[], str | None] = _no_hint
    ) -> None:
        """Counts a problem; the span of the first one is kept. Only the first few problems get their hint."""
        if len(message) > _LONGEST:
            message = message[:_LONGEST] + "…"
        if len(self._seen) >= MAX_NOTES and (code, message) not in self._seen:
            first, before = self._unseen or (span, 0)
            self._unseen = first, before + times
            return
        if (code, message) not in self._seen and len(self._seen) < _MOST_HINTS and (meant := hint()) is not None:
            self._hints[code, message] = meant
        first, before = self._seen.get((code, message), (span, 0))
        self._seen[code, message] = first, before + times

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """A diagnostic for each distinct problem, in the order of the text."""
        diagnostics = [
            Diagnostic("note", _times(message, times), self.source, span, self._hints.get((code, message)), code)
            for (code, message), (span, times) in self._seen.items()
        ]
        if self._unseen is not None:
            span, times = self._unseen
            message = f"showing {MAX_NOTES:,} distinct notes; {times:,} more omitted"
            diagnostics.append(Diagnostic("note", message, self.source, span, code="left-out"))
        return tuple(sorted(diagnostics, key=lambda note: note.span.start if note.span else 0))


def _times(message: str, times: int) -> str:
    return f"{message} ({times} times)" if times > 1 else message


# --- the fast path ---
# All instructions of a computation matched by one regular expression.
#
# The expression matches whole lines whose strings and operands close on the line. If there are as many matches as
# lines, the body has been read without a gap; if not, the exact path reads it.


Row = tuple[str, str, str, str, str, str]
"""ROOT or nothing, name, shape, opcode, operands, and the attributes with their leading comma."""

_QUOTED: Final = r"(?:\"[^\"\\\n]*+(?:\\[^\n][^\"\\\n]*+)*+\"|'[^'\\\n]*+(?:\\[^\n][^'\\\n]*+)*+')"


class NotLineStructured(Exception):
    """A body that looks like rows contains something that only the exact path reads."""


def _nested(depth: int) -> str:
    """The pattern of text between parentheses that close on the same line, up to a depth."""
    plain = r"[^()\"'\n]*+"
    inner = plain
    for _ in range(depth):
        inner = rf"{plain}(?:\({inner}\){plain})*+"
    return inner


_SHAPE: Final = r"(?:b\()?+[^( {=\"'\n]++(?:\{[^ \"'\n]*+)?+|\((?>[^\"'\n]*?\)(?=[ ][a-z][a-z0-9\-]*+\())"
# shapes and comments nest; what nests deeper than five levels is left to the exact path
_OPERANDS: Final = rf"[^()\"'\n]*+(?=\))|{_nested(5)}"
_LINE: Final = rf"\n[ ]*+(ROOT[ ])?%?([A-Za-z0-9_.\-]++)[ ]=[ ]({_SHAPE})[ ]([a-z][a-z0-9\-]*+)\(({_OPERANDS})\)"
_ROW: Final = lazy_regex(rf"{_LINE}((?:,[^\"'\n]*+(?:{_QUOTED}[^\"'\n]*+)*+)?+)(?=\n)")
# 0.6 of the time of `_ROW` (measured); nearly all bodies have neither escapes nor single quotes
_ROW_WITHOUT_ESCAPES: Final = re.compile(rf"{_LINE}((?:,.*+)?+)(?=\n)")


def read_rows(source: Source, start: int, end: int) -> list[Row] | None:
    """The instructions between two offsets, or None if the lines are not provably one instruction each.

    `start` is before the line break of the first line, `end` at the line break before the closing brace. The
    caller must still check for unclosed braces where an instruction may have an inline body.
    """
    text = source.text
    if text.find("\\", start, end) < 0 and text.find("'", start, end) < 0:
        rows: list[Row] = _ROW_WITHOUT_ESCAPES.findall(text, start, end + 1)
        # a line with an odd number of quotes: a string goes over the line, and rows are not lines
        if 1 in [row[5].count('"') & 1 for row in rows]:
            return None
    else:
        rows = _ROW.findall(text, start, end + 1)
    if not rows or len(rows) != text.count("\n", start, end):  # the proof: as many matches as lines
        return None
    if rows[-1][5].count("{") != rows[-1][5].count("}"):  # the brace that ends the body may belong to a dictionary
        return None
    return rows


_METADATA: Final = "metadata="
_BRACED: Final = lazy_regex(rf"\{{[^{{}}\"'\n]*+(?:{_QUOTED}[^{{}}\"'\n]*+)*+\}}")


class LineReader:
    """Reads the instructions of a body that `read_rows` has proved to have one instruction per line."""

    __slots__ = ("_arguments", "_breaks", "_end", "_last", "_pairs", "_raw", "_read", "_source", "_start", "_tails")

    def __init__(self, source: Source, start: int, end: int, arguments: array[int], tails: array[int]) -> None:
        self._source = source
        self._start = start
        self._end = end
        # the lengths of arguments, 0 for opcodes without one, and of what follows the operands
        self._arguments = arguments
        self._tails = tails
        self._breaks: array[int] | None = None
        self._last: tuple[Instruction, Metadata] | None = None
        self._raw: tuple[int, tuple[str, str]] | None = None
        self._pairs: tuple[int, Pairs] | None = None
        self._read: tuple[int, InstructionText] | None = None

    def whole(self) -> str:
        """All lines, each of which is one instruction."""
        return self._source.text[self._start : self._end]

    def read(self, index: int) -> InstructionText:
        """Attributes and argument of the instruction on a line; the last one is kept."""
        if self._read is None or self._read[0] != index:
            start, close, end = self._cut(index)
            argument = self._source.text[start:close]
            self._read = index, InstructionText(self._attributes(close + 1, end), argument, self.span(index))
        return self._read[1]

    def raw(self, index: int) -> tuple[str, str]:
        """The argument and the attributes of the instruction on a line, as written; those of the last one are kept."""
        if self._raw is None or self._raw[0] != index:
            start, close, end = self._cut(index)
            text = self._source.text
            self._raw = index, (text[start:close] if start < close else "", text[close + 1 : end].rstrip())
        return self._raw[1]

    def pairs(self, index: int) -> Pairs:
        """The attributes without their spans."""
        if self._pairs is None or self._pairs[0] != index:
            pairs = split_attributes(self.raw(index)[1])
            if pairs is None:
                pairs = [(attribute.name, attribute.value) for attribute in self.read(index).attributes]
            self._pairs = index, pairs
        return self._pairs[1]

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""
        return read_attribute_value(opcode, attribute, text)

    def span(self, index: int) -> Span:
        """The line without its indentation."""
        text, breaks = self._source.text, self._breaks or self._line_breaks()
        start = breaks[index] + 1
        while text[start] == " ":
            start += 1
        return Span(start, breaks[index + 1])

    def operands(self, index: int) -> Scanner:
        """A scanner before the parenthesis that opens the operands."""
        match = self._match(index)
        return Scanner(self._source, match.start(5) - 1, match.end(5) + 1)

    def tails(self) -> list[str]:
        """The attributes on each line as written, each preceded by a comma."""
        lines = self._source.text[self._start + 1 : self._end].split("\n")
        return [line[-length:] if length else "" for line, length in zip(lines, self._tails, strict=True)]

    def tail(self, index: int) -> Scanner:
        """A scanner before the attributes, limited to them."""
        _, close, end = self._cut(index)
        return Scanner(self._source, close + 1, end)

    def metadata(self, instruction: Instruction) -> Metadata:
        """The metadata of the instruction on a line, without reading its other attributes."""
        if self._last is None or self._last[0] is not instruction:
            self._last = instruction, self._metadata(instruction)
        return self._last[1]

    def literal(self, instruction: Instruction) -> Literal:
        """The values of the constant on a line."""
        return literal_at(self._source, Span(*self._match(instruction.index).span(5)), instruction.shape)

    def _metadata(self, instruction: Instruction) -> Metadata:
        text, (_, start, end) = self._source.text, self._cut(instruction.index)
        at = text.find(_METADATA, start, end)
        if at < 0:
            return NO_METADATA
        # `metadata=` may also be the text of a string or a field of a dictionary
        plain = text.startswith(", ", at - 2) and (at - 3 == start or _is_outside(text, start, at))
        if plain and (value := _BRACED.match(text, at + len(_METADATA))) is not None:
            return parse_metadata(value[0])
        written = instruction.attribute("metadata")
        return NO_METADATA if written is None else parse_metadata(written)

    def _attributes(self, start: int, end: int) -> tuple[Attribute, ...]:
        pairs = split_attributes(self._source.text[start:end])
        if pairs is None:
            return readable_attributes(Scanner(self._source, start, end))
        attributes, at = [], start
        for name, value in pairs:
            start = at + len(name) + len(", =")
            at = start + len(value)
            attributes.append(Attribute(name, value, Span(start, at)))
        return tuple(attributes)

    def _cut(self, index: int) -> tuple[int, int, int]:
        """The start of the argument on a line, its closing parenthesis, and the end of the line.

        The argument of an opcode without one is empty.
        """
        end = (self._breaks or self._line_breaks())[index + 1]
        close = end - self._tails[index] - 1
        return close - self._arguments[index], close, end

    def _match(self, index: int) -> re.Match[str]:
        match = _ROW.match(self._source.text, (self._breaks or self._line_breaks())[index])
        assert match is not None
        return match

    def _line_breaks(self) -> array[int]:
        """The line break before each line, and the one after the last."""
        text, end = self._source.text, self._end
        self._breaks = breaks = array("Q")
        at = text.find("\n", self._start, end)
        while at >= 0:
            breaks.append(at)
            at = text.find("\n", at + 1, end)
        breaks.append(end)
        return breaks


def is_fully_split(module: Module) -> bool:
    """Whether the attributes of all lines split without a gap, so that there is no error in them.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m\\n\\nENTRY e {\\n  ROOT p = f32[] parameter(0), sharding={replicated}\\n}\\n"
    >>> is_fully_split(parse_module(text)), is_fully_split(parse_module(text.replace("d}", "d},")))
    (True, False)
    """
    tails: set[str] = set()
    for computation in module.computations:
        if isinstance(computation.reader, LineReader):
            tails.update(computation.reader.tails())
    return all(split_attributes(tail) is not None for tail in tails)


def _is_outside(text: str, start: int, at: int) -> bool:
    """Whether no string and no brace that opens after `start` is still open at `at`."""
    if text.find("\\", start, at) >= 0 or text.find("'", start, at) >= 0:
        return False
    quotes = text.count('"', start, at)
    return quotes % 2 == 0 and text.count("{", start, at) == text.count("}", start, at)


# --- the exact path ---
# One instruction read token by token, with any spacing, comments, and nesting.
#
# Mirrors `ParseInstruction` and `ParseOperands` of xla/hlo/parser/hlo_parser.cc.


_SHAPE_STARTS = lazy_regex(rf"[a-z][a-z0-9]*+{SPACE}\[|\(|b{SPACE}\(")  # `b(` is a buffer
_OPCODE = lazy_regex(rf"([A-Za-z][A-Za-z0-9_\-]*+){SPACE}\(")
_ELEMENT = re.compile(r"#([0-9]++)")
# `...(+12)`, as XLA prints with compact_operands; `...` is a person's
_ELIDED = re.compile(r"\.\.\.[ ]*+(?:\(\+[0-9]++\))?")
_REFERENCES = lazy_regex(rf"\{{{SPACE}(?:\}}|%?[A-Za-z_][A-Za-z0-9_.\-]*+{SPACE}[,}}])")

LIST_ATTRIBUTES = frozenset(("branch_computations", "called_computations", "calls"))
"""Attributes that may name several computations."""


@dataclass(slots=True)
class ParsedOperand:
    """One operand as written: a name, with the selected elements, or a nested instruction; its shape if given."""

    span: Span
    name: str = ""
    elements: tuple[int, ...] = ()
    shape: Shape | None = None
    nested: ParsedInstruction | None = None


@dataclass(slots=True)
class ParsedInstruction:
    """One instruction as written. `blocks` are the inline computation bodies, by attribute."""

    start: int
    name: str = ""
    is_root: bool = False
    shape: Shape = field(default_factory=UnknownShape)
    opcode: str = ""
    opcode_span: Span = field(default_factory=lambda: Span(0, 0))
    operands: list[ParsedOperand] = field(default_factory=list)
    argument: str = ""
    argument_span: Span = field(default_factory=lambda: Span(0, 0))
    elided: bool = False
    attributes: list[Attribute] = field(default_factory=list)
    blocks: dict[str, Sequence[ParsedBlock]] = field(default_factory=dict)
    end: int = 0


@dataclass(slots=True)
class ParsedBlock:
    """An inline computation, such as `{ a = f32[] parameter(0) … }`: the span of its braces.

    In a list of computations it may also be the `name` of one defined elsewhere.
    """

    start: int
    end: int
    name: str = ""


def read_statement(scanner: Scanner) -> ParsedInstruction:
    """The instruction that comes next, with `name =` in front."""
    statement = ParsedInstruction(scanner.skip())
    statement.is_root = scanner.accept_word("ROOT")
    if scanner.text[scanner.skip() : scanner.pos + 1] in (")", "]"):
        raise scanner.error(f"unmatched '{scanner.text[scanner.pos]}'", scanner.pos)
    statement.name = scanner.name("the name of an instruction")
    scanner.expect("=", f"after '{statement.name}'", hint=FORM)
    read_operation(scanner, statement)
    return statement


def read_operation(scanner: Scanner, statement: ParsedInstruction) -> None:
    """Reads the text after `name =`: shape, opcode, operands, attributes."""
    _read_shaped_operation(scanner, statement, 0)
    while scanner.accept(","):
        attribute = read_attribute(scanner)
        statement.attributes.append(attribute)
        if attribute.name in CALLING_ATTRIBUTES and attribute.value.startswith("{"):
            _find_blocks(scanner, statement, attribute)
        statement.end = scanner.pos
    expect_no_attribute(scanner)


def _read_shaped_operation(scanner: Scanner, statement: ParsedInstruction, depth: int) -> None:
    """Reads shape, opcode, and operands; the shape may be omitted."""
    if _SHAPE_STARTS.match(scanner.text, scanner.skip(), scanner.end):
        statement.shape = read_shape(scanner)
    match = _OPCODE.match(scanner.text, scanner.skip(), scanner.end)
    if match is None:
        raise scanner.error("expected an opcode and '('", hint=FORM)
    statement.opcode, statement.opcode_span = match[1], Span(*match.span(1))
    scanner.pos = match.end() - 1
    read_operands(scanner, statement, depth)
    statement.end = scanner.pos


def read_operands(scanner: Scanner, statement: ParsedInstruction, depth: int) -> None:
    """Reads the text between the parentheses; kept as text for opcodes without operands."""
    if statement.opcode in ARGUMENT_OPCODES:
        _read_argument(scanner, statement)
        return
    start = scanner.pos
    try:
        _read_operand_list(scanner, statement, depth)
    except HloError:
        if is_known(statement.opcode):  # the operands of an opcode of a newer XLA may have a form of their own
            raise
        scanner.pos, statement.operands = start, []
        _read_argument(scanner, statement)


def _read_argument(scanner: Scanner, statement: ParsedInstruction) -> None:
    start, end = scanner.balanced()
    statement.argument = one_line(scanner.text[start + 1 : end - 1])
    statement.argument_span = Span(start + 1, end - 1)


def _read_operand_list(scanner: Scanner, statement: ParsedInstruction, depth: int) -> None:
    if depth > MAX_NESTING:
        raise scanner.error(f"operands are nested too deeply (limit {MAX_NESTING})")
    scanner.expect("(", "before the operands")
    while not scanner.at(")"):
        if scanner.at("..."):
            _skip_elided(scanner, statement)
        elif scanner.at(","):
            statement.elided = True
        else:
            statement.operands.append(_read_operand(scanner, depth))
        if not scanner.accept(","):
            break
    scanner.expect(")", "or a comma after an operand")


def _skip_elided(scanner: Scanner, statement: ParsedInstruction) -> None:
    match = _ELIDED.match(scanner.text, scanner.skip(), scanner.end)
    assert match is not None
    statement.elided, scanner.pos = True, match.end()


def _read_operand(scanner: Scanner, depth: int) -> ParsedOperand:
    start = scanner.skip()
    shape = read_shape(scanner) if _SHAPE_STARTS.match(scanner.text, start, scanner.end) else None
    if shape is not None and (scanner.at(",") or scanner.at(")")):
        return ParsedOperand(Span(start, scanner.pos), shape=shape)
    if _OPCODE.match(scanner.text, scanner.skip(), scanner.end):
        nested = ParsedInstruction(start, shape=shape or UnknownShape())
        _read_shaped_operation(scanner, nested, depth + 1)
        return ParsedOperand(Span(start, scanner.pos), shape=shape, nested=nested)
    name_start = scanner.skip()
    name = scanner.name("an operand")
    elements = []
    while (match := _ELEMENT.match(scanner.text, scanner.pos, scanner.end)) is not None:
        # fits int64; no tuple has as many elements, and the check of the index says so
        elements.append(int(match[1][:18]))
        scanner.pos = match.end()
    return ParsedOperand(Span(name_start, scanner.pos), name, tuple(elements), shape)


def _find_blocks(scanner: Scanner, statement: ParsedInstruction, attribute: Attribute) -> None:
    """Records the inline bodies that an attribute has in place of names."""
    assert attribute.span is not None
    start, end = attribute.span.start, attribute.span.end
    is_list = attribute.name in LIST_ATTRIBUTES
    if _REFERENCES.match(scanner.text, start, end) and not (is_list and "{" in attribute.value[1:]):
        return
    inner = Scanner(scanner.source, start + 1, end - 1)
    if not is_list or not (inner.at("{") or _REFERENCES.match(scanner.text, start, end)):
        statement.blocks[attribute.name] = [ParsedBlock(start, end)]
        return
    statement.blocks[attribute.name] = listed(inner, lambda: _read_block(inner))
    if not inner.at_end():
        raise inner.error("expected '}' after the computations")


def _read_block(scanner: Scanner) -> ParsedBlock:
    if scanner.at("{"):
        return ParsedBlock(*scanner.balanced())
    start = scanner.skip()
    return ParsedBlock(start, start, scanner.name("a computation"))
