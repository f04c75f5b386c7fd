"""The list scheduler that hides latency: starts as early and dones as late as dependencies and memory allow.

After xla/service/latency_hiding_scheduler.cc, though from the first instruction to the last, and with a clock.
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
_TRIES: Final = 16
"""How many nodes that do not fit are passed over at a time."""

Limits = Mapping[int, int]
"""The bytes that may be alive in each memory space."""


def by_latency(
    graph: Graph, flights: AsyncLatencies, space: Mapping[int, int], limits: Limits, less: Limits | None = None
) -> list[int]:
    """What starts something, then what leads there, then the rest as it stood; what would wait comes when all else has.

    Where `limits` says nothing of a space, the order may take there as much as the present one does. `less` are bytes
    of each that may not be used.

    >>> before = ((), (), (1,), ())
    >>> graph = Graph(((),) * 4, before, ((), (2,), (), ()), ((),) * 4, {}, frozenset(), (0,) * 4)
    >>> by_latency(graph, AsyncLatencies((9, 0, 0, 9), {1: 18}, {2: (1,)}), {}, {})
    [1, 0, 3, 2]
    """
    return _Scheduler(graph, flights, _Room(graph, space, limits, less or {})).order()


class _Room:
    """How much is alive in each memory space, and how much may be."""

    __slots__ = ("_limits", "held")

    def __init__(self, graph: Graph, space: Mapping[int, int], limits: Limits, less: Limits) -> None:
        self.held: list[LiveMemory] = []
        self._limits: list[int] = []
        held = set[int]().union(*graph.held)
        for number in sorted({0, *(space[buffer] for buffer in held)}):
            size = {buffer: graph.size[buffer] if space[buffer] == number else 0 for buffer in held}
            part = replace(graph, size=size, inner=graph.inner if number == 0 else (0,) * len(graph))
            present = peak_of_order(part, range(len(graph)))
            self.held.append(LiveMemory(part))
            self._limits.append(limits.get(number, present) - less.get(number, 0))

    def has(self, node: int) -> bool:
        """Whether a node fits, or frees at least as much as it takes."""
        for held, limit in zip(self.held, self._limits, strict=True):
            if held.alive + held.needs(node) > limit and held.gains(node) < 0:
                return False
        return True

    def gains(self, node: int) -> int:
        """The bytes that a node frees less those that it adds."""
        return sum(held.gains(node) for held in self.held)


@dataclass(slots=True)
class _Scheduler:
    """The nodes that may come next: those ready to run, and those that would wait, by when they could go on."""

    graph: Graph
    flights: AsyncLatencies
    room: _Room
    clock: float = 0
    ready: list[tuple[float, int]] = field(default_factory=list)
    waiting: list[tuple[float, int]] = field(default_factory=list)
    back: dict[int, float] = field(default_factory=dict)
    urgency: Sequence[int] = ()

    def order(self) -> list[int]:
        """The new order."""
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
        """For each node the first start that it leads to without waiting in between."""
        urgency = [_NEVER] * len(self.graph)
        for node in reversed(range(len(self.graph))):
            leads = (urgency[user] for user in self.graph.after[node] if user not in self.flights.awaits)
            urgency[node] = node if node in self.flights.takes else min(leads, default=_NEVER)
        return urgency

    def _enter(self, node: int) -> None:
        """A node has all that it needs."""
        if node in self.flights.awaits:
            heappush(self.waiting, (max(self.back[start] for start in self.flights.awaits[node]), node))
        else:
            heappush(self.ready, self._key(node))

    def _key(self, node: int) -> tuple[int, int]:
        return (-1 if node in self.flights.takes else self.urgency[node]), node

    def _next(self) -> int:
        while self.waiting and self.waiting[0][0] <= self.clock:
            heappush(self.ready, self._key(heappop(self.waiting)[1]))
        passed: list[tuple[float, int]] = []
        while self.ready and len(passed) < _TRIES:
            entry = heappop(self.ready)
            passed.append(entry)
            if self.room.has(entry[1]):
                break
        else:
            if self.waiting:
                passed.append(heappop(self.waiting))
            else:  # nothing fits: what does least harm
                passed.sort(key=lambda each: (self.room.gains(each[1]), -each[1]))
        chosen = passed.pop()
        for other in passed:
            heappush(self.ready, other)
        return chosen[1]

    def _run(self, node: int) -> None:
        starts = self.flights.awaits.get(node, ())
        self.clock = max([self.clock, *(self.back[start] for start in starts)]) + self.flights.work[node]
        if node in self.flights.takes:
            self.back[node] = self.clock + self.flights.takes[node]
        for held in self.room.held:
            held.take(node)
