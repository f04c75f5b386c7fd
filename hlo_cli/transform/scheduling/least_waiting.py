"""Orders that wait for less, each in less memory than the one before.

Mirrors the loop of `LatencyHidingScheduler::RunImpl` of xla/service/latency_hiding_scheduler.cc, which schedules again
with a lower memory limit as long as the result takes too much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.async_pairs import AsyncPair, async_pairs
from hlo_cli.analysis.peaks import Orders, peaks_of
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.transform.scheduling.by_latency import Limits, by_latency
from hlo_cli.transform.scheduling.flights import Times, flights_of, times_by_bytes
from hlo_cli.transform.scheduling.graph import in_front
from hlo_cli.transform.scheduling.held import peak_of_order
from hlo_cli.transform.scheduling.running import Running

_ROUNDS: Final = 4
"""How often the room for what hides latency is narrowed, when the order takes more memory than it may."""
_LARGE: Final = 50_000
"""The number of instructions from which on there is one round."""


def latency_orders(
    running: Running, before: Mapping[int, int], limits: Limits, times: Times | None
) -> Iterator[Orders]:
    """Orders that hide latency, each in less room than the one before; `before` are the peaks of the present order."""
    allowed = {**before, **limits}
    less: dict[int, int] = {}
    for left in reversed(range(1 if running.module.instruction_count > _LARGE else _ROUNDS)):
        orders = _orders(running, limits, less, times)
        yield orders
        if not left:
            return
        for space, peak in peaks_of(running.uses.facts, orders).items():
            if peak > allowed.get(space, 0):
                less[space] = less.get(space, 0) + peak - allowed.get(space, 0)


def _orders(running: Running, limits: Limits, less: Limits, times: Times | None) -> Orders:
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
            orders[computation] = in_front("constant", graph.instructions(nodes))
            running.peaks[computation] = peak_of_order(graph, nodes)
    return orders
