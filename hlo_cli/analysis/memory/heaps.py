"""Heaps: one allocation per memory space for all buffers without an allocation of their own.

Mirrors `BufferAssigner::AssignBuffersWithSequentialOrdering` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.allocation_builder import AllocationBuilder, alignment
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.heap_events import HeapRequest, heap_request
from hlo_cli.analysis.memory.interference import Interference
from hlo_cli.analysis.memory.strategies import Placing
from hlo_cli.analysis.placing.fast_merge import fast_merge
from hlo_cli.analysis.placing.heap import Heap, is_addressable, place_best
from hlo_cli.ir.memory_space import memory_space


def heaps(
    buffers: tuple[Buffer, ...],
    left: Sequence[int],
    interference: Interference,
    target: Target | None,
    placing: Placing | None,
) -> list[AllocationBuilder]:
    """Returns one heap per memory space of the buffers `left`; without `placing`, heaps have no offsets and size 0."""
    found: list[AllocationBuilder] = []
    for space in sorted({buffers[number].space for number in left}):
        inside = [number for number in left if buffers[number].space == space]
        algorithm = placing if placing is None or _follows_strategy(space, target) else place_best
        found.append(_heap(buffers, inside, interference, algorithm, alignment(space, target)))
    return found


def _follows_strategy(number: int, target: Target | None) -> bool:
    """Returns whether the strategy fills a memory space: all but those of TPUs other than main and scalar memory."""
    space = memory_space(number, target)
    return target != "tpu" or (space is not None and space.follows_strategy)


def _heap(
    buffers: tuple[Buffer, ...], inside: list[int], interference: Interference, placing: Placing | None, unit: int
) -> AllocationBuilder:
    """Returns the heap of buffers of one memory space, at offsets that are multiples of `unit` bytes."""
    request, heap_of = _request(buffers, inside, interference, with_groups=placing is not None)
    made = Heap((0,) * len(request.values), 0, 0)
    if placing is not None:
        # Offsets beyond 2^63 fail in every compiler; FAST_MERGE still gives a size to report.
        made = (placing if is_addressable(request.groups, unit) else fast_merge)(request.groups, unit)
    offset: dict[int, int | None] = dict.fromkeys(inside, 0)
    slot = {number: number for number in inside}
    for values, at in zip(request.values, made.offsets, strict=True):
        offset.update(dict.fromkeys((heap_of[v] for v in values), at))
        slot.update(dict.fromkeys((heap_of[v] for v in values), heap_of[values[0]]))
    builder = AllocationBuilder(
        made.size, buffers[inside[0]].space, "temporary", buffers=inside, fragmentation=made.fragmentation
    )
    builder.offsets, builder.slots = [offset[n] for n in inside], [slot[n] for n in inside]
    return builder


def _request(
    buffers: tuple[Buffer, ...], inside: Sequence[int], interference: Interference, *, with_groups: bool
) -> tuple[HeapRequest, dict[int, int]]:
    """Returns the sharing groups of buffers, and the buffer index of each value."""
    ranges = interference.ranges
    size = {v: buffers[n].size for n in inside for v in buffers[n].values if v in ranges.start}
    heap_of = {v: n for n in inside for v in buffers[n].values}
    dataflow, aliases, sharing = interference.dataflow, interference.aliases, interference.sharing
    return heap_request(size, size, dataflow, aliases, ranges, sharing, with_groups=with_groups), heap_of


def preset(buffers: tuple[Buffer, ...], inside: list[int], space: int, interference: Interference) -> AllocationBuilder:
    """Returns the allocation of a memory space whose offsets memory-space assignment has chosen.

    The offsets are not in the text; the size is the peak of live bytes, a lower bound.
    """
    unknown: list[int | None] = [None] * len(inside)
    most = _peak_live_bytes([buffers[number] for number in inside], interference)
    return AllocationBuilder(most, space, "temporary", buffers=inside, offsets=unknown, slots=list(inside))


def _peak_live_bytes(buffers: Sequence[Buffer], interference: Interference) -> int:
    """Returns the peak of live bytes of buffers."""
    start, end = interference.ranges.start, interference.ranges.end
    change: dict[int, int] = {}
    for buffer in buffers:
        values = [value for value in buffer.values if value in start]
        if values:
            begin, stop = min(start[v] for v in values), max(end[v] for v in values) + 1
            change[begin] = change.get(begin, 0) + buffer.size
            change[stop] = change.get(stop, 0) - buffer.size
    most = live = 0
    for position in sorted(change):
        live += change[position]
        most = max(most, live)
    return most
