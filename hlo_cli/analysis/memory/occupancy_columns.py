"""Occupied memory of a heap by time, and best-fit search for free chunks.

Mirrors `BufferIntervalTree` of xla/service/heap_simulator/heap_simulator.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.memory.occupancy import PART_BITS

IntArray = NDArray[np.signedinteger]

_NO_GAP: Final = 2**63 - 1  # larger than any gap, so that argmin finds real ones first
_NOTHING: Final = np.zeros(0, dtype=np.int64)


class Placed:
    """Placed chunks, indexed by parts of the clock with 2^`PART_BITS` times each.

    >>> placed = Placed(4)
    >>> placed.add(((0, 9),), 0, 7)
    >>> placed.smallest_gap(((5, 6),), 4), placed.smallest_gap(((10, 11),), 4)
    (8, 0)
    """

    __slots__ = ("_alignment", "_parts")

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._parts: dict[int, _ChunkTable] = {}

    def add(self, times: Sequence[tuple[int, int]], offset: int, end: int) -> None:
        """Adds a chunk that is occupied at `times`."""
        # heap_simulator.cc, GlobalDecreasingSizeBestFitHeap: a gap begins at the aligned end of the chunk before it,
        # but needs only the unaligned size of the buffer.
        free = -(-end // self._alignment) * self._alignment
        for first, last in times:
            for part in range(first >> PART_BITS, (last >> PART_BITS) + 1):
                if part not in self._parts:
                    self._parts[part] = _ChunkTable()
                self._parts[part].add(first, last, offset, free)

    def smallest_gap(self, times: Sequence[tuple[int, int]], size: int) -> int:
        """Returns the lowest offset of the smallest gap of at least `size` bytes that is free at all `times`.

        If there is no such gap, returns the aligned end of the occupied memory.
        """
        offset, free = self._overlapping(times)
        if not offset.size:
            return 0
        ends = np.maximum.accumulate(free)
        offset[1:] -= ends[:-1]
        offset[offset < size] = _NO_GAP
        smallest = int(offset.argmin())
        # heap_simulator.cc, GlobalDecreasingSizeBestFitHeap: the last, unbounded gap is used only if no other one
        # fits.
        if offset[smallest] == _NO_GAP:
            return int(ends[-1])
        return int(ends[smallest - 1]) if smallest else 0

    def _overlapping(self, times: Sequence[tuple[int, int]]) -> tuple[IntArray, IntArray]:
        """Returns offsets and aligned ends of the chunks occupied at any of `times`, by offset."""
        parts = range(times[0][0] >> PART_BITS, (times[-1][1] >> PART_BITS) + 1)
        found = [self._parts[part].overlapping(times) for part in parts if part in self._parts]
        if len(found) == 1:
            return found[0]
        if not found:
            return _NOTHING, _NOTHING
        offset, free = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = offset.argsort(kind="stable")  # merges the parts, each in order already, in linear time
        return offset[order], free[order]


class _ChunkTable:
    """Chunks sorted by offset, as columns: first and last time, offset, and aligned end."""

    __slots__ = ("_chunks", "_count", "_times")

    def __init__(self) -> None:
        # Times fit into 32 bits, offsets do not; columns are doubled when full.
        self._times: IntArray = np.zeros((2, 64), dtype=np.int32)
        self._chunks: IntArray = np.zeros((2, 64), dtype=np.int64)
        self._count = 0

    def add(self, first: int, last: int, offset: int, free: int) -> None:
        """Inserts a chunk by its offset."""
        count = self._count
        if count == self._times.shape[1]:
            self._times = np.concatenate((self._times, self._times), axis=1)
            self._chunks = np.concatenate((self._chunks, self._chunks), axis=1)
        at = int(self._chunks[0, :count].searchsorted(offset))
        for columns, row in ((self._times, (first, last)), (self._chunks, (offset, free))):
            columns[:, at + 1 : count + 1] = columns[:, at:count]
            columns[:, at] = row
        self._count += 1

    def overlapping(self, times: Sequence[tuple[int, int]]) -> tuple[IntArray, IntArray]:
        """Returns offsets and aligned ends of the chunks occupied at any of `times`."""
        start, end = self._times[:, : self._count]
        found: NDArray[np.bool_] | None = None
        for first, last in times:
            overlapping = start <= last
            overlapping &= end >= first
            found = overlapping if found is None else found | overlapping
        where = found.nonzero()[0] if found is not None else _NOTHING
        return self._chunks[0][where], self._chunks[1][where]
