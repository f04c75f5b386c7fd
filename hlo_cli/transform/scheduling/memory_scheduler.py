"""Orders with low peaks: those of XLA's schedulers, refinements of them, and the best of each computation.

Mirrors `DefaultMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, which takes the best of
three for the whole module. All three are among the candidates, so the result is never worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.memory.assignment import Orders, Peaks, peaks_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.breadth_first import breadth_first
from hlo_cli.transform.scheduling.dataflow import Flow
from hlo_cli.transform.scheduling.depth_first import heaviest_first, post_order
from hlo_cli.transform.scheduling.executed_computations import ExecutedComputations
from hlo_cli.transform.scheduling.graph import Graph, scheduled_first
from hlo_cli.transform.scheduling.list_scheduler_buffers import schedule_by_buffers
from hlo_cli.transform.scheduling.list_scheduler_memory import schedule_by_memory
from hlo_cli.transform.scheduling.live_memory import PeakMeasure
from hlo_cli.transform.scheduling.tighten import tighten

_MAX_MEASURED: Final = 150_000
"""Maximum number of instructions in all module orders whose peaks are measured."""

_MIN_ORDERS: Final = 5
"""Minimum number of orders to measure, if any."""

_MAX_TIGHTENED: Final = 100_000
"""Maximum number of instructions of a large module in tightened orders; of each computation the lowest peaks."""

_PAID_ON_TPU: Final = (MemorySpace.MAIN, MemorySpace.HOST)
"""Memory of TPUs that a program takes from others; a lower peak on the chip (VMEM, SMEM, SFLAG) saves nothing."""

Rank = tuple[int, int, int]

_SCHEDULERS: Final = (heaviest_first, schedule_by_memory, post_order, breadth_first)


def memory_schedules(executed: ExecutedComputations, before: Peaks) -> Iterator[Orders]:
    """Yields orders with smaller temporary allocations and peaks than `before`, the smallest first.

    An existing schedule gets only orders that need less of the memory that is paid for, and no order with a higher peak
    in any space. Orders are compared with constants live
    throughout; later constants only decide between orders of a module that is not scheduled. The number of measured
    orders depends on the size of the module: XLA's, the best of each computation, and tightened ones. For a large
    module only the best of each computation is used. Leading constants stay first where that costs nothing.
    """
    count = _MAX_MEASURED // max(executed.module.instruction_count, 1)
    if count < _MIN_ORDERS:
        yield _candidates(executed, 1)[0]
        return
    target = executed.uses.facts.target
    ranked: list[tuple[Rank, int, Orders]] = []
    for number, orders in enumerate(_candidates(executed, count)):
        peaks = measure_peaks(executed, orders)
        if is_better(executed.module, peaks, before):
            ranked.append((_rank(peaks, target), number, orders))
    ranked.sort(key=lambda each: each[:2])
    temporaries, whole, from_definition = _rank(before, target)
    for rank, _, orders in ranked:
        if rank < (temporaries, whole, 0 if executed.module.is_scheduled else from_definition):
            unmoved = {computation: scheduled_first(opcodes.CONSTANT, order) for computation, order in orders.items()}
            if _rank(measure_peaks(executed, unmoved), target) <= rank:
                yield unmoved
            yield orders


def measure_peaks(executed: ExecutedComputations, orders: Orders) -> Peaks:
    """Peaks of a module in some orders, with temporary allocations.

    Allocations include alignment, 64 bytes on CPU, 256 on GPU, and 16 KiB on TPU, and fragmentation.
    """
    return peaks_of(executed.uses.facts, orders, with_temporaries=True)


def is_better(module: Module, peaks: Peaks, before: Peaks) -> bool:
    """Whether a new order is worth taking.

    An existing schedule is replaced only if the temporary allocations of the memory that is paid for are smaller, and
    no peak and no other temporary allocation is larger; a module that is not scheduled gets an order if they are not
    larger.
    """
    target = target_of(module)
    paid, paid_before = _paid_bytes(peaks, target), _paid_bytes(before, target)
    if not module.is_scheduled:
        return paid <= paid_before
    is_larger = any(size > before.temporaries.get(space, 0) for space, size in peaks.temporaries.items())
    return paid < paid_before and not is_larger and peaks.is_within(before)


def _paid_bytes(peaks: Peaks, target: Target | None) -> int:
    """The temporary allocations of the memory that a program takes from others."""
    return sum(size for space, size in peaks.temporaries.items() if target != "tpu" or space in _PAID_ON_TPU)


def _rank(peaks: Peaks, target: Target | None) -> Rank:
    return _paid_bytes(peaks, target), sum(peaks.whole.values()), sum(peaks.from_definition.values())


def _candidates(executed: ExecutedComputations, count: int) -> list[Orders]:
    """At most `count` orders of the module: the best of each computation, and the trial orders by number."""
    most = max(_MAX_TIGHTENED // executed.module.instruction_count, 1) if count < _MIN_ORDERS else None
    best: dict[Computation, Sequence[Instruction]] = {}
    found: list[dict[Computation, Sequence[Instruction]]] = []
    for flow, graph in executed.computations():
        least = executed.peaks[flow.computation]
        best[flow.computation] = flow.computation.instructions
        lowest: Sequence[int] | None = None
        for number, (nodes, peak) in enumerate(_trial_orders(flow, graph, most)):
            if peak < least:
                least, lowest = peak, nodes
            if number + 1 < count:
                if number == len(found):
                    found.append({})
                found[number][flow.computation] = graph.instructions(nodes)
        if lowest is not None:
            best[flow.computation] = graph.instructions(lowest)
        executed.peaks[flow.computation] = least
    return [best, *found]


def _trial_orders(flow: Flow, graph: Graph, most: int | None) -> Iterator[tuple[Sequence[int], int]]:
    """Yields XLA's orders, then tightened ones, each with its peak; at most `most` are tightened."""
    measure = PeakMeasure(graph)
    orders: list[Sequence[int]] = [graph.nodes(scheduler(flow)) for scheduler in _SCHEDULERS]
    orders.append(schedule_by_buffers(graph))
    measure_peaks = [measure.peak_of(order) for order in orders]
    yield from zip(orders, [peak for peak, _ in measure_peaks], strict=True)
    orders.append(range(len(graph)))
    measure_peaks.append(measure.peak_of(orders[-1]))
    numbers: Sequence[int] = range(len(orders))
    if most is not None:
        numbers = sorted(numbers, key=lambda number: measure_peaks[number][0])[:most]
    for number in numbers:
        tight = tighten(graph, measure, orders[number], measure_peaks[number][1])
        yield tight, measure.peak_of(tight)[0]
