"""What is asynchronous among the nodes of a graph, and how long everything takes, by a simple model.

A kernel takes as long as the bytes are many that it reads and writes, as XLA's cost analysis counts them. A transfer
within a device takes as long as a kernel that reads and writes as much; one between devices, or with the host, takes
`LINK` times that. Mirrors `LatencyEstimator` of xla/service/latency_hiding_scheduler.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hlo_cli.analysis.cost.kernel_costs import inclusive_costs
from hlo_cli.analysis.schedule.async_bytes import moved_bytes
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.async_pairs import COLLECTIVES, AsyncPair
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape
from hlo_cli.transform.scheduling.graph import Graph

LINK: Final = 8
"""How much longer a byte takes from device to device than from memory to a kernel and back, in round numbers."""
BY_BYTES: Final = (
    "time by the bytes that kernels read and write, as XLA's cost analysis counts them; "
    f"a byte between devices takes {LINK} times as long as one within"
)
_FAR: Final = COLLECTIVES | {"send", "recv"}


@dataclass(frozen=True, slots=True)
class AsyncLatencies:
    """`work` is the time of each node; `takes` how long what a node starts is under way, `awaits` which starts a node
    waits for.
    """

    work: tuple[float, ...]
    takes: Mapping[int, float]
    awaits: Mapping[int, tuple[int, ...]]


def exposed_bytes(module: Module) -> int:
    """The bytes of asynchronous operations that nothing hides.

    >>> from hlo_cli import parse_module
    >>> exposed_bytes(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }"))
    0
    """
    return sum(flight.exposed_bytes for flight in analyze_overlap(module).flights)


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """How long everything takes, in any one unit: an instruction by itself, and what is asynchronous from its start on.

    `model` says where the times come from, for those who read a result. `waited` says how much of a module's transfers
    nothing hides, which no new order may make more.
    """

    of_instruction: Callable[[Instruction], float]
    of_pair: Callable[[AsyncPair], float]
    model: str
    waited: Callable[[Module], float] = exposed_bytes


def times_by_bytes(computation: Computation, size: Callable[[Shape], int]) -> LatencyModel:
    """Times in bytes, of the instructions of a computation.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }").entry
    >>> times_by_bytes(entry, len).of_instruction(entry.root)
    64
    """
    works = inclusive_costs(computation.instructions)

    def of_instruction(instruction: Instruction) -> float:
        return works[instruction].bytes if instruction in works else 0

    def of_pair(pair: AsyncPair) -> float:
        far = pair.operation in _FAR or pair.is_host_transfer
        return moved_bytes(pair, size) * (2 * LINK if far else 2)

    return LatencyModel(of_instruction, of_pair, BY_BYTES)


def flights_of(graph: Graph, pairs: Sequence[AsyncPair], times: LatencyModel) -> AsyncLatencies:
    """The asynchronous operations that start and end in a computation."""
    nodes = {member: node for node, members in enumerate(graph.members) for member in members}
    takes: dict[int, float] = {}
    awaits: dict[int, tuple[int, ...]] = {}
    for pair in pairs:
        start = nodes.get(pair.start)
        dones = [nodes[done] for done in pair.dones if done in nodes]
        if start is None or start in dones:
            continue
        takes[start] = takes.get(start, 0) + times.of_pair(pair)
        awaits |= {done: (*awaits.get(done, ()), start) for done in dones if done > start}
    ends = {member for pair in pairs for member in (pair.start, *pair.dones)}
    work = tuple(sum(times.of_instruction(m) for m in members if m not in ends) for members in graph.members)
    return AsyncLatencies(work, takes, awaits)
