"""Which pairs have been found, and which are certain: elements of tuples, equal names, parameters, results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Final, TypeVar

from hlo_cli.alignment import aligned
from hlo_cli.analysis.matching.graph import CONTENT, ESSENTIAL, FULL, SHAPELESS, Key, ModuleGraph, Node, op_name_in
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import TupleShape

# --- elements of tuples ---
# Which elements of two tuples correspond: by the values that they carry, whatever their indices.
#
# A loop that carries one more value shifts the indices of all elements after it. Tuples are therefore compared by the
# sources of their elements: the operands of a tuple instruction, also through the loops, calls, and conditionals that
# carry it.


Source = tuple[Node, int]
"""Node that makes an element, and the element of its tuple; -1 for its whole value."""
WHOLE: Final = -1  # the whole value, as indices start at 0
_MAX_DEPTH: Final = 100  # recursion over loops and calls in each other; far below the 1,000 calls of Python
_CARRIERS: Final = frozenset(
    (opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.GET_TUPLE_ELEMENT, opcodes.OPT_BARRIER, opcodes.WHILE)
)
_FORWARDING: Final = frozenset((opcodes.OPT_BARRIER, opcodes.WHILE))


class ElementSources:
    """Sources of the elements of the tuples of one graph, which is not flattened.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = '''f { p = (s8[], s8[4]) parameter(0)  ROOT g = s8[4] get-tuple-element(p), index=1 }
    ... ENTRY e { a = s8[] parameter(0)  b = s8[4] parameter(1)  t = (s8[], s8[4]) tuple(a, b)
    ... ROOT c = s8[4] call(t), to_apply=f }'''
    >>> sources = ElementSources(module_graph_of(parse_module("HloModule m " + text), Keys()))
    >>> sources.of(0)
    ((2, -1), (3, -1))
    """

    def __init__(self, graph: ModuleGraph) -> None:
        self.graph = graph
        self._known: dict[Node, tuple[Source, ...]] = {}

    def of(self, node: Node) -> tuple[Source, ...]:
        """The source of each element of a tuple; empty for an array."""
        if (found := self._known.get(node)) is None:
            found = self._known[node] = self._of(node, 0)
        return found

    @cached_property
    def callers(self) -> Mapping[Computation, Instruction]:
        """The first caller of each computation."""
        found: dict[Computation, Instruction] = {}
        for node in self.graph.nodes:
            for called in node.called_computations:
                found.setdefault(called, node)
        return found

    def _of(self, node: Node, depth: int) -> tuple[Source, ...]:
        graph = self.graph
        instruction = graph.nodes[node]
        shape = instruction.shape
        if not isinstance(shape, TupleShape):
            return ()
        count, forwarded = len(shape.elements), self._forwarded(instruction, depth) if depth < _MAX_DEPTH else None
        if instruction.opcode == opcodes.TUPLE and len(instruction.operands) == count:
            return tuple([(graph.node(operand), WHOLE) for operand in instruction.operands])
        if forwarded is not None:
            place = graph.node(forwarded)
            sources = self._at(place, depth)
            if len(sources) == count:
                return sources
        return tuple([(node, element) for element in range(count)])

    # Known sources need no depth; others stop at the limit and are their own.
    def _at(self, node: Node, depth: int) -> tuple[Source, ...]:
        return self._known.get(node) or self._of(node, depth + 1)

    def _forwarded(self, instruction: Instruction, depth: int) -> Instruction | None:
        """The instruction whose tuple an instruction forwards, if there is one."""
        operands, called = instruction.operands, instruction.called_computations
        match instruction.opcode:
            case opcodes.PARAMETER:
                return self.argument(instruction)
            case opcode if opcode in _FORWARDING and operands:
                return operands[0]
            case opcodes.CALL | opcodes.FUSION | opcodes.CONDITIONAL if called:
                return called[0].root
            case opcodes.GET_TUPLE_ELEMENT if operands:
                sources, index = self._at(self.graph.node(operands[0]), depth), instruction.integer("index")
                if index is not None and index < len(sources) and sources[index][1] == WHOLE:
                    return self.graph.nodes[sources[index][0]]
        return None

    def argument(self, parameter: Instruction) -> Instruction | None:
        """The operand of the first caller for a parameter."""
        computation, number = parameter.computation, parameter.parameter_number
        caller = self.callers.get(computation) if not computation.is_entry else None
        if caller is None or number is None:
            return None
        if caller.opcode == opcodes.CONDITIONAL:
            # Operand 0 of a conditional is the predicate or branch index.
            number += 1 + caller.called_computations.index(computation)
        return caller.operands[number] if number < len(caller.operands) else None


def is_passed_on(graph: ModuleGraph, node: Node) -> bool:
    """Whether a tuple only carries values within the program, to instructions that take its elements.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT t = (s8[]) tuple(p) }")
    >>> is_passed_on(module_graph_of(module, Keys()), 1)
    False
    """
    instruction = graph.nodes[node]
    if instruction.is_root:
        return not instruction.computation.is_entry
    return all(graph.nodes[user].opcode in _CARRIERS for user, _ in graph.users[node])


# --- pairs of elements ---
# Pairs the elements of tuples of two modules: those with paired sources first, then those of one content or shape.


_MAX_USERS_OF_AN_ELEMENT: Final = 8  # a carry used more often is known by its first users already; chosen, not measured
_MAX_STEPS: Final = 8  # operands followed to a paired source: a convert, a bitcast, and a fusion or two of loop carries
NONE: Final = -1  # no node; as indices start at 0


@dataclass(frozen=True, slots=True)
class ElementMap:
    """Index of each element of a tuple in the other tuple; -1 for an element that is only in one of them.

    >>> ElementMap((0, 2), (0, -1, 1)).is_identity
    False
    """

    after: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def is_identity(self) -> bool:
        """Whether both tuples have the same elements at the same indices."""
        return len(self.after) == len(self.before) and self.after == tuple(range(len(self.after)))

    def new_index(self, index: int) -> int:
        """Index in the new tuple of an element of the old one; -1 if it is not there."""
        return self.after[index] if 0 <= index < len(self.after) else -1


class ElementPairs:
    """Pairs elements of tuples of two graphs, given the pairs of their nodes so far; results are kept."""

    __slots__ = ("_after", "_before", "_known", "_one", "_two", "sources")

    def __init__(self, one: ModuleGraph, two: ModuleGraph, after: Sequence[Node], before: Sequence[Node]) -> None:
        self._one = one
        self._two = two
        self._after = after
        self._before = before
        self.sources = ElementSources(one), ElementSources(two)
        self._known: dict[tuple[Node, Node], ElementMap] = {}

    def forget(self) -> None:
        """Drops the results, as more nodes are paired now."""
        self._known.clear()

    def of(self, a: Node, b: Node) -> ElementMap:
        """The elements of two tuples, paired or not, that correspond.

        >>> from hlo_cli import parse_module
        >>> from hlo_cli.analysis.matching.match_modules import match
        >>> text = "HloModule m  ENTRY e { a = s8[] parameter(0)  b = s8[4] iota()  ROOT t = (%s) tuple(%s) }"
        >>> texts = text % ("s8[], s8[4]", "a, b"), text % ("s8[4], s8[]", "b, a")
        >>> match(*map(parse_module, texts)).pairs.elements.of(2, 2).after
        (1, 0)
        """
        if (found := self._known.get((a, b))) is None:
            found = self._known[a, b] = self._of(a, b)
        return found

    def _of(self, a: Node, b: Node) -> ElementMap:
        shapes = self._one.nodes[a].shape, self._two.nodes[b].shape
        if not isinstance(shapes[0], TupleShape) or not isinstance(shapes[1], TupleShape):
            return ElementMap((), ())
        if (carriers := self._callers_of_roots(a, b)) is not None:
            return self.of(*carriers)
        olds, news = self.sources[0].of(a), self.sources[1].of(b)
        # The usual case: no element moved.
        if len(olds) == len(news) and all(map(self._are_paired, olds, news)):
            return ElementMap(tuple(range(len(olds))), tuple(range(len(news))))
        sides = (
            _Elements(self._one, self.sources[0], a, shapes[0], self._two, is_new=False),
            _Elements(self._two, self.sources[1], b, shapes[1], self._one, is_new=True),
        )
        return _map_of(sides[0].keys(self._after), sides[1].keys(self._before))

    def _callers_of_roots(self, a: Node, b: Node) -> tuple[Node, Node] | None:
        """The callers of two computations whose result tuples these are; their elements are those of the callers."""
        roots = self._one.nodes[a], self._two.nodes[b]
        if not all(root.is_root and root.opcode == opcodes.TUPLE for root in roots):
            return None
        callers = [sources.callers.get(root.computation) for sources, root in zip(self.sources, roots, strict=True)]
        x, y = callers
        if x is None or y is None or x.shape != roots[0].shape or y.shape != roots[1].shape:
            return None
        return self._one.node(x), self._two.node(y)

    def _are_paired(self, old: Source, new: Source) -> bool:
        """Whether two sources are a pair, or compute the same."""
        (a, element), (b, other) = old, new
        return element == other and (self._after[a] == b or 0 <= self._one.comparable[a] == self._two.comparable[b])


@dataclass(frozen=True, slots=True)
class _Elements:
    """Elements of one tuple; `opposite` is the graph of the other one."""

    graph: ModuleGraph
    sources: ElementSources
    node: Node
    shape: TupleShape
    opposite: ModuleGraph
    is_new: bool

    def keys(self, partners: Sequence[Node]) -> _Keys:
        """What elements are compared by, strongest first; `partners` has the partner of each node."""
        sources = self.sources.of(self.node)
        paired = [self._paired(*source, partners) for source in sources]
        hints = self._loop_uses(len(sources))
        texts = [element.to_string(layout=False) for element in self.shape.elements]
        contents = [
            self._content(*source) if known is None else known for known, source in zip(paired, sources, strict=True)
        ]
        derived = [self._derived(*source, partners) for source in sources]
        return _Keys(
            # Exact keys pair at any index, strongest first: aliasing, then the paired source.
            (
                self._aliases(len(sources), partners),
                [None if known is None else (known, hint) for known, hint in zip(paired, hints, strict=True)],
                paired,
                [None if made is None else (made, content) for made, content in zip(derived, contents, strict=True)],
            ),
            # Ordered keys pair in the order of the tuples, as several elements may have each.
            (
                list(zip(contents, hints, texts, strict=True)),
                list(zip(contents, texts, strict=True)),
                list(zip(derived, texts, strict=True)),
                list(zip(hints, texts, strict=True)),
                texts,
            ),
        )

    def _aliases(self, count: int, partners: Sequence[Node]) -> list[Hashable]:
        """The paired argument that each element of the program's result overwrites; None for other elements."""
        arguments: list[Hashable] = [None] * count
        instruction, module = self.graph.nodes[self.node], self.graph.module
        if not (instruction.is_root and instruction.computation is module.entry):
            return arguments
        for alias in module.input_output_alias:
            if len(alias.output_index) == 1 and not alias.parameter_index and alias.output_index[0] < count:
                parameter = self.graph.node(module.entry.parameters[alias.parameter_number])
                arguments[alias.output_index[0]] = self._paired(parameter, WHOLE, partners)
        return arguments

    def _paired(self, node: Node, element: int, partners: Sequence[Node]) -> Hashable:
        """Key of a paired source: its value, if that is equal in both modules, or its pair; None if it is not paired.

        Sources of equal values, such as several buffers of zeros, are paired by chance.
        """
        if (partner := partners[node]) < 0:
            return None
        if (value := self.graph.comparable[node]) >= 0 and value == self.opposite.comparable[partner]:
            return value, element
        return -1 - (partner if self.is_new else node), element

    def _content(self, node: Node, element: int) -> Hashable:
        return self.graph.keys[ESSENTIAL][node], op_name_in(self.graph.metadata[node]), element

    def _derived(self, node: Node, element: int, partners: Sequence[Node]) -> Hashable:
        """Key of the nearest paired source along the first operands, also through the tuples of loops."""
        graph = self.graph
        for _ in range(_MAX_STEPS):
            if (found := self._paired(node, element, partners)) is not None:
                return found
            if not graph.operands[node]:
                break
            index, operand = graph.tuple_index[node], graph.operands[node][0]
            elements = self.sources.of(operand) if index >= 0 else ()
            node, element = elements[index] if 0 <= index < len(elements) else (operand, WHOLE)
        return None

    def _loop_uses(self, count: int) -> list[Hashable]:
        """What the body of a loop does with each element of its tuple; None for other tuples."""
        graph, loop = self.graph, self._loop()
        body = loop.called_computations[0] if loop is not None and loop.called_computations else None
        if loop is None or body is None or body.root is None:
            return [None] * count
        # The body is the first called computation of a while (kBodyComputationIndex of xla/hlo/ir/hlo_instruction.h).
        keys, root, uses = graph.keys[FULL], graph.node(body.root), [list[tuple[int, int]]() for _ in range(count)]
        for carrier in (*body.parameters[:1], loop):
            for user, _ in graph.users[graph.node(carrier)]:
                if 0 <= (element := graph.tuple_index[user]) < count:
                    used = graph.users[user][:_MAX_USERS_OF_AN_ELEMENT]
                    uses[element] += [
                        # Passing an element on to the result tuple is what all carries do.
                        (keys[node], at)
                        for node, at in used
                        if graph.nodes[node].opcode != opcodes.TUPLE
                    ]
        made = graph.operands[root] if body.root.opcode == opcodes.TUPLE else ()
        results = [keys[node] for node in made] if len(made) == count else [NONE] * count
        return [(tuple(sorted(each)), result) for each, result in zip(uses, results, strict=True)]

    def _loop(self) -> Instruction | None:
        """The loop that carries the tuple."""
        instruction = self.graph.nodes[self.node]
        loops = [instruction, self.sources.callers.get(instruction.computation)]
        loops += [self.graph.nodes[user] for user, _ in self.graph.users[self.node][:1]]
        return next((each for each in loops if each is not None and each.opcode == opcodes.WHILE), None)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys of elements, by strength: those that pair elements at any index, and those that pair them in order."""

    exact: tuple[Sequence[Hashable], ...]
    ordered: tuple[Sequence[Hashable], ...]


def _map_of(one: _Keys, two: _Keys) -> ElementMap:
    after, before = [NONE] * len(one.exact[0]), [NONE] * len(two.exact[0])
    for old, new in zip(one.exact, two.exact, strict=True):
        ones, twos = _free(after, old), _free(before, new)
        for key, group in ones.items():
            if key is not None and len(group) == len(twos.get(key, ())):
                for i, j in zip(group, twos[key], strict=True):
                    after[i], before[j] = j, i
    for old, new in zip(one.ordered, two.ordered, strict=True):
        left = [i for i, j in enumerate(after) if j < 0], [j for j, i in enumerate(before) if i < 0]
        if not all(left):
            break
        for i, j in aligned([old[i] for i in left[0]], [new[j] for j in left[1]]):
            after[left[0][i]], before[left[1][j]] = left[1][j], left[0][i]
    left = [i for i, j in enumerate(after) if j < 0], [j for j, i in enumerate(before) if i < 0]
    # As many on both sides: what is left corresponds in order.
    if len(left[0]) == len(left[1]):
        for i, j in zip(*left, strict=True):
            after[i], before[j] = j, i
    return ElementMap(tuple(after), tuple(before))


def _free(partners: Sequence[int], keys: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Elements without partner by key."""
    groups: dict[Hashable, list[int]] = {}
    for i, j in enumerate(partners):
        if j < 0:
            groups.setdefault(keys[i], []).append(i)
    return groups


