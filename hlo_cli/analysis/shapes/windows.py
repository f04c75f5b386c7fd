"""Shape inference for windowed operations: reduce-window, select-and-scatter, convolution.

Mirrors `InferWindowOutputShape`, `InferReduceWindowShape`, `InferSelectAndScatterShape`, and `InferConvolveShape` of
xla/service/shape_inference.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.shapes.dots import dense_operands
from hlo_cli.analysis.shapes.operands import (
    PRED,
    array_of,
    arrays,
    callee,
    declared_array,
    described,
    fail,
    need_at_least,
    parameters_of,
    sizes_of,
    wider,
)
from hlo_cli.analysis.shapes.reduction import input_count, need_same_sizes, reducer_types
from hlo_cli.ir.attributes.value_types import (
    ConvolutionDimensionNumbers,
    Window,
    WindowDimension,
    convolution_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape, TupleShape, UnknownShape, compatible, same_sizes
from hlo_cli.source import counted


def reduce_window(instruction: Instruction) -> Shape:
    """Returns the number of window positions in each dimension, with the types of the initial values.

    >>> from hlo_cli import parse_module
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[9] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[4] reduce-window(a, b), window={size=3 stride=2}, to_apply=add }'''
    >>> print(reduce_window(parse_module(text).entry.root))
    f32[4]{0}
    """
    shapes, inputs = arrays(instruction), input_count(instruction)
    need_same_sizes(instruction, range(inputs))
    _, is_tuple = reducer_types(instruction, shapes[:inputs], shapes[inputs:])
    window = instruction.window or Window(())
    dimensions = window_positions(instruction, shapes[0].dimensions, window.dimensions)
    dynamic = shapes[0].dynamic_dimensions
    results = tuple(array_of(init.element_type, dimensions, dynamic) for init in shapes[inputs:])
    return TupleShape(results) if is_tuple else results[0]


def select_and_scatter(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand; the source must have one element per window position."""
    operand, source, init = arrays(instruction)
    scalar = array_of(operand.element_type, ())
    computation, result = callee(instruction)
    if not compatible(result, array_of(PRED, ())):
        fail(instruction, f"expected pred[] as the result of {computation.name}, found {sizes_of(result)}")
    for i, parameter in enumerate(parameters_of(instruction, computation, 2)):
        if not compatible(parameter, scalar, any_precision=True):
            name = f"parameter {i} of {computation.name} is {sizes_of(parameter)}"
            fail(instruction, f"expected a scalar of the operand's type; {name}, {described(instruction, 0)}")
    reducer_types(instruction, (source,), (init,), 1)
    window = instruction.window or Window(())
    expected = window_positions(instruction, operand.dimensions, window.dimensions)
    if not same_sizes(source.dimensions, expected):
        sizes = ",".join(map(str, expected))
        fail(instruction, f"expected a source of shape [{sizes}], one value per window; {described(instruction, 1)}")
    return operand


def convolution(instruction: Instruction) -> ArrayShape:
    """Returns batch, features, and window positions, in the order of the output labels; the type may be declared.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[1,7,4] convolution(f32[1,9,2] a, f32[3,2,4] k), window={size=3}, dim_labels=b0f_0io->b0f"
    >>> print(convolution(parse_module(text).entry.root))
    f32[1,7,4]{2,1,0}
    """
    need_at_least(instruction, 2)
    lhs, rhs = dense_operands(instruction)
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None:
        fail(instruction, "expected dim_labels, such as b01f_01io->b01f")
    window = (instruction.window or Window(())).dimensions
    _check_labels(instruction, numbers, lhs, rhs, window)
    _check_groups(instruction, numbers, lhs, rhs)
    if rhs.dynamic_dimensions[numbers.kernel_output_feature_dimension]:
        fail(instruction, f"expected a static number of output features; {described(instruction, 1)}")
    spatial = [lhs.dimensions[d] for d in numbers.input_spatial_dimensions]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    sizes = {
        numbers.output_batch_dimension: batch if batch == UNBOUNDED else batch // _group_count(instruction, "batch"),
        numbers.output_feature_dimension: rhs.dimensions[numbers.kernel_output_feature_dimension],
        **dict(zip(numbers.output_spatial_dimensions, window_positions(instruction, spatial, window), strict=True)),
    }
    dynamic = dict.fromkeys(sizes, False)
    dynamic[numbers.output_batch_dimension] = lhs.dynamic_dimensions[numbers.input_batch_dimension]
    labels = (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions, numbers.output_spatial_dimensions)
    for of_input, of_kernel, of_output in zip(*labels, strict=True):
        dynamic[of_output] = lhs.dynamic_dimensions[of_input] or rhs.dynamic_dimensions[of_kernel]
    element_type = wider(lhs.element_type, rhs.element_type)
    if not isinstance(instruction.shape, UnknownShape):
        element_type = declared_array(instruction).element_type
    return array_of(element_type, [sizes[d] for d in range(lhs.rank)], [dynamic[d] for d in range(lhs.rank)])


def window_positions(
    instruction: Instruction, sizes: Sequence[int], window: Sequence[WindowDimension]
) -> tuple[int, ...]:
    """Returns the number of window positions in each dimension."""
    if len(window) != len(sizes):
        fail(instruction, f"expected a window of {counted(len(sizes), 'dimensions')}, found {len(window)}")
    for d, dimension in enumerate(window):
        strides = (dimension.size, dimension.stride, dimension.base_dilation, dimension.window_dilation)
        names = ("size", "stride", "lhs_dilate", "rhs_dilate")
        for name, number in zip(names, strides, strict=True):
            if number < 1:
                fail(instruction, f"expected a {name} of at least 1 in dimension {d} of the window, found {number}")
    return tuple(size if size == UNBOUNDED else w.positions(size) for size, w in zip(sizes, window, strict=True))


def _group_count(instruction: Instruction, what: str) -> int:
    """Returns the number of feature or batch groups."""
    count = instruction.integer(f"{what}_group_count")
    return 1 if count is None else count


def _check_labels(
    instruction: Instruction,
    numbers: ConvolutionDimensionNumbers,
    lhs: ArrayShape,
    rhs: ArrayShape,
    window: Sequence[WindowDimension],
) -> None:
    """Checks that every dimension has one label, and that the kernel has the size of the window."""
    spatial = len(numbers.input_spatial_dimensions)
    if lhs.rank != rhs.rank or lhs.rank != spatial + 2:
        ranks = f"expected operands of rank {spatial + 2} to match dim_labels={numbers}"
        fail(instruction, f"{ranks}; {described(instruction, 0, 1)}")
    inputs = (numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions)
    kernel = (
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
        *numbers.kernel_spatial_dimensions,
    )
    outputs = (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions)
    for labeled in (inputs, kernel, outputs):
        if sorted(labeled) != list(range(lhs.rank)):
            fail(instruction, f"expected one label for each of {lhs.rank} dimensions, found dim_labels={numbers}")
    sizes = tuple(rhs.dimensions[d] for d in numbers.kernel_spatial_dimensions)
    if not same_sizes(sizes, tuple(dimension.size for dimension in window)):
        found = "x".join(str(dimension.size) for dimension in window) or "nothing"
        fail(instruction, f"expected a window of the kernel's size, found {found}; {described(instruction, 1)}")


def _check_groups(
    instruction: Instruction, numbers: ConvolutionDimensionNumbers, lhs: ArrayShape, rhs: ArrayShape
) -> None:
    """Checks that group counts divide batches and features."""
    features, batches = _group_count(instruction, "feature"), _group_count(instruction, "batch")
    if features < 1 or batches < 1:
        fail(instruction, f"group counts must be at least 1, found {features} of features and {batches} of batches")
    if features > 1 and batches > 1:
        fail(
            instruction,
            f"only one of batch_group_count={batches} and feature_group_count={features} may be greater than 1",
        )
    batch = lhs.dimensions[numbers.input_batch_dimension]
    input_features = lhs.dimensions[numbers.input_feature_dimension]
    kernel_features = rhs.dimensions[numbers.kernel_input_feature_dimension]
    output_features = rhs.dimensions[numbers.kernel_output_feature_dimension]
    if input_features != UNBOUNDED and input_features % features:
        fail(instruction, f"{input_features} input features are not divisible by feature_group_count={features}")
    if UNBOUNDED not in (input_features, kernel_features) and input_features // features != kernel_features:
        fail(
            instruction, f"expected {input_features // features} input features in the kernel, found {kernel_features}"
        )
    if output_features != UNBOUNDED and output_features % features:
        fail(instruction, f"{output_features} output features are not divisible by feature_group_count={features}")
    if output_features != UNBOUNDED and output_features % batches:
        fail(instruction, f"{output_features} output features are not divisible by batch_group_count={batches}")
    if batch != UNBOUNDED and batch % batches:
        fail(instruction, f"batch size {batch} is not divisible by batch_group_count={batches}")
