"""HLO01x: shapes, operands, and attributes of each opcode."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.analysis.shapes.inference import precision_difference
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding


@rule("HLO010", "invalid shape or operands", needs="instructions")
def invalid_shape(context: LintContext) -> Iterator[Finding]:
    """The shape of an instruction does not follow from its opcode, operands, and attributes.

    Why: XLA infers the shape of a result from operands, attributes, and called computations, and rejects a module that
    states a different one. In scheduled modules, layouts must also match wherever data is passed through.

    Example:
        y = f32[3] negate(x)

    Fix: Write the expected shape, or pass operands of the intended shapes.

    Reference: xla/service/shape_inference.cc; ShapeVerifier in xla/service/hlo_verifier.cc
    """
    reported = {problem.at for problem in (*context.async_problems, *context.fusion_problems)}
    for problem in context.shape_problems:
        at = problem.instruction
        if not problem.is_precision and at not in reported:  # other rules report asynchronous ones and fusions
            yield context.finding(problem.message, at, shape_span(context.module, at) if problem.is_of_shape else None)


@rule("HLO011", "result precision mismatch", needs="instructions")
def result_precision(context: LintContext) -> Iterator[Finding]:
    """The shape is correct except for the width of its float type.

    Why: XLA rejects it, except where mixed precision is allowed: the TPU compiler replaces f32 by bf16 in late passes,
    so modules that it optimized are not checked (allow_mixed_precision=auto).

    Example:
        y = f16[2] negate(x)

    Fix: Use the type of the operands, or convert them.

    Reference: ShapeVerifier::CheckShape in xla/service/hlo_verifier.cc
    """
    for problem in context.shape_problems:
        if problem.is_precision:
            yield context.finding(problem.message, problem.instruction, shape_span(context.module, problem.instruction))


@rule("HLO012", "operand precision mismatch", needs="instructions")
def operand_precision(context: LintContext) -> Iterator[Finding]:
    """An instruction has float operands of different widths.

    Why: XLA rejects it, because the type of the computation is ambiguous. Modules that the TPU compiler has optimized
    are not checked (allow_mixed_precision=auto).

    Example:
        z = f32[2] add(x, h)

    Fix: Convert one of the operands.

    Reference: CheckMixedPrecisionOperands in xla/service/hlo_verifier.cc
    """
    for instruction in context.module.instructions if not context.allows_mixed_precision else ():
        if (difference := precision_difference(instruction)) is not None:
            yield context.finding(f"{instruction.name}: {difference}", instruction)
