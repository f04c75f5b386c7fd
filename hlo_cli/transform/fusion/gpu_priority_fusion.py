"""Which producer does XLA:GPU's priority fusion fuse next, and on which orders does that depend?

The steps that the dump of another run lists can be replayed on the same graphs.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable
from dataclasses import field
from math import inf
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion import gpu_rules
from hlo_cli.analysis.fusion.gpu_emitters import LOOP, elements_of
from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelModel, KernelTime
from hlo_cli.analysis.fusion.gpu_rules import (
    GpuFusionRules,
    can_be_fused,
    is_fusible_bitcast,
    is_triton,
    scatter_reason,
)
from hlo_cli.analysis.fusion.mutable_graph import MutableGraph, Node, Users, is_fusible
from hlo_cli.analysis.fusion.triton_model import TritonKernelModel
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import FusedStep
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.fusion.fused_nodes import create_fusion, merge_fusion, merge_producer
from hlo_cli.transform.fusion.gemm_rewrites import NodeMaker, set_block_config
from hlo_cli.transform.rewriting import ModuleNames

# --- orders that no text has ---
# Orders that XLA:GPU's fusion depends on and that the text of a module does not have: of instructions, and of users.
#
# XLA compares instruction ids where two producers save the same time, and visits users in the order in which they were
# added. Protos have the ids.


# Numbers in names (`fusion.12`) grow as XLA makes instructions, so they tell the order where ids are missing.
_NUMBER: Final = re.compile(r"\.(\d{1,18})(?:\.0)?\Z")
# Above all 18 digits that `_NUMBER` matches.
_MAX_NUMBER: Final = 1 << 62
# JAX writes jit(f) into op_names of what is inlined from f.
_INLINED: Final = "jit("
_COMPUTED_TWICE: Final = frozenset((opcodes.BROADCAST, opcodes.CONSTANT, opcodes.FUSION, opcodes.SUBTRACT))
"""Opcodes of values that functions such as `jit(_var)` compute again: constants, and differences to a mean."""


def identities_of(graph: MutableGraph) -> tuple[dict[Node, int], bool]:
    """A number for each node that orders producers of equal priority, and whether the numbers are XLA's ids.

    Without ids, the numbers in names are the best guess, then the order of the file: XLA's writers count upward.
    Broadcasts of their own that passes make are younger than what they were given.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "ENTRY e { p.2 = s8[] parameter(0)  a.9 = s8[] not(p.2)  ROOT b.3 = s8[] not(a.9) }"
    >>> numbers, are_exact = identities_of(mutable_graph_of(parse_module(text).entry))
    >>> [node.name for node in sorted(numbers, key=numbers.get)], are_exact
    (['p.2', 'b.3', 'a.9'], False)
    """
    ids = {instruction: number for number, instruction in graph.computation.by_id.items()}
    nodes = list(graph.nodes)
    # Ids cannot be compared with places in the text, so all nodes need one.
    if ids and all(node.instruction in ids for node in nodes):
        return {node: ids[node.instruction] for node in nodes}, True
    places = {node: place for place, node in enumerate(nodes)}
    # A broadcast whose name is its opcode is made by a pass (JAX's are named broadcast_in_dim), so it is new.
    ordered = sorted(nodes, key=lambda node: (_is_made(node), _number(node), places[node]))
    return {node: place for place, node in enumerate(ordered)}, False


def _order_users(graph: MutableGraph) -> None:
    """Puts the users of each node in the order that XLA has before fusion, where it is not that of the text.

    A module arrives in the order of the text; then passes inline functions, such as `jit(_var)` in an op_name. Their
    operations are appended to the users, but for the last one: it takes the place of the call that it replaces. All
    are appended where an equal value was computed twice, inside and outside, and merged.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> inside = 'metadata={op_name="jit(f)/jit(silu)/mul"}'
    >>> text = f'''ENTRY e {{ p = f32[] parameter(0)  a = f32[] negate(p), {inside}  b = f32[] multiply(p, a), {inside}
    ... c = f32[] exponential(p)  ROOT r = f32[] add(b, c) }}'''
    >>> graph = mutable_graph_of(parse_module(text).entry)
    >>> _order_users(graph)
    >>> [user.name for user in next(graph.nodes).users]
    ['b', 'c', 'a']
    """
    paths: dict[Node, str] = {}
    for node in graph.nodes:
        if len(node.users) < 2:  # only faster
            continue
        outside = _path(node, paths)
        inlined: dict[str, list[Node]] = {}
        for user in node.users:
            if (path := _path(user, paths)) and path != outside:
                inlined.setdefault(path, []).append(user)
        if not inlined:  # only faster
            continue
        users: list[Node] = []
        appended: list[Node] = []
        for user in node.users:
            group = inlined.get(paths[user])
            if group is None:
                users.append(user)
            # Such values are computed inside again; when both are merged, all users inside are appended.
            elif node.opcode in _COMPUTED_TWICE:
                appended.append(user)
            elif user is group[0]:
                # The last inlined user takes the place of the call; the others were added after it.
                users.append(group[-1])
                appended.extend(group[:-1])
        node.users = Users()
        for user in (*users, *appended):
            node.users.add(user)


def _path(node: Node, paths: dict[Node, str]) -> str:
    """The functions that an operation was inlined from: parts of its op_name, without the outermost."""
    path = paths.get(node)
    if path is None:
        path = ""
        if node.opcode == opcodes.BITCAST and len(node.users) == 1:  # has the op_name of its operand
            path = _path(next(iter(node.users)), paths)
        elif _INLINED in node.instruction.raw[1]:
            parts = node.instruction.metadata.op_name.split("/")[1:-1]
            path = "/".join(part for part in parts if _INLINED in part)
        paths[node] = path
    return path


def _is_made(node: Node) -> bool:
    return node.opcode == opcodes.BROADCAST and node.name.startswith(opcodes.BROADCAST)


def _number(node: Node) -> int:
    """The number in a name, 0 without one."""
    found = _NUMBER.search(node.name)
    return min(int(found[1]), _MAX_NUMBER) if found else 0


# --- priority fusion ---
# Priority fusion of XLA:GPU: fuses the producer that saves most time into all of its users.
#
# Mirrors `PriorityFusionQueue` of xla/backends/gpu/transforms/priority_fusion.cc, with its caches: which times are
# known decides how a priority is updated.


# PriorityFusionQueue does not queue these.
_NEVER_QUEUED: Final = frozenset((opcodes.PARAMETER, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT))
# All emitters but that of loops are input fusions.
_KINDS: Final = {LOOP: "kLoop"}
MAX_STEPS: Final = 500_000
"""Steps of one run, each the fusing of an operation. XLA fuses all operations of a producer again into each consumer,
which is quadratic in a kernel that grows by its consumers. Measured: 8 µs a step, and 60,000 steps in a transformer of
20,000 instructions."""
UNDECIDED: Final = f"not decided within {MAX_STEPS:,} steps"


class Times(NamedTuple):
    """Times in ticks of a producer with its users, or the change since the last update: fused and apart."""

    fused: int
    unfused: int


class Update(NamedTuple):
    """What was found when a producer was looked at: the reason against fusing it, or its times."""

    producer: Node
    consumers: tuple[Node, ...]
    reason: str | None
    times: Times | None


@dataclass(slots=True)
class PriorityFusion:
    """Pass over one computation; `fused` and `updates` are the steps that XLA writes to its dump.

    `identities` order producers of equal priority: the greatest is fused first. `ties` are the producers whose order
    only they decide. After `MAX_STEPS` the pass ends where it is: then `is_decided` is false.
    """

    graph: MutableGraph
    model: KernelModel
    names: ModuleNames
    identities: dict[Node, int]
    fused: list[tuple[Node, Node, Node]] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    ties: set[Node] = field(default_factory=set)
    steps: int = 0
    is_decided: bool = True
    rules: GpuFusionRules = field(init=False)
    _maker: NodeMaker = field(init=False)
    priorities: dict[Node, float] = field(default_factory=dict)
    _last_identity: int = 0
    _heap: list[tuple[float, int, int, Node]] = field(default_factory=list)
    _pushed: int = 0
    _reasons: dict[Node, dict[Node, str | None]] = field(default_factory=dict)
    _pairs: dict[Node, dict[Node, KernelTime]] = field(default_factory=dict)
    _changed: dict[Node, None] = field(default_factory=dict)
    _new_consumers: dict[Node, list[Node]] = field(default_factory=dict)
    _removed_times: dict[Node, Times] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rules = GpuFusionRules(self.model, self.graph.root)
        self._maker = NodeMaker(self.names)
        self._last_identity = max(self.identities.values(), default=0)

    def run(self) -> None:
        """Runs the pass."""
        self.start()
        while (producer := self.next_producer()) is not None:
            self.fuse_into(producer, self.consumers_of(producer))
        if self.is_decided:
            self.fuse_constants()

    def start(self) -> None:
        """Computes the priorities of all producers."""
        _order_users(self.graph)
        for node in self.graph.sorted_nodes():
            if can_be_fused(node):
                self.model.time(node)
            if node.users and node.opcode not in _NEVER_QUEUED and is_fusible(node):
                self._changed[node] = None
        self._update_priorities()

    def next_producer(self) -> Node | None:
        """Removes the producer of the greatest priority from the queue and returns it; None at the end of the pass."""
        while self._heap:
            priority, _, _, producer = heapq.heappop(self._heap)
            if self.priorities.get(producer) != -priority:
                continue
            # Equal priorities are decided by instruction ids, which the text lacks.
            if self._heap and self._heap[0][0] == priority and self.priorities.get(self._heap[0][3]) == -priority:
                self.ties.update((producer, self._heap[0][3]))
            del self.priorities[producer]
            if not self.consumers_of(producer):
                continue
            self.is_decided = self.steps < MAX_STEPS
            return producer if self.is_decided else None
        return None

    def consumers_of(self, producer: Node) -> list[Node]:
        """Users into which a producer is fused: all, or those of a bitcast that allow it."""
        users = list(producer.users)
        if is_fusible_bitcast(producer):
            return [user for user in users if self._reason(producer, user) is None]
        return users

    def fuse_into(self, producer: Node, consumers: list[Node]) -> None:
        """Fuses a producer into consumers, and updates the priorities that change."""
        self._drop(producer)
        operands = list(producer.operands)
        changed: dict[Node, None] = {}
        for consumer in consumers:
            changed[consumer] = None
            if is_fusible_bitcast(consumer):
                # Bitcast users keep the producer.
                continue
            fusion = self._fuse(producer, consumer)
            changed[fusion] = None
            self.fused.append((fusion, producer, consumer))
            self._note_fusion(producer, consumer, fusion)
        self._note_removed_times(producer, consumers)
        if producer not in self.graph.position:
            self._forget(producer, operands)
            self._changed.pop(producer, None)
        for node in changed:
            self._forget(node, node.operands)
        self._update_priorities()

    def fuse_constants(self) -> None:
        """Fuses constants of one element into the users that allow it."""
        for constant in [node for node in self.graph.nodes if _is_small_constant(node)]:
            # XLA tests only the rule on scatters here.
            for user in list(constant.users):
                if is_triton(user):
                    # The tile stays: a scalar is in a register of each thread.
                    merge_producer(self.graph, user, constant, self.names)
                    self.model.forget(user)
                elif scatter_reason(constant, user) is None and can_be_fused(user) and user.kind != "kCustom":
                    self.model.forget(self._fuse(constant, user))

    def _fuse(self, producer: Node, consumer: Node) -> Node:
        if is_triton(producer) or is_triton(consumer):
            return self._fuse_in_triton(producer, consumer)
        known = self._pairs.get(producer, {}).get(consumer)
        emitter = known.emitter if known is not None else self.model.merged_analysis(producer, consumer).emitter
        fusion = consumer
        kind = _KINDS.get(emitter, "kInput")
        if consumer.body is None:
            fusion = create_fusion(
                self.graph, consumer, kind, self.names, name=opcodes.FUSION, body_name="fused_computation"
            )
            self.rules.root = self.graph.root
            self._last_identity += 1
            # XLA gives ids upward, so a new fusion wins ties against all older ones.
            self.identities[fusion] = self._last_identity
        fusion.kind = kind
        self.steps += 1 if producer.body is None else len(producer.body.nodes) - len(producer.body.parameters)
        merge = merge_producer if producer.body is None else merge_fusion
        merge(self.graph, fusion, producer, self.names)
        return fusion

    def _fuse_in_triton(self, producer: Node, consumer: Node) -> Node:
        """Fuses into a kernel of Triton, which gets its best tile."""
        fusion = consumer
        if consumer.body is None:
            fusion = create_fusion(
                self.graph, consumer, "kCustom", self.names, name=opcodes.FUSION, body_name="fused_computation"
            )
            self.rules.root = self.graph.root
            self._last_identity += 1
            self.identities[fusion] = self._last_identity
        fusion.kind = "kCustom"
        self.steps += 1 if producer.body is None else len(producer.body.nodes) - len(producer.body.parameters)
        merge = merge_producer if producer.body is None else merge_fusion
        merge(self.graph, fusion, producer, self.names)
        self.model.forget(fusion)
        assert isinstance(self.model, TritonKernelModel)  # no other model allows these
        tiling = self.model.tiling_of(fusion)
        if tiling is not None:
            set_block_config(fusion, tiling, self._maker)
        return fusion

    def _note_fusion(self, producer: Node, consumer: Node, fusion: Node) -> None:
        """Notes whose priorities a fusion changes: its own, and those of its operands."""
        if fusion is not consumer:
            self._drop(consumer)
            self._changed.pop(consumer, None)
        for operand in fusion.operands:
            # XLA updates neither constants, which go last, nor elements of tuples.
            skipped = (opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT)
            if operand is producer or operand.opcode in skipped or not is_fusible(operand):
                continue
            self._changed[operand] = None
            self._new_consumers.setdefault(operand, []).append(fusion)
        self._changed[fusion] = None

    def _note_removed_times(self, producer: Node, consumers: list[Node]) -> None:
        """Notes, for producers still in the queue, the known times of pairs that are no more."""
        for operand in self._new_consumers:
            times = self._pairs.get(operand)
            if operand not in self.priorities or times is None:
                continue
            fused = unfused = 0
            # XLA subtracts cached times of all consumers and of the fused producer, even if it is no consumer any more.
            for consumer in (*consumers, producer):
                if consumer in times:
                    fused += times[consumer].ticks
                    unfused += self.model.time(consumer).ticks
            self._removed_times[operand] = Times(fused, unfused + self.model.time(operand).ticks + LAUNCH)

    def _drop(self, node: Node) -> None:
        """Removes a node from the queue."""
        self.priorities.pop(node, None)

    def _forget(self, node: Node, operands: list[Node]) -> None:
        """Forgets decisions and times of a node, and of its pairs."""
        self.model.forget(node)
        self.rules.forget(node)
        self._reasons.pop(node, None)
        self._pairs.pop(node, None)
        for operand in operands:
            self._reasons.get(operand, {}).pop(node, None)
            source = operand.operands[0] if operand.opcode == opcodes.GET_TUPLE_ELEMENT else operand
            self._pairs.get(source, {}).pop(node, None)

    def _update_priorities(self) -> None:
        """Computes the priorities of the nodes that changed, or whose users did."""
        for node, priority in [(node, self._priority(node)) for node in self._changed]:
            # An unchanged priority stays in the queue as it is.
            if self.priorities.pop(node, None) == priority:
                self.priorities[node] = priority
            # Zero is queued, too: fusing then costs nothing and removes a launch.
            elif priority >= 0:
                self.priorities[node] = priority
                self._pushed += 1
                heapq.heappush(self._heap, (-priority, -self.identities[node], self._pushed, node))
        self._changed.clear()
        self._new_consumers.clear()
        self._removed_times.clear()

    def _priority(self, producer: Node) -> float:
        """Ticks saved by fusing a producer into all users; negative infinity if it must not be."""
        # Bitcasts are free in a kernel, so they always go first.
        if is_fusible_bitcast(producer):
            return inf
        if producer.opcode == opcodes.CONSTANT:
            # Constants wait for `fuse_constants`.
            return -inf
        users = tuple(producer.users)
        if (reason := self._reason_of_all(producer, users)) is not None:
            self.updates.append(Update(producer, users, reason, None))
            return -inf
        removed = self._removed_times.get(producer)
        # If times of the last round are known, XLA adds the difference only; a full sum would differ where a cache was
        # dropped.
        consumers = users if removed is None else self._new_consumers[producer]
        fused, unfused = LAUNCH * len(consumers), LAUNCH * (len(consumers) + 1) + self.model.time(producer).ticks
        known = self._pairs.setdefault(producer, {})
        for consumer in consumers:
            # The cache decides, not the value: XLA recomputes only pairs that were dropped.
            if consumer not in known:
                known[consumer] = self.model.fused_time(producer, consumer)
            fused += known[consumer].ticks
            unfused += self.model.time(consumer).ticks
        before = 0.0
        if removed is not None:
            fused, unfused, before = fused - removed.fused, unfused - removed.unfused, self.priorities[producer]
        self.updates.append(Update(producer, users, None, Times(fused, unfused)))
        return before + unfused - fused

    def _reason_of_all(self, producer: Node, users: tuple[Node, ...]) -> str | None:
        """The first reason against fusing a producer into one of its users."""
        if not users:
            return gpu_rules.NO_USERS
        found: str | None = gpu_rules.ONLY_BITCASTS
        known = self._reasons.get(producer, {})
        # Where nothing forbade, only users that are new have to be asked.
        new_users = tuple([user for user in users if user not in known])
        if len(new_users) < len(users) and not any(known.values()):
            users, found = new_users, None
        # The order of users decides which reason is printed: the first that forbids.
        for user in users:
            if not is_fusible_bitcast(user) and (found := self._reason(producer, user)) is not None:
                return found
        return found

    def _reason(self, producer: Node, consumer: Node) -> str | None:
        known = self._reasons.setdefault(producer, {})
        if consumer not in known:
            known[consumer] = self.rules.reason(producer, consumer)
        return known[consumer]


def _is_small_constant(node: Node) -> bool:
    is_array = isinstance(node.shape, ArrayShape)
    return node.opcode == opcodes.CONSTANT and is_array and elements_of(node.shape) <= 1


# --- replay of another run ---
# Replay of the fusions of another run of priority fusion, as its dump lists them, without its estimates.


class Replay:
    """Graphs of the module before the pass, in which steps are made one after another.

    `nodes` are those that are left, by the names that they have in the dump.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> module = parse_module("ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }")
    >>> replay = Replay([mutable_graph_of(module.entry)], KernelModel(gpu_device("h100")), ModuleNames(module))
    >>> replay.fuse(FusedStep("fusion", "a", "b"))
    <node fusion fusion>
    >>> sorted(replay.nodes)
    ['fusion', 'p']
    """

    __slots__ = ("_homes", "_model", "_names", "nodes")

    def __init__(self, graphs: Iterable[MutableGraph], model: KernelModel, names: ModuleNames) -> None:
        self._model = model
        self._names = names
        self._homes = {node: graph for graph in graphs for node in graph.nodes}
        self.nodes = {node.name: node for node in self._homes}

    def graph_with(self, node: Node) -> MutableGraph:
        """The graph that a node is in."""
        return self._homes[node]

    def fuse(self, step: FusedStep) -> Node | None:
        """Fuses a producer into a consumer; None if the graphs do not have them as such."""
        producer, consumer = self.nodes.get(step.producer), self.nodes.get(step.consumer)
        if producer is None or consumer is None or producer not in consumer.operands:
            return None
        graph, names = self._homes[consumer], self._names
        # Kind by the emitter of the merged kernel, as in the pass.
        kind = "kLoop" if self._model.merged_analysis(producer, consumer).emitter == LOOP else "kInput"
        fusion = consumer
        if consumer.body is None:
            fusion = create_fusion(graph, consumer, kind, names, name=opcodes.FUSION, body_name="fused_computation")
            self._homes[fusion] = graph
        if fusion.kind != "kCustom":
            fusion.kind = kind
        merge = merge_producer if producer.body is None else merge_fusion
        merge(graph, fusion, producer, names)
        # The dump names each fusion anew, even one that existed.
        del self.nodes[step.consumer]
        fusion.name = step.fusion
        self.nodes[step.fusion] = fusion
        if producer not in graph.position:
            self.nodes.pop(step.producer, None)
        self._model.forget(fusion)
        self._model.forget(producer)
        return fusion
