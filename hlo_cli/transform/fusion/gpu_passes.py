"""What do XLA:GPU's fusion passes do one after another, and which of the fusions are certain?

Priority fusion has a chapter of its own. After each pass equal operations are merged; the passes run again in other
orders to see which fusions depend on an order that the text of a module does not have.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion import gpu_rules as by
from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelModel
from hlo_cli.analysis.fusion.gpu_rules import GpuFusionRules
from hlo_cli.analysis.fusion.mutable_graph import FusionBody, MutableGraph, Node, Users, mutable_graph_of, users_first
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CALLING_ATTRIBUTES, COMMUTATIVE
from hlo_cli.ir.shape import TupleShape
from hlo_cli.transform.fusion.fused_nodes import create_fusion, make_multi_output, without_dead
from hlo_cli.transform.fusion.gpu_priority_fusion import MAX_STEPS, PriorityFusion, identities_of
from hlo_cli.transform.rewriting import ModuleNames
from hlo_cli.transform.schedule.constraints import effects_of

# --- equal operations ---
# Merges equal operations within a fusion, as XLA:GPU does after each fusion pass.
#
# Mirrors `HloCSE` of xla/service/hlo_cse.cc with `only_fusion_computations`.


_IGNORED: Final = frozenset(("metadata", "origin", "frontend_attributes", "sharding", *CALLING_ATTRIBUTES))
"""Attributes that do not change what an operation computes, and those that name computations, which are compared."""


class CommonSubexpressions:
    """Merges equal operations in fusions; remembers the computations compared.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''f { p = s8[9] parameter(0)  a = s8[9] not(p)  b = s8[9] not(p)  ROOT r = s8[9] add(a, b) }
    ... ENTRY e { p = s8[9] parameter(0)  ROOT r = s8[9] fusion(p), kind=kLoop, calls=f }'''
    >>> graph = mutable_graph_of(parse_module(text).entry)
    >>> CommonSubexpressions().merge_in(graph)
    1
    >>> [node.name for node in graph.root.body.operations]
    ['a', 'r']
    """

    __slots__ = ("_contents",)

    def __init__(self) -> None:
        self._contents: dict[Computation, Hashable] = {}

    def merge_in(self, graph: MutableGraph) -> int:
        """Merges equal operations in all fusions of a graph; returns how many there were."""
        return sum(self._merge(node.body) for node in graph.nodes if node.body is not None and node.kind != "kCustom")

    def _merge(self, body: FusionBody) -> int:
        first_of_key: dict[Hashable, Node] = {}
        merged = 0
        for node in reversed(users_first(body)):
            # HloCSE skips instructions without operands, but iotas are compared as operands.
            if node.opcode in (opcodes.PARAMETER, opcodes.IOTA) or node.body is not None:
                continue
            same = first_of_key.setdefault(self.key(node), node)
            if same is node:
                self._merge_iotas(node, body)
                continue
            node.replace_by(same)
            body.root = same if body.root is node else body.root
            _remove(node, body)
            merged += 1
        if merged:
            body.computation = None
        body.insertions = []
        return merged

    def _merge_iotas(self, node: Node, body: FusionBody) -> None:
        """Merges equal iotas that are operands of one operation; others stay, as they have no operands to compare."""
        first: dict[Hashable, Node] = {}
        for position, operand in enumerate(node.operands):
            if operand.opcode == opcodes.IOTA and (same := first.setdefault(self.key(operand), operand)) is not operand:
                node.replace_operand(position, same)
                if not operand.users:
                    body.remove(operand)

    def _operand_key(self, operand: Node) -> Hashable:
        return self.key(operand) if operand.opcode == opcodes.IOTA else id(operand)

    def key(self, node: Node) -> Hashable:
        """What distinguishes an operation from others in the same fusion."""
        operands = [self._operand_key(operand) for operand in node.operands]
        # Equal operands have equal hashes, so that sorting by them makes the order irrelevant.
        if node.opcode in COMMUTATIVE:
            operands.sort(key=hash)
        if node.opcode != node.instruction.opcode:  # made by a pass: a tuple, or one of its elements
            return node.opcode, node.number, tuple(operands)
        return node.opcode, str(node.shape), tuple(operands), self._content_of(node.instruction)

    def _content_of(self, instruction: Instruction) -> Hashable:
        """Attributes, literal, and called computations of an instruction."""
        attributes = tuple((name, value) for name, value in instruction.pairs if name not in _IGNORED)
        # Called computations are compared by content: HloCSE compares them, not their names.
        called = tuple(map(self._computation, instruction.called_computations))
        literal = instruction.raw[0].strip() if instruction.opcode == opcodes.CONSTANT else ""
        return attributes, called, literal

    def _computation(self, computation: Computation) -> Hashable:
        """Instructions of a computation, whatever their names."""
        content = self._contents.get(computation)
        if content is None:
            lines = []
            for instruction in computation.instructions:
                places = tuple(operand.index for operand in instruction.operands)
                number = instruction.parameter_number
                lines.append(
                    (instruction.opcode, str(instruction.shape), places, number, self._content_of(instruction))
                )
            content = self._contents[computation] = tuple(lines)
        return content


def _remove(node: Node, body: FusionBody) -> None:
    """Removes a node without users, and operands that only it used."""
    waiting = [node]
    while waiting:
        dead = waiting.pop()
        if dead.users or dead.opcode == opcodes.PARAMETER:
            continue
        operands = list(dict.fromkeys(dead.operands))
        dead.detach()
        body.remove(dead)
        waiting += operands


# --- dependence ---
# Whether nodes depend on each other in a graph whose nodes are being merged.
#
# A search goes back from the later node and stops before the earlier one, so that it is short if both are close.
# Mirrors the queries of xla/hlo/analysis/hlo_dfs_reachability.cc.


class Dependence:
    """Dependence between nodes of a graph; `merged` reports nodes that were merged.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "ENTRY e { p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] negate(p)  ROOT c = s8[] add(a, b) }"
    >>> graph = mutable_graph_of(parse_module(text).entry)
    >>> p, a, b, c = graph.nodes
    >>> dependence = Dependence(graph)
    >>> dependence.are_connected(a, b), dependence.are_connected(c, p)
    (False, True)
    """

    __slots__ = ("_ends", "_graph", "_last", "_starts")

    def __init__(self, graph: MutableGraph) -> None:
        self._graph = graph
        self._last = {node: place for place, node in enumerate(graph.sorted_nodes())}
        self._starts: list[int] = []
        self._ends: list[int] = []

    def merged(self, nodes: Iterable[Node], into: Node) -> None:
        """Notes that `into` represents several nodes now; also for nodes made from it, such as its elements."""
        places = [self._last[node] for node in nodes if node in self._last]
        start, end = min(places), max(places)
        self._last[into] = end
        # Between the first and the last of them, the order of places says nothing any more.
        first = bisect_right(self._ends, start - 1)
        while first < len(self._starts) and self._starts[first] <= end:
            start, end = min(start, self._starts.pop(first)), max(end, self._ends.pop(first))
        insort(self._starts, start)
        insort(self._ends, end)

    def are_connected(self, first: Node, second: Node) -> bool:
        """Whether one of the two nodes depends on the other."""
        return self.reaches(first, second) or self.reaches(second, first)

    def reaches(self, source: Node, target: Node) -> bool:
        """Whether `target` depends on `source`, directly or indirectly."""
        # The place of a node is no smaller than those that it needs, so the search stops at the source's place.
        lowest = self._floor(self._last.get(source, 0))
        visited = {target}
        waiting = [target]
        while waiting:
            for node in self._graph.dependencies(waiting.pop()):
                if node is source:
                    return True
                if node not in visited and self._last.get(node, lowest) >= lowest:
                    visited.add(node)
                    waiting.append(node)
        return False

    def _floor(self, place: int) -> int:
        """The place before which a search need not look: that of the node, or of what was merged across it."""
        at = bisect_right(self._starts, place) - 1
        return self._starts[at] if at >= 0 and self._ends[at] >= place else place


# --- multi-output fusion ---
# Multi-output fusion of XLA:GPU: siblings that read the same value, and producers that have other users.
#
# Mirrors xla/backends/gpu/transforms/multi_output_fusion.cc.


@dataclass(slots=True)
class GpuMultiOutputFusion:
    """Pass over one computation; `fused` are the merged nodes: one, and the fusion that computes it now."""

    graph: MutableGraph
    model: KernelModel
    names: ModuleNames
    fused: list[tuple[Node, Node]] = field(default_factory=list)
    _rules: GpuFusionRules = field(init=False)
    _dependence: Dependence = field(init=False)
    # Threads of a warp on NVIDIA GPUs; AMD's MI series has 64.
    _warp: int = 32
    _loops: dict[Node, by.Loop] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rules = GpuFusionRules(self.model, self.graph.root)
        self._dependence = Dependence(self.graph)
        self._warp = self.model.device.threads_per_warp

    def run(self) -> None:
        """Runs the pass: users before their operands."""
        for producer in reversed(self.graph.sorted_nodes()):
            if producer not in self.graph.position or producer.opcode == opcodes.CONSTANT or producer.kind == "kCustom":
                continue
            self._fuse_siblings(producer)
            self._fuse_with_consumer(producer)
        if self.fused:
            self.graph.sort_topologically()

    def _fuse_siblings(self, parent: Node) -> None:
        if not by.is_worth_sharing(parent):
            return
        candidates = [user for user in parent.users if by.is_sibling_candidate(user, self._warp)]
        # Stable, as std::stable_sort in XLA: ties keep the order of users.
        candidates.sort(key=by.preference, reverse=True)
        place = 0
        while place < len(candidates):
            fusion = candidates[place]
            place += 1
            # The first of a pair must be a fusion, as XLA merges into fusions only.
            if fusion.body is None:
                continue
            for sibling in candidates[place:]:
                if self._are_siblings(fusion, sibling, parent):
                    # The kind of a reduction wins.
                    kind = "kInput" if sibling.kind == "kInput" else fusion.kind
                    self._merge(sibling, fusion, kind)
                    candidates.remove(sibling)

    def _are_siblings(self, fusion: Node, sibling: Node, parent: Node) -> bool:
        return (
            by.have_same_loops(self._loop(fusion), self._loop(sibling))
            and by.slices_overlap(fusion, sibling, parent)
            and not by.are_updates(fusion, sibling)
            and self._rules.budget_reason(sibling, fusion, is_merged=False) is None
            and not self._dependence.are_connected(fusion, sibling)
        )

    def _fuse_with_consumer(self, producer: Node) -> None:
        users = list(producer.users)
        if not users or (len(users) == 1 and not users[0].has_several_results) or not by.can_be_kept(producer):
            return
        found = [user for user in users if self._can_keep(producer, user)]
        if not found:
            return
        consumer = max(found, key=by.preference)
        if consumer.body is None:
            is_input = any(by.is_input_fusion_part(node, self._warp) for node in (consumer, producer))
            kind = "kInput" if is_input else "kLoop"
            fusion = create_fusion(
                self.graph, consumer, kind, self.names, name=opcodes.FUSION, body_name="fused_computation"
            )
            self._dependence.merged((consumer,), fusion)
            self._forget(consumer)
            consumer = fusion
        self._merge(producer, consumer, consumer.kind)

    def _can_keep(self, producer: Node, consumer: Node) -> bool:
        """Whether a producer can become a result of a consumer, and that is not slower."""
        if not by.can_be_result(consumer, self._warp) or not by.have_same_loops(
            self._loop(consumer), self._loop(producer)
        ):
            return False
        if any(self._dependence.reaches(producer, operand) for operand in consumer.operands):
            return False
        if self._rules.budget_reason(consumer, producer, is_merged=False) is not None:
            return False
        if self._rules.is_too_large(producer, consumer):
            return False
        # Two launches apart; `<=` since XLA fuses at equal times.
        apart = 2 * LAUNCH + self.model.time(producer).ticks + self.model.time(consumer).ticks
        return LAUNCH + self.model.fused_time(producer, consumer, keeps_producer=True).ticks <= apart

    def _merge(self, sibling: Node, into: Node, kind: str) -> None:
        """Makes a node, or its results, results of a fusion."""
        self._dependence.merged((sibling, into), into)
        made = len(self.graph.order)
        make_multi_output(self.graph, into, sibling, self.names)
        into.kind = kind
        for element in self.graph.order[made:]:
            if element is not None:
                self._dependence.merged((into,), element)
        for node in (sibling, into):
            self._forget(node)
        self.fused.append((sibling, into))
        self._rules.root = self.graph.root

    def _loop(self, node: Node) -> by.Loop:
        found = self._loops.get(node)
        if found is None:
            found = self._loops[node] = by.loop_of(node, self._warp)
        return found

    def _forget(self, node: Node) -> None:
        self._loops.pop(node, None)
        self.model.forget(node)
        self._rules.forget(node)


# --- order of users in a fused module ---
# The order of users that XLA:GPU's priority fusion left in a module that it fused, which no dump has.
#
# The fusions are taken apart and made again: the users of each value are then in the order in which XLA has them.


# 18 digits fit 64 bits; longer ones are no number of a clone.
_CLONE: Final = re.compile(r"(.*\.\d{1,18})\.\d{1,18}\Z", re.DOTALL)
"""Name of a clone in a fusion, and the name that it was made from."""


class Unfused(NamedTuple):
    """A graph without fusions, and for each node of the fused graph the one that computes its result."""

    graph: MutableGraph
    origins: dict[Node, Node]


def _restore_users(graph: MutableGraph, model: KernelModel, names: ModuleNames) -> None:
    """Puts the users of each node in the order that priority fusion leaves, as far as it makes the same fusions again.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = '''f { a = f32[9] parameter(0)  n = f32[9] negate(a)  ROOT e = f32[9] exponential(n) }
    ... ENTRY e { p = f32[9] parameter(0)  c = f32[9] custom-call(p), custom_call_target="c"
    ... x = f32[9] fusion(p), kind=kLoop, calls=f  ROOT r = (f32[9], f32[9]) tuple(c, x) }'''
    >>> module = parse_module(text)
    >>> graph = mutable_graph_of(module.entry)
    >>> _restore_users(graph, KernelModel(gpu_device("h100")), ModuleNames(module))
    >>> [user.name for user in next(graph.nodes).users]
    ['c', 'x']
    """
    unfused = unfuse(graph)
    fusion = PriorityFusion(unfused.graph, model, names, identities_of(unfused.graph)[0])
    fusion.run()
    # Instructions are the same objects in both graphs, nodes are not.
    fused = {node.instruction: node for node in unfused.graph.nodes}  # a fusion has the instruction of its result
    for node in graph.nodes:
        again = fused.get(unfused.origins[node].instruction)
        if again is None or len(node.users) < 2:
            continue
        places = {user.instruction: place for place, user in enumerate(again.users)}
        last = len(places)
        users = sorted(node.users, key=lambda user: places.get(unfused.origins[user].instruction, last))
        node.users = Users()
        for user in users:
            node.users.add(user)


def unfuse(graph: MutableGraph) -> Unfused:
    """Takes the fusions of a graph apart; operations that several fusions repeat become one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''f { a = s8[9] parameter(0)  n = s8[9] not(a)  ROOT e = s8[9] negate(n) }
    ... g { a = s8[9] parameter(0)  n = s8[9] not(a)  ROOT e = s8[9] abs(n) }
    ... ENTRY e { p = s8[9] parameter(0)  x = s8[9] fusion(p), kind=kLoop, calls=f
    ... y = s8[9] fusion(p), kind=kLoop, calls=g  ROOT r = s8[9] add(x, y) }'''
    >>> [node.opcode for node in unfuse(mutable_graph_of(parse_module(text).entry)).graph.nodes]
    ['parameter', 'not', 'negate', 'abs', 'add']
    """
    equal = CommonSubexpressions()
    equal_copies: dict[Hashable, Node] = {}
    origins: dict[Node, Node] = {}
    for node in graph.sorted_nodes():
        body = node.body
        if body is None or node.kind == "kCustom" or node.has_several_results:
            origins[node] = _copy(node, [origins[operand] for operand in node.operands], node.name)
            continue
        inside = dict(zip(body.parameters, (origins[operand] for operand in node.operands), strict=True))
        for inner in reversed(users_first(body)):
            if inner.opcode == opcodes.PARAMETER:
                continue
            name = _name_before(inner.name)
            copy = _copy(inner, [inside[operand] for operand in inner.operands], name)
            # Operations that several kernels repeat were one before: duplicated by priority fusion.
            first = equal_copies.setdefault((name.rpartition(".")[0], equal.key(copy)), copy)
            if first is not copy:
                copy.detach()
            inside[inner] = first
        origins[node] = inside[body.root]
    return Unfused(
        _graph_of(graph, origins, {**dict.fromkeys(origins.values()), **dict.fromkeys(equal_copies.values())}), origins
    )


def _copy(node: Node, operands: list[Node], name: str) -> Node:
    copy = Node(node.instruction, operands, opcode=node.opcode, name=name)
    copy.shape, copy.body, copy.kind = node.shape, node.body, node.kind
    copy.number, copy.aliasing = node.number, node.aliasing
    return copy


def _name_before(name: str) -> str:
    """Name that an operation had before it was cloned into a fusion, as XLA counts."""
    found = _CLONE.match(name)
    return f"{found[1]}.0" if found else name


def _graph_of(graph: MutableGraph, origins: dict[Node, Node], all_nodes: Iterable[Node]) -> MutableGraph:
    """Graph of the nodes that compute some others, in XLA's post-order, with users in the same order."""
    assert graph.root is not None
    before = {
        origins[node]: [origins[other] for other in others] for node, others in graph.control_predecessors.items()
    }
    unfused = MutableGraph(graph.computation, [*all_nodes], origins[graph.root], {}, before, graph.text)
    order = unfused.sorted_nodes()
    unfused.order = [*order]
    unfused.position = {node: place for place, node in enumerate(order)}
    for node in order:
        node.users = Users()
    for node in order:
        for operand in node.operands:
            operand.users.add(node)
    return unfused


