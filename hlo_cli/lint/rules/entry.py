"""HLO07x: the module as a whole: its entry, what shares buffers, and the order of its instructions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.shapes.comparison import same_layout
from hlo_cli.ir.attributes.aliasing import Alias, BufferDonor
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape, subshape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span, header_span
from hlo_cli.lint.structure import start_around
from hlo_cli.report.finding import Finding

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.origin import OriginalArray, OriginalTuple

_LAYOUT: Final = "entry_computation_layout"
_ALIAS: Final = "input_output_alias"
_DONOR: Final = "buffer_donor"
_CUT_OUT: Final = "extracted"
"""Mark in the name of a module that the TPU compiler extracts for other cores, with the header of the whole module."""
_RENAMED: Final = (".remat", ".clone")


@rule("HLO070", "entry layout is not that of the entry")
def entry_layout(context: LintContext) -> Iterator[Finding]:
    """entry_computation_layout lists other parameters or another result than the entry computation has.

    Why: the runtime allocates arguments and results by the header; the program reads and writes what the entry says.

    Example:
        HloModule m, entry_computation_layout={(f32[2]{0})->f32[3]{0}}

    Mend: bring the header into line; memory spaces, tiles and tail padding may differ, types, sizes and, once
    scheduled, the order of dimensions may not.

    Reference: VerifyEntryComputationLayout in xla/service/hlo_verifier.cc
    """
    layout, entry = context.module.entry_computation_layout, context.module.entry
    if layout is None or context.module.name.startswith(_CUT_OUT):
        return
    place = header_span(context.module, _LAYOUT)
    if len(layout.parameters) != len(entry.parameters):
        message = f"{_LAYOUT} has {len(layout.parameters)} parameters, {entry.name} has {len(entry.parameters)}"
        yield context.finding(message, span=place, about="parameters")
        return
    for number, (listed, parameter) in enumerate(zip(layout.parameters, entry.parameters, strict=True)):
        if not _is_same_but_space(context, listed, parameter.shape):
            message = f"{_LAYOUT} has {listed} as parameter {number}, {parameter.name} is {parameter.shape}"
            yield context.finding(message, span=place, about=f"parameter {number}")
    if entry.root is not None and not _is_same_but_space(context, layout.result, entry.root.shape):
        message = f"{_LAYOUT} has {layout.result} as result, {entry.root.name} is {entry.root.shape}"
        yield context.finding(message, span=place, about="result")


@rule("HLO071", "aliased results and parameters do not fit")
def input_output_alias(context: LintContext) -> Iterator[Finding]:
    """input_output_alias names a parameter or a result that is not there, is a tuple, has another size, or is taken.

    Why: a result that overwrites a parameter needs the same bytes, and one buffer can hold one result.

    Example:
        HloModule m, input_output_alias={ {}: (3, {}, may-alias) }

    Mend: alias arrays of one size, each at most once; must-alias pairs need one layout and memory space as well.

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
            message = "the result is aliased already"
        elif message is None and leaf in parameters:
            message = "the parameter is aliased already"
        elif message is None and alias.kind == "must-alias":
            message = _must_alias_problem(context, alias.output_index, *leaf)
        outputs.add(alias.output_index)
        parameters.add(leaf)
        if message is not None:
            yield context.finding(f"{_ALIAS} {alias}: {message}", span=place, about=str(alias))


