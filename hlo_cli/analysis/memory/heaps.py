"""The buffers that nothing else placed, in one allocation for each memory space.

Mirrors `BufferAssigner::AssignBuffersWithSequentialOrdering` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.drafts import Draft, alignment
from hlo_cli.analysis.memory.heap_events import HeapRequest, heap_request
from hlo_cli.analysis.memory.interference import Interference
from hlo_cli.analysis.memory.strategies import Placing
from hlo_cli.analysis.placing.fast_merge import fast_merge
from hlo_cli.analysis.placing.heap import Heap, is_addressable, place
from hlo_cli.ir.memory_space import memory_space


def heaps(
    buffers: tuple[Buffer, ...],
    left: Sequence[int],
    interference: Interference,
    target: Target | None,
    placing: Placing | None,
) -> list[Draft]:
    """An allocation for each memory space of what is left; without a way of placing it has no offsets and no size."""
    found: list[Draft] = []
    for space in sorted({buffers[number].space for number in left}):
        inside = [number for number in left if buffers[number].space == space]
        way = placing if placing is None or _follows_strategy(space, target) else place
        found.append(_heap(buffers, inside, interference, way, alignment(space, target)))
    return found


def _follows_strategy(number: int, target: Target | None) -> bool:
    """Whether a memory space is filled as the strategy says, of which TPUs alone have several."""
    space = memory_space(number, target)
    return target != "tpu" or (space is not None and space.follows_strategy)


def _heap(
    buffers: tuple[Buffer, ...], inside: list[int], interference: Interference, placing: Placing | None, unit: int
) -> Draft:
    """An allocation of buffers of one space, at offsets that are multiples of the unit."""
    request, heap_of = _request(buffers, inside, interference)
    made = Heap((0,) * len(request.groups), 0, 0)
    if placing is not None:
        # What no compiler could place is placed one after the other, to say how much too large it is.
        made = (placing if is_addressable(request.groups, unit) else fast_merge)(request.groups, unit)
    offset: dict[int, int | None] = dict.fromkeys(inside, 0)
    slot = {number: number for number in inside}
    for values, at in zip(request.values, made.offsets, strict=True):
        offset.update(dict.fromkeys((heap_of[v] for v in values), at))
        slot.update(dict.fromkeys((heap_of[v] for v in values), heap_of[values[0]]))
    draft = Draft(made.size, buffers[inside[0]].space, "temporary", buffers=inside, fragmentation=made.fragmentation)
    draft.offsets, draft.slots = [offset[n] for n in inside], [slot[n] for n in inside]
    return draft


def _request(
    buffers: tuple[Buffer, ...], inside: Sequence[int], interference: Interference
) -> tuple[HeapRequest, dict[int, int]]:
    """What is asked of a heap, and the number of the buffer of each value."""
    ranges = interference.ranges
    size = {v: buffers[n].size for n in inside for v in buffers[n].values if v in ranges.start}
    heap_of = {v: n for n in inside for v in buffers[n].values}
    sharing = interference.sharing
    return heap_request(size, size, interference.dataflow, interference.aliases, ranges, sharing), heap_of


def preset(buffers: tuple[Buffer, ...], inside: list[int], space: int, interference: Interference) -> Draft:
    """The allocation of a space whose offsets were chosen elsewhere: as large as what is alive at once, at least."""
    unknown: list[int | None] = [None] * len(inside)
    most = _most_alive([buffers[number] for number in inside], interference)
    return Draft(most, space, "temporary", buffers=inside, offsets=unknown, slots=list(inside))


def _most_alive(buffers: Sequence[Buffer], interference: Interference) -> int:
    """The most bytes that are alive at once: what an arena of this space must hold at least."""
    start, end = interference.ranges.start, interference.ranges.end
    change: dict[int, int] = {}
    for buffer in buffers:
        values = [value for value in buffer.values if value in start]
        if values:
            begin, behind = min(start[v] for v in values), max(end[v] for v in values) + 1
            change[begin] = change.get(begin, 0) + buffer.size
            change[behind] = change.get(behind, 0) - buffer.size
    most = alive = 0
    for position in sorted(change):
        alive += change[position]
        most = max(most, alive)
    return most