# --- copies of a graph ---
# Copies a graph, so that a pass can be tried on it.


def _copy_graph(graph: MutableGraph) -> MutableGraph:
    """Copies a graph with the bodies of its fusions and the order of users.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> graph = mutable_graph_of(parse_module("ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }").entry)
    >>> copy = _copy_graph(graph)
    >>> copy.root, copy.root is graph.root, [user.name for user in next(copy.nodes).users]
    (<node not n>, False, ['n'])
    """
    copies = _copies(graph.nodes)
    before = {copies[node]: [copies[other] for other in others] for node, others in graph.control_predecessors.items()}
    order: list[Node | None] = list(copies.values())
    assert graph.root is not None
    position = {node: place for place, node in enumerate(copies.values())}
    return MutableGraph(graph.computation, order, copies[graph.root], position, before, graph.text)


def _copies(nodes: Iterable[Node]) -> dict[Node, Node]:
    """Copies of nodes that have only each other as operands and users."""
    copies: dict[Node, Node] = {}
    for node in nodes:
        copies[node] = copy = Node(node.instruction, (), opcode=node.opcode, name=node.name)
        copy.shape, copy.kind, copy.number, copy.aliasing = node.shape, node.kind, node.number, node.aliasing
        if node.body is not None:
            copy.body = _copy_body(node.body)
    for node, copy in copies.items():
        copy.operands = [copies[operand] for operand in node.operands]
        copy.users = Users()
        for user in node.users:
            copy.users.add(copies[user])
    return copies


