"""May XLA:GPU fuse a producer into a consumer, or compute two operations in one kernel; if not, why?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.cpu_rules import constant_value, in_place_operands, outer_value, slice_bounds
from hlo_cli.analysis.fusion.gpu_emitters import (
    LOOP,
    REDUCTION,
    Part,
    Reduction,
    TiledTranspose,
    View,
    bits_of,
    elements_of,
    fast_reduction,
    heroes_of,
    is_intermediate,
    is_real_reduction,
    is_reduction_like,
    moves_nothing,
    tiled_transpose_of,
)
from hlo_cli.analysis.fusion.gpu_model import TRITON, KernelModel
from hlo_cli.analysis.fusion.mutable_graph import Node, is_effective_scalar, is_elementwise, is_fusible
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

# --- reasons against fusing ---
# Reasons of XLA:GPU against a fusion, in its words.
#
# Mirrors xla/backends/gpu/transforms/priority_fusion.cc, xla/service/gpu/gpu_fusible.cc, and `ShouldFuseInPlaceOp` of
# xla/service/instruction_fusion.cc.


NO_USERS: Final = "No users to fuse"
ONLY_BITCASTS: Final = "not fusing because there are only bitcast users"
ROOT: Final = "not fusing into the output of the root instruction"
PRODUCER_NOT_FUSIBLE: Final = "the producer is not fusible"
CONSUMER_NOT_FUSIBLE: Final = "the consumer is not fusible"
BITCAST_CONSUMER: Final = "not fusing into a single bitcast as consumer"
SCATTER_OUTPUT: Final = "do not fuse into the output of scatter"
SCATTER_OPERAND: Final = "do not fuse into the in-place operand of scatter"
SCATTER_SHARED: Final = "Producer uses the in-place operand of a scatter"
TWO_REDUCES: Final = "both the producer and the consumer contain a reduce"
REDUCE_BECOMES_LOOP: Final = "fusion into output of a reduce fusion would create a loop fusion"
SHARED_MEMORY: Final = "shared memory usage would be over the budget of {budget}B"
TOO_MANY_REDUCTIONS: Final = "over 8 unnested reductions in fusion"
TOO_MANY_OPERANDS: Final = "Number of operands and output buffers is larger than allowed budget per fusion"
CODE_SIZE: Final = "the fusion would result in an overly large code duplication"
IN_PLACE_TWICE: Final = (
    "The consumer is an in-place operation that has an additional operand that has the same value "
    "as the in-place buffer"
)
SEVERAL_MOVES: Final = "Producer fusion has multiple non-elementwise ops, bailing."
IN_PLACE_CONFLICT: Final = "Non-elementwise ops in consumer lead to inplace conflict after fusion."
SEVERAL_UPDATES: Final = "multiple dus ops, bailing."
SLICE_SHAPE: Final = "Slice op has a different shape than the update shape of the dus op, bailing."
SLICE_INDEX: Final = "DUS and slice index mismatch"
SLICE_SHARED: Final = "Fusing slice into DUS will also fuse another non-elementwise op with shared operand as DUS."
DYNAMIC_SLICE_SHAPE: Final = "Dynamic slice op has a different shape than the update shape of the dus op, bailing."
DYNAMIC_SLICE_INDEX: Final = "DUS and DS index mismatch"
DYNAMIC_SLICE_SHARED: Final = "Fusing DS into DUS will also fuse another non-elementwise op with shared operand as DUS."
UNRECOGNIZED: Final = "unrecognized inplace update non-elementwise output pair"

NO_TILING: Final = "No valid tilings found"
"""The end of XLA's reason: no tile of a Triton fusion fits into the registers of a block."""

