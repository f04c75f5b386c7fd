"""Mutable graph of a computation for simulated fusion: nodes can be fused, replaced, and removed.

Mirrors what fusion passes use of `HloInstruction` and `HloFusionInstruction` of xla/hlo/ir/hlo_instructions.h. The IR
is not modified; each node refers to its instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from hlo_cli.analysis.dataflow.post_order import control_predecessors, instruction_post_order
from hlo_cli.analysis.fusion.users import Users
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import RUNNERS
from hlo_cli.ir.shape import Shape

_ALIASING_ATTRIBUTE: Final = "output_to_operand_aliasing"


class Node:
    """Instruction of a computation or of a fused computation; compared by identity.

    `instruction` is the represented instruction: of a clone the original, of a new fusion its fused root. `users` are
    unique and ordered as in XLA. `number` is the parameter number, or the tuple index of a new get-tuple-element, else
    -1. `aliasing` is the output_to_operand_aliasing of a fusion.
    """

    __slots__ = ("aliasing", "body", "instruction", "kind", "name", "number", "opcode", "operands", "shape", "users")

    def __init__(self, instruction: Instruction, operands: Iterable[Node], *, opcode: str = "", name: str = "") -> None:
        self.instruction = instruction
        self.opcode = opcode or instruction.opcode
        self.shape: Shape = instruction.shape
        self.operands: list[Node] = list(operands)
        self.users: Users[Node] = Users()
        self.body: FusionBody | None = None
        self.kind = ""
        self.name = name or instruction.name
        self.number = -1
        self.aliasing: tuple[OutputOperandAlias, ...] = ()
        for operand in self.operands:
            operand.users.add(self)

    @property
    def has_several_results(self) -> bool:
        """Whether the node is a multi-output fusion."""
        return self.body is not None and self.body.root.opcode == opcodes.TUPLE

    @property
    def element(self) -> int:
        """Tuple index of a get-tuple-element."""
        return self.number if self.number >= 0 else self.instruction.integer("index") or 0

    def replace_operand(self, position: int, new: Node) -> None:
        """Replaces the operand at `position` with `new`."""
        old = self.operands[position]
        self.operands[position] = new
        if old not in self.operands:
            old.users.remove(self)
        new.users.add(self)

    def replace_by(self, new: Node) -> None:
        """Replaces this node with `new` in all users."""
        for user in list(self.users):
            for position, operand in enumerate(user.operands):
                if operand is self:
                    user.replace_operand(position, new)

    def detach(self) -> None:
        """Removes all operands."""
        for operand in self.operands:
            operand.users.remove(self)
        self.operands = []

    def __repr__(self) -> str:
        return f"<node {self.opcode} {self.name}>"


@dataclass(slots=True, eq=False)
class FusionBody:
    """Fused computation: the root, all nodes, and the parameters, which correspond to the operands of the fusion.

    `computation` is the original one; None for a new body or one into which an operation was fused.
    """

    root: Node
    nodes: dict[Node, None]
    parameters: list[Node] = field(default_factory=list)
    computation: Computation | None = None
    name: str = ""

    @property
    def operations(self) -> Iterator[Node]:
        """Nodes other than parameters."""
        return (node for node in self.nodes if node.opcode != opcodes.PARAMETER)


@dataclass(slots=True, eq=False)
class Graph:
    """Nodes of a computation; `order` is the order of the text, with None for a removed node.

    `position` maps a node to its index in `order`. `controlled` has the instructions with control predecessors. `text`
    is the text of the module, if known; it avoids a search of every instruction for control predecessors.
    """

    computation: Computation
    order: list[Node | None]
    root: Node | None
    position: dict[Node, int]
    control_predecessors: dict[Node, list[Node]]
    text: str = ""
    controlled: frozenset[Instruction] = field(init=False)
    control_successors: dict[Node, list[Node]] = field(init=False)

    def __post_init__(self) -> None:
        self.control_successors = {}
        self.controlled = frozenset(node.instruction for node in self.control_predecessors)
        for node, needed in self.control_predecessors.items():
            for other in needed:
                self.control_successors.setdefault(other, []).append(node)

    @property
    def nodes(self) -> Iterator[Node]:
        """Nodes that are not removed, in order."""
        return (node for node in self.order if node is not None)

    def replace(self, new: Node, old: Node) -> None:
        """Replaces `old` with `new` in the order, in users, as root, and in control dependencies."""
        place = self.position[new] = self.position.pop(old)
        self.order[place] = new
        old.replace_by(new)
        old.detach()
        if self.root is old:
            self.root = new
        for here, there in (
            (self.control_predecessors, self.control_successors),
            (self.control_successors, self.control_predecessors),
        ):
            if old in here:
                here[new] = here.pop(old)
                for other in here[new]:
                    there[other] = [new if node is old else node for node in there[other]]

    def remove(self, node: Node) -> None:
        """Removes a node without users, and its control dependencies."""
        self.order[self.position.pop(node)] = None
        node.detach()
        for here, there in (
            (self.control_predecessors, self.control_successors),
            (self.control_successors, self.control_predecessors),
        ):
            for other in here.pop(node, ()):
                there[other] = [each for each in there[other] if each is not node]

    def add(self, new: Node) -> None:
        """Appends a node."""
        self.position[new] = len(self.order)
        self.order.append(new)

    def sort_topologically(self) -> None:
        """Moves dependencies before their users; keeps the order otherwise."""
        order = self._walk(self.nodes)
        self.order = [*order]
        self.position = {node: place for place, node in enumerate(order)}

    def sorted_nodes(self) -> list[Node]:
        """Nodes in XLA's post-order of the current graph."""
        needed = {other for node in self.nodes for other in self.dependencies(node)}
        return self._walk(node for node in self.nodes if node not in needed)

    def _walk(self, firsts: Iterable[Node]) -> list[Node]:
        """Depth-first post-order of `firsts` and their dependencies, first operand first."""
        order: list[Node] = []
        done: set[Node] = set()
        for first in firsts:
            waiting = [first]
            while waiting:
                node = waiting[-1]
                missing = [] if node in done else [n for n in self.dependencies(node) if n not in done]
                waiting.extend(reversed(missing))
                if not missing:
                    waiting.pop()
                    if node not in done:
                        done.add(node)
                        order.append(node)
        return order

    def dependencies(self, node: Node) -> Iterator[Node]:
        """Yields control predecessors, last one first, then operands."""
        yield from reversed(self.control_predecessors.get(node, ()))
        yield from node.operands

    def reaches(self, sources: Iterable[Node], target: Node) -> bool:
        """Whether `target` depends on one of `sources`, directly or indirectly."""
        wanted = set(sources)
        seen = {target}
        waiting = [target]
        while waiting:
            for node in self.dependencies(waiting.pop()):
                if node in wanted:
                    return True
                if node not in seen:
                    seen.add(node)
                    waiting.append(node)
        return False

    def add_control_dependencies(self, node: Node, others: Iterable[Node]) -> None:
        """Adds `others` as control predecessors of `node`."""
        for other in others:
            if other is not node and node not in self.control_successors.get(other, ()):
                self.control_predecessors.setdefault(node, []).append(other)
                self.control_successors.setdefault(other, []).append(node)

    def post_order(self) -> list[Node]:
        """Nodes in XLA's post-order of the unmodified computation."""
        order = instruction_post_order(self.computation, text=self.text)
        return [node for index in order if (node := self.order[index]) is not None]


