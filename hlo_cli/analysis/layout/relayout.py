"""How does an array get from one layout into another: as a copy, as steps of numpy, or as a bitcast?

Also what reads and checks whole maps: selections in blocks, .npy files, and a reference implementation of tiling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from math import prod
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np

from hlo_cli.analysis.layout.address_map import (
    BLOCK,
    INT64,
    PADDING,
    AddressLookup,
    Digit,
    IndexFunctions,
    IntArray,
    address_blocks,
    address_map,
    all_sums,
    digits_of,
    elements_at,
    index_functions_of,
    inverse_blocks,
    inverse_map,
    values,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import COMBINE, Bounds, Combine, Extend, Layout, Permute, Split, ravel, unravel
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

# --- elements that a copy moves ---


@dataclass(frozen=True, slots=True)
class IndexCorrespondence:
    """Mapping from elements of one array to elements of another.

    With `order`, dimension k of the second is dimension order[k] of the first; without, both count in row-major order.
    """

    order: tuple[int, ...] | None = None

    def index(self, index: tuple[IntArray, ...], before: ArrayShape, after: ArrayShape) -> tuple[IntArray, ...]:
        """Index in the second array for an index in the first."""
        if self.order is not None:
            return tuple(index[d] for d in self.order)
        if before.sizes == after.sizes:
            return index
        return unravel(np.asarray(ravel(index, before.sizes)), after.sizes)

    def index_of(self, index: tuple[int, ...], before: ArrayShape, after: ArrayShape) -> tuple[int, ...]:
        """Index in the second array for one element."""
        return tuple(int(np.asarray(at)) for at in self.index(tuple(map(np.asarray, index)), before, after))


@dataclass(frozen=True, slots=True)
class LayoutMoves:
    """Number of elements whose bit offset changes, and of runs that stay contiguous.

    A run is a sequence of elements that are contiguous in both memories; `longest_run` counts elements.
    """

    elements: int
    moved: int
    runs: int
    longest_run: int


def correspondence(before: ArrayShape, after: ArrayShape, order: Sequence[int] | None = None) -> IndexCorrespondence:
    """Correspondence of two arrays: by index, by row-major number, or by the `order` of a transpose.

    HloError if their numbers of elements differ, or `order` does not map one shape to the other.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> correspondence(parse_shape("f32[2,3]"), parse_shape("f32[3,2]"), (1, 0)).order
    (1, 0)
    """
    if before.elements != after.elements:
        counts = f"{before.elements:,} and {after.elements:,}"
        raise HloError(f"{before} and {after} have different element counts ({counts})")
    if order is not None:
        fits = sorted(order) == list(range(before.rank)) and tuple(before.sizes[d] for d in order) == after.sizes
        if not fits:
            raise HloError(f"permutation {tuple(order)} does not map {before} to {after}")
        return IndexCorrespondence(tuple(order))
    return IndexCorrespondence()


def layout_moves(before: ArrayShape, after: ArrayShape, mapping: IndexCorrespondence) -> LayoutMoves:
    """Statistics of copying every element from its position in one array to that in the other.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> layout_moves(parse_shape("f32[2,3]{1,0}"), parse_shape("f32[2,3]{0,1}"), IndexCorrespondence())
    LayoutMoves(elements=6, moved=4, runs=6, longest_run=1)
    """
    lookup = AddressLookup(after, before.elements)
    moved = runs = longest = length = 0
    # Not next to position 0, so that the first element begins a run.
    last_from = last_to = -2
    for places, index in inverse_blocks(before):
        new = np.broadcast_to(lookup.at(mapping.index(index, before, after)), places.shape)
        old = places
        # Bits, not positions: a copy may change the width that elements take, as E(4) does.
        moved += int(np.count_nonzero(old * before.element_bits != new * after.element_bits))
        # Elements come in the order of the first memory, so a run ends where either memory jumps.
        steady = (np.diff(old, prepend=last_from) == 1) & (np.diff(new, prepend=last_to) == 1)
        starts = np.flatnonzero(~steady)
        lengths = np.diff(starts, append=len(old))
        longest = max(longest, length + int(starts[0] if len(starts) else len(old)), int(lengths[:-1].max(initial=0)))
        length = int(lengths[-1]) if len(starts) else length + len(old)
        runs += len(starts)
        last_from, last_to = int(old[-1]), int(new[-1])
    return LayoutMoves(before.elements, moved, runs, max(longest, length))


# --- a copy as steps of numpy ---
# Steps that convert one memory image of an array to another: slice, reshape, transpose, and pad, as in numpy.
#
# The steps of the first layout are undone and those of the second applied; steps without effect are omitted, and
# adjacent steps of one kind merged.


StepKind = Literal["slice", "reshape", "transpose", "pad"]


@dataclass(frozen=True, slots=True)
class RelayoutStep:
    """Step and the dimensions after it; `order` is that of a transpose, as in numpy's `transpose`."""

    kind: StepKind
    sizes: Bounds
    order: tuple[int, ...] = ()


