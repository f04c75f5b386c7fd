"""What must an order of a computation keep, and how much memory is live in it?

`Flow` is a computation as XLA's memory schedulers see it, which ignores aliases; `ScheduleGraph` respects them and
keeps groups together. `ExecutedComputations` prepares both for the schedulers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Final, Literal, get_args

from hlo_cli.analysis.dataflow.dependencies import control_predecessors
from hlo_cli.analysis.dataflow.flat_schedule import Run, flat_schedule, is_end
from hlo_cli.analysis.dataflow.value_sets import NO_USE, TOP_ONLY, AliasSets, Dataflow
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes
from hlo_cli.analysis.memory.buffers import OrderIndependentFacts, order_independent_facts
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import (
    ARGUMENT_OPCODES,
    CHANNEL_OPCODES,
    COLLECTIVES,
    HOST_FEEDS,
    OPERATIONS,
    RANDOM_STATE,
)
from hlo_cli.ir.shape import Shape

# --- values without aliases ---
# Computation in the form of XLA's memory schedulers: users of each instruction, and the values it defines and uses.
#
# Mirrors what `ListScheduler` and `DFSMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc take
# from dataflow analysis, which ignores aliases; `ScheduleGraph` respects them.


Size = Callable[[Shape], int]

# Below, all leaves count as uses, as in XLA's dataflow analysis; the border is chosen, not measured.
_MAX_TUPLE_PARTS: Final = 256
"""Number of leaves of a tuple beyond which a get-tuple-element uses its own leaf only, to avoid quadratic time."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Dependencies and values of the instructions of a computation, by index.

    - `post_order` is depth first. `operands` and `users` are unique; `controls` and `successors` are control
      dependencies.
    - `used` are the values that an instruction reads, `live_out` those of the result.
    - `defined_bytes` are the bytes of the values that an instruction defines, `size` those of each value; 0 for
      parameters and constants.
    """

    computation: Computation
    post_order: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    users: tuple[tuple[int, ...], ...]
    controls: Mapping[int, Sequence[int]]
    successors: Mapping[int, Sequence[int]]
    used: tuple[tuple[int, ...], ...]
    live_out: tuple[int, ...]
    defined_bytes: tuple[int, ...]
    size: Mapping[int, int]

    def __len__(self) -> int:
        return len(self.operands)


def _flow_of(computation: Computation, dataflow: Dataflow, bytes_of: Size) -> Flow:
    """Dependencies and values of a computation.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.schedule.constraints import buffer_uses
    >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) b = f32[8] negate(a) ROOT c = f32[8] add(b, b) }"
    >>> uses = buffer_uses(parse_module(text))
    >>> flow = _flow_of(uses.runs[0].computation, uses.dataflow, uses.bytes_of)
    >>> flow.operands, flow.users, flow.defined_bytes
    (((), (0,), (1,)), ((1,), (2,), ()), (0, 32, 32))
    """
    places, value = dataflow.places, dataflow.value
    instructions = computation.instructions
    operands = tuple([tuple(dict.fromkeys([each.index for each in i.operands])) for i in instructions])
    users: list[list[int]] = [[] for _ in instructions]
    for index, taken in enumerate(operands):
        for each in taken:
            users[each].append(index)
    controls = control_predecessors(computation, places.text)
    successors: dict[int, list[int]] = {}
    for index, earlier in controls.items():
        for each in earlier:
            successors.setdefault(each, []).append(index)
    defined_bytes, size = [0] * len(instructions), dict[int, int]()
    for index, number in enumerate(range(places.base[computation], places.base[computation] + len(instructions))):
        for place in range(places.first[number], places.first[number + 1]):
            if (name := value[place]) not in size:
                maker = places.owner[name]
                # Arguments and constants are not freed by a schedule (IgnoreInstruction of hlo_memory_scheduler.cc).
                given = places.instructions[maker].opcode in ARGUMENT_OPCODES
                size[name] = 0 if given else bytes_of(places.shape(name))
            if name == place:
                defined_bytes[index] += size[name]
    root = computation.root
    base = places.base[computation]
    position = dataflow.position[base : base + len(instructions)]
    return Flow(
        computation,
        tuple(sorted(range(len(instructions)), key=position.__getitem__)),
        operands,
        tuple(map(tuple, users)),
        controls,
        successors,
        tuple([_used(instruction, dataflow) for instruction in instructions]),
        () if root is None else tuple(dict.fromkeys(value[n] for n in _parts(root, dataflow))),
        tuple(defined_bytes),
        size,
    )


def _used(instruction: Instruction, dataflow: Dataflow) -> tuple[int, ...]:
    value, used = dataflow.value, dict[int, None]()
    for position, operand in enumerate(instruction.operands):
        parts = _parts(operand, dataflow)
        if len(parts) > _MAX_TUPLE_PARTS and instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
            own = _parts(instruction, dataflow)
            used.update(dict.fromkeys((value[parts[0]], *(value[place] for place in own))))
            continue
        place = dataflow.places.operand_place(instruction, position)
        used.update(dict.fromkeys([value[each] for each in range(place, parts[-1] + 1)]))
    return tuple(used)


def _parts(instruction: Instruction, dataflow: Dataflow) -> range:
    places = dataflow.places
    number = places.number(instruction)
    return range(places.first[number], places.first[number + 1])


# --- buffers ---
# Buffers that each instruction defines, reads, and overwrites, independent of the order.
#
# Mirrors what `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc takes from points-to analysis,
# with alias sets: values that must share memory count once.


@dataclass(frozen=True, slots=True)
class BufferUses:
    """Buffers of a module by number, with the instructions that define, read, and overwrite them.

    - `facts` hold for any order; `runs` are the executed computations, callers first.
    - `size` has the bytes of buffers that the order affects, without arguments and constants; `space` their memory
      space.
    - `home` is the outermost computation in which a buffer is used.
    - `overwritten` are the buffers with several values that a computation, or a callee, writes.
    """

    facts: OrderIndependentFacts
    runs: tuple[Run, ...]
    size: Mapping[int, int]
    space: Mapping[int, int]
    home: Mapping[int, Computation]
    overwritten: Mapping[Computation, frozenset[int]]

    @property
    def dataflow(self) -> Dataflow:
        """Values of the module."""
        return self.facts.dataflow

    @property
    def aliases(self) -> AliasSets:
        """Values that share memory."""
        return self.facts.aliases

    def flows(self) -> Iterator[Flow]:
        """Yields the executed computations in the form of XLA's schedulers, callees first."""
        for run in reversed(self.runs):
            yield _flow_of(run.computation, self.dataflow, self.bytes_of)

    def bytes_of(self, shape: Shape) -> int:
        """Buffer size of a shape in bytes."""
        return buffer_bytes(shape, self.facts.target, self.facts.generation)

    def buffers_used(self, instruction: Instruction) -> set[int]:
        """Buffers that are live while an instruction runs: those of its result and operands."""
        return {
            self.aliases.buffer[self.dataflow.value[place]] for place in self._own(instruction)
        } | self.buffers_read(instruction)

    def buffers_read(self, instruction: Instruction) -> set[int]:
        """Buffers that an instruction reads; a root reads the result."""
        value_at, buffer = self.dataflow.value, self.aliases.buffer
        read = {buffer[value_at[place]] for place in self._used(instruction)}
        if instruction.is_root:
            read |= {buffer[value_at[place]] for place in self._own(instruction)}
        return read

    def buffers_written(self, instruction: Instruction) -> set[int]:
        """Buffers with several values that an instruction, or a callee, writes."""
        value_at, buffer, shared = self.dataflow.value, self.aliases.buffer, self.aliases.members
        # Only buffers with several values can be overwritten.
        written = {name for p in self._own(instruction) if value_at[p] == p and (name := buffer[p]) in shared}
        for called in instruction.called_computations:
            written |= self.overwritten.get(called, frozenset())
        return written

    def _own(self, instruction: Instruction) -> range:
        places = self.dataflow.places
        number = places.number(instruction)
        return range(places.first[number], places.first[number + 1])

    def _used(self, instruction: Instruction) -> Iterator[int]:
        if instruction.opcode in NO_USE:
            return
        places = self.dataflow.places
        for position, operand in enumerate(instruction.operands):
            place = places.operand_place(instruction, position)
            # A tuple or an element reads the pointer table, not the elements.
            stop = place + 1 if instruction.opcode in TOP_ONLY else places.first[places.number(operand) + 1]
            yield from range(place, stop)


