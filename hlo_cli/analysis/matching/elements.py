"""Which elements of two tuples correspond: by the values that they carry, whatever their indices.

A loop that carries one more value shifts the indices of all elements after it. Tuples are therefore compared by the
sources of their elements: the operands of a tuple instruction, also through the loops, calls, and conditionals that
carry it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from hlo_cli.analysis.matching.graph import Graph, Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import TupleShape

Source = tuple[Node, int]
"""Node that makes an element, and the element of its tuple; -1 for its whole value."""
WHOLE: Final = -1
_MAX_DEPTH: Final = 100
_CARRIERS: Final = frozenset(
    (opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.GET_TUPLE_ELEMENT, opcodes.OPT_BARRIER, opcodes.WHILE)
)
_FORWARDING: Final = frozenset((opcodes.OPT_BARRIER, opcodes.WHILE))


class ElementSources:
    """Sources of the elements of the tuples of one graph, which is not flattened.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = '''f { p = (s8[], s8[4]) parameter(0)  ROOT g = s8[4] get-tuple-element(p), index=1 }
    ... ENTRY e { a = s8[] parameter(0)  b = s8[4] parameter(1)  t = (s8[], s8[4]) tuple(a, b)
    ... ROOT c = s8[4] call(t), to_apply=f }'''
    >>> sources = ElementSources(graph_of(parse_module("HloModule m " + text), Keys()))
    >>> sources.of(0)
    ((2, -1), (3, -1))
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[Node, tuple[Source, ...]] = {}

    def of(self, node: Node) -> tuple[Source, ...]:
        """The source of each element of a tuple; empty for an array."""
        if (found := self._known.get(node)) is None:
            found = self._known[node] = self._of(node, 0)
        return found

    @cached_property
    def callers(self) -> Mapping[Computation, Instruction]:
        """The first caller of each computation."""
        found: dict[Computation, Instruction] = {}
        for node in self.graph.nodes:
            for called in node.called_computations:
                found.setdefault(called, node)
        return found

    def _of(self, node: Node, depth: int) -> tuple[Source, ...]:
        graph = self.graph
        instruction = graph.nodes[node]
        shape = instruction.shape
        if not isinstance(shape, TupleShape):
            return ()
        count, forwarded = len(shape.elements), self._forwarded(instruction, depth) if depth < _MAX_DEPTH else None
        if instruction.opcode == opcodes.TUPLE and len(instruction.operands) == count:
            return tuple([(graph.node(operand), WHOLE) for operand in instruction.operands])
        if forwarded is not None:
            place = graph.node(forwarded)
            sources = self._at(place, depth)
            if len(sources) == count:
                return sources
        return tuple([(node, element) for element in range(count)])

    def _at(self, node: Node, depth: int) -> tuple[Source, ...]:
        return self._known.get(node) or self._of(node, depth + 1)

    def _forwarded(self, instruction: Instruction, depth: int) -> Instruction | None:
        """The instruction whose tuple an instruction forwards, if there is one."""
        operands, called = instruction.operands, instruction.called_computations
        match instruction.opcode:
            case opcodes.PARAMETER:
                return self.argument(instruction)
            case opcode if opcode in _FORWARDING and operands:
                return operands[0]
            case opcodes.CALL | opcodes.FUSION | opcodes.CONDITIONAL if called:
                return called[0].root
            case opcodes.GET_TUPLE_ELEMENT if operands:
                sources, index = self._at(self.graph.node(operands[0]), depth), instruction.integer("index")
                if index is not None and index < len(sources) and sources[index][1] == WHOLE:
                    return self.graph.nodes[sources[index][0]]
        return None

    def argument(self, parameter: Instruction) -> Instruction | None:
        """The operand of the first caller for a parameter."""
        computation, number = parameter.computation, parameter.parameter_number
        caller = self.callers.get(computation) if not computation.is_entry else None
        if caller is None or number is None:
            return None
        if caller.opcode == opcodes.CONDITIONAL:
            number += 1 + caller.called_computations.index(computation)
        return caller.operands[number] if number < len(caller.operands) else None


def is_passed_on(graph: Graph, node: Node) -> bool:
    """Whether a tuple only carries values within the program, to instructions that take its elements.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT t = (s8[]) tuple(p) }")
    >>> is_passed_on(graph_of(module, Keys()), 1)
    False
    """
    instruction = graph.nodes[node]
    if instruction.is_root:
        return not instruction.computation.is_entry
    return all(graph.nodes[user].opcode in _CARRIERS for user, _ in graph.users[node])
