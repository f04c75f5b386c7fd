"""Heaps: one allocation per memory space for all buffers without an allocation of their own.

Mirrors `BufferAssigner::AssignBuffersWithSequentialOrdering` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.allocation_builder import AllocationBuilder, alignment
from hlo_cli.analysis.memory.buffers import Buffer, ValueOrder
from hlo_cli.analysis.memory.heap_events import HeapRequest, heap_request
from hlo_cli.analysis.memory.interference import Interference
from hlo_cli.analysis.memory.listed_aliases import listed_aliases, operand_leaf, result_leaf
from hlo_cli.analysis.memory.slot_occupancy import timeline
from hlo_cli.analysis.memory.strategies import Placing
from hlo_cli.analysis.placing.fast_merge import fast_merge
from hlo_cli.analysis.placing.heap import Heap, depends_on_ties, is_addressable, place_best
from hlo_cli.ir.instruction import Instruction
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
    # FAST_MERGE goes by time, where no two groups are equal.
    if placing is not None and placing is not fast_merge and not interference.dataflow.is_rank_certain:
        leaders = [values[0] for values in request.values]
        best = made if placing is place_best else None
        order = ValueOrder(interference.dataflow)
        owners = [order.owner(leader) for leader in leaders]
        builder.is_certain = not depends_on_ties(request.groups, owners, order.are_ordered, best)
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
