"""The fusion passes of XLA:GPU on the graphs of a module, and which of the fusions are certain.

Mirrors xla/service/gpu/fusion_pipeline.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.fusion.gpu_model import KernelModel
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node, graph_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusing.common_subexpressions import CommonSubexpressions
from hlo_cli.transform.fusing.copy_graph import copy_graph
from hlo_cli.transform.fusing.dead_code import without_dead
from hlo_cli.transform.fusing.fusion_history import restore_users
from hlo_cli.transform.fusing.gpu_certainty import identity_orders, uncertain_fusions, with_other_users
from hlo_cli.transform.fusing.gpu_multi_output_fusion import GpuMultiOutputFusion
from hlo_cli.transform.fusing.gpu_order import identities_of
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.priority_fusion import PriorityFusion
from hlo_cli.transform.scheduling.side_effects import effects_of

_MAX_INSTRUCTIONS: Final = 1000
"""Largest computation in which passes are run again. In larger ones, all that was chosen by an order is a tie."""


class GpuPasses:
    """Fusion passes over the graphs of a module; `names` are those of the module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.chip_specs import gpu_device
    >>> text = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> module = parse_module(text)
    >>> graph = graph_of(module.entry)
    >>> passes = GpuPasses(module, KernelModel(gpu_device("h100")), is_priority=True, is_multi_output=True)
    >>> [producer.name for _, producer, _ in passes.fuse_by_priority(graph)], graph.root, passes.ties(graph)
    (['n'], <node fusion fusion>, set())
    """

    __slots__ = (
        *(
            "_before",
            "_effects",
            "_equal",
            "_is_multi_output",
            "_is_priority",
            "_merged",
            "_model",
            "_module",
            "_names",
        ),
        *("_scratch_names", "_tied"),
    )

    def __init__(self, module: Module, model: KernelModel, *, is_priority: bool, is_multi_output: bool) -> None:
        self._module = module
        self._model = model
        self._is_priority = is_priority
        self._is_multi_output = is_multi_output
        self._names = ModuleNames(module)
        self._scratch_names: ModuleNames | None = None
        self._equal = CommonSubexpressions()
        self._effects = effects_of(module.computations)
        self._tied: dict[Graph, set[Node]] = {}
        self._before: dict[Graph, Graph | None] = {}
        self._merged: dict[Graph, list[Node]] = {}

    def fuse_by_priority(self, graph: Graph) -> list[tuple[Node, Node, Node]]:
        """Runs priority fusion; returns the fusion, the producer, and the consumer of each step."""
        identities, are_exact = identities_of(graph)
        fusion = PriorityFusion(graph, self._model, self._names, identities)
        fusion.run()
        if fusion.ties and not are_exact:
            self._tied[graph] = _touched(fusion)
        without_dead(graph, self._effects)
        return fusion.fused

    def fuse_with_several_results(self, graph: Graph) -> list[tuple[Node, Node]]:
        """Runs multi-output fusion; returns the merged nodes: one, and the fusion that computes it now."""
        if self._is_priority:
            self._merge_equal(graph)
        else:
            restore_users(graph, KernelModel(self._model.device), self._other_names)
        self._before[graph] = copy_graph(graph) if _is_small(graph) else None
        fusion = GpuMultiOutputFusion(graph, self._model, self._names)
        fusion.run()
        self._merged[graph] = [into for _, into in fusion.fused]
        without_dead(graph, self._effects)
        return fusion.fused

    def ties(self, graph: Graph) -> set[Node]:
        """Fusions that another order of producers of equal priority, or of users, would change."""
        tied = self._tied.get(graph, set())
        merged = self._merged.get(graph, [])
        if _is_small(graph):
            return uncertain_fusions(graph, self._made_again(graph, is_tied=bool(tied), is_merged=bool(merged)))
        nearby = {other for node in tied for other in (*node.operands, *node.users)}
        if merged:
            nearby.update(merged)
            nearby.update(node for node in graph.nodes if any(map(_is_shared, node.operands)))
        return tied | nearby

    def _made_again(self, graph: Graph, *, is_tied: bool, is_merged: bool) -> Iterator[Graph]:
        """Graphs of the same computation that the passes make with other orders."""
        before = self._before.get(graph)
        if is_merged and before is not None:
            for other in with_other_users(before):
                yield self._merge_again(other)
        if is_tied:
            text = self._module.source.text
            for number in range(2):
                other = graph_of(graph.computation, text)
                order = identity_orders(other)[number]
                PriorityFusion(other, KernelModel(self._model.device), self._other_names, order).run()
                without_dead(other, self._effects)
                if self._is_multi_output:
                    self._equal.merge_in(other)
                    self._merge_again(other)
                yield other

    def _merge_again(self, graph: Graph) -> Graph:
        GpuMultiOutputFusion(graph, KernelModel(self._model.device), self._other_names).run()
        without_dead(graph, self._effects)
        return graph

    @property
    def _other_names(self) -> ModuleNames:
        """Names for graphs that are thrown away."""
        if self._scratch_names is None:
            self._scratch_names = ModuleNames(self._module)
        return self._scratch_names

    def _merge_equal(self, graph: Graph) -> None:
        """Merges equal operations in fusions, as XLA does between the passes."""
        self._equal.merge_in(graph)
        for node in graph.nodes:
            if node.body is not None:
                self._model.forget(node)


def _is_small(graph: Graph) -> bool:
    return len(graph.computation.instructions) <= _MAX_INSTRUCTIONS


def _is_shared(node: Node) -> bool:
    return len(node.users) > 1 or node.opcode == opcodes.GET_TUPLE_ELEMENT


def _touched(fusion: PriorityFusion) -> set[Node]:
    """Fusions that a producer of undecided order is part of."""
    touched: set[Node] = set()
    for node, producer, consumer in fusion.fused:
        if {producer, consumer} & fusion.ties or {producer, consumer} & touched:
            touched.add(node)
    return touched
