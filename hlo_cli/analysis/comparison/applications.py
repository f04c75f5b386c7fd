"""What each program computes from which values: executions of another program with the same operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from hlo_cli.analysis.comparison.fingerprints import Print
from hlo_cli.analysis.comparison.trace import Node, Trace
from hlo_cli.ir.instruction import Instruction

Order: TypeAlias = Literal["free", "ordered"]
"""Whether values are the same in any order of their elements, or in one order only."""

Application: TypeAlias = "tuple[int, ...]"
"""The fingerprints of the operands of an execution, without their order."""


class Applications:
    """Finds executions of an old program by their operands, and which results the new program has."""

    def __init__(self, old: Trace, new: Trace, order: Order) -> None:
        self._order: Order = order
        self._executions = {(node.instruction, node.device, node.execution): node for node in old.nodes}
        self._applied: dict[Application, list[Node]] = {}
        self._partial: dict[tuple[str, int, int, Application], list[Node]] = {}
        self._results = {value for node in new.nodes for value in values_of(node, order)}
        self._made = {(application(node, order), values_of(node, order)) for node in new.nodes}
        seen: set[tuple[str, Application, Application]] = set()
        for node in old.nodes:
            key = node.instruction.opcode, application(node, order), values_of(node, order)
            if node.is_passing or key in seen:
                continue
            seen.add(key)
            self._applied.setdefault(key[1], []).append(node)
            for at, rest in self._without_one(node):
                self._partial.setdefault((key[0], len(node.operands), at, rest), []).append(node)
        self._had = {(given, made) for _, given, made in seen}

    def execution(self, instruction: Instruction, node: Node) -> Node | None:
        """The execution of an old instruction that has the number of a new one."""
        return self._executions.get((instruction, node.device, node.execution))

    def with_operands(self, node: Node) -> Sequence[Node]:
        """The old executions with the same operands."""
        return self._applied.get(application(node, self._order), ()) if node.operands else ()

    def with_other_operand(self, node: Node) -> Iterator[tuple[int, Node]]:
        """The old executions of the opcode with the same operands but for one, and the position of that."""
        for place, rest in self._without_one(node):
            for other in self._partial.get((node.instruction.opcode, len(node.operands), place, rest), ()):
                yield place, other

    def other_result(self, node: Node) -> Node | None:
        """An old execution with the same operands, whose result the new program does not have."""
        sizes = [each.size for each in node.results]
        for other in self.with_operands(node):
            if self.is_missing(other) and [each.size for each in other.results] == sizes:
                return other
        return None

    def is_missing(self, other: Node) -> bool:
        """Whether the new program does not have a result of an old execution."""
        return any(value not in self._results for value in values_of(other, self._order))

    def is_made(self, other: Node) -> bool:
        """Whether the new program computes the result of an old execution from the same operands."""
        return (application(other, self._order), values_of(other, self._order)) in self._made

    def has(self, node: Node) -> bool:
        """Whether the old program computes the result of a new execution from the same operands."""
        return (application(node, self._order), values_of(node, self._order)) in self._had

    def _without_one(self, node: Node) -> Iterator[tuple[int, Application]]:
        """The fingerprints of the other operands, for each operand."""
        if len(node.operands) < 2:
            return
        prints = [[_value(leaf.print, self._order) for leaf in operand] for operand in node.operands]
        for at in range(len(prints)):
            yield at, tuple(sorted(each for place, rest in enumerate(prints) if place != at for each in rest))


def application(node: Node, order: Order) -> Application:
    """The fingerprints of the operands of an execution, without their order."""
    return tuple(sorted(_value(leaf.print, order) for leaf in node.leaves))


def values_of(node: Node, order: Order) -> Application:
    """The fingerprints of the results of an execution."""
    return tuple(_value(each, order) for each in node.results)


def _value(each: Print, order: Order) -> int:
    return each.free if order == "free" else each.ordered