# --- pairs of nodes ---


class Pairs:
    """Two graphs and the pairs of their nodes; a node is in at most one pair.

    `after[a]` is the partner of node a in the second graph, `before[b]` that of node b in the first; NONE if unpaired.
    `found` has the pairs in the order found. `one` and `two` are the graphs in use, `plain` the original, unflattened
    ones. `elements` pairs the elements of tuples, given the pairs found so far.
    """

    __slots__ = ("_bags", "after", "before", "elements", "found", "one", "plain", "two")

    def __init__(self, one: ModuleGraph, two: ModuleGraph) -> None:
        self.one = one
        self.two = two
        self.plain = one, two
        self.after: list[Node] = [NONE] * len(one.nodes)
        self.before: list[Node] = [NONE] * len(two.nodes)
        self.found: list[tuple[Node, Node]] = []
        self.elements = ElementPairs(one, two, self.after, self.before)
        self._bags: dict[Computation, Counter[Key]] = {}

    @property
    def sides(self) -> tuple[tuple[ModuleGraph, list[Node]], tuple[ModuleGraph, list[Node]]]:
        """Both graphs, each with the partners of its nodes."""
        return (self.one, self.after), (self.two, self.before)

    def add(self, a: Node, b: Node) -> None:
        """Pairs two nodes."""
        self.after[a] = b
        self.before[b] = a
        self.found.append((a, b))

    def add_all(self, ones: Sequence[Node], twos: Sequence[Node]) -> None:
        """Pairs the nodes of two computations in order."""
        self.after[ones[0] : ones[-1] + 1] = twos
        self.before[twos[0] : twos[-1] + 1] = ones
        self.found.extend(zip(ones, twos, strict=True))

    def are_identical(self, x: Computation, y: Computation) -> bool:
        """Whether two computations have identical text and are paired line by line."""
        # The text is looked up once for a graph, so a slice of integers decides.
        one, two = self.plain
        a, b, count = one.first_nodes[x], two.first_nodes[y], len(x.instructions)
        return two.unit_of[y].twin is x and self.after[a : a + count] == list(range(b, b + count))

    def are_free(self, a: Node, b: Node) -> bool:
        """Whether both nodes are unpaired."""
        return self.after[a] < 0 and self.before[b] < 0

    def same_value(self, a: Node, b: Node) -> bool:
        """Whether two operands are a pair, or compute the same from the same parameters."""
        return self.after[a] == b or 0 <= self.one.comparable[a] == self.two.comparable[b]

    def shifted_elements(self, a: Node, b: Node) -> ElementMap | None:
        """Elements of two tuple instructions if they are not the same at the same indices, else None."""
        if self.one.nodes[a].opcode != opcodes.TUPLE or self.two.nodes[b].opcode != opcodes.TUPLE:
            return None
        elements = self.elements.of(a, b)
        return None if elements.is_identity else elements

    def operand_pairs(self, a: Node, b: Node) -> Iterable[tuple[Node, Node]]:
        """Operands at the same positions; those of tuples at corresponding ones."""
        ones, twos = self.one.operands[a], self.two.operands[b]
        if (elements := self.shifted_elements(a, b)) is None:
            return zip(ones, twos, strict=False)
        return [(ones[i], twos[j]) for i, j in enumerate(elements.after) if j >= 0]

    def operand_at(self, user: Node, position: int) -> Node:
        """Operand of the partner of `user` at the position that corresponds to one of `user`; NONE if it has none."""
        other = self.after[user]
        if (elements := self.shifted_elements(user, other)) is not None:
            position = elements.new_index(position)
        operands = self.two.operands[other]
        return operands[position] if 0 <= position < len(operands) else NONE

    def is_same_element(self, a: Node, b: Node) -> bool:
        """Whether two nodes whose operands are paired take the same element of these; True if they take none."""
        i, j = self.one.tuple_index[a], self.two.tuple_index[b]
        ones, twos = self.plain[0].operands[a], self.plain[1].operands[b]
        if i < 0 or j < 0 or not ones or not twos:
            return i < 0 and j < 0
        return self.elements.of(ones[0], twos[0]).new_index(i) == j

    def have_same_name(self, a: Node, b: Node) -> bool:
        """Whether two nodes have the same name, which decides only between equal candidates."""
        return self.one.nodes[a].name == self.two.nodes[b].name

    def call_similarity(self, a: Node, b: Node) -> float:
        """Average similarity of the computations that two nodes call, from 0 to 1."""
        ones, twos = self.one.nodes[a].called_computations, self.two.nodes[b].called_computations
        if not ones or len(ones) != len(twos):
            return float(len(ones) == len(twos))
        similarities = [self.computation_similarity(x, y) for x, y in zip(ones, twos, strict=True)]
        return sum(similarities) / len(similarities)

    def computation_similarity(self, x: Computation, y: Computation) -> float:
        """Share of instructions with equal essential keys in two computations, from 0 to 1 (Dice coefficient)."""
        ones, twos = self._bag(self.one, x), self._bag(self.two, y)
        common = sum(min(count, twos[key]) for key, count in ones.items() if key in twos)
        return 2 * common / max(ones.total() + twos.total(), 1)

    def _bag(self, graph: ModuleGraph, computation: Computation) -> Counter[Key]:
        """Number of nodes for each essential key in a computation."""
        if (bag := self._bags.get(computation)) is None:
            first, keys = graph.first_nodes[computation], graph.keys[ESSENTIAL]
            bag = self._bags[computation] = Counter(keys[first : first + len(computation.instructions)])
        return bag