@rule("HLO072", "donated buffer is not there")
def buffer_donor(context: LintContext) -> Iterator[Finding]:
    """buffer_donor names a parameter that is not there or is a tuple, or one that input_output_alias gives away.

    Why: a donated buffer may be used for any result; one that is aliased is used already.

    Example:
        HloModule m, buffer_donor={ (3, {}) }

    Mend: name arrays among the parameters, each in one of the two attributes.

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
            message = _no_array(context, *leaf)
        elif leaf in aliased:
            message = "input_output_alias gives it away already"
        if message is not None:
            yield context.finding(f"{_DONOR} {donor}: {message}", span=header_span(module, _DONOR), about=str(donor))


@rule("HLO073", "used before it is made")
def order(context: LintContext) -> Iterator[Finding]:
    """An instruction stands before one whose value it takes, or before one that control-predecessors puts first.

    Why: the order of a scheduled module is the order in which it runs, and XLA's parser knows only what stands above.

    Example:
        y = f32[2] negate(x), control-predecessors={z}
        z = f32[2] exponential(x)

    Mend: move it behind what it needs.

    Reference: HloSchedule::Verify in xla/hlo/ir/hlo_schedule.cc
    """
    for instruction in context.module.instructions:
        for operand in instruction.operands:
            if operand.computation is instruction.computation and operand.index >= instruction.index:
                yield context.finding(f"{instruction.name} takes {operand.name}, which comes later", instruction)
    names: dict[Computation, dict[str, Instruction]] = {}
    for instruction in context.saying("control-predecessors"):
        computation = instruction.computation
        if computation not in names:
            names[computation] = {each.name: each for each in reversed(computation.instructions)}
        for name in instruction.control_predecessors:
            before = names[computation].get(name.removeprefix("%"))
            if before is None:
                message = f"{instruction.name} comes after {name}, which {instruction.computation.name} does not have"
                yield context.finding(message, instruction, attribute_span(instruction, "control-predecessors"))
            elif before.index >= instruction.index:
                message = f"{instruction.name} stands before {name}, but must run after it"
                yield context.finding(message, instruction, attribute_span(instruction, "control-predecessors"))


@rule("HLO074", "origin of another structure")
def origin(context: LintContext) -> Iterator[Finding]:
    """The origin of a value has other leaves than its shape.

    Why: it says for every array of a value which one of the original program it is.

    Example:
        t = (f32[2], f32[3]) tuple(x, y), origin={{"a"}}

    Mend: write one origin, or an empty pair of braces, for each leaf.

    Reference: VerifyOriginalValue in xla/service/hlo_verifier.cc
    """
    for instruction in context.saying("origin={"):
        tree = _origin_tree(instruction)
        if tree is not None and not _is_alike(tree, instruction.shape):
            message = f"{instruction.name} is {instruction.shape}, but its origin is {instruction.value('origin')}"
            yield context.finding(message, instruction, attribute_span(instruction, "origin"))


@rule("HLO075", "scheduled under another name", severity="warning", is_default=False)
def scheduling_name(context: LintContext) -> Iterator[Finding]:
    """An instruction's scheduling_name is not its name.

    Why: the name under which an instruction was scheduled stays while passes rename it, so profiles taken of one do
    not fit the other. Some pipelines of XLA ask that they agree, so this rule is off.

    Example:
        y = f32[2] negate(x), metadata={scheduling_name="z"}

    Mend: rename the instruction, or schedule anew; copies made by .remat and .clone keep the old name, and what an
    async-start wraps has that of the operations outside.

    Reference: verify_instruction_name_unchanged in xla/service/hlo_verifier.h
    """
    for instruction in context.saying("scheduling_name="):
        name = instruction.metadata.scheduling_name
        is_other = name and name != instruction.name and not any(mark in instruction.name for mark in _RENAMED)
        if is_other and start_around(context.module, instruction) is None:
            place = attribute_span(instruction, "metadata")
            yield context.finding(f"{instruction.name} was scheduled as {name}", instruction, place)


def _is_same_but_space(context: LintContext, listed: Shape, shape: Shape) -> bool:
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


def _no_array(context: LintContext, number: int, index: ShapeIndex) -> str:
    parameters = context.module.entry.parameters
    if not 0 <= number < len(parameters):
        return f"the entry has {len(parameters)} parameters"
    return f"parameter {number} is {parameters[number].shape}, which has no array at {index_text(index)}"


def _alias_problem(context: LintContext, output_index: ShapeIndex, number: int, index: ShapeIndex) -> str | None:
    root = context.module.entry.root
    output = subshape(root.shape, output_index) if root is not None else None
    parameter = _parameter_part(context, number, index)
    if not isinstance(parameter, ArrayShape):
        return _no_array(context, number, index)
    if not isinstance(output, ArrayShape):
        return f"the result has no array at {index_text(output_index)}"
    if context.is_layout_sensitive and output.padded_bytes != parameter.padded_bytes:
        return f"the result takes {output.padded_bytes} bytes, the parameter {parameter.padded_bytes}"
    return None


def _must_alias_problem(context: LintContext, output_index: ShapeIndex, number: int, index: ShapeIndex) -> str | None:
    layout = context.module.entry_computation_layout
    if layout is None or number >= len(layout.parameters):
        return None
    result, parameter = subshape(layout.result, output_index), subshape(layout.parameters[number], index)
    if result is None or parameter is None or (compatible(result, parameter) and same_layout(result, parameter)):
        return None
    return f"it must, but the result is {result} and the parameter {parameter}"


def _origin_tree(instruction: Instruction) -> OriginalArray | OriginalTuple | None:
    """The original values in the text, or None if they cannot be read."""
    from hlo_cli.ir.attributes.origin import OriginalTuple, OriginalValue  # which few dumps have

    value = instruction.value_of("origin", OriginalValue)
    is_empty = (instruction.attribute("origin") or "").split() in (["{}"], ["{", "}"])
    return OriginalTuple(()) if is_empty else value.tree if value is not None else None


def _is_alike(tree: OriginalArray | OriginalTuple, shape: Shape) -> bool:
    from hlo_cli.ir.attributes.origin import OriginalArray

    if isinstance(tree, OriginalArray):
        return not isinstance(shape, TupleShape)
    if not isinstance(shape, TupleShape) or len(tree.elements) != len(shape.elements):
        return False
    return all(_is_alike(a, b) for a, b in zip(tree.elements, shape.elements, strict=True))
