"""The orders with the lowest peaks: of XLA's schedulers, those and others made tighter, and the best of each.

Mirrors `DefaultMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, which takes the best of
three for the whole module. The same three are among those tried here, so that the result is never worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.peaks import Orders, Peaks, peaks_of
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.transform.scheduling.breadth_first import breadth_first
from hlo_cli.transform.scheduling.by_buffers import by_buffers
from hlo_cli.transform.scheduling.by_memory import by_memory
from hlo_cli.transform.scheduling.depth_first import heaviest_first, post_order
from hlo_cli.transform.scheduling.flow import Flow
from hlo_cli.transform.scheduling.graph import Graph, in_front
from hlo_cli.transform.scheduling.held import peak_of_order
from hlo_cli.transform.scheduling.running import Running
from hlo_cli.transform.scheduling.tightened import tightened

_MEASURED: Final = 150_000
"""How many instructions are measured in all to choose between orders of the whole module."""

_LEAST: Final = 5
"""How many orders are measured at least, if any."""

_SCHEDULERS: Final = (heaviest_first, by_memory, post_order, breadth_first)


def memory_orders(running: Running, before: Peaks) -> Iterator[Orders]:
    """Orders of the module by their peaks, the lowest first, that are lower than before and in no space higher.

    What is lower is so with constants there for the whole run: to have them later is no gain, and only chooses between
    orders of a module that has none yet.

    How many are measured depends on the size of the module: XLA's, the best by what schedulers count for each
    computation, those made tighter. In a large one the best by that count is all there is. Constants that stood in
    front stay there, where that costs nothing.
    """
    candidates = _candidates(running)
    count = _MEASURED // max(running.module.instruction_count, 1)
    if count < _LEAST:
        yield candidates[0]
        return
    ranked: list[tuple[tuple[int, int], int, Orders]] = []
    for number, orders in enumerate(candidates[:count]):
        peaks = peaks_of(running.uses.facts, orders)
        if peaks.is_within(before):
            ranked.append((_rank(peaks), number, orders))
    ranked.sort(key=lambda each: each[:2])
    whole, standing = _rank(before)
    for rank, _, orders in ranked:
        if rank < (whole, 0 if running.module.is_scheduled else standing):
            unmoved = {computation: in_front("constant", order) for computation, order in orders.items()}
            if _rank(peaks_of(running.uses.facts, unmoved)) <= rank:
                yield unmoved
            yield orders


def _rank(peaks: Peaks) -> tuple[int, int]:
    return sum(peaks.whole.values()), sum(peaks.standing.values())


def _candidates(running: Running) -> list[Orders]:
    best: dict[Computation, Sequence[Instruction]] = {}
    found: list[dict[Computation, Sequence[Instruction]]] = []
    for flow, graph in running.computations():
        least = running.peaks[flow.computation]
        best[flow.computation] = flow.computation.instructions
        for number, nodes in enumerate(_tried(flow, graph)):
            if number == len(found):
                found.append({})
            order = found[number][flow.computation] = graph.instructions(nodes)
            peak = peak_of_order(graph, nodes)
            if peak < least:
                least, best[flow.computation] = peak, order
        running.peaks[flow.computation] = least
    return [best, *found]


def _tried(flow: Flow, graph: Graph) -> Iterator[Sequence[int]]:
    """XLA's orders first, then those made tighter."""
    orders = [graph.nodes(scheduler(flow)) for scheduler in _SCHEDULERS]
    yield from orders
    orders.append(by_buffers(graph))
    yield orders[-1]
    for order in (*orders, range(len(graph))):
        yield tightened(graph, order)
