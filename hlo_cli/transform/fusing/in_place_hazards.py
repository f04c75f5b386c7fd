"""Detects values that a scheduled module overwrites in place, and must not be read later.

No counterpart in XLA, which fuses before buffer assignment.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.analysis.fusion.mutable_graph import Graph, Node
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.buffer_uses import buffer_uses


class InPlaceHazards:
    """Positions at which buffers of a scheduled module are overwritten; none if the module is not scheduled.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] copy(a)  n = f32[9] negate(b)  u = f32[2] constant({1, 2})
    ... d = f32[9] dynamic-update-slice(b, u, i)  ROOT r = f32[9] add(n, d) }'''
    >>> module = parse_module(text)
    >>> graph = graph_of(module.entry)
    >>> nodes = {node.name: node for node in graph.nodes}
    >>> InPlaceHazards(module).is_between(graph, nodes["n"], nodes["r"])
    True
    """

    __slots__ = ("_buffers_read", "_writes")

    def __init__(self, module: Module) -> None:
        self._buffers_read: dict[Instruction, set[int]] = {}
        self._writes: dict[Computation, dict[int, list[int]]] = {}
        if not module.is_scheduled:
            return
        uses = buffer_uses(module)
        if not uses.aliases.members:
            return
        for run in uses.runs:
            places: dict[int, list[int]] = {}
            for instruction in run.computation.instructions:
                self._buffers_read[instruction] = uses.buffers_read(instruction) & uses.aliases.members.keys()
                for buffer in uses.buffers_written(instruction):
                    places.setdefault(buffer, []).append(instruction.index)
            self._writes[run.computation] = places

    def is_between(self, graph: Graph, producer: Node, consumer: Node) -> bool:
        """Whether an operand of the producer is overwritten before the consumer runs."""
        places = self._writes.get(graph.computation)
        if not places:
            return False
        first, last = producer.instruction.index, consumer.instruction.index
        return any(first < place < last for buffer in self._read(producer) for place in _of(places, buffer))

    def has_no_writes(self, graph: Graph, one: Node, other: Node) -> bool:
        """Whether nothing is overwritten between the two nodes, so that all nodes between them can move."""
        places = self._writes.get(graph.computation)
        if not places:
            return True
        first, last = sorted((graph.position[one], graph.position[other]))
        return not any(first <= place <= last for written in places.values() for place in written)

    def _read(self, node: Node) -> set[int]:
        return self._buffers_read.get(node.instruction, set())


def _of(places: dict[int, list[int]], buffer: int) -> Iterable[int]:
    return places.get(buffer, ())
