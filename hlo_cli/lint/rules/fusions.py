"""HLO03x: fusions and custom calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.schedule.async_verifier import aliased_parts
from hlo_cli.analysis.shapes.inference import same_layout
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Instruction, custom_call
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, compatible, subshape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_count

_ALIASING: Final = "output_to_operand_aliasing"
_UNCONSTRAINED: Final = ("LayoutConstraint", "control_dep")
_ANY_ALIAS: Final = "xla_skip_custom_call_alias_shape_check"


@rule("HLO030", "malformed fusion")
def malformed_fusion(context: LintContext) -> Iterator[Finding]:
    """A fusion does not match its body, shares its body, or contains operations that cannot be fused.

    Why: A fused computation is the body of one kernel: its parameters are the operands of the fusion, its root is the
    result, every instruction contributes to the root, and no other instruction calls it.

    Example:
        f {
          p = f32[2] parameter(0)
          lost = f32[2] exponential(p)
          ROOT n = f32[2] negate(p)
        }

    Fix: Give each fusion its own computation without dead code. Keep loops, branches, and transfers outside.

    Reference: CheckFusionInstruction in xla/service/hlo_verifier.cc; `hlo fuse DUMP`
    """
    yield from context.findings_of(context.fusion_problems, "error")


@rule("HLO031", "unusual fusion", severity="warning", is_default=False)
def unusual_fusion(context: LintContext) -> Iterator[Finding]:
    """A fusion is valid but unlike those that compilers produce.

    Why: A kind that does not match the body, unused operands, or results that are used as a whole tuple point to a
    manual edit or an incomplete pass. Off by default, because compilers leave some of these.

    Example:
        f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
        y = f32[2] fusion(x), kind=kInput, calls=f

    Fix: See the finding: it names the unusual property.

    Reference: HloInstruction::FusionKind in xla/hlo/ir/hlo_instruction.h; `hlo fuse DUMP`
    """
    yield from context.findings_of(context.fusion_problems, "warning")


@rule("HLO032", "invalid output-to-operand aliasing")
def invalid_alias(context: LintContext) -> Iterator[Finding]:
    """A custom call aliases an operand that does not exist or has a different shape.

    Why: The result is stored in the buffer of the operand, so both must have the same shape, and also the same layout
    once layouts are assigned.

    Example:
        y = f32[8] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (1, {})}

    Fix: Alias an operand with the shape of the result, or remove the alias.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for instruction in context.with_attribute_text(_ALIASING, opcodes.CUSTOM_CALL, opcodes.CALL, opcodes.FUSION):
        aliases = instruction.items_of(_ALIASING, OutputOperandAlias)
        place = attribute_span(instruction, _ALIASING)
        match instruction.opcode:
            case opcodes.CUSTOM_CALL:
                for alias in aliases:
                    if (message := _alias_problem(context, instruction, alias)) is not None:
                        yield context.finding(
                            f"invalid alias {alias} on {instruction.name}: {message}", instruction, place
                        )
            case opcodes.CALL:
                yield context.finding(f"{instruction.name}: call does not support {_ALIASING}", instruction, place)
            case opcodes.FUSION if context.is_layout_sensitive and instruction.computation not in context.fused:
                for alias in aliases:
                    if (message := _layout_problem(instruction, alias)) is not None:
                        yield context.finding(
                            f"invalid alias {alias} on {instruction.name}: {message}", instruction, place
                        )
    yield from _asynchronous_layouts(context) if context.is_layout_sensitive else ()


