"""A new order for a module: a schedule, where it has none.

Mirrors xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc and xla/service/latency_hiding_scheduler.cc. What an
instruction needs stays before it: operands, control predecessors, what has the same effect on the outside, readers of
what it overwrites in place. Computations that are fused or applied stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from hlo_cli.analysis.async_overlap import overlap_of
from hlo_cli.analysis.async_pairs import async_pairs
from hlo_cli.analysis.buffer_sizes import buffer_bytes, generation_of
from hlo_cli.analysis.memory_of import memory_of
from hlo_cli.analysis.target import target_of
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Attribute, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.copying import ComputationCopy, begin_copies, copied_calls, with_computations
from hlo_cli.transform.scheduling.breadth_first import breadth_first
from hlo_cli.transform.scheduling.buffer_uses import BufferUses, buffer_uses
from hlo_cli.transform.scheduling.by_latency import Limits, by_latency
from hlo_cli.transform.scheduling.by_memory import by_memory
from hlo_cli.transform.scheduling.depth_first import heaviest_first, post_order
from hlo_cli.transform.scheduling.effects import effects_of
from hlo_cli.transform.scheduling.flights import flights_of
from hlo_cli.transform.scheduling.graph import Graph, graph_of
from hlo_cli.transform.scheduling.held import peak_of_order
from hlo_cli.transform.scheduling.tightened import tightened

How = Literal["memory", "dfs", "bfs", "latency", "postorder"]

Orders = Mapping[Computation, Sequence[Instruction]]

_ROUNDS: Final = 4
"""How often the room for what hides latency is narrowed, when the order takes more memory than it may."""
MOST_MEASURED: Final = 20_000
"""The most instructions with which whole modules are measured to choose between orders; beyond, computations are."""


def reorder(module: Module, how: How, *, limits: Limits | None = None) -> Module:
    """The module with a new order of every computation that runs, and with `is_scheduled=true`.

    - `memory`: what frees most comes first; also tried are depth first, post-order and the order as it was, which stays
      unless another has a lower peak, in no memory space a higher one
    - `dfs`: depth first, the operands with most above them first
    - `bfs`: breadth first, everything as soon as it can be
    - `latency`: what is asynchronous starts as early and is waited for as late as may be, within `limits`: the bytes
      that may be alive in a memory space (where nothing is said, as many as in the present order); that stays if no
      other has fewer bytes to wait for
    - `postorder`: depth first, operands as they stand

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[8] parameter(0)  s = (f32[8], f32[8], u32[]) copy-start(p)  d = f32[8] copy-done(s)
    ...   n = f32[8] negate(p)  ROOT a = f32[8] add(n, d) }'''
    >>> new = reorder(parse_module(text), "latency", limits={0: 1024})
    >>> [instruction.name for instruction in new.entry.instructions], new.is_scheduled
    (['p', 's', 'n', 'd', 'a'], True)
    """
    uses = buffer_uses(module)
    graphs = _Graphs(module, uses)
    if how == "memory":
        return _of_least_memory(module, graphs)
    if how == "latency":
        return _with_latency_hidden(module, graphs, limits or {})
    scheduler = {"dfs": heaviest_first, "bfs": breadth_first, "postorder": post_order}[how]
    return _with(module, {c: _instructions(graph, scheduler(graph)) for c, graph in graphs.all()})


class _Graphs:
    """The graphs of the computations that run, those first that others call."""

    def __init__(self, module: Module, uses: BufferUses) -> None:
        self._text = module.source.text
        self._effects = effects_of(module.computations)
        self.uses = uses
        self.peaks: dict[Computation, int] = {}

    def all(self) -> Iterator[tuple[Computation, Graph]]:
        """Each computation with its graph; its peak is that of the present order, until told otherwise."""
        for run in reversed(self.uses.runs):
            computation = run.computation
            graph = graph_of(computation, self.uses, self._effects, self.peaks, self._text)
            self.peaks[computation] = peak_of_order(graph, range(len(graph)))
            yield computation, graph


def _of_least_memory(module: Module, graphs: _Graphs) -> Module:
    """The given order, the best for each computation, or one scheduler's for all: what has the lowest peak."""
    best: dict[Computation, Sequence[Instruction]] = {}
    tried: list[dict[Computation, Sequence[Instruction]]] = []
    for computation, graph in graphs.all():
        best[computation] = computation.instructions
        for number, order in enumerate(_tried(graph)):
            if number == len(tried):
                tried.append({})
            tried[number][computation] = _instructions(graph, order)
            peak = peak_of_order(graph, order)
            if peak < graphs.peaks[computation]:
                graphs.peaks[computation] = peak
                best[computation] = tried[number][computation]
    if module.instruction_count > MOST_MEASURED:
        return _with(module, best)
    return _lowest(_with(module, {}), (_with(module, orders) for orders in (best, *tried)))


def _tried(graph: Graph) -> Iterator[Sequence[int]]:
    for scheduler in (by_memory, heaviest_first, post_order):
        order = scheduler(graph)
        yield order
        yield tightened(graph, order)
    yield tightened(graph, range(len(graph)))


def _lowest(given: Module, others: Iterable[Module]) -> Module:
    """The module with the lowest peak, all spaces together, among those that in no space have a higher one."""
    limits = _peaks(given)
    best, least = given, sum(limits.values())
    for other in others:
        peaks = _peaks(other)
        if sum(peaks.values()) < least and all(peaks[space] <= limits.get(space, 0) for space in peaks):
            best, least = other, sum(peaks.values())
    return best


def _peaks(module: Module) -> Mapping[int, int]:
    return {space.number: space.peak_bytes for space in memory_of(module).spaces}


def _with_latency_hidden(module: Module, graphs: _Graphs, limits: Limits) -> Module:
    """The first order found that stays within the limits and waits for no more bytes than the present one does."""
    given = _with(module, {})
    if module.instruction_count > MOST_MEASURED:
        return _with(module, _latency_orders(module, graphs, limits, {}))
    allowed = {**_peaks(given), **limits}
    exposed = _exposed(given)
    less: dict[int, int] = {}
    for _ in range(_ROUNDS):
        new = _with(module, _latency_orders(module, graphs, limits, less))
        excess = {space: peak - allowed.get(space, 0) for space, peak in _peaks(new).items()}
        excess = {space: more for space, more in excess.items() if more > 0}
        if not excess:
            return new if _exposed(new) <= exposed else given
        less |= {space: less.get(space, 0) + more for space, more in excess.items()}
    return given


def _exposed(module: Module) -> int:
    return sum(flight.exposed_bytes for flight in overlap_of(module).flights)


def _latency_orders(module: Module, graphs: _Graphs, limits: Limits, less: Limits) -> Orders:
    target = target_of(module)
    size = partial(buffer_bytes, target=target, generation=generation_of(module) if target == "tpu" else "v5e")
    pairs = async_pairs(module)
    orders: dict[Computation, Sequence[Instruction]] = {}
    for computation, graph in graphs.all():
        flights = flights_of(computation, graph, pairs, size)
        if flights.takes:
            order = by_latency(graph, flights, graphs.uses.space, limits, less)
            orders[computation] = _instructions(graph, order)
            graphs.peaks[computation] = peak_of_order(graph, order)
    return orders


def _instructions(graph: Graph, order: Iterable[int]) -> tuple[Instruction, ...]:
    """The instructions of nodes in an order; arguments that stood in front stay: it is all one where they stand."""
    found = [member for node in order for member in graph.members[node]]
    front: set[Instruction] = set()
    for members in graph.members:
        if any(member.opcode not in ("parameter", "constant") for member in members):
            break
        front.update(members)
    ahead = sorted(front, key=lambda instruction: instruction.index)
    return (*ahead, *(instruction for instruction in found if instruction not in front))


def _with(module: Module, orders: Orders) -> Module:
    """The module, scheduled, with some computations in a new order."""
    copies = begin_copies(module)
    computations = [_filled(copies, copy, orders.get(old, old.instructions)) for old, copy in copies.items()]
    header = module.header
    if not module.is_scheduled:
        others = (attribute for attribute in header if attribute.name != "is_scheduled")
        header = (Attribute("is_scheduled", "true"), *others)
    return replace(with_computations(module, computations, copies), header=header, is_scheduled=True)


def _filled(
    copies: Mapping[Computation, ComputationCopy], copy: ComputationCopy, order: Iterable[Instruction]
) -> Computation:
    for instruction in order:
        copy.copy(instruction, copy.operands(instruction), copied_calls(instruction, copies))
    root = copy.original.root
    return copy.finish(None if root is None else copy.copies[root])
