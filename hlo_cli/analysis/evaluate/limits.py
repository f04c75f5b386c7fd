"""What a run would take, and when it ends too early: work of kernels, bytes, operations, iterations, and time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import element_count, evaluations
from hlo_cli.analysis.dataflow.dependencies import depth_first
from hlo_cli.analysis.dataflow.executions import executions_of, loop_runs
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.linear_algebra import LAPACK_CALLS, TPU_FACTORIZATIONS
from hlo_cli.analysis.semantics.products import LIBRARY_CALLS
from hlo_cli.analysis.semantics.rearranging import keeps_order, sort_keys
from hlo_cli.analysis.semantics.rules import target_of_call
from hlo_cli.analysis.semantics.scatter_and_reduce import plain_reducer
from hlo_cli.analysis.semantics.typed_values import Floats, carrier
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import WindowDimension, convolution_dimension_numbers
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import APPLIERS, ASYNC_CONTINUATIONS, ELEMENTWISE, TRANSCENDENTAL
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError

# --- work of one kernel ---
# What the kernel of one instruction takes: scalar operations, seconds at least, and bytes besides its result.
#
# XLA has no counterpart. Times are those of fast kernels on a fast machine, so that nothing is refused wrongly.


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
# for each pair of a position and an element of a window; a fast machine, as all times here
_REACH_SECONDS: Final = 2e-9
_ROW_SECONDS: Final = 2e-6
"""For each row that is computed after the one before it."""
_WIDE: Final = 8
"""Bytes of an element while sums are made."""
_NARROW: Final = 4  # bytes of an element outside of sums: f32
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


_NO_WORK: Final = Work(0, 0.0, 0)


def work_of(instruction: Instruction, callee_operations: int = 1, callee_bytes: int = 0) -> Work:
    """The work of an instruction without what it calls, but with its applications of a computation of scalars.

    That computation takes `callee_operations` and `callee_bytes` for each of them.

    >>> from hlo_cli import parse_module
    >>> work_of(parse_module("r = f32[1000] add(f32[1000] a, f32[1000] b)").entry.root).operations
    1000
    """
    opcode = instruction.opcode
    if opcode in FREE:
        return _NO_WORK
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
        return _NO_WORK
    is_long = opcode == opcodes.CONVOLUTION and max(_dimensions(instruction.shape), default=0) > _COUNTED
    operations = 0 if is_long else evaluations(instruction) or 0
    operand_shapes = [instruction.operand_shape(at) for at in range(len(instruction.operands))]
    inputs = [_elements(shape) for shape in operand_shapes]
    seconds = 0.0
    scratch = _scratch(instruction, operand_shapes, inputs)
    if opcode == opcodes.REDUCE_WINDOW:
        # Windows are combined by doubling, 1, 2, 4 …, so a long window takes the logarithm of its length.
        operations = min(operations, _doublings(instruction) * _padded(instruction, operand_shapes))
        seconds = _doublings(instruction) * _TAP_SECONDS
    if is_scalar_caller:
        operations *= max(1, callee_operations)
        if not _is_plain(instruction):
            scratch += max(inputs, default=0) * callee_bytes
    match opcode:
        case opcodes.SORT:
            length = _size(operand_shapes[0], instruction.integers("dimensions"))
            # numpy sorts by key in n log n; a comparator of its own runs as a sorting network, in n log² n.
            levels = max(1, length.bit_length())
            operations *= levels if _is_plain(instruction) else levels * levels
        case opcodes.FFT:
            operations *= max(1, max(instruction.integers("fft_length"), default=1).bit_length())
        case opcodes.SELECT_AND_SCATTER | opcodes.CONVOLUTION:
            taps = _taps(instruction)
            if opcode == opcodes.CONVOLUTION:
                operations = _products(instruction, operand_shapes, taps) if is_long else operations
                seconds = _reach_seconds(instruction)
                taps = min(taps, _elements(instruction.shape))
            operations = max(operations, taps)
            seconds += taps * _TAP_SECONDS
        case opcodes.CHOLESKY | opcodes.TRIANGULAR_SOLVE:
            rows = _size(operand_shapes[0], (-1,))
            operations = rows * max(inputs)
            seconds = rows * _ROW_SECONDS if opcode == opcodes.TRIANGULAR_SOLVE else 0.0
        case opcodes.CUSTOM_CALL if target_of_call(instruction) in _OF_MATRICES:
            operations *= max((max(_dimensions(shape), default=1) for shape in operand_shapes), default=1)
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


def _scratch(instruction: Instruction, operand_shapes: list[Shape], inputs: list[int]) -> int:
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
            spread = 0 if is_in_blocks else 2 * _padded(instruction, operand_shapes)
            return _WIDE * (inputs[0] + result + spread)
        case opcodes.REDUCE_WINDOW:
            # Both halves of a pairwise combination are kept: values and their flags.
            return (_NARROW + 1) * 2 * len(operand_shapes) // 2 * _padded(instruction, operand_shapes) + _WIDE * result
        case opcodes.SELECT_AND_SCATTER:
            return (_WIDE + _NARROW + 1) * _padded(instruction, operand_shapes) + 3 * _WIDE * result
        case opcodes.SORT:
            return _WIDE * max(inputs, default=0) * (2 if _is_plain(instruction) else 8)
        case opcodes.SCATTER:
            return _WIDE * 4 * inputs[-1] if inputs else 0
        case opcodes.GATHER:
            return _WIDE * len(_dimensions(operand_shapes[0])) * inputs[1] if len(inputs) > 1 else 0
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


def _padded(instruction: Instruction, operand_shapes: list[Shape]) -> int:
    """The elements of an operand with padding and holes."""
    window = instruction.window
    if window is None or not operand_shapes:
        return 0
    return prod(
        max(0, (max(size, 1) - 1) * each.base_dilation + 1 + each.padding_low + each.padding_high)
        for size, each in zip(_dimensions(operand_shapes[0]), window.dimensions, strict=False)
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


def _products(instruction: Instruction, operand_shapes: list[Shape], taps: int) -> int:
    """The most products of a convolution: by its result and by its input, of which holes and padding are no part."""
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None or len(operand_shapes) < 2:
        return 0
    kernel = _dimensions(operand_shapes[1])
    places = numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension
    if max(places) >= len(kernel):
        return 0
    inputs, outputs = (kernel[at] for at in places)
    groups = max(1, instruction.integer("feature_group_count") or 1, instruction.integer("batch_group_count") or 1)
    return taps * min(_elements(instruction.shape) * inputs, _elements(operand_shapes[0]) * max(1, outputs // groups))


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


# --- estimates before a run ---
# Limits of an evaluation: what a module would take, estimated before it runs.


MAX_DEPTH: Final = 100
"""The most computations that may be in each other: Python has a stack of 1,000 calls."""
_MAX_ELEMENTS: Final = 1 << 56  # 2^56 elements of one byte are beyond any memory, and products of sizes stay below 2^63
_MAPPED: Final = 1 << 16
"""Elements from which on maps of addresses are counted."""
_NO_VALUES: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.BROADCAST, opcodes.COPY))
"""Opcodes whose result has no memory of its own."""
_RESHAPES: Final = frozenset((opcodes.BITCAST, opcodes.RESHAPE))
"""The same, unless the elements of the operand are not one after another, so that they are copied."""
_SCATTERED: Final = frozenset((opcodes.BROADCAST, opcodes.IOTA, opcodes.SLICE, opcodes.TRANSPOSE))
_PASSING: Final = frozenset((*_RESHAPES, opcodes.COPY, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an evaluation takes: scalar operations, and bytes of the values that are live at once at most.

    `is_bound` tells that a trip count is unknown, so that the operations are only a lower bound.
    """

    operations: int
    live_bytes: int
    is_bound: bool