def _copy_body(body: FusionBody) -> FusionBody:
    copies = _copies(body.nodes)
    return FusionBody(
        copies[body.root],
        dict.fromkeys(copies.values()),
        [copies[parameter] for parameter in body.parameters],
        body.computation,
        body.name,
    )


# --- what depends on an order ---
# Which fusions of XLA:GPU depend on an order that the text of a module does not have.
#
# The passes are run again with other orders: of producers of equal priority, and of users. A fusion that is not made
# with each of them is a tie.


Reorder = Callable[[list[Node]], list[Node]]


def _identity_orders(graph: MutableGraph) -> tuple[dict[Node, int], ...]:
    """Other orders of the nodes of a graph than `identities_of`: that one backward, and that of the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> module = parse_module("ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }")
    >>> backward, text = _identity_orders(mutable_graph_of(module.entry))
    >>> list(backward.values()), list(text.values())
    ([0, -1], [0, 1])
    """
    backward = {node: -number for node, number in identities_of(graph)[0].items()}
    return backward, {node: place for place, node in enumerate(graph.nodes)}


def _with_other_users(graph: MutableGraph) -> Iterator[MutableGraph]:
    """Yields copies of a graph with the users of each node in other orders: backward, rotated, shuffled, or by kind."""
    # Chosen, not measured: no number of orders can prove that another one changes nothing.
    orders: tuple[Reorder, ...] = (_backward, _rotated, _shuffled(1), _shuffled(2), _loops_first, _loops_last)
    for order in orders:
        copy = _copy_graph(graph)
        for node in copy.nodes:
            if len(node.users) > 1:  # only faster
                users = order(list(node.users))
                node.users = Users()
                for user in users:
                    node.users.add(user)
        yield copy


