"""What do passes of fusion work on: a graph of a computation that can be changed, and what allows to fuse nodes?

Both compilers fuse on this graph; the IR is not modified.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, Generic, NamedTuple, TypeVar

from hlo_cli.analysis.dataflow.dependencies import control_predecessors, instruction_post_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import (
    BLOCK_MOVES,
    CONTROL_FLOW,
    ELEMENTWISE,
    HOST_FEEDS,
    NO_KERNELS,
    OUTPUT_TO_OPERAND_ALIASING,
    RUNNERS,
    TRANSCENDENTAL,
)
from hlo_cli.ir.shape import ArrayShape, Shape

# --- users in XLA's order ---
# Users of a value in XLA's order, in which a removed user is replaced by the last one.
#
# Mirrors `HloInstruction::Users` of xla/hlo/ir/hlo_instruction.cc. The order decides between pairs of equal profit.


_T = TypeVar("_T")
_MAX_LINEAR: Final = 8
"""Number of users up to which membership is a linear search; beyond it, a dict holds positions."""
_MANY_OPERANDS: Final = 64
"""Number of operands from which their places are kept in a dict; few operations have as many."""


class Users(Generic[_T]):
    """Ordered set with the removal order of XLA.

    >>> users = Users[str]()
    >>> for name in "abcd":
    ...     users.add(name)
    >>> users.remove("a")
    >>> users.add("c")
    >>> list(users), len(users), "a" in users
    (['d', 'b', 'c'], 3, False)
    """

    __slots__ = ("_order", "_positions")

    def __init__(self) -> None:
        self._order: list[_T] = []
        self._positions: dict[_T, int] | None = None

    def __iter__(self) -> Iterator[_T]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, user: object) -> bool:
        return user in (self._order if self._positions is None else self._positions)

    def add(self, user: _T) -> None:
        """Appends a user unless it is present."""
        order, position = self._order, self._positions
        if user in (order if position is None else position):
            return
        if position is not None:
            position[user] = len(order)
        order.append(user)
        if position is None and len(order) > _MAX_LINEAR:
            self._positions = {each: number for number, each in enumerate(order)}

    def remove(self, user: _T) -> None:
        """Removes a user, if present; the last user takes its position."""
        if user not in self:
            return
        # hlo_instruction.cc swaps the removed user with the last one, so that removal takes constant time; ties depend
        # on it.
        position = self.index(user)
        last = self._order.pop()
        if self._positions is not None:
            del self._positions[user]
        if position < len(self._order):
            self._order[position] = last
            if self._positions is not None:
                self._positions[last] = position

    def index(self, user: _T) -> int:
        """Position of a user."""
        return self._order.index(user) if self._positions is None else self._positions[user]

    def between(self, first: int, end: int) -> list[_T]:
        """Users at positions `first` to `end`, exclusive."""
        return self._order[first:end]


# --- the graph ---
# Mutable graph of a computation for simulated fusion: nodes can be fused, replaced, and removed.
#
# Mirrors what fusion passes use of `HloInstruction` and `HloFusionInstruction` of xla/hlo/ir/hlo_instructions.h. The IR
# is not modified; each node refers to its instruction.


class Node:
    """Instruction of a computation or of a fused computation; compared by identity.

    `instruction` is the represented instruction: of a clone the original, of a new fusion its fused root. `users` are
    unique and ordered as in XLA. `number` is the parameter number, or the tuple index of a new get-tuple-element, else
    -1. `aliasing` is the output_to_operand_aliasing of a fusion.
    """

    __slots__ = (
        *("_places", "aliasing", "body", "instruction", "kind", "name", "number", "opcode", "operands", "shape"),
        "users",
    )

    def __init__(self, instruction: Instruction, operands: Iterable[Node], *, opcode: str = "", name: str = "") -> None:
        self.instruction = instruction
        self.opcode = opcode or instruction.opcode
        self.shape: Shape = instruction.shape
        self.operands: list[Node] = list(operands)
        self.users: Users[Node] = Users()
        self.body: FusionBody | None = None
        self.kind = ""
        self.name = name or instruction.name
        # No parameter has it, so a clone of a get-tuple-element is told from a new one.
        self.number = -1
        self.aliasing: tuple[OutputOperandAlias, ...] = ()
        # The number of operands, and the places of each, when they were asked for: see `_places_by_operand`.
        self._places: tuple[int, dict[Node, list[int]]] | None = None
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
        places, old = self._places_by_operand(), self.operands[position]
        self.operands[position] = new
        if places is not None:
            places[old].remove(position)
            if not places[old]:
                del places[old]
            insort(places.setdefault(new, []), position)
        # An operand used twice stays a user until its last place is replaced.
        if old not in (self.operands if places is None else places):
            old.users.remove(self)
        new.users.add(self)

    def replace_by(self, new: Node) -> None:
        """Replaces this node with `new` in all users."""
        for user in list(self.users):
            places = user._places_by_operand()
            own = places.get(self, ()) if places is not None else _places_in(user.operands, self)
            for position in tuple(own):
                user.replace_operand(position, new)

    def _places_by_operand(self) -> dict[Node, list[int]] | None:
        """The places of each of many operands, else None; tuples of thousands have each of them replaced."""
        # Operands of fusions come and go; those of operations are only appended, which the length shows.
        if len(self.operands) < _MANY_OPERANDS or self.body is not None:
            return None
        if self._places is None or self._places[0] != len(self.operands):
            places: dict[Node, list[int]] = {}
            for place, operand in enumerate(self.operands):
                places.setdefault(operand, []).append(place)
            self._places = len(self.operands), places
        return self._places[1]

    def detach(self) -> None:
        """Removes all operands."""
        for operand in self.operands:
            operand.users.remove(self)
        self.operands = []

    def __repr__(self) -> str:
        return f"<node {self.opcode} {self.name}>"


def _places_in(operands: Sequence[Node], wanted: Node) -> list[int]:
    return [place for place, operand in enumerate(operands) if operand is wanted]


class Insertion(NamedTuple):
    """An operation that was fused into a body, in place of a parameter; its operands were parameters then.

    Of a fusion that was fused, an operation stands for the parameter that it replaces.
    """

    parameter: Node
    node: Node
    operands: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class FusionBody:
    """Fused computation: the root, all nodes, and the parameters, which correspond to the operands of the fusion.

    `computation` is the original one; None for a new body or one into which an operation was fused. `insertions` are
    the operations fused into it so far; after any other change, a new list begins. `by_opcode` has the operations of
    each opcode, so that what depends on opcodes is not looked for among all nodes whenever one is fused.
    """

    root: Node
    nodes: dict[Node, None]
    parameters: list[Node] = field(default_factory=list)
    computation: Computation | None = None
    name: str = ""
    insertions: list[Insertion] = field(default_factory=list)
    by_opcode: dict[str, dict[Node, None]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_opcode = {}
        for node in self.operations:
            self.by_opcode.setdefault(node.opcode, {})[node] = None

    def add(self, node: Node) -> None:
        """Appends a node."""
        self.nodes[node] = None
        if node.opcode != opcodes.PARAMETER:
            self.by_opcode.setdefault(node.opcode, {})[node] = None

    def remove(self, node: Node) -> None:
        """Removes a node, if it is there."""
        self.nodes.pop(node, None)
        if (same := self.by_opcode.get(node.opcode)) is not None:
            same.pop(node, None)
            if not same:
                del self.by_opcode[node.opcode]

    @property
    def operations(self) -> Iterator[Node]:
        """Nodes other than parameters."""
        return (node for node in self.nodes if node.opcode != opcodes.PARAMETER)


@dataclass(slots=True, eq=False)
class MutableGraph:
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
        for edges, reverse_edges in (
            (self.control_predecessors, self.control_successors),
            (self.control_successors, self.control_predecessors),
        ):
            if old in edges:
                edges[new] = edges.pop(old)
                for other in edges[new]:
                    reverse_edges[other] = [new if node is old else node for node in reverse_edges[other]]

    def remove(self, node: Node) -> None:
        """Removes a node without users, and its control dependencies."""
        self.order[self.position.pop(node)] = None
        node.detach()
        for edges, reverse_edges in (
            (self.control_predecessors, self.control_successors),
            (self.control_successors, self.control_predecessors),
        ):
            for other in edges.pop(node, ()):
                reverse_edges[other] = [each for each in reverse_edges[other] if each is not node]

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
        # hlo_computation.cc pushes control predecessors last to first, before the operands.
        yield from reversed(self.control_predecessors.get(node, ()))
        yield from node.operands

    def reaches(self, sources: Iterable[Node], target: Node) -> bool:
        """Whether `target` depends on one of `sources`, directly or indirectly."""
        wanted = set(sources)
        visited = {target}
        waiting = [target]
        while waiting:
            for node in self.dependencies(waiting.pop()):
                if node in wanted:
                    return True
                if node not in visited:
                    visited.add(node)
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


def mutable_graph_of(computation: Computation, text: str = "") -> MutableGraph:
    """Graph of a computation with the bodies of its fusions.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT q = f32[2] add(p, p) }"
    >>> graph = mutable_graph_of(parse_module(text).entry)
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
    return MutableGraph(computation, order, root, {node: n for n, node in enumerate(nodes.values())}, before, text)


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
    return (
        fusion.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias)
        if OUTPUT_TO_OPERAND_ALIASING in fusion.raw[1]
        else ()
    )


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
        # instruction_fusion.cc skips what is called by anything but control flow: bodies of reduces, sorts, and the
        # like.
        is_whole = computation.root is not None  # a text may end before it
        if is_whole and (computation not in callers or callers[computation].opcode in RUNNERS):
            yield computation


