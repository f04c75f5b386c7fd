"""Where TPU compilers put buffers in the main memory: one after the other as they come to life, into what is free then.

The compiler is closed, and these rules were found by looking at what it prints: of 43 modules they give all offsets in
36, and the size of nearly every heap. They resemble `LazyBestFitHeap` of older sources of XLA.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.heap import Heap, HeapGroup, most_held

_GRAIN_BITS: Final = 16
"""Free chunks whose sizes round up to the same multiple of 64 KiB are equally good."""


def place_in_order(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Offsets for groups in the order in which they begin; each keeps its place until its last interval ends.

    >>> place_in_order((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 16)
    Heap(offsets=(0, 16, 0), size=20, held=12)
    """
    events: list[tuple[int, bool, int]] = []
    for number, group in enumerate(groups):
        events.append((min(start for start, _ in group.intervals), True, number))
        events.append((max(end for _, end in group.intervals), False, number))
    offsets = [0] * len(groups)
    free = _Free(alignment)
    taken: dict[int, tuple[int, int]] = {}
    for _, begins, number in sorted(events):
        if begins:
            taken[number] = free.take(groups[number].largest)
            offsets[number] = free.aligned(taken[number][0])
        else:
            free.give(*taken.pop(number))
    return Heap(tuple(offsets), free.end, most_held(groups))


class _Free:
    """The free chunks below the end of the heap, by offset, no two of them side by side."""

    __slots__ = ("_alignment", "_ends", "_starts", "end")

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.end = 0

    def aligned(self, offset: int) -> int:
        """The next offset at which a buffer may begin."""
        return -(-offset // self._alignment) * self._alignment

    def take(self, size: int) -> tuple[int, int]:
        """A chunk for so many bytes, together with what alignment leaves empty before them."""
        step = self._alignment
        rooms = (end + -start // step * step for start, end in zip(self._starts, self._ends, strict=True))
        fitting = ((-(-room >> _GRAIN_BITS), n) for n, room in enumerate(rooms) if room >= size)
        best = min(fitting, default=None)
        if best is None:
            return self._grown(size)
        start, end = self._starts[best[1]], self._ends[best[1]]
        behind = self.aligned(start) + size
        if behind == end:
            del self._starts[best[1]], self._ends[best[1]]
        else:
            self._starts[best[1]] = behind
        return start, behind

    def give(self, start: int, end: int) -> None:
        """Frees a chunk, which joins free ones beside it."""
        at = bisect_left(self._starts, start)
        if at < len(self._starts) and self._starts[at] == end:
            end = self._ends[at]
            del self._starts[at], self._ends[at]
        if at and self._ends[at - 1] == start:
            self._ends[at - 1] = end
        else:
            self._starts.insert(at, start)
            self._ends.insert(at, end)

    def _grown(self, size: int) -> tuple[int, int]:
        """A chunk at the end of the heap, which grows."""
        start = self.end
        if self._ends and self._ends[-1] == start:
            start = self._starts.pop()
            self._ends.pop()
        self.end = self.aligned(start) + size
        return start, self.end
