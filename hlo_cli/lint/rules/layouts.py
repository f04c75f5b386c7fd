"""HLO09x: layouts and memory spaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace
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


@rule("HLO013", "layout does not fit the shape", needs="instructions")
def impossible_layout(context: LintContext) -> Iterator[Finding]:
    """A layout is no order of the dimensions, or no buffer could hold the array.

    Why: minor_to_major lists every dimension once, so that each element has one place. On CPUs and GPUs only types of
    fewer than 8 bits, pred aside, take a size of their own, E(n).

    Example:
        x = f32[4,8]{1,1} parameter(0)

    Mend: list the dimensions 0 to rank - 1, the fastest first; row-major is {1,0}.

    Reference: LayoutUtil::ValidateLayoutForShape in xla/layout_util.cc, xla/service/cpu_gpu_shape_verifier.cc
    """
    is_tpu = context.target == "tpu"
    for instruction in context.shaped(lambda shape: _layout_problem(shape, is_tpu=is_tpu) is not None):
        message = f"{instruction.name}: {_layout_problem(instruction.shape, is_tpu=is_tpu)}"
        yield context.finding(message, instruction, shape_span(context.module, instruction))


@rule("HLO014", "dynamic without a bound")
def unbounded(context: LintContext) -> Iterator[Finding]:
    """The size of a dimension is `?`: known to nobody before the program runs.

    Why: without a bound no memory can be set aside. Programs with such sizes are refined before they are compiled.

    Example:
        y = f32[?] negate(x)

    Mend: give a bound, as f32[<=8], or refine the shapes before dumping.

    Reference: "Unbounded dynamism is disabled" in xla/service/hlo_verifier.cc
    """
    for instruction in context.shaped(_is_unbounded):
        message = f"{instruction.name} is {instruction.shape}, whose size nobody knows"
        yield context.finding(message, instruction, shape_span(context.module, instruction))


@rule("HLO015", "dimensions of a broadcast are not in order", is_default=False)
def broadcast_order(context: LintContext) -> Iterator[Finding]:
    """The dimensions of a broadcast do not rise, so it transposes too.

    Why: some backends take only broadcasts that keep the order; others do not mind, so this rule is off.

    Example:
        y = f32[3,2] broadcast(x), dimensions={1,0}

    Mend: transpose first, then broadcast.

    Reference: verify_broadcast_dimensions_order in xla/service/hlo_verifier.h
    """
    for broadcast in context.of(opcodes.BROADCAST):
        dimensions = broadcast.integers("dimensions")
        if list(dimensions) != sorted(dimensions):
            place = attribute_span(broadcast, "dimensions")
            yield context.finding(f"{broadcast.name} puts dimensions in the order {dimensions}", broadcast, place)


@rule("HLO016", "accuracy of what has none")
def result_accuracy(context: LintContext) -> Iterator[Finding]:
    """An opcode that is exact, or takes no accuracy, says how accurate its result is to be.

    Why: result_accuracy chooses between implementations of elementary functions; other opcodes have one.

    Example:
        y = f32[2] negate(x), result_accuracy={mode=highest}

    Mend: leave the attribute out.

    Reference: VerifyResultAccuracy in xla/service/hlo_verifier.cc
    """
    for instruction in context.saying("result_accuracy="):
        if instruction.opcode not in _ROUNDED and instruction.attribute("result_accuracy") is not None:
            place = attribute_span(instruction, "result_accuracy")
            yield context.finding(
                f"{instruction.name}: {instruction.opcode} takes no result_accuracy", instruction, place
            )


@rule("HLO090", "changes the layout, but cannot", severity="warning", is_default=False)
def changed_layout(context: LintContext) -> Iterator[Finding]:
    """An operation that keeps the places of elements has another layout than an operand of the same rank.

    Why: once layouts are assigned, only copies, transposes, bitcasts and a few others may change them; anything else
    would have to reorder while it computes. Some pipelines of XLA ask for it, so this rule is off.

    Example:
        y = f32[4,8]{1,0} negate(x)

    Mend: put a copy before the operand.

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
                if isinstance(given, ArrayShape) and given.rank == result.rank and _is_other(opcode, given, result):
                    yield context.finding(
                        f"{instruction.name} is {result}, its operand {operand.name} is {given}", instruction
                    )


