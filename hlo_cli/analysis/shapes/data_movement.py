"""Shape inference for data movement: transpose, broadcast, reshape, slice, pad, and similar opcodes.

Mirrors `InferTransposeShape`, `InferBroadcastShape`, `InferSliceShape`, `InferPadShape`, `InferConcatOpShape`,
`InferReverseShape`, and `InferReshapeShape` of xla/service/shape_inference.cc.
"""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.shapes.operands import (
    S32,
    array,
    array_of,
    arrays,
    declared_array,
    described,
    fail,
    need_at_least,
    need_dimensions,
    need_same_type,
    need_scalar,
    only_dimension,
    wider,
)
from hlo_cli.ir.attributes.value_types import PaddingConfig, PaddingDimension, Slice, SliceDimension
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, UnknownShape, same_sizes
from hlo_cli.source import counted


def transpose(instruction: Instruction) -> ArrayShape:
    """Returns the operand with permuted dimensions, and a layout that leaves the data in place.

    >>> from hlo_cli import parse_module
    >>> print(transpose(parse_module("r = f32[3,2] transpose(f32[2,3]{1,0} a), dimensions={1,0}").entry.root))
    f32[3,2]{0,1}
    """
    shape, order = array(instruction, 0), instruction.integers("dimensions")
    if len(order) != shape.rank:
        fail(instruction, f"expected {counted(shape.rank, 'numbers')} in dimensions, found {len(order)}")
    need_dimensions(instruction, order, shape.rank, "dimensions")
    dimensions = [shape.dimensions[d] for d in order]
    dynamic = [shape.dynamic_dimensions[d] for d in order]
    return array_of(shape.element_type, dimensions, dynamic, _transposed_layout(shape.layout, order))


