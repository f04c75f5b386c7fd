"""When each value is alive: from which position of the flattened schedule to which.

Mirrors xla/hlo/utils/hlo_live_range.cc, and gives what its dump `-live-range.txt` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from hlo_cli.analysis.dataflow.alias_sets import AliasSets
from hlo_cli.analysis.dataflow.async_chains import AsyncChain
from hlo_cli.analysis.dataflow.flat_schedule import FlatSchedule
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.dataflow.value_uses import NO_USE, TOP_ONLY
from hlo_cli.analysis.hardware.buffer_sizes import logical_bytes
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

_NO_USE: Final = NO_USE | {opcodes.CALL}


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
    _late_outputs(dataflow, schedule, end)
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
            start[value] = spans[instruction.computation] if instruction.opcode == opcodes.PARAMETER else tick
    for member, chain in dataflow.chains.items():
        tick = schedule.ticks[places.number(member)]
        if member is not chain.start or tick < 0:
            continue
        if chain.computation is None:
            for output in places.parts(member).below((1,)):
                start[dataflow.value[places.first_of(member) + output]] = tick if target == "tpu" else tick - 1
        elif target == "tpu" and _binds(member, chain) and chain.computation.root is not None:
            root = chain.computation.root
            for place in range(places.first_of(root), places.first_of(root) + len(places.parts(root))):
                maker = places.instructions[places.owner[dataflow.value[place]]]
                if maker.computation is chain.computation:
                    start[dataflow.value[place]] = tick
    return start


def _binds(member: Instruction, chain: AsyncChain) -> bool:
    """Whether a start has all that the wrapped computation needs; what a sugared call names is called by that one."""
    return chain.binding is member and member.opcode == opcodes.ASYNC_START


def _positions(
    dataflow: Dataflow, schedule: FlatSchedule, start: Mapping[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The last position where each value stands, and at which place; what a root holds stands until its run ends.

    Of places at the same position the first in the order of the text counts: a callee's root, not the call behind it.
    """
    places, at, ticks = dataflow.places, dataflow.value, schedule.ticks
    first, end, last = places.first, dict[int, int](), dict[int, int]()
    roots = {run.computation.root: run.end for run in schedule.spans.values()}
    done = _done(dataflow, schedule)
    for value in start:
        maker = places.instructions[places.owner[value]]
        own = roots[maker] if maker in roots else ticks[places.owner[value]]
        end[value] = max(own, done.get(maker.computation, 0)) if done else own
        last[value] = value
    for computation, base in places.base.items():
        run, root = schedule.spans.get(computation), computation.root
        for number, instruction in enumerate(computation.instructions if run else (), base):
            tick = run.end if run and instruction is root else ticks[number]
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
            tick = schedule.ticks[number] if opcode != opcodes.WHILE else _loop_begin(dataflow, schedule, instruction)
            for position, operand in enumerate(instruction.operands):
                place = places.operand_place(instruction, position)
                behind = place + 1 if opcode in TOP_ONLY else first[places.number(operand) + 1]
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


def _done(dataflow: Dataflow, schedule: FlatSchedule) -> dict[Computation, int]:
    """What runs asynchronously keeps its values until the done: when that is, for every computation that does."""
    places, done = dataflow.places, dict[Computation, int]()
    for run in schedule.runs:
        if run.caller is None:
            continue
        if run.caller in dataflow.chains:
            done[run.computation] = schedule.ticks[places.number(dataflow.chains[run.caller].done)]
        elif run.caller.computation in done:
            done[run.computation] = done[run.caller.computation]
    return done


def _late_outputs(dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """A buffer that an update hands over to be written lives until the done."""
    places = dataflow.places
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
