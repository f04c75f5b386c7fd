"""Builds the graph of a module; each distinct attribute text and shape is processed once.

Computations whose text is identical in the other module are copied from the graph of that module.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.matching.content import content_of, essential_attributes, op_name_in
from hlo_cli.analysis.matching.graph import FULL, TUPLE_INDEX, Graph, Key, Keys, Line, Node, Text, Unit
from hlo_cli.analysis.matching.identical_computations import IdenticalComputations
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

_NO_INDEX: Final = "\0"
"""Prefix of the attributes of a get-tuple-element, whose keys do not contain its index."""


def graph_of(module: Module, numbers: Keys, *, same_frames: bool = True, other: Graph | None = None) -> Graph:
    """Builds the graph of a module.

    `same_frames` means that both modules have the same table of stack frames. `other` is the graph of the other module,
    if it exists already.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }")
    >>> graph = graph_of(module, Keys())
    >>> graph.operands, graph.users, graph.roots
    ([(), (0,)], [[(1, 0)], []], {1})
    """
    graph = Graph(module, numbers)
    key_builder = _KeyBuilder(graph, same_frames=same_frames)
    identical = IdenticalComputations(other, graph) if other is not None else None
    for computation in graph.order:
        if identical is not None and identical.reuse(computation):
            continue
        first, unit = graph.first_nodes[computation], Unit(computation)
        for instruction in computation.instructions:
            node = first + instruction.index
            key_builder.add(node, instruction)
            unit.nodes.append(node)
            graph.link(node, [first + operand.index for operand in instruction.operands])
        graph.finish(unit)
        unit.full = numbers.of((unit.content, *sorted([graph.keys[FULL][node] for node in unit.nodes])))
        _set_comparable(graph, unit)
    return graph


def _set_comparable(graph: Graph, unit: Unit) -> None:
    """Sets `graph.comparable` for the nodes of a computation.

    In a fused computation it stays -1 for values that depend on parameters, because a compiler can renumber these.
    """
    if unit.computation not in graph.bodies:
        for node in unit.nodes:
            graph.comparable[node] = graph.expression[node]
        return
    for node in unit.nodes:
        is_closed = all(graph.comparable[operand] >= 0 for operand in graph.operands[node])
        if is_closed and graph.nodes[node].opcode != opcodes.PARAMETER:
            graph.comparable[node] = graph.expression[node]


class _KeyBuilder:
    """Computes the keys of instructions and caches those of shapes and attribute texts."""

    __slots__ = ("_graph", "_same_frames", "_shapes")

    def __init__(self, graph: Graph, *, same_frames: bool) -> None:
        self._graph = graph
        self._same_frames = same_frames
        self._shapes: dict[int, tuple[Key, Key]] = {}

    def add(self, node: Node, instruction: Instruction) -> None:
        """Stores the keys of an instruction at every level of detail, with the content of the computations that it
        calls.
        """
        graph, computation = self._graph, instruction.computation
        if instruction.called_computations or computation.operand_indices:
            line = self._line(instruction, *instruction.raw)
        else:
            argument, attributes = instruction.raw
            shape, _ = self._shapes.get(id(instruction.shape)) or self._shape(instruction)
            written = instruction.opcode, shape, argument, attributes
            if (known := graph.numbers.lines.get(written)) is None:
                known = graph.numbers.lines[written] = self._line(instruction, argument, attributes)
            line = known
        full, content, essential, shapeless = graph.keys
        full[node], content[node], essential[node], shapeless[node], graph.tuple_index[node], text = line
        graph.metadata[node] = text.metadata
        if text.is_controlled:
            graph.controlled.add(node)

    def _line(self, instruction: Instruction, argument: str, attributes: str) -> Line:
        graph, opcode, called = self._graph, instruction.written_opcode, instruction.called_computations
        tuple_index = -1
        if opcode == opcodes.GET_TUPLE_ELEMENT and (match := TUPLE_INDEX.match(attributes)) is not None:
            tuple_index = int(match[1])
            attributes = f"{_NO_INDEX}{attributes}"
        texts = graph.numbers.calling if called else graph.numbers.plain
        if (text := texts.get(attributes)) is None:
            text = texts[attributes] = self._text(instruction)
        shape, bare_shape = self._shapes.get(id(instruction.shape)) or self._shape(instruction)
        element_indices = instruction.computation.operand_indices
        indices = element_indices.get(instruction.index) if element_indices else None
        units = [graph.unit_of[c] for c in called if c in graph.unit_of] if called else ()
        callees = tuple([unit.content for unit in units]) if units else ()
        number = argument.strip() if opcode == opcodes.PARAMETER else argument
        numbers = graph.numbers
        full = content = numbers.of((opcode, shape, text.content, number, indices, callees))
        if (reduced := numbers.reduced.get(content)) is None:
            reduced = numbers.reduced[content] = (
                numbers.of((opcode, bare_shape, text.essential, number, indices)),
                numbers.of((opcode, text.essential, number if opcode == opcodes.PARAMETER else "")),
            )
        if text.origin or units:
            full = numbers.of((content, text.origin, *[unit.full for unit in units]))
        return Line(full, content, *reduced, tuple_index, text)

    def _shape(self, instruction: Instruction) -> tuple[Key, Key]:
        shape, of = instruction.shape, self._graph.numbers.of
        found = self._shapes[id(shape)] = of(str(shape)), of(shape.to_string(layout=False))
        return found

    def _text(self, instruction: Instruction) -> Text:
        of = self._graph.numbers.of
        _, attributes, metadata, is_controlled = content_of(instruction)
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
            attributes = TUPLE_INDEX.sub("", attributes, count=1)
        is_own = not self._same_frames and "stack_frame_id" in metadata
        origin = op_name_in(metadata) if is_own else metadata
        return Text(of(attributes), of(essential_attributes(attributes)), metadata, origin, is_controlled)
