"""HLO90x: what a team expects of its modules, stated in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.query.lowered_forms import is_product_opcode
from hlo_cli.ir.module import Module
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_amount

if TYPE_CHECKING:
    from hlo_cli.analysis.query.assertions import AssertionResult, Part

_TARGETS: Final = {"tpu": "a TPU", "gpu": "this GPU module", "cpu": "this CPU module", None: "this module"}
_NAMED: Final = 3
"""The number of instructions that a message names."""


@rule("HLO901", "expectation not met", is_default=False, needs="text")
def not_met(context: LintContext) -> Iterator[Finding]:
    """A module does not keep what a file of expectations states, which --expect names.

    Why: limits that a team has set itself, on memory, collectives, copies or fusions, are checked in every build;
    what counts is what a module does, not how a version of XLA spells it.

    Example:
        expect = ["none(opcode == copy and bytes > 1MiB and loop)"]

    Mend: undo what changed in the program, or state the new limit; hlo help expect has the language.

    Reference: hlo help expect
    """
    for verdict in context.verdicts:
        if verdict.is_met is False:
            stated = verdict.expectation
            hint = f"{stated.place} states it{f': {stated.why}' if stated.why else ''}"
            at = verdict.parts[0].instruction if verdict.parts else None
            message = f"expected {stated}, {_found(verdict, context.module)}"
            yield context.finding(message, at, hint=hint, about=str(stated), expectation=str(stated))


@rule("HLO902", "expectation about what has another name", severity="warning", is_default=False)
def other_names(context: LintContext) -> Iterator[Finding]:
    """A file of expectations names an opcode that this module spells in another way.

    Why: a TPU's compiler writes dots as convolutions, and on GPUs and CPUs libraries take over products, sorts and
    more by custom calls. What is expected of the opcode is then met, or not met, for the wrong reason.

    Example:
        expect = ["none(opcode == dot and dtype == f32)"]

    Mend: write product, which is true of a product of matrices in every spelling, or name the other spelling too.

    Reference: hlo help expect, hlo help where
    """
    for verdict in context.verdicts:
        for each in verdict.lowered_forms:
            stated = verdict.expectation
            number = f" ({each.count:,} here)" if each.count else ""
            message = f"{stated} names {each.opcode}, which {_TARGETS[context.target]} has as {each.form}{number}"
            hint = "product is true of both" if is_product_opcode(each.opcode) else f"name {each.form} too"
            yield context.finding(message, each.first, hint=f"{hint}; {stated.place} states it", about=str(stated))


def _found(verdict: AssertionResult, module: Module) -> str:
    """The value found, and the first few instructions that contribute, with their amounts."""
    if verdict.found is None:
        return verdict.remark or "found nothing that counts"
    head = f"found {format_amount(verdict.found, verdict.kind) if verdict.found else 'none'}"
    if not verdict.parts:
        return f"{head}: {verdict.remark}" if verdict.remark else head
    named = [_named(verdict, part, module) for part in verdict.parts[:_NAMED]]
    more = len(verdict.parts) - len(named)
    return f"{head}: {', '.join(named)}{f' and {more:,} more' if more else ''}"


def _named(verdict: AssertionResult, part: Part, module: Module) -> str:
    instruction = part.instruction
    words = [instruction.name]
    if part.value is not None:
        words.append(format_amount(part.value, verdict.kind))
    if instruction.span is not None:
        words.append(f"(line {module.source.position(instruction.span.start).line})")
    return " ".join(words)
