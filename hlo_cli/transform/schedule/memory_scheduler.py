"""Which orders need little memory? Those of XLA's schedulers, refined, and the best of each computation."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.memory.assignment import Orders, Peaks, peaks_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ARGUMENT_OPCODES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.schedule.constraints import (
    ExecutedComputations,
    Flow,
    LiveMemory,
    PeakMeasure,
    ScheduleGraph,
    scheduled_first,
)

# --- depth first ---
# Depth-first orders: in operand order, and heaviest operands first.
#
# Mirrors `PostOrderScheduler` and `DFSMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.


def post_order(flow: Flow) -> Sequence[int]:
    """Post-order, with operands in their order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.schedule.constraints import buffer_uses
    >>> text = "HloModule m  ENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(b, a) }"
    >>> post_order(next(buffer_uses(parse_module(text)).flows()))
    (1, 0, 2)
    """
    return flow.post_order


def heaviest_first(flow: Flow) -> list[int]:
    """Post-order, with the operands first that have most extra users, then most bytes, including their dependencies.

    Instructions without users come before the root and its exclusive dependencies.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.schedule.constraints import buffer_uses
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  q = f32[2] parameter(1)  a = f32[8] negate(p)
    ...   b = f32[2] negate(q)  w = f32[2] sine(q)  ROOT r = (f32[2], f32[8], f32[2]) tuple(b, a, w) }'''
    >>> heaviest_first(next(buffer_uses(parse_module(text)).flows()))
    [0, 2, 1, 3, 4, 5]
    """
    weights = _weights(flow)
    root = -1 if flow.computation.root is None else flow.computation.root.index
    ends = [i for i in range(len(flow)) if not flow.users[i] and not flow.successors.get(i) and i != root]
    order: list[int] = []
    done = bytearray(len(flow))
    for end in (*ends, *((root,) if root >= 0 else ())):
        _visit(flow, weights, end, done, order)
    return order


def _visit(flow: Flow, weights: Sequence[tuple[int, int, str]], end: int, done: bytearray, order: list[int]) -> None:
    waiting = [end]
    while waiting:
        index = waiting[-1]
        if done[index]:
            waiting.pop()
            if done[index] == 1:
                done[index] = 2
                order.append(index)
            continue
        done[index] = 1
        needed = [each for each in (*flow.operands[index], *flow.controls.get(index, ())) if not done[each]]
        # Sorted descending, since the last on the stack is visited first.
        needed.sort(key=weights.__getitem__, reverse=True)
        waiting.extend(needed)


def _weights(flow: Flow) -> Sequence[tuple[int, int, str]]:
    """Negated numbers of extra users and bytes of each instruction with its dependencies, counted per path, and its
    name.

    The smallest comes first. A weight is limited to the total so far.
    """
    others, sizes, total = [0] * len(flow), [0] * len(flow), 0
    instructions = flow.computation.instructions
    for index in flow.post_order:
        if instructions[index].opcode in ARGUMENT_OPCODES:
            continue
        total += flow.defined_bytes[index]
        above = flow.operands[index]
        users = max(len(flow.users[index]) - 1, 0) + sum([others[each] for each in above])
        # DFSMemoryScheduler counts a shared dependency once per path, and limits both sums for that reason.
        others[index] = min(len(flow), users)
        sizes[index] = min(total, flow.defined_bytes[index] + sum([sizes[each] for each in above]))
    return [(-o, -s, i.name) for o, s, i in zip(others, sizes, instructions, strict=True)]


# --- breadth first ---
# Breadth-first order. Mirrors `BFScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.


def breadth_first(flow: Flow) -> list[int]:
    """Order in which each instruction comes as soon as its dependencies have, first in, first out.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.schedule.constraints import buffer_uses
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  n = f32[8] negate(p)  s = f32[8] sine(n)
    ...   k = f32[8] constant({...})  ROOT a = f32[8] add(s, k) }'''
    >>> breadth_first(next(buffer_uses(parse_module(text)).flows()))
    [0, 3, 1, 2, 4]
    """
    waiting = [len(taken) + len(flow.controls.get(index, ())) for index, taken in enumerate(flow.operands)]
    queue = deque(index for index in range(len(flow)) if not waiting[index])
    # In the order of the text, as XLA's queue is filled.
    order: list[int] = []
    while queue:
        index = queue.popleft()
        order.append(index)
        for later in (*flow.users[index], *flow.successors.get(index, ())):
            waiting[later] -= 1
            if not waiting[later]:
                queue.append(later)
    return order


# --- list scheduler of values ---
# List scheduler for low memory: always the instruction that frees most.
#
# Mirrors `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, including its ties.


# int64 max, as ListScheduler ranks scalars first of all.
_BEFORE_ALL: Final = (1 << 63) - 1
# int32's ends, which XLA uses for outfeed and infeed.
_EARLIEST, _LATEST = (1 << 31) - 1, -(1 << 31)

Priority = tuple[int, int]


def _schedule_by_memory(flow: Flow) -> list[int]:
    """Orders ready instructions by bytes freed minus bytes defined, then by number of users; on ties, the last to be
    ready.

    Scalars come as soon as possible. As in XLA, priorities are updated only when an instruction with a common operand
    has run.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.schedule.constraints import buffer_uses
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[64] broadcast(p)  b = f32[16] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> _schedule_by_memory(next(buffer_uses(parse_module(text)).flows()))
    [0, 2, 4, 1, 3, 5]
    """
    return _ListScheduler(flow).order()


class _ListScheduler:
    """Ready instructions, and the number of remaining uses of each value."""

    __slots__ = ("_entered", "_flow", "_heap", "_key", "_missing", "_outdated", "_user_sum", "_uses_left")

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._uses_left: dict[int, int] = dict.fromkeys(flow.live_out, 1)
        # the sum of those still to use a value: its last user, once there is but one
        self._user_sum: dict[int, int] = dict.fromkeys(flow.live_out, -1)
        for index, values in enumerate(flow.used):
            for value in values:
                self._uses_left[value] = self._uses_left.get(value, 0) + 1
                self._user_sum[value] = self._user_sum.get(value, 0) + index
        self._heap: list[tuple[int, int, int, int]] = []
        self._key: dict[int, tuple[int, int, int, int]] = {}
        self._outdated: set[int] = set()
        self._entered = 0
        self._missing = [len(o) + len(flow.controls.get(i, ())) for i, o in enumerate(flow.operands)]

    def order(self) -> list[int]:
        """Computes the order."""
        for index in [index for index, count in enumerate(self._missing) if not count]:
            self._enter(index, self._priority(index))
        order: list[int] = []
        while self._heap:
            entry = heappop(self._heap)
            index = entry[3]
            if self._key.get(index) != entry:
                continue  # it has entered again since
            del self._key[index]
            self._outdated.discard(index)
            order.append(index)
            self._run(index)
        return order

    def _run(self, index: int) -> None:
        is_last = False
        for value in self._flow.used[index]:
            self._uses_left[value] -= 1
            self._user_sum[value] -= index
            if self._uses_left[value] == 1:
                is_last = True
                if self._user_sum[value] in self._key:
                    self._outdated.add(self._user_sum[value])
        for later in (*self._flow.users[index], *self._flow.successors.get(index, ())):
            self._missing[later] -= 1
            if not self._missing[later]:
                self._enter(later, self._priority(later))
        if is_last and self._outdated:
            self._reprioritize(index)

    def _reprioritize(self, index: int) -> None:
        """Updates the priorities of ready instructions that share an operand with the last one."""
        stale = self._outdated
        for operand in self._flow.operands[index]:
            users = self._flow.users[operand]
            if len(stale) < len(users):
                # The smaller of both lists; the result is the same.
                users = tuple(sorted(each for each in stale if operand in self._flow.operands[each]))
            for user in users:
                if user in stale:
                    stale.discard(user)
                    priority = self._priority(user)
                    if priority != self._key[user][:2]:
                        self._enter(user, priority)

    def _enter(self, index: int, priority: Priority) -> None:
        self._entered += 1
        entry = self._key[index] = (*priority, -self._entered, index)
        heappush(self._heap, entry)

    def _priority(self, index: int) -> Priority:
        """Negated bytes freed minus defined, and negated number of users: the smallest comes first."""
        flow = self._flow
        instruction = flow.computation.instructions[index]
        if _is_scalar(instruction):
            # A scalar costs nothing and may free its operands.
            return -_BEFORE_ALL, -_BEFORE_ALL
        if (bytes_ := _feed_priority(instruction)) is None:
            bytes_ = (
                sum([flow.size[value] for value in flow.used[index] if self._uses_left[value] == 1])
                - flow.defined_bytes[index]
            )
        # Users second: what unlocks more comes first.
        return -bytes_, -len(flow.users[index])


def _is_scalar(instruction: Instruction) -> bool:
    shape = instruction.shape
    return isinstance(shape, ArrayShape) and all(bound == 1 for bound in shape.dimensions)


def _feed_priority(instruction: Instruction) -> int | None:
    """Priority of a configured outfeed (early) or infeed (late); None for others."""
    # BytesFreedIfScheduled of ListScheduler: the device or host at the other end gets more time for its work.
    if instruction.opcode == opcodes.OUTFEED and instruction.attribute("outfeed_config"):
        return _EARLIEST
    if instruction.opcode == opcodes.INFEED and instruction.attribute("infeed_config"):
        return _LATEST
    return None


# --- list scheduler of buffers ---
# List scheduler for low memory: always the node that frees most, with aliased values as one buffer.
#
# Mirrors `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.


def _schedule_by_buffers(graph: ScheduleGraph) -> list[int]:
    """Orders ready nodes by net bytes freed, then by number of successors, then by their present order.

    >>> small, large = (0, 2), (1, 3)
    >>> size = {0: 8, 1: 800}
    >>> held = ((0,), (1,), (0,), (1,))
    >>> graph = ScheduleGraph(((),) * 4, ((), (), (0,), (1,)), ((2,), (3,), (), ()), held, size, frozenset(), (0,) * 4)
    >>> _schedule_by_buffers(graph)
    [0, 2, 1, 3]
    """
    live_memory = LiveMemory(graph)
    waiting = [len(before) for before in graph.before]
    Key = tuple[int, int, int]
    key: dict[int, Key] = {}

    def rank(node: int) -> Key:
        key[node] = (-live_memory.net_bytes_freed(node), -len(graph.after[node]), node)
        return key[node]

    ready = [rank(node) for node in range(len(graph)) if not waiting[node]]
    heapify(ready)
    order: list[int] = []
    while ready:
        entry = heappop(ready)
        node = entry[2]
        if key.get(node) != entry:
            continue  # it has been ranked again since
        del key[node]
        order.append(node)
        changed = [other for other in live_memory.schedule(node) if other in key]
        for user in graph.after[node]:
            waiting[user] -= 1
            if not waiting[user]:
                changed.append(user)
        for other in dict.fromkeys(changed):
            heappush(ready, rank(other))
    return order


# --- tightened orders ---
# Tightens an order: allocations move later, frees move earlier.
#
# No counterpart in XLA, whose schedulers decide on each instruction once.


def _tighten(graph: ScheduleGraph, measure: PeakMeasure, order: Sequence[int], growth: Sequence[int]) -> list[int]:
    """Order with allocating nodes right before their first users, then freeing nodes right after their dependencies.

    `growth` are the bytes that each node allocates minus those that it frees.

    >>> held, size = ((0,), (1,), (0,), (1,)), {0: 8, 1: 800}
    >>> graph = ScheduleGraph(((),) * 4, ((), (), (0,), (1,)), ((2,), (3,), (), ()), held, size, frozenset(), (0,) * 4)
    >>> measure = PeakMeasure(graph)
    >>> _tighten(graph, measure, (0, 1, 2, 3), measure.peak_of((0, 1, 2, 3))[1])
    [0, 2, 1, 3]
    """
    late = _pull(order, graph.after, growth, sign=1)
    early = _pull(late[::-1], graph.before, measure.peak_of(late)[1], sign=-1)
    return early[::-1]


def _pull(order: Sequence[int], neighbors: Sequence[Sequence[int]], growth: Sequence[int], *, sign: int) -> list[int]:
    """Moves nodes with growth of this sign right before the first of their neighbors, which all follow them."""
    goal: dict[int, int] = {}
    for place, node in zip(range(len(order) - 1, -1, -1), reversed(order), strict=True):
        is_pulled = growth[node] * sign > 0 and neighbors[node]
        goal[node] = min([goal[other] for other in neighbors[node]]) if is_pulled else place
    return sorted(order, key=goal.__getitem__)


# --- the best orders ---
# Orders with low peaks: those of XLA's schedulers, refinements of them, and the best of each computation.
#
# Mirrors `DefaultMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, which takes the best of
# three for the whole module. All three are among the candidates, so the result is never worse.


# Up to 30,000 instructions, `_MIN_ORDERS` orders are measured; chosen, not measured itself.
_MAX_MEASURED: Final = 150_000
"""Maximum number of instructions in all module orders whose peaks are measured."""

# The best of each computation, and the whole orders of XLA's four schedulers.
_MIN_ORDERS: Final = 5
"""Minimum number of orders to measure, if any."""

# One order of a module of 100,000 instructions, more of smaller ones; chosen, not measured.
_MAX_TIGHTENED: Final = 100_000
"""Maximum number of instructions of a large module in tightened orders; of each computation the lowest peaks."""

_PAID_ON_TPU: Final = (MemorySpace.MAIN, MemorySpace.HOST)
"""Memory of TPUs that a program takes from others; a lower peak on the chip (VMEM, SMEM, SFLAG) saves nothing."""

Rank = tuple[int, int, int]

_SCHEDULERS: Final = (heaviest_first, _schedule_by_memory, post_order, breadth_first)


def memory_schedules(executed: ExecutedComputations, before: Peaks) -> Iterator[Orders]:
    """Yields orders with smaller temporary allocations and peaks than `before`, the smallest first.

    An existing schedule gets only orders that need less of the memory that is paid for, and no order with a higher peak
    in any space. Orders are compared with constants live
    throughout; later constants only decide between orders of a module that is not scheduled. The number of measured
    orders depends on the size of the module: XLA's, the best of each computation, and tightened ones. For a large
    module only the best of each computation is used. Leading constants stay first where that costs nothing.
    """
    count = _MAX_MEASURED // executed.module.instruction_count
    if count < _MIN_ORDERS:
        yield _candidates(executed, 1)[0]
        return
    target = executed.uses.facts.target
    ranked: list[tuple[Rank, int, Orders]] = []
    for number, orders in enumerate(_candidates(executed, count)):
        peaks = measure_peaks(executed, orders)
        if is_better(executed.module, peaks, before):
            ranked.append((_rank(peaks, target), number, orders))
    # Number second: at equal memory the best of each computation comes before whole orders.
    ranked.sort(key=lambda each: each[:2])
    temporaries, whole, from_definition = _rank(before, target)
    for rank, _, orders in ranked:
        if rank < (temporaries, whole, 0 if executed.module.is_scheduled else from_definition):
            unmoved = {computation: scheduled_first(opcodes.CONSTANT, order) for computation, order in orders.items()}
            # Constants at the front read better, and are taken where they cost nothing.
            if _rank(measure_peaks(executed, unmoved), target) <= rank:
                yield unmoved
            yield orders


def measure_peaks(executed: ExecutedComputations, orders: Orders) -> Peaks:
    """Peaks of a module in some orders, with temporary allocations.

    Allocations include alignment, 64 bytes on CPU, 256 on GPU, and 16 KiB on TPU, and fragmentation.
    """
    return peaks_of(executed.uses.facts, orders, with_temporaries=True)


def is_better(module: Module, peaks: Peaks, before: Peaks) -> bool:
    """Whether a new order is worth taking.

    An existing schedule is replaced only if the temporary allocations of the memory that is paid for are smaller, and
    no peak and no other temporary allocation is larger; a module that is not scheduled gets an order if they are not
    larger.
    """
    target = target_of(module)
    paid, paid_before = _paid_bytes(peaks, target), _paid_bytes(before, target)
    # A module without a schedule has no order to be better than: equal is enough.
    if not module.is_scheduled:
        return paid <= paid_before
    is_larger = any(size > before.temporaries.get(space, 0) for space, size in peaks.temporaries.items())
    return paid < paid_before and not is_larger and peaks.is_within(before)


def _paid_bytes(peaks: Peaks, target: Target | None) -> int:
    """The temporary allocations of the memory that a program takes from others."""
    return sum(size for space, size in peaks.temporaries.items() if target != "tpu" or space in _PAID_ON_TPU)


def _rank(peaks: Peaks, target: Target | None) -> Rank:
    return _paid_bytes(peaks, target), sum(peaks.whole.values()), sum(peaks.from_definition.values())


def _candidates(executed: ExecutedComputations, count: int) -> list[Orders]:
    """At most `count` orders of the module: the best of each computation, and the trial orders by number."""
    max_tightened = max(_MAX_TIGHTENED // executed.module.instruction_count, 1) if count < _MIN_ORDERS else None
    best: dict[Computation, Sequence[Instruction]] = {}
    trials: defaultdict[int, dict[Computation, Sequence[Instruction]]] = defaultdict(dict)
    for flow, graph in executed.computations():
        least = executed.peaks[flow.computation]
        best[flow.computation] = flow.computation.instructions
        lowest: Sequence[int] | None = None
        for number, (nodes, peak) in enumerate(_trial_orders(flow, graph, max_tightened)):
            if peak < least:
                least, lowest = peak, nodes
            if number + 1 < count:
                trials[number][flow.computation] = graph.instructions(nodes)
        if lowest is not None:
            best[flow.computation] = graph.instructions(lowest)
        executed.peaks[flow.computation] = least
    return [best, *trials.values()]


def _trial_orders(flow: Flow, graph: ScheduleGraph, max_tightened: int | None) -> Iterator[tuple[Sequence[int], int]]:
    """Yields XLA's orders, then tightened ones, each with its peak; at most `max_tightened` are tightened."""
    measure = PeakMeasure(graph)
    orders: list[Sequence[int]] = [graph.nodes(scheduler(flow)) for scheduler in _SCHEDULERS]
    orders.append(_schedule_by_buffers(graph))
    measure_peaks = [measure.peak_of(order) for order in orders]
    yield from zip(orders, [peak for peak, _ in measure_peaks], strict=True)
    orders.append(range(len(graph)))
    measure_peaks.append(measure.peak_of(orders[-1]))
    numbers: Sequence[int] = range(len(orders))
    if max_tightened is not None:
        numbers = sorted(numbers, key=lambda number: measure_peaks[number][0])[:max_tightened]
    for number in numbers:
        tight = _tighten(graph, measure, orders[number], measure_peaks[number][1])
        yield tight, measure.peak_of(tight)[0]