def relayout_steps(
    before: ArrayShape, after: ArrayShape, order: tuple[int, ...] | None = None
) -> tuple[RelayoutStep, ...]:
    """Steps from the memory image of one array to that of the other, with a transpose by `order` in between.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> for step in relayout_steps(parse_shape("f32[3,5]{1,0:T(2,2)}"), parse_shape("f32[3,5]{0,1}")): print(step)
    RelayoutStep(kind='transpose', sizes=(2, 2, 3, 2), order=(0, 2, 1, 3))
    RelayoutStep(kind='reshape', sizes=(4, 6), order=())
    RelayoutStep(kind='slice', sizes=(3, 5), order=())
    RelayoutStep(kind='transpose', sizes=(5, 3), order=(1, 0))
    """
    steps = [*_to_logical(before)]
    if order is not None:
        steps.append(RelayoutStep("transpose", after.sizes, order))
    elif before.sizes != after.sizes:
        steps.append(RelayoutStep("reshape", after.sizes))
    steps.extend(_to_memory(after))
    return _simplified((before.slots,) if before.slots != before.tiling.slots else before.tiling.physical, steps)


def _to_logical(shape: ArrayShape) -> Iterator[RelayoutStep]:
    """Yields the steps from memory to the logical array."""
    tiling = shape.tiling
    if shape.slots != tiling.slots:
        yield RelayoutStep("slice", (tiling.slots,))
        yield RelayoutStep("reshape", tiling.physical)
    for step, bounds in zip(reversed(tiling.steps), tiling.bounds[-2::-1], strict=True):
        match step:
            case Split(sizes=tile_sizes):
                untiled, count = len(bounds) - len(tile_sizes), len(tile_sizes)
                counts = [-(-size // tile) for size, tile in zip(bounds[untiled:], tile_sizes, strict=True)]
                pairs = tuple(i for k in range(count) for i in (untiled + k, untiled + count + k))
                halves = tuple(size for pair in zip(counts, tile_sizes, strict=True) for size in pair)
                yield RelayoutStep("transpose", (*bounds[:untiled], *halves), (*range(untiled), *pairs))
                padded = (count * tile for count, tile in zip(counts, tile_sizes, strict=True))
                yield RelayoutStep("reshape", (*bounds[:untiled], *padded))
                yield RelayoutStep("slice", bounds)
            case Permute(order=order):
                yield RelayoutStep("transpose", bounds, tuple(order.index(d) for d in range(len(order))))
            case Extend() | Combine():
                yield RelayoutStep("reshape", bounds)


def _to_memory(shape: ArrayShape) -> Iterator[RelayoutStep]:
    """Yields the steps from the logical array to memory."""
    tiling = shape.tiling
    for step, before, after in zip(tiling.steps, tiling.bounds, tiling.bounds[1:], strict=False):
        match step:
            case Split(sizes=tile_sizes):
                untiled, count = len(before) - len(tile_sizes), len(tile_sizes)
                counts = after[untiled : untiled + count]
                padded = (number * tile for number, tile in zip(counts, tile_sizes, strict=True))
                yield RelayoutStep("pad", (*before[:untiled], *padded))
                halves = tuple(size for pair in zip(counts, tile_sizes, strict=True) for size in pair)
                yield RelayoutStep("reshape", (*before[:untiled], *halves))
                moved = range(untiled, untiled + 2 * count)
                yield RelayoutStep("transpose", after, (*range(untiled), *moved[::2], *moved[1::2]))
            case Permute(order=order):
                yield RelayoutStep("transpose", after, order)
            case Extend() | Combine():
                yield RelayoutStep("reshape", after)
    if shape.slots != tiling.slots:
        yield RelayoutStep("reshape", (tiling.slots,))
        yield RelayoutStep("pad", (shape.slots,))


def _simplified(sizes: Bounds, steps: list[RelayoutStep]) -> tuple[RelayoutStep, ...]:
    """Equivalent shorter steps: transposes that keep memory become reshapes, and adjacent steps of a kind are
    merged.
    """
    kept: list[RelayoutStep] = []
    for step in steps:
        before = kept[-1].sizes if kept else sizes
        # numpy copies for a transpose, never for a reshape of what is contiguous.
        if step.kind == "transpose" and _keeps_memory(before, step.order):
            step = RelayoutStep("reshape", step.sizes)
        if step.sizes == before and step.kind != "transpose":
            continue
        if kept and kept[-1].kind == step.kind:
            last = kept.pop()
            order = tuple(last.order[d] for d in step.order)
            step = RelayoutStep(step.kind, step.sizes, order)
            before = kept[-1].sizes if kept else sizes
            if step.sizes == before and (step.kind != "transpose" or order == tuple(range(len(order)))):
                continue
        kept.append(step)
    # Merging two steps can make neighbors of two others; it ends, as each round is shorter.
    return tuple(kept) if kept == steps else _simplified(sizes, kept)


def _keeps_memory(sizes: Bounds, order: tuple[int, ...]) -> bool:
    """Whether a transpose only moves dimensions of size 1, or the array is empty."""
    large = [d for d in order if sizes[d] != 1]
    return large == sorted(large) or not prod(sizes)


# --- bitcasts as transposes and reshapes ---
# The logical index change when the same bytes get another shape or layout.
#
# `ShapeUtil::TransposeIsBitcast` and `ReshapeIsBitcast` of xla/shape_util.h ignore tiles; here tiles count.


Kind: TypeAlias = Literal["identity", "reshape", "transpose", "reshape and transpose", "transpose and reshape"]

_MAX_ELEMENTS = 1 << 22  # 32 MiB for each of two vectors of addresses; larger groups are compared block by block


@dataclass(frozen=True, slots=True)
class BitcastSteps:
    """Logical operations that are equivalent to a bitcast.

    A "reshape and transpose" is a reshape to `factors`, a transpose by `order`, and a reshape to the result. A
    "transpose and reshape" transposes both arrays to their physical order, in which they are reshapes of each other.
    """

    kind: Kind
    factors: tuple[int, ...]
    order: tuple[int, ...] = ()


def bitcast_steps(before: ArrayShape, after: ArrayShape) -> BitcastSteps | None:
    """Operations equivalent to a bitcast from `before` to `after`; None if elements would have to move.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> bitcast_steps(parse_shape("f32[8,16]{1,0}"), parse_shape("f32[16,8]{0,1}"))
    BitcastSteps(kind='transpose', factors=(8, 16), order=(1, 0))
    >>> bitcast_steps(parse_shape("f32[64,256]{1,0:T(8,128)}"), parse_shape("f32[8,2,8,128]{3,2,1,0}"))
    BitcastSteps(kind='reshape and transpose', factors=(8, 8, 2, 128), order=(0, 2, 1, 3))
    """
    if before.elements != after.elements or before.element_bits != after.element_bits:
        return None
    if _have_same_addresses(before, after):
        return BitcastSteps("identity" if before.sizes == after.sizes else "reshape", before.sizes)
    order = _order_between(before, after)
    if order is not None and _have_same_addresses(permuted(before, order), after):
        return BitcastSteps("transpose", before.sizes, order)
    first, second = (shape.layout.minor_to_major[::-1] for shape in (before, after))
    # In physical order the untiled case is a plain reshape, whatever the logical dimensions are.
    if _have_same_addresses(permuted(before, first), permuted(after, second)):
        return _in_memory_order(before, after)
    return _common_factors(before, after)


def permuted(shape: ArrayShape, order: Sequence[int]) -> ArrayShape:
    """Transposed array over the same bytes: its dimension k is dimension order[k] of the shape.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(permuted(parse_shape("f32[3,5]{1,0:T(8,128)}"), (1, 0)))
    f32[5,3]{0,1:T(8,128)}
    """
    minor_to_major = tuple(order.index(d) for d in shape.layout.minor_to_major)
    return replace(
        shape,
        dimensions=tuple(shape.dimensions[d] for d in order),
        dynamic_dimensions=tuple(shape.dynamic_dimensions[d] for d in order),
        layout=replace(shape.layout, minor_to_major=minor_to_major),
    )


def _in_memory_order(before: ArrayShape, after: ArrayShape) -> BitcastSteps:
    """Steps between two arrays that are equal in physical order: a reshape between two transposes."""
    refined = _common_factors(before, after)
    return refined if refined is not None else BitcastSteps("transpose and reshape", before.sizes)


def _common_factors(before: ArrayShape, after: ArrayShape) -> BitcastSteps | None:
    """Steps from the common factorization of two unpadded arrays, whose memory has the same digits; None if there is
    none.
    """
    ours, theirs = digits_of(before), digits_of(after)
    if ours is None or theirs is None:
        return None
    places = sorted({place for digits in (ours, theirs) for place, _, _ in digits} | {before.elements})
    factors = []
    for place, beyond in pairwise(places):
        if beyond % place:
            return None
        factors.append((beyond // place, _weight(ours, place), _weight(theirs, place)))
    by_ours = sorted(factors, key=itemgetter(1), reverse=True)
    by_theirs = sorted(factors, key=itemgetter(2), reverse=True)
    order = tuple(by_ours.index(factor) for factor in by_theirs)
    return BitcastSteps("reshape and transpose", *_merged([size for size, _, _ in by_ours], order))


def _weight(digits: Sequence[Digit], place: int) -> int:
    """Distance in row-major order between elements that are `place` positions apart."""
    least, _, weight = max(digit for digit in digits if digit[0] <= place)
    return weight * (place // least)


def _merged(sizes: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Factors and order of the same transpose with adjacent factors merged."""
    starts = [k for k, d in enumerate(order) if k == 0 or d != order[k - 1] + 1]
    runs = [tuple(order[start:end]) for start, end in pairwise([*starts, len(order)])]
    placed = sorted(runs)
    return tuple(prod(sizes[d] for d in run) for run in placed), tuple(placed.index(run) for run in runs)


def _order_between(before: ArrayShape, after: ArrayShape) -> tuple[int, ...] | None:
    """Only transpose that can keep bytes in place: it pairs dimensions in physical order. None if sizes differ."""
    if sorted(before.sizes) != sorted(after.sizes):
        return None
    order = [-1] * after.rank
    # Dimensions of size 1 can be paired in any way; in order is as good as any.
    for large in (True, False):  # dimensions of size 1 have no position of their own
        from_dimensions, to_dimensions = (
            [d for d in shape.layout.minor_to_major if (shape.sizes[d] > 1) == large] for shape in (before, after)
        )
        for d, k in zip(from_dimensions, to_dimensions, strict=True):
            if before.sizes[d] != after.sizes[k]:
                return None
            order[k] = d
    return tuple(order)


def _have_same_addresses(before: ArrayShape, after: ArrayShape) -> bool:
    """Whether all elements, in row-major order, have the same linear indices in both arrays.

    If addresses are sums over dimensions, each group of dimensions with the same product is compared on its own.
    """
    if not before.elements:
        return True
    functions = [index_functions_of(shape.tiling) for shape in (before, after)]
    groups = list(_groups(before.sizes, after.sizes))
    if any(each is None or each.combined for each in functions) or any(
        prod(before.sizes[ours]) > _MAX_ELEMENTS for ours, _ in groups
    ):
        return _have_same_addresses_by_block(before, after)
    first, second = (each for each in functions if each is not None)
    return all(
        np.array_equal(_along(first, before.sizes, ours), _along(second, after.sizes, theirs))
        for ours, theirs in groups
    )


def _along(functions: IndexFunctions, sizes: tuple[int, ...], part: slice) -> IntArray:
    return all_sums([values(c, 0, n, INT64) for c, n in zip(functions.single[part], sizes[part], strict=True)], INT64)


def _have_same_addresses_by_block(before: ArrayShape, after: ArrayShape) -> bool:
    ours, theirs = address_blocks(before), address_blocks(after)
    first: IntArray = np.zeros(0, np.int64)
    second = first
    while True:
        if not len(first):
            first = next(ours, first)
        if not len(second):
            second = next(theirs, second)
        count = min(len(first), len(second))
        if not count:
            return True
        if not np.array_equal(first[:count], second[:count]):
            return False
        first, second = first[count:], second[count:]


def _groups(first: tuple[int, ...], second: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Adjacent dimensions of two arrays, split wherever the products of the sizes so far are equal."""
    cuts = [{prod(sizes[:k]): k for k in range(len(sizes) + 1)} for sizes in (first, second)]
    shared = sorted(cuts[0].keys() & cuts[1].keys())
    start = (0, 0)
    for product in shared:
        end = (cuts[0][product], cuts[1][product])
        if end != start:
            yield slice(start[0], end[0]), slice(start[1], end[1])
        start = end


# --- selected elements in blocks ---


def linear_indices_of(shape: ArrayShape, selections: Sequence[tuple[range, ...]]) -> Iterator[IntArray]:
    """Yields linear indices of the elements in each selection, one range per dimension, in row-major order.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
    >>> [block.tolist() for block in linear_indices_of(shape, [(range(2, 3), range(3, 5))])]
    [[17, 20]]
    """
    everything = tuple(map(range, shape.sizes))
    lookup = AddressLookup(shape, sum(prod(map(len, ranges)) for ranges in selections))
    singles: list[tuple[int, ...]] = []
    for ranges in selections:
        if ranges == everything and shape.rank:
            yield from _indices_of_singles(lookup, singles)
            yield from address_blocks(shape)
        elif all(len(each) == 1 for each in ranges):
            singles.append(tuple(each[0] for each in ranges))
        else:
            yield from _indices_of_singles(lookup, singles)
            yield from _indices_in_box(lookup, ranges)
    yield from _indices_of_singles(lookup, singles)


def elements_in(shape: ArrayShape, positions: Iterable[range], *, front: int = 0, width: int = 1) -> Iterator[IntArray]:
    """Yields the elements in ranges of positions, one row each, -1 for padding.

    With `width`, the ranges are bytes, `width` per element, and the first element is at byte `front`.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> next(elements_in(parse_shape("f32[3]{0:T(2)}"), [range(2, 4)])).tolist()
    [[2], [-1]]
    """
    for numbers in positions:
        for start in range(0, len(numbers), BLOCK):
            part = numbers[start : start + BLOCK]
            places = (np.arange(part.start, part.stop, part.step) - front) // width
            elements = np.full((len(places), shape.rank), PADDING)
            elements[places >= 0] = elements_at(shape, places[places >= 0])
            yield elements


def _indices_of_singles(lookup: AddressLookup, singles: list[tuple[int, ...]]) -> Iterator[IntArray]:
    if singles:
        columns = [np.array(column, np.int64) for column in zip(*singles, strict=True)]
        linear = lookup.at(columns)
        yield np.array(np.broadcast_to(linear, (len(singles),)), np.int64)
        singles.clear()


def _indices_in_box(lookup: AddressLookup, ranges: tuple[range, ...]) -> Iterator[IntArray]:
    sizes = tuple(map(len, ranges))
    for start in range(0, prod(sizes), BLOCK):
        places = unravel(np.arange(start, min(start + BLOCK, prod(sizes))), sizes)
        columns = [each.start + place * each.step for each, place in zip(ranges, places, strict=True)]
        yield np.asarray(lookup.at(columns))


# --- npy files ---
# Version 1.0 of numpy.lib.format is written, any is read.


def npy_bytes(blocks: Iterable[IntArray], sizes: Sequence[int]) -> Iterator[bytes]:
    """Yields the bytes of a .npy file with an int64 array, from blocks of elements in row-major order.

    >>> np.load(BytesIO(b"".join(npy_bytes([np.arange(4), np.arange(2)], (2, 3)))))
    array([[0, 1, 2],
           [3, 0, 1]])
    """
    header = BytesIO()
    # Version 1.0 of the format, which every reader knows.
    description = {"descr": "<i8", "fortran_order": False, "shape": tuple(sizes)}
    np.lib.format.write_array_header_1_0(header, description)
    yield header.getvalue()
    for block in blocks:
        yield np.ascontiguousarray(block, "<i8").tobytes()


def integers_of(data: bytes, name: str) -> IntArray:
    """Integer array in a .npy file; HloError if it has other content.

    >>> integers_of(b"".join(npy_bytes([np.arange(3)], (3,))), "x.npy")
    array([0, 1, 2])
    """
    try:
        array = array_of(data)
    except ValueError as error:
        raise HloError(f"'{name}' is not a .npy file: {error}") from None
    if not np.issubdtype(array.dtype, np.integer):
        raise HloError(f"'{name}' contains {array.dtype}, expected integers")
    integers: IntArray = array
    return integers


def array_of(data: bytes) -> np.ndarray[Any, Any]:
    """The array in the bytes of a .npy file; ValueError, which says why, if they hold none.

    >>> array_of(b"".join(npy_bytes([np.arange(3)], (3,)))).shape
    (3,)
    """
    header = npy_header(data)
    if header.size != len(data) - header.begin:
        raise ValueError(f"its header states {header.size:,} bytes of data, found {len(data) - header.begin:,}")
    flat = np.frombuffer(data, header.dtype, offset=header.begin)
    return flat.reshape(header.shape, order="F" if header.is_column_major else "C").copy(order="K")


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """Shape and type of the array in a .npy file, and where its elements begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_column_major: bool
    begin: int

    @property
    def size(self) -> int:
        """Bytes of the elements."""
        return prod(self.shape) * self.dtype.itemsize


def npy_header(data: bytes) -> NpyHeader:
    """The header in the first bytes of a .npy file; ValueError, which says why, if there is none.

    >>> npy_header(b"".join(npy_bytes([np.arange(3)], (3,)))).shape
    (3,)
    """
    stream = BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_column_major, dtype = read(stream)
        header = NpyHeader(tuple(map(int, shape)), np.dtype(dtype), bool(is_column_major), stream.tell())
    except Exception as error:  # noqa: BLE001 - numpy's reader evaluates Python text, which may raise anything
        reason = "it is not an array" if not isinstance(error, ValueError) else " ".join(str(error).split())
        raise ValueError(reason) from None
    # Unpickling runs code of whoever wrote the file.
    if header.dtype.hasobject:
        raise ValueError("it contains pickled Python objects, which are not read")
    if min(header.shape, default=0) < 0 or header.size >= 1 << 63:
        raise ValueError(f"invalid shape {list(header.shape)}")
    return header


# --- tiling of whole arrays as the reference ---
# The array itself is transposed, padded, reshaped, and transposed again, tile by tile, without index arithmetic.
# Follows XLA's docs/tiled_layout.md, including `*`.


def verify_index_map(shape: ArrayShape) -> bool:
    """Whether padding, reshaping, and transposing the array gives the same linear indices, and their inverse.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> verify_index_map(parse_shape("f32[3,5]{1,0:T(2,2)}"))
    True
    """
    memory = in_memory(shape.sizes, shape.layout).ravel()
    forward = np.array_equal(memory[address_map(shape).ravel()], np.arange(shape.elements))
    return forward and np.array_equal(inverse_map(shape)[: memory.size], memory)


def in_memory(sizes: Bounds, layout: Layout) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Row-major number of the element in each position, -1 for padding, in the physical dimensions.

    >>> from hlo_cli.ir.layout import Tile
    >>> in_memory((3,), Layout((0,), (Tile((2,)),))).tolist()
    [[0, 1], [2, -1]]
    """
    memory = np.arange(np.prod(sizes, dtype=np.int64), dtype=np.int64).reshape(sizes)
    memory = memory.transpose(layout.minor_to_major[::-1])
    for tile in layout.tiles:
        memory = _tiled(memory, tile.dimensions)
    return memory


def _tiled(memory: np.ndarray[Any, np.dtype[np.int64]], tile: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    memory = memory.reshape((1,) * (len(tile) - memory.ndim) + memory.shape)
    first = memory.ndim - len(tile)
    # Dimensions under `*` merge into the next more minor one. XLA prints and parses `*`, but its index functions lack
    # it.
    merged, cuts, run = list(memory.shape[:first]), [], 1
    for size, cut in zip(memory.shape[first:], tile, strict=True):
        run *= size
        if cut != COMBINE:
            merged.append(run)
            cuts.append(cut)
            run = 1
    memory = memory.reshape(merged)
    missing = [-size % cut for size, cut in zip(memory.shape[first:], cuts, strict=True)]
    memory = np.pad(memory, [*((0, 0),) * first, *((0, extra) for extra in missing)], constant_values=PADDING)
    halves = [part for size, cut in zip(memory.shape[first:], cuts, strict=True) for part in (size // cut, cut)]
    memory = memory.reshape((*memory.shape[:first], *halves))
    return memory.transpose((*range(first), *range(first, memory.ndim, 2), *range(first + 1, memory.ndim, 2)))