MEANINGS: Final = MappingProxyType(
    {
        NO_USERS: "no instruction reads the result",
        ONLY_BITCASTS: "the readers are bitcasts, such as those before a matmul",
        ROOT: "the producer is the result of its computation",
        PRODUCER_NOT_FUSIBLE: "it is a kernel of its own, such as a matmul, sort, loop, or collective",
        CONSUMER_NOT_FUSIBLE: "it is a kernel of its own, such as a matmul, sort, loop, or collective",
        BITCAST_CONSUMER: "the consumer is a bitcast, which takes no time",
        SCATTER_OUTPUT: "it writes in place, so that its kernel ends with it",
        SCATTER_OPERAND: "the producer computes the updated array",
        SCATTER_SHARED: "the producer reads the updated array",
        TWO_REDUCES: "a reduction of 16 or more elements would be recomputed for another one",
        REDUCE_BECOMES_LOOP: "threads would not share the work of the reduction",
        SHARED_MEMORY: "reductions and transposes keep tiles there",
        TOO_MANY_REDUCTIONS: "reductions of both are counted",
        TOO_MANY_OPERANDS: "the limit is 96",
        CODE_SIZE: "the limit is 10,000 operations",
        IN_PLACE_TWICE: "the consumer updates a buffer in place and reads it through another operand, too",
        SEVERAL_MOVES: "the consumer updates a buffer in place, and the producer moves elements in several ways",
        IN_PLACE_CONFLICT: "the consumer updates a buffer in place and would read elements that are overwritten",
        SEVERAL_UPDATES: "the consumer has several dynamic-update-slices",
        SLICE_SHAPE: "the producer's slice and the in-place update have different shapes",
        SLICE_INDEX: "the producer's slice and the in-place update are at different or unknown places",
        SLICE_SHARED: "another operation would read the buffer that is updated in place",
        DYNAMIC_SLICE_SHAPE: "the producer's dynamic-slice and the in-place update have different shapes",
        DYNAMIC_SLICE_INDEX: "the producer's dynamic-slice and the in-place update have different indices",
        DYNAMIC_SLICE_SHARED: "another operation would read the buffer that is updated in place",
        UNRECOGNIZED: "the consumer updates a buffer in place, and the producer moves elements of it",
        TRITON: "one of them is a Triton fusion; XLA's tiles of the other are not modeled",
        NO_TILING: "no tile of both as one Triton kernel fits into the registers of a block",
    }
)
"""What each reason means, in plain words."""
_BUDGET: Final = SHARED_MEMORY.partition("{")[0]  # it holds the chip's own limit, so it is found by its start


def meaning_of(reason: str) -> str:
    """What a reason means, in plain words; empty for those that are not known, such as Triton's.

    >>> meaning_of("do not fuse into the output of scatter")
    'it writes in place, so that its kernel ends with it'
    """
    return MEANINGS.get(SHARED_MEMORY if reason.startswith(_BUDGET) else reason, "")


# --- operations that update in place ---
# Reasons against fusing into an operation that updates an operand in place.
#
# Mirrors `ShouldFuseInPlaceOp` of xla/service/instruction_fusion.cc.


_TRANSPARENT: Final = frozenset((opcodes.FUSION, opcodes.BITCAST, opcodes.PARAMETER))


def _in_place_reason(producer: Node, consumer: Node) -> str | None:
    """Reason against the fusion because the consumer updates an operand in place; None if there is none.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)  u = f32[9] reverse(a), dimensions={0}
    ... ROOT r = f32[9] dynamic-update-slice(a, u, i) }'''
    >>> root = mutable_graph_of(parse_module(text).entry).root
    >>> _in_place_reason(root.operands[1], root)
    'unrecognized inplace update non-elementwise output pair'
    """
    # instruction_fusion.cc returns at the first pair that concerns the producer, whatever the later ones would say.
    for number, _ in in_place_operands(consumer):
        overwritten = consumer.operands[number]
        if consumer.operands.count(overwritten) > 1:
            return IN_PLACE_TWICE
        if overwritten is producer or overwritten in producer.operands:
            return _reason(producer, consumer)
    return None


