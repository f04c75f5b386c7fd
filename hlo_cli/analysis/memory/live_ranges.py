"""From when to when each value is live, and which values may lie in one place: sharing and interference."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from operator import itemgetter
from typing import Final, Literal

from hlo_cli.analysis.dataflow.dependencies import is_elementwise_on, users_of
from hlo_cli.analysis.dataflow.flat_schedule import AsyncChain, FlatSchedule, InPlace, Places, Run
from hlo_cli.analysis.dataflow.value_sets import NO_USE, TOP_ONLY, AliasSets, Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.layout.buffer_sizes import logical_bytes
from hlo_cli.analysis.memory.occupancy import FreeIntervals
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction, Users
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import COPY, PARAMETER, REDUCE, TRANSPOSE, TUPLE
from hlo_cli.ir.operations import FORWARDING, UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex
from hlo_cli.source import HloError

# --- live ranges ---
# From which to which position of the flattened schedule each value is live.
#
# Mirrors xla/hlo/utils/hlo_live_range.cc and reproduces the dump file `-live-range.txt`.


_NO_USE: Final = NO_USE | {opcodes.CALL}
_CONCATENATION: Final = "ConcatBitcast"
_PASSES_ON: Final = FORWARDING | NO_USE | {opcodes.GET_TUPLE_ELEMENT, opcodes.CONDITIONAL, opcodes.CALL}
"""Opcodes that pass values on and read none of their elements."""


def check_step(position: int, steps: int) -> int:
    """The position; HloError if the program does not have it: it would look as if nothing were live there."""
    if not 0 <= position < steps:
        hint = f"steps are 0 to {steps - 1:,}" if steps else "no step is executed"
        raise HloError(f"no step {position:,}", hint=hint)
    return position


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
    counted = _ends_before_concatenation(dataflow, start, end)
    if target == "tpu":
        counted |= _ends_before_other_branches(dataflow, schedule, start, end)
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
    places, value_at, ticks = dataflow.places, dataflow.value, schedule.ticks
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
                value = value_at[place]
                if value in end and end[value] < tick:
                    end[value] = tick
                    last_place[value] = place
    return end, last_place


def _extend_to_uses(dataflow: Dataflow, schedule: FlatSchedule, end: dict[int, int]) -> None:
    """Extends live ranges to the last instruction that uses each value."""
    places, value_at, first = dataflow.places, dataflow.value, dataflow.places.first
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
                    value = value_at[used]
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
        # hlo_live_range.cc, NormalizeAliasedBuffers: a value ends where the next one of its buffer starts.
        end[value] = min(end[value], start[later])


# --- values that need memory for a part of their live range ---


def _ends_before_concatenation(dataflow: Dataflow, start: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
    """Returns the position before the end of each value that a `ConcatBitcast` makes a part of its result there.

    TPU compilers prefetch the slices of an array to adjacent addresses, so that only the result counts at that step.
    """
    places, counted = dataflow.places, dict[int, int]()
    for instruction in places.instructions:
        if instruction.opcode == opcodes.CUSTOM_CALL and instruction.string("custom_call_target") == _CONCATENATION:
            start_of_result = start.get(places.first_of(instruction))
            operands = (places.operand_place(instruction, n) for n in range(len(instruction.operands)))
            values = (dataflow.value[place] for place in operands)
            # One step before, as the result has the same memory there.
            counted.update(
                (v, end[v] - 1)
                for v in values
                if start_of_result is not None and start.get(v, start_of_result) < start_of_result == end[v]
            )
    return counted


def _ends_before_other_branches(
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
    counted = {}
    for value in passed:
        last = max(uses[value], default=start[value])
        outside = [(run.start, run.end, tick) for tick, run in first.items() if run.start > start[value]]
        while (bound := min((stop for _, stop, tick in outside if stop <= last < tick), default=None)) is not None:
            last = max((tick for tick in uses[value] if tick < bound), default=start[value])
        counted[value] = max(last, start[value])
    return counted


def _is_prefetched(value: int, places: Places) -> bool:
    """Returns whether a value is an array in a memory that memory-space assignment fills."""
    shape = places.shape(value)
    return isinstance(shape, ArrayShape) and shape.layout.memory_space in (TpuMemorySpace.VMEM, TpuMemorySpace.CMEM)


def peak_of_live_ranges(dataflow: Dataflow, schedule: FlatSchedule, ranges: LiveRanges) -> int:
    """Returns the first position with the largest number of live bytes, by the count of XLA's live-range dump.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> text = "ENTRY e { p = f32[8] parameter(0)  a = f32[8] negate(p)  b = f32[9] sine(a)  ROOT c = f32[8] slice(b) }"
    >>> memory_analysis(parse_module(text)).live_range_peak_step
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


