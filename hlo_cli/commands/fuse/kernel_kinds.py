"""Kernels of a module by kind and backend.

The cost of a custom call is counted where it follows from the text, as for matmuls by cuBLAS and cuDNN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.fusion.kernels import Kernel
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, columns_for
from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.cell import UNKNOWN, Cell, Row, number_of
from hlo_cli.report.column import Column
from hlo_cli.report.table import Table

CUSTOM_CALLS: Final = (
    "custom calls: flops are derived from matmul sizes and bytes from operand and result shapes, because XLA's cost"
    " analysis does not cover them"
)


def kernel_kinds_table(
    kernels: Sequence[Kernel], costs: Mapping[Instruction, Cost], timing: TimingColumns | None
) -> Table:
    """One row for each kind of kernel, with the total cost of its kernels, each counted once."""
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.backend.kind, kernel.backend.provider), []).append(kernel)
    repeats = any(kernel.times != 1 for kernel in kernels)
    columns = (
        Column("kernel_kind", "kernel kind"),
        Column("provider", "provider"),
        Column("kernels", "kernels", "count", total="sum"),
        Column("transfers", "transfers", "count", total="sum", person=any(k.is_transfer for k in kernels), rank=6),
        Column("launches", "launches", "count", total="sum", person=repeats),
        Column("flops", "flops", "count", total="sum"),
        Column("bytes", "accessed", "bytes", total="sum"),
        *(column for column in columns_for(timing) if column.total),
        Column("unknown_costs", "unknown cost", "count", person=any(costs[k.instruction].unknown for k in kernels)),
        Column("opcodes", "operations", rank=3),
    )
    rows = [_kind_row(kind, provider, made, costs, timing) for (kind, provider), made in groups.items()]
    rows.sort(key=lambda row: (row[0] == "transfer", -len(groups[str(row[0]), str(row[1])]), str(row[:2])))
    footnote = CUSTOM_CALLS if any(kernel.instruction.opcode == "custom-call" for kernel in kernels) else ""
    return Table(
        "kernel_kinds", columns, tuple(rows), noun="kernel kinds", main=False, person=bool(rows), footnote=footnote
    )


def _kind_row(
    kind: str, provider: str, made: Sequence[Kernel], costs: Mapping[Instruction, Cost], timing: TimingColumns | None
) -> Row:
    opcodes = Counter(kernel.instruction.opcode for kernel in made)
    times = [kernel.times for kernel in made]
    known = [each for each in times if each is not None]
    return (
        kind,
        provider,
        None if kind == "transfer" else len(made),
        len(made) if kind == "transfer" else None,
        sum(known) if len(known) == len(times) else UNKNOWN,
        sum(round(costs[kernel.instruction].flops) for kernel in made),
        sum(round(costs[kernel.instruction].bytes_accessed) for kernel in made),
        *_seconds(made, costs, timing),
        sum(costs[kernel.instruction].unknown for kernel in made),
        ", ".join(f"{opcode} {number:,}" for opcode, number in opcodes.most_common()),
    )


def _seconds(made: Sequence[Kernel], costs: Mapping[Instruction, Cost], timing: TimingColumns | None) -> Row:
    """Summed estimates and bounds of kernels: unknown if one is, None for transfers, which others overlap."""
    if timing is None:
        return ()
    if made[0].is_transfer:
        return None, None
    _, *summed = zip(*(timing.cells(kernel.instruction, costs[kernel.instruction]) for kernel in made), strict=True)
    return tuple(_sum(cells) for cells in summed)


def _sum(cells: Sequence[Cell]) -> Cell:
    known = [value for cell in cells if (value := number_of(cell)) is not None]
    return sum(known) if len(known) == len(cells) else UNKNOWN


def kernels_table(kernels: Sequence[Kernel], costs: Mapping[Instruction, Cost], timing: TimingColumns | None) -> Table:
    """One row for each kernel and transfer, for programs."""
    columns = (
        Column("instruction", "instruction", "name", role="name"),
        Column("opcode", "opcode", "opcode"),
        Column("kernel_kind", "kernel kind"),
        Column("provider", "provider"),
        Column("details", "details"),
        Column("execution_count", "executions", "count"),
        Column("flops", "flops", "count"),
        Column("bytes", "accessed", "bytes"),
        *columns_for(timing),
        Column("computation", "computation", "name"),
    )
    rows = tuple(_kernel_row(kernel, costs[kernel.instruction], timing) for kernel in kernels)
    return Table("kernels", columns, rows, noun="kernels", main=False, person=False)


def _kernel_row(kernel: Kernel, cost: Cost, timing: TimingColumns | None) -> Row:
    return (
        kernel.instruction.name,
        kernel.instruction.opcode,
        kernel.backend.kind,
        kernel.backend.provider,
        kernel.backend.details or None,
        UNKNOWN if kernel.times is None else kernel.times,
        round(cost.flops),
        round(cost.bytes_accessed),
        *(timing.cells(kernel.instruction, cost) if timing is not None else ()),
        kernel.instruction.computation.name,
    )
