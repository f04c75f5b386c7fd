"""The instructions of a module as numbered nodes: what each depends on, calls, and holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from hlo_cli.analysis.dataflow.post_order import control_predecessors
from hlo_cli.analysis.graphs.hidden import hidden_instructions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

Change: TypeAlias = Literal["added", "removed", "changed", "moved"]

EXPANDABLE: frozenset[str] = operations.RUNNERS | {opcodes.FUSION, opcodes.CUSTOM_CALL}
"""Opcodes of instructions in place of which a graph can show what they call."""


@dataclass(frozen=True, slots=True)
class DataflowGraph:
    """The nodes of all computations, by number; operands precede their users.

    - `computation[n]` is the index of the computation of node n, `members[c]` the nodes of computation c in order.
    - `operands`, `control` (predecessors), and `calls` (indices of computations) refer to nodes without repetition.
    - `bytes` is the size of each result, with padding.
    - `hidden` nodes are seen through in folded graphs, and so are `transfers` unless they are to be shown.
    - `changes` is what happened to nodes between two modules.
    """

    module: Module
    instructions: tuple[Instruction, ...]
    computations: tuple[Computation, ...]
    computation: Sequence[int]
    members: Sequence[Sequence[int]]
    operands: Sequence[tuple[int, ...]]
    control: Mapping[int, tuple[int, ...]]
    calls: Mapping[int, tuple[int, ...]]
    bytes: Sequence[int]
    hidden: frozenset[int]
    transfers: frozenset[int]
    changes: Mapping[int, Change]

    def predecessors(self, node: int) -> tuple[int, ...]:
        """The nodes that must run before a node: operands, and control predecessors."""
        control = self.control.get(node)
        return self.operands[node] if control is None else (*self.operands[node], *control)

    def is_expandable(self, node: int) -> bool:
        """Whether a cluster in place of a node shows more than it: a fusion, loop, call, or async wrapper.

        >>> from hlo_cli import parse_module
        >>> text = "f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
        >>> text += " ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }"
        >>> graph = dataflow_graph(parse_module(text))
        >>> [instruction.name for n, instruction in enumerate(graph.instructions) if graph.is_expandable(n)]
        ['r']
        """
        if self.instructions[node].opcode not in EXPANDABLE:
            return False
        return any(len(self.members[called]) > 1 for called in self.calls.get(node, ()))


def dataflow_graph(module: Module) -> DataflowGraph:
    """The graph of a module.

    >>> from hlo_cli import parse_module
    >>> graph = dataflow_graph(parse_module("ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] multiply(a, a) }"))
    >>> graph.operands, graph.bytes
    (((), (0,)), (8, 8))
    """
    instructions = tuple(module.instructions)
    numbers = {instruction: at for at, instruction in enumerate(instructions)}
    indices = {computation: at for at, computation in enumerate(module.computations)}
    hidden = hidden_instructions(module.computations)
    sizes: dict[int, int] = {}
    bytes_: list[int] = []
    for instruction in instructions:
        shape = instruction.shape
        if (size := sizes.get(id(shape))) is None:
            size = sizes[id(shape)] = shape.padded_bytes
        bytes_.append(size)
    members: list[range] = []
    control: dict[int, tuple[int, ...]] = {}
    for computation in module.computations:
        first = members[-1].stop if members else 0
        members.append(range(first, first + len(computation.instructions)))
        for at, before in control_predecessors(computation).items():
            control[first + at] = tuple([first + n for n in before if n < at])
    return DataflowGraph(
        module,
        instructions,
        module.computations,
        [at for at, found in enumerate(members) for _ in found],
        members,
        tuple(
            [
                tuple([numbers[each] for each in dict.fromkeys(instruction.operands) if numbers.get(each, at) < at])
                for at, instruction in enumerate(instructions)
            ]
        ),
        control,
        {
            numbers[instruction]: tuple([indices[each] for each in instruction.called_computations if each in indices])
            for instruction in instructions
            if instruction.called_computations
        },
        tuple(bytes_),
        frozenset([numbers[each] for each in hidden.always]),
        frozenset([numbers[each] for each in hidden.transfers]),
        {},
    )
