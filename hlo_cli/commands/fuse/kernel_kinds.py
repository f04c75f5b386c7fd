"""Kernels of a module by kind and backend.

The cost of a custom call is counted where it follows from the text, as for matmuls by cuBLAS and cuDNN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Final

from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.fusion.kernels import Fusion, Kernel
from hlo_cli.analysis.origin.origins import UNKNOWN_KEY, Keys, keys_of
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, columns_for
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.table import UNKNOWN, Cell, Column, DeferredRows, Row, Table, number_of

CUSTOM_CALLS: Final = (
    "custom calls: flops are derived from matmul sizes and bytes from operand and result shapes, because XLA's cost"
    " analysis does not cover them"
)


def kernel_kinds_table(
    kernels: Sequence[Kernel], costs: Mapping[Instruction, Cost], timing: TimingColumns | None
) -> Table:
    """One row for each kind of kernel, with the total cost of all launches of its kernels."""
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
        _of_launches(made, lambda kernel: round(costs[kernel.instruction].flops)),
        _of_launches(made, lambda kernel: round(costs[kernel.instruction].bytes_accessed)),
        *_seconds(made, costs, timing),
        sum(costs[kernel.instruction].unknown for kernel in made),
        ", ".join(f"{opcode} {number:,}" for opcode, number in opcodes.most_common()),
    )


def _seconds(made: Sequence[Kernel], costs: Mapping[Instruction, Cost], timing: TimingColumns | None) -> Row:
    """Summed estimates and bounds of kernels: unknown if one is, None for transfers, which others overlap."""
    if timing is None:
        return ()
    is_summed = [bool(column.total) for column in columns_for(timing)]
    if made[0].is_transfer:
        return (None,) * sum(is_summed)
    rows = (timing.cells(kernel.instruction, costs[kernel.instruction]) for kernel in made)
    columns = compress(zip(*rows, strict=True), is_summed)
    return tuple(_of_launches(made, dict(zip(made, cells, strict=True)).__getitem__) for cells in columns)


def _of_launches(made: Sequence[Kernel], cost_of: Callable[[Kernel], Cell]) -> Cell:
    """The cost of all launches of kernels; unknown if that of one is, or how often a kernel with a cost is launched."""
    total: int | float = 0
    for kernel in made:
        cost = number_of(cost_of(kernel))
        if cost is None or (cost and kernel.times is None):
            return UNKNOWN
        total += cost * (kernel.times or 0)
    return total


def kernels_table(
    kernels: Sequence[Kernel],
    costs: Mapping[Instruction, Cost],
    timing: TimingColumns | None,
    *,
    fusions: Sequence[Fusion],
    module: Module,
) -> Table:
    """One row for each kernel and transfer, for programs; computed when it is read."""
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
        *_model_columns(timing),
        Column("read_bytes", "read", "bytes"),
        Column("written_bytes", "written", "bytes"),
        Column("saved_bytes", "saved", "bytes"),
        Column("fused", "fused operations"),
        Column("computation", "computation", "name"),
        Column("op_name", "op_name", "op_name"),
        Column("source", "source", "source"),
        Column("origin", "origin", "source"),
    )

    def rows() -> tuple[Row, ...]:
        keys, fused = keys_of(module, "source"), {fusion.instruction: fusion for fusion in fusions}
        launched = ((kernel, kernel.instruction) for kernel in kernels)
        return tuple(
            _kernel_row(kernel, costs[launch], timing, fused.get(launch), module.location(launch), keys)
            for kernel, launch in launched
        )

    return Table("kernels", columns, DeferredRows(rows), noun="kernels", main=False, person=False)


def fused_operations(fusion: Fusion) -> str | None:
    """The opcodes that a fusion contains, with how often each occurs; None for an empty one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.kernels import fusions_of
    >>> body = "f { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT t = f32[9] add(n, n) }"
    >>> text = f"HloModule m  {body}  ENTRY e {{ a = f32[9] parameter(0)  ROOT r = f32[9] fusion(a), calls=f }}"
    >>> fused_operations(fusions_of(parse_module(text))[0])
    'negate 1, add 1'
    """
    opcodes = Counter(each.opcode for each in fusion.operations)
    return ", ".join(f"{opcode} {number}" for opcode, number in opcodes.most_common()) or None


def _kernel_row(
    kernel: Kernel,
    cost: Cost,
    timing: TimingColumns | None,
    fusion: Fusion | None,
    location: SourceLocation | None,
    keys: Keys,
) -> Row:
    instruction = kernel.instruction
    origin = keys(instruction) if location is None else UNKNOWN_KEY
    written = round(cost.output_bytes) if cost.bytes_accessed or not cost.unknown else None
    return (
        instruction.name,
        instruction.opcode,
        kernel.backend.kind,
        kernel.backend.provider,
        kernel.backend.details or None,
        UNKNOWN if kernel.times is None else kernel.times,
        round(cost.flops),
        round(cost.bytes_accessed),
        *((*timing.cells(instruction, cost), *timing.model_cells(instruction, cost)) if timing is not None else ()),
        None if written is None else round(cost.bytes_accessed) - written,
        written,
        fusion.saved_bytes if fusion is not None else None,
        fused_operations(fusion) if fusion is not None else None,
        instruction.computation.name,
        instruction.metadata.op_name or None,
        str(location) if location is not None else None,
        origin if origin != UNKNOWN_KEY else None,
    )


def _model_columns(timing: TimingColumns | None) -> tuple[Column, ...]:
    if timing is None:
        return ()
    from hlo_cli.commands.fuse.kernel_model import MODEL_COLUMNS

    return MODEL_COLUMNS
