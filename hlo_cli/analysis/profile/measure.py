"""How a trace becomes a profile: events joined to instructions, with executions, declared costs, and rates."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.profile.event_columns import joint_codes, real, text, whole
from hlo_cli.analysis.profile.events import (
    GRAPH,
    Capture,
    capture,
    device_planes,
    device_type,
    expand_graphs,
    platform_of,
)
from hlo_cli.analysis.profile.host_clock import hosts_of_cores
from hlo_cli.analysis.profile.host_work import HostThreads, host_work
from hlo_cli.analysis.profile.profile import (
    NO_RUN,
    Floats,
    GivenModule,
    HostWork,
    InstructionNames,
    MeasuredProgram,
    OccurrenceList,
    Occurrences,
    Operation,
    OperationKey,
    Peaks,
    Platform,
    Profile,
    Programs,
    StepWindows,
    Traffic,
    busy_of,
    join_kernels,
    part_of,
    programs_of,
    shared_times,
)
from hlo_cli.analysis.profile.steps import join_hosts, mark_partial
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS, EventMetadata, Integers, Line, Plane, Trace, TracedProgram, Value, first_places
from hlo_cli.source import HloError, counted, expect
from hlo_cli.wire import WireError, first_span, spans_of

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import TracedGpu


# --- times of groups ---


@dataclass(frozen=True, slots=True)
class Measure:
    """Times of one group, in seconds.

    `calls` are the executions of its instructions, `events` what the trace counts: an instruction may run as several
    kernels. `busy_time` is the part in the busy time of the devices, where time in which several operations run is
    divided between them: the self time, unless operations overlap. Mean, least, median, greatest, and `deviation` (of
    the population) are those of events, None for those that the trace has only as a sum.
    """

    calls: int
    events: int
    total: float
    self_time: float
    least: float | None
    median: float | None
    greatest: float | None
    deviation: float | None
    busy_time: float = 0.0

    @property
    def mean(self) -> float:
        """The mean time of an event."""
        return self.total / self.events if self.events else 0.0


def measures(profile: Profile, groups: Integers, count: int, rows: Integers | None = None) -> Sequence[Measure]:
    """The times of `count` groups: `groups[i]` is that of row `i`, those below 0 are left out.

    Only `rows` are counted, if they are given.
    """
    occurrences = profile.occurrences
    kept = np.flatnonzero(groups >= 0) if rows is None else rows[groups[rows] >= 0]
    of_row, durations = groups[kept], occurrences.durations_ps[kept]
    events = np.bincount(of_row, occurrences.counts[kept], count).astype(np.int64)
    weights = occurrences.counts if profile.call_weights is None else profile.call_weights
    calls: list[float] = np.bincount(of_row, weights[kept], count).tolist()
    total: list[float] = np.bincount(of_row, durations, count).tolist()
    self_times: list[float] = np.bincount(of_row, occurrences.self_ps[kept], count).tolist()
    shared = occurrences.self_ps if profile.shared_ps is None else profile.shared_ps
    busy: list[float] = np.bincount(of_row, shared[kept], count).tolist()
    # A sum of several events has no spread.
    single = occurrences.counts[kept] == 1
    order = np.lexsort((durations[single], of_row[single]))
    sorted_groups, sorted_durations = of_row[single][order], durations[single][order]
    bounds = np.searchsorted(sorted_groups, np.arange(count + 1))
    result = []
    for group in range(count):
        durations_of_group = sorted_durations[bounds[group] : bounds[group + 1]]
        spread = (
            _spread(durations_of_group)
            if len(durations_of_group) == events[group] and len(durations_of_group)
            else (None, None, None, None)
        )
        least, middle, greatest, deviation = spread
        times = total[group] * PS, max(self_times[group], 0.0) * PS
        shown = max(busy[group], 0.0) * PS
        result.append(
            Measure(round(calls[group]), int(events[group]), *times, least, middle, greatest, deviation, shown)
        )
    return result


def _spread(durations: Integers) -> tuple[float, float, float, float]:
    """The least, the median, and the greatest of sorted durations, and their deviation, in seconds."""
    return (
        int(durations[0]) * PS,
        sorted_median(durations) * PS,
        int(durations[-1]) * PS,
        sqrt(float(durations.astype(np.float64).var())) * PS,
    )


def sorted_median(values: Integers) -> float:
    """The median of sorted values, which are not empty.

    >>> sorted_median(np.array([1, 2, 9])), sorted_median(np.array([1, 2]))
    (2.0, 1.5)
    """
    half = len(values) // 2
    return (int(values[half]) + int(values[-half - 1])) / 2


def operation_measures(profile: Profile, rows: Integers | None = None) -> Sequence[Measure]:
    """The times of each operation of a profile, in the order of `Profile.operations`."""
    expect(Profile, "a profile", profile, "use hlo_cli.profile(trace)")
    return measures(profile, profile.codes, len(profile.operations), rows)


# --- executions ---


def call_weights(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Floats:
    """How many calls of its operation each row counts as.

    An instruction may run as several kernels: only the one with the most events counts. Where those are twice as many
    as executions times trips, as some sorts on CPUs have, each is half a call.
    """
    kernels = {name: number for number, name in enumerate(dict.fromkeys(key.kernel for key in rows.keys))}
    kernel_of = np.array([kernels[key.kernel] for key in rows.keys], np.int64)[rows.codes]
    of_row, pairs = joint_codes([codes, kernel_of])
    counts = np.bincount(of_row, rows.counts, len(pairs)).astype(np.int64).tolist()
    greatest: dict[int, tuple[int, int]] = {}
    for number, ((operation, _), count) in enumerate(zip(pairs, counts, strict=True)):
        if operation not in greatest or count > greatest[operation][0]:
            greatest[operation] = count, number
    expected = _expected_calls(rows, operations, codes)
    weight = np.zeros(len(pairs))
    for operation, (count, number) in greatest.items():
        # Equal fusions share kernels and a call may launch several: the kernel with most events counts the calls.
        calls = expected.get(operation, 0)
        weight[number] = 1 / max(round(count / calls), 1) if calls else 1.0
    weights: Floats = weight[of_row] * rows.counts
    return weights


def _expected_calls(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Mapping[int, int]:
    """Executions times trips of each operation, where both are known and every execution runs it."""
    runs = executions(rows, operations, codes)
    expected = {}
    for number, operation in enumerate(operations):
        program, instruction = operation.program, operation.instruction
        if program is None or program.module is None or instruction is None:
            continue
        times = executions_of(program.module).get(instruction.computation)
        # Operations in a branch run an unknown number of times.
        if times is not None and times.known is not None and not times.in_branch:
            expected[number] = runs.get(program, 0) * times.known
    return expected


def executions(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Mapping[MeasuredProgram, int]:
    """The executions of each program on all devices together, of those rows that name theirs."""
    programs = {each.program: number for number, each in enumerate(operations) if each.program is not None}
    numbers = np.array([programs[each.program] if each.program else -1 for each in operations], np.int64)[codes]
    known = np.flatnonzero((rows.runs != NO_RUN) & (numbers >= 0))
    if not len(known):
        return {}
    _, distinct = joint_codes([numbers[known], rows.runs[known], rows.devices[known]])
    counts = Counter(program for program, _, _ in distinct)
    return {program: counts[number] for program, number in programs.items() if number in counts}


def _with_executions(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Integers:
    """The executions that rows belong to, where GPUs do not name them: each begins with the program's first kernel.

    The first kernel is the earliest of those that run once an execution and have as many events as most of these.
    """
    runs = rows.runs.copy()
    # Sums have no order in time, which the first kernel is found by.
    if (runs != NO_RUN).any() or (rows.counts > 1).any():  # sums have no order
        return runs
    once = _once_a_run(operations)
    programs = {each.program: number for number, each in enumerate(operations) if each.program and each.program.module}
    numbers = [programs.get(each.program, -1) if each.program else -1 for each in operations]
    program_of = np.array(numbers, np.int64)[codes]
    groups, distinct = joint_codes([program_of, rows.devices])
    order = np.lexsort((rows.begins_ps, groups))
    bounds = np.searchsorted(groups[order], np.arange(len(distinct) + 1))
    first_kernels = _first_kernels(groups[order], codes[order], rows.codes[order], once)
    for group, (program, _) in enumerate(distinct):
        first = first_kernels.get(group)
        if program >= 0 and first is not None:
            chosen = order[bounds[group] : bounds[group + 1]]
            begins = rows.begins_ps[chosen[rows.codes[chosen] == first]]
            runs[chosen] = np.maximum(np.searchsorted(begins, rows.begins_ps[chosen], side="right") - 1, 0)
    return runs


def _first_kernels(groups: Integers, operations: Integers, kernels: Integers, once: set[int]) -> Mapping[int, int]:
    """For each group of rows in order of time, the first kernel that ran as often as most of those of `once`."""
    codes, distinct = joint_codes([groups, operations, kernels])
    places = first_places(codes, len(distinct))
    counts = np.bincount(codes, minlength=len(distinct)).tolist()
    candidates: dict[int, list[tuple[int, int, int]]] = {}
    for (group, operation, kernel), place, count in zip(distinct, places.tolist(), counts, strict=True):
        if operation in once:
            candidates.setdefault(group, []).append((place, kernel, count))
    first_kernels = {}
    for group, kernels_of in candidates.items():
        # Captures cut some executions, so the usual count, not the greatest, is the number of executions.
        usual = _most_common(Counter(count for _, _, count in kernels_of))
        first_kernels[group] = min((place, kernel) for place, kernel, count in kernels_of if count == usual)[1]
    return first_kernels


def _once_a_run(operations: Sequence[Operation]) -> set[int]:
    """The operations that every execution of their program runs once."""
    numbers = set()
    for number, operation in enumerate(operations):
        if operation.instruction is not None and operation.program and operation.program.module:
            times = executions_of(operation.program.module).get(operation.instruction.computation)
            if times is not None and times.known == 1 and not times.in_branch:
                numbers.add(number)
    return numbers


def measured_trips(profile: Profile, calls: Sequence[int]) -> Mapping[Instruction, float]:
    """The mean trip count of each loop that ran: calls of its body's operations by calls of the loop.

    `calls` are those of each operation. Loops without timed operations in their body are left out.
    """
    by_computation: dict[Computation, Counter[int]] = {}
    calls_of = {}
    for operation, count in zip(profile.operations, calls, strict=True):
        if operation.instruction is not None and count:
            by_computation.setdefault(operation.instruction.computation, Counter())[count] += 1
            calls_of[operation.instruction] = count
    runs = executions(profile.occurrences, profile.operations, profile.codes)
    usual = {each: _most_common(counts) for each, counts in by_computation.items()}
    for program in profile.programs:
        # The entry runs once an execution, which is counted exactly.
        if program.module is not None and program in runs:
            usual[program.module.entry] = runs[program]
    modules = [program.module for program in profile.programs if program.module is not None]
    trips = {}
    for loop in chain.from_iterable(module.instructions for module in modules):
        if loop.opcode != opcodes.WHILE or not loop.called_computations:
            continue
        around = calls_of.get(loop) or usual.get(loop.computation)
        if around and (inside := usual.get(loop.called_computations[0])):
            trips[loop] = inside / around
    return trips


def _most_common(counts: Counter[int]) -> int:
    """The most common count, the greater of equals."""
    greatest_frequency = max(counts.values())
    # Events are lost, never added: of equally frequent counts the greater is nearer to the truth.
    return max(count for count, often in counts.items() if often == greatest_frequency)


# --- what events declare ---
# The metadata of a TPU's events have costs, category, and source of an operation.
#
# Mirrors `SetOpMetadataFromHloEventMetadata` of xprof/utils/op_metrics_db_utils.cc, and for categories
# tsl/profiler/convert/xla_op_utils.


_READ, _WRITE = 1, 2
_HBM, _CMEM, _VMEM = 1, 2, 3
_FORMATTING_OPCODES: Final = frozenset((opcodes.TRANSPOSE, opcodes.COPY, opcodes.RESHAPE, opcodes.DYNAMIC_RESHAPE))
_PART_TAG, _OPERATION_TAG, _SPACE_TAG, _SIZE_TAG = 0x0A, 0x08, 0x10, 0x18
"""The tags of the fields of a `MemoryAccessBreakdown`, and of each of its parts."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The costs of one call, None if the trace declares none; `model_flops` are without those of rematerialization."""

    flops: float | None = None
    model_flops: float | None = None
    traffic: Traffic | None = None
    category: str = ""
    op_name: str = ""
    source: str = ""

    @property
    def has_costs(self) -> bool:
        """Whether the trace declares flops or bytes."""
        return self.flops is not None or self.traffic is not None


