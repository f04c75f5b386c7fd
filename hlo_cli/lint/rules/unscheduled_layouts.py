"""HLO094: layout mismatches in modules that are not scheduled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.rules import buffers, computations, entry, fusions, shapes
from hlo_cli.report.finding import Finding

_COMPARING: Final = (
    shapes.invalid_shape,
    computations.layout_mismatch,
    fusions.invalid_alias,
    buffers.unaliased_buffer,
    entry.entry_layout,
    entry.input_output_alias,
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
    strict = LintContext(context.module, settled, context.rejections, context.verdicts, context.chip)
    for each in _COMPARING:
        known = set(each.check(context))
        yield from (finding for finding in each.check(strict) if finding not in known)
