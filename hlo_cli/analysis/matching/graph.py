"""A module as a graph: who takes what from whom within each computation, and what each instruction says of itself.

Everything is a number, so that two modules are compared by comparing numbers. Follows xla/hlo/tools/hlo_diff/graph.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from hlo_cli.analysis.costs.order import callees_first
from hlo_cli.analysis.matching.said import essential, op_name_in, what_is_said
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

Node = int
"""An instruction's number in its module: computations one after the other, each in the order of the text."""
Key = int
"""A number that stands for something compared; equal things have equal numbers in both modules."""

LEVELS: Final = 4
TOLD, SAID, MEANT, BARE = range(LEVELS)
"""Levels of detail: all that an instruction says, and where it comes from; without where it comes from; without layouts
and what is not computed with; without shape.
"""
_INLINED: Final = frozenset(("fusion", "call"))
_DEEPEST: Final = 50


class Keys:
    """Numbers for whatever can be compared, equal for what is equal; one numbering serves both modules.

    `of` is the number of something, a new one if it has not been seen. `less` leads from the key of all that an
    instruction says to the keys that say less.
    """

    __slots__ = ("less", "of")

    def __init__(self) -> None:
        self.of: Callable[[object], Key] = defaultdict[object, Key](count().__next__).__getitem__
        self.less: dict[Key, tuple[Key, Key]] = {}


@dataclass(slots=True, eq=False)
class Unit:
    """A computation as a part of a graph, operands before users; `content` is equal for what computes the same.

    `told` is equal if all its instructions say the same, and come from the same places.
    """

    computation: Computation
    nodes: list[Node] = field(default_factory=list)
    content: Key = -1
    told: Key = -1


class Graph:
    """Nodes, and how they are linked: `operands` and `users` (with the operand's place) of each.

    `keys[level]` says what a node is, at four levels of detail. `expression` is equal for nodes of two modules that
    are computed alike from the same parameters, `comparable` the same where that makes them the same value, else -1.
    `bodies` are the computations that a single fusion or call runs, with that caller. `value[n]` is the node whose
    value n only hands on: n itself, unless the graph is flattened. `controlled` nodes have control predecessors.
    """

    __slots__ = (
        *(
            "bodies",
            "comparable",
            "controlled",
            "expression",
            "keys",
            "metadata",
            "module",
            "nodes",
            "numbers",
            "operands",
        ),
        *("roots", "taken", "unit_of", "users", "value"),
    )

    def __init__(self, module: Module, numbers: Keys) -> None:
        self.module = module
        self.numbers = numbers
        self.nodes: list[Instruction] = list(module.instructions)
        size = len(self.nodes)
        self.keys: list[list[Key]] = [[-1] * size for _ in range(LEVELS)]
        self.metadata: list[str] = [""] * size
        self.controlled: set[Node] = set()
        self.taken = _first_nodes(module)
        self.bodies = _bodies(module)
        self.unlink()

    def unlink(self) -> None:
        """Take all links away, to make others."""
        size = len(self.nodes)
        self.operands: list[tuple[Node, ...]] = [()] * size
        self.users: list[list[tuple[Node, int]]] = [[] for _ in range(size)]
        self.value: list[Node] = list(range(size))
        self.expression: list[Key] = [-1] * size
        self.comparable: list[Key] = [-1] * size
        self.roots: set[Node] = set()
        self.unit_of: dict[Computation, Unit] = {}

    def node(self, instruction: Instruction) -> Node:
        """The number of an instruction."""
        return self.taken[instruction.computation] + instruction.index

    def link(self, node: Node, operands: list[Node]) -> None:
        """These are the operands of a node, which are linked themselves already."""
        self.operands[node] = tuple(operands)
        expression, users = self.expression, self.users
        for slot, operand in enumerate(operands):
            users[operand].append((node, slot))
        expression[node] = self.numbers.of((self.keys[SAID][node], *[expression[operand] for operand in operands]))

    def finish(self, unit: Unit) -> None:
        """Say what a computation computes, all its nodes being linked."""
        ends = sorted([self.expression[node] for node in unit.nodes if not self.users[node]])
        root, made = unit.computation.root, -1
        if root is not None:
            value = self.value[self.node(root)]
            self.roots.add(value)
            made = self.expression[value]
        unit.content = self.numbers.of(("computation", made, *ends))
        self.unit_of[unit.computation] = unit