NO_FACTS: Final = Facts()


def _facts_among(keys: Iterable[OperationKey], declared: Mapping[OperationKey, EventMetadata]) -> Facts:
    """The facts of the first key that has some."""
    metadata = next((declared[key] for key in keys if key in declared), None)
    return NO_FACTS if metadata is None else facts_of(metadata)


def facts_of(metadata: EventMetadata) -> Facts:
    """The facts in the metadata of an event.

    >>> facts = facts_of(EventMetadata(1, "%add", statistics={"flops": 8, "tf_op": "jit(f)/add:", "source": "a.py:3"}))
    >>> facts.flops, facts.op_name, facts.source, facts.traffic
    (8.0, 'jit(f)/add', 'a.py:3', None)
    """
    statistics = metadata.statistics
    model_flops = real(statistics.get("model_flops"))
    # JSON traces drop `symbol_id` and `flops`, but keep `model_flops`.
    is_json = "symbol_id" not in statistics  # JSON files omit it, and the flops
    flops = real(statistics.get("flops", model_flops if is_json else None))
    accessed = real(statistics.get("bytes_accessed"))
    breakdown = statistics.get("memory_access_breakdown")
    parts = list(_parts(breakdown)) if isinstance(breakdown, bytes) else []
    traffic = None
    # Without a breakdown all bytes count as main memory.
    if accessed is not None or parts:
        by_space = dict.fromkeys(((s, o) for s in (_CMEM, _VMEM) for o in (_READ, _WRITE)), 0)
        main = 0.0 if parts else accessed or 0.0
        for operation, space, size in parts:
            if space == _HBM:
                main += size
            elif (space, operation) in by_space:
                by_space[space, operation] += size
        traffic = Traffic(accessed or 0.0, main, *map(float, by_space.values()))
    return Facts(
        flops,
        model_flops,
        traffic,
        text(statistics.get("hlo_category")),
        # The profiler writes `op_name:`, for TensorFlow's `name:type`.
        text(statistics.get("tf_op")).removesuffix(":"),
        text(statistics.get("source")),
    )