def buffer_uses(module: Module) -> BufferUses:
    """Buffers of a module and their uses.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) b = f32[8] negate(a) ROOT c = f32[8] sine(b) }"
    >>> module = parse_module(text)
    >>> uses = buffer_uses(module)
    >>> [sorted(uses.buffers_used(instruction)) for instruction in module.entry.instructions]
    [[0], [0, 1], [1, 2]]
    >>> uses.size
    {1: 32, 2: 32}
    >>> buffer_uses(parse_module("ENTRY e { a = f32[0] parameter(0) b = f32[0] negate(a) ROOT c = f32[] iota() }")).size
    {2: 4}
    """
    facts = order_independent_facts(module)
    aliases = facts.aliases
    runs = flat_schedule(facts.places, module.entry, facts.chains).runs
    movable = {
        aliases.buffer[buffer.values[0]]: buffer
        for buffer in facts.buffers
        # What no order can move: arguments and constants.
        if buffer.size and buffer.parameter is None and not buffer.is_constant
    }
    size = {name: buffer.size for name, buffer in movable.items()}
    space = {name: buffer.space for name, buffer in movable.items()}
    overwritten: dict[Computation, frozenset[int]] = {}
    uses = BufferUses(facts, runs, size, space, _homes(facts, runs), overwritten)
    if not aliases.members:  # only faster
        return uses
    for run in reversed(runs):
        written = (uses.buffers_written(instruction) for instruction in run.computation.instructions)
        overwritten[run.computation] = frozenset[int]().union(*written)
    return uses


