"""What did the host of a TPU do, by the clock of the device? Each core has a clock of its own, which no event states.

The profiler places events of a core on the time of the host, too, which tells how far the two clocks are apart. The
runtime bounds the error: a program does not begin before the host has enqueued it, and the host is not called back
before it has ended. Where these events contradict the profiler, they count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from hlo_cli.analysis.profile.event_columns import HOST, integers, line_times
from hlo_cli.analysis.profile.events import MODULES, OPS, clock_of, core_of
from hlo_cli.analysis.profile.host_work import host_work
from hlo_cli.analysis.profile.profile import NO_RUN, HostWork, Intervals
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import ABSENT, PS, Plane, Trace

_ENQUEUED: Final = ("DoEnqueueProgram", "DoEnqueueContinuationProgram")
_COMPLETED: Final = ("CompleteCallbacks",)
"""Events of the runtime with the id of an execution: tsl/profiler/utils/xplane_schema.cc."""
_RUN_IDS: Final = 1 << 28
"""Devices have the last 28 bits of the ids that hosts have (`HostRunIdMutator` of tsl/profiler/utils)."""
_ANY_DEVICE: Final = -1  # events that do not name their device
_FAR: Final = 1 << 62  # no bound; all times are below, see events._MAX_TIME


@dataclass(frozen=True, slots=True)
class HostClock:
    """How far the host is ahead of the clock of a core: `ahead_ps`, None if it cannot be known.

    `corrected_ps` is how much of it is due to the `runs` of the runtime, because the profiler contradicts them;
    `error_ps` is how far the true value may be from it, None if the runs have only begins (`is_enqueued`) or only ends
    (`is_reported`): then the correction is the least one.
    """

    ahead_ps: int | None
    corrected_ps: int = 0
    error_ps: int | None = None
    runs: int = 0
    is_enqueued: bool = False
    is_reported: bool = False

    @property
    def condition(self) -> str:
        """What holds for the runs by this clock, in words."""
        parts = (("after they are enqueued", self.is_enqueued), ("before they are reported", self.is_reported))
        return " and ".join(words for words, is_known in parts if is_known)


def hosts_of_cores(trace: Trace, host: str, devices: Sequence[str]) -> tuple[Mapping[str, HostWork], Sequence[str]]:
    """What the host did by the clock of each of the cores, where that is known, and notes on the clocks.

    `host` is what the names of the devices of this trace begin with.
    """
    work = host_work(trace)
    if work is None:
        return {}, ()
    launched, completed = (_runs_of_host(trace, names) for names in (_ENQUEUED, _COMPLETED))
    span = _span_of_host(trace)
    works: dict[str, HostWork] = {}
    clocks: dict[str, HostClock] = {}
    for plane in trace.planes:
        core = core_of(plane)
        if core is not None and host + core in devices:
            clocks[core] = clock = _host_clock(plane, launched, completed, span)
            if clock.ahead_ps is not None:
                works[host + core] = _shifted(work, clock.ahead_ps)
    return works, tuple(_notes(clocks))


def _notes(clocks: Mapping[str, HostClock]) -> Iterator[str]:
    unknown = [core for core, clock in clocks.items() if clock.ahead_ps is None]
    if unknown:
        yield f"the clock of the host is unknown for {unknown[0]}{_more(unknown)}: what the host did is omitted"
    moved = {core: clock for core, clock in clocks.items() if clock.ahead_ps is not None and clock.corrected_ps}
    if moved:
        core, clock = max(moved.items(), key=lambda each: abs(each[1].corrected_ps))
        error = "" if clock.error_ps is None else f" (± {clock.error_ps * PS * 1e6:,.0f} µs)"
        least = "at least " if clock.error_ps is None else ""
        milliseconds = abs(clock.corrected_ps) * PS * 1e3
        words = (
            f"the clock of the host is corrected by {least}{milliseconds:.3g} ms{error} for {core}{_more(list(moved))}"
        )
        yield f"{words}, so that {clock.runs} programs run {clock.condition}"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _host_clock(plane: Plane, launched: _Runs, completed: _Runs, span: tuple[int, int]) -> HostClock:
    """The clock of a core: by the profiler, within the bounds of the runtime."""
    ops = next((line for line in plane.lines if line.name == OPS and len(line.events)), None)
    if ops is None:
        return HostClock(None)
    clock = clock_of(ops)
    ahead = int(np.median(clock.host_begins - clock.begins))
    number = int((core_of(plane) or "").rpartition(":")[2] or _ANY_DEVICE)
    least, most, runs = _bounds(plane, number, launched, completed)
    if least > most:
        return HostClock(None)  # no distance satisfies all runs: the ids do not mean what they seem to
    if not runs:
        # The profiler alone: believable if the device ran while the host was recorded.
        first, last = int(clock.host_begins.min()), int(clock.host_begins.max())
        return HostClock(ahead if span[0] <= first and last <= span[1] else None)
    corrected = min(max(0, least), most)
    is_enqueued, is_reported = least > -_FAR, most < _FAR
    error = most - least if is_enqueued and is_reported else None
    return HostClock(ahead + corrected, corrected, error, runs, is_enqueued, is_reported)


def _bounds(plane: Plane, number: int, launched: _Runs, completed: _Runs) -> tuple[int, int, int]:
    """By how much the events of a core may be too early on the time of the host, at least and at most."""
    least, most, runs = -_FAR, _FAR, 0
    for line in plane.lines:
        if line.name not in MODULES or not len(line.events):
            continue
        begins, durations = line_times(line)
        ids = integers(line.statistic("run_id"), np.arange(len(begins)), NO_RUN).tolist()
        for id, begin, duration in zip(ids, begins.tolist(), durations.tolist(), strict=True):
            enqueued, reported = launched.first(id, number), completed.last(id, number)
            runs += enqueued is not None or reported is not None
            if enqueued is not None:
                least = max(least, enqueued - begin)
            if reported is not None:
                most = min(most, reported - begin - duration)
    return least, most, runs


@dataclass(frozen=True, slots=True)
class _Runs:
    """When the runtime had an event of each execution on each device: the first begin, and the last end."""

    begins: Mapping[tuple[int, int], int]
    ends: Mapping[tuple[int, int], int]

    def first(self, run: int, device: int) -> int | None:
        """The first begin for an execution; None if there is none."""
        return _of_either(self.begins, run, device)

    def last(self, run: int, device: int) -> int | None:
        """The last end for an execution; None if there is none."""
        return _of_either(self.ends, run, device)


def _of_either(times: Mapping[tuple[int, int], int], run: int, device: int) -> int | None:
    if run == NO_RUN:
        return None
    key = run % _RUN_IDS
    return times.get((key, device), times.get((key, _ANY_DEVICE)))


def _runs_of_host(trace: Trace, names: Iterable[str]) -> _Runs:
    begins: dict[tuple[int, int], int] = {}
    ends: dict[tuple[int, int], int] = {}
    host = trace.plane(HOST)
    for line in () if host is None else host.lines:
        wanted = [kind for kind, each in line.kinds.items() if each.name in names]
        runs = line.statistic("run_id")
        chosen = np.flatnonzero(np.isin(line.events.kinds, wanted) & (runs.codes != ABSENT))
        times, durations = line_times(line)
        for run, device, begin, duration in zip(
            integers(runs, chosen, NO_RUN).tolist(),
            integers(line.statistic("device_ordinal"), chosen, _ANY_DEVICE).tolist(),
            times[chosen].tolist(),
            durations[chosen].tolist(),
            strict=True,
        ):
            key = run % _RUN_IDS, device
            begins[key] = min(begins.get(key, begin), begin)
            ends[key] = max(ends.get(key, begin + duration), begin + duration)
    return _Runs(begins, ends)


def _span_of_host(trace: Trace) -> tuple[int, int]:
    """When the first event of the host begins, and the last one ends."""
    host = trace.plane(HOST)
    times = [line_times(line) for line in (() if host is None else host.lines) if len(line.events)]
    if not times:
        return 0, 0
    return min(int(begins.min()) for begins, _ in times), max(
        int((begins + lengths).max()) for begins, lengths in times
    )


def _shifted(work: HostWork, ahead: int) -> HostWork:
    """The work by a clock that the host is ahead of."""
    return replace(
        work,
        begins_ps=work.begins_ps - ahead,
        ends_ps=work.ends_ps - ahead,
        copies=Intervals(work.copies.begins - ahead, work.copies.ends - ahead),
    )
