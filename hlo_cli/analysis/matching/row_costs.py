"""What a difference costs: the bytes that it adds, removes, or writes anew, in all executions of the instruction.

XLA's hlo_diff has no counterpart. The number ranks differences, so that a large array in a loop comes before a scalar.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import values_made_by
from hlo_cli.analysis.dataflow.executions import sequential_executions
from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.module_diff import Changed, ModuleDiff
from hlo_cli.ir.instruction import Computation, Instruction

ESTIMATES: Final = frozenset(
    ("estimated_cycles", "fingerprint_before_lhs", "reification_cost", "used_scoped_memory_configs")
)
"""Keys of backend configurations and frontend attributes with what a compiler computed from the program."""


class RowCosts:
    """Costs of the differences of two modules, in bytes per execution of the program.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> text = "HloModule m  ENTRY e { p = f32[2,4]{1,0} parameter(0)  ROOT n = f32[2,4]{1,0} negate(p) }"
    >>> found = diff(parse_module(text), parse_module(text.replace("n = f32[2,4]{1,0}", "n = f32[2,4]{0,1}")))
    >>> [RowCosts(found).of_changed(each) for each in found.changed]
    [32]
    """

    __slots__ = ("_executions",)

    def __init__(self, comparison: ModuleDiff) -> None:
        self._executions: dict[Computation, int] = {}
        for module in (comparison.before, comparison.after):
            self._executions |= {each: found.count for each, found in sequential_executions(module).items()}

    def is_in_memory(self, instruction: Instruction) -> bool:
        """Whether the values of an instruction are arrays in memory, not of a fusion or of single elements."""
        return instruction.computation in self._executions

    def of(self, instruction: Instruction) -> int:
        """Bytes of the arrays that an added or removed instruction makes, with padding, in all executions.

        0 for instructions without an array of their own in memory, such as bitcasts and fused instructions.
        """
        if not (times := self._executions.get(instruction.computation, 0)):
            return 0
        return times * sum(value.shape.padded_bytes for value in values_made_by(instruction))

    def of_changed(self, each: Changed) -> int:
        """Difference of the bytes, or all bytes if these are equal, as the array is written in another way.

        0 for changes of metadata and of the compiler's estimates.
        """
        if is_quiet(each.changes):
            return 0
        before, after = self.of(each.before), self.of(each.after)
        return abs(after - before) or after


def is_quiet(changes: Iterable[Change]) -> bool:
    """Whether changes are of metadata and of numbers that the compiler computed from the program.

    >>> is_quiet([Change("metadata", "op_name", "a", "b"), Change("shape", "", "s8[2]", "s8[3]")])
    False
    """
    return all(change.kind == "metadata" or change.name.rpartition(".")[2] in ESTIMATES for change in changes)
