"""The steps of a trace, and the step of each timed operation.

On hosts, a step is an event with the statistic `step_num`, written by `StepTraceAnnotation`; a run belongs to the step
in which it was launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from hlo_cli.analysis.profile.occurrences import NO_RUN, Occurrences
from hlo_cli.analysis.profile.profile import NO_STEP, Step
from hlo_cli.ir.traces.trace import ABSENT, Integers, Line, Plane


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
    for at in np.flatnonzero(numbers.codes != ABSENT).tolist():
        begin = int(line.begins_ps[at])
        yield Step(str(numbers.of(at)), begin, begin + int(line.events.durations_ps[at]))


def launches(plane: Plane) -> Mapping[int, int]:
    """When each run was launched, by its id: the begin of the first event on the host that names it."""
    found: dict[int, int] = {}
    for line in plane.lines:
        runs, ops = line.statistic("run_id"), line.statistic("hlo_op")
        for at in np.flatnonzero((runs.codes != ABSENT) & (ops.codes == ABSENT)).tolist():
            run, begin = runs.of(at), int(line.begins_ps[at])
            if isinstance(run, int):
                found[run] = min(found.get(run, begin), begin)
    return found


def steps_of_runs(occurrences: Occurrences, steps: tuple[Step, ...], launched: Mapping[int, int]) -> Integers:
    """The step of each row: that in which its run was launched, or in which the run, or the row itself, begins."""
    if not steps:
        return np.full(len(occurrences), NO_STEP, np.int64)
    begins = occurrences.begins_ps.copy()
    runs, inverse = np.unique(occurrences.runs, return_inverse=True)
    first = np.full(len(runs), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, begins)
    for at, run in enumerate(runs.tolist()):
        first[at] = launched.get(run, first[at])
    known = occurrences.runs != NO_RUN
    begins[known] = first[inverse][known]
    return step_at(begins, steps)


def step_at(times: Integers, steps: tuple[Step, ...]) -> Integers:
    """The index of the step that each time lies in, `NO_STEP` if in none; steps are in order and do not overlap.

    >>> step_at(np.array([5, 15, 25]), (Step("0", 0, 10), Step("1", 20, 30))).tolist()
    [0, -1, 1]
    """
    starts, ends = (np.array([getattr(step, name) for step in steps], np.int64) for name in ("begin_ps", "end_ps"))
    at = np.searchsorted(starts, times, side="right") - 1
    return np.where((at >= 0) & (times < ends[np.maximum(at, 0)]), at, NO_STEP)
