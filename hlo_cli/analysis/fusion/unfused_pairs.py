"""Producer–consumer pairs that are not fused, the rule that forbids it, and the memory traffic that fusion would avoid.

Mirrors the decisions of `ShouldFuse` of xla/service/cpu/cpu_instruction_fusion.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.cost_analysis import cost_analysis
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS
from hlo_cli.analysis.fusion import rules as by
from hlo_cli.analysis.fusion.decide import FusionDecider
from hlo_cli.analysis.fusion.elements import is_fusible
from hlo_cli.analysis.fusion.graph import Graph, Node, fusible_computations, graph_of
from hlo_cli.analysis.fusion.kernel_pairs import saved_bytes
from hlo_cli.analysis.fusion.rules import SHIPPED, FusionRules, Rule
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class UnfusedPair:
    """Producer and consumer that are separate kernels; `saved_bytes` is the memory traffic that one kernel would avoid.

    If `rule.fuses`, no rule forbids the fusion.
    """

    producer: Instruction
    consumer: Instruction
    rule: Rule
    saved_bytes: int

    @property
    def words(self) -> str:
        """Message of the rule for this pair."""
        return self.rule.explain(self.producer.name, self.consumer.name)


def unfused_pairs(module: Module, rules: FusionRules = SHIPPED) -> tuple[UnfusedPair, ...]:
    """Producer–consumer pairs of separate kernels in the order of the text.

    A producer that is a fusion is represented by its root, which the pass met before it was fused.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t), dimensions={1} }"
    >>> pair, = unfused_pairs(parse_module(text))
    >>> pair.words, pair.saved_bytes
    ('t is expensive and b reads its elements more than once', 72)
    """
    with no_garbage_collection():
        costs = cost_analysis(module)
        return tuple(
            pair
            for each in fusible_computations(module)
            for pair in _pairs(graph_of(each, module.source.text), rules, costs)
        )


def _pairs(graph: Graph, rules: FusionRules, costs: Mapping[Instruction, Cost]) -> Iterator[UnfusedPair]:
    taken = {node: list(node.operands) for node in graph.nodes}
    seen_as = _unfused_roots(graph)
    decider = FusionDecider(rules, None if graph.root is None else seen_as[graph.root])
    for consumer, operands in taken.items():
        if consumer.opcode in NO_KERNELS:
            continue
        for producer in dict.fromkeys(operands):
            if producer.opcode not in NO_KERNELS:
                rule = _rule(decider, seen_as[producer], _unwrapped(consumer, seen_as))
                saved = saved_bytes(producer, consumer, operands, costs, users=len(producer.users))
                yield UnfusedPair(producer.instruction, consumer.instruction, rule, saved)


def _unfused_roots(graph: Graph) -> dict[Node, Node]:
    """Maps fusions to their roots as if these were not fused, and redirects the users to them."""
    seen_as = {node: _root_outside(node) if node.kind == "kLoop" else node for node in graph.nodes}
    for node in (*seen_as, *(alone for alone in seen_as.values() if alone not in seen_as)):
        node.operands = [seen_as.get(operand, operand) for operand in node.operands]
    return seen_as


def _unwrapped(fusion: Node, seen_as: Mapping[Node, Node]) -> Node:
    """Operation of a fusion that contains only one, as it was wrapped after the fusion pass; else the fusion."""
    is_one = fusion.body is not None and sum(1 for _ in fusion.body.operations) == 1
    return seen_as[fusion] if is_one else fusion


def _rule(decider: FusionDecider, producer: Node, consumer: Node) -> Rule:
    if not is_fusible(consumer):
        return by.CONSUMER_NOT_FUSIBLE
    if not is_fusible(producer):
        return by.PRODUCER_NOT_FUSIBLE
    rule = decider.rule(producer, consumer)
    return by.NOT_ON_ALL_PATHS if rule.fuses and len(producer.users) > 1 else rule


def _root_outside(fusion: Node) -> Node:
    """Root of a fusion as a node of the outer computation, with the fusion's users."""
    if fusion.body is None:
        return fusion
    root = fusion.body.root
    outside = [fusion.operands[node.number] if node.opcode == opcodes.PARAMETER else node for node in root.operands]
    alone = Node(root.instruction, (), opcode=root.opcode)
    alone.operands, alone.users = outside, fusion.users
    return alone