# --- elementwise, reuse, and fusibility ---
# Properties of operations that decide whether they can be fused: elementwise, reuse of operand elements, fusibility.
#
# Mirrors `IsElementwise`, `ReusesOperandElements`, and `IsFusible` of xla/hlo/ir/hlo_instruction.cc.


ELEMENTWISE_WHEN_FUSED: Final = (operations.ELEMENTWISE | {opcodes.CONSTANT, opcodes.RNG}) - {opcodes.BITCAST_CONVERT}
"""Opcodes that compute each element of the result from the operand elements at the same index."""

_PLAIN: Final = ELEMENTWISE_WHEN_FUSED - {opcodes.MAP, opcodes.FUSION}
"""Opcodes of fused operations that need no look at the operation; fusions of a thousand are asked about often."""

_SINGLE_USE: Final = frozenset("bitcast concatenate reshape reverse slice transpose gather".split())
_ALWAYS_FUSIBLE: Final = frozenset((opcodes.FUSION, opcodes.MAP, opcodes.REDUCE, opcodes.REDUCE_WINDOW))
_LAYOUT_CONSTRAINED: Final = operations.taking("constrain_layout") & operations.COLLECTIVES
_NEVER_FUSIBLE: Final = (
    (operations.SIDE_EFFECTS - {"rng"})
    | (operations.CONTROL_FLOW - operations.ASYNCHRONOUS)
    | {opcodes.DOMAIN, opcodes.PARAMETER}
)