def _reason(producer: Node, consumer: Node) -> str | None:
    # Elementwise operations read an element before it is overwritten; only one that moves elements can read too late.
    moves = [node for node in _operations(producer) if _moves_elements(node)]
    if len(moves) > 1:
        return SEVERAL_MOVES
    if not moves:
        is_moved = consumer.body is not None and _reaches_move(producer, consumer, consumer.body.root)
        return IN_PLACE_CONFLICT if is_moved else None
    updates = [node for node in _operations(consumer) if node.opcode == opcodes.DYNAMIC_UPDATE_SLICE]
    # A scatter that is fused with one move: XLA makes no test, since its update cannot be compared with a slice.
    if not updates:
        return None
    if len(updates) > 1:
        return SEVERAL_UPDATES
    update, (move,) = updates[0], moves
    if move.opcode == opcodes.SLICE:
        return _slice_reason(move, update, producer, consumer)
    if move.opcode == opcodes.DYNAMIC_SLICE:
        return _dynamic_slice_reason(move, update, producer, consumer)
    # Only slices can be shown to read just what is written; a reverse, say, reads elements already overwritten.
    return UNRECOGNIZED


def _slice_reason(move: Node, update: Node, producer: Node, consumer: Node) -> str | None:
    if move.shape != update.operands[1].shape:
        return SLICE_SHAPE
    for start, bound in zip(update.operands[2:], slice_bounds(move), strict=False):
        # A static slice is the update's region only if the starts are constants; a parameter's value is its operand's.
        if constant_value(outer_value(start, consumer)) != bound.start or bound.stride != 1:
            return SLICE_INDEX
    is_shared = consumer.body is not None and _reaches_move(producer, consumer, update)
    return SLICE_SHARED if is_shared else None


def _dynamic_slice_reason(move: Node, update: Node, producer: Node, consumer: Node) -> str | None:
    if move.shape != update.operands[1].shape:
        return DYNAMIC_SLICE_SHAPE
    for own, start in zip(move.operands[1:], update.operands[2:], strict=False):
        one, other = outer_value(own, producer), outer_value(start, consumer)
        first, second = constant_value(one), constant_value(other)
        # Equal constants may be two instructions, other starts have to be the same one.
        if first != second or (first is None and one is not other):
            return DYNAMIC_SLICE_INDEX
    is_shared = consumer.body is not None and _reaches_move(producer, consumer, update)
    return DYNAMIC_SLICE_SHARED if is_shared else None


def _operations(node: Node) -> list[Node]:
    """The node itself, or the operations of a fusion."""
    return [node] if node.body is None else list(node.body.operations)


def _moves_elements(node: Node) -> bool:
    return node.opcode not in _TRANSPARENT and not is_elementwise(node)


def _reaches_move(producer: Node, fusion: Node, excepted: Node) -> bool:
    """Whether an operation of the fusion that moves elements, other than `excepted`, uses the producer's value."""
    assert fusion.body is not None
    waiting = [fusion.body.parameters[fusion.operands.index(producer)]]
    seen = set(waiting)
    for node in waiting:
        if node is not excepted and _moves_elements(node):
            return True
        waiting.extend(user for user in node.users if user not in seen)
        seen.update(node.users)
    return False


# --- a producer and its consumer ---
# Whether XLA:GPU may fuse a producer into a consumer: the first reason against it, in XLA's order.
#
# Mirrors `CanFuse` of xla/backends/gpu/transforms/priority_fusion.cc, and `FusionFitsInBudget` and
# `CanEmitInputFusedScatter` of xla/service/gpu/gpu_fusible.cc.


