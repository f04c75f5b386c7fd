"""Which emitter of XLA:GPU makes the kernel of a fusion, and are its reads coalesced?

A kernel is seen as XLA analyzes it before it exists: a producer and a consumer, as one fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.mutable_graph import Node, is_elementwise
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import default_layout
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

# --- sizes of shapes ---
# Sizes of shapes as XLA:GPU counts them.


_POINTER_BYTES: Final = 8  # GpuCompiler takes the host's pointers, which have 64 bits on every platform with a GPU


def elements_of(shape: Shape) -> int:
    """Number of elements; of a tuple, of all leaves (`ShapeUtil::ElementsInRecursive`).

    >>> from hlo_cli.ir.shape import TokenShape, TupleShape
    >>> elements_of(TupleShape((TokenShape(),)))
    0
    """
    if isinstance(shape, ArrayShape):
        return shape.elements
    return sum(leaf.elements for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))


def bytes_of(shape: Shape) -> int:
    """Bytes of an array; of a tuple, of its table of pointers (`GpuCompiler::ShapeSizeBytesFunction`).

    >>> from hlo_cli import parse_module
    >>> bytes_of(parse_module("a = f32[3] parameter(0)").entry.root.shape)
    12
    """
    return len(shape.elements) * _POINTER_BYTES if isinstance(shape, TupleShape) else shape.logical_bytes


class Sizes:
    """Bytes of shapes, remembered by shape object: a module has few.

    >>> from hlo_cli import parse_module
    >>> Sizes().of(parse_module("a = f32[3] parameter(0)").entry.root.shape)
    12
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Shape, int]] = {}

    def of(self, shape: Shape) -> int:
        """The same as `bytes_of`."""
        found = self._known.get(id(shape))
        if found is None:
            found = self._known[id(shape)] = shape, bytes_of(shape)
        return found[1]


def arrays_of(shape: Shape) -> list[ArrayShape]:
    """Arrays of a shape: itself, or those of a tuple."""
    return [leaf for _, leaf in shape.leaves if isinstance(leaf, ArrayShape)]


def first_array(shape: Shape) -> Shape:
    """The shape itself, or the first element of a tuple."""
    while isinstance(shape, TupleShape) and shape.elements:
        shape = shape.elements[0]
    return shape


def sizes_of(node: Node) -> tuple[int, ...]:
    """Dimensions of the array that a node computes; empty for others."""
    return node.shape.sizes if isinstance(node.shape, ArrayShape) else ()


def type_of(node: Node) -> str:
    """Element type of the array that a node computes; empty for others."""
    return node.shape.element_type.name if isinstance(node.shape, ArrayShape) else ""


# primitive_util.cc counts one bit for pred, but the emitters use the width in memory.
def bits_of(shape: Shape) -> int:
    """Bits of an element (`primitive_util::BitWidth`, where pred has 8 in memory); 0 if not an array."""
    if not isinstance(shape, ArrayShape):
        return 0
    return 8 if shape.element_type.kind == "pred" else shape.element_type.bits


# --- one part of a kernel ---
# An operation, or a fusion with its current body, whatever it is fused with.


HEROES: Final = frozenset((opcodes.REDUCE, opcodes.TRANSPOSE, opcodes.CONCATENATE))
"""Opcodes of operations that can decide how a whole kernel is computed."""
_DECISIVE: Final = HEROES | {
    *(opcodes.SCATTER, opcodes.SORT, opcodes.DOT, opcodes.REDUCE_WINDOW, opcodes.DYNAMIC_UPDATE_SLICE)
}
"""Opcodes of operations on which the launch of a kernel depends."""
_MOVERS: Final = (opcodes.TRANSPOSE, opcodes.CONCATENATE)


