"""A module as a graph of values: what is fused or called from one place only stands where it is called.

XLA's own tool does the same before it compares two modules (xla/hlo/tools/hlo_diff/graph/hlo_gumgraph.h): whether
instructions are fused is a property of theirs then, not another graph.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from hlo_cli.analysis.costs.order import callees_first
from hlo_cli.analysis.matching.said import essential, what_is_said
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

Node = int
"""An instruction's number in its module: computations one after the other, each in the order of the text."""
Key = int
"""A number that stands for something compared; equal things have equal numbers in both modules."""

INLINED: Final = frozenset(("fusion", "call"))
"""Opcodes that run a computation once, on their operands."""
LEVELS: Final = 3
_DEEPEST: Final = 50
_INDEX = re.compile(r", index=([0-9]{1,9})(?![0-9])")


class Keys:
    """Numbers for whatever can be compared, equal for what is equal; one numbering serves both modules."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[object, Key] = {}

    def of(self, what: object) -> Key:
        """The number of something; a new one if it has not been seen."""
        return self._numbers.setdefault(what, len(self._numbers))


@dataclass(slots=True, eq=False)
class Unit:
    """A computation with all that stands inlined in it, operands before users; `content` says what it computes."""

    computation: Computation
    nodes: list[Node] = field(default_factory=list)
    wrappers: list[Node] = field(default_factory=list)
    content: Key = -1


class Graph:
    """The values of one module, who takes which, and what each says, at three levels of detail.

    `keys[0]` is all that an instruction says, `keys[1]` leaves out layouts and what does not matter to what is
    computed, `keys[2]` the shape too. `value[n]` is the node whose value n only hands on, through fusions and calls:
    fusions themselves, parameters of what is fused, elements of a fusion's tuple; for all others n itself. `operands`
    and `users` lead from value to value. `expression` is equal for what is computed alike from the same parameters.
    """

    __slots__ = (
        *("bodies", "expression", "keys", "metadata", "module", "nodes", "numbers", "operands", "roots", "taken"),
        *("unit_of", "units", "users", "value"),
    )

    def __init__(self, module: Module, numbers: Keys) -> None:
        self.module = module
        self.numbers = numbers
        self.nodes: list[Instruction] = list(module.instructions)
        count = len(self.nodes)
        self.operands: list[tuple[Node, ...]] = [()] * count
        self.users: list[list[tuple[Node, int]]] = [[] for _ in range(count)]
        self.value: list[Node] = list(range(count))
        self.expression: list[Key] = [-1] * count
        self.keys: list[list[Key]] = [[-1] * count for _ in range(LEVELS)]
        self.metadata: list[str] = [""] * count
        self.taken = _first_nodes(module)
        self.bodies = _bodies(module)
        self.roots: set[Node] = set()
        self.units: list[Unit] = []
        self.unit_of: dict[Computation, Unit] = {}
        _Filling(self).fill()

    def node(self, instruction: Instruction) -> Node:
        """The number of an instruction."""
        return self.taken[instruction.computation] + instruction.index

    def called_units(self, node: Node) -> list[Unit]:
        """The computations that an instruction calls, inlined ones aside."""
        called = self.nodes[node].called_computations
        return [self.unit_of[c] for c in called if c in self.unit_of and c not in self.bodies] if called else []


def _first_nodes(module: Module) -> dict[Computation, Node]:
    first, at = {}, 0
    for computation in module.computations:
        first[computation] = at
        at += len(computation.instructions)
    return first


def _bodies(module: Module) -> dict[Computation, Instruction]:
    """The computations that one fusion or call alone runs, with that caller."""
    calls: Counter[Computation] = Counter()
    callers: dict[Computation, Instruction] = {}
    for instruction in module.instructions:
        for called in instruction.called_computations:
            calls[called] += 1
            callers[called] = instruction
    return {
        computation: caller
        for computation, caller in callers.items()
        if calls[computation] == 1
        and caller.opcode in INLINED
        and caller.index not in caller.computation.operand_indices
        and computation is not module.entry
        and computation.root is not None
        and len(computation.parameters) == len(caller.operands)
        and caller.computation.execution_thread == computation.execution_thread
    }


class _Filling:
    """Fills a graph, callees before their callers."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._shapes: dict[int, tuple[Key, Key]] = {}
        self._attributes: dict[str, tuple[Key, Key]] = {}

    def fill(self) -> None:
        graph = self._graph
        order = list(callees_first(graph.module.computations))
        self._keep_whole(order)
        for computation in order:
            if computation not in graph.bodies:
                unit = Unit(computation)
                graph.unit_of[computation] = unit
                graph.units.append(unit)
                self._add(computation, unit)
                self._finish(unit)

    def _keep_whole(self, order: list[Computation]) -> None:
        """What is nested too deep, or in itself, stays a computation of its own."""
        depth: dict[Computation, int] = {}
        for computation in order:
            below = [depth.get(c, _DEEPEST) for i in computation.instructions for c in i.called_computations]
            depth[computation] = max(below, default=0) + 1
            if depth[computation] > _DEEPEST:
                self._graph.bodies.pop(computation, None)
                depth[computation] = 1

    def _add(self, computation: Computation, unit: Unit) -> None:
        graph, value, bodies = self._graph, self._graph.value, self._graph.bodies
        first = graph.taken[computation]
        if (caller := bodies.get(computation)) is not None:
            for parameter, argument in zip(computation.parameters, caller.operands, strict=True):
                value[first + parameter.index] = value[graph.node(argument)]
        for instruction in computation.instructions:
            node = first + instruction.index
            body = next((c for c in instruction.called_computations if c in bodies), None)
            attributes = self._say(node, instruction)
            if body is not None:
                graph.unit_of[body] = unit
                self._add(body, unit)
                assert body.root is not None
                value[node] = value[graph.node(body.root)]
            elif instruction.opcode == "get-tuple-element" and instruction.operands:
                value[node] = self._element(first + instruction.operands[0].index, attributes, node)
            if value[node] == node:
                unit.nodes.append(node)
                self._link(node, [value[first + operand.index] for operand in instruction.operands])
            else:
                unit.wrappers.append(node)
            graph.expression[node] = graph.expression[value[node]]

    def _element(self, operand: Node, attributes: str, node: Node) -> Node:
        """What an element of a fusion's tuple is; elements of other tuples are instructions like others."""
        made = self._graph.value[operand]
        if made == operand or self._graph.nodes[made].opcode != "tuple":
            return node
        elements, index = self._graph.operands[made], _INDEX.match(attributes)
        return elements[int(index[1])] if index is not None and int(index[1]) < len(elements) else node

    def _link(self, node: Node, operands: list[Node]) -> None:
        graph = self._graph
        graph.operands[node] = tuple(operands)
        for slot, operand in enumerate(operands):
            graph.users[operand].append((node, slot))
        graph.expression[node] = graph.numbers.of((graph.keys[0][node], *[graph.expression[o] for o in operands]))

    def _say(self, node: Node, instruction: Instruction) -> str:
        """The keys of what an instruction says of itself and of the computations that it calls; its attributes."""
        graph, of = self._graph, self._graph.numbers.of
        argument, attributes, graph.metadata[node] = what_is_said(instruction)
        shape, bare = self._shape(instruction)
        said, meant = self._attributes.get(attributes) or self._attribute(attributes)
        taken = instruction.computation.operand_indices.get(instruction.index)
        called = instruction.called_computations
        content = tuple([graph.unit_of[c].content for c in called if c in graph.unit_of]) if called else ()
        number = argument.strip() if instruction.opcode == "parameter" else argument
        opcode = instruction.opcode
        graph.keys[0][node] = of((opcode, shape, said, number, taken, content))
        graph.keys[1][node] = of((opcode, bare, meant, number, taken))
        graph.keys[2][node] = of((opcode, meant, number if opcode == "parameter" else ""))
        return attributes

    def _shape(self, instruction: Instruction) -> tuple[Key, Key]:
        shape = instruction.shape
        if (found := self._shapes.get(id(shape))) is None:
            of = self._graph.numbers.of
            found = self._shapes[id(shape)] = of(str(shape)), of(shape.to_string(layout=False))
        return found

    def _attribute(self, attributes: str) -> tuple[Key, Key]:
        of = self._graph.numbers.of
        found = self._attributes[attributes] = of(attributes), of(essential(attributes))
        return found

    def _finish(self, unit: Unit) -> None:
        graph = self._graph
        ends = sorted(graph.expression[node] for node in unit.nodes if not graph.users[node])
        root = unit.computation.root
        made = -1
        if root is not None:
            value = graph.value[graph.node(root)]
            graph.roots.add(value)
            made = graph.expression[value]
        unit.content = graph.numbers.of(("computation", made, *ends))

