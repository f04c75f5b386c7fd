"""In which step did each operation run? By annotations on the host, by the lines of TPUs, or by executions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.event_columns import integers, joint_codes, line_times, text
from hlo_cli.analysis.profile.profile import (
    NO_RUN,
    NO_STEP,
    NO_WINDOWS,
    Occurrences,
    Step,
    StepSource,
    StepWindows,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import (
    ABSENT,
    Integers,
    Line,
    distinct_of,
)

# --- steps ---
# On hosts, a step is an event with the statistic `step_num`, written by `StepTraceAnnotation`; a run belongs to the
# step in which it was launched. On TPUs, each core has a line of steps.


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


def host_steps(lines: Iterable[Line]) -> tuple[Step, ...]:
    """The annotated steps of a host, by time."""
    return outer_steps(chain.from_iterable(map(annotated_steps, lines)))


def outer_steps(annotated: Iterable[Step]) -> tuple[Step, ...]:
    """Annotated steps by time; an annotation inside another one is left out."""
    outer: list[Step] = []
    for step in sorted(annotated, key=lambda step: (step.begin_ps, -step.end_ps)):
        # JAX programs nest annotations, such as one step of an inner loop; the outer one is the step.
        if not outer or step.begin_ps >= outer[-1].end_ps:
            outer.append(step)
    return tuple(outer)


def annotated_steps(line: Line) -> Iterable[Step]:
    numbers = line.statistic("step_num")
    begins, durations = line_times(line)
    for event in np.flatnonzero(numbers.codes != ABSENT).tolist():
        begin = int(begins[event])
        yield Step(text(numbers.of(event)), begin, begin + int(durations[event]))


def launches(lines: Iterable[Line]) -> Mapping[int, int]:
    """When each run was launched, by its id: the begin of the first event on the host that names it."""
    launch_of_run: dict[int, int] = {}
    for line in lines:
        add_launches(line, launch_of_run)
    return launch_of_run


def add_launches(line: Line, launch_of_run: dict[int, int]) -> None:
    runs, ops = line.statistic("run_id"), line.statistic("hlo_op")
    # Operations name their run too; what names a run without an operation is its launch on the host.
    chosen = np.flatnonzero((runs.codes != ABSENT) & (ops.codes == ABSENT))
    begins = line_times(line)[0][chosen].tolist()
    for run, begin in zip(integers(runs, chosen, NO_RUN).tolist(), begins, strict=True):
        launch_of_run[run] = min(launch_of_run.get(run, begin), begin)


def steps_of_runs(rows: Occurrences, steps: tuple[Step, ...], launched: Mapping[int, int]) -> Stepped:
    """The step of each row: that in which its run was launched, or in which the run, or the row itself, begins."""
    begins = rows.begins_ps.copy()
    runs, inverse = distinct_of(rows.runs)
    first = np.full(len(runs), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, begins)
    for number, run in enumerate(runs.tolist()):
        # The launch decides, as kernels of a step may still run while the host is in the next one.
        first[number] = launched.get(run, first[number])
    known = rows.runs != NO_RUN
    begins[known] = first[inverse][known]
    return host_stepped(rows, steps, begins)


def host_stepped(rows: Occurrences, steps: tuple[Step, ...], times: Integers) -> Stepped:
    """The annotated steps of a host, where `times` place its rows in them; they are the same on all of its devices."""
    devices, _ = distinct_of(rows.devices)
    begins, ends = (np.array([getattr(step, name) for step in steps], np.int64) for name in ("begin_ps", "end_ps"))
    windows = StepWindows(
        np.tile(np.arange(len(steps)), len(devices)),
        np.repeat(devices, len(steps)),
        np.tile(begins, len(devices)),
        np.tile(ends, len(devices)),
    )
    return Stepped(steps, _step_numbers_at(times, steps), windows)


def steps_of_lines(devices: Sequence[DeviceSteps], rows: Occurrences, first: int) -> Stepped:
    """The steps of rows, of which the first one has the number `first`: each by the line of its core.

    Equal names are one step.
    """
    names: dict[tuple[str, int], int] = {}
    begins: list[int] = []
    ends: list[int] = []
    core_counts: list[int] = []
    codes = np.full(len(rows), NO_STEP, np.int64)
    core_steps: list[tuple[int, int, int, int]] = []
    for device in devices:
        row = device.first_row - first
        # steps may be by the clock of the host, and the operations by that of the device
        # What the first operation and its row are apart is how far the two clocks differ.
        ahead = int(rows.begins_ps[row] - device.begins[0]) if len(device.begins) else 0
        steps = sorted(device.steps, key=lambda step: (step.begin_ps, step.end_ps))
        numbers = []
        for key, step in zip(_numbered(steps), steps, strict=True):
            number = names.setdefault(key, len(names))
            if number == len(begins):
                begins.append(step.begin_ps)
                ends.append(step.end_ps)
                core_counts.append(0)
            begins[number], ends[number] = min(begins[number], step.begin_ps), max(ends[number], step.end_ps)
            core_counts[number] += 1
            numbers.append(number)
            core_steps.append((number, device.device, step.begin_ps + ahead, step.end_ps + ahead))
        step_numbers = _step_numbers_at(device.begins, steps)
        codes[row : row + len(step_numbers)] = np.array([*numbers, NO_STEP], np.int64)[step_numbers]
    with_steps = sum(bool(device.steps) for device in devices)
    steps = [
        # A step that some cores lack was cut by the capture.
        Step(name, begin, end, count == with_steps)
        for (name, _), begin, end, count in zip(names, begins, ends, core_counts, strict=True)
    ]
    order = sorted(range(len(steps)), key=lambda number: steps[number].begin_ps)
    places = np.array([*np.argsort(order).tolist(), NO_STEP], np.int64)
    step_of, device_of, first_ps, last_ps = np.array(core_steps, np.int64).reshape(-1, 4).T
    windows = StepWindows(places[step_of], device_of, first_ps, last_ps)
    return Stepped(tuple(steps[number] for number in order), places[codes], windows, "line")


def steps_of_executions(rows: Occurrences, is_chosen: NDArray[np.bool_] | None = None) -> Stepped:
    """One step for each execution of one program; none if executions are unknown.

    Without `is_chosen`, which selects the rows of a program, it is the program with the most self time.
    """
    known = rows.runs != NO_RUN
    chosen = np.flatnonzero(known & (_rows_of_longest(rows, known) if is_chosen is None else is_chosen))
    if not len(chosen):
        return Stepped((), np.full(len(rows), NO_STEP, np.int64), NO_WINDOWS)
    runs, inverse = distinct_of(shared_runs(rows, chosen))
    begins, ends = np.full(len(runs), np.iinfo(np.int64).max), np.full(len(runs), np.iinfo(np.int64).min)
    np.minimum.at(begins, inverse, rows.begins_ps[chosen])
    np.maximum.at(ends, inverse, rows.ends_ps[chosen])
    order = np.argsort(begins, kind="stable")
    steps = tuple(Step(str(number), int(begins[run]), int(ends[run])) for number, run in enumerate(order.tolist()))
    # Rows of other programs are in the step that is under way.
    codes = _step_numbers_at(rows.begins_ps, steps)
    codes[chosen] = np.argsort(order)[inverse]
    windows = _windows_of(rows, chosen, codes[chosen])
    return Stepped(steps, codes, windows, "executions")


def _rows_of_longest(rows: Occurrences, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows are of the program that takes the most self time in the rows whose executions are known."""
    programs = {
        pair: number for number, pair in enumerate(dict.fromkeys((key.program, key.module) for key in rows.keys))
    }
    of_row = np.array([programs[key.program, key.module] for key in rows.keys], np.int64)[rows.codes]
    if not known.any():
        return known
    # One program is the training step; others, such as those of metrics, run beside it.
    longest: NDArray[np.bool_] = of_row == np.bincount(of_row[known], rows.self_ps[known].astype(np.float64)).argmax()
    return longest


