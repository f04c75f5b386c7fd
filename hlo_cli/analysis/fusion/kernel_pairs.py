"""Producer–consumer pairs of separate kernels, and the memory traffic that one kernel for both would avoid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.cost_analysis import cost_analysis
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS
from hlo_cli.analysis.fusion.graph import Graph, Node, fusible_computations, graph_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

_PASSED_ON: Final = (opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT)


@dataclass(frozen=True, slots=True)
class KernelPair:
    """A kernel that reads the result of another one; `saved_bytes` is the traffic that one kernel would avoid."""

    producer: Instruction
    consumer: Instruction
    saved_bytes: int


def kernel_pairs(module: Module) -> tuple[KernelPair, ...]:
    """Pairs of kernels in the order of the text; values are followed through bitcasts and elements of tuples.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = s8[9] parameter(0) t = s8[9] abs(p) b = s8[3,3] bitcast(t) ROOT n = s8[3,3] negate(b) }"
    >>> [(pair.producer.name, pair.consumer.name, pair.saved_bytes) for pair in kernel_pairs(parse_module(text))]
    [('t', 'n', 18)]
    """
    with no_garbage_collection():
        costs = cost_analysis(module)
        text = module.source.text
        return tuple(pair for each in fusible_computations(module) for pair in _pairs(graph_of(each, text), costs))


def saved_bytes(
    producer: Node, consumer: Node, operands: Sequence[Node], costs: Mapping[Instruction, Cost], *, users: int
) -> int:
    """Returns the bytes that the consumer no longer reads and the producer no longer writes, minus those read anew.

    `operands` are those of the consumer; a producer with one of its `users` is not computed on its own any more.
    """
    made, used = costs[producer.instruction], costs[consumer.instruction]
    saved = sum(used.operand_bytes(n) for n, node in enumerate(operands) if node is producer)
    if users == 1:
        saved += made.bytes_accessed
    first = {node: n for n, node in reversed(list(enumerate(producer.operands)))}
    instead = sum(made.operand_bytes(n) for node, n in first.items() if node not in operands)
    return round(saved - instead)


def _pairs(graph: Graph, costs: Mapping[Instruction, Cost]) -> Iterator[KernelPair]:
    origin = _origins(graph)
    read = {node: [origin[operand] for operand in node.operands] for node in graph.nodes if _is_kernel(node)}
    users: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        if node.opcode not in _PASSED_ON:
            for operand in node.operands:
                users.setdefault(origin[operand], set()).add(node)
    for consumer, operands in read.items():
        for producer in dict.fromkeys(operands):
            if _is_kernel(producer):
                saved = saved_bytes(producer, consumer, operands, costs, users=len(users[producer]))
                yield KernelPair(producer.instruction, consumer.instruction, saved)


def _is_kernel(node: Node) -> bool:
    return node.opcode not in NO_KERNELS


def _origins(graph: Graph) -> dict[Node, Node]:
    """The node that computes the value of each node, behind bitcasts and elements of tuples."""
    origin: dict[Node, Node] = {}
    for node in graph.nodes:
        path = [node]
        while path[-1] not in origin and path[-1].opcode in _PASSED_ON and path[-1].operands:
            path.append(path[-1].operands[0])
        found = origin.get(path[-1], path[-1])
        origin.update(dict.fromkeys(path, found))
    return origin
