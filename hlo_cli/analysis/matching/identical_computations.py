"""Copies graph data between computations whose text, names included, is identical in both modules."""

from __future__ import annotations

from hlo_cli.analysis.matching.graph import Graph, Key, Unit
from hlo_cli.ir.instruction import Computation


class IdenticalComputations:
    """Copies graph data of computations from one graph to another where their text is identical.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = "HloModule m\\n\\nENTRY e {\\n  p = s8[2] parameter(0)\\n  ROOT n = s8[2] not(p)\\n}\\n"
    >>> one = graph_of(parse_module(text), numbers := Keys())
    >>> two = Graph(module := parse_module(text), numbers)
    >>> IdenticalComputations(one, two).reuse(module.entry), two.keys == one.keys, two.operands
    (True, True, [(), (0,)])
    """

    __slots__ = ("_by_text", "_one", "_two")

    def __init__(self, one: Graph, two: Graph) -> None:
        self._one = one
        self._two = two
        self._by_text = {text: c for c in one.module.computations if (text := c.reader.whole())}

    def reuse(self, computation: Computation) -> bool:
        """Copies the data of a computation if the other module has it with identical text and callees; whether it
        has.
        """
        text = computation.reader.whole()
        twin = self._by_text.get(text) if text else None
        if twin is None or not self._are_both_inlined(twin, computation) or not self._callees_agree(twin, computation):
            return False
        self._copy(twin, computation)
        return True

    def _are_both_inlined(self, twin: Computation, computation: Computation) -> bool:
        return (twin in self._one.bodies) == (computation in self._two.bodies)

    def _callees_agree(self, twin: Computation, computation: Computation) -> bool:
        """Whether all callees of the same names have equal keys."""
        ones, twos = self._one.unit_of, self._two.unit_of
        for old, new in zip(twin.instructions, computation.instructions, strict=True):
            if old.called_computations or new.called_computations:
                called = [_unit_keys(ones.get(c)) for c in old.called_computations]
                if called != [_unit_keys(twos.get(c)) for c in new.called_computations]:
                    return False
        return True

    def _copy(self, twin: Computation, computation: Computation) -> None:
        one, two, count = self._one, self._two, len(computation.instructions)
        old, new = one.first_nodes[twin], two.first_nodes[computation]
        shift, end, last = new - old, old + count, new + count
        for level, keys in zip(two.keys, one.keys, strict=True):
            level[new:last] = keys[old:end]
        two.metadata[new:last] = one.metadata[old:end]
        two.tuple_index[new:last] = one.tuple_index[old:end]
        two.expression[new:last] = one.expression[old:end]
        two.comparable[new:last] = one.comparable[old:end]
        two.controlled.update([node + shift for node in one.controlled.intersection(range(old, end))])
        two.operands[new:last] = [tuple([o + shift for o in operands]) for operands in one.operands[old:end]]
        two.users[new:last] = [[(user + shift, position) for user, position in users] for users in one.users[old:end]]
        if computation.root is not None:
            two.roots.add(two.node(computation.root))
        unit = one.unit_of[twin]
        two.unit_of[computation] = Unit(computation, list(range(new, last)), unit.content, unit.full, twin)


def _unit_keys(unit: Unit | None) -> tuple[Key, Key] | None:
    return None if unit is None else (unit.content, unit.full)
