"""Pairs the elements of tuples of two modules: those with paired sources first, then those of one content or shape."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from hlo_cli.alignment import aligned
from hlo_cli.analysis.matching.content import op_name_in
from hlo_cli.analysis.matching.elements import WHOLE, ElementSources, Source
from hlo_cli.analysis.matching.graph import ESSENTIAL, FULL, Graph, Node
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape

_MAX_USERS: Final = 8
_MAX_STEPS: Final = 8
NONE: Final = -1


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

    def __init__(self, one: Graph, two: Graph, after: Sequence[Node], before: Sequence[Node]) -> None:
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
        >>> from hlo_cli.analysis.matching.matching import match
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

    graph: Graph
    sources: ElementSources
    node: Node
    shape: TupleShape
    opposite: Graph
    is_new: bool

    def keys(self, other: Sequence[Node]) -> _Keys:
        """What elements are compared by, strongest first; `other` has the partner of each node."""
        sources = self.sources.of(self.node)
        paired = [self._paired(*source, other) for source in sources]
        hints = self._loop_uses(len(sources))
        texts = [element.to_string(layout=False) for element in self.shape.elements]
        contents = [
            self._content(*source) if known is None else known for known, source in zip(paired, sources, strict=True)
        ]
        derived = [self._derived(*source, other) for source in sources]
        return _Keys(
            (
                self._aliases(len(sources), other),
                [None if known is None else (known, hint) for known, hint in zip(paired, hints, strict=True)],
                paired,
                [None if made is None else (made, content) for made, content in zip(derived, contents, strict=True)],
            ),
            (
                list(zip(contents, hints, texts, strict=True)),
                list(zip(contents, texts, strict=True)),
                list(zip(derived, texts, strict=True)),
                list(zip(hints, texts, strict=True)),
                texts,
            ),
        )

    def _aliases(self, count: int, other: Sequence[Node]) -> list[Hashable]:
        """The paired argument that each element of the program's result overwrites; None for other elements."""
        found: list[Hashable] = [None] * count
        instruction, module = self.graph.nodes[self.node], self.graph.module
        if not (instruction.is_root and instruction.computation is module.entry):
            return found
        for alias in module.input_output_alias:
            if len(alias.output_index) == 1 and not alias.parameter_index and alias.output_index[0] < count:
                parameter = self.graph.node(module.entry.parameters[alias.parameter_number])
                found[alias.output_index[0]] = self._paired(parameter, WHOLE, other)
        return found

    def _paired(self, node: Node, element: int, other: Sequence[Node]) -> Hashable:
        """Key of a paired source: its value, if that is equal in both modules, or its pair; None if it is not paired.

        Sources of equal values, such as several buffers of zeros, are paired by chance.
        """
        if (partner := other[node]) < 0:
            return None
        if (value := self.graph.comparable[node]) >= 0 and value == self.opposite.comparable[partner]:
            return value, element
        return -1 - (partner if self.is_new else node), element

    def _content(self, node: Node, element: int) -> Hashable:
        return self.graph.keys[ESSENTIAL][node], op_name_in(self.graph.metadata[node]), element

    def _derived(self, node: Node, element: int, other: Sequence[Node]) -> Hashable:
        """Key of the nearest paired source along the first operands, also through the tuples of loops."""
        graph = self.graph
        for _ in range(_MAX_STEPS):
            if (found := self._paired(node, element, other)) is not None:
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
        keys, root, uses = graph.keys[FULL], graph.node(body.root), [list[tuple[int, int]]() for _ in range(count)]
        for carrier in (*body.parameters[:1], loop):
            for user, _ in graph.users[graph.node(carrier)]:
                if 0 <= (element := graph.tuple_index[user]) < count:
                    used = graph.users[user][:_MAX_USERS]
                    uses[element] += [
                        (keys[node], at) for node, at in used if graph.nodes[node].opcode != opcodes.TUPLE
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
    if len(left[0]) == len(left[1]):
        for i, j in zip(*left, strict=True):
            after[i], before[j] = j, i
    return ElementMap(tuple(after), tuple(before))


def _free(other: Sequence[int], keys: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Elements without partner by key."""
    groups: dict[Hashable, list[int]] = {}
    for i, j in enumerate(other):
        if j < 0:
            groups.setdefault(keys[i], []).append(i)
    return groups
