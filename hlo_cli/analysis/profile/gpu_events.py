"""The timed operations in a trace of GPUs: each stream is a line of kernels, annotated with the instruction they run.

Mirrors xprof/utils/gpu_event_stats.cc, and the annotations of xla/backends/gpu/runtime/annotation.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from hlo_cli.analysis.profile.columns import integers, joint_codes, line_times, text, unsigned, value_at
from hlo_cli.analysis.profile.occurrences import NO_RUN, OccurrenceList, OperationKey
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


def launch_times(plane: Plane, correlations: Integers, begins_ps: Integers) -> Integers:
    """When the host launched each of the kernels that begin at `begins_ps`; their own begin if that is unknown."""
    found: dict[int, int] = {}
    for line in plane.lines:
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


def kernel_counts(codes: Integers, kernels: Integers, counts: Integers) -> Mapping[int, int]:
    """The greatest number of events among the kernels of each operation.

    >>> kernel_counts(np.array([0, 0, 0, 1]), np.array([5, 5, 6, 5]), np.array([1, 1, 1, 1]))
    {0: 2, 1: 1}
    """
    of_row, pairs = joint_codes([codes, kernels])
    sums = np.bincount(of_row, counts, len(pairs)).astype(np.int64).tolist()
    found: dict[int, int] = {}
    for (operation, _), count in zip(pairs, sums, strict=True):
        found[operation] = max(found.get(operation, 0), count)
    return found
