"""The report of one memory space, which does not know its module: its chart, and the values at its peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.commands.shared.memory_timeline import band_of
from hlo_cli.report.column import Column, Share
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.timeline import Timeline, Track

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.memory_model import LiveValue, MemorySpaceUsage
    from hlo_cli.report.cell import Row

_COLUMNS = (
    Column("bytes", "", "bytes", total="sum"),
    Column("logical_bytes", "data", "bytes", total="sum", person=False),
    Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True)),
    Column("start", "start", "step"),
    Column("end", "end", "step"),
    Column("kind", "kind"),
    Column("value", "value", "name", role="name"),
    Column("shape", "shape", "shape"),
    Column("opcode", "opcode", "opcode"),
    Column("op_name", "op_name", "op_name", rank=2),
    Column("allocation", "allocation", "count", person=False),
    Column("offset", "offset", "address", person=False),
)


def report_of_space(space: MemorySpaceUsage) -> Report:
    """The chart of a memory space, and the values live at its peak.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[256] parameter(0)  ROOT n = f32[256] negate(p) }"
    >>> report_of_space(memory_analysis(parse_module(text)).spaces[0]).answer
    'main memory: 2 KiB live at the peak, step 1; 2 values'
    """
    live = space.live_at(space.peak)
    count = format_count(len(space.values), "values")
    return Report(
        "memspace",
        f"{space.name}: {format_bytes(space.peak_bytes)} live at the peak, step {space.peak:,}; {count}",
        parts=(
            Table("live_values", _COLUMNS, tuple(map(_row, live)), title=_title(space, live), noun="values", limit=10),
            Timeline(
                "buffers", (Track(space.name, space.timeline, tuple([band_of(*each) for each in space.occupancies()])),)
            ),
        ),
    )


def _title(space: MemorySpaceUsage, live: tuple[LiveValue, ...]) -> str:
    return f"Live in {space.name} at step {space.peak:,}: {format_count(len(live), 'values')}"


def _row(value: LiveValue) -> Row:
    return (
        value.padded_bytes,
        value.logical_bytes,
        1 - value.logical_bytes / value.padded_bytes if value.padded_bytes else 0.0,
        value.start,
        value.end,
        value.kind,
        str(value),
        str(value.shape),
        value.instruction.opcode,
        value.instruction.metadata.op_name or None,
        value.allocation,
        value.offset,
    )
