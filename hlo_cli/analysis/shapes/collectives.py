"""Result shapes of collective operations, some of which depend on how many devices take part.

Mirrors `InferAllGatherShape`, `InferReduceScatterShape`, `InferAllToAllShape` and their like in
xla/service/shape_inference.cc, with the checks of xla/service/hlo_verifier.cc. `group` is how many devices take part
together, None where nobody knows.
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
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, UnknownShape
from hlo_cli.ir.shape_text import UNBOUNDED


def all_gather(instruction: Instruction, group: int | None) -> Shape:
    """The operands, each as many times as long in one dimension as devices take part.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}"
    >>> print(all_gather(parse_module(text).entry.root, 4))
    f32[8]{0}
    """
    return _gathered(instruction, instruction.shape, group)


def all_gather_start(instruction: Instruction, group: int | None) -> Shape:
    """What is gathered, and the result of gathering it."""
    shape = declared_tuple(instruction, 2)[1]
    return TupleShape((one_or_tuple(operand_shapes(instruction)), _gathered(instruction, shape, group)))


def reduce_scatter(instruction: Instruction, group: int | None) -> Shape:
    """The operands, each as many times shorter in one dimension as devices take part."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    along = only_dimension(instruction, shapes[0].rank)
    size, result = shapes[0].dimensions[along], _first_array(instruction.shape)
    if result is not None and result.rank == shapes[0].rank and result.dimensions[along] > 0:
        parts, rest = divmod(size, result.dimensions[along])
        if rest and UNBOUNDED not in (size, result.dimensions[along]):
            written = f"{size} does not divide into parts of {result.dimensions[along]}"
            fail(instruction, f"{written} in dimension {along}; {described(instruction, 0)}")
        _check_parts(instruction, parts, group, (size, result.dimensions[along]))
    else:
        parts = _known(instruction, group)
    return one_or_tuple([_divided(instruction, position, along, parts) for position in range(len(shapes))])


