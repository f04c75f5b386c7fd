"""Where buffers without an allocation of their own go: the heap of a memory space, and how it is filled.

Mirrors xla/service/heap_simulator/heap_simulator.cc and xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from hlo_cli.analysis.dataflow.value_sets import AliasSets, Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.buffers import Buffer, ValueOrder
from hlo_cli.analysis.memory.live_ranges import (
    AllocationValues,
    Interference,
    LiveRanges,
    OperandSharing,
    listed_aliases,
    operand_leaf,
    result_leaf,
)
from hlo_cli.analysis.memory.occupancy import PART_BITS, PlacedRuns, timeline
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace, memory_space
from hlo_cli.ir.module import Module

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.occupancy_columns import Placed


# --- best fit by size or duration ---
# The default heap algorithm.
#
# Mirrors `GlobalDecreasingSizeBestFitHeap` of xla/service/heap_simulator/heap_simulator.cc, with its spatial and
# temporal orders, and `ChooseBestHeapAlgorithm`, which takes the smaller heap.


_Owner = TypeVar("_Owner", bound=Hashable)

_UNLIMITED: Final = 2**63 - 1  # sizes are int64 in XLA
_MIN_GROUPS_FOR_NUMPY: Final = 1000  # below it plain loops are fast enough; chosen, not measured
_MAX_COMPARISONS: Final = 15_000
"""Average number of comparisons per buffer above which `PlacedRuns` is faster than `Placed`; measured."""
_PEAK_TIMES: Final = 32
"""Number of times for which `PlacedRuns` stores all used memory."""


@dataclass(frozen=True, slots=True)
class HeapGroup:
    """Buffers at one offset at different times: size of the leader, largest size, and intervals, leader's first.

    Sizes are in bytes; intervals are inclusive times of the heap's clock. No two buffers of a heap start at the same
    time.
    """

    size: int
    largest: int
    intervals: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Heap:
    """The result of a heap algorithm, in bytes: the offset of each group, the heap size, and the peak of live bytes."""

    offsets: tuple[int, ...]
    size: int
    live_bytes: int

    @property
    def fragmentation(self) -> int:
        """The bytes of the heap that are unused at the peak."""
        return self.size - self.live_bytes


def _is_addressable(groups: Sequence[HeapGroup], alignment: int) -> bool:
    """Returns whether every offset is below 2^63 in any placement.

    >>> _is_addressable((HeapGroup(8, 8, ((0, 3),)),), 4), _is_addressable((HeapGroup(2**63, 2**63, ((0, 3),)),), 4)
    (True, False)
    """
    return sum(group.largest + alignment for group in groups) <= _UNLIMITED


def place_best(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in spatial and in temporal order, and returns the smaller heap; the spatial one on ties.

    `groups` are in the order of their leaders' ranks and must be addressable.

    >>> place_best((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 4)
    Heap(offsets=(0, 8, 0), size=12, live_bytes=12)
    """
    heap = Heap((), _UNLIMITED, _peak_live_bytes(groups))
    # heap_simulator.cc, ChooseBestHeapAlgorithm::Finish: only a smaller heap replaces an earlier one.
    for order in (_by_size, _by_duration):
        if heap.size > heap.live_bytes:
            heap = _place_in_order(groups, alignment, order, heap)
    return heap


