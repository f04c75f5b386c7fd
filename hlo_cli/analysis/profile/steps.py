"""The steps of a trace, and the step of each timed operation.

On hosts, a step is an event with the statistic `step_num`, written by `StepTraceAnnotation`; a run belongs to the step
in which it was launched. On TPUs, each core has a line of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from hlo_cli.analysis.profile.columns import integers, joint_codes, line_times, text
from hlo_cli.analysis.profile.occurrences import NO_RUN, Occurrences
from hlo_cli.analysis.profile.profile import NO_STEP, NO_WINDOWS, Step, StepSource, StepWindows
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import ABSENT, Integers, Line, Plane


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSteps:
    """The rows of a core from `first_row` on, which begin at `begins`, with its steps by the same clock.

    `first_ps` and `last_ps` limit the time of operations and steps.
    """

    device: int
    first_row: int
    begins: Integers
    steps: tuple[Step, ...]
    first_ps: int
    last_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """Steps, the step of each row of one trace, and when the steps were on each device."""

    steps: tuple[Step, ...]
    codes: Integers
    windows: StepWindows
    source: StepSource = "annotation"


def host_steps(plane: Plane) -> tuple[Step, ...]:
    """The annotated steps of a host, by time; an annotation inside another one is left out."""
    found = sorted(chain.from_iterable(map(_annotated, plane.lines)), key=lambda step: (step.begin_ps, -step.end_ps))
    outer: list[Step] = []
    for step in found:
        if not outer or step.begin_ps >= outer[-1].end_ps:
            outer.append(step)
    return tuple(outer)


def _annotated(line: Line) -> Iterable[Step]:
    numbers = line.statistic("step_num")
    begins, durations = line_times(line)
    for at in np.flatnonzero(numbers.codes != ABSENT).tolist():
        begin = int(begins[at])
        yield Step(text(numbers.of(at)), begin, begin + int(durations[at]))


def launches(plane: Plane) -> Mapping[int, int]:
    """When each run was launched, by its id: the begin of the first event on the host that names it."""
    found: dict[int, int] = {}
    for line in plane.lines:
        runs, ops = line.statistic("run_id"), line.statistic("hlo_op")
        chosen = np.flatnonzero((runs.codes != ABSENT) & (ops.codes == ABSENT))
        begins = line_times(line)[0][chosen].tolist()
        for run, begin in zip(integers(runs, chosen, NO_RUN).tolist(), begins, strict=True):
            found[run] = min(found.get(run, begin), begin)
    return found


def steps_of_runs(rows: Occurrences, steps: tuple[Step, ...], launched: Mapping[int, int]) -> Stepped:
    """The step of each row: that in which its run was launched, or in which the run, or the row itself, begins."""
    begins = rows.begins_ps.copy()
    runs, inverse = np.unique(rows.runs, return_inverse=True)
    first = np.full(len(runs), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, begins)
    for at, run in enumerate(runs.tolist()):
        first[at] = launched.get(run, first[at])
    known = rows.runs != NO_RUN
    begins[known] = first[inverse][known]
    return host_stepped(rows, steps, begins)


def host_stepped(rows: Occurrences, steps: tuple[Step, ...], times: Integers) -> Stepped:
    """The annotated steps of a host, where `times` place its rows in them; they are the same on all of its devices."""
    devices = np.unique(rows.devices)
    begins, ends = (np.array([getattr(step, name) for step in steps], np.int64) for name in ("begin_ps", "end_ps"))
    windows = StepWindows(
        np.tile(np.arange(len(steps)), len(devices)),
        np.repeat(devices, len(steps)),
        np.tile(begins, len(devices)),
        np.tile(ends, len(devices)),
    )
    return Stepped(steps, step_at(times, steps), windows)


def steps_of_lines(devices: Sequence[DeviceSteps], rows: Occurrences, first: int) -> Stepped:
    """The steps of rows, of which the first one has the number `first`: each by the line of its core.

    Equal names are one step.
    """
    names: dict[tuple[str, int], int] = {}
    begins: list[int] = []
    ends: list[int] = []
    on: list[int] = []
    codes = np.full(len(rows), NO_STEP, np.int64)
    listed: list[tuple[int, int, int, int]] = []
    for device in devices:
        row = device.first_row - first
        # steps may be by the clock of the host, and the operations by that of the device
        ahead = int(rows.begins_ps[row] - device.begins[0]) if len(device.begins) else 0
        steps = sorted(device.steps, key=lambda step: (step.begin_ps, step.end_ps))
        own = []
        for key, step in zip(_numbered(steps), steps, strict=True):
            at = names.setdefault(key, len(names))
            if at == len(begins):
                begins.append(step.begin_ps)
                ends.append(step.end_ps)
                on.append(0)
            begins[at], ends[at] = min(begins[at], step.begin_ps), max(ends[at], step.end_ps)
            on[at] += 1
            own.append(at)
            listed.append((at, device.device, step.begin_ps + ahead, step.end_ps + ahead))
        found = step_at(device.begins, steps)
        codes[row : row + len(found)] = np.array([*own, NO_STEP], np.int64)[found]
    with_steps = sum(bool(device.steps) for device in devices)
    steps = [
        Step(name, begin, end, count == with_steps)
        for (name, _), begin, end, count in zip(names, begins, ends, on, strict=True)
    ]
    order = sorted(range(len(steps)), key=lambda at: steps[at].begin_ps)
    places = np.array([*np.argsort(order).tolist(), NO_STEP], np.int64)
    step_of, device_of, first_ps, last_ps = np.array(listed, np.int64).reshape(-1, 4).T
    windows = StepWindows(places[step_of], device_of, first_ps, last_ps)
    return Stepped(tuple(steps[at] for at in order), places[codes], windows, "line")


def steps_of_executions(rows: Occurrences) -> Stepped:
    """One step for each execution of the program with the most self time; none if executions are unknown."""
    programs = {pair: at for at, pair in enumerate(dict.fromkeys((key.program, key.module) for key in rows.keys))}
    of_key = np.array([programs[key.program, key.module] for key in rows.keys], np.int64)
    known = np.flatnonzero(rows.runs != NO_RUN)
    if not len(known):
        return Stepped((), np.full(len(rows), NO_STEP, np.int64), NO_WINDOWS)
    of_row = of_key[rows.codes]
    largest = int(np.bincount(of_row[known], rows.self_ps[known].astype(np.float64)).argmax())
    chosen = known[of_row[known] == largest]
    runs, inverse = np.unique(_shared_runs(rows, chosen), return_inverse=True)
    begins, ends = np.full(len(runs), np.iinfo(np.int64).max), np.full(len(runs), np.iinfo(np.int64).min)
    np.minimum.at(begins, inverse, rows.begins_ps[chosen])
    np.maximum.at(ends, inverse, rows.ends_ps[chosen])
    order = np.argsort(begins, kind="stable")
    steps = tuple(Step(str(at), int(begins[run]), int(ends[run])) for at, run in enumerate(order.tolist()))
    codes = step_at(rows.begins_ps, steps)
    codes[chosen] = np.argsort(order)[inverse]
    windows = _windows_of(rows, chosen, codes[chosen])
    return Stepped(steps, codes, windows, "executions")


def _windows_of(rows: Occurrences, chosen: Integers, steps: Integers) -> StepWindows:
    """When the executions of the chosen rows began and ended on each device."""
    of_row, pairs = joint_codes([steps, rows.devices[chosen]])
    begins, ends = np.full(len(pairs), np.iinfo(np.int64).max), np.full(len(pairs), np.iinfo(np.int64).min)
    np.minimum.at(begins, of_row, rows.begins_ps[chosen])
    np.maximum.at(ends, of_row, rows.ends_ps[chosen])
    step_of, device_of = np.array(pairs, np.int64).reshape(-1, 2).T
    return StepWindows(step_of, device_of, begins, ends)


def _shared_runs(rows: Occurrences, chosen: Integers) -> Integers:
    """The executions of rows of one program: by id, else, if devices share no id, by their number on each device."""
    runs = rows.runs[chosen]
    codes, pairs = joint_codes([rows.devices[chosen], runs])
    if len({device for device, _ in pairs}) == 1 or len({run for _, run in pairs}) < len(pairs):
        return runs
    begins = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(begins, codes, rows.begins_ps[chosen])
    count: dict[int, int] = {}
    numbers = np.zeros(len(pairs), np.int64)
    for place in np.argsort(begins, kind="stable").tolist():
        device = pairs[place][0]
        numbers[place] = count[device] = count.get(device, -1) + 1
    return numbers[codes]


def _numbered(steps: Iterable[Step]) -> Iterable[tuple[str, int]]:
    """The names of steps, with the number of earlier ones of the same name."""
    seen: dict[str, int] = {}
    for step in steps:
        seen[step.name] = seen.get(step.name, -1) + 1
        yield step.name, seen[step.name]


def join_hosts(hosts: Sequence[Stepped]) -> Stepped:
    """The steps of several hosts: equal names are one step, with the times of the first host that has it."""
    if len(hosts) == 1:
        return hosts[0]
    found: dict[tuple[str, int], Step] = {}
    parts, windows = [], []
    for host in hosts:
        keys = list(_numbered(host.steps))
        for key, step in zip(keys, host.steps, strict=True):
            before = found.setdefault(key, step)
            found[key] = replace(before, is_whole=before.is_whole and step.is_whole)
        places = {key: at for at, key in enumerate(found)}
        numbers = np.array([*(places[key] for key in keys), NO_STEP], np.int64)
        parts.append(numbers[host.codes])
        windows.append(replace(host.windows, steps=numbers[host.windows.steps]))
    names = ("steps", "devices", "begins_ps", "ends_ps")
    joined = StepWindows(*(np.concatenate([getattr(each, name) for each in windows]) for name in names))
    source: StepSource = next((h.source for h in hosts if h.steps), "annotation")
    return Stepped(tuple(found.values()), np.concatenate(parts), joined, source)


def mark_partial(stepped: Stepped, rows: Occurrences, operations: Integers) -> Stepped:
    """Marks the first and the last step as partial if the capture cuts them.

    On some device, such a step lacks operations that all other steps ran, and does not begin (the last: end) with an
    operation with which another step does: one that lacks operations only because it took another branch is whole.
    """
    steps = stepped.steps
    inside = np.flatnonzero(stepped.codes != NO_STEP)
    if len(steps) < 2 or not len(inside):
        return stepped
    groups = rows.devices[inside] * len(steps) + stepped.codes[inside]
    of_row, places = joint_codes([rows.devices[inside], operations[inside]])
    ran = np.unique(of_row * len(steps) + stepped.codes[inside])
    place, step = ran // len(steps), ran % len(steps)
    counts = np.bincount(place, minlength=len(places))
    edges = (
        _edges(groups, operations[inside], rows.begins_ps[inside]),
        _edges(groups, operations[inside], -rows.ends_ps[inside]),
    )
    found = list(steps)
    for at, edge in ((0, edges[0]), (len(steps) - 1, edges[1])):
        own = np.bincount(place[step == at], minlength=len(places))
        lacking = {places[each][0] for each in np.flatnonzero((own == 0) & (counts == len(steps) - 1)).tolist()}
        others = [other for other in range(len(steps)) if other != at]
        cut = [
            device
            for device in lacking
            if edge.get(device * len(steps) + at) not in {edge.get(device * len(steps) + other) for other in others}
        ]
        is_short = len(steps) > 2 or 2 * steps[at].duration_ps < max(each.duration_ps for each in steps)
        if is_short and cut:
            found[at] = replace(steps[at], is_whole=False)
    return replace(stepped, steps=tuple(found))


def _edges(groups: Integers, operations: Integers, times: Integers) -> Mapping[int, int]:
    """The operation of the least time of each group."""
    order = np.lexsort((times, groups))
    distinct, first = np.unique(groups[order], return_index=True)
    return dict(zip(distinct.tolist(), operations[order[first]].tolist(), strict=True))


def step_at(times: Integers, steps: Sequence[Step]) -> Integers:
    """The index of the step that each time lies in, `NO_STEP` if in none; steps are in order and do not overlap.

    >>> step_at(np.array([5, 15, 25]), (Step("0", 0, 10), Step("1", 20, 30))).tolist()
    [0, -1, 1]
    """
    if not steps:
        return np.full(len(times), NO_STEP, np.int64)
    starts, ends = (np.array([getattr(step, name) for step in steps], np.int64) for name in ("begin_ps", "end_ps"))
    at = np.searchsorted(starts, times, side="right") - 1
    return np.where((at >= 0) & (times < ends[np.maximum(at, 0)]), at, NO_STEP)
