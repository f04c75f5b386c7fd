"""The tables of `hlo memspace`: the memory spaces, and the live values at a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.memory.memory_analysis import LiveValue, MemoryAnalysis, MemorySpaceUsage, allocated_bytes
from hlo_cli.commands.shared.memory_timeline import step_label
from hlo_cli.report.table import UNKNOWN, Column, Row, Share, Table


def memory_spaces_table(memory: MemoryAnalysis, *, limits: Mapping[int, int]) -> Table:
    """One row for each memory space; `limits` are the bytes of those whose capacity is known, by number."""
    is_estimate = any(space.offsets == "estimated" for space in memory.spaces)
    columns = (
        Column("space", "space"),
        Column("memory_space", "S(n)", "count", person=False),
        Column("values", "values", "count"),
        Column("logical_bytes", "data", "bytes", from_width=120),
        Column("padded_bytes", "padded", "bytes", from_width=120),
        Column("argument_bytes", "arguments", "bytes", from_width=120),
        Column("output_bytes", "outputs", "bytes", from_width=120),
        Column("aliased_bytes", "aliased", "bytes", from_width=120),
        Column("temporary_bytes", "temporaries", "bytes", from_width=120),
        Column("constant_bytes", "constants", "bytes", person=False),
        Column("fragmentation_bytes", "fragmentation", "bytes", person=False),
        Column("allocated_bytes", "est. allocated" if is_estimate else "allocated", "bytes"),
        Column("offsets", "offsets", person=False),
        Column("limit_bytes", "limit", "bytes", person=False),
        Column("peak_bytes", "live peak", "bytes"),
        Column("peak_step", "step", "step"),
        Column("peak_instruction", "at instruction", "name", role="name"),
    )
    rows = tuple(_space_row(memory, space, limits.get(space.number)) for space in memory.spaces)
    return Table("spaces", columns, rows, noun="spaces", main=False, limit=0)


def live_values_table(
    memory: MemoryAnalysis, live: Sequence[tuple[MemorySpaceUsage, LiveValue]], *, title: str, marked: frozenset[int]
) -> Table:
    """One row for each live buffer."""
    several = len({space.number for space, _ in live}) > 1
    total = sum(value.padded_bytes for _, value in live)
    columns = (
        Column("space", "space", person=several),
        Column("bytes", "", "bytes", total="sum"),
        Column("logical_bytes", "data", "bytes", total="sum", person=False),
        Column("share", "", "percent", total="sum"),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True)),
        Column("steps", "steps", "range", machine=False),
        Column("start", "start", "step", person=False),
        Column("end", "end", "step", person=False),
        Column("kind", "kind"),
        Column("value", "value", "name", role="name"),
        Column("shape", "shape", "shape"),
        Column("opcode", "opcode", "opcode", from_width=120),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", rank=4),
        Column("allocation", "allocation", "count", person=False),
        Column("offset", "offset", "address", person=False),
    )
    rows = tuple(_value_row(memory, space, value, total) for space, value in live)
    return Table("live_values", columns, rows, title=title, noun="values", limit=10, marked=marked)


def _space_row(memory: MemoryAnalysis, space: MemorySpaceUsage, limit: int | None) -> Row:
    totals = space.totals
    allocated = allocated_bytes(memory, space)
    return (
        space.name,
        space.number,
        len(space.values),
        sum(value.logical_bytes for value in space.values),
        sum(value.padded_bytes for value in space.values),
        totals.arguments,
        totals.outputs,
        totals.aliased,
        totals.temporaries,
        totals.constants,
        totals.fragmentation,
        UNKNOWN if allocated is None else allocated,
        space.offsets,
        limit,
        space.peak_bytes,
        space.peak,
        step_label(memory, space.peak),
    )


def _value_row(memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue, total: int) -> Row:
    instruction = value.instruction
    return (
        space.name,
        value.padded_bytes,
        value.logical_bytes,
        value.padded_bytes / total if total else 0.0,
        _padding(value),
        f"{value.start:,}–{value.end:,}",
        value.start,
        value.end,
        format_kind(memory, value),
        str(value),
        str(value.shape),
        instruction.opcode,
        instruction.metadata.op_name or None,
        _source(memory, value),
        value.allocation,
        value.offset,
    )


def _padding(value: LiveValue) -> float:
    return 1 - value.logical_bytes / value.padded_bytes if value.padded_bytes else 0.0


def format_kind(memory: MemoryAnalysis, value: LiveValue) -> str:
    """The kind of a value's buffer; `donated` is an argument that results may reuse but are not known to."""
    if value.kind == "argument" and (allocation := memory.allocation_of(value)) is not None and allocation.is_donated:
        return "donated"
    return value.kind


def _source(memory: MemoryAnalysis, value: LiveValue) -> str | None:
    location = memory.module.location(value.instruction)
    return str(location) if location is not None else None
