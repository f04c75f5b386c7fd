"""How often code would be written out if one more operation joined a fusion.

Mirrors `FusionNodeIndexingEvaluation` of xla/service/fusion_node_indexing_evaluation.cc: an operation is written once
for every index at which its value is asked for.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.graph import FusionBody, Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, Shape

MOST_EMISSIONS: Final = 15
"""How often one operation may be written out in a fusion."""
_ASKS_ANEW: Final = frozenset("concatenate dot dynamic-update-slice pad reduce reduce-window".split())


class EmissionCounter:
    """How often each node of a fusion is written out, kept up to date while operations join.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = '''f { p = f32[9] parameter(0)  s = f32[3] slice(p), slice={[0:3]}  t = f32[3] slice(p), slice={[6:9]}
    ... ROOT r = f32[3] add(s, t) }
    ... ENTRY e { a = f32[9] parameter(0) ROOT r = f32[3] fusion(a), kind=kLoop, calls=f }'''
    >>> fusion = graph_of(parse_module(text).entry).root
    >>> EmissionCounter(fusion).of(fusion.operands[0])
    2
    """

    __slots__ = ("_asking", "_count", "_fusion")

    def __init__(self, fusion: Node) -> None:
        assert fusion.body is not None
        self._fusion = fusion
        self._asking: dict[Node, set[Node]] = {fusion.body.root: {fusion}}
        self._count: dict[Node, int] = {fusion: 1}
        for node in users_first(fusion.body):
            if node.opcode != opcodes.PARAMETER:
                self._add(node)

    def of(self, producer: Node) -> int:
        """How often the producer, an operand of the fusion, would be written out in it."""
        return sum(self._count[node] for node in self._asking.get(producer, ()))

    def are_too_many(self, producer: Node) -> bool:
        """Whether the producer would be written out too often; a broadcast never is, its operand will be asked."""
        if producer.opcode == opcodes.BROADCAST:
            return False
        emissions = self.of(producer)
        if emissions > MOST_EMISSIONS:
            return True
        return producer.opcode in _ASKS_ANEW and (emissions > 1 or _user_count(producer) > 1)

    def leave(self, producer: Node) -> set[Node]:
        """Forget an operand that is about to join; what comes back is for `join`."""
        return self._asking.pop(producer, set())

    def join(self, clone: Node, asking: set[Node]) -> None:
        """Count the clone of an operand in the fusion's body."""
        self._asking[clone] = asking
        self._add(clone)

    def _add(self, node: Node) -> None:
        asking = self._asking.get(node, set())
        self._count[node] = sum(self._count[user] for user in asking)
        for operand in node.operands:
            outside = self._fusion.operands[operand.number] if operand.opcode == opcodes.PARAMETER else operand
            known = self._asking.setdefault(outside, set())
            if node.opcode == opcodes.TRANSPOSE or _same_but_type(operand.shape, node.shape):
                known |= asking
            else:
                known.add(node)


def users_first(body: FusionBody) -> list[Node]:
    """The nodes of a body that the root needs, each before its operands."""
    order: list[Node] = []
    seen = {body.root}
    open_ = [(body.root, iter(body.root.operands))]
    while open_:
        node, rest = open_[-1]
        inner = next((operand for operand in rest if operand not in seen), None)
        if inner is None:
            order.append(node)
            open_.pop()
        else:
            seen.add(inner)
            open_.append((inner, iter(inner.operands)))
    return order[::-1]


def _user_count(producer: Node) -> int:
    """The users, in place of fusions those of the parameter."""
    count = 0
    for user in producer.users:
        if user.body is not None:
            count += len(user.body.parameters[user.operands.index(producer)].users)
        else:
            count += 1
    return count


def _same_but_type(one: Shape, other: Shape) -> bool:
    if not isinstance(one, ArrayShape) or not isinstance(other, ArrayShape):
        return one == other
    return (
        one.dimensions == other.dimensions
        and one.dynamic_dimensions == other.dynamic_dimensions
        and one.layout.minor_to_major == other.layout.minor_to_major
        and one.layout.tiles == other.layout.tiles
    )
