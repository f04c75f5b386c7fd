"""Advice on the memory of a program: layouts, element types, donation, sharding, and smaller temporaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Final

from hlo_cli.analysis.layout.default_layout import best_order
from hlo_cli.analysis.out_of_memory.advice import Donate, Narrow, Recompute, Reorder, Shard, Shrink
from hlo_cli.analysis.out_of_memory.range_advice import is_shared
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.opcodes import PARAMETER
from hlo_cli.ir.out_of_memory import OomAllocation, OutOfMemory
from hlo_cli.ir.shape import ArrayShape

_MIN_SAVING: Final = 0.05
"""Minimum share of the needed memory that advice saves."""
_SIZE_TOLERANCE: Final = 0.02
"""Maximum relative difference of a size in a message, which is rounded, and that of its shape."""
_WIDE: Final = {"f64": "f32", "s64": "s32", "u64": "u32", "c128": "c64"}
_TO_FLOAT32: Final = ("new_dtype=float32", "preferred_element_type=float32")
"""Parts of op_names of operations that were asked for f32."""
_MOST: Final = 0.9
"""Share above which an excess is taken from the limit, because both are rounded to few digits."""
_FORWARD: Final = "jvp("
_BACKWARD: Final = "transpose("
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


def reorder_advice(message: OutOfMemory, generation: str) -> Iterator[Reorder]:
    """Other dimension orders for listed arguments with padding, those of one shape together, the most saving first.

    Besides arguments, users control scratch operands of their kernels. Compilers choose the layouts of temporary values
    anew in a changed program, and messages do not tell which allocations are results.
    """
    groups: dict[ArrayShape, list[OomAllocation]] = {}
    for allocation in message.culprits:
        if (shape := _laid_out(allocation)) is not None:
            groups.setdefault(shape, []).append(allocation)
    found: list[Reorder] = []
    for shape, alike in groups.items():
        best = _best_with_its_tiles(shape) if alike[0].tag == SCRATCH else _best(shape, generation)
        if best is not None and best.layout.minor_to_major != shape.layout.minor_to_major:
            before = sum(each.size_bytes or shape.padded_bytes for each in alike)
            found.append(Reorder(before, len(alike) * best.padded_bytes, tuple(alike), best.layout))
    least = _MIN_SAVING * needed_bytes(message)
    yield from sorted((each for each in found if each.saved_bytes >= least), key=lambda each: -each.saved_bytes)


def narrow_advice(message: OutOfMemory) -> Iterator[Narrow]:
    """A narrower type for the largest allocation, if it has 64-bit numbers or was asked for in f32."""
    largest = next(iter(message.culprits), None)
    if largest is None or not isinstance(largest.shape, ArrayShape) or not largest.size_bytes or is_shared(largest):
        return
    name = largest.shape.element_type.name
    other = _WIDE.get(name, "")
    if name == "f32" and any(part in largest.op_name for part in _TO_FLOAT32):
        other = "bf16"
    if other:
        narrow = PRIMITIVE_TYPES[other].bits
        after = largest.size_bytes * narrow // largest.shape.element_type.bits
        if largest.size_bytes - after >= _MIN_SAVING * needed_bytes(message):
            yield Narrow(largest.size_bytes, after, largest, other)


def donate_advice(message: OutOfMemory) -> Iterator[Donate]:
    """Donation of arguments, if results of a relevant size have memory of their own."""
    arguments, output, shared = _arguments_and_output(message)
    if arguments is None or output is None or shared is None:
        return
    saved = min(arguments, output) - shared
    if saved > 0 and saved >= _MIN_SAVING * needed_bytes(message):
        yield Donate(arguments, output, shared, saved)


def shard_advice(message: OutOfMemory) -> Iterator[Shard]:
    """Sharding of arguments that do not fit even without a program, or of a result that no device can hold."""
    arguments = message.used_bytes if message.kind == "arguments" else _part(message, "arguments")
    limit, failed = message.limit_bytes, message.failed
    if not limit:
        return
    if arguments is not None and arguments > limit:
        yield Shard(arguments, limit, -(-arguments // limit))
    elif failed is not None and failed.size_bytes and failed.size_bytes > limit:
        yield Shard(failed.size_bytes, limit, -(-failed.size_bytes // limit), failed)
    elif message.kind == "tpu-other" and not message.space and limit >= _MAIN_MEMORY:
        used = message.used_bytes or 0
        yield from (Shard(used, limit, -(-used // limit), OomAllocation(used)),) if used > limit else ()


def shrink_advice(message: OutOfMemory) -> Iterator[Shrink]:
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
        yield Shrink("the program", used, used - limit if over > _MOST * used and limit else over)


def _is_of_program(message: OutOfMemory) -> bool:
    """Whether a message without the parts of the program is about all of it, and its arguments alone would fit."""
    arguments = _part(message, "arguments") or 0
    is_total = message.kind == "tpu-hbm" and not message.program and message.failed is None
    return is_total and arguments <= (message.limit_bytes or 0)


def recompute_advice(message: OutOfMemory) -> Iterator[Recompute]:
    """Recomputation of values that a gradient keeps, if they are a relevant part of the listed allocations."""
    kept = tuple(each for each in message.allocations if _FORWARD in each.op_name and _BACKWARD not in each.op_name)
    size = sum(each.size_bytes or 0 for each in kept)
    if kept and size >= _MIN_SAVING * needed_bytes(message):
        yield Recompute(kept, size)


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


def _laid_out(allocation: OomAllocation) -> ArrayShape | None:
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
    if allocation.size_bytes is not None and abs(allocation.size_bytes - size) > _SIZE_TOLERANCE * size:
        return None
    return replace(shape, layout=replace(shape.layout, memory_space=0))


def _part(message: OutOfMemory, name: str) -> int | None:
    return next((part.size_bytes for part in message.usage if part.name == name), None)


def _arguments_and_output(message: OutOfMemory) -> tuple[int | None, int | None, int | None]:
    """Sizes of arguments, of results, and of what they share.

    An allocation of a buffer assignment that holds both counts in both rows and once in the total.
    """
    if (stats := message.stats) is not None:
        parts = stats.parameter_bytes + stats.constant_bytes + stats.maybe_live_out_bytes
        shared = max(parts + stats.preallocated_temp_bytes - stats.total_bytes, 0)
        return stats.parameter_bytes, stats.maybe_live_out_bytes, shared
    return _part(message, "arguments"), message.output_bytes, message.output_shared_bytes
