"""When each value is alive: from which position of the flattened schedule to which.

Mirrors xla/hlo/utils/hlo_live_range.cc, and gives what its dump `-live-range.txt` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hlo_cli.analysis.alias_sets import AliasSets
from hlo_cli.analysis.async_chains import AsyncChain
from hlo_cli.analysis.buffer_sizes import logical_bytes
from hlo_cli.analysis.dataflow import Dataflow
from hlo_cli.analysis.flat_schedule import FlatSchedule
from hlo_cli.analysis.target import Target
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

_NO_USE: Final = frozenset(("tuple", "domain", "call"))
_TOP_ONLY: Final = frozenset(("get-tuple-element", "copy"))


@dataclass(frozen=True, slots=True)
class LiveRanges:
    """`start` and `end` of every value that runs, both positions included, and the moment that XLA calls the peak.

    `last` is the place where the value stands at the latest position, the first of these if there are several.
    """

    start: Mapping[int, int]
    end: Mapping[int, int]
    last: Mapping[int, int]
    peak: int

    def alive_at(self, position: int) -> tuple[int, ...]:
        """The values alive at a position."""
        end = self.end
        return tuple(value for value, start in self.start.items() if start <= position <= end[value])


def live_ranges(
    module: Module, dataflow: Dataflow, schedule: FlatSchedule, aliases: AliasSets, target: Target | None
) -> LiveRanges:
    """The live ranges of the values that the flattened schedule makes."""
    start = _starts(dataflow, schedule, target)
    end, last = _positions(dataflow, schedule, start)
    _uses(dataflow, schedule, end)
    _until_done(dataflow, schedule, end)
    _arguments_stay(module, dataflow, schedule, end)
    for members in aliases.members.values():
        _normalise([value for value in members if value in start], start, end)
    return LiveRanges(start, end, last, _peak(dataflow, schedule, start, end))


def _starts(dataflow: Dataflow, schedule: FlatSchedule, target: Target | None) -> dict[int, int]:
    """Own tick; for parameters when their computation begins.

    On TPUs what a wrapped computation returns is there from the asynchronous start on, if that has all operands; behind
    a sugared start the hidden operation runs one tick before it.
    """
    places, start = dataflow.places, dict[int, int]()
    spans = {computation: run.start for computation, run in schedule.spans.items()}
    for value in dataflow.values:
        number = places.owner[value]
        tick = schedule.ticks[number]
        if tick >= 0:
            instruction = places.instructions[number]
            start[value] = spans[instruction.computation] if instruction.opcode == "parameter" else tick
    for member, chain in dataflow.chains.items():
        if member is not chain.start or schedule.ticks[places.number(member)] < 0:
            continue
        tick = schedule.ticks[places.number(member)]
        for output in places.parts(member).below((1,)):
            value = dataflow.value[places.first_of(member) + output]
            maker = places.instructions[places.owner[value]]
            if chain.computation is None:
                start[value] = tick if target == "tpu" else tick - 1
            elif target == "tpu" and _binds(member, chain) and maker.computation is chain.computation:
                start[value] = tick
    return start


def _binds(member: Instruction, chain: AsyncChain) -> bool:
    """Whether a start has all that the wrapped computation needs; what a sugared call names is called by that one."""
    return chain.binding is member and member.opcode == "async-start"


def _positions(
    dataflow: Dataflow, schedule: FlatSchedule, start: Mapping[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The last position where each value stands, and at which place; what a root holds stands until its run ends."""
    places, at, ticks = dataflow.places, dataflow.value, schedule.ticks
    first, end, last = places.first, dict[int, int](), dict[int, int]()
    roots = {run.computation.root: run.end for run in schedule.spans.values()}
    for value in start:
        maker = places.instructions[places.owner[value]]
        end[value] = roots[maker] if maker in roots else ticks[places.owner[value]]
        last[value] = value
    for run in schedule.spans.values():
        root = run.computation.root
        for number, instruction in enumerate(run.computation.instructions, places.base[run.computation]):
            tick = run.end if instruction is root else ticks[number]
            for place in range(first[number], first[number + 1]):
                value = at[place]
                if value in end and end[value] < tick:
                    end[value] = tick
                    last[value] = place
    return end, last