# --- pairs by origin ---
# Pairs instructions by origin: their names, and op_name in their metadata.


_T = TypeVar("_T")

_LOGICAL_OPCODE: Final = {
    opcodes.CONVOLUTION: opcodes.DOT,
    opcodes.BITCAST: opcodes.RESHAPE,
    opcodes.TRANSPOSE: opcodes.RESHAPE,
    opcodes.ALL_REDUCE_START: opcodes.ALL_REDUCE,
    # TPU and GPU compilers replace dots by convolutions, reshapes by bitcasts, and split collectives.
    opcodes.ALL_GATHER_START: opcodes.ALL_GATHER,
    opcodes.COLLECTIVE_PERMUTE_START: opcodes.COLLECTIVE_PERMUTE,
}
"""Opcodes that compilers emit for others."""


def operation_of(opcode: str) -> str:
    """Opcode of the operation that a compiler may have replaced by this one.

    >>> operation_of("convolution"), operation_of("add")
    ('dot', 'add')
    """
    return _LOGICAL_OPCODE.get(opcode, opcode)


def pair_by_origin(pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node]) -> None:
    """Pairs nodes that no neighbor determines: by essential key and name, or by op_name.

    Several nodes of one key are paired in order if both modules have equally many.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(module_graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> pair_by_origin(pairs, [0, 1], [0, 1])
    >>> pairs.after
    [0, 1]
    """
    # From strong to weak: a name, the op_name with the content, the op_name with a related opcode.
    for key_of in (_key_and_name, _key_and_op_name, _operation_and_op_name):
        old = grouped((a for a in ones if pairs.after[a] < 0), partial(key_of, pairs.one))
        new = grouped((b for b in twos if pairs.before[b] < 0), partial(key_of, pairs.two))
        for key, group in old.items():
            others = new.get(key, ())
            if key is not None and len(group) == len(others):
                for a, b in zip(group, others, strict=True):
                    pairs.add(a, b)


