"""Differences of two paired instructions: content, operands, callees, computation, and metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hlo_cli.analysis.matching.changes import FUSED, Change, MetadataDiff, content_changes
from hlo_cli.analysis.matching.graph import CONTENT, FULL, Graph, Node
from hlo_cli.analysis.matching.operand_changes import OperandDiff
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction


class InstructionDiff:
    """Compares paired instructions; operands and callees are compared under the current pairs.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.matching import match
    >>> before = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] add(p, p) }")
    >>> after = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] subtract(p, p) }")
    >>> matching = match(before, after)
    >>> [str(change) for change in InstructionDiff(matching.pairs, matching.computations).changes(1, 1)]
    ['opcode add → subtract']
    """

    __slots__ = ("_computations", "_content_diffs", "_metadata_diff", "_operand_diff", "_pairs", "_same_frames")

    def __init__(self, pairs: Pairs, computations: Mapping[Computation, Computation]) -> None:
        self._pairs = pairs
        self._computations = computations
        self._same_frames = pairs.one.module.stack_tables == pairs.two.module.stack_tables
        self._metadata_diff = MetadataDiff(pairs.one.module, pairs.two.module)
        self._content_diffs: dict[tuple[Node, Node], tuple[Change, ...]] = {}
        self._operand_diff = OperandDiff(pairs, computations)

    def changes(self, a: Node, b: Node) -> tuple[Change, ...]:
        """All changes of a pair."""
        one, two = self._pairs.one, self._pairs.two
        before, after = one.nodes[a], two.nodes[b]
        if (
            self._same_frames
            and one.keys[FULL][a] == two.keys[FULL][b]
            and self._computations.get(before.computation) is after.computation
            and self._operand_diff.has_identical_operands(a, b)
        ):
            return ()
        changes = list(self._content_changes(a, b)) if one.keys[CONTENT][a] != two.keys[CONTENT][b] else []
        changes += self._operand_diff.changes(a, b)
        changes += self._computation_changes(before, after)
        changes += self._metadata_diff.changes(before, after, one.metadata[a], two.metadata[b])
        return tuple(changes)

    def unchanged_nodes(self) -> set[Node]:
        """Nodes without calls in computations that are identical in both modules; they need no comparison."""
        pairs, (one, _) = self._pairs, self._pairs.plain
        if not self._same_frames:
            return set()
        same: set[Node] = set()
        for x, y in self._computations.items():
            if pairs.are_identical(x, y):
                first = one.first_nodes[x]
                same.update([first + i.index for i in x.instructions if not i.called_computations])
        return same - one.controlled

    def _content_changes(self, a: Node, b: Node) -> tuple[Change, ...]:
        """Changes of content, cached as they do not depend on other pairs."""
        if (found := self._content_diffs.get((a, b))) is None:
            one, two = self._pairs.one.nodes[a], self._pairs.two.nodes[b]
            found = self._content_diffs[a, b] = tuple(content_changes(one, two))
        return found

    def _computation_changes(self, before: Instruction, after: Instruction) -> Iterator[Change]:
        """Yields a change if the instruction moved to another computation: fused, unfused, or in a different fusion."""
        old, new = before.computation, after.computation
        if self._computations.get(old) is new:
            return
        was_fused, is_fused = _is_fused(self._pairs.one, old), _is_fused(self._pairs.two, new)
        if not (was_fused or is_fused):
            yield Change("computation", "", old.name, new.name)
            return
        how = "different fusion" if was_fused and is_fused else "fused" if is_fused else "unfused"
        yield Change(FUSED, how, old.name, new.name)


def is_inlined_parameter(graph: Graph, node: Node) -> bool:
    """Whether a node is a parameter of a computation with a single fusion or call as caller: it only forwards an
    operand.
    """
    instruction = graph.nodes[node]
    return instruction.opcode == opcodes.PARAMETER and instruction.computation in graph.bodies


def _is_fused(graph: Graph, computation: Computation) -> bool:
    caller = graph.bodies.get(computation)
    return caller is not None and caller.opcode == opcodes.FUSION