class Part:
    """Operations of a node, without parameters and the tuple of results; valid until the node changes.

    `results` compute the results, `opcodes` are those of all operations, `movers` the transposes and concatenates. The
    kernel of plain parts is a loop over the result, whatever else is in it.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> module = parse_module("ENTRY e { a = s8[2] parameter(0)  ROOT b = s8[2] add(a, a) }")
    >>> part = Part(mutable_graph_of(module.entry).root)
    >>> part.operations, part.results, part.opcodes, part.movers, part.is_plain
    ([<node add b>], [<node add b>], {'add'}, [], True)
    """

    __slots__ = ("_operations", "is_plain", "movers", "node", "opcodes", "results")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._operations: list[Node] | None = None
        self.results, self.opcodes = [node], {node.opcode}
        if node.body is not None:
            root = node.body.root
            self.results, self.opcodes = [root], {*node.body.by_opcode}
            if root.opcode == opcodes.TUPLE:
                # The tuple of results is no operation to XLA's adaptor: its operands are the roots.
                self.results = root.operands
                if len(node.body.by_opcode[root.opcode]) == 1:
                    self.opcodes.remove(root.opcode)
        # A fusion that returns a parameter has a root that is computed elsewhere, so the shortcut does not hold.
        has_outer_result = any(each.opcode == opcodes.PARAMETER for each in self.results)
        self.is_plain = self.opcodes.isdisjoint(_DECISIVE) and not has_outer_result
        has_movers = not self.is_plain and not self.opcodes.isdisjoint(_MOVERS)
        self.movers = [each for each in self.operations if each.opcode in _MOVERS] if has_movers else []

    @property
    def operations(self) -> list[Node]:
        """The operations, which plain parts are not asked for."""
        if self._operations is None:
            body = self.node.body
            self._operations = [self.node] if body is None else [*body.operations]
            if body is not None and body.root.opcode == opcodes.TUPLE:
                self._operations.remove(body.root)
        return self._operations

    def with_opcode(self, opcode: str) -> Iterable[Node]:
        """The operations of one opcode."""
        body = self.node.body
        if body is not None:
            return body.by_opcode.get(opcode, ())
        return (self.node,) if self.node.opcode == opcode else ()

    def contains(self, node: Node) -> bool:
        """Whether a node is the operation, or an operation or parameter of the fusion."""
        own = self.node
        return node is own if own.body is None else node in own.body.nodes


# --- a kernel before it exists ---
# One kernel as XLA analyzes it before it exists: a producer and a consumer, seen as one fusion.
#
# Mirrors `HloFusionAdaptor` and `HloInstructionAdaptor` of xla/hlo/utils/hlo_traversal.cc.


class View:
    """Operations of a consumer, and of the producer that would be fused into it, if any.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }"
    >>> graph = mutable_graph_of(parse_module(text).entry)
    >>> view = View(Part(graph.root), Part(graph.root.operands[0]))
    >>> view.roots, [node.name for node in view.nodes], view.operands(view.roots[0])
    ([<node not b>], ['b', 'a'], [<node not a>])
    """

    __slots__ = ("_operands", "_users", "consumer", "is_plain", "parts", "producer")

    def __init__(self, consumer: Part, producer: Part | None = None) -> None:
        self.parts: tuple[Part, ...] = (consumer,)
        self.consumer, self.is_plain = consumer.node, consumer.is_plain
        self.producer: Node | None = None
        if producer is not None:
            self.parts = consumer, producer
            self.producer, self.is_plain = producer.node, consumer.is_plain and producer.is_plain
        self._operands: dict[Node, list[Node]] = {}
        self._users: dict[Node, list[Node]] | None = None

    @property
    def nodes(self) -> Iterator[Node]:
        """Operations without parameters and the tuple of results."""
        for part in self.parts:
            yield from part.operations

    @property
    def movers(self) -> list[Node]:
        """Transposes and concatenates among the operations."""
        return [mover for part in self.parts for mover in part.movers]

    @property
    def roots(self) -> list[Node]:
        """Nodes that compute the results."""
        results = self.parts[0].results
        return results if self.consumer.body is None else [self._source(node, self.consumer) for node in results]

    def has_any(self, wanted: Collection[str]) -> bool:
        """Whether there is an operation with one of these opcodes."""
        return not all(part.opcodes.isdisjoint(wanted) for part in self.parts)

    def contains(self, node: Node) -> bool:
        """Whether a node is an operation of the fusion."""
        if node.opcode == opcodes.PARAMETER:
            return False
        return self.parts[0].contains(node) or (self.producer is not None and self.parts[1].contains(node))

    def operands(self, node: Node) -> list[Node]:
        """Operands of a node, across the boundary of producer and consumer; parameters are nodes outside."""
        found = self._operands.get(node)
        if found is None:
            owner = self._owner(node)
            found = self._operands[node] = [self._source(operand, owner) for operand in node.operands]
        return found

    def users(self, node: Node) -> list[Node]:
        """Operations of the fusion that use a node inside or outside of it."""
        if self._users is None:
            self._users = {}
            for user in self.nodes:
                for operand in dict.fromkeys(self.operands(user)):
                    self._users.setdefault(operand, []).append(user)
        return self._users.get(node, [])

    def walk(self, starts: list[Node], visit: Callable[[Node], bool]) -> None:
        """Calls `visit` for nodes breadth first from `starts` to operands; it returns whether to continue there."""
        waiting = list(dict.fromkeys(starts))
        seen = set(waiting)
        for node in waiting:
            if visit(node):
                for operand in self.operands(node):
                    if operand not in seen and self.contains(operand):
                        seen.add(operand)
                        waiting.append(operand)

    def arguments(self) -> list[Node]:
        """Nodes outside that operations of the fusion use."""
        found = dict.fromkeys([operand for node in self.nodes for operand in self.operands(node)])
        return [operand for operand in found if not self.contains(operand)]

    def _owner(self, node: Node) -> Node:
        producer = self.producer
        return producer if producer is not None and self.parts[1].contains(node) else self.consumer

    def _source(self, node: Node, owner: Node) -> Node:
        """Node that computes a value that `owner`, or an operation in it, uses."""
        if node.opcode == opcodes.PARAMETER and owner.body is not None and node in owner.body.nodes:
            node = owner.operands[node.number]
        if node is self.producer and owner is self.consumer:
            return node if node.body is None else self._source(node.body.root, node)
        return node


