"""What programs on a TPU's SparseCore keep beside their data: where compilers put bookkeeping and stacks.

These rules are not public; they were found by looking at what the compiler prints.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import Final

from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.drafts import Draft
from hlo_cli.analysis.memory.interference import Interference
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace

_THREAD: Final = "sparsecore"
_CONTEXT: Final = 2
_STACK: Final = (_CONTEXT, 0)
_BOOKKEEPING: Final = frozenset(space for space in TpuMemorySpace if space.is_bookkeeping)
"""Memory spaces whose contexts all lie at the beginning, whenever they live."""


@dataclass(slots=True)
class _Shared:
    """An allocation, and what lives in it last: start, end and value of each, and the cores of a stack."""

    draft: Draft
    lives: list[tuple[int, int, int, frozenset[str]]] = field(default_factory=list)
    end: int = -1
    is_pooled: bool = False


class SparseCore:
    """The contexts of what runs on the SparseCore, and the allocations of the stacks among them.

    A stack's allocation takes another stack that is needed at other times, or cannot be in use at the same time because
    it is the same core's. When all that it holds has ended, it takes one ordinary buffer at a time.
    """

    __slots__ = ("_buffers", "_closing", "_cores", "_interference", "_pool", "_shared")

    def __init__(self, buffers: tuple[Buffer, ...], interference: Interference) -> None:
        self._buffers = buffers
        self._interference = interference
        self._cores = dict(_contexts(buffers, interference.dataflow))
        self._shared: list[_Shared] = []
        self._closing: list[tuple[int, int]] = []
        self._pool: list[tuple[int, int]] = []

    def bookkeeping(self, numbers: Iterable[int]) -> list[Draft]:
        """The allocations of contexts that are no stacks, one for each memory space, the largest first."""
        inside = [n for n in numbers if n in self._cores and self._buffers[n].space in _BOOKKEEPING]
        drafts: dict[int, Draft] = {}
        for number in sorted(inside, key=lambda n: (-self._buffers[n].size, n)):
            buffer = self._buffers[number]
            draft = drafts.setdefault(buffer.space, Draft(buffer.size, buffer.space, "temporary"))
            draft.put(number)
            draft.slots[-1] = number
        return list(drafts.values())

    def draft(self, number: int) -> Draft | None:
        """An allocation for a buffer that no other rule has placed; buffers are asked for as they come to life."""
        buffer, life = self._buffers[number], self._life(number)
        cores = self._cores.get(number)
        if buffer.space or buffer.is_local or life is None:
            return None
        if cores:
            return self._for_stack(buffer, life, cores)
        return None if buffer.is_live_out or not self._shared else self._for_other(buffer, life)

    def _for_stack(self, buffer: Buffer, life: tuple[int, int, int], cores: frozenset[str]) -> Draft:
        start, end, value = life
        fitting = [n for n, shared in enumerate(self._shared) if shared.draft.size >= buffer.size]
        for number in sorted(fitting, key=lambda n: self._shared[n].draft.size):
            lives = self._shared[number].lives
            if all(cores & others or last < start or end < first for first, last, _, others in lives):
                break
        else:
            number = len(self._shared)
            self._shared.append(_Shared(Draft(buffer.size, buffer.space, "temporary")))
        return self._put(number, start, end, value, cores)

    def _for_other(self, buffer: Buffer, life: tuple[int, int, int]) -> Draft | None:
        start, end, value = life
        while self._closing and self._closing[0][0] <= start:
            last, number = heappop(self._closing)
            shared = self._shared[number]
            if shared.end == last and not shared.is_pooled:
                insort(self._pool, (shared.draft.size, number))
                shared.is_pooled = True
        for _, number in self._pool[bisect_left(self._pool, (buffer.size,)) :]:
            if not any(self._interference.interferes(other, value) for _, _, other, _ in self._shared[number].lives):
                return self._put(number, start, end, value, frozenset())
        return None

    def _put(self, number: int, start: int, end: int, value: int, cores: frozenset[str]) -> Draft:
        """Notes a life in an allocation; what ended before it no longer matters, as no later one starts earlier."""
        shared = self._shared[number]
        shared.lives = [life for life in shared.lives if life[1] >= start]
        shared.lives.append((start, end, value, cores))
        shared.end = max(shared.end, end)
        heappush(self._closing, (shared.end, number))
        if shared.is_pooled:
            self._pool.remove((shared.draft.size, number))
            shared.is_pooled = False
        return shared.draft

    def _life(self, number: int) -> tuple[int, int, int] | None:
        start, end = self._interference.ranges.start, self._interference.ranges.end
        values = [value for value in self._buffers[number].values if value in start]
        return (min(start[v] for v in values), max(end[v] for v in values), values[0]) if values else None


def _contexts(buffers: Sequence[Buffer], dataflow: Dataflow) -> Iterator[tuple[int, frozenset[str]]]:
    """The buffers that hold contexts, and of stacks the cores that use them."""
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
    """The cores that an operation runs on."""
    config = start.backend_config
    found = config.get("sparse_core_config", "core_ids") if config is not None else None
    return frozenset(map(str, found)) if isinstance(found, Sequence) and found else frozenset(("?",))
