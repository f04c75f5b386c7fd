"""HLO01x: shapes, and whether operands and attributes fit the opcode."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.analysis.shapes.comparison import precision_difference
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding


@rule("HLO010", "shape or operands do not fit the opcode", needs="instructions")
def wrong_shape(context: LintContext) -> Iterator[Finding]:
    """An instruction has another shape than its opcode gives, or takes operands or attributes that it cannot take.

    Why: XLA computes the shape of a result from operands, attributes and called computations, and rejects a module in
    which another one is written. Where a module is scheduled, layouts count as well wherever data only moves through.

    Example:
        y = f32[3] negate(x)

    Mend: write the shape that is expected, or give operands of the shapes that were meant.

    Reference: xla/service/shape_inference.cc; ShapeVerifier in xla/service/hlo_verifier.cc
    """
    told = {problem.at for problem in (*context.async_problems, *context.fusion_problems)}
    for problem in context.shape_problems:
        at = problem.instruction
        if not problem.is_precision and at not in told:  # other rules report asynchronous ones and fusions
            yield context.finding(problem.message, at, shape_span(context.module, at) if problem.is_of_shape else None)


@rule("HLO011", "result of another precision", needs="instructions")
def wrong_precision(context: LintContext) -> Iterator[Finding]:
    """A shape is right but for the width of its float type.

    Why: XLA rejects it, except where mixed precision is allowed, as it is behind the passes of the TPU compiler that
    put bf16 in place of f32; what those write is not looked at (mixed_precision = "auto").

    Example:
        y = f16[2] negate(x)

    Mend: write the type of the operands, or convert them.

    Reference: ShapeVerifier::CheckShape in xla/service/hlo_verifier.cc
    """
    for problem in context.shape_problems:
        if problem.is_precision:
            yield context.finding(problem.message, problem.instruction, shape_span(context.module, problem.instruction))


@rule("HLO012", "operands of different precisions", needs="instructions")
def mixed_precision(context: LintContext) -> Iterator[Finding]:
    """An instruction takes floats of different widths.

    Why: XLA rejects it before precision is lowered, as it cannot tell in which type to compute; what the TPU compiler
    has lowered itself is not looked at (mixed_precision = "auto").

    Example:
        z = f32[2] add(x, h)

    Mend: convert one of the operands.

    Reference: CheckMixedPrecisionOperands in xla/service/hlo_verifier.cc
    """
    for instruction in context.module.instructions if not context.allows_mixed_precision else ():
        if (difference := precision_difference(instruction)) is not None:
            yield context.finding(f"{instruction.name}: {difference}", instruction)
