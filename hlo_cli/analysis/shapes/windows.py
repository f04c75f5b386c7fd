"""Result shapes of what moves a window: reduce-window, select-and-scatter, convolution.

Mirrors `InferWindowOutputShape`, `InferReduceWindowShape`, `InferSelectAndScatterShape` and `InferConvolveShape` of
xla/service/shape_inference.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.shapes.operands import (
    PRED,
    array,
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
from hlo_cli.analysis.shapes.reduction import halves, need_same_sizes, reducer_types
from hlo_cli.ir.attributes.dimension_numbers import ConvolutionDimensionNumbers, convolution_dimension_numbers
from hlo_cli.ir.attributes.window import Window, WindowDimension
from hlo_cli.ir.comparison import compatible, same_sizes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, UnknownShape
from hlo_cli.ir.shape_text import UNBOUNDED


def reduce_window(instruction: Instruction) -> Shape:
    """In each dimension as many elements as the window has places, of the initial values' types.

    >>> from hlo_cli import parse_module
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[9] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[4] reduce-window(a, b), window={size=3 stride=2}, to_apply=add }'''
    >>> print(reduce_window(parse_module(text).entry.root))
    f32[4]{0}
    """
    shapes, inputs = arrays(instruction), halves(instruction)
    need_same_sizes(instruction, range(inputs))
    _, is_tuple = reducer_types(instruction, shapes[:inputs], shapes[inputs:])
    window = instruction.window or Window(())
    dimensions = windowed(instruction, shapes[0].dimensions, window.dimensions)
    dynamic = shapes[0].dynamic_dimensions
    results = tuple(array_of(init.element_type, dimensions, dynamic) for init in shapes[inputs:])
    return TupleShape(results) if is_tuple else results[0]


def select_and_scatter(instruction: Instruction) -> ArrayShape:
    """The operand's shape; the source has an element for every place of the window."""
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
    expected = windowed(instruction, operand.dimensions, window.dimensions)
    if not same_sizes(source.dimensions, expected):
        sizes = ",".join(map(str, expected))
        fail(instruction, f"expected a source of the window's places, [{sizes}]; {described(instruction, 1)}")
    return operand


def convolution(instruction: Instruction) -> ArrayShape:
    """Batch and features as the labels place them, and as many places as the window has; the type may be written.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[1,7,4] convolution(f32[1,9,2] a, f32[3,2,4] k), window={size=3}, dim_labels=b0f_0io->b0f"
    >>> print(convolution(parse_module(text).entry.root))
    f32[1,7,4]{2,1,0}
    """
    need_at_least(instruction, 2)
    lhs, rhs = array(instruction, 0), array(instruction, 1)
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None:
        fail(instruction, "expected labels of the dimensions in dim_labels, as b01f_01io->b01f")
    window = (instruction.window or Window(())).dimensions
    _check_labels(instruction, numbers, lhs, rhs, window)
    _check_groups(instruction, numbers, lhs, rhs)
    if rhs.dynamic_dimensions[numbers.kernel_output_feature_dimension]:
        fail(instruction, f"expected a static number of output features; {described(instruction, 1)}")
    spatial = [lhs.dimensions[d] for d in numbers.input_spatial_dimensions]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    sizes = {
        numbers.output_batch_dimension: batch if batch == UNBOUNDED else batch // _count(instruction, "batch"),
        numbers.output_feature_dimension: rhs.dimensions[numbers.kernel_output_feature_dimension],
        **dict(zip(numbers.output_spatial_dimensions, windowed(instruction, spatial, window), strict=True)),
    }
    dynamic = dict.fromkeys(sizes, False)
    dynamic[numbers.output_batch_dimension] = lhs.dynamic_dimensions[numbers.input_batch_dimension]
    places = (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions, numbers.output_spatial_dimensions)
    for given, taken, made in zip(*places, strict=True):
        dynamic[made] = lhs.dynamic_dimensions[given] or rhs.dynamic_dimensions[taken]
    element_type = wider(lhs.element_type, rhs.element_type)
    if not isinstance(instruction.shape, UnknownShape):
        element_type = declared_array(instruction).element_type
    return array_of(element_type, [sizes[d] for d in range(lhs.rank)], [dynamic[d] for d in range(lhs.rank)])


def windowed(instruction: Instruction, sizes: Sequence[int], window: Sequence[WindowDimension]) -> tuple[int, ...]:
    """In how many places a window fits along each dimension."""
    if len(window) != len(sizes):
        fail(instruction, f"expected a window of {len(sizes)} dimensions, found {len(window)}")
    for d, dimension in enumerate(window):
        strides = (dimension.size, dimension.stride, dimension.base_dilation, dimension.window_dilation)
        names = ("size", "stride", "lhs_dilate", "rhs_dilate")
        for name, number in zip(names, strides, strict=True):
            if number < 1:
                fail(instruction, f"expected a {name} of at least 1 in dimension {d} of the window, found {number}")
    return tuple(size if size == UNBOUNDED else w.positions(size) for size, w in zip(sizes, window, strict=True))


def _count(instruction: Instruction, what: str) -> int:
    """The number of groups that batches or features are divided into."""
    count = instruction.integer(f"{what}_group_count")
    return 1 if count is None else count


def _check_labels(
    instruction: Instruction,
    numbers: ConvolutionDimensionNumbers,
    lhs: ArrayShape,
    rhs: ArrayShape,
    window: Sequence[WindowDimension],
) -> None:
    """Every dimension must have one label, and the kernel must be as large as the window."""
    spatial = len(numbers.input_spatial_dimensions)
    if lhs.rank != rhs.rank or lhs.rank != spatial + 2:
        ranks = f"expected operands of {spatial + 2} dimensions, as dim_labels={numbers} says"
        fail(instruction, f"{ranks}; {described(instruction, 0, 1)}")
    inputs = (numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions)
    kernel = (
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
        *numbers.kernel_spatial_dimensions,
    )
    outputs = (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions)
    for labelled in (inputs, kernel, outputs):
        if sorted(labelled) != list(range(lhs.rank)):
            fail(instruction, f"expected a label for each of {lhs.rank} dimensions, found dim_labels={numbers}")
    sizes = tuple(rhs.dimensions[d] for d in numbers.kernel_spatial_dimensions)
    if not same_sizes(sizes, tuple(dimension.size for dimension in window)):
        found = "x".join(str(dimension.size) for dimension in window) or "nothing"
        fail(instruction, f"expected a window of the kernel's size, found {found}; {described(instruction, 1)}")


def _check_groups(
    instruction: Instruction, numbers: ConvolutionDimensionNumbers, lhs: ArrayShape, rhs: ArrayShape
) -> None:
    """Groups must divide batches and features without a rest."""
    features, batches = _count(instruction, "feature"), _count(instruction, "batch")
    if features < 1 or batches < 1:
        fail(instruction, f"expected group counts of at least 1, found {features} of features and {batches} of batches")
    if features > 1 and batches > 1:
        fail(instruction, f"only one of batch_group_count={batches} and feature_group_count={features} may be above 1")
    batch = lhs.dimensions[numbers.input_batch_dimension]
    given = lhs.dimensions[numbers.input_feature_dimension]
    taken = rhs.dimensions[numbers.kernel_input_feature_dimension]
    made = rhs.dimensions[numbers.kernel_output_feature_dimension]
    if given != UNBOUNDED and given % features:
        fail(instruction, f"{given} features of the input do not divide into feature_group_count={features}")
    if UNBOUNDED not in (given, taken) and given // features != taken:
        fail(instruction, f"expected {given // features} input features in the kernel, found {taken}")
    if made != UNBOUNDED and made % features:
        fail(instruction, f"{made} features of the kernel do not divide into feature_group_count={features}")
    if made != UNBOUNDED and made % batches:
        fail(instruction, f"{made} features of the kernel do not divide into batch_group_count={batches}")
    if batch != UNBOUNDED and batch % batches:
        fail(instruction, f"a batch of {batch} does not divide into batch_group_count={batches}")
