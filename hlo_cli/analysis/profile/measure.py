"""Joins the events of a trace to the instructions of the programs that ran."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.profile.capture import capture, device_planes, device_type, platform_of
from hlo_cli.analysis.profile.columns import whole
from hlo_cli.analysis.profile.executions import call_weights, with_executions
from hlo_cli.analysis.profile.facts import Facts, category_of, facts_among
from hlo_cli.analysis.profile.gpu_events import GRAPH, expand_graphs
from hlo_cli.analysis.profile.intervals import busy_of, shared_times
from hlo_cli.analysis.profile.joining import GivenModule, InstructionNames, Programs, join_kernels, programs_of
from hlo_cli.analysis.profile.occurrences import OccurrenceList, Occurrences, OperationKey, part_of
from hlo_cli.analysis.profile.profile import PS, MeasuredProgram, Operation, Platform, Profile, StepWindows, Traffic
from hlo_cli.analysis.profile.rates import peaks_of
from hlo_cli.analysis.profile.steps import join_hosts, mark_partial
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import Integers, Plane, Trace, TracedProgram
from hlo_cli.source import HloError, counted

_DROPPED: Final = "dropped_traces"
"""A statistic of planes: the events that did not fit the profiler's memory."""
_COPIES: Final = ("Memcpy", "Memset")


def measure(
    traces: Trace | Sequence[Trace],
    read_module: Callable[[TracedProgram], Module],
    given: Sequence[GivenModule] = (),
) -> Profile:
    """The profile of a trace, or of those of several hosts; `read_module` parses its programs, `given` are of a dump.

    Programs that cannot be read are named in `Profile.notes`. HloError if the traces have no timed operations.
    """
    traces = (traces,) if isinstance(traces, Trace) else tuple(traces)
    platform = platform_of(traces)

    @cache
    def read(program: TracedProgram) -> Module | None:
        with suppress(HloError):
            return read_module(program)
        return None

    found = _measured(traces, platform, read, given)
    if found is None:
        name = traces[0].name if traces else "the directory"
        if notes := [note for trace in traces for note in trace.notes]:  # such as that it is truncated
            raise HloError(f"no timed operations: {notes[0]}", hint="copy the file again, or record it again")
        raise HloError(
            f"{name} has no timed operations",
            hint="record it while a program runs: with jax.profiler.trace(DIR): step(x).block_until_ready()",
        )
    if platform != "TPU":
        return found
    sparse = _measured(traces, platform, read, given, is_sparse=True)
    if sparse is None:
        return found
    time = f"{sum(sparse.busy_ps) * PS * 1e3:.3g} ms"
    note = f"times and shares do not include {time} of operations on SparseCores"
    return replace(found, sparse_core=sparse, notes=(*found.notes, note))


def _measured(
    traces: Sequence[Trace],
    platform: Platform,
    read_module: Callable[[TracedProgram], Module | None],
    given: Sequence[GivenModule],
    *,
    is_sparse: bool = False,
) -> Profile | None:
    """The profile of the devices of traces, or of their SparseCores; None if they have no timed operations."""
    rows = OccurrenceList()
    captures = [
        capture(trace, platform, rows, host, is_sparse=is_sparse)
        for trace, host in zip(traces, _host_names(traces), strict=True)
    ]
    occurrences = rows.occurrences()
    if not len(occurrences):
        return None
    traced = tuple({(each.id, each.name): each for trace in traces for each in trace.programs()}.values())
    planes = [plane for trace in traces for plane in device_planes(trace, platform)]
    peaks = peaks_of(planes[0]) if planes else None
    if platform == "GPU":
        occurrences = join_kernels(occurrences, traced, read_module, given)
    programs = programs_of(occurrences.keys, traced, read_module, given)
    if platform == "GPU":
        occurrences, source = expand_graphs(occurrences, programs, peaks)
        captures = [each.expanded(source) for each in captures]
    operations, codes = _operations(occurrences, programs)
    if platform == "GPU":
        occurrences = replace(occurrences, runs=with_executions(occurrences, operations, codes))
    stepped = join_hosts([each.steps(part_of(occurrences, each.first, each.end)) for each in captures])
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
        notes=(*programs.notes, *_notes(occurrences, operations, planes)),
        device_type=device_type(planes),
        step_source=stepped.source,
        call_weights=None if platform == "TPU" else call_weights(occurrences, operations, codes),
        windows=stepped.windows,
        shared_ps=shared_times(occurrences),
    )


def _notes(rows: Occurrences, operations: Sequence[Operation], planes: Sequence[Plane]) -> Iterator[str]:
    """What is missing in a trace, and what is estimated."""
    dropped = sum(whole(plane.statistics.get(_DROPPED)) or 0 for plane in planes)
    if dropped > 0:
        yield f"the profiler dropped {counted(dropped, 'events')}"
    estimated = sum(operation.is_estimated for operation in operations)
    if estimated:
        yield f"times of {counted(estimated, 'instructions')} are shares of CUDA graphs, by the roofline"
    if any(key.op for key in rows.keys):
        is_lost = [not key.op and not key.kernel.startswith(_COPIES) for key in rows.keys]
        lost = int(np.array(is_lost)[rows.codes].sum())
        if lost:
            yield f"{counted(lost, 'kernels')} without an annotation of their instruction"


def _host_names(traces: Sequence[Trace]) -> Sequence[str]:
    """What the names of the devices of each trace begin with: the host, if there are several."""
    if len(traces) == 1:
        return ("",)
    names = [trace.hostnames[0] if trace.hostnames and trace.hostnames[0] else trace.name for trace in traces]
    if len(set(names)) < len(names):
        names = [f"{name}#{number}" for number, name in enumerate(names)]
    return [f"{name} " for name in names]


def _operations(occurrences: Occurrences, programs: Programs) -> tuple[tuple[Operation, ...], Integers]:
    """The operations, and the operation of each row: keys that name one instruction are one operation."""
    names = InstructionNames()
    of_key: list[tuple[MeasuredProgram | None, Instruction | None, str]] = []
    for key in occurrences.keys:
        program = programs.of(key)
        found = names.find(program.module, key.op) if program and program.module and key.op else None
        of_key.append((program, found, found.name if found else key.op or key.kernel))
    distinct = {each: at for at, each in enumerate(dict.fromkeys(of_key))}
    keys_of: list[list[OperationKey]] = [[] for _ in distinct]
    for key, each in zip(occurrences.keys, of_key, strict=True):
        keys_of[distinct[each]].append(key)
    facts = [facts_among(keys, occurrences.facts) for keys in keys_of]
    unknown = [
        each for (_, each, _), known in zip(distinct, facts, strict=True) if each is not None and not known.has_costs
    ]
    costs = costs_of_kernels(unknown)
    operations = tuple(
        _operation(program, instruction, name, keys, known, costs)
        for (program, instruction, name), keys, known in zip(distinct, keys_of, facts, strict=True)
    )
    return operations, np.array([distinct[each] for each in of_key], np.int64)[occurrences.codes]


def _operation(
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
        facts.category or (category_of(instruction) if instruction is not None else ""),
        facts.op_name,
        facts.source,
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
        max(max(last, limits[at][1]) - min(first, limits[at][0]) if at in limits else last - first, busy.length)
        for at, (first, last, busy) in enumerate(bounds)
    )
