"""The heap: laws of placement, and the same offsets as an exhaustive search of all chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_cli.analysis.memory.heaps import Heap, HeapGroup, fast_merge, fast_split, merge_intervals, place_best
from hlo_cli.analysis.memory.occupancy import FreeIntervals, PlacedRuns
from hlo_cli.analysis.memory.occupancy_columns import Placed
from timing import is_linear

ALIGNMENT = 16


@st.composite
def requests(draw: st.DrawFn) -> list[HeapGroup]:
    """Groups with intervals that begin and end at distinct times, as with the heap's clock."""
    count = draw(st.integers(1, 14))
    times = draw(st.permutations(range(2 * count)))
    intervals = [(min(times[2 * n : 2 * n + 2]), max(times[2 * n : 2 * n + 2])) for n in range(count)]
    stretch = draw(st.sampled_from([1, 1, 3000]))
    groups = []
    while intervals:
        taken = draw(st.integers(1, min(3, len(intervals))))
        size = draw(st.integers(1, 100))
        part, intervals = intervals[:taken], intervals[taken:]
        largest = size + draw(st.sampled_from([0, 0, 7]))
        groups.append(HeapGroup(size, largest, tuple((a * stretch, b * stretch) for a, b in part)))
    return groups


def meet(first: HeapGroup, second: HeapGroup) -> bool:
    return any(a <= d and c <= b for a, b in first.intervals for c, d in second.intervals)


def plain(groups: Sequence[HeapGroup], order: Callable[[HeapGroup], tuple[int, int]]) -> tuple[list[int], int]:
    """Best fit by a search of all placed chunks."""
    offsets: dict[int, int] = {}
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        group, free, free_intervals = groups[number], 0, []
        used = sorted((o, o + groups[n].largest) for n, o in offsets.items() if meet(groups[n], group))
        for offset, end in used:
            if offset - free >= group.largest:
                free_intervals.append((offset - free, free))
            free = max(free, (end + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
        offsets[number] = min(free_intervals)[1] if free_intervals else free
    placed = [offsets[n] for n in range(len(groups))]
    return placed, max(o + g.largest for o, g in zip(placed, groups, strict=True))


def best(groups: Sequence[HeapGroup]) -> tuple[list[int], int]:
    def spatial(group: HeapGroup) -> tuple[int, int]:
        return -group.size, group.intervals[0][0] - group.intervals[0][1]

    def temporal(group: HeapGroup) -> tuple[int, int]:
        return min(a for a, _ in group.intervals) - max(b for _, b in group.intervals), -group.size

    return min((plain(groups, spatial), plain(groups, temporal)), key=lambda found: found[1])


def split_early(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """The heap with free intervals split early, so that a few groups suffice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hlo_cli.analysis.memory.heaps._MAX_PLACED_BY_SIZE", 3)
        return fast_split(groups, alignment)


@settings(deadline=None)  # the first example loads numpy
@given(requests())
def test_offsets_match_an_exhaustive_search(groups: list[HeapGroup]) -> None:
    heap = place_best(groups, ALIGNMENT)
    assert (list(heap.offsets), heap.size) == best(groups)


@given(requests(), st.sampled_from([1, 1, 9]), st.sampled_from([1, 3, 1000]))
def test_runs_have_the_gaps_that_chunks_have(groups: list[HeapGroup], smallest: int, apart: int) -> None:
    """The runs of occupied memory, kept for parts of the time, match a search of all chunks."""
    times = 1 + max(end for group in groups for _, end in group.intervals)
    chunks, runs = Placed(ALIGNMENT), PlacedRuns(ALIGNMENT, times, smallest, range(0, times, apart))
    for group in groups:
        spans = merge_intervals(group.intervals)
        offset = chunks.smallest_gap(spans, group.largest + smallest)
        assert runs.smallest_gap(spans, group.largest + smallest) == offset
        for placed in (chunks, runs):
            placed.add(spans, offset, offset + group.largest + smallest)


@pytest.mark.parametrize("placing", [place_best, fast_merge, fast_split, split_early])
@given(groups=requests())
def test_nothing_overlaps_in_time_and_memory(
    placing: Callable[[Sequence[HeapGroup], int], Heap], groups: list[HeapGroup]
) -> None:
    heap = placing(groups, ALIGNMENT)
    chunks = [(g, o, o + g.largest) for g, o in zip(groups, heap.offsets, strict=True)]
    for n, (group, offset, end) in enumerate(chunks):
        assert offset % ALIGNMENT == 0
        assert end <= heap.size
        for other, start, behind in chunks[n + 1 :]:
            assert not meet(group, other) or end <= start or behind <= offset


@given(requests())
def test_the_live_bytes_are_the_largest_at_any_time(groups: list[HeapGroup]) -> None:
    times = {time for group in groups for interval in group.intervals for time in interval}
    held = max(sum(g.largest for g in groups if any(a <= t <= b for a, b in g.intervals)) for t in times)
    heap = place_best(groups, ALIGNMENT)
    assert heap.live_bytes == held
    assert heap.fragmentation == heap.size - held >= 0


def test_an_empty_heap_has_no_bytes() -> None:
    assert place_best((), ALIGNMENT) == fast_merge((), ALIGNMENT) == Heap((), 0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 4)), max_size=12),
    st.integers(0, 14),
    st.integers(0, 5),
)
def test_gaps_are_where_no_value_is_live(lives: list[tuple[int, int, int]], start: int, length: int) -> None:
    """Allocations are found only if a value at most touches the live ranges there."""
    free_intervals = FreeIntervals()
    held: dict[int, list[tuple[int, int]]] = {free_intervals.open(): [] for _ in range(4)}
    for allocation, first, more in lives:
        last = first + more
        if all(end < first or begin > last for begin, end in held[allocation]):
            before = max((end for _, end in held[allocation] if end < first), default=None)
            behind = min((begin for begin, _ in held[allocation] if begin > last), default=None)
            free_intervals.cut(allocation, before, behind, first, last)
            held[allocation].append((first, last))
    end = start + length
    free = [a for a in held if all(last <= start or end <= first for first, last in held[a])]
    assert list(dict.fromkeys(free_intervals.around(start, end))) == sorted(free, reverse=True)


@pytest.mark.slow
def test_time_is_linear_with_many_overlapping_live_ranges() -> None:
    def work(number: int) -> Callable[[], Heap]:
        random = Random(number)
        ends = random.sample(range(number, 2 * number), number)
        sizes = [16 * random.randrange(1, 5000) for _ in range(number)]
        times = enumerate(ends)
        groups = [HeapGroup(size, size, (lives,)) for size, lives in zip(sizes, times, strict=True)]
        return lambda: place_best(groups, 64)

    assert is_linear(work, 4000, 8000)
