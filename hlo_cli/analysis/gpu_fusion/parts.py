"""One part of a kernel: an operation, or a fusion with its current body, whatever it is fused with."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.ir import opcodes

HEROES: Final = frozenset((opcodes.REDUCE, opcodes.TRANSPOSE, opcodes.CONCATENATE))
"""Opcodes of operations that can decide how a whole kernel is computed."""
_DECISIVE: Final = HEROES | {
    *(opcodes.SCATTER, opcodes.SORT, opcodes.DOT, opcodes.REDUCE_WINDOW, opcodes.DYNAMIC_UPDATE_SLICE)
}
"""Opcodes of operations on which the launch of a kernel depends."""
_MOVERS: Final = (opcodes.TRANSPOSE, opcodes.CONCATENATE)


class Part:
    """Operations of a node, without parameters and the tuple of results; valid until the node changes.

    `results` compute the results, `opcodes` are those of all operations, `movers` the transposes and concatenates. The
    kernel of plain parts is a loop over the result, whatever else is in it.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> part = Part(graph_of(parse_module("ENTRY e { a = s8[2] parameter(0)  ROOT b = s8[2] add(a, a) }").entry).root)
    >>> part.operations, part.results, part.opcodes, part.movers, part.is_plain
    ([<node add b>], [<node add b>], {'add'}, [], True)
    """

    __slots__ = ("is_plain", "movers", "node", "opcodes", "operations", "results")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.operations = self.results = [node]
        if node.body is not None:
            root, parameter = node.body.root, opcodes.PARAMETER
            self.operations = [each for each in node.body.nodes if each.opcode != parameter]
            self.results = [root]
            if root.opcode == opcodes.TUPLE:
                self.operations.remove(root)
                self.results = root.operands
        self.opcodes = {each.opcode for each in self.operations}
        has_outer_result = any(each.opcode == opcodes.PARAMETER for each in self.results)
        self.is_plain = self.opcodes.isdisjoint(_DECISIVE) and not has_outer_result
        self.movers = [] if self.is_plain else [each for each in self.operations if each.opcode in _MOVERS]

    def contains(self, node: Node) -> bool:
        """Whether a node is the operation, or an operation or parameter of the fusion."""
        own = self.node
        return node is own if own.body is None else node in own.body.nodes