def pair_by_callees(pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node]) -> None:
    """Pairs fusions and loops that call equal computations, if no other unpaired node of both modules does so.

    What they compute tells them apart more than where they are: their operands and users can differ.
    """
    old, new = (
        grouped(
            (n for n in nodes if other[n] < 0 and graph.nodes[n].called_computations), graph.keys[CONTENT].__getitem__
        )
        for nodes, (graph, other) in zip((ones, twos), pairs.sides, strict=True)
    )
    for key, group in old.items():
        others = new.get(key, ())
        # A key that two nodes have would pair them by chance.
        if len(group) == len(others) == 1:
            pairs.add(group[0], others[0])


def _key_and_name(graph: ModuleGraph, node: Node) -> object:
    return graph.keys[ESSENTIAL][node], graph.nodes[node].name


def _key_and_op_name(graph: ModuleGraph, node: Node) -> object:
    op_name = op_name_in(graph.metadata[node])
    return (graph.keys[ESSENTIAL][node], op_name) if op_name else None


def _operation_and_op_name(graph: ModuleGraph, node: Node) -> object:
    op_name, opcode = op_name_in(graph.metadata[node]), graph.nodes[node].opcode
    return (operation_of(opcode), op_name) if op_name else None


def grouped(things: Iterable[_T], key_of: Callable[[_T], object]) -> dict[object, list[_T]]:
    """Groups items by key, in their order.

    >>> grouped(["ab", "c", "de"], len)
    {2: ['ab', 'de'], 1: ['c']}
    """
    groups: dict[object, list[_T]] = {}
    for thing in things:
        groups.setdefault(key_of(thing), []).append(thing)
    return groups


