"""Tables that compare the metrics of two modules: bytes and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.statements.statement import Collectives
from hlo_cli.analysis.statements.statements import ModuleMetrics, ModuleNumbers
from hlo_cli.ir.memory_space import space_name
from hlo_cli.report.table import Cell, Column, Row, Table


def summary_tables(old: ModuleNumbers, new: ModuleNumbers, target: Target | None) -> tuple[Table, Table]:
    """Tables of memory and of counts, with the rows that differ; costs are those of all iterations of loops."""
    memory = (*_byte_rows(old, new), *_peak_rows(old.metrics, new.metrics, target))
    return _table("memory", "bytes", memory), _table("costs", "count", tuple(_count_rows(old, new)))


def collective_table(old: ModuleNumbers, new: ModuleNumbers) -> Table:
    """The collectives by kind: how many, and the bytes of their results."""
    columns = (
        Column("kind", "collective"),
        Column("before", "before", "count"),
        Column("after", "after", "count"),
        Column("before_bytes", "before", "bytes"),
        Column("after_bytes", "after", "bytes", like="before_bytes"),
    )
    rows = []
    for kind in sorted({*old.collectives, *new.collectives}):
        one, two = (side.collectives.get(kind, Collectives(kind, 0, 0)) for side in (old, new))
        rows.append((kind, one.count, two.count, one.bytes, two.bytes))
    return Table("collectives", columns, tuple(rows), noun="kinds", main=False)


def record_of(given: ModuleNumbers, target: Target | None) -> Mapping[str, Cell]:
    """All numbers of a module, for programs."""
    metrics = given.metrics
    numbers: dict[str, Cell] = {f.name: getattr(metrics, f.name) for f in fields(metrics) if f.name != "peak_bytes"}
    numbers |= {"executed_flops": given.flops, "executed_bytes_accessed": given.bytes_accessed}
    return {**numbers, "peak_bytes": {space_name(space, target): n for space, n in metrics.peak_bytes.items()}}


def _table(name: str, unit: str, rows: tuple[Row, ...]) -> Table:
    suffix = "_bytes" if unit == "bytes" else ""
    columns = (
        Column("metric", "metric"),
        Column(f"before{suffix}", "before", "bytes" if suffix else "count"),
        Column(f"after{suffix}", "after", "bytes" if suffix else "count", like=f"before{suffix}"),
        Column("ratio", "", "ratio", person=any(row[3] is not None for row in rows)),
    )
    return Table(name, columns, rows, noun="metrics", main=False)


def _byte_rows(old: ModuleNumbers, new: ModuleNumbers) -> Iterator[Row]:
    one, two = old.metrics, new.metrics
    yield from _row("arguments", one.argument_bytes, two.argument_bytes)
    yield from _row("all values", one.value_bytes, two.value_bytes)
    yield from _row("padding", one.padding_bytes, two.padding_bytes)
    yield from _row("bytes accessed", old.bytes_accessed, new.bytes_accessed)


def _peak_rows(old: ModuleMetrics, new: ModuleMetrics, target: Target | None) -> Iterator[Row]:
    for space in sorted({*old.peak_bytes, *new.peak_bytes}):
        name = space_name(space, target)
        yield from _row(f"peak {name}", old.peak_bytes.get(space, 0), new.peak_bytes.get(space, 0))


def _count_rows(old: ModuleNumbers, new: ModuleNumbers) -> Iterator[Row]:
    one, two = old.metrics, new.metrics
    yield from _row("flops", old.flops, new.flops)
    yield from _row("kernels", one.kernels, two.kernels)
    yield from _row("collectives", one.collectives, two.collectives)
    yield from _row("computations", one.computations, two.computations)
    yield from _row("instructions", one.instructions, two.instructions)


def _row(metric: str, before: int, after: int) -> Iterator[Row]:
    """The row, if the two numbers differ; their ratio if neither is zero."""
    ratio: Cell = after / before if before and after else None
    if before != after:
        yield metric, before, after, ratio
