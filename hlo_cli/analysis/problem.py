"""A rule of XLA's verifier that an instruction breaks, as checks of fusions and asynchronous operations say it."""

from __future__ import annotations

from typing import NamedTuple

from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import Diagnostic, Severity, Source


class Problem(NamedTuple):
    """An instruction that breaks a rule, and how; a warning where not every XLA minds, a note where only older does.

    `code` is the rule's, which whoever asks all rules knows.
    """

    at: Instruction
    message: str
    severity: Severity = "error"
    hint: str | None = None
    code: str = ""

    def diagnostic(self, source: Source) -> Diagnostic:
        """The same to be shown: the instruction by its name and its place in the module's text.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("s = (f32[4], f32[4], u32[]) copy-start(f32[4] p)")
        >>> diagnostic = Problem(module.entry.root, "no done").diagnostic(module.source)
        >>> print(diagnostic, diagnostic.instruction)
        text:1:1: error: no done s
        """
        at = self.at
        return Diagnostic(
            self.severity,
            self.message,
            source,
            at.span,
            self.hint,
            self.code,
            instruction=at.name,
            computation=at.computation.name,
        )
