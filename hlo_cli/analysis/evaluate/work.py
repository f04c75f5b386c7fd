"""What the kernel of one instruction takes: scalar operations, seconds at least, and bytes besides its result.

XLA has no counterpart. Times are those of fast kernels on a fast machine, so that nothing is refused wrongly.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.cost.cost_analysis import element_count, evaluations
from hlo_cli.analysis.semantics.custom_calls import target_of_call
from hlo_cli.analysis.semantics.lapack_calls import LAPACK_CALLS
from hlo_cli.analysis.semantics.library_calls import LIBRARY_CALLS
from hlo_cli.analysis.semantics.reducers import plain_reducer
from hlo_cli.analysis.semantics.sort_keys import sort_keys
from hlo_cli.analysis.semantics.tpu_factorizations import TPU_FACTORIZATIONS
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import WindowDimension, convolution_dimension_numbers
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import APPLIERS, ELEMENTWISE, TRANSCENDENTAL
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

FREE: Final = frozenset(
    (
        *(opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST),
        *(opcodes.BROADCAST, opcodes.TRANSPOSE, opcodes.COPY),
    )
)
"""Opcodes without work: their results are views."""
NANOSECONDS: Final = 0.4
"""For one scalar operation of an opcode that is not listed."""
_NANOSECONDS: Final[dict[str, float]] = {
    opcodes.DOT: 0.02,
    opcodes.CONVOLUTION: 0.02,
    opcodes.FFT: 6.0,
    opcodes.CHOLESKY: 0.04,
    opcodes.TRIANGULAR_SOLVE: 0.04,
    opcodes.RNG_BIT_GENERATOR: 8.0,
    **dict.fromkeys(TRANSCENDENTAL, 1.5),
    opcodes.GATHER: 2.0,
    opcodes.SCATTER: 20.0,
    opcodes.SORT: 1.0,
    opcodes.SELECT_AND_SCATTER: 2.0,
}
_ROUNDING_NANOSECONDS: Final = 1.0
"""To round a float to a type that numpy does not have."""
_TAP_SECONDS: Final = 1e-5
"""For each element of a window: some calls of numpy, even if the arrays are small."""
_REACH_SECONDS: Final = 2e-9
_ROW_SECONDS: Final = 2e-6
"""For each row that is computed after the one before it."""
_WIDE: Final = 8
"""Bytes of an element while sums are made."""
_NARROW: Final = 4
_OF_MATRICES: Final = frozenset((*LAPACK_CALLS, *LIBRARY_CALLS, *TPU_FACTORIZATIONS))
"""Custom calls with a row of operations for each element."""
_COUNTED: Final = 10_000
"""The longest dimension of a convolution whose products are counted, which takes time; of others they are bounded."""
_SPECIAL: Final = APPLIERS | {
    *(opcodes.DOT, opcodes.CONVOLUTION, opcodes.GATHER, opcodes.FFT, opcodes.CHOLESKY, opcodes.TRIANGULAR_SOLVE),
    *(opcodes.RNG, opcodes.RNG_BIT_GENERATOR, opcodes.CUSTOM_CALL),
}
"""Opcodes whose work is not that of their elements."""


class Work(NamedTuple):
    """What a kernel takes; `scratch` are bytes besides those of the operands and of the result."""

    operations: int
    seconds: float
    scratch: int


_NONE: Final = Work(0, 0.0, 0)


def work_of(instruction: Instruction, callee_operations: int = 1, callee_bytes: int = 0) -> Work:
    """The work of an instruction without what it calls, but with its applications of a computation of scalars.

    That computation takes `callee_operations` and `callee_bytes` for each of them.

    >>> from hlo_cli import parse_module
    >>> work_of(parse_module("r = f32[1000] add(f32[1000] a, f32[1000] b)").entry.root).operations
    1000
    """
    opcode = instruction.opcode
    if opcode in FREE:
        return _NONE
    if opcode == opcodes.DYNAMIC_UPDATE_SLICE:  # in place where that matters, in loops
        operations = _elements(instruction.operand_shape(1))
        return Work(operations, operations * NANOSECONDS * 1e-9, 0)
    if opcode not in _SPECIAL and not instruction.called_computations:
        operations = evaluations(instruction) or 0
        rounding = _rounding_bytes(instruction)
        each = _NANOSECONDS.get(opcode, NANOSECONDS) + (_ROUNDING_NANOSECONDS if rounding else 0.0)
        return Work(operations, operations * each * 1e-9, rounding)
    is_scalar_caller = opcode in APPLIERS
    if instruction.called_computations and not is_scalar_caller:
        return _NONE
    is_long = opcode == opcodes.CONVOLUTION and max(_dimensions(instruction.shape), default=0) > _COUNTED
    operations = 0 if is_long else evaluations(instruction) or 0
    given = [instruction.operand_shape(at) for at in range(len(instruction.operands))]
    inputs = [_elements(shape) for shape in given]
    seconds = 0.0
    scratch = _scratch(instruction, given, inputs)
    if opcode == opcodes.REDUCE_WINDOW:
        operations = min(operations, _doublings(instruction) * _padded(instruction, given))
        seconds = _doublings(instruction) * _TAP_SECONDS
    if is_scalar_caller:
        operations *= max(1, callee_operations)
        if not _is_plain(instruction):
            scratch += max(inputs, default=0) * callee_bytes
    match opcode:
        case opcodes.SORT:
            length = _size(given[0], instruction.integers("dimensions"))
            levels = max(1, length.bit_length())
            operations *= levels if _is_plain(instruction) else levels * levels
        case opcodes.FFT:
            operations *= max(1, max(instruction.integers("fft_length"), default=1).bit_length())
        case opcodes.SELECT_AND_SCATTER | opcodes.CONVOLUTION:
            taps = _taps(instruction)
            if opcode == opcodes.CONVOLUTION:
                operations = _products(instruction, given, taps) if is_long else operations
                seconds = _reach_seconds(instruction)
                taps = min(taps, _elements(instruction.shape))
            operations = max(operations, taps)
            seconds += taps * _TAP_SECONDS
        case opcodes.CHOLESKY | opcodes.TRIANGULAR_SOLVE:
            rows = _size(given[0], (-1,))
            operations = rows * max(inputs)
            seconds = rows * _ROW_SECONDS if opcode == opcodes.TRIANGULAR_SOLVE else 0.0
        case opcodes.CUSTOM_CALL if target_of_call(instruction) in _OF_MATRICES:
            operations *= max((max(_dimensions(shape), default=1) for shape in given), default=1)
    return Work(operations, seconds + operations * _NANOSECONDS.get(opcode, NANOSECONDS) * 1e-9, scratch)


def callee_of(instruction: Instruction) -> Computation | None:
    """The computation of scalars that an instruction applies to elements; None for all others."""
    called = instruction.called_computations
    return called[-1] if instruction.opcode in APPLIERS and called else None


def _is_plain(instruction: Instruction) -> bool:
    """Whether one function of numpy does what the computation of scalars does."""
    callee = callee_of(instruction)
    if callee is None:
        return False
    if instruction.opcode == opcodes.SORT:
        return sort_keys(callee) is not None
    return instruction.opcode in (opcodes.REDUCE, opcodes.REDUCE_WINDOW) and plain_reducer(callee) is not None


def _scratch(instruction: Instruction, given: list[Shape], inputs: list[int]) -> int:
    """Bytes that a kernel allocates besides its result."""
    opcode = instruction.opcode
    result = _elements(instruction.shape)
    match opcode:
        case opcodes.DOT | opcodes.CONVOLUTION:
            return _WIDE * (sum(inputs) + result)
        case opcodes.REDUCE:
            return _WIDE * inputs[0] if inputs else 0
        case opcodes.REDUCE_WINDOW if _is_plain(instruction):
            window = instruction.window
            is_in_blocks = window is not None and window.dimensions[:1] == (WindowDimension(1),)
            spread = 0 if is_in_blocks else 2 * _padded(instruction, given)
            return _WIDE * (inputs[0] + result + spread)
        case opcodes.REDUCE_WINDOW:
            return (_NARROW + 1) * 2 * len(given) // 2 * _padded(instruction, given) + _WIDE * result
        case opcodes.SELECT_AND_SCATTER:
            return (_WIDE + _NARROW + 1) * _padded(instruction, given) + 3 * _WIDE * result
        case opcodes.SORT:
            return _WIDE * max(inputs, default=0) * (2 if _is_plain(instruction) else 8)
        case opcodes.SCATTER:
            return _WIDE * 4 * inputs[-1] if inputs else 0
        case opcodes.GATHER:
            return _WIDE * len(_dimensions(given[0])) * inputs[1] if len(inputs) > 1 else 0
        case opcodes.FFT:
            return 4 * _WIDE * max(*inputs, result)
        case opcodes.CHOLESKY | opcodes.TRIANGULAR_SOLVE:
            return 3 * _WIDE * max(inputs, default=0)
        case opcodes.RNG_BIT_GENERATOR | opcodes.RNG:
            return 4 * _WIDE * result
    return 0


def _rounding_bytes(instruction: Instruction) -> int:
    """Bytes to round the floats of an elementwise operation to a type that numpy does not have."""
    shape = instruction.shape
    if not isinstance(shape, ArrayShape) or shape.element_type.bits >= 32 or instruction.opcode not in ELEMENTWISE:
        return 0
    if shape.element_type.kind != "float":
        return 0
    return shape.elements * _WIDE * (1 if shape.element_type.bits == 16 else 3)


def _padded(instruction: Instruction, given: list[Shape]) -> int:
    """The elements of an operand with padding and holes."""
    window = instruction.window
    if window is None or not given:
        return 0
    return prod(
        max(0, (max(size, 1) - 1) * each.base_dilation + 1 + each.padding_low + each.padding_high)
        for size, each in zip(_dimensions(given[0]), window.dimensions, strict=False)
    )


def _doublings(instruction: Instruction) -> int:
    """The steps in which windows of 1, 2, 4 … elements are combined, of all dimensions."""
    window = instruction.window
    return max(1, sum(2 * (each.size - 1).bit_length() for each in window.dimensions) if window is not None else 1)


def _reach_seconds(instruction: Instruction) -> float:
    """Seconds to find which positions of a window's elements meet the input, in each dimension."""
    window = instruction.window
    longest = max(_dimensions(instruction.shape), default=0)
    return 0.0 if window is None else sum(each.size for each in window.dimensions) * longest * _REACH_SECONDS


def _products(instruction: Instruction, given: list[Shape], taps: int) -> int:
    """The most products of a convolution: by its result and by its input, of which holes and padding are no part."""
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None or len(given) < 2:
        return 0
    kernel = _dimensions(given[1])
    places = numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension
    if max(places) >= len(kernel):
        return 0
    inputs, outputs = (kernel[at] for at in places)
    groups = max(1, instruction.integer("feature_group_count") or 1, instruction.integer("batch_group_count") or 1)
    return taps * min(_elements(instruction.shape) * inputs, _elements(given[0]) * max(1, outputs // groups))


def _taps(instruction: Instruction) -> int:
    window = instruction.window
    return 1 if window is None else prod(each.size for each in window.dimensions)


def _dimensions(shape: Shape) -> tuple[int, ...]:
    shape = shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape
    return shape.dimensions if isinstance(shape, ArrayShape) else ()


def _size(shape: Shape, dimensions: tuple[int, ...]) -> int:
    sizes = _dimensions(shape)
    return max((sizes[at] for at in dimensions if -len(sizes) <= at < len(sizes)), default=1)


def _elements(shape: Shape) -> int:
    return element_count(shape) or 0
