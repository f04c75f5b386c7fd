"""Creates and extends fusions, with XLA's names and operand order.

Mirrors `CloneAndAppendInstructionIntoCalledComputation` and `AddCallOperand` of xla/hlo/ir/hlo_instructions.cc and
`RemoveParameter` of xla/hlo/ir/hlo_computation.cc.
"""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Graph, Node, users_first
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.transform.fusing.names import ModuleNames


def create_fusion(graph: Graph, root: Node, kind: str, names: ModuleNames, *, name: str, body_name: str) -> Node:
    """Creates a fusion of one operation, which it replaces."""
    fusion = Node(
        root.instruction, dict.fromkeys(root.operands), opcode=opcodes.FUSION, name=names.instructions.new(name)
    )
    fusion.shape, fusion.kind = root.shape, kind
    clone = _clone(root, names)
    fusion.body = FusionBody(clone, {clone: None}, name=names.computations.new(body_name))
    fusion.body.parameters = [_parameter(fusion, number, names) for number in range(len(fusion.operands))]
    _connect(clone, root.operands, fusion, names)
    graph.replace(fusion, root)
    return fusion


def merge_producer(graph: Graph, fusion: Node, producer: Node, names: ModuleNames) -> Node:
    """Fuses an operand into a fusion and returns its clone.

    The producer is removed from the graph if it has no other users; the fusion takes over its control predecessors.
    """
    clone = clone_into_fusion(fusion, producer, names)
    if not producer.users and producer is not graph.root:
        graph.add_control_dependencies(fusion, graph.control_predecessors.get(producer, ()))
        graph.remove(producer)
    return clone


def merge_fusion(graph: Graph, fusion: Node, producer: Node, names: ModuleNames) -> None:
    """Fuses the operations of a fusion, an operand of another, into the other one, users first.

    The producer is removed from the graph if it has no other users.
    """
    body = producer.body
    assert body is not None
    outside = dict(zip(body.parameters, producer.operands, strict=False))
    order = [node for node in users_first(body) if node.opcode != opcodes.PARAMETER]
    for node in reversed(order):
        copy = Node(node.instruction, [outside[operand] for operand in node.operands], opcode=node.opcode)
        copy.name, copy.shape, copy.body, copy.kind = node.name, node.shape, node.body, node.kind
        outside[node] = copy
    result = outside[body.root]
    for position, operand in enumerate(fusion.operands):
        if operand is producer:
            fusion.replace_operand(position, result)
    for node in order:
        clone_into_fusion(fusion, outside[node], names)
    for node in order:
        outside[node].detach()
    if not producer.users and producer is not graph.root:
        graph.add_control_dependencies(fusion, graph.control_predecessors.get(producer, ()))
        graph.remove(producer)


def clone_into_fusion(fusion: Node, producer: Node, names: ModuleNames) -> Node:
    """Adds a clone of `producer` to a fusion, and replaces the operand if it is one; the producer itself stays."""
    body = fusion.body
    assert body is not None
    clone = _clone(producer, names)
    body.nodes[clone] = None
    if producer in fusion.operands:
        number = fusion.operands.index(producer)
        parameter = body.parameters[number]
        parameter.replace_by(clone)
        body.root = clone if body.root is parameter else body.root
        _remove_operand(fusion, number, names)
    _connect(clone, producer.operands, fusion, names)
    body.computation = None
    return clone


def _clone(node: Node, names: ModuleNames) -> Node:
    """Clone of an operation without operands."""
    clone = Node(node.instruction, (), opcode=node.opcode, name=names.instructions.new(node.name))
    clone.body, clone.kind, clone.shape, clone.aliasing = node.body, node.kind, node.shape, node.aliasing
    return clone


def _connect(clone: Node, operands: list[Node], fusion: Node, names: ModuleNames) -> None:
    """Gives a clone parameters as operands; new operands of the fusion are appended."""
    body = fusion.body
    assert body is not None
    for operand in operands:
        if operand not in fusion.operands:
            fusion.operands.append(operand)
            operand.users.add(fusion)
            body.parameters.append(_parameter(fusion, len(fusion.operands) - 1, names))
        parameter = body.parameters[fusion.operands.index(operand)]
        clone.operands.append(parameter)
        parameter.users.add(clone)


def _parameter(fusion: Node, number: int, names: ModuleNames) -> Node:
    assert fusion.body is not None
    operand = fusion.operands[number]
    parameter = Node(operand.instruction, (), opcode=opcodes.PARAMETER, name=names.instructions.new(f"param_{number}"))
    parameter.shape, parameter.number = operand.shape, number
    fusion.body.nodes[parameter] = None
    return parameter


def _renumbered(number: int, alias: OutputOperandAlias) -> OutputOperandAlias:
    """Alias after the operand `number` is removed."""
    assert alias.operand_number != number
    return replace(alias, operand_number=alias.operand_number - (alias.operand_number > number))


def _remove_operand(fusion: Node, number: int, names: ModuleNames) -> None:
    """Removes an operand; later parameters become new ones with decremented numbers and names."""
    body = fusion.body
    assert body is not None
    gone = fusion.operands.pop(number)
    fusion.aliasing = tuple(_renumbered(number, alias) for alias in fusion.aliasing)
    if gone not in fusion.operands:
        gone.users.remove(fusion)
    del body.nodes[body.parameters.pop(number)]
    for place in range(number, len(body.parameters)):
        parameter, operand = body.parameters[place], fusion.operands[place]
        parameter.instruction, parameter.shape, parameter.number = operand.instruction, operand.shape, place
        parameter.name = names.instructions.new(f"param_{place}")
        del body.nodes[parameter]
        body.nodes[parameter] = None