_GENERATED: Final = frozenset(
    (
        *(
            opcodes.BROADCAST,
            opcodes.CONCATENATE,
            opcodes.CONSTANT,
            opcodes.DYNAMIC_SLICE,
            opcodes.DYNAMIC_UPDATE_SLICE,
        ),
        *(opcodes.GATHER, opcodes.IOTA, opcodes.PAD, opcodes.REDUCE, opcodes.REDUCE_WINDOW, opcodes.RESHAPE),
        *(opcodes.REVERSE, opcodes.SCATTER, opcodes.SLICE, opcodes.TRANSPOSE, opcodes.COPY),
    )
)
"""Opcodes of operations other than elementwise ones that the loop emitter can compute."""
_LONG_REDUCE: Final = 16  # priority_fusion.cc: a reduction of fewer elements is cheap enough to be repeated
# `kMaxUnnestedReductionOutputsPerFusion` of gpu_fusible.cc: more of them spill registers.
_MAX_UNNESTED_REDUCTIONS: Final = 8
_MAX_OPERANDS_AND_OUTPUTS: Final = 96  # gpu_fusible.h: parameters of a kernel are limited, and many need many registers
_MAX_SIZE: Final = 10_000  # `kMaxIRSize` of gpu_hlo_cost_analysis.h, an estimate of the size of the code
_MAX_COLUMN_VECTOR: Final = 4  # gpu_fusible.cc: a column reduction reads up to 4 elements a thread at once
_BUDGETED: Final = (opcodes.REDUCE, opcodes.TRANSPOSE)  # gpu_fusible.cc: no other operation has tiles
_TILE: Final = 32  # reduction.cc: a tile has as many rows and columns as a warp has threads


def is_fusible_bitcast(node: Node) -> bool:
    """Whether a node is a bitcast that keeps the width of elements (`IsFusibleBitcast`)."""
    return node.opcode == opcodes.BITCAST and bits_of(node.shape) == bits_of(node.operands[0].shape)


def is_triton(node: Node) -> bool:
    """Whether a node is a fusion that Triton compiles (`IsGenericTritonFusion`)."""
    if node.kind != "kCustom":
        return False
    # As text: a configuration is JSON of hundreds of characters, and every pair asks.
    config = node.instruction.attribute("backend_config") or ""
    return '"kind":"__triton"' in config.replace(" ", "")


def can_be_fused(node: Node) -> bool:
    """Whether an operation can be part of a fusion (`IsFusible` of priority_fusion.cc).

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> [can_be_fused(node) for node in mutable_graph_of(parse_module("r = f32[] sine(f32[] a)").entry).nodes]
    [False, True]
    """
    # Before `is_fusible`: a fusion needs no look at its body.
    if node.opcode == opcodes.FUSION and node.kind != "kCustom":
        return True
    if not is_fusible(node):
        return False
    return node.opcode in _GENERATED or is_elementwise(node) or is_fusible_bitcast(node) or is_triton(node)


def _is_scatter_fusion(node: Node) -> bool:
    """Whether a node is a scatter, or an input fusion of one."""
    if node.body is not None:
        return node.kind == "kInput" and node.body.root.opcode == opcodes.SCATTER
    return node.opcode == opcodes.SCATTER


@dataclass(frozen=True, slots=True)
class _Budget:
    """What a node adds to a fusion: bytes of shared memory, and reductions."""

    shared_bytes: int
    reductions: int
    has_long_reduce: bool


