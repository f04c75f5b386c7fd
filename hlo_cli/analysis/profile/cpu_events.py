"""The timed operations in a trace of XLA:CPU: the lines of `/host:CPU` are threads, with one event for each thunk.

Mirrors the annotations of xla/backends/cpu/runtime/thunk.cc.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.profile.columns import integers, joint_codes, line_times, text, unsigned, value_at
from hlo_cli.analysis.profile.occurrences import NO_RUN, OccurrenceList, OperationKey
from hlo_cli.analysis.profile.self_time import nested_order, self_times
from hlo_cli.ir.traces.trace import ABSENT, Coded, Integers, Line, Plane

HOST: Final = "/host:CPU"


def add_cpu_events(plane: Plane, rows: OccurrenceList, host: str = "") -> None:
    """Adds the operations that ran on the threads of a host; the names of its devices begin with `host`."""
    for line in plane.lines:
        ops = line.statistic("hlo_op")
        chosen = np.flatnonzero(ops.codes != ABSENT)
        if len(chosen):
            _add_line(line, chosen, ops, rows, host)


def _add_line(line: Line, chosen: Integers, ops: Coded, rows: OccurrenceList, host: str) -> None:
    begins, durations = line_times(line)
    chosen = chosen[nested_order(begins[chosen], durations[chosen])]
    modules, programs = line.statistic("hlo_module"), line.statistic("program_id")
    ordinals, runs = line.statistic("device_ordinal"), line.statistic("run_id")
    codes, distinct = joint_codes([each.codes[chosen] for each in (programs, modules, ops)])
    keys = [
        rows.key(OperationKey(unsigned(value_at(programs, a)), text(value_at(modules, b)), text(value_at(ops, c))))
        for a, b, c in distinct
    ]
    used, device_of = np.unique(ordinals.codes[chosen], return_inverse=True)
    devices = [rows.device(f"{host}CPU:{text(value_at(ordinals, code)) or 0}") for code in used.tolist()]
    begins, durations = begins[chosen], durations[chosen]
    rows.add_line(
        line.name,
        np.array(keys, np.int64)[codes],
        np.array(devices, np.int64)[device_of],
        integers(runs, chosen, NO_RUN),
        begins,
        durations,
        self_times(begins, durations),
    )
