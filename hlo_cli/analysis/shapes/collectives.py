"""Shape inference for collectives; some results depend on the group size.

Mirrors `InferAllGatherShape`, `InferReduceScatterShape`, `InferAllToAllShape`, and similar functions of
xla/service/shape_inference.cc, with the checks of xla/service/hlo_verifier.cc. `group` is the number of devices in a
group, None if unknown.
"""

from __future__ import annotations

from hlo_cli.analysis.shapes.operands import (
    S32,
    array,
    arrays,
    declared_tuple,
    described,
    fail,
    need_at_least,
    one_or_tuple,
    only_dimension,
    operand_shapes,
)
from hlo_cli.analysis.shapes.replica_groups import lists_groups
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape, TupleShape, UnknownShape, compatible
from hlo_cli.source import counted


def all_gather(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operands with one dimension multiplied by the group size.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}"
    >>> print(all_gather(parse_module(text).entry.root, 4))
    f32[8]{0}
    """
    return _gather(instruction, instruction.shape, group)


def all_gather_start(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operands and the gathered result."""
    shape = declared_tuple(instruction, 2)[1]
    return TupleShape((one_or_tuple(operand_shapes(instruction)), _gather(instruction, shape, group)))


def reduce_scatter(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operands with one dimension divided by the group size."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    along = only_dimension(instruction, shapes[0].rank)
    size, result = shapes[0].dimensions[along], _first_array(instruction.shape)
    if result is not None and result.rank == shapes[0].rank and result.dimensions[along] > 0:
        parts, rest = divmod(size, result.dimensions[along])
        if rest and UNBOUNDED not in (size, result.dimensions[along]):
            written = f"{size} is not divisible by {result.dimensions[along]}"
            fail(instruction, f"{written} in dimension {along}; {described(instruction, 0)}")
        _check_parts(instruction, parts, group, (size, result.dimensions[along]))
    else:
        parts = _need_group_size(instruction, group)
    return one_or_tuple([_divide(instruction, position, along, parts) for position in range(len(shapes))])


def all_to_all(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operand, split and concatenated along one dimension, or a tuple of one array per device."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    if instruction.integers("dimensions"):
        along = only_dimension(instruction, shapes[0].rank)
        if len(shapes) > 1:
            fail(instruction, f"expected one operand with dimensions, found {len(shapes)}")
        size = shapes[0].dimensions[along]
        if group and size != UNBOUNDED and size % group:
            fail(instruction, f"dimension {along} is not divisible by {group}; {described(instruction, 0)}")
        return shapes[0]
    # replica_count and num_partitions default to 1, so a group of one device may just be unknown
    if group is not None and len(shapes) != group and (group > 1 or lists_groups(instruction)):
        fail(instruction, f"expected {counted(group, 'operands')}, one per device, found {len(shapes)}")
    for position, shape in enumerate(shapes):
        same_layout = shape.layout.minor_to_major == shapes[0].layout.minor_to_major
        if not compatible(shape, shapes[0]) or not same_layout:
            names = described(instruction, 0, position)
            fail(instruction, f"expected operands of the same shape and layout; {names}")
    return TupleShape(tuple(shapes))


def each_operand(instruction: Instruction) -> Shape:
    """Returns the operand, or the tuple of all operands: all-reduce and all-reduce-start."""
    need_at_least(instruction, 1)
    return one_or_tuple(arrays(instruction))


def collective_broadcast(instruction: Instruction) -> Shape:
    """Returns operand 0; with a dynamic root as the last operand, all other operands."""
    shapes = operand_shapes(instruction)
    if not instruction.flag("has_dynamic_root"):
        need_at_least(instruction, 1)
        return shapes[0]
    need_at_least(instruction, 2)
    root = array(instruction, len(shapes) - 1)
    if root.element_type is not S32 or root.rank != 1:
        fail(instruction, f"expected s32[n] as the last operand; {described(instruction, len(shapes) - 1)}")
    return one_or_tuple(shapes[:-1])


def collective_permute(instruction: Instruction) -> Shape:
    """Returns the operands; with slices, operand 1, which is written in place."""
    need_at_least(instruction, 1)
    if not instruction.integer_lists("slice_sizes"):
        return one_or_tuple(arrays(instruction))
    return _input_and_output(instruction)[1]


def collective_permute_start(instruction: Instruction) -> TupleShape:
    """Returns the operands, the results, and the declared contexts."""
    contexts = declared_tuple(instruction, 2)[2:]
    if instruction.integer_lists("slice_sizes"):
        return TupleShape((*_input_and_output(instruction), *contexts))
    need_at_least(instruction, 1)
    shape = one_or_tuple(arrays(instruction))
    return TupleShape((shape, shape, *contexts))


def second_of_operand(instruction: Instruction) -> Shape:
    """Returns the result of a start: element 1 of operand 0."""
    shape = instruction.operand_shape(0)
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        start = f"{instruction.written_opcode.removesuffix('done')}start"
        fail(instruction, f"expected the result of {start}; {described(instruction, 0)}")
    return shape.elements[1]


def ragged_all_to_all(instruction: Instruction) -> ArrayShape:
    """Returns operand 1, which is written in place; operands 2 to 5 are offsets and sizes."""
    result, rows = array(instruction, 1), array(instruction, 2)
    for position in range(2, 6):
        shape = array(instruction, position)
        if shape.rank not in (1, 2):
            fail(instruction, f"expected rank 1 or 2 of operand {position}; {described(instruction, position)}")
        if not compatible(shape, rows):
            fail(instruction, f"expected operands 2 to 5 of the same shape; {described(instruction, 2, position)}")
    return result


def _gather(instruction: Instruction, written: Shape, group: int | None) -> Shape:
    """Returns the gathered operands; the factor follows from the declared shape, or from the group size."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    along = only_dimension(instruction, shapes[0].rank)
    size, result = shapes[0].dimensions[along], _first_array(written)
    if result is not None and result.rank == shapes[0].rank and size > 0 and result.dimensions[along] > 0:
        parts = -(-result.dimensions[along] // size)
        _check_parts(instruction, parts, group, (size, result.dimensions[along]))
    else:
        parts = 1 if UNBOUNDED in shapes[0].dimensions else _need_group_size(instruction, group)
    return one_or_tuple([_multiply(instruction, position, along, parts) for position in range(len(shapes))])


def _first_array(shape: Shape) -> ArrayShape | None:
    """Returns the array, or the first array of a tuple, None if there is none."""
    first = shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape
    return first if isinstance(first, ArrayShape) else None


def _check_parts(instruction: Instruction, parts: int, group: int | None, sizes: tuple[int, int]) -> None:
    """Checks that the factor equals the group size; a group size of 1 may be a default and is not checked."""
    if group not in (None, 1, parts) and UNBOUNDED not in sizes:
        fail(instruction, f"expected a factor of {group}, the group size, between {sizes[0]} and {sizes[1]}")


def _need_group_size(instruction: Instruction, group: int | None) -> int:
    """Returns the group size; fails if it is unknown."""
    if group is None or (group == 1 and not isinstance(instruction.shape, UnknownShape)):
        fail(instruction, "the number of devices is unknown, so the result shape must be given")
    return group


def _multiply(instruction: Instruction, position: int, along: int, factor: int) -> ArrayShape:
    """Returns an operand with one dimension multiplied."""
    shape = array(instruction, position)
    if along >= shape.rank:
        fail(instruction, f"expected a dimension {along}; {described(instruction, position)}")
    return _resize(shape, along, shape.dimensions[along] * factor)


def _divide(instruction: Instruction, position: int, along: int, parts: int) -> ArrayShape:
    """Returns an operand with one dimension divided."""
    shape = array(instruction, position)
    if along >= shape.rank or (shape.dimensions[along] != UNBOUNDED and shape.dimensions[along] % max(parts, 1)):
        fail(instruction, f"dimension {along} is not divisible by {parts}; {described(instruction, position)}")
    return _resize(shape, along, shape.dimensions[along] // max(parts, 1))


def _resize(shape: ArrayShape, along: int, size: int) -> ArrayShape:
    """Returns an array with a new size of one dimension; an unbounded size stays."""
    if shape.dimensions[along] == UNBOUNDED:
        return shape
    dimensions = (*shape.dimensions[:along], size, *shape.dimensions[along + 1 :])
    return ArrayShape(shape.element_type, dimensions, shape.dynamic_dimensions, shape.layout)


def _input_and_output(instruction: Instruction) -> tuple[Shape, Shape]:
    """Returns input and output of a collective-permute with slices; both offsets follow as operands."""
    shapes = operand_shapes(instruction)
    if len(shapes) != 4:
        fail(instruction, f"expected input, output, and offsets for both, found {counted(len(shapes), 'operands')}")
    lengths = [len(shape.elements) if isinstance(shape, TupleShape) else 0 for shape in shapes[:2]]
    if lengths[0] != lengths[1]:
        fail(instruction, f"expected two arrays or two tuples of the same length; {described(instruction, 0, 1)}")
    return shapes[0], shapes[1]
