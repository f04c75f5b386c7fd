"""HLO094: what would not agree if layouts were compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.rules import buffers, computations, entry, fusions, shapes
from hlo_cli.report.finding import Finding

_COMPARING: Final = (
    shapes.wrong_shape,
    computations.other_layout,
    fusions.wrong_alias,
    buffers.unaliased_buffer,
    entry.entry_layout,
    entry.input_output_alias,
)
"""The rules that compare final layouts."""


@rule("HLO094", "layouts do not agree yet", severity="warning", is_default=False)
def unsettled_layouts(context: LintContext) -> Iterator[Finding]:
    """Where data only moves through, layouts or sizes in bytes differ in a module that is not scheduled.

    Why: while a module is compiled its layouts are still chosen, and XLA compares them only once they are settled. A
    module that is to go straight to a later stage must agree in them before, so this rule asks what the others would
    ask of a scheduled module (layout_sensitive). It is off, as passes that come first leave such differences.

    Example:
        s = (f32[2,3]{0,1}, f32[2,3]{1,0}, u32[]) copy-start(x)
        d = f32[2,3]{0,1} copy-done(s)

    Mend: write one layout on both sides, or put a copy between them.

    Reference: layout_sensitive in xla/service/hlo_verifier.h
    """
    if context.is_layout_sensitive or context.settings.layout_sensitive == "never":
        return
    settled = replace(context.settings, layout_sensitive="always")
    strict = LintContext(context.module, settled, context.rejections, context.verdicts)
    for each in _COMPARING:
        known = set(each.check(context))
        yield from (finding for finding in each.check(strict) if finding not in known)