def _category_of(instruction: Instruction) -> str:
    """The category from HLO alone, such as `loop fusion` or `data formatting`, as `xla::HloCategory` has it.

    >>> from hlo_cli import parse_module
    >>> _category_of(parse_module("r = f32[4] copy(f32[4] a)").entry.root)
    'data formatting'
    """
    if instruction.opcode in _FORMATTING_OPCODES:
        return "data formatting"
    if instruction.opcode == opcodes.FUSION:
        kind = (instruction.attribute("kind") or "").removeprefix("k").lower()
        return f"{kind} fusion".strip()
    # xla::HloCategory names fusions by their kind.
    if instruction.opcode in operations.ELEMENTWISE:
        return "non-fusion elementwise"
    return instruction.opcode


def _parts(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Operation, memory space, and bytes of the parts of a `MemoryAccessBreakdown`, up to where it is corrupt."""
    try:
        for start, end in spans_of(data, (0, len(data)), _PART_TAG):
            operation, space, size = (
                first_span(data, (start, end), tag)[0] for tag in (_OPERATION_TAG, _SPACE_TAG, _SIZE_TAG)
            )
            yield operation, space, size
    except WireError:
        return


# --- rates and peaks ---
# What bounds operations, and how close they come to it.
#
# Mirrors `SetRooflineMetrics` of xprof/convert/op_metrics_to_record.h and xprof/convert/op_stats_to_roofline_model.cc.


COMPUTE: Final = "compute"
MAIN: Final = TpuMemorySpace.HBM.label
CMEM_READ, CMEM_WRITE, VMEM_READ, VMEM_WRITE = "CMEM read", "CMEM write", "VMEM read", "VMEM write"
SHARED: Final = "shared memory"
_INNER_CATEGORIES: Final = (opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE, "megacore fusion")
"""The categories of operations whose costs are those of others that ran inside them."""
_TERA, _GIGA, _KILO = 1e12, 1e9, 1e3
_RATE_TOLERANCE: Final = 0.2
"""How far a rate in a trace may be from that of the chip: boost clocks differ by less, wrong formulas by more."""
_NVIDIA_FLOPS_PER_CYCLE: Final = {
    (2, 0): 64,
    (3, 0): 384,
    (5, 0): 256,
    (6, 0): 256,
    (7, 0): 1024,
    (8, 0): 2048,
    (8, 6): 1024,
    (9, 0): 4096,
    (10, 0): 8192,
    (12, 0): 1024,
}
"""FLOPs of one core in one cycle by compute capability: dense products of fp16, as hardware_type_utils.cc has them.

It has none for 12.0, and so those of 10.0: the cards of Blackwell have the cores of Ada, by the page of RTX PRO 6000.
"""
_AMD_FLOPS_PER_CYCLE: Final = {
    "gfx908": (1024, 128),
    "gfx90a": (2048, 128),
    "gfx942": (2048, 128),
    "gfx950": (4096, 256),
}
"""The same by architecture, with bytes of shared memory in a cycle."""
_AMD_ARCHITECTURES: Final = {(9, 4): "gfx942", (9, 5): "gfx950"}


def peaks_of(plane: Plane) -> Peaks | None:
    """The peaks of a device that a trace states, or those of the chip that it is; None if neither is known.

    Where the trace and the table of chips differ by over 20%, the table counts: ROCm's profiler computes the rate of
    memory as 2 × clock × width (rocm_collector.cc), which is half of that of HBM3.
    """
    statistics = plane.statistics
    numbers = {name: real(value) or 0.0 for name, value in statistics.items() if real(value) is not None}
    # `clock_rate` is in kHz.
    clock, cores = numbers.get("clock_rate", 0.0) * _KILO, numbers.get("core_count", 0.0)
    per_cycle, shared = _per_cycle(statistics)
    flops = numbers.get("peak_teraflops_per_second", 0.0) * _TERA or per_cycle * clock * cores
    main = numbers.get("peak_hbm_bw_gigabytes_per_second", 0.0) * _GIGA or numbers.get("memory_bandwidth", 0.0)

    def near(name: str) -> float:
        return numbers.get(f"peak_{name}_bw_gigabytes_per_second", 0.0) * _GIGA

    stated = Peaks(
        max(flops, 0.0),
        max(main, 0.0),
        "the trace",
        near("cmem_rd"),
        near("cmem_wr"),
        near("vmem_rd"),
        near("vmem_wr"),
        shared * clock * cores,
        has_merged_vmem=bool(numbers.get("has_merged_vmem")),
    )
    stated = _checked_by_chip(stated, statistics)
    return stated if stated.flops > 0 and stated.main_bytes > 0 else None


def _checked_by_chip(stated: Peaks, statistics: Mapping[str, Value]) -> Peaks:
    """The peaks of a GPU that the table of chips knows, where the trace has none or very different ones."""
    chip = _gpu_of_trace(stated, statistics)
    if chip is None:
        return stated
    flops, is_flops = _stated_or_known(stated.flops, chip.flops)
    main, is_main = _stated_or_known(stated.main_bytes, chip.memory_rate)
    sources = {"the trace": is_flops or is_main, chip.name: not (is_flops and is_main)}
    return replace(
        stated,
        flops=flops,
        main_bytes=main,
        source=" and ".join(name for name, is_used in sources.items() if is_used),
        chip=chip.name if chip.is_chip else "",
        traced_flops=0.0 if is_flops else stated.flops,
        traced_bytes=0.0 if is_main else stated.main_bytes,
    )


def _gpu_of_trace(stated: Peaks, statistics: Mapping[str, Value]) -> TracedGpu | None:
    """The GPU by its vendor, capability, cores, and memory; None for TPUs and for GPUs that are not known."""
    vendor = text(statistics.get("device_vendor"))
    if not vendor:
        return None
    from hlo_cli.analysis.hardware.chip_specs import gpu_in_trace

    version = whole(statistics.get("compute_cap_major")) or 0, whole(statistics.get("compute_cap_minor")) or 0
    return gpu_in_trace(
        vendor,
        version,
        whole(statistics.get("core_count")) or 0,
        name=next(filter(None, (text(statistics.get(each)) for each in ("gpu_device_name", "device_name"))), ""),
        memory_bytes=max(real(statistics.get("memory_size")) or 0.0, 0.0),
        memory_rate=stated.main_bytes,
        flops=stated.flops,
    )


def _stated_or_known(stated: float, known: float) -> tuple[float, bool]:
    """The rate in the trace, and True, if it is near the known one; else the known one, and False."""
    # Relative to the table of chips, whose numbers are those of data sheets.
    is_near = stated > 0 and abs(stated / known - 1) <= _RATE_TOLERANCE
    return (stated, True) if is_near else (known, False)


def is_inner(operation: Operation) -> bool:
    """Whether the costs of an operation are those of others that run inside it, such as those of a loop."""
    return operation.category in _INNER_CATEGORIES


def _per_cycle(statistics: Mapping[str, Value]) -> tuple[int, int]:
    """The FLOPs of a GPU's core in a cycle, and the bytes of its shared memory; zeros if the core is unknown."""
    version = whole(statistics.get("compute_cap_major")) or 0, whole(statistics.get("compute_cap_minor")) or 0
    vendor = text(statistics.get("device_vendor"))
    if vendor == "Nvidia":
        # The last entry that is not above the capability, as hardware_type_utils.cc compares versions.
        known = [flops for least, flops in _NVIDIA_FLOPS_PER_CYCLE.items() if least <= version]
        return known[-1] if known else 0, 256 if version >= (3, 0) else 64
    if vendor == "AMD":
        name = text(statistics.get("device_name", statistics.get("gpu_device_name"))).partition(":")[0]
        return _AMD_FLOPS_PER_CYCLE.get(name, _AMD_FLOPS_PER_CYCLE.get(_AMD_ARCHITECTURES.get(version, ""), (0, 0)))
    return 0, 0


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates over the total time of an operation: FLOP/s and bytes/s; None where the costs are unknown.

    `intensity` is FLOPs per byte. `bound_by` is the resource with the greatest part of its peak in use, empty if none
    is. `efficiency` is the greatest part of a peak that counts for the roofline; it may exceed 1.
    """

    flops: float | None = None
    model_flops: float | None = None
    bytes: float | None = None
    main_bytes: float | None = None
    intensity: float | None = None
    bound_by: str = ""
    efficiency: float | None = None
    compute_use: float | None = None
    memory_use: float | None = None


NO_RATES: Final = Rates()


def rates_of(operation: Operation, measure: Measure, peaks: Peaks | None = None) -> Rates:
    """The rates that the calls of an operation achieved."""
    return _rates_of_calls(
        operation.flops, operation.model_flops, operation.traffic, measure.calls, measure.total, peaks
    )


def rates(profile: Profile, measured: Sequence[Measure]) -> Sequence[Rates]:
    """The rates of each operation of a profile, from the measures of all operations."""
    return [rates_of(each, measure, profile.peaks) for each, measure in zip(profile.operations, measured, strict=True)]


def program_rates(profile: Profile, measured: Sequence[Measure]) -> Rates:
    """The rates of everything that ran, over the time of all devices, idle time included."""
    # Idle time included: a program that waits uses less of the device.
    flops = model_flops = 0.0
    sums = [0.0] * 6
    for operation, measure in zip(profile.operations, measured, strict=True):
        if is_inner(operation):
            continue
        flops += (operation.flops or 0.0) * measure.calls
        model_flops += (operation.model_flops or operation.flops or 0.0) * measure.calls
        sums = [
            total + each * measure.calls for total, each in zip(sums, _bytes_of_traffic(operation.traffic), strict=True)
        ]
    return _rates_of_calls(flops, model_flops, Traffic(*sums), 1, profile.total_ps * PS, profile.peaks)


def _bytes_of_traffic(traffic: Traffic | None) -> tuple[float, ...]:
    if traffic is None:
        return (0.0,) * 6
    near = traffic.cmem_read, traffic.cmem_written, traffic.vmem_read, traffic.vmem_written
    return (traffic.all, traffic.main, *near)


def _rates_of_calls(
    flops: float | None,
    model_flops: float | None,
    traffic: Traffic | None,
    calls: int,
    seconds: float,
    peaks: Peaks | None,
) -> Rates:
    if (flops is None and traffic is None) or seconds <= 0:
        return NO_RATES
    scale = calls / seconds
    flop_rate = (flops or 0.0) * scale
    all_bytes, main, *near = (each * scale for each in _bytes_of_traffic(traffic))
    rates_without_peaks = Rates(
        flop_rate,
        (model_flops or flops or 0.0) * scale,
        all_bytes,
        main,
        flop_rate / all_bytes if all_bytes else None,
    )
    if peaks is None:
        return rates_without_peaks
    near_peaks = peaks.cmem_read, peaks.cmem_written, peaks.vmem_read, peaks.vmem_written
    uses = {
        COMPUTE: flop_rate / peaks.flops if peaks.flops else 0.0,
        MAIN: main / peaks.main_bytes if peaks.main_bytes else 0.0,
        **{
            name: rate / peak if peak else 0.0
            for name, rate, peak in zip((CMEM_READ, CMEM_WRITE, VMEM_READ, VMEM_WRITE), near, near_peaks, strict=True)
        },
        SHARED: main / peaks.shared if peaks.shared else 0.0,
    }
    greatest = max(uses, key=lambda name: uses[name])
    counted = [MAIN]
    # Of CMEM and VMEM only one counts, as in op_stats_to_roofline_model.cc.
    if peaks.cmem_read > 0 or peaks.cmem_written > 0:
        counted += [CMEM_READ, CMEM_WRITE]
    elif peaks.has_merged_vmem:
        counted += [VMEM_READ, VMEM_WRITE]
    memory = max(uses[name] for name in counted)
    return replace(
        rates_without_peaks,
        bound_by=greatest if uses[greatest] > 0 else "",
        efficiency=max(memory, uses[COMPUTE]),
        compute_use=uses[COMPUTE],
        memory_use=memory,
    )


def over_peak(operation: Operation, rates: Rates) -> str:
    """Why an operation may exceed the roofline, in words; empty if it does not.

    Neither the declared cost nor the peak is certain, so both are named.

    >>> over_peak(Operation("c", None, None, "custom-call"), Rates(efficiency=3.3))
    'the custom call may declare more than it does, or the peak rate is too low'
    >>> over_peak(Operation("a", None, None), Rates(efficiency=1.2, bound_by="HBM"))
    'some bytes may come from a cache, or the peak rate is too low'
    """
    if rates.efficiency is None or rates.efficiency <= 1:
        return ""
    # A start is short and its bytes travel later: its rate is no rate.
    if operation.category.endswith(("-start", "-done")) or operation.name.partition(".")[0].endswith(
        ("-start", "-done")
    ):
        return "its bytes are transferred after it ends"
    if operation.category == opcodes.CUSTOM_CALL:
        return "the custom call may declare more than it does, or the peak rate is too low"
    if rates.bound_by == COMPUTE:
        return "it may need fewer flops than XLA counts, or the peak rate is too low"
    return "some bytes may come from a cache, or the peak rate is too low"


# --- the measurement ---


_DROPPED_STATISTIC: Final = "dropped_traces"
"""A statistic of planes: the events that did not fit the profiler's memory."""
_COPY_KERNELS: Final = ("Memcpy", "Memset")


def measure(
    traces: Trace | Sequence[Trace],
    read_module: Callable[[TracedProgram], Module],
    given: Sequence[GivenModule] = (),
    *,
    watch: Callable[[int], None] | None = None,
) -> Profile:
    """The profile of a trace, or of those of several hosts; `read_module` parses its programs, `given` are of a dump.

    `watch` is called with the number of operations that are read so far.

    Programs that cannot be read are named in `Profile.notes`. HloError if the traces have no timed operations.
    """
    traces = (traces,) if isinstance(traces, Trace) else tuple(traces)
    platform = platform_of(traces)

    @cache
    def read(program: TracedProgram) -> Module | None:
        with suppress(HloError):
            return read_module(program)
        return None

    profile = _profile_of(traces, platform, read, given, watch=watch)
    if profile is None:
        name = traces[0].name if traces else "the directory"
        if notes := [note for trace in traces for note in trace.notes]:  # such as that it is truncated
            raise HloError(f"no timed operations: {notes[0]}", hint="copy the file again, or record it again")
        raise HloError(
            f"{name} has no timed operations",
            hint="record it while a program runs: with jax.profiler.trace(DIR): step(x).block_until_ready()",
        )
    if platform != "TPU":
        return profile
    sparse = _profile_of(traces, platform, read, given, is_sparse=True)
    if sparse is None:
        return profile
    time = f"{sum(sparse.busy_ps) * PS * 1e3:.3g} ms"
    note = f"times and shares do not include {time} of operations on SparseCores"
    return replace(profile, sparse_core=sparse, notes=(*profile.notes, note))


def _profile_of(
    traces: Sequence[Trace],
    platform: Platform,
    read_module: Callable[[TracedProgram], Module | None],
    given: Sequence[GivenModule],
    *,
    is_sparse: bool = False,
    watch: Callable[[int], None] | None = None,
) -> Profile | None:
    """The profile of the devices of traces, or of their SparseCores; None if they have no timed operations."""
    occurrences, captures, threads = _captured(traces, platform, is_sparse=is_sparse, watch=watch)
    if not len(occurrences):
        return None
    traced = tuple({(each.id, each.name): each for trace in traces for each in trace.programs()}.values())
    planes = [plane for trace in traces for plane in device_planes(trace, platform)]
    peaks = peaks_of(planes[0]) if planes else None
    # Without annotations kernels are joined by their names before programs are looked up.
    if platform == "GPU":
        occurrences = join_kernels(occurrences, traced, read_module, given)
    programs = programs_of(occurrences.keys, traced, read_module, given)
    if platform == "GPU":
        occurrences, source = expand_graphs(occurrences, programs, peaks)
        captures = [each.expanded(source) for each in captures]
    operations, codes = _operations(occurrences, programs)
    if platform == "GPU":
        # After the operations are known: the first kernel of a program begins an execution.
        occurrences = replace(occurrences, runs=_with_executions(occurrences, operations, codes))
    stepped = join_hosts([each.steps(part_of(occurrences, each.first, each.end)) for each in captures])
    hosts, clock_notes = _hosts(traces, threads, occurrences.device_names, platform)
    for trace in traces:
        trace.forget()  # of a large trace, the events take more memory than all that follows
    stepped = mark_partial(stepped, occurrences, codes)
    return Profile(
        tuple(traces),
        platform,
        tuple(dict.fromkeys(programs.by_pair.values())),
        operations,
        occurrences,
        codes,
        stepped.steps,
        stepped.codes,
        _spans(occurrences, ChainMap(*(dict(each.limits()) for each in captures)), stepped.windows),
        peaks,
        notes=(*programs.notes, *clock_notes, *_notes(occurrences, operations, planes)),
        device_type=device_type(planes),
        step_source=stepped.source,
        call_weights=None if platform == "TPU" else call_weights(occurrences, operations, codes),
        windows=stepped.windows,
        shared_ps=shared_times(occurrences),
        hosts=hosts,
        traced_rows=tuple((each.first, each.end) for each in captures),
    )


def _captured(
    traces: Sequence[Trace], platform: Platform, *, is_sparse: bool, watch: Callable[[int], None] | None
) -> tuple[Occurrences, Sequence[Capture], Sequence[HostThreads]]:
    """The rows of all traces, what places them in steps, and the threads of the host of each trace."""
    rows = OccurrenceList(watch)
    captures, hosts = [], []
    for trace, host in zip(traces, _host_names(traces), strict=True):
        threads = HostThreads()
        visit = partial(_visit, threads)
        captures.append(capture(trace, platform, rows, host, is_sparse=is_sparse, visit=visit))
        hosts.append(threads)
    return rows.occurrences(), captures, hosts


def _visit(threads: HostThreads, line: Line) -> bool:
    """Adds a thread of a host, of which the events are kept of the main one alone."""
    before = threads.main
    threads.add(line)
    if before is not None and threads.main is not before:
        before.forget()
    return threads.main is line


def _hosts(
    traces: Sequence[Trace], threads: Sequence[HostThreads], devices: Sequence[str], platform: Platform
) -> tuple[tuple[HostWork | None, ...], Sequence[str]]:
    """What the host of each device did by the clock of the device, and notes on what is unknown of clocks."""
    names, notes = _host_names(traces), list[str]()
    works: dict[str, HostWork] = {}
    for trace, host, of_host in zip(traces, names, threads, strict=True):
        own = [device for device in devices if device.startswith(host)]
        if platform == "TPU":
            by_core, unknown = hosts_of_cores(trace, host, own)
            works |= by_core
            notes += unknown
        elif (work := of_host.work() if platform == "CPU" else host_work(trace)) is not None:
            works |= dict.fromkeys(own, work)
    return tuple(works.get(device) for device in devices), notes


def _notes(rows: Occurrences, operations: Sequence[Operation], planes: Sequence[Plane]) -> Iterator[str]:
    """What is missing in a trace, and what is estimated."""
    dropped = sum(whole(plane.statistics.get(_DROPPED_STATISTIC)) or 0 for plane in planes)
    if dropped > 0:
        yield f"the profiler dropped {counted(dropped, 'events')}"
    estimated = sum(operation.is_estimated for operation in operations)
    if estimated:
        yield f"times of {counted(estimated, 'instructions')} are shares of CUDA graphs, by the roofline"
    if any(key.op for key in rows.keys):
        # Copies between host and device belong to no instruction.
        is_lost = [not key.op and not key.kernel.startswith(_COPY_KERNELS) for key in rows.keys]
        lost = int(np.array(is_lost)[rows.codes].sum())
        if lost:
            yield f"{counted(lost, 'kernels')} without an annotation of their instruction"


def _host_names(traces: Sequence[Trace]) -> Sequence[str]:
    """What the names of the devices of each trace begin with: the host, if there are several."""
    if len(traces) == 1:
        return ("",)
    names = [trace.hostnames[0] if trace.hostnames and trace.hostnames[0] else trace.name for trace in traces]
    if len(set(names)) < len(names):
        # Files of copied traces may have the same host.
        names = [f"{name}#{number}" for number, name in enumerate(names)]
    return [f"{name} " for name in names]


def _operations(occurrences: Occurrences, programs: Programs) -> tuple[tuple[Operation, ...], Integers]:
    """The operations, and the operation of each row: keys that name one instruction are one operation."""
    names = InstructionNames()
    of_key: list[tuple[MeasuredProgram | None, Instruction | None, str]] = []
    for key in occurrences.keys:
        program = programs.of(key)
        instruction = names.find(program.module, key.op) if program and program.module and key.op else None
        of_key.append((program, instruction, instruction.name if instruction else key.op or key.kernel))
    distinct = {each: number for number, each in enumerate(dict.fromkeys(of_key))}
    keys_of: list[list[OperationKey]] = [[] for _ in distinct]
    for key, each in zip(occurrences.keys, of_key, strict=True):
        keys_of[distinct[each]].append(key)
    facts = [_facts_among(keys, occurrences.facts) for keys in keys_of]
    unknown = [
        each for (_, each, _), known in zip(distinct, facts, strict=True) if each is not None and not known.has_costs
    ]
    # All kernels at once, as the cost analysis of a module is shared by its kernels.
    costs = costs_of_kernels(unknown)
    operations = tuple(
        _operation_of(program, instruction, name, keys, known, costs)
        for (program, instruction, name), keys, known in zip(distinct, keys_of, facts, strict=True)
    )
    return operations, np.array([distinct[each] for each in of_key], np.int64)[occurrences.codes]


def _operation_of(
    program: MeasuredProgram | None,
    instruction: Instruction | None,
    name: str,
    keys: Sequence[OperationKey],
    facts: Facts,
    costs: Mapping[Instruction, Cost],
) -> Operation:
    kernels = tuple(dict.fromkeys(key.kernel for key in keys if key.kernel))
    cost = costs.get(instruction) if instruction is not None else None
    is_known = cost is not None and not cost.unknown
    return Operation(
        name,
        program,
        instruction,
        facts.category or (_category_of(instruction) if instruction is not None else ""),
        facts.op_name,
        facts.source,
        # XLA's own costs first, but for what it does not know.
        cost.flops if cost is not None and is_known else facts.flops,
        facts.model_flops,
        Traffic(cost.bytes_accessed, cost.bytes_accessed) if cost is not None and is_known else facts.traffic,
        kernels,
        instruction is not None and any(each.startswith(GRAPH) for each in kernels),
    )


def _spans(occurrences: Occurrences, limits: Mapping[int, tuple[int, int]], windows: StepWindows) -> tuple[int, ...]:
    """The time of each device from its first to its last operation or step; `limits` are those of TPUs."""
    count = len(occurrences.device_names)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    on_host = ~np.isin(windows.devices, np.array(list(limits), np.int64))  # the limits of TPUs include their steps
    for devices, begins, ends in (
        (occurrences.devices, occurrences.begins_ps, occurrences.ends_ps),
        (windows.devices[on_host], windows.begins_ps[on_host], windows.ends_ps[on_host]),
    ):
        np.minimum.at(first, devices, begins)
        np.maximum.at(last, devices, ends)
    bounds = zip(first.tolist(), last.tolist(), busy_of(occurrences), strict=True)
    return tuple(
        # rows that are sums have no place in time, so they may be longer than the time between first and last
        max(
            max(last, limits[device][1]) - min(first, limits[device][0]) if device in limits else last - first,
            busy.length,
        )
        for device, (first, last, busy) in enumerate(bounds)
    )
