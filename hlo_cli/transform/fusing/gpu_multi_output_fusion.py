"""Multi-output fusion of XLA:GPU: siblings that read the same value, and producers that have other users.

Mirrors xla/backends/gpu/transforms/multi_output_fusion.cc.
"""

from __future__ import annotations

from dataclasses import field

from hlo_cli.analysis.fusion import gpu_rules as by
from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelModel
from hlo_cli.analysis.fusion.gpu_rules import GpuFusionRules
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.transform.fusing.dependence import Dependence
from hlo_cli.transform.fusing.merge import create_fusion
from hlo_cli.transform.fusing.multi_output_results import make_multi_output
from hlo_cli.transform.fusing.names import ModuleNames


@dataclass(slots=True)
class GpuMultiOutputFusion:
    """Pass over one computation; `fused` are the merged nodes: one, and the fusion that computes it now."""

    graph: Graph
    model: KernelModel
    names: ModuleNames
    fused: list[tuple[Node, Node]] = field(default_factory=list)
    _rules: GpuFusionRules = field(init=False)
    _dependence: Dependence = field(init=False)
    _warp: int = 32
    _loops: dict[Node, by.Loop] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rules = GpuFusionRules(self.model, self.graph.root)
        self._dependence = Dependence(self.graph)
        self._warp = self.model.device.threads_per_warp

    def run(self) -> None:
        """Runs the pass: users before their operands."""
        for producer in reversed(self.graph.sorted_nodes()):
            if producer not in self.graph.position or producer.opcode == opcodes.CONSTANT or producer.kind == "kCustom":
                continue
            self._fuse_siblings(producer)
            self._fuse_with_consumer(producer)
        if self.fused:
            self.graph.sort_topologically()

    def _fuse_siblings(self, parent: Node) -> None:
        if not by.is_worth_sharing(parent) or len(parent.users) < 2:
            return
        found = [user for user in parent.users if by.is_sibling_candidate(user, self._warp)]
        found.sort(key=by.preference, reverse=True)
        place = 0
        while place < len(found):
            one = found[place]
            place += 1
            if one.body is None:
                continue
            for other in found[place:]:
                if self._are_siblings(one, other, parent):
                    kind = "kInput" if other.kind == "kInput" else one.kind
                    self._merge(other, one, kind)
                    found.remove(other)

    def _are_siblings(self, one: Node, other: Node, parent: Node) -> bool:
        return (
            by.have_same_loops(self._loop(one), self._loop(other))
            and by.slices_overlap(one, other, parent)
            and not by.are_updates(one, other)
            and self._rules.budget_reason(other, one, is_merged=False) is None
            and not self._dependence.are_connected(one, other)
        )

    def _fuse_with_consumer(self, producer: Node) -> None:
        users = list(producer.users)
        if not users or (len(users) == 1 and not users[0].has_several_results) or not by.can_be_kept(producer):
            return
        found = [user for user in users if self._can_keep(producer, user)]
        if not found:
            return
        consumer = max(found, key=by.preference)
        if consumer.body is None:
            is_input = any(by.is_input_fusion_part(node, self._warp) for node in (consumer, producer))
            kind = "kInput" if is_input else "kLoop"
            fusion = create_fusion(
                self.graph, consumer, kind, self.names, name=opcodes.FUSION, body_name="fused_computation"
            )
            self._dependence.merged((consumer,), fusion)
            self._forget(consumer)
            consumer = fusion
        self._merge(producer, consumer, consumer.kind)

    def _can_keep(self, producer: Node, consumer: Node) -> bool:
        """Whether a producer can become a result of a consumer, and that is not slower."""
        if not by.can_be_result(consumer, self._warp) or not by.have_same_loops(
            self._loop(consumer), self._loop(producer)
        ):
            return False
        others = [operand for operand in consumer.operands if operand is not producer]
        if any(self._dependence.reaches(producer, operand) for operand in others):
            return False
        if self._rules.budget_reason(consumer, producer, is_merged=False) is not None:
            return False
        if self._rules.is_too_large(producer, consumer):
            return False
        apart = 2 * LAUNCH + self.model.time(producer).ticks + self.model.time(consumer).ticks
        return LAUNCH + self.model.fused_time(producer, consumer, keeps_producer=True).ticks <= apart

    def _merge(self, one: Node, into: Node, kind: str) -> None:
        """Makes a node, or its results, results of a fusion."""
        self._dependence.merged((one, into), into)
        made = len(self.graph.order)
        make_multi_output(self.graph, into, one, self.names)
        into.kind = kind
        for element in self.graph.order[made:]:
            if element is not None:
                self._dependence.merged((into,), element)
        for node in (one, into):
            self._forget(node)
        self.fused.append((one, into))
        self._rules.root = self.graph.root

    def _loop(self, node: Node) -> by.Loop:
        found = self._loops.get(node)
        if found is None:
            found = self._loops[node] = by.loop_of(node, self._warp)
        return found

    def _forget(self, node: Node) -> None:
        self._loops.pop(node, None)
        self.model.forget(node)
        self._rules.forget(node)
