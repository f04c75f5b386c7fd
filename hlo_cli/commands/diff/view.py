"""Which differences are shown, and in how much detail."""

from __future__ import annotations

from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.analysis.origin.origins import By
from hlo_cli.analysis.statements.operations import is_same_text
from hlo_cli.commands.diff.conditions import Condition
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class View:
    """The selected view: `name` is the option that selects it, or `statements`.

    With `conditions`, only what they name is a difference, from a golden dump; with `exact`, every other text is one.
    """

    name: str
    ignored: tuple[str, ...]
    with_schedule: bool
    conditions: tuple[Condition, ...] = ()
    by: By | None = None
    exact: bool = False

    def compare(self, before: Module, after: Module) -> ModuleDiff:
        """The differences between two modules, without the ignored ones."""
        return diff(before, after).without(self.ignored)

    def differs(self, comparison: ModuleDiff) -> bool:
        """Whether there is something to show; moves alone count only if selected."""
        return not comparison.is_empty or (self.with_schedule and bool(comparison.moved))

    def is_finding(self, comparison: ModuleDiff) -> bool:
        """Whether there is a difference for exit codes and counts of modules.

        Other lines of source and op_names are the same program; with `exact`, any other text is a difference.
        """
        if self.exact:
            return not is_same_text(comparison)
        return (not comparison.is_same_program) or (self.with_schedule and bool(comparison.moved))
