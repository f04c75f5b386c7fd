"""Executed computations of a module, prepared for schedulers.

Mirrors the loop over computations of `ComputationSchedulerAlgorithm::Run` of
xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.buffer_uses import buffer_uses
from hlo_cli.transform.scheduling.dataflow import Flow
from hlo_cli.transform.scheduling.graph import Graph, graph_of
from hlo_cli.transform.scheduling.live_memory import peak_of_order
from hlo_cli.transform.scheduling.side_effects import effects_of


class ExecutedComputations:
    """Executed computations; `peaks` are the peak bytes of those processed so far, as schedulers count them."""

    __slots__ = ("_effects", "module", "peaks", "uses")

    def __init__(self, module: Module) -> None:
        self.module = module
        self.uses = buffer_uses(module)
        self.peaks: dict[Computation, int] = {}
        self._effects = effects_of(module.computations)

    def computations(self) -> Iterator[tuple[Flow, Graph]]:
        """Yields each computation, callees first; its peak is that of the present order until it is updated.

        A computation with a use before its definition, from malformed text, is skipped.

        >>> from hlo_cli import parse_module
        >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }"
        >>> executed = ExecutedComputations(parse_module(text))
        >>> [len(graph) for flow, graph in executed.computations()], list(executed.peaks.values())
        ([2], [32])
        """
        text = self.module.source.text
        for flow in self.uses.flows():
            graph = graph_of(flow.computation, self.uses, self._effects, self.peaks, text)
            if any(max(before, default=-1) >= node for node, before in enumerate(graph.before)):
                continue
            self.peaks[flow.computation] = peak_of_order(graph, range(len(graph)))
            yield flow, graph
