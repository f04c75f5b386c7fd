"""Whether XLA:GPU may compute two operations or fusions in one kernel with several results.

Mirrors `ShapesCompatibleForMultiOutputFusion` and its helpers of xla/service/gpu/gpu_fusible.cc, and the tests of
xla/backends/gpu/transforms/multi_output_fusion.cc.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.elements import is_effective_scalar, is_elementwise, is_fusible
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.fusion.in_place import in_place_operands, slice_bounds
from hlo_cli.analysis.gpu_fusion.coalescing import is_reduction_like
from hlo_cli.analysis.gpu_fusion.emitters import heroes_of, is_intermediate, is_real_reduction, moves_nothing
from hlo_cli.analysis.gpu_fusion.parts import Part
from hlo_cli.analysis.gpu_fusion.reductions import Reduction, fast_reduction
from hlo_cli.analysis.gpu_fusion.rules import is_fusible_bitcast, is_scatter_fusion
from hlo_cli.analysis.gpu_fusion.transposes import TiledTranspose, tiled_transpose_of
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.ir import opcodes
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

_MIN_SLICED_BYTES: Final = 1024
_LOOPS: Final = frozenset(
    (
        *(opcodes.BROADCAST, opcodes.CONCATENATE, opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE, opcodes.GATHER),
        *(opcodes.PAD, opcodes.REDUCE_WINDOW, opcodes.RESHAPE, opcodes.REVERSE, opcodes.SLICE, opcodes.TRANSPOSE),
        *(opcodes.COPY, opcodes.IOTA, opcodes.CONSTANT),
    )
)


def is_worth_sharing(node: Node) -> bool:
    """Whether a value is large enough that reading it once is worth a kernel with several results."""
    return not is_effective_scalar(node.shape)


def preference(node: Node) -> int:
    """Rank of a candidate: kernels with several results before fusions before operations (`FusionPriority`)."""
    if node.has_several_results:
        return 2
    return int(node.body is not None)


def can_be_result(node: Node, warp: int) -> bool:
    """Whether a node can be one of several results (`IsFusibleAsMultiOutputFusionRoot`)."""
    if not is_fusible(node) or node.kind == "kCustom":
        return False
    return (
        is_reduction_like(Part(node), warp)
        or is_transpose_like(node)
        or (node.body is not None and node.kind == "kLoop")
        or is_elementwise(node)
    )


def is_sibling_candidate(node: Node, warp: int) -> bool:
    """Whether a user of a value can share a kernel with its other users (`IsSiblingFusionCandidate`)."""
    if not node.users or not can_be_result(node, warp) or _nests_results(node, warp):
        return False
    return not node.has_several_results or all(user.opcode == opcodes.GET_TUPLE_ELEMENT for user in node.users)


def is_transpose_like(node: Node) -> bool:
    """Whether a node is a tiled transpose, or a fusion with one as hero (`IsInputFusibleTranspose`)."""
    if node.opcode == opcodes.BITCAST or node.kind == "kCustom":
        return False
    if node.body is None:
        return tiled_transpose_of(node) is not None
    view = View(Part(node))
    return any(tiled_transpose_of(hero) is not None for hero in heroes_of(view, tuple(view.roots)))


def is_input_fusion_part(node: Node, warp: int) -> bool:
    """Whether a fusion of a node is an input fusion (`IsInputFusible`)."""
    return is_fusible(node) and (
        is_reduction_like(Part(node), warp) or is_scatter_fusion(node) or is_transpose_like(node)
    )


def can_be_kept(producer: Node) -> bool:
    """Whether a producer can become a result of its consumer (`IsProducerMultiOutputFusible`)."""
    if producer.has_several_results or next(in_place_operands(producer), None) is not None:
        return False
    return _is_loop(producer) and not any(map(_moves, _operations(producer)))


def are_updates(one: Node, other: Node) -> bool:
    """Whether a result of one of two siblings is a dynamic-update-slice."""
    return any(node.body is not None and node.body.root.opcode == opcodes.DYNAMIC_UPDATE_SLICE for node in (one, other))


class Loop(NamedTuple):
    """What decides whether a node shares its loop with another: its hero, how that is computed, and the shape."""

    owner: Node
    hero: Node
    reduction: Reduction | None
    tiled: TiledTranspose | None
    shape: Shape

    @property
    def is_special(self) -> bool:
        """Whether the hero has an emitter of its own."""
        return self.reduction is not None or self.tiled is not None

    @property
    def is_untiled(self) -> bool:
        """Whether the hero is a transpose that a loop computes."""
        return self.hero.opcode == opcodes.TRANSPOSE and self.tiled is None


def loop_of(node: Node, warp: int) -> Loop:
    """The loop that computes a node.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> loop = loop_of(graph_of(parse_module("r = f32[5,4] transpose(f32[4,5] a), dimensions={1,0}").entry).root, 32)
    >>> loop.is_special, loop.is_untiled, str(loop.shape)
    (False, True, 'f32[5,4]{1,0}')
    """
    hero = inner = node
    if node.body is not None:
        view = View(Part(node))
        hero = _real_hero(view, warp)
        (inner,) = heroes_of(view, (hero,))
    reduction = fast_reduction(hero, warp)
    is_special = reduction is not None or tiled_transpose_of(inner) is not None
    shape = inner.operands[0].shape if is_special else hero.shape
    return Loop(node, hero, reduction, tiled_transpose_of(hero), shape)


def have_same_loops(one: Loop, other: Loop) -> bool:
    """Whether two nodes can be computed in one loop (`ShapesCompatibleForMultiOutputFusion`)."""
    return _are_compatible(one, other) and _are_equal_loops(one.shape, other.shape)


def slices_overlap(one: Node, other: Node, parent: Node) -> bool:
    """Whether two users read overlapping parts of a value; true unless both read one slice of a large one."""
    if isinstance(parent.shape, TupleShape) or parent.shape.logical_bytes < _MIN_SLICED_BYTES:
        return True
    first, second = _only_slice(parent, one), _only_slice(parent, other)
    if first is None or second is None:
        return True
    bounds = zip(slice_bounds(first), slice_bounds(second), strict=True)
    return all(a.start < b.limit and b.start < a.limit for a, b in bounds)


def _nests_results(node: Node, warp: int) -> bool:
    """Whether a node is a reduction of several values in a loop (`IsNestableVariadicReduction`)."""
    if not isinstance(node.shape, TupleShape):
        return False
    if node.body is not None:
        return node.kind == "kLoop" and node.body.root.opcode in (opcodes.REDUCE, opcodes.REDUCE_WINDOW)
    is_slow = node.opcode == opcodes.REDUCE and fast_reduction(node, warp) is None
    return is_slow or node.opcode == opcodes.REDUCE_WINDOW


def _is_loop(node: Node) -> bool:
    """Whether a loop can compute a node before its user (`IsLoopFusibleAsProducer`)."""
    if not is_fusible(node):
        return False
    if node.opcode == opcodes.REDUCE:
        return not isinstance(node.shape, TupleShape)
    if (is_elementwise(node) and node.operands) or node.opcode in _LOOPS or is_fusible_bitcast(node):
        return True
    return node.body is not None and node.kind == "kLoop"


def _operations(node: Node) -> list[Node]:
    return [node] if node.body is None else list(node.body.operations)


def _moves(node: Node) -> bool:
    """Whether an operation changes the order of elements in memory (`IsPhysicallyTransposing`)."""
    return node.opcode == opcodes.COPY or (node.opcode == opcodes.TRANSPOSE and not moves_nothing(node))


def _real_hero(view: View, warp: int) -> Node:
    """The operation that decides the loop of a fusion (`GetRealHeroForMultiOutputFusion`)."""
    roots = tuple(view.roots)
    for root, hero in zip(roots, heroes_of(view, roots), strict=True):
        if is_real_reduction(root, hero, warp) is not None or tiled_transpose_of(hero) is not None:
            return hero
    return roots[0]


def _are_compatible(one: Loop, other: Loop) -> bool:
    """Whether one kernel can compute two heroes (`FusionHeroesAreCompatible`)."""
    if one.reduction is not None and other.reduction is not None and one.reduction != other.reduction:
        return False
    if one.tiled is not None and other.tiled is not None and not one.tiled.is_equivalent(other.tiled):
        return False
    if (one.is_special and other.is_untiled) or (one.is_untiled and other.is_special):
        return False
    if (one.tiled is not None and other.reduction is not None) or (
        one.reduction is not None and other.tiled is not None
    ):
        return False
    for first, second in ((one, other), (other, one)):
        body, operands = second.owner.body, second.owner.operands
        if first.tiled is not None and first.owner.body is not None and body is not None and first.owner in operands:
            return _stays_tiled(body.parameters[operands.index(first.owner)])
    return True


def _stays_tiled(parameter: Node) -> bool:
    """Whether only operations that keep a transpose tiled are between a parameter and the result."""
    if len(parameter.users) != 1:
        return False
    node = next(iter(parameter.users))
    while node.users:
        if not is_intermediate(node, 1):
            return False
        node = next(iter(node.users))
    return True


def _are_equal_loops(one: Shape, other: Shape) -> bool:
    """Whether two shapes have the same loop: equal but for the type, or a bitcast of each other."""
    if not isinstance(one, ArrayShape) or not isinstance(other, ArrayShape):
        return _without_types(one) == _without_types(other)
    if one.dimensions == other.dimensions and one.layout == other.layout:
        return True
    if one.elements != other.elements:
        return False
    are_major = all(_is_row_major(shape.layout) for shape in (one, other))
    return are_major or _physical(one) == _physical(other)


def _without_types(shape: Shape) -> tuple[object, ...]:
    return tuple(
        (leaf.dimensions, leaf.layout) if isinstance(leaf, ArrayShape) else type(leaf) for _, leaf in shape.leaves
    )


def _is_row_major(layout: Layout) -> bool:
    order = layout.minor_to_major
    return order == tuple(range(len(order) - 1, -1, -1))


def _physical(shape: ArrayShape) -> tuple[int, ...]:
    return tuple(shape.sizes[d] for d in reversed(shape.layout.minor_to_major) if shape.sizes[d] != 1)


def _only_slice(parent: Node, user: Node) -> Node | None:
    """The only slice through which a user reads a value (`FindUniqueSlice`)."""
    if user.opcode == opcodes.SLICE:
        return user
    if user.body is None:
        return None
    parameters = [p for operand, p in zip(user.operands, user.body.parameters, strict=True) if operand is parent]
    if len(parameters) != 1 or len(parameters[0].users) != 1:
        return None
    return _only_slice(parameters[0], next(iter(parameters[0].users)))