def _homes(facts: OrderIndependentFacts, runs: tuple[Run, ...]) -> dict[int, Computation]:
    """Outermost computation that uses each buffer."""
    dataflow, aliases, places = facts.dataflow, facts.aliases, facts.places
    homes: dict[int, Computation] = {}
    # Outer computations first: a buffer that is used there is live during all of the callee.
    for run in sorted(runs, key=lambda run: run.depth):
        base = places.base[run.computation]
        for place in range(places.first[base], places.first[base + len(run.computation.instructions)]):
            homes.setdefault(aliases.buffer[dataflow.value[place]], run.computation)
    return homes


# --- side effects ---
# Side effects of instructions; instructions with the same effect keep their order.
#
# Mirrors `HloInstruction::HasSideEffect` of xla/hlo/ir/hlo_instruction.cc. Collectives count too, as all devices must
# execute them in the same order, also across programs that are compiled together.


Effect = Literal["outside", "random", "collective"]

_NO_EFFECTS: Final = frozenset[Effect]()
_ALL_EFFECTS: Final = frozenset[Effect](get_args(Effect))
"""Effects of an unknown opcode."""
_EFFECTS_BY_OPCODE: Final[Mapping[str, frozenset[Effect]]] = {
    **dict.fromkeys((*HOST_FEEDS, *CHANNEL_OPCODES), frozenset[Effect](("outside",))),
    # HasSideEffectNoRecurse counts random numbers too.
    **dict.fromkeys(RANDOM_STATE, frozenset[Effect](("random",))),
    **dict.fromkeys(
        (each for opcode in COLLECTIVES for each in (opcode, f"{opcode}-start")), frozenset[Effect](("collective",))
    ),
}

Effects = Mapping[Instruction, frozenset[Effect]]
"""Instructions with side effects."""


def effects_of(computations: Iterable[Computation]) -> Effects:
    """Side effects of instructions, including their callees; callees must precede callers.

    The done of a collective has no effect, as its position does not matter to other devices.

    >>> from hlo_cli import parse_module
    >>> effects_of(parse_module("o = token[] outfeed(f32[] p, token[] t)").computations)
    {<outfeed o>: frozenset({'outside'})}
    >>> sorted(*effects_of(parse_module("x = f32[] opcode-of-a-fork(f32[] p)").computations).values())
    ['collective', 'outside', 'random']
    """
    inside: dict[Computation, frozenset[Effect]] = {}
    effects_by_instruction: dict[Instruction, frozenset[Effect]] = {}
    for computation in computations:
        in_computation: set[Effect] = set()
        for instruction in computation.instructions:
            effects = _opcode_effects(instruction)
            # A done repeats its start's computation but runs nothing.
            if instruction.called_computations and not is_end(instruction):
                effects = effects.union(
                    *(inside.get(called, _NO_EFFECTS) for called in instruction.called_computations)
                )
            if effects:
                effects_by_instruction[instruction] = effects
                in_computation |= effects
        inside[computation] = frozenset(in_computation)
    return effects_by_instruction


