"""Fusions of several results: one more goes inside, and what took it takes an element of the fusion's tuple.

Mirrors `FuseInstructionIntoMultiOutput` and `MergeFusionInstructionIntoMultiOutput` of xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.fusion.code_duplication import users_first
from hlo_cli.analysis.fusion.graph import FusionBody, Graph, Node
from hlo_cli.ir.shape import Shape, TupleShape
from hlo_cli.transform.fusing.merge import take_in
from hlo_cli.transform.fusing.names import ModuleNames, name_of_clone


def make_together(graph: Graph, fusion: Node, other: Node, names: ModuleNames) -> None:
    """Adds the results of `other` to those of `fusion`, which can use them; call `graph.sort_topologically` afterwards.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = '''f { a = s8[9] parameter(0)  ROOT b = s8[9] not(a) }  ENTRY e { p = s8[9] parameter(0)
    ... x = s8[9] fusion(p), kind=kLoop, calls=f  y = s8[9] negate(p)  ROOT r = (s8[9], s8[9]) tuple(x, y) }'''
    >>> module = parse_module(text)
    >>> graph = graph_of(module.entry)
    >>> nodes = {node.name: node for node in graph.nodes}
    >>> make_together(graph, nodes["x"], nodes["y"], ModuleNames(module))
    >>> graph.sort_topologically()
    >>> print(nodes["x"].shape, [node.name for node in graph.nodes])
    (s8[9]{0}, s8[9]{0}) ['p', 'x', 'get-tuple-element', 'get-tuple-element.1', 'r']
    """
    before, behind = graph.control_predecessors.get(other, ()), list(graph.control_successors.get(other, ()))
    graph.add_control_dependencies(fusion, before)
    if other.body is None:
        _add_result(graph, fusion, other, names)
        graph.remove(other)
    else:
        _merge(graph, fusion, other, names)
    for waiting in behind:
        graph.add_control_dependencies(waiting, (fusion,))


def _add_result(graph: Graph, fusion: Node, producer: Node, names: ModuleNames) -> None:
    """A clone of the producer goes inside; the producer stays, and nobody takes it any more."""
    clone = take_in(fusion, producer, names)
    if producer.users or producer is graph.root:
        _hand_out(graph, fusion, clone, producer, names)


def _hand_out(graph: Graph, fusion: Node, clone: Node, old: Node, names: ModuleNames) -> None:
    """What an operation inside gives is a result of the fusion, for all that takes the old node."""
    body = fusion.body
    assert body is not None
    root = body.root
    is_first = root.opcode != "tuple"
    elements = [root, clone] if is_first else [*root.operands, clone]
    if not is_first:
        root.detach()
        del body.nodes[root]
    body.root = Node(fusion.instruction, elements, opcode="tuple", name=names.instructions.new("tuple"))
    body.nodes[body.root] = None
    fusion.shape = body.root.shape = TupleShape(tuple(element.shape for element in elements))
    if is_first:
        fusion.aliasing = tuple(replace(a, output_index=(0, *a.output_index)) for a in fusion.aliasing)
        users = list(fusion.users)
        first = _element(graph, fusion, 0, root.shape, names)
        _hand_over(graph, fusion, first, users)
    _hand_over(graph, old, _element(graph, fusion, len(elements) - 1, clone.shape, names), list(old.users))


def _element(graph: Graph, fusion: Node, number: int, shape: Shape, names: ModuleNames) -> Node:
    name = names.instructions.new("get-tuple-element")
    element = Node(fusion.instruction, (fusion,), opcode="get-tuple-element", name=name)
    element.shape, element.number = shape, number
    graph.add(element)
    return element


def _hand_over(graph: Graph, old: Node, new: Node, users: list[Node]) -> None:
    """These users take another value in place of an old one; so does who asked for the computation's result."""
    for user in users:
        for position, operand in enumerate(user.operands):
            if operand is old:
                user.replace_operand(position, new)
    if graph.root is old:
        graph.root = new


def _merge(graph: Graph, fusion: Node, merged: Node, names: ModuleNames) -> None:
    """The operations of one fusion go into another, the last first, and with them its results."""
    body = merged.body
    assert body is not None
    outside, copies = _operations_outside(body, merged.operands, names)
    results = set()
    if merged.has_several_results:
        for user in list(merged.users):
            result = outside[body.root.operands[user.element]]
            if user is graph.root or any(other is not fusion for other in user.users):
                results.add(result)
            _hand_over(graph, user, result, list(user.users))
            _drop(graph, user, fusion)
    else:
        results.add(outside[body.root])
        _hand_over(graph, merged, outside[body.root], list(merged.users))
    graph.remove(merged)
    for copy in reversed(copies):
        if copy in results:
            _add_result(graph, fusion, copy, names)
        elif copy in fusion.operands:
            take_in(fusion, copy, names)
        copy.detach()


def _drop(graph: Graph, element: Node, fusion: Node) -> None:
    """Take out a get-tuple-element; what waited for it waits for the fusion."""
    behind = list(graph.control_successors.get(element, ()))
    graph.remove(element)
    for waiting in behind:
        graph.add_control_dependencies(waiting, (fusion,))


def _operations_outside(
    body: FusionBody, operands: list[Node], names: ModuleNames
) -> tuple[dict[Node, Node], list[Node]]:
    """What the nodes of a body are if it stands outside, and the copies among that, operands before users."""
    outside = dict(zip(body.parameters, operands, strict=False))
    copies: list[Node] = []
    for node in reversed(users_first(body)):
        if node.opcode == "parameter" or (node is body.root and node.opcode == "tuple"):
            continue
        name = names.instructions.new(name_of_clone(node.name))
        copy = Node(node.instruction, [outside[operand] for operand in node.operands], opcode=node.opcode, name=name)
        copy.shape, copy.body, copy.kind, copy.number = node.shape, node.body, node.kind, node.number
        outside[node] = copy
        copies.append(copy)
    return outside, copies
