"""Shape inference for indexed access: dynamic slices, gather, and scatter.

Mirrors `InferDynamicSliceShape`, `InferDynamicUpdateSliceShape`, `InferGatherShape`, and `InferScatterShape` of
xla/service/shape_inference.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.shapes.operands import (
    INTEGERS,
    array,
    array_of,
    arrays,
    described,
    fail,
    need_at_least,
    need_dimensions,
    need_kind,
    need_same_type,
    one_or_tuple,
)
from hlo_cli.analysis.shapes.reduction import need_same_sizes, reducer_types
from hlo_cli.ir.attributes.value_types import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    gather_dimension_numbers,
    scatter_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, BufferShape, Shape
from hlo_cli.source import counted


def dynamic_slice(instruction: Instruction) -> ArrayShape:
    """Returns the operand with the sizes of `dynamic_slice_sizes`.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2] dynamic-slice(f32[9] a, s32[] i), dynamic_slice_sizes={2}"
    >>> print(dynamic_slice(parse_module(text).entry.root))
    f32[2]{0}
    """
    need_at_least(instruction, 1)
    shape, sizes = array(instruction, 0), instruction.integers("dynamic_slice_sizes")
    _check_starts(instruction, shape, 1)
    if len(sizes) != shape.rank:
        fail(instruction, f"expected {counted(shape.rank, 'numbers')} in dynamic_slice_sizes, found {len(sizes)}")
    _check_sizes(instruction, shape, sizes, range(shape.rank), "dynamic_slice_sizes")
    dynamic = [
        f and size == whole for f, size, whole in zip(shape.dynamic_dimensions, sizes, shape.dimensions, strict=True)
    ]
    return array_of(shape.element_type, sizes, dynamic)


def dynamic_update_slice(instruction: Instruction) -> Shape:
    """Returns the shape of operand 0, a part of which operand 1 replaces."""
    need_at_least(instruction, 2)
    whole = instruction.operand_shape(0)
    shape = whole.array if isinstance(whole, BufferShape) else array(instruction, 0)
    update = array(instruction, 1)
    _check_starts(instruction, shape, 2)
    if update.rank != shape.rank:
        fail(instruction, f"expected an update of {counted(shape.rank, 'dimensions')}; {described(instruction, 0, 1)}")
    if not isinstance(whole, BufferShape):
        need_same_type(instruction, 0, 1)
    _check_sizes(instruction, shape, update.dimensions, range(shape.rank), "the update")
    return whole


def gather(instruction: Instruction) -> ArrayShape:
    """Returns slice sizes in the dimensions `offset_dims`, and sizes of the indices in the others.

    >>> from hlo_cli import parse_module
    >>> dims = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
    >>> text = f"r = f32[4,3] gather(f32[9,3] a, s32[4,1] i), {dims}, slice_sizes={{1,3}}"
    >>> print(gather(parse_module(text).entry.root))
    f32[4,3]{1,0}
    """
    shape, indices = array(instruction, 0), need_kind(instruction, 1, INTEGERS)
    numbers, sizes = gather_dimension_numbers(instruction), instruction.integers("slice_sizes")
    assert numbers is not None, "the rule applies only to gathers"
    batch = _index_batch_dimensions(
        instruction, indices, numbers.index_vector_dim, numbers.start_index_map, "start_index_map"
    )
    _check_gather(instruction, numbers, shape, indices, len(batch))
    if len(sizes) != shape.rank:
        fail(instruction, f"expected {counted(shape.rank, 'numbers')} in slice_sizes, found {len(sizes)}")
    _check_sizes(instruction, shape, sizes, range(shape.rank), "slice_sizes")
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    for d in dropped:
        if sizes[d] > 1:
            fail(
                instruction,
                f"expected slice size 0 or 1 in collapsed dimension {d}, found {sizes[d]}",
            )
    offset = iter([(sizes[d], _is_whole_dynamic(shape, d, sizes[d])) for d in range(shape.rank) if d not in dropped])
    outer = iter([(indices.dimensions[d], indices.dynamic_dimensions[d]) for d in batch])
    rank = len(numbers.offset_dims) + len(batch)
    made = [next(offset if d in numbers.offset_dims else outer) for d in range(rank)]
    return array_of(shape.element_type, [size for size, _ in made], [dynamic for _, dynamic in made])


def scatter(instruction: Instruction) -> Shape:
    """Returns the shapes of the operands that are updated."""
    count = len(instruction.operands)
    if count < 3 or count % 2 == 0:
        fail(instruction, f"expected N operands, indices, and N updates, found {counted(count, 'operands')}")
    shapes, inputs = arrays(instruction), count // 2
    indices = need_kind(instruction, inputs, INTEGERS)
    need_same_sizes(instruction, range(inputs))
    numbers = scatter_dimension_numbers(instruction)
    assert numbers is not None, "the rule applies only to scatters"
    into = numbers.scatter_dims_to_operand_dims
    batch = _index_batch_dimensions(
        instruction, indices, numbers.index_vector_dim, into, "scatter_dims_to_operand_dims"
    )
    _check_scatter(instruction, numbers, shapes[0], indices)
    for position in range(inputs + 1, count):
        _check_update(instruction, numbers, indices, batch, position)
    scalars = [array_of(shape.element_type, ()) for shape in shapes[inputs + 1 :]]
    reducer_types(instruction, shapes[:inputs], scalars)
    return one_or_tuple(shapes[:inputs])


def _check_starts(instruction: Instruction, shape: ArrayShape, first: int) -> None:
    """Checks that start indices are integers of one type, as scalar operands or as one vector."""
    starts = [need_kind(instruction, position, INTEGERS) for position in range(first, len(instruction.operands))]
    if len(starts) == 1 and starts[0].rank == 1:
        if starts[0].dimensions[0] != shape.rank:
            fail(instruction, f"expected {shape.rank} indices; {described(instruction, first)}")
        return
    if len(starts) != shape.rank:
        fail(instruction, f"expected {shape.rank} indices, found {len(starts)}; {described(instruction, 0)}")
    for position, start in enumerate(starts, first):
        if start.dimensions or start.element_type is not starts[0].element_type:
            fail(instruction, f"expected scalar indices of the same type; {described(instruction, first, position)}")


def _check_sizes(
    instruction: Instruction, shape: ArrayShape, sizes: Sequence[int], dimensions: Sequence[int], what: str
) -> None:
    """Checks that sizes do not exceed the operand's dimensions."""
    for size, d in zip(sizes, dimensions, strict=True):
        if UNBOUNDED not in (size, shape.dimensions[d]) and not 0 <= size <= shape.dimensions[d]:
            found = f"expected at most {shape.dimensions[d]} in dimension {d} of {what}, found {size}"
            fail(instruction, f"{found}; {described(instruction, 0)}")


