"""The order of users that XLA:GPU's priority fusion left in a module that it fused, which no dump has.

The fusions are taken apart and made again: the users of each value are then in the order in which XLA has them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.gpu_model import KernelModel
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node, Users, users_first
from hlo_cli.ir import opcodes
from hlo_cli.transform.fusing.common_subexpressions import CommonSubexpressions
from hlo_cli.transform.fusing.gpu_order import identities_of
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.priority_fusion import PriorityFusion

_CLONE: Final = re.compile(r"(.*\.\d{1,18})\.\d{1,18}\Z", re.DOTALL)
"""Name of a clone in a fusion, and the name that it was made from."""


class Unfused(NamedTuple):
    """A graph without fusions, and for each node of the fused graph the one that computes its result."""

    graph: Graph
    origins: dict[Node, Node]


def restore_users(graph: Graph, model: KernelModel, names: ModuleNames) -> None:
    """Puts the users of each node in the order that priority fusion leaves, as far as it makes the same fusions again.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> from hlo_cli.analysis.hardware.chip_specs import gpu_device
    >>> text = '''f { a = f32[9] parameter(0)  n = f32[9] negate(a)  ROOT e = f32[9] exponential(n) }
    ... ENTRY e { p = f32[9] parameter(0)  c = f32[9] custom-call(p), custom_call_target="c"
    ... x = f32[9] fusion(p), kind=kLoop, calls=f  ROOT r = (f32[9], f32[9]) tuple(c, x) }'''
    >>> module = parse_module(text)
    >>> graph = graph_of(module.entry)
    >>> restore_users(graph, KernelModel(gpu_device("h100")), ModuleNames(module))
    >>> [user.name for user in next(graph.nodes).users]
    ['c', 'x']
    """
    unfused = unfuse(graph)
    fusion = PriorityFusion(unfused.graph, model, names, identities_of(unfused.graph)[0])
    fusion.run()
    fused = {node.instruction: node for node in unfused.graph.nodes}  # a fusion has the instruction of its result
    for node in graph.nodes:
        again = fused.get(unfused.origins[node].instruction)
        if again is None or len(node.users) < 2:
            continue
        places = {user.instruction: place for place, user in enumerate(again.users)}
        last = len(places)
        users = sorted(node.users, key=lambda user: places.get(unfused.origins[user].instruction, last))
        node.users = Users()
        for user in users:
            node.users.add(user)


def unfuse(graph: Graph) -> Unfused:
    """Takes the fusions of a graph apart; operations that several fusions repeat become one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = '''f { a = s8[9] parameter(0)  n = s8[9] not(a)  ROOT e = s8[9] negate(n) }
    ... g { a = s8[9] parameter(0)  n = s8[9] not(a)  ROOT e = s8[9] abs(n) }
    ... ENTRY e { p = s8[9] parameter(0)  x = s8[9] fusion(p), kind=kLoop, calls=f
    ... y = s8[9] fusion(p), kind=kLoop, calls=g  ROOT r = s8[9] add(x, y) }'''
    >>> [node.opcode for node in unfuse(graph_of(parse_module(text).entry)).graph.nodes]
    ['parameter', 'not', 'negate', 'abs', 'add']
    """
    equal = CommonSubexpressions()
    known: dict[Hashable, Node] = {}
    origins: dict[Node, Node] = {}
    for node in graph.sorted_nodes():
        body = node.body
        if body is None or node.kind == "kCustom" or node.has_several_results:
            origins[node] = _copy(node, [origins[operand] for operand in node.operands], node.name)
            continue
        inside = dict(zip(body.parameters, (origins[operand] for operand in node.operands), strict=True))
        for each in reversed(users_first(body)):
            if each.opcode == opcodes.PARAMETER:
                continue
            name = _name_before(each.name)
            copy = _copy(each, [inside[operand] for operand in each.operands], name)
            found = known.setdefault((name.rpartition(".")[0], equal.key(copy)), copy)
            if found is not copy:
                copy.detach()
            inside[each] = found
        origins[node] = inside[body.root]
    return Unfused(
        _graph_of(graph, origins, {**dict.fromkeys(origins.values()), **dict.fromkeys(known.values())}), origins
    )


def _copy(node: Node, operands: list[Node], name: str) -> Node:
    copy = Node(node.instruction, operands, opcode=node.opcode, name=name)
    copy.shape, copy.body, copy.kind = node.shape, node.body, node.kind
    copy.number, copy.aliasing = node.number, node.aliasing
    return copy


def _name_before(name: str) -> str:
    """Name that an operation had before it was cloned into a fusion, as XLA counts."""
    found = _CLONE.match(name)
    return f"{found[1]}.0" if found else name


def _graph_of(graph: Graph, origins: dict[Node, Node], all_nodes: Iterable[Node]) -> Graph:
    """Graph of the nodes that compute some others, in XLA's post-order, with users in the same order."""
    assert graph.root is not None
    before = {
        origins[node]: [origins[other] for other in others] for node, others in graph.control_predecessors.items()
    }
    unfused = Graph(graph.computation, [*all_nodes], origins[graph.root], {}, before, graph.text)
    order = unfused.sorted_nodes()
    unfused.order = [*order]
    unfused.position = {node: place for place, node in enumerate(order)}
    for node in order:
        node.users = Users()
    for node in order:
        for operand in node.operands:
            operand.users.add(node)
    return unfused
