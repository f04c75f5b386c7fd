"""Whether the reads of a kernel are coalesced: one answer for all operands.

Mirrors `IsReadCoalescedHeuristic` of xla/service/gpu/model/coalescing_analysis.cc, and `TransposesMinorDimension` and
`IsInputFusibleReduction` of xla/service/gpu/gpu_fusible.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.emitters import REDUCTION, TRANSPOSE, heroes_of, is_real_reduction
from hlo_cli.analysis.gpu_fusion.parts import Part
from hlo_cli.analysis.gpu_fusion.reductions import fast_reduction
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape

_MOVING: Final = (opcodes.COPY, opcodes.TRANSPOSE)


def transposes_minor(part: Part) -> bool:
    """Whether an operation, or one of a fusion, moves the minor dimension of values other than broadcasts.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> graph = graph_of(parse_module("r = f32[5,4] transpose(f32[4,5] a), dimensions={1,0}").entry)
    >>> transposes_minor(Part(graph.root))
    True
    """
    if part.opcodes.isdisjoint(_MOVING):
        return False
    return any(_moves_minor(each) and not _is_broadcast(each.operands[0]) for each in part.operations)


def is_reduction_like(part: Part, warp: int) -> bool:
    """Whether an operation is a fast reduction, or a fusion with one as hero."""
    if part.node.body is None:
        return fast_reduction(part.node, warp) is not None
    if part.is_plain:
        return False
    view = View(part)
    roots = view.roots
    if opcodes.REDUCE not in part.opcodes and all(root.opcode != opcodes.REDUCE for root in roots):
        return False
    pairs = zip(roots, heroes_of(view, tuple(roots)), strict=True)
    return any(is_real_reduction(root, hero, warp) is not None for root, hero in pairs)


def is_coalesced(emitter: str, *, moves_minor: bool, both_reduce: bool) -> bool:
    """Whether a kernel reads coalesced, by its emitter and the properties of its parts.

    >>> [is_coalesced(emitter, moves_minor=True, both_reduce=False) for emitter in ("loop", "transpose")]
    [False, True]
    """
    return not (emitter != TRANSPOSE and moves_minor) and not (emitter == REDUCTION and both_reduce)


def _moves_minor(node: Node) -> bool:
    if node.opcode not in _MOVING:
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
