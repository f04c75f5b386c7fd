"""Wraps lone operations that are compiled as loops in fusions, as the CPU compiler does.

Mirrors xla/service/cpu/fusion_wrapper.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.cpu_rules import FusionRules
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.fusing.merge import create_fusion
from hlo_cli.transform.fusing.names import ModuleNames

# fusion_wrapper.cc lists all elementwise opcodes but logistic and stochastic-convert; it tests copies separately.
_WRAPPED: Final = ELEMENTWISE - {opcodes.COPY, opcodes.LOGISTIC, opcodes.STOCHASTIC_CONVERT} | frozenset(
    "broadcast dynamic-slice gather iota map pad reduce reduce-window reshape reverse scatter slice".split()
)
_COPIED_IN_LOOPS: Final = frozenset("pred s8 s16 s32 s64 f16 bf16 f32 f64".split())
"""Element types for which a layout-changing copy is a loop; jaxlib 0.10.2 does not wrap copies of others."""


def wrap_lone_operations(graph: Graph, rules: FusionRules, names: ModuleNames) -> None:
    """Replaces each lone operation of a computation with a fusion of it.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> from hlo_cli.analysis.fusion.cpu_rules import SHIPPED
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[9] parameter(0)  ROOT t = f32[9] tanh(p) }")
    >>> graph = graph_of(module.entry)
    >>> wrap_lone_operations(graph, SHIPPED, ModuleNames(module))
    >>> graph.root, graph.root.body.name
    (<node fusion wrapped_tanh>, 'wrapped_tanh_computation')
    """
    for node in list(graph.nodes):
        is_wrapped = node.opcode in _WRAPPED or (node.opcode == opcodes.TRANSPOSE and rules.wrap_transpose)
        if is_wrapped or (node.opcode == opcodes.COPY and _is_loop(node)):
            name = f"wrapped_{node.opcode}"
            create_fusion(graph, node, "kLoop", names, name=name, body_name=f"{name}_computation")


def _is_loop(copy: Node) -> bool:
    """Whether a copy changes the layout, element by element."""
    shape = copy.shape
    if shape == copy.operands[0].shape or not isinstance(shape, ArrayShape):
        return False
    return shape.element_type.name in _COPIED_IN_LOOPS
