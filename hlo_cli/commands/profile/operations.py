"""`hlo profile TRACE`: one row for each instruction, those that take most time first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.measures import operation_measures
from hlo_cli.commands.profile.sums import Sum, rate_cells, rate_columns, sum_of, time_cells, time_columns
from hlo_cli.commands.profile.words import answer_of, facts_of, numbers_of
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.measures import Measure
    from hlo_cli.analysis.profile.profile import Operation, Profile
    from hlo_cli.commands.profile.load import Loaded

NO_INSTRUCTION: Final = "(no instruction)"
"""The row of kernels that belong to no instruction."""
_EXACT: Final = (
    Column("least_seconds", "min", "seconds", from_width=200),
    Column("median_seconds", "median", "seconds", from_width=200),
    Column("greatest_seconds", "max", "seconds", from_width=200),
    Column("deviation_seconds", "deviation", "seconds", person=False),
    Column("events", "events", "count", total="sum", person=False),
)


def report_of_operations(loaded: Loaded) -> Report:
    """The instructions of a profile with their times, rates, and shares."""
    profile = loaded.profile
    measured = list(zip(profile.operations, operation_measures(profile), strict=True))
    others = [each for each in measured if not each[0].is_joined]
    return Report(
        "profile",
        answer_of(profile, measured),
        version=1,
        numbers=numbers_of(profile, measured),
        parts=(facts_of(profile, measured), operations_table(profile, measured), kernels_table(profile, others)),
        notes=loaded.notes,
        input=loaded.facts,
    )


def operations_table(profile: Profile, measured: Sequence[tuple[Operation, Measure]]) -> Table:
    """One row for each instruction, and one for all kernels without one."""
    has_modules = len({operation.program for operation, _ in measured if operation.is_joined}) > 1
    found: list[tuple[Sum, Measure | None, Operation | None]] = [
        (sum_of([each]), each[1], each[0]) for each in measured if each[0].is_joined
    ]
    if others := [each for each in measured if not each[0].is_joined]:
        found.append((sum_of(others), None, None))
    found.sort(key=lambda each: (-each[0].self_time, "" if each[2] is None else each[2].name))
    columns = (
        *time_columns(profile),
        Column("mean_seconds", "avg", "seconds"),
        *rate_columns(profile, [each for each, _, _ in found]),
        *_EXACT,
        Column("instruction", "instruction", "name"),
        Column("opcode", "opcode", "opcode", person=False),
        Column("category", "category", from_width=120),
        Column("module", "module", "text", rank=2, from_width=120, person=has_modules),
        Column("source", "source", "source", rank=5),
        Column("op_name", "op_name", "op_name", rank=4, from_width=120),
    )
    rows = tuple(
        (*time_cells(profile, each), each.mean, *rate_cells(profile, each), *_spread(measure, each), *_named(operation))
        for each, measure, operation in found
    )
    return Table("operations", columns, rows, noun="instructions")


def kernels_table(profile: Profile, others: Sequence[tuple[Operation, Measure]]) -> Table:
    """One row for each kernel without an instruction."""
    found = sorted(
        ((sum_of([each]), each) for each in others), key=lambda found: (-found[0].self_time, found[1][0].name)
    )
    columns = (*time_columns(profile), Column("mean_seconds", "avg", "seconds"), *_EXACT, Column("kernel", "kernel"))
    rows = tuple(
        (*time_cells(profile, each), each.mean, *_spread(measure, each), operation.name)
        for each, (operation, measure) in found
    )
    title = "without an instruction"
    return Table("kernels", columns, rows, title=title, noun="kernels", main=False, limit=5)


def _spread(measure: Measure | None, each: Sum) -> Row:
    if measure is None:
        return None, None, None, None, each.events
    return measure.least, measure.median, measure.greatest, measure.deviation, each.events


def _named(operation: Operation | None) -> Row:
    if operation is None or operation.instruction is None:
        return NO_INSTRUCTION, None, None, None, None, None
    instruction, program = operation.instruction, operation.program
    location = None
    if program is not None and program.module is not None:
        location = program.module.location(instruction)
    return (
        instruction.name,
        instruction.opcode,
        operation.category,
        None if program is None else program.name,
        operation.source or (None if location is None else str(location)),
        operation.op_name or None,
    )
