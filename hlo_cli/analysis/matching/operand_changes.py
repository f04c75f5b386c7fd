"""Which instructions take other values than before, and for which of them other changes say so already.

Whose operand is removed takes what that one took; whose operand gets a copy in front takes the copy. Such users
are not changed themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.graph import Graph, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction

_FARTHEST: Final = 64


@dataclass(frozen=True, slots=True)
class OperandDiff:
    """Compares what pairs take and call, given the pairs of instructions and of computations."""

    pairs: Pairs
    computations: Mapping[Computation, Computation]
    _named: dict[Computation, dict[str, Instruction]] = field(default_factory=dict)

    def changes(self, a: Node, b: Node) -> Iterator[Change]:
        """How the operands of a pair differ, its control predecessors and the computations that it calls."""
        if self.is_plain(a, b):
            return
        pairs = self.pairs
        one, two = pairs.one.nodes[a], pairs.two.nodes[b]
        yield from self._operand_changes(one, two)
        if one.called_computations or two.called_computations:
            yield from self._call_changes(one, two)
        if a in pairs.one.controlled or b in pairs.two.controlled:
            yield from self._control_changes(one, two)

    def is_plain(self, a: Node, b: Node) -> bool:
        """Whether all operands are pairs at the same places, and only twins are called, if anything: as mostly."""
        pairs, (one, two) = self.pairs, self.pairs.plain
        if tuple(map(pairs.after.__getitem__, one.operands[a])) != two.operands[b]:
            return False
        called, others = one.nodes[a].called_computations, two.nodes[b].called_computations
        if (called or others) and not self._are_twins(called, others):
            return False
        return a not in one.controlled and b not in two.controlled

    def _are_twins(self, called: Sequence[Computation], others: Sequence[Computation]) -> bool:
        pairs, pair_of = self.pairs, self.computations.get
        return len(called) == len(others) and all(
            pair_of(x) is y and pairs.are_twins(x, y) for x, y in zip(called, others, strict=True)
        )

    def _operand_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        handed = self._handed(one, two)
        if handed is None and len(one.operands) != len(two.operands):
            if one.opcode == two.opcode:
                yield Change("operands", "", _names(one.operands), _names(two.operands))
            return
        for slot, (x, y) in enumerate(zip(one.operands, two.operands, strict=True) if handed is None else handed):
            if not self._are_one(x, y):
                yield Change("operands", f"operand {slot}", x.name, y.name)

    def _handed(self, one: Instruction, two: Instruction) -> list[tuple[Instruction, Instruction]] | None:
        """Of two fusions or calls the operands for the same parameters, whatever their numbers; None for all else."""
        graph = self.pairs.one
        called = next((c for c in one.called_computations if c in graph.bodies), None)
        if called is None or self.computations.get(called) not in two.called_computations:
            return None
        handed = []
        for parameter, x in zip(called.parameters, one.operands, strict=True):
            b = self.pairs.after[graph.node(parameter)]
            other = self.pairs.two.nodes[b] if b >= 0 else None
            number = other.parameter_number if other is not None else None
            if number is not None and number < len(two.operands):
                handed.append((x, two.operands[number]))
        return handed

    def _are_one(self, x: Instruction, y: Instruction) -> bool:
        """Whether two operands are one: as instructions, as the values they hand on, or by what else changed."""
        one, two = self.pairs.one, self.pairs.two
        a, b = one.node(x), two.node(y)
        if self.pairs.after[a] == b or self._are_one_in(*self.pairs.plain, a, b):
            return True
        return one is not self.pairs.plain[0] and self._are_one_in(one, two, one.value[a], two.value[b])

    def _are_one_in(self, one: Graph, two: Graph, a: Node, b: Node) -> bool:
        """Whether two operands are one value in these graphs: computed alike, or standing in for each other.

        The other operand follows from what is removed or added if it stands in for what the other one took.
        """
        after, before = self.pairs.after, self.pairs.before
        if after[a] == b or 0 <= one.comparable[a] == two.comparable[b] or (after[a] < 0 and before[b] < 0):
            return True
        if after[a] >= 0 and before[b] >= 0:
            return False
        sources = {after[node] for node in _nearest(a, one.operands, after)}
        return not sources.isdisjoint(_nearest(b, two.operands, before))

    def _call_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        ones, twos = one.called_computations, two.called_computations
        if len(ones) == len(twos) and all(map(self._call_the_same, ones, twos)):
            return
        if one.opcode == two.opcode:
            yield Change("attributes", "calls", ", ".join(c.name for c in ones), ", ".join(c.name for c in twos))

    def _call_the_same(self, x: Computation, y: Computation) -> bool:
        one, two = self.pairs.one, self.pairs.two
        if self.computations.get(x) is y:
            return True
        return x in one.unit_of and y in two.unit_of and one.unit_of[x].content == two.unit_of[y].content

    def _control_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        """Control predecessors that are in both modules, but precede in one only."""
        pairs = self.pairs
        ones, twos = self._control_predecessors(one), self._control_predecessors(two)
        before = {pairs.after[pairs.one.node(i)] for i in ones}
        now = {b for b in map(pairs.two.node, twos) if pairs.before[b] >= 0}
        if before - {NONE} != now:
            yield Change("attributes", "control-predecessors", _names(ones), _names(twos))

    def _control_predecessors(self, instruction: Instruction) -> list[Instruction]:
        computation = instruction.computation
        if (named := self._named.get(computation)) is None:
            named = self._named[computation] = {i.name: i for i in computation.instructions}
        return [named[name] for name in instruction.control_predecessors if name in named]


def _names(instructions: Sequence[Instruction]) -> str:
    return ", ".join(instruction.name for instruction in instructions)


def _nearest(node: Node, operands: Sequence[tuple[Node, ...]], other: Sequence[Node]) -> set[Node]:
    """The nearest nodes with a pair that a node is computed from, itself if it has one."""
    found, waiting, seen = set(), [node], {node}
    while waiting and len(seen) < _FARTHEST:
        at = waiting.pop()
        if other[at] >= 0:
            found.add(at)
            continue
        new = [operand for operand in operands[at] if operand not in seen]
        seen.update(new)
        waiting.extend(new)
    return found
