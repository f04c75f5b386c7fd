"""Lone operations that are compiled as loops become fusions of one, as the CPU compiler makes them.

Mirrors xla/service/cpu/fusion_wrapper.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.costs.elementwise import FLOP_OPCODES, TRANSCENDENTAL_OPCODES
from hlo_cli.analysis.fusion.graph import Graph
from hlo_cli.analysis.fusion.rules import FusionRules
from hlo_cli.transform.fusing.joining import begin_fusion
from hlo_cli.transform.fusing.names import ModuleNames

_WRAPPED: Final = (FLOP_OPCODES | TRANSCENDENTAL_OPCODES | {"scatter", "broadcast", "dynamic-slice", "gather"}) - {
    "logistic",
    "stochastic-convert",
} | frozenset("dynamic-update-slice iota map pad reduce reduce-window reshape reverse slice".split())


def wrap(graph: Graph, rules: FusionRules, names: ModuleNames) -> None:
    """Make the lone operations of a computation fusions."""
    for node in list(graph.nodes):
        is_wrapped = node.opcode in _WRAPPED or (node.opcode == "transpose" and rules.wrap_transpose)
        if is_wrapped or (node.opcode == "copy" and node.shape != node.operands[0].shape):
            name = f"wrapped_{node.opcode}"
            begin_fusion(graph, node, "kLoop", names, name=name, body_name=f"{name}_computation")
