"""An error of a compiler in place of a module: the rule in words, what violates it, and the instructions explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.shapes.comparison import shape_difference
from hlo_cli.commands.layout.tables import shapes_table
from hlo_cli.commands.pasted.error_words import advice_on, answer_to, paragraphs_on
from hlo_cli.commands.pasted.parts import explained_parts
from hlo_cli.commands.pasted.shape_differences import differences_table, shapes_in
from hlo_cli.commands.quoted.instructions import FoundInstruction, instructions_in
from hlo_cli.inputs.pasted.text import PastedText
from hlo_cli.ir.compiler_files.compiler_error import CompilerError
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.column import Column
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.compiler_messages.compiler_errors import essential_text, parse_compiler_errors

_ERRORS: Final = (
    Column("status", "status"),
    Column("rule", "rule"),
    Column("violation", "violation"),
    Column("message", "message", person=False),
    Column("context", "context", person=False),
    Column("pass", "pass"),
    Column("raised_at", "raised at", "source"),
    Column("line", "line", "line"),
    Column("instruction", "instruction", "name"),
    Column("op_name", "op_name", "op_name", person=False),
    Column("source", "source", "source", person=False),
)
_NAMED: Final = lazy_regex(
    r"HLO: (?P<hlo>[\w.\-]++); HLO computation: (?P<computation>[\w.\-]++)|tracing scope: (?P<scope>[\w.\-]++)"
    r"|HLO name `(?P<kernel>[^`\n]{1,200})`|Entry function '(?P<entry>[\w.$]++)'|#hlo_module=(?P<module>[\w.\-]++)"
)
_LONGEST_MESSAGE: Final = 300


def report_of(pasted: PastedText) -> Report:
    """The report on the first error of a text whose meaning is known, or on its most telling line."""
    errors = parse_compiler_errors(pasted.text)
    text = essential_text(pasted.text)
    found = instructions_in(text)
    if not errors:
        raise HloError(f"{pasted.name} is empty", hint="paste the complete message")
    first = errors[0]
    named = _names_in(text)
    paragraphs = paragraphs_on(first, named)
    parts: list[Part] = [Passage("error", paragraphs)] if paragraphs else []
    if (table := differences_table(first)) is not None:
        parts.append(table)
    elif not found and (shapes := shapes_in(first.message)):
        parts.append(replace(shapes_table(shapes), main=False))
    parts += explained_parts(found)
    parts.append(_errors_table(errors, found, person=len(errors) > 1))
    parts.append(Passage("advice", advice_on(first, found, named)))
    instruction = found[0] if found else None
    return Report(
        "parse",
        answer_to(first, found),
        numbers={
            "status": first.status or None,
            "rule": first.rule.key if first.rule else None,
            "message": first.message or None,
            "context": first.context or None,
            "failed_after": first.failed_after or None,
            "raised_at": first.raised_at or None,
            "condition": first.condition or None,
            "fields": {name: value for name, value in first.fields.items() if value},
            "instruction": instruction.name or None if instruction else named.get("hlo") or None,
            "names": named,
            "op_name": instruction.op_name or None if instruction else None,
            "source": instruction.source or None if instruction else None,
            "user_line": first.user_line or None,
        },
        parts=tuple(parts),
        next=("hlo help dump",),
        notes=tuple(_notes(found)),
        input={"path": pasted.name, "line": first.line},
    )


def _names_in(text: str) -> dict[str, str]:
    """The names of instructions, computations, and modules in a message, by their role."""
    found = dict[str, str]()
    for match in _NAMED.finditer(text):
        for role, name in match.groupdict().items():
            if name and name != "<no name>":
                found.setdefault(role, name)
    return found


def _errors_table(errors: Sequence[CompilerError], found: Sequence[FoundInstruction], *, person: bool) -> Table:
    instruction = found[0] if found else None
    rows = tuple(
        (
            error.status or None,
            error.rule.key if error.rule else None,
            answer_to(error, found),
            error.message[:_LONGEST_MESSAGE],
            error.context or None,
            error.failed_after or None,
            error.raised_at or None,
            error.line,
            instruction.name or instruction.instruction.opcode if instruction else None,
            instruction.op_name or None if instruction else None,
            instruction.source or None if instruction else None,
        )
        for error in errors
    )
    return Table("errors", _ERRORS, rows, noun="errors", limit=5, person=person)


def _notes(found: Sequence[FoundInstruction]) -> list[Diagnostic]:
    """What our own verifier finds in the instructions."""
    notes = []
    for each in found[:3]:
        if not each.is_whole or _misses_computations(each):
            continue
        try:
            difference = shape_difference(each.instruction)
        except HloError as error:
            notes.append(Diagnostic("note", f"hlo finds: {error.diagnostic.message}"))
            continue
        if difference is not None:
            notes.append(Diagnostic("note", f"hlo finds in {each.name or each.instruction.opcode}: {difference}"))
    return notes


def _misses_computations(found: FoundInstruction) -> bool:
    """Whether the instruction calls computations, which are not in the text."""
    return any(name in _CALLS for name, _ in found.instruction.pairs)


_CALLS: Final = frozenset(("to_apply", "calls", "body", "condition", "branch_computations", "called_computations"))