def sizes_of(shape: Shape) -> tuple[int, ...]:
    """Dimensions of an array; empty for other shapes."""
    return shape.dimensions if isinstance(shape, ArrayShape) else ()


def is_effective_scalar(shape: Shape) -> bool:
    """Whether an array has one element, whatever its rank (`ShapeUtil::IsEffectiveScalar`)."""
    return isinstance(shape, ArrayShape) and all(size == 1 for size in shape.dimensions)


def is_elementwise(node: Node) -> bool:
    """Whether each element of the result is computed from the operand elements at the same index.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> root = mutable_graph_of(parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry).root
    >>> is_elementwise(root), _reuses_operand(root, 1), _reuses_operand(root, 2)
    (False, False, True)
    """
    match node.opcode:
        case "bitcast-convert":
            operand_shape, result_shape = node.operands[0].shape, node.shape
            return (
                isinstance(operand_shape, ArrayShape)
                and isinstance(result_shape, ArrayShape)
                and operand_shape.element_type.bits == result_shape.element_type.bits
            )
        case opcodes.MAP:
            return node.instruction.integers("dimensions") == tuple(range(len(sizes_of(node.shape))))
        case opcodes.FUSION:
            return node.body is not None and all(
                opcode in _PLAIN or all(map(is_elementwise, nodes)) for opcode, nodes in node.body.by_opcode.items()
            )
    return node.opcode in ELEMENTWISE_WHEN_FUSED


