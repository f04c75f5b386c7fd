"""`fuse`: the module after the CPU compiler's fusion pass, with the rule that decided about each pair of neighbours.

Mirrors xla/service/cpu/cpu_instruction_fusion.cc and xla/service/cpu/fusion_wrapper.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo_cli.analysis.dataflow.computation_contexts import contexts_of
from hlo_cli.analysis.fusion.graph import Graph, fusible_computations, graph_of
from hlo_cli.analysis.fusion.rules import SHIPPED, FusionRules, Rule
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.fusing.dead_code import without_dead, without_uncalled
from hlo_cli.transform.fusing.in_place_hazards import Overwriting
from hlo_cli.transform.fusing.instruction_fusion import Pass
from hlo_cli.transform.fusing.multi_output_fusion import MultiOutputPass
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.rebuild import written
from hlo_cli.transform.fusing.wrapping import wrap
from hlo_cli.transform.in_place import in_place_kept
from hlo_cli.transform.rewritable import check_rewritable
from hlo_cli.transform.scheduling.side_effects import effects_of


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """A rule about two instructions of the given module; the consumer of a fusion is the operation at its root."""

    producer: Instruction
    consumer: Instruction
    rule: Rule

    @property
    def words(self) -> str:
        """The rule in words about these two."""
        return self.rule.explain(self.producer.name, self.consumer.name)


@dataclass(frozen=True, slots=True)
class FusionResult:
    """A module after fusion: what was fused, step by step, and what rule keeps neighbours apart that were tried.

    `copies` are the names of those added to keep what is overwritten in place until its last read.
    """

    module: Module
    joined: tuple[FusionDecision, ...]
    apart: tuple[FusionDecision, ...]
    copies: tuple[str, ...] = ()


def fuse(module: Module, rules: FusionRules = SHIPPED) -> FusionResult:
    """Fuse as the CPU compiler of jaxlib 0.10.2 does, or another, as the rules say.

    Exact for the module that stands right before that compiler's fusion pass; for any other it says what would be if
    the pass came now.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> fused = fuse(parse_module(text))
    >>> print(fused.module.entry.root, [decision.rule.name for decision in fused.joined])
    <fusion negate_add_fusion> ['loop']
    """
    with no_garbage_collection():
        check_rewritable(module)
        return _fused(desugar(module), rules)


def _fused(module: Module, rules: FusionRules) -> FusionResult:
    text = module.source.text
    names = ModuleNames(module)
    graphs = {computation: graph_of(computation, text) for computation in fusible_computations(module)}
    overwriting = Overwriting(module)
    joined: list[FusionDecision] = []
    apart: list[FusionDecision] = []
    for graph in graphs.values():
        fusion = Pass(graph, rules, names, overwriting)
        fusion.run()
        joined += [FusionDecision(producer.instruction, into.instruction, rule) for producer, into, rule in fusion.made]
        apart += [
            FusionDecision(producer.instruction, consumer.instruction, rule)
            for producer, consumer, rule in fusion.apart()
        ]
    if rules.wrap:
        running = contexts_of(module).of
        for computation, graph in graphs.items():
            if running.get(computation) == "global":
                wrap(graph, rules, names)
    together = _make_together(module, graphs, names, overwriting) if rules.multi_output else ()
    made = written(module, graphs)
    kept = in_place_kept(without_uncalled(made) if rules.multi_output else made, module)
    return FusionResult(kept.module, (*joined, *together), tuple(apart), kept.copies)


def _make_together(
    module: Module, graphs: Mapping[Computation, Graph], names: ModuleNames, overwriting: Overwriting
) -> tuple[FusionDecision, ...]:
    """Kernels of several results; and without all that nobody needs."""
    made: list[FusionDecision] = []
    for graph in graphs.values():
        together = MultiOutputPass(graph, names, overwriting)
        together.run()
        made += [FusionDecision(one.instruction, into.instruction, rule) for one, into, rule in together.made]
    effects = effects_of(module.computations)
    for graph in graphs.values():
        without_dead(graph, effects)
    return tuple(made)
