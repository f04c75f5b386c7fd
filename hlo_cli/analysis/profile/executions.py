"""Which executions of which programs ran, and may those of one stand for steps?

Without annotated steps, the executions of the program with the most time are the steps. That is right where all other
programs run beside it, once a step. A server runs its programs in turn: one execution of a prefill, then many of a
decode. There each program has executions of its own, and no mean or median may mix them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.measure import sorted_median
from hlo_cli.analysis.profile.profile import (
    NO_RUN,
    NO_STEP,
    MeasuredProgram,
    Occurrences,
    Profile,
    StepWindows,
    busy_of,
    part_of,
    rows_at,
    shared_times,
)
from hlo_cli.analysis.profile.steps import join_hosts, mark_partial, shared_runs, steps_of_executions
from hlo_cli.dataclass import brief_count, dataclass
from hlo_cli.ir.traces.trace import PS, Integers, distinct_of
from hlo_cli.source import HloError

# --- executions by program ---


@dataclass(frozen=True, slots=True, eq=False)
class ProgramExecutions:
    """The whole executions of a program in the order of time, each from its first operation to its last on any device.

    `is_step` says that they are the steps of the profile, of which alone it is known that the capture cuts `partial`
    ones. `seconds` is the time of all devices in which operations of the program ran, without that of operations inside
    others.
    """

    program: MeasuredProgram
    durations_ps: Integers = field(repr=False)
    partial: int
    seconds: float
    is_step: bool

    def __len__(self) -> int:
        return len(self.durations_ps)

    @property
    def median(self) -> float | None:
        """The median duration, in seconds; None without whole executions, and of two, where it is that of neither."""
        return sorted_median(np.sort(self.durations_ps)) * PS if len(self) not in (0, 2) else None

    @property
    def first(self) -> float | None:
        """The duration of the first one, in seconds."""
        return int(self.durations_ps[0]) * PS if len(self) else None

    @property
    def greatest(self) -> float | None:
        """The longest duration, in seconds."""
        return int(self.durations_ps.max()) * PS if len(self) else None


def executions_by_program(profile: Profile) -> Sequence[ProgramExecutions]:
    """The executions of each program, those that take most time first; none of programs whose runs are unknown.

    >>> from hlo_cli import profile
    >>> found = executions_by_program(profile("fixtures/traces/cpu_steps/trace.xplane.pb"))
    >>> [(each.program.name, len(each), each.partial) for each in found]
    [('jit_train_step', 5, 0), ('jit_normalize', 10, 0)]
    """
    rows, numbers = profile.occurrences, program_numbers(profile)
    steps = profile.steps
    found = []
    for number, program in enumerate(profile.programs):
        own = np.flatnonzero((numbers == number) & (rows.runs != NO_RUN))
        if not len(own):
            continue
        begins, durations = _executions_of(profile, own)
        is_step = profile.step_source == "executions" and begins.tolist() == [step.begin_ps for step in steps]
        is_whole = np.array([step.is_whole for step in steps]) if is_step else np.ones(len(begins), np.bool_)
        seconds = float(rows.self_ps[own].sum()) * PS
        partial = int((~is_whole).sum())
        found.append(ProgramExecutions(program, durations[is_whole], partial, seconds, is_step))
    return sorted(found, key=lambda each: (-each.seconds, each.program.name))


def _executions_of(profile: Profile, own: Integers) -> tuple[Integers, Integers]:
    """When the executions of rows of one program begin, and how long they are, by the clock of the first host."""
    rows = profile.occurrences
    begins, durations = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for first, end in profile.traced_rows or ((0, len(rows)),):
        of_host = own[(own >= first) & (own < end)]
        if not len(of_host):
            continue
        runs, inverse = distinct_of(shared_runs(rows, of_host))
        starts, stops = np.full(len(runs), np.iinfo(np.int64).max), np.full(len(runs), np.iinfo(np.int64).min)
        np.minimum.at(starts, inverse, rows.begins_ps[of_host])
        np.maximum.at(stops, inverse, rows.ends_ps[of_host])
        in_time = np.argsort(starts, kind="stable")[len(begins) :]
        # Hosts run the same executions; one adds only those that the hosts before lack.
        begins = np.concatenate((begins, starts[in_time]))
        durations = np.concatenate((durations, (stops - starts)[in_time]))
    return begins, durations


def program_numbers(profile: Profile) -> Integers:
    """The program of each row, as index into `Profile.programs`; -1 for kernels of none."""
    numbers = {program: number for number, program in enumerate(profile.programs)}
    of_operation = [numbers.get(each.program, -1) if each.program else -1 for each in profile.operations]
    return np.array([*of_operation, -1], np.int64)[profile.codes]


WORTH_NAMING: Final = 0.01
"""The smallest part of the time of all executions with which a program is named: tables have whole percents."""


def main_programs(every: Sequence[ProgramExecutions]) -> Sequence[ProgramExecutions]:
    """The programs that take a part of the time that is worth naming."""
    whole = sum(each.seconds for each in every)
    return [each for each in every if each.seconds >= WORTH_NAMING * whole]


def runs_in_turn(profile: Profile) -> bool:
    """Whether several programs run, and not each of them once a step: executions of one are then no steps.

    Steps that the program or the device marks are steps whatever runs in them.
    """
    if profile.step_source != "executions":
        return False
    counts = [len(each) + each.partial for each in main_programs(executions_by_program(profile))]
    # The capture may begin or end between two programs of a step.
    return len(counts) > 1 and max(counts) - min(counts) > 1


def executions_of_others(profile: Profile, count: int) -> tuple[Integers, NDArray[np.bool_]]:
    """The executions of the program of each operation, and which rows are of another one than that of the steps.

    They are `count` for that program, and for kernels whose executions are unknown.
    """
    numbers = program_numbers(profile)
    others = [each for each in executions_by_program(profile) if not each.is_step]
    counts = {each.program: len(each) for each in others}
    of_program = [counts.get(each.program, count) if each.program else count for each in profile.operations]
    chosen = np.array([*(program in counts for program in profile.programs), False])
    return np.array(of_program, np.int64), chosen[numbers] & (profile.occurrences.runs != NO_RUN)


# --- the executions of a chosen program ---


def steps_of_program(profile: Profile, program: MeasuredProgram) -> Profile:
    """The profile whose steps are the executions of a program, if it has no marked steps and knows those executions."""
    numbers = program_numbers(profile)
    is_own = numbers == profile.programs.index(program)
    rows = profile.occurrences
    if profile.step_source != "executions" or not (is_own & (rows.runs != NO_RUN)).any():
        return profile
    parts = profile.traced_rows or ((0, len(rows)),)
    stepped = join_hosts([steps_of_executions(part_of(rows, *part), is_own[slice(*part)]) for part in parts])
    stepped = mark_partial(stepped, rows, profile.codes)
    return replace(profile, steps=stepped.steps, step_codes=stepped.codes, windows=stepped.windows)


# --- warm-up ---


WARM_UP_RATIO: Final = 3.0
"""A first step of more than so many times the median is warm-up: compiling, first touch of memory, and cold caches take
many times a step, while steps of one program rarely vary threefold."""
_MIN_OTHERS: Final = 3
"""The fewest steps after it whose median is that of a usual step."""


def warm_up_steps(profile: Profile) -> int:
    """How many of the first steps are warm-up: each takes more than `WARM_UP_RATIO` times the median of those after it.

    A slow step later on is no warm-up, and executions of programs that run in turn are none that can be omitted.

    >>> from hlo_cli import profile
    >>> warm_up_steps(profile("fixtures/traces/cpu_steps/trace.xplane.pb"))
    0
    """
    if (profile.occurrences.counts != 1).any() or runs_in_turn(profile):
        return 0
    steps = profile.steps
    for first, step in enumerate(steps):
        others = np.sort([each.duration_ps for each in steps[first + 1 :] if each.is_whole]).astype(np.int64)
        # What is left has to be most of the trace: else there is no usual step to compare with.
        is_slow = len(others) >= max(_MIN_OTHERS, first + 1) and step.duration_ps > WARM_UP_RATIO * sorted_median(
            others
        )
        if not is_slow:
            return first
    return 0


def without_first_steps(profile: Profile, count: int) -> Profile:
    """The profile from the step of index `count` on: without the operations of the steps before, and their time.

    What ran in no step is left out, too, if it began before. HloError if no step would be left.
    """
    if not count:
        return profile
    if count >= len(profile.steps):
        there = "the trace has no steps" if not profile.steps else f"the trace has {len(profile.steps):,}"
        raise HloError(f"cannot omit {brief_count(count, 'steps')}: {there}")
    rows, windows = profile.occurrences, profile.windows
    is_kept = windows.steps >= count
    cut = np.full(len(profile.devices), np.iinfo(np.int64).max)
    np.minimum.at(cut, windows.devices[is_kept], windows.begins_ps[is_kept])
    in_none = (profile.step_codes == NO_STEP) & (rows.begins_ps >= cut[rows.devices])
    chosen = np.flatnonzero((profile.step_codes >= count) | in_none)
    kept = rows_at(rows, chosen)
    used, codes = distinct_of(profile.codes[chosen])
    left = StepWindows(
        windows.steps[is_kept] - count, windows.devices[is_kept], windows.begins_ps[is_kept], windows.ends_ps[is_kept]
    )
    step_codes = profile.step_codes[chosen]
    sparse = profile.sparse_core
    return replace(
        profile,
        operations=tuple(profile.operations[number] for number in used.tolist()),
        occurrences=kept,
        codes=codes,
        steps=profile.steps[count:],
        step_codes=np.where(step_codes == NO_STEP, NO_STEP, step_codes - count),
        windows=left,
        spans_ps=_spans_without(rows, chosen, kept, left, cut),
        call_weights=None if profile.call_weights is None else profile.call_weights[chosen],
        shared_ps=shared_times(kept),
        sparse_core=None if sparse is None or len(sparse.steps) <= count else without_first_steps(sparse, count),
        traced_rows=tuple(
            (int(first), int(end)) for first, end in np.searchsorted(chosen, np.array(profile.traced_rows, np.int64))
        ),
    )


def _spans_without(
    rows: Occurrences, chosen: Integers, kept: Occurrences, windows: StepWindows, cut: Integers
) -> tuple[int, ...]:
    """The time of each device from its first step that is left, without what of earlier ones still ran then."""
    is_dropped = np.ones(len(rows), np.bool_)
    is_dropped[chosen] = False
    begins, ends = cut.copy(), np.full(len(cut), np.iinfo(np.int64).min)
    # Kernels of a GPU run long after the host has gone on to the next step.
    np.maximum.at(begins, rows.devices[is_dropped], rows.ends_ps[is_dropped])
    np.minimum.at(begins, kept.devices, kept.begins_ps)
    np.maximum.at(ends, kept.devices, kept.ends_ps)
    np.maximum.at(ends, windows.devices, windows.ends_ps)
    busy = (each.length for each in busy_of(kept))
    return tuple(
        max(end - begin, length, 0) for begin, end, length in zip(begins.tolist(), ends.tolist(), busy, strict=True)
    )


# --- the usual step ---


def median_step(profile: Profile) -> int | None:
    """The whole step whose duration is nearest to the median, the first of equals; None without whole steps."""
    whole_steps = [number for number, step in enumerate(profile.steps) if step.is_whole]
    if not whole_steps:
        return None
    durations = [profile.steps[number].duration_ps for number in whole_steps]
    # The lower median, which is one of the steps: of two, the slower one is rather that of a cold start.
    middle = sorted(durations)[(len(durations) - 1) // 2]
    return min(whole_steps, key=lambda number: (abs(profile.steps[number].duration_ps - middle), number))
