"""Removes unused instructions and computations, as the compiler does after multi-output fusion.

Mirrors xla/hlo/transforms/simplifiers/hlo_dce.cc.
"""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.fusion.mutable_graph import Graph
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.side_effects import Effects


def without_dead(graph: Graph, effects: Effects) -> None:
    """Removes the nodes without users and side effects.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = "p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] not(a)  ROOT c = s8[] negate(p)"
    >>> graph = graph_of(parse_module(f"ENTRY e {{ {text} }}").entry)
    >>> without_dead(graph, {})
    >>> list(graph.nodes)
    [<node parameter p>, <node negate c>]
    """
    for node in reversed(graph.sorted_nodes()):
        is_needed = (
            node.users or node is graph.root or node in graph.control_predecessors or node in graph.control_successors
        )
        if not is_needed and node.opcode != opcodes.PARAMETER and node.instruction not in effects:
            graph.remove(node)


def without_uncalled(module: Module, *, kept: frozenset[str] = frozenset()) -> Module:
    """Module without computations that are not reachable from the entry or from those named in `kept`.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("f { ROOT p = s8[] parameter(0) }  ENTRY e { ROOT q = s8[] parameter(0) }")
    >>> [computation.name for computation in without_uncalled(module).computations]
    ['e']
    """
    waiting = [module.entry, *(each for each in module.computations if each.name in kept)]
    called = set(waiting)
    while waiting:
        for instruction in waiting.pop().instructions:
            new = [each for each in instruction.called_computations if each not in called]
            called.update(new)
            waiting.extend(new)
    return replace(module, computations=tuple(each for each in module.computations if each in called))


def uncalled_names(module: Module) -> frozenset[str]:
    """Names of computations that no instruction calls, other than the entry.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("f { ROOT p = s8[] parameter(0) }  ENTRY e { ROOT q = s8[] parameter(0) }")
    >>> sorted(uncalled_names(module))
    ['f']
    """
    called = {each for instruction in module.instructions for each in instruction.called_computations}
    return frozenset(each.name for each in module.computations if each not in called and each is not module.entry)