class _Total(NamedTuple):
    """The same for one run of a computation, with the instructions that take most, and how deep its calls are.

    `held_bytes` are those of values alone, without what kernels allocate besides; `map_bytes` are those of kernels that
    are kept until the end.
    """

    operations: int
    live_bytes: int
    held_bytes: int
    map_bytes: int
    depth: int
    heaviest: Instruction | None
    largest: Instruction | None
    deepest: Instruction | None


_NO_TOTAL: Final = _Total(0, 0, 0, 0, 0, None, None, None)


def estimate(module: Module, floats: Floats = "exact") -> Estimate:
    """What an evaluation of a module takes, from shapes and trip counts.

    >>> from hlo_cli import parse_module
    >>> estimate(parse_module("r = f32[8] add(f32[8] a, f32[8] b)"))
    Estimate(operations=8, live_bytes=96, is_bound=False)
    """
    return _estimate(module, _totals(module, floats))


def _estimate(module: Module, totals: Mapping[Computation, _Total]) -> Estimate:
    found = totals.get(module.entry, _NO_TOTAL)
    is_bound = any(not each.is_known for each in executions_of(module).values())
    maps = sum(each.map_bytes for each in totals.values())
    return Estimate(found.operations, found.live_bytes + maps, is_bound)


def check(module: Module, floats: Floats, limits: Limits, devices: int = 1) -> Estimate:
    """The estimate for all devices; HloError with the place if it is beyond a limit."""
    totals = _totals(module, floats)
    single = _estimate(module, totals)
    # Kernels run on one device after another, so their scratch memory counts once.
    others = totals[module.entry].held_bytes * (devices - 1)  # kernels run on one device after another
    estimate = Estimate(single.operations * devices, single.live_bytes + others, single.is_bound)

    def error(message: str, place: Instruction | None, hint: str) -> HloError:
        span = None if place is None else place.span
        named = f", at {place.name}" if place is not None and span is None else ""
        return HloError(f"{message}{named}", span, source=module.source, hint=hint)

    if totals[module.entry].depth > MAX_DEPTH:
        place = _deep(module.entry, totals)
        raise HloError(
            f"computations call each other too deeply: {place.name} is the call number {MAX_DEPTH}",
            place.span,
            source=module.source,
        )
    if estimate.live_bytes > limits.max_bytes:
        raise error(
            f"evaluation needs {_gibibytes(estimate.live_bytes)} GiB of memory, above the limit of "
            f"{_gibibytes(limits.max_bytes)} GiB",
            _innermost(module.entry, totals, "largest"),
            "use --max-memory SIZE to raise the limit",
        )
    if estimate.operations > limits.max_operations:
        raise error(
            f"evaluation needs {_count_text(estimate.operations)} scalar operations, "
            f"above the limit of {_count_text(limits.max_operations)}",
            _innermost(module.entry, totals, "heaviest"),
            "use --max-operations N to raise the limit",
        )
    return estimate


