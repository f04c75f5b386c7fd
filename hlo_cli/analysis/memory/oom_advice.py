"""What to do after an out-of-memory message, with the bytes that it saves, by the kind of the message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.hardware.chip_table import MIB
from hlo_cli.analysis.hardware.chips import USUAL_TPU, known_chips
from hlo_cli.analysis.layout.tpu_layout import (
    LANES,
    SUBLANES,
    WORD_BITS,
    Order,
    best_order,
    default_order,
    default_tpu_layout,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.notation import BACKWARD_PASS, FORWARD_PASS
from hlo_cli.ir.opcodes import PARAMETER
from hlo_cli.ir.out_of_memory import ChunkGroup, KernelWindow, OomAllocation, OomKind, OutOfMemory
from hlo_cli.ir.shape import ArrayShape, Shape

# --- sizes of ranges ---
# The value that determines the size of a range in an out-of-memory message, and its padding.
#
# A range is as large as the largest of the values at its offset. Messages have shapes without layouts: a shape explains
# the size of a range if it has that size in a dimension order with the default tiles of a TPU.


_MAX_PERMUTED_RANK: Final = 8  # 56 pairs of minor dimensions, each tried for every listed shape; chosen, not measured
_GRANULES: Final = (1, 512, 1024)
"""Multiples to which TPU compilers round the sizes of values, in bytes."""
_MAX_EXPLAINED: Final = 200
"""Number of the largest ranges whose shapes are tried in all dimension orders."""
_ROUNDING_SHARE: Final = 0.006
"""Maximum relative difference of a size with three digits."""
_KIB: Final = 1024  # bytes of a KiB, and KiB of a MiB
_EXACT: Final = 1e-5  # slack for the rounding of the division itself


def with_range_shapes(message: OutOfMemory, *, generation: str = USUAL_TPU) -> OutOfMemory:
    """The message, with the shape and the padding of each range where one shape explains its size.

    A range whose size no shape explains has the shape that comes closest and no known padding.

    >>> from hlo_cli.ir.out_of_memory import MemoryRange
    >>> from hlo_cli.source import Span
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> row = OomAllocation(1 << 20, range=MemoryRange("default", 1, 0, 1, ((1, parse_shape("f32[2048,70]")),)))
    >>> message = OutOfMemory("compile", Span(0, 0), "hbm", "tpu", allocations=(row,))
    >>> [found] = with_range_shapes(message).allocations
    >>> str(found.shape), found.has_padding, found.padding_bytes
    ('f32[2048,70]{1,0:T(8,128)}', True, 475136)
    """
    if not message.has_ranges:
        return message
    largest = sorted(message.allocations, key=lambda allocation: -(allocation.size_bytes or 0))[:_MAX_EXPLAINED]
    tried = {id(allocation) for allocation in largest}
    return replace(
        message,
        allocations=tuple(
            _explained(allocation, generation) if id(allocation) in tried else _with_closest(allocation)
            for allocation in message.allocations
        ),
    )


def _with_closest(allocation: OomAllocation) -> OomAllocation:
    place, size = allocation.range, allocation.size_bytes
    if place is None or size is None:
        return allocation
    return replace(allocation, shape=_closest([shape for _, shape in place.shapes], size))


def _explained(allocation: OomAllocation, generation: str) -> OomAllocation:
    place, size = allocation.range, allocation.size_bytes
    if place is None or size is None:
        return allocation
    arrays = [shape for _, shape in place.shapes if isinstance(shape, ArrayShape) and shape.problem is None]
    fitting = [(shape, found) for shape in arrays if (found := explaining_shape(shape, size, generation=generation))]
    if fitting and len({shape.logical_bytes for shape, _ in fitting}) == 1:
        shape = fitting[0][1]
        return replace(
            allocation,
            shape=shape,
            unpadded_bytes=shape.logical_bytes,
            extra_bytes=max(_rounded_up(shape.padded_bytes, size) - shape.logical_bytes, 0),
        )
    return replace(
        allocation,
        shape=_closest([shape for shape, _ in fitting], size)
        if fitting
        else _closest([s for _, s in place.shapes], size),
    )


@lru_cache(maxsize=4096)
def explaining_shape(shape: ArrayShape, size_bytes: int, *, generation: str = USUAL_TPU) -> ArrayShape | None:
    """The shape with a layout in which it has a size as it is rounded in messages; None if there is no such layout.

    The dimension order that the compiler chooses by default comes first.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> str(explaining_shape(parse_shape("f32[70,2048]"), 589824)), explaining_shape(parse_shape("f32[70,2048]"), 4096)
    ('f32[70,2048]{1,0:T(8,128)}', None)
    """
    if not shape.elements or shape.logical_bytes > size_bytes * (1 + _ROUNDING_SHARE):
        return None
    for order in dict.fromkeys(_orders(shape, generation)):
        candidate = replace(shape, layout=default_tpu_layout(shape, generation=generation, minor_to_major=order))
        if is_shown_as(candidate.padded_bytes, size_bytes):
            return candidate
    return None


def _orders(shape: ArrayShape, generation: str) -> Iterator[Order]:
    if (usual := default_order(shape, generation=generation)) is not None:
        yield usual
    row_major = tuple(range(shape.rank))[::-1]
    yield row_major
    if 2 <= shape.rank <= _MAX_PERMUTED_RANK:
        # Tiles cover the two most minor dimensions, so the order of the others changes no size.
        for pair in permutations(row_major, 2):
            yield (*pair, *(d for d in row_major if d not in pair))


def _rounded_up(size_bytes: int, shown: int) -> int:
    rounded = (-(-size_bytes // granule) * granule for granule in _GRANULES)
    return next((each for each in rounded if is_shown(each, shown)), size_bytes)


def is_shown(size_bytes: int, shown: int) -> bool:
    """Whether a size is the given one as messages round it: to 0.1 KiB, and from 1 MiB to 0.01 of its unit.

    Mirrors `HumanReadableNumBytes` of tsl/platform/numbers.cc, which drops what is below a 1024th of the unit.

    >>> is_shown(1000, 1000), is_shown(1000, 1024), is_shown((5 << 30) + 1, 5 << 30)
    (True, False, True)
    >>> [is_shown((1 << 10) + more, 1 << 10) for more in (51, 52)]
    [True, False]
    >>> [is_shown((1 << 20) + more, 1 << 20) for more in (5 << 10, 6 << 10)]
    [True, False]
    """
    if size_bytes < _KIB:
        return size_bytes == shown
    unit, kibibytes = _KIB, size_bytes
    while kibibytes >= _KIB * _KIB:
        kibibytes >>= 10
        unit <<= 10
    digits = 10 if unit == _KIB else 100
    return abs(kibibytes / _KIB - shown / unit) <= 0.5 / digits + _EXACT


def is_shown_as(size_bytes: int, shown: int) -> bool:
    """Whether a size, or its next multiple of the unit in which memory is allocated, is shown as the given one.

    >>> is_shown_as(4, 512), is_shown_as(4, 2048)
    (True, False)
    """
    return any(is_shown(-(-size_bytes // granule) * granule, shown) for granule in _GRANULES)


def _closest(shapes: list[Shape], size_bytes: int) -> Shape | None:
    """The largest shape that fits a size; the smallest if none does."""
    sizes = [(shape.logical_bytes, position) for position, shape in enumerate(shapes) if isinstance(shape, ArrayShape)]
    fitting = [(size, -position) for size, position in sizes if size <= size_bytes * (1 + _ROUNDING_SHARE)]
    if fitting:
        # The first of equally large shapes: positions are negated for `max`.
        return shapes[-max(fitting)[1]]
    return shapes[min(sizes)[1]] if sizes else next(iter(shapes), None)


# --- kinds of advice ---


@dataclass(frozen=True, slots=True)
class _Smaller:
    """A size before and after a change that saves memory."""

    before_bytes: int
    after_bytes: int

    @property
    def saved_bytes(self) -> int:
        """The difference of the sizes."""
        return self.before_bytes - self.after_bytes


@dataclass(frozen=True, slots=True)
class Reorder(_Smaller):
    """Arguments of one shape that need fewer bytes in another dimension order; sizes are sums over all of them.

    Also scratch operands of a kernel.
    """

    allocations: tuple[OomAllocation, ...]
    layout: Layout


@dataclass(frozen=True, slots=True)
class Narrow(_Smaller):
    """An allocation that would need fewer bytes with a narrower element type, because it was made wide on purpose."""

    allocation: OomAllocation
    element_type: str


@dataclass(frozen=True, slots=True)
class Donate:
    """Arguments that could hold results: `saved_bytes` is the upper limit, `shared_bytes` is shared already."""

    argument_bytes: int
    output_bytes: int
    shared_bytes: int
    saved_bytes: int


@dataclass(frozen=True, slots=True)
class Shard:
    """Values that alone exceed the memory, and the smallest number of devices that could hold them.

    They are the arguments, unless there is an `allocation`.
    """

    size_bytes: int
    available_bytes: int
    devices: int
    allocation: OomAllocation | None = None


@dataclass(frozen=True, slots=True)
class ShardValues:
    """Allocations with one value each that together exceed the memory, and the devices that could hold them."""

    count: int
    size_bytes: int
    available_bytes: int
    devices: int


@dataclass(frozen=True, slots=True)
class ShrinkRange:
    """The largest range, which is as large as the largest of its values, and a smaller layout of that value."""

    allocation: OomAllocation
    better: ArrayShape | None

    @property
    def size_bytes(self) -> int:
        """The size of the range."""
        return self.allocation.size_bytes or 0


@dataclass(frozen=True, slots=True)
class Shrink:
    """A part of memory, such as `HLO temp`, that would fit if it were smaller by `excess_bytes`.

    `is_compiler_limit` if the limit is one that rematerialization computed, not the memory of the device.
    """

    part: str
    size_bytes: int
    excess_bytes: int
    is_compiler_limit: bool = False

    @property
    def percent(self) -> float:
        """The smallest whole number of percent that is enough; below 10, the smallest tenth.

        >>> Shrink("HLO temp", 1000, 101).percent, Shrink("the program", 10_000, 307).percent
        (11, 3.1)
        """
        tenths = -(-1000 * self.excess_bytes // self.size_bytes)
        return tenths / 10 if tenths < 100 else -(-100 * self.excess_bytes // self.size_bytes)


@dataclass(frozen=True, slots=True)
class Recompute:
    """Allocations of the forward pass of a gradient, which are kept for the backward pass."""

    allocations: tuple[OomAllocation, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SmallerBlock:
    """A block of a kernel's operand that fits, or a scratch operand; `size_bytes` includes all of its buffers."""

    window: KernelWindow | None
    before: ArrayShape
    block: ArrayShape
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SingleBuffer:
    """A block of a kernel's operand that fits with one buffer."""

    window: KernelWindow
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RaiseScopedLimit:
    """A higher limit of scoped VMEM, in whole MiB, and the VMEM of the chips that have more."""

    limit_bytes: int
    is_kernel: bool
    vmem_bytes: tuple[tuple[str, int], ...]

    @property
    def limit_kib(self) -> int:
        """The limit in the unit of the compiler's flag."""
        return self.limit_bytes // 1024