def graph_of(module: Module, numbers: Keys, *, same_frames: bool = True) -> Graph:
    """The graph of a module, each computation by itself; `same_frames` if both modules have one table of stack frames.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }")
    >>> graph = graph_of(module, Keys())
    >>> graph.operands, graph.users, graph.roots
    ([(), (0,)], [[(1, 0)], []], {1})
    """
    graph = Graph(module, numbers)
    saying = _Saying(graph, same_frames=same_frames)
    for computation in callees_first(module.computations):
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
        if is_closed and graph.nodes[node].opcode != "parameter":
            graph.comparable[node] = graph.expression[node]


def _first_nodes(module: Module) -> dict[Computation, Node]:
    first, at = {}, 0
    for computation in module.computations:
        first[computation] = at
        at += len(computation.instructions)
    return first


def _bodies(module: Module) -> dict[Computation, Instruction]:
    """The computations that one fusion or call alone runs, with that caller; not what is nested all too deep."""
    calls: Counter[Computation] = Counter()
    callers: dict[Computation, Instruction] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            for called in instruction.called_computations:
                calls[called] += 1
                callers[called] = instruction
    bodies = {c: caller for c, caller in callers.items() if calls[c] == 1 and _can_stand_inlined(module, c, caller)}
    depth: dict[Computation, int] = {}
    for computation in callees_first(module.computations):
        below = [depth.get(c, _DEEPEST) for i in computation.instructions for c in i.called_computations]
        depth[computation] = max(below, default=0) + 1
        if depth[computation] > _DEEPEST:
            bodies.pop(computation, None)
            depth[computation] = 1
    return bodies


def _can_stand_inlined(module: Module, computation: Computation, caller: Instruction) -> bool:
    return (
        caller.opcode in _INLINED
        and caller.index not in caller.computation.operand_indices
        and computation is not module.entry
        and computation.root is not None
        and len(computation.parameters) == len(caller.operands)
        and caller.computation.execution_thread == computation.execution_thread
    )


class _Text(NamedTuple):
    """What attributes say: all of them, the essential ones, the metadata, and what of it can be compared."""

    said: Key
    meant: Key
    metadata: str
    origin: str
    is_controlled: bool


class _Saying:
    """Finds the keys of instructions; shapes and attributes repeat, and are looked at once."""

    __slots__ = ("_calling", "_graph", "_plain", "_same_frames", "_shapes")

    def __init__(self, graph: Graph, *, same_frames: bool) -> None:
        self._graph = graph
        self._same_frames = same_frames
        self._shapes: dict[int, tuple[Key, Key]] = {}
        self._plain: dict[str, _Text] = {}
        self._calling: dict[str, _Text] = {}

    def say(self, node: Node, instruction: Instruction) -> None:
        """Note what an instruction says of itself and of the computations that it calls."""
        graph, opcode, called = self._graph, instruction.opcode, instruction.called_computations
        argument, attributes = instruction.raw
        texts = self._calling if called else self._plain
        said, meant, metadata, origin, is_controlled = texts.get(attributes) or self._text(instruction, texts)
        graph.metadata[node] = metadata
        if is_controlled:
            graph.controlled.add(node)
        shape, bare = self._shapes.get(id(instruction.shape)) or self._shape(instruction)
        indices = instruction.computation.operand_indices
        taken = indices.get(instruction.index) if indices else None
        units = [graph.unit_of[c] for c in called if c in graph.unit_of] if called else ()
        content = tuple([unit.content for unit in units]) if units else ()
        number = argument.strip() if opcode == "parameter" else argument
        numbers, (told_key, said_key, meant_key, bare_key) = graph.numbers, graph.keys
        key = said_key[node] = numbers.of((opcode, shape, said, number, taken, content))
        if (less := numbers.less.get(key)) is None:
            less = numbers.less[key] = (
                numbers.of((opcode, bare, meant, number, taken)),
                numbers.of((opcode, meant, number if opcode == "parameter" else "")),
            )
        meant_key[node], bare_key[node] = less
        if origin or units:
            key = numbers.of((key, origin, *[unit.told for unit in units]))
        told_key[node] = key

    def _shape(self, instruction: Instruction) -> tuple[Key, Key]:
        shape, of = instruction.shape, self._graph.numbers.of
        found = self._shapes[id(shape)] = of(str(shape)), of(shape.to_string(layout=False))
        return found

    def _text(self, instruction: Instruction, texts: dict[str, _Text]) -> _Text:
        of = self._graph.numbers.of
        _, attributes, metadata, is_controlled = what_is_said(instruction)
        is_own = not self._same_frames and "stack_frame_id" in metadata
        origin = op_name_in(metadata) if is_own else metadata
        found = _Text(of(attributes), of(essential(attributes)), metadata, origin, is_controlled)
        texts[instruction.raw[1]] = found
        return found
