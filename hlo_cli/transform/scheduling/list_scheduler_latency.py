"""List scheduler for low latency: starts as early and dones as late as dependencies and memory permit.

Based on xla/service/latency_hiding_scheduler.cc, but forward in time and with a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.transform.scheduling.async_latencies import AsyncLatencies
from hlo_cli.transform.scheduling.graph import Graph
from hlo_cli.transform.scheduling.live_memory import LiveMemory, peak_of_order

_NEVER: Final = 1 << 60
_MAX_PASSED: Final = 16
"""Maximum number of ready nodes that are skipped because they do not fit."""

Limits = Mapping[int, int]
"""Maximum live bytes of each memory space."""


def schedule_by_latency(
    graph: Graph, latencies: AsyncLatencies, space: Mapping[int, int], limits: Limits, reserved: Limits | None = None
) -> list[int]:
    """Orders starts first, then nodes that lead to starts, then the rest; a done that would wait comes last.

    Spaces without a limit may use as much as the present order. `reserved` bytes of each must stay unused.

    >>> before = ((), (), (1,), ())
    >>> graph = Graph(((),) * 4, before, ((), (2,), (), ()), ((),) * 4, {}, frozenset(), (0,) * 4)
    >>> schedule_by_latency(graph, AsyncLatencies((9, 0, 0, 9), {1: 18}, {2: (1,)}), {}, {})
    [1, 0, 3, 2]
    """
    return _Scheduler(graph, latencies, _MemoryLimits(graph, space, limits, reserved or {})).order()


class _MemoryLimits:
    """Live bytes of each memory space, and their limits."""

    __slots__ = ("_limits", "spaces")

    def __init__(self, graph: Graph, space: Mapping[int, int], limits: Limits, reserved: Limits) -> None:
        self.spaces: list[LiveMemory] = []
        self._limits: list[int] = []
        buffers = set[int]().union(*graph.buffers)
        for number in sorted({0, *(space[buffer] for buffer in buffers)}):
            size = {buffer: graph.size[buffer] if space[buffer] == number else 0 for buffer in buffers}
            part = replace(graph, size=size, callee_bytes=graph.callee_bytes if number == 0 else (0,) * len(graph))
            present = peak_of_order(part, range(len(graph)))
            self.spaces.append(LiveMemory(part))
            self._limits.append(limits.get(number, present) - reserved.get(number, 0))

    def fits(self, node: int) -> bool:
        """Whether a node is within the limits, or frees at least as much as it needs."""
        for live_memory, limit in zip(self.spaces, self._limits, strict=True):
            if (
                live_memory.live_bytes + live_memory.bytes_needed(node) > limit
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

    graph: Graph
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