def _place_spatial(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in spatial order: by size, descending.

    >>> _place_spatial((HeapGroup(4, 4, ((1, 2),)), HeapGroup(8, 8, ((0, 3),))), 4)
    Heap(offsets=(8, 0), size=12, live_bytes=12)
    """
    return _place_in_order(groups, alignment, _by_size, Heap((), _UNLIMITED, _peak_live_bytes(groups)))


def _place_temporal(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in temporal order: by duration, descending.

    >>> _place_temporal((HeapGroup(4, 4, ((0, 3),)), HeapGroup(8, 8, ((1, 2),))), 4)
    Heap(offsets=(0, 4), size=12, live_bytes=12)
    """
    return _place_in_order(groups, alignment, _by_duration, Heap((), _UNLIMITED, _peak_live_bytes(groups)))


def _depends_on_ties(
    groups: Sequence[HeapGroup],
    owners: Sequence[_Owner],
    are_ordered: Callable[[_Owner, _Owner], bool],
    best: Heap | None = None,
) -> bool:
    """Returns whether offsets depend on an order of groups that is not known for certain.

    `owners[n]` is the computation of the leader of group n; the ranks of groups of two owners are certain if
    `are_ordered`. `best` is the heap of `place_best`, which tries the temporal order only if the spatial one wastes
    memory.

    >>> groups = (HeapGroup(8, 8, ((0, 3),)), HeapGroup(8, 8, ((2, 5),)), HeapGroup(8, 8, ((8, 11),)))
    >>> _depends_on_ties(groups, "abc", lambda a, b: False, Heap((), 16, 16))
    True
    >>> _depends_on_ties(groups, "aab", lambda a, b: False, Heap((), 16, 16))
    False
    """
    orders = (_by_size,) if best is not None and best.size == best.live_bytes else (_by_size, _by_duration)
    return any(_has_loose_tie(groups, owners, order, are_ordered) for order in orders)


def _has_loose_tie(
    groups: Sequence[HeapGroup],
    owners: Sequence[_Owner],
    order: Callable[[HeapGroup], tuple[int, int]],
    are_ordered: Callable[[_Owner, _Owner], bool],
) -> bool:
    """Returns whether two groups of equal keys and without a known order are live at the same time.

    Only such pairs matter: if two neighbors in the order are never live together, swapping them changes no offset.
    """
    # See below: neighbors in the order that are never live together may swap.
    tied: dict[tuple[int, int], list[int]] = {}
    for number, group in enumerate(groups):
        tied.setdefault(order(group), []).append(number)
    for numbers in tied.values():
        if len({owners[number] for number in numbers}) == 1:
            continue
        live: dict[_Owner, int] = {}
        for start, end, number in sorted((*interval, n) for n in numbers for interval in groups[n].intervals):
            owner = owners[number]
            live = {other: last for other, last in live.items() if last >= start}
            if not all(other == owner or are_ordered(other, owner) for other in live):
                return True
            live[owner] = max(end, live.get(owner, end))
    return False


def _by_size(group: HeapGroup) -> tuple[int, int]:
    """Returns the key of the spatial order: size of the leader, then its duration, both descending.

    >>> _by_size(HeapGroup(8, 8, ((0, 3),)))
    (-8, -3)
    """
    start, end = group.intervals[0]
    return -group.size, start - end


def _by_duration(group: HeapGroup) -> tuple[int, int]:
    """Returns the key of the temporal order: time from first start to last end, then size, both descending."""
    start, end = min(s for s, _ in group.intervals), max(e for _, e in group.intervals)
    return start - end, -group.size


def _place_in_order(
    groups: Sequence[HeapGroup], alignment: int, order: Callable[[HeapGroup], tuple[int, int]], other: Heap
) -> Heap:
    """Places groups in an order; returns `other` as soon as the heap is not smaller than that."""
    offsets = [0] * len(groups)
    placed = _empty_heap(groups, alignment)
    size = 0
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        times, largest = merge_intervals(groups[number].intervals), groups[number].largest
        offset = offsets[number] = placed.smallest_gap(times, largest)
        placed.add(times, offset, offset + largest)
        size = max(size, offset + largest)
        if size >= other.size:
            return other
    return Heap(tuple(offsets), size, other.live_bytes)


def _empty_heap(groups: Sequence[HeapGroup], alignment: int) -> Placed | PlacedRuns:
    """Returns an empty heap of the faster kind: `Placed`, on numpy, if many buffers have few concurrent ones."""
    times = max((end for group in groups for _, end in group.intervals), default=0) + 1
    change = [0] * ((times >> PART_BITS) + 2)
    for group in groups:
        for first, last in group.intervals:
            change[first >> PART_BITS] += 1
            change[(last >> PART_BITS) + 1] -= 1
    # Each buffer is compared with all that are live in its part of the clock: squares of their number.
    compared = sum(count * count for count in accumulate(change))
    if len(groups) > _MIN_GROUPS_FOR_NUMPY and compared < _MAX_COMPARISONS * len(groups):
        from hlo_cli.analysis.memory.occupancy_columns import Placed  # loads numpy, which small modules do without

        return Placed(alignment)
    smallest = min((group.largest for group in groups), default=1)
    return PlacedRuns(alignment, times, smallest, _local_peaks(groups) if len(groups) > _MIN_GROUPS_FOR_NUMPY else ())


def merge_intervals(intervals: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Merges adjacent intervals and sorts them by start.

    >>> merge_intervals(((4, 6), (0, 1), (2, 3), (8, 9)))
    [(0, 6), (8, 9)]
    """
    if len(intervals) == 1:
        return intervals
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _peak_live_bytes(groups: Sequence[HeapGroup]) -> int:
    """Returns the largest number of bytes live at one time."""
    return max((live_bytes for _, live_bytes in _live_bytes(groups)), default=0)


def _local_peaks(groups: Sequence[HeapGroup]) -> list[int]:
    """Splits the clock into stretches with equally many starts and ends; returns the peak time of each."""
    live_bytes = _live_bytes(groups)
    stretch = -(-len(live_bytes) // _PEAK_TIMES) or 1
    return [
        max(live_bytes[first : first + stretch], key=lambda at: at[1])[0]
        for first in range(0, len(live_bytes), stretch)
    ]


def _live_bytes(groups: Sequence[HeapGroup]) -> list[tuple[int, int]]:
    """Returns the times at which live bytes change, each with the live bytes from then on."""
    change: dict[int, int] = {}
    for group in groups:
        for start, end in merge_intervals(group.intervals):
            change[start] = change.get(start, 0) + group.largest
            change[end + 1] = change.get(end + 1, 0) - group.largest
    times = sorted(change)
    return list(zip(times, accumulate(change[time] for time in times), strict=True))


# --- best fit by time ---
# The heap algorithms FAST_MERGE and FAST_SPLIT of TPU compilers: best fit in order of time.
#
# Mirrors xla/service/heap_simulator/heap_simulator.cc and `free_chunks_manager.cc` there. A sharing group is placed as
# one buffer from its first time to its last.


_MAX_PLACED_BY_SIZE: Final = 500
"""Number of unshared groups that FAST_SPLIT places by size; the others are placed by time."""


def fast_merge(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in the order of their first times; each keeps its chunk until its last interval ends.

    Returns offsets in the order of `groups`, in bytes, as multiples of `alignment`.

    >>> fast_merge((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 16)
    Heap(offsets=(0, 16, 0), size=20, live_bytes=12)
    """
    events: list[tuple[int, bool, int]] = []
    # From the first to the last interval, as FAST_MERGE knows no gaps in between.
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
    return Heap(tuple(offsets), free.highest, _peak_live_bytes(groups))


def fast_split(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places shared groups and the largest others by size, and the rest above them by time.

    >>> fast_split((HeapGroup(4, 4, ((1, 2),)), HeapGroup(8, 8, ((0, 3),))), 4)
    Heap(offsets=(8, 0), size=12, live_bytes=12)
    """
    unshared = [n for n, group in enumerate(groups) if len(group.intervals) == 1]
    unshared.sort(key=lambda n: _by_size(groups[n]))
    late = sorted(unshared[_MAX_PLACED_BY_SIZE:])
    if not late:
        return _place_spatial(groups, alignment)
    early = sorted(set(range(len(groups))).difference(late))
    below = _place_spatial([groups[n] for n in early], alignment)
    above = fast_merge([groups[n] for n in late], alignment)
    base = -(-below.size // alignment) * alignment
    offsets = dict(zip(early, below.offsets, strict=True))
    offsets.update(zip(late, (base + offset for offset in above.offsets), strict=True))
    return Heap(tuple(offsets[n] for n in range(len(groups))), base + above.size, _peak_live_bytes(groups))


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
        # The smallest chunk that is large enough; the lowest of several, as starts are the second key.
        position = bisect_left(self._by_usable_size, (size,))
        if position == len(self._by_usable_size):
            start = self._end
            self._end = self.aligned(start) + size
            self.highest = max(self.highest, self._end)
            return start, self._end
        # free_chunks_manager.h, MemoryChunk: chunks are compared by the size that is usable after alignment.
        _, start = self._by_usable_size.pop(position)
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


# --- strategies ---
# Strategies by which heaps are filled; TPU compilers try the next if the total exceeds a limit.
#
# Mirrors `BufferAssignmentAlgorithmProto` of xla/service/buffer_assignment.proto; the order of attempts is that of
# libtpu's log.


Placing = Callable[[Sequence[HeapGroup], int], Heap]
"""A heap algorithm: returns offsets for sharing groups and an alignment in bytes."""

StrategyName = Literal["BEST_OF_SPATIAL_TEMPORAL", "FAST_MERGE", "FAST_SPLIT", "SPATIAL", "TEMPORAL"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A heap algorithm and the order of assignment.

    If `by_time`, buffers are assigned by start of their live range. Otherwise they are assigned by size, and may
    reuse any free allocation.
    """

    name: StrategyName
    placing: Placing
    by_time: bool


DEFAULT_STRATEGY: Final = Strategy("BEST_OF_SPATIAL_TEMPORAL", place_best, by_time=False)
"""The strategy on CPU and GPU, and on TPU outside of main and scalar memory."""

TPU_STRATEGIES: Final = (
    Strategy("FAST_MERGE", fast_merge, by_time=True),
    Strategy("FAST_SPLIT", fast_split, by_time=True),
    Strategy("SPATIAL", _place_spatial, by_time=False),
    Strategy("TEMPORAL", _place_temporal, by_time=False),
)
"""The strategies that TPU compilers try for main memory, in this order; if all exceed the limit, the last is kept."""


# --- allocations under construction ---
# Mirrors `BufferAllocation` and `BufferAssignment::CombineTempAllocations` of xla/service/buffer_assignment.cc.


Role = Literal["parameter", "constant", "output", "thread-local", "temporary"]


@dataclass(frozen=True, slots=True)
class AssignedAllocation:
    """One allocation: size in bytes, and the indices and offsets of its buffers.

    `parameter` is the place of the entry parameter that it holds, if any; `is_live_out` marks part of the entry
    result. An offset is None if it cannot be derived from the text. Buffers with equal `slots` entries have the same
    offset at different times. `fragmentation` is the part of a heap that no buffer uses at the peak. Offsets are not
    certain if they depend on an order that the text does not have.
    """

    size: int
    space: int
    role: Role
    parameter: int | None
    is_live_out: bool
    buffers: tuple[int, ...]
    offsets: tuple[int | None, ...]
    slots: tuple[int, ...]
    fragmentation: int
    is_certain: bool = True


@dataclass(slots=True)
class AllocationBuilder:
    """An allocation under construction.

    If `is_open`, other buffers may reuse it, and `occupants` holds its values.
    """

    size: int
    space: int
    role: Role
    parameter: int | None = None
    is_live_out: bool = False
    is_open: bool = False
    occupants: AllocationValues | None = None
    buffers: list[int] = field(default_factory=list)
    offsets: list[int | None] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    fragmentation: int = 0
    is_certain: bool = True

    def put(self, number: int, *, is_live_out: bool = False) -> None:
        """Adds a buffer at offset 0, in the slot of the first buffer."""
        self.buffers.append(number)
        self.offsets.append(0)
        self.slots.append(self.buffers[0])
        self.is_live_out = self.is_live_out or is_live_out

    def build(self) -> AssignedAllocation:
        """Returns the finished allocation."""
        return AssignedAllocation(
            self.size,
            self.space,
            self.role,
            self.parameter,
            self.is_live_out,
            tuple(self.buffers),
            tuple(self.offsets),
            tuple(self.slots),
            self.fragmentation,
            self.is_certain,
        )


def alignment(space: int, target: Target | None) -> int:
    """Returns the alignment of offsets in a memory space, in bytes.

    >>> alignment(0, "cpu"), alignment(0, "tpu"), alignment(6, "tpu")
    (64, 16384, 512)
    """
    described = memory_space(space, target)
    if described is None and target != "tpu":
        described = memory_space(MemorySpace.MAIN, target)
    # Spaces of TPUs that no row describes are taken without alignment.
    return described.alignment if described is not None else 1


def combine_temporaries(builders: list[AllocationBuilder], target: Target | None) -> list[AllocationBuilder]:
    """Combines the temporary allocations of each memory space into one, after all others."""
    first = _partition(builders)
    combined_in: dict[int, AllocationBuilder] = {}
    for builder in builders[first:]:
        combined = combined_in.get(builder.space)
        if combined is None:
            combined_in[builder.space] = builder
            continue
        step = alignment(builder.space, target)
        # Each part begins aligned; only the end of the last one is not rounded up.
        base = -(-combined.size // step) * step
        combined.size = base + builder.size
        combined.buffers.extend(builder.buffers)
        combined.slots.extend(builder.slots)
        combined.fragmentation += builder.fragmentation
        combined.is_certain = combined.is_certain and builder.is_certain
        combined.offsets.extend(None if offset is None else base + offset for offset in builder.offsets)
    return [*builders[:first], *combined_in.values()]


def _partition(builders: list[AllocationBuilder]) -> int:
    """Moves temporary allocations to the end and returns the index of the first."""
    # buffer_assignment.cc, CombineTempAllocations: std::partition is not stable. Its swaps decide the order of
    # temporary allocations, hence their base offsets and which one is last and therefore not rounded up.
    first, last = 0, len(builders)
    while True:
        while first < last and builders[first].role != "temporary":
            first += 1
        last -= 1
        while first < last and builders[last].role == "temporary":
            last -= 1
        if first >= last:
            return first
        builders[first], builders[last] = builders[last], builders[first]
        first += 1


# --- events of a heap ---
# Allocation, sharing, and free events of heap buffers, in the order of the heap's own clock.
#
# Mirrors `HeapSimulator::RunComputation` of xla/service/heap_simulator/heap_simulator.cc.


@dataclass(frozen=True, slots=True)
class HeapRequest:
    """The input of a heap algorithm: sharing groups in the order of their leaders' ranks, and the values of each."""

    groups: tuple[HeapGroup, ...]
    values: tuple[tuple[int, ...], ...]


def _heap_request(
    values: Iterable[int],
    size: Mapping[int, int],
    dataflow: Dataflow,
    aliases: AliasSets,
    ranges: LiveRanges,
    sharing: OperandSharing,
    *,
    with_groups: bool = True,
) -> HeapRequest:
    """Returns the sharing groups of values; `size[value]` is the size of its buffer in bytes.

    Without `with_groups`, only the values of each.
    """
    replay = _Replay(dataflow, aliases, ranges, sharing, size)
    replay.run(values)
    return replay.request(with_groups=with_groups)


@dataclass(slots=True)
class _Replay:
    """Replays live ranges position by position; each allocation, share, and free advances the clock by one."""

    dataflow: Dataflow
    aliases: AliasSets
    ranges: LiveRanges
    sharing: OperandSharing
    size: Mapping[int, int]
    clock: int = 0
    candidates: tuple[Instruction | None, Mapping[int, None], list[int]] = field(default_factory=lambda: (None, {}, []))
    times: dict[int, tuple[int, int]] = field(default_factory=dict)
    leader: dict[int, int] = field(default_factory=dict)

    def run(self, values: Iterable[int]) -> None:
        """Allocates, shares, and frees all values."""
        start, end, rank = self.ranges.start, self.ranges.end, self.dataflow.rank

        def order(value: int) -> tuple[int, int, int]:
            """Returns the order in which values of one position start and end."""
            return start[value], end[value], rank[value]

        starting: dict[int, list[int]] = {}
        ending: dict[int, dict[int, None]] = {}
        for value in sorted(values, key=order):
            starting.setdefault(start[value], []).append(value)
            ending.setdefault(end[value], {})[value] = None
        first_of_buffer: dict[int, int] = {}
        for position in sorted(starting.keys() | ending.keys()):
            ending_here = ending.get(position, {})
            for value in starting.get(position, ()):
                # heap_simulator.cc, ShareBuffer: values of one buffer share memory whatever the algorithm decides.
                first = first_of_buffer.setdefault(self.aliases.buffer[value], value)
                if first != value:
                    self._begin(value, first)
                elif (operand := self._reusable_operand(value, ending_here)) is not None:
                    self._free(operand)
                    del ending_here[operand]
                    self._begin(value, operand)
                else:
                    self._begin(value, value)
            for value in ending_here:
                self._free(value)

    def request(self, *, with_groups: bool) -> HeapRequest:
        """Returns the sharing groups; groups of 0 bytes are omitted."""
        members: dict[int, list[int]] = {}
        for value in self.times:
            members.setdefault(self._leader_of(value), []).append(value)
        leaders = sorted(members, key=self.dataflow.rank.__getitem__)
        groups = []
        for leader in leaders if with_groups else ():
            largest = max(self.size[value] for value in members[leader])
            intervals = (self.times[value] for value in members[leader])
            groups.append(HeapGroup(self.size[leader], largest, tuple(intervals)))
        return HeapRequest(tuple(groups), tuple(tuple(members[leader]) for leader in leaders))

    def _leader_of(self, value: int) -> int:
        """Returns the first value of a sharing group."""
        while self.leader[value] != value:
            value = self.leader[value]
        return value

    def _begin(self, value: int, leader: int) -> None:
        """Starts the interval of a value, in the group of `leader`."""
        # heap_simulator.cc, Alloc: buffers of 0 bytes are at offset 0 and advance no clock.
        if self.size[value]:
            self.leader[value] = leader
            self.times[value] = (self.clock, -1)
            self.clock += 1

    def _free(self, value: int) -> None:
        """Ends the interval of a value."""
        if self.size[value]:
            self.times[value] = (self.times[value][0], self.clock)
            self.clock += 1

    def _reusable_operand(self, value: int, ending_here: Mapping[int, None]) -> int | None:
        """Returns an operand that is last used here and whose memory the value may reuse."""
        places, aliases = self.dataflow.places, self.aliases
        # heap_simulator.cc, RunComputation: neither the value nor the operand may be in an alias set of several values,
        # and a copy never reuses its operand, although CanShareOperandBufferWithUser would allow it.
        if aliases.buffer[value] in aliases.members:
            return None
        instruction = places.instructions[places.owner[value]]
        if instruction.opcode == opcodes.COPY:
            return None
        index, candidates = places.index(value), self._ending_operands(instruction, ending_here)
        for n, operand in enumerate(candidates):
            if operand in ending_here and self.sharing.may_share(operand, instruction, index):
                del candidates[n]
                return operand
        return None

    def _ending_operands(self, instruction: Instruction, ending_here: Mapping[int, None]) -> list[int]:
        """Returns the operands that end at this position and are not yet reused; cached per instruction."""
        user, ending, operands_ending = self.candidates
        if user is not instruction or ending is not ending_here:
            places, aliases = self.dataflow.places, self.aliases
            operand_places = (
                places.operand_place(instruction, position) for position in range(len(instruction.operands))
            )
            values = dict.fromkeys(self.dataflow.value[place] for place in operand_places)
            candidates_alone = [v for v in values if v in ending_here and aliases.buffer[v] not in aliases.members]
            operands = set(instruction.operands)
            operands_ending = [v for v in candidates_alone if places.instructions[places.owner[v]] in operands]
            self.candidates = instruction, ending_here, operands_ending
        return operands_ending


# --- heaps ---
# One allocation per memory space for all buffers without an allocation of their own.
#
# Mirrors `BufferAssigner::AssignBuffersWithSequentialOrdering` of xla/service/buffer_assignment.cc.


def heaps(
    buffers: tuple[Buffer, ...],
    deferred: Sequence[int],
    interference: Interference,
    target: Target | None,
    placing: Placing | None,
) -> list[AllocationBuilder]:
    """Returns one heap per memory space of `deferred` buffers; without `placing`, heaps have no offsets and size 0."""
    builders: list[AllocationBuilder] = []
    for space in sorted({buffers[number].space for number in deferred}):
        inside = [number for number in deferred if buffers[number].space == space]
        algorithm = placing if placing is None or _follows_strategy(space, target) else place_best
        builders.append(_heap(buffers, inside, interference, algorithm, alignment(space, target)))
    return builders


def _follows_strategy(number: int, target: Target | None) -> bool:
    """Returns whether the strategy fills a memory space: all but those of TPUs other than main and scalar memory."""
    space = memory_space(number, target)
    return target != "tpu" or (space is not None and space.follows_strategy)


def _heap(
    buffers: tuple[Buffer, ...], inside: list[int], interference: Interference, placing: Placing | None, unit: int
) -> AllocationBuilder:
    """Returns the heap of buffers of one memory space, at offsets that are multiples of `unit` bytes."""
    request, heap_of = _request(buffers, inside, interference, with_groups=placing is not None)
    heap = Heap((0,) * len(request.values), 0, 0)
    if placing is not None:
        # Offsets beyond 2^63 fail in every compiler; FAST_MERGE still gives a size to report.
        heap = (placing if _is_addressable(request.groups, unit) else fast_merge)(request.groups, unit)
    offset: dict[int, int | None] = dict.fromkeys(inside, 0)
    slot = {number: number for number in inside}
    for values, heap_offset in zip(request.values, heap.offsets, strict=True):
        offset.update(dict.fromkeys((heap_of[v] for v in values), heap_offset))
        slot.update(dict.fromkeys((heap_of[v] for v in values), heap_of[values[0]]))
    builder = AllocationBuilder(
        heap.size, buffers[inside[0]].space, "temporary", buffers=inside, fragmentation=heap.fragmentation
    )
    builder.offsets, builder.slots = [offset[n] for n in inside], [slot[n] for n in inside]
    # FAST_MERGE goes by time, where no two groups are equal.
    if placing is not None and placing is not fast_merge and not interference.dataflow.is_rank_certain:
        leaders = [values[0] for values in request.values]
        best = heap if placing is place_best else None
        order = ValueOrder(interference.dataflow)
        owners = [order.owner(leader) for leader in leaders]
        builder.is_certain = not _depends_on_ties(request.groups, owners, order.are_ordered, best)
    return builder


def _request(
    buffers: tuple[Buffer, ...], inside: Sequence[int], interference: Interference, *, with_groups: bool
) -> tuple[HeapRequest, dict[int, int]]:
    """Returns the sharing groups of buffers, and the buffer index of each value."""
    ranges = interference.ranges
    size = {v: buffers[n].size for n in inside for v in buffers[n].values if v in ranges.start}
    heap_of = {v: n for n in inside for v in buffers[n].values}
    dataflow, aliases, sharing = interference.dataflow, interference.aliases, interference.sharing
    return _heap_request(size, size, dataflow, aliases, ranges, sharing, with_groups=with_groups), heap_of


def preset(buffers: tuple[Buffer, ...], inside: list[int], space: int, interference: Interference) -> AllocationBuilder:
    """Returns the allocation of a memory space whose offsets memory-space assignment has chosen.

    The offsets are not in the text; the size is the peak of live bytes, a lower bound.
    """
    ranges = interference.ranges
    slot_of = _overwritten_in_place(buffers, inside, interference)
    spans = (
        (ranges.start[value], ranges.last(value), buffers[number].size, slot_of[number])
        for number in inside
        for value in buffers[number].values
        if value in ranges.start
    )
    used = sorted(spans, key=lambda span: span[:2])
    most = max(timeline(used, max((last for _, last, *_ in used), default=0)))
    unknown: list[int | None] = [None] * len(inside)
    return AllocationBuilder(
        most, space, "temporary", buffers=inside, offsets=unknown, slots=[slot_of[number] for number in inside]
    )


def _overwritten_in_place(
    buffers: tuple[Buffer, ...], inside: Sequence[int], interference: Interference
) -> dict[int, int]:
    """Returns the slot of each buffer that memory-space assignment placed; those of one slot share a location.

    A result takes the place of an operand that ends there and that `aliasing_operands` lists with it.
    """
    # Memory-space assignment knows values through copy-done, which hides them from the heap simulator: in 189 of 189
    # pairs that dumps list, of which both are in fast memory, the result is at the offset of the operand.
    dataflow, ranges = interference.dataflow, interference.ranges
    places = dataflow.places
    buffer_of = {value: number for number in inside for value in buffers[number].values}
    slot_of = {number: number for number in inside}

    def slot(number: int) -> int:
        """Returns the first buffer of the slot of a buffer."""
        while slot_of[number] != number:
            number = slot_of[number]
        return number

    taken: set[int] = set()
    for result in sorted((value for value in buffer_of if value in ranges.start), key=ranges.start.__getitem__):
        user = places.instructions[places.owner[result]]
        for operand in _listed_with(result, user, dataflow):
            ends_here = ranges.end.get(operand) == ranges.start[result]
            if operand in buffer_of and operand not in taken and ends_here:
                taken.add(operand)
                slot_of[slot(buffer_of[result])] = slot(buffer_of[operand])
                break
    return {number: slot(number) for number in inside}


def _listed_with(result: int, user: Instruction, dataflow: Dataflow) -> Iterator[int]:
    """Yields the operand values of an instruction that `aliasing_operands` lists with one of its results."""
    listed = listed_aliases(user)
    if not listed:
        return
    places = dataflow.places
    leaf = result_leaf(user, places.index(result))
    for position, operand in enumerate(user.operands):
        first = places.operand_place(user, position)
        for place in range(first, places.first[places.number(operand) + 1]):
            other = operand_leaf(user, position, places.index(place))
            if any(leaf in together and other in together for together in listed):
                yield dataflow.value[place]


# --- scratch of kernels ---
# Memory that a TPU kernel has for itself while it runs: `scoped_memory_configs` in its backend_config. Memory-space
# assignment reserves it in the address space of the values, so that allocations exceed what values need.


_SCOPED: Final = "scoped_memory_configs"


def scratch_bytes(module: Module, space: int) -> int:
    """Returns how far the scratch of any one kernel extends in a memory space, in bytes from its beginning.

    >>> from hlo_cli import parse_module
    >>> config = '{"scoped_memory_configs":[{"memory_space":"1","offset":"8192","size":"1024"}]}'
    >>> text = f"ENTRY e {{ p = f32[8] parameter(0)  ROOT n = f32[8] negate(p), backend_config={config} }}"
    >>> scratch_bytes(parse_module(text), 1), scratch_bytes(parse_module(text), 0)
    (9216, 0)
    """
    return max((end for each in module.instructions for number, end in _scratch_of(each) if number == space), default=0)


def _scratch_of(instruction: Instruction) -> Iterator[tuple[int, int]]:
    """The memory spaces in which an instruction has scratch, each with the end of it."""
    # The text first: parsing the JSON of every instruction takes longer than all the rest.
    if _SCOPED not in instruction.raw[1] or (config := instruction.backend_config) is None:
        return
    listed = config.get(_SCOPED)
    for each in listed if isinstance(listed, tuple) else ():
        if isinstance(each, Mapping):
            numbers = [str(each.get(name, "0")) for name in ("memory_space", "offset", "size")]
            if all(number.isdecimal() and len(number) < 20 for number in numbers):  # int64 has at most 19 digits
                space, offset, size = map(int, numbers)
                yield space, (offset + size if size else 0)