def reverse(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand."""
    shape = array(instruction, 0)
    need_dimensions(instruction, instruction.integers("dimensions"), shape.rank, "dimensions")
    return shape


def shuffle(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand."""
    dimensions, shifts = instruction.integers("dimensions"), instruction.integers("shifts")
    if not dimensions:
        fail(instruction, "expected at least one dimension")
    if len(shifts) != len(dimensions):
        fail(instruction, f"expected {counted(len(dimensions), 'numbers')} in shifts, found {len(shifts)}")
    return reverse(instruction)


def broadcast(instruction: Instruction) -> ArrayShape:
    """Returns the declared dimensions with the operand's type; each operand dimension maps to one of equal size.

    Without a declared shape, XLA's parser reads `dimensions` as sizes to prepend to the operand's dimensions.
    """
    shape, mapped = array(instruction, 0), instruction.integers("dimensions")
    if isinstance(instruction.shape, UnknownShape):
        added = (False,) * len(mapped)
        return array_of(shape.element_type, (*mapped, *shape.dimensions), (*added, *shape.dynamic_dimensions))
    result = declared_array(instruction)
    if len(mapped) != shape.rank:
        fail(instruction, f"expected {counted(shape.rank, 'numbers')} in dimensions, found {len(mapped)}")
    need_dimensions(instruction, mapped, result.rank, "dimensions")
    for i, d in enumerate(mapped):
        if result.dimensions[d] != shape.dimensions[i] and UNBOUNDED not in (result.dimensions[d], shape.dimensions[i]):
            sizes = f"dimension {d} of the result has size {result.dimensions[d]}, not {shape.dimensions[i]}"
            fail(instruction, f"{sizes} as dimension {i} of the operand; {described(instruction, 0)}")
    return array_of(shape.element_type, result.dimensions, result.dynamic_dimensions)


def reshape(instruction: Instruction) -> ArrayShape:
    """Returns the declared dimensions with the operand's type; the number of elements must not change."""
    shape, result = array(instruction, 0), declared_array(instruction)
    is_open = UNBOUNDED in (*shape.dimensions, *result.dimensions)
    if shape.elements != result.elements and not is_open:
        found = f"the result has {counted(result.elements, 'elements')}, the operand {shape.elements}"
        fail(instruction, f"expected the same number of elements; {found}; {described(instruction, 0)}")
    return array_of(shape.element_type, result.dimensions, result.dynamic_dimensions)


def dynamic_reshape(instruction: Instruction) -> ArrayShape:
    """Returns the result of `reshape`; each dimension has a further s32 scalar operand with its size."""
    result = reshape(instruction)
    if len(instruction.operands) != result.rank + 1:
        found = len(instruction.operands)
        fail(
            instruction,
            f"expected {counted(result.rank + 1, 'operands')} for a result of rank {result.rank}, found {found}",
        )
    for position in range(1, result.rank + 1):
        if need_scalar(instruction, position).element_type is not S32:
            fail(instruction, f"expected s32 sizes; {described(instruction, position)}")
    return result


def slice_of(instruction: Instruction) -> ArrayShape:
    """Returns the operand with the sizes of the slice.

    >>> from hlo_cli import parse_module
    >>> print(slice_of(parse_module("r = f32[3] slice(f32[9]{0} a), slice={[1:9:3]}").entry.root))
    f32[3]{0}
    """
    shape, taken = array(instruction, 0), instruction.value_of("slice", Slice)
    parts = taken.dimensions if taken is not None else ()
    if len(parts) != shape.rank:
        fail(
            instruction,
            f"expected {counted(shape.rank, 'ranges')} in slice, found {len(parts)}; {described(instruction, 0)}",
        )
    dimensions = [_sliced_size(instruction, shape.dimensions[i], part, i) for i, part in enumerate(parts)]
    return array_of(shape.element_type, dimensions, [size == UNBOUNDED for size in dimensions])


def pad(instruction: Instruction) -> ArrayShape:
    """Returns the operand with each dimension enlarged by low, high, and interior padding."""
    shape, padding = array(instruction, 0), instruction.value_of("padding", PaddingConfig)
    need_scalar(instruction, 1)
    need_same_type(instruction, 0, 1)
    parts = padding.dimensions if padding is not None else ()
    if not shape.rank and len(parts) == 1 and parts[0] == PaddingDimension(0, 0):
        parts = ()
    if len(parts) != shape.rank:
        fail(instruction, f"expected a padding of {counted(shape.rank, 'dimensions')}, found {len(parts)}")
    dimensions = [_padded_size(instruction, shape.dimensions[i], part, i) for i, part in enumerate(parts)]
    element_type = wider(shape.element_type, array(instruction, 1).element_type)
    return array_of(element_type, dimensions, shape.dynamic_dimensions)


def concatenate(instruction: Instruction) -> ArrayShape:
    """Returns the operands concatenated along one dimension."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    first = shapes[0]
    along = only_dimension(instruction, first.rank)
    dimensions, dynamic = list(first.dimensions), list(first.dynamic_dimensions)
    for position, shape in enumerate(shapes[1:], 1):
        need_same_type(instruction, 0, position)
        if shape.rank != first.rank or not same_sizes(_without(shape, along), _without(first, along)):
            fail(
                instruction,
                f"expected sizes to match except in dimension {along}; {described(instruction, 0, position)}",
            )
        _append(dimensions, dynamic, shape, along)
    element_type = wider(first.element_type, shapes[-1].element_type)  # XLA ignores the types of the others
    return array_of(element_type, dimensions, dynamic)


def _transposed_layout(layout: Layout, order: tuple[int, ...]) -> Layout:
    """Returns the layout of a transposed array whose data stay in place."""
    place = {old: new for new, old in enumerate(order)}
    return replace(layout, minor_to_major=tuple(place.get(d, d) for d in layout.minor_to_major))


def _sliced_size(instruction: Instruction, size: int, part: SliceDimension, dimension: int) -> int:
    """Returns the size of a slice in one dimension."""
    text = f"[{part.start}:{part.limit}]"
    if part.stride < 1:
        fail(instruction, f"expected a stride of at least 1 in dimension {dimension}, found {part.stride}")
    if not 0 <= part.start <= part.limit or (size != UNBOUNDED and part.limit > size):
        fail(instruction, f"expected a range within dimension {dimension} (size {size}), found {text}")
    return -(-(part.limit - part.start) // part.stride)


def _padded_size(instruction: Instruction, size: int, part: PaddingDimension, dimension: int) -> int:
    """Returns the size of a padded dimension."""
    if part.interior_padding < 0:
        fail(instruction, f"expected nonnegative interior padding in dimension {dimension}")
    if size == UNBOUNDED:
        return size
    inner = max(size - 1, 0) * part.interior_padding
    padded = size + part.edge_padding_low + part.edge_padding_high + inner
    if padded < 0:
        fail(
            instruction, f"negative padding leaves {counted(padded, 'elements')} in dimension {dimension} (size {size})"
        )
    return padded


def _without(shape: ArrayShape, dimension: int) -> tuple[int, ...]:
    """Returns the dimensions except one."""
    return shape.dimensions[:dimension] + shape.dimensions[dimension + 1 :]


def _append(dimensions: list[int], dynamic: list[bool], shape: ArrayShape, along: int) -> None:
    """Adds an operand to the result of a concatenation, in place: sizes along one dimension add up."""
    for d, size in enumerate(shape.dimensions):
        if d != along:
            if dimensions[d] == UNBOUNDED:
                dimensions[d], dynamic[d] = size, shape.dynamic_dimensions[d]
            else:
                dynamic[d] = dynamic[d] or (shape.dynamic_dimensions[d] and size != UNBOUNDED)
        else:
            is_open = UNBOUNDED in (dimensions[d], size)
            dimensions[d] = UNBOUNDED if is_open else dimensions[d] + size
            dynamic[d] = dynamic[d] or shape.dynamic_dimensions[d]
