"""`hlo parse --instructions`: every instruction with its shape, operands, and source location."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hlo_cli.commands.modules.instruction_columns import with_costs, with_traffic
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.options.filters import chosen as chosen_among
from hlo_cli.commands.options.filters import instructions_where
from hlo_cli.commands.parse.sharding_columns import with_shardings
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table
from hlo_cli.source import Diagnostic

_COLUMNS = (
    Column("name", "instruction", "name", role="name"),
    Column("opcode", "opcode", "opcode"),
    Column("padded_bytes", "", "bytes", total="sum"),
    Column("logical_bytes", "data", "bytes", from_width=200),
    Column("shape", "shape", "shape"),
    Column("operands", "operands", "text", rank=3),
    Column("called_computations", "calls", "text", rank=2, from_width=120),
    Column("computation", "computation", "name", rank=2, from_width=120),
    Column("op_name", "op_name", "op_name", rank=2, from_width=120),
    Column("source", "source", "source", rank=4),
    Column("line", "line", "line", rank=1, from_width=200),
    Column("users", "users", "count", person=False),
)


def report_of_instructions(
    loaded: Loaded, *, computation: str | None = None, where: str | None = None, columns: Collection[str] = ()
) -> Report:
    """One row for each instruction that matches an expression, in the order of the text.

    `columns` are those that the user names; they may be cost columns.
    """
    module = loaded.module
    instructions, answer, skipped = choose_instructions(module, computation, where)
    rows = _rows(module, instructions, module if computation is None else module.computation(computation))
    table = Table("instructions", _COLUMNS, rows, noun="instructions")
    table = with_shardings(with_costs(table, instructions, module, columns), instructions, module, columns)
    table = with_traffic(table, instructions, module, columns)
    return Report(
        "parse",
        answer,
        numbers={"module": module.name, "instructions": len(instructions)},
        parts=(table,),
        notes=(*skipped, *notes_of(loaded)),
        input=input_facts(loaded),
    )


def choose_instructions(
    module: Module, computation: str | None, where: str | None
) -> tuple[tuple[Instruction, ...], str, tuple[Diagnostic, ...]]:
    """Instructions that match, a description of the choice, and notes."""
    chosen = module.computation(computation) if computation is not None else None
    all_of_them = tuple(chosen.instructions if chosen is not None else module.instructions)
    place = chosen.name if chosen is not None else format_count(len(module.computations), "computations")
    if where is None:
        return all_of_them, f"{format_count(len(all_of_them), 'instructions')} in {place}", ()
    found, skipped = chosen_among(instructions_where(where, module), all_of_them, "instructions")
    instructions = format_count(len(all_of_them), "instructions")
    answer = f"{len(found):,} of {instructions} in {place}" if found else f"No matches among {instructions} in {place}"
    return found, answer, skipped


@no_garbage_collection()
def _rows(module: Module, instructions: Sequence[Instruction], place: Module | Computation) -> tuple[Row, ...]:
    users = _users(place)
    shapes: dict[int, Row] = {}  # equal shapes of a module are one object
    for each in instructions:
        if id(each.shape) not in shapes:
            shapes[id(each.shape)] = each.shape.padded_bytes, each.shape.logical_bytes, str(each.shape)
    return tuple(_row(module, each, users.get(each, ()), shapes[id(each.shape)]) for each in instructions)


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


def _row(module: Module, instruction: Instruction, users: Sequence[str], shape: Row) -> Row:
    location = module.location(instruction)
    span = instruction.span
    return (
        instruction.name,
        instruction.opcode,
        *shape,
        ", ".join(operand.name for operand in instruction.operands) or None,
        ", ".join(called.name for called in instruction.called_computations) or None,
        instruction.computation.name,
        instruction.metadata.op_name or None,
        str(location) if location is not None else None,
        module.source.position(span.start).line if span is not None else None,
        len(users),
    )