@dataclass(frozen=True, slots=True)
class FewerElements:
    """An array in a small memory, and the number of its elements that fit beside what else is there.

    `elements` counts padding, `data_elements` does not.
    """

    allocation: OomAllocation
    element_type: str
    most: int
    elements: int
    data_elements: int


@dataclass(frozen=True, slots=True)
class FreeBuffers:
    """Bytes of arrays to delete before a program is loaded or a buffer is allocated."""

    size_bytes: int
    is_load: bool


@dataclass(frozen=True, slots=True)
class FreeOthers:
    """A program that is much smaller than the memory of any device, which other arrays or programs must fill."""

    program_bytes: int


@dataclass(frozen=True, slots=True)
class FreeChunks:
    """Bytes that an allocator lacks, and the largest chunks that are in use, if they are listed."""

    size_bytes: int
    chunks: ChunkGroup | None


@dataclass(frozen=True, slots=True)
class Defragment:
    """Enough memory is free, but not in one piece; `largest_bytes` is the largest piece, None if unknown."""

    free_bytes: int
    requested_bytes: int
    largest_bytes: int | None
    is_tpu: bool


@dataclass(frozen=True, slots=True)
class RaiseHostLimit:
    """A limit of host memory that is too low for a process, and who sets it; sizes are None if unknown."""

    setter: Literal["group", "container", "job", "node", "machine"]
    used_bytes: int | None
    limit_bytes: int | None
    excess_bytes: int | None


