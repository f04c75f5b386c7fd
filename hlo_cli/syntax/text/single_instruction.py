"""A single instruction, such as one pasted on a command line; its operands become parameters.

Mirrors `HloParserImpl::ParseSingleInstruction` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Span
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.text.instruction_parser import ParsedInstruction, ParsedOperand, read_operation

_NAMED = lazy_regex(r"(?:ROOT[ \t\n\r]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t\n\r]*+=")


def read_single_instruction(scanner: Scanner) -> list[ParsedInstruction]:
    """The instruction, as the root after one parameter for each operand that it names; a comma after it is ignored."""
    scanner.end = len(scanner.text.rstrip().removesuffix(","))
    statement = ParsedInstruction(scanner.skip(), is_root=True)
    if _NAMED.match(scanner.text, scanner.pos):
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
