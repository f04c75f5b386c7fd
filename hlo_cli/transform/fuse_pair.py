"""Fuses two instructions on request, whether or not a compiler would.

Mirrors `CreateFusion`, `FuseInstruction`, `MergeFusionInstruction`, and `FuseInstructionIntoMultiOutput` of
xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion import cpu_rules as by
from hlo_cli.analysis.fusion.cpu_rules import SHIPPED, FusionDecider, Rule
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node, graph_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.fusing.manual import FusionChecker
from hlo_cli.transform.fusing.merge import create_fusion, merge_fusion, merge_producer
from hlo_cli.transform.fusing.multi_output_results import make_multi_output
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.rebuild import rebuild
from hlo_cli.transform.in_place import RewrittenModule, fix_in_place_hazards
from hlo_cli.transform.rewritable import check_rewritable

_KIND_ORDER: Final = ("", "kLoop", "kInput", "kOutput")
"""Fusion kinds; the later one of two is the kind of their combination."""


def fuse_pair(module: Module, producer: str, consumer: str, *, keep: bool = False) -> Module:
    """Module with `producer` fused into `consumer`, a user of it; either can be a fusion.

    Other users keep the producer or, with `keep`, use it as another result of the fusion. Siblings that read the same
    operand become a multi-output fusion. HloError gives the reason if the two cannot be fused.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t)"
    >>> module = parse_module(text + ", dimensions={1} }")
    >>> [i.name for i in fuse_pair(module, "t", "b").entry.instructions]
    ['p', 'tanh_broadcast_fusion']
    """
    return fused_pair(module, producer, consumer, keep=keep).module


def fused_pair(module: Module, producer: str, consumer: str, *, keep: bool = False) -> RewrittenModule:
    """Module as by `fuse_pair`, with the copies that protect operands from in-place updates.

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
    are_siblings = one not in other.operands
    is_kept = are_siblings or (keep and (len(one.users) > 1 or one is graph.root))
    checker = FusionChecker(module, graph)
    if are_siblings:
        checker.check_siblings(one, other)
    else:
        checker.check_producer_consumer(one, other, keep=is_kept)
    names = ModuleNames(module)
    if is_kept:
        fuse_siblings(graph, one, other, names)
    else:
        fuse_nodes(graph, one, other, names)
    graph.sort_topologically()
    return fix_in_place_hazards(rebuild(module, {first.computation: graph}), module)


def deciding_rule(module: Module, producer: str, consumer: str) -> Rule:
    """Rule by which the CPU compiler decides on two instructions of a computation.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t), dimensions={1} }"
    >>> deciding_rule(parse_module(text), "t", "b").name
    'expensive-reuse'
    """
    module = desugar(module)
    first, second = _pair(module, producer, consumer)
    if first not in second.operands:
        return by.MULTI_OUTPUT_DISABLED
    graph = graph_of(first.computation)
    nodes = {node.instruction: node for node in graph.nodes}
    return FusionDecider(SHIPPED, graph.root).rule(nodes[first], nodes[second])


def fuse_nodes(graph: Graph, producer: Node, consumer: Node, names: ModuleNames) -> Node:
    """Fusion of two nodes, which replaces the consumer."""
    is_output = FusionDecider(SHIPPED, None).rule(producer, consumer) is by.OUTPUT_FUSION
    kind = "kOutput" if is_output else max(producer.kind, consumer.kind, key=_KIND_ORDER.index)
    successors = list(graph.control_successors.get(producer, ()))
    fusion = _fusion_of(graph, producer, consumer, names)
    fusion.kind = kind or "kLoop"
    if producer.body is None:
        merge_producer(graph, fusion, producer, names)
    else:
        merge_fusion(graph, fusion, producer, names)
    if producer not in graph.position:
        for successor in successors:
            graph.add_control_dependencies(successor, (fusion,))
    return fusion


def fuse_siblings(graph: Graph, other: Node, into: Node, names: ModuleNames) -> Node:
    """Multi-output fusion of two nodes that replaces `into`; call `graph.sort_topologically` afterwards."""
    kind = max(other.kind, into.kind, key=_KIND_ORDER.index) or "kLoop"
    fusion = _fusion_of(graph, other, into, names)
    fusion.kind = kind
    make_multi_output(graph, fusion, other, names)
    return fusion


def _fusion_of(graph: Graph, other: Node, node: Node, names: ModuleNames) -> Node:
    """Node itself if it is a fusion, else a new fusion of it, named after both."""
    if node.body is not None:
        return node
    name = f"{(other if other.body is None else other.body.root).opcode}_{node.opcode}_fusion"
    return create_fusion(graph, node, "kLoop", names, name=name, body_name="fused_computation")


def _pair(module: Module, producer: str, consumer: str) -> tuple[Instruction, Instruction]:
    first, second = module.instruction(producer), module.instruction(consumer)
    if first.computation is not second.computation:
        where = f"{first.name} is in {first.computation.name}, {second.name} in {second.computation.name}"
        raise HloError(f"both instructions must be in the same computation: {where}")
    if first is second:
        raise HloError(f"cannot fuse {first.name} with itself", hint="name a producer and one of its users")
    if second in first.operands:
        raise HloError(
            f"{first.name} uses {second.name}, not the reverse",
            hint=f"write --fuse {second.name},{first.name}",
        )
    if first not in second.operands and not set(first.operands) & set(second.operands):
        raise HloError(
            f"{second.name} does not use {first.name}, and they have no common operand",
            hint=_operands_hint(second),
        )
    return first, second


def _operands_hint(consumer: Instruction) -> str | None:
    names = list(dict.fromkeys(operand.name for operand in consumer.operands))
    return f"operands of {consumer.name}: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}" if names else None
