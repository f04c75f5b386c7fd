"""The timed operations in a trace of XLA:CPU: the lines of `/host:CPU` are threads, with one event for each thunk.

Mirrors the annotations of xla/backends/cpu/runtime/thunk.cc.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.profile.occurrences import NO_RUN, OccurrenceList, OperationKey
from hlo_cli.analysis.profile.self_time import nested_order, self_times
from hlo_cli.ir.traces.trace import ABSENT, Coded, Integers, Line, Plane, Value

HOST: Final = "/host:CPU"
_UNSIGNED: Final = (1 << 64) - 1


def add_cpu_events(plane: Plane, rows: OccurrenceList) -> None:
    """Adds the operations that ran on the threads of a host."""
    for line in plane.lines:
        ops = line.statistic("hlo_op")
        chosen = np.flatnonzero(ops.codes != ABSENT)
        if len(chosen):
            _add_line(line, chosen, ops, rows)


def _add_line(line: Line, chosen: Integers, ops: Coded, rows: OccurrenceList) -> None:
    events = line.events
    chosen = chosen[nested_order(line.begins_ps[chosen], events.durations_ps[chosen])]
    modules, programs = line.statistic("hlo_module"), line.statistic("program_id")
    ordinals, runs = line.statistic("device_ordinal"), line.statistic("run_id")
    codes, distinct = joint_codes([each.codes[chosen] for each in (programs, modules, ops)])
    keys = [
        rows.key(OperationKey(unsigned(value_at(programs, a)), text(value_at(modules, b)), text(value_at(ops, c))))
        for a, b, c in distinct
    ]
    devices = [
        rows.device(f"CPU:{text(value_at(ordinals, code)) or 0}") for code in range(ABSENT, len(ordinals.values))
    ]
    begins, durations = line.begins_ps[chosen], events.durations_ps[chosen]
    rows.add_line(
        line.name,
        np.array(keys, np.int64)[codes],
        np.array(devices, np.int64)[ordinals.codes[chosen] + 1],
        integers(runs, chosen, NO_RUN),
        begins,
        durations,
        self_times(begins, durations),
    )


def value_at(column: Coded, code: int) -> Value | None:
    """The value with a code; None if it is absent."""
    return None if code == ABSENT else column.values[code]


def unsigned(value: Value | None) -> int | None:
    """An id as unsigned 64-bit integer; None if it is no integer."""
    return value & _UNSIGNED if isinstance(value, int) else None


def text(value: Value | None) -> str:
    """A value as text; empty if there is none."""
    return "" if value is None else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def integers(column: Coded, chosen: Integers, default: int) -> Integers:
    """A statistic of the chosen events as integers."""
    values = [value if isinstance(value, int) else default for value in column.values]
    found: Integers = np.array([*values, default], np.int64)[column.codes[chosen]]
    return found


def joint_codes(columns: list[Integers]) -> tuple[Integers, list[tuple[int, ...]]]:
    """Codes of the distinct rows of columns of codes, and those rows.

    >>> codes, rows = joint_codes([np.array([0, 1, 0]), np.array([-1, 2, -1])])
    >>> codes.tolist(), rows
    ([0, 1, 0], [(0, -1), (1, 2)])
    """
    sizes = [int(each.max(initial=0)) + 2 for each in columns]
    mixed = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, sizes, strict=True):
        mixed = mixed * size + column + 1
    distinct, inverse = np.unique(mixed, return_inverse=True)
    rows: list[tuple[int, ...]] = []
    for number in distinct.tolist():
        row = []
        for size in reversed(sizes):
            number, part = divmod(number, size)
            row.append(part - 1)
        rows.append(tuple(reversed(row)))
    return inverse.astype(np.int64), rows