# --- aliases that TPU dumps list ---
# Operands and results that share memory according to `aliasing_operands` in the backend_config of TPU dumps.


_LISTED_ALIASES: Final = '"aliasing_operands":'


def listed_aliases(instruction: Instruction) -> tuple[frozenset[int], ...] | None:
    """Returns the groups of array leaves that may share memory; None without `aliasing_operands`.

    Leaves are numbered through the arrays of all operands, then those of the result.

    >>> from hlo_cli import parse_module
    >>> config = '{"aliasing_operands":{"lists":[{"indices":["0","1"]}]}}'
    >>> root = parse_module(f"r = f32[8] fusion(f32[8] a), kind=kLoop, backend_config={config}").entry.root
    >>> listed_aliases(root)
    (frozenset({0, 1}),)
    """
    if _LISTED_ALIASES not in instruction.raw[1]:
        return None
    config = instruction.backend_config
    lists = config.get("aliasing_operands", "lists") if config is not None else None
    return tuple(_numbers(lists)) if isinstance(lists, Sequence) else None


def _numbers(lists: Sequence[object]) -> Iterator[frozenset[int]]:
    """Yields the leaf numbers of each group."""
    for listed in lists:
        indices = listed.get("indices") if isinstance(listed, Mapping) else None
        if isinstance(indices, Sequence):
            texts = (index for index in indices if isinstance(index, str) and index.isdecimal() and len(index) < 9)
            yield frozenset(map(int, texts))


def operand_leaf(instruction: Instruction, position: int, index: ShapeIndex) -> int:
    """Returns the leaf number of an array of an operand."""
    before = sum(len(_arrays(operand.shape)) for operand in instruction.operands[:position])
    return before + _arrays(instruction.operands[position].shape).get(index, -1 - before)


def result_leaf(instruction: Instruction, index: ShapeIndex) -> int:
    """Returns the leaf number of an array of the result; results are numbered after all operands."""
    before = sum(len(_arrays(operand.shape)) for operand in instruction.operands)
    return before + _arrays(instruction.shape).get(index, -1 - before)


def _arrays(shape: Shape) -> dict[ShapeIndex, int]:
    """Returns the ordinal of each array leaf of a shape, by shape index."""
    arrays = (index for index, leaf in shape.leaves if isinstance(leaf, ArrayShape))
    return {index: number for number, index in enumerate(arrays)}


# --- sharing in fusions on GPU ---
# Operand sharing of fusions on GPU: allowed if each element is read before its location is written.
#
# Mirrors the buffer sharing hint of xla/service/gpu/alias_info.cc. Emitters that depend on the device are
# approximated.


def _gpu_fusion_shares(
    fusion: Instruction,
    position: int,
    output_index: ShapeIndex,
    users: Users,
    operand_shape: Shape,
    output_shape: Shape,
) -> bool:
    """Returns whether the result of a fusion at `output_index` may overwrite the operand at `position`."""
    called = fusion.called_computations[0]
    if called.root is None or position >= len(called.parameters) or not _same_size(operand_shape, output_shape):
        return False
    # Nested tuples: the index selects the output that is written.
    output, index = called.root, output_index
    while output.opcode == TUPLE and index:
        output, index = output.operands[index[0]], index[1:]
    # gpu/alias_info.cc, FusionCanShareBufferHint: the reduction emitter computes the reduction before it writes any
    # output, so users of the reduction cannot overwrite its input too early.
    hero = _reduction_hero(called) if fusion.attribute("kind") != "kCustom" else None
    roots = set(_roots(called))
    waiting, visited = [called.parameters[position]], {called.parameters[position]}
    for instruction in waiting:  # breadth first: grows while iterated
        for user in users.get(instruction, ()):
            if user is hero:
                continue
            if not _keeps_order(user, instruction, output, index):
                return False
            if user not in visited:
                visited.add(user)
                waiting.append(user)
    reached = roots & visited
    if output not in reached:
        return False
    if len(reached) == 1:
        return True
    elementwise = output.opcode == PARAMETER or all(is_elementwise_on(output, n) for n in range(len(output.operands)))
    return elementwise and not any(_hero_below(root, (TRANSPOSE, COPY)) for root in reached)


