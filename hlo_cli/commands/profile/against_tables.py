"""Tables of two profiles: sums of changed and unchanged code, kernels, and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.profile_diff import CHANGED, ComparedKernel, ProfileComparison
from hlo_cli.commands.profile.differences import difference_words
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Column, Row, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.profile import Operation
    from hlo_cli.analysis.profile.profile_diff import Body, ProgramPair

_SIGNS: Final[Mapping[Body, str | None]] = {"changed": "~", "new": "+", "gone": "-", "same": None, "unknown": None}
CODE: Final[Mapping[Body, str]] = {
    "changed": "changed",
    "new": "new",
    "gone": "gone",
    "same": "unchanged",
    "unknown": "unknown, without a module",
}
"""What the code of a kernel is, in words."""
_SPREAD: Final = (
    ("calls", "calls"),
    ("least_seconds", "min"),
    ("median_seconds", "median"),
    ("greatest_seconds", "max"),
)


def unit_words(found: ProfileComparison) -> str:
    """The unit in words: `per step`; per device, if there are several."""
    unit = f"per {found.unit}" if found.unit != "trace" else "in the trace"
    many = max(len(found.before.devices), len(found.after.devices)) > 1
    return f"{unit} and device" if many else unit


def sums_table(found: ProfileComparison, outliers: int) -> Table:
    """One row for each kind of code, with the sums of the times."""
    rows: list[Row] = []
    for body, words in CODE.items():
        total = found.sum_of(body)
        if body == "same" and total.kernels:
            few = "; too few calls to compare" if found.has_few_calls else "; no outliers"
            words += f"; {format_count(outliers, 'outliers')}" if outliers else few
        if total.kernels:
            rows.append((total.kernels, total.before, total.after, total.difference, words))
    columns = (
        Column("kernels", "kernels", "count", total="sum"),
        *_time_columns(found),
        Column("kernel_code", "code"),
    )
    return Table("sums", columns, tuple(rows), noun="kinds of code", main=False)


def _time_columns(found: ProfileComparison) -> tuple[Column, ...]:
    group, like = unit_words(found), "before_seconds"
    return (
        Column("before_seconds", "before", "seconds", group=group, total="sum"),
        Column("after_seconds", "after", "seconds", group=group, like=like, total="sum"),
        Column("difference_seconds", "diff", "seconds", group=group, like=like, total="sum"),
    )


def kernels_table(
    name: str,
    found: ProfileComparison,
    kernels: Sequence[ComparedKernel],
    *,
    title: str = "",
    main: bool = True,
    person: bool = True,
) -> Table:
    """One row for each kernel, with its difference and its times."""
    columns = (
        Column("change", "", "change", person=any(each.body in CHANGED for each in kernels)),
        *_time_columns(found),
        Column("ranges", "ranges"),
        Column("kernel", "kernel", "name"),
        Column("source", "source", "source", rank=5),
        Column("difference", "difference", from_width=120, rank=7),
        Column("before", "before", "name", from_width=120, rank=4, person=any(each.is_renamed for each in kernels)),
        Column("kernel_code", "code", person=False),
        Column("module", "module", person=False),
        Column("is_outlier", "outlier", "flag", person=False),
        *(
            Column(f"{side}_{field}", title, "number" if field == "calls" else "seconds", person=False)
            for side in ("before", "after")
            for field, title in _SPREAD
        ),
    )
    return Table(
        name, columns, tuple(map(_row, kernels)), title=title, noun="kernels", main=main, person=person, limit=12
    )


def _row(kernel: ComparedKernel) -> Row:
    one, two, operation = kernel.time_before, kernel.time_after, kernel.operation
    return (
        _SIGNS[kernel.body],
        None if one is None else one.time,
        None if two is None else two.time,
        kernel.difference_seconds,
        kernel.ranges or kernel.body,
        operation.name,
        _source(operation),
        difference_words(kernel),
        None if kernel.before is None else kernel.before.name,
        CODE[kernel.body],
        None if operation.program is None else operation.program.name,
        kernel.is_outlier,
        *(
            value
            for each in (one, two)
            for value in ((None,) * 4 if each is None else (each.calls, each.least, each.median, each.greatest))
        ),
    )


def differences_table(kernels: Sequence[ComparedKernel]) -> Table:
    """One row for each instruction inside a kernel that was changed, added, or removed."""
    columns = (
        Column("kernel", "kernel", "name"),
        Column("change", "", "change"),
        Column("instruction", "instruction", "name"),
        Column("opcode", "opcode", "opcode"),
        Column("details", "details"),
    )
    rows: list[Row] = []
    for kernel in kernels:
        name, found = kernel.operation.name, kernel.difference
        rows += [(name, "~", c.after.name, c.after.opcode, "; ".join(map(str, c.changes))) for c in found.changed]
        for sign, instructions in (("+", found.added), ("-", found.removed)):
            rows += [(name, sign, each.name, each.opcode, None) for each in instructions]
    return Table("differences", columns, tuple(rows), noun="instructions", main=False, person=False)


def _source(operation: Operation) -> str | None:
    module = None if operation.program is None else operation.program.module
    if module is None or operation.instruction is None:
        return operation.source or None
    location = module.location(operation.instruction)
    return None if location is None else str(location)


def programs_table(programs: Sequence[ProgramPair]) -> Table:
    """One row for each program, with the numbers of `hlo diff`."""
    columns = (
        Column("before", "before", "name"),
        Column("after", "after", "name"),
        *(Column(name, name, "count") for name in ("matched", "changed", "added", "removed", "moved")),
        Column("header_changes", "header", "count"),
    )
    rows = tuple(
        (
            None if each.before is None else each.before.name,
            None if each.after is None else each.after.name,
            *((None,) * 6 if each.difference is None else _counts(each)),
        )
        for each in programs
    )
    return Table("programs", columns, rows, noun="programs", main=False, person=False)


def _counts(pair: ProgramPair) -> Row:
    found = pair.difference
    assert found is not None
    return found.matched, *map(len, (found.changed, found.added, found.removed, found.moved, found.header))
