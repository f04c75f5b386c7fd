"""What differs between two instructions that are one: what they say, take and call, where they stand and come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hlo_cli.analysis.matching.changes import Change, Origins, said_changes
from hlo_cli.analysis.matching.graph import SAID, TOLD, Graph, Node
from hlo_cli.analysis.matching.operand_changes import OperandDiff
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction


class Differences:
    """Compares the instructions of pairs; what they take and call is compared by the pairs that there are when asked.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.matching import match
    >>> before = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] add(p, p) }")
    >>> after = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] subtract(p, p) }")
    >>> matching = match(before, after)
    >>> [str(change) for change in Differences(matching.pairs, matching.computations).changes(1, 1)]
    ['opcode add → subtract']
    """

    __slots__ = ("_computations", "_origins", "_pairs", "_rewiring", "_said", "_same_frames")

    def __init__(self, pairs: Pairs, computations: Mapping[Computation, Computation]) -> None:
        self._pairs = pairs
        self._computations = computations
        self._same_frames = pairs.one.module.stack_tables == pairs.two.module.stack_tables
        self._origins = Origins(pairs.one.module, pairs.two.module)
        self._said: dict[tuple[Node, Node], tuple[Change, ...]] = {}
        self._rewiring = OperandDiff(pairs, computations)

    def changes(self, a: Node, b: Node) -> tuple[Change, ...]:
        """All that changed of an instruction."""
        one, two = self._pairs.one, self._pairs.two
        before, after = one.nodes[a], two.nodes[b]
        if (
            self._same_frames
            and one.keys[TOLD][a] == two.keys[TOLD][b]
            and self._computations.get(before.computation) is after.computation
            and self._rewiring.is_plain(a, b)
        ):
            return ()
        changes = list(self._said_changes(a, b)) if one.keys[SAID][a] != two.keys[SAID][b] else []
        changes += self._rewiring.changes(a, b)
        changes += self._place_changes(before, after)
        changes += self._origins.changes(before, after, one.metadata[a], two.metadata[b])
        return tuple(changes)

    def known_same(self) -> set[Node]:
        """Instructions that need not be looked at: they stand in both modules letter by letter, and call nothing."""
        pairs, (one, _) = self._pairs, self._pairs.plain
        if not self._same_frames:
            return set()
        same: set[Node] = set()
        for x, y in self._computations.items():
            if pairs.are_twins(x, y):
                first = one.taken[x]
                same.update([first + i.index for i in x.instructions if not i.called_computations])
        return same - one.controlled

    def _said_changes(self, a: Node, b: Node) -> tuple[Change, ...]:
        """What two say otherwise: the same whatever is paired, and asked for again and again."""
        if (found := self._said.get((a, b))) is None:
            one, two = self._pairs.one.nodes[a], self._pairs.two.nodes[b]
            found = self._said[a, b] = tuple(said_changes(one, two))
        return found

    def _place_changes(self, before: Instruction, after: Instruction) -> Iterator[Change]:
        """Whether an instruction stands in another computation now: fused or not, or fused with others."""
        old, new = before.computation, after.computation
        if self._computations.get(old) is new:
            return
        was_fused, is_fused = _is_fused(self._pairs.one, old), _is_fused(self._pairs.two, new)
        if not (was_fused or is_fused):
            yield Change("computation", "", old.name, new.name)
            return
        how = "fused with others" if was_fused and is_fused else "fused" if is_fused else "unfused"
        yield Change("fusion", how, old.name, new.name)


def is_plumbing(graph: Graph, node: Node) -> bool:
    """Whether an instruction only hands to what is fused what the fusion takes."""
    instruction = graph.nodes[node]
    return instruction.opcode == opcodes.PARAMETER and instruction.computation in graph.bodies


def _is_fused(graph: Graph, computation: Computation) -> bool:
    caller = graph.bodies.get(computation)
    return caller is not None and caller.opcode == opcodes.FUSION
