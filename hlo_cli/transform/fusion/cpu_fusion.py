"""What would the CPU compiler fuse in a module, and which rule decides on each pair?

Its passes in their order: instruction fusion, multi-output fusion, and the wrapping of lone operations.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from hlo_cli.analysis.dataflow.executions import contexts_of
from hlo_cli.analysis.fusion import cpu_rules as by
from hlo_cli.analysis.fusion.cpu_rules import (
    SHIPPED,
    FusionDecider,
    FusionRules,
    Rule,
    can_fuse_siblings,
    gives_elements,
    is_worth_sharing,
    must_materialize,
    shared_bytes,
)
from hlo_cli.analysis.fusion.mutable_graph import MutableGraph, Node, fusible_computations, is_fusible, mutable_graph_of
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import expect
from hlo_cli.transform.fusion.fused_nodes import (
    create_fusion,
    make_multi_output,
    merge_producer,
    rebuild,
    without_dead,
    without_uncalled,
)
from hlo_cli.transform.in_place_hazards import fix_in_place_hazards
from hlo_cli.transform.rewriting import ModuleNames, check_rewritable
from hlo_cli.transform.schedule.constraints import buffer_uses, effects_of
from hlo_cli.transform.sugar import desugar

# --- values overwritten in place ---
# Detects values that a scheduled module overwrites in place, and must not be read later.
#
# No counterpart in XLA, which fuses before buffer assignment.


class InPlaceHazards:
    """Positions at which buffers of a scheduled module are overwritten; none if the module is not scheduled.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] copy(a)  n = f32[9] negate(b)  u = f32[2] constant({1, 2})
    ... d = f32[9] dynamic-update-slice(b, u, i)  ROOT r = f32[9] add(n, d) }'''
    >>> module = parse_module(text)
    >>> graph = mutable_graph_of(module.entry)
    >>> nodes = {node.name: node for node in graph.nodes}
    >>> InPlaceHazards(module).is_between(graph, nodes["n"], nodes["r"])
    True
    """

    __slots__ = ("_buffers_read", "_writes")

    def __init__(self, module: Module) -> None:
        self._buffers_read: dict[Instruction, set[int]] = {}
        self._writes: dict[Computation, dict[int, list[int]]] = {}
        if not module.is_scheduled:
            # Without a schedule, XLA orders reads and updates itself.
            return
        uses = buffer_uses(module)
        if not uses.aliases.members:
            return
        for run in uses.runs:
            places: dict[int, list[int]] = {}
            for instruction in run.computation.instructions:
                # Buffers of one value are never overwritten.
                self._buffers_read[instruction] = uses.buffers_read(instruction) & uses.aliases.members.keys()
                for buffer in uses.buffers_written(instruction):
                    places.setdefault(buffer, []).append(instruction.index)
            self._writes[run.computation] = places

    def is_between(self, graph: MutableGraph, producer: Node, consumer: Node) -> bool:
        """Whether an operand of the producer is overwritten before the consumer runs."""
        places = self._writes.get(graph.computation)
        if not places:
            return False
        first, last = producer.instruction.index, consumer.instruction.index
        return any(first < place < last for buffer in self._buffers_of(producer) for place in _of(places, buffer))

    def has_no_writes(self, graph: MutableGraph, node: Node, partner: Node) -> bool:
        """Whether nothing is overwritten between the two nodes, so that all nodes between them can move."""
        places = self._writes.get(graph.computation)
        if not places:
            return True
        # Positions in the new graph: nodes between both may have to move.
        first, last = sorted((graph.position[node], graph.position[partner]))
        return not any(first <= place <= last for written in places.values() for place in written)

    def _buffers_of(self, node: Node) -> set[int]:
        return self._buffers_read.get(node.instruction, set())


def _of(places: dict[int, list[int]], buffer: int) -> Iterable[int]:
    return places.get(buffer, ())


# --- instruction fusion ---
# Fusion pass of the CPU compiler: fuses producers into their users, from the results to the arguments.
#
# Mirrors `InstructionFusion::Run` of xla/service/instruction_fusion.cc with the rules of
# xla/service/cpu/cpu_instruction_fusion.cc.


Pair = tuple[Node, Node]
MAX_STEPS: Final = 100_000
"""Operations fused in one computation after which the pass ends. XLA fuses a producer into each of its users, so that
graphs of shared values become kernels that compute all of it again. Measured: 0.1 ms a step with all that follows it,
and 1.9 steps an instruction or fewer in 348 dumps before fusion."""


@dataclass(slots=True)
class InstructionFusion:
    """Fusion pass over one computation; `created` and `rejected` have the final decision on each pair.

    After `MAX_STEPS` the pass ends where it is: then `is_decided` is false.
    """

    graph: MutableGraph
    rules: FusionRules
    names: ModuleNames
    hazards: InPlaceHazards
    created: list[tuple[Node, Node, Rule]] = field(default_factory=list)
    rejected: dict[Pair, Rule] = field(default_factory=dict)
    is_decided: bool = True
    _fusion_of: dict[Node, Node] = field(default_factory=dict)
    _kept: set[Node] = field(default_factory=set)
    _queue: list[Node | None] = field(default_factory=list)
    _place: dict[Node, int] = field(default_factory=dict)
    _never: dict[Node, set[Node]] = field(default_factory=dict)
    _decider: FusionDecider = field(init=False)

    def __post_init__(self) -> None:
        self._decider = FusionDecider(self.rules, self.graph.root)

    def run(self) -> None:
        """Runs the pass."""
        order = self.graph.post_order()
        # Dropping this set spoils 11% of real CPU fusions (990 of 1,123 stay right).
        if self.rules.may_duplicate:
            self._kept = must_materialize(order, self.graph.control_predecessors, self._decider)
            # In the source tree only: applied to jaxlib 0.10.2 it makes 21 of 2,285 fusions wrong.
            if self.rules.guard_softmax:
                self._kept |= set(_before_softmax(order))
        for node in order:
            self._push(node)
        while (consumer := self._pop()) is not None:
            if is_fusible(consumer):
                self._fuse_one(consumer)
            if len(self.created) >= MAX_STEPS:
                self.is_decided = False
                return

    def rejected_pairs(self) -> Iterator[tuple[Node, Node, Rule]]:
        """Yields the pairs that are still adjacent with the rule that rejected them; either can be a fusion now."""
        for (producer, consumer), rule in self.rejected.items():
            there = self._fusion_of.get(producer, producer)
            if there in self.graph.position and consumer in self.graph.position and consumer in there.users:
                yield producer, consumer, rule

    def _push(self, node: Node) -> None:
        self._place[node] = len(self._queue)
        self._queue.append(node)

    def _pop(self) -> Node | None:
        while self._queue:
            node = self._queue.pop()
            if node is not None:
                del self._place[node]
                return node
        return None

    def _fuse_one(self, consumer: Node) -> None:
        """Fuses the first operand that can be fused into the consumer, the latest in the queue first."""
        # InstructionFusion visits operands by place in the queue, latest first, since those are nearest to the
        # consumer. All of them are there still: users come before their operands.
        place, never = self._place, self._never.setdefault(consumer, set())
        waiting = [operand for operand in dict.fromkeys(consumer.operands) if operand not in never]
        for producer in sorted(waiting, key=place.__getitem__, reverse=True):
            rule = self._rule(producer, consumer)
            if rule.fuses:
                self._fuse(producer, consumer, rule)
                return
            self.rejected[producer, consumer] = rule
            # These apply when the consumer has grown, too; rng becomes fusible when it has one user left.
            if rule in (by.PRODUCER_NOT_FUSIBLE, by.CONSTANT_ARRAY) and producer.opcode != opcodes.RNG:
                never.add(producer)

    def _rule(self, producer: Node, consumer: Node) -> Rule:
        if not is_fusible(producer):
            return by.PRODUCER_NOT_FUSIBLE
        if any(consumer.operands[alias.operand_number] is producer for alias in consumer.aliasing):
            return by.OVERWRITTEN_BY_CONSUMER
        # A value that is not on all paths into one kernel would be computed and stored anyway.
        rule = by.NOT_ON_ALL_PATHS if producer in self._kept else self._decider.rule(producer, consumer)
        is_late = rule.fuses and self.hazards.is_between(self.graph, producer, consumer)
        return by.OVERWRITTEN if is_late else rule

    def _fuse(self, producer: Node, consumer: Node, rule: Rule) -> None:
        # Set anew with each producer, as XLA does: kOutput only from the dot-add rule.
        kind = "kOutput" if rule is by.OUTPUT_FUSION else "kLoop"
        fusion = consumer
        if consumer.body is None:
            name = f"{producer.opcode}_{consumer.opcode}_fusion"
            fusion = create_fusion(self.graph, consumer, kind, self.names, name=name, body_name="fused_computation")
            self._fusion_of[consumer] = fusion
            self._kept.discard(consumer)
            assert self.graph.root is not None
            self._decider.replace_root(self.graph.root)
        fusion.kind = kind
        indexing_users = self._decider.begin_fuse(producer, fusion)
        clone = merge_producer(self.graph, fusion, producer, self.names)
        self._decider.end_fuse(clone, fusion, indexing_users)
        self.created.append((producer, fusion, rule))
        # XLA enqueues a new fusion last, that is next in turn, so that all its operands are considered again.
        self._push(fusion)
        if producer not in self.graph.position:
            self._kept.discard(producer)
            self._queue[self._place.pop(producer)] = None


def _before_softmax(order: list[Node]) -> Iterator[Node]:
    """Yields operations that newer releases materialize before a softmax: they feed a maximum and its subtraction."""
    for exponential in order:
        if exponential.opcode != "exponential" or exponential.operands[0].opcode != opcodes.SUBTRACT:
            continue
        given, largest = exponential.operands[0].operands
        # A broadcast or reshape between the maximum and its use changes no value.
        while largest.opcode in (opcodes.BROADCAST, opcodes.BITCAST, opcodes.RESHAPE):
            largest = largest.operands[0]
        if largest.opcode == opcodes.REDUCE and largest.operands[0] is given and _takes_maximum(largest):
            yield given


def _takes_maximum(reduce: Node) -> bool:
    called = reduce.instruction.called_computations
    if not called:
        return False
    assert called[0].root is not None
    return called[0].root.opcode == "maximum"


# --- reachability ---
# Reachability between nodes, updated while pairs are fused.
#
# Mirrors xla/hlo/analysis/hlo_reachability.h as `UpdateReachability` of xla/service/multi_output_fusion.cc uses it.


class Reachability:
    """Transitive dependencies of each node, as bits; after a merge one node represents both.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "ENTRY e { p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] negate(p)  ROOT c = s8[] add(a, b) }"
    >>> graph = mutable_graph_of(parse_module(text).entry)
    >>> p, a, b, c = graph.nodes
    >>> reachability = Reachability(graph.sorted_nodes(), graph.dependencies, lambda node: True)
    >>> reachability.are_connected(a, b), reachability.are_connected(c, p)
    (False, True)
    """

    __slots__ = ("_bit", "_reachable")

    def __init__(
        self, order: Sequence[Node], needed: Callable[[Node], Iterable[Node]], is_tracked: Callable[[Node], bool]
    ) -> None:
        """Computes the dependencies; `order` has operands before users, and only tracked nodes can be queried."""
        self._bit: dict[Node, int] = {}
        self._reachable: dict[Node, int] = {}
        # One Python integer as bits for each node: unions are single operations.
        for node in order:
            reachable = 0
            for other in needed(node):
                reachable |= self._reachable.get(other, 0)
            if is_tracked(node):
                self._bit[node] = len(self._bit)
                reachable |= 1 << self._bit[node]
            self._reachable[node] = reachable

    def are_connected(self, first: Node, second: Node) -> bool:
        """Whether one of the two nodes depends on the other."""
        return self._reaches(first, second) or self._reaches(second, first)

    def merge(self, first: Node, second: Node, gone: Collection[Node]) -> None:
        """Makes every node that depends on one of the two depend on both, and on all their dependencies."""
        for node in self._bit:
            if node in gone:
                continue
            reaches_first, reaches_second = self._reaches(node, first), self._reaches(node, second)
            if reaches_second and not reaches_first:
                self._reachable[node] |= self._reachable[first]
            if self._reaches(node, first) and not reaches_second:
                self._reachable[node] |= self._reachable[second]

    def _reaches(self, node: Node, target: Node) -> bool:
        return bool(self._reachable[node] >> self._bit[target] & 1)


# --- multi-output fusion ---
# Multi-output fusion pass of the CPU compiler: fuses siblings that read the same operands.
#
# Mirrors `MultiOutputFusion::Run` of xla/service/multi_output_fusion.cc with the rules of
# xla/service/cpu/cpu_multi_output_fusion.cc. The pair with the highest profit is fused first; on ties the last found.


_MAX_USERS: Final = 128
"""Number of users of a value among which pairs are formed; all pairs would be too many."""


@dataclass(slots=True)
class MultiOutputFusion:
    """Pass over one computation; `created` has the fused pairs."""

    graph: MutableGraph
    names: ModuleNames
    hazards: InPlaceHazards
    created: list[tuple[Node, Node, Rule]] = field(default_factory=list)
    _index: dict[Node, int] = field(default_factory=dict)
    _removed: set[Node] = field(default_factory=set)
    _partners: dict[Node, dict[Node, int]] = field(default_factory=dict)
    _queue: list[tuple[int, int, Node, Node]] = field(default_factory=list)
    _enqueued: int = 0
    _reachability: Reachability = field(init=False)

    def run(self) -> None:
        """Runs the pass."""
        order = self.graph.sorted_nodes()
        self._index = {node: number for number, node in enumerate(order)}
        self._reachability = Reachability(order, self.graph.dependencies, gives_elements)
        for node in order:
            if gives_elements(node):
                self._find_partners(node)
        while self._queue:
            *_, one, other = heapq.heappop(self._queue)
            if not {one, other} & self._removed and self._is_legal(one, other):
                self._fuse(one, other)
        if self.created:
            self.graph.sort_topologically()

    def _find_partners(self, node: Node) -> None:
        found: dict[Node, None] = {}
        for operand in node.operands:
            if is_worth_sharing(operand):
                found.update((user, None) for user in self._users_near(operand, node) if self._is_partner(node, user))
        for partner in found:
            profit = shared_bytes(node, partner)
            if profit > 0:
                self._partners.setdefault(node, {})[partner] = profit
                self._partners.setdefault(partner, {})[node] = profit
                self._enqueue(node, partner, profit)

    def _users_near(self, operand: Node, node: Node) -> list[Node]:
        first = operand.users.index(node) // _MAX_USERS * _MAX_USERS
        return operand.users.between(first, first + _MAX_USERS)

    def _is_partner(self, node: Node, user: Node) -> bool:
        if not gives_elements(user):
            return False
        # A fusion among the users finds this pair itself, later on, as in multi_output_fusion.cc.
        is_found_later = user.opcode == opcodes.FUSION and self._index[node] < self._index[user]
        return not is_found_later and self._is_legal(node, user)

    def _is_legal(self, first: Node, second: Node) -> bool:
        return (
            can_fuse_siblings(first, second)
            # A node without users is dead after fusion.
            and not any(not node.users and node is not self.graph.root for node in (first, second))
            and not self._reachability.are_connected(first, second)
            and self.hazards.has_no_writes(self.graph, first, second)
        )

    def _enqueue(self, fusion: Node, partner: Node, profit: int) -> None:
        heapq.heappush(self._queue, (-profit, -self._enqueued, fusion, partner))
        self._enqueued += 1

    def _fuse(self, first: Node, second: Node) -> None:
        self._reachability.merge(first, second, self._removed)
        remaining, fused = first, second
        # multi_output_fusion.cc swaps them in this case, so that a tuple that exists is extended.
        if fused.has_several_results and not remaining.has_several_results:
            remaining, fused = fused, remaining
        self.created.append((fused, remaining, by.SIBLINGS))
        make_multi_output(self.graph, remaining, fused, self.names)
        self._removed.add(fused)
        for partner, old_profit in self._partners_of_both(first, second).items():
            profit = shared_bytes(partner, remaining)
            # Only a greater profit is pushed again: entries of the old one are still valid otherwise.
            if profit > old_profit:
                self._enqueue(remaining, partner, profit)
            if not old_profit:
                self._partners.setdefault(remaining, {})[partner] = profit

    def _partners_of_both(self, first: Node, second: Node) -> dict[Node, int]:
        """Candidates for the new fusion with their known profit: 0 for those of `second`."""
        own, others = self._partners.get(first, {}), self._partners.pop(second, {})
        found = own | {node: 0 for node in others if node not in own}
        # Those that cannot be fused any more stay: `run` checks each pair when its turn comes.
        return {node: profit for node, profit in found.items() if node not in self._removed}


# --- lone operations ---
# Wraps lone operations that are compiled as loops in fusions, as the CPU compiler does.
#
# Mirrors xla/service/cpu/fusion_wrapper.cc.


# fusion_wrapper.cc lists all elementwise opcodes but logistic and stochastic-convert; it tests copies separately.
_WRAPPED: Final = ELEMENTWISE - {opcodes.COPY, opcodes.LOGISTIC, opcodes.STOCHASTIC_CONVERT} | frozenset(
    "broadcast dynamic-slice gather iota map pad reduce reduce-window reshape reverse scatter slice".split()
)
# As jaxlib 0.10.2 does: copies of unsigned, complex, 4-bit, and 8-bit float values stay alone.
_COPIED_IN_LOOPS: Final = frozenset("pred s8 s16 s32 s64 f16 bf16 f32 f64".split())
"""Element types for which a layout-changing copy is a loop; jaxlib 0.10.2 does not wrap copies of others."""


def _wrap_lone_operations(graph: MutableGraph, rules: FusionRules, names: ModuleNames) -> None:
    """Replaces each lone operation of a computation with a fusion of it.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.fusion.cpu_rules import SHIPPED
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[9] parameter(0)  ROOT t = f32[9] tanh(p) }")
    >>> graph = mutable_graph_of(module.entry)
    >>> _wrap_lone_operations(graph, SHIPPED, ModuleNames(module))
    >>> graph.root, graph.root.body.name
    (<node fusion wrapped_tanh>, 'wrapped_tanh_computation')
    """
    for node in list(graph.nodes):
        is_wrapped = node.opcode in _WRAPPED or (node.opcode == opcodes.TRANSPOSE and rules.wrap_transpose)
        if is_wrapped or (node.opcode == opcodes.COPY and _is_loop(node)):
            name = f"wrapped_{node.opcode}"
            create_fusion(graph, node, "kLoop", names, name=name, body_name=f"{name}_computation")


def _is_loop(copy: Node) -> bool:
    """Whether a copy changes the layout, element by element."""
    shape = copy.shape
    if shape == copy.operands[0].shape or not isinstance(shape, ArrayShape):
        return False
    return shape.element_type.name in _COPIED_IN_LOOPS


# --- the passes on a module ---
# Simulates the fusion pass of the CPU compiler, with the rule that decided on each producer–consumer pair.
#
# Mirrors xla/service/cpu/cpu_instruction_fusion.cc and xla/service/cpu/fusion_wrapper.cc.


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """Rule that applies to two instructions of the original module; a fusion as consumer is represented by its root."""

    producer: Instruction
    consumer: Instruction
    rule: Rule

    @property
    def words(self) -> str:
        """Message of the rule for this pair."""
        return self.rule.explain(self.producer.name, self.consumer.name)


@dataclass(frozen=True, slots=True)
class FusionResult(WithItems):
    """Module after fusion, with the pairs that were fused, in order, and those that a rule rejected.

    `copies` are the names of copies inserted to protect values from in-place updates. `undecided` are the names of
    computations in which the pass was ended after `MAX_STEPS`, and kernels may grow.
    """

    module: Module
    fused: tuple[FusionDecision, ...]
    rejected: tuple[FusionDecision, ...]
    copies: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


@of_module
def fuse(module: Module, rules: FusionRules = SHIPPED) -> FusionResult:
    """Fuses like the CPU compiler of jaxlib 0.10.2, or with other rules.

    Exact for a module immediately before the fusion pass; for others the result of running the pass now.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> fused = fuse(parse_module(text))
    >>> print(fused.module.entry.root, [decision.rule.name for decision in fused.fused])
    <fusion negate_add_fusion> ['loop']
    """
    expect(FusionRules, "FusionRules", rules)
    with no_garbage_collection():
        check_rewritable(module)
        return _fused(desugar(module), rules)


def _fused(module: Module, rules: FusionRules) -> FusionResult:
    text = module.source.text
    names = ModuleNames(module)
    graphs = {computation: mutable_graph_of(computation, text) for computation in fusible_computations(module)}
    hazards = InPlaceHazards(module)
    fused: list[FusionDecision] = []
    rejected: list[FusionDecision] = []
    undecided: list[str] = []
    for computation, graph in graphs.items():
        fusion = InstructionFusion(graph, rules, names, hazards)
        fusion.run()
        if not fusion.is_decided:
            undecided.append(computation.name)
        fused += [
            FusionDecision(producer.instruction, into.instruction, rule) for producer, into, rule in fusion.created
        ]
        rejected += [
            FusionDecision(producer.instruction, consumer.instruction, rule)
            for producer, consumer, rule in fusion.rejected_pairs()
        ]
    # Applied computations (reduce, sort) are compiled into their caller and never wrapped.
    if rules.wrap:
        executed = contexts_of(module).context_of
        for computation, graph in graphs.items():
            if executed.get(computation) == "global":
                _wrap_lone_operations(graph, rules, names)
    together = _make_together(module, graphs, names, hazards) if rules.multi_output else ()
    made = rebuild(module, graphs)
    kept = fix_in_place_hazards(without_uncalled(made) if rules.multi_output else made, module)
    return FusionResult(kept.module, (*fused, *together), tuple(rejected), kept.copies, tuple(undecided))


def _make_together(
    module: Module, graphs: Mapping[Computation, MutableGraph], names: ModuleNames, hazards: InPlaceHazards
) -> tuple[FusionDecision, ...]:
    """Runs multi-output fusion, and removes dead code."""
    decisions: list[FusionDecision] = []
    for graph in graphs.values():
        together = MultiOutputFusion(graph, names, hazards)
        together.run()
        decisions += [FusionDecision(one.instruction, into.instruction, rule) for one, into, rule in together.created]
    effects = effects_of(module.computations)
    for graph in graphs.values():
        without_dead(graph, effects)
    return tuple(decisions)