def _uncertain_fusions(graph: MutableGraph, others: Iterable[MutableGraph]) -> set[Node]:
    """Fusions of a graph that some of the others, made from the same instructions, do not have.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''f { p = s8[9] parameter(0)  ROOT a = s8[9] not(p) }
    ... ENTRY e { p = s8[9] parameter(0)  ROOT r = s8[9] fusion(p), kind=kLoop, calls=f }'''
    >>> entry = parse_module(text).entry
    >>> other = mutable_graph_of(entry)
    >>> _uncertain_fusions(mutable_graph_of(entry), [other])
    set()
    >>> other.root.kind = "kInput"
    >>> _uncertain_fusions(mutable_graph_of(entry), [other])
    {<node fusion r>}
    """
    found: set[Node] = set()
    left = {node: _content(node) for node in _fusions(graph)}
    for other in others if left else ():
        known = {_content(node) for node in _fusions(other)}
        found.update(node for node, content in left.items() if content not in known)
        left = {node: content for node, content in left.items() if content in known}
        # Each of the others is a run of the passes; no further one makes more uncertain.
        if not left:  # only faster
            break
    return found


def _fusions(graph: MutableGraph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.body is not None and node.kind != "kCustom")


def _content(node: Node) -> Hashable:
    """What a fusion computes from what, as instructions of the module."""
    body = node.body
    assert body is not None
    inside = [each.instruction for each in body.operations if each.opcode != opcodes.TUPLE]
    shapes = node.shape.elements if isinstance(node.shape, TupleShape) else (node.shape,)
    operands = [_computed_by(operand) for operand in node.operands]
    # As multisets: the order of operands of a fusion follows from the order of fusing.
    return node.kind, _sorted(inside), _sorted(operands), tuple(sorted(map(str, shapes)))


