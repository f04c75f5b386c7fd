"""Copies a graph, so that a pass can be tried on it."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Graph, Node, Users


def copy_graph(graph: Graph) -> Graph:
    """Copies a graph with the bodies of its fusions and the order of users.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> graph = graph_of(parse_module("ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }").entry)
    >>> copy = copy_graph(graph)
    >>> copy.root, copy.root is graph.root, [user.name for user in next(copy.nodes).users]
    (<node not n>, False, ['n'])
    """
    copies = _copies(graph.nodes)
    before = {copies[node]: [copies[other] for other in others] for node, others in graph.control_predecessors.items()}
    order: list[Node | None] = list(copies.values())
    root = None if graph.root is None else copies[graph.root]
    position = {node: place for place, node in enumerate(copies.values())}
    return Graph(graph.computation, order, root, position, before, graph.text)


def _copies(nodes: Iterable[Node]) -> dict[Node, Node]:
    """Copies of nodes that have only each other as operands and users."""
    copies: dict[Node, Node] = {}
    for node in nodes:
        copies[node] = copy = Node(node.instruction, (), opcode=node.opcode, name=node.name)
        copy.shape, copy.kind, copy.number, copy.aliasing = node.shape, node.kind, node.number, node.aliasing
        if node.body is not None:
            copy.body = _copy_body(node.body)
    for node, copy in copies.items():
        copy.operands = [copies[operand] for operand in node.operands]
        copy.users = Users()
        for user in node.users:
            copy.users.add(copies[user])
    return copies


def _copy_body(body: FusionBody) -> FusionBody:
    copies = _copies(body.nodes)
    return FusionBody(
        copies[body.root],
        dict.fromkeys(copies.values()),
        [copies[parameter] for parameter in body.parameters],
        body.computation,
        body.name,
    )