def _innermost(computation: Computation, totals: Mapping[Computation, _Total], field: str) -> Instruction | None:
    """The instruction that takes most, through those that call others."""
    place: Instruction | None = getattr(totals[computation], field)
    # A scalar computation is part of the instruction that applies it.
    while place is not None and callee_of(place) is None:
        inner = [each for each in place.called_computations if getattr(totals.get(each, _NO_TOTAL), field) is not None]
        if not inner:
            break
        size = "live_bytes" if field == "largest" else "operations"
        place = getattr(totals[max(inner, key=lambda each: int(getattr(totals[each], size)))], field)
    return place


def _deep(computation: Computation, totals: Mapping[Computation, _Total]) -> Instruction:
    """The call at which computations are too deep in each other."""
    place = totals[computation].deepest
    assert place is not None
    for _ in range(MAX_DEPTH - 1):
        # The deepest callee on each level: the place to show is where the limit is passed.
        below = max(place.called_computations, key=lambda each: totals[each].depth if each in totals else 0)
        if (deeper := totals[below].deepest) is None:
            break
        place = deeper
    return place


def _gibibytes(size: int) -> str:
    """A size in GiB.

    >>> _gibibytes(8 << 30), _gibibytes(1 << 20), _gibibytes(5 << 40)
    ('8', '0.000977', '5,120')
    """
    return f"{size / 2**30:,.0f}" if size >= 100 << 30 else f"{size / 2**30:.3g}"


