"""The fast path: all instructions of a computation matched by one regular expression.

The expression matches whole lines whose strings and operands close on the line. If there are as many matches as
lines, the body has been read without a gap; if not, the exact path reads it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.instruction import Attribute, Instruction, InstructionText, Pairs
from hlo_cli.ir.operations import ARGUMENT_OPCODES
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Source, Span
from hlo_cli.syntax.literals.read import literal_at
from hlo_cli.syntax.scanning.attributes import readable_attributes
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.split_attributes import split_attributes, split_tail
from hlo_cli.syntax.values.metadata import parse_metadata
from hlo_cli.syntax.values.text_reader import typed_value

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.value_types import AttributeValue
    from hlo_cli.ir.module import Module

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
_OPERANDS: Final = rf"[^()\"'\n]*+(?=\))|{_nested(5)}"
_LINE: Final = rf"\n[ ]*+(ROOT[ ])?%?([A-Za-z0-9_.\-]++)[ ]=[ ]({_SHAPE})[ ]([a-z][a-z0-9\-]*+)\(({_OPERANDS})\)"
_ROW: Final = lazy_regex(rf"{_LINE}((?:,[^\"'\n]*+(?:{_QUOTED}[^\"'\n]*+)*+)?+)(?=\n)")
_ROW_WITHOUT_ESCAPES: Final = re.compile(rf"{_LINE}((?:,.*+)?+)(?=\n)")


def read_rows(source: Source, start: int, end: int) -> list[Row] | None:
    """The instructions between two offsets, or None if the lines are not provably one instruction each.

    `start` is before the line break of the first line, `end` at the line break before the closing brace. The
    caller must still check for unclosed braces where an instruction may have an inline body.
    """
    text = source.text
    if text.find("\\", start, end) < 0 and text.find("'", start, end) < 0:
        rows: list[Row] = _ROW_WITHOUT_ESCAPES.findall(text, start, end + 1)
        if 1 in [row[5].count('"') & 1 for row in rows]:
            return None
    else:
        rows = _ROW.findall(text, start, end + 1)
    if not rows or len(rows) != text.count("\n", start, end):
        return None
    if rows[-1][5].count("{") != rows[-1][5].count("}"):  # the brace that ends the body may belong to a dictionary
        return None
    return rows


_METADATA: Final = "metadata="
_BRACED: Final = lazy_regex(rf"\{{[^{{}}\"'\n]*+(?:{_QUOTED}[^{{}}\"'\n]*+)*+\}}")


class LineReader:
    """Reads the instructions of a body that `read_rows` has proved to have one instruction per line."""

    __slots__ = ("_arguments", "_breaks", "_end", "_last", "_pairs", "_read", "_source", "_start", "_tails")

    def __init__(self, source: Source, start: int, end: int, rows: Sequence[Row]) -> None:
        self._source = source
        self._start = start
        self._end = end
        self._arguments = array("Q", [len(row[4]) if row[3] in ARGUMENT_OPCODES else 0 for row in rows])
        self._tails = array("Q", [len(row[5]) for row in rows])
        self._breaks: array[int] | None = None
        self._last: tuple[Instruction, Metadata] | None = None
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
        """The argument and the attributes of the instruction on a line, as written."""
        start, close, end = self._cut(index)
        text = self._source.text
        return text[start:close], text[close + 1 : end].rstrip()

    def pairs(self, index: int) -> Pairs:
        """The attributes without their spans."""
        if self._pairs is None or self._pairs[0] != index:
            pairs = split_attributes(self.raw(index)[1])
            if pairs is None:
                pairs = [(each.name, each.value) for each in self.read(index).attributes]
            self._pairs = index, pairs
        return self._pairs[1]

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""
        return typed_value(opcode, attribute, text)

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
        """The text of each line after the first parenthesis followed by a comma; the whole line without one."""
        lines = self._source.text[self._start + 1 : self._end].split("\n")
        return [tail if (tail := line.partition("),")[2]) or line[-1:] == ")" else line for line in lines]

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
        plain = text.startswith(", ", at - 2) and _is_outside(text, start, at)
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
        self._breaks = found = array("Q")
        at = text.find("\n", self._start, end)
        while at >= 0:
            found.append(at)
            at = text.find("\n", at + 1, end)
        found.append(end)
        return found


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
    return all(split_tail(tail) is not None for tail in tails)


def _is_outside(text: str, start: int, at: int) -> bool:
    """Whether no string and no brace that opens after `start` is still open at `at`."""
    if text.find("\\", start, at) >= 0 or text.find("'", start, at) >= 0:
        return False
    quotes = text.count('"', start, at)
    return quotes % 2 == 0 and text.count("{", start, at) == text.count("}", start, at)