# --- reductions ---
# Reductions as XLA:GPU's reduction emitter sees them: rows or columns of three merged dimensions.
#
# Mirrors xla/service/gpu/reduction_utils.cc.


MAX_BLOCK_THREADS: Final = 1024
"""`MinThreadsXRowReduction`: threads that reduce one row."""
# `ReductionDimensionRaceFreeBound` of reduction_utils.cc: 16 elements for each thread of a row.
_MAX_ROW: Final = MAX_BLOCK_THREADS * 16
_MAX_BATCH: Final = 8
"""`BatchedReductionRaceFreeBound`."""
# The bound of a batch is a constant of its own; the other two follow from the tile of the emitter.
_COLUMN_TILE: Final = 128  # the same function: rows that one thread of a column reduction adds up


class Reduction(NamedTuple):
    """Kind of a reduction, and its sizes: reduced, kept, and reduced for rows; kept, reduced, and kept for columns."""

    is_row: bool
    sizes: tuple[int, int, int]


def _reduction_of(node: Node) -> Reduction | None:
    """Kind and sizes of a reduce whose kept or reduced dimensions are contiguous, else None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''s { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[8,9,5] parameter(0)  z = f32[] constant(0)
    ...   ROOT r = f32[8,5] reduce(p, z), dimensions={1}, to_apply=s }'''
    >>> _reduction_of(mutable_graph_of(parse_module(text).entry).root)
    Reduction(is_row=False, sizes=(8, 9, 5))
    """
    return _reduction(node.instruction) if node.opcode == opcodes.REDUCE else None


@lru_cache(maxsize=4096)
def _reduction(reduce: Instruction) -> Reduction | None:
    shape = reduce.operand_shape(0)
    if not isinstance(shape, ArrayShape):
        return None
    reduced = reduce.integers("dimensions")
    kept = tuple(d for d in range(shape.rank) if d not in reduced)
    if not kept:
        # Everything is reduced: one row, whatever the layout.
        return Reduction(is_row=True, sizes=(1, 1, shape.elements))
    if _are_contiguous(shape, kept):
        major, middle, minor = _partition(shape, kept)
        if middle == 1:
            # The kept dimensions have one element, so what is around them is one contiguous row.
            return Reduction(is_row=True, sizes=(1, 1, major * minor))
        if minor == 1:
            # Nothing is reduced inside of what is kept: columns.
            return Reduction(is_row=False, sizes=(1, major, middle))
        return Reduction(is_row=True, sizes=(major, middle, minor))
    if not _are_contiguous(shape, reduced):
        return None
    major, middle, minor = _partition(shape, reduced)
    if minor == 1:
        return Reduction(is_row=True, sizes=(1, major, middle))
    return Reduction(is_row=False, sizes=(major, middle, minor))


