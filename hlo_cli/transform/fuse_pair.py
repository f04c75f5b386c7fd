"""Two neighbours fused by hand, whether or not a compiler would.

Mirrors `CreateFusion`, `FuseInstruction` and `MergeFusionInstruction` of xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion import rules as by
from hlo_cli.analysis.fusion.decide import Decider, is_loop
from hlo_cli.analysis.fusion.duplication import users_first
from hlo_cli.analysis.fusion.elements import is_fusible
from hlo_cli.analysis.fusion.graph import Graph, Node, fusible_computations, graph_of
from hlo_cli.analysis.fusion.rules import SHIPPED, Rule
from hlo_cli.analysis.target import target_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.fusing.joining import begin_fusion, join, take_in
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.overwriting import Overwriting
from hlo_cli.transform.fusing.written import written

_FORBIDDEN: Final = frozenset((by.LIBRARY, by.IN_PLACE, by.IN_PLACE_TWICE))
"""What no backend could run, or would compute something else; the other rules are about speed."""
_NO_LOOPS: Final = frozenset((by.NOT_A_LOOP, by.NO_LOOP_FUSION))


def fuse_pair(module: Module, producer: str, consumer: str) -> Module:
    """The module with a producer fused into a consumer that takes its value; either may be a fusion already.

    What else uses the producer keeps it. HloError says why two instructions cannot be fused.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t)"
    >>> module = parse_module(text + ", dimensions={1} }")
    >>> [i.name for i in fuse_pair(module, "t", "b").entry.instructions]
    ['p', 'tanh_broadcast_fusion']
    """
    module = desugar(module)
    first, second = _pair(module, producer, consumer)
    graph = graph_of(first.computation)
    nodes = {node.instruction: node for node in graph.nodes}
    _check(module, graph, nodes[first], nodes[second])
    fuse_nodes(graph, nodes[first], nodes[second], ModuleNames(module))
    return written(module, {first.computation: graph})


def what_rule_says(module: Module, producer: str, consumer: str) -> Rule:
    """Which rule of the CPU compiler decides about two instructions of a computation.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t), dimensions={1} }"
    >>> what_rule_says(parse_module(text), "t", "b").name
    'expensive-reuse'
    """
    module = desugar(module)
    first, second = _pair(module, producer, consumer)
    graph = graph_of(first.computation)
    nodes = {node.instruction: node for node in graph.nodes}
    return Decider(SHIPPED, graph.root).rule(nodes[first], nodes[second])


def fuse_nodes(graph: Graph, producer: Node, consumer: Node, names: ModuleNames) -> Node:
    """The fusion of two nodes, in place of the consumer."""
    inner = producer if producer.body is None else producer.body.root
    fusion = consumer
    if consumer.body is None:
        kind = producer.kind or "kLoop"
        name = f"{inner.opcode}_{consumer.opcode}_fusion"
        fusion = begin_fusion(graph, consumer, kind, names, name=name, body_name="fused_computation")
    if producer.body is None:
        join(graph, fusion, producer, names)
    else:
        _merge(graph, fusion, producer, names)
    return fusion


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
        graph.wait(fusion, graph.before.get(producer, ()))
        graph.remove(producer)


def _pair(module: Module, producer: str, consumer: str) -> tuple[Instruction, Instruction]:
    first, second = module.instruction(producer), module.instruction(consumer)
    if first.computation is not second.computation:
        where = f"{first.name} is in {first.computation.name}, {second.name} in {second.computation.name}"
        raise HloError(f"only what stands in one computation can be fused: {where}")
    if first in second.operands:
        return first, second
    if second in first.operands:
        raise HloError(
            f"{first.name} takes the value of {second.name}, not the other way round",
            hint=f"{second.name},{first.name} are producer and consumer",
        )
    raise HloError(f"{second.name} does not take the value of {first.name}", hint=_takes(second))


def _takes(consumer: Instruction) -> str | None:
    names = list(dict.fromkeys(operand.name for operand in consumer.operands))
    return f"it takes those of {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else None


def _check(module: Module, graph: Graph, producer: Node, consumer: Node) -> None:
    """HloError if the two would be no kernel that computes the same."""
    if graph.computation not in set(fusible_computations(module)):
        raise HloError(f"{graph.computation.name} is applied or fused as it stands", hint="fuse what calls it")
    for node, rule in ((producer, by.NOT_FUSIBLE), (consumer, by.CONSUMER_NOT_FUSIBLE)):
        if not is_fusible(node) or node.opcode in ("tuple", "get-tuple-element", "after-all"):
            raise _refusal(rule, producer, consumer)
    if producer.kind == "kCustom" or (producer.body is not None and producer.body.root.opcode == "tuple"):
        raise HloError(f"{producer.name} is {_what(producer)}, and cannot go into another fusion")
    rule = Decider(SHIPPED, None).rule(producer, consumer)
    is_cpu = target_of(module) not in ("tpu", "gpu")
    if producer.body is not None and is_cpu and not all(map(is_loop, producer.body.operations)):
        rule = by.NOT_A_LOOP
    if rule in _FORBIDDEN or (rule in _NO_LOOPS and is_cpu and not _is_loops(producer, consumer)):
        raise _refusal(rule, producer, consumer)
    if Overwriting(module).comes_between(graph, producer, consumer):
        raise _refusal(by.OVERWRITTEN, producer, consumer)


def _is_loops(producer: Node, consumer: Node) -> bool:
    """Whether both can be computed element by element after all: a fusion of loops is a loop."""
    return all(
        is_loop(node) or (node.body is not None and node.kind == "kLoop" and all(map(is_loop, node.body.operations)))
        for node in (producer, consumer)
    )


def _refusal(rule: Rule, producer: Node, consumer: Node) -> HloError:
    return HloError(
        f"{producer.name} cannot be fused into {consumer.name}", hint=rule.about(producer.name, consumer.name)
    )


def _what(fusion: Node) -> str:
    return "a call of a library" if fusion.kind == "kCustom" else "a fusion of several results"
