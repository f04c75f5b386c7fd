"""Which device do the others wait for, at which collective, by how much, and why is it late?

A collective of a run begins on each of its devices; it cannot end before the last of them has begun. Times of devices
are compared, so that they must have one clock: those of TPUs and of several hosts do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.operation_times import is_transfer
from hlo_cli.analysis.profile.profile import NO_RUN, NO_STEP, Profile
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import PS, Integers, distinct_of

_MAX_GROUPED: Final = 4096  # devices of a trace, far above those of a host


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Rows of collectives that began before the last device of their execution did: the wait, and for which device.

    `latest` are the rows of those devices. `delays_ps` is by how much the last device came after the last one of those
    that waited for it, of which one row of each execution has the whole and all others nothing.
    """

    rows: Integers
    begins_ps: Integers
    ends_ps: Integers
    devices: Integers
    codes: Integers
    latest: Integers
    delays_ps: Integers

    def pairs(self, is_own: NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
        """The operations and the devices that the rows of a device waited for."""
        own = is_own[self.rows]
        return dict.fromkeys(zip(self.codes[own].tolist(), self.devices[own].tolist(), strict=True))


_NO_WAITS: Final = Waits(*(np.zeros(0, np.int64) for _ in range(7)))


def has_one_clock(profile: Profile) -> bool:
    """Whether the times of all devices can be compared."""
    return profile.platform != "TPU" and len(profile.traces) == 1


def waits_of(profile: Profile) -> Waits:
    """The waits of collectives; none where the clocks of devices differ.

    The n-th event of an operation in a run is the same collective on each device of a group of devices. One that ends
    before the last device has begun did not wait for it, as only some devices of a permute meet.
    """
    rows = profile.occurrences
    is_of_transfer = np.array([is_transfer(each) for each in profile.operations], bool)[profile.codes]
    known = np.flatnonzero(is_of_transfer & (rows.runs != NO_RUN))
    if not has_one_clock(profile) or not len(known):
        return _NO_WAITS
    known = known[np.lexsort((rows.begins_ps[known], rows.devices[known], rows.runs[known], profile.codes[known]))]
    begins, devices = rows.begins_ps[known], rows.devices[known]
    collective = np.stack((profile.codes[known], rows.runs[known]))
    is_first = np.append(True, (collective[:, 1:] != collective[:, :-1]).any(0) | (devices[1:] != devices[:-1]))
    places = np.arange(len(known))
    nth = places - np.maximum.accumulate(np.where(is_first, places, 0))
    partners = _partners(profile)[profile.codes[known], devices]
    groups = np.unique(np.vstack((collective, nth, partners)), axis=1, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((begins, groups))
    last = np.append(np.flatnonzero(np.diff(groups[order])), len(order) - 1)  # of each group, in order
    latest = order[last][groups]
    ends = np.minimum(begins[latest], rows.ends_ps[known])
    others = np.flatnonzero((rows.ends_ps[known] >= begins[latest]) & (places != latest))
    # The last of those that wait, in each group, by their begins.
    others = others[np.lexsort((begins[others], groups[others]))]
    is_last = np.append(np.diff(groups[others]) != 0, True)[: len(others)]
    delays = np.zeros(len(known), np.int64)
    delays[others[is_last]] = (begins[latest] - begins)[others[is_last]]
    waits = np.sort(others[ends[others] > begins[others]])
    return Waits(
        *(known[waits], begins[waits], ends[waits], devices[latest][waits], profile.codes[known][waits]),
        *(known[latest[waits]], delays[waits]),
    )


def has_unknown_groups(profile: Profile) -> bool:
    """Whether there are collectives of which no HLO says which of more than two devices meet."""
    return len(profile.devices) > 2 and any(  # two devices can only meet each other
        is_transfer(each) and each.instruction is None for each in profile.operations
    )


def waited_by_operation(profile: Profile) -> Sequence[float]:
    """How long devices waited for others in each operation, in seconds of all of them together."""
    waits = waits_of(profile)
    lengths = np.bincount(waits.codes, waits.ends_ps - waits.begins_ps, len(profile.operations)) * PS
    result: list[float] = lengths.tolist()
    return result


def _partners(profile: Profile) -> Integers:
    """The group of devices that each device is in, for each operation: by replica_groups, else all are one.

    In a permute, devices meet that its pairs connect. A device that takes no part is alone.
    """
    from hlo_cli.analysis.sharding.collectives import collectives_of  # most traces have no collective

    numbers = [_number_of(name) for name in profile.devices]
    found = np.zeros((len(profile.operations), len(numbers)), np.int64)
    modules = {each.program.module for each in profile.operations if each.program and each.program.module}
    groups_of = {
        instruction: _connected(each.pairs) if each.pairs else each.groups
        for module in modules
        for each in collectives_of(module)
        for instruction in (each.caller, each.instruction)
        if (each.pairs or each.groups) and each.device_count <= _MAX_GROUPED
    }
    for code, operation in enumerate(profile.operations):
        groups = groups_of.get(operation.instruction) if operation.instruction is not None else None
        of_device = {device: number for number, group in enumerate(groups or ()) for device in group}
        # Groups may name replicas, of which the trace of a partitioned program has none.
        if not of_device.keys().isdisjoint(numbers):
            found[code] = [of_device.get(number, -1 - place) for place, number in enumerate(numbers)]
    return found


def _connected(pairs: Iterable[Sequence[int]]) -> Sequence[Sequence[int]]:
    """The sets of devices that pairs connect.

    >>> _connected([(0, 1), (1, 2), (4, 5)])
    [[0, 1, 2], [4, 5]]
    """
    group_of: dict[int, list[int]] = {}
    for source, target in pairs:
        one, other = group_of.setdefault(source, [source]), group_of.setdefault(target, [target])
        if one is not other:
            large, small = (one, other) if len(one) >= len(other) else (other, one)  # only faster
            large += small
            group_of |= dict.fromkeys(small, large)
    return list({id(group): sorted(group) for group in group_of.values()}.values())


def _number_of(device: str) -> int:
    """The number in the name of a device, which is its id in groups; -1 without one.

    >>> _number_of("CPU:3")
    3
    """
    digits = device.rpartition(":")[2]
    return int(digits) if digits.isdecimal() else -1


# --- late devices ---


@dataclass(frozen=True, slots=True)
class LateDevice:
    """A device that others waited for at a collective: numbers of the operation and of the device.

    `delay` is the time by which it came after the last but one, in seconds of all of its `times`, which are in `steps`
    of the steps; without it, the step would be that much shorter. `step_delay` is the part of it in whole steps.
    `waited` is the time that all others waited. `cause` is the operation that, since the devices met last, took most
    more time on it than on the mean of the others, `cause_seconds` how much more; None if no operation explains half of
    the delay. A device `starts_late` if the begin of its runs explains that.
    """

    operation: int
    device: int
    times: int
    steps: int
    delay: float
    step_delay: float
    waited: float
    cause: int | None
    cause_seconds: float
    starts_late: bool = False


_EXPLAINED: Final = 0.5
"""The least part of a delay that an operation explains which is named as its cause."""


def late_devices(profile: Profile, waits: Waits) -> Sequence[LateDevice]:
    """The devices that others waited for, the greatest delay first."""
    count = len(profile.devices)
    pairs, numbers = distinct_of(waits.codes * count + waits.devices)
    lengths = waits.ends_ps - waits.begins_ps
    is_whole = np.array([each.is_whole for each in profile.steps], bool)
    step_codes = profile.step_codes[waits.rows]
    in_steps = step_codes != NO_STEP
    in_steps[in_steps] = is_whole[step_codes[in_steps]]
    meetings = _Meetings(profile, waits)
    found = []
    for number, pair in enumerate(pairs.tolist()):
        own = np.flatnonzero(numbers == number)
        operation, device = divmod(pair, count)
        steps = np.unique(step_codes[own])
        delay = int(waits.delays_ps[own].sum())
        cause, more = meetings.cause(own)
        is_explained = more >= _EXPLAINED * delay
        starting = waits.rows[own][meetings.is_first_of_run[waits.latest[own]]]
        found.append(
            LateDevice(
                operation,
                device,
                int((waits.delays_ps[own] > 0).sum()),
                int((steps != NO_STEP).sum()),
                delay * PS,
                int(waits.delays_ps[own][in_steps[own]].sum()) * PS,
                int(lengths[own].sum()) * PS,
                cause if is_explained else None,
                more * PS if is_explained else 0.0,
                not is_explained and _late_start(profile, device, starting) >= _EXPLAINED * delay,
            )
        )
    return sorted(found, key=lambda each: (-each.delay, each.operation, each.device))


class _Meetings:
    """The rows at which devices waited for each other, and what each device computed before each of them.

    What a device computed before it met the others is no reason to come late to the next collective.
    """

    def __init__(self, profile: Profile, waits: Waits) -> None:
        rows = profile.occurrences
        self._profile, self._waits = profile, waits
        meetings = np.unique(np.concatenate((waits.rows, waits.latest)))
        meetings = meetings[np.lexsort((rows.begins_ps[meetings], rows.devices[meetings]))]
        devices, runs = rows.devices[meetings], rows.runs[meetings]
        self.is_first_of_run = np.zeros(len(profile.codes), bool)
        is_new = np.append(True, (devices[1:] != devices[:-1]) | (runs[1:] != runs[:-1]))[: len(meetings)]
        self.is_first_of_run[meetings[is_new]] = True
        # What a transfer takes more is the wait itself.
        is_computing = ~np.array([is_transfer(each) for each in profile.operations], bool)[profile.codes]
        self._next = np.full(len(profile.codes), -1, np.int64)  # the row of the next meeting of each computing row
        for device in np.unique(devices).tolist():
            own = np.flatnonzero(is_computing & (rows.devices == device))
            of_device = meetings[devices == device]
            places = np.searchsorted(rows.begins_ps[of_device], rows.begins_ps[own])
            following = np.append(of_device, -1)[places]
            is_same_run = (following >= 0) & (rows.runs[following] == rows.runs[own])
            self._next[own[is_same_run]] = following[is_same_run]

    def cause(self, chosen: Integers) -> tuple[int | None, float]:
        """The operation that took most more time on the late device than on the mean of those that waited.

        Of the waits with these numbers, all for one device; the time is in picoseconds.
        """
        waits, count = self._waits, len(self._profile.operations)
        latest, sizes = np.unique(waits.latest[chosen], return_counts=True)
        # Each row that waits has its part of the mean of its execution.
        weights = np.zeros(len(self._profile.codes) + 1)  # the last one is of rows without a meeting
        weights[latest] = 1.0
        weights[waits.rows[chosen]] = -1.0 / sizes[np.searchsorted(latest, waits.latest[chosen])]
        weighted = self._profile.occurrences.self_ps * weights[self._next]
        more = np.bincount(self._profile.codes, weighted, count)
        most = int(more.argmax())
        return (most, float(more[most])) if more[most] > 0 else (None, 0.0)


def _late_start(profile: Profile, device: int, waiting: Integers) -> float:
    """By how much a device began the runs of some rows after the last other one did, in picoseconds of all runs."""
    rows = profile.occurrences
    if not len(waiting):
        return 0.0
    runs, numbers = distinct_of(rows.runs)
    first = np.full((len(runs), len(profile.devices)), np.iinfo(np.int64).max)
    np.minimum.at(first, (numbers, rows.devices), rows.begins_ps)
    of_runs = first[np.unique(numbers[waiting])]
    is_there = of_runs < np.iinfo(np.int64).max
    others = np.delete(np.where(is_there, of_runs, 0), device, axis=1).max(axis=1)
    later = np.where(is_there[:, device], of_runs[:, device] - others, 0)
    return float(np.maximum(later, 0).sum())
