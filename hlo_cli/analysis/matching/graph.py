"""Graph of a module: operands and users of each instruction within its computation, and hashed content.

Nodes and content are integers, so that modules are compared by comparing integers. Mirrors
xla/hlo/tools/hlo_diff/graph.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import count
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.dependencies import callees_first
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

Node = int
"""Index of an instruction in its module: computations one after the other, each in the order of the text."""
Key = int
"""Integer for compared content; equal content has equal keys in both modules."""

LEVELS: Final = 4
FULL, CONTENT, ESSENTIAL, SHAPELESS = range(LEVELS)
"""Levels of detail of a key.

FULL covers content and origin, CONTENT all but the origin. ESSENTIAL omits layouts and attributes that do not define
the computed value. SHAPELESS omits the shape as well.
"""
_INLINED_OPCODES: Final = frozenset((opcodes.FUSION, opcodes.CALL))
_MAX_INLINE_DEPTH: Final = 50
TUPLE_INDEX: Final = re.compile(r", index=([0-9]{1,9})(?![0-9])")
"""First attribute of a get-tuple-element."""


class Text(NamedTuple):
    """Keys of an attribute text (all attributes, essential ones), the metadata, and its comparable part."""

    content: Key
    essential: Key
    metadata: str
    origin: str
    is_controlled: bool


class Line(NamedTuple):
    """Keys of an instruction that calls nothing at every level of detail, the index of a get-tuple-element (else -1),
    and the text of its attributes.
    """

    full: Key
    content: Key
    essential: Key
    shapeless: Key
    tuple_index: int
    text: Text


class Keys:
    """Interning table that gives equal keys to equal content; both modules share one.

    `of` returns the key of a hashable object. `reduced` maps a key of level CONTENT to those of ESSENTIAL and
    SHAPELESS. `plain` and `calling` cache attribute texts, the latter for instructions that call computations. `lines`
    caches the keys of whole lines.
    """

    __slots__ = ("calling", "lines", "of", "plain", "reduced")

    def __init__(self) -> None:
        self.of: Callable[[object], Key] = defaultdict[object, Key](count().__next__).__getitem__
        self.reduced: dict[Key, tuple[Key, Key]] = {}
        self.plain: dict[str, Text] = {}
        self.calling: dict[str, Text] = {}
        self.lines: dict[tuple[str, Key, str, str], Line] = {}


@dataclass(slots=True, eq=False)
class Unit:
    """Computation as a part of a graph, with its nodes in topological order.

    `content` is equal for computations that compute the same, and `full` if all their instructions have equal FULL
    keys. `twin` is the computation of the other module with identical text and identical callees.
    """

    computation: Computation
    nodes: list[Node] = field(default_factory=list)
    content: Key = -1
    full: Key = -1
    twin: Computation | None = None


class Graph:
    """Nodes with their `operands` and `users`; a user comes with the position of the operand.

    - `keys[level][n]` is the key of node n at one of four levels of detail.
    - `expression[n]` is equal for nodes of two modules that compute the same from the same parameters. `comparable[n]`
      is the same where equal keys mean equal values, else -1.
    - `bodies` maps each computation with a single fusion or call as caller to that caller.
    - `value[n]` is the node whose value n forwards: n itself, unless the graph is flattened.
    - `controlled` has the nodes with control predecessors.
    - `order` has the computations, callees first.
    - `tuple_index[n]` is the index of a get-tuple-element, which its keys do not contain; else -1.
    - `first_nodes` has the node of the first instruction of each computation.
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
        *("roots", "first_nodes", "tuple_index", "unit_of", "users", "value"),
    )

    def __init__(self, module: Module, numbers: Keys) -> None:
        self.module = module
        self.numbers = numbers
        self.nodes: list[Instruction] = list(module.instructions)
        size = len(self.nodes)
        self.keys: list[list[Key]] = [[-1] * size for _ in range(LEVELS)]
        self.metadata: list[str] = [""] * size
        self.tuple_index: list[int] = [-1] * size
        self.controlled: set[Node] = set()
        self.first_nodes = _first_nodes(module)
        self.order = tuple(callees_first(module.computations))
        self.bodies = _bodies(module, self.order)
        self.unlink()

    def unlink(self) -> None:
        """Removes all edges and what is derived from them."""
        size = len(self.nodes)
        self.operands: list[tuple[Node, ...]] = [()] * size
        self.users: list[list[tuple[Node, int]]] = [[] for _ in range(size)]
        self.value: list[Node] = list(range(size))
        self.expression: list[Key] = [-1] * size
        self.comparable: list[Key] = [-1] * size
        self.roots: set[Node] = set()
        self.unit_of: dict[Computation, Unit] = {}

    def node(self, instruction: Instruction) -> Node:
        """Node of an instruction."""
        return self.first_nodes[instruction.computation] + instruction.index

    def link(self, node: Node, operands: list[Node]) -> None:
        """Sets the operands of a node; the operands are linked already."""
        self.operands[node] = tuple(operands)
        expression, users = self.expression, self.users
        for position, operand in enumerate(operands):
            users[operand].append((node, position))
        made = [expression[operand] for operand in operands]
        if (index := self.tuple_index[node]) >= 0:
            made.append(index)
        expression[node] = self.numbers.of((self.keys[CONTENT][node], *made))

    def finish(self, unit: Unit) -> None:
        """Computes the content of a computation whose nodes are all linked."""
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
    """Computations with a single fusion or call as caller, with that caller, up to a nesting depth of 50."""
    calls: Counter[Computation] = Counter()
    callers: dict[Computation, Instruction] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            for called in instruction.called_computations:
                calls[called] += 1
                callers[called] = instruction
    bodies = {c: caller for c, caller in callers.items() if calls[c] == 1 and _can_inline(module, c, caller)}
    depth: dict[Computation, int] = {}
    for computation in order:
        below = [depth.get(c, _MAX_INLINE_DEPTH) for i in computation.instructions for c in i.called_computations]
        depth[computation] = max(below, default=0) + 1
        if depth[computation] > _MAX_INLINE_DEPTH:
            bodies.pop(computation, None)
            depth[computation] = 1
    return bodies


def _can_inline(module: Module, computation: Computation, caller: Instruction) -> bool:
    return (
        caller.opcode in _INLINED_OPCODES
        and caller.index not in caller.computation.operand_indices
        and computation is not module.entry
        and computation.root is not None
        and len(computation.parameters) == len(caller.operands)
        and caller.computation.execution_thread == computation.execution_thread
    )
