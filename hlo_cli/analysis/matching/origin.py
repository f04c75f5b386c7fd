"""Pairs instructions by origin: their names, and op_name in their metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from hlo_cli.analysis.matching.content import op_name_in
from hlo_cli.analysis.matching.graph import CONTENT, ESSENTIAL, Graph, Node
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.ir import opcodes

_T = TypeVar("_T")

_LOGICAL_OPCODE: Final = {
    opcodes.CONVOLUTION: opcodes.DOT,
    opcodes.BITCAST: opcodes.RESHAPE,
    opcodes.TRANSPOSE: opcodes.RESHAPE,
    opcodes.ALL_REDUCE_START: opcodes.ALL_REDUCE,
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
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> pair_by_origin(pairs, [0, 1], [0, 1])
    >>> pairs.after
    [0, 1]
    """
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
        if len(group) == len(others) == 1:
            pairs.add(group[0], others[0])


def _key_and_name(graph: Graph, node: Node) -> object:
    return graph.keys[ESSENTIAL][node], graph.nodes[node].name


def _key_and_op_name(graph: Graph, node: Node) -> object:
    op_name = op_name_in(graph.metadata[node])
    return (graph.keys[ESSENTIAL][node], op_name) if op_name else None


def _operation_and_op_name(graph: Graph, node: Node) -> object:
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
