"""How differences are to be seen: which of them, and at which length."""

from __future__ import annotations

from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class View:
    """What is asked for: `name` is the option that says how differences are shown, or `changes`."""

    name: str
    ignored: tuple[str, ...]
    with_schedule: bool

    def compare(self, before: Module, after: Module) -> ModuleDiff:
        """The differences of two modules, less what is to be ignored."""
        return diff(before, after).without(self.ignored)

    def differs(self, comparison: ModuleDiff) -> bool:
        """Whether there is a difference; moving alone is one only if that is asked for."""
        return not comparison.is_empty or (self.with_schedule and bool(comparison.moved))
