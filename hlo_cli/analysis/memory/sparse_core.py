"""Allocations for contexts of SparseCore operations on TPU: bookkeeping and stacks.

No public source describes these rules; they were derived from compiler dumps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import Final

from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.memory.allocation_builder import AllocationBuilder
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.interference import Interference
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace

_THREAD: Final = "sparsecore"
_CONTEXT: Final = 2
_STACK: Final = (_CONTEXT, 0)
"""Shape index of the stack in the result of an async-start."""
_BOOKKEEPING: Final = frozenset(space for space in TpuMemorySpace if space.is_bookkeeping)
"""Memory spaces in which all contexts have offset 0, whatever their live ranges."""


@dataclass(slots=True)
class _SharedAllocation:
    """An allocation with the live ranges last added to it: start, end, value, and the cores of a stack."""

    builder: AllocationBuilder
    live_ranges: list[tuple[int, int, int, frozenset[str]]] = field(default_factory=list)
    end: int = -1
    is_pooled: bool = False


class SparseCore:
    """The contexts of SparseCore operations, and the allocations of their stacks.

    A stack may share an allocation with another stack if their live ranges are disjoint, or if both run on a common
    core and therefore not at once. After all live ranges in an allocation have ended, one ordinary buffer at a time
    may use it.
    """

    __slots__ = ("_buffers", "_closing", "_cores", "_interference", "_pool", "_shared")

    def __init__(self, buffers: tuple[Buffer, ...], interference: Interference) -> None:
        self._buffers = buffers
        self._interference = interference
        self._cores = dict(_contexts(buffers, interference.dataflow))
        self._shared: list[_SharedAllocation] = []
        self._closing: list[tuple[int, int]] = []
        self._pool: list[tuple[int, int]] = []

    def bookkeeping(self, numbers: Iterable[int]) -> list[AllocationBuilder]:
        """Returns one allocation per memory space for contexts that are not stacks, largest first."""
        inside = [n for n in numbers if n in self._cores and self._buffers[n].space in _BOOKKEEPING]
        builders: dict[int, AllocationBuilder] = {}
        for number in sorted(inside, key=lambda n: (-self._buffers[n].size, n)):
            buffer = self._buffers[number]
            builder = builders.setdefault(buffer.space, AllocationBuilder(buffer.size, buffer.space, "temporary"))
            builder.put(number)
            builder.slots[-1] = number
        return list(builders.values())

    def allocation_for(self, number: int) -> AllocationBuilder | None:
        """Returns an allocation for a stack or an ordinary temporary buffer, None if no rule applies.

        Must be called in the order of the starts of live ranges.
        """
        buffer, live_range = self._buffers[number], self._live_range(number)
        cores = self._cores.get(number)
        if buffer.space or buffer.is_local or live_range is None:
            return None
        if cores:
            return self._for_stack(buffer, live_range, cores)
        return None if buffer.is_live_out or not self._shared else self._for_temporary(buffer, live_range)

    def _for_stack(self, buffer: Buffer, live_range: tuple[int, int, int], cores: frozenset[str]) -> AllocationBuilder:
        """Returns the smallest allocation that a stack can share, or a new one."""
        start, end, value = live_range
        candidates = [n for n, shared in enumerate(self._shared) if shared.builder.size >= buffer.size]
        for number in sorted(candidates, key=lambda n: self._shared[n].builder.size):
            live_ranges = self._shared[number].live_ranges
            if all(cores & others or last < start or end < first for first, last, _, others in live_ranges):
                break
        else:
            number = len(self._shared)
            self._shared.append(_SharedAllocation(AllocationBuilder(buffer.size, buffer.space, "temporary")))
        return self._put(number, start, end, value, cores)

    def _for_temporary(self, buffer: Buffer, live_range: tuple[int, int, int]) -> AllocationBuilder | None:
        """Returns the smallest pooled allocation without interference, or None."""
        start, end, value = live_range
        while self._closing and self._closing[0][0] <= start:
            last, number = heappop(self._closing)
            shared = self._shared[number]
            if shared.end == last and not shared.is_pooled:
                insort(self._pool, (shared.builder.size, number))
                shared.is_pooled = True
        for _, number in self._pool[bisect_left(self._pool, (buffer.size,)) :]:
            if not any(
                self._interference.interferes(other, value) for _, _, other, _ in self._shared[number].live_ranges
            ):
                return self._put(number, start, end, value, frozenset())
        return None

    def _put(self, number: int, start: int, end: int, value: int, cores: frozenset[str]) -> AllocationBuilder:
        """Adds a live range to an allocation and drops those that ended before it; starts never decrease."""
        shared = self._shared[number]
        shared.live_ranges = [live_range for live_range in shared.live_ranges if live_range[1] >= start]
        shared.live_ranges.append((start, end, value, cores))
        shared.end = max(shared.end, end)
        heappush(self._closing, (shared.end, number))
        if shared.is_pooled:
            self._pool.remove((shared.builder.size, number))
            shared.is_pooled = False
        return shared.builder

    def _live_range(self, number: int) -> tuple[int, int, int] | None:
        """Returns start, end, and first value of a buffer, None if it has no live range."""
        start, end = self._interference.ranges.start, self._interference.ranges.end
        values = [value for value in self._buffers[number].values if value in start]
        return (min(start[v] for v in values), max(end[v] for v in values), values[0]) if values else None


def _contexts(buffers: Sequence[Buffer], dataflow: Dataflow) -> Iterator[tuple[int, frozenset[str]]]:
    """Yields the buffers that hold SparseCore contexts, with the cores of stacks."""
    places = dataflow.places
    starts = {chain.start for chain in dataflow.chains.values()}
    if not any(start.string("async_execution_thread") == _THREAD for start in starts):
        return
    for number, buffer in enumerate(buffers):
        for value in buffer.values:
            chain = dataflow.chains.get(places.instructions[places.owner[value]])
            index = places.index(value)
            if chain is None or index[:1] != (_CONTEXT,) or buffer.is_tuple:
                continue
            if chain.start.string("async_execution_thread") == _THREAD:
                yield number, _cores(chain.start) if index == _STACK and not buffer.space else frozenset()
                break


def _cores(start: Instruction) -> frozenset[str]:
    """Returns the ids of the cores that an operation runs on."""
    config = start.backend_config
    found = config.get("sparse_core_config", "core_ids") if config is not None else None
    return frozenset(map(str, found)) if isinstance(found, Sequence) and found else frozenset(("?",))
