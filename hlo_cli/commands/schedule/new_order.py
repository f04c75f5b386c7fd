"""The module of `hlo schedule --reorder`: rescheduled for a goal, within a limit, and with the times of a chip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.syntax.byte_sizes import parse_size
from hlo_cli.transform import reorder
from hlo_cli.transform.schedule.latency_scheduler import times_on_chip

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.ir.module import Module
    from hlo_cli.transform.reorder import Goal, ReorderedModule


def new_order(module: Module, goal: Goal, *, limit: str | None, throughput: ChipSpec | None) -> ReorderedModule:
    """A module in a new order; `limit` is a size such as 12GiB for the main memory.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }")
    >>> new_order(module, "dfs", limit=None, throughput=None).module.is_scheduled
    True
    """
    limits = {} if limit is None else {0: parse_size(limit)}
    times = None
    if throughput is not None and goal == "latency":
        times = times_on_chip(analyze_overlap(module), throughput)
    return reorder.reorder_with_peaks(module, goal, limits=limits, latency_model=times)