def _is_whole_dynamic(shape: ArrayShape, dimension: int, size: int) -> bool:
    """Returns whether a slice covers a whole dynamic dimension."""
    return shape.dynamic_dimensions[dimension] and size == shape.dimensions[dimension]


def _index_batch_dimensions(
    instruction: Instruction, indices: ArrayShape, vector: int, mapped: Sequence[int], name: str
) -> list[int]:
    """Returns the dimensions of the indices except the index vector dimension, which may be implicit."""
    if not 0 <= vector <= indices.rank:
        fail(instruction, f"expected index_vector_dim from 0 to {indices.rank}, found {vector}")
    length = indices.dimensions[vector] if vector < indices.rank else 1
    if len(mapped) != length and length != UNBOUNDED:
        fail(
            instruction,
            f"expected {counted(length, 'numbers')} in {name}, one per index component, found {len(mapped)}",
        )
    return [d for d in range(indices.rank) if d != vector]


def _check_gather(
    instruction: Instruction, numbers: GatherDimensionNumbers, shape: ArrayShape, indices: ArrayShape, batch: int
) -> None:
    """Checks the dimension numbers of a gather."""
    rank = len(numbers.offset_dims) + batch
    _need_sorted(instruction, numbers.offset_dims, rank, "offset_dims")
    need_dimensions(instruction, numbers.start_index_map, shape.rank, "start_index_map")
    _need_sorted(instruction, numbers.collapsed_slice_dims, shape.rank, "collapsed_slice_dims")
    _check_batching(
        instruction,
        shape,
        indices,
        ("operand_batching_dims", numbers.operand_batching_dims),
        ("start_indices_batching_dims", numbers.start_indices_batching_dims),
    )
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    _check_split(instruction, shape, numbers.offset_dims, dropped)