def _reuses_operand(node: Node, position: int) -> bool:
    """Whether an element of the operand can be used for more than one element of the result."""
    match node.opcode:
        case opcodes.PAD:
            # The padding value is read for every element outside.
            return position > 0
        case opcodes.REDUCE:
            return position >= len(node.operands) // 2
        case opcodes.DYNAMIC_UPDATE_SLICE:
            return position > 1
        case opcodes.DOT:
            # A matrix times a vector reads the matrix once, the vector for each row.
            partner = node.operands[1 - position] if position < 2 else node
            return len(sizes_of(node.shape)) > 1 or len(sizes_of(partner.shape)) > 1
        case opcodes.FUSION:
            return node.body is None or position in _reused_parameters(node.body)
    return node.opcode not in _SINGLE_USE and not is_elementwise(node)


def reused_operands(node: Node) -> set[Node]:
    """Operands whose elements can be used for more than one element of the result."""
    if node.opcode == opcodes.FUSION and node.body is not None:
        reused = _reused_parameters(node.body)
        return {operand for position, operand in enumerate(node.operands) if position in reused}
    return {operand for position, operand in enumerate(node.operands) if _reuses_operand(node, position)}


def _reused_parameters(body: FusionBody) -> set[int]:
    """Numbers of the parameters with a path to the root through an operation that reuses elements."""
    reused: dict[Node, bool] = {body.root: False}
    waiting = [body.root]
    while waiting:
        node = waiting.pop()
        for position, operand in enumerate(node.operands):
            again = reused[node] or _reuses_operand(node, position)
            # A parameter that is reused on any path is; a second visit is needed only if that is news.
            if operand not in reused or (again and not reused[operand]):
                reused[operand] = again
                waiting.append(operand)
    return {node.number for node, again in reused.items() if again and node.opcode == opcodes.PARAMETER}


def is_fusible(node: Node) -> bool:
    """Whether XLA can fuse the operation: it has no side effects.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> [is_fusible(node) for node in mutable_graph_of(parse_module("r = f32[] sine(f32[] a)").entry).nodes]
    [False, True]
    """
    if node.opcode in _ALWAYS_FUSIBLE:
        return True
    match node.opcode:
        case "rng":
            # A random draw that is computed twice would give two values.
            return len(node.users) <= 1
        case opcodes.CUSTOM_CALL:
            return not node.instruction.flag("custom_call_has_side_effect")
    if node.opcode in _LAYOUT_CONSTRAINED:
        # Such a collective fixes layouts across modules, which counts as a side effect.
        return not node.instruction.flag("constrain_layout")
    return node.opcode not in _NEVER_FUSIBLE


# --- expensive operations ---
# Operations that are too expensive to compute more than once.
#
# Mirrors `CpuInstructionFusion::IsExpensive` of xla/service/cpu/cpu_instruction_fusion.cc and
# `InstructionFusion::IsExpensive` of xla/service/instruction_fusion.cc.


# Of complex numbers they are several calls into libm.
_CHEAP_UNLESS_COMPLEX: Final = frozenset("abs sign cosine sine tan".split())
# Integer division by a constant becomes a multiplication.
_CHEAP_WITH_SCALAR: Final = frozenset("divide remainder".split())
_CHEAP_AT_TIMES: Final = _CHEAP_UNLESS_COMPLEX | _CHEAP_WITH_SCALAR | {opcodes.CONVERT}
_CHEAP: Final = (
    (ELEMENTWISE - TRANSCENDENTAL - _CHEAP_AT_TIMES)
    | NO_KERNELS - {opcodes.ADD_DEPENDENCY, opcodes.AFTER_ALL, opcodes.DOMAIN, opcodes.PARAMETER} - CONTROL_FLOW
    | HOST_FEEDS
    | BLOCK_MOVES
    | frozenset("broadcast concatenate copy-done copy-start dynamic-reshape iota pad reshape reverse transpose".split())
)