def _count_text(operations: int) -> str:
    """A number of operations, short if it is long.

    >>> _count_text(16), _count_text(40_000_000_000), _count_text(10**400)
    ('16', '4e+10', '1e+400')
    """
    if operations < 1_000_000:
        return f"{operations:,}"
    # Floats end at 1e308, so larger counts are shown by their bits: 2^900 is 8.45e270.
    return f"{operations:.3g}" if operations < 10**300 else f"1e+{len(str(operations >> 900)) + 270}"


def _totals(module: Module, floats: Floats) -> dict[Computation, _Total]:
    """The total of every computation that the entry reaches, callees first."""
    found: dict[Computation, _Total] = {}
    order = depth_first((module.entry,), lambda c: [called for i in c.instructions for called in i.called_computations])
    for computation in order:
        found[computation] = _total(computation, found, floats)
    return found


def _total(computation: Computation, totals: Mapping[Computation, _Total], floats: Floats) -> _Total:
    operations = maps = 0
    heaviest: tuple[int, Instruction | None] = (0, None)
    deepest: tuple[int, Instruction | None] = (0, None)
    scratch: dict[Instruction, int] = {}
    for instruction in computation.instructions:
        callee = callee_of(instruction)
        inner = _NO_TOTAL if callee is None else totals.get(callee, _NO_TOTAL)
        work = work_of(instruction, inner.operations, inner.live_bytes)
        own = work.operations + _called_operations(instruction, totals)
        if work.scratch:
            scratch[instruction] = work.scratch
        maps += _map_bytes(instruction)
        operations += own
        if own > heaviest[0]:
            heaviest = own, instruction
        for each in instruction.called_computations:
            depth = totals.get(each, _NO_TOTAL).depth + 1
            if depth > deepest[0]:
                deepest = depth, instruction
    live, held, largest = _live_bytes(computation, totals, scratch, floats)
    return _Total(operations, live, held, maps, deepest[0], heaviest[1], largest, deepest[1])


def _called_operations(instruction: Instruction, totals: Mapping[Computation, _Total]) -> int:
    """The operations of the computations that an instruction runs as they are."""
    called = [totals.get(each, _NO_TOTAL).operations for each in instruction.called_computations]
    # A call and its async continuation run the computation once, with the start.
    if not called or callee_of(instruction) is not None or instruction.opcode in ASYNC_CONTINUATIONS:
        return 0
    # One branch runs; which one is unknown before.
    if instruction.opcode == opcodes.CONDITIONAL:
        return max(called)
    if instruction.opcode == opcodes.WHILE and (runs := loop_runs(instruction)) is not None:
        # The condition, the second of the called computations, runs once more than the body.
        return sum(each * runs[at == 0] for at, each in enumerate(reversed(called)))
    return sum(called)


def _live_bytes(
    computation: Computation, totals: Mapping[Computation, _Total], scratch: Mapping[Instruction, int], floats: Floats
) -> tuple[int, int, Instruction | None]:
    """The bytes that are live at once at most, those of values alone, and the instruction at which they are."""
    last = {operand: position for position, each in enumerate(computation.instructions) for operand in each.operands}
    ends: dict[int, int] = {}
    scattered: dict[Instruction, int] = {}
    live = most = most_kept = 0
    place = None
    for position, instruction in enumerate(computation.instructions):
        opcode = instruction.opcode
        scattered_bytes = sum(scattered.get(each, 0) for each in instruction.operands) if scattered else 0
        if opcode in _SCATTERED:
            scattered[instruction] = sum(_sizes(instruction, floats))
        # A tuple has all parts that may have to be copied, another pass of one value at most that one.
        elif scattered_bytes and opcode in _PASSING:
            scattered[instruction] = (
                scattered_bytes if opcode == opcodes.TUPLE else min(scattered_bytes, sum(_sizes(instruction, floats)))
            )
        own = 0
        if opcode not in _NO_VALUES and (opcode not in _RESHAPES or scattered_bytes):
            own = sum(_sizes(instruction, floats))
        called = [totals.get(each, _NO_TOTAL) for each in instruction.called_computations]
        inner = max((each.live_bytes for each in called), default=0)
        if called and callee_of(instruction) is None:
            inner += scattered_bytes  # what is called may reshape it
        live += own
        most_kept = max(most_kept, live + max((each.held_bytes for each in called), default=0))
        if live + inner + scratch.get(instruction, 0) > most:
            most, place = live + inner + scratch.get(instruction, 0), instruction
        if (end := last.get(instruction)) is not None:
            ends[end] = ends.get(end, 0) + own
        live -= ends.pop(position, 0)
    # Maps of addresses stay with their kernels, so that loops do not make them again.
    return most, most_kept, place


