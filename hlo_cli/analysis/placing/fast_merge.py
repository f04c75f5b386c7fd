"""The heap algorithms FAST_MERGE and FAST_SPLIT of TPU compilers: best fit in order of time.

Mirrors xla/service/heap_simulator/heap_simulator.cc and `free_chunks_manager.cc` there. A sharing group is placed as
one buffer from its first time to its last.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.placing.heap import Heap, HeapGroup, by_size, peak_live_bytes, place_spatial

_MAX_PLACED_BY_SIZE: Final = 500
"""Number of unshared groups that FAST_SPLIT places by size; the others are placed by time."""


def fast_merge(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in the order of their first times; each keeps its chunk until its last interval ends.

    Returns offsets in the order of `groups`, in bytes, as multiples of `alignment`.

    >>> fast_merge((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 16)
    Heap(offsets=(0, 16, 0), size=20, live_bytes=12)
    """
    events: list[tuple[int, bool, int]] = []
    for number, group in enumerate(groups):
        events.append((min(start for start, _ in group.intervals), True, number))
        events.append((max(end for _, end in group.intervals), False, number))
    offsets = [0] * len(groups)
    free = _FreeChunks(alignment)
    taken: dict[int, tuple[int, int]] = {}
    for _, begins, number in sorted(events):
        if begins:
            taken[number] = free.take(groups[number].largest)
            offsets[number] = free.aligned(taken[number][0])
        else:
            free.give(*taken.pop(number))
    return Heap(tuple(offsets), free.highest, peak_live_bytes(groups))


def fast_split(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places shared groups and the largest others by size, and the rest above them by time.

    >>> fast_split((HeapGroup(4, 4, ((1, 2),)), HeapGroup(8, 8, ((0, 3),))), 4)
    Heap(offsets=(8, 0), size=12, live_bytes=12)
    """
    unshared = [n for n, group in enumerate(groups) if len(group.intervals) == 1]
    unshared.sort(key=lambda n: by_size(groups[n]))
    late = sorted(unshared[_MAX_PLACED_BY_SIZE:])
    if not late:
        return place_spatial(groups, alignment)
    early = sorted(set(range(len(groups))).difference(late))
    below = place_spatial([groups[n] for n in early], alignment)
    above = fast_merge([groups[n] for n in late], alignment)
    base = -(-below.size // alignment) * alignment
    offsets = dict(zip(early, below.offsets, strict=True))
    offsets.update(zip(late, (base + offset for offset in above.offsets), strict=True))
    return Heap(tuple(offsets[n] for n in range(len(groups))), base + above.size, peak_live_bytes(groups))


class _FreeChunks:
    """The maximal free chunks below the end of the heap; all memory above the end is free.

    `highest` is the largest end so far, which is the heap size.
    """

    __slots__ = ("_alignment", "_by_usable_size", "_end", "_end_of", "_start_of", "highest")

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._end = 0
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._by_usable_size: list[tuple[int, int]] = []
        self.highest = 0

    def aligned(self, offset: int) -> int:
        """Rounds an offset up to the alignment."""
        return -(-offset // self._alignment) * self._alignment

    def take(self, size: int) -> tuple[int, int]:
        """Takes the smallest chunk with `size` usable bytes; returns its start, before alignment, and its end."""
        at = bisect_left(self._by_usable_size, (size,))
        if at == len(self._by_usable_size):
            start = self._end
            self._end = self.aligned(start) + size
            self.highest = max(self.highest, self._end)
            return start, self._end
        # free_chunks_manager.h, MemoryChunk: chunks are compared by the size that is usable after alignment.
        _, start = self._by_usable_size.pop(at)
        end = self._end_of.pop(start)
        del self._start_of[end]
        after = self.aligned(start) + size
        if after < end:
            self._add(after, end)
        return start, after

    def give(self, start: int, end: int) -> None:
        """Frees a chunk and merges it with adjacent free chunks."""
        if (before := self._start_of.get(start)) is not None:
            self._remove(before, start)
            start = before
        if end == self._end:
            self._end = start
            return
        if (after := self._end_of.get(end)) is not None:
            self._remove(end, after)
            end = after
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        """Adds a free chunk."""
        self._end_of[start] = end
        self._start_of[end] = start
        insort(self._by_usable_size, (end - self.aligned(start), start))

    def _remove(self, start: int, end: int) -> None:
        """Removes a free chunk."""
        del self._end_of[start], self._start_of[end]
        del self._by_usable_size[bisect_left(self._by_usable_size, (end - self.aligned(start), start))]
