"""A module as a graph: who takes what from whom within each computation, and what each instruction says of itself.

Everything is a number, so that two modules are compared by comparing numbers. Follows xla/hlo/tools/hlo_diff/graph.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import count
from typing import Final, NamedTuple

from hlo_cli.analysis.cost.traversal import callees_first
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
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
_INLINED: Final = frozenset((opcodes.FUSION, opcodes.CALL))
_DEEPEST: Final = 50


class Text(NamedTuple):
    """What attributes say: all of them, the essential ones, the metadata, and what of it can be compared."""

    said: Key
    meant: Key
    metadata: str
    origin: str
    is_controlled: bool


class Keys:
    """Numbers for whatever can be compared, equal for what is equal; one numbering serves both modules.

    `of` is the number of something, a new one if it has not been seen. `less` leads from the key of all that an
    instruction says to the keys that say less. `plain` and `calling` hold what is known of attributes by how they are
    written, the latter for instructions that call something.
    """

    __slots__ = ("calling", "less", "of", "plain")

    def __init__(self) -> None:
        self.of: Callable[[object], Key] = defaultdict[object, Key](count().__next__).__getitem__
        self.less: dict[Key, tuple[Key, Key]] = {}
        self.plain: dict[str, Text] = {}
        self.calling: dict[str, Text] = {}


@dataclass(slots=True, eq=False)
class Unit:
    """A computation as a part of a graph, operands before users; `content` is equal for what computes the same.

    `told` is equal if all its instructions say the same, and come from the same places. `twin` is the computation that
    stands letter by letter in the other module, and calls the same.
    """

    computation: Computation
    nodes: list[Node] = field(default_factory=list)
    content: Key = -1
    told: Key = -1
    twin: Computation | None = None


class Graph:
    """Nodes, and how they are linked: `operands` and `users` (with the operand's place) of each.

    `keys[level]` says what a node is, at four levels of detail. `expression` is equal for nodes of two modules that
    are computed alike from the same parameters, `comparable` the same where that makes them the same value, else -1.
    `bodies` are the computations that a single fusion or call runs, with that caller. `value[n]` is the node whose
    value n only hands on: n itself, unless the graph is flattened. `controlled` nodes have control predecessors.
    `order` has computations behind what they call.
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
            "order",
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
        self.order = tuple(callees_first(module.computations))
        self.bodies = _bodies(module, self.order)
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


def _first_nodes(module: Module) -> dict[Computation, Node]:
    first, at = {}, 0
    for computation in module.computations:
        first[computation] = at
        at += len(computation.instructions)
    return first


def _bodies(module: Module, order: Sequence[Computation]) -> dict[Computation, Instruction]:
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
    for computation in order:
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
