"""How much on-chip memory do the windows and the scratch of a kernel take, and how much is there?

What libtpu reserves for each was read from its own list of allocations, for thousands of kernels on all generations.
The compiler adds what no text tells: scratch of its own, and registers that it spills.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Final, TypeAlias

import numpy as np

from hlo_cli.analysis.hardware.chip_table import KIB, MIB
from hlo_cli.analysis.hardware.chips import USUAL_TPU, find_chip, tpu_generation
from hlo_cli.analysis.kernels.kernel_body import KernelBody, WindowAttributes, kind_of, space_of
from hlo_cli.analysis.kernels.scalar_code import Numbers, dependencies, run
from hlo_cli.analysis.layout.tpu_layout import default_tpu_layout, tile_rows_by_default
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.mlir.mlir_operations import Block, Operation, Value
from hlo_cli.mlir.mlir_values import DYNAMIC, ArrayType, DenseArray, IntegerType, NamedType, Type

LANES: Final = 128  # elements in a row of a vector register
SUBLANES: Final = 8  # rows of 32 bits in a vector register
WORD: Final = 32  # bits: narrower elements share a word
WINDOW_GRANULE: Final = KIB  # all buffers of a window together; scratch is not rounded up
SMEM_GRANULE: Final = 512  # of a window or a prefetched array in scalar memory; twice that where tiles are large
SMALLEST: Final = 512  # bytes of a number without dimensions
SCALAR_OPERAND: Final = 512  # what an operand that XLA keeps in scalar memory takes of VMEM


# --- one buffer ---


def bits_of(element: Type) -> int:
    """The bits in which an element of a memref is stored; 0 for a semaphore. A boolean takes a word.

    >>> bits_of(NamedType("bf16")), bits_of(IntegerType(1))
    (16, 32)
    """
    bits = element.bits if isinstance(element, IntegerType | NamedType) else None
    return WORD if bits == 1 or element == NamedType("index") else bits or 0


def buffer_bytes(block: Sequence[int], bits: int, tile_rows: int = SUBLANES, *, has_large_tiles: bool = False) -> int:
    """The bytes of one buffer of a block, whose rows and columns are filled up to whole tiles.

    `tile_rows` is the first number in the tile of the operand's layout; a block has the tile of an array of its rows if
    that is smaller. By default, it is that of scratch. `has_large_tiles` holds for v2 and v3.

    >>> buffer_bytes((256, 128), 16, 8), buffer_bytes((1, 300), 32, 8), buffer_bytes((100,), 32), buffer_bytes((), 32)
    (65536, 1536, 512, 512)
    """
    packed = max(WORD // max(bits, 1), 1)
    if not block:
        return SMALLEST
    if len(block) == 1:
        granule = LANES * packed * (1 + has_large_tiles)
        return _up(block[0], granule) * bits // 8
    *leading, rows, columns = block
    tile = max(min(tile_rows, tile_rows_by_default(rows, bits, is_old=has_large_tiles)), 1)
    return prod(leading) * _up(rows, tile) * _up(columns, LANES) * bits // 8


def _up(size: int, granule: int) -> int:
    """A size, rounded up to a multiple."""
    return -(-size // granule) * granule


def tile_rows_of(shape: ArrayShape, generation: str | None = None) -> int:
    """The first number in the first tile of an array; before compilation, of the default tiles."""
    tiles = shape.layout.tiles or default_tpu_layout(shape, generation=generation or USUAL_TPU).tiles
    return tiles[0].dimensions[0] if tiles and len(tiles[0].dimensions) > 1 else SUBLANES


# --- windows ---


@dataclass(frozen=True, slots=True)
class Reservation:
    """Memory of a window: how many buffers, and their bytes in all; none if the kernel uses the array where it is."""

    buffers: int
    bytes: int
    space: str = "vmem"


NOTHING: Final = Reservation(0, 0)


def is_contiguous(block: Sequence[int], shape: ArrayShape, tile_rows: int) -> bool:
    """Whether each block of an array is one piece of memory, so that one in VMEM is used where it is.

    Counted in leading dimensions, rows of tiles, and tiles in a row: behind the first of these of which the block has
    more than one, it has all. A block does not end inside of a tile, except at the end of the array.

    >>> from hlo_cli import parse_shape
    >>> array = parse_shape("f32[64,256]{1,0:T(8,128)S(1)}")
    >>> [is_contiguous(block, array, 8) for block in ((64, 256), (16, 256), (8, 128), (16, 128), (4, 256))]
    [True, True, True, False, False]
    """
    sizes = tuple(shape.sizes)
    if len(block) != len(sizes):
        return False
    tiles = [1] * len(sizes)
    if len(sizes) == 1:
        tiles[-1] = LANES * max(WORD // shape.element_bits, 1)  # elements of a row of words, which lie together
    elif len(sizes) > 1:
        tiles[-2:] = [tile_rows, LANES]
    pieces, whole = [], []
    for size, part, tile in zip(sizes, block, tiles, strict=True):
        whole.append(-(-size // tile))
        if part < size and part % tile:
            return False
        if part > whole[-1] * tile and len(sizes) > 1:
            return False
        pieces.append(min(-(-part // tile), whole[-1]))
    first = next((n for n, count in enumerate(pieces) if count > 1), len(pieces))
    return pieces[first + 1 :] == whole[first + 1 :]


def buffers_of(body: KernelBody, window: WindowAttributes, generation: str | None = None) -> int:
    """Whether a window has one buffer or two: two if its blocks depend on the step, so that the next one is prefetched.

    What counts is which indices the map mentions, not whether its result changes. On v5p, two cores share the steps of
    a parallel dimension: two steps are one for each, which needs no second buffer.
    """
    grid = body.grid or ()
    if window.pipeline_mode == "synchronous" or not grid or window.transform is None:
        return 1
    if generation == "v5p" and prod(size or 0 for size in grid) == 2 and _is_split(body):
        return 1
    region = window.transform.regions[0]
    used = dependencies(region.operations[-1].operands if region.operations else (), cut_at_zero=True)
    several = [size is None or size > 1 for size in grid]
    # What is loaded from prefetched scalars is the same in all steps, unless the place of it depends on the step.
    return 2 if used.intersection([v for v, more in zip(region.arguments, several, strict=False) if more]) else 1


def _is_split(body: KernelBody) -> bool:
    """Whether the one dimension of two steps is parallel."""
    pairs = zip(body.grid or (), body.semantics, strict=False)
    return all(kind == "parallel" for size, kind in pairs if size == 2)


def reservation_of(
    body: KernelBody,
    window: WindowAttributes,
    block: Sequence[int],
    kind: ArrayType,
    space: str,
    shape: ArrayShape,
    generation: str | None,
) -> Reservation:
    """The memory of a window on an operand or a result of this shape, whose layout says where it is and its tiles."""
    bits = bits_of(kind.element)
    if space not in ("vmem", "smem") or not bits:
        return NOTHING
    rows = tile_rows_of(shape, generation)
    if shape.layout.memory_space == TpuMemorySpace.SMEM and space == "vmem":
        return Reservation(0, SCALAR_OPERAND)
    is_large = generation is not None and tpu_generation(generation).has_large_tiles
    if space == "vmem" and shape.layout.memory_space == TpuMemorySpace.VMEM:
        is_whole = not body.grid or tuple(block) == tuple(shape.sizes)
        if is_whole or is_contiguous(block, shape, rows):
            return NOTHING
    buffers = buffers_of(body, window, generation)
    one = buffer_bytes(block, bits, rows, has_large_tiles=is_large)
    granule = WINDOW_GRANULE if space == "vmem" else SMEM_GRANULE * (1 + is_large)
    return Reservation(buffers, _up(buffers * one, granule), space)


def prefetched_bytes(kind: ArrayType, *, has_large_tiles: bool) -> int:
    """The bytes of scalar memory that a prefetched array takes."""
    shape = known_shape(kind)
    one = buffer_bytes(shape, bits_of(kind.element), has_large_tiles=has_large_tiles)
    return _up(one, SMEM_GRANULE * (1 + has_large_tiles))


def scratch_bytes(kind: ArrayType, *, has_large_tiles: bool) -> int:
    """The bytes that scratch takes; 0 for semaphores, which have memory of their own."""
    bits, shape = bits_of(kind.element), known_shape(kind)
    if bits == 2 and len(shape) > 1:  # measured: a byte each, in as many rows as a word has elements
        return prod(shape[:-2]) * _up(shape[-2], WORD // bits) * _up(shape[-1], LANES)
    return buffer_bytes(shape, bits, has_large_tiles=has_large_tiles) if bits else 0


def known_shape(kind: ArrayType) -> tuple[int, ...]:
    """The sizes of a memref; 1 for one that is set at run time."""
    return tuple([1 if size == DYNAMIC else size for size in kind.shape or ()])


# --- scratch that is not kept ---

_Box: TypeAlias = tuple[tuple[int, int], ...]
"""The first element and the one after the last, in each dimension."""
MAX_BOXES: Final = 256  # chosen: kernels write their scratch in a few pieces
"""The most pieces that a load is compared with."""


def dropped_scratch(body: KernelBody, in_vmem: Collection[Value] = ()) -> set[Value]:
    """The scratch that the compiler does not keep: what is read from it was written in the same block before.

    Measured: libtpu passes such values on in registers, if all indices are constant and no condition or loop is in
    between; scratch without any other use has no memory then. A copy from an array in VMEM, one of `in_vmem`, is a
    store, and a condition that holds in the only step is none.
    """
    last = len(body.arguments) - body.scratch
    scratch = [value for value in (*body.arguments[last:], *body.allocated) if space_of(value) == "vmem"]
    uses = _Uses(body, in_vmem)
    for operation in body.function.walk():
        for value in scratch:
            if value in operation.operands and not uses.is_passed_on(operation, value):
                uses.kept.add(value)
    return set(scratch) - uses.kept


_PURE: Final = ("arith.", "math.", "vector.")  # dialects whose operations do nothing but have a result


def _used_values(function: Operation) -> set[Value]:
    """The values that some effect of the kernel depends on: JAX also loads what it overwrites, and drops the value."""
    used: set[Value] = set()
    for operation in reversed(list(function.walk())):
        is_pure = kind_of(operation).startswith(_PURE) and operation.results and not operation.regions
        if not is_pure or used.intersection(operation.results):
            used.update(operation.operands)
    return used


class _Uses:
    """What has been written to scratch so far, in the order of the operations, and which scratch is kept."""

    def __init__(self, body: KernelBody, in_vmem: Collection[Value]) -> None:
        self.used = _used_values(body.function)
        self.in_vmem = in_vmem
        self.kept: set[Value] = set()
        self.written: dict[tuple[Block | None, Value], list[_Box]] = {}
        single = [value for value, size in zip(body.indices, body.grid or (), strict=False) if size == 1]
        self.numbers: dict[Value, Numbers] = dict.fromkeys(single, np.asarray(0))
        for operation in body.function.walk():
            if not operation.regions:
                run(operation, self.numbers)

    def block_of(self, operation: Operation) -> tuple[Block | None, bool]:
        """The block that an operation runs in, through conditions that hold in every step, and whether it ever runs."""
        block = here = operation.block
        is_within = True
        while block is not None and (owner := block.parent.parent) is not None:
            condition = self.numbers.get(owner.operands[0]) if kind_of(owner) == "scf.if" else None
            if condition is not None and bool(condition.any()) != (block.parent is owner.regions[0]):
                return block, False
            is_within = is_within and condition is not None
            block = owner.block
            here = block if is_within else here
        return here, True

    def is_passed_on(self, operation: Operation, value: Value) -> bool:
        """Whether an operation on scratch needs no memory: a store, or a load of what the same block has stored."""
        here, is_run = self.block_of(operation)
        match kind_of(operation):
            case _ if not is_run:
                return True
            case "vector.load":
                box = self._box(operation.operands[1:], operation.results[0].type)
                is_unused = not self.used.intersection(operation.results)
                return is_unused or (box is not None and not _remaining([box], self.written.get((here, value), [])))
            case "tpu.vector_store" if operation.operands[1] is value:
                return self._store(here, value, self._stored_box(operation))
            case "tpu.enqueue_dma" if operation.operands[0] is not value:
                if _origin(operation.operands[0]) not in self.in_vmem or not isinstance(value.type, ArrayType):
                    return False
                return self._store(here, value, tuple([(0, size) for size in known_shape(value.type)]))
        return kind_of(operation).startswith("tpu.wait_dma")

    def _store(self, here: Block | None, value: Value, box: _Box | None) -> bool:
        if box is None:
            return False
        for (block, other), earlier in self.written.items():
            if other is value and block is not here:
                earlier.clear()  # what a condition may have overwritten is not known
        self.written.setdefault((here, value), []).append(box)
        return True

    def _stored_box(self, operation: Operation) -> _Box | None:
        """The elements that a store overwrites; None if it has a mask or strides, adds, or has indices that vary."""
        segments, strides = operation.attributes.get("operandSegmentSizes"), operation.attributes.get("strides")
        count = segments.values[2] if isinstance(segments, DenseArray) and len(segments.values) > 2 else 0
        is_plain = len(operation.operands) == 2 + count and "true" not in str(operation.attributes.get("add"))
        if not is_plain or (isinstance(strides, DenseArray) and strides.values):
            return None
        return self._box(operation.operands[2:], operation.operands[0].type)

    def _box(self, indices: Sequence[Value], kind: Type) -> _Box | None:
        """The elements that a load or a store of a vector is about; None if an index varies."""
        starts = [number for each in indices if (number := self.numbers.get(each)) is not None]
        if not isinstance(kind, ArrayType) or not len(starts) == len(indices) == len(known_shape(kind)):
            return None
        pairs = zip(map(int, starts), known_shape(kind), strict=True)
        return tuple([(start, start + size) for start, size in pairs])


def _origin(value: Value) -> Value:
    """The argument that a part of a memref is of."""
    while (operation := value.operation) is not None and operation.operands:
        value = operation.operands[0]
    return value


def _remaining(boxes: list[_Box], covers: Sequence[_Box]) -> list[_Box]:
    """What is left of boxes without what is in others."""
    for cover in covers:
        boxes = [part for box in boxes for part in _without(box, cover)]
        if len(boxes) > MAX_BOXES:
            break
    return boxes


def _without(box: _Box, cover: _Box) -> list[_Box]:
    """A box without another: what is before and after it, dimension by dimension."""
    parts: list[_Box] = []
    rest = list(box)
    for dimension, ((low, high), (first, last)) in enumerate(zip(box, cover, strict=True)):
        if first >= high or last <= low:
            return [box]
        for start, stop in ((low, first), (last, high)):
            if start < stop:
                parts.append((*rest[:dimension], (start, stop), *rest[dimension + 1 :]))
        rest[dimension] = (max(low, first), min(high, last))
    return parts


# --- limits ---

_CLAMPED: Final = 64 * KIB  # what the compiler keeps of the memory of a chip of which kernels may ask for all


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """What a generation gives a kernel: VMEM by default and at most, and the scratch that the compiler may add.

    Measured with scratch of growing size until libtpu 0.0.52 refuses the kernel; v2, which was not, is taken for v3.
    """

    default_bytes: int
    largest_bytes: int
    internal_scratch_bytes: int


def limits_of(chip: str) -> KernelLimits:
    """The limits of a TPU, by its name or its generation's; HloError if it is none.

    >>> limits_of("v5e").default_bytes >> 20, limits_of("v6e").default_bytes >> 20, limits_of("7x").largest_bytes
    (16, 32, 67043328)
    """
    generation = tpu_generation(chip).name
    vmem = find_chip(generation).memories[TpuMemorySpace.VMEM].bytes
    default = 32 * MIB if generation in ("v6e", "7x") else 16 * MIB  # `CompileTimeScopedVmemOom` names these
    kept = _CLAMPED if generation in ("v5p", "v6e", "7x") else 0
    # u32[72,128] and u32[144,128]
    internal = (144 if generation in ("v6e", "7x") else 72) * LANES * WORD // 8
    return KernelLimits(default, vmem - kept, internal)
