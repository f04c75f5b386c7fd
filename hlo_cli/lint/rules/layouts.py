"""HLO09x: layouts and memory spaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import taking
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span, shape_span
from hlo_cli.report.finding import Finding

_MAY_CHANGE: Final = frozenset(
    """add-dependency after-all batch-norm-grad batch-norm-inference batch-norm-training bitcast broadcast call
    collective-permute-done collective-permute-start conditional constant convolution copy copy-done copy-start
    custom-call domain dot dynamic-reshape fusion gather get-dimension-size get-tuple-element infeed iota outfeed
    parameter partition-id ragged-dot recv recv-done reduce replica-id reshape rng rng-bit-generator
    rng-get-and-update-state scaled-dot send send-done transpose tuple""".split()
)
_ANY_ELEMENT_SIZE: Final = (opcodes.CONVERT, opcodes.COMPARE, opcodes.IS_FINITE, opcodes.SELECT, opcodes.SCATTER)
_BYTE: Final = 8
_FAST_MEMORY: Final = TpuMemorySpace.VMEM
_CROSSING: Final = (
    ("dynamic-slice", MemorySpace.MAIN, MemorySpace.HOST),
    ("dynamic-update-slice", MemorySpace.HOST, MemorySpace.MAIN),
)
_ROUNDED: Final = taking("result_accuracy")


@rule("HLO013", "layout invalid for shape", needs="instructions")
def invalid_layout(context: LintContext) -> Iterator[Finding]:
    """The layout is not a permutation of the dimensions, or no buffer can hold the array.

    Why: minor_to_major lists every dimension exactly once, so that each element has one address. On CPU and GPU, only
    types of fewer than 8 bits, except pred, can have an element size E(n).

    Example:
        x = f32[4,8]{1,1} parameter(0)

    Fix: List the dimensions 0 to rank - 1, minor first. Row-major is {1,0}.

    Reference: LayoutUtil::ValidateLayoutForShape in xla/layout_util.cc, xla/service/cpu_gpu_shape_verifier.cc
    """
    is_tpu = context.target == "tpu"
    for instruction in context.shaped(lambda shape: _layout_problem(shape, is_tpu=is_tpu) is not None):
        message = f"{instruction.name}: {_layout_problem(instruction.shape, is_tpu=is_tpu)}"
        yield context.finding(message, instruction, shape_span(context.module, instruction))


@rule("HLO014", "unbounded dynamic dimension")
def unbounded(context: LintContext) -> Iterator[Finding]:
    """A dimension has size `?`, which is unknown until run time.

    Why: Without an upper bound, no memory can be allocated. XLA refines such shapes before it compiles the module.

    Example:
        y = f32[?] negate(x)

    Fix: Give an upper bound, such as f32[<=8], or refine the shapes before dumping.

    Reference: "Unbounded dynamism is disabled" in xla/service/hlo_verifier.cc
    """
    for instruction in context.shaped(_is_unbounded):
        message = f"{instruction.name} has unbounded shape {instruction.shape}"
        yield context.finding(message, instruction, shape_span(context.module, instruction))


@rule("HLO015", "broadcast dimensions not sorted", is_default=False)
def broadcast_order(context: LintContext) -> Iterator[Finding]:
    """The dimensions of a broadcast are not in ascending order, so it also transposes.

    Why: Some backends accept only broadcasts that keep the order of dimensions. Off by default, because others accept
    any order.

    Example:
        y = f32[3,2] broadcast(x), dimensions={1,0}

    Fix: Transpose first, then broadcast.

    Reference: verify_broadcast_dimensions_order in xla/service/hlo_verifier.h
    """
    for broadcast in context.of(opcodes.BROADCAST):
        dimensions = broadcast.integers("dimensions")
        if list(dimensions) != sorted(dimensions):
            place = attribute_span(broadcast, "dimensions")
            yield context.finding(
                f"{broadcast.name} has unsorted dimensions {index_text(dimensions)}", broadcast, place
            )


@rule("HLO016", "result_accuracy on unsupported opcode")
def result_accuracy(context: LintContext) -> Iterator[Finding]:
    """An opcode that does not support result_accuracy sets it.

    Why: result_accuracy selects an implementation of elementary functions, such as exponential. Other opcodes have only
    one.

    Example:
        y = f32[2] negate(x), result_accuracy={mode=highest}

    Fix: Remove the attribute.

    Reference: VerifyResultAccuracy in xla/service/hlo_verifier.cc
    """
    for instruction in context.with_attribute_text("result_accuracy="):
        if instruction.opcode not in _ROUNDED and instruction.attribute("result_accuracy") is not None:
            place = attribute_span(instruction, "result_accuracy")
            yield context.finding(
                f"{instruction.name}: {instruction.opcode} does not support result_accuracy", instruction, place
            )


@rule("HLO090", "unexpected layout change", severity="warning", is_default=False)
def changed_layout(context: LintContext) -> Iterator[Finding]:
    """An operation that preserves element positions has a different layout than an operand of the same rank.

    Why: After layout assignment, only copies, transposes, bitcasts, and a few other operations can change the layout.
    Off by default, because only some XLA pipelines require it.

    Example:
        y = f32[4,8]{1,0} negate(x)

    Fix: Insert a copy before the operand.

    Reference: "Instruction shouldn't change layouts" in xla/service/hlo_verifier.cc
    """
    threads = context.threads
    for opcode, instructions in context.by_opcode.items():
        if (
            opcode in _MAY_CHANGE
            or opcode.endswith(("-start", "-done", "-update"))
            or opcode in (opcodes.WHILE, opcodes.OPT_BARRIER)
        ):
            continue
        for instruction in instructions:
            result = instruction.shape
            if not isinstance(result, ArrayShape) or threads[instruction.computation] != "main":
                continue
            for position, operand in enumerate(instruction.operands):
                given = instruction.operand_shape(position)
                if (
                    isinstance(given, ArrayShape)
                    and given.rank == result.rank
                    and _changes_layout(opcode, given, result)
                ):
                    yield context.finding(
                        f"{instruction.name} is {result}, but its operand {operand.name} is {given}", instruction
                    )


@rule("HLO091", "unexpected memory space change", severity="warning", is_default=False)
def changed_space(context: LintContext) -> Iterator[Finding]:
    """A slice or update has a different memory space than its operand.

    Why: A slice or update of an array in fast memory stays in fast memory, and none moves data to or from host memory.
    Off by default, because only some XLA pipelines require it.

    Example:
        y = f32[2]{0:S(5)} dynamic-slice(x, i), dynamic_slice_sizes={2}

    Fix: Use copy-start and copy-done to move data between memory spaces.

    Reference: "shouldn't change layout memory space" in xla/service/hlo_verifier.cc
    """
    for instruction in context.of(opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE):
        result, given = instruction.shape, instruction.operand_shape(0) if instruction.operands else None
        if not isinstance(result, ArrayShape) or not isinstance(given, ArrayShape):
            continue
        before, after = given.memory_space, result.memory_space
        if before == _FAST_MEMORY != after or (instruction.opcode, before, after) in _CROSSING:
            place = shape_span(context.module, instruction)
            yield context.finding(
                f"{instruction.name} changes the memory space from S({before}) to S({after})", instruction, place
            )


@rule("HLO092", "reshape that moves data", severity="warning", is_default=False)
def reshape_not_bitcast(context: LintContext) -> Iterator[Finding]:
    """A reshape changes the element order in memory.

    Why: After layout assignment, a reshape should not move data; this one needs a pass over memory. Off by default,
    because only some XLA pipelines require it.

    Example:
        y = f32[4,2,3]{0,1,2} reshape(x)

    Fix: Insert a copy to a layout for which the reshape is a bitcast.

    Reference: verify_reshape_is_bitcast in xla/service/hlo_verifier.h
    """
    for reshape in context.of(opcodes.RESHAPE):
        given, result = reshape.operand_shape(0) if reshape.operands else None, reshape.shape
        if isinstance(given, ArrayShape) and isinstance(result, ArrayShape) and not _is_bitcast(given, result):
            message = f"{reshape.name} moves elements from {given} to {result}"
            yield context.finding(message, reshape, shape_span(context.module, reshape))


@rule("HLO093", "value in host memory", severity="warning", is_default=False)
def host_memory(context: LintContext) -> Iterator[Finding]:
    """A value is in host memory, S(5).

    Why: A program without values in host memory needs no transfers to and from the host. Off by default, because
    programs that use host offloading do so on purpose.

    Example:
        y = f32[2]{0:S(5)} copy(x)

    Fix: Remove S(5).

    Reference: verify_no_host_memory_space in xla/service/hlo_verifier.h
    """
    for instruction in context.shaped(_is_on_host):
        place = shape_span(context.module, instruction)
        yield context.finding(f"{instruction.name} is in host memory", instruction, place)


def _layout_problem(shape: Shape, *, is_tpu: bool) -> str | None:
    for _, leaf in shape.leaves:
        array = leaf.array if isinstance(leaf, BufferShape) else leaf
        if isinstance(array, ArrayShape):
            problem = array.problem if is_tpu else array.problem or _size_problem(array)
            if problem is not None:
                return f"{array}: {problem}"
    return None


def _size_problem(array: ArrayShape) -> str | None:
    """Why `E(n)` is invalid for the type; CPUs and GPUs allow it only for sub-byte types."""
    size, kind = array.layout.element_size_in_bits, array.element_type
    if not size or (kind.bits < _BYTE and kind.name != "pred"):
        return None
    return f"E({size}) requires a type of fewer than 8 bits, found {kind.name}"


def _is_unbounded(shape: Shape) -> bool:
    return any(isinstance(leaf, ArrayShape) and leaf.sizes != leaf.dimensions for _, leaf in shape.leaves)


def _is_on_host(shape: Shape) -> bool:
    return any(isinstance(leaf, ArrayShape) and leaf.memory_space == MemorySpace.HOST for _, leaf in shape.leaves)


def _changes_layout(opcode: str, given: ArrayShape, result: ArrayShape) -> bool:
    """Whether layouts differ in more than tiles, memory space, and, for some opcodes, the size of elements."""
    a, b = given.layout, result.layout
    if a is b or a == b:
        return False
    same_size = a.element_size_in_bits == b.element_size_in_bits or opcode in _ANY_ELEMENT_SIZE
    same_ends = a.tail_padding_alignment_in_elements == b.tail_padding_alignment_in_elements
    return not (a.minor_to_major == b.minor_to_major and same_size and same_ends and a.split_configs == b.split_configs)


def _is_bitcast(given: ArrayShape, result: ArrayShape) -> bool:
    """Whether the same bytes, read in the new shape, hold the elements in the same order."""
    from hlo_cli.analysis.layout.relayout import bitcast_steps  # with numpy, which few runs need

    found = bitcast_steps(given, result) if given.problem is None and result.problem is None else None
    return found is not None and found.kind in ("identity", "reshape")
