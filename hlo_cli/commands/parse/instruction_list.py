"""Which instructions does a dump have? As rows, as text by `--select` and `--slice`, and counted in many dumps."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.module_summary import SummaryValue, module_summary
from hlo_cli.commands.modules.instruction_tables import chosen as chosen_among
from hlo_cli.commands.modules.instruction_tables import instructions_where, source_of, with_costs, with_traffic
from hlo_cli.commands.modules.loading import Loaded, Many, input_facts, notes_of, reason_among, what_was_read
from hlo_cli.commands.modules.many import Rows, arguments_of, devices_of, finish_each, map_inputs, ranking_of
from hlo_cli.commands.modules.rewriting import NOT_ASKED, verify_part
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.options.writing import print_diagnostics, write, write_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction, print_instruction
from hlo_cli.ir.module import Module
from hlo_cli.render.style import sanitize
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import (
    ROWS_FOR_A_PERSON,
    UNKNOWN,
    Cell,
    Column,
    Row,
    Table,
    rows_from,
    rows_from_tuples,
    with_cell,
    with_columns,
)
from hlo_cli.scan_modules import ScanResult
from hlo_cli.source import Diagnostic, HloError, did_you_mean, nearest
from hlo_cli.syntax.scanning.attributes import one_line

if TYPE_CHECKING:
    from hlo_cli.analysis.query.where import FieldValue


# --- columns of shardings ---
# Shardings of instructions, as columns of tables with a row for each of them.


_SHARDING_COLUMNS: Final = (
    Column("replication", "copies", "count"),
    Column("shard_bytes", "per device", "bytes"),
)


def _with_shardings(table: Table, instructions: Iterable[Instruction], module: Module, asked: Collection[str]) -> Table:
    """Adds the copies and the bytes per device of the instructions to a table, if `asked` names any of these columns.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=2  ENTRY e { ROOT p = f32[8] parameter(0), "
    ...     "sharding={replicated} }")
    >>> table = Table("instructions", (Column("name", "name"),), (("p",),))
    >>> _with_shardings(table, [module.entry.root], module, ["replication"]).rows
    (('p', 2, 32),)
    """
    if {column.name for column in _SHARDING_COLUMNS}.isdisjoint(asked):
        return table
    from hlo_cli.analysis.query.fields import ShardingFacts

    readers = ShardingFacts(module).readers()
    columns = [with_cell(column, _read_by(readers[column.name][1])) for column in _SHARDING_COLUMNS]
    return with_columns(table, columns, instructions)


def _read_by(reader: Callable[[Instruction], FieldValue]) -> Callable[[Instruction], Cell]:
    return lambda instruction: _cell(reader(instruction))


def _cell(value: FieldValue) -> Cell:
    if isinstance(value, AtLeast):
        return UNKNOWN
    return value if isinstance(value, int) else None


# --- --instructions: rows ---
# `hlo parse --instructions`: every instruction with its shape, operands, and source location.


@dataclass(frozen=True, slots=True)
class _ShapeCells:
    """What a row says of a shape, computed once for equal shapes."""

    padded_bytes: int
    logical_bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class _InstructionRow:
    """An instruction with its shape and the names of its users."""

    module: Module
    instruction: Instruction
    shape: _ShapeCells
    users: Sequence[str]


_INSTRUCTION_COLUMNS: tuple[Column[_InstructionRow], ...] = (
    Column("name", "instruction", "name", role="name", of=lambda row: row.instruction.name),
    Column("opcode", "opcode", "opcode", of=lambda row: row.instruction.opcode),
    Column("padded_bytes", "", "bytes", total="sum", of=lambda row: row.shape.padded_bytes),
    Column("logical_bytes", "data", "bytes", from_width=200, of=lambda row: row.shape.logical_bytes),
    Column("shape", "shape", "shape", of=lambda row: row.shape.text),
    Column("operands", "operands", "text", rank=3,
           of=lambda row: ", ".join(operand.name for operand in row.instruction.operands) or None),
    Column("called_computations", "calls", "text", rank=2, from_width=120,
           of=lambda row: ", ".join(called.name for called in row.instruction.called_computations) or None),
    Column("computation", "computation", "name", rank=2, from_width=120,
           of=lambda row: row.instruction.computation.name),
    Column("op_name", "op_name", "op_name", rank=2, from_width=120,
           of=lambda row: row.instruction.metadata.op_name or None),
    Column("source", "source", "source", rank=4, of=lambda row: source_of(row.module, row.instruction)),
    Column("line", "line", "line", rank=1, from_width=200, of=lambda row: _line_of(row.module, row.instruction)),
    Column("users", "users", "count", person=False, of=lambda row: len(row.users)),
)  # fmt: skip


def report_of_instructions(
    loaded: Loaded, *, computation: str | None = None, where: str | None = None, columns: Collection[str] = ()
) -> Report:
    """One row for each instruction that matches an expression, in the order of the text.

    `columns` are those that the user names; they may be cost columns.
    """
    module = loaded.module
    instructions, answer, skipped = _choose_instructions(module, computation, where)
    rows = _rows(module, instructions, module if computation is None else module.computation(computation))
    columns_of_rows, footnote = _INSTRUCTION_COLUMNS, ""
    if _has_nested(instructions):
        # The values of a fused computation have no memory of their own, and its fusion has its costs.
        columns_of_rows = tuple(replace(column, total=None) for column in _INSTRUCTION_COLUMNS)
        footnote = "no total: some instructions are inside of a fusion that is listed, too"
    table = Table("instructions", columns_of_rows, rows, noun="instructions", footnote=footnote)
    table = _with_shardings(with_costs(table, instructions, module, columns), instructions, module, columns)
    table = with_traffic(table, instructions, module, columns)
    return Report(
        "parse",
        answer,
        numbers={"module": module.name, "instructions": len(instructions)},
        parts=(table,),
        notes=(*skipped, *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _has_nested(instructions: Sequence[Instruction]) -> bool:
    """Whether some of the instructions are in the fused computations of others."""
    fusions = [each for each in instructions if each.opcode == opcodes.FUSION]
    if not fusions:
        return False
    waiting = [called for fusion in fusions for called in fusion.called_computations]
    inside = set[Computation]()
    while waiting:
        if (body := waiting.pop()) not in inside:
            inside.add(body)
            waiting += [called for each in body.instructions for called in each.called_computations]
    return any(each.computation in inside for each in instructions)


def _choose_instructions(
    module: Module, computation: str | None, where: str | None
) -> tuple[tuple[Instruction, ...], str, tuple[Diagnostic, ...]]:
    """Instructions that match, a description of the choice, and notes."""
    chosen = module.computation(computation) if computation is not None else None
    all_of_them = tuple(chosen.instructions if chosen is not None else module.instructions)
    place = chosen.name if chosen is not None else format_count(len(module.computations), "computations")
    if where is None:
        return all_of_them, f"{format_count(len(all_of_them), 'instructions')} in {place}", ()
    matching, skipped = chosen_among(instructions_where(where, module), all_of_them, "instructions")
    instructions = format_count(len(all_of_them), "instructions")
    answer = (
        f"{len(matching):,} of {instructions} in {place}" if matching else f"No matches among {instructions} in {place}"
    )
    return matching, answer, skipped


@no_garbage_collection()
def _rows(module: Module, instructions: Sequence[Instruction], place: Module | Computation) -> tuple[Row, ...]:
    users = _users(place)
    shapes: dict[int, _ShapeCells] = {}  # equal shapes of a module are one object
    for instruction in instructions:
        if id(instruction.shape) not in shapes:
            shapes[id(instruction.shape)] = _ShapeCells(
                instruction.shape.padded_bytes, instruction.shape.logical_bytes, str(instruction.shape)
            )
    rows = (
        _InstructionRow(module, instruction, shapes[id(instruction.shape)], users.get(instruction, ()))
        for instruction in instructions
    )
    return rows_from(_INSTRUCTION_COLUMNS, rows)


def _users(place: Module | Computation) -> dict[Instruction, list[str]]:
    """The names of the users of each instruction, each once, in the order of the text."""
    users: dict[Instruction, list[str]] = {}
    for user in place.instructions:
        for operand in user.operands:
            names = users.get(operand)
            if names is None:
                users[operand] = [user.name]
            elif names[-1] != user.name:
                names.append(user.name)
    return users


def _line_of(module: Module, instruction: Instruction) -> int | None:
    """The line of the dump; None for an instruction that is not from a text."""
    return module.source.position(instruction.span.start).line if instruction.span is not None else None


# --- --select and --slice: text ---
# `hlo parse --select` and `--slice`: parts of a dump as HLO text.


_PART_COLUMNS: tuple[Column[Module, Instruction], ...] = (
    Column("name", "instruction", "name", role="name", of=lambda module, instruction: instruction.name),
    Column("computation", "computation", "name", rank=2, of=lambda module, instruction: instruction.computation.name),
    Column("line", "line", "line", rank=3, of=lambda module, instruction: _line_of(module, instruction)),
    Column("text", "text", "text", of=lambda module, instruction: _line(module, instruction)),
)


def print_instructions(loaded: Loaded, where: str, output: OutputOptions, *, computation: str | None = None) -> int:
    """Writes the instructions that match an expression, one per line, as in the dump."""
    module = loaded.module
    chosen, answer, skipped = _choose_instructions(module, computation, where)
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
    rows = rows_from_tuples(_PART_COLUMNS, ((module, instruction) for instruction in chosen))
    return Report(
        "parse",
        answer,
        numbers={"module": module.name, "instructions": len(chosen)},
        parts=(Table("lines", _PART_COLUMNS, rows, noun="instructions"),),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _find(module: Module, name: str, computation: str | None) -> Instruction:
    if computation is None:
        return module.instruction(name)
    chosen = module.computation(computation)
    if (listed := chosen.instruction(name)) is not None:
        return listed
    close = nearest(name.removeprefix("%"), (instruction.name for instruction in chosen.instructions))
    hint = did_you_mean(close)
    raise HloError(f"instruction '{name.removeprefix('%')}' not found in {chosen.name}", hint=hint)


# --- many dumps ---
# `hlo parse` of many dumps: a row of numbers for each module.


_MODULE_COLUMNS: tuple[Column[Mapping[str, SummaryValue]], ...] = (
    Column("target", "target", of=lambda numbers: numbers["target"]),
    Column("is_scheduled", "scheduled", from_width=160, of=lambda numbers: numbers["is_scheduled"]),
    Column("instructions", "instructions", "count", total="sum", of=lambda numbers: numbers["instructions"]),
    Column(
        "computations", "computations", "count", total="sum", from_width=160, of=lambda numbers: numbers["computations"]
    ),
    Column("fusions", "fusions", "count", total="sum", of=lambda numbers: numbers["fusions"]),
    Column(
        "collectives", "collectives", "count", total="sum", from_width=120, of=lambda numbers: numbers["collectives"]
    ),
    Column(
        "custom_calls", "custom calls", "count", total="sum", from_width=160, of=lambda numbers: numbers["custom_calls"]
    ),
    Column("argument_bytes", "arguments", "bytes", total="sum", of=lambda numbers: numbers["argument_bytes"]),
    Column("result_bytes", "results", "bytes", total="sum", from_width=120, of=lambda numbers: numbers["result_bytes"]),
    Column("values", "values", "count", total="sum", person=False, of=lambda numbers: numbers["values"]),
    Column("logical_bytes", "data", "bytes", total="sum", person=False, of=lambda numbers: numbers["logical_bytes"]),
    Column("padded_bytes", "values", "bytes", total="sum", of=lambda numbers: numbers["padded_bytes"]),
    Column("largest_bytes", "largest", "bytes", person=False, of=lambda numbers: numbers["largest_bytes"]),
)

_DEVICES = "devices_together"
"""The name of a number that is for a note and has no column."""
_MAX_INPUTS_REPEATED = 3
"""The most inputs that a next command repeats."""


def parse_each(many: Many, reading: InputOptions, jobs: int | None, output: OutputOptions) -> int:
    """Writes the table and returns the exit code."""
    overviews = list(map_inputs(many, reading, jobs, _overview))
    ranking, read = ranking_of(overviews)
    main = read[ranking.main] if read else None
    which = ""
    if main is not None and len(overviews) > 1:
        which = f"; {overviews[main].module} {reason_among(overviews, main)}"
    answers = [overview.answer for overview in overviews if overview.answer is not None]
    instructions, values = (sum(int(a[name] or 0) for a in answers) for name in ("instructions", "padded_bytes"))
    return finish_each(
        "parse",
        many,
        reading,
        overviews,
        Rows(
            _MODULE_COLUMNS,
            devices=_devices,
        ),
        answer=f"{format_count(len(answers), 'modules')}: {format_count(instructions, 'instructions')}, "
        f"{format_bytes(values)} of values{which}",
        output=output,
        next=None if main is None else _next(many, reading, overviews, main),
    )


def _devices(numbers: Mapping[str, SummaryValue]) -> int:
    return int(numbers[_DEVICES] or 1)


def _next(
    many: Many, reading: InputOptions, found: Sequence[ScanResult[Mapping[str, SummaryValue]]], main: int
) -> tuple[str, ...]:
    """The commands that report on the main module, and compare two modules or show the memory of each."""
    if "-" in many.arguments:
        return ()
    names = reading.command_line(many.arguments) if len(many.arguments) == 1 else shlex.join(many.arguments)
    report = f"hlo parse {arguments_of(many, reading, found, main)}"
    if len(many.arguments) == len(found) == 2:
        return f"hlo diff {names}", report
    return (report, f"hlo memspace {names}") if len(many.arguments) <= _MAX_INPUTS_REPEATED else (report,)


def _overview(module: Module, given: Input) -> Mapping[str, SummaryValue]:
    """The numbers of a module, with that of the devices whose work it holds together."""
    return {**module_summary(module), _DEVICES: devices_of(module, given)}
