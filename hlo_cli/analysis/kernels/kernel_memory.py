"""How much on-chip memory do the windows and the scratch of a kernel take, and how much is there?

What libtpu reserves for each was read from its own list of allocations, for thousands of kernels on all generations.
The compiler adds what no text tells: scratch of its own, and registers that it spills.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from hlo_cli.analysis.hardware.chip_table import KIB
from hlo_cli.analysis.hardware.chips import USUAL_TPU, find_chip, tpu_generation
from hlo_cli.analysis.kernels.kernel_body import KernelBody, WindowAttributes
from hlo_cli.analysis.kernels.scalar_code import dependencies
from hlo_cli.analysis.layout.tpu_layout import default_tpu_layout, tile_rows_by_default
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.mlir.mlir_values import DYNAMIC, ArrayType, IntegerType, NamedType, Type
from hlo_cli.source import HloError

LANES: Final = 128  # elements in a row of a vector register
SUBLANES: Final = 8  # rows of 32 bits in a vector register
BYTE: Final = 8  # bits
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
    """The first number in the first tile of an array; before compilation, of the default tiles if the layout fits."""
    tiles = shape.layout.tiles
    if not tiles and shape.problem is None:
        tiles = default_tpu_layout(shape, generation=generation or USUAL_TPU).tiles
    return tiles[0].dimensions[0] if tiles and len(tiles[0].dimensions) > 1 else SUBLANES


# --- windows ---


@dataclass(frozen=True, slots=True)
class Reservation:
    """Memory of a window: how many buffers, and their bytes in all; none if the kernel uses the array where it is."""

    buffers: int
    bytes: int
    space: str = "vmem"


NOTHING: Final = Reservation(0, 0)


def is_contiguous(block: Sequence[int], shape: ArrayShape, tile_rows: int, *, is_output: bool = False) -> bool:
    """Whether each block of an array is one piece of memory, so that one in VMEM is used where it is.

    Counted in leading dimensions, rows of tiles, and tiles in a row: behind the first of these of which the block has
    more than one, it has all. A block does not end inside of a tile, except at the end of the array. The last block may
    reach behind the memory of an operand, which is read in vain, but not behind that of a result.

    >>> from hlo_cli import parse_shape
    >>> array = parse_shape("f32[64,256]{1,0:T(8,128)S(1)}")
    >>> [is_contiguous(block, array, 8) for block in ((64, 256), (16, 256), (8, 128), (16, 128), (4, 256))]
    [True, True, True, False, False]
    >>> [is_contiguous((24, 256), array, 8, is_output=is_output) for is_output in (False, True)]
    [True, False]
    """
    sizes = tuple(shape.sizes)
    if len(block) != len(sizes):
        return False
    if len(sizes) == 1:  # blocks of vectors are of whole registers
        padded = _up(sizes[0], shape.layout.tiles[0].dimensions[0] if shape.layout.tiles else 1)
        return not is_output or padded % block[0] == 0
    tiles = [1] * len(sizes)
    tiles[-2:] = [tile_rows, LANES][-len(sizes) :]
    if any(part < size and part % tile for size, part, tile in zip(sizes, block, tiles, strict=True)):
        return False
    whole = [-(-size // tile) for size, tile in zip(sizes, tiles, strict=True)]
    pieces = [-(-part // tile) for part, tile in zip(block, tiles, strict=True)]
    if is_output and any(count % piece for count, piece in zip(whole, pieces, strict=True)):
        return False
    first = next((n for n, count in enumerate(pieces) if count > 1), len(pieces))
    return pieces[first + 1 :] == whole[first + 1 :]


def buffers_of(body: KernelBody, window: WindowAttributes, generation: str | None = None) -> int:
    """Whether a window has one buffer or two: two if its blocks depend on the step, so that the next one is prefetched.

    What counts is which indices the map mentions, not whether its result changes; what it reads at a place that no step
    changes, such as the first of prefetched scalars, stays. On v5p, two cores share the steps of
    a parallel dimension: two steps are one for each, which needs no second buffer.
    """
    grid = body.grid or ()
    if window.pipeline_mode == "synchronous" or not grid or window.transform is None:
        return 1
    is_split = generation is not None and tpu_generation(generation).splits_grids
    if is_split and prod(size or 0 for size in grid) == 2 and _is_split(body):
        return 1
    region = window.transform.regions[0]
    used = dependencies(region.operations[-1].operands if region.operations else (), cut_at_zero=True)
    several = [size is None or size > 1 for size in grid]
    changing = [value for value, more in zip(region.arguments, several, strict=False) if more]
    return 2 if used.intersection(changing) else 1


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
    *,
    is_output: bool = False,
) -> Reservation:
    """The memory of a window on an operand or a result of this shape, whose layout says where it is and its tiles."""
    bits = bits_of(kind.element)
    if space not in ("vmem", "smem") or not bits:
        return NOTHING
    rows = tile_rows_of(shape, generation)
    is_scalar = tuple(shape.sizes) == (1,) and not is_output and space == "vmem"
    if shape.layout.memory_space == TpuMemorySpace.SMEM or is_scalar:  # the kernel reads scalars where they are
        return Reservation(0, SCALAR_OPERAND) if space == "vmem" else NOTHING
    is_large = generation is not None and tpu_generation(generation).has_large_tiles
    if space == "vmem" and shape.layout.memory_space == TpuMemorySpace.VMEM:
        is_whole = not body.grid or tuple(block) == tuple(shape.sizes)
        if is_whole or is_contiguous(block, shape, rows, is_output=is_output):
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
    """The bytes that scratch takes, one for each element at least; 0 for semaphores, which have memory of their own."""
    bits = bits_of(kind.element)
    if not bits:
        return 0
    rows = max(SUBLANES, WORD // bits)
    return buffer_bytes(known_shape(kind), bits, rows, has_large_tiles=has_large_tiles) * max(BYTE, bits) // bits


def known_shape(kind: ArrayType) -> tuple[int, ...]:
    """The sizes of a memref; 1 for one that is set at run time. HloError for a size below 0, in a damaged body."""
    sizes = tuple([1 if size == DYNAMIC else size for size in kind.shape or ()])
    if any(size < 0 for size in sizes):
        raise HloError(f"the size {min(sizes)} of an array of the kernel is below 0")
    return sizes


# --- limits ---


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
    generation = tpu_generation(chip)
    vmem = find_chip(generation.name).memories[TpuMemorySpace.VMEM].bytes
    internal = generation.internal_scratch_rows * LANES * WORD // 8
    return KernelLimits(generation.kernel_bytes, vmem - generation.kernel_reserve, internal)