def _opcode_effects(instruction: Instruction) -> frozenset[Effect]:
    opcode = instruction.opcode
    if opcode in _EFFECTS_BY_OPCODE:
        return _EFFECTS_BY_OPCODE[opcode]
    # Unknown opcodes, and malformed instructions, may do anything.
    if opcode not in OPERATIONS:
        return _ALL_EFFECTS
    has_effect = opcode == opcodes.CUSTOM_CALL and instruction.flag("custom_call_has_side_effect")
    return _EFFECTS_BY_OPCODE["send"] if has_effect else _NO_EFFECTS


# --- the graph of an order ---
# Scheduling graph of a computation; nodes are instructions, or groups that stay together.
#
# Mirrors `HloScheduleGraph` of xla/service/latency_hiding_scheduler.cc, including edges for in-place updates.


# XLA's frontend attribute for instructions that are scheduled as one (latency_hiding_scheduler.cc).
_GROUP_ATTRIBUTE: Final = "_scheduling_group_id"


@dataclass(frozen=True, slots=True)
class ScheduleGraph:
    """Nodes of a computation in the present order, so that `range(len(graph))` is a valid order.

    - `members` are the instructions of each node; `node_of` maps an instruction's index to its node.
    - `before` are the predecessors, `after` the successors of a node.
    - `buffers` are the buffers of this computation that a node defines, reads, or forwards, `size` their bytes.
    - `live_out` buffers stay live until the end.
    - `callee_bytes` is the peak of the computations that a node calls.
    """

    members: tuple[tuple[Instruction, ...], ...]
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    buffers: tuple[tuple[int, ...], ...]
    size: Mapping[int, int]
    live_out: frozenset[int]
    callee_bytes: tuple[int, ...]
    node_of: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.members)

    def nodes(self, order: Iterable[int]) -> list[int]:
        """Nodes in an order of their instructions, by index; nodes move later where dependencies require it.

        >>> before, after, no_buffers = ((), (0,), ()), ((1,), (), ()), ((),) * 3
        >>> graph = ScheduleGraph(((),) * 3, before, after, no_buffers, {}, frozenset(), (0,) * 3, (0, 1, 2))
        >>> graph.nodes((2, 0, 1)), graph.nodes((1, 2, 0))
        ([2, 0, 1], [2, 0, 1])
        """
        wanted = list(dict.fromkeys((*(self.node_of[index] for index in order), *range(len(self)))))
        place = {node: number for number, node in enumerate(wanted)}
        if all(place[each] < number for number, node in enumerate(wanted) for each in self.before[node]):
            return wanted
        # A wanted order that breaks a dependency is repaired, not refused: XLA's flow has no aliases.
        return stable_order(wanted, self.before) or list(range(len(self)))

    def instructions(self, nodes: Iterable[int]) -> tuple[Instruction, ...]:
        """Instructions of nodes; leading parameters stay first, as their position has no effect."""
        return scheduled_first(opcodes.PARAMETER, (member for node in nodes for member in self.members[node]))


def scheduled_first(opcode: str, order: Iterable[Instruction]) -> tuple[Instruction, ...]:
    """Order with the parameters or constants first that preceded all other instructions originally.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { a = s32[] constant(1)  b = s32[] negate(a)  c = s32[] constant(2) }"
    >>> scheduled_first("constant", parse_module(text).entry.instructions[::-1])
    (<constant a>, <constant c>, <negate b>)
    >>> scheduled_first("constant", ())
    ()
    """
    instructions = tuple(order)
    present = instructions[0].computation.instructions if instructions else ()
    # Arguments at the top cost nothing there, so moving them would only be noise.
    leading = takewhile(lambda each: each.opcode in ARGUMENT_OPCODES and _GROUP_ATTRIBUTE not in each.raw[1], present)
    front = {each: None for each in leading if each.opcode == opcode}
    return (*front, *(each for each in instructions if each not in front)) if front else instructions


