"""Shape inference for operations that apply a computation to scalars: reduce, map, sort, scan.

Mirrors `VerifyReducerShape`, `InferReduceShape`, `InferMapShape`, and `InferScanShape` of
xla/service/shape_inference.cc, and `HandleSort` of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.shapes.operands import (
    PRED,
    array,
    array_of,
    arrays,
    callee,
    described,
    fail,
    need_at_least,
    need_dimensions,
    one_or_tuple,
    only_dimension,
    operand_name,
    parameters_of,
    sizes_of,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout, PrimitiveType
from hlo_cli.ir.shape import (
    ArrayShape,
    Shape,
    TupleShape,
    UnknownShape,
    compatible,
    same_sizes,
    same_type_but_precision,
)
from hlo_cli.source import counted


def reduce(instruction: Instruction) -> Shape:
    """Returns the inputs without the reduced dimensions, of the types that the reducer returns.

    >>> from hlo_cli import parse_module
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[2,3] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[3] reduce(a, b), dimensions={0}, to_apply=add }'''
    >>> print(reduce(parse_module(text).entry.root))
    f32[3]{0}
    """
    shapes, inputs = arrays(instruction), input_count(instruction)
    first = shapes[0]
    need_same_sizes(instruction, range(inputs))
    reduced = instruction.integers("dimensions")
    need_dimensions(instruction, reduced, first.rank, "dimensions")
    kept = [d for d in range(first.rank) if d not in reduced]
    types, is_tuple = reducer_types(instruction, shapes[:inputs], shapes[inputs:])
    dimensions, dynamic = [first.dimensions[d] for d in kept], [first.dynamic_dimensions[d] for d in kept]
    results = [array_of(element_type, dimensions, dynamic) for element_type in types]
    return TupleShape(tuple(results)) if is_tuple else results[0]


def map_shape(instruction: Instruction) -> ArrayShape:
    """Returns the operands with the type that the applied computation returns; scalar operands are broadcast.

    XLA reads the attribute `dimensions` only if the shape is not declared.
    """
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    need_same_sizes(instruction, [position for position, shape in enumerate(shapes) if shape.rank])
    first, mapped = max(shapes, key=lambda shape: shape.rank), instruction.integers("dimensions")
    if mapped != tuple(range(first.rank)) and isinstance(instruction.shape, UnknownShape):
        fail(instruction, f"expected all {first.rank} dimensions in order, found {len(mapped)} in dimensions")
    computation, result = callee(instruction)
    parameters = parameters_of(instruction, computation, len(shapes))
    for position, parameter in enumerate(parameters):
        if not compatible(parameter, array_of(shapes[position].element_type, ()), any_precision=True):
            name = f"parameter {position} of {computation.name} is {sizes_of(parameter)}"
            fail(instruction, f"expected a scalar of the operand's type; {name}, {described(instruction, position)}")
    if not isinstance(result, ArrayShape) or result.dimensions:
        fail(
            instruction,
            f"expected a scalar as the result of {computation.name}, found {sizes_of(result)}",
        )
    return array_of(result.element_type, first.dimensions, first.dynamic_dimensions)


def sort(instruction: Instruction) -> Shape:
    """Returns the operands; the comparator has two scalars of each as parameters."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    need_same_sizes(instruction, range(len(shapes)))
    along = instruction.integers("dimensions")
    if len(along) != 1 or along[0] >= 0:  # XLA rejects only dimensions that are too large
        only_dimension(instruction, shapes[0].rank)
    computation, result = callee(instruction)
    if not compatible(result, array_of(PRED, ())):
        fail(instruction, f"expected pred[] as the result of {computation.name}, found {sizes_of(result)}")
    for i, parameter in enumerate(parameters_of(instruction, computation, 2 * len(shapes))):
        if not compatible(parameter, array_of(shapes[i // 2].element_type, ())):
            name = f"parameter {i} of {computation.name} is {sizes_of(parameter)}"
            fail(instruction, f"expected a scalar of the operand's type; {name}, {described(instruction, i // 2)}")
    return one_or_tuple(shapes)


def reducer_types(
    instruction: Instruction, inputs: Sequence[ArrayShape], inits: Sequence[Shape], position: int = 0
) -> tuple[list[PrimitiveType], bool]:
    """Returns the element types of a reducer's results, and whether it returns a tuple.

    For N inputs, a reducer has the parameters: N accumulators, then N elements, and returns N results.
    """
    computation, result = callee(instruction, position)
    parameters = parameters_of(instruction, computation, 2 * len(inputs))
    results = result.elements if isinstance(result, TupleShape) else (result,)
    scalars = [shape for shape in results if isinstance(shape, ArrayShape) and not shape.dimensions]
    if len(results) != len(inputs) or len(scalars) != len(results):
        found = sizes_of(result)
        fail(instruction, f"expected {len(inputs)} scalars as the result of {computation.name}, found {found}")
    for i, scalar in enumerate(scalars):
        accumulator, element = parameters[i], parameters[len(inputs) + i]
        if not compatible(accumulator, scalar):
            _fail_unlike_result(instruction, f"parameter {i} of {computation.name}", accumulator, scalar)
        if not compatible(inits[i], scalar, any_precision=True):
            _fail_unlike_result(instruction, f"initial value {i}", inits[i], scalar)
        if not compatible(element, scalar, any_precision=True):
            _fail_unlike_result(instruction, f"parameter {len(inputs) + i} of {computation.name}", element, scalar)
        if not same_type_but_precision(inputs[i].element_type, scalar.element_type):
            _fail_unlike_result(
                instruction, f"each element of operand {i}", array_of(inputs[i].element_type, ()), scalar
            )
    return [scalar.element_type for scalar in scalars], isinstance(result, TupleShape)


def input_count(instruction: Instruction) -> int:
    """Returns the number of inputs, each of which has an initial value."""
    count = len(instruction.operands)
    if count == 0 or count % 2:
        fail(instruction, f"expected one initial value per input, found {counted(count, 'operands')}")
    return count // 2


def need_same_sizes(instruction: Instruction, positions: Sequence[int]) -> None:
    """Checks that the operands at `positions` have the same sizes."""
    for position in positions[1:]:
        if not same_sizes(array(instruction, position).dimensions, array(instruction, positions[0]).dimensions):
            fail(instruction, f"expected operands of the same sizes; {described(instruction, positions[0], position)}")


def scan(instruction: Instruction) -> Shape:
    """Returns the results of the applied computation: carries unchanged, outputs with the scanned dimension added."""
    carries = instruction.integer("num_carries") or 0
    computation, result = callee(instruction)
    operands = arrays(instruction)
    parameters = parameters_of(instruction, computation, len(operands))
    results = result.elements if isinstance(result, TupleShape) else (result,)
    inputs, outputs = len(operands) - carries, len(results) - carries
    if carries < 0 or inputs < 0 or outputs < 0:
        found = f"{counted(len(operands), 'operands')} and {counted(len(results), 'results')}"
        fail(instruction, f"expected {carries} carries among {found}")
    along = instruction.integers("dimensions")
    if len(along) != 1:
        fail(instruction, f"expected one number in dimensions, found {len(along)}")
    size = _scanned_size(instruction, operands[:inputs], parameters, along[0])
    for i in range(carries):
        carried = parameters[inputs + i], results[outputs + i], operands[inputs + i]
        if not compatible(carried[0], carried[1]) or not compatible(carried[0], carried[2]):
            name = operand_name(instruction, inputs + i)
            found = ", ".join(map(sizes_of, carried))
            fail(
                instruction,
                f"expected the same shape for carry {i} as parameter, result, and operand {name}, found {found}",
            )
    made = [_with_scanned_dimension(instruction, shape, along[0], size) for shape in results[:outputs]]
    shapes = (*made, *results[outputs:])
    return TupleShape(shapes) if isinstance(result, TupleShape) else shapes[0]


def _scanned_size(
    instruction: Instruction, inputs: Sequence[ArrayShape], parameters: Sequence[Shape], along: int
) -> int:
    """Returns the size of the scanned dimension, which parameters of the applied computation lack."""
    if not inputs:
        written = instruction.shape.elements[0] if isinstance(instruction.shape, TupleShape) else instruction.shape
        if not isinstance(written, ArrayShape) or not 0 <= along < written.rank:
            fail(instruction, "cannot determine the scan length: no input or result has the scan dimension")
        return written.dimensions[along]
    for position, shape in enumerate(inputs):
        need_dimensions(instruction, (along,), shape.rank, "dimensions")
        rest = shape.dimensions[:along] + shape.dimensions[along + 1 :]
        if not compatible(parameters[position], array_of(shape.element_type, rest)):
            found = sizes_of(parameters[position])
            expected = f"expected the operand without dimension {along} as parameter {position}, found {found}"
            fail(instruction, f"{expected}; {described(instruction, position)}")
        if shape.dimensions[along] != inputs[0].dimensions[along]:
            fail(
                instruction,
                f"expected inputs of the same size in dimension {along}; {described(instruction, 0, position)}",
            )
    return inputs[0].dimensions[along]


def _with_scanned_dimension(instruction: Instruction, shape: Shape, along: int, size: int) -> ArrayShape:
    """Returns an output with the scanned dimension added."""
    if not isinstance(shape, ArrayShape) or not 0 <= along <= shape.rank:
        fail(instruction, f"cannot insert dimension {along} into {sizes_of(shape)}")
    dimensions = (*shape.dimensions[:along], size, *shape.dimensions[along:])
    dynamic = (*shape.dynamic_dimensions[:along], False, *shape.dynamic_dimensions[along:])
    order = [d + (d >= along) for d in shape.layout.minor_to_major]
    order.insert(
        order.index(along + 1) + 1 if along + 1 in order else 0, along
    )  # next more major than the one it displaces
    return array_of(shape.element_type, dimensions, dynamic, Layout(tuple(order)))


def _fail_unlike_result(instruction: Instruction, what: str, found: Shape, result: Shape) -> None:
    """Fails because a shape differs from the result of the reducer."""
    shapes = sizes_of(found), sizes_of(result)
    fail(instruction, f"{what} is {shapes[0]}, but the applied computation returns {shapes[1]}")
