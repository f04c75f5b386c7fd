"""The exact path: one instruction read token by token, with any spacing, comments, and nesting.

Mirrors `ParseInstruction` and `ParseOperands` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.operations import ARGUMENT_OPCODES, CALLING_ATTRIBUTES, is_known
from hlo_cli.ir.shape import Shape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Span
from hlo_cli.syntax.scanning.attributes import expect_no_attribute, one_line, read_attribute
from hlo_cli.syntax.scanning.layouts import listed
from hlo_cli.syntax.scanning.scanner import SPACE, Scanner
from hlo_cli.syntax.scanning.shapes import MAX_NESTING, read_shape
from hlo_cli.syntax.scanning.suggestions import FORM

_SHAPE_STARTS = lazy_regex(rf"[a-z][a-z0-9]*+{SPACE}\[|\(|b{SPACE}\(")
_OPCODE = lazy_regex(rf"([A-Za-z][A-Za-z0-9_\-]*+){SPACE}\(")
_ELEMENT = re.compile(r"#([0-9]++)")
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
    read_shaped_operation(scanner, statement, 0)
    while scanner.accept(","):
        attribute = read_attribute(scanner)
        statement.attributes.append(attribute)
        if attribute.name in CALLING_ATTRIBUTES and attribute.value.startswith("{"):
            _find_blocks(scanner, statement, attribute)
        statement.end = scanner.pos
    expect_no_attribute(scanner)


def read_shaped_operation(scanner: Scanner, statement: ParsedInstruction, depth: int) -> None:
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
        if is_known(statement.opcode):
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
        read_shaped_operation(scanner, nested, depth + 1)
        return ParsedOperand(Span(start, scanner.pos), shape=shape, nested=nested)
    name_start = scanner.skip()
    name = scanner.name("an operand")
    elements = []
    while (match := _ELEMENT.match(scanner.text, scanner.pos, scanner.end)) is not None:
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
