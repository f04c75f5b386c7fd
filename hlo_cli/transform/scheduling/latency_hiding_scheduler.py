"""Latency-hiding orders, each with a lower memory limit than the one before.

Mirrors the loop of `LatencyHidingScheduler::RunImpl` of xla/service/latency_hiding_scheduler.cc, which schedules again
with a lower memory limit while the result exceeds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.memory.assignment import Orders
from hlo_cli.analysis.schedule.async_overlap import AsyncPair, async_pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.async_latencies import LatencyModel, async_latencies, times_by_bytes
from hlo_cli.transform.scheduling.executed_computations import ExecutedComputations
from hlo_cli.transform.scheduling.graph import scheduled_first
from hlo_cli.transform.scheduling.list_scheduler_latency import Limits, schedule_by_latency
from hlo_cli.transform.scheduling.live_memory import peak_of_order

_MAX_ROUNDS: Final = 4
"""Maximum number of orders with successively lower memory limits."""
_MAX_ORDERED: Final = 100_000
"""Maximum number of instructions ordered in all rounds; the first round always runs."""


def max_refinements(module: Module) -> int:
    """Number of orders to try with successively lower memory limits.

    >>> from hlo_cli import parse_module
    >>> max_refinements(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }"))
    4
    """
    return min(max(_MAX_ORDERED // max(module.instruction_count, 1), 1), _MAX_ROUNDS)


def latency_schedules(
    executed: ExecutedComputations, limits: Limits, reserved: Limits, latency_model: LatencyModel | None
) -> Orders:
    """Latency-hiding order of each computation with async pairs; `reserved` bytes of each space must stay unused."""
    pairs: dict[Computation, list[AsyncPair]] = {}
    for pair in async_pairs(executed.module).pairs:
        pairs.setdefault(pair.start.computation, []).append(pair)
    uses = executed.uses
    orders: dict[Computation, Sequence[Instruction]] = {}
    for flow, graph in executed.computations():
        computation = flow.computation
        if computation not in pairs:
            continue
        latencies = async_latencies(
            graph, pairs[computation], latency_model or times_by_bytes(computation, uses.bytes_of)
        )
        if latencies.durations:
            nodes = schedule_by_latency(graph, latencies, uses.space, limits, reserved)
            orders[computation] = scheduled_first(opcodes.CONSTANT, graph.instructions(nodes))
            executed.peaks[computation] = peak_of_order(graph, nodes)
    return orders