def _windows_of(rows: Occurrences, chosen: Integers, steps: Integers) -> StepWindows:
    """When the executions of the chosen rows began and ended on each device."""
    of_row, pairs = joint_codes([steps, rows.devices[chosen]])
    begins, ends = np.full(len(pairs), np.iinfo(np.int64).max), np.full(len(pairs), np.iinfo(np.int64).min)
    np.minimum.at(begins, of_row, rows.begins_ps[chosen])
    np.maximum.at(ends, of_row, rows.ends_ps[chosen])
    step_of, device_of = np.array(pairs, np.int64).reshape(-1, 2).T
    return StepWindows(step_of, device_of, begins, ends)


def shared_runs(rows: Occurrences, chosen: Integers) -> Integers:
    """The executions of rows of one program: by id, else, if devices share no id, by their number on each device."""
    runs = rows.runs[chosen]
    codes, pairs = joint_codes([rows.devices[chosen], runs])
    # Run ids are shared by devices on some platforms; elsewhere they only count.
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
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.name] = counts.get(step.name, -1) + 1
        yield step.name, counts[step.name]


def join_hosts(hosts: Sequence[Stepped]) -> Stepped:
    """The steps of several hosts: equal names are one step, with the times of the first host that has it."""
    if len(hosts) == 1:
        return hosts[0]
    steps: dict[tuple[str, int], Step] = {}
    parts, windows = [], []
    for host in hosts:
        keys = list(_numbered(host.steps))
        for key, step in zip(keys, host.steps, strict=True):
            before = steps.setdefault(key, step)
            # Whole on one host and cut on another: it is cut.
            steps[key] = replace(before, is_whole=before.is_whole and step.is_whole)
        places = {key: number for number, key in enumerate(steps)}
        numbers = np.array([*(places[key] for key in keys), NO_STEP], np.int64)
        parts.append(numbers[host.codes])
        windows.append(replace(host.windows, steps=numbers[host.windows.steps]))
    names = ("steps", "devices", "begins_ps", "ends_ps")
    joined = StepWindows(*(np.concatenate([getattr(each, name) for each in windows]) for name in names))
    source: StepSource = next((h.source for h in hosts if h.steps), "annotation")
    return Stepped(tuple(steps.values()), np.concatenate(parts), joined, source)


