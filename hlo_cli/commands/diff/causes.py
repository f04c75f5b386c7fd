"""`hlo diff OLD NEW --by source`: changes and costs for each line, scope, or argument of the user's program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hlo_cli.analysis.cost.cost_analysis import KernelCost, kernel_costs
from hlo_cli.analysis.dataflow.executions import sequential_executions
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.origin.origins import By, Keys, keys_of
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table, Unit
from hlo_cli.source import HloError

_UNITS: Mapping[By, Unit] = {"source": "source", "scope": "op_name", "argument": "op_name"}


def report_of_causes(comparison: ModuleDiff, by: By, input_facts: Mapping[str, Mapping[str, str | None]]) -> Report:
    """A row for each key whose instructions or costs differ, the largest change of bytes accessed first."""
    if by == "pass":
        raise HloError(
            "hlo diff does not support --by pass", hint="use --passes for the changes of each pass of one directory"
        )
    keys = keys_of(comparison.before, by), keys_of(comparison.after, by)
    costs = _costs(comparison.before, keys[0]), _costs(comparison.after, keys[1])
    rows = _rows(comparison, keys)
    found = sorted({*rows[0], *rows[1], *rows[2], *costs[0], *costs[1]})
    none = KernelCost()
    table_rows: list[Row] = []
    for key in found:
        one, two = costs[0].get(key, none), costs[1].get(key, none)
        counts = [each[key] for each in rows]
        if any(counts) or (one.flops, one.bytes, one.kernels) != (two.flops, two.bytes, two.kernels):
            changes = (two.bytes - one.bytes, one.bytes, two.bytes, one.flops, two.flops, one.kernels, two.kernels)
            table_rows.append((key, *counts, *changes))
    table_rows.sort(key=lambda row: (-abs(_number(row[4])), -sum(map(_number, row[1:4])), str(row[0])))
    table = Table("causes", _columns(by), tuple(table_rows), noun=f"{by}s")
    return Report(
        "diff",
        _answer(table_rows, by, len(found)),
        numbers={"by": by, "keys": len(found), "differing": len(table_rows)},
        parts=(table,),
        input=input_facts,
    )


def _columns(by: By) -> tuple[Column, ...]:
    return (
        Column(by, by, _UNITS[by], role="name"),
        Column("changed", "changed", "count", total="sum", rank=6),
        Column("added", "added", "count", total="sum", rank=6),
        Column("removed", "removed", "count", total="sum", rank=6),
        Column("change_bytes", "change", "bytes", total="sum"),
        Column("before_bytes", "before", "bytes", total="sum", group="accessed", rank=7),
        Column("after_bytes", "after", "bytes", total="sum", group="accessed", like="before_bytes", rank=7),
        Column("before_flops", "before", "count", total="sum", group="flops", from_width=120, rank=4),
        Column("after_flops", "after", "count", total="sum", group="flops", from_width=120, rank=4),
        Column("before_kernels", "before", "count", total="sum", group="kernels", from_width=120, rank=3),
        Column("after_kernels", "after", "count", total="sum", group="kernels", from_width=120, rank=3),
    )


def _costs(module: Module, keys: Keys) -> dict[str, KernelCost]:
    """The costs of the kernels with each key, loops as often as they run; an unknown trip count counts as 1."""
    found: dict[str, KernelCost] = {}
    for computation, executions in sequential_executions(module).items():
        for kernel, cost in kernel_costs(computation.instructions).items():
            key = keys(kernel)
            found[key] = found.get(key, KernelCost()) + cost * executions.count
    return found


def _rows(comparison: ModuleDiff, keys: tuple[Keys, Keys]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """How many instructions with each key changed, were added, and were removed."""
    return (
        Counter(keys[1](each.after) for each in comparison.changed),
        Counter(map(keys[1], comparison.added)),
        Counter(map(keys[0], comparison.removed)),
    )


def _number(cell: object) -> int:
    return cell if isinstance(cell, int) else 0


def _answer(rows: Sequence[Row], by: By, keys: int) -> str:
    if not rows:
        return f"No differences by {by} ({format_count(keys, f'{by}s')})"
    key, size = rows[0][0], _number(rows[0][4])
    verb = "more" if size > 0 else "less"
    words = f"{len(rows):,} of {format_count(keys, f'{by}s')} differ"
    return f"{words}; {key} most: {format_bytes(abs(size))} {verb} accessed" if size else words
