"""Whether the reads of a kernel are coalesced: one answer for all operands.

Mirrors `IsReadCoalescedHeuristic` of xla/service/gpu/model/coalescing_analysis.cc, and `TransposesMinorDimension` and
`IsInputFusibleReduction` of xla/service/gpu/gpu_fusible.cc.
"""

from __future__ import annotations

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.emitters import REDUCTION, TRANSPOSE, hero_of, is_real_reduction
from hlo_cli.analysis.gpu_fusion.reductions import fast_reduction
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape


def transposes_minor(node: Node) -> bool:
    """Whether an operation, or one of a fusion, moves the minor dimension of values other than broadcasts.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> transposes_minor(graph_of(parse_module("r = f32[5,4] transpose(f32[4,5] a), dimensions={1,0}").entry).root)
    True
    """
    inside = [node] if node.body is None else list(node.body.operations)
    return any(_moves_minor(each) and not _is_broadcast(each.operands[0]) for each in inside)


def is_reduction_like(node: Node, warp: int) -> bool:
    """Whether an operation is a fast reduction, or a fusion with one as hero."""
    if node.body is None:
        return fast_reduction(node, warp) is not None
    view = View(node)
    return any(is_real_reduction(root, hero_of(view, root), warp) is not None for root in view.roots)


def is_coalesced(emitter: str, *, moves_minor: bool, both_reduce: bool) -> bool:
    """Whether a kernel reads coalesced, by its emitter and the properties of its parts.

    >>> [is_coalesced(emitter, moves_minor=True, both_reduce=False) for emitter in ("loop", "transpose")]
    [False, True]
    """
    return not (emitter != TRANSPOSE and moves_minor) and not (emitter == REDUCTION and both_reduce)


def _moves_minor(node: Node) -> bool:
    if node.opcode not in (opcodes.COPY, opcodes.TRANSPOSE):
        return False
    given, result = node.operands[0].shape, node.shape
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    minor, moved = _minor_dimension(given), _minor_dimension(result)
    if node.opcode == opcodes.COPY:
        return minor != moved
    if moved < 0:
        return False
    order = given.layout.minor_to_major
    first = order.index(minor) if minor >= 0 else len(order)
    return order.index(node.instruction.integers("dimensions")[moved]) > first


def _minor_dimension(shape: ArrayShape) -> int:
    """The most minor dimension with more than one element, or -1."""
    return next((d for d in shape.layout.minor_to_major if shape.sizes[d] > 1), -1)


def _is_broadcast(node: Node) -> bool:
    while node.opcode not in (opcodes.BROADCAST, opcodes.IOTA):
        if len(node.operands) != 1 or not (node.opcode == opcodes.BITCAST or is_elementwise(node)):
            return False
        node = node.operands[0]
    return True
