"""HLO03x: fusions, and custom calls, which may write into their operands too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.schedule.async_aliasing import aliased_parts
from hlo_cli.analysis.shapes.comparison import same_layout
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.attributes.custom_call import custom_call
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, subshape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding

_ALIASING: Final = "output_to_operand_aliasing"
_UNCONSTRAINED: Final = ("LayoutConstraint", "control_dep")
_ANY_ALIAS: Final = "xla_skip_custom_call_alias_shape_check"


@rule("HLO030", "fusion that is none")
def fusion_rules(context: LintContext) -> Iterator[Finding]:
    """A fusion does not fit its body, shares it with others, or holds what no kernel computes.

    Why: a fused computation is the body of one kernel: its parameters are the fusion's operands, its root the result,
    all that it computes leads there, and no other instruction runs it.

    Example:
        f {
          p = f32[2] parameter(0)
          lost = f32[2] exponential(p)
          ROOT n = f32[2] negate(p)
        }

    Mend: give each fusion a computation of its own, without what is not used; put loops, branches and transfers
    outside.

    Reference: CheckFusionInstruction in xla/service/hlo_verifier.cc; hlo fuse DUMP
    """
    yield from context.told(context.fusion_problems, "error")


@rule("HLO031", "odd fusion", severity="warning", is_default=False)
def odd_fusion(context: LintContext) -> Iterator[Finding]:
    """A fusion is allowed, but not as compilers make them.

    Why: a kind that does not fit what is inside, operands that the body does not take or results that are handed on
    in one piece are signs of an edit by hand or of a pass that left something behind. Compilers leave some, so this
    rule is off.

    Example:
        f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
        y = f32[2] fusion(x), kind=kInput, calls=f

    Mend: the message says what is asked for.

    Reference: HloInstruction::FusionKind in xla/hlo/ir/hlo_instruction.h; hlo fuse DUMP
    """
    yield from context.told(context.fusion_problems, "warning")


@rule("HLO032", "aliases what it cannot")
def wrong_alias(context: LintContext) -> Iterator[Finding]:
    """A custom call says that it writes into an operand, or a part of one, that is not there or not alike.

    Why: the result lies in the operand's buffer, so both must be there and of one shape; where layouts are settled, of
    one layout too.

    Example:
        y = f32[8] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (1, {})}

    Mend: name an operand of the result's shape, its indices from 0 on, or leave the alias out.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for instruction in context.saying(_ALIASING, opcodes.CUSTOM_CALL, opcodes.CALL, opcodes.FUSION):
        aliases = instruction.items_of(_ALIASING, OutputOperandAlias)
        place = attribute_span(instruction, _ALIASING)
        match instruction.opcode:
            case opcodes.CUSTOM_CALL:
                for alias in aliases:
                    if (message := _alias_problem(context, instruction, alias)) is not None:
                        yield context.finding(f"{instruction.name} cannot alias {alias}: {message}", instruction, place)
            case opcodes.CALL:
                yield context.finding(f"{instruction.name} is a call, which aliases nothing", instruction, place)
            case opcodes.FUSION if context.is_layout_sensitive and instruction.computation not in context.fused:
                for alias in aliases:
                    if (message := _layout_problem(instruction, alias)) is not None:
                        yield context.finding(f"{instruction.name} cannot alias {alias}: {message}", instruction, place)
    yield from _asynchronous_layouts(context) if context.is_layout_sensitive else ()


@rule("HLO033", "layout constraints do not fit")
def layout_constraints(context: LintContext) -> Iterator[Finding]:
    """A custom call whose layouts are constrained has another number of constraints than operands, or other shapes.

    Why: the layouts that a library expects are given operand by operand.

    Example:
        y = f32[2] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[3]{0}}

    Mend: list the shape of every operand, with the layout it must have.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        described = custom_call(call)
        constraints = described.operand_layout_constraints if described is not None else None
        if constraints is None or described is None or described.target in _UNCONSTRAINED:
            continue
        place = attribute_span(call, "operand_layout_constraints")
        if len(constraints) != len(call.operands):
            message = f"{call.name} has {len(constraints)} layout constraints for {len(call.operands)} operands"
            yield context.finding(message, call, place)
            continue
        for position, constraint in enumerate(constraints):
            if not compatible(constraint, call.operand_shape(position)):
                shape = call.operand_shape(position)
                yield context.finding(
                    f"operand {position} of {call.name} is {shape}, but is constrained to {constraint}", call, place
                )


@rule("HLO034", "random seed of another shape")
def rng_seed(context: LintContext) -> Iterator[Finding]:
    """A custom call of GetRngSeed takes operands, or gives something else than a scalar of u64.

    Why: the runtime hands out one seed of 64 bits.

    Example:
        seed = u32[] custom-call(), custom_call_target="GetRngSeed"

    Mend: write u64[] and convert behind it.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        if call.string("custom_call_target") == "GetRngSeed":
            shape = call.shape
            is_seed = isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.name == "u64"
            if call.operands or not is_seed:
                message = f"{call.name} is {shape} of {len(call.operands)} operands; a seed is u64[] of none"
                yield context.finding(message, call)


def _alias_problem(context: LintContext, call: Instruction, alias: OutputOperandAlias) -> str | None:
    output = subshape(call.shape, alias.output_index)
    if output is None:
        return f"{call.shape} has no such element"
    if not 0 <= alias.operand_number < len(call.operands):
        return f"there are {len(call.operands)} operands"
    operand = subshape(call.operand_shape(alias.operand_number), alias.operand_index)
    if operand is None:
        return f"operand {alias.operand_number} is {call.operand_shape(alias.operand_number)}"
    if call.frontend_attributes.get(_ANY_ALIAS) is not None:
        return None
    operand, output = _of_buffer(operand), _of_buffer(output)
    is_alike = compatible(operand, output)
    if is_alike and context.is_layout_sensitive:
        is_single = isinstance(operand, ArrayShape) and operand.elements == 1  # may be in another memory space
        is_alike = is_single or same_layout(operand, output)
    return None if is_alike else f"the operand is {operand}, the result {output}"


def _layout_problem(fusion: Instruction, alias: OutputOperandAlias) -> str | None:
    """The problem if only layouts differ; other differences are reported by the rules of fusions."""
    if not 0 <= alias.operand_number < len(fusion.operands):
        return None
    operand = subshape(fusion.operand_shape(alias.operand_number), alias.operand_index)
    return _other_layout(operand, subshape(fusion.shape, alias.output_index))


def _asynchronous_layouts(context: LintContext) -> Iterator[Finding]:
    """Aliases of starts and updates that differ only in layout; asynchronous rules report other differences."""
    for pair in context.async_pairs.pairs if next(context.saying(_ALIASING), None) is not None else ():
        for member in (pair.start, *pair.updates) if pair.form in ("generic", "sugared") else ():
            for alias in member.items_of(_ALIASING, OutputOperandAlias):
                if (message := _other_layout(*aliased_parts(pair, member, alias))) is not None:
                    message = f"{member.name} cannot alias {alias}: {message}"
                    yield context.finding(message, member, attribute_span(member, _ALIASING))


def _other_layout(operand: Shape | None, output: Shape | None) -> str | None:
    if operand is None or output is None or not compatible(operand, output) or same_layout(operand, output):
        return None
    return f"the operand is {operand}, the result {output}"


def _of_buffer(shape: Shape) -> Shape:
    return shape.array if isinstance(shape, BufferShape) else shape
