"""HLO90x: which assertions of an --expect file fail, and which cannot fail?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.query.patterns import is_product_opcode
from hlo_cli.ir.module import Module
from hlo_cli.lint.rule import LintContext, rule
from hlo_cli.report.findings import Finding
from hlo_cli.report.numbers import format_amount, format_count

if TYPE_CHECKING:
    from hlo_cli.analysis.query.assertions import AssertionResult, Part

_MODULES: Final = {
    "tpu": "TPU modules use",
    "gpu": "this GPU module uses",
    "cpu": "this CPU module uses",
    None: "this module uses",
}
# Three fit a line with their values; chosen.
_MAX_NAMED: Final = 3
"""The number of instructions that a message names."""


@rule("HLO901", "failed assertion", is_default=False, needs="text")
def failed_assertion(context: LintContext) -> Iterator[Finding]:
    """The module fails an assertion from the --expect file.

    Why: Assertions check your own limits on memory, collectives, copies, or fusions in every build. They count what a
    module does, not how a version of XLA writes it. With --golden, limits can be those of another dump.

    Example:
        expect = ["none(opcode == copy and bytes > 1MiB and loop)", "peak.hbm <= golden * 1.02"]

    Fix: Revert the change in the program, or update the assertion (see `hlo help expect`).

    Reference: `hlo help expect`
    """
    for verdict in context.verdicts:
        if verdict.is_met is False:
            assertion = verdict.expectation
            hint = f"required by {assertion.place}{f': {assertion.why}' if assertion.why else ''}"
            at = verdict.parts[0].instruction if verdict.parts else None
            message = f"expected {assertion}, {_words_found(verdict, context.module)}"
            yield context.finding(message, at, hint=hint, about=str(assertion), expectation=str(assertion))


@rule("HLO902", "misleading assertion", severity="warning", is_default=False)
def misleading_assertion(context: LintContext) -> Iterator[Finding]:
    """An assertion from the --expect file cannot fail on this module, or names an opcode that has another form in it.

    Why: An assertion that cannot fail finds no regression. The TPU compiler turns dots into convolutions, and on GPU
    and CPU, custom calls to libraries replace matmuls, sorts, and other operations. Fusions exist only after
    optimization, and padding only on TPU. A number of bytes is never negative: `bytes >= 0` matches every operation.

    Example:
        expect = ["none(opcode == dot and dtype == f32)", "sum(bytes) >= 0"]

    Fix: Write product, which matches a matmul in every form, or name the other form too; else remove or correct the
    condition. With --strict, the finding is an error.

    Reference: `hlo help expect`, `hlo help where`
    """
    for verdict in context.verdicts:
        # Lowered forms are another opcode for the same work, such as fusion for dot.
        assertion = verdict.expectation
        for each in verdict.lowered_forms:
            number = f" ({format_count(each.count, 'instructions')} here)" if each.count else ""
            message = f"{assertion} names {each.opcode}, but {_MODULES[context.target]} {each.form} instead{number}"
            hint = "use product, which matches both" if is_product_opcode(each.opcode) else f"also name {each.form}"
            yield context.finding(message, each.first, hint=f"{hint}, in {assertion.place}", about=str(assertion))
        for caution in verdict.cautions:
            hint = f"{caution.hint}, in {assertion.place}" if caution.hint else f"stated in {assertion.place}"
            message = f"{assertion}{' cannot fail' if caution.cannot_fail else ''}: {caution.message}"
            yield context.finding(message, hint=hint, about=str(assertion))


def _words_found(verdict: AssertionResult, module: Module) -> str:
    """The value found, and the first few instructions that contribute, with their amounts."""
    limit = f", limit {format_amount(verdict.limit or 0, verdict.kind)}" if verdict.has_computed_limit else ""
    return _value_words(verdict, module, limit)


def _value_words(verdict: AssertionResult, module: Module, limit: str) -> str:
    if verdict.found is None:
        return f"found no result ({verdict.remark})" if verdict.remark else "found no matching operations"
    is_some = verdict.found or verdict.kind == "share"
    head = f"found {format_amount(verdict.found, verdict.kind) if is_some else 'none'}{limit}"
    if not verdict.parts:
        return f"{head} ({verdict.remark})" if verdict.remark else head
    named = [_part_words(verdict, part, module) for part in verdict.parts[:_MAX_NAMED]]
    more = len(verdict.parts) - len(named)
    return f"{head}: {', '.join(named)}{f', and {more:,} more' if more else ''}"


def _part_words(verdict: AssertionResult, part: Part, module: Module) -> str:
    instruction = part.instruction
    words = [instruction.name]
    if part.value is not None:
        words.append(format_amount(part.value, verdict.parts_kind))
    if instruction.span is not None:
        words.append(f"(line {module.source.position(instruction.span.start).line})")
    return " ".join(words)
