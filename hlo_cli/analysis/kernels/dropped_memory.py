"""Which memory of a kernel does the compiler not keep, because nothing needs it there?

Measured with libtpu's own lists of allocations, those that it declares and those that it keeps: what is stored and then
loaded in straight-line code is passed on in registers if these are stored whole, and loaded with all their rows and in
the same order (of 850 random kernels on v5e, v6e, and 7x, in all); what is only stored to has no memory;
what is copied by hand from VMEM is read where it was, as are blocks of whole columns if the grid has one step; and an
operand on the chip that nothing reads needs no window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, TypeAlias

import numpy as np

from hlo_cli.analysis.hardware.chips import tpu_generation
from hlo_cli.analysis.kernels.kernel_body import KernelBody, kind_of, space_of
from hlo_cli.analysis.kernels.kernel_memory import LANES, SUBLANES, WORD, bits_of, known_shape, tile_rows_of
from hlo_cli.analysis.kernels.scalar_code import Environment, Numbers, run
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.mlir.mlir_operations import Operation, Value
from hlo_cli.mlir.mlir_values import ArrayType, DenseArray, Type


def dropped_memory(body: KernelBody, on_chip: Mapping[Value, ArrayShape], generation: str | None = None) -> set[Value]:
    """The scratch, and the windows, of a kernel that the compiler does not keep in VMEM, by their arguments.

    `on_chip` are the operands and results that are not in main memory before the kernel begins, with their shapes.
    """
    in_vmem = {
        value: tile_rows_of(shape, generation)
        for value, shape in on_chip.items()
        if shape.layout.memory_space == TpuMemorySpace.VMEM
    }
    zero = np.zeros((), np.int64)
    sizes = zip(body.indices, body.grid or (), strict=False)
    environment: Environment = {value: zero for value, size in sizes if size == 1}
    operations = list(_straight_line(body, environment))
    used = _used_values(body.function)
    named = {operand for operation, _ in operations for operand in operation.operands}
    scratch = (*body.arguments[len(body.arguments) - body.scratch :], *body.allocated)
    in_question = [value for value in scratch if space_of(value) == "vmem"]
    unread = {value for value in on_chip if value not in named}
    passed_on = {value for value in in_vmem if _is_one_block_of_columns(body, value, on_chip[value])}
    needless = {
        value
        for value in in_question
        if _is_passed_on(value, operations, used, environment, generation)
        or _is_copied_in_vmem(value, operations, in_vmem, generation)
    }
    return unread | passed_on | needless


def _is_one_block_of_columns(body: KernelBody, value: Value, shape: ArrayShape) -> bool:
    """Whether the only block of an array has some columns of all rows, which are whole tiles."""
    kind = value.type
    sizes, block = tuple(shape.sizes), known_shape(kind) if isinstance(kind, ArrayType) else ()
    is_single = bool(body.grid) and all(size == 1 for size in body.grid or ())
    return is_single and len(sizes) > 1 and block[:-1] == sizes[:-1] and not sizes[-2] % SUBLANES


# --- straight-line code ---

Placed: TypeAlias = "tuple[Operation, int]"
"""An operation, and the number of the straight-line code that it is in."""


def _straight_line(body: KernelBody, environment: Environment) -> Iterator[Placed]:
    """All operations that may run; numbers that are known are added to the environment.

    A condition that always holds is no condition, and a loop of one iteration no loop: a grid of one step has such.
    """
    numbers = count(1)

    def follow(operations: Sequence[Operation], number: int) -> Iterator[Placed]:
        for operation in operations:
            yield operation, number
            if not operation.regions:
                run(operation, environment)
                continue
            chosen = _chosen(operation, environment)
            for region in operation.regions:
                if chosen is None:
                    yield from follow(region.operations, next(numbers))
                elif region is operation.regions[chosen]:
                    yield from follow(region.operations, number)

    return follow(body.function.regions[0].operations, 0)


def _chosen(operation: Operation, environment: Environment) -> int | None:
    """The number of the region that runs once, whatever the step is; None if that is not known."""
    match kind_of(operation), len(operation.regions):
        case "scf.if", 2:
            condition = environment.get(operation.operands[0])
            return None if condition is None or condition.size != 1 else int(not condition.all())
        case "scf.for", 1 if (start := _only_iteration(operation, environment)) is not None:
            environment[operation.regions[0].arguments[0]] = start
            return 0
        case "tpu.region", 1:
            return 0
    return None


def _only_iteration(loop: Operation, environment: Environment) -> Numbers:
    """The index of the only iteration of a loop; None for loops of more, or of an unknown number."""
    bounds = [environment.get(value) for value in loop.operands[:3]]
    known = [int(bound) for bound in bounds if bound is not None and bound.size == 1]
    if len(known) != len(("start", "end", "step")) or not 0 < known[1] - known[0] <= known[2]:
        return None
    return bounds[0]


_PURE: Final = ("arith.", "math.", "vector.")  # dialects whose operations do nothing but have a result


def _used_values(function: Operation) -> set[Value]:
    """The values that some effect of the kernel depends on: JAX also loads what it overwrites, and drops the value."""
    used: set[Value] = set()
    for operation in reversed(list(function.walk())):
        is_pure = kind_of(operation).startswith(_PURE) and operation.results and not operation.regions
        if not is_pure or used.intersection(operation.results):
            used.update(operation.operands)
    return used


# --- what is passed on in registers ---


def _is_passed_on(
    value: Value,
    operations: Sequence[Placed],
    used: Collection[Value],
    environment: Environment,
    generation: str | None,
) -> bool:
    """Whether all that is loaded was stored before in the same straight-line code."""
    stored: dict[int, list[_Stored]] = {}
    rows = _rows_of_tiles(value, generation)
    for operation, number in operations:
        if value not in operation.operands:
            continue
        boxes = stored.setdefault(number, [])
        match kind_of(operation):
            case "vector.load":
                box = _box(operation.operands[1:], operation.results[0].type, environment)
                is_known = _has_whole_tiles(value) and box is not None and _is_covered(value, box, boxes, rows)
                if not is_known and any(result in used for result in operation.results):
                    return False
            case "tpu.vector_store" if operation.operands[1] is value and _is_plain_store(operation):
                box = _box(operation.operands[2:], operation.operands[0].type, environment)
                if box is None or not _has_whole_words(value):
                    return False
                for other, earlier in stored.items():
                    if other != number:
                        earlier.clear()  # what a condition may have overwritten is not known
                # a tile that is stored in part is put together in memory
                boxes[:] = [
                    (part, order) for each, order in boxes for part in _without(each, _touched_tiles(box, rows))
                ]
                whole = _whole_tiles(box, rows)
                if all(start < end for start, end in whole):
                    boxes.append((whole, _has_both_tiles(value, box, rows)))
            case _:
                return False
    return True


def _is_plain_store(operation: Operation) -> bool:
    """Whether a store has no mask, no strides, and adds nothing."""
    segments = operation.attributes.get("operandSegmentSizes")
    count = segments.values[2] if isinstance(segments, DenseArray) and len(segments.values) > 2 else 0
    strides = operation.attributes.get("strides")
    is_strided = isinstance(strides, DenseArray) and bool(strides.values)
    is_added = "true" in str(operation.attributes.get("add"))
    return len(operation.operands) == 2 + count and not is_strided and not is_added


def _has_whole_tiles(value: Value) -> bool:
    """Whether no tile has padding, so that what is stored and what is loaded are the same registers."""
    kind = value.type
    sizes = known_shape(kind) if isinstance(kind, ArrayType) else ()
    return len(sizes) > 1 and not sizes[-2] % SUBLANES and not sizes[-1] % LANES


_Stored: TypeAlias = "tuple[_Box, bool]"
"""Elements that are stored in whole registers, and whether these have rows of two tiles."""


def _is_covered(value: Value, box: _Box, stored: Sequence[_Stored], rows: int) -> bool:
    """Whether a load has only rows of whole registers, of which it may use some columns, that were stored so."""
    if any(edge % rows for edge in box[-2]):
        return False
    has_both = _has_both_tiles(value, box, rows)
    return not _remaining([box], [each for each, other in stored if other == has_both])


def _has_both_tiles(value: Value, box: _Box, rows: int) -> bool:
    """Whether registers have rows of two tiles, as those of narrow types have if a vector is one tile wide."""
    kind = value.type
    first, last = box[-1]
    is_narrow = isinstance(kind, ArrayType) and 0 < bits_of(kind.element) < WORD
    return is_narrow and rows == SUBLANES and first // LANES == (last - 1) // LANES


def _rows_of_tiles(value: Value, generation: str | None) -> int:
    """The rows of a tile of scratch, by its type."""
    kind = value.type
    sizes = known_shape(kind) if isinstance(kind, ArrayType) else ()
    if not isinstance(kind, ArrayType) or len(sizes) < 2 or not bits_of(kind.element):
        return SUBLANES
    return _tile_rows_of_scratch(sizes[-2], bits_of(kind.element), generation)


def _touched_tiles(box: _Box, rows: int) -> _Box:
    """The tiles of which a box has elements."""
    return _to_edges(box, rows, lambda start, end, size: (start // size * size, -(-end // size) * size))


def _whole_tiles(box: _Box, rows: int) -> _Box:
    """The tiles of which a box has all elements; an empty box if there is none."""
    return _to_edges(box, rows, lambda start, end, size: (-(-start // size) * size, end // size * size))


def _to_edges(box: _Box, rows: int, move: Callable[[int, int, int], tuple[int, int]]) -> _Box:
    sizes = (rows, LANES)[-len(box) :]
    return (*box[:-2], *[move(start, end, size) for (start, end), size in zip(box[-2:], sizes, strict=True)])


def _has_whole_words(value: Value) -> bool:
    """Whether no word of narrow elements is stored in part, which would read it first."""
    kind = value.type
    if not isinstance(kind, ArrayType):
        return False
    sizes = known_shape(kind)
    packed = max(WORD // max(bits_of(kind.element), 1), 1)
    return packed == 1 or (
        not sizes[-2] % packed if len(sizes) > 1 else bool(sizes) and not sizes[-1] % (packed * LANES)
    )


# --- what is read where it was ---


def _is_copied_in_vmem(
    value: Value, operations: Sequence[Placed], tile_rows: Mapping[Value, int], generation: str | None
) -> bool:
    """Whether scratch is only read, and filled by copies from VMEM of elements that are in the same order there."""
    is_filled = False
    for operation, _ in operations:
        if value not in operation.operands:
            continue
        match kind_of(operation):
            case "tpu.enqueue_dma" if operation.operands[0] is not value:
                source = _whole(operation.operands[0])
                if source not in tile_rows or not _has_same_order(value, tile_rows[source], generation):
                    return False
                is_filled = True
            case "tpu.wait_dma2" | "tpu.wait_dma" | "vector.load":
                pass
            case _:
                return False
    return is_filled


def _whole(value: Value) -> Value:
    """The memory that a value is a part of."""
    while (operation := value.operation) is not None and kind_of(operation).startswith("tpu.memref_"):
        value = operation.operands[0]
    return value


def _has_same_order(value: Value, tile_rows: int, generation: str | None) -> bool:
    """Whether tiles of scratch are those of the operand, or there is one in each row of tiles."""
    kind = value.type
    sizes = known_shape(kind) if isinstance(kind, ArrayType) else ()
    if not isinstance(kind, ArrayType) or len(sizes) < 2:
        return False
    return sizes[-1] <= LANES or _tile_rows_of_scratch(sizes[-2], bits_of(kind.element), generation) == tile_rows


def _tile_rows_of_scratch(rows: int, bits: int, generation: str | None) -> int:
    """The rows of a tile of scratch: of narrow types more than 8 if there are as many (infer_memref_layout.cc)."""
    is_tall = bits == 16 and generation is not None and tpu_generation(generation).has_tall_scratch
    large = SUBLANES * (WORD // bits) if bits < 16 or is_tall else SUBLANES
    return large if rows >= large else SUBLANES


# --- which elements are stored and loaded ---

_Box: TypeAlias = tuple[tuple[int, int], ...]
"""The first element and the one after the last, in each dimension."""
MAX_BOXES: Final = 256  # chosen: kernels write their scratch in a few pieces
"""The most pieces of a load that are compared with what is stored."""


def _box(indices: Sequence[Value], kind: Type, environment: Environment) -> _Box | None:
    """The elements that a load or a store of a vector is about; None if an index is no constant."""
    starts = [environment.get(value) for value in indices]
    known = [int(start) for start in starts if start is not None and start.size == 1]
    if not isinstance(kind, ArrayType) or len(known) != len(known_shape(kind)) or len(known) != len(starts):
        return None
    return tuple([(start, start + size) for start, size in zip(known, known_shape(kind), strict=True)])


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
