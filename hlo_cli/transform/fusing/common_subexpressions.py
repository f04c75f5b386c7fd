"""Merges equal operations within a fusion, as XLA:GPU does after each fusion pass.

Mirrors `HloCSE` of xla/service/hlo_cse.cc with `only_fusion_computations`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Graph, Node, users_first
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import CALLING_ATTRIBUTES, COMMUTATIVE

_IGNORED: Final = frozenset(("metadata", "origin", "frontend_attributes", "sharding", *CALLING_ATTRIBUTES))
"""Attributes that do not change what an operation computes, and those that name computations, which are compared."""


class CommonSubexpressions:
    """Merges equal operations in fusions; remembers the computations compared.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = '''f { p = s8[9] parameter(0)  a = s8[9] not(p)  b = s8[9] not(p)  ROOT r = s8[9] add(a, b) }
    ... ENTRY e { p = s8[9] parameter(0)  ROOT r = s8[9] fusion(p), kind=kLoop, calls=f }'''
    >>> graph = graph_of(parse_module(text).entry)
    >>> CommonSubexpressions().merge_in(graph)
    1
    >>> [node.name for node in graph.root.body.operations]
    ['a', 'r']
    """

    __slots__ = ("_contents",)

    def __init__(self) -> None:
        self._contents: dict[Computation, Hashable] = {}

    def merge_in(self, graph: Graph) -> int:
        """Merges equal operations in all fusions of a graph; returns how many there were."""
        return sum(self._merge(node.body) for node in graph.nodes if node.body is not None and node.kind != "kCustom")

    def _merge(self, body: FusionBody) -> int:
        found: dict[Hashable, Node] = {}
        merged = 0
        for node in reversed(users_first(body)):
            if node.opcode in (opcodes.PARAMETER, opcodes.IOTA) or node.body is not None:
                continue
            same = found.setdefault(self.key(node), node)
            if same is node:
                self._merge_iotas(node, body)
                continue
            node.replace_by(same)
            body.root = same if body.root is node else body.root
            _remove(node, body)
            merged += 1
        if merged:
            body.computation = None
        return merged

    def _merge_iotas(self, node: Node, body: FusionBody) -> None:
        """Merges equal iotas that are operands of one operation; others stay, as they have no operands to compare."""
        first: dict[Hashable, Node] = {}
        for position, operand in enumerate(node.operands):
            if operand.opcode == opcodes.IOTA and (same := first.setdefault(self.key(operand), operand)) is not operand:
                node.replace_operand(position, same)
                if not operand.users:
                    body.nodes.pop(operand, None)

    def _operand_key(self, operand: Node) -> Hashable:
        return self.key(operand) if operand.opcode == opcodes.IOTA else id(operand)

    def key(self, node: Node) -> Hashable:
        """What distinguishes an operation from others in the same fusion."""
        operands = [self._operand_key(operand) for operand in node.operands]
        if node.opcode in COMMUTATIVE:
            operands.sort(key=hash)
        if node.opcode != node.instruction.opcode:  # made by a pass: a tuple, or one of its elements
            return node.opcode, node.number, tuple(operands)
        return node.opcode, str(node.shape), tuple(operands), self._content_of(node.instruction)

    def _content_of(self, instruction: Instruction) -> Hashable:
        """Attributes, literal, and called computations of an instruction."""
        attributes = tuple((name, value) for name, value in instruction.pairs if name not in _IGNORED)
        called = tuple(map(self._computation, instruction.called_computations))
        literal = instruction.raw[0].strip() if instruction.opcode == opcodes.CONSTANT else ""
        return attributes, called, literal

    def _computation(self, computation: Computation) -> Hashable:
        """Instructions of a computation, whatever their names."""
        known = self._contents.get(computation)
        if known is None:
            lines = []
            for instruction in computation.instructions:
                places = tuple(operand.index for operand in instruction.operands)
                number = instruction.parameter_number
                lines.append(
                    (instruction.opcode, str(instruction.shape), places, number, self._content_of(instruction))
                )
            known = self._contents[computation] = tuple(lines)
        return known


def _remove(node: Node, body: FusionBody) -> None:
    """Removes a node without users, and operands that only it used."""
    waiting = [node]
    while waiting:
        dead = waiting.pop()
        if dead.users or dead.opcode == opcodes.PARAMETER:
            continue
        operands = list(dict.fromkeys(dead.operands))
        dead.detach()
        body.nodes.pop(dead, None)
        waiting += operands