def schedule_graph_of(
    computation: Computation, uses: BufferUses, effects: Effects, peaks: Mapping[Computation, int], text: str
) -> ScheduleGraph:
    """Scheduling graph of a computation; `peaks` are the peak bytes of the computations that it calls."""
    instructions = computation.instructions
    before = _predecessors_of(computation, uses, effects, text)
    groups = _groups(computation, text)
    node_of, members = _grouped(len(instructions), before, groups)
    predecessors: list[dict[int, None]] = [{} for _ in members]
    for index, earlier in enumerate(before):
        here = node_of[index]
        predecessors[here].update(dict.fromkeys(node_of[each] for each in earlier if node_of[each] != here))
    after: list[list[int]] = [[] for _ in members]
    for node, needed in enumerate(predecessors):
        for each in needed:
            after[each].append(node)
    buffers = tuple(_buffers(computation, [instructions[index] for index in each], uses) for each in members)
    root = computation.root
    return ScheduleGraph(
        tuple(tuple([instructions[index] for index in each]) for each in members),
        tuple(map(tuple, predecessors)),
        tuple(map(tuple, after)),
        buffers,
        uses.size,
        frozenset(uses.buffers_read(root)) if root is not None else frozenset(),
        tuple(max((_callee_bytes(instructions[index], peaks) for index in each), default=0) for each in members),
        tuple(node_of),
    )


def _predecessors_of(computation: Computation, uses: BufferUses, effects: Effects, text: str) -> list[tuple[int, ...]]:
    """Indices of the instructions that must precede each instruction."""
    controls = control_predecessors(computation, text)
    last_effect: dict[str, int] = {}
    written: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    predecessors: list[tuple[int, ...]] = []
    shared = uses.aliases.members
    for index, instruction in enumerate(computation.instructions):
        needed = [*controls.get(index, ()), *(operand.index for operand in instruction.operands)]
        for effect in effects.get(instruction, ()):
            if effect in last_effect:
                needed.append(last_effect[effect])
            last_effect[effect] = index
        writes = uses.buffers_written(instruction) if shared else set()
        # Readers of the old value come before the write, and the write before readers of the new one.
        for buffer in writes:
            needed.extend(readers.pop(buffer, ()))
            if buffer in written:
                needed.append(written[buffer])
            written[buffer] = index
        for buffer in uses.buffers_read(instruction) - writes if shared else ():
            if buffer in shared:
                if buffer in written:
                    needed.append(written[buffer])
                readers.setdefault(buffer, []).append(index)
        predecessors.append(tuple(dict.fromkeys(needed)))
    return predecessors


def _groups(computation: Computation, text: str) -> list[list[int]]:
    """Indices of instructions that a frontend attribute keeps together."""
    groups: dict[str, list[int]] = {}
    span = computation.span
    if span is None or text.find(_GROUP_ATTRIBUTE, span.start, span.end) >= 0:
        for index, instruction in enumerate(computation.instructions):
            if _GROUP_ATTRIBUTE in instruction.raw[1]:
                name = instruction.frontend_attributes.get(_GROUP_ATTRIBUTE)
                if name is not None:
                    groups.setdefault(name, []).append(index)
    # A group of one is no constraint.
    return [group for group in groups.values() if len(group) > 1]  # only faster


