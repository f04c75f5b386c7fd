"""What is asynchronous among the nodes of a graph, and how long everything takes, by a simple model.

A kernel takes as long as the bytes are many that it reads and writes, as XLA's cost analysis counts them. A transfer
within a device takes as long as a kernel that reads and writes as much; one between devices, or with the host, takes
`LINK` times that. Mirrors `LatencyEstimator` of xla/service/latency_hiding_scheduler.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hlo_cli.analysis.async_bytes import moved_bytes
from hlo_cli.analysis.async_pairs import COLLECTIVES, AsyncPair, AsyncPairs
from hlo_cli.analysis.work import works_of_all
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import Shape
from hlo_cli.transform.scheduling.graph import Graph

LINK: Final = 8
"""How much longer a byte takes from device to device than from memory to a kernel and back, in round numbers."""
_FAR: Final = COLLECTIVES | {"send", "recv"}


@dataclass(frozen=True, slots=True)
class Flights:
    """`work` is the time of each node; `takes` how long what a node starts is under way, `awaits` which starts a node
    waits for.
    """

    work: tuple[int, ...]
    takes: Mapping[int, int]
    awaits: Mapping[int, tuple[int, ...]]


def flights_of(computation: Computation, graph: Graph, pairs: AsyncPairs, size: Callable[[Shape], int]) -> Flights:
    """The asynchronous operations that start and end in a computation."""
    nodes = {member: node for node, members in enumerate(graph.members) for member in members}
    works = works_of_all(computation.instructions)
    takes: dict[int, int] = {}
    awaits: dict[int, tuple[int, ...]] = {}
    for pair in pairs.pairs:
        start = nodes.get(pair.start)
        dones = [nodes[done] for done in pair.dones if done in nodes]
        if start is None or start in dones:
            continue
        takes[start] = takes.get(start, 0) + _time(pair, size)
        awaits |= {done: (*awaits.get(done, ()), start) for done in dones if done > start}
    ends = {member for pair in pairs.pairs for member in (pair.start, *pair.dones)}

    def work(member: Instruction) -> int:
        return works[member].bytes if member in works and member not in ends else 0

    return Flights(tuple(sum(map(work, members)) for members in graph.members), takes, awaits)


def _time(pair: AsyncPair, size: Callable[[Shape], int]) -> int:
    far = pair.operation in _FAR or pair.is_host_transfer
    return moved_bytes(pair, size) * (2 * LINK if far else 2)