def _same_size(first: Shape, second: Shape) -> bool:
    """Returns whether two shapes are equal, or arrays of as many elements of the same width."""
    if first == second:
        return True
    if not isinstance(first, ArrayShape) or not isinstance(second, ArrayShape):
        return False
    return first.elements == second.elements and first.element_type.bits == second.element_type.bits


def _keeps_order(user: Instruction, operand: Instruction, output: Instruction, index: ShapeIndex) -> bool:
    """Returns whether `user` reads its operand in the order in which the output is written."""
    last = output.operands[0] if output.opcode == "bitcast" else output
    if last.opcode == "dynamic-update-slice" and _is_same_slice(user, last):
        return True
    number = user.operands.index(operand)
    if user.opcode in ("bitcast", TUPLE) or (user.opcode != COPY and is_elementwise_on(user, number)):
        return True
    if user is not last:
        return False
    match user.opcode:
        case "dynamic-update-slice":
            return number == 1
        case "scatter":
            return user.operands.count(operand) == 1
        case "sort":
            return user.operands.count(operand) == 1 and index in ((), (number,))
    return False


def _is_same_slice(slice_: Instruction, update: Instruction) -> bool:
    """Returns whether a dynamic-slice reads exactly the elements that the update overwrites."""
    if slice_.opcode != "dynamic-slice" or slice_.operands[0] is not update.operands[0]:
        return False
    if slice_.shape != update.operands[1].shape:
        return False
    is_scalar = isinstance(slice_.shape, ArrayShape) and slice_.shape.elements == 1
    return is_scalar or slice_.operands[1:] == update.operands[2:]


def _roots(called: Computation) -> tuple[Instruction, ...]:
    """Returns the elements of a fusion's root tuple, or its root."""
    root = called.root
    assert root is not None
    return root.operands if root.opcode == TUPLE else (root,)


def _reduction_hero(called: Computation) -> Instruction | None:
    """Returns the reduction hero: the reduce that the first root with one is computed from."""
    return next((found for root in _roots(called) if (found := _hero_below(root, (REDUCE,)))), None)


def _hero_below(root: Instruction, opcodes: tuple[str, ...]) -> Instruction | None:
    """Returns the instruction with one of `opcodes` below unary operations and bitcasts of a root, or None."""
    while root.opcode not in opcodes:
        if len(root.operands) != 1 or (root.opcode not in UNARY and root.opcode != "bitcast"):
            return None
        root = root.operands[0]
    return root


# --- operand sharing ---
# Whether an instruction may write its result over an operand whose live range ends there.
#
# Mirrors `CanShareOperandBufferWithUser` of xla/hlo/analysis/hlo_dataflow_analysis.cc and the hint for fusions in
# xla/service/gpu/alias_info.cc. On TPU, `aliasing_operands` of the dump lists further pairs.


_FULLY_LISTED: Final = frozenset((opcodes.ALL_REDUCE, opcodes.FUSION))
"""Opcodes for which TPU compilers share every pair in `aliasing_operands`; for others, such as sort, only some."""


