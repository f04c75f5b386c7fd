"""Buffer assignment: which buffers get memory of their own, and which share it.

Mirrors xla/service/buffer_assignment.cc. Buffers that no rule places are left to the heap, and everything that is only
needed while the program runs is put into one temporary allocation for each memory space in the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from hlo_cli.analysis.buffers import Buffer, assignment_order
from hlo_cli.analysis.gaps import Gaps
from hlo_cli.analysis.heap import Heap, is_addressable, place
from hlo_cli.analysis.heap_events import heap_request
from hlo_cli.analysis.heap_in_order import place_in_order
from hlo_cli.analysis.interference import Interference, Tenants
from hlo_cli.analysis.places import Places
from hlo_cli.analysis.target import Target
from hlo_cli.ir.module import Module

Role = Literal["parameter", "constant", "output", "thread-local", "temporary"]

_ALIGNMENT: Final[dict[Target | None, int]] = {"cpu": 64, "gpu": 256, "tpu": 16384, None: 64}
_TPU_ALIGNMENT: Final = {1: 4096, 3: 4096, 4: 512, 6: 512, 2: 4}


@dataclass(frozen=True, slots=True)
class Assigned:
    """One allocation: the numbers of the buffers in it, where each begins, and its size.

    `parameter` is the place of the entry parameter that it is; `is_live_out` says that a part of the result lies in it.
    An offset is None where the compiler's choice cannot be told from the text. Buffers of one slot (a number for each
    buffer) lie at the same place, one after the other; `fragmentation` is what of a heap is never held.
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


@dataclass(slots=True)
class _Draft:
    size: int
    space: int
    role: Role
    parameter: int | None = None
    is_live_out: bool = False
    is_open: bool = False
    tenants: Tenants | None = None
    buffers: list[int] = field(default_factory=list)
    offsets: list[int | None] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    fragmentation: int = 0


@dataclass(slots=True)
class _Opened:
    """The allocations of a memory space that others may share, and when they are free."""

    drafts: list[_Draft] = field(default_factory=list)
    gaps: Gaps = field(default_factory=Gaps)


def assign(
    module: Module,
    buffers: tuple[Buffer, ...],
    interference: Interference,
    target: Target | None,
    *,
    with_offsets: bool = True,
) -> tuple[Assigned, ...]:
    """The allocations of a module, temporary ones last; without offsets, heaps have no size: what shares is told."""
    drafts: list[_Draft] = []
    opened: dict[int, _Opened] = {}
    left: list[int] = []
    home: dict[int, _Draft] = {}
    order = assignment_order(interference.dataflow, module, buffers)
    writable = _writable(module, interference.dataflow.places)
    for number in order:
        buffer = buffers[number]
        if buffer.is_local:
            continue
        draft = _own(buffer, writable)
        if draft is None and target != "tpu":
            draft = _shared(buffer, opened, home, interference)
        if draft is None and buffer.is_live_out:
            draft = _Draft(buffer.size, buffer.space, "output", is_open=True)
        if draft is None:
            left.append(number)
            continue
        if not draft.buffers:
            drafts.append(draft)
        _put(draft, number, buffer, interference, opened)
        home.update(dict.fromkeys(buffer.values, draft))
    drafts.extend(_heaps(buffers, left, interference, target, with_offsets=with_offsets))
    for number in order:
        if buffers[number].is_local:
            role: Role = "constant" if buffers[number].is_constant else "thread-local"
            draft = _Draft(buffers[number].size, buffers[number].space, role)
            _put(draft, number, buffers[number], interference, opened)
            drafts.append(draft)
    return tuple(_finished(draft) for draft in _combined(drafts, target))


def alignment(space: int, target: Target | None) -> int:
    """To how many bytes offsets in a memory space are rounded up."""
    return _TPU_ALIGNMENT.get(space, 1) if target == "tpu" and space else _ALIGNMENT[target]


def _writable(module: Module, places: Places) -> set[int]:
    """The places of arguments that the result overwrites."""
    parameters, found = module.entry.parameters, set[int]()
    for alias in module.input_output_alias:
        if alias.parameter_number < len(parameters):
            parameter = parameters[alias.parameter_number]
            given = places.parts(parameter).ordinals.get(alias.parameter_index)
            if given is not None:
                found.add(places.first_of(parameter) + given)
    return found


def _own(buffer: Buffer, writable: set[int]) -> _Draft | None:
    """The allocation of a buffer that must have its own."""
    if buffer.is_constant:
        return _Draft(buffer.size, buffer.space, "constant", is_live_out=buffer.is_live_out)
    if buffer.parameter is not None:
        is_open = buffer.parameter in writable and not buffer.is_tuple
        return _Draft(buffer.size, buffer.space, "parameter", buffer.parameter, buffer.is_live_out, is_open)
    if buffer.is_tuple:
        return _Draft(buffer.size, buffer.space, "output" if buffer.is_live_out else "temporary")
    return None


