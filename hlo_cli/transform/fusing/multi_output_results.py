"""Adds results to multi-output fusions; their users use a get-tuple-element of the fusion.

Mirrors `FuseInstructionIntoMultiOutput` and `MergeFusionInstructionIntoMultiOutput` of xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Graph, Node, users_first
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import Shape, TupleShape
from hlo_cli.transform.fusing.merge import clone_into_fusion
from hlo_cli.transform.fusing.names import ModuleNames, name_of_clone


def make_multi_output(graph: Graph, fusion: Node, other: Node, names: ModuleNames) -> None:
    """Adds the results of `other` to those of `fusion`, which can use them; call `graph.sort_topologically` afterwards.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = '''f { a = s8[9] parameter(0)  ROOT b = s8[9] not(a) }  ENTRY e { p = s8[9] parameter(0)
    ... x = s8[9] fusion(p), kind=kLoop, calls=f  y = s8[9] negate(p)  ROOT r = (s8[9], s8[9]) tuple(x, y) }'''
    >>> module = parse_module(text)
    >>> graph = graph_of(module.entry)
    >>> nodes = {node.name: node for node in graph.nodes}
    >>> make_multi_output(graph, nodes["x"], nodes["y"], ModuleNames(module))
    >>> graph.sort_topologically()
    >>> print(nodes["x"].shape, [node.name for node in graph.nodes])
    (s8[9]{0}, s8[9]{0}) ['p', 'x', 'get-tuple-element', 'get-tuple-element.1', 'r']
    """
    before, successors = graph.control_predecessors.get(other, ()), list(graph.control_successors.get(other, ()))
    graph.add_control_dependencies(fusion, before)
    if other.body is None:
        _add_result(graph, fusion, other, names)
        graph.remove(other)
    else:
        _merge(graph, fusion, other, names)
    for successor in successors:
        graph.add_control_dependencies(successor, (fusion,))


def _add_result(graph: Graph, fusion: Node, producer: Node, names: ModuleNames) -> None:
    """Adds a clone of the producer as a result; the producer stays without users."""
    clone = clone_into_fusion(fusion, producer, names)
    if producer.users or producer is graph.root:
        _add_output(graph, fusion, clone, producer, names)


def _add_output(graph: Graph, fusion: Node, clone: Node, old: Node, names: ModuleNames) -> None:
    """Makes a fused operation a result of the fusion that replaces `old` in its users."""
    body = fusion.body
    assert body is not None
    root = body.root
    is_first = root.opcode != opcodes.TUPLE
    elements = [root, clone] if is_first else [*root.operands, clone]
    if not is_first:
        root.detach()
        del body.nodes[root]
    body.root = Node(fusion.instruction, elements, opcode=opcodes.TUPLE, name=names.instructions.new(opcodes.TUPLE))
    body.nodes[body.root] = None
    fusion.shape = body.root.shape = TupleShape(tuple(element.shape for element in elements))
    if is_first:
        fusion.aliasing = tuple(replace(a, output_index=(0, *a.output_index)) for a in fusion.aliasing)
        users = list(fusion.users)
        first = _element(graph, fusion, 0, root.shape, names)
        _redirect(graph, fusion, first, users)
    _redirect(graph, old, _element(graph, fusion, len(elements) - 1, clone.shape, names), list(old.users))


def _element(graph: Graph, fusion: Node, number: int, shape: Shape, names: ModuleNames) -> Node:
    name = names.instructions.new(opcodes.GET_TUPLE_ELEMENT)
    element = Node(fusion.instruction, (fusion,), opcode=opcodes.GET_TUPLE_ELEMENT, name=name)
    element.shape, element.number = shape, number
    graph.add(element)
    return element


def _redirect(graph: Graph, old: Node, new: Node, users: list[Node]) -> None:
    """Replaces `old` with `new` in these users and as root."""
    for user in users:
        for position, operand in enumerate(user.operands):
            if operand is old:
                user.replace_operand(position, new)
    if graph.root is old:
        graph.root = new


def _merge(graph: Graph, fusion: Node, merged: Node, names: ModuleNames) -> None:
    """Fuses the operations of one fusion into another, users first, with its results."""
    body = merged.body
    assert body is not None
    outside, copies = _copies_outside(body, merged.operands, names)
    results = set()
    if merged.has_several_results:
        for user in list(merged.users):
            result = outside[body.root.operands[user.element]]
            if user is graph.root or any(other is not fusion for other in user.users):
                results.add(result)
            _redirect(graph, user, result, list(user.users))
            _remove_element(graph, user, fusion)
    else:
        results.add(outside[body.root])
        _redirect(graph, merged, outside[body.root], list(merged.users))
    graph.remove(merged)
    for copy in reversed(copies):
        if copy in results:
            _add_result(graph, fusion, copy, names)
        elif copy in fusion.operands:
            clone_into_fusion(fusion, copy, names)
        copy.detach()


def _remove_element(graph: Graph, element: Node, fusion: Node) -> None:
    """Removes a get-tuple-element; its control successors depend on the fusion instead."""
    successors = list(graph.control_successors.get(element, ()))
    graph.remove(element)
    for successor in successors:
        graph.add_control_dependencies(successor, (fusion,))


def _copies_outside(body: FusionBody, operands: list[Node], names: ModuleNames) -> tuple[dict[Node, Node], list[Node]]:
    """Nodes outside a fusion for the nodes of its body, and those that are copies, operands before users."""
    outside = dict(zip(body.parameters, operands, strict=False))
    copies: list[Node] = []
    for node in reversed(users_first(body)):
        if node.opcode == opcodes.PARAMETER or (node is body.root and node.opcode == opcodes.TUPLE):
            continue
        name = names.instructions.new(name_of_clone(node.name))
        copy = Node(node.instruction, [outside[operand] for operand in node.operands], opcode=node.opcode, name=name)
        copy.shape, copy.body, copy.kind, copy.number = node.shape, node.body, node.kind, node.number
        outside[node] = copy
        copies.append(copy)
    return outside, copies
