"""`hlo parse --select` and `--slice`: parts of a dump as HLO text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, what_was_read
from hlo_cli.commands.modules.rewriting import NOT_ASKED, verify_part
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.commands.options.writing import print_diagnostics, write, write_report
from hlo_cli.commands.parse.instructions import choose_instructions
from hlo_cli.ir.instruction import Instruction, print_instruction
from hlo_cli.ir.module import Module
from hlo_cli.render.style import sanitize
from hlo_cli.report.report import Report
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Column, Table
from hlo_cli.source import Diagnostic, HloError, did_you_mean, nearest
from hlo_cli.syntax.scanning.attributes import one_line

_COLUMNS = (
    Column("name", "instruction", "name", role="name"),
    Column("computation", "computation", "name", rank=2),
    Column("line", "line", "line", rank=3),
    Column("text", "text", "text"),
)


def print_instructions(loaded: Loaded, where: str, output: OutputOptions, *, computation: str | None = None) -> int:
    """Writes the instructions that match an expression, one per line, as in the dump."""
    module = loaded.module
    chosen, answer, skipped = choose_instructions(module, computation, where)
    if output.format not in ("table", "hlo"):
        report = _report(loaded, chosen, answer)
        report = replace(report, notes=(*skipped, *report.notes))
        return write_report(report, output, module.errors, read=what_was_read(module))
    if output.columns or output.sort:
        raise HloError(
            f"--{'columns' if output.columns else 'sort'} cannot be used with --select",
            hint="use --where EXPR for a table",
        )
    limit = output.top if output.top is not None else ROWS_FOR_A_PERSON if output.is_for_person else 0
    shown = chosen[: limit or None]
    lines: Iterator[str] = (f"{_line(module, instruction)}\n" for instruction in shown)
    write(_for_a_person(answer, lines, len(chosen) - len(shown)) if output.is_for_person else lines, output.path)
    return print_diagnostics((*skipped, *notes_of(loaded)), module.errors, output, read=what_was_read(module))


def print_slice(
    loaded: Loaded,
    name: str,
    output: OutputOptions,
    *,
    operands: int,
    users: int,
    computation: str | None = None,
    verify: bool = False,
) -> int:
    """Writes an instruction with its neighbors as a module."""
    from hlo_cli.transform.extract import extracted  # tables of instructions change no module
    from hlo_cli.transform.in_place_hazards import copies_note

    if (option := _table_option(output)) is not None:
        raise HloError(
            f"{option} cannot be used with --slice, which writes HLO text", hint="use --where EXPR for a table"
        )
    module = loaded.module
    instruction = _find(module, name, computation)
    part = extracted(module, instruction, operands=operands, users=users)
    verified = verify_part(module, instruction.computation, part.module) if verify else NOT_ASKED
    write(part.module.chunks(), output.path)
    notes = [*verified.notes, *(Diagnostic("note", words) for words in copies_note(part.copies)), *notes_of(loaded)]
    return print_diagnostics(notes, module.errors, output, read=what_was_read(module)) or verified.exit_code


def _table_option(output: OutputOptions) -> str | None:
    """The first given option that requires a table, as typed."""
    options = {
        f"--format {output.format}": output.format not in ("table", "hlo"),
        "--columns": bool(output.columns),
        "--sort": bool(output.sort),
        "--top": output.top is not None,
    }
    return next((option for option, is_given in options.items() if is_given), None)


def _for_a_person(answer: str, lines: Iterator[str], hidden: int) -> Iterator[str]:
    yield f"{answer}\n\n"
    yield from (f"{sanitize(line[:-1])}\n" for line in lines)
    if hidden:
        yield f"{hidden:,} more; use --top 0 to show all\n"


def _line(module: Module, instruction: Instruction) -> str:
    """The text of the instruction, joined into one line."""
    span = instruction.span
    text = module.source.slice(span) if span is not None else print_instruction(instruction)
    return text.rstrip() if "\n" not in text else one_line(text).replace("\n", "\\n")


def _report(loaded: Loaded, chosen: tuple[Instruction, ...], answer: str) -> Report:
    module = loaded.module
    rows = tuple(
        (
            instruction.name,
            instruction.computation.name,
            module.source.position(span.start).line if (span := instruction.span) is not None else None,
            _line(module, instruction),
        )
        for instruction in chosen
    )
    return Report(
        "parse",
        answer,
        numbers={"module": module.name, "instructions": len(chosen)},
        parts=(Table("lines", _COLUMNS, rows, noun="instructions"),),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _find(module: Module, name: str, computation: str | None) -> Instruction:
    if computation is None:
        return module.instruction(name)
    chosen = module.computation(computation)
    if (found := chosen.instruction(name)) is not None:
        return found
    close = nearest(name.removeprefix("%"), (instruction.name for instruction in chosen.instructions))
    hint = did_you_mean(close)
    raise HloError(f"instruction '{name.removeprefix('%')}' not found in {chosen.name}", hint=hint)
