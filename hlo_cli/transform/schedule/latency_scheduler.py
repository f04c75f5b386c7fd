"""Which orders hide the latency of asynchronous operations, in bytes or in the seconds of a chip?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import inclusive_costs
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.memory.assignment import Orders
from hlo_cli.analysis.schedule.async_overlap import (
    AsyncPair,
    OverlapAnalysis,
    analyze_overlap,
    async_pairs,
    moved_bytes,
)
from hlo_cli.analysis.schedule.step_time import estimate_time, path_seconds
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES
from hlo_cli.ir.shape import Shape
from hlo_cli.transform.schedule.constraints import (
    ExecutedComputations,
    LiveMemory,
    ScheduleGraph,
    peak_of_order,
    scheduled_first,
)

# --- latencies in bytes ---
# Async operations of a graph with their durations, by a simple latency model.
#
# A kernel takes time proportional to the bytes it reads and writes, as counted by XLA's cost analysis. A transfer
# within a device takes as long as a kernel with the same bytes; one between devices or with the host takes `LINK` times
# that. Mirrors `LatencyEstimator` of xla/service/latency_hiding_scheduler.h.


# HBM over links: 8 is about the ratio on recent chips (H100 3.35 TB/s over 0.45 TB/s); chosen, not fitted.
LINK: Final = 8
"""Assumed time of a byte between devices, relative to a byte between memory and a kernel."""
BY_BYTES: Final = f"cost model: bytes accessed; a byte between devices costs {LINK} times as much as one in memory"
_INTERCONNECT_OPERATIONS: Final = COLLECTIVES | CHANNEL_STARTS


@dataclass(frozen=True, slots=True)
class AsyncLatencies:
    """Compute time `work` of each node, `durations` of the async operations by start, and the starts of each done."""

    work: tuple[float, ...]
    durations: Mapping[int, float]
    starts_of: Mapping[int, tuple[int, ...]]


def unoverlapped_bytes(module: Module) -> int:
    """Bytes of transfers that overlap no kernel.

    >>> from hlo_cli import parse_module
    >>> unoverlapped_bytes(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }"))
    0
    """
    return sum(analyze_overlap(module).unoverlapped.values())


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Durations of instructions and async operations, in any unit.

    `model` describes the source of the durations. `exposed` returns the exposed time of a module, which a new order
    must not increase.
    """

    of_instruction: Callable[[Instruction], float]
    of_pair: Callable[[AsyncPair], float]
    model: str
    exposed: Callable[[Module], float] = unoverlapped_bytes


def _times_by_bytes(computation: Computation, size: Callable[[Shape], int]) -> LatencyModel:
    """Latency model of a computation with durations in bytes.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }").entry
    >>> _times_by_bytes(entry, len).of_instruction(entry.root)
    64
    """
    costs = inclusive_costs(computation.instructions)

    def of_instruction(instruction: Instruction) -> float:
        return costs[instruction].bytes if instruction in costs else 0

    def of_pair(pair: AsyncPair) -> float:
        return moved_bytes(pair, size) * (2 * LINK if pair.operation in _INTERCONNECT_OPERATIONS else 2)

    return LatencyModel(of_instruction, of_pair, BY_BYTES)


def _async_latencies(graph: ScheduleGraph, pairs: Sequence[AsyncPair], latency_model: LatencyModel) -> AsyncLatencies:
    """Async operations that start and end in a computation, with their durations."""
    nodes = {member: node for node, members in enumerate(graph.members) for member in members}
    durations: dict[int, float] = {}
    starts_of: dict[int, tuple[int, ...]] = {}
    for pair in pairs:
        start = nodes.get(pair.start)
        dones = [nodes[done] for done in pair.dones if done in nodes]
        # A start whose done is the same node has nothing to hide.
        if start is None or start in dones:
            continue
        durations[start] = durations.get(start, 0) + latency_model.of_pair(pair)
        starts_of |= {done: (*starts_of.get(done, ()), start) for done in dones if done > start}
    ends = {member for pair in pairs for member in (pair.start, *pair.dones)}
    # Ends cost nothing themselves: their time is the transfer's.
    work = tuple(sum(latency_model.of_instruction(m) for m in members if m not in ends) for members in graph.members)
    return AsyncLatencies(work, durations, starts_of)