def _uses(dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """Values live until the last instruction that uses them."""
    places, at, first = dataflow.places, dataflow.value, dataflow.places.first
    for run in schedule.spans.values():
        for number, instruction in enumerate(run.computation.instructions, places.base[run.computation]):
            opcode = instruction.opcode
            if opcode in _NO_USE:
                continue
            tick = schedule.ticks[number] if opcode != "while" else _loop_begin(dataflow, schedule, instruction)
            for position, operand in enumerate(instruction.operands):
                place = places.operand_place(instruction, position)
                behind = place + 1 if opcode in _TOP_ONLY else first[places.number(operand) + 1]
                for used in range(place, behind):
                    value = at[used]
                    if value in end and end[value] < tick:
                        end[value] = tick


def _loop_begin(dataflow: Dataflow, schedule: FlatSchedule, loop: Instruction) -> int:
    """What goes into a loop dies when its body takes it."""
    for body in loop.called_computations[:1]:
        if body.parameters and body in schedule.spans:
            return schedule.ticks[dataflow.places.number(body.parameters[0])]
    return schedule.ticks[dataflow.places.number(loop)]


def _until_done(dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """What runs asynchronously keeps its values until the done, and so does a buffer that it is to write."""
    places, done = dataflow.places, dict[Computation, int]()
    for run in schedule.runs:
        if run.caller is None:
            continue
        if run.caller in dataflow.chains:
            done[run.computation] = schedule.ticks[places.number(dataflow.chains[run.caller].done)]
        elif run.caller.computation in done:
            done[run.computation] = done[run.caller.computation]
    for computation, tick in done.items():
        base = places.base[computation]
        for place in range(places.first[base], places.first[base + len(computation.instructions)]):
            if dataflow.value[place] == place and place in end:
                end[place] = max(end[place], tick)
    for member, chain in dataflow.chains.items():
        for taker, position in chain.buffers if member is chain.start else ():
            value = dataflow.value[places.operand_place(taker, position)]
            if value in end:
                end[value] = max(end[value], schedule.ticks[places.number(chain.done)])


def _arguments_stay(module: Module, dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """Arguments live until the program ends, but for those that a result overwrites."""
    places = dataflow.places
    aliased = {(alias.parameter_number, alias.parameter_index) for alias in module.input_output_alias}
    for number, parameter in enumerate(module.entry.parameters):
        first = places.first_of(parameter)
        for n, index in enumerate(places.parts(parameter).indices):
            if (number, index) not in aliased and first + n in end:
                end[first + n] = schedule.end


def _normalise(values: list[int], start: Mapping[int, int], end: dict[int, int]) -> None:
    """Values of one buffer follow each other: each ends where the next begins."""
    values.sort(key=lambda value: (start[value], end[value]))
    for value, later in pairwise(values):
        end[later] = max(end[value], end[later])
        end[value] = min(end[value], start[later])


def _peak(dataflow: Dataflow, schedule: FlatSchedule, start: Mapping[int, int], end: Mapping[int, int]) -> int:
    """The first position where most is alive, as XLA counts.

    Every value counts with the bytes of its instruction's whole shape, and for one position more than it lives.
    """
    places, change = dataflow.places, [0] * (schedule.end + 3)
    bytes_of: dict[int, int] = {}
    for value, begin in start.items():
        instruction = places.instructions[places.owner[value]]
        chain = dataflow.chains.get(instruction)
        is_hidden = chain is not None and chain.computation is None and places.index(value)[:1] == (1,)
        shape = places.shape(value) if is_hidden else instruction.shape
        if id(shape) not in bytes_of:
            bytes_of[id(shape)] = logical_bytes(shape)
        change[begin] += bytes_of[id(shape)]
        change[end[value] + 2] -= bytes_of[id(shape)]
    most, peak, alive = 0, 0, 0
    for position, changed in enumerate(change):
        alive += changed
        if alive > most:
            most, peak = alive, position
    return peak
