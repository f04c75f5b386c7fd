"""A new order for a module: a schedule, where it has none.

Mirrors xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc and xla/service/latency_hiding_scheduler.cc. What an
instruction needs stays before it: operands, control predecessors, what has the same effect on the outside, readers of
what it overwrites in place. Computations that are fused or applied stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from hlo_cli.analysis.memory.order_independent import order_independent_facts
from hlo_cli.analysis.memory.peaks import Orders, Peaks, peaks_of
from hlo_cli.analysis.schedule.async_pairs import async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.instruction_text import Attribute
from hlo_cli.ir.module import Module
from hlo_cli.transform.clone import ComputationCopy, begin_copies, copied_calls, with_computations
from hlo_cli.transform.in_place import in_place_kept
from hlo_cli.transform.scheduling.async_latencies import LatencyModel, exposed_bytes
from hlo_cli.transform.scheduling.breadth_first import breadth_first
from hlo_cli.transform.scheduling.depth_first import heaviest_first, post_order
from hlo_cli.transform.scheduling.executed_computations import Running
from hlo_cli.transform.scheduling.latency_hiding_scheduler import latency_orders, rounds_of
from hlo_cli.transform.scheduling.list_scheduler_latency import Limits
from hlo_cli.transform.scheduling.memory_scheduler import is_no_worse, measured, memory_orders

How = Literal["memory", "dfs", "bfs", "latency", "postorder"]

_SCHEDULERS = {"dfs": heaviest_first, "bfs": breadth_first, "postorder": post_order}


@dataclass(frozen=True, slots=True)
class Reordered:
    """A module in its new order, with the peaks that it had and has.

    `copies` are the names of those added to keep what is overwritten in place until its last read.
    """

    module: Module
    before: Peaks
    after: Peaks
    copies: tuple[str, ...] = ()


def reorder(module: Module, how: How, *, limits: Limits | None = None, times: LatencyModel | None = None) -> Module:
    """The module with a new order of every computation that runs, and with `is_scheduled=true`.

    - `memory`: of the orders that XLA's memory schedulers choose and of some that go further, the one with the
      smallest temporary allocation (on TPUs, the lowest peak); a schedule stays unless that of another is smaller, and
      its peak in no memory space higher
    - `dfs`: depth first, the operands with most above them first
    - `bfs`: breadth first, everything as soon as it can be
    - `latency`: what is asynchronous starts as early and is waited for as late as may be, within `limits`: the bytes
      that may be alive in a memory space (where nothing is said, as many as in the present order); that stays if no
      other has less to wait for. `times` says how long everything takes, by default as long as the bytes it moves
    - `postorder`: depth first, operands as they stand

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[8] parameter(0)  s = (f32[8], f32[8], u32[]) copy-start(p)  d = f32[8] copy-done(s)
    ...   n = f32[8] negate(p)  ROOT a = f32[8] add(n, d) }'''
    >>> new = reorder(parse_module(text), "latency", limits={0: 1024})
    >>> [instruction.name for instruction in new.entry.instructions], new.is_scheduled
    (['p', 's', 'n', 'd', 'a'], True)
    """
    return in_place_kept(_found(module, how, limits or {}, times)[0], module).module


def reordered(
    module: Module, how: How, *, limits: Limits | None = None, times: LatencyModel | None = None
) -> Reordered:
    """The module as `reorder` has it, and what that does to the peaks.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[8,8] broadcast(p)  b = f32[8,8] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> new = reordered(parse_module(text), "memory")
    >>> new.before.whole, new.after.whole
    ({0: 576}, {0: 352})
    """
    new, before, after = _found(module, how, limits or {}, times)
    if before is None:
        before = peaks_of(order_independent_facts(module), {})
    kept = in_place_kept(new, module)
    if kept.module is not new:
        return Reordered(kept.module, before, _peaks(kept.module), kept.copies)
    return Reordered(new, before, _peaks(new) if after is None else after)


@no_garbage_collection()
def _found(
    module: Module, how: How, limits: Limits, times: LatencyModel | None
) -> tuple[Module, Peaks | None, Peaks | None]:
    """The new module, with the peaks before and after where they had to be measured."""
    running = Running(module)
    if how == "memory":
        before = measured(running, {})
        return _lower(module, memory_orders(running, before), before)
    if how == "latency":
        return _waiting_less(module, running, limits, times)
    scheduler = _SCHEDULERS[how]
    orders = {
        flow.computation: graph.instructions(graph.nodes(scheduler(flow))) for flow, graph in running.computations()
    }
    return _with(module, orders), None, None


def _lower(module: Module, candidates: Iterable[Orders], before: Peaks) -> tuple[Module, Peaks, Peaks]:
    """The first of the new orders with no higher peak, measured on the module as it will be; else as it was."""
    for orders in candidates:
        new = _with(module, orders)
        after = peaks_of(order_independent_facts(new), {}, with_temporaries=bool(before.temporaries))
        if is_no_worse(module, after, before):
            return new, before, after
    return _with(module, {}), before, before


def _waiting_less(
    module: Module, running: Running, limits: Limits, times: LatencyModel | None
) -> tuple[Module, Peaks | None, Peaks | None]:
    if not async_pairs(module).pairs:
        return _with(module, {}), None, None
    before = peaks_of(running.uses.facts, {})
    less: dict[int, int] = {}
    for _ in range(rounds_of(module)):
        new = _with(module, latency_orders(running, limits, less, times))
        after = _peaks(new)
        over = after.over(before, limits)
        if not over:
            break
        for space, bytes_ in over.items():
            less[space] = less.get(space, 0) + bytes_
    else:
        return _with(module, {}), before, before
    waited = exposed_bytes if times is None else times.waited
    if waited(new) > waited(module):
        return _with(module, {}), before, before
    return new, before, after


def _peaks(module: Module) -> Peaks:
    return peaks_of(order_independent_facts(module), {})


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
