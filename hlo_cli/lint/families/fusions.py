"""HLO03x: fusions, and custom calls, which may write into their operands too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.async_pairs import COLLECTIVES
from hlo_cli.analysis.shape_comparison import same_layout
from hlo_cli.ir.aliasing import OutputOperandAlias
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.custom_call import custom_call
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, subshape
from hlo_cli.lint.finding import Finding
from hlo_cli.lint.places import attribute_span
from hlo_cli.lint.registry import rule
from hlo_cli.lint.subject import Subject

_ALIASING: Final = "output_to_operand_aliasing"
_UNCONSTRAINED: Final = ("LayoutConstraint", "control_dep")
_ANY_ALIAS: Final = "xla_skip_custom_call_alias_shape_check"


@rule("HLO030", "fused computation is not its fusion's own")
def shared_fusion(subject: Subject) -> Iterator[Finding]:
    """A fusion calls no computation or several, or one that something else calls or runs too.

    Why: a fused computation is the body of one kernel; a pass that changes it for one fusion would change another.

    Example:
        y = f32[2] fusion(x), kind=kLoop, calls=f
        z = f32[2] call(x), to_apply=f

    Mend: give each fusion a computation of its own, a clone where two do the same.

    Reference: VerifyFusionInstruction and CheckFusionInstruction in xla/service/hlo_verifier.cc
    """
    callers: dict[Computation, list[Instruction]] = {}
    for instruction in subject.module.instructions:
        for called in instruction.called_computations:
            if called in subject.fused:
                callers.setdefault(called, []).append(instruction)
    for fusion in subject.of("fusion"):
        if len(fusion.called_computations) != 1:
            yield Finding(f"{fusion.name} calls {len(fusion.called_computations)} computations, not one", fusion)
            continue
        body = fusion.called_computations[0]
        others = [caller for caller in callers[body] if caller is not fusion]
        if others and (others[0].opcode != "fusion" or callers[body][0] is not fusion):
            yield Finding(f"{body.name}, which {fusion.name} fuses, is called by {others[0].name} too", fusion)
        if body.is_entry:
            yield Finding(f"{fusion.name} fuses the entry computation", fusion)


@rule("HLO031", "dead code in a fusion, or a root that is used")
def dead_in_fusion(subject: Subject) -> Iterator[Finding]:
    """In a fused computation an instruction's value is used by nobody, or the root's by another instruction.

    Why: all that a kernel computes leads to its root, the last of it; dead code in fusions is a sign of a pass that
    left something behind, and XLA rejects it.

    Example:
        f {
          p = f32[2] parameter(0)
          lost = f32[2] exponential(p)
          ROOT n = f32[2] negate(p)
        }

    Mend: remove what is not used, or make it part of the root's tuple.

    Reference: "Non-root instruction … must have users" in xla/service/hlo_verifier.cc
    """
    for computation in subject.module.computations:
        if computation not in subject.fused:
            continue
        for instruction in computation.instructions:
            users = subject.users[instruction]
            if instruction.is_root and users:
                yield Finding(
                    f"{instruction.name} is the root of {computation.name}, but {users[0].name} uses it", users[0]
                )
            elif not (users or instruction.is_root or instruction.opcode == "parameter" or _has_effect(instruction)):
                yield Finding(f"nothing in {computation.name} uses {instruction.name}", instruction)


@rule("HLO032", "aliases what it cannot")
def wrong_alias(subject: Subject) -> Iterator[Finding]:
    """A fusion or a custom call says that it writes into an operand, or a part of one, that is not there or not alike.

    Why: the result lies in the operand's buffer, so both must be there and of one shape; where layouts are settled, of
    one layout too.

    Example:
        y = f32[8] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (1, {})}

    Mend: name an operand of the result's shape, its indices from 0 on, or leave the alias out.

    Reference: CheckFusionOperandAliasing, HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for instruction in subject.saying(_ALIASING):
        if instruction.opcode in ("fusion", "custom-call"):
            for alias in instruction.items_of(_ALIASING, OutputOperandAlias):
                if (message := _alias_problem(subject, instruction, alias)) is not None:
                    place = attribute_span(instruction, _ALIASING)
                    yield Finding(f"{instruction.name} cannot alias {alias}: {message}", instruction, place)
        elif instruction.opcode == "call":
            place = attribute_span(instruction, _ALIASING)
            yield Finding(f"{instruction.name} is a call, which aliases nothing", instruction, place)


