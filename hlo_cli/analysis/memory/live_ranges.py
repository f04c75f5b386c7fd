"""Live ranges: from which to which position of the flattened schedule each value is live.

Mirrors xla/hlo/utils/hlo_live_range.cc and reproduces the dump file `-live-range.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from hlo_cli.analysis.dataflow.flat_schedule import AsyncChain, FlatSchedule, Positions, Run
from hlo_cli.analysis.dataflow.value_sets import NO_USE, TOP_ONLY, AliasSets, Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.layout.padding import logical_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import FORWARDING
from hlo_cli.ir.shape import ArrayShape

_NO_USE: Final = NO_USE | {opcodes.CALL}
_CONCATENATION: Final = "ConcatBitcast"
_PASSES_ON: Final = FORWARDING | NO_USE | {opcodes.GET_TUPLE_ELEMENT, opcodes.CONDITIONAL, opcodes.CALL}
"""Opcodes that pass values on and read none of their elements."""


@dataclass(frozen=True, slots=True)
class LiveRanges:
    """`start` and `end` positions of each value, both inclusive.

    `last_place` is the place (`HloPosition`) at which the live range ends; of several at that position, the first in
    the text. `counted` has the last position at which a value needs memory, if that is before its end.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { p = f32[256]{0:T(256)} parameter(0)
    ...   a = f32[256]{0:T(256)} sine(p)  b = f32[256]{0:T(256)} cosine(p)
    ...   ROOT c = f32[512]{0:T(256)} custom-call(a, b), custom_call_target="ConcatBitcast" }'''
    >>> memory_analysis(parse_module(text)).spaces[0].timeline
    (1024, 2048, 3072, 3072, 3072)
    """

    start: Mapping[int, int]
    end: Mapping[int, int]
    last_place: Mapping[int, int]
    counted: Mapping[int, int]

    def last(self, value: int) -> int:
        """Returns the last position at which a value needs memory."""
        end = self.end[value]
        return min(end, self.counted.get(value, end))

    def live_at(self, position: int) -> tuple[int, ...]:
        """Returns the values live at a position."""
        end = self.end
        return tuple(value for value, start in self.start.items() if start <= position <= end[value])


def live_ranges(
    module: Module, dataflow: Dataflow, schedule: FlatSchedule, aliases: AliasSets, target: Target | None
) -> LiveRanges:
    """Returns the live ranges of all values that instructions of the flattened schedule define."""
    start = _start_ticks(dataflow, schedule, target)
    end, last_place = _position_ends(dataflow, schedule, start)
    _extend_to_uses(dataflow, schedule, end)
    _extend_late_outputs(dataflow, schedule, end)
    _extend_arguments(module, dataflow, schedule, end)
    for members in aliases.members.values():
        _normalize_aliased([value for value in members if value in start], start, end)
    counted = _concatenated(dataflow, start, end)
    if target == "tpu":
        counted |= _before_other_branches(dataflow, schedule, start, end)
    return LiveRanges(start, end, last_place, counted)


def _start_ticks(dataflow: Dataflow, schedule: FlatSchedule, target: Target | None) -> dict[int, int]:
    """Returns the start of each value: the tick of its instruction, or the start of the computation for parameters.

    On TPU, the result of an async computation starts at the async-start, if that binds all operands. The omitted
    operation of a sugared start has the tick before it.
    """
    places, start = dataflow.places, dict[int, int]()
    spans = {computation: run.start for computation, run in schedule.spans.items()}
    for value in dataflow.values:
        number = places.owner[value]
        tick = schedule.ticks[number]
        if tick >= 0:
            instruction = places.instructions[number]
            start[value] = spans[instruction.computation] if instruction.opcode == opcodes.PARAMETER else tick
    for member, chain in dataflow.chains.items():
        tick = schedule.ticks[places.number(member)]
        if member is not chain.start or tick < 0:
            continue
        if chain.computation is None:
            for output in places.parts(member).below((1,)):
                # an async-start without a computation may be first, with no tick of an omitted operation before it
                before = max(tick - 1, 0)
                start[dataflow.value[places.first_of(member) + output]] = tick if target == "tpu" else before
        # Measured on libtpu: the result is live from the async-start, not from the root's own tick as in
        # hlo_live_range.cc.
        elif target == "tpu" and _is_fully_bound_start(member, chain) and chain.computation in places.base:
            if (root := chain.computation.root) is None:
                continue
            for place in range(places.first_of(root), places.first_of(root) + len(places.parts(root))):
                definer = places.instructions[places.owner[dataflow.value[place]]]
                if definer.computation is chain.computation:
                    start[dataflow.value[place]] = tick
    return start


def _is_fully_bound_start(member: Instruction, chain: AsyncChain) -> bool:
    """Returns whether an async-start binds all operands of its computation; False for a sugared call-start."""
    return chain.binding is member and member.opcode == opcodes.ASYNC_START


def _position_ends(
    dataflow: Dataflow, schedule: FlatSchedule, start: Mapping[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the tick of the last position of each value, and the place of that position.

    A value held by a root is live until its computation ends. Of places at one tick, the first in the text counts:
    the root of a callee, not the call after it.
    """
    places, at, ticks = dataflow.places, dataflow.value, schedule.ticks
    first, end, last_place = places.first, dict[int, int](), dict[int, int]()
    roots = {run.computation.root: run.end for run in schedule.spans.values()}
    done = _done_ticks(dataflow, schedule)
    for value in start:
        definer = places.instructions[places.owner[value]]
        own = roots[definer] if definer in roots else ticks[places.owner[value]]
        end[value] = max(own, done.get(definer.computation, 0)) if done else own
        last_place[value] = value
    for computation, base in places.base.items():
        run, root = schedule.spans.get(computation), computation.root
        for number, instruction in enumerate(computation.instructions if run else (), base):
            # hlo_live_range.cc, ComputeValueLiveRangeEnd: a position at a root counts as the end of its computation,
            # and only a strictly later position replaces an earlier one.
            tick = run.end if run and instruction is root else ticks[number]
            for place in range(first[number], first[number + 1]):
                value = at[place]
                if value in end and end[value] < tick:
                    end[value] = tick
                    last_place[value] = place
    return end, last_place


def _extend_to_uses(dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """Extends live ranges to the last instruction that uses each value."""
    places, at, first = dataflow.places, dataflow.value, dataflow.places.first
    for run in schedule.spans.values():
        for number, instruction in enumerate(run.computation.instructions, places.base[run.computation]):
            opcode = instruction.opcode
            if opcode in _NO_USE:
                continue
            tick = schedule.ticks[number] if opcode != opcodes.WHILE else _loop_start(dataflow, schedule, instruction)
            for position, operand in enumerate(instruction.operands):
                place = places.operand_place(instruction, position)
                stop = place + 1 if opcode in TOP_ONLY else first[places.number(operand) + 1]
                for used in range(place, stop):
                    value = at[used]
                    if value in end and end[value] < tick:
                        end[value] = tick


def _loop_start(dataflow: Dataflow, schedule: FlatSchedule, loop: Instruction) -> int:
    """Returns the tick of the body's parameter, where the live range of a loop's initial value ends."""
    # hlo_live_range.cc, GetLastUsageTime: the use by the while itself is moved to the body's parameter.
    for body in loop.called_computations[:1]:
        if body.parameters and body in schedule.spans:
            return schedule.ticks[dataflow.places.number(body.parameters[0])]
    return schedule.ticks[dataflow.places.number(loop)]


def _done_ticks(dataflow: Dataflow, schedule: FlatSchedule) -> dict[Computation, int]:
    """Returns the tick of the async-done for each computation that runs asynchronously."""
    places, done = dataflow.places, dict[Computation, int]()
    for run in schedule.runs:
        if run.caller is None:
            continue
        if run.caller in dataflow.chains:
            done[run.computation] = schedule.ticks[places.number(dataflow.chains[run.caller].done)]
        elif run.caller.computation in done:
            done[run.computation] = done[run.caller.computation]
    return done


def _extend_late_outputs(dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """Extends output buffers that an async-update passes in until the async-done."""
    places = dataflow.places
    for member, chain in dataflow.chains.items():
        for update, position in chain.buffers if member is chain.start else ():
            value = dataflow.value[places.operand_place(update, position)]
            if value in end:
                end[value] = max(end[value], schedule.ticks[places.number(chain.done)])


def _extend_arguments(module: Module, dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """Extends entry parameters to the end of the program, except those that the result overwrites."""
    places = dataflow.places
    # hlo_live_range.cc, CalculateBufferStartEndMap: a parameter without input_output_alias at that exact index is
    # read-only and live until the program ends, even if it is donated.
    aliased = {(alias.parameter_number, alias.parameter_index) for alias in module.input_output_alias}
    for number, parameter in enumerate(module.entry.parameters):
        first = places.first_of(parameter)
        for n, index in enumerate(places.parts(parameter).indices):
            if (number, index) not in aliased and first + n in end:
                end[first + n] = schedule.end


def _normalize_aliased(values: list[int], start: Mapping[int, int], end: dict[int, int]) -> None:
    """Makes the live ranges of one buffer disjoint: each ends where the next starts."""
    values.sort(key=lambda value: (start[value], end[value]))
    for value, later in pairwise(values):
        end[later] = max(end[value], end[later])
        end[value] = min(end[value], start[later])


# --- values that need memory for a part of their live range ---


def _concatenated(dataflow: Dataflow, start: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
    """Returns the position before the end of each value that a `ConcatBitcast` makes a part of its result there.

    TPU compilers prefetch the slices of an array to adjacent addresses, so that only the result counts at that step.
    """
    places, found = dataflow.places, dict[int, int]()
    for instruction in places.instructions:
        if instruction.opcode == opcodes.CUSTOM_CALL and instruction.string("custom_call_target") == _CONCATENATION:
            at = start.get(places.first_of(instruction))
            operands = (places.operand_place(instruction, n) for n in range(len(instruction.operands)))
            values = (dataflow.value[place] for place in operands)
            found.update((v, end[v] - 1) for v in values if at is not None and start.get(v, at) < at == end[v])
    return found


def _before_other_branches(
    dataflow: Dataflow, schedule: FlatSchedule, start: Mapping[int, int], end: Mapping[int, int]
) -> dict[int, int]:
    """Returns the last use, before the second branch of a conditional, of each prefetched value that ends there.

    Memory-space assignment reuses the memory of a value in branches that do not use it, although the schedule has them
    in front of the conditional, where the live range ends. Later branches count less than they may need, so that the
    live bytes remain a lower bound.
    """
    places = dataflow.places
    branches: dict[Instruction, list[Run]] = {}
    for run in schedule.runs:
        if run.caller is not None and run.caller.opcode == opcodes.CONDITIONAL:
            branches.setdefault(run.caller, []).append(run)
    if not branches:
        return {}
    first = {schedule.ticks[places.number(i)]: min(runs, key=lambda run: run.start) for i, runs in branches.items()}
    passed = {v for v, tick in end.items() if tick in first and start[v] < first[tick].start}
    passed = {value for value in passed if _is_prefetched(value, places)}
    uses: dict[int, list[int]] = {value: [] for value in passed}
    for run in schedule.runs if passed else ():
        for number, user in enumerate(run.computation.instructions, places.base[run.computation]):
            if user.opcode in _PASSES_ON:
                continue
            for position, operand in enumerate(user.operands):
                place = places.operand_place(user, position)
                for used in range(place, places.first[places.number(operand) + 1]):
                    if dataflow.value[used] in passed:
                        uses[dataflow.value[used]].append(schedule.ticks[number])
    found = {}
    for value in passed:
        last = max(uses[value], default=start[value])
        outside = [(run.start, run.end, tick) for tick, run in first.items() if run.start > start[value]]
        while (bound := min((stop for _, stop, tick in outside if stop <= last < tick), default=None)) is not None:
            last = max((tick for tick in uses[value] if tick < bound), default=start[value])
        found[value] = max(last, start[value])
    return found


def _is_prefetched(value: int, places: Positions) -> bool:
    """Returns whether a value is an array in a memory that memory-space assignment fills."""
    shape = places.shape(value)
    return isinstance(shape, ArrayShape) and shape.layout.memory_space in (TpuMemorySpace.VMEM, TpuMemorySpace.CMEM)


def peak_position(dataflow: Dataflow, schedule: FlatSchedule, ranges: LiveRanges) -> int:
    """Returns the first position with the largest number of live bytes, by the count of XLA's live-range dump.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> text = "ENTRY e { p = f32[8] parameter(0)  a = f32[8] negate(p)  b = f32[9] sine(a)  ROOT c = f32[8] slice(b) }"
    >>> memory_analysis(parse_module(text)).live_range_peak
    3
    """
    places, end, change = dataflow.places, ranges.end, [0] * (schedule.end + 3)
    bytes_of: dict[int, int] = {}
    for value, begin in ranges.start.items():
        instruction = places.instructions[places.owner[value]]
        # hlo_live_range.cc, ComputePeakMemoryMoment: each value counts with the bytes of its instruction's whole shape
        # and is subtracted one tick after its end, so this sum chooses a moment but is not a memory size.
        chain = dataflow.chains.get(instruction)
        is_hidden = chain is not None and chain.computation is None and places.index(value)[:1] == (1,)
        shape = places.shape(value) if is_hidden else instruction.shape
        if id(shape) not in bytes_of:
            bytes_of[id(shape)] = logical_bytes(shape)
        change[begin] += bytes_of[id(shape)]
        change[end[value] + 2] -= bytes_of[id(shape)]
    most, peak, live = 0, 0, 0
    for position, changed in enumerate(change):
        live += changed
        if live > most:
            most, peak = live, position
    return peak