class OperandSharing:
    """Sharing queries on the instructions of one module; results for fused computations are cached."""

    __slots__ = ("_dataflow", "_first", "_fused", "_in_place", "_listed", "_target", "_users", "_uses")

    def __init__(self, dataflow: Dataflow, in_place: InPlace, target: Target | None) -> None:
        self._dataflow = dataflow
        self._in_place = in_place
        self._target = target
        self._first: tuple[Instruction | None, Mapping[Instruction, int]] = None, {}
        self._users: dict[Computation, Users] = {}
        self._uses: dict[int, list[tuple[Instruction, int]]] | None = None
        self._fused: dict[tuple[Computation, int, ShapeIndex], bool] = {}
        self._listed: dict[Instruction, tuple[frozenset[int], ...] | None] = {}

    def may_share(self, operand_place: int, user: Instruction, user_index: ShapeIndex) -> bool:
        """Returns whether `user` may write its result at `user_index` over its operand at `operand_place`.

        `user` must use the instruction of `operand_place` directly.
        """
        places = self._dataflow.places
        operand = places.instructions[places.owner[operand_place]]
        if operand.opcode == opcodes.CONSTANT:
            return False
        user_place = places.first_of(user) + places.parts(user).ordinals[user_index]
        equal = places.shape(operand_place) == places.shape(user_place) and not (
            self._target == "tpu" and _is_copied_to_smem(operand)
        )
        if equal and self._overwrites(operand_place, user, user_index):
            return True
        position = self.first_operand_number(user, operand)
        assert position is not None
        # gpu/alias_info.cc, GpuAliasInfo::MayAlias: the answer for a fusion is final, also for unequal shapes.
        if user.opcode == opcodes.FUSION and self._target == "gpu":
            return self._gpu_fusion(user, position, operand_place, user_place, user_index)
        listed = self._is_listed(operand_place, user, user_index, position) if self._target == "tpu" else None
        if listed is not None and (not listed or user.opcode in _FULLY_LISTED):
            return listed
        return equal and self._by_opcode(operand, operand_place, user, user_index, position)

    def first_operand_number(self, user: Instruction, operand: Instruction) -> int | None:
        """Returns the first operand number at which `user` uses `operand`, or None."""
        if self._first[0] is not user:
            positions = enumerate(reversed(user.operands), 1)
            self._first = user, {each: len(user.operands) - n for n, each in positions}
        return self._first[1].get(operand)

    def users(self, computation: Computation) -> Users:
        """Returns the users of each instruction in a computation; cached."""
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation]

    def _overwrites(self, operand_place: int, user: Instruction, user_index: ShapeIndex) -> bool:
        """Returns whether an in-place pair of `user` connects the operand and the result."""
        places, value_at = self._dataflow.places, self._dataflow.value
        for number, index, output_index in self._in_place.pairs(user):
            if output_index == user_index and number < len(user.operands):
                below = places.parts(user.operands[number]).ordinals.get(index)
                if (
                    below is not None
                    and value_at[places.first_of(user.operands[number]) + below] == value_at[operand_place]
                ):
                    return True
        return False

    def _is_listed(self, operand_place: int, user: Instruction, user_index: ShapeIndex, position: int) -> bool | None:
        """Returns whether `aliasing_operands` groups operand and result; None if the dump has no such lists."""
        if user not in self._listed:
            self._listed[user] = listed_aliases(user)
        listed = self._listed[user]
        if not listed:
            return None if listed is None else False
        operand_leaf_number = operand_leaf(user, position, self._dataflow.places.index(operand_place))
        result_leaf_number = result_leaf(user, user_index)
        return any(operand_leaf_number in together and result_leaf_number in together for together in listed)

    def _gpu_fusion(
        self, user: Instruction, position: int, operand_place: int, user_place: int, user_index: ShapeIndex
    ) -> bool:
        """Returns whether a GPU fusion may overwrite the operand."""
        places = self._dataflow.places
        called = _body(user, position)
        if called is None:
            return False
        key = (called, position, user_index)
        if key not in self._fused:
            operand_shape, user_shape = places.shape(operand_place), places.shape(user_place)
            self._fused[key] = _gpu_fusion_shares(
                user, position, user_index, self.users(called), operand_shape, user_shape
            )
        return self._fused[key]

    def _by_opcode(
        self, operand: Instruction, operand_place: int, user: Instruction, user_index: ShapeIndex, position: int
    ) -> bool:
        """Returns whether an instruction of this opcode may overwrite an operand of equal shape."""
        match user.opcode:
            case opcodes.FUSION:
                return self._fusion(user, position)
            case opcodes.WHILE | opcodes.CONDITIONAL:
                return True
            case opcodes.DYNAMIC_UPDATE_SLICE | opcodes.SCATTER | "set-dimension-size":
                return _single_operand_number(user, operand) == 0
            case "triangular-solve":
                return _single_operand_number(user, operand) == 1
            case opcodes.SORT:
                if len(self.users(operand.computation)[operand]) != 1:
                    return False
                return len(user.operands) == 1 or user_index[:1] == (_single_operand_number(user, operand),)
            case opcodes.CALL:
                return self._call(user, operand_place)
        return is_elementwise_on(user, position)

    def _fusion(self, fusion: Instruction, position: int) -> bool:
        """Returns whether a fusion on CPU or TPU may overwrite the operand."""
        called = _body(fusion, position)
        if called is None:
            return False
        key = (called, position, ())
        if key not in self._fused:
            self._fused[key] = self._fusion_by_kind(fusion, called, position)
        return self._fused[key]

    def _fusion_by_kind(self, fusion: Instruction, called: Computation, position: int) -> bool:
        """Returns whether a fusion of its kind may overwrite the operand."""
        users, parameter, root = self.users(called), called.parameters[position], called.root
        kind = fusion.attribute("kind")
        if kind in ("kLoop", "kInput"):
            return _all_elementwise(users, parameter)
        # hlo_dataflow_analysis.cc: of kOutput fusions, only the addend of a dot or convolution may be overwritten.
        if kind == "kOutput" and root is not None and root.opcode == opcodes.ADD:
            product = next((o for o in root.operands if o.opcode in (opcodes.DOT, opcodes.CONVOLUTION)), None)
            if product is None:
                return False
            other = root.operands[1] if product is root.operands[0] else root.operands[0]
            return users.get(parameter) == (root,) and other is parameter and root.operands.count(parameter) == 1
        return is_elementwise_on(fusion, position)

    def _call(self, call: Instruction, operand_place: int) -> bool:
        """Returns whether the value has exactly two uses: the call and an elementwise root of the callee."""
        uses = self._uses_of(self._dataflow.value[operand_place])
        body = _body(call)
        root = body.root if body is not None else None
        in_body = [use for use in uses if use[0] is root and is_elementwise_on(*use)]
        return len(uses) == 2 and len(in_body) == 1 and any(user is call for user, _ in uses)

    def _uses_of(self, value: int) -> list[tuple[Instruction, int]]:
        """Returns the uses of a value as a whole operand, computed once for all values; tuples do not count."""
        if self._uses is None:
            self._uses = {}
            places, value_at = self._dataflow.places, self._dataflow.value
            for user in places.instructions:
                for n in range(len(user.operands)) if user.opcode != opcodes.TUPLE else ():
                    self._uses.setdefault(value_at[places.operand_place(user, n)], []).append((user, n))
        return self._uses.get(value, [])