def _grouped(
    count: int, before: Sequence[Iterable[int]], groups: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Node of each instruction, and instructions of each node; groups are split if others must run between.

    A group comes where its first member was, or later if it needs what is between.

    >>> _grouped(4, ((), (), (), ()), [(1, 3)])
    ([0, 1, 2, 1], [[0], [1, 3], [2]])
    >>> _grouped(4, ((), (), (), (2,)), [(1, 3)])
    ([0, 2, 1, 2], [[0], [2], [1, 3]])
    >>> _grouped(4, ((), (), (1,), (2,)), [(1, 3)])
    ([0, 1, 2, 3], [[0], [1], [2], [3]])
    """
    leader = list(range(count))
    if not groups:
        return leader, [[index] for index in leader]
    for group in groups:
        for index in group:
            leader[index] = group[0]
    needed: list[set[int]] = [set() for _ in range(count)]
    for index, earlier in enumerate(before):
        needed[leader[index]].update(leader[each] for each in earlier if leader[each] != leader[index])
    order = stable_order([node for node in range(count) if leader[node] == node], needed)
    # The groups contradict dependencies: then none is kept, as a cycle has no order.
    if order is None:
        return list(range(count)), [[index] for index in range(count)]
    place = {node: number for number, node in enumerate(order)}
    members: list[list[int]] = [[] for _ in order]
    for index in range(count):
        members[place[leader[index]]].append(index)
    return [place[leader[index]] for index in range(count)], members


def stable_order(nodes: Sequence[int], needed: Sequence[Collection[int]]) -> list[int] | None:
    """Valid order of the nodes closest to theirs; None if there is none.

    >>> stable_order((2, 1, 0), ((), (0,), (1,)))
    [0, 1, 2]
    """
    place = {node: number for number, node in enumerate(nodes)}
    waiting = {node: len(needed[node]) for node in nodes}
    users: dict[int, list[int]] = {}
    for node in nodes:
        for each in needed[node]:
            users.setdefault(each, []).append(node)
    ready = [place[node] for node in nodes if not waiting[node]]
    heapify(ready)
    order: list[int] = []
    while ready:
        node = nodes[heappop(ready)]
        order.append(node)
        for user in users.get(node, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, place[user])
    return order if len(order) == len(nodes) else None


def _buffers(computation: Computation, members: Iterable[Instruction], uses: BufferUses) -> tuple[int, ...]:
    """Buffers whose outermost computation is this one and that the members of a node use."""
    used = set[int]().union(*(uses.buffers_used(member) for member in members))
    return tuple(sorted(b for b in used if b in uses.size and uses.home[b] is computation))


def _callee_bytes(instruction: Instruction, peaks: Mapping[Computation, int]) -> int:
    return max((peaks.get(called, 0) for called in instruction.called_computations), default=0)


# --- live memory ---
# Live memory of an order: a buffer is live from the first node that uses it to the last.
#
# Mirrors `HeapSimulator::MinimumMemoryForComputation` of xla/service/heap_simulator/heap_simulator.cc, without sharing
# between operands and results that are not in place.


class LiveMemory:
    """Live bytes of a computation while its nodes are scheduled one after the other."""

    __slots__ = ("_frees", "_graph", "_needs", "_user_sum", "_uses_left", "_waiting", "live_bytes")

    def __init__(self, graph: ScheduleGraph) -> None:
        self._graph = graph
        self.live_bytes = 0
        self._uses_left: dict[int, int] = {}
        self._user_sum: dict[int, int] = {}
        # by buffer that is not there yet the nodes that would bring it
        self._waiting: dict[int, list[int]] = {}
        size, live_out = graph.size, graph.live_out
        for node, buffers in enumerate(graph.buffers):
            for buffer in buffers:
                # what is kept has one user more, who never comes
                self._uses_left[buffer] = self._uses_left.get(buffer, buffer in live_out) + 1
                # The sum of users minus those that ran is the last user, once one is left: no list is needed.
                self._user_sum[buffer] = self._user_sum.get(buffer, 0) + node
                self._waiting.setdefault(buffer, []).append(node)
        left = self._uses_left
        self._needs = [sum([size[b] for b in buffers]) for buffers in graph.buffers]
        self._frees = [sum([size[b] for b in buffers if left[b] == 1]) for buffers in graph.buffers]

    def bytes_needed(self, node: int) -> int:
        """Bytes that a node adds while it runs."""
        return self._needs[node] + self._graph.callee_bytes[node]

    def net_bytes_freed(self, node: int) -> int:
        """Bytes that a node frees minus those that it adds."""
        return self._frees[node] - self._needs[node] - self._graph.callee_bytes[node]

    def schedule(self, node: int) -> list[int]:
        """Schedules a node; returns the nodes that are now the last users of a buffer."""
        size, left = self._graph.size, self._uses_left
        self.live_bytes += self._needs[node]
        last: list[int] = []
        for buffer in self._graph.buffers[node]:
            for other in self._waiting.pop(buffer, ()):
                self._needs[other] -= size[buffer]
            left[buffer] -= 1
            self._user_sum[buffer] -= node
            if not left[buffer]:
                self.live_bytes -= size[buffer]
            elif left[buffer] == 1 and buffer not in self._graph.live_out:
                self._frees[self._user_sum[buffer]] += size[buffer]
                last.append(self._user_sum[buffer])
        return last


class PeakMeasure:
    """Computes the peaks of orders of one graph.

    >>> before, after, buffers = ((), (0,)), ((1,), ()), ((0,), (0, 1))
    >>> chain = ScheduleGraph(((),) * 2, before, after, buffers, {0: 8, 1: 16}, frozenset((1,)), (0,) * 2)
    >>> PeakMeasure(chain).peak_of((0, 1))
    (24, [8, 8])
    """

    __slots__ = ("_graph", "_nodes")

    def __init__(self, graph: ScheduleGraph) -> None:
        self._graph = graph
        self._nodes: dict[int, list[int]] = {}
        for node, buffers in enumerate(graph.buffers):
            for buffer in buffers:
                self._nodes.setdefault(buffer, []).append(node)

    def peak_of(self, order: Sequence[int]) -> tuple[int, list[int]]:
        """Peak of live bytes in an order, and for each node the bytes that it adds minus those that it frees."""
        size, live_out, callee_bytes = self._graph.size, self._graph.live_out, self._graph.callee_bytes
        place = {node: number for number, node in enumerate(order)}
        begins, ends = [0] * len(order), [0] * len(order)
        for buffer, nodes in self._nodes.items():
            places = [place[node] for node in nodes]
            begins[min(places)] += size[buffer]
            if buffer not in live_out:
                ends[max(places)] += size[buffer]
        most = live_bytes = 0
        growth = [0] * len(order)
        for node, begin, end in zip(order, begins, ends, strict=True):
            live_bytes += begin
            # Callee's bytes are live only while it runs.
            most = max(most, live_bytes + callee_bytes[node])
            live_bytes -= end
            growth[node] = begin - end
        return most, growth


def peak_of_order(graph: ScheduleGraph, order: Sequence[int]) -> int:
    """Peak of live bytes in an order.

    >>> size = {0: 8, 1: 16}
    >>> before, after, buffers = ((), (0,), (1,)), ((1,), (2,), ()), ((0,), (0, 1), (1,))
    >>> chain = ScheduleGraph(((),) * 3, before, after, buffers, size, frozenset(), (0,) * 3)
    >>> peak_of_order(chain, (0, 1, 2))
    24
    """
    return PeakMeasure(graph).peak_of(order)[0]


# --- computations of a module ---
# Executed computations of a module, prepared for schedulers.
#
# Mirrors the loop over computations of `ComputationSchedulerAlgorithm::Run` of
# xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.


class ExecutedComputations:
    """Executed computations; `peaks` are the peak bytes of those processed so far, as schedulers count them."""

    __slots__ = ("_effects", "module", "peaks", "uses")

    def __init__(self, module: Module) -> None:
        self.module = module
        self.uses = buffer_uses(module)
        self.peaks: dict[Computation, int] = {}
        self._effects = effects_of(module.computations)

    def computations(self) -> Iterator[tuple[Flow, ScheduleGraph]]:
        """Yields each computation, callees first; its peak is that of the present order until it is updated.

        A computation with a use before its definition, from malformed text, is skipped.

        >>> from hlo_cli import parse_module
        >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }"
        >>> executed = ExecutedComputations(parse_module(text))
        >>> [len(graph) for flow, graph in executed.computations()], list(executed.peaks.values())
        ([2], [32])
        """
        text = self.module.source.text
        for flow in self.uses.flows():
            graph = schedule_graph_of(flow.computation, self.uses, self._effects, self.peaks, text)
            # An order that is none (a cycle in the text) is left as it is.
            if any(max(before, default=-1) >= node for node, before in enumerate(graph.before)):
                continue
            self.peaks[flow.computation] = peak_of_order(graph, range(len(graph)))
            yield flow, graph
