"""Two neighbours fused by hand, whether or not a compiler would.

Mirrors `CreateFusion`, `FuseInstruction`, `MergeFusionInstruction` and `FuseInstructionIntoMultiOutput` of
xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion import rules as by
from hlo_cli.analysis.fusion.code_duplication import users_first
from hlo_cli.analysis.fusion.decide import FusionDecider
from hlo_cli.analysis.fusion.graph import Graph, Node, graph_of
from hlo_cli.analysis.fusion.rules import SHIPPED, Rule
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.fusing.manual import Refusals
from hlo_cli.transform.fusing.merge import begin_fusion, join, take_in
from hlo_cli.transform.fusing.multi_output_results import make_together
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.rebuild import written
from hlo_cli.transform.in_place import Kept, in_place_kept
from hlo_cli.transform.rewritable import check_rewritable

_STRONGER: Final = ("", "kLoop", "kInput", "kOutput")
"""Kinds of fusions: of two that become one, the later here is that of both."""


def fuse_pair(module: Module, producer: str, consumer: str, *, keep: bool = False) -> Module:
    """The module with a producer fused into a consumer that takes its value; either may be a fusion already.

    What else uses the producer keeps it or, if asked to `keep` it inside, takes it from the fusion. Two that take
    nothing of each other but read the same become a fusion of several results. HloError says why two instructions
    cannot be fused.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t)"
    >>> module = parse_module(text + ", dimensions={1} }")
    >>> [i.name for i in fuse_pair(module, "t", "b").entry.instructions]
    ['p', 'tanh_broadcast_fusion']
    """
    return fused_pair(module, producer, consumer, keep=keep).module


def fused_pair(module: Module, producer: str, consumer: str, *, keep: bool = False) -> Kept:
    """The module as `fuse_pair` has it, with the copies that keep operands until their last read.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT n = f32[9] negate(t) }"
    >>> fused_pair(parse_module(text), "t", "n").copies
    ()
    """
    check_rewritable(module)
    module = desugar(module)
    first, second = _pair(module, producer, consumer)
    graph = graph_of(first.computation, module.source.text)
    nodes = {node.instruction: node for node in graph.nodes}
    one, other = nodes[first], nodes[second]
    is_beside = one not in other.operands
    is_kept = is_beside or (keep and (len(one.users) > 1 or one is graph.root))
    refusals = Refusals(module, graph)
    if is_beside:
        refusals.check_beside(one, other)
    else:
        refusals.check_into(one, other, keep=is_kept)
    names = ModuleNames(module)
    if is_kept:
        fuse_beside(graph, one, other, names)
    else:
        fuse_nodes(graph, one, other, names)
    graph.sort_topologically()
    return in_place_kept(written(module, {first.computation: graph}), module)


def what_rule_says(module: Module, producer: str, consumer: str) -> Rule:
    """Which rule of the CPU compiler decides about two instructions of a computation.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t), dimensions={1} }"
    >>> what_rule_says(parse_module(text), "t", "b").name
    'expensive-reuse'
    """
    module = desugar(module)
    first, second = _pair(module, producer, consumer)
    if first not in second.operands:
        return by.SEVERAL_RESULTS
    graph = graph_of(first.computation)
    nodes = {node.instruction: node for node in graph.nodes}
    return FusionDecider(SHIPPED, graph.root).rule(nodes[first], nodes[second])


def fuse_nodes(graph: Graph, producer: Node, consumer: Node, names: ModuleNames) -> Node:
    """The fusion of two nodes, in place of the consumer."""
    is_output = FusionDecider(SHIPPED, None).rule(producer, consumer) is by.OUTPUT
    kind = "kOutput" if is_output else max(producer.kind, consumer.kind, key=_STRONGER.index)
    behind = list(graph.control_successors.get(producer, ()))
    fusion = _fusion_of(graph, producer, consumer, names)
    fusion.kind = kind or "kLoop"
    if producer.body is None:
        join(graph, fusion, producer, names)
    else:
        _merge(graph, fusion, producer, names)
    if producer not in graph.position:
        for waiting in behind:
            graph.add_control_dependencies(waiting, (fusion,))
    return fusion


def fuse_beside(graph: Graph, other: Node, into: Node, names: ModuleNames) -> Node:
    """A fusion in place of a node that gives the other's result too; `graph.sort_topologically` must follow."""
    kind = max(other.kind, into.kind, key=_STRONGER.index) or "kLoop"
    fusion = _fusion_of(graph, other, into, names)
    fusion.kind = kind
    make_together(graph, fusion, other, names)
    return fusion


def _fusion_of(graph: Graph, other: Node, node: Node, names: ModuleNames) -> Node:
    """The fusion that a node is, or one of it alone that is named as one with the other."""
    if node.body is not None:
        return node
    name = f"{(other if other.body is None else other.body.root).opcode}_{node.opcode}_fusion"
    return begin_fusion(graph, node, "kLoop", names, name=name, body_name="fused_computation")


def _merge(graph: Graph, fusion: Node, producer: Node, names: ModuleNames) -> None:
    """The operations of a fusion go into another, the last first."""
    body = producer.body
    assert body is not None
    outside = dict(zip(body.parameters, producer.operands, strict=False))
    order = [node for node in users_first(body) if node.opcode != "parameter"]
    for node in reversed(order):
        copy = Node(node.instruction, [outside[operand] for operand in node.operands], opcode=node.opcode)
        copy.name, copy.shape, copy.body, copy.kind = node.name, node.shape, node.body, node.kind
        outside[node] = copy
    result = outside[body.root]
    for position, operand in enumerate(fusion.operands):
        if operand is producer:
            fusion.replace_operand(position, result)
    for node in order:
        take_in(fusion, outside[node], names)
    for node in order:
        outside[node].detach()
    if not producer.users and producer is not graph.root:
        graph.add_control_dependencies(fusion, graph.control_predecessors.get(producer, ()))
        graph.remove(producer)


def _pair(module: Module, producer: str, consumer: str) -> tuple[Instruction, Instruction]:
    first, second = module.instruction(producer), module.instruction(consumer)
    if first.computation is not second.computation:
        where = f"{first.name} is in {first.computation.name}, {second.name} in {second.computation.name}"
        raise HloError(f"only what stands in one computation can be fused: {where}")
    if first is second:
        raise HloError(f"{first.name} is one instruction, and two are fused", hint="name a producer and a consumer")
    if second in first.operands:
        raise HloError(
            f"{first.name} takes the value of {second.name}, not the other way round",
            hint=f"{second.name},{first.name} are producer and consumer",
        )
    if first not in second.operands and not set(first.operands) & set(second.operands):
        raise HloError(
            f"{second.name} does not take the value of {first.name}, and they read nothing in common",
            hint=_takes(second),
        )
    return first, second


def _takes(consumer: Instruction) -> str | None:
    names = list(dict.fromkeys(operand.name for operand in consumer.operands))
    return f"it takes those of {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else None