def is_expensive(node: Node) -> bool:
    """Whether the CPU compiler stores the result of an operation rather than computing it more than once.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> def root(text):
    ...     return mutable_graph_of(parse_module(text).entry).root
    >>> is_expensive(root("r = f32[4] tanh(f32[4] a)")), is_expensive(root("r = bf16[4] convert(f32[4] a)"))
    (True, True)
    >>> is_expensive(root("r = f32[4] abs(c64[4] a)")), is_expensive(root("r = f32[4] convert(bf16[4] a)"))
    (False, False)
    """
    if node.opcode in _CHEAP:
        return False
    if node.opcode in _CHEAP_UNLESS_COMPLEX:
        return _type_of(node)[0] == "c"
    if node.opcode == opcodes.CONVERT:
        # Rounding to bf16 checks for NaN; the other direction is a shift (CpuInstructionFusion::IsExpensive).
        return _type_of(node.operands[0]) == "f32" and _type_of(node) == "bf16"
    if node.opcode in _CHEAP_WITH_SCALAR:
        # XLA means division by a constant, but cpu_instruction_fusion.cc tests operand 0, the dividend.
        return not (_type_of(node)[0] in "su" and _is_scalar_constant(node.operands[0]))
    return True


def _type_of(node: Node) -> str:
    return node.shape.element_type.name if isinstance(node.shape, ArrayShape) else "?"


def _is_scalar_constant(node: Node) -> bool:
    if node.opcode == opcodes.BROADCAST:
        node = node.operands[0]
    return node.opcode == opcodes.CONSTANT and is_effective_scalar(node.shape)


# --- how often code is emitted ---
# Counts how often the code of an operation is emitted in a fusion.
#
# Mirrors `FusionNodeIndexingEvaluation` of xla/service/fusion_node_indexing_evaluation.cc: an operation is emitted once
# for every distinct index at which its users read it.


MAX_EMISSIONS: Final = 15
"""Maximum number of emissions of one operation in a fusion (`kAllowedCodeDuplication`)."""
# `OpInvalidatesCache`: their code opens a new basic block, so that a value emitted before cannot be reused.
_INVALIDATES_CACHE: Final = frozenset("concatenate dot dynamic-update-slice pad reduce reduce-window".split())


class EmissionCounter:
    """Number of emissions of each node of a fusion, updated while operations are fused.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''f { p = f32[9] parameter(0)  s = f32[3] slice(p), slice={[0:3]}  t = f32[3] slice(p), slice={[6:9]}
    ... ROOT r = f32[3] add(s, t) }
    ... ENTRY e { a = f32[9] parameter(0) ROOT r = f32[3] fusion(a), kind=kLoop, calls=f }'''
    >>> fusion = mutable_graph_of(parse_module(text).entry).root
    >>> EmissionCounter(fusion).of(fusion.operands[0])
    2
    """

    __slots__ = ("_count", "_fusion", "_indexing_users")

    def __init__(self, fusion: Node) -> None:
        assert fusion.body is not None
        self._fusion = fusion
        self._indexing_users: dict[Node, set[Node]] = {fusion.body.root: {fusion}}
        self._count: dict[Node, int] = {fusion: 1}
        for node in users_first(fusion.body):
            if node.opcode != opcodes.PARAMETER:
                self._add(node)

    def of(self, producer: Node) -> int:
        """Number of emissions of `producer`, an operand of the fusion, if it were fused."""
        return sum(self._count[node] for node in self._indexing_users.get(producer, ()))

    def exceeds_limit(self, producer: Node) -> bool:
        """Whether fusing `producer` duplicates too much code."""
        # CodeDuplicationTooHigh allows broadcasts: else they would be materialized; their operand is tested in its
        # turn.
        if producer.opcode == opcodes.BROADCAST:
            return False
        emissions = self.of(producer)
        if emissions > MAX_EMISSIONS:
            return True
        return producer.opcode in _INVALIDATES_CACHE and (emissions > 1 or _user_count(producer) > 1)

    def remove_operand(self, producer: Node) -> set[Node]:
        """Removes an operand that is about to be fused; returns its indexing users for `add_fused`."""
        return self._indexing_users.pop(producer, set())

    def add_fused(self, clone: Node, indexing_users: set[Node]) -> None:
        """Adds the clone of an operand in the fused computation."""
        self._indexing_users[clone] = indexing_users
        self._add(clone)

    def _add(self, node: Node) -> None:
        indexing_users = self._indexing_users.get(node, set())
        self._count[node] = sum(self._count[user] for user in indexing_users)
        for operand in node.operands:
            outside = self._fusion.operands[operand.number] if operand.opcode == opcodes.PARAMETER else operand
            users_of_outside = self._indexing_users.setdefault(outside, set())
            # A user of the same shape, and a transpose by permutation, reuse the index; every other operation computes
            # a new one.
            if node.opcode == opcodes.TRANSPOSE or _same_but_type(operand.shape, node.shape):
                users_of_outside |= indexing_users
            else:
                users_of_outside.add(node)


