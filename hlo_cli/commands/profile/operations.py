"""`hlo profile TRACE`: one row for each instruction, those that take most time first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.commands.profile.columns import (
    EVENT_COLUMNS,
    rate_cells,
    rate_columns,
    spread_cells,
    time_cells,
    time_columns,
)
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import NO_INSTRUCTION, Timed, rank, sum_of
from hlo_cli.commands.profile.words import answer_of, facts_of, numbers_of, over_peak_words
from hlo_cli.report.report import Report
from hlo_cli.report.table import KEEP, Column, Row, Table
from hlo_cli.report.text import Passage

_LONGEST: Final = 10
"""If names of so many instructions are not unique, their modules are shown on narrow screens, too."""


def report_of_operations(measured: Measured) -> Report:
    """The instructions of a profile with their times, rates, and shares."""
    return Report(
        "profile",
        answer_of(measured),
        version=1,
        numbers=numbers_of(measured),
        parts=(
            facts_of(measured),
            operations_table(measured),
            kernels_table(measured),
            *_sparse_core(measured),
            *_remarks(measured),
        ),
        next=_next(measured),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _remarks(measured: Measured) -> Iterator[Passage]:
    if texts := tuple(over_peak_words(sorted(measured.selected, key=rank))):
        yield Passage("remarks", texts)


def _sparse_core(measured: Measured) -> Iterator[Table]:
    """What ran on the SparseCores of a TPU, next to the operations of the TensorCores."""
    profile = measured.profile.sparse_core
    if profile is not None:
        inner = Measured(replace(measured.loaded, profile=profile), chip=measured.roofs.chip, where=measured.where)
        table = operations_table(inner)
        yield replace(table, name="sparse_core", title="on SparseCores", main=False, limit=5)


def operations_table(measured: Measured) -> Table:
    """One row for each instruction, and one for all kernels without one; of a trace of kernels only, one for each."""
    has_named = any(each.is_named for each in measured.every)
    timed = sorted((each for each in measured.selected if each.is_named or not has_named), key=rank)
    others = [each for each in measured.selected if has_named and not each.is_named]
    rates = [rate_cells(measured, each) for each in timed]
    means = dict(zip(measured.profile.operations, measured.means.times, strict=True))
    rows = [
        (
            *time_cells(measured, each.measure),
            means[each.operation].seconds,
            each.measure.mean,
            *cells,
            *spread_cells(each.measure),
            *_named(each),
        )
        for each, cells in zip(timed, rates, strict=True)
    ]
    if others:
        rest = sum_of(others)
        at = sum(each.measure.busy_time >= rest.busy_time for each in timed)
        per_step = sum(means[each.operation].seconds for each in others)
        cells = (*time_cells(measured, rest), per_step, rest.total / rest.events, *rate_cells(measured, rest))
        rows.insert(at, (*cells, *(None for _ in EVENT_COLUMNS), NO_INSTRUCTION, None, None, None, None, None))
    has_modules = len({each.operation.program for each in timed}) > 1
    longest = [each.operation.name for each in timed[:_LONGEST]]
    is_unique = len(set(longest)) == len(longest)
    columns = (
        *time_columns(measured, has_kernels=_has_kernels(timed)),
        Column("seconds_per_step", "per step", "seconds", total="sum", person=False),
        Column("mean_seconds", "avg", "seconds"),
        *rate_columns(measured, rates),
        *EVENT_COLUMNS,
        Column("instruction", "instruction", "name"),
        Column("opcode", "opcode", "opcode", person=False),
        Column("category", "category", from_width=120),
        Column("module", "module", rank=2 if is_unique else KEEP, from_width=120 * is_unique, person=has_modules),
        Column("source", "source", "source", rank=5),
        Column("op_name", "op_name", "op_name", rank=4, from_width=120),
    )
    return Table("operations", columns, tuple(rows), noun="instructions")


def kernels_table(measured: Measured) -> Table:
    """One row for each kernel without an instruction."""
    has_named = any(each.is_named for each in measured.every)
    timed = sorted((each for each in measured.selected if has_named and not each.is_named), key=rank)
    columns = (
        *time_columns(measured),
        Column("mean_seconds", "avg", "seconds"),
        *EVENT_COLUMNS,
        Column("kernel", "kernel"),
    )
    rows = tuple(
        (*time_cells(measured, each.measure), each.measure.mean, *spread_cells(each.measure), each.operation.name)
        for each in timed
    )
    title = "kernels without an instruction"
    return Table("kernels", columns, rows, title=title, noun="kernels", main=False, limit=5)


def source_of(each: Timed) -> str | None:
    """The source line of an operation: that in the trace, else that in the metadata of the instruction."""
    operation = each.operation
    if operation.source or operation.instruction is None or operation.program is None:
        return operation.source or None
    module = operation.program.module
    location = None if module is None else module.location(operation.instruction)
    return None if location is None else str(location)


def _has_kernels(timed: Sequence[Timed]) -> bool:
    """Whether calls of some instructions are several events."""
    return any(each.measure.events != each.measure.calls for each in timed)


def _named(each: Timed) -> Row:
    operation = each.operation
    return (
        operation.name,
        None if operation.instruction is None else operation.instruction.opcode,
        operation.category,
        None if operation.program is None else operation.program.name,
        source_of(each),
        operation.op_name or None,
    )


def _next(measured: Measured) -> tuple[str, ...]:
    command = measured.command
    timed: Sequence[Timed] = [each for each in measured.selected if each.operation.is_joined]
    if not command or not timed:
        return ()
    longest = min(timed, key=rank)
    return f"{command} --by source", f"{command} {longest.operation.name}"