@dataclass(frozen=True, slots=True)
class ListProcesses:
    """Memory that the driver of a GPU refuses, which other processes may hold."""

    requested_bytes: int


@dataclass(frozen=True, slots=True)
class Dump:
    """The largest buffers are not in the text, or not with their live ranges, but in a dump."""

    has_rows: bool


Advice: TypeAlias = (
    Reorder
    | Narrow
    | Donate
    | Shard
    | ShardValues
    | ShrinkRange
    | Shrink
    | Recompute
    | SmallerBlock
    | SingleBuffer
    | RaiseScopedLimit
    | FewerElements
    | FreeBuffers
    | FreeOthers
    | FreeChunks
    | Defragment
    | RaiseHostLimit
    | ListProcesses
    | Dump
)


# --- ranges of memory ---
# Several values use a range one after another.


_MIN_SHARE: Final = 0.05
"""Minimum share of the needed memory that is worth advice, as `_MIN_SAVING` below."""


def is_shared(allocation: OomAllocation) -> bool:
    """Whether an allocation is a range whose size may not change if one of its values does."""
    return allocation.range is not None and not allocation.range.is_one_value


def _range_advice(message: OutOfMemory, generation: str) -> Iterator[Shard | ShardValues | ShrinkRange]:
    """Sharding of what exceeds the memory by itself, else what makes the largest range smaller.

    Allocations with one value each are disjoint, so their sizes have a sum; those of ranges have none.
    """
    if not message.has_ranges or not message.used_bytes:
        return
    least, limit, largest = _MIN_SHARE * message.used_bytes, message.limit_bytes, message.culprits[0]
    single_values = [each for each in message.allocations if not is_shared(each) and (each.size_bytes or 0) >= least]
    size = sum(each.size_bytes or 0 for each in single_values)
    if limit and len(single_values) > 1 and size > limit:
        # Rounded up: as many devices as can hold it at all.
        yield ShardValues(len(single_values), size, limit, -(-size // limit))
    elif limit and largest.size_bytes and largest.size_bytes > limit and largest.has_padding:
        yield Shard(largest.size_bytes, limit, -(-largest.size_bytes // limit), largest)
        # Sharding a range does not shrink it; another layout may.
        if (better := _better_order(largest, generation)) is None or not is_shared(largest):
            return
        yield ShrinkRange(largest, better)
        return
    if is_shared(largest) and (largest.size_bytes or 0) >= least:
        yield ShrinkRange(largest, _better_order(largest, generation))


def _better_order(allocation: OomAllocation, generation: str) -> ArrayShape | None:
    """The largest value of a range in the dimension order with the fewest bytes, if that saves a relevant part."""
    shape = allocation.shape
    if not allocation.has_padding or not isinstance(shape, ArrayShape):
        return None
    best = best_order(shape, generation=generation)
    if best is None or shape.padded_bytes - best.padded_bytes < _MIN_SHARE * shape.padded_bytes:
        return None
    return replace(shape, layout=best.layout)


# --- programs ---
# Layouts, element types, donation, sharding, and smaller temporaries.


_MIN_SAVING: Final = 0.05
"""Minimum share of the needed memory, that advice saves: less is not worth an edit; chosen, not measured."""
SIZE_TOLERANCE: Final = 0.02
"""Maximum relative difference of a size in a message, which is rounded, and that of its shape."""
_NARROWER: Final = {"f64": "f32", "s64": "s32", "u64": "u32", "c128": "c64"}
_TO_FLOAT32: Final = ("new_dtype=float32", "preferred_element_type=float32")
"""Parts of op_names of operations that were asked for f32."""
_NEARLY_ALL: Final = 0.9
"""Share above which an excess is taken from the limit, because both are rounded to few digits."""
_MAIN_MEMORY: Final = 1 << 30
"""A size that only the main memory of a device has."""
SCRATCH: Final = "scratch operand"
"""The tag of memory that a kernel declares for itself."""


def needed_bytes(message: OutOfMemory) -> int:
    """The memory that the program needs in total, as far as the message has it; else the requested size, or 0.

    >>> from hlo_cli.source import Span
    >>> needed_bytes(OutOfMemory("run", Span(0, 0), used_bytes=8)), needed_bytes(OutOfMemory("run", Span(0, 0)))
    (8, 0)
    """
    return max(message.used_bytes or 0, message.stats.total_bytes if message.stats is not None else 0)


def _reorder_advice(message: OutOfMemory, generation: str) -> Iterator[Reorder]:
    """Other dimension orders for listed arguments with padding, those of one shape together, the most saving first.

    Besides arguments, users control scratch operands of their kernels. Compilers choose the layouts of temporary values
    anew in a changed program, and messages do not tell which allocations are results.
    """
    groups: dict[ArrayShape, list[OomAllocation]] = {}
    for allocation in message.culprits:
        if (shape := _shape_of_user(allocation)) is not None:
            groups.setdefault(shape, []).append(allocation)
    advice: list[Reorder] = []
    for shape, alike in groups.items():
        # A kernel declares the tiles of its scratch, so they stay.
        best = _best_with_its_tiles(shape) if alike[0].tag == SCRATCH else _best(shape, generation)
        if best is not None and best.layout.minor_to_major != shape.layout.minor_to_major:
            before = sum(each.size_bytes or shape.padded_bytes for each in alike)
            advice.append(Reorder(before, len(alike) * best.padded_bytes, tuple(alike), best.layout))
    least = _MIN_SAVING * needed_bytes(message)
    yield from sorted((each for each in advice if each.saved_bytes >= least), key=lambda each: -each.saved_bytes)


def _narrow_advice(message: OutOfMemory) -> Iterator[Narrow]:
    """A narrower type for the largest allocation, if it has 64-bit numbers or was asked for in f32."""
    largest = next(iter(message.culprits), None)
    if largest is None or not isinstance(largest.shape, ArrayShape) or not largest.size_bytes or is_shared(largest):
        return
    name = largest.shape.element_type.name
    other = _NARROWER.get(name, "")
    if name == "f32" and any(part in largest.op_name for part in _TO_FLOAT32):
        other = "bf16"
    if other:
        narrow = PRIMITIVE_TYPES[other].bits
        after = largest.size_bytes * narrow // largest.shape.element_type.bits
        if largest.size_bytes - after >= _MIN_SAVING * needed_bytes(message):
            yield Narrow(largest.size_bytes, after, largest, other)


def _donate_advice(message: OutOfMemory) -> Iterator[Donate]:
    """Donation of arguments, if results of a relevant size have memory of their own."""
    arguments, output, shared = _arguments_and_output(message)
    if arguments is None or output is None or shared is None:
        return
    # Results beyond the arguments, and what is shared already, cannot gain.
    saved = min(arguments, output) - shared
    if saved > 0 and saved >= _MIN_SAVING * needed_bytes(message):
        yield Donate(arguments, output, shared, saved)


def _shard_advice(message: OutOfMemory) -> Iterator[Shard]:
    """Sharding of arguments that do not fit even without a program, or of a result that no device can hold."""
    arguments = message.used_bytes if message.kind == "arguments" else _bytes_of_part(message, "arguments")
    limit, failed = message.limit_bytes, message.failed
    if not limit:
        return
    if arguments is not None and arguments > limit:
        yield Shard(arguments, limit, -(-arguments // limit))
    elif failed is not None and failed.size_bytes and failed.size_bytes > limit:
        yield Shard(failed.size_bytes, limit, -(-failed.size_bytes // limit), failed)
    # Only a space of that size is shared by arguments; small ones belong to kernels.
    elif message.kind == "tpu-other" and not message.space and limit >= _MAIN_MEMORY:
        used = message.used_bytes or 0
        yield from (Shard(used, limit, -(-used // limit), OomAllocation(used)),) if used > limit else ()


def _shrink_advice(message: OutOfMemory) -> Iterator[Shrink]:
    """The share by which temporary values, or the program as rematerialization left it, must shrink."""
    over = message.exceeded_by_bytes
    if not over or over < 0:
        return
    if message.kind == "rematerialization" and message.used_bytes:
        yield Shrink("the program", message.used_bytes, over, is_compiler_limit=True)
    temporary = next((part for part in message.program if part.name.lower() == "hlo temp"), None)
    if temporary is not None and temporary.size_bytes and over < temporary.size_bytes:
        yield Shrink(temporary.name, temporary.size_bytes, over)
    elif _is_of_program(message) and message.used_bytes:
        used, limit = message.used_bytes, message.limit_bytes or 0
        # Where nearly all is excess, both numbers are rounded so far that the difference to the limit is more exact.
        yield Shrink("the program", used, used - limit if over > _NEARLY_ALL * used and limit else over)


def _is_of_program(message: OutOfMemory) -> bool:
    """Whether a message without the parts of the program is about all of it, and its arguments alone would fit."""
    arguments = _bytes_of_part(message, "arguments") or 0
    is_total = message.kind == "tpu-hbm" and not message.program and message.failed is None
    return is_total and arguments <= (message.limit_bytes or 0)


def _recompute_advice(message: OutOfMemory) -> Iterator[Recompute]:
    """Recomputation of values that a gradient keeps, if they are a relevant part of the listed allocations."""
    stored = tuple(
        each for each in message.allocations if FORWARD_PASS in each.op_name and BACKWARD_PASS not in each.op_name
    )
    size = sum(each.size_bytes or 0 for each in stored)
    if stored and size >= _MIN_SAVING * needed_bytes(message):
        yield Recompute(stored, size)


def _best(shape: ArrayShape, generation: str) -> ArrayShape | None:
    """The shape in the dimension order with the fewest bytes under the compiler's default tiles."""
    better = best_order(shape, generation=generation)
    return replace(shape, layout=better.layout) if better is not None else None


def _best_with_its_tiles(shape: ArrayShape) -> ArrayShape | None:
    """The shape in the dimension order with the fewest bytes under its own tiles, which a kernel determines."""
    order = shape.layout.minor_to_major
    orders = ((a, b, *(d for d in order if d not in (a, b))) for a, b in permutations(order, 2))
    shapes = (replace(shape, layout=replace(shape.layout, minor_to_major=each)) for each in orders)
    return min(shapes, key=lambda each: each.padded_bytes, default=None)


def _shape_of_user(allocation: OomAllocation) -> ArrayShape | None:
    """The shape of an allocation whose layout the user controls, if it is the shape of the whole allocation."""
    shape = allocation.shape
    if (
        not isinstance(shape, ArrayShape)
        or shape.problem is not None
        or not shape.layout.tiles
        or is_shared(allocation)
    ):
        return None
    if not (allocation.is_entry_parameter or allocation.opcode == PARAMETER or allocation.tag == SCRATCH):
        return None
    size = shape.padded_bytes
    if allocation.size_bytes is not None and abs(allocation.size_bytes - size) > SIZE_TOLERANCE * size:
        return None
    # The memory space is no part of what users choose.
    return replace(shape, layout=replace(shape.layout, memory_space=0))


def _bytes_of_part(message: OutOfMemory, name: str) -> int | None:
    return next((part.size_bytes for part in message.usage if part.name == name), None)


def _arguments_and_output(message: OutOfMemory) -> tuple[int | None, int | None, int | None]:
    """Sizes of arguments, of results, and of what they share.

    An allocation of a buffer assignment that holds both counts in both rows and once in the total.
    """
    if (stats := message.stats) is not None:
        parts = stats.parameter_bytes + stats.constant_bytes + stats.maybe_live_out_bytes
        # What both rows count and the total counts once.
        shared = max(parts + stats.preallocated_temp_bytes - stats.total_bytes, 0)
        return stats.parameter_bytes, stats.maybe_live_out_bytes, shared
    return _bytes_of_part(message, "arguments"), message.output_bytes, message.output_shared_bytes


# --- custom kernels ---
# Blocks of operands, the limit of scoped VMEM, arrays in small memories.


_ROUNDING_BYTES: Final = MIB // 200
"""Half of the last digit of a size in MiB with two decimals."""
_WORD_BYTES: Final = WORD_BITS // 8


def _block_advice(message: OutOfMemory, window: KernelWindow) -> Iterator[SmallerBlock | SingleBuffer | Shrink]:
    """The block of a window that does not fit with one buffer, if that fits, and a smaller block.

    If no halved block has full tiles, the share by which it must shrink.
    """
    size, limit = message.used_bytes, message.limit_bytes
    if not size or not limit:
        return
    if window.buffers > 1 and size // window.buffers < limit:
        yield SingleBuffer(window, size // window.buffers)
    if (found := _smaller_block(window.block, size, limit)) is not None:
        yield SmallerBlock(window, window.block, *found)
    elif size > limit:
        yield Shrink("blocks and scratch", size, size - limit)


def _smaller_block(block: ArrayShape, size_bytes: int, limit_bytes: int) -> tuple[ArrayShape, int] | None:
    """The block after as few halvings as make it smaller than the limit, and its size; None if none is known.

    Major dimensions are halved first, then rows and lanes as long as tiles stay full, so that every halving halves
    the size as well.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> block, size_bytes = _smaller_block(parse_shape("f32[8192,8192]"), 512 << 20, 128 << 20)
    >>> str(block), size_bytes >> 20
    ('f32[1024,8192]{1,0}', 64)
    """
    sizes = list(block.dimensions)
    order = tuple(reversed(block.layout.minor_to_major))
    # A full tile has 8 rows of 32-bit words, and more of narrower types (LANES and SUBLANES of `ir`).
    rows = SUBLANES * max(WORD_BITS // block.element_type.bits, 1) if block.element_type.bits else SUBLANES
    granules = {order[-1]: LANES, **({order[-2]: rows} if len(order) > 1 else {})} if order else {}
    while size_bytes >= limit_bytes:
        halved = next((d for d in order if _can_halve(sizes[d], granules.get(d, 1))), None)
        if halved is None:
            return None
        sizes[halved] //= 2
        size_bytes //= 2
    return replace(block, dimensions=tuple(sizes)), size_bytes


def _scratch_advice(message: OutOfMemory, failed: OomAllocation | None) -> Iterator[SmallerBlock | Shrink]:
    """A smaller scratch operand, or the share by which the allocations of a kernel must shrink."""
    used, limit = message.used_bytes, message.limit_bytes
    if not used or not limit or used <= limit:
        return
    shape = failed.shape if failed is not None and failed.tag == SCRATCH else None
    if isinstance(shape, ArrayShape) and (found := _smaller_block(shape, used, limit)) is not None:
        yield SmallerBlock(None, shape, *found)
    else:
        yield Shrink("blocks and scratch", used, used - limit)


def _scoped_advice(message: OutOfMemory) -> Iterator[RaiseScopedLimit | Shrink]:
    """A higher limit of scoped VMEM, if a chip has that much, and the share by which blocks must shrink."""
    used, limit = message.used_bytes, message.limit_bytes
    if not used or not limit or used <= limit:
        return
    # Messages round to 0.01 MiB, so a limit of the shown size may be too low by half of that.
    wanted = -(-(used + _ROUNDING_BYTES) // MIB) * MIB
    space = TpuMemorySpace.VMEM
    chips = {chip.generation or "": chip.memories[space].bytes for chip in known_chips() if space in chip.memories}
    enough = tuple((name, size) for name, size in chips.items() if size > wanted and size > limit)
    if enough:
        culprit = next(iter(message.culprits), None)
        is_kernel = culprit is not None and (bool(culprit.target) or culprit.opcode == "custom-call")
        yield RaiseScopedLimit(wanted, is_kernel, enough)
    yield Shrink("blocks and scratch", used, used - limit)


def _element_advice(
    message: OutOfMemory, failed: OomAllocation | None, window: KernelWindow | None
) -> Iterator[FewerElements | Shrink]:
    """The number of 32-bit words that a small memory holds beside what else is there, or the share to shrink by."""
    used, limit, over = message.used_bytes, message.limit_bytes, message.exceeded_by_bytes
    if not used or not limit:
        return
    size = failed.size_bytes if failed is not None else None
    # Sizes that are no words are those of semaphores or of several arrays.
    if failed is None or not size or size % _WORD_BYTES:
        if over is not None and 0 < over < used:
            yield Shrink("scalars and semaphores", used, over)
        return
    shape = failed.shape
    has_words = isinstance(shape, ArrayShape) and shape.element_type.bits == WORD_BITS
    name = shape.element_type.name if has_words and isinstance(shape, ArrayShape) else "32-bit"
    most = (limit - max(used - size, 0)) // _WORD_BYTES
    if most > 0:
        words = size // _WORD_BYTES
        data = words if window is None else min(window.buffers * window.block.elements, words)
        yield FewerElements(failed, name, most, words, data)
    else:
        yield Shrink("scalars and semaphores", used, used - limit)


def _can_halve(size: int, granule: int) -> bool:
    return size % 2 == 0 and size >= 2 * granule and size // 2 % granule == 0


# --- memory at run time ---
# Arrays that fill the device, fragmentation, and limits of host memory.


_SETTERS: Final[dict[OomKind, Literal["group", "container", "job", "node"]]] = {
    "kubernetes": "container",
    "slurm": "job",
    "ray": "node",
}
CONTROL_GROUP: Final = "CONSTRAINT_MEMCG"
"""The reason of the kernel that is the limit of a control group."""
_SMALL_PROGRAM: Final = 1 << 30
"""Size of a program that fits every device."""


def free_bytes(message: OutOfMemory) -> int | None:
    """The memory that was free, in pieces or not; None if the message does not have it.

    >>> from hlo_cli.ir.out_of_memory import AllocatorStats
    >>> from hlo_cli.source import Span
    >>> free_bytes(OutOfMemory("run", Span(0, 0), allocator=AllocatorStats(limit_bytes=8, in_use_bytes=5)))
    3
    """
    if message.free_bytes is not None:
        return message.free_bytes
    if message.limit_meaning == "free":
        return message.limit_bytes
    stats = message.allocator
    if stats is None or stats.limit_bytes is None or stats.in_use_bytes is None:
        return None
    return max(stats.limit_bytes - stats.in_use_bytes, 0)


def _defragment_advice(message: OutOfMemory) -> Iterator[Defragment]:
    """That enough memory is free, but not in one piece."""
    free, requested = free_bytes(message), message.used_bytes
    if free is None or requested is None or free < requested:
        return
    largest = message.allocator.largest_free_block_bytes if message.allocator is not None else None
    if message.limit_meaning == "reservable":
        # TPU messages call the largest piece reservable.
        largest = message.limit_bytes
    yield Defragment(free, requested, largest or None, is_tpu=message.target == "tpu")


def _free_advice(message: OutOfMemory) -> Iterator[FreeBuffers]:
    """The size of arrays to delete: the program compiled, so it fits a device without them."""
    if message.exceeded_by_bytes and message.exceeded_by_bytes > 0:
        yield FreeBuffers(message.exceeded_by_bytes, message.kind == "tpu-load")


def _other_advice(message: OutOfMemory) -> Iterator[FreeOthers]:
    """Whatever else fills a device on which even a small program does not fit."""
    if message.stats is not None and 0 < message.stats.total_bytes < _SMALL_PROGRAM:
        yield FreeOthers(message.stats.total_bytes)


def _chunk_advice(message: OutOfMemory) -> Iterator[FreeChunks]:
    """The size that an allocator lacks, and the chunks that hold the most."""
    free, requested = free_bytes(message), message.used_bytes
    if free is None or requested is None or free >= requested:
        return
    largest = max(message.chunks, key=lambda group: group.count * group.size_bytes, default=None)
    yield FreeChunks(requested - free, largest)


def _driver_advice(message: OutOfMemory) -> Iterator[ListProcesses]:
    """Other processes on the GPU, whose driver has less free memory than was requested."""
    if message.used_bytes:
        yield ListProcesses(message.used_bytes)


def _shared_memory_advice(message: OutOfMemory) -> Iterator[Shrink]:
    """The share by which the blocks of a GPU kernel must shrink."""
    if message.used_bytes and message.limit_bytes and message.used_bytes > message.limit_bytes:
        yield Shrink("shared memory", message.used_bytes, message.used_bytes - message.limit_bytes)


def _host_advice(message: OutOfMemory) -> Iterator[RaiseHostLimit]:
    """The limit of host memory that a process exceeded."""
    process = message.process
    used = message.used_bytes if message.used_bytes is not None else process.resident_bytes if process else None
    setter: Literal["group", "container", "job", "node", "machine"] = _SETTERS.get(message.kind, "group")
    # The kernel kills without a control group only when the machine has no memory left.
    if message.kind == "linux-oom-killer" and (process is None or process.reason != CONTROL_GROUP):
        setter = "machine"
    yield RaiseHostLimit(setter, used, message.limit_bytes, message.exceeded_by_bytes)


# --- which advice a message supports ---


_MAX_ADVICE: Final = 4
"""Number of pieces of advice, without the one on dumps."""
_MAX_REORDERED: Final = 2  # of four pieces of advice, half are left for other kinds
_SMALL_MEMORY_KINDS: Final[frozenset[OomKind]] = frozenset(("tpu-smem", "tpu-other", "tpu-sparse-core"))
_HOST_KINDS: Final[frozenset[OomKind]] = frozenset(("linux-oom-killer", "kubernetes", "slurm", "ray"))
_KINDS_WITHOUT_DUMP: Final[frozenset[OomKind]] = frozenset(
    (
        "tpu-vmem-scoped",
        "tpu-vmem-stack",
        "tpu-smem",
        "tpu-sparse-core",
        "tpu-buffer",
        "gpu-driver",
        "gpu-shared-memory",
    )
)
"""Kinds for which a dump of the program shows no more."""
_KERNEL_KINDS: Final[frozenset[OomKind]] = frozenset(
    (*_SMALL_MEMORY_KINDS, "tpu-vmem", "tpu-vmem-scoped", "tpu-vmem-stack")
)


def advice_of(
    message: OutOfMemory,
    window: KernelWindow | None = None,
    *,
    warnings: Iterable[OutOfMemory] = (),
    generation: str = USUAL_TPU,
    has_dump: bool = False,
) -> tuple[Advice, ...]:
    """The advice that a message supports: at most four pieces that save memory, then a dump unless there is one.

    `window` is that of the allocation that failed; `warnings` are messages of the compiler before it, whose excess
    counts only if the message has none itself; `generation` is the TPU whose default tiles apply to layouts.

    >>> from hlo_cli.source import Span
    >>> message = OutOfMemory("load", Span(0, 0), "hbm", "tpu", 9 << 30, 8 << 30, 1 << 30, kind="tpu-load")
    >>> [type(each).__name__ for each in advice_of(message)]
    ['FreeBuffers', 'Dump']
    """
    advice = list(_advice(message, window, generation))
    has_figures = bool(message.exceeded_by_bytes) and not message.is_warning
    if message.is_xla and message.kind not in _KERNEL_KINDS:
        for warning in warnings:
            advice += [*_shard_advice(warning), *(() if has_figures else _shrink_advice(warning))]
    chosen = list(dict.fromkeys(advice))[:_MAX_ADVICE]
    # What others hold is in no dump of this program.
    has_dump = has_dump or any(isinstance(each, FreeOthers) for each in chosen)
    is_kernel = window is not None or (message.kind in _KERNEL_KINDS and (bool(chosen) or bool(message.space)))
    if message.is_xla and message.kind not in _KINDS_WITHOUT_DUMP and not has_dump and not is_kernel:
        chosen.append(Dump(bool(message.allocations)))
    return tuple(chosen)


def _advice(message: OutOfMemory, window: KernelWindow | None, generation: str) -> Iterator[Advice]:
    kind = message.kind
    if kind in _HOST_KINDS:
        yield from _host_advice(message)
    elif not message.is_xla:
        yield from _defragment_advice(message)
        yield from _chunk_advice(message)
    elif kind == "tpu-vmem-scoped":
        yield from _scoped_advice(message)
    elif window is not None and kind not in _SMALL_MEMORY_KINDS:
        yield from _block_advice(message, window)
    elif kind in _SMALL_MEMORY_KINDS and (kind != "tpu-other" or message.space):
        yield from _element_advice(message, message.failed, window)
    elif kind == "tpu-vmem":
        yield from list(_reorder_advice(message, generation))[:_MAX_REORDERED]
        yield from _scratch_advice(message, message.failed)
    elif kind == "gpu-shared-memory":
        yield from _shared_memory_advice(message)
    elif kind == "gpu-driver" and message.space != "host":
        yield from _driver_advice(message)
    elif kind in ("tpu-load", "tpu-buffer"):
        # Fragmentation first: deleting arrays would help as well, but more than needed.
        fragmented = list(_defragment_advice(message))
        yield from fragmented or _free_advice(message)
    elif others := list(_other_advice(message)):
        yield from others
    else:
        yield from _defragment_advice(message)
        yield from _program_advice(message, generation)
        if kind == "gpu-allocator":
            yield from _chunk_advice(message)


def _program_advice(message: OutOfMemory, generation: str) -> Iterator[Advice]:
    """Changes of the program, those that certainly save bytes first, the most bytes first."""
    reordered = list(_reorder_advice(message, generation))[:_MAX_REORDERED]
    sure: list[Reorder | Narrow | Donate] = [*reordered, *_narrow_advice(message), *_donate_advice(message)]
    yield from _shard_advice(message)
    yield from _range_advice(message, generation)
    yield from sorted(sure, key=lambda each: -each.saved_bytes)
    yield from _recompute_advice(message)
    over = message.exceeded_by_bytes or 0
    # Reordering alone may be enough, and is exact.
    if sum(each.saved_bytes for each in sure if isinstance(each, Reorder)) < over or not over:
        yield from _shrink_advice(message)
