"""The most bytes alive in each memory space, for an order that need not be that of the text.

Says what `memory_of` would say of the peaks, in less time: nothing gets an offset. Also says what they are with
constants there all the time, as they are in what compilers make, so that an order gains nothing by having them later.
Mirrors `HeapSimulator::MinimumMemoryForModule` of xla/service/heap_simulator/heap_simulator.cc, which leaves out
constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from hlo_cli.analysis.dataflow.flat_schedule import flat_schedule
from hlo_cli.analysis.hardware.buffer_sizes import buffer_bytes
from hlo_cli.analysis.memory.assignment import assign
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.drafts import Assigned
from hlo_cli.analysis.memory.live_ranges import LiveRanges, live_ranges
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.memory.turns import Life, timeline
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction

Orders = Mapping[Computation, Sequence[Instruction]]
"""A new order for some computations; the others stay as they are."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most bytes alive in each memory space, by its number.

    In `standing` every constant counts from where it stands, as in `memory_of`; in `whole` it does for the whole run.
    `constants` are the bytes of constants that this is about. `temporaries` are the sizes of the temporary
    allocations, with what alignment and fragmentation add, where these were asked for.
    """

    standing: Mapping[int, int]
    whole: Mapping[int, int]
    constants: Mapping[int, int]
    temporaries: Mapping[int, int] = field(default_factory=dict, compare=False, repr=False)

    def is_within(self, others: Peaks) -> bool:
        """Whether neither count is higher than in others in any space."""
        return not self.over(others, {})

    def over(self, others: Peaks, limits: Mapping[int, int]) -> dict[int, int]:
        """By how many bytes peaks are higher than others, or than the limits where there are some, by either count.

        >>> low, high = Peaks({0: 8}, {0: 16}, {}), Peaks({0: 8}, {0: 24}, {})
        >>> low.over(high, {}), high.over(low, {}), high.over(low, {0: 24})
        ({}, {0: 8}, {})
        """
        found: dict[int, int] = {}
        for peaks, allowed in ((self.standing, others.standing), (self.whole, others.whole)):
            for space, peak in peaks.items():
                if (more := peak - limits.get(space, allowed.get(space, 0))) > 0:
                    found[space] = max(found.get(space, 0), more)
        return found


@no_garbage_collection()
def peaks_of(facts: OrderIndependentFacts, orders: Orders, *, with_temporaries: bool = False) -> Peaks:
    """The peaks of a module; if asked for, `with_temporaries`, which takes longer.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[8,8] broadcast(p)  b = f32[8,8] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> facts = order_independent_facts(parse_module(text))
    >>> p, a, b, c, d, e = entry = facts.module.entry.instructions
    >>> peaks_of(facts, {}).whole, peaks_of(facts, {facts.module.entry: (p, a, c, b, d, e)}).whole
    ({0: 576}, {0: 352})
    >>> peaks_of(order_independent_facts(parse_module(text.replace("d = ", "k = f32[8] constant({...})  d = "))), {})
    Peaks(standing={0: 576}, whole={0: 608}, constants={0: 32})
    """
    dataflow = facts.dataflow
    schedule = flat_schedule(facts.places, facts.module.entry, facts.chains, orders)
    ranges = live_ranges(facts.module, dataflow, schedule, facts.aliases, facts.target)
    assigned = assign(facts, ranges, with_offsets=with_temporaries).allocations
    lives: dict[int, list[Life]] = {}
    others: dict[int, list[Life]] = {}
    constants: dict[int, set[Buffer]] = {}
    for buffer, life in _lives(facts, ranges, assigned):
        lives.setdefault(buffer.space, []).append(life)
        if buffer.is_constant:
            constants.setdefault(buffer.space, set()).add(buffer)
        else:
            others.setdefault(buffer.space, []).append(life)
    standing = {space: _peak(lives[space], schedule.end) for space in sorted(lives)}
    sizes = {space: sum(buffer.size for buffer in found) for space, found in constants.items()}
    whole = {space: _peak(others.get(space, ()), schedule.end) + size for space, size in sizes.items()}
    temporaries = {each.space: each.size for each in assigned if each.role == "temporary"} if with_temporaries else {}
    return Peaks(standing, {**standing, **whole}, sizes, temporaries)


def _peak(lives: Iterable[Life], end: int) -> int:
    return max(timeline(sorted(lives, key=_time), end))


def _time(life: Life) -> tuple[int, int]:
    return life[:2]


def _lives(
    facts: OrderIndependentFacts, ranges: LiveRanges, assigned: Iterable[Assigned]
) -> Iterator[tuple[Buffer, Life]]:
    start, end, places = ranges.start, ranges.end, facts.places
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
                    yield buffer, (start[value], end[value], size, slot)
