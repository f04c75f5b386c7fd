"""The graph of a module: its instructions looked at one by one, each distinct text once.

What a second module has letter by letter like the first is taken over from there.
"""

from __future__ import annotations

from hlo_cli.analysis.matching.content import content_of, essential, op_name_in
from hlo_cli.analysis.matching.graph import TOLD, Graph, Key, Keys, Node, Text, Unit
from hlo_cli.analysis.matching.identical_computations import IdenticalComputations
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


def graph_of(module: Module, numbers: Keys, *, same_frames: bool = True, other: Graph | None = None) -> Graph:
    """The graph of a module, each computation by itself; `same_frames` if both modules have one table of stack frames.

    `other` is the graph of the other module, if there is one already.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }")
    >>> graph = graph_of(module, Keys())
    >>> graph.operands, graph.users, graph.roots
    ([(), (0,)], [[(1, 0)], []], {1})
    """
    graph = Graph(module, numbers)
    saying = _Saying(graph, same_frames=same_frames)
    verbatim = IdenticalComputations(other, graph) if other is not None else None
    for computation in graph.order:
        if verbatim is not None and verbatim.take(computation):
            continue
        first, unit = graph.taken[computation], Unit(computation)
        for instruction in computation.instructions:
            node = first + instruction.index
            saying.say(node, instruction)
            unit.nodes.append(node)
            graph.link(node, [first + operand.index for operand in instruction.operands])
        graph.finish(unit)
        unit.told = numbers.of((unit.content, *sorted([graph.keys[TOLD][node] for node in unit.nodes])))
        _say_comparable(graph, unit)
    return graph


def _say_comparable(graph: Graph, unit: Unit) -> None:
    """Parameters of what is fused may be numbered anew, so what depends on them is not known by its expression."""
    if unit.computation not in graph.bodies:
        for node in unit.nodes:
            graph.comparable[node] = graph.expression[node]
        return
    for node in unit.nodes:
        is_closed = all(graph.comparable[operand] >= 0 for operand in graph.operands[node])
        if is_closed and graph.nodes[node].opcode != opcodes.PARAMETER:
            graph.comparable[node] = graph.expression[node]


class _Saying:
    """Finds the keys of instructions; shapes and attributes repeat, and are looked at once."""

    __slots__ = ("_graph", "_same_frames", "_shapes")

    def __init__(self, graph: Graph, *, same_frames: bool) -> None:
        self._graph = graph
        self._same_frames = same_frames
        self._shapes: dict[int, tuple[Key, Key]] = {}

    def say(self, node: Node, instruction: Instruction) -> None:
        """Note what an instruction says of itself and of the computations that it calls."""
        graph, opcode, called = self._graph, instruction.written_opcode, instruction.called_computations
        argument, attributes = instruction.raw
        texts = graph.numbers.calling if called else graph.numbers.plain
        said, meant, metadata, origin, is_controlled = texts.get(attributes) or self._text(instruction, texts)
        graph.metadata[node] = metadata
        if is_controlled:
            graph.controlled.add(node)
        shape, bare = self._shapes.get(id(instruction.shape)) or self._shape(instruction)
        indices = instruction.computation.operand_indices
        taken = indices.get(instruction.index) if indices else None
        units = [graph.unit_of[c] for c in called if c in graph.unit_of] if called else ()
        content = tuple([unit.content for unit in units]) if units else ()
        number = argument.strip() if opcode == opcodes.PARAMETER else argument
        numbers, (told_key, said_key, meant_key, bare_key) = graph.numbers, graph.keys
        key = said_key[node] = numbers.of((opcode, shape, said, number, taken, content))
        if (less := numbers.less.get(key)) is None:
            less = numbers.less[key] = (
                numbers.of((opcode, bare, meant, number, taken)),
                numbers.of((opcode, meant, number if opcode == opcodes.PARAMETER else "")),
            )
        meant_key[node], bare_key[node] = less
        if origin or units:
            key = numbers.of((key, origin, *[unit.told for unit in units]))
        told_key[node] = key

    def _shape(self, instruction: Instruction) -> tuple[Key, Key]:
        shape, of = instruction.shape, self._graph.numbers.of
        found = self._shapes[id(shape)] = of(str(shape)), of(shape.to_string(layout=False))
        return found

    def _text(self, instruction: Instruction, texts: dict[str, Text]) -> Text:
        of = self._graph.numbers.of
        _, attributes, metadata, is_controlled = content_of(instruction)
        is_own = not self._same_frames and "stack_frame_id" in metadata
        origin = op_name_in(metadata) if is_own else metadata
        found = Text(of(attributes), of(essential(attributes)), metadata, origin, is_controlled)
        texts[instruction.raw[1]] = found
        return found