def graph_of(computation: Computation, text: str = "") -> Graph:
    """Graph of a computation with the bodies of its fusions.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT q = f32[2] add(p, p) }"
    >>> graph = graph_of(parse_module(text).entry)
    >>> graph.root, list(graph.root.operands[0].users)
    (<node add q>, [<node add q>])
    """
    nodes = _nodes_of(computation)
    order: list[Node | None] = list(nodes.values())
    before = {
        nodes[computation.instructions[index]]: [nodes[computation.instructions[n]] for n in needed]
        for index, needed in control_predecessors(computation, text).items()
    }
    root = None if computation.root is None else nodes[computation.root]
    return Graph(computation, order, root, {node: n for n, node in enumerate(nodes.values())}, before, text)


def _nodes_of(computation: Computation, around: frozenset[Computation] = frozenset()) -> dict[Instruction, Node]:
    """Nodes by instruction; a fusion whose operands do not match its parameters gets no body."""
    nodes: dict[Instruction, Node] = {}
    inside = around | {computation}
    for instruction in computation.instructions:
        nodes[instruction] = node = Node(instruction, ())
        called = instruction.called_computations
        if instruction.opcode == opcodes.FUSION and called and len(called[0].parameters) == len(instruction.operands):
            node.body = body_of(called[0], inside)
            node.kind = instruction.attribute("kind") or ""
            node.aliasing = _aliasing_of(instruction)
    for number, parameter in enumerate(computation.parameters):
        nodes[parameter].number = number
    for instruction, node in nodes.items():
        node.operands = [nodes[operand] for operand in instruction.operands if operand in nodes]
        for operand in node.operands:
            operand.users.add(node)
    return nodes


def _aliasing_of(fusion: Instruction) -> tuple[OutputOperandAlias, ...]:
    return fusion.items_of(_ALIASING_ATTRIBUTE, OutputOperandAlias) if _ALIASING_ATTRIBUTE in fusion.raw[1] else ()


def body_of(computation: Computation, around: frozenset[Computation] = frozenset()) -> FusionBody:
    """Fused computation as nodes.

    >>> from hlo_cli import parse_module
    >>> body = body_of(parse_module("f { p = s8[] parameter(0)  ROOT n = s8[] not(p) }").entry)
    >>> body.root, body.parameters, list(body.operations)
    (<node not n>, [<node parameter p>], [<node not n>])
    """
    nodes = _nodes_of(computation, around)
    assert computation.root is not None
    parameters = [nodes[parameter] for parameter in computation.parameters]
    return FusionBody(nodes[computation.root], dict.fromkeys(nodes.values()), parameters, computation, computation.name)


def fusible_computations(module: Module) -> Iterator[Computation]:
    """Computations in which XLA makes fusions: those executed instruction by instruction, and those without a caller.

    >>> from hlo_cli import parse_module
    >>> text = '''f { ROOT p = f32[] parameter(0) }
    ... ENTRY e { a = f32[] parameter(0)  ROOT r = f32[] call(a), to_apply=f }'''
    >>> [computation.name for computation in fusible_computations(parse_module(text))]
    ['f', 'e']
    """
    callers: dict[Computation, Instruction] = {}
    for instruction in module.instructions:
        for called in instruction.called_computations:
            callers.setdefault(called, instruction)
    for computation in module.computations:
        is_whole = computation.root is not None  # a text may end before it
        if is_whole and (computation not in callers or callers[computation].opcode in RUNNERS):
            yield computation
