"""The schedulers for low memory: what they predict of a node is what happens, and their queues are those of XLA's loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random

import pytest

from hlo_cli import parse_module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.schedule.constraints import (
    ExecutedComputations,
    Flow,
    LiveMemory,
    PeakMeasure,
    ScheduleGraph,
    effects_of,
)
from hlo_cli.transform.schedule.latency_scheduler import _MemoryLimits
from hlo_cli.transform.schedule.memory_scheduler import _schedule_by_buffers, _schedule_by_memory
from scheduled_programs import scheduled_program

SEEDS = range(6)
FEEDS = """HloModule m  ENTRY e { t = token[] after-all()  p = f32[8] parameter(0)  a = f32[64] broadcast(p), dimensions={0}
  i = (f32[8], token[]) infeed(t), infeed_config="in"  j = (f32[8], token[]) infeed(t)  x = f32[8] get-tuple-element(i), index=0
  y = f32[8] get-tuple-element(j), index=0  n = f32[8] negate(p)  m = f32[8] sine(n)  s = f32[1] slice(a), slice={[0:1]}
  o = token[] outfeed(p, t), outfeed_shape=f32[8], outfeed_config="out"  q = token[] outfeed(p, t), outfeed_shape=f32[8]
  k = f32[8] cosine(p), control-predecessors={m}  ROOT r = (f32[8], f32[8], f32[8], f32[1]) tuple(x, y, k, s) }"""
"""All that XLA's list scheduler ranks apart: infeeds and outfeeds that are configured or not, scalars, and control edges."""


@cache
def computations(text: str) -> list[tuple[Flow, ScheduleGraph]]:
    return list(ExecutedComputations(parse_module(text)).computations())


def programs() -> list[str]:
    return [FEEDS, *(scheduled_program(Random(seed)) for seed in SEEDS)]


def list_schedule(flow: Flow) -> list[int]:
    """`ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc: every ready instruction is looked at
    in each step, and those that share an operand with the last one are ranked again once a value has one use left.
    """
    instructions = flow.computation.instructions
    left = Counter(flow.live_out) + Counter(value for used in flow.used for value in used)
    missing = [{*flow.operands[index], *flow.controls.get(index, ())} for index in range(len(flow))]
    ready: dict[int, tuple[float, int]] = {}  # a dictionary for the multimap: those of equal rank in order of entering

    def enter(index: int) -> None:
        instruction = instructions[index]
        freed = sum(flow.size[value] for value in flow.used[index] if left[value] == 1) - flow.defined_bytes[index]
        rank: tuple[float, int] = (freed, len(flow.users[index]))
        if instruction.opcode == "outfeed" and instruction.attribute("outfeed_config"):
            rank = (2**31 - 1, len(flow.users[index]))
        if instruction.opcode == "infeed" and instruction.attribute("infeed_config"):
            rank = (-(2**31), len(flow.users[index]))
        if isinstance(instruction.shape, ArrayShape) and instruction.shape.elements == 1:
            rank = (float("inf"), 0)
        if ready.get(index) != rank:
            ready.pop(index, None)
            ready[index] = rank

    for index, needed in enumerate(missing):
        if not needed:
            enter(index)
    order = []
    while ready:
        highest = max(ready.values())
        best = [index for index, rank in ready.items() if rank == highest][-1]
        del ready[best]
        order.append(best)
        left.subtract(flow.used[best])
        is_last = any(left[value] == 1 for value in flow.used[best])
        for index in (*flow.users[best], *flow.successors.get(best, ())):
            missing[index].discard(best)
            if not missing[index] and index not in ready:
                enter(index)
        if is_last:
            for operand in flow.operands[best]:
                for user in flow.users[operand]:
                    if user in ready:
                        enter(user)
    return order


def buffer_schedule(graph: ScheduleGraph) -> list[int]:
    """Always the ready node that frees most, then with most successors, then the first: each looked at in each step."""
    live, order = LiveMemory(graph), list[int]()
    while len(order) < len(graph):
        ready = [n for n in range(len(graph)) if n not in order and set(graph.before[n]) <= set(order)]
        order.append(max(ready, key=lambda n: (live.net_bytes_freed(n), len(graph.after[n]), -n)))
        live.schedule(order[-1])
    return order


def random_order(graph: ScheduleGraph, random: Random) -> list[int]:
    order: list[int] = []
    while len(order) < len(graph):
        done = set(order)
        order.append(
            random.choice([n for n in range(len(graph)) if n not in done and done.issuperset(graph.before[n])])
        )
    return order


@pytest.mark.parametrize("text", programs(), ids=["feeds", *map(str, SEEDS)])
def test_the_order_by_values_is_that_of_xlas_loop(text: str) -> None:
    for flow, _ in computations(text):
        assert _schedule_by_memory(flow) == list_schedule(flow)


@pytest.mark.parametrize("text", programs(), ids=["feeds", *map(str, SEEDS)])
def test_the_order_by_buffers_is_that_of_a_search(text: str) -> None:
    for _, graph in computations(text):
        assert _schedule_by_buffers(graph) == buffer_schedule(graph)


