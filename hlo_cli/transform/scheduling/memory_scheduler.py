"""The orders with the lowest peaks: of XLA's schedulers, those and others made tighter, and the best of each.

Mirrors `DefaultMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, which takes the best of
three for the whole module. The same three are among those tried here, so that the result is never worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.memory.peaks import Orders, Peaks, peaks_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.breadth_first import breadth_first
from hlo_cli.transform.scheduling.dataflow import Flow
from hlo_cli.transform.scheduling.depth_first import heaviest_first, post_order
from hlo_cli.transform.scheduling.executed_computations import Running
from hlo_cli.transform.scheduling.graph import Graph, in_front
from hlo_cli.transform.scheduling.list_scheduler_buffers import by_buffers
from hlo_cli.transform.scheduling.list_scheduler_memory import by_memory
from hlo_cli.transform.scheduling.live_memory import PeakMeasure
from hlo_cli.transform.scheduling.tighten import tightened

_MEASURED: Final = 150_000
"""How many instructions are measured in all to choose between orders of the whole module."""

_LEAST: Final = 5
"""How many orders are measured at least, if any."""

_TIGHTENED: Final = 100_000
"""How many instructions of a large module are made tighter in all: each computation's orders with the lowest peaks."""

Rank = tuple[int, int, int]

_SCHEDULERS: Final = (heaviest_first, by_memory, post_order, breadth_first)


def memory_orders(running: Running, before: Peaks) -> Iterator[Orders]:
    """Orders of the module by temporary allocations and peaks, the lowest first, that are lower than before.

    A schedule that is there gets none with a higher peak in any space.

    What is lower is so with constants there for the whole run: to have them later is no gain, and only chooses between
    orders of a module that has none yet.

    How many are measured depends on the size of the module: XLA's, the best by what schedulers count for each
    computation, those made tighter. In a large one the best by that count is all there is. Constants that stood in
    front stay there, where that costs nothing.
    """
    count = _MEASURED // max(running.module.instruction_count, 1)
    if count < _LEAST:
        yield _candidates(running, 1)[0]
        return
    ranked: list[tuple[Rank, int, Orders]] = []
    for number, orders in enumerate(_candidates(running, count)):
        peaks = measured(running, orders)
        if is_no_worse(running.module, peaks, before):
            ranked.append((_rank(peaks), number, orders))
    ranked.sort(key=lambda each: each[:2])
    temporaries, whole, standing = _rank(before)
    for rank, _, orders in ranked:
        if rank < (temporaries, whole, 0 if running.module.is_scheduled else standing):
            unmoved = {computation: in_front(opcodes.CONSTANT, order) for computation, order in orders.items()}
            if _rank(measured(running, unmoved)) <= rank:
                yield unmoved
            yield orders


def measured(running: Running, orders: Orders) -> Peaks:
    """The peaks of a module in some orders, and the temporary allocations, but for TPUs.

    What a program takes is these: buffers lie at multiples of 64 bytes on CPUs, of 256 on GPUs, and between others.
    """
    return peaks_of(running.uses.facts, orders, with_temporaries=running.uses.facts.target != "tpu")


def is_no_worse(module: Module, peaks: Peaks, before: Peaks) -> bool:
    """Whether no peak is higher than before; where nothing is scheduled, whether what is allocated is not."""
    if module.is_scheduled or not before.temporaries:
        return peaks.is_within(before)
    return sum(peaks.temporaries.values()) <= sum(before.temporaries.values())


def _rank(peaks: Peaks) -> Rank:
    return sum(peaks.temporaries.values()), sum(peaks.whole.values()), sum(peaks.standing.values())


def _candidates(running: Running, count: int) -> list[Orders]:
    """So many orders of the module: the best of each computation, and those that are tried, one after the other."""
    most = max(_TIGHTENED // running.module.instruction_count, 1) if count < _LEAST else None
    best: dict[Computation, Sequence[Instruction]] = {}
    found: list[dict[Computation, Sequence[Instruction]]] = []
    for flow, graph in running.computations():
        least = running.peaks[flow.computation]
        best[flow.computation] = flow.computation.instructions
        lowest: Sequence[int] | None = None
        for number, (nodes, peak) in enumerate(_tried(flow, graph, most)):
            if peak < least:
                least, lowest = peak, nodes
            if number + 1 < count:
                if number == len(found):
                    found.append({})
                found[number][flow.computation] = graph.instructions(nodes)
        if lowest is not None:
            best[flow.computation] = graph.instructions(lowest)
        running.peaks[flow.computation] = least
    return [best, *found]


def _tried(flow: Flow, graph: Graph, most: int | None) -> Iterator[tuple[Sequence[int], int]]:
    """XLA's orders first, then those made tighter, if need be not all, each with its peak."""
    measure = PeakMeasure(graph)
    orders: list[Sequence[int]] = [graph.nodes(scheduler(flow)) for scheduler in _SCHEDULERS]
    orders.append(by_buffers(graph))
    measured = [measure.of(order) for order in orders]
    yield from zip(orders, [peak for peak, _ in measured], strict=True)
    orders.append(range(len(graph)))
    measured.append(measure.of(orders[-1]))
    numbers: Sequence[int] = range(len(orders))
    if most is not None:
        numbers = sorted(numbers, key=lambda number: measured[number][0])[:most]
    for number in numbers:
        tight = tightened(graph, measure, orders[number], measured[number][1])
        yield tight, measure.of(tight)[0]
