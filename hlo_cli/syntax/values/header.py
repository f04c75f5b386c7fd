"""The header of a module: its name, header attributes, and stack tables.

Mirrors `ParseHloModule` and `ParseStackFrameIndex` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import FileLocation, StackFrame, StackFrames
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.notation import unquote
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.scanning.attributes import expect_no_attribute, read_attributes
from hlo_cli.syntax.scanning.scanner import STRING, Scanner

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.value_types import AttributeValue

SECTIONS: Final = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_TABLES = re.compile(
    rf"(?:(?:{'|'.join(SECTIONS)})\b[ \t\n\r]*+(?:[0-9]++[ \t]++(?:{STRING}|\{{[^{{}}]*+\}})[ \t\n\r]*+)*+)++",
    re.DOTALL,
)
_SECTION = lazy_regex(rf"({'|'.join(SECTIONS)})|[0-9]++[ \t]++({STRING}|\{{[^{{}}]*+\}})", re.DOTALL)
_NUMBER = re.compile(r"([a-z_]++)=([0-9]++)")


@dataclass(frozen=True, slots=True)
class Header:
    """The text before the first computation."""

    name: str
    attributes: tuple[Attribute, ...]
    stack_tables: str = ""

    def get(self, name: str) -> str | None:
        """The text of one header attribute."""
        return next((a.value for a in self.attributes if a.name == name), None)

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of instructions is the schedule."""
        return self.get("is_scheduled") == "true"


def typed_header_value(attribute: str, text: str) -> AttributeValue:
    """The value of a header attribute; the grammars are imported with the first value."""
    from hlo_cli.syntax.values.attribute_values import read_header_value

    return read_header_value(attribute, text)


def read_header(scanner: Scanner) -> Header:
    """Reads `HloModule name, attribute=value, …` and the stack tables after it."""
    if not scanner.accept_word("HloModule"):
        raise scanner.error("expected HloModule", hint="did you mean 'HloModule'?")
    name = "" if scanner.at(",") else scanner.name("the name of the module")
    attributes = read_attributes(scanner)
    expect_no_attribute(scanner)
    return Header(name, attributes, read_stack_tables(scanner))


def read_stack_tables(scanner: Scanner) -> str:
    """The text of the four tables, if they come next."""
    match = _TABLES.match(scanner.text, scanner.skip(), scanner.end)
    if match is None:
        return ""
    scanner.pos = match.end()
    return match[0].strip()


def parse_stack_tables(text: str) -> StackFrames:
    """Parses the four tables.

    >>> parse_stack_tables('FileNames 1 "a.py"').file_names
    ('a.py',)
    """
    rows: dict[str, list[str]] = {section: [] for section in SECTIONS}
    current: list[str] = []
    for section, row in _SECTION.findall(text):
        if section:
            current = rows[section]
        else:
            current.append(row)
    return StackFrames(
        tuple(map(unquote, rows["FileNames"])),
        tuple(map(unquote, rows["FunctionNames"])),
        tuple(map(_file_location, rows["FileLocations"])),
        tuple(map(_stack_frame, rows["StackFrames"])),
    )


def _file_location(row: str) -> FileLocation:
    numbers = _numbers(row)
    return FileLocation(
        numbers.get("file_name_id", 0),
        numbers.get("function_name_id", 0),
        numbers.get("line", 0),
        numbers.get("end_line", 0),
        numbers.get("column", 0),
        numbers.get("end_column", 0),
    )


def _stack_frame(row: str) -> StackFrame:
    numbers = _numbers(row)
    return StackFrame(numbers.get("file_location_id", 0), numbers.get("parent_frame_id", 0))


def _numbers(row: str) -> dict[str, int]:
    return {key: int(value[:18]) for key, value in _NUMBER.findall(row)}
