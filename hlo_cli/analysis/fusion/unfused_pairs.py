"""Neighbours that are not fused, the rule that keeps them apart, and what fusing them would save.

Mirrors what `ShouldFuse` of xla/service/cpu/cpu_instruction_fusion.cc answers about pairs.
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
from hlo_cli.analysis.fusion.rules import SHIPPED, FusionRules, Rule
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class UnfusedPair:
    """A producer and a consumer that are kernels of their own; `saved_bytes` are those that one kernel would not move.

    Where the rule fuses, nothing keeps them apart but that nobody has fused them.
    """

    producer: Instruction
    consumer: Instruction
    rule: Rule
    saved_bytes: int

    @property
    def words(self) -> str:
        """The rule about these two."""
        return self.rule.about(self.producer.name, self.consumer.name)


def unfused_pairs(module: Module, rules: FusionRules = SHIPPED) -> tuple[UnfusedPair, ...]:
    """The pairs that could be one kernel but are two, in the order of the text.

    A fusion that makes a value is judged by the operation at its root, as a compiler met it.

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
    met = _as_they_met(graph)
    decider = FusionDecider(rules, None if graph.root is None else met[graph.root])
    for consumer, operands in taken.items():
        if consumer.opcode in NO_KERNELS:
            continue
        for producer in dict.fromkeys(operands):
            if producer.opcode not in NO_KERNELS:
                rule = _rule(decider, met[producer], _alone_if_one(consumer, met))
                saved = _saved(producer, consumer, operands, costs)
                yield UnfusedPair(producer.instruction, consumer.instruction, rule, saved)


def _as_they_met(graph: Graph) -> dict[Node, Node]:
    """For fusions the operation at their root as if it stood outside, which from now on is what their users take."""
    met = {node: _root_alone(node) if node.kind == "kLoop" else node for node in graph.nodes}
    for node in (*met, *(alone for alone in met.values() if alone not in met)):
        node.operands = [met.get(operand, operand) for operand in node.operands]
    return met


def _alone_if_one(fusion: Node, met: Mapping[Node, Node]) -> Node:
    """A fusion of one operation is that operation: it became a fusion behind all others."""
    is_one = fusion.body is not None and sum(1 for _ in fusion.body.operations) == 1
    return met[fusion] if is_one else fusion


def _rule(decider: FusionDecider, producer: Node, consumer: Node) -> Rule:
    if not is_fusible(consumer):
        return by.CONSUMER_NOT_FUSIBLE
    if not is_fusible(producer):
        return by.NOT_FUSIBLE
    rule = decider.rule(producer, consumer)
    return by.ON_SOME_PATHS if rule.fuses and len(producer.users) > 1 else rule


def _root_alone(fusion: Node) -> Node:
    """The operation at the root of a fusion as if it stood outside, with the fusion's users."""
    if fusion.body is None:
        return fusion
    root = fusion.body.root
    outside = [fusion.operands[node.number] if node.opcode == opcodes.PARAMETER else node for node in root.operands]
    alone = Node(root.instruction, (), opcode=root.opcode)
    alone.operands, alone.users = outside, fusion.users
    return alone


def _saved(producer: Node, consumer: Node, taken: list[Node], costs: Mapping[Instruction, Cost]) -> int:
    """What the consumer does not read, and the producer not move if nobody else needs it, less what is read instead."""
    made, used = costs[producer.instruction], costs[consumer.instruction]
    saved = sum(used.operand_bytes(n) for n, node in enumerate(taken) if node is producer)
    if len(producer.users) == 1:
        saved += made.bytes_accessed
    first = {node: n for n, node in reversed(list(enumerate(producer.operands)))}
    instead = sum(made.operand_bytes(n) for node, n in first.items() if node not in taken)
    return round(saved - instead)