class GpuFusionRules:
    """Decisions on pairs of nodes of a computation; `root` is the node with its result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = "ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }"
    >>> graph = mutable_graph_of(parse_module(text).entry)
    >>> rules = GpuFusionRules(KernelModel(gpu_device("h100")), graph.root)
    >>> rules.reason(graph.root.operands[0], graph.root), rules.reason(graph.root, graph.root.operands[0])
    (None, 'not fusing into the output of the root instruction')
    """

    __slots__ = ("_budgets", "_model", "root")

    def __init__(self, model: KernelModel, root: Node | None) -> None:
        self._model = model
        self._budgets: dict[Node, _Budget] = {}
        self.root = root

    def forget(self, node: Node) -> None:
        """Forgets what is known of a node that changed."""
        self._budgets.pop(node, None)

    def reason(self, producer: Node, consumer: Node) -> str | None:
        """The first reason against fusing a producer into a consumer; None if there is none."""
        if producer is self.root:
            return ROOT
        if not can_be_fused(producer):
            return PRODUCER_NOT_FUSIBLE
        if not can_be_fused(consumer):
            return CONSUMER_NOT_FUSIBLE
        # XLA asks for a tiling, and nothing else.
        if is_triton(producer) or is_triton(consumer):
            return self._model.triton_reason(producer, consumer)
        if is_fusible_bitcast(consumer):
            return BITCAST_CONSUMER
        if (reason := scatter_reason(producer, consumer)) is not None:
            return reason
        if self._budget(producer).has_long_reduce and self._budget(consumer).has_long_reduce:
            return TWO_REDUCES
        # The merged emitter is the costly question, so it is asked only of reductions.
        is_reduction = self._model.analysis(producer).emitter == REDUCTION
        if is_reduction and self._model.merged_analysis(producer, consumer).emitter == LOOP:
            return REDUCE_BECOMES_LOOP
        if (reason := self.budget_reason(producer, consumer, is_merged=True)) is not None:
            return reason
        if self.is_too_large(producer, consumer):
            return CODE_SIZE
        return _in_place_reason(producer, consumer)

    def budget_reason(self, producer: Node, consumer: Node, *, is_merged: bool) -> str | None:
        """Reason against one kernel of both: shared memory, reductions, or operands (`FusionFitsInBudget`)."""
        one, other = self._budget(producer), self._budget(consumer)
        limit = self._model.device.shared_memory_per_block
        if one.shared_bytes + other.shared_bytes > limit:
            return SHARED_MEMORY.format(budget=limit)
        if one.reductions + other.reductions > _MAX_UNNESTED_REDUCTIONS:
            return TOO_MANY_REDUCTIONS
        # The cheap bound first, as in XLA: it counts shared operands twice.
        outputs = _count(producer.shape) + _count(consumer.shape)
        if len(producer.operands) + len(consumer.operands) - 1 + outputs <= _MAX_OPERANDS_AND_OUTPUTS:
            return None
        operands = {*producer.operands, *consumer.operands} - {producer, consumer}
        # gpu_fusible.cc: a fusion that does not grow cannot exceed what was already allowed.
        if is_merged and len(operands) <= len(consumer.operands):
            return None
        return TOO_MANY_OPERANDS if len(operands) + outputs > _MAX_OPERANDS_AND_OUTPUTS else None

    def is_too_large(self, producer: Node, consumer: Node) -> bool:
        """Whether the producer's code would be repeated too often (`ProducerConsumerMergedTooLarge`)."""
        other = self._model.work(consumer)
        times = 1
        if consumer.body is not None and producer in consumer.operands:
            times = other.copies[consumer.operands.index(producer)]
        return self._model.work(producer).size * times + other.size > _MAX_SIZE

    def _budget(self, node: Node) -> _Budget:
        budget = self._budgets.get(node)
        if budget is None:
            part = self._model.part(node)
            inside: list[Node] = []
            if not part.opcodes.isdisjoint(_BUDGETED):
                inside = [hero for hero in part.operations if hero.opcode in _BUDGETED]
            warp = self._model.device.threads_per_warp
            shared = reductions = 0
            for hero in inside:
                if hero.opcode == opcodes.REDUCE and (reduction := fast_reduction(hero, warp)) is not None:
                    # Inputs only, which are the first half of the operands of a reduce; its initial values need no
                    # tile.
                    width = sum(_width(operand.shape) for operand in hero.operands[: len(hero.operands) // 2])
                    # A row needs one value for each warp, a column a tile with a column to spare against bank
                    # conflicts.
                    shared += _TILE * width * (1 if reduction.is_row else _MAX_COLUMN_VECTOR * _TILE + 1)
                    reductions += 1
                elif hero.opcode == opcodes.TRANSPOSE and (tiled := tiled_transpose_of(hero)) is not None:
                    shared += tiled.shared_bytes
            budget = self._budgets[node] = _Budget(shared, reductions, any(map(_is_long_reduce, inside)))
        return budget


def scatter_reason(producer: Node, consumer: Node) -> str | None:
    """Reason against a fusion with a scatter (`CanEmitInputFusedScatter`)."""
    if _is_scatter_fusion(producer):
        return SCATTER_OUTPUT
    if not _is_scatter_fusion(consumer):
        return None
    # Only the first input, as `CanEmitInputFusedScatter` has it.
    overwritten = consumer.operands[0]
    if consumer.body is not None:
        overwritten = consumer.operands[consumer.body.root.operands[0].number]
    if overwritten is producer:
        return SCATTER_OPERAND
    return SCATTER_SHARED if overwritten in producer.operands else None


def _is_long_reduce(node: Node) -> bool:
    if node.opcode != opcodes.REDUCE or not isinstance(node.shape, ArrayShape):
        return False
    results = node.shape.elements
    # Integer division as in XLA, so that 31 elements to 2 are no long reduce.
    return bool(results) and elements_of(node.operands[0].shape) // results >= _LONG_REDUCE


def _width(shape: Shape) -> int:
    return shape.element_type.byte_width if isinstance(shape, ArrayShape) else 0


def _count(shape: Shape) -> int:
    """Number of shapes in a shape, tuples counted (`ShapeUtil::SubshapeCount`)."""
    return 1 + sum(map(_count, shape.elements)) if isinstance(shape, TupleShape) else 1


# --- siblings in one kernel ---
# Whether XLA:GPU may compute two operations or fusions in one kernel with several results.
#
# Mirrors `ShapesCompatibleForMultiOutputFusion` and its helpers of xla/service/gpu/gpu_fusible.cc, and the tests of
# xla/backends/gpu/transforms/multi_output_fusion.cc.


_MIN_SLICED_BYTES: Final = 1024  # multi_output_fusion.cc: smaller values are read whole in any case
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
    # A kernel with several results takes in the others, so XLA starts from those that exist.
    if node.has_several_results:
        return 2
    return int(node.body is not None)


def can_be_result(node: Node, warp: int) -> bool:
    """Whether a node can be one of several results (`IsFusibleAsMultiOutputFusionRoot`)."""
    if not is_fusible(node) or node.kind == "kCustom":
        return False
    return (
        is_reduction_like(Part(node), warp)
        or _is_transpose_like(node)
        or (node.body is not None and node.kind == "kLoop")
        or is_elementwise(node)
    )


def is_sibling_candidate(node: Node, warp: int) -> bool:
    """Whether a user of a value can share a kernel with its other users (`IsSiblingFusionCandidate`)."""
    # A dead root has no reader for an element of a tuple.
    if not node.users or not can_be_result(node, warp) or _nests_results(node, warp):
        return False
    return not node.has_several_results or all(user.opcode == opcodes.GET_TUPLE_ELEMENT for user in node.users)


def _is_transpose_like(node: Node) -> bool:
    """Whether a node is a tiled transpose, or a fusion with one as hero (`IsInputFusibleTranspose`)."""
    # gpu_fusible.cc: a bitcast launches nothing, and a custom fusion has its own emitter.
    if node.opcode == opcodes.BITCAST or node.kind == "kCustom":
        return False
    if node.body is None:
        return tiled_transpose_of(node) is not None
    view = View(Part(node))
    return any(tiled_transpose_of(hero) is not None for hero in heroes_of(view, tuple(view.roots)))


def is_input_fusion_part(node: Node, warp: int) -> bool:
    """Whether a fusion of a node is an input fusion (`IsInputFusible`)."""
    return is_fusible(node) and (
        is_reduction_like(Part(node), warp) or _is_scatter_fusion(node) or _is_transpose_like(node)
    )


def can_be_kept(producer: Node) -> bool:
    """Whether a producer can become a result of its consumer (`IsProducerMultiOutputFusible`)."""
    # A result that is also overwritten would be lost, and tuples do not nest.
    if producer.has_several_results or next(in_place_operands(producer), None) is not None:
        return False
    # A copy or transpose as a result would be written uncoalesced.
    return _is_loop(producer) and not any(map(_transposes_in_memory, _operations(producer)))


def are_updates(left: Node, right: Node) -> bool:
    """Whether a result of one of two siblings is a dynamic-update-slice."""
    return any(
        node.body is not None and node.body.root.opcode == opcodes.DYNAMIC_UPDATE_SLICE for node in (left, right)
    )


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
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> entry = parse_module("r = f32[5,4] transpose(f32[4,5] a), dimensions={1,0}").entry
    >>> loop = loop_of(mutable_graph_of(entry).root, 32)
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
    # A reduction or tiled transpose loops over what it reads, everything else over its result.
    shape = inner.operands[0].shape if is_special else hero.shape
    return Loop(node, hero, reduction, tiled_transpose_of(hero), shape)


def have_same_loops(left: Loop, right: Loop) -> bool:
    """Whether two nodes can be computed in one loop (`ShapesCompatibleForMultiOutputFusion`)."""
    return _are_compatible(left, right) and _are_equal_loops(left.shape, right.shape)


def slices_overlap(left: Node, right: Node, parent: Node) -> bool:
    """Whether two users read overlapping parts of a value; true unless both read one slice of a large one."""
    # Only of a large array is a kernel of disjoint slices a loss: each block would read both.
    # Sharing pays for a small array even if its readers read different parts of it.
    if isinstance(parent.shape, TupleShape) or parent.shape.logical_bytes < _MIN_SLICED_BYTES:
        return True
    first, second = _only_slice(parent, left), _only_slice(parent, right)
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
    # A reduce of several values yields a tuple, which an elementwise user cannot take.
    if node.opcode == opcodes.REDUCE:
        return not isinstance(node.shape, TupleShape)
    if (is_elementwise(node) and node.operands) or node.opcode in _LOOPS or is_fusible_bitcast(node):
        return True
    return node.body is not None and node.kind == "kLoop"


def _transposes_in_memory(node: Node) -> bool:
    """Whether an operation changes the order of elements in memory (`IsPhysicallyTransposing`)."""
    return node.opcode == opcodes.COPY or (node.opcode == opcodes.TRANSPOSE and not moves_nothing(node))


def _real_hero(view: View, warp: int) -> Node:
    """The operation that decides the loop of a fusion (`GetRealHeroForMultiOutputFusion`)."""
    roots = tuple(view.roots)
    for root, hero in zip(roots, heroes_of(view, roots), strict=True):
        if is_real_reduction(root, hero, warp) is not None or tiled_transpose_of(hero) is not None:
            return hero
    return roots[0]


def _are_compatible(left: Loop, right: Loop) -> bool:
    """Whether one kernel can compute two heroes (`FusionHeroesAreCompatible`)."""
    # One tiling serves a kernel, so the kinds and sizes have to be equal.
    if left.reduction is not None and right.reduction is not None and left.reduction != right.reduction:
        return False
    if left.tiled is not None and right.tiled is not None and not left.tiled.is_equivalent(right.tiled):
        return False
    # An untiled transpose in a tiled kernel would read with strides.
    if (left.is_special and right.is_untiled) or (left.is_untiled and right.is_special):
        return False
    if (left.tiled is not None and right.reduction is not None) or (
        left.reduction is not None and right.tiled is not None
    ):
        return False
    # Producer and consumer: the transpose has to stay the hero of the merged kernel, which a second move would end.
    for first, second in ((left, right), (right, left)):
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


def _are_equal_loops(left: Shape, right: Shape) -> bool:
    """Whether two shapes have the same loop: equal but for the type, or a bitcast of each other."""
    if not isinstance(left, ArrayShape) or not isinstance(right, ArrayShape):
        return _without_types(left) == _without_types(right)
    if left.dimensions == right.dimensions and left.layout == right.layout:
        return True
    if left.elements != right.elements:
        return False
    # Row-major arrays of equally many elements are bitcasts of each other, whatever their dimensions.
    are_major = all(_is_row_major(shape.layout) for shape in (left, right))
    return are_major or _physical(left) == _physical(right)


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
