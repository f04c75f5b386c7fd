"""Async operations of a graph with their durations, by a simple latency model.

A kernel takes time proportional to the bytes it reads and writes, as counted by XLA's cost analysis. A transfer within
a device takes as long as a kernel with the same bytes; one between devices or with the host takes `LINK` times that.
Mirrors `LatencyEstimator` of xla/service/latency_hiding_scheduler.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import inclusive_costs
from hlo_cli.analysis.schedule.async_overlap import AsyncPair, analyze_overlap, moved_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES
from hlo_cli.ir.shape import Shape
from hlo_cli.transform.scheduling.graph import Graph

LINK: Final = 8
"""Assumed time of a byte between devices, relative to a byte between memory and a kernel."""
BY_BYTES: Final = f"cost model: bytes accessed; a byte between devices costs {LINK} times as much as one in memory"
_INTERCONNECT_OPERATIONS: Final = COLLECTIVES | CHANNEL_STARTS


@dataclass(frozen=True, slots=True)
class AsyncLatencies:
    """Compute time `work` of each node, `durations` of the async operations by start, and the starts of each done."""

    work: tuple[float, ...]
    durations: Mapping[int, float]
    starts_of: Mapping[int, tuple[int, ...]]


def exposed_bytes(module: Module) -> int:
    """Bytes of async operations that no compute overlaps.

    >>> from hlo_cli import parse_module
    >>> exposed_bytes(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }"))
    0
    """
    return sum(interval.exposed_bytes for interval in analyze_overlap(module).intervals)


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Durations of instructions and async operations, in any unit.

    `model` describes the source of the durations. `exposed` returns the exposed time of a module, which a new order
    must not increase.
    """

    of_instruction: Callable[[Instruction], float]
    of_pair: Callable[[AsyncPair], float]
    model: str
    exposed: Callable[[Module], float] = exposed_bytes


def times_by_bytes(computation: Computation, size: Callable[[Shape], int]) -> LatencyModel:
    """Latency model of a computation with durations in bytes.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }").entry
    >>> times_by_bytes(entry, len).of_instruction(entry.root)
    64
    """
    costs = inclusive_costs(computation.instructions)

    def of_instruction(instruction: Instruction) -> float:
        return costs[instruction].bytes if instruction in costs else 0

    def of_pair(pair: AsyncPair) -> float:
        is_interconnect = pair.operation in _INTERCONNECT_OPERATIONS or pair.is_host_transfer
        return moved_bytes(pair, size) * (2 * LINK if is_interconnect else 2)

    return LatencyModel(of_instruction, of_pair, BY_BYTES)


def async_latencies(graph: Graph, pairs: Sequence[AsyncPair], latency_model: LatencyModel) -> AsyncLatencies:
    """Async operations that start and end in a computation, with their durations."""
    nodes = {member: node for node, members in enumerate(graph.members) for member in members}
    durations: dict[int, float] = {}
    starts_of: dict[int, tuple[int, ...]] = {}
    for pair in pairs:
        start = nodes.get(pair.start)
        dones = [nodes[done] for done in pair.dones if done in nodes]
        if start is None or start in dones:
            continue
        durations[start] = durations.get(start, 0) + latency_model.of_pair(pair)
        starts_of |= {done: (*starts_of.get(done, ()), start) for done in dones if done > start}
    ends = {member for pair in pairs for member in (pair.start, *pair.dones)}
    work = tuple(sum(latency_model.of_instruction(m) for m in members if m not in ends) for members in graph.members)
    return AsyncLatencies(work, durations, starts_of)
