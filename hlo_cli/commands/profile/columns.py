"""Columns of measured times: for each device, share, calls, rates, and the part of the roof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column, Share

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Sum

EVENT_COLUMNS: Final = (
    Column("least_seconds", "min", "seconds", from_width=200),
    Column("median_seconds", "median", "seconds", from_width=200),
    Column("greatest_seconds", "max", "seconds", from_width=200),
    Column("deviation_seconds", "deviation", "seconds", person=False),
)
"""The spread of the events of an instruction."""


def time_columns(measured: Measured, *, has_kernels: bool = False) -> tuple[Column, ...]:
    """The columns of `time_cells`; for people, those of one device. `has_kernels`: some calls are several events."""
    is_many = len(measured.profile.devices) > 1
    group = f"per {measured.device_noun}" if is_many else ""
    return (
        Column("seconds", "self", "seconds", total="sum", group=group),
        Column("device_calls", "calls", "count", total="sum", group=group, person=is_many, rank=6),
        Column("calls", "calls", "count", total="sum", person=not is_many, rank=6),
        Column("events", "kernels", "count", total="sum", person=has_kernels, rank=5),
        Column("share", "share", "percent", total="sum"),
        Column("self_seconds", "self", "seconds", total="sum", person=False),
        Column("total_seconds", "total", "seconds", total="sum", person=False),
    )


def time_cells(measured: Measured, each: Sum) -> Row:
    """Times and calls of a sum; shares are parts of the time of all devices, idle time included."""
    devices = max(len(measured.profile.devices), 1)
    calls = each.calls / devices
    return (
        each.self_time / devices,
        round(calls) if calls == round(calls) else calls,
        each.calls,
        each.events,
        each.self_time / measured.whole if measured.whole else None,
        each.self_time,
        each.total,
    )


def rate_columns(measured: Measured, sums: Sequence[Sum]) -> tuple[Column, ...]:
    """The columns of `rate_cells`; the part of the roof only if the peaks of the device are known."""
    has_flops, has_bytes = any(each.flops for each in sums), any(each.bytes for each in sums)
    roof = (
        Column("floor_seconds", "floor", "seconds", total="sum", person=False),
        Column("bound", "bound", rank=5),
        Column("roofline_fraction", "of roof", "percent", rank=7, total=Share("floor_seconds", "work_seconds")),
    )
    return (
        Column("flops", "flops", "count", total="sum", person=False),
        Column("bytes", "bytes", "bytes", total="sum", person=False),
        Column("work_seconds", "with work", "seconds", total="sum", person=False),
        Column("flop_rate", "", "flop/second", total=Share("flops", "work_seconds"), rank=7, person=has_flops),
        Column("byte_rate", "", "byte/second", total=Share("bytes", "work_seconds"), rank=7, person=has_bytes),
        *(roof if measured.roofs.is_known else ()),
    )


def rate_cells(measured: Measured, each: Sum) -> Row:
    """Work and rates of a sum, the resource that bounds it, and its part of that resource's peak."""
    cells: Row = (each.flops, each.bytes, each.work_time, each.flop_rate, each.byte_rate)
    if not measured.roofs.is_known:
        return cells
    return *cells, max(each.compute, each.memory), each.bound, each.roof
