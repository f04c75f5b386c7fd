"""The timed operations of one trace: which planes and lines of it hold them, on each platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from hlo_cli.analysis.profile.columns import text
from hlo_cli.analysis.profile.cpu_events import HOST, add_cpu_events
from hlo_cli.analysis.profile.gpu_events import add_gpu, gpu_of, kernel_lines, launch_times
from hlo_cli.analysis.profile.occurrences import OccurrenceList, Occurrences
from hlo_cli.analysis.profile.profile import Platform
from hlo_cli.analysis.profile.steps import (
    DeviceSteps,
    Stepped,
    host_stepped,
    host_steps,
    launches,
    steps_of_executions,
    steps_of_lines,
    steps_of_runs,
)
from hlo_cli.analysis.profile.tpu_events import OPS, SPARSE_OPS, add_core, core_of, sparse_core_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Integers, Plane, Trace

_HOSTS: Final = (HOST, "/host:CUPTI", "/host:ROCTRACER")
"""The planes with the launches of kernels; profilers of these names write them apart from the rest of the host."""
_TYPE: Final = ("device_type_string", "gpu_device_name", "cpu_version")


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """The rows of one trace from `first` to `end`, with what places them in steps."""

    trace: Trace
    first: int
    end: int
    cores: Sequence[DeviceSteps]
    correlations: Integers

    def expanded(self, source: Integers) -> Capture:
        """The capture where row `i` stands for the former row `source[i]`."""
        first, end = np.searchsorted(source, (self.first, self.end)).tolist()
        correlations = (
            self.correlations[source[first:end] - self.first] if len(self.correlations) else self.correlations
        )
        return replace(self, first=first, end=end, correlations=correlations)

    def limits(self) -> Mapping[int, tuple[int, int]]:
        """When the operations and steps of each device begin and end, where the trace has steps of its own."""
        return {core.device: (core.first_ps, core.last_ps) for core in self.cores}

    def steps(self, rows: Occurrences) -> Stepped:
        """The step of each of its rows: by the lines of cores, by annotations on the host, or by executions."""
        if any(core.steps for core in self.cores):
            return steps_of_lines(self.cores, rows, self.first)
        host = self.trace.plane(HOST)
        hosts = [plane for plane in self.trace.planes if plane.name in _HOSTS]
        steps = host_steps(host) if host else ()
        if host and steps:
            found = (
                host_stepped(rows, steps, launch_times(hosts, self.correlations, rows.begins_ps))
                if len(self.correlations)
                else steps_of_runs(rows, steps, launches(host))
            )
            if (found.codes >= 0).any():
                return found
        return steps_of_executions(rows)


def platform_of(traces: Sequence[Trace]) -> Platform:
    """The platform of traces: that of the devices with operations, else the CPU."""
    planes = [plane for trace in traces for plane in trace.planes]
    if any(core_of(plane) and any(line.name == OPS and len(line.events) for line in plane.lines) for plane in planes):
        return "TPU"
    if any(gpu_of(plane) and any(len(line.events) for line in kernel_lines(plane)) for plane in planes):
        return "GPU"
    return "CPU"


def capture(trace: Trace, platform: Platform, rows: OccurrenceList, host: str, *, is_sparse: bool = False) -> Capture:
    """Adds the timed operations of a trace, or those of SparseCores; the names of devices begin with `host`."""
    first = len(rows)
    cores = []
    correlations = [np.zeros(0, np.int64)]
    for plane in trace.planes:
        if platform == "TPU" and (name := sparse_core_of(plane) if is_sparse else core_of(plane)):
            found = add_core(plane, host + name, rows, SPARSE_OPS if is_sparse else OPS)
            cores += [found] if found else []
        elif platform == "CPU" and plane.name == HOST:
            add_cpu_events(plane, rows, host)
        elif platform == "GPU" and (name := gpu_of(plane)):
            correlations.append(add_gpu(plane, host + name, rows))
    return Capture(trace, first, len(rows), cores, np.concatenate(correlations))


def device_planes(trace: Trace, platform: Platform) -> Sequence[Plane]:
    """The planes of the devices of a trace."""
    if platform == "CPU":
        return [plane for plane in trace.planes if plane.name == HOST]
    name_of = core_of if platform == "TPU" else gpu_of
    return [plane for plane in trace.planes if name_of(plane) is not None]


def device_type(planes: Sequence[Plane]) -> str:
    """The name of the type of devices; empty if the trace has none."""
    found = (text(plane.statistics.get(name)) for plane in planes for name in _TYPE)
    return next(filter(None, found), "")