# --- latencies on a chip ---
# Latency model of a chip, for the latency-hiding scheduler.


def times_on_chip(overlap: OverlapAnalysis, throughput: ChipSpec) -> LatencyModel:
    """Latency model in seconds: rooflines of kernels, and bytes at the bandwidth of links.

    An async operation of unknown duration takes the time of the whole module, so that it overlaps as much as possible.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> overlap = analyze_overlap(parse_module("r = f32[2048] add(f32[2048] a, f32[2048] b)"))
    >>> times = times_on_chip(overlap, chip_spec("v5e"))
    >>> f"{times.of_instruction(overlap.module.entry.root):.1e}", times.model
    ('1.2e-06', 'time on v5e')
    """
    step = estimate_time(overlap, throughput)
    seconds = path_seconds(step, overlap)
    times = zip(overlap.intervals, step.intervals, strict=True)
    transfers = {interval.pair.start: time.transfer.seconds for interval, time in times}

    def of_instruction(instruction: Instruction) -> float:
        return seconds.get(instruction, 0.0)

    def of_pair(pair: AsyncPair) -> float:
        known = transfers.get(pair.start)
        return step.seconds if known is None else known

    def exposed(module: Module) -> float:
        return estimate_time(analyze_overlap(module), throughput).exposed_seconds

    return LatencyModel(of_instruction, of_pair, f"time on {throughput.chip}", exposed)


# --- list scheduler ---
# List scheduler for low latency: starts as early and dones as late as dependencies and memory permit.
#
# Based on xla/service/latency_hiding_scheduler.cc, but forward in time and with a clock.


# Beyond every index: a node that leads to no start.
_NEVER: Final = 1 << 60
# Looking further would make each step linear in the ready nodes; chosen, not measured.
_MAX_PASSED: Final = 16
"""Maximum number of ready nodes that are skipped because they do not fit."""

Limits = Mapping[int, int]
"""Maximum live bytes of each memory space."""


def _schedule_by_latency(
    graph: ScheduleGraph,
    latencies: AsyncLatencies,
    space: Mapping[int, int],
    limits: Limits,
    reserved: Limits | None = None,
) -> list[int]:
    """Orders starts first, then nodes that lead to starts, then the rest; a done that would wait comes last.

    Spaces without a limit may use as much as the present order. `reserved` bytes of each must stay unused.

    >>> before = ((), (), (1,), ())
    >>> graph = ScheduleGraph(((),) * 4, before, ((), (2,), (), ()), ((),) * 4, {}, frozenset(), (0,) * 4)
    >>> _schedule_by_latency(graph, AsyncLatencies((9, 0, 0, 9), {1: 18}, {2: (1,)}), {}, {})
    [1, 0, 3, 2]
    >>> _schedule_by_latency(graph, AsyncLatencies((9, 0, 0, 9), {1: 9}, {2: (1,)}), {}, {})
    [1, 0, 2, 3]
    """
    return _Scheduler(graph, latencies, _MemoryLimits(graph, space, limits, reserved or {})).order()


class _MemoryLimits:
    """Live bytes of each memory space, and their limits."""

    __slots__ = ("_limits", "spaces")

    def __init__(self, graph: ScheduleGraph, space: Mapping[int, int], limits: Limits, reserved: Limits) -> None:
        self.spaces: list[LiveMemory] = []
        self._limits: list[int] = []
        buffers = set[int]().union(*graph.buffers)
        # Space 0, main memory, also without a buffer in it.
        for number in sorted({0, *(space[buffer] for buffer in buffers)}):
            size = {buffer: graph.size[buffer] if space[buffer] == number else 0 for buffer in buffers}
            part = replace(graph, size=size, callee_bytes=graph.callee_bytes if number == 0 else (0,) * len(graph))
            present = peak_of_order(part, range(len(graph)))
            self.spaces.append(LiveMemory(part))
            # Without a limit, the present peak: a shorter time must not cost memory.
            self._limits.append(limits.get(number, present) - reserved.get(number, 0))

    def fits(self, node: int) -> bool:
        """Whether a node is within the limits, or frees at least as much as it needs."""
        for live_memory, limit in zip(self.spaces, self._limits, strict=True):
            if (
                live_memory.live_bytes + live_memory.bytes_needed(node) > limit
                # What frees more than it needs always helps, even above the limit.
                and live_memory.net_bytes_freed(node) < 0
            ):
                return False
        return True

    def net_bytes_freed(self, node: int) -> int:
        """Bytes that a node frees minus those that it adds."""
        return sum(live_memory.net_bytes_freed(node) for live_memory in self.spaces)