@rule("HLO091", "moves between memories, but cannot", severity="warning", is_default=False)
def changed_space(context: LintContext) -> Iterator[Finding]:
    """A slice or an update goes from one memory to another.

    Why: from fast memory a slice or an update stays there, and none reaches into the memory of the host. Only some
    pipelines of XLA ask for it, so this rule is off.

    Example:
        y = f32[2]{0:S(5)} dynamic-slice(x, i), dynamic_slice_sizes={2}

    Mend: copy-start and copy-done move between memories.

    Reference: "shouldn't change layout memory space" in xla/service/hlo_verifier.cc
    """
    for instruction in context.of(opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE):
        result, given = instruction.shape, instruction.operand_shape(0) if instruction.operands else None
        if not isinstance(result, ArrayShape) or not isinstance(given, ArrayShape):
            continue
        before, after = given.memory_space, result.memory_space
        if before == _FAST_MEMORY != after or (instruction.opcode, before, after) in _CROSSING:
            place = shape_span(context.module, instruction)
            yield context.finding(f"{instruction.name} goes from S({before}) to S({after})", instruction, place)


@rule("HLO092", "reshape that moves bytes", severity="warning", is_default=False)
def moving_reshape(context: LintContext) -> Iterator[Finding]:
    """A reshape changes the order of elements in memory.

    Why: behind layout assignment a reshape is expected to be free; one that moves bytes costs a pass over memory. Only
    some pipelines ask for it, so this rule is off.

    Example:
        y = f32[4,2,3]{0,1,2} reshape(x)

    Mend: put a copy into the layout of which the reshape is a bitcast before it.

    Reference: verify_reshape_is_bitcast in xla/service/hlo_verifier.h
    """
    for reshape in context.of(opcodes.RESHAPE):
        given, result = reshape.operand_shape(0) if reshape.operands else None, reshape.shape
        if isinstance(given, ArrayShape) and isinstance(result, ArrayShape) and not _is_bitcast(given, result):
            message = f"{reshape.name} moves elements: from {given} to {result}"
            yield context.finding(message, reshape, shape_span(context.module, reshape))


@rule("HLO093", "value in host memory", severity="warning", is_default=False)
def host_memory(context: LintContext) -> Iterator[Finding]:
    """A value lies in the memory of the host, S(5).

    Why: a program that keeps nothing there needs no transfers; programs that offload do so on purpose, so this rule is
    off.

    Example:
        y = f32[2]{0:S(5)} copy(x)

    Mend: leave S(5) out.

    Reference: verify_no_host_memory_space in xla/service/hlo_verifier.h
    """
    for instruction in context.shaped(_is_on_host):
        place = shape_span(context.module, instruction)
        yield context.finding(f"{instruction.name} lies in host memory", instruction, place)


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
    return f"elements of {kind.name} are not packed, E({size}) is for types of fewer than 8 bits"


def _is_unbounded(shape: Shape) -> bool:
    return any(isinstance(leaf, ArrayShape) and leaf.sizes != leaf.dimensions for _, leaf in shape.leaves)


def _is_on_host(shape: Shape) -> bool:
    return any(isinstance(leaf, ArrayShape) and leaf.memory_space == MemorySpace.HOST for _, leaf in shape.leaves)


def _is_other(opcode: str, given: ArrayShape, result: ArrayShape) -> bool:
    """Whether layouts differ in more than tiles, memory space, and, for some opcodes, the size of elements."""
    a, b = given.layout, result.layout
    if a is b or a == b:
        return False
    same_size = a.element_size_in_bits == b.element_size_in_bits or opcode in _ANY_ELEMENT_SIZE
    same_ends = a.tail_padding_alignment_in_elements == b.tail_padding_alignment_in_elements
    return not (a.minor_to_major == b.minor_to_major and same_size and same_ends and a.split_configs == b.split_configs)


def _is_bitcast(given: ArrayShape, result: ArrayShape) -> bool:
    """Whether the same bytes, read in the new shape, hold the elements in the same order."""
    from hlo_cli.analysis.layout.bitcast_steps import bitcast_steps  # with numpy, which few runs need

    found = bitcast_steps(given, result) if given.problem is None and result.problem is None else None
    return found is not None and found.kind in ("identity", "reshape")
