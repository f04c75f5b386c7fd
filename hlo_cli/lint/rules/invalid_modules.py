"""HLO07x, HLO09x: does the module hold together: header, aliasing, order, layouts, and memory spaces?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.shapes.inference import same_layout
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import OriginalArray, OriginalTuple, OriginalValue
from hlo_cli.ir.attributes.value_types import Alias, BufferDonor
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import CONTROL_PREDECESSORS, taking
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, TupleShape, compatible, subshape
from hlo_cli.lint.rule import LintContext, attribute_span, header_span, rule, shape_span, start_around
from hlo_cli.lint.rules import invalid_instructions
from hlo_cli.report.findings import Finding
from hlo_cli.report.numbers import format_count

# --- HLO07x: the header, aliasing of buffers, and the order of instructions ---


_LAYOUT: Final = "entry_computation_layout"
_ALIAS: Final = "input_output_alias"
_DONOR: Final = "buffer_donor"
_EXTRACTED: Final = "extracted"
"""Mark in the name of a module that the TPU compiler extracts for other cores, with the header of the whole module."""
# Rematerialization and cloning rename copies but keep the scheduling_name (hlo_verifier.cc has the same exception).
_RENAMED: Final = (".remat", ".clone")


@rule("HLO070", "entry_computation_layout mismatch")
def entry_layout(context: LintContext) -> Iterator[Finding]:
    """entry_computation_layout does not match the parameters or result of the entry computation.

    Why: The runtime allocates arguments and results by the header; the program reads and writes the shapes of the entry
    computation.

    Example:
        HloModule m, entry_computation_layout={(f32[2]{0})->f32[3]{0}}

    Fix: Update the header. Memory spaces, tiles, and tail padding may differ; types, sizes, and (once scheduled)
    dimension order must match.

    Reference: VerifyEntryComputationLayout in xla/service/hlo_verifier.cc
    """
    layout, entry = context.module.entry_computation_layout, context.module.entry
    # Such modules keep the header of the module they were extracted from.
    if layout is None or context.module.name.startswith(_EXTRACTED):
        return
    place = header_span(context.module, _LAYOUT)
    if len(layout.parameters) != len(entry.parameters):
        listed = format_count(len(layout.parameters), "parameters")
        message = f"{_LAYOUT} lists {listed}, but {entry.name} has {len(entry.parameters)}"
        yield context.finding(message, span=place, about="parameters")
        return
    for number, (expected, parameter) in enumerate(zip(layout.parameters, entry.parameters, strict=True)):
        if not _matches_entry_layout(context, expected, parameter.shape):
            message = f"{_LAYOUT} lists {expected} for parameter {number}, but {parameter.name} is {parameter.shape}"
            yield context.finding(message, span=place, about=f"parameter {number}")
    if entry.root is not None and not _matches_entry_layout(context, layout.result, entry.root.shape):
        message = f"{_LAYOUT} lists {layout.result} for the result, but {entry.root.name} is {entry.root.shape}"
        yield context.finding(message, span=place, about="result")


@rule("HLO071", "invalid input_output_alias")
def input_output_alias(context: LintContext) -> Iterator[Finding]:
    """input_output_alias refers to a parameter or result that does not exist, is a tuple, has a different size, or is
    already aliased.

    Why: A result that overwrites a parameter needs the same number of bytes, and one buffer can hold only one result.

    Example:
        HloModule m, input_output_alias={ {}: (3, {}, may-alias) }

    Fix: Alias arrays of equal size, each at most once. must-alias pairs also need the same layout and memory space.

    Reference: HloInputOutputAliasConfig::Verify in xla/hlo/ir/hlo_input_output_alias_config.cc
    """
    module = context.module
    place = header_span(module, _ALIAS)
    outputs: set[ShapeIndex] = set()
    parameters: set[tuple[int, ShapeIndex]] = set()
    for alias in module.header_items("input_output_alias", Alias):
        message = _alias_problem(context, alias.output_index, alias.parameter_number, alias.parameter_index)
        leaf = (alias.parameter_number, alias.parameter_index)
        # Each leaf has one memory, so it can be aliased only once.
        if message is None and alias.output_index in outputs:
            message = "the result is already aliased"
        elif message is None and leaf in parameters:
            message = "the parameter is already aliased"
        # may-alias pairs are a hope that the compiler may ignore.
        elif message is None and alias.kind == "must-alias":
            message = _must_alias_problem(context, alias.output_index, *leaf)
        outputs.add(alias.output_index)
        parameters.add(leaf)
        if message is not None:
            yield context.finding(f"{_ALIAS} {alias}: {message}", span=place, about=str(alias))


@rule("HLO072", "invalid buffer_donor")
def buffer_donor(context: LintContext) -> Iterator[Finding]:
    """buffer_donor refers to a parameter that does not exist, is a tuple, or is already in input_output_alias.

    Why: A donated buffer can be used for any result; an aliased one already holds a certain result.

    Example:
        HloModule m, buffer_donor={ (3, {}) }

    Fix: List array parameters, each in only one of the two attributes.

    Reference: HloBufferDonorConfig::Verify in xla/hlo/ir/hlo_input_output_alias_config.cc
    """
    module = context.module
    aliased = {
        (alias.parameter_number, alias.parameter_index) for alias in module.header_items("input_output_alias", Alias)
    }
    for donor in module.header_items("buffer_donor", BufferDonor):
        leaf = (donor.parameter_number, donor.parameter_index)
        message = None
        if not isinstance(_parameter_part(context, *leaf), ArrayShape):
            message = _missing_array(context, *leaf)
        elif leaf in aliased:
            message = "the parameter is already aliased by input_output_alias"
        if message is not None:
            yield context.finding(f"{_DONOR} {donor}: {message}", span=header_span(module, _DONOR), about=str(donor))


@rule("HLO073", "use before definition")
def use_before_definition(context: LintContext) -> Iterator[Finding]:
    """An instruction comes before one of its control predecessors.

    Operands are not reported: readers drop one that is defined later, and HLO010 reports how many remain.

    Why: The instructions of a scheduled module run in the order of the text, and XLA's parser resolves only names that
    are defined above.

    Example:
        y = f32[2] negate(x), control-predecessors={z}
        z = f32[2] exponential(x)

    Fix: Move it after the instructions that it depends on.

    Reference: HloSchedule::Verify in xla/hlo/ir/hlo_schedule.cc
    """
    names: dict[Computation, dict[str, Instruction]] = {}
    for instruction in context.with_attribute_text(CONTROL_PREDECESSORS):
        computation = instruction.computation
        if computation not in names:
            # Reversed, so that the first of equal names stays.
            names[computation] = {each.name: each for each in reversed(computation.instructions)}
        for name in instruction.control_predecessors:
            before = names[computation].get(name.removeprefix("%"))
            if before is None:
                message = f"control predecessor {name} of {instruction.name} does not exist in {computation.name}"
                yield context.finding(message, instruction, attribute_span(instruction, CONTROL_PREDECESSORS))
            elif before.index >= instruction.index:
                is_own = before is instruction
                where = "is its own control predecessor" if is_own else f"precedes its control predecessor {name}"
                message = f"{instruction.name} {where}"
                yield context.finding(message, instruction, attribute_span(instruction, CONTROL_PREDECESSORS))


@rule("HLO074", "original value mismatch")
def original_value(context: LintContext) -> Iterator[Finding]:
    """The original value (origin) has a different tuple structure than the shape.

    Why: The original value maps each array of a value to the array of the unoptimized program that it holds.

    Example:
        t = (f32[2], f32[3]) tuple(x, y), origin={{"a"}}

    Fix: Write one entry, or empty braces, for each leaf.

    Reference: VerifyOriginalValue in xla/service/hlo_verifier.cc
    """
    for instruction in context.with_attribute_text("origin={"):
        tree = _original_tree(instruction)
        if tree is not None and not _has_same_structure(tree, instruction.shape):
            message = f"{instruction.name} has shape {instruction.shape}, but origin {instruction.value('origin')}"
            yield context.finding(message, instruction, attribute_span(instruction, "origin"))


@rule("HLO075", "scheduling_name mismatch", severity="warning", is_default=False)
def scheduling_name(context: LintContext) -> Iterator[Finding]:
    """The scheduling_name of an instruction differs from its name.

    Why: Passes rename instructions after scheduling, and profiles that use the scheduling name then do not match the
    module. Off by default, because only some XLA pipelines require equal names.

    Example:
        y = f32[2] negate(x), metadata={scheduling_name="z"}

    Fix: Rename the instruction or reschedule. Copies made by .remat and .clone keep the old name, and instructions
    wrapped by an async-start have that of the start; both are not reported.

    Reference: verify_instruction_name_unchanged in xla/service/hlo_verifier.h
    """
    for instruction in context.with_attribute_text("scheduling_name="):
        name = instruction.metadata.scheduling_name
        is_other = name and name != instruction.name and not any(mark in instruction.name for mark in _RENAMED)
        if is_other and start_around(context.module, instruction) is None:
            place = attribute_span(instruction, "metadata")
            yield context.finding(f"{instruction.name} has scheduling_name {name}", instruction, place)


def _matches_entry_layout(context: LintContext, layouts: Shape, shape: Shape) -> bool:
    if not compatible(layouts, shape):
        return False
    # Before layout assignment the entry's layouts are wishes.
    if not context.is_layout_sensitive:
        return True
    pairs = zip(layouts.leaves, shape.leaves, strict=True)
    return all(
        # T, L, and S are ignored, as hlo_verifier.cc does for the entry layout (all scheduled dumps agree).
        a.layout.minor_to_major == b.layout.minor_to_major
        and a.layout.element_size_in_bits == b.layout.element_size_in_bits
        for (_, a), (_, b) in pairs
        if isinstance(a, ArrayShape) and isinstance(b, ArrayShape)
    )


def _parameter_part(context: LintContext, number: int, index: ShapeIndex) -> Shape | None:
    parameters = context.module.entry.parameters
    return subshape(parameters[number].shape, index) if 0 <= number < len(parameters) else None


def _missing_array(context: LintContext, number: int, index: ShapeIndex) -> str:
    parameters = context.module.entry.parameters
    if not 0 <= number < len(parameters):
        return f"the entry computation has {format_count(len(parameters), 'parameters')}"
    return f"parameter {number} ({parameters[number].shape}) has no array at {index_text(index)}"


def _alias_problem(context: LintContext, output_index: ShapeIndex, number: int, index: ShapeIndex) -> str | None:
    root = context.module.entry.root
    output = subshape(root.shape, output_index) if root is not None else None
    parameter = _parameter_part(context, number, index)
    if not isinstance(parameter, ArrayShape):
        return _missing_array(context, number, index)
    if not isinstance(output, ArrayShape):
        return f"the result has no array at {index_text(output_index)}"
    if context.is_layout_sensitive and output.padded_bytes != parameter.padded_bytes:
        return f"the result has {output.padded_bytes:,} bytes, but the parameter has {parameter.padded_bytes:,}"
    return None


def _must_alias_problem(context: LintContext, output_index: ShapeIndex, number: int, index: ShapeIndex) -> str | None:
    layout = context.module.entry_computation_layout
    if layout is None or number >= len(layout.parameters):
        return None
    result, parameter = subshape(layout.result, output_index), subshape(layout.parameters[number], index)
    if result is None or parameter is None or (compatible(result, parameter) and same_layout(result, parameter)):
        return None
    return f"must-alias requires equal shapes and layouts, but the result is {result} and the parameter is {parameter}"


def _original_tree(instruction: Instruction) -> OriginalArray | OriginalTuple | None:
    """The original values in the text, or None if they cannot be read."""
    value = instruction.value_of("origin", OriginalValue)
    # `origin={}` is an empty tuple, which the reader does not tell from absence.
    is_empty = (instruction.attribute("origin") or "").split() in (["{}"], ["{", "}"])
    return OriginalTuple(()) if is_empty else value.tree if value is not None else None


def _has_same_structure(tree: OriginalArray | OriginalTuple, shape: Shape) -> bool:
    if isinstance(tree, OriginalArray):
        return not isinstance(shape, TupleShape)
    if not isinstance(shape, TupleShape) or len(tree.elements) != len(shape.elements):
        return False
    return all(_has_same_structure(a, b) for a, b in zip(tree.elements, shape.elements, strict=True))


# --- HLO09x: layouts and memory spaces ---


# The list of LayoutAssignment::InstructionCanChangeLayout in xla/service/layout_assignment.cc, which the verifier uses.
_MAY_CHANGE: Final = frozenset(
    """add-dependency after-all batch-norm-grad batch-norm-inference batch-norm-training bitcast broadcast call
    collective-permute-done collective-permute-start conditional constant convolution copy copy-done copy-start
    custom-call domain dot dynamic-reshape fusion gather get-dimension-size get-tuple-element infeed iota outfeed
    parameter partition-id ragged-dot recv recv-done reduce replica-id reshape rng rng-bit-generator
    rng-get-and-update-state scaled-dot send send-done transpose tuple""".split()
)
# These change the element type, so E(n) may change with it.
_ANY_ELEMENT_SIZE: Final = (opcodes.CONVERT, opcodes.COMPARE, opcodes.IS_FINITE, opcodes.SELECT, opcodes.SCATTER)
# Bits in a byte: XLA allows E(n) for types below it only (cpu_gpu_shape_verifier.cc).
_BYTE: Final = 8
_FAST_MEMORY: Final = TpuMemorySpace.VMEM
# Copies between main and host memory are transfers, which a slice cannot do.
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
            # Other threads (sparse cores) have layouts of their own.
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
        # From VMEM to anywhere else, a value is moved that was fetched to be fast.
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
    # pred has 8 bits in memory but 1 in its type.
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
    if a is b or a == b:  # only faster
        return False
    same_size = a.element_size_in_bits == b.element_size_in_bits or opcode in _ANY_ELEMENT_SIZE
    same_ends = a.tail_padding_alignment_in_elements == b.tail_padding_alignment_in_elements
    return not (a.minor_to_major == b.minor_to_major and same_size and same_ends and a.split_configs == b.split_configs)


def _is_bitcast(given: ArrayShape, result: ArrayShape) -> bool:
    """Whether the same bytes, read in the new shape, hold the elements in the same order."""
    from hlo_cli.analysis.layout.relayout import bitcast_steps  # with numpy, which few runs need

    found = bitcast_steps(given, result) if given.problem is None and result.problem is None else None
    return found is not None and found.kind in ("identity", "reshape")


# --- HLO094: layouts in modules that are not scheduled ---


_COMPARING: Final = (
    invalid_instructions.invalid_shape,
    invalid_instructions.layout_mismatch,
    invalid_instructions.invalid_alias,
    invalid_instructions.unaliased_buffer,
    entry_layout,
    input_output_alias,
)
"""The rules that compare final layouts."""


@rule("HLO094", "layout mismatch before scheduling", severity="warning", is_default=False)
def unsettled_layouts(context: LintContext) -> Iterator[Finding]:
    """In an unscheduled module, layouts or byte sizes differ where data is only passed through.

    Why: XLA compares layouts only after it has assigned them. This rule makes the checks of a scheduled module
    (layout_sensitive), for modules that are passed directly to a later stage. Off by default, because earlier passes
    leave such differences.

    Example:
        s = (f32[2,3]{0,1}, f32[2,3]{1,0}, u32[]) copy-start(x)
        d = f32[2,3]{0,1} copy-done(s)

    Fix: Use the same layout on both sides, or insert a copy.

    Reference: layout_sensitive in xla/service/hlo_verifier.h
    """
    if context.is_layout_sensitive or context.settings.layout_sensitive == "never":
        return
    settled = replace(context.settings, layout_sensitive="always")
    # What is strict in scheduled modules is a warning in others: layouts are not settled.
    strict = LintContext(context.module, settled, context.rejections, context.verdicts, context.chip)
    for each in _COMPARING:
        known = set(each.check(context))
        yield from (finding for finding in each.check(strict) if finding not in known)