@rule("HLO033", "invalid operand layout constraints")
def layout_constraints(context: LintContext) -> Iterator[Finding]:
    """A custom call has a different number of layout constraints than operands, or constraints with different shapes.

    Why: Each constraint states the layout that a library requires for one operand.

    Example:
        y = f32[2] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[3]{0}}

    Fix: List the shape of every operand with its required layout.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        described = custom_call(call)
        constraints = described.operand_layout_constraints if described is not None else None
        if constraints is None or described is None or described.target in _UNCONSTRAINED:
            continue
        place = attribute_span(call, "operand_layout_constraints")
        if len(constraints) != len(call.operands):
            operands = format_count(len(call.operands), "operands")
            message = f"{call.name} has {format_count(len(constraints), 'layout constraints')} but {operands}"
            yield context.finding(message, call, place)
            continue
        for position, constraint in enumerate(constraints):
            if not compatible(constraint, call.operand_shape(position)):
                shape = call.operand_shape(position)
                yield context.finding(
                    f"operand {position} of {call.name} is {shape}, but its layout constraint is {constraint}",
                    call,
                    place,
                )


@rule("HLO034", "invalid GetRngSeed call")
def rng_seed(context: LintContext) -> Iterator[Finding]:
    """A GetRngSeed call has operands or does not return a u64 scalar.

    Why: The runtime supplies one 64-bit seed and takes no arguments.

    Example:
        seed = u32[] custom-call(), custom_call_target="GetRngSeed"

    Fix: Return u64[] and convert afterwards.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        if call.string("custom_call_target") == "GetRngSeed":
            shape = call.shape
            is_seed = isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.name == "u64"
            if call.operands or not is_seed:
                operands = format_count(len(call.operands), "operands")
                message = (
                    f"{call.name} returns {shape} and has {operands}; GetRngSeed returns u64[] and has no operands"
                )
                yield context.finding(message, call)


def _alias_problem(context: LintContext, call: Instruction, alias: OutputOperandAlias) -> str | None:
    output = subshape(call.shape, alias.output_index)
    if output is None:
        return f"the result ({call.shape}) has no element {index_text(alias.output_index)}"
    if not 0 <= alias.operand_number < len(call.operands):
        return f"the call has {format_count(len(call.operands), 'operands')}"
    operand = subshape(call.operand_shape(alias.operand_number), alias.operand_index)
    if operand is None:
        shape = call.operand_shape(alias.operand_number)
        return f"operand {alias.operand_number} ({shape}) has no element {index_text(alias.operand_index)}"
    if call.frontend_attributes.get(_ANY_ALIAS) is not None:
        return None
    operand, output = _of_buffer(operand), _of_buffer(output)
    is_alike = compatible(operand, output)
    if is_alike and context.is_layout_sensitive:
        is_single = isinstance(operand, ArrayShape) and operand.elements == 1  # may be in another memory space
        is_alike = is_single or same_layout(operand, output)
    return None if is_alike else f"the operand is {operand}, but the result is {output}"


def _layout_problem(fusion: Instruction, alias: OutputOperandAlias) -> str | None:
    """The problem if only layouts differ; other differences are reported by the rules of fusions."""
    if not 0 <= alias.operand_number < len(fusion.operands):
        return None
    operand = subshape(fusion.operand_shape(alias.operand_number), alias.operand_index)
    return _layout_difference(operand, subshape(fusion.shape, alias.output_index))


def _asynchronous_layouts(context: LintContext) -> Iterator[Finding]:
    """Aliases of starts and updates that differ only in layout; asynchronous rules report other differences."""
    for pair in context.async_pairs.pairs if next(context.with_attribute_text(_ALIASING), None) is not None else ():
        for member in (pair.start, *pair.updates) if pair.form in ("generic", "sugared") else ():
            for alias in member.items_of(_ALIASING, OutputOperandAlias):
                if (message := _layout_difference(*aliased_parts(pair, member, alias))) is not None:
                    message = f"invalid alias {alias} on {member.name}: {message}"
                    yield context.finding(message, member, attribute_span(member, _ALIASING))


def _layout_difference(operand: Shape | None, output: Shape | None) -> str | None:
    if operand is None or output is None or not compatible(operand, output) or same_layout(operand, output):
        return None
    return f"the operand is {operand}, but the result is {output}"


def _of_buffer(shape: Shape) -> Shape:
    return shape.array if isinstance(shape, BufferShape) else shape