def _computed_by(operand: Node) -> Instruction:
    """The instruction whose value an operand has; of a result of a fusion, the one inside."""
    fusion = operand.operands[0] if operand.opcode == opcodes.GET_TUPLE_ELEMENT else None
    if fusion is None or not fusion.has_several_results or fusion.body is None:
        return operand.instruction
    return fusion.body.root.operands[operand.element].instruction


def _sorted(instructions: list[Instruction]) -> tuple[int, ...]:
    return tuple(sorted(map(id, instructions)))


def _backward(users: list[Node]) -> list[Node]:
    return users[::-1]


def _rotated(users: list[Node]) -> list[Node]:
    return users[1:] + users[:1]


def _loops_first(users: list[Node]) -> list[Node]:
    return sorted(users, key=lambda user: user.kind != "kLoop")


def _loops_last(users: list[Node]) -> list[Node]:
    return sorted(users, key=lambda user: user.kind == "kLoop")


def _shuffled(seed: int) -> Reorder:
    def shuffle(users: list[Node]) -> list[Node]:
        random.Random(seed + len(users)).shuffle(users)
        return users

    return shuffle


# --- the passes ---
# The fusion passes of XLA:GPU on the graphs of a module, and which of the fusions are certain.
#
# Mirrors xla/service/gpu/fusion_pipeline.cc.