@rule("HLO033", "layout constraints do not fit")
def layout_constraints(subject: Subject) -> Iterator[Finding]:
    """A custom call whose layouts are constrained has another number of constraints than operands, or other shapes.

    Why: the layouts that a library expects are given operand by operand.

    Example:
        y = f32[2] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[3]{0}}

    Mend: list the shape of every operand, with the layout it must have.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in subject.of("custom-call"):
        described = custom_call(call)
        constraints = described.operand_layout_constraints if described is not None else None
        if constraints is None or described is None or described.target in _UNCONSTRAINED:
            continue
        place = attribute_span(call, "operand_layout_constraints")
        if len(constraints) != len(call.operands):
            message = f"{call.name} has {len(constraints)} layout constraints for {len(call.operands)} operands"
            yield Finding(message, call, place)
            continue
        for position, constraint in enumerate(constraints):
            if not compatible(constraint, call.operand_shape(position)):
                shape = call.operand_shape(position)
                yield Finding(
                    f"operand {position} of {call.name} is {shape}, but is constrained to {constraint}", call, place
                )


@rule("HLO034", "random seed of another shape")
def rng_seed(subject: Subject) -> Iterator[Finding]:
    """A custom call of GetRngSeed takes operands, or gives something else than a scalar of u64.

    Why: the runtime hands out one seed of 64 bits.

    Example:
        seed = u32[] custom-call(), custom_call_target="GetRngSeed"

    Mend: write u64[] and convert behind it.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in subject.of("custom-call"):
        if call.string("custom_call_target") == "GetRngSeed":
            shape = call.shape
            is_seed = isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.name == "u64"
            if call.operands or not is_seed:
                message = f"{call.name} is {shape} of {len(call.operands)} operands; a seed is u64[] of none"
                yield Finding(message, call)


def _has_effect(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    if opcode == "custom-call":
        return instruction.flag("custom_call_has_side_effect")
    return opcode in COLLECTIVES or opcode in ("infeed", "outfeed", "send", "send-done", "recv", "recv-done", "rng")


def _alias_problem(subject: Subject, instruction: Instruction, alias: OutputOperandAlias) -> str | None:
    output = subshape(instruction.shape, alias.output_index)
    if output is None:
        return f"{instruction.shape} has no such element"
    if alias.operand_number >= len(instruction.operands):
        return f"there are {len(instruction.operands)} operands"
    operand = subshape(instruction.operand_shape(alias.operand_number), alias.operand_index)
    if operand is None:
        return f"operand {alias.operand_number} is {instruction.operand_shape(alias.operand_number)}"
    if instruction.opcode == "custom-call" and instruction.frontend_attributes.get(_ANY_ALIAS) is not None:
        return None
    operand, output = _of_buffer(operand), _of_buffer(output)
    if compatible(operand, output) and (
        not subject.is_layout_sensitive or _same_bytes(subject, instruction, operand, output)
    ):
        return None
    return f"the operand is {operand}, the result {output}"


def _same_bytes(subject: Subject, instruction: Instruction, operand: Shape, output: Shape) -> bool:
    """Whether layouts agree; fusions within fusions may differ in tiles and spaces, single elements in space."""
    if same_layout(operand, output) or instruction.computation in subject.fused:
        return True
    if not isinstance(operand, ArrayShape) or not isinstance(output, ArrayShape):
        return False
    return instruction.opcode == "custom-call" and operand.elements == 1


def _of_buffer(shape: Shape) -> Shape:
    return shape.array if isinstance(shape, BufferShape) else shape