def fast_reduction(node: Node, warp: int) -> Reduction | None:
    """Reduction that is faster by the reduction emitter than by a loop, else None.

    Mirrors `IsReductionFromOrToContiguousDimensions` and `IsUnnestedReductionFasterThanElemental`.
    """
    reduction = _reduction_of(node) if node.opcode == opcodes.REDUCE else None
    if reduction is None:
        return None
    _, middle, minor = reduction.sizes
    if reduction.is_row:
        # A short row is worth it only if rows divide the warp evenly.
        return reduction if minor >= warp or (minor and warp % minor == 0) else None
    is_small = (
        # XLA found these bounds in a sweep over small column reductions (reduction_utils.cc).
        middle < warp
        or (middle < 2 * warp and minor < warp)
        or (middle < 4 * warp and minor < 8)
        or (middle < 8 * warp and minor < 3)
    )
    return None if is_small else reduction


def _is_race_free(reduction: Reduction, warp: int) -> bool:
    """Whether one block computes each result (`ReductionIsRaceFree`)."""
    if reduction.is_row:
        # Longer ones are computed by several blocks with atomics, which is only allowed for the root.
        return reduction.sizes[2] <= _MAX_ROW and reduction.sizes[0] <= _MAX_BATCH
    return reduction.sizes[1] <= warp * _COLUMN_TILE


def _are_contiguous(shape: ArrayShape, dimensions: tuple[int, ...]) -> bool:
    """Whether dimensions are adjacent in memory (`AreDimensionsConsecutive`)."""
    places = sorted(shape.layout.minor_to_major.index(d) for d in dimensions)
    return not places or places[-1] - places[0] == len(places) - 1


def _partition(shape: ArrayShape, middle: tuple[int, ...]) -> tuple[int, int, int]:
    """Products of the dimensions before, in, and after contiguous ones, in memory order."""
    sizes = [1, 1, 1]
    # From minor to major; ones before the first dimension of `middle` go to the minor side, as in XLA.
    segment = 2
    for d in shape.layout.minor_to_major:
        if segment == 2 and d in middle:
            segment = 1
        elif segment == 1 and d not in middle:
            segment = 0
        sizes[segment] *= shape.sizes[d]
    return sizes[0], sizes[1], sizes[2]


# --- transposes by tiles ---
# Transposes that XLA:GPU's transpose emitter computes by tiles in shared memory.
#
# Mirrors `GetDescriptionForTiledTransposeEmitter` and `GetPackedTransposeTileSizes` of
# xla/service/gpu/ir_emission_utils.cc, and `GetNormalizedLogicalTransposeShape` of xla/shape_util.cc.


BANKS: Final = 32
"""`kNumShmemBanks`."""
_BANK_BITS: Final = 32  # width of a bank of shared memory on NVIDIA GPUs; narrower types are packed to fill it
_MIN_TILE: Final = 16  # `kMinDimensionToTransposeTiled` of ir_emission_utils.h
_MIN_NARROW_TILE: Final = 8  # `kMinDimensionToTransposeTiled2`: half of it, if the product is large
_MIN_TILE_ELEMENTS: Final = 8192  # `kMinTotalDimensionsToTransposeTiled`: 64 · 128, the product for the narrow case
_MAX_MINOR_BITS: Final = 64  # `kMaxBitsInMostMinorDimension`: more would take too much shared memory
# `GetPackedTransposeTileSizes`: the least number of filled lines, in elements of a bank.
_MIN_PACKED_LINES: Final = 10


class TiledTranspose(NamedTuple):
    """Result dimensions of a transpose without ones and with runs merged, and their permutation.

    `tiles` are the tile sizes of the packed emitter, by dimension of `packed_sizes`; both are empty for the other.
    """

    sizes: tuple[int, ...]
    permutation: tuple[int, ...]
    shared_bytes: int
    packed_sizes: tuple[int, ...] = ()
    tiles: tuple[int, ...] = ()

    @property
    def input_sizes(self) -> tuple[int, ...]:
        """Dimensions of the operand."""
        return permute(self.sizes, inverse(self.permutation))

    @property
    def keeps_minor(self) -> bool:
        """Whether the minor dimension stays minor."""
        return self.permutation[-1] == len(self.permutation) - 1

    def is_equivalent(self, transpose: TiledTranspose) -> bool:
        """Whether both have the same dimensions and permutation."""
        return self.sizes == transpose.sizes and self.permutation == transpose.permutation


