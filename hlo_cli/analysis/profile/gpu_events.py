"""The timed operations in a trace of GPUs: each stream is a line of kernels, annotated with the instruction they run.

Mirrors xprof/utils/gpu_event_stats.cc, and the annotations of xla/backends/gpu/runtime/annotation.cc. A CUDA graph that
the profiler recorded as one event stands for the command buffer that its instruction calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.profile.columns import integers, joint_codes, line_times, text, unsigned, value_at
from hlo_cli.analysis.profile.joining import InstructionNames, Programs
from hlo_cli.analysis.profile.occurrences import NO_RUN, OccurrenceList, Occurrences, OperationKey
from hlo_cli.analysis.profile.profile import Peaks
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.traces.trace import ABSENT, Integers, Line, Plane

_PREFIX: Final = "/device:GPU:"
_DERIVED: Final = range(0xDEADBEEF, 0xDEADBEEF + 391)
"""The ids of the lines that XProf and TensorBoard add to a file, modulo 2^32."""
_DERIVED_NAMES: Final = frozenset(
    ("Framework Name Scope", "Framework Ops", "XLA Ops", "XLA Modules", "Steps", "Source code", "XLA TraceMe")
)
_INNER: Final = "::"
"""What joins nested annotations, the outer one first."""
NO_CORRELATION: Final = 0
GRAPH: Final = "CudaGraphExec"
"""What the kernel of an event begins with that stands for a whole CUDA graph."""
_LAUNCH_SECONDS: Final = 2e-6
_USUAL: Final = 1e15, 3e12
"""The FLOP/s and bytes/s by which kernels share the time of a graph, where the trace states none."""


def gpu_of(plane: Plane) -> str | None:
    """The GPU that a plane belongs to, such as `GPU:0`; None for other planes.

    >>> gpu_of(Plane(1, "/device:GPU:3", (), dict)), gpu_of(Plane(1, "/host:CPU", (), dict))
    ('GPU:3', None)
    """
    return f"GPU:{plane.name.removeprefix(_PREFIX)}" if plane.name.startswith(_PREFIX) else None


def kernel_lines(plane: Plane) -> Iterable[Line]:
    """The lines of a GPU that the profiler recorded; derived ones, which repeat their events, are left out."""
    for line in plane.lines:
        if line.id % (1 << 32) not in _DERIVED and line.name.partition(" - from #")[0] not in _DERIVED_NAMES:
            yield line


def add_gpu(plane: Plane, name: str, rows: OccurrenceList) -> Integers:
    """Adds the kernels and copies of a GPU; returns the ids that correlate them with their launches on the host."""
    lines = [line for line in kernel_lines(plane) if len(line.events)]
    correlations = [_add_line(line, rows.device(name), rows) for line in lines]
    return np.concatenate([np.zeros(0, np.int64), *correlations])


def _add_line(line: Line, device: int, rows: OccurrenceList) -> Integers:
    events = line.events
    names = ("program_id", "hlo_module", "hlo_op")
    programs, modules, ops = (line.statistic(each) for each in names)
    codes, distinct = joint_codes([events.kinds, programs.codes, modules.codes, ops.codes])
    kinds = line.kinds
    keys = [
        rows.key(
            OperationKey(
                unsigned(value_at(programs, program)),
                text(value_at(modules, module)),
                innermost(text(value_at(ops, op))),
                kinds[kind].name if kind in kinds else "",
            )
        )
        for kind, program, module, op in distinct
    ]
    every = np.arange(len(events))
    begins, durations = line_times(line)
    rows.add_line(
        line.name,
        np.array(keys, np.int64)[codes],
        device,
        integers(line.statistic("run_id"), every, NO_RUN),
        begins,
        durations,
        durations,
        np.maximum(events.occurrences, 1),
    )
    return integers(line.statistic("correlation_id"), every, NO_CORRELATION)


def innermost(annotation: str) -> str:
    """The instruction in nested annotations, which is the last of them.

    >>> innermost("command_buffer::fusion.3"), innermost("fusion.3")
    ('fusion.3', 'fusion.3')
    """
    return annotation.rpartition(_INNER)[2]


def launch_times(planes: Iterable[Plane], correlations: Integers, begins_ps: Integers) -> Integers:
    """When the host launched each of the kernels that begin at `begins_ps`; their own begin if that is unknown."""
    found: dict[int, int] = {}
    for line in chain.from_iterable(plane.lines for plane in planes):
        ids = line.statistic("correlation_id")
        chosen = np.flatnonzero(ids.codes != ABSENT)
        found.update(
            zip(integers(ids, chosen, NO_CORRELATION).tolist(), line_times(line)[0][chosen].tolist(), strict=True)
        )
    found.pop(NO_CORRELATION, None)
    distinct, inverse = np.unique(correlations, return_inverse=True)
    known = np.array([each in found for each in distinct.tolist()], bool)
    times = np.array([found.get(each, 0) for each in distinct.tolist()], np.int64)
    return np.where(known[inverse], times[inverse], begins_ps)


def expand_graphs(rows: Occurrences, programs: Programs, peaks: Peaks | None) -> tuple[Occurrences, Integers]:
    """Rows in which each execution of a whole CUDA graph is replaced by the operations of its command buffer.

    They share its time in the order of their schedule, by the time that the roofline gives each. The second value is
    the row that each stands for.
    """
    names = InstructionNames()
    parts: dict[int, Sequence[tuple[OperationKey, float]]] = {}
    for at, key in enumerate(rows.keys):
        program = programs.of(key)
        if key.kernel.startswith(GRAPH) and program is not None and program.module is not None:
            call = names.find(program.module, key.op)
            if call is not None and call.opcode == opcodes.CALL and call.called_computations:
                parts[at] = _graph_parts(key, call.called_computations[0], peaks)
    parts = {at: found for at, found in parts.items() if found}
    if not parts:
        return rows, np.arange(len(rows))
    keys = list(rows.keys)
    number = {key: at for at, key in enumerate(keys)}
    for part, _ in chain.from_iterable(parts.values()):
        if number.setdefault(part, len(keys)) == len(keys):
            keys.append(part)
    sizes = np.array([len(parts[at]) if at in parts else 1 for at in range(len(rows.keys))], np.int64)[rows.codes]
    source = np.repeat(np.arange(len(rows)), sizes)
    place = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    codes, begins, durations = rows.codes[source], rows.begins_ps[source], rows.durations_ps[source]
    own = rows.self_ps[source]
    for at, found in parts.items():
        chosen = np.flatnonzero(codes == at)
        bounds = np.concatenate(([0.0], np.cumsum([weight for _, weight in found])))
        bounds /= bounds[-1]
        whole = rows.durations_ps[source[chosen]]
        first, last = (np.rint(whole * bounds[place[chosen] + add]).astype(np.int64) for add in (0, 1))
        begins[chosen] += first
        durations[chosen] = own[chosen] = last - first
        codes[chosen] = np.array([number[part] for part, _ in found], np.int64)[place[chosen]]
    used, codes = np.unique(codes, return_inverse=True)
    expanded = replace(
        rows,
        keys=[keys[at] for at in used.tolist()],
        codes=codes,
        devices=rows.devices[source],
        lines=rows.lines[source],
        runs=rows.runs[source],
        begins_ps=begins,
        durations_ps=durations,
        self_ps=own,
        counts=rows.counts[source],
        flows=rows.flows[source],
    )
    return expanded, source


def _graph_parts(key: OperationKey, body: Computation, peaks: Peaks | None) -> Sequence[tuple[OperationKey, float]]:
    """The kernels of a command buffer, each with its weight."""
    flops, main = (peaks.flops, peaks.main_bytes) if peaks else _USUAL
    return [
        (key._replace(op=each.name), _LAUNCH_SECONDS + max(cost.flops / flops, cost.bytes_accessed / main))
        for each, cost in costs_of_kernels(body.instructions).items()
    ]