def _is_copied_to_smem(instruction: Instruction) -> bool:
    """Returns whether an instruction copies a scalar parameter to scalar memory (SMEM) of a TPU.

    >>> from hlo_cli import parse_module
    >>> text = "p = f32[]{:T(128)} parameter(0)  c = f32[]{:T(128)S(6)} copy(p)  ROOT r = f32[]{:T(128)S(6)} negate(c)"
    >>> [i.name for i in parse_module(f"ENTRY e {{ {text} }}").instructions if _is_copied_to_smem(i)]
    ['c']
    """
    # When libtpu assigns buffers, only the copies that it inserted for parameters have S(6) in their layouts; all other
    # values get it afterwards. The shapes of the copy and its user are therefore unequal, which rules out sharing
    # (hlo_dataflow_analysis.cc, CanShareOperandBufferWithUser). Seen in dumps before and after the assignment.
    return (
        instruction.opcode == opcodes.COPY
        and isinstance(instruction.shape, ArrayShape)
        and instruction.shape.layout.memory_space == TpuMemorySpace.SMEM
        and bool(instruction.operands)
        and instruction.operands[0].opcode == opcodes.PARAMETER
    )


def _body(user: Instruction, position: int = -1) -> Computation | None:
    """Returns the called computation if it has a parameter for the operand number; malformed modules may not."""
    called = user.called_computations
    return called[0] if called and position < len(called[0].parameters) else None


def _single_operand_number(user: Instruction, operand: Instruction) -> int | None:
    """Returns the operand number of an operand that is used once, else None."""
    return user.operands.index(operand) if user.operands.count(operand) == 1 else None


def _all_elementwise(users: Users, parameter: Instruction) -> bool:
    """Returns whether all transitive users of a parameter are elementwise or tuples."""
    waiting, visited = [parameter], {parameter}
    while waiting:
        instruction = waiting.pop()
        for user in users.get(instruction, ()):
            if user.opcode != opcodes.TUPLE:
                positions = [n for n, operand in enumerate(user.operands) if operand is instruction]
                if not all(is_elementwise_on(user, n) for n in positions):
                    return False
            if user not in visited:
                visited.add(user)
                waiting.append(user)
    return True


# --- interference ---
# Whether the live ranges of two values overlap.
#
# Mirrors `BufferAssigner::LiveRangeInterferes` and `MaybeAssignBuffer` of xla/service/buffer_assignment.cc.


_START, _END = itemgetter(0), itemgetter(1)