def _check_scatter(
    instruction: Instruction, numbers: ScatterDimensionNumbers, shape: ArrayShape, indices: ArrayShape
) -> None:
    """Checks the dimension numbers of a scatter."""
    into, dropped = numbers.scatter_dims_to_operand_dims, (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    need_dimensions(instruction, into, shape.rank, "scatter_dims_to_operand_dims")
    _need_sorted(instruction, numbers.inserted_window_dims, shape.rank, "inserted_window_dims")
    _check_batching(
        instruction,
        shape,
        indices,
        ("input_batching_dims", numbers.input_batching_dims),
        ("scatter_indices_batching_dims", numbers.scatter_indices_batching_dims),
    )
    _check_split(instruction, shape, numbers.update_window_dims, dropped)


def _check_batching(
    instruction: Instruction,
    shape: ArrayShape,
    indices: ArrayShape,
    of_operand: tuple[str, Sequence[int]],
    of_indices: tuple[str, Sequence[int]],
) -> None:
    """Checks that batching dimensions are pairs, sorted by operand dimension; XLA does not compare their sizes."""
    _need_sorted(instruction, of_operand[1], shape.rank, of_operand[0])
    need_dimensions(instruction, of_indices[1], indices.rank, of_indices[0])
    if len(of_operand[1]) != len(of_indices[1]):
        counts = f"found {len(of_operand[1])} and {len(of_indices[1])}"
        fail(instruction, f"expected {of_operand[0]} and {of_indices[0]} to have the same length, {counts}")


def _check_split(instruction: Instruction, shape: ArrayShape, kept: Sequence[int], dropped: Sequence[int]) -> None:
    """Checks that every operand dimension is either a slice dimension or a dropped one."""
    if len(kept) + len(dropped) != shape.rank:
        parts = f"{len(kept)} slice and {len(dropped)} dropped dimensions"
        fail(
            instruction,
            f"expected {counted(shape.rank, 'dimensions')} in total, found {parts}; {described(instruction, 0)}",
        )


def _check_update(
    instruction: Instruction, numbers: ScatterDimensionNumbers, indices: ArrayShape, batch: Sequence[int], position: int
) -> None:
    """Checks an update: sizes of the indices, and window sizes that do not exceed the operand's."""
    update, shape, window = array(instruction, position), array(instruction, 0), numbers.update_window_dims
    rank = len(window) + len(batch)
    if update.rank != rank:
        fail(instruction, f"expected updates of {counted(rank, 'dimensions')}; {described(instruction, position)}")
    _need_sorted(instruction, window, rank, "update_window_dims")
    dropped = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    kept = [d for d in range(shape.rank) if d not in dropped]
    for d, of_operand in zip(window, kept, strict=True):
        sizes = (update.dimensions[d], shape.dimensions[of_operand])
        if UNBOUNDED not in sizes and sizes[0] > sizes[1]:
            found = f"expected at most {sizes[1]} in dimension {d} of the updates, found {sizes[0]}"
            fail(instruction, f"{found}; {described(instruction, 0, position)}")
    outer = [d for d in range(rank) if d not in window]
    for d, of_indices in zip(outer, batch, strict=True):
        sizes = (update.dimensions[d], indices.dimensions[of_indices])
        if sizes[0] != sizes[1] and UNBOUNDED not in sizes:
            found = f"expected {sizes[1]} in dimension {d} of the updates to match the indices, found {sizes[0]}"
            fail(instruction, f"{found}; {described(instruction, position)}")


def _need_sorted(instruction: Instruction, dimensions: Sequence[int], rank: int, what: str) -> None:
    """Checks that dimensions are valid and sorted."""
    need_dimensions(instruction, dimensions, rank, what)
    if list(dimensions) != sorted(dimensions):
        fail(instruction, f"expected {what} in ascending order, found {list(dimensions)}")