def permute(values: tuple[int, ...], permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The values in the order of a permutation.

    >>> permute((5, 6, 7), (2, 0, 1))
    (7, 5, 6)
    """
    return tuple(values[p] for p in permutation)


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The inverse of a permutation."""
    places = [0] * len(permutation)
    for place, p in enumerate(permutation):
        places[p] = place
    return tuple(places)


def tiled_transpose_of(node: Node) -> TiledTranspose | None:
    """Description of a transpose that is computed by tiles, else None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> def asked(text): return tiled_transpose_of(mutable_graph_of(parse_module(text).entry).root)
    >>> asked("r = f32[64,32] transpose(f32[32,64] a), dimensions={1,0}")
    TiledTranspose(sizes=(64, 32), permutation=(1, 0), shared_bytes=4224, packed_sizes=(), tiles=())
    >>> asked("r = f32[64,3] transpose(f32[3,64] a), dimensions={1,0}")
    """
    if node.opcode != opcodes.TRANSPOSE:
        return None
    sizes, permutation = normalized_transpose(node)
    if len(permutation) < 2:
        return None
    bits = bits_of(node.shape)
    # The packed form comes first: where both fit, XLA takes it.
    packed = _packed(sizes, permutation, bits)
    if packed is not None:
        vector = _BANK_BITS // bits
        return TiledTranspose(sizes, permutation, BANKS * (_BANK_BITS // 8) * BANKS * vector, *packed)
    operand_sizes = permute(sizes, inverse(permutation))
    shared = BANKS * (BANKS + 1) * bits
    if permutation[-1] == len(sizes) - 1:
        width = bits * sizes[-1]
        # The tile counts in bytes here, so that 8 · 16 bits are asked of the swapped dimensions.
        if width <= _MAX_MINOR_BITS and width * min(operand_sizes[-2], sizes[-2]) >= 8 * _MIN_TILE:
            return TiledTranspose(sizes, permutation, -(-shared * sizes[-1] // 8))
        return None
    a, b = operand_sizes[-1], sizes[-1]
    is_tiled = min(a, b) >= _MIN_TILE or (min(a, b) >= _MIN_NARROW_TILE and a * b >= _MIN_TILE_ELEMENTS)
    # ir_emission_utils.cc: 4-bit types were slower by tiles, perhaps by bank conflicts; the packed form takes them.
    return TiledTranspose(sizes, permutation, -(-shared // 8)) if is_tiled and bits != 4 else None


def normalized_transpose(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Result sizes of a transpose without ones and with runs merged, and the permutation; empty for other layouts."""
    operand, result = node.operands[0].shape, node.shape
    if not isinstance(operand, ArrayShape) or not isinstance(result, ArrayShape):
        return (), ()
    order = default_layout(result.rank).minor_to_major
    # Layout normalization runs before fusion, so XLA:GPU sees row-major arrays; others are no tiled transpose.
    if operand.layout.minor_to_major != order or result.layout.minor_to_major != order:
        return (), ()
    moved = [d for d in node.instruction.integers("dimensions") if operand.sizes[d] != 1]
    runs: list[list[int]] = []
    dense = {d: place for place, d in enumerate(sorted(moved))}
    for d in moved:
        if runs and dense[runs[-1][-1]] + 1 == dense[d]:
            runs[-1].append(d)
        else:
            runs.append([d])
    ordered = sorted(runs)
    return tuple(prod(operand.sizes[d] for d in run) for run in runs), tuple(ordered.index(run) for run in runs)


def _packed(
    sizes: tuple[int, ...], permutation: tuple[int, ...], bits: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Dimensions and tile sizes of the packed emitter, for types narrower than a bank; None if it does not apply."""
    if bits >= _BANK_BITS:
        return None
    shape, order = list(sizes), list(permutation)
    # The packed emitter expects the forms of rank 3 and more that end in a dimension that stays: ones are added.
    if order[-1] != len(shape) - 1:
        order.append(len(shape))
        shape.append(1)
    rank = len(shape)
    if rank < 3 or order[rank - 3] != rank - 3:
        shape.insert(rank - 2, 1)
        order = [p + (p > rank - 3) for p in order]
        order.insert(rank - 2, rank - 2)
        rank += 1
    back = inverse(tuple(order))
    operand_sizes = permute(tuple(shape), back)
    vector = _BANK_BITS // bits
    side = BANKS * vector
    t1, a, t2 = operand_sizes[rank - 2], operand_sizes[rank - 3], operand_sizes[order[rank - 2]]
    tile_t1, tile_t2 = min(t1, side), min(t2, side)
    tile_a = min(a, side // tile_t1)
    # Rows of a tile that are too short are filled with elements of the dimension before.
    columns, least = tile_a * tile_t1, _MIN_PACKED_LINES * vector
    if columns < least or tile_t2 < least:
        return None
    if operand_sizes[-1] != 1 or tile_t2 % vector or columns % vector or t2 % tile_t2 % vector:
        return None
    tiles = [1] * rank
    tiles[back[rank - 2]], tiles[rank - 2], tiles[rank - 3] = tile_t1, tile_t2, tile_a
    return tuple(shape), tuple(tiles)


# --- emitters ---
# Which emitter of XLA:GPU makes the kernel of a fusion: its heroes decide.
#
# Mirrors `FindNonTrivialHero` of xla/service/gpu/ir_emission_utils.cc, `IsIntermediate` and `FindHero` of
# xla/codegen/ir_emission_utils.cc, and `HloFusionAnalysis::Create` of xla/service/gpu/hlo_fusion_analysis.cc.


LOOP: Final = "loop"
REDUCTION: Final = "reduction"
TRANSPOSE: Final = opcodes.TRANSPOSE
CONCATENATE: Final = opcodes.CONCATENATE
SCATTER: Final = opcodes.SCATTER
"""Names of the emitters."""
# hlo_fusion_analysis.cc: code is emitted for each operand, and more of them lower the occupancy.
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
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.fusion.gpu_emitters import Part
    >>> graph = mutable_graph_of(parse_module("r = f32[64,32] transpose(f32[32,64] a), dimensions={1,0}").entry)
    >>> analyze(View(Part(graph.root)), 32).emitter
    'transpose'
    """
    roots = tuple(view.roots)
    if view.is_plain:
        return Analysis(LOOP, roots, roots)
    heroes = heroes_of(view, roots)
    # The order is that of `HloFusionAnalysis::GetEmitterFusionKind`; the first that fits decides.
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
        # `FindNonTrivialHero` looks for a transpose in the whole fusion before it looks for a concatenate.
        for is_hero in (_is_tiled, _is_concatenate):
            if any(map(is_hero, movers)) and (found := _only_hero(view, hero, is_hero)) is not None:
                return found
    return hero if hero.opcode == opcodes.REDUCE else root


def is_real_reduction(root: Node, hero: Node, warp: int) -> Reduction | None:
    """Reduction of a hero that the reduction emitter can compute below this root, else None (`IsRealReductionHero`)."""
    found = fast_reduction(hero, warp)
    return found if found is not None and (root is hero or _is_race_free(found, warp)) else None


def is_intermediate(node: Node, most_operands: int) -> bool:
    """Whether an operation is elementwise or moves nothing, and has 1 to `most_operands` operands."""
    if not 1 <= len(node.operands) <= most_operands:
        return False
    match node.opcode:
        case opcodes.COPY:
            # A copy to another layout moves elements, as a transpose does.
            return node.shape == node.operands[0].shape
        case opcodes.BITCAST:
            return True
        case opcodes.RESHAPE | opcodes.TRANSPOSE:
            return moves_nothing(node)
    return is_elementwise(node)


def moves_nothing(node: Node) -> bool:
    """Whether a reshape or transpose leaves all elements where they are in memory."""
    operand, result = node.operands[0].shape, node.shape
    if not isinstance(operand, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    physical = tuple(operand.sizes[d] for d in reversed(operand.layout.minor_to_major) if operand.sizes[d] != 1)
    moved = tuple(result.sizes[d] for d in reversed(result.layout.minor_to_major) if result.sizes[d] != 1)
    if node.opcode == opcodes.RESHAPE:
        orders = [list(s.layout.minor_to_major) for s in (operand, result)]
        return all(order == sorted(order, reverse=True) for order in orders)
    if operand.rank != result.rank:
        return False
    source = _permutation_of(node, operand.rank)
    kept = [source[d] for d in reversed(result.layout.minor_to_major) if result.sizes[d] != 1]
    return physical == moved and kept == [d for d in reversed(operand.layout.minor_to_major) if operand.sizes[d] != 1]


def _is_tiled(node: Node) -> bool:
    return node.opcode == opcodes.TRANSPOSE and tiled_transpose_of(node) is not None


def _is_concatenate(node: Node) -> bool:
    return node.opcode == opcodes.CONCATENATE


def _only_hero(view: View, root: Node, is_hero: Callable[[Node], bool]) -> Node | None:
    """The only such operation that elementwise operations connect with the root, and with all results."""
    heroes: list[Node] = []

    def visit(node: Node) -> bool:
        if is_hero(node):
            heroes.append(node)
            return False
        # ir_emission_utils.cc allows up to three operands, those of a select; two heroes make none.
        return len(heroes) < 2 and is_intermediate(node, 3)

    view.walk([root], visit)
    if len(heroes) != 1:
        return None
    waiting = list(view.users(heroes[0]))
    visited = set(waiting)
    for node in waiting:
        if not is_intermediate(node, 3):
            return None
        for user in view.users(node):
            if user not in visited:
                visited.add(user)
                waiting.append(user)
    return heroes[0]


def _common_reduction(roots: tuple[Node, ...], heroes: tuple[Node, ...], warp: int) -> Reduction | None:
    """Reduction that one kernel computes for all results, if there is one."""
    real = [is_real_reduction(root, hero, warp) for root, hero in zip(roots, heroes, strict=True)]
    place = next((n for n, found in enumerate(real) if found is not None), None)
    if place is None:
        return None
    first, size = real[place], elements_of(heroes[place].operands[0].shape)
    for root, found in zip(roots, real, strict=True):
        # Other roots may be plain, if they have as many elements as the reduction reads.
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


# --- coalesced reads ---
# Whether the reads of a kernel are coalesced: one answer for all operands.
#
# Mirrors `IsReadCoalescedHeuristic` of xla/service/gpu/model/coalescing_analysis.cc, and `TransposesMinorDimension` and
# `IsInputFusibleReduction` of xla/service/gpu/gpu_fusible.cc.


_MOVING: Final = (opcodes.COPY, opcodes.TRANSPOSE)


def transposes_minor(part: Part) -> bool:
    """Whether an operation, or one of a fusion, moves the minor dimension of values other than broadcasts.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> graph = mutable_graph_of(parse_module("r = f32[5,4] transpose(f32[4,5] a), dimensions={1,0}").entry)
    >>> transposes_minor(Part(graph.root))
    True
    """
    moving = (each for opcode in _MOVING for each in part.with_opcode(opcode))
    return any(_moves_minor(each) and not _is_broadcast(each.operands[0]) for each in moving)


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
    operand, result = node.operands[0].shape, node.shape
    if not isinstance(operand, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    # Dimensions of one element do not count: moving them moves nothing.
    minor, moved = _minor_dimension(operand), _minor_dimension(result)
    if node.opcode == opcodes.COPY:
        return minor != moved
    if moved < 0 or operand.rank != result.rank:
        return False
    order = operand.layout.minor_to_major
    first = order.index(minor) if minor >= 0 else len(order)
    # Only if another dimension becomes minor; a permutation of the major ones reads whole lines.
    return order.index(_permutation_of(node, operand.rank)[moved]) > first


def _permutation_of(node: Node, rank: int) -> tuple[int, ...]:
    """The dimensions of a transpose; those of its operand as they are if they are missing or wrong, as lint reports."""
    given = tuple(node.instruction.integers("dimensions"))
    return given if sorted(given) == list(range(rank)) else tuple(range(rank))


def _minor_dimension(shape: ArrayShape) -> int:
    """The most minor dimension with more than one element, or -1."""
    return next((d for d in shape.layout.minor_to_major if shape.sizes[d] > 1), -1)


def _is_broadcast(node: Node) -> bool:
    # A broadcast is read from the cache in any order, so that moving it costs no coalescing.
    while node.opcode not in (opcodes.BROADCAST, opcodes.IOTA):
        if len(node.operands) != 1 or not (node.opcode == opcodes.BITCAST or is_elementwise(node)):
            return False
        node = node.operands[0]
    return True