def mark_partial(stepped: Stepped, rows: Occurrences, operations: Integers) -> Stepped:
    """Marks the first and the last step as partial if the capture cuts them.

    On some device, such a step lacks operations that all other steps ran, and does not begin (the last: end) with an
    operation with which another step does: one that lacks operations only because it took another branch is whole.
    """
    steps = stepped.steps
    inside = np.flatnonzero(stepped.codes != NO_STEP)
    if len(steps) < 2 or not len(inside):
        return stepped
    edges = (
        _edges(rows.devices[inside] * len(steps) + stepped.codes[inside], operations[inside], times[inside])
        for times in (rows.begins_ps, -rows.ends_ps)
    )
    of_row, places = joint_codes([rows.devices[inside], operations[inside]])
    of_row *= len(steps)
    of_row += stepped.codes[inside]
    ran = distinct_of(of_row)[0]
    place, step = ran // len(steps), ran % len(steps)
    counts = np.bincount(place, minlength=len(places))
    marked = list(steps)
    for number, edge in zip((0, len(steps) - 1), edges, strict=True):
        counts_in_step = np.bincount(place[step == number], minlength=len(places))
        # An operation that runs in every step but this one is missing: the capture began later or ended earlier.
        lacking = {
            places[each][0] for each in np.flatnonzero((counts_in_step == 0) & (counts == len(steps) - 1)).tolist()
        }
        others = [other for other in range(len(steps)) if other != number]
        cut = [
            device
            for device in lacking
            # The first operation of a step tells as well: one that begins like the others has its beginning.
            if edge.get(device * len(steps) + number) not in {edge.get(device * len(steps) + other) for other in others}
        ]
        # With two steps nothing says which one is usual, so half of the longer one is required.
        is_short = len(steps) > 2 or 2 * steps[number].duration_ps < max(each.duration_ps for each in steps)
        if is_short and cut:
            marked[number] = replace(steps[number], is_whole=False)
    return replace(stepped, steps=tuple(marked))


def _edges(groups: Integers, operations: Integers, times: Integers) -> Mapping[int, int]:
    """The operation of the least time of each group."""
    order = np.lexsort((times, groups))
    distinct, first = np.unique(groups[order], return_index=True)
    return dict(zip(distinct.tolist(), operations[order[first]].tolist(), strict=True))


def _step_numbers_at(times: Integers, steps: Sequence[Step]) -> Integers:
    """The index of the step that each time lies in, `NO_STEP` if in none; steps are in order and do not overlap.

    >>> _step_numbers_at(np.array([5, 15, 25]), (Step("0", 0, 10), Step("1", 20, 30))).tolist()
    [0, -1, 1]
    """
    if not steps:
        return np.full(len(times), NO_STEP, np.int64)
    starts, ends = (np.array([getattr(step, name) for step in steps], np.int64) for name in ("begin_ps", "end_ps"))
    candidate = np.searchsorted(starts, times, side="right") - 1
    # Ends are exclusive: steps follow each other without a gap.
    return np.where((candidate >= 0) & (times < ends[np.maximum(candidate, 0)]), candidate, NO_STEP)
