"""A computation while fusing it is thought through: nodes that can be fused, replaced and removed.

Mirrors what fusion passes use of `HloInstruction` and `HloFusionInstruction` of xla/hlo/ir/hlo_instructions.h. The IR
stays as it is; a node says which instruction it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from hlo_cli.analysis.dataflow.post_order import control_predecessors, instruction_post_order
from hlo_cli.analysis.fusion.users import Users
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import RUNNERS
from hlo_cli.ir.shape import Shape

_ALIASING: Final = "output_to_operand_aliasing"


class Node:
    """An instruction of a computation, or of the body of a fusion; compared by identity.

    `instruction` is the one that it stands for: for a clone that which was cloned, for a new fusion its fused root.
    `users` are ordered and hold each user once. `number` is that of a parameter, or of the element that a new
    get-tuple-element takes, else -1. `aliasing` is what a fusion says of results that lie where operands lay.
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
        """Whether it is a fusion with a tuple of results."""
        return self.body is not None and self.body.root.opcode == opcodes.TUPLE

    @property
    def element(self) -> int:
        """Which element a get-tuple-element takes."""
        return self.number if self.number >= 0 else self.instruction.integer("index") or 0

    def replace_operand(self, position: int, new: Node) -> None:
        """Take another value there."""
        old = self.operands[position]
        self.operands[position] = new
        if old not in self.operands:
            old.users.remove(self)
        new.users.add(self)

    def replace_by(self, new: Node) -> None:
        """Give all users another value in place of this one."""
        for user in list(self.users):
            for position, operand in enumerate(user.operands):
                if operand is self:
                    user.replace_operand(position, new)

    def detach(self) -> None:
        """Take no value any more."""
        for operand in self.operands:
            operand.users.remove(self)
        self.operands = []

    def __repr__(self) -> str:
        return f"<node {self.opcode} {self.name}>"


@dataclass(slots=True, eq=False)
class FusionBody:
    """What a fusion does: its nodes, among them the parameters, which stand for the fusion's operands, and the root.

    `computation` is the one that it was read from; None for a body that was made, or that anything was fused into.
    """

    root: Node
    nodes: dict[Node, None]
    parameters: list[Node] = field(default_factory=list)
    computation: Computation | None = None
    name: str = ""

    @property
    def operations(self) -> Iterator[Node]:
        """The nodes that are no parameters."""
        return (node for node in self.nodes if node.opcode != opcodes.PARAMETER)


@dataclass(slots=True, eq=False)
class Graph:
    """A computation as nodes: `order` in the order of the text, with None where one is gone.

    `place` says where a node stands in `order`. `before` are the control predecessors of nodes that have any, `behind`
    the nodes that wait for them; `held` are the instructions that say so. The module's `text`, where it is at hand,
    saves looking for them.
    """

    computation: Computation
    order: list[Node | None]
    root: Node | None
    place: dict[Node, int]
    before: dict[Node, list[Node]]
    text: str = ""
    held: frozenset[Instruction] = field(init=False)
    behind: dict[Node, list[Node]] = field(init=False)

    def __post_init__(self) -> None:
        self.behind = {}
        self.held = frozenset(node.instruction for node in self.before)
        for node, needed in self.before.items():
            for other in needed:
                self.behind.setdefault(other, []).append(node)

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes that are there, in order."""
        return (node for node in self.order if node is not None)

    def put(self, new: Node, old: Node) -> None:
        """Let a new node stand for an old one: in the order, for its users, as the root, in control dependencies."""
        place = self.place[new] = self.place.pop(old)
        self.order[place] = new
        old.replace_by(new)
        old.detach()
        if self.root is old:
            self.root = new
        for here, there in ((self.before, self.behind), (self.behind, self.before)):
            if old in here:
                here[new] = here.pop(old)
                for other in here[new]:
                    there[other] = [new if node is old else node for node in there[other]]

    def remove(self, node: Node) -> None:
        """Take out a node that nobody uses; what had to wait for it need not wait any more."""
        self.order[self.place.pop(node)] = None
        node.detach()
        for here, there in ((self.before, self.behind), (self.behind, self.before)):
            for other in here.pop(node, ()):
                there[other] = [each for each in there[other] if each is not node]

    def add(self, new: Node) -> None:
        """A new node, behind all others."""
        self.place[new] = len(self.order)
        self.order.append(new)

    def settle(self) -> None:
        """Put what is needed before what needs it, and leave everything else in its order."""
        order = self._walk(self.nodes)
        self.order = [*order]
        self.place = {node: place for place, node in enumerate(order)}

    def sorted_nodes(self) -> list[Node]:
        """The nodes as XLA walks them, whatever has been fused."""
        needed = {other for node in self.nodes for other in self.needed(node)}
        return self._walk(node for node in self.nodes if node not in needed)

    def _walk(self, firsts: Iterable[Node]) -> list[Node]:
        """These nodes with all that they need, each behind what it needs, the first operand first."""
        order: list[Node] = []
        done: set[Node] = set()
        for first in firsts:
            waiting = [first]
            while waiting:
                node = waiting[-1]
                needed = [] if node in done else [n for n in self.needed(node) if n not in done]
                waiting.extend(reversed(needed))
                if not needed:
                    waiting.pop()
                    if node not in done:
                        done.add(node)
                        order.append(node)
        return order

    def needed(self, node: Node) -> Iterator[Node]:
        """What a node waits for, the last first, and takes."""
        yield from reversed(self.before.get(node, ()))
        yield from node.operands

    def leads_to(self, sources: Iterable[Node], target: Node) -> bool:
        """Whether a node needs one of the others, directly or not."""
        looked_for = set(sources)
        seen = {target}
        waiting = [target]
        while waiting:
            for node in self.needed(waiting.pop()):
                if node in looked_for:
                    return True
                if node not in seen:
                    seen.add(node)
                    waiting.append(node)
        return False

    def wait(self, node: Node, others: Iterable[Node]) -> None:
        """Let a node wait for others besides those that it waits for."""
        for other in others:
            if other is not node and node not in self.behind.get(other, ()):
                self.before.setdefault(node, []).append(other)
                self.behind.setdefault(other, []).append(node)

    def post_order(self) -> list[Node]:
        """The nodes as XLA walks them, when nothing has been fused yet."""
        order = instruction_post_order(self.computation, text=self.text)
        return [node for index in order if (node := self.order[index]) is not None]


def graph_of(computation: Computation, text: str = "") -> Graph:
    """The nodes of a computation, with the bodies of its fusions.

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
    """The nodes by instruction; a fusion that is given more than its body takes stays closed."""
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
    return fusion.items_of(_ALIASING, OutputOperandAlias) if _ALIASING in fusion.raw[1] else ()


def body_of(computation: Computation, around: frozenset[Computation] = frozenset()) -> FusionBody:
    """A fused computation as nodes.

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
    """The computations that run instruction by instruction, or that nobody calls, in which fusions are made.

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