Release = Literal["0.10.2", "2026-08"]
"""The XLA release whose rules apply where releases differ: jaxlib 0.10.2, or the source of August 2026."""


@dataclass(slots=True)
class AllocationValues:
    """The values in one allocation as (start, end, value), sorted by start; they do not overlap, so also by end.

    `number` is the index of the allocation in `FreeIntervals`.
    """

    number: int
    live_ranges: list[tuple[int, int, int]] = field(default_factory=list)
    values: set[int] = field(default_factory=set)


class Interference:
    """Interference queries on the values of one module."""

    __slots__ = ("_positions", "aliases", "dataflow", "ranges", "release", "sharing")

    def __init__(
        self,
        dataflow: Dataflow,
        aliases: AliasSets,
        ranges: LiveRanges,
        sharing: OperandSharing,
        release: Release = "0.10.2",
    ) -> None:
        self.dataflow = dataflow
        self.aliases = aliases
        self.ranges = ranges
        self.sharing = sharing
        self.release = release
        self._positions: dict[int, list[int]] | None = None

    def interferes(self, first: int, second: int) -> bool:
        """Returns whether two values need memory at the same time.

        Live ranges that touch do not interfere if the later value may overwrite the earlier one in place.
        """
        start, end = self.ranges.start, self.ranges.end
        if start[first] > end[second] or start[second] > end[first]:
            return False
        # Ranges that touch overlap by one tick, in which the later instruction reads the earlier value.
        if end[first] == start[second]:
            return not self._can_overwrite(first, second)
        if end[second] == start[first]:
            return not self._can_overwrite(second, first)
        return True

    def is_free(self, occupants: AllocationValues, values: Iterable[int]) -> bool:
        """Returns whether an allocation may also hold these values."""
        places, start, end, live_ranges = (
            self.dataflow.places,
            self.ranges.start,
            self.ranges.end,
            occupants.live_ranges,
        )
        for value in values:
            if value not in start:
                continue
            position = bisect_left(live_ranges, start[value], key=_END)
            while position < len(live_ranges) and live_ranges[position][0] <= end[value]:
                if self.interferes(live_ranges[position][2], value):
                    return False
                position += 1
            # MaybeAssignBuffer keeps a copy out of the allocation of its operand even where ranges do not touch.
            definer = places.instructions[places.owner[value]]
            if (
                definer.opcode == opcodes.COPY
                and definer.operands
                and self.dataflow.value[places.operand_place(definer, 0)] in occupants.values
            ):
                return False
        return True

    def enter(self, occupants: AllocationValues, values: Iterable[int], free_intervals: FreeIntervals) -> None:
        """Adds values to an allocation."""
        start, end, live_ranges = self.ranges.start, self.ranges.end, occupants.live_ranges
        for value in values:
            if value in start:
                begin, last = start[value], end[value]
                position = bisect_right(live_ranges, begin, key=_START)
                while position > 0 and live_ranges[position - 1][1] > last:
                    position -= 1
                before = live_ranges[position - 1][1] if position else None
                after = live_ranges[position][0] if position < len(live_ranges) else None
                free_intervals.cut(occupants.number, before, after, begin, last)
                live_ranges.insert(position, (begin, last, value))
                occupants.values.add(value)

    def _can_overwrite(self, earlier: int, later: int) -> bool:
        """Returns whether the instruction of `later` may write its result over its operand `earlier`."""
        places = self.dataflow.places
        # buffer_assignment.cc, LiveRangeInterferes and MaybeAssignBuffer: a copy never shares a buffer with its
        # operand.
        user, index = places.instructions[places.owner[later]], places.index(later)
        return user.opcode != opcodes.COPY and any(
            self.sharing.first_operand_number(user, places.instructions[places.owner[place]]) is not None
            and self.sharing.may_share(place, user, index)
            for place in self._checked_places(earlier)
        )

    def _checked_places(self, value: int) -> Iterable[int]:
        """Returns the places of a value at which in-place reuse is checked."""
        # buffer_assignment.cc, LiveRangeInterferes: jaxlib 0.10.2 checks only the position at which the live range ends
        # (`end_position`); the source of August 2026 checks every position of the value.
        if self.release == "0.10.2":
            return (self.ranges.last_place[value],)
        if self._positions is None:
            self._positions = {}
            for place, value_there in enumerate(self.dataflow.value):
                self._positions.setdefault(value_there, []).append(place)
        return self._positions[value]