def by_definition(graph: ScheduleGraph, order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Live bytes while each node of an order runs, and behind it: from the first that uses a buffer to the last."""
    uses = {buffer: [at for at, node in enumerate(order) if buffer in graph.buffers[node]] for buffer in graph.size}
    ranges = {
        buffer: (min(at), len(order) if buffer in graph.live_out else max(at)) for buffer, at in uses.items() if at
    }
    during = [
        sum(graph.size[b] for b, (begin, end) in ranges.items() if begin <= at <= end) for at in range(len(order))
    ]
    after = [sum(graph.size[b] for b, (begin, end) in ranges.items() if begin <= at < end) for at in range(len(order))]
    return [live + graph.callee_bytes[node] for live, node in zip(during, order, strict=True)], after


@pytest.mark.parametrize("seed", SEEDS)
def test_live_memory_in_any_order_is_that_of_its_definition(seed: int) -> None:
    random = Random(seed)
    for _, graph in computations(programs()[1 + seed]):
        order = random_order(graph, random)
        during, after = by_definition(graph, order)
        live = LiveMemory(graph)
        for node, needed, left in zip(order, during, after, strict=True):
            before, freed = live.live_bytes, live.net_bytes_freed(node)
            assert before + live.bytes_needed(node) == needed
            live.schedule(node)
            assert live.live_bytes == left == before - freed - graph.callee_bytes[node]
        peak, growth = PeakMeasure(graph).peak_of(order)
        assert peak == max(during)
        assert [sum(growth[node] for node in order[: at + 1]) for at in range(len(order))] == after


@pytest.mark.parametrize(("leaves", "used"), [(255, 256), (256, 2)])
def test_an_element_of_a_large_tuple_uses_the_tuple_and_its_own_leaf(leaves: int, used: int) -> None:
    """XLA counts all leaves, which takes quadratic time; whoever takes the tuple otherwise uses all of them."""
    shape = f"({', '.join(['f32[1]'] * leaves)})"
    text = f"""ENTRY e {{ t = {shape} parameter(0)  x = f32[1] get-tuple-element(t), index=7
      c = {shape} custom-call(t), custom_call_target="f"  ROOT r = (f32[1], {shape}) tuple(x, c) }}"""
    [(flow, _)] = computations(text)
    assert [len(values) for values in flow.used[1:3]] == [used, leaves + 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_buffer_counts_in_one_computation(seed: int) -> None:
    """In the outermost one that uses it: what a caller holds is none of the callee's."""
    counted = Counter(b for _, graph in computations(programs()[1 + seed]) for b in set().union(*graph.buffers))
    assert counted
    assert set(counted.values()) == {1}


EFFECTS = {
    'custom-call(p), custom_call_target="f"': set(),
    'custom-call(p), custom_call_target="f", custom_call_has_side_effect=false': set(),
    'custom-call(p), custom_call_target="f", custom_call_has_side_effect=true': {"outside"},
    "all-reduce(p), replica_groups={}, to_apply=f": {"collective"},
    "rng-get-and-update-state(), delta=1": {"random"},
    "negate(p)": set(),
    "call(p), to_apply=g": {"outside"},
    "divide(p)": {"outside", "random", "collective"},  # with too few operands it may be anything
}


@pytest.mark.parametrize("line", EFFECTS)
def test_effects_keep_their_order(line: str) -> None:
    text = """f { i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] add(i, j) }
    g { i = f32[8] parameter(0)  ROOT k = f32[8] custom-call(i), custom_call_target="f", custom_call_has_side_effect=true }
    """
    shape = "u64[2]" if "rng" in line else "f32[8]"
    module = parse_module(f"HloModule m  {text} ENTRY e {{ p = f32[8] parameter(0)  ROOT x = {shape} {line} }}")
    assert effects_of(module.computations).get(module.instruction("x"), frozenset()) == EFFECTS[line]


@pytest.mark.parametrize(("limit", "fitting"), [(8, {0, 1, 2}), (7, {0, 2})])
def test_above_a_limit_only_what_frees_as_much_fits(limit: int, fitting: set[int]) -> None:
    """Node 0 holds nothing, node 1 needs 8 bytes, and node 2 needs as many as it frees."""
    size = {0: 8, 1: 4}
    graph = ScheduleGraph(((),) * 3, ((),) * 3, ((),) * 3, ((), (0,), (1,)), size, frozenset((0,)), (0,) * 3)
    limits = _MemoryLimits(graph, {0: 0, 1: 0}, {0: limit}, {})
    assert {node for node in range(3) if limits.fits(node)} == fitting
    limits = _MemoryLimits(graph, {0: 0, 1: 0}, {0: limit + 5}, {0: 5})
    assert {node for node in range(3) if limits.fits(node)} == fitting, "what is reserved is not there"
    limits = _MemoryLimits(graph, {0: 0, 1: 0}, {0: 3}, {})
    assert {node for node in range(3) if limits.fits(node)} == {0, 2}
