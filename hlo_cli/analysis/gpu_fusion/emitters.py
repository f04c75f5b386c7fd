"""Which emitter of XLA:GPU makes the kernel of a fusion: its heroes decide.

Mirrors `FindNonTrivialHero` of xla/service/gpu/ir_emission_utils.cc, `IsIntermediate` and `FindHero` of
xla/codegen/ir_emission_utils.cc, and `HloFusionAnalysis::Create` of xla/service/gpu/hlo_fusion_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.parts import HEROES
from hlo_cli.analysis.gpu_fusion.reductions import Reduction, fast_reduction, is_race_free
from hlo_cli.analysis.gpu_fusion.shapes import elements_of
from hlo_cli.analysis.gpu_fusion.transposes import TiledTranspose, tiled_transpose_of
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, TupleShape

LOOP: Final = "loop"
REDUCTION: Final = "reduction"
TRANSPOSE: Final = opcodes.TRANSPOSE
CONCATENATE: Final = opcodes.CONCATENATE
SCATTER: Final = opcodes.SCATTER
"""Names of the emitters."""
_MAX_CONCATENATED: Final = 4


class Analysis(NamedTuple):
    """Emitter of a fusion, with its roots and the hero of each; `reduction` and `transpose` describe the first hero."""

    emitter: str
    roots: tuple[Node, ...]
    heroes: tuple[Node, ...]
    reduction: Reduction | None = None
    transpose: TiledTranspose | None = None


def analyze(view: View, warp: int) -> Analysis:
    """Emitter of the kernel of a fusion on a GPU with warps of `warp` threads.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> from hlo_cli.analysis.gpu_fusion.parts import Part
    >>> graph = graph_of(parse_module("r = f32[64,32] transpose(f32[32,64] a), dimensions={1,0}").entry)
    >>> analyze(View(Part(graph.root)), 32).emitter
    'transpose'
    """
    roots = tuple(view.roots)
    if view.is_plain:
        return Analysis(LOOP, roots, roots)
    heroes = heroes_of(view, roots)
    if (reduction := _common_reduction(roots, heroes, warp)) is not None:
        return Analysis(REDUCTION, roots, heroes, reduction)
    if (transpose := _common_transpose(roots, heroes)) is not None:
        return Analysis(TRANSPOSE, roots, heroes, None, transpose)
    if len(roots) == 1:
        if roots[0].opcode == opcodes.SCATTER:
            return Analysis(SCATTER, roots, heroes)
        is_array = not isinstance(roots[0].shape, TupleShape)
        if heroes[0].opcode == opcodes.CONCATENATE and is_array and len(heroes[0].operands) <= _MAX_CONCATENATED:
            return Analysis(CONCATENATE, roots, heroes)
    return Analysis(LOOP, roots, heroes)


def heroes_of(view: View, roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Operations that decide how the results are computed: a reduce, tiled transpose, or concatenate; else the root."""
    if view.is_plain or (not view.has_any(HEROES) and HEROES.isdisjoint([root.opcode for root in roots])):
        return roots
    return tuple(_hero_of(view, root) for root in roots)


def _hero_of(view: View, root: Node) -> Node:
    hero = root
    while is_intermediate(hero, 1):
        (before,) = view.operands(hero)
        if not view.contains(before):
            break
        hero = before
    if movers := view.movers:
        for is_hero in (_is_tiled, _is_concatenate):
            if any(map(is_hero, movers)) and (found := _only_hero(view, hero, is_hero)) is not None:
                return found
    return hero if hero.opcode == opcodes.REDUCE else root


def is_real_reduction(root: Node, hero: Node, warp: int) -> Reduction | None:
    """Reduction of a hero that the reduction emitter can compute below this root, else None (`IsRealReductionHero`)."""
    found = fast_reduction(hero, warp)
    return found if found is not None and (root is hero or is_race_free(found, warp)) else None


def is_intermediate(node: Node, most_operands: int) -> bool:
    """Whether an operation is elementwise or moves nothing, and has 1 to `most_operands` operands."""
    if not 1 <= len(node.operands) <= most_operands:
        return False
    match node.opcode:
        case opcodes.COPY:
            return node.shape == node.operands[0].shape
        case opcodes.BITCAST:
            return True
        case opcodes.RESHAPE | opcodes.TRANSPOSE:
            return moves_nothing(node)
    return is_elementwise(node)


def moves_nothing(node: Node) -> bool:
    """Whether a reshape or transpose leaves all elements where they are in memory."""
    given, result = node.operands[0].shape, node.shape
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    physical = tuple(given.sizes[d] for d in reversed(given.layout.minor_to_major) if given.sizes[d] != 1)
    moved = tuple(result.sizes[d] for d in reversed(result.layout.minor_to_major) if result.sizes[d] != 1)
    if node.opcode == opcodes.RESHAPE:
        orders = [list(s.layout.minor_to_major) for s in (given, result)]
        return all(order == sorted(order, reverse=True) for order in orders)
    source = node.instruction.integers("dimensions")
    kept = [source[d] for d in reversed(result.layout.minor_to_major) if result.sizes[d] != 1]
    return physical == moved and kept == [d for d in reversed(given.layout.minor_to_major) if given.sizes[d] != 1]


def _is_tiled(node: Node) -> bool:
    return node.opcode == opcodes.TRANSPOSE and tiled_transpose_of(node) is not None


def _is_concatenate(node: Node) -> bool:
    return node.opcode == opcodes.CONCATENATE


def _only_hero(view: View, root: Node, is_hero: Callable[[Node], bool]) -> Node | None:
    """The only such operation that elementwise operations connect with the root, and with all results."""
    found: list[Node] = []

    def visit(node: Node) -> bool:
        if is_hero(node):
            found.append(node)
            return False
        return len(found) < 2 and is_intermediate(node, 3)

    view.walk([root], visit)
    if len(found) != 1:
        return None
    waiting = list(view.users(found[0]))
    seen = set(waiting)
    for node in waiting:
        if not is_intermediate(node, 3):
            return None
        for user in view.users(node):
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return found[0]


def _common_reduction(roots: tuple[Node, ...], heroes: tuple[Node, ...], warp: int) -> Reduction | None:
    """Reduction that one kernel computes for all results, if there is one."""
    real = [is_real_reduction(root, hero, warp) for root, hero in zip(roots, heroes, strict=True)]
    place = next((n for n, found in enumerate(real) if found is not None), None)
    if place is None:
        return None
    first, size = real[place], elements_of(heroes[place].operands[0].shape)
    for root, found in zip(roots, real, strict=True):
        if root is not heroes[place] and (elements_of(root.shape) != size if found is None else found != first):
            return None
    return first


def _common_transpose(roots: tuple[Node, ...], heroes: tuple[Node, ...]) -> TiledTranspose | None:
    """Tiled transpose that fits all results, if there is one."""
    found = [tiled_transpose_of(hero) for hero in heroes]
    first = next((each for each in found if each is not None), None)
    if first is None:
        return None
    size = elements_of(next(h for h, each in zip(heroes, found, strict=True) if each is not None).shape)
    for root, each in zip(roots, found, strict=True):
        if elements_of(root.shape) != size if each is None else not first.is_equivalent(each):
            return None
    return first
