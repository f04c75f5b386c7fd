"""Simulates the fusion pass of the CPU compiler, with the rule that decided on each producer–consumer pair.

Mirrors xla/service/cpu/cpu_instruction_fusion.cc and xla/service/cpu/fusion_wrapper.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.dataflow.executions import contexts_of
from hlo_cli.analysis.fusion.cpu_rules import SHIPPED, FusionRules, Rule
from hlo_cli.analysis.fusion.mutable_graph import Graph, fusible_computations, graph_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.fusing.dead_code import without_dead, without_uncalled
from hlo_cli.transform.fusing.in_place_hazards import InPlaceHazards
from hlo_cli.transform.fusing.instruction_fusion import InstructionFusion
from hlo_cli.transform.fusing.multi_output_fusion import MultiOutputFusion
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.rebuild import rebuild
from hlo_cli.transform.fusing.wrapping import wrap_lone_operations
from hlo_cli.transform.in_place import fix_in_place_hazards
from hlo_cli.transform.rewritable import check_rewritable
from hlo_cli.transform.scheduling.side_effects import effects_of


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """Rule that applies to two instructions of the original module; a fusion as consumer is represented by its root."""

    producer: Instruction
    consumer: Instruction
    rule: Rule

    @property
    def words(self) -> str:
        """Message of the rule for this pair."""
        return self.rule.explain(self.producer.name, self.consumer.name)


@dataclass(frozen=True, slots=True)
class FusionResult:
    """Module after fusion, with the pairs that were fused, in order, and those that a rule rejected.

    `copies` are the names of copies inserted to protect values from in-place updates.
    """

    module: Module
    fused: tuple[FusionDecision, ...]
    rejected: tuple[FusionDecision, ...]
    copies: tuple[str, ...] = ()


def fuse(module: Module, rules: FusionRules = SHIPPED) -> FusionResult:
    """Fuses like the CPU compiler of jaxlib 0.10.2, or with other rules.

    Exact for a module immediately before the fusion pass; for others the result of running the pass now.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> fused = fuse(parse_module(text))
    >>> print(fused.module.entry.root, [decision.rule.name for decision in fused.fused])
    <fusion negate_add_fusion> ['loop']
    """
    with no_garbage_collection():
        check_rewritable(module)
        return _fused(desugar(module), rules)


def _fused(module: Module, rules: FusionRules) -> FusionResult:
    text = module.source.text
    names = ModuleNames(module)
    graphs = {computation: graph_of(computation, text) for computation in fusible_computations(module)}
    hazards = InPlaceHazards(module)
    fused: list[FusionDecision] = []
    rejected: list[FusionDecision] = []
    for graph in graphs.values():
        fusion = InstructionFusion(graph, rules, names, hazards)
        fusion.run()
        fused += [
            FusionDecision(producer.instruction, into.instruction, rule) for producer, into, rule in fusion.created
        ]
        rejected += [
            FusionDecision(producer.instruction, consumer.instruction, rule)
            for producer, consumer, rule in fusion.rejected_pairs()
        ]
    if rules.wrap:
        executed = contexts_of(module).context_of
        for computation, graph in graphs.items():
            if executed.get(computation) == "global":
                wrap_lone_operations(graph, rules, names)
    together = _make_together(module, graphs, names, hazards) if rules.multi_output else ()
    made = rebuild(module, graphs)
    kept = fix_in_place_hazards(without_uncalled(made) if rules.multi_output else made, module)
    return FusionResult(kept.module, (*fused, *together), tuple(rejected), kept.copies)


def _make_together(
    module: Module, graphs: Mapping[Computation, Graph], names: ModuleNames, hazards: InPlaceHazards
) -> tuple[FusionDecision, ...]:
    """Runs multi-output fusion, and removes dead code."""
    made: list[FusionDecision] = []
    for graph in graphs.values():
        together = MultiOutputFusion(graph, names, hazards)
        together.run()
        made += [FusionDecision(one.instruction, into.instruction, rule) for one, into, rule in together.created]
    effects = effects_of(module.computations)
    for graph in graphs.values():
        without_dead(graph, effects)
    return tuple(made)
