"""What is the module in another order, by which scheduler, and what moved?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from hlo_cli.alignment import longest_increasing
from hlo_cli.analysis.memory.assignment import Orders, Peaks, peaks_of
from hlo_cli.analysis.memory.buffers import order_independent_facts
from hlo_cli.analysis.schedule.async_overlap import async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute, Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import ARGUMENT_OPCODES
from hlo_cli.source import expect_one_of
from hlo_cli.transform.in_place_hazards import fix_in_place_hazards
from hlo_cli.transform.rewriting import ComputationCopy, begin_copies, copied_calls, with_computations
from hlo_cli.transform.schedule.constraints import ExecutedComputations
from hlo_cli.transform.schedule.latency_scheduler import (
    LatencyModel,
    Limits,
    latency_schedules,
    max_refinements,
    unoverlapped_bytes,
)
from hlo_cli.transform.schedule.memory_scheduler import (
    breadth_first,
    heaviest_first,
    is_better,
    measure_peaks,
    memory_schedules,
    post_order,
)

# --- new orders ---
# Reorders a module, or schedules it.
#
# Mirrors xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc and xla/service/latency_hiding_scheduler.cc.
# Dependencies are kept: operands, control predecessors, side effects, and readers of values that are updated in place.
# Fused and applied computations are not reordered.


Goal = Literal["memory", "dfs", "bfs", "latency", "postorder"]

_SCHEDULERS = {"dfs": heaviest_first, "bfs": breadth_first, "postorder": post_order}


@dataclass(frozen=True, slots=True)
class ReorderedModule:
    """Module in its new order, with its peaks before and after.

    `copies` are the names of copies inserted to protect values from in-place updates.
    """

    module: Module
    before: Peaks
    after: Peaks
    copies: tuple[str, ...] = ()


@of_module
def reorder(
    module: Module, goal: Goal, *, limits: Limits | None = None, latency_model: LatencyModel | None = None
) -> Module:
    """Module with a new order of every executed computation, and `is_scheduled=true`.

    - `memory`: the order with the smallest temporary allocation of main memory among those of XLA's memory schedulers
      and refinements of them; an existing schedule stays unless another has a smaller allocation and no higher peak in
      any memory space
    - `dfs`: depth first, operands with most dependencies first
    - `bfs`: breadth first, as soon as possible
    - `latency`: starts as early and dones as late as possible within `limits`, the bytes that may be live in a memory
      space (by default, those of the present order); the present order stays if no other has less exposed time.
      `latency_model` gives the durations, by default proportional to bytes
    - `postorder`: depth first, operands in their order

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[8] parameter(0)  s = (f32[8], f32[8], u32[]) copy-start(p)  d = f32[8] copy-done(s)
    ...   n = f32[8] negate(p)  ROOT a = f32[8] add(n, d) }'''
    >>> new = reorder(parse_module(text), "latency", limits={0: 1024})
    >>> [instruction.name for instruction in new.entry.instructions], new.is_scheduled
    (['p', 's', 'n', 'd', 'a'], True)
    """
    expect_one_of("goal", goal, get_args(Goal))
    return fix_in_place_hazards(_reordered(module, goal, limits or {}, latency_model)[0], module).module


def reorder_with_peaks(
    module: Module, goal: Goal, *, limits: Limits | None = None, latency_model: LatencyModel | None = None
) -> ReorderedModule:
    """Module as by `reorder`, with its peaks before and after.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[8,8] broadcast(p)  b = f32[8,8] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> new = reorder_with_peaks(parse_module(text), "memory")
    >>> new.before.whole, new.after.whole
    ({0: 576}, {0: 352})
    """
    new, before, after = _reordered(module, goal, limits or {}, latency_model)
    # Only the goals that compare orders have measured it.
    if before is None:
        before = peaks_of(order_independent_facts(module), {})
    kept = fix_in_place_hazards(new, module)
    if kept.module is not new:
        return ReorderedModule(kept.module, before, _peaks(kept.module), kept.copies)
    return ReorderedModule(new, before, _peaks(new) if after is None else after)


@no_garbage_collection()
def _reordered(
    module: Module, goal: Goal, limits: Limits, latency_model: LatencyModel | None
) -> tuple[Module, Peaks | None, Peaks | None]:
    """New module, with the peaks before and after where they were measured."""
    executed = ExecutedComputations(module)
    if goal == "memory":
        before = measure_peaks(executed, {})
        return _lower(module, memory_schedules(executed, before), before)
    if goal == "latency":
        return _less_exposed(module, executed, limits, latency_model)
    scheduler = _SCHEDULERS[goal]
    orders = {
        flow.computation: graph.instructions(graph.nodes(scheduler(flow))) for flow, graph in executed.computations()
    }
    return _with(module, orders), None, None


def _lower(module: Module, candidates: Iterable[Orders], before: Peaks) -> tuple[Module, Peaks, Peaks]:
    """First candidate order that is better, measured on the new module; else the present order."""
    for orders in candidates:
        new = _with(module, orders)
        after = peaks_of(order_independent_facts(new), {}, with_temporaries=True)
        if is_better(module, after, before):
            return new, before, after
    return _with(module, {}), before, before


def _less_exposed(
    module: Module, executed: ExecutedComputations, limits: Limits, latency_model: LatencyModel | None
) -> tuple[Module, Peaks | None, Peaks | None]:
    if not async_pairs(module).pairs:
        return _with(module, {}), None, None
    before = peaks_of(executed.uses.facts, {})
    reserved: dict[int, int] = {}
    # Each round lowers the limit by what the last one exceeded, as LatencyHidingScheduler::RunImpl does.
    for _ in range(max_refinements(module)):
        new = _with(module, latency_schedules(executed, limits, reserved, latency_model))
        after = _peaks(new)
        over = after.over(before, limits)
        if not over:
            break
        for space, bytes_ in over.items():
            reserved[space] = reserved.get(space, 0) + bytes_
    else:
        return _with(module, {}), before, before
    exposed = unoverlapped_bytes if latency_model is None else latency_model.exposed
    # Never worse than the given order, by the model that is used.
    if exposed(new) > exposed(module):
        return _with(module, {}), before, before
    return new, before, after


def _peaks(module: Module) -> Peaks:
    return peaks_of(order_independent_facts(module), {})


def _with(module: Module, orders: Orders) -> Module:
    """Scheduled module with new orders of some computations."""
    copies = begin_copies(module)
    computations = [_rewrite(copies, copy, orders.get(old, old.instructions)) for old, copy in copies.items()]
    header = module.header
    if not module.is_scheduled:
        others = (attribute for attribute in header if attribute.name != "is_scheduled")
        header = (Attribute("is_scheduled", "true"), *others)
    return replace(with_computations(module, computations, copies), header=header, is_scheduled=True)


def _rewrite(
    copies: Mapping[Computation, ComputationCopy], copy: ComputationCopy, order: Iterable[Instruction]
) -> Computation:
    for instruction in order:
        copy.copy(instruction, copy.operands(instruction), copied_calls(instruction, copies))
    return copy.finish()


# --- blocks that moved ---
# Compares two orders of a module: blocks of instructions that moved together.
#
# No counterpart in XLA. The longest common subsequence stays; parameters and constants are ignored.


@dataclass(frozen=True, slots=True)
class MovedBlock:
    """Consecutive instructions that moved together; `follows` is the instruction before them now, None at the
    beginning.

    `before` are the same instructions in the old module.
    """

    instructions: tuple[Instruction, ...]
    before: tuple[Instruction, ...]
    follows: Instruction | None


def moved_blocks(old: Module, new: Module) -> tuple[MovedBlock, ...]:
    """Blocks that moved between two orders of a module, in the new order.

    >>> from hlo_cli import parse_module
    >>> lines = "p = f32[] parameter(0)", "a = f32[] negate(p)", "b = f32[] sine(p)", "ROOT c = f32[] add(a, b)"
    >>> def module(*order):
    ...     return parse_module("HloModule m  ENTRY e {" + " ".join(lines[n] for n in order) + "}")
    >>> block, = moved_blocks(module(0, 1, 2, 3), module(0, 2, 1, 3))
    >>> block.instructions, block.follows
    ((<sine b>,), None)
    """
    blocks: list[MovedBlock] = []
    for before, after in zip(old.computations, new.computations, strict=True):
        ones = _executed(before)
        place = {instruction.name: position for position, instruction in enumerate(ones)}
        others = tuple(instruction for instruction in _executed(after) if instruction.name in place)
        positions = [place[instruction.name] for instruction in others]
        for first, end in _runs(positions):
            blocks.append(
                MovedBlock(
                    others[first:end],
                    tuple(ones[position] for position in positions[first:end]),
                    others[first - 1] if first else None,
                )
            )
    return tuple(blocks)


def _executed(computation: Computation) -> tuple[Instruction, ...]:
    return tuple(each for each in computation.instructions if each.opcode not in ARGUMENT_OPCODES)


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the ranges of the new order that moved and were consecutive in the old one."""
    # The longest increasing run stays: fewest blocks have moved.
    stays = longest_increasing(positions)
    start = 0
    while start < len(positions):
        if start in stays:
            start += 1
            continue
        end = start + 1
        while end < len(positions) and end not in stays and positions[end] == positions[end - 1] + 1:
            end += 1
        yield start, end
        start = end