def _map_bytes(instruction: Instruction) -> int:
    """Bytes of the maps of addresses by which a bitcast moves elements."""
    if instruction.opcode != opcodes.BITCAST:
        return 0
    old, new = instruction.operand_shape(0), instruction.shape
    if not isinstance(old, ArrayShape) or not isinstance(new, ArrayShape) or new.elements < _MAPPED:
        return 0
    return 0 if keeps_order(old, new) else 8 * (old.elements + new.elements)


def _sizes(instruction: Instruction, floats: Floats) -> Iterator[int]:
    for _, leaf in instruction.shape.leaves:
        if isinstance(leaf, ArrayShape):
            elements = prod(leaf.dimensions)
            # numpy refuses such shapes although they have no elements.
            if not elements and (others := prod(max(1, each) for each in leaf.dimensions)) > _MAX_ELEMENTS:
                elements = others  # numpy has no such arrays, even without elements
            yield elements * carrier(leaf.element_type, floats).itemsize


# --- limits while a module runs ---
# Time, which is checked before long kernels, and work in loops of unknown trip count.


_DRAW_SECONDS: Final = 6e-9
"""For each element of made-up arguments."""


class Clock:
    """Raises HloError, with the instruction, once the time is over, or for a kernel that would end after it."""

    def __init__(self, limits: Limits) -> None:
        self._end = time.monotonic() + limits.max_seconds
        self._seconds = limits.max_seconds

    # numpy cannot be interrupted: a kernel that would end too late is not begun.
    def __call__(self, instruction: Instruction, seconds: float = 0.0) -> None:
        """Checks the time before an instruction runs that takes so many seconds at least."""
        if time.monotonic() + seconds <= self._end:
            return
        needs = f": {instruction.name} takes {seconds:,.1f} seconds or more" if seconds > 1 else ""
        raise HloError(
            f"evaluation exceeds the limit of {self._seconds:g} seconds{needs}",
            instruction.span,
            hint="use --max-seconds N to raise the limit",
        )


def start(module: Module, limits: Limits, devices: int = 1, *, makes_arguments: bool) -> Clock:
    """The clock of a run; HloError if there is no time to make up its arguments."""
    clock = Clock(limits)
    sizes = {
        each: sum(prod(leaf.dimensions) for _, leaf in each.shape.leaves if isinstance(leaf, ArrayShape))
        for each in module.entry.parameters
    }
    if makes_arguments and sizes:
        clock(max(sizes, key=lambda each: sizes[each]), devices * sum(sizes.values()) * _DRAW_SECONDS)
    return clock


def reserve_for_products() -> None:
    """Lets the library of matrix products allocate its buffers, which it has to have before memory is limited."""
    # OpenBLAS allocates its buffers at the first product, and may end the process if it cannot.
    square = np.ones((256, 256))
    np.matmul(square, square)


def operations_error(limits: Limits, place: Instruction | None) -> HloError:
    """The error for a loop of unknown trip count whose iterations take more operations than the limit."""
    where = "" if place is None else f", in the computation {place.computation.name}"
    return HloError(
        f"evaluation exceeds the limit of {_count_text(limits.max_operations)} scalar operations{where}",
        None if place is None else place.span,
        hint="use --max-operations N to raise the limit",
    )
