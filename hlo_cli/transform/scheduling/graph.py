"""Scheduling graph of a computation; nodes are instructions, or groups that stay together.

Mirrors `HloScheduleGraph` of xla/service/latency_hiding_scheduler.cc, including edges for in-place updates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import control_predecessors
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ARGUMENT_OPCODES
from hlo_cli.transform.scheduling.buffer_uses import BufferUses
from hlo_cli.transform.scheduling.side_effects import Effects

_GROUP_ATTRIBUTE: Final = "_scheduling_group_id"


@dataclass(frozen=True, slots=True)
class Graph:
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

        >>> graph = Graph(((),) * 3, ((), (0,), ()), ((1,), (), ()), ((),) * 3, {}, frozenset(), (0,) * 3, (0, 1, 2))
        >>> graph.nodes((2, 0, 1)), graph.nodes((1, 2, 0))
        ([2, 0, 1], [2, 0, 1])
        """
        wanted = list(dict.fromkeys((*(self.node_of[index] for index in order), *range(len(self)))))
        place = {node: number for number, node in enumerate(wanted)}
        if all(place[each] < number for number, node in enumerate(wanted) for each in self.before[node]):
            return wanted
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
    """
    found = tuple(order)
    given = found[0].computation.instructions if found else ()
    leading = takewhile(lambda each: each.opcode in ARGUMENT_OPCODES and _GROUP_ATTRIBUTE not in each.raw[1], given)
    front = {each: None for each in leading if each.opcode == opcode}
    return (*front, *(each for each in found if each not in front)) if front else found


def graph_of(
    computation: Computation, uses: BufferUses, effects: Effects, peaks: Mapping[Computation, int], text: str
) -> Graph:
    """Scheduling graph of a computation; `peaks` are the peak bytes of the computations that it calls."""
    instructions = computation.instructions
    before = _needs(computation, uses, effects, text)
    groups = _groups(computation, text)
    node_of, members = _grouped(len(instructions), before, groups)
    found: list[dict[int, None]] = [{} for _ in members]
    for index, earlier in enumerate(before):
        here = node_of[index]
        found[here].update(dict.fromkeys(node_of[each] for each in earlier if node_of[each] != here))
    after: list[list[int]] = [[] for _ in members]
    for node, needed in enumerate(found):
        for each in needed:
            after[each].append(node)
    buffers = tuple(_buffers(computation, [instructions[index] for index in each], uses) for each in members)
    root = computation.root
    return Graph(
        tuple(tuple([instructions[index] for index in each]) for each in members),
        tuple(map(tuple, found)),
        tuple(map(tuple, after)),
        buffers,
        uses.size,
        frozenset(uses.buffers_read(root)) if root is not None else frozenset(),
        tuple(max((_callee_bytes(instructions[index], peaks) for index in each), default=0) for each in members),
        tuple(node_of),
    )


def _needs(computation: Computation, uses: BufferUses, effects: Effects, text: str) -> list[tuple[int, ...]]:
    """Indices of the instructions that must precede each instruction."""
    controls = control_predecessors(computation, text)
    last_effect: dict[str, int] = {}
    written: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    found: list[tuple[int, ...]] = []
    shared = uses.aliases.members
    for index, instruction in enumerate(computation.instructions):
        needed = [*controls.get(index, ()), *(operand.index for operand in instruction.operands)]
        for effect in effects.get(instruction, ()):
            if effect in last_effect:
                needed.append(last_effect[effect])
            last_effect[effect] = index
        writes = uses.buffers_written(instruction) if shared else set()
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
        found.append(tuple(dict.fromkeys(needed)))
    return found


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
    return [group for group in groups.values() if len(group) > 1]


def _grouped(
    count: int, before: Sequence[Iterable[int]], groups: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Node of each instruction, and instructions of each node; groups are split if others must run between."""
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
    found = set[int]().union(*(uses.buffers_used(member) for member in members))
    return tuple(sorted(b for b in found if b in uses.size and uses.home[b] is computation))


def _callee_bytes(instruction: Instruction, peaks: Mapping[Computation, int]) -> int:
    return max((peaks.get(called, 0) for called in instruction.called_computations), default=0)
