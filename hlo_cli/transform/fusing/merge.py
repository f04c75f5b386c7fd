"""Fusions made and enlarged, node by node, with the names and the order of operands that XLA gives.

Mirrors `CloneAndAppendInstructionIntoCalledComputation` and `AddCallOperand` of xla/hlo/ir/hlo_instructions.cc and
`RemoveParameter` of xla/hlo/ir/hlo_computation.cc.
"""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.fusion.graph import FusionBody, Graph, Node
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.transform.fusing.names import ModuleNames


def begin_fusion(graph: Graph, root: Node, kind: str, names: ModuleNames, *, name: str, body_name: str) -> Node:
    """A fusion of one operation, in its place."""
    fusion = Node(root.instruction, dict.fromkeys(root.operands), opcode="fusion", name=names.instructions.new(name))
    fusion.shape, fusion.kind = root.shape, kind
    clone = _clone(root, names)
    fusion.body = FusionBody(clone, {clone: None}, name=names.computations.new(body_name))
    fusion.body.parameters = [_parameter(fusion, number, names) for number in range(len(fusion.operands))]
    _connect(clone, root.operands, fusion, names)
    graph.replace(fusion, root)
    return fusion


def join(graph: Graph, fusion: Node, producer: Node, names: ModuleNames) -> Node:
    """An operand of a fusion goes inside, its own operands become the fusion's; what comes back is its clone.

    The producer leaves the graph if nobody else uses it; what it waited for, the fusion waits for.
    """
    clone = take_in(fusion, producer, names)
    if not producer.users and producer is not graph.root:
        graph.add_control_dependencies(fusion, graph.control_predecessors.get(producer, ()))
        graph.remove(producer)
    return clone


def take_in(fusion: Node, producer: Node, names: ModuleNames) -> Node:
    """A clone goes inside of a fusion, for the operand if it is one; the producer stays where it is."""
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
    """The operation without operands."""
    clone = Node(node.instruction, (), opcode=node.opcode, name=names.instructions.new(node.name))
    clone.body, clone.kind, clone.shape, clone.aliasing = node.body, node.kind, node.shape, node.aliasing
    return clone


def _connect(clone: Node, operands: list[Node], fusion: Node, names: ModuleNames) -> None:
    """Give a clone parameters in place of its operands; those that the fusion does not take yet stand last."""
    body = fusion.body
    assert body is not None
    numbers = {operand: number for number, operand in reversed(list(enumerate(fusion.operands)))}
    for operand in operands:
        if operand not in numbers:
            numbers[operand] = len(fusion.operands)
            fusion.operands.append(operand)
            operand.users.add(fusion)
            body.parameters.append(_parameter(fusion, numbers[operand], names))
        parameter = body.parameters[numbers[operand]]
        clone.operands.append(parameter)
        parameter.users.add(clone)


def _parameter(fusion: Node, number: int, names: ModuleNames) -> Node:
    assert fusion.body is not None
    operand = fusion.operands[number]
    parameter = Node(operand.instruction, (), opcode="parameter", name=names.instructions.new(f"param_{number}"))
    parameter.shape, parameter.number = operand.shape, number
    fusion.body.nodes[parameter] = None
    return parameter


def _behind(number: int, alias: OutputOperandAlias) -> OutputOperandAlias:
    """What is said of results and operands when the operand of this number is gone."""
    assert alias.operand_number != number
    return replace(alias, operand_number=alias.operand_number - (alias.operand_number > number))


def _remove_operand(fusion: Node, number: int, names: ModuleNames) -> None:
    """Take an operand away; the parameters behind it are made anew with the number before."""
    body = fusion.body
    assert body is not None
    gone = fusion.operands.pop(number)
    fusion.aliasing = tuple(_behind(number, alias) for alias in fusion.aliasing)
    if gone not in fusion.operands:
        gone.users.remove(fusion)
    del body.nodes[body.parameters.pop(number)]
    for place in range(number, len(body.parameters)):
        old = body.parameters[place]
        del body.nodes[old]
        body.parameters[place] = _parameter(fusion, place, names)
        old.replace_by(body.parameters[place])