def users_first(body: FusionBody) -> list[Node]:
    """Nodes of a body that the root depends on, users before operands."""
    order: list[Node] = []
    entered = {body.root}
    open_ = [(body.root, iter(body.root.operands))]
    while open_:
        node, rest = open_[-1]
        for operand in rest:
            if operand not in entered:
                entered.add(operand)
                if operand.operands:
                    open_.append((operand, iter(operand.operands)))
                    break
                order.append(operand)
        else:
            open_.pop()
            order.append(node)
    # A post-order from the root, reversed: every user is before its operands.
    order.reverse()
    return order


_LEAST_STEP: Final = 2.0**-20
"""Difference of two marks below which all are numbered anew; doubles have 32 bits left for the nodes before them."""


class VisitOrder:
    """The order of `users_first` in a body that grows: an operation takes the place of its parameter.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] negate(p)  ROOT c = s8[] add(a, b) }"
    >>> p, a, b, c = mutable_graph_of(parse_module(text).entry).nodes
    >>> order = VisitOrder([c, b, a, p])
    >>> order.place([c, b, a], p), order.insert(p, ())
    (3, 3)
    """

    __slots__ = ("_marks", "_nodes", "_operations")

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._marks = dict(zip(nodes, map(float, range(len(nodes))), strict=True))
        self._operations = [node for node in nodes if node.opcode != opcodes.PARAMETER]

    def place(self, nodes: Sequence[Node], node: Node) -> int:
        """How many of some nodes, which are in order, come before a node."""
        marks, mark = self._marks, self._marks[node]
        if not nodes or marks[nodes[-1]] < mark:
            return len(nodes)
        return bisect_left(nodes, mark, key=marks.__getitem__)

    def replace(self, parameter: Node, node: Node) -> None:
        """Puts an operation in the place of a parameter."""
        self._nodes[self.place(self._nodes, parameter)] = node
        self._marks[node] = self._marks.pop(parameter)

    def insert(self, node: Node, operands: Iterable[Node]) -> int:
        """Notes that a node in the order is an operation with these operands; returns its place among operations."""
        marks, mark = self._marks, self._marks[node]
        # Users come first: what stood before the operation, or nowhere, is visited after it now, last operand first.
        moved = [operand for operand in dict.fromkeys(operands) if marks.get(operand, -1.0) < mark]
        for operand in moved:
            if operand in marks:
                del self._nodes[self.place(self._nodes, operand)]
        if moved:
            moved.reverse()
            place = self.place(self._nodes, node) + 1
            end = marks[self._nodes[place]] if place < len(self._nodes) else mark + len(moved) + 1
            step = (end - mark) / (len(moved) + 1)
            self._nodes[place:place] = moved
            marks.update((operand, mark + number * step) for number, operand in enumerate(moved, 1))
            if step < _LEAST_STEP:
                self._marks = {each: float(number) for number, each in enumerate(self._nodes)}
        place = self.place(self._operations, node)
        self._operations.insert(place, node)
        return place


def _user_count(producer: Node) -> int:
    """Number of users; a fusion counts as the users of its parameter."""
    count = 0
    for user in producer.users:
        if user.body is not None:
            count += len(user.body.parameters[user.operands.index(producer)].users)
        else:
            count += 1
    return count


def _same_but_type(first: Shape, second: Shape) -> bool:
    """Whether two shapes are equal apart from the element type."""
    if not isinstance(first, ArrayShape) or not isinstance(second, ArrayShape):
        return first == second
    return (
        first.dimensions == second.dimensions
        and first.dynamic_dimensions == second.dynamic_dimensions
        and first.layout.minor_to_major == second.layout.minor_to_major
        and first.layout.tiles == second.layout.tiles
    )
