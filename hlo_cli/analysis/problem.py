"""A violation of a rule of XLA's verifier, as reported by checks of fusions and async operations."""

from __future__ import annotations

from typing import NamedTuple

from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import Diagnostic, Severity, Source


class Problem(NamedTuple):
    """A violation: instruction, message, and severity.

    A warning applies to some XLA releases, a note only to older ones. `code` is that of the rule, "" until it is
    known.
    """

    instruction: Instruction
    message: str
    severity: Severity = "error"
    hint: str | None = None
    code: str = ""

    def diagnostic(self, source: Source) -> Diagnostic:
        """Returns the violation as a diagnostic with the instruction's name and its span in `source`.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("s = (f32[4], f32[4], u32[]) copy-start(f32[4] p)")
        >>> diagnostic = Problem(module.entry.root, "no done").diagnostic(module.source)
        >>> print(diagnostic, diagnostic.instruction)
        text:1:1: error: no done s
        """
        instruction = self.instruction
        return Diagnostic(
            self.severity,
            self.message,
            source,
            instruction.span,
            self.hint,
            self.code,
            instruction=instruction.name,
            computation=instruction.computation.name,
        )
