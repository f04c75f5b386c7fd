"""Counts how often the code of an operation is emitted in a fusion.

Mirrors `FusionNodeIndexingEvaluation` of xla/service/fusion_node_indexing_evaluation.cc: an operation is emitted once
for every distinct index at which its users read it.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.graph import FusionBody, Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, Shape

MAX_EMISSIONS: Final = 15
"""Maximum number of emissions of one operation in a fusion (`kAllowedCodeDuplication`)."""
# `OpInvalidatesCache`: their code opens a new basic block, so that a value emitted before cannot be reused.
_INVALIDATES_CACHE: Final = frozenset("concatenate dot dynamic-update-slice pad reduce reduce-window".split())


class EmissionCounter:
    """Number of emissions of each node of a fusion, updated while operations are fused.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = '''f { p = f32[9] parameter(0)  s = f32[3] slice(p), slice={[0:3]}  t = f32[3] slice(p), slice={[6:9]}
    ... ROOT r = f32[3] add(s, t) }
    ... ENTRY e { a = f32[9] parameter(0) ROOT r = f32[3] fusion(a), kind=kLoop, calls=f }'''
    >>> fusion = graph_of(parse_module(text).entry).root
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
            known = self._indexing_users.setdefault(outside, set())
            # A user of the same shape, and a transpose by permutation, reuse the index; every other operation computes
            # a new one.
            if node.opcode == opcodes.TRANSPOSE or _same_but_type(operand.shape, node.shape):
                known |= indexing_users
            else:
                known.add(node)


def users_first(body: FusionBody) -> list[Node]:
    """Nodes of a body that the root depends on, users before operands."""
    order: list[Node] = []
    seen = {body.root}
    open_ = [(body.root, iter(body.root.operands))]
    while open_:
        node, rest = open_[-1]
        for operand in rest:
            if operand not in seen:
                seen.add(operand)
                if operand.operands:
                    open_.append((operand, iter(operand.operands)))
                    break
                order.append(operand)
        else:
            open_.pop()
            order.append(node)
    order.reverse()
    return order


def _user_count(producer: Node) -> int:
    """Number of users; a fusion counts as the users of its parameter."""
    count = 0
    for user in producer.users:
        if user.body is not None:
            count += len(user.body.parameters[user.operands.index(producer)].users)
        else:
            count += 1
    return count


def _same_but_type(one: Shape, other: Shape) -> bool:
    """Whether two shapes are equal apart from the element type."""
    if not isinstance(one, ArrayShape) or not isinstance(other, ArrayShape):
        return one == other
    return (
        one.dimensions == other.dimensions
        and one.dynamic_dimensions == other.dynamic_dimensions
        and one.layout.minor_to_major == other.layout.minor_to_major
        and one.layout.tiles == other.layout.tiles
    )
