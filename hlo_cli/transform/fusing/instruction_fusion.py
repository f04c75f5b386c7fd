"""Fusion pass of the CPU compiler: fuses producers into their users, from the results to the arguments.

Mirrors `InstructionFusion::Run` of xla/service/instruction_fusion.cc with the rules of
xla/service/cpu/cpu_instruction_fusion.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from hlo_cli.analysis.fusion import cpu_rules as by
from hlo_cli.analysis.fusion.cpu_rules import FusionDecider, FusionRules, Rule, must_materialize
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node, is_fusible
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.transform.fusing.in_place_hazards import InPlaceHazards
from hlo_cli.transform.fusing.merge import create_fusion, merge_producer
from hlo_cli.transform.fusing.names import ModuleNames

Pair = tuple[Node, Node]


@dataclass(slots=True)
class InstructionFusion:
    """Fusion pass over one computation; `created` and `rejected` have the final decision on each pair."""

    graph: Graph
    rules: FusionRules
    names: ModuleNames
    hazards: InPlaceHazards
    created: list[tuple[Node, Node, Rule]] = field(default_factory=list)
    rejected: dict[Pair, Rule] = field(default_factory=dict)
    _fusion_of: dict[Node, Node] = field(default_factory=dict)
    _kept: set[Node] = field(default_factory=set)
    _queue: list[Node | None] = field(default_factory=list)
    _place: dict[Node, int] = field(default_factory=dict)
    _decider: FusionDecider = field(init=False)

    def __post_init__(self) -> None:
        self._decider = FusionDecider(self.rules, self.graph.root)

    def run(self) -> None:
        """Runs the pass."""
        order = self.graph.post_order()
        if self.rules.may_duplicate:
            self._kept = must_materialize(order, self.graph.control_predecessors, self._decider)
            if self.rules.guard_softmax:
                self._kept |= set(before_softmax(order))
        for node in order:
            self._push(node)
        while (consumer := self._pop()) is not None:
            if is_fusible(consumer):
                self._fuse_one(consumer)

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
        waiting = [operand for operand in dict.fromkeys(consumer.operands) if operand in self._place]
        for producer in sorted(waiting, key=self._place.__getitem__, reverse=True):
            rule = self._rule(producer, consumer)
            if rule.fuses:
                self._fuse(producer, consumer, rule)
                return
            self.rejected[producer, consumer] = rule

    def _rule(self, producer: Node, consumer: Node) -> Rule:
        if not is_fusible(producer):
            return by.PRODUCER_NOT_FUSIBLE
        if any(consumer.operands[alias.operand_number] is producer for alias in consumer.aliasing):
            return by.OVERWRITTEN_BY_CONSUMER
        rule = by.NOT_ON_ALL_PATHS if producer in self._kept else self._decider.rule(producer, consumer)
        is_late = rule.fuses and self.hazards.is_between(self.graph, producer, consumer)
        return by.OVERWRITTEN if is_late else rule

    def _fuse(self, producer: Node, consumer: Node, rule: Rule) -> None:
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


def before_softmax(order: list[Node]) -> Iterator[Node]:
    """Yields operations that newer releases materialize before a softmax: they feed a maximum and its subtraction."""
    for exponential in order:
        if exponential.opcode != "exponential" or exponential.operands[0].opcode != "subtract":
            continue
        given, largest = exponential.operands[0].operands
        while largest.opcode in (opcodes.BROADCAST, opcodes.BITCAST, opcodes.RESHAPE):
            largest = largest.operands[0]
        if largest.opcode == opcodes.REDUCE and largest.operands[0] is given and _takes_maximum(largest):
            yield given


def _takes_maximum(reduce: Node) -> bool:
    called = reduce.instruction.called_computations
    return bool(called) and called[0].root is not None and called[0].root.opcode == "maximum"
