"""Columns of measured times: for each device, share, calls, rates, and the part of the roof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.profile.timed import Sum, Timed
from hlo_cli.report.table import Column, Row

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.measure import Measure
    from hlo_cli.commands.profile.measured import Measured

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
        Column("busy_seconds", "busy", "seconds", total="sum", group=group, person=measured.overlap > 1),
        Column("device_calls", "calls", "count", total="sum", group=group, person=is_many, rank=6),
        Column("calls", "calls", "count", total="sum", person=not is_many, rank=6),
        Column("device_events", "kernels", "count", total="sum", group=group, person=has_kernels, rank=5),
        Column("events", "kernels", "count", total="sum", person=False),
        Column("share", "share", "percent", total="sum"),
        Column("self_seconds", "self", "seconds", total="sum", person=False),
        Column("total_seconds", "total", "seconds", total="sum", person=False),
    )


def time_cells(measured: Measured, each: Measure | Sum) -> Row:
    """Times and calls; shares are parts of the time of all devices, idle time included.

    Where operations run at the same time, their shares are those of their parts of the busy time.
    """
    devices = max(len(measured.profile.devices), 1)
    calls, events = (
        round(amount / devices) if amount % devices == 0 else amount / devices for amount in (each.calls, each.events)
    )
    return (
        each.self_time / devices,
        each.busy_time / devices,
        calls,
        each.calls,
        events,
        each.events,
        each.busy_time / measured.whole if measured.whole else None,
        each.self_time,
        each.total,
    )


def rate_columns(measured: Measured, rows: Sequence[Row]) -> tuple[Column, ...]:
    """The columns of `rate_cells`, of which these are the rows; the roof only if the peaks of the device are known."""
    has_flops, has_bytes = any(row[2] for row in rows), any(row[3] for row in rows)
    roof = (Column("bound", "bound", rank=5), Column("roofline_fraction", "of roof", "percent", rank=7))
    return (
        Column("flops", "flops", "count", person=False),
        Column("bytes", "bytes", "bytes", person=False),
        Column("flop_rate", "", "flop/second", rank=7, person=has_flops),
        Column("byte_rate", "", "byte/second", rank=7, person=has_bytes),
        *(roof if measured.roofs.is_known else ()),
    )


def rate_cells(measured: Measured, each: Timed | Sum) -> Row:
    """The work of all calls, rates, the resource that bounds them, and the part of that resource's peak."""
    if isinstance(each, Sum):
        cells: Row = (each.flops, each.bytes, each.flop_rate, each.byte_rate)
        return (*cells, each.bound, each.roof) if measured.roofs.is_known else cells
    operation, calls, rates = each.operation, each.measure.calls, each.rates
    work = (None if amount is None else amount * calls for amount in (operation.flops, operation.bytes))
    flop_rate = None if operation.flops is None else rates.flops
    byte_rate = None if operation.bytes is None else rates.bytes
    cells = (*work, flop_rate, byte_rate)
    return (*cells, rates.bound_by or None, rates.efficiency or None) if measured.roofs.is_known else cells


def spread_cells(measure: Measure) -> Row:
    """The cells of `EVENT_COLUMNS`."""
    return measure.least, measure.median, measure.greatest, measure.deviation
