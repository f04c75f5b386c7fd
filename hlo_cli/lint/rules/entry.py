"""HLO07x: the module header, buffer aliasing, and the order of instructions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.shapes.inference import same_layout
from hlo_cli.ir.attributes.value_types import Alias, BufferDonor
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape, compatible, subshape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span, header_span
from hlo_cli.lint.structure import start_around
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_count

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.metadata import OriginalArray, OriginalTuple

_LAYOUT: Final = "entry_computation_layout"
_ALIAS: Final = "input_output_alias"
_DONOR: Final = "buffer_donor"
_EXTRACTED: Final = "extracted"
"""Mark in the name of a module that the TPU compiler extracts for other cores, with the header of the whole module."""
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
        if message is None and alias.output_index in outputs:
            message = "the result is already aliased"
        elif message is None and leaf in parameters:
            message = "the parameter is already aliased"
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
    """An instruction comes before one of its operands or control predecessors.

    Why: The instructions of a scheduled module run in the order of the text, and XLA's parser resolves only names that
    are defined above.

    Example:
        y = f32[2] negate(x), control-predecessors={z}
        z = f32[2] exponential(x)

    Fix: Move it after the instructions that it depends on.

    Reference: HloSchedule::Verify in xla/hlo/ir/hlo_schedule.cc
    """
    for instruction in context.module.instructions:
        for operand in instruction.operands:
            if operand.computation is instruction.computation and operand.index >= instruction.index:
                later = "itself" if operand is instruction else f"{operand.name}, which is defined later"
                yield context.finding(f"{instruction.name} uses {later}", instruction)
    names: dict[Computation, dict[str, Instruction]] = {}
    for instruction in context.with_attribute_text("control-predecessors"):
        computation = instruction.computation
        if computation not in names:
            names[computation] = {each.name: each for each in reversed(computation.instructions)}
        for name in instruction.control_predecessors:
            before = names[computation].get(name.removeprefix("%"))
            if before is None:
                message = f"control predecessor {name} of {instruction.name} does not exist in {computation.name}"
                yield context.finding(message, instruction, attribute_span(instruction, "control-predecessors"))
            elif before.index >= instruction.index:
                is_own = before is instruction
                where = "is its own control predecessor" if is_own else f"precedes its control predecessor {name}"
                message = f"{instruction.name} {where}"
                yield context.finding(message, instruction, attribute_span(instruction, "control-predecessors"))


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


def _matches_entry_layout(context: LintContext, listed: Shape, shape: Shape) -> bool:
    if not compatible(listed, shape):
        return False
    if not context.is_layout_sensitive:
        return True
    pairs = zip(listed.leaves, shape.leaves, strict=True)
    return all(
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
    from hlo_cli.ir.attributes.metadata import OriginalTuple, OriginalValue  # which few dumps have

    value = instruction.value_of("origin", OriginalValue)
    is_empty = (instruction.attribute("origin") or "").split() in (["{}"], ["{", "}"])
    return OriginalTuple(()) if is_empty else value.tree if value is not None else None


def _has_same_structure(tree: OriginalArray | OriginalTuple, shape: Shape) -> bool:
    from hlo_cli.ir.attributes.metadata import OriginalArray

    if isinstance(tree, OriginalArray):
        return not isinstance(shape, TupleShape)
    if not isinstance(shape, TupleShape) or len(tree.elements) != len(shape.elements):
        return False
    return all(_has_same_structure(a, b) for a, b in zip(tree.elements, shape.elements, strict=True))
