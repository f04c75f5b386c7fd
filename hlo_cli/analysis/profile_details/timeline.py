"""What ran when: the events of one step, and how busy each line of a device was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.intervals import union
from hlo_cli.analysis.profile.profile import PS, Operation, Profile
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Integers


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of a device: a thread or a stream."""

    device: str
    line: str


@dataclass(frozen=True, slots=True)
class Slot:
    """One event: its lane, its operation, and its begin after that of the window and its duration, in picoseconds."""

    lane: int
    operation: Operation
    begin_ps: int
    duration_ps: int


@dataclass(frozen=True, slots=True)
class Window:
    """The events from `begin_ps` to `end_ps` of the trace, in the order of time, with the lanes that have any."""

    profile: Profile
    begin_ps: int
    end_ps: int
    rows: Integers
    lanes: Sequence[Lane]
    lane_codes: Integers

    @property
    def seconds(self) -> float:
        """The length of the window."""
        return (self.end_ps - self.begin_ps) * PS

    def slots(self) -> Sequence[Slot]:
        """The events, of which those that begin earlier or end later are cut."""
        occurrences, rows = self.profile.occurrences, self.rows
        begins = np.maximum(occurrences.begins_ps[rows], self.begin_ps)
        ends = np.minimum(occurrences.ends_ps[rows], self.end_ps)
        columns = self.lane_codes, self.profile.codes[rows], begins - self.begin_ps, ends - begins
        operations = self.profile.operations
        listed = zip(*(each.tolist() for each in columns), strict=True)
        return [Slot(lane, operations[code], begin, duration) for lane, code, begin, duration in listed]

    def busy(self, lane: int, parts: int) -> Sequence[float]:
        """The busy fraction of each of `parts` equal parts of the window, in a lane."""
        chosen = self.rows[self.lane_codes == lane]
        occurrences = self.profile.occurrences
        found = union(occurrences.begins_ps[chosen], occurrences.ends_ps[chosen])
        edges = np.linspace(self.begin_ps, self.end_ps, parts + 1).astype(np.int64)
        lengths = np.maximum(edges[1:] - edges[:-1], 1)
        fractions: list[float] = (found.covered(edges[:-1], edges[1:]) / lengths).tolist()
        return fractions


def window_of(profile: Profile, step: int | None) -> Window:
    """The window of a step, as an index into `Profile.steps`, with all that ran in it; of the trace without one.

    It begins with the step or with the first event that belongs to it, and ends with the last of them.
    """
    occurrences = profile.occurrences
    shared = _of_first_host(profile)
    own = shared if step is None else shared & (profile.step_codes == step)
    bounds = [] if step is None else [profile.steps[step].begin_ps, profile.steps[step].end_ps]
    begins = occurrences.begins_ps[own]
    begin = min([*bounds[:1], *([int(begins.min())] if len(begins) else [])], default=0)
    end = max([*bounds[1:], *([int(occurrences.ends_ps[own].max())] if len(begins) else [])], default=0)
    rows = np.flatnonzero(own | (shared & (occurrences.begins_ps < end) & (occurrences.ends_ps > begin)))
    rows = rows[np.lexsort((-occurrences.durations_ps[rows], occurrences.begins_ps[rows]))].astype(np.int64)
    pairs = np.stack((occurrences.devices[rows], occurrences.lines[rows]))
    distinct, codes = np.unique(pairs, axis=1, return_inverse=True)
    lanes = [Lane(occurrences.device_names[a], occurrences.line_names[b]) for a, b in distinct.T.tolist()]
    return Window(profile, begin, end, rows, lanes, codes.reshape(-1).astype(np.int64))


def host_of(profile: Profile) -> str:
    """The host whose devices a window shows, as clocks of hosts differ; empty if there is only one.

    The names of devices begin with their host.
    """
    names = profile.occurrences.device_names
    return names[0].rpartition(" ")[0] if len(profile.traces) > 1 and names else ""


def _of_first_host(profile: Profile) -> NDArray[np.bool_]:
    """Whether each row is of a device of the first host."""
    host = host_of(profile)
    there = [not host or name.rpartition(" ")[0] == host for name in profile.occurrences.device_names]
    return np.array(there, np.bool_)[profile.occurrences.devices]


def median_step(profile: Profile) -> int | None:
    """The whole step whose duration is nearest to the median, the first of equals; None without whole steps."""
    whole = [at for at, step in enumerate(profile.steps) if step.is_whole]
    if not whole:
        return None
    durations = [profile.steps[at].duration_ps for at in whole]
    middle = sorted(durations)[len(durations) // 2]
    return min(whole, key=lambda at: (abs(profile.steps[at].duration_ps - middle), at))
