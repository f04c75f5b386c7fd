"""Lint rules: `run.lint_module` runs those that `run.selected_rules` selects, each a function under `rules`, registered
by `rule.rule`, which gets a `rule.LintContext`. The package itself can be called: `hlo_cli.lint(module)`.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # importing typing would cost as much as the package
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.query.assertions import AssertionResult
    from hlo_cli.ir.module import Module
    from hlo_cli.lint.run import FindingList
    from hlo_cli.lint.settings import LintSettings
    from hlo_cli.source import Diagnostic


class _Lint(ModuleType):
    # A function of this name could not stand beside the package: importing any of its files would put it in its place.
    def __call__(
        self,
        module: Module,
        settings: LintSettings | None = None,
        *,
        rejections: Sequence[Diagnostic] = (),
        verdicts: Sequence[AssertionResult] = (),
        chip: ChipSpec | str | None = None,
    ) -> FindingList:
        """The findings of the rules: `lint_module`.

        >>> import hlo_cli
        >>> module = hlo_cli.parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[3] negate(p) }")
        >>> [finding.code for finding in hlo_cli.lint(module)]
        ['HLO010']
        """
        from hlo_cli.lint.run import lint_module

        return lint_module(module, settings, rejections=rejections, verdicts=verdicts, chip=chip)


sys.modules[__name__].__class__ = _Lint
