"""Orders that wait for less, each in less memory than the one before.

Mirrors the loop of `LatencyHidingScheduler::RunImpl` of xla/service/latency_hiding_scheduler.cc, which schedules again
with a lower memory limit as long as the result takes too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.memory.peaks import Orders
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, async_pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.async_latencies import LatencyModel, flights_of, times_by_bytes
from hlo_cli.transform.scheduling.executed_computations import Running
from hlo_cli.transform.scheduling.graph import in_front
from hlo_cli.transform.scheduling.list_scheduler_latency import Limits, by_latency
from hlo_cli.transform.scheduling.live_memory import peak_of_order

_ROUNDS: Final = 4
"""How often the room for what hides latency is narrowed, when the order takes more memory than it may."""
_ORDERED: Final = 100_000
"""How many instructions are put in order in all; the first round is there in any case."""


def rounds_of(module: Module) -> int:
    """How often an order is tried, in less and less room.

    >>> from hlo_cli import parse_module
    >>> rounds_of(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }"))
    4
    """
    return min(max(_ORDERED // max(module.instruction_count, 1), 1), _ROUNDS)


def latency_orders(running: Running, limits: Limits, less: Limits, times: LatencyModel | None) -> Orders:
    """An order that hides latency of each computation with asynchronous pairs; `less` are bytes that it may not use."""
    pairs: dict[Computation, list[AsyncPair]] = {}
    for pair in async_pairs(running.module).pairs:
        pairs.setdefault(pair.start.computation, []).append(pair)
    uses = running.uses
    orders: dict[Computation, Sequence[Instruction]] = {}
    for flow, graph in running.computations():
        computation = flow.computation
        if computation not in pairs:
            continue
        flights = flights_of(graph, pairs[computation], times or times_by_bytes(computation, uses.bytes_of))
        if flights.takes:
            nodes = by_latency(graph, flights, uses.space, limits, less)
            orders[computation] = in_front(opcodes.CONSTANT, graph.instructions(nodes))
            running.peaks[computation] = peak_of_order(graph, nodes)
    return orders
