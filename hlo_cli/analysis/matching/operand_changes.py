"""Changes of operands, control predecessors, and callees, without those that follow from other changes.

A user of a removed instruction now uses its operand, and a user of a copied value uses the copy: neither is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from hlo_cli.alignment import longest_increasing
from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.element_pairs import ElementMap
from hlo_cli.analysis.matching.elements import is_passed_on
from hlo_cli.analysis.matching.graph import Graph, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction

_MAX_VISITED: Final = 512


@dataclass(frozen=True, slots=True)
class OperandDiff:
    """Compares operands, control predecessors, and callees under given pairs of instructions and computations."""

    pairs: Pairs
    computations: Mapping[Computation, Computation]
    _named: dict[Computation, dict[str, Instruction]] = field(default_factory=dict)

    def changes(self, a: Node, b: Node) -> Iterator[Change]:
        """Yields the changes of operands, callees, and control predecessors of a pair."""
        if self.has_identical_operands(a, b):
            return
        pairs = self.pairs
        one, two = pairs.one.nodes[a], pairs.two.nodes[b]
        yield from self._operand_changes(one, two)
        if one.called_computations or two.called_computations:
            yield from self._call_changes(one, two)
        if a in pairs.one.controlled or b in pairs.two.controlled:
            yield from self._control_changes(one, two)

    def has_identical_operands(self, a: Node, b: Node) -> bool:
        """Whether all operands are paired by position, and all callees identical: the usual case, tested first."""
        pairs, (one, two) = self.pairs, self.pairs.plain
        if tuple(map(pairs.after.__getitem__, one.operands[a])) != two.operands[b]:
            return False
        if one.tuple_index[a] >= 0 and not pairs.is_same_element(a, b):
            return False
        called, others = one.nodes[a].called_computations, two.nodes[b].called_computations
        if (called or others) and not self._are_identical(called, others):
            return False
        return a not in one.controlled and b not in two.controlled

    def _are_identical(self, called: Sequence[Computation], others: Sequence[Computation]) -> bool:
        pairs, pair_of = self.pairs, self.computations.get
        return len(called) == len(others) and all(
            pair_of(x) is y and pairs.are_identical(x, y) for x, y in zip(called, others, strict=True)
        )

    def _operand_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        if one.opcode == two.opcode == opcodes.TUPLE:
            yield from self._tuple_changes(one, two)
            return
        if one.opcode == two.opcode == opcodes.GET_TUPLE_ELEMENT:
            yield from self._index_changes(one, two)
        by_parameter = self._operands_by_parameter(one, two)
        if by_parameter is None and len(one.operands) != len(two.operands):
            if one.opcode == two.opcode:
                yield Change("operands", "", _names(one.operands), _names(two.operands))
            return
        for position, (x, y) in enumerate(
            zip(one.operands, two.operands, strict=True) if by_parameter is None else by_parameter
        ):
            if not self._are_same_value(x, y):
                yield Change("operands", f"operand {position}", x.name, y.name)

    def _index_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        """Yields the index of a tuple element if it is another element of the same tuple."""
        pairs = self.pairs
        a, b = pairs.one.node(one), pairs.two.node(two)
        ones, twos = pairs.plain[0].operands[a], pairs.plain[1].operands[b]
        if not ones or not twos or pairs.after[ones[0]] != twos[0] or pairs.is_same_element(a, b):
            return
        index, other = one.attribute("index") or "", two.attribute("index") or ""
        if index != other:
            yield Change("attributes", "index", index, other)
        else:
            names = one.operands[0].name, two.operands[0].name
            yield Change("operands", "operand 0", f"{names[0]}{{{index}}}", f"{names[1]}{{{other}}}")

    def _tuple_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        """Yields the elements of two tuples that differ, apart from those that were added or removed themselves."""
        pairs = self.pairs
        elements, is_carried = self._elements(one, two)
        places = [j for j in elements.after if j >= 0]
        stays = longest_increasing(places) if not is_carried and not elements.is_identity else range(len(places))
        nodes, others = (g.operands[g.node(each)] for g, each in zip(pairs.plain, (one, two), strict=True))
        place = -1
        for i, j in enumerate(elements.after[: len(nodes)]):
            if j >= len(others):
                continue
            if j < 0:
                if pairs.after[nodes[i]] >= 0:
                    yield Change("operands", f"operand {i}", one.operands[i].name, "")
                continue
            place += 1
            if pairs.after[nodes[i]] != others[j] and not self._are_same_value(one.operands[i], two.operands[j]):
                yield Change("operands", f"operand {i}", one.operands[i].name, two.operands[j].name)
            elif place not in stays:
                yield Change("operands", one.operands[i].name, f"operand {i}", f"operand {j}")
        for j, i in enumerate(elements.before):
            if i < 0 and j < len(two.operands) and pairs.before[pairs.two.node(two.operands[j])] >= 0:
                yield Change("operands", f"operand {j}", "", two.operands[j].name)

    def _elements(self, one: Instruction, two: Instruction) -> tuple[ElementMap, bool]:
        """Elements of two tuples that correspond, and whether their order means nothing, as their users follow it."""
        pairs = self.pairs
        x, y = (graph.node(instruction) for graph, instruction in zip(pairs.plain, (one, two), strict=True))
        if not (one.is_root and two.is_root):
            return pairs.elements.of(x, y), is_passed_on(pairs.plain[0], x) and is_passed_on(pairs.plain[1], y)
        return pairs.elements.of(x, y), not one.computation.is_entry

    def _operands_by_parameter(
        self, one: Instruction, two: Instruction
    ) -> list[tuple[Instruction, Instruction]] | None:
        """Operands of two fusions or calls for the same parameters, whatever their numbers; None for other
        instructions.
        """
        graph = self.pairs.one
        is_call = one.opcode == two.opcode == opcodes.CALL and len(one.operands) != len(two.operands)
        called = next((c for c in one.called_computations if c in graph.bodies or is_call), None)
        if called is None or self.computations.get(called) not in two.called_computations:
            return None
        if len(called.parameters) != len(one.operands):
            return None
        by_parameter = []
        for parameter, x in zip(called.parameters, one.operands, strict=True):
            b = self.pairs.after[graph.node(parameter)]
            other = self.pairs.two.nodes[b] if b >= 0 else None
            number = other.parameter_number if other is not None else None
            if number is not None and number < len(two.operands):
                by_parameter.append((x, two.operands[number]))
        return by_parameter

    def _are_same_value(self, x: Instruction, y: Instruction) -> bool:
        """Whether two operands are paired, forward the same value, or differ only by another reported change."""
        one, two = self.pairs.one, self.pairs.two
        a, b = one.node(x), two.node(y)
        if self.pairs.after[a] == b or self._are_same_value_in(*self.pairs.plain, a, b):
            return True
        return one is not self.pairs.plain[0] and self._are_same_value_in(one, two, one.value[a], two.value[b])

    def _are_same_value_in(self, one: Graph, two: Graph, a: Node, b: Node) -> bool:
        """Whether two operands are one value in these graphs: equal expressions, or one replaces the other.

        An added or removed operand replaces the other one if both derive from one pair.
        """
        after, before = self.pairs.after, self.pairs.before
        if after[a] == b or 0 <= one.comparable[a] == two.comparable[b] or (after[a] < 0 and before[b] < 0):
            return True
        if after[a] >= 0 and before[b] >= 0:
            return False
        sources = {after[node] for node in _nearest_paired(a, one.operands, after)}
        return not sources.isdisjoint(_nearest_paired(b, two.operands, before))

    def _call_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        ones, twos = one.called_computations, two.called_computations
        if len(ones) == len(twos) and all(map(self._is_same_callee, ones, twos)):
            return
        if one.opcode == two.opcode:
            yield Change("attributes", "calls", ", ".join(c.name for c in ones), ", ".join(c.name for c in twos))

    def _is_same_callee(self, x: Computation, y: Computation) -> bool:
        one, two = self.pairs.one, self.pairs.two
        if self.computations.get(x) is y:
            return True
        return x in one.unit_of and y in two.unit_of and one.unit_of[x].content == two.unit_of[y].content

    def _control_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        """Yields control predecessors that both modules have, but that precede the instruction in one only."""
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


def _nearest_paired(node: Node, operands: Sequence[tuple[Node, ...]], other: Sequence[Node]) -> set[Node]:
    """Nearest paired nodes that a node is computed from; itself if it is paired."""
    found, waiting, seen = set(), [node], {node}
    while waiting and len(seen) < _MAX_VISITED:
        at = waiting.pop()
        if other[at] >= 0:
            found.add(at)
            continue
        new = [operand for operand in operands[at] if operand not in seen]
        seen.update(new)
        waiting.extend(new)
    return found