def _shared(
    buffer: Buffer, opened: Mapping[int, _Opened], home: Mapping[int, _Draft], interference: Interference
) -> _Draft | None:
    """An allocation that is there already and may take the buffer: an operand's, else the newest."""
    dataflow = interference.dataflow
    places = dataflow.places
    for value in buffer.values:
        if value != places.first[places.owner[value]]:
            continue
        instruction = places.instructions[places.owner[value]]
        for position in range(len(instruction.operands)):
            draft = home.get(dataflow.value[places.operand_place(instruction, position)])
            if draft is not None and draft.is_open and _fits(buffer, draft, interference):
                return draft
    start, end = interference.ranges.start, interference.ranges.end
    first = next((value for value in buffer.values if value in start), None)
    if first is None or buffer.space not in opened:
        return None
    there = opened[buffer.space]
    for number in there.gaps.around(start[first], end[first]):
        if buffer.is_live_out and there.drafts[number].size > buffer.size:
            return None  # the older ones are no smaller
        if _fits(buffer, there.drafts[number], interference):
            return there.drafts[number]
    return None


def _fits(buffer: Buffer, draft: _Draft, interference: Interference) -> bool:
    if draft.space != buffer.space or draft.size < buffer.size or (buffer.is_live_out and draft.size != buffer.size):
        return False
    return draft.tenants is None or interference.is_free(draft.tenants, buffer.values)


def _put(draft: _Draft, number: int, buffer: Buffer, interference: Interference, opened: dict[int, _Opened]) -> None:
    draft.buffers.append(number)
    draft.offsets.append(0)
    draft.slots.append(draft.buffers[0])
    draft.is_live_out = draft.is_live_out or buffer.is_live_out
    if draft.is_open:
        there = opened.setdefault(draft.space, _Opened())
        if draft.tenants is None:
            draft.tenants = Tenants(there.gaps.open())
            there.drafts.append(draft)
        interference.enter(draft.tenants, buffer.values, there.gaps)


def _heaps(
    buffers: tuple[Buffer, ...],
    left: Sequence[int],
    interference: Interference,
    target: Target | None,
    *,
    with_offsets: bool,
) -> list[_Draft]:
    """One allocation for each memory space, in which the heap has placed what is left."""
    found: list[_Draft] = []
    ranges = interference.ranges
    for space in sorted({buffers[number].space for number in left}):
        inside = [number for number in left if buffers[number].space == space]
        size = {v: buffers[n].size for n in inside for v in buffers[n].values if v in ranges.start}
        heap_of = {v: n for n in inside for v in buffers[n].values}
        if target == "tpu" and space:
            most = _most_alive([buffers[number] for number in inside], interference)
            unknown: list[int | None] = [None] * len(inside)
            found.append(_Draft(most, space, "temporary", buffers=inside, offsets=unknown, slots=list(inside)))
            continue
        request = heap_request(size, size, interference.dataflow, interference.aliases, ranges, interference.sharing)
        heap = Heap((0,) * len(request.groups), 0, 0)
        if with_offsets:
            unit = alignment(space, target)
            # What no compiler could place is placed one after the other, to say how much too large it is.
            placing = place if target != "tpu" and is_addressable(request.groups, unit) else place_in_order
            heap = placing(request.groups, unit)
        offset: dict[int, int | None] = dict.fromkeys(inside, 0)
        slot = {number: number for number in inside}
        for values, at in zip(request.values, heap.offsets, strict=True):
            offset.update(dict.fromkeys((heap_of[v] for v in values), at))
            slot.update(dict.fromkeys((heap_of[v] for v in values), heap_of[values[0]]))
        draft = _Draft(heap.size, space, "temporary", buffers=inside, fragmentation=heap.fragmentation)
        draft.offsets, draft.slots = [offset[n] for n in inside], [slot[n] for n in inside]
        found.append(draft)
    return found


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


def _combined(drafts: list[_Draft], target: Target | None) -> list[_Draft]:
    """All temporary allocations of a space as one, behind the others."""
    first = _partition(drafts)
    combined: dict[int, _Draft] = {}
    for draft in drafts[first:]:
        whole = combined.get(draft.space)
        if whole is None:
            combined[draft.space] = draft
            continue
        step = alignment(draft.space, target)
        base = -(-whole.size // step) * step
        whole.size = base + draft.size
        whole.buffers.extend(draft.buffers)
        whole.slots.extend(draft.slots)
        whole.fragmentation += draft.fragmentation
        whole.offsets.extend(None if offset is None else base + offset for offset in draft.offsets)
    return [*drafts[:first], *combined.values()]


def _partition(drafts: list[_Draft]) -> int:
    """Brings temporary allocations behind the others as `std::partition` does, whose order decides on bases."""
    first, last = 0, len(drafts)
    while True:
        while first < last and drafts[first].role != "temporary":
            first += 1
        last -= 1
        while first < last and drafts[last].role == "temporary":
            last -= 1
        if first >= last:
            return first
        drafts[first], drafts[last] = drafts[last], drafts[first]
        first += 1


def _finished(draft: _Draft) -> Assigned:
    return Assigned(
        draft.size,
        draft.space,
        draft.role,
        draft.parameter,
        draft.is_live_out,
        tuple(draft.buffers),
        tuple(draft.offsets),
        tuple(draft.slots),
        draft.fragmentation,
    )
