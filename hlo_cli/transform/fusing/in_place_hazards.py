"""Values that are overwritten before they could be read: what forbids reading them later in a schedule.

Mirrors nothing of XLA's, which fuses before it decides what shares memory; what is scheduled has decided that.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.analysis.fusion.graph import Graph, Node
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.buffer_uses import buffer_uses


class Overwriting:
    """Where the buffers of a scheduled module are overwritten; nothing is known to be where there is no schedule.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] copy(a)  n = f32[9] negate(b)  u = f32[2] constant({1, 2})
    ... d = f32[9] dynamic-update-slice(b, u, i)  ROOT r = f32[9] add(n, d) }'''
    >>> module = parse_module(text)
    >>> graph = graph_of(module.entry)
    >>> nodes = {node.name: node for node in graph.nodes}
    >>> Overwriting(module).comes_between(graph, nodes["n"], nodes["r"])
    True
    """

    __slots__ = ("_taken", "_written")

    def __init__(self, module: Module) -> None:
        self._taken: dict[Instruction, set[int]] = {}
        self._written: dict[Computation, dict[int, list[int]]] = {}
        if not module.is_scheduled:
            return
        uses = buffer_uses(module)
        if not uses.aliases.members:
            return
        for run in uses.runs:
            places: dict[int, list[int]] = {}
            for instruction in run.computation.instructions:
                self._taken[instruction] = uses.taken(instruction) & uses.aliases.members.keys()
                for buffer in uses.written(instruction):
                    places.setdefault(buffer, []).append(instruction.index)
            self._written[run.computation] = places

    def comes_between(self, graph: Graph, producer: Node, consumer: Node) -> bool:
        """Whether what the producer reads is overwritten before the consumer runs."""
        places = self._written.get(graph.computation)
        if not places:
            return False
        first, last = producer.instruction.index, consumer.instruction.index
        return any(first < place < last for buffer in self._read(producer) for place in _of(places, buffer))

    def is_quiet(self, graph: Graph, one: Node, other: Node) -> bool:
        """Whether nothing is overwritten from one of the two to the other, so that all between them may move."""
        places = self._written.get(graph.computation)
        if not places:
            return True
        first, last = sorted((graph.position[one], graph.position[other]))
        return not any(first <= place <= last for written in places.values() for place in written)

    def _read(self, node: Node) -> set[int]:
        return self._taken.get(node.instruction, set())


def _of(places: dict[int, list[int]], buffer: int) -> Iterable[int]:
    return places.get(buffer, ())
