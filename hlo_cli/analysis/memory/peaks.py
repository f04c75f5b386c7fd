"""Peaks of live bytes per memory space, for any order of the instructions.

Returns the same peaks as `memory_analysis` in less time, because no offsets are computed. Mirrors
`HeapSimulator::MinimumMemoryForModule` of xla/service/heap_simulator/heap_simulator.cc, which omits constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from hlo_cli.analysis.dataflow.flat_schedule import flat_schedule
from hlo_cli.analysis.layout.padding import buffer_bytes
from hlo_cli.analysis.memory.allocation_builder import AssignedAllocation
from hlo_cli.analysis.memory.assignment import assign
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.live_ranges import LiveRanges, live_ranges
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.memory.slot_occupancy import SlotRange, timeline
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction

Orders = Mapping[Computation, Sequence[Instruction]]
"""New instruction orders of some computations; the others keep the order of the text."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest number of live bytes in each memory space.

    In `from_definition`, a constant is live from its position, as in `memory_analysis`; in `whole`, during the whole
    execution, as in compiled programs, so that moving a constant gains nothing. `constants` is the total size of
    constants. `temporaries` are the sizes of the temporary allocations with alignment and fragmentation, if
    requested.
    """

    from_definition: Mapping[int, int]
    whole: Mapping[int, int]
    constants: Mapping[int, int]
    temporaries: Mapping[int, int] = field(default_factory=dict, compare=False, repr=False)

    def is_within(self, others: Peaks) -> bool:
        """Returns whether no peak is higher than in `others`, by both counts."""
        return not self.over(others, {})

    def over(self, others: Peaks, limits: Mapping[int, int]) -> dict[int, int]:
        """Returns the bytes above `others` per memory space, the larger of both counts; `limits` replace `others`.

        >>> low, high = Peaks({0: 8}, {0: 16}, {}), Peaks({0: 8}, {0: 24}, {})
        >>> low.over(high, {}), high.over(low, {}), high.over(low, {0: 24})
        ({}, {0: 8}, {})
        """
        found: dict[int, int] = {}
        for peaks, allowed in ((self.from_definition, others.from_definition), (self.whole, others.whole)):
            for space, peak in peaks.items():
                if (more := peak - limits.get(space, allowed.get(space, 0))) > 0:
                    found[space] = max(found.get(space, 0), more)
        return found


@no_garbage_collection()
def peaks_of(facts: OrderIndependentFacts, orders: Orders, *, with_temporaries: bool = False) -> Peaks:
    """Returns the peaks of a module; sizes of temporary allocations only `with_temporaries`, which takes longer.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[8,8] broadcast(p)  b = f32[8,8] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> facts = order_independent_facts(parse_module(text))
    >>> p, a, b, c, d, e = entry = facts.module.entry.instructions
    >>> peaks_of(facts, {}).whole, peaks_of(facts, {facts.module.entry: (p, a, c, b, d, e)}).whole
    ({0: 576}, {0: 352})
    >>> peaks_of(order_independent_facts(parse_module(text.replace("d = ", "k = f32[8] constant({...})  d = "))), {})
    Peaks(from_definition={0: 576}, whole={0: 608}, constants={0: 32})
    """
    schedule = flat_schedule(facts.places, facts.module.entry, facts.chains, orders)
    ranges = live_ranges(facts.module, facts.dataflow, schedule, facts.aliases, facts.target)
    assigned = assign(facts, ranges, with_offsets=with_temporaries).allocations
    slot_ranges: dict[int, list[SlotRange]] = {}
    others: dict[int, list[SlotRange]] = {}
    constants: dict[int, set[Buffer]] = {}
    for buffer, slot_range in _slot_ranges(facts, ranges, assigned):
        slot_ranges.setdefault(buffer.space, []).append(slot_range)
        if buffer.is_constant:
            constants.setdefault(buffer.space, set()).add(buffer)
        else:
            others.setdefault(buffer.space, []).append(slot_range)
    from_definition = {space: _peak(slot_ranges[space], schedule.end) for space in sorted(slot_ranges)}
    sizes = {space: sum(buffer.size for buffer in found) for space, found in constants.items()}
    whole = {space: _peak(others.get(space, ()), schedule.end) + size for space, size in sizes.items()}
    temporaries = {each.space: each.size for each in assigned if each.role == "temporary"} if with_temporaries else {}
    return Peaks(from_definition, {**from_definition, **whole}, sizes, temporaries)


@no_garbage_collection()
def peaks_from_definition(facts: OrderIndependentFacts) -> Mapping[int, int]:
    """Returns `Peaks.from_definition` for the order of the text, without the other peaks.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = "HloModule m  ENTRY e { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }"
    >>> peaks_from_definition(order_independent_facts(parse_module(text)))
    {0: 64}
    """
    schedule = flat_schedule(facts.places, facts.module.entry, facts.chains, {})
    ranges = live_ranges(facts.module, facts.dataflow, schedule, facts.aliases, facts.target)
    slot_ranges: dict[int, list[SlotRange]] = {}
    for buffer, slot_range in _slot_ranges(facts, ranges, assign(facts, ranges, with_offsets=False).allocations):
        slot_ranges.setdefault(buffer.space, []).append(slot_range)
    return {space: _peak(slot_ranges[space], schedule.end) for space in sorted(slot_ranges)}


def _peak(slot_ranges: Iterable[SlotRange], end: int) -> int:
    """Returns the peak of live bytes."""
    return max(timeline(sorted(slot_ranges, key=_time), end))


def _time(slot_range: SlotRange) -> tuple[int, int]:
    """Returns the sort key of a range: start, then end."""
    return slot_range[:2]


def _slot_ranges(
    facts: OrderIndependentFacts, ranges: LiveRanges, assigned: Iterable[AssignedAllocation]
) -> Iterator[tuple[Buffer, SlotRange]]:
    """Yields each value as (start, end, bytes, slot), with its buffer."""
    start, places = ranges.start, facts.places
    known: dict[int, int] = {}
    for allocation in assigned:
        for number, slot in zip(allocation.buffers, allocation.slots, strict=True):
            buffer = facts.buffers[number]
            for value in buffer.values:
                if value in start:
                    shape = places.shape(value)
                    size = known.get(id(shape))
                    if size is None:
                        size = known[id(shape)] = buffer_bytes(shape, facts.target, facts.generation)
                    yield buffer, (start[value], ranges.last(value), size, slot)