def all_to_all(instruction: Instruction, group: int | None) -> Shape:
    """The operand, cut and put together along one dimension; or a tuple of one array for every device."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    if instruction.integers("dimensions"):
        along = only_dimension(instruction, shapes[0].rank)
        if len(shapes) > 1:
            fail(instruction, f"expected one operand where dimensions are given, found {len(shapes)}")
        size = shapes[0].dimensions[along]
        if group and size != UNBOUNDED and size % group:
            fail(instruction, f"dimension {along} does not divide into {group} parts; {described(instruction, 0)}")
        return shapes[0]
    # one device without groups is what a text says that leaves out how many there are
    if group is not None and len(shapes) != group and (group > 1 or lists_groups(instruction)):
        fail(instruction, f"expected an operand for each of {group} devices, found {len(shapes)}")
    for position, shape in enumerate(shapes):
        same_layout = shape.layout.minor_to_major == shapes[0].layout.minor_to_major
        if not compatible(shape, shapes[0]) or not same_layout:
            names = described(instruction, 0, position)
            fail(instruction, f"expected operands of one shape and layout; {names}")
    return TupleShape(tuple(shapes))


def each_operand(instruction: Instruction) -> Shape:
    """The operand, or all of them as a tuple: all-reduce, whether it is asynchronous or not."""
    need_at_least(instruction, 1)
    return one_or_tuple(arrays(instruction))


def collective_broadcast(instruction: Instruction) -> Shape:
    """Operand 0; where the last operand says which device sends, all the others."""
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
    """The operands; of an exchange in place, operand 1, into which is written."""
    need_at_least(instruction, 1)
    if not instruction.integer_lists("slice_sizes"):
        return one_or_tuple(arrays(instruction))
    return _in_place(instruction)[1]


def collective_permute_start(instruction: Instruction) -> TupleShape:
    """What is sent, what is received, and the written contexts."""
    contexts = declared_tuple(instruction, 2)[2:]
    if instruction.integer_lists("slice_sizes"):
        return TupleShape((*_in_place(instruction), *contexts))
    need_at_least(instruction, 1)
    shape = one_or_tuple(arrays(instruction))
    return TupleShape((shape, shape, *contexts))


def second_of_operand(instruction: Instruction) -> Shape:
    """The result, element 1 of what the start of an asynchronous operation gives."""
    shape = instruction.operand_shape(0)
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        fail(
            instruction,
            f"expected what {instruction.written_opcode.removesuffix('done')}start gives; {described(instruction, 0)}",
        )
    return shape.elements[1]


def ragged_all_to_all(instruction: Instruction) -> ArrayShape:
    """Operand 1, into which is written; four more say how much goes where."""
    result, rows = array(instruction, 1), array(instruction, 2)
    for position in range(2, 6):
        shape = array(instruction, position)
        if shape.rank not in (1, 2):
            fail(instruction, f"expected rank 1 or 2 of operand {position}; {described(instruction, position)}")
        if not compatible(shape, rows):
            fail(instruction, f"expected operands 2 to 5 of one shape; {described(instruction, 2, position)}")
    return result


def _gathered(instruction: Instruction, written: Shape, group: int | None) -> Shape:
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    along = only_dimension(instruction, shapes[0].rank)
    size, result = shapes[0].dimensions[along], _first_array(written)
    if result is not None and result.rank == shapes[0].rank and size > 0 and result.dimensions[along] > 0:
        parts = -(-result.dimensions[along] // size)
        _check_parts(instruction, parts, group, (size, result.dimensions[along]))
    else:
        parts = 1 if UNBOUNDED in shapes[0].dimensions else _known(instruction, group)
    return one_or_tuple([_multiplied(instruction, position, along, parts) for position in range(len(shapes))])


def _first_array(shape: Shape) -> ArrayShape | None:
    first = shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape
    return first if isinstance(first, ArrayShape) else None


def _check_parts(instruction: Instruction, parts: int, group: int | None, sizes: tuple[int, int]) -> None:
    """As many parts as devices take part, which a group of one does not say."""
    if group not in (None, 1, parts) and UNBOUNDED not in sizes:
        fail(instruction, f"expected a factor of {group}, the size of its groups, between {sizes[0]} and {sizes[1]}")


def _known(instruction: Instruction, group: int | None) -> int:
    if group is None or (group == 1 and not isinstance(instruction.shape, UnknownShape)):
        fail(instruction, "nothing says how many devices take part; the result shape must be written")
    return group


def _multiplied(instruction: Instruction, position: int, along: int, factor: int) -> ArrayShape:
    shape = array(instruction, position)
    if along >= shape.rank:
        fail(instruction, f"expected a dimension {along}; {described(instruction, position)}")
    return _resized(shape, along, shape.dimensions[along] * factor)


def _divided(instruction: Instruction, position: int, along: int, parts: int) -> ArrayShape:
    shape = array(instruction, position)
    if along >= shape.rank or (shape.dimensions[along] != UNBOUNDED and shape.dimensions[along] % max(parts, 1)):
        fail(instruction, f"dimension {along} does not divide into {parts} parts; {described(instruction, position)}")
    return _resized(shape, along, shape.dimensions[along] // max(parts, 1))


def _resized(shape: ArrayShape, along: int, size: int) -> ArrayShape:
    if shape.dimensions[along] == UNBOUNDED:
        return shape
    dimensions = (*shape.dimensions[:along], size, *shape.dimensions[along + 1 :])
    return ArrayShape(shape.element_type, dimensions, shape.dynamic_dimensions, shape.layout)


def _in_place(instruction: Instruction) -> tuple[Shape, Shape]:
    """What is read and what is written by an exchange in place, behind which stand the offsets into both."""
    shapes = operand_shapes(instruction)
    if len(shapes) != 4:
        fail(instruction, f"expected input, output and the offsets into both, found {len(shapes)} operands")
    lengths = [len(shape.elements) if isinstance(shape, TupleShape) else 0 for shape in shapes[:2]]
    if lengths[0] != lengths[1]:
        fail(instruction, f"expected two arrays, or tuples of one length; {described(instruction, 0, 1)}")
    return shapes[0], shapes[1]
