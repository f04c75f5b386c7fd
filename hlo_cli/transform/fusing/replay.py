"""Replay of the fusions of another run of priority fusion, as its dump lists them, without its estimates."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.analysis.fusion.gpu_emitters import LOOP
from hlo_cli.analysis.fusion.gpu_model import KernelModel
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import FusedStep
from hlo_cli.transform.fusing.merge import create_fusion, merge_fusion, merge_producer
from hlo_cli.transform.fusing.names import ModuleNames


class Replay:
    """Graphs of the module before the pass, in which steps are made one after another.

    `nodes` are those that are left, by the names that they have in the dump.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> from hlo_cli.analysis.hardware.chip_specs import gpu_device
    >>> module = parse_module("ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }")
    >>> replay = Replay([graph_of(module.entry)], KernelModel(gpu_device("h100")), ModuleNames(module))
    >>> replay.fuse(FusedStep("fusion", "a", "b"))
    <node fusion fusion>
    >>> sorted(replay.nodes)
    ['fusion', 'p']
    """

    __slots__ = ("_homes", "_model", "_names", "nodes")

    def __init__(self, graphs: Iterable[Graph], model: KernelModel, names: ModuleNames) -> None:
        self._model = model
        self._names = names
        self._homes = {node: graph for graph in graphs for node in graph.nodes}
        self.nodes = {node.name: node for node in self._homes}

    def graph_with(self, node: Node) -> Graph:
        """The graph that a node is in."""
        return self._homes[node]

    def fuse(self, step: FusedStep) -> Node | None:
        """Fuses a producer into a consumer; None if the graphs do not have them as such."""
        producer, consumer = self.nodes.get(step.producer), self.nodes.get(step.consumer)
        if producer is None or consumer is None or producer not in consumer.operands:
            return None
        graph, names = self._homes[consumer], self._names
        kind = "kLoop" if self._model.merged_analysis(producer, consumer).emitter == LOOP else "kInput"
        fusion = consumer
        if consumer.body is None:
            fusion = create_fusion(graph, consumer, kind, names, name=opcodes.FUSION, body_name="fused_computation")
            self._homes[fusion] = graph
        if fusion.kind != "kCustom":
            fusion.kind = kind
        merge = merge_producer if producer.body is None else merge_fusion
        merge(graph, fusion, producer, names)
        del self.nodes[step.consumer]
        fusion.name = step.fusion
        self.nodes[step.fusion] = fusion
        if producer not in graph.position:
            self.nodes.pop(step.producer, None)
        self._model.forget(fusion)
        self._model.forget(producer)
        return fusion