@dataclass(slots=True)
class _Scheduler:
    """Nodes that can run next: ready ones, and dones whose operation is in flight, by completion time."""

    graph: ScheduleGraph
    latencies: AsyncLatencies
    memory: _MemoryLimits
    clock: float = 0
    ready: list[tuple[float, int]] = field(default_factory=list)
    waiting: list[tuple[float, int]] = field(default_factory=list)
    completion: dict[int, float] = field(default_factory=dict)
    urgency: Sequence[int] = ()

    def order(self) -> list[int]:
        """Computes the order."""
        self.urgency = self._urgency()
        missing = [len(before) for before in self.graph.before]
        for node in range(len(self.graph)):
            if not missing[node]:
                self._enter(node)
        order: list[int] = []
        while self.ready or self.waiting:
            node = self._next()
            order.append(node)
            self._run(node)
            for user in self.graph.after[node]:
                missing[user] -= 1
                if not missing[user]:
                    self._enter(user)
        return order

    def _urgency(self) -> list[int]:
        """First start that each node leads to without a done in between."""
        urgency = [_NEVER] * len(self.graph)
        for node in reversed(range(len(self.graph))):
            # Urgent is what leads to a start: starts as early as they can.
            leads = (urgency[user] for user in self.graph.after[node] if user not in self.latencies.starts_of)
            urgency[node] = node if node in self.latencies.durations else min(leads, default=_NEVER)
        return urgency

    def _enter(self, node: int) -> None:
        """Adds a node whose dependencies have run."""
        if node in self.latencies.starts_of:
            heappush(self.waiting, (max(self.completion[start] for start in self.latencies.starts_of[node]), node))
        else:
            heappush(self.ready, self._key(node))

    def _key(self, node: int) -> tuple[int, int]:
        return (-1 if node in self.latencies.durations else self.urgency[node]), node

    def _next(self) -> int:
        while self.waiting and self.waiting[0][0] <= self.clock:
            heappush(self.ready, self._key(heappop(self.waiting)[1]))
        passed: list[tuple[float, int]] = []
        while self.ready and len(passed) < _MAX_PASSED:
            entry = heappop(self.ready)
            passed.append(entry)
            if self.memory.fits(entry[1]):
                break
        else:
            if self.waiting:
                passed.append(heappop(self.waiting))
            else:  # nothing fits: what does least harm
                # The smallest net growth, then the first in the text.
                passed.sort(key=lambda each: (self.memory.net_bytes_freed(each[1]), -each[1]))
        chosen = passed.pop()
        for other in passed:
            heappush(self.ready, other)
        return chosen[1]

    def _run(self, node: int) -> None:
        starts = self.latencies.starts_of.get(node, ())
        self.clock = max([self.clock, *(self.completion[start] for start in starts)]) + self.latencies.work[node]
        if node in self.latencies.durations:
            self.completion[node] = self.clock + self.latencies.durations[node]
        for live_memory in self.memory.spaces:
            live_memory.schedule(node)


# --- orders under memory limits ---
# Latency-hiding orders, each with a lower memory limit than the one before.
#
# Mirrors the loop of `LatencyHidingScheduler::RunImpl` of xla/service/latency_hiding_scheduler.cc, which schedules
# again with a lower memory limit while the result exceeds it.


# SchedulerConfig.rerun of XLA is 0 by default; four rounds are chosen, not measured.
_MAX_ROUNDS: Final = 4
"""Maximum number of orders with successively lower memory limits."""
# Bounds the work by instructions, so a large module has fewer rounds; chosen, not measured.
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
        latencies = _async_latencies(
            graph, pairs[computation], latency_model or _times_by_bytes(computation, uses.bytes_of)
        )
        if latencies.durations:
            nodes = _schedule_by_latency(graph, latencies, uses.space, limits, reserved)
            orders[computation] = scheduled_first(opcodes.CONSTANT, graph.instructions(nodes))
            executed.peaks[computation] = peak_of_order(graph, nodes)
    return orders
