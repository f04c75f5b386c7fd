"""Where TPU compilers put buffers: one after the other as they come to life, into the smallest chunk that is free then.

What shares a place is one buffer that lives from the first time to the last. Mirrors the algorithms FAST_MERGE and
FAST_SPLIT of xla/service/heap_simulator/heap_simulator.cc and its `free_chunks_manager.cc`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.placing.heap import Heap, HeapGroup, by_size, most_held, place_largest

_IN_BEST_GAPS: Final = 500


def fast_merge(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Offsets for groups in the order in which they begin; each keeps its place until its last interval ends.

    >>> fast_merge((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 16)
    Heap(offsets=(0, 16, 0), size=20, held=12)
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
    return Heap(tuple(offsets), free.highest, most_held(groups))


def fast_split(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Offsets for groups: shared ones and the largest others in the best gaps, the rest above as they come.

    >>> fast_split((HeapGroup(4, 4, ((1, 2),)), HeapGroup(8, 8, ((0, 3),))), 4)
    Heap(offsets=(8, 0), size=12, held=12)
    """
    alone = [n for n, group in enumerate(groups) if len(group.intervals) == 1]
    alone.sort(key=lambda n: by_size(groups[n]))
    late = sorted(alone[_IN_BEST_GAPS:])
    if not late:
        return place_largest(groups, alignment)
    early = sorted(set(range(len(groups))).difference(late))
    below = place_largest([groups[n] for n in early], alignment)
    above = fast_merge([groups[n] for n in late], alignment)
    base = -(-below.size // alignment) * alignment
    offsets = dict(zip(early, below.offsets, strict=True))
    offsets.update(zip(late, (base + offset for offset in above.offsets), strict=True))
    return Heap(tuple(offsets[n] for n in range(len(groups))), base + above.size, most_held(groups))


class _FreeChunks:
    """The free chunks below the end of the heap, no two of them side by side; behind that end all is free.

    `highest` is the furthest that the end has ever been.
    """

    __slots__ = ("_alignment", "_by_room", "_end", "_end_of", "_start_of", "highest")

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._end = 0
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._by_room: list[tuple[int, int]] = []
        self.highest = 0

    def aligned(self, offset: int) -> int:
        """The next offset at which a buffer may begin."""
        return -(-offset // self._alignment) * self._alignment

    def take(self, size: int) -> tuple[int, int]:
        """The chunk with the least room for so many bytes, with what alignment leaves empty before them."""
        at = bisect_left(self._by_room, (size,))
        if at == len(self._by_room):
            start = self._end
            self._end = self.aligned(start) + size
            self.highest = max(self.highest, self._end)
            return start, self._end
        _, start = self._by_room.pop(at)
        end = self._end_of.pop(start)
        del self._start_of[end]
        behind = self.aligned(start) + size
        if behind < end:
            self._add(behind, end)
        return start, behind

    def give(self, start: int, end: int) -> None:
        """Frees a chunk, which joins free ones beside it."""
        if (before := self._start_of.get(start)) is not None:
            self._remove(before, start)
            start = before
        if end == self._end:
            self._end = start
            return
        if (behind := self._end_of.get(end)) is not None:
            self._remove(end, behind)
            end = behind
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        self._end_of[start] = end
        self._start_of[end] = start
        insort(self._by_room, (end - self.aligned(start), start))

    def _remove(self, start: int, end: int) -> None:
        del self._end_of[start], self._start_of[end]
        del self._by_room[bisect_left(self._by_room, (end - self.aligned(start), start))]
