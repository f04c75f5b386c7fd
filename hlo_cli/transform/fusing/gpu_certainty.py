"""Which fusions of XLA:GPU depend on an order that the text of a module does not have.

The passes are run again with other orders: of producers of equal priority, and of users. A fusion that is not made with
each of them is a tie.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator

from hlo_cli.analysis.fusion.mutable_graph import Graph, Node, Users
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape
from hlo_cli.transform.fusing.copy_graph import copy_graph
from hlo_cli.transform.fusing.gpu_order import identities_of

Reorder = Callable[[list[Node]], list[Node]]


def identity_orders(graph: Graph) -> tuple[dict[Node, int], ...]:
    """Other orders of the nodes of a graph than `identities_of`: that one backward, and that of the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> module = parse_module("ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }")
    >>> backward, text = identity_orders(graph_of(module.entry))
    >>> list(backward.values()), list(text.values())
    ([0, -1], [0, 1])
    """
    backward = {node: -number for node, number in identities_of(graph)[0].items()}
    return backward, {node: place for place, node in enumerate(graph.nodes)}


def with_other_users(graph: Graph) -> Iterator[Graph]:
    """Yields copies of a graph with the users of each node in other orders: backward, rotated, shuffled, or by kind."""
    orders: tuple[Reorder, ...] = (_backward, _rotated, _shuffled(1), _shuffled(2), _loops_first, _loops_last)
    for order in orders:
        copy = copy_graph(graph)
        for node in copy.nodes:
            if len(node.users) > 1:
                users = order(list(node.users))
                node.users = Users()
                for user in users:
                    node.users.add(user)
        yield copy


def uncertain_fusions(graph: Graph, others: Iterable[Graph]) -> set[Node]:
    """Fusions of a graph that some of the others, made from the same instructions, do not have.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = '''f { p = s8[9] parameter(0)  ROOT a = s8[9] not(p) }
    ... ENTRY e { p = s8[9] parameter(0)  ROOT r = s8[9] fusion(p), kind=kLoop, calls=f }'''
    >>> entry = parse_module(text).entry
    >>> other = graph_of(entry)
    >>> uncertain_fusions(graph_of(entry), [other])
    set()
    >>> other.root.kind = "kInput"
    >>> uncertain_fusions(graph_of(entry), [other])
    {<node fusion r>}
    """
    found: set[Node] = set()
    for other in others:
        known = {_content(node) for node in _fusions(other)}
        found.update(node for node in _fusions(graph) if _content(node) not in known)
    return found


def _fusions(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.body is not None and node.kind != "kCustom")


def _content(node: Node) -> Hashable:
    """What a fusion computes from what, as instructions of the module."""
    body = node.body
    assert body is not None
    inside = [each.instruction for each in body.operations if each.opcode != opcodes.TUPLE]
    shapes = node.shape.elements if isinstance(node.shape, TupleShape) else (node.shape,)
    operands = [_computed_by(operand) for operand in node.operands]
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