# Each of up to eight runs takes as long as the first; chosen, not measured.
_MAX_INSTRUCTIONS: Final = 1000
"""Largest computation in which passes are run again. In larger ones, all that was chosen by an order is a tie."""


class GpuPasses:
    """Fusion passes over the graphs of a module; `undecided` are those in which priority fusion was ended.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> module = parse_module(text)
    >>> graph = mutable_graph_of(module.entry)
    >>> passes = GpuPasses(module, KernelModel(gpu_device("h100")), is_priority=True, is_multi_output=True)
    >>> [producer.name for _, producer, _ in passes.fuse_by_priority(graph)], graph.root, passes.ties(graph)
    (['n'], <node fusion fusion>, set())
    """

    __slots__ = (
        *(
            "_before",
            "_effects",
            "_equal",
            "_is_multi_output",
            "_is_priority",
            "_merged",
            "_model",
            "_module",
            "_names",
        ),
        *("_scratch_names", "_steps", "_tied", "undecided"),
    )

    def __init__(self, module: Module, model: KernelModel, *, is_priority: bool, is_multi_output: bool) -> None:
        self._module = module
        self._model = model
        self._is_priority = is_priority
        self._is_multi_output = is_multi_output
        self._names = ModuleNames(module)
        self._scratch_names: ModuleNames | None = None
        self._equal = CommonSubexpressions()
        self._effects = effects_of(module.computations)
        self._tied: dict[MutableGraph, set[Node]] = {}
        self._steps: dict[MutableGraph, int] = {}
        self.undecided: set[MutableGraph] = set()
        self._before: dict[MutableGraph, MutableGraph | None] = {}
        self._merged: dict[MutableGraph, list[Node]] = {}

    def fuse_by_priority(self, graph: MutableGraph) -> list[tuple[Node, Node, Node]]:
        """Runs priority fusion; returns the fusion, the producer, and the consumer of each step."""
        identities, are_exact = identities_of(graph)
        fusion = PriorityFusion(graph, self._model, self._names, identities)
        fusion.run()
        self._steps[graph] = fusion.steps
        if not fusion.is_decided:
            self.undecided.add(graph)
        # With ids of a proto, ties are decided as XLA decides them.
        if not are_exact:
            self._tied[graph] = _touched(fusion)
        without_dead(graph, self._effects)
        return fusion.fused

    def fuse_with_several_results(self, graph: MutableGraph) -> list[tuple[Node, Node]]:
        """Runs multi-output fusion; returns the merged nodes: one, and the fusion that computes it now."""
        # Its producers and siblings would be kernels that may still grow.
        if graph in self.undecided:
            return []
        if self._is_priority:
            self._merge_equal(graph)
        else:
            # The order of users after priority fusion is in no text, so it is made by running the pass again.
            _restore_users(graph, type(self._model)(self._model.device), self._other_names)
        self._before[graph] = _copy_graph(graph) if self._may_repeat(graph) else None
        fusion = GpuMultiOutputFusion(graph, self._model, self._names)
        fusion.run()
        self._merged[graph] = [into for _, into in fusion.fused]
        without_dead(graph, self._effects)
        return fusion.fused

    def ties(self, graph: MutableGraph) -> set[Node]:
        """Fusions that another order of producers of equal priority, or of users, would change."""
        tied = self._tied.get(graph, set())
        merged = self._merged.get(graph, [])
        if self._may_repeat(graph):
            return _uncertain_fusions(graph, self._made_again(graph, is_tied=bool(tied), is_merged=bool(merged)))
        # Without a run, all near a tie are uncertain, too.
        nearby = {other for node in tied for other in (*node.operands, *node.users)}
        if merged:
            nearby.update(merged)
            nearby.update(node for node in graph.nodes if any(map(_is_shared, node.operands)))
        return tied | nearby

    def _made_again(self, graph: MutableGraph, *, is_tied: bool, is_merged: bool) -> Iterator[MutableGraph]:
        """Graphs of the same computation that the passes make with other orders."""
        if is_merged:
            before = self._before[graph]
            assert before is not None
            for remade in _with_other_users(before):
                yield self._merge_again(remade)
        if is_tied:
            text = self._module.source.text
            # Two orders: see `_identity_orders`.
            for number in range(2):
                remade = mutable_graph_of(graph.computation, text)
                order = _identity_orders(remade)[number]
                PriorityFusion(remade, type(self._model)(self._model.device), self._other_names, order).run()
                without_dead(remade, self._effects)
                if self._is_multi_output:
                    self._equal.merge_in(remade)
                    self._merge_again(remade)
                yield remade

    def _merge_again(self, graph: MutableGraph) -> MutableGraph:
        GpuMultiOutputFusion(graph, type(self._model)(self._model.device), self._other_names).run()
        without_dead(graph, self._effects)
        return graph

    def _may_repeat(self, graph: MutableGraph) -> bool:
        """Whether passes may be run again: in both other orders together they take no longer than one run may."""
        return len(graph.computation.instructions) <= _MAX_INSTRUCTIONS and 2 * self._steps.get(graph, 0) <= MAX_STEPS

    @property
    def _other_names(self) -> ModuleNames:
        """Names for graphs that are thrown away."""
        if self._scratch_names is None:
            self._scratch_names = ModuleNames(self._module)
        return self._scratch_names

    def _merge_equal(self, graph: MutableGraph) -> None:
        """Merges equal operations in fusions, as XLA does between the passes."""
        self._equal.merge_in(graph)
        for node in graph.nodes:
            if node.body is not None:
                self._model.forget(node)


def _is_shared(node: Node) -> bool:
    return len(node.users) > 1 or node.opcode == opcodes.GET_TUPLE_ELEMENT


def _touched(fusion: PriorityFusion) -> set[Node]:
    """Fusions that a producer of undecided order is part of."""
    touched: set[Node] = set()
    for node, producer, consumer in fusion.fused:
        if {producer, consumer} & fusion.ties or {producer, consumer} & touched:
            touched.add(node)
    return touched
