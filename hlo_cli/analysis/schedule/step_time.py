"""How long does one execution of a module take on a chip, and which part of its transfers is exposed?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import accumulate
from math import isclose
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.analysis.cache import cached_per_module, computed_once
from hlo_cli.analysis.cost.matmuls import Matmul, matmul_type
from hlo_cli.analysis.dataflow.dependencies import instruction_post_order
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, executions_of
from hlo_cli.analysis.dataflow.flat_schedule import Run
from hlo_cli.analysis.fusion.kernels import kernels_of
from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate, chip_spec
from hlo_cli.analysis.hardware.time_model import LINKS_BAND, NO_TIME, Estimate
from hlo_cli.analysis.schedule.async_overlap import (
    UPDATE_OPERANDS,
    AsyncPair,
    OverlapAnalysis,
    analyze_overlap,
    endpoints_of,
    synchronous_pair,
)
from hlo_cli.analysis.schedule.kernel_times import KernelTimes, Roofline, matmuls_within, needed_cost
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.dataclass import brief_name, dataclass
from hlo_cli.displayed import WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import BLOCK_MOVES, CHANNEL_STARTS, COLLECTIVES, CONTROL_PREDECESSORS, HOST_FEEDS
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape
from hlo_cli.source import HloError, wrong_type

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Collective


# --- duration of a transfer ---
# Its bytes divided by the bandwidth of the link that carries them.
#
# Collectives and device sends use the interconnect of the chip as rings over all links in one direction. Transfers on
# the chip use main memory. Transfers with one end in host memory use the host link. These durations are lower bounds.
# Estimates of collectives know more: the links along their mesh axes, and latencies that were measured.


Link = Literal["links", "memory", "host"]

_PURE_TRANSFERS: Final = BLOCK_MOVES | {opcodes.GATHER, opcodes.SCATTER}
"""Operations whose duration is that of their bytes alone."""


def _remote_share(devices: int) -> float:
    """Returns the share of the bytes that leaves each device of a ring."""
    return (devices - 1) / devices


_RING_FACTORS: Final[Mapping[str, Callable[[int], float]]] = {
    opcodes.ALL_GATHER: _remote_share,
    opcodes.ALL_REDUCE: lambda devices: 2 * _remote_share(devices),
    opcodes.ALL_TO_ALL: _remote_share,
    opcodes.RAGGED_ALL_TO_ALL: _remote_share,
    opcodes.REDUCE_SCATTER: _remote_share,
}
"""The number of times that each byte of a collective leaves a device, by ring size."""
_UNKNOWN_SIZE: Final = 1 << 62  # (n − 1)/n is then 1 in a float
"""Stands for a group of unknown size: its ring factor is the upper limit."""


@dataclass(frozen=True, slots=True)
class TransferTime:
    """The link of a transfer and the bytes that cross it; None for an operation that is more than a transfer.

    `devices` is the size of the group, None if unknown or irrelevant. `seconds` is None if the link, its bandwidth,
    or a size is unknown; `least_seconds` and `most_seconds` are its band.
    """

    link: Link | None
    link_bytes: float
    devices: int | None
    seconds: float | None
    least_seconds: float | None = field(default=None, compare=False)
    most_seconds: float | None = field(default=None, compare=False)


def transfer_time(pair: AsyncPair, moved_bytes: int, chip: ChipSpec, module: Module) -> TransferTime:
    """Returns the duration of one execution of a pair that has its link to itself.

    In a ring of n devices, (n - 1)/n of the bytes of an all-gather, reduce-scatter, or all-to-all leave each device;
    twice that for an all-reduce, unless switches reduce. For other collectives and sends, all bytes leave once. A
    copy within main memory counts each byte twice, for the read and the write.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import async_pairs
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module('''HloModule m
    ... sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[256] parameter(0)
    ...   s = f32[256] all-reduce-start(p), replica_groups={{0,1,2,3}}, to_apply=sum
    ...   ROOT d = f32[256] all-reduce-done(s) }''')
    >>> found = transfer_time(async_pairs(module).pairs[0], 1024, chip_spec("v5e"), module)
    >>> found.link, found.link_bytes, found.devices, f"{found.seconds:.2e}"
    ('links', 1536.0, 4, '7.68e-09')
    """
    link, devices = _link_of(pair), None
    link_bytes = float(moved_bytes)
    if pair.operation in _RING_FACTORS:
        devices = _group_size(pair, module)
        link_bytes *= _RING_FACTORS[pair.operation](max(devices, 1) if devices is not None else _UNKNOWN_SIZE)
        if chip.adds_in_switches:
            # NVLink switches add on the way, so that an all-reduce sends its bytes once.
            link_bytes = min(link_bytes, float(moved_bytes))
    elif link == "memory":
        # Within main memory each byte is read and written.
        link_bytes *= max(_memory_spaces(pair).count(MemorySpace.MAIN), 1)
    rate = None if _is_unbounded(pair) else bandwidth_of(link, chip)
    if rate is None:
        return TransferTime(link, link_bytes, devices, None)
    seconds = link_bytes / rate.per_second
    return TransferTime(link, link_bytes, devices, seconds, seconds * LINKS_BAND[0], seconds * LINKS_BAND[1])


def _estimated_transfer_time(pair: AsyncPair, moved_bytes: int, chip: ChipSpec, module: Module) -> TransferTime:
    """Returns the bound of `transfer_time`, for a collective with the estimate of `collective_time`, if there is one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import async_pairs
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module('''HloModule m, replica_count=4
    ... ENTRY e { p = f32[256] parameter(0)
    ...   s = (f32[256], f32[1024]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[1024] all-gather-done(s) }''')
    >>> pair, v5e = async_pairs(module).pairs[0], chip_spec("v5e")
    >>> [f"{found(pair, 4096, v5e, module).seconds:.2e}" for found in (transfer_time, _estimated_transfer_time)]
    ['1.54e-08', '3.07e-08']
    """
    bound = transfer_time(pair, moved_bytes, chip, module)
    if bound.seconds is None or pair.operation not in COLLECTIVES:
        return bound
    from hlo_cli.analysis.sharding.collectives import collective_time  # large imports that only collectives need

    collective = cached_per_module(_collectives_by_caller, module).get(pair.start)
    collective_estimate = None if collective is None else collective_time(collective, chip)
    if collective_estimate is None:
        return bound
    estimate = collective_estimate.estimate
    return replace(bound, seconds=estimate.seconds, least_seconds=estimate.low, most_seconds=estimate.high)


def seconds_of_part(pair: AsyncPair, part_bytes: int, chip: ChipSpec, module: Module) -> float | None:
    """The part of a pair's estimated duration in one execution that moves some of its bytes; None if it is unknown.

    A pair that the schedule does not have, such as one in a computation that nothing calls, has its bound.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import async_pairs
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module('''HloModule m, replica_count=4
    ... ENTRY e { p = f32[256] parameter(0)
    ...   s = (f32[256], f32[1024]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[1024] all-gather-done(s) }''')
    >>> pair, v5e = async_pairs(module).pairs[0], chip_spec("v5e")
    >>> [f"{seconds_of_part(pair, size, v5e, module):.2e}" for size in (4096, 1024)]
    ['3.07e-08', '7.68e-09']
    """
    whole = analyze_overlap(module).moved_bytes.get(pair.start)
    if not whole:
        return transfer_time(pair, part_bytes, chip, module).seconds
    seconds = _estimated_transfer_time(pair, whole, chip, module).seconds
    return None if seconds is None else seconds * part_bytes / whole


def bandwidth_of(link: Link | None, chip: ChipSpec) -> Rate | None:
    """Returns the bandwidth of a link of a chip, None if unknown.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> bandwidth_of("links", chip_spec("v5e")).per_second, bandwidth_of("links", chip_spec("t4"))
    (200000000000.0, None)
    """
    match link:
        case "links":
            return chip.links
        case "memory":
            return chip.memory
        case "host":
            return chip.host
    return None


def _collectives_by_caller(module: Module) -> Mapping[Instruction, Collective]:
    from hlo_cli.analysis.sharding.collectives import collectives_of

    return {each.caller: each for each in collectives_of(module)}


def _link_of(pair: AsyncPair) -> Link | None:
    """Returns the link that a pair uses, None if it is more than a transfer."""
    if pair.operation in COLLECTIVES:
        return "links"
    if pair.operation in CHANNEL_STARTS:
        return "host" if pair.is_host_transfer else "links"
    if pair.operation in HOST_FEEDS:
        return "host"
    if pair.operation in _PURE_TRANSFERS:
        # One end on the host makes it the slower link's, whatever the other is.
        return "host" if MemorySpace.HOST in _memory_spaces(pair) else "memory"
    return None


def _is_unbounded(pair: AsyncPair) -> bool:
    """Returns whether a transferred array has an unbounded dimension."""
    given, result = endpoints_of(pair)
    leaves = (leaf for end in (*given, *([result] if result is not None else [])) for _, leaf in end.leaves)
    return any(isinstance(leaf, ArrayShape) and UNBOUNDED in leaf.dimensions for leaf in leaves)


def _memory_spaces(pair: AsyncPair) -> list[int]:
    """Returns the memory spaces of source and destination."""
    given, result = endpoints_of(pair)
    position = UPDATE_OPERANDS.get(pair.operation, 0)
    ends: list[Shape | None] = [given[min(position, len(given) - 1)] if given else None, result]
    return [end.layout.memory_space for end in ends if isinstance(end, ArrayShape)]


def _group_size(pair: AsyncPair, module: Module) -> int | None:
    """Returns the group size of a collective, None if unknown."""
    try:
        return subgroup_size(pair.wrapped or pair.start, module)
    except HloError:
        return None


# --- simulation of a schedule ---
# A clock advances with each kernel, and with the wait time for transfers.
#
# A loop is simulated in two passes, one for its first iteration and one for all others, which find transfers of the
# previous iteration in flight. If loops are nested deeply, or nothing is in flight, one pass stands for all iterations.
# A computation with several callers is simulated at the first, as often as all of them run it.


_MAX_NESTING: Final = 4  # two passes each: at most 16 times the schedule; chosen, not measured
"""Nesting depth up to which loops are simulated in two passes."""


@dataclass(frozen=True, slots=True)
class Events:
    """The events at each step of a schedule: kernels and their seconds, starts and dones of transfers by index.

    `synchronous` transfers are synchronous. Transfers in `sync` are waited for as soon as they start.
    """

    kernels: Mapping[int, float]
    starts: Mapping[int, int]
    completions: Mapping[int, Sequence[int]]
    synchronous: Mapping[int, TransferTime]
    transfers: Sequence[TransferTime]
    sync: frozenset[int]

    @property
    def steps(self) -> frozenset[int]:
        """The steps at which transfers start or are waited for."""
        return frozenset((*self.starts, *self.completions, *self.synchronous))


@dataclass(frozen=True, slots=True)
class ScheduleSimulation:
    """The result of a simulation, in seconds.

    Per transfer: the compute between start and done of one execution, and the exposed time of all executions. Per
    step: its start on a time axis that shows one iteration of each loop, and its wait time. `spent_seconds` is the
    duration of one execution of a call or loop.
    """

    seconds: float
    compute_seconds: float
    interval_compute_seconds: Sequence[float]
    exposed_seconds: Sequence[float]
    start_seconds: Sequence[float]
    wait_seconds: Mapping[int, float]
    axis_seconds: float
    spent_seconds: Mapping[Instruction, float]


def simulate(overlap: OverlapAnalysis, events: Events) -> ScheduleSimulation:
    """Simulates the schedule of an overlap analysis with these events.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> overlap = analyze_overlap(parse_module("r = f32[4] add(f32[4] a, f32[4] b)"))
    >>> simulate(overlap, Events({2: 0.5}, {}, {}, {}, (), frozenset())).seconds
    0.5
    """
    return _Simulator(overlap, events).run()


@dataclass(slots=True)
class _Transfer:
    """A transfer on a link; `interval` is None if it is synchronous."""

    interval: int | None
    started_at: float
    begin: float
    end: float
    work: float


@dataclass(slots=True)
class _Frame:
    """A computation under simulation: start of the current pass, number of iterations, and weight of the caller."""

    run: int
    iterations: float
    weight: float
    has_second_pass: bool
    entered: float
    clock: float
    work: float
    axis: float
    is_second_pass: bool = False


class _Simulator:
    """The state of a simulation."""

    def __init__(self, overlap: OverlapAnalysis, events: Events) -> None:
        self.overlap, self.events = overlap, events
        steps, intervals = len(overlap.sequence), len(events.transfers)
        executions = executions_of(overlap.module)
        self.times = {run.computation: executions.get(run.computation, NO_EXECUTIONS).count for run in overlap.runs}
        self.clock = self.work = self.axis = 0.0
        self.weight = 1.0
        self.nesting = 0
        self.between, self.exposed = [0.0] * intervals, [0.0] * intervals
        self.begins = [0.0] * steps
        self.waits: dict[int, float] = {}
        self.spent: dict[int, float] = {}
        self.queues: dict[Link, deque[_Transfer]] = {}
        self.in_flight: dict[int, _Transfer] = {}
        self.frames: list[_Frame] = []
        eventful = events.steps
        # Running counts answer in constant time whether anything happens within a loop.
        self.eventful = list(accumulate((step in eventful for step in range(steps)), initial=0))

    def run(self) -> ScheduleSimulation:
        """Simulates all steps in order; returns the result."""
        steps, runs = len(self.overlap.sequence), self.overlap.runs
        is_asynchronous = _is_asynchronous(self.overlap)
        step, run = 0, 0
        while True:
            if self.frames and runs[self.frames[-1].run].end == step:
                if self._repeats():
                    run = self.frames[-1].run
                    step, run = runs[run].start, run + 1
            elif run < len(runs) and runs[run].start == step:
                # Its kernels are the work of the async operation, whose time is that of the transfer.
                if is_asynchronous[run]:
                    self.begins[step : runs[run].end] = [self.axis] * (runs[run].end - step)
                    step = runs[run].end
                    run = next((n for n in range(run + 1, len(runs)) if runs[n].start >= step), len(runs))
                else:
                    self._enter(run)
                    run += 1
            elif step < steps:
                self._step(step)
                step += 1
            else:
                break
        spent: dict[Instruction, float] = {}
        for number, seconds in self.spent.items():
            if (caller := runs[number].caller) is not None:
                spent[caller] = spent.get(caller, 0.0) + seconds
        state = (self.between, self.exposed, self.begins, self.waits, self.axis, spent)
        return ScheduleSimulation(self.clock, self.work, *state)

    def _enter(self, number: int) -> None:
        """Starts the first pass through a computation."""
        run = self.overlap.runs[number]
        around = self.times.get(run.caller.computation, 1) if run.caller is not None else 1
        iterations = self.times[run.computation] / around if around else 0.0
        # Without transfers every iteration takes the same time.
        busy = self.eventful[run.end] > self.eventful[run.start]
        has_second_pass = iterations > 1 and busy and self.nesting < _MAX_NESTING
        frame = _Frame(number, iterations, self.weight, has_second_pass, self.clock, self.clock, self.work, self.axis)
        self.frames.append(frame)
        self.nesting += has_second_pass
        # In a single pass each exposed second stands for all iterations.
        self.weight *= 1 if has_second_pass else iterations

    def _repeats(self) -> bool:
        """Ends a pass: starts the second one if needed, else advances the clock by all remaining iterations."""
        frame = self.frames[-1]
        if frame.has_second_pass and not frame.is_second_pass:
            frame.is_second_pass, frame.clock, frame.work, self.axis = True, self.clock, self.work, frame.axis
            self.weight = frame.weight * (frame.iterations - 1)
            for queue in self.queues.values():  # transfers that started before the loop have ended
                while queue and queue[0].started_at < frame.entered:
                    queue.popleft()
            return True
        # The second pass stands for all iterations after the first.
        left = frame.iterations - (2 if frame.has_second_pass else 1)
        later = (self.clock - frame.clock) * left
        # What is still in flight started in the last iteration, so it moves along with the clock.
        for queue in self.queues.values() if later else ():
            for transfer in queue:
                if transfer.started_at >= frame.entered:
                    transfer.begin += later
                    transfer.end += later
        self.clock += later
        self.work += (self.work - frame.work) * left
        self.weight = frame.weight
        self.spent[frame.run] = self.clock - frame.entered
        self.frames.pop()
        self.nesting -= frame.has_second_pass
        return False

    def _step(self, step: int) -> None:
        """Simulates one step."""
        self.begins[step] = self.axis
        self.waits.pop(step, None)
        self._work(self.events.kernels.get(step, 0.0))
        if (found := self.events.synchronous.get(step)) is not None and found.link and found.seconds is not None:
            self._wait_for(step, self._start(found.link, found.seconds, None), found.link)
        for interval in self.events.completions.get(step, ()):
            if (transfer := self.in_flight.pop(interval, None)) is not None:
                self.between[interval] = self.work - transfer.work
                if (link := self.events.transfers[interval].link) is not None:
                    self._wait_for(step, transfer, link)
        if (number := self.events.starts.get(step)) is not None:
            started = self.events.transfers[number]
            if started.link is None or started.seconds is None:
                self.in_flight[number] = _Transfer(number, self.clock, self.clock, self.clock, self.work)
                return
            self.in_flight[number] = self._start(started.link, started.seconds, number)
            if number in self.events.sync:
                self._wait_for(step, self.in_flight[number], started.link)

    def _work(self, seconds: float) -> None:
        """Advances the clock by compute."""
        self.clock += seconds
        self.work += seconds
        self.axis += seconds

    def _start(self, link: Link, seconds: float, interval: int | None) -> _Transfer:
        """Starts a transfer after those already on the same link."""
        queue = self._in_flight_on(link)
        # First come, first served: a link carries one transfer at a time.
        begin = max(self.clock, queue[-1].end) if queue else self.clock
        transfer = _Transfer(interval, self.clock, begin, begin + seconds, self.work)
        queue.append(transfer)
        return transfer

    def _in_flight_on(self, link: Link) -> deque[_Transfer]:
        """Returns the transfers in flight on a link, oldest first."""
        queue = self.queues.setdefault(link, deque())
        while queue and queue[0].end <= self.clock:
            queue.popleft()
        return queue

    def _wait_for(self, step: int, awaited: _Transfer, link: Link) -> None:
        """Advances the clock to the end of a transfer; the time on its link meanwhile is exposed."""
        waited = awaited.end - self.clock
        if waited <= 0:
            return
        left = waited
        for transfer in self._in_flight_on(link):
            # Transfers queued after the awaited one use the link later, and did not cause the wait.
            if transfer.begin >= awaited.end:
                break
            part = min(transfer.end, awaited.end) - max(transfer.begin, self.clock)
            if part > 0:
                self._expose(transfer, part)
                left -= part
        # Time in which the link was idle before the transfer could begin is its own.
        if left > 0:
            self._expose(awaited, left)
        self.clock += waited
        self.axis += waited
        self.waits[step] = self.waits.get(step, 0.0) + waited

    def _expose(self, transfer: _Transfer, seconds: float) -> None:
        """Adds exposed time to an async transfer."""
        if transfer.interval is not None:
            self.exposed[transfer.interval] += seconds * self.weight


def _is_asynchronous(overlap: OverlapAnalysis) -> list[bool]:
    """Returns for each computation of the schedule whether it is executed asynchronously."""
    members, is_asynchronous = overlap.members, dict[Computation, bool]()
    for run in overlap.runs:
        caller = run.caller
        is_asynchronous[run.computation] = caller is not None and (
            caller in members or is_asynchronous.get(caller.computation, False)
        )
    return [is_asynchronous[run.computation] for run in overlap.runs]


# --- estimated duration ---
# Kernels of the main program run one after the other, each for its predicted time (`kernel_times.py`). A transfer
# begins at its start, or at the end of the previous transfer on the same link, because a link carries one transfer at a
# time. Transfers in flight at their done are waited for. The duration is compute plus wait time.


@dataclass(frozen=True, slots=True)
class IntervalTime:
    """The duration of an async pair: on its link, and of all executions together.

    `compute_seconds` is the compute between start and done of one execution. `exposed_seconds` is the part of
    `total_seconds` that is waited for. Both are None if the bandwidth is unknown.
    """

    transfer: TransferTime
    compute_seconds: float
    total_seconds: float | None
    exposed_seconds: float | None

    @property
    def is_known(self) -> bool:
        """Whether the duration is known."""
        return self.total_seconds is not None

    @property
    def overlapped_seconds(self) -> float | None:
        """The overlapped part of `total_seconds`."""
        if self.total_seconds is None or self.exposed_seconds is None:
            return None
        return self.total_seconds - self.exposed_seconds


@dataclass(frozen=True, slots=True)
class TimeEstimate(WithItems):
    """The estimated duration of one execution of a module.

    `intervals` are the times of the async intervals in order, `synchronous` those of synchronous transfers. `seconds`
    is the whole duration, `compute_seconds` its compute. Loops count with their trip counts, or 1 if unknown:
    `unknown_trip_counts` is the number of computations in such loops. `unknown_kernels` is the number of kernels with
    unknown cost or rate, `unknown_transfers` are transfers of unknown duration, `unknown_waits` the instructions that
    wait for them. Unknown transfers count 0, so the total is too low. `exposed` is the time of each transfer, async or
    not, in which no kernel runs, in all its executions; None if unknown. `kernels` and `predicted` are the rooflines
    and the predicted times of one run of each kernel. `simulation` has the times of each step. `launch_seconds` is the
    part of the compute in which kernels are launched. `kernel_count` counts those of `kernels_of`, without transfers
    and without what names memory, which `kernels` has, too.
    """

    throughput: ChipSpec
    seconds: float
    compute_seconds: float
    intervals: tuple[IntervalTime, ...]
    synchronous: Mapping[Instruction, TransferTime]
    synchronous_seconds: Mapping[Instruction, float | None]
    kernels: Mapping[Instruction, Roofline]
    unknown_kernels: int
    simulation: ScheduleSimulation
    unknown_trip_counts: int = 0
    unknown_transfers: frozenset[Instruction] = frozenset()
    unknown_waits: frozenset[Instruction] = frozenset()
    predicted: Mapping[Instruction, Estimate] = field(default_factory=dict)
    launch_seconds: float = 0.0
    exposed: Mapping[Instruction, float | None] = field(default_factory=dict)
    kernel_count: int = 0

    def __repr__(self) -> str:
        time = f"{'' if self.is_known else 'at least '}{self.seconds:.4g} s"
        return f"<TimeEstimate on {brief_name(self.throughput.chip)}: {time}, {self.kernel_count} kernels>"

    @property
    def exposed_seconds(self) -> float:
        """The known exposed time of all transfers."""
        return sum_known(self.exposed.values())

    @property
    def unknown(self) -> frozenset[Instruction]:
        """The instructions of unknown duration: kernels, starts of transfers, and synchronous transfers."""
        kernels = (each for each, found in self.kernels.items() if found.bound == "unknown")
        return frozenset((*kernels, *self.unknown_transfers))

    @property
    def is_compute_known(self) -> bool:
        """Whether all kernel durations and trip counts are known."""
        return not self.unknown_kernels and not self.unknown_trip_counts

    @property
    def is_known(self) -> bool:
        """Whether the whole duration is known; if not, `seconds` is the known part."""
        return self.is_compute_known and not self.unknown_transfers

    @property
    def least_seconds(self) -> float | None:
        """The known part of the duration; None if nothing is known."""
        return self.seconds if self.seconds or self.is_known else None


def sum_known(times: Iterable[float | None]) -> float:
    """Returns the sum of the known times.

    >>> sum_known([1.5, None, 2.0])
    3.5
    """
    return sum(seconds for seconds in times if seconds is not None)


def sum_if_known(times: Iterable[float | None]) -> float | None:
    """Returns the sum of times, None if any is unknown.

    >>> sum_if_known([1.5, 2.0]), sum_if_known([1.5, None]), sum_if_known([])
    (3.5, None, 0.0)
    """
    total = 0.0
    for seconds in times:
        if seconds is None:
            return None
        total += seconds
    return total


def path_seconds(step: TimeEstimate, overlap: OverlapAnalysis) -> Mapping[Instruction, float]:
    """Returns the duration of each instruction on its own, as weights for `critical_path`.

    A transfer counts at its start, less the compute of kernels that are part of it. A call or loop counts with all
    that it executes. Unknown durations count 0.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> overlap = analyze_overlap(parse_module("r = f32[2048] add(f32[2048] a, f32[2048] b)"))
    >>> found = path_seconds(estimate_time(overlap, chip_spec("v5e")), overlap)
    >>> {instruction.name: f"{seconds:.1e}" for instruction, seconds in found.items()}
    {'r': '1.2e-06'}
    """
    seconds = {kernel: time.seconds for kernel, time in step.predicted.items()}
    seconds |= {each: transfer.seconds or 0.0 for each, transfer in step.synchronous.items()}
    for interval, time in zip(overlap.intervals, step.intervals, strict=True):
        sharing = sum(step.predicted[each].seconds for each in interval.pair.updates if each in step.predicted)
        seconds[interval.pair.start] = max((time.transfer.seconds or 0.0) - sharing, 0.0)
    return seconds | dict(step.simulation.spent_seconds)


def estimate_time(
    overlap: OverlapAnalysis | Module, chip: ChipSpec | str | None = None, *, by_roofline: bool = False
) -> TimeEstimate:
    """Estimates the duration of a schedule on a chip; `by_roofline` without XLA's model of GPU kernels.

    The chip is a specification or any of its names, such as "h100"; `hlo help chips` lists them. Instead of the
    overlap analysis of a module, it takes the module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> from hlo_cli.analysis.hardware.chip_specs import Rate, ChipSpec
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[100] parameter(0)
    ...   s = (f32[100], f32[100], u32[]) copy-start(p)
    ...   n = f32[100] negate(p)
    ...   ROOT d = f32[100] copy-done(s) }'''
    >>> slow = ChipSpec("slow", {"f32": Rate(100.0, "")}, Rate(400.0, ""))
    >>> found = estimate_time(analyze_overlap(parse_module(text)), slow)
    >>> found.seconds, found.compute_seconds, found.exposed_seconds
    (2.0, 2.0, 0.0)
    >>> interval, = found.intervals
    >>> interval.transfer.link, interval.transfer.seconds, interval.overlapped_seconds
    ('memory', 2.0, 2.0)
    """
    if chip is None:
        raise wrong_type("a chip or its name", chip, 'such as estimate_time(module, "h100")', function="estimate_time")
    if isinstance(overlap, Module):
        overlap = analyze_overlap(overlap)
    if not isinstance(overlap, OverlapAnalysis):
        raise wrong_type("an overlap analysis or a module", overlap, "use hlo_cli.analyze_overlap(module)")
    return computed_once(_estimate, overlap, chip_spec(chip), by_roofline=by_roofline)


def _events_of(
    overlap: OverlapAnalysis,
    kernels: Mapping[Instruction, Estimate],
    transfers: list[TransferTime],
    synchronous: Mapping[Instruction, TransferTime],
) -> Events:
    """Returns the events at each step of the schedule, from the times of kernels and transfers."""
    positions = overlap.positions
    starts_at = {interval.bound_step: number for number, interval in enumerate(overlap.intervals)}
    completions: dict[int, list[int]] = {}
    for number, interval in enumerate(overlap.intervals):
        for done in interval.pair.dones:
            if done in positions:
                completions.setdefault(positions[done], []).append(number)
    return Events(
        {positions[kernel]: time.seconds for kernel, time in kernels.items()},
        starts_at,
        completions,
        {positions[each]: time for each, time in synchronous.items()},
        transfers,
        frozenset(number for number, interval in enumerate(overlap.intervals) if interval.is_sync),
    )


def _estimate(overlap: OverlapAnalysis, throughput: ChipSpec, *, by_roofline: bool) -> TimeEstimate:
    module = overlap.module
    executions_by_computation = executions_of(module)
    executions = {
        run.computation: executions_by_computation.get(run.computation, NO_EXECUTIONS) for run in overlap.runs
    }
    kernels, predicted = _kernel_times(overlap, throughput, by_roofline=by_roofline)
    unknown = sum(each.bound == "unknown" for each in kernels.values())
    seconds_of = partial(_estimated_transfer_time, chip=throughput, module=module)
    transfers = [seconds_of(interval.pair, interval.moved_bytes) for interval in overlap.intervals]
    synchronous = {each: seconds_of(synchronous_pair(each), overlap.moved_bytes[each]) for each in overlap.synchronous}
    simulated = simulate(overlap, _events_of(overlap, predicted, transfers, synchronous))
    intervals = tuple(
        _interval_time(transfer, interval.executions.count, simulated, number)
        for number, (interval, transfer) in enumerate(zip(overlap.intervals, transfers, strict=True))
    )
    totals = {
        each: None if transfer.seconds is None else transfer.seconds * float(executions[each.computation].count)
        for each, transfer in synchronous.items()
    }
    unknown_loops = sum(_has_work(run, overlap) for run in overlap.runs if not executions[run.computation].is_known)
    unknown_synchronous = {each for each, transfer in synchronous.items() if transfer.seconds is None}
    unknown_pairs = [
        interval.pair for interval, time in zip(overlap.intervals, intervals, strict=True) if not time.is_known
    ]
    starts = frozenset((*unknown_synchronous, *(pair.start for pair in unknown_pairs)))
    exposed = {each.pair.start: time.exposed_seconds for each, time in zip(overlap.intervals, intervals, strict=True)}
    ends = frozenset((*unknown_synchronous, *(done for pair in unknown_pairs for done in pair.dones)))
    spent = simulated.seconds, simulated.compute_seconds
    return TimeEstimate(
        throughput,
        *spent,
        intervals,
        synchronous,
        totals,
        kernels,
        unknown,
        simulated,
        unknown_loops,
        starts,
        ends,
        predicted,
        sum(
            executions_by_computation.launch_seconds * executions[each.computation].count
            for each, executions_by_computation in predicted.items()
        ),
        # Nothing runs during a synchronous transfer, so all of it is exposed.
        {**exposed, **totals},
        sum(not kernel.is_transfer for kernel in kernels_of(module)),
    )


def _has_work(run: Run, overlap: OverlapAnalysis) -> bool:
    """Returns whether a computation executes any kernels."""
    return any(each in overlap.costs for each in overlap.sequence[run.start : run.end])


def _kernel_times(
    overlap: OverlapAnalysis, throughput: ChipSpec, *, by_roofline: bool
) -> tuple[Mapping[Instruction, Roofline], Mapping[Instruction, Estimate]]:
    """Returns the roofline and the predicted time of each kernel."""
    times = KernelTimes(throughput, by_roofline=by_roofline, module=overlap.module)
    rooflines: dict[Instruction, Roofline] = {}
    predicted: dict[Instruction, Estimate] = {}
    for kernel, cost in overlap.costs.items():
        if kernel not in overlap.synchronous:
            kernel_roofline, estimate, _ = times.predict(kernel, cost)
            rooflines[kernel] = replace(kernel_roofline, bound="free") if estimate is NO_TIME else kernel_roofline
            predicted[kernel] = estimate
    return rooflines, predicted


def _interval_time(transfer: TransferTime, times: int, simulated: ScheduleSimulation, number: int) -> IntervalTime:
    """Returns the duration of an async pair."""
    if transfer.seconds is None:
        return IntervalTime(transfer, simulated.interval_compute_seconds[number], None, None)
    total = transfer.seconds * times
    exposed = simulated.exposed_seconds[number]
    is_all = exposed >= total or isclose(exposed, total)  # rounding errors of the clock
    return IntervalTime(transfer, simulated.interval_compute_seconds[number], total, total if is_all else exposed)


# --- its band ---


def time_band(overlap: OverlapAnalysis, step: TimeEstimate) -> Estimate:
    """Returns the duration of one execution with its band.

    Its ends are the durations if all kernels and transfers take the time at that end of their own bands.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> from hlo_cli.analysis.schedule.step_time import estimate_time
    >>> overlap = analyze_overlap(parse_module("r = f32[1000000000] add(f32[1000000000] a, f32[1000000000] b)"))
    >>> found = time_band(overlap, estimate_time(overlap, chip_spec("h100")))
    >>> [f"{seconds * 1e3:.1f} ms" for seconds in (found.low, found.seconds, found.high)]
    ['3.6 ms', '3.6 ms', '6.2 ms']
    """
    # Simulated, not scaled: with faster kernels more of a transfer is exposed.
    low = simulate(overlap, _events_at_end(overlap, step, "low")).seconds
    high = simulate(overlap, _events_at_end(overlap, step, "high")).seconds
    sources = frozenset(source for each in step.predicted.values() for source in each.sources)
    # Where waiting changes the order of events the ends may cross the estimate.
    return Estimate(min(low, step.seconds), step.seconds, max(high, step.seconds), sources)


def _events_at_end(overlap: OverlapAnalysis, step: TimeEstimate, end: Literal["low", "high"]) -> Events:
    """Returns the events at each step if all is at this end of its band."""

    def at_end(transfer: TransferTime) -> TransferTime:
        return replace(transfer, seconds=transfer.least_seconds if end == "low" else transfer.most_seconds)

    kernels = step.predicted.items()
    predicted = {kernel: replace(each, seconds=each.low if end == "low" else each.high) for kernel, each in kernels}
    transfers = [at_end(interval.transfer) for interval in step.intervals]
    return _events_of(overlap, predicted, transfers, {each: at_end(time) for each, time in step.synchronous.items()})


# --- its lower bound ---
# No program that computes the same kernels is faster.
#
# Only what is certain counts: flops of matmuls at the peak rate, and bytes that no cache can hold. Launches, transfers,
# elementwise operations, and branches of conditionals, of which one is executed, count nothing.


_WINOGRAD_FACTOR: Final = 4
"""Factor by which libraries reduce the multiplications of a convolution with a window: F(4×4, 3×3)."""


def time_bound(overlap: OverlapAnalysis, chip: ChipSpec) -> float:
    """Returns the seconds that one execution takes at least.

    >>> from hlo_cli import chip_spec, parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> sides = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = parse_module(f"r = bf16[4096,4096] dot(bf16[4096,4096] a, bf16[4096,4096] b), {sides}")
    >>> f"{time_bound(analyze_overlap(dot), chip_spec('h100')) * 1e6:.0f} µs"
    '139 µs'
    """
    executions = executions_of(overlap.module)
    seconds = 0.0
    for kernel, cost in overlap.costs.items():
        runs = executions.get(kernel.computation, NO_EXECUTIONS)
        # A branch may never be taken, and a transfer may take no time on other links.
        if kernel in overlap.synchronous or runs.in_branch:
            continue
        matmuls = matmuls_within(kernel)
        counted = min(max(cost.flops, 0) / max(sum(each.flops for each in matmuls), 1), 1.0)  # a ragged one has less
        compute = counted * sum(_matmul_seconds(each, chip) for each in matmuls)
        uncached = max(needed_cost(kernel, cost).bytes_accessed - chip.cache_bytes, 0) / chip.memory.per_second
        seconds += max(compute, uncached) * runs.count
    return seconds


def _matmul_seconds(matmul: Matmul, chip: ChipSpec) -> float:
    rate = chip.at_most(matmul_type(matmul))
    if rate is None:
        return 0.0
    has_window = isinstance(matmul.numbers, ConvolutionDimensionNumbers)
    return matmul.flops / rate.per_second / (_WINOGRAD_FACTOR if has_window else 1)


# --- the critical path ---


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The instructions on the longest chain in order, its length, and the total of all weights."""

    instructions: tuple[Instruction, ...]
    length: float
    whole: float


def critical_path(computation: Computation, weights: Mapping[Instruction, float]) -> CriticalPath:
    """Returns the chain of operands and control predecessors with the largest sum of weights; the first on ties.

    Instructions without a weight count 0 and are omitted from the path.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   a = f32[4] negate(p)
    ...   b = f32[4] sine(a)
    ...   c = f32[4] cosine(p)
    ...   ROOT d = f32[4] add(b, c) }'''
    >>> entry = parse_module(text).entry
    >>> path = critical_path(entry, {i: 1 for i in entry.instructions if i.opcode != "parameter"})
    >>> [i.name for i in path.instructions], path.length, path.whole
    (['a', 'b', 'd'], 3, 4)
    """
    instructions = computation.instructions
    longest: list[float] = [0] * len(instructions)
    before: list[int | None] = [None] * len(instructions)
    for position in instruction_post_order(computation):
        instruction = instructions[position]
        for predecessor in _predecessors(instruction, instructions):
            # Strictly longer, so that the first of equal chains stays.
            if longest[predecessor] > longest[position]:
                longest[position], before[position] = longest[predecessor], predecessor
        longest[position] += weights.get(instruction, 0)
    end = max(range(len(instructions)), key=longest.__getitem__, default=None)
    path: list[Instruction] = []
    length = longest[end] if end is not None else 0
    while end is not None and longest[end] > 0:
        if weights.get(instructions[end], 0) > 0:
            path.append(instructions[end])
        end = before[end]
    return CriticalPath(tuple(reversed(path)), length, sum(weights.get(each, 0) for each in instructions))


def _predecessors(instruction: Instruction, instructions: Sequence[Instruction]) -> list[int]:
    """Returns the indices of the operands and control predecessors of an instruction."""
    indices = [operand.index for operand in instruction.operands]
    if CONTROL_PREDECESSORS in instruction.raw[1]:
        names = set(instruction.control_predecessors)
        indices += [each.index for each in instructions if each.name in names]
    return indices