# --- parameters and results ---
# Pairs the parameters and the result tuples of computations.


_NUMBERED: Final = re.compile(r"(?:\[\d+\]|\d)$")
"""Ends of names that tell arguments apart by their number."""
_MAX_USERS_OF_A_PARAMETER: Final = 16  # a parameter used more often is known by its first users; chosen, not measured


def pair_by_arguments(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters of two fused computations by the operands of their fusions, as the parameter numbers can
    change.
    """
    callers = _caller(pairs, one, 0), _caller(pairs, two, 1)
    if callers[0] is None or callers[1] is None:
        return
    others: dict[Node, list[Node]] = {}
    for parameter, argument in zip(two.parameters, callers[1].operands, strict=True):
        others.setdefault(pairs.two.node(argument), []).append(pairs.two.node(parameter))
    for parameter, argument in zip(one.parameters, callers[0].operands, strict=True):
        a, same = pairs.one.node(parameter), others.get(pairs.after[pairs.one.node(argument)], ())
        if (b := next((b for b in same if pairs.are_free(a, b)), NONE)) != NONE:
            pairs.add(a, b)


def _caller(pairs: Pairs, computation: Computation, side: int) -> Instruction | None:
    """The fusion or call of a computation; the first one of several calls."""
    graph = pairs.sides[side][0]
    if (caller := graph.bodies.get(computation)) is not None:
        return caller
    caller = pairs.elements.sources[side].callers.get(computation)
    if caller is None or caller.opcode != opcodes.CALL or len(caller.operands) != len(computation.parameters):
        return None
    return caller


def pair_by_path(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs arguments of two programs by op_name, such as `params['w']`, which an inserted argument does not change.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = 'HloModule m  ENTRY e { %s w = s8[2] parameter(%d), metadata={op_name="w"}  ROOT n = s8[2] not(w) }'
    >>> new = text % ('b = s8[2] parameter(0), metadata={op_name="b"}', 1)
    >>> modules, numbers = [parse_module(each) for each in (text % ("", 0), new)], Keys()
    >>> pairs = Pairs(*(module_graph_of(module, numbers) for module in modules))
    >>> pair_by_path(pairs, *(module.entry for module in modules))
    >>> pairs.after
    [1, -1]
    """
    if not (one.is_entry and two.is_entry):
        return
    ones, twos = one.parameters, two.parameters
    if len(ones) == len(twos):
        # With equal counts nothing was inserted, so weak keys such as numbered paths are safe.
        _pair_unique(pairs, ones, twos, _path_and_sizes)
        _pair_unique(pairs, ones, twos, _any_path)
        return
    _pair_unique(pairs, ones, twos, _path)
    # Sizes and uses correct for numbered paths that shifted.
    _pair_unique(pairs, ones, twos, _path_and_uses)
    _pair_unique(pairs, ones, twos, _uses)
    _align(pairs, ones, twos, _name_sizes_and_uses)
    _align(pairs, ones, twos, _sizes_and_uses)
    _pair_unique(pairs, ones, twos, _path_and_sizes)


def _pair_unique(
    pairs: Pairs,
    ones: Sequence[Instruction],
    twos: Sequence[Instruction],
    key_of: Callable[[ModuleGraph, Instruction], Hashable],
) -> None:
    """Pairs parameters by keys that only one parameter of each module has."""
    old, new = _by_key(pairs.one, ones, key_of), _by_key(pairs.two, twos, key_of)
    for key, x in old.items():
        y = new.get(key)
        if x is not None and y is not None and pairs.are_free(a := pairs.one.node(x), b := pairs.two.node(y)):
            pairs.add(a, b)


def _by_key(
    graph: ModuleGraph, parameters: Sequence[Instruction], key_of: Callable[[ModuleGraph, Instruction], Hashable]
) -> dict[Hashable, Instruction | None]:
    """Parameters by key; None for a key that several parameters have."""
    found: dict[Hashable, Instruction | None] = {}
    for parameter in parameters:
        if (key := key_of(graph, parameter)) is not None:
            found[key] = None if key in found else parameter
    return found


def _path_and_sizes(_: ModuleGraph, parameter: Instruction) -> Hashable:
    path = parameter.metadata.op_name
    return (path, _sizes(parameter)) if path else None


def _path_and_uses(graph: ModuleGraph, parameter: Instruction) -> Hashable:
    path = parameter.metadata.op_name
    return (path, _sizes_and_uses(graph, parameter)) if path else None


def _path(_: ModuleGraph, parameter: Instruction) -> Hashable:
    """The op_name of a parameter; None for a numbered one, such as `args[2]`, which an insertion changes."""
    path = parameter.metadata.op_name
    return path if path and not _NUMBERED.search(path) else None


def _align(
    pairs: Pairs,
    ones: Sequence[Instruction],
    twos: Sequence[Instruction],
    key_of: Callable[[ModuleGraph, Instruction], Hashable],
) -> None:
    """Pairs unpaired parameters of one key, in their order, between those that are paired."""
    old: list[Hashable] = []
    for x in ones:
        a = pairs.one.node(x)
        old.append((None, a) if pairs.after[a] >= 0 else key_of(pairs.one, x))
    new: list[Hashable] = []
    for y in twos:
        a = pairs.before[pairs.two.node(y)]
        new.append((None, a) if a >= 0 else key_of(pairs.two, y))
    for i, j in aligned(old, new):
        a, b = pairs.one.node(ones[i]), pairs.two.node(twos[j])
        if pairs.are_free(a, b):
            pairs.add(a, b)


def _sizes_and_uses(graph: ModuleGraph, parameter: Instruction) -> Hashable:
    """The shape of a parameter, and what takes it at which position."""
    users = graph.users[graph.node(parameter)][:_MAX_USERS_OF_A_PARAMETER]
    keys = graph.keys[SHAPELESS]
    # SHAPELESS, as batch sizes change together with the uses.
    return _sizes(parameter), tuple(sorted([(keys[user], _position(graph, user, at)) for user, at in users]))


def _uses(graph: ModuleGraph, parameter: Instruction) -> Hashable:
    return _sizes_and_uses(graph, parameter) if graph.users[graph.node(parameter)] else None


def _position(graph: ModuleGraph, user: Node, position: int) -> int:
    """The position of an operand; 0 in a tuple, where positions shift."""
    return 0 if graph.nodes[user].opcode == opcodes.TUPLE else position


def _name_sizes_and_uses(graph: ModuleGraph, parameter: Instruction) -> Hashable:
    return parameter.name, _sizes_and_uses(graph, parameter)


def pair_by_number(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters by number.

    Arguments of programs with different numbers of arguments are aligned in order, by name and shape and then by shape.
    """
    # With other counts numbers have shifted: the order is what remains.
    if one.is_entry and two.is_entry and len(one.parameters) != len(two.parameters):
        for key_of in (_name_and_sizes, _only_sizes, _path_or_name):
            _align(pairs, one.parameters, two.parameters, key_of)
        return
    if one.is_entry and two.is_entry:
        _pair_moved(pairs, one.parameters, two.parameters)
    _pair_by_number(pairs, one.parameters, two.parameters)


def _pair_moved(pairs: Pairs, ones: Sequence[Instruction], twos: Sequence[Instruction]) -> None:
    """Pairs arguments whose shape changed at their number with arguments of the same name and shape at another
    number.
    """
    differing = [(x, y) for x, y in zip(ones, twos, strict=True) if _sizes(x) != _sizes(y)]
    named = {(y.name, _sizes(y)): y for _, y in differing}
    for x, _ in differing:
        y = named.get((x.name, _sizes(x)))
        if y is not None and pairs.are_free(pairs.one.node(x), pairs.two.node(y)):
            pairs.add(pairs.one.node(x), pairs.two.node(y))


def _any_path(_: ModuleGraph, parameter: Instruction) -> Hashable:
    return parameter.metadata.op_name or None


def _path_or_name(_: ModuleGraph, parameter: Instruction) -> Hashable:
    return parameter.metadata.op_name or parameter.name


def _name_and_sizes(_: ModuleGraph, parameter: Instruction) -> Hashable:
    return parameter.name, _sizes(parameter)


def _only_sizes(_: ModuleGraph, parameter: Instruction) -> Hashable:
    return _sizes(parameter)


def _sizes(parameter: Instruction) -> str:
    return parameter.shape.to_string(layout=False)


def _pair_by_number(pairs: Pairs, ones: Sequence[Instruction], twos: Sequence[Instruction]) -> None:
    for x, y in zip(ones, twos, strict=False):
        a, b = pairs.one.node(x), pairs.two.node(y)
        as_large = pairs.one.keys[ESSENTIAL][a] == pairs.two.keys[ESSENTIAL][b]
        # A fused computation with other counts has renumbered its parameters: the content has to agree.
        if pairs.are_free(a, b) and (len(ones) == len(twos) or as_large):
            pairs.add(a, b)


def pair_aliased_results(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs the result tuples of two programs whose results overwrite arguments, which tell the results apart."""
    if one.is_entry and two.is_entry and all(graph.module.input_output_alias for graph in pairs.plain):
        pair_results(pairs, one, two)


def pair_carriers(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters that are tuples, and result tuples, of computations that paired instructions call.

    What a loop carries corresponds by its sources, not by shape and index.
    """
    if one.is_entry or two.is_entry or one in pairs.one.bodies or two in pairs.two.bodies:
        return
    if len(one.parameters) == len(two.parameters):
        for x, y in zip(one.parameters, two.parameters, strict=True):
            a, b = pairs.one.node(x), pairs.two.node(y)
            if isinstance(x.shape, TupleShape) and isinstance(y.shape, TupleShape) and pairs.are_free(a, b):
                pairs.add(a, b)
    pair_results(pairs, one, two)


def pair_results(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs the root tuples of two computations that are not inlined, whatever else differs between them."""
    if one in pairs.one.bodies or two in pairs.two.bodies or one.root is None or two.root is None:
        return
    a, b = pairs.one.node(one.root), pairs.two.node(two.root)
    if pairs.are_free(a, b) and one.root.opcode == two.root.opcode == opcodes.TUPLE:
        pairs.add(a, b)
