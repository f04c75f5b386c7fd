"""Graph in which computations with a single caller are inlined into it.

xla/hlo/tools/hlo_diff/graph/hlo_gumgraph.h inlines the same computations before it matches two modules.
"""

from __future__ import annotations

from copy import copy

from hlo_cli.analysis.matching.graph import Graph, Node, Unit
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction


def flattened(graph: Graph) -> Graph:
    """Copy of a graph with edges from value to value across fusions and calls.

    The fusion, the parameters of its computation, and the elements of its result tuple only forward a value.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = '''f { a = s8[] parameter(0)  ROOT n = s8[] not(a) }
    ... ENTRY e { p = s8[] parameter(0)  ROOT r = s8[] fusion(p), kind=kLoop, calls=f }'''
    >>> flat = flattened(graph_of(parse_module("HloModule m " + text), Keys()))
    >>> flat.value, flat.operands[1]
    ([2, 1, 2, 1], (2,))
    """
    flat = copy(graph)
    flat.unlink()
    for computation in graph.order:
        if computation not in flat.bodies:
            unit = Unit(computation)
            _add(flat, computation, unit)
            flat.finish(unit)
    flat.comparable = flat.expression
    return flat


def _add(graph: Graph, computation: Computation, unit: Unit) -> None:
    """Links the nodes of a computation and of all computations inlined in it."""
    first, value, bodies = graph.first_nodes[computation], graph.value, graph.bodies
    if (caller := bodies.get(computation)) is not None:
        graph.unit_of[computation] = unit
        for parameter, argument in zip(computation.parameters, caller.operands, strict=True):
            value[first + parameter.index] = value[graph.node(argument)]
    for instruction in computation.instructions:
        node = first + instruction.index
        body = next((c for c in instruction.called_computations if c in bodies), None)
        if body is not None:
            _add(graph, body, unit)
            assert body.root is not None
            value[node] = value[graph.node(body.root)]
        elif instruction.opcode == opcodes.GET_TUPLE_ELEMENT and instruction.operands:
            value[node] = _element(graph, instruction, node)
        if value[node] == node:
            unit.nodes.append(node)
            graph.link(node, [value[first + operand.index] for operand in instruction.operands])
        else:
            graph.expression[node] = graph.expression[value[node]]


def _element(graph: Graph, instruction: Instruction, node: Node) -> Node:
    """Node of a tuple element of an inlined computation; `node` itself for elements of other tuples."""
    operand = graph.node(instruction.operands[0])
    made = graph.value[operand]
    if made == operand or graph.nodes[made].opcode != opcodes.TUPLE:
        return node
    elements, index = graph.operands[made], graph.tuple_index[node]
    return elements[index] if 0 <= index < len(elements) else node
