"""Which shape results from moving, windowing, reducing, or indexing the elements of an array?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo_cli.analysis.shapes.computing import dense_operands
from hlo_cli.analysis.shapes.operands import (
    INTEGERS,
    PRED,
    S32,
    array,
    array_of,
    arrays,
    callee,
    declared_array,
    described,
    fail,
    need_at_least,
    need_dimensions,
    need_kind,
    need_same_type,
    need_scalar,
    one_or_tuple,
    only_dimension,
    operand_name,
    parameters_of,
    sizes_of,
    wider,
)
from hlo_cli.ir.attributes.value_types import (
    ConvolutionDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
    Slice,
    SliceDimension,
    Window,
    WindowDimension,
    convolution_dimension_numbers,
    gather_dimension_numbers,
    scatter_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout, PrimitiveType
from hlo_cli.ir.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Shape,
    TupleShape,
    UnknownShape,
    compatible,
    same_sizes,
    same_type_but_precision,
)
from hlo_cli.source import counted

# --- data movement ---
# Shape inference for data movement: transpose, broadcast, reshape, slice, pad, and similar opcodes.
#
# Mirrors `InferTransposeShape`, `InferBroadcastShape`, `InferSliceShape`, `InferPadShape`, `InferConcatOpShape`,
# `InferReverseShape`, and `InferReshapeShape` of xla/service/shape_inference.cc.


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
    # hlo_parser.cc builds a broadcast without shape by `CreateBroadcast` of sizes; the attribute means another thing
    # then.
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
    # An unbounded size can be anything, so the count says nothing.
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
    # InferSliceShape makes every slice static: the limits are numbers.
    return array_of(shape.element_type, dimensions, [size == UNBOUNDED for size in dimensions])


def pad(instruction: Instruction) -> ArrayShape:
    """Returns the operand with each dimension enlarged by low, high, and interior padding."""
    shape, padding = array(instruction, 0), instruction.value_of("padding", PaddingConfig)
    need_scalar(instruction, 1)
    need_same_type(instruction, 0, 1)
    parts = padding.dimensions if padding is not None else ()
    # A scalar may have `padding=0_0`, as an empty list cannot be written.
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
    # Between elements only, so none in an empty dimension; negative edges cut off.
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
            # The first known size wins, with what is known of it.
            if dimensions[d] == UNBOUNDED:
                dimensions[d], dynamic[d] = size, shape.dynamic_dimensions[d]
            else:
                dynamic[d] = dynamic[d] or (shape.dynamic_dimensions[d] and size != UNBOUNDED)
        else:
            is_open = UNBOUNDED in (dimensions[d], size)
            dimensions[d] = UNBOUNDED if is_open else dimensions[d] + size
            dynamic[d] = dynamic[d] or shape.dynamic_dimensions[d]


# --- reductions and other applied computations ---
# Shape inference for operations that apply a computation to scalars: reduce, map, sort, scan.
#
# Mirrors `VerifyReducerShape`, `InferReduceShape`, `InferMapShape`, and `InferScanShape` of
# xla/service/shape_inference.cc, and `HandleSort` of xla/service/hlo_verifier.cc.


def reduce(instruction: Instruction) -> Shape:
    """Returns the inputs without the reduced dimensions, of the types that the reducer returns.

    >>> from hlo_cli import parse_module
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[2,3] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[3] reduce(a, b), dimensions={0}, to_apply=add }'''
    >>> print(reduce(parse_module(text).entry.root))
    f32[3]{0}
    """
    shapes, inputs = arrays(instruction), _input_count(instruction)
    first = shapes[0]
    _need_same_sizes(instruction, range(inputs))
    reduced = instruction.integers("dimensions")
    need_dimensions(instruction, reduced, first.rank, "dimensions")
    kept = [d for d in range(first.rank) if d not in reduced]
    types, is_tuple = _reducer_types(instruction, shapes[:inputs], shapes[inputs:])
    dimensions, dynamic = [first.dimensions[d] for d in kept], [first.dynamic_dimensions[d] for d in kept]
    results = [array_of(element_type, dimensions, dynamic) for element_type in types]
    return TupleShape(tuple(results)) if is_tuple else results[0]


def map_shape(instruction: Instruction) -> ArrayShape:
    """Returns the operands with the type that the applied computation returns; scalar operands are broadcast.

    XLA reads the attribute `dimensions` only if the shape is not declared.
    """
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    _need_same_sizes(instruction, [position for position, shape in enumerate(shapes) if shape.rank])
    # InferMapShape lets scalars go along with arrays, as constants of the applied computation.
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
    _need_same_sizes(instruction, range(len(shapes)))
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


def _reducer_types(
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
        # Only accumulators have to match exactly: XLA lets inputs and initial values differ in precision.
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


def _input_count(instruction: Instruction) -> int:
    """Returns the number of inputs, each of which has an initial value."""
    count = len(instruction.operands)
    if count == 0 or count % 2:
        fail(instruction, f"expected one initial value per input, found {counted(count, 'operands')}")
    return count // 2


def _need_same_sizes(instruction: Instruction, positions: Sequence[int]) -> None:
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
    # Without inputs only the declared outputs know how long the scan is.
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
    # shape_inference.cc inserts the dimension where it displaces another, so that outputs are stacked as they come.
    order.insert(
        order.index(along + 1) + 1 if along + 1 in order else 0, along
    )  # next more major than the one it displaces
    return array_of(shape.element_type, dimensions, dynamic, Layout(tuple(order)))


def _fail_unlike_result(instruction: Instruction, noun: str, shape: Shape, result: Shape) -> None:
    """Fails because a shape differs from the result of the reducer."""
    shapes = sizes_of(shape), sizes_of(result)
    fail(instruction, f"{noun} is {shapes[0]}, but the applied computation returns {shapes[1]}")


# --- windows ---
# Shape inference for windowed operations: reduce-window, select-and-scatter, convolution.
#
# Mirrors `InferWindowOutputShape`, `InferReduceWindowShape`, `InferSelectAndScatterShape`, and `InferConvolveShape` of
# xla/service/shape_inference.cc.


def reduce_window(instruction: Instruction) -> Shape:
    """Returns the number of window positions in each dimension, with the types of the initial values.

    >>> from hlo_cli import parse_module
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[9] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[4] reduce-window(a, b), window={size=3 stride=2}, to_apply=add }'''
    >>> print(reduce_window(parse_module(text).entry.root))
    f32[4]{0}
    """
    shapes, inputs = arrays(instruction), _input_count(instruction)
    _need_same_sizes(instruction, range(inputs))
    _, is_tuple = _reducer_types(instruction, shapes[:inputs], shapes[inputs:])
    window = instruction.window or Window(())
    dimensions = _window_positions(instruction, shapes[0].dimensions, window.dimensions)
    dynamic = shapes[0].dynamic_dimensions
    # InferReduceWindowShape takes the types of the initial values, InferReduceShape those of the reducer: XLA's oddity.
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
    # Of the two called computations, select is the first and scatter the second.
    _reducer_types(instruction, (source,), (init,), 1)
    window = instruction.window or Window(())
    expected = _window_positions(instruction, operand.dimensions, window.dimensions)
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
    # InferConvolveShape does not support a kernel of so many features as the run has.
    if rhs.dynamic_dimensions[numbers.kernel_output_feature_dimension]:
        fail(instruction, f"expected a static number of output features; {described(instruction, 1)}")
    spatial = [lhs.dimensions[d] for d in numbers.input_spatial_dimensions]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    sizes = {
        numbers.output_batch_dimension: batch if batch == UNBOUNDED else batch // _group_count(instruction, "batch"),
        numbers.output_feature_dimension: rhs.dimensions[numbers.kernel_output_feature_dimension],
        **dict(zip(numbers.output_spatial_dimensions, _window_positions(instruction, spatial, window), strict=True)),
    }
    dynamic = dict.fromkeys(sizes, False)
    dynamic[numbers.output_batch_dimension] = lhs.dynamic_dimensions[numbers.input_batch_dimension]
    labels = (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions, numbers.output_spatial_dimensions)
    for of_input, of_kernel, of_output in zip(*labels, strict=True):
        # A dynamic extent on either side makes the number of positions dynamic.
        dynamic[of_output] = lhs.dynamic_dimensions[of_input] or rhs.dynamic_dimensions[of_kernel]
    element_type = wider(lhs.element_type, rhs.element_type)
    if not isinstance(instruction.shape, UnknownShape):
        element_type = declared_array(instruction).element_type
    return array_of(element_type, [sizes[d] for d in range(lhs.rank)], [dynamic[d] for d in range(lhs.rank)])


def _window_positions(
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


def _group_count(instruction: Instruction, noun: str) -> int:
    """Returns the number of feature or batch groups."""
    count = instruction.integer(f"{noun}_group_count")
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
    # The two group counts are of a forward and a backward convolution, which no convolution is at once.
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


# --- indexed access ---
# Shape inference for indexed access: dynamic slices, gather, and scatter.
#
# Mirrors `InferDynamicSliceShape`, `InferDynamicUpdateSliceShape`, `InferGatherShape`, and `InferScatterShape` of
# xla/service/shape_inference.cc.


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
    # A dynamic dimension stays dynamic only where the slice takes all of it.
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
    # Buffers of `b(…)` are updated in place as they are, and XLA tests no type there.
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
        # Size 0 is allowed as well: an empty slice collapses to an empty result.
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
    _need_same_sizes(instruction, range(inputs))
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
    _reducer_types(instruction, shapes[:inputs], scalars)
    return one_or_tuple(shapes[:inputs])


def _check_starts(instruction: Instruction, shape: ArrayShape, first: int) -> None:
    """Checks that start indices are integers of one type, as scalar operands or as one vector."""
    starts = [need_kind(instruction, position, INTEGERS) for position in range(first, len(instruction.operands))]
    # The form of older texts, with all starts in one vector.
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
    instruction: Instruction, shape: ArrayShape, sizes: Sequence[int], dimensions: Sequence[int], noun: str
) -> None:
    """Checks that sizes do not exceed the operand's dimensions."""
    for size, d in zip(sizes, dimensions, strict=True):
        if UNBOUNDED not in (size, shape.dimensions[d]) and not 0 <= size <= shape.dimensions[d]:
            found = f"expected at most {shape.dimensions[d]} in dimension {d} of {noun}, found {size}"
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
    # index_vector_dim equal to the rank means that each index is a scalar.
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


def _check_split(
    instruction: Instruction, shape: ArrayShape, slice_dimensions: Sequence[int], dropped: Sequence[int]
) -> None:
    """Checks that every operand dimension is either a slice dimension or a dropped one."""
    if len(slice_dimensions) + len(dropped) != shape.rank:
        parts = f"{len(slice_dimensions)} slice and {len(dropped)} dropped dimensions"
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


def _need_sorted(instruction: Instruction, dimensions: Sequence[int], rank: int, noun: str) -> None:
    """Checks that dimensions are valid and sorted."""
    need_dimensions(instruction, dimensions, rank, noun)
    if list(dimensions) != sorted(dimensions):
        fail(instruction, f"expected {noun} in ascending order, found {list(dimensions)}")
