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

_MOST_GROUPED: Final = 4096  # devices of a trace, far above those of a host


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Rows of collectives that began before the last device of their execution did: the wait, and for which device.

    `groups` number the executions of collectives; `delays_ps` is by how much the last device came after the last but
    one, of which one row of each execution has the whole and all others nothing.
    """

    rows: Integers
    begins_ps: Integers
    ends_ps: Integers
    devices: Integers
    codes: Integers
    delays_ps: Integers

    def pairs(self, is_own: NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
        """The operations and the devices that the rows of a device waited for."""
        own = is_own[self.rows]
        return dict.fromkeys(zip(self.codes[own].tolist(), self.devices[own].tolist(), strict=True))


_NO_WAITS: Final = Waits(*(np.zeros(0, np.int64) for _ in range(6)))


def has_one_clock(profile: Profile) -> bool:
    """Whether the times of all devices can be compared."""
    return profile.platform != "TPU" and len(profile.traces) == 1


def waits_of(profile: Profile) -> Waits:
    """The waits of collectives; none where the clocks of devices differ.

    The n-th event of an operation in a run is the same collective on each device of a group of devices.
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
    # The last but one of each group is before the last one, if it is of the same group.
    before = np.where(last > 0, order[np.maximum(last - 1, 0)], order[last])
    is_pair = (last > 0) & (groups[before] == groups[order[last]])
    delays = np.zeros(len(known), np.int64)
    delays[before[is_pair]] = (begins[order[last]] - begins[before])[is_pair]
    waits = ends > begins
    return Waits(
        *(known[waits], begins[waits], ends[waits]),
        *(devices[latest][waits], profile.codes[known][waits], delays[waits]),
    )


def waited_by_operation(profile: Profile) -> Sequence[float]:
    """How long devices waited for others in each operation, in seconds of all of them together."""
    waits = waits_of(profile)
    lengths = np.bincount(waits.codes, waits.ends_ps - waits.begins_ps, len(profile.operations)) * PS
    result: list[float] = lengths.tolist()
    return result


def _partners(profile: Profile) -> Integers:
    """The group of devices that each device is in, for each operation: by replica_groups, else all are one."""
    from hlo_cli.analysis.sharding.collectives import collectives_of  # most traces have no collective

    numbers = [_number_of(name) for name in profile.devices]
    found = np.zeros((len(profile.operations), len(numbers)), np.int64)
    modules = {each.program.module for each in profile.operations if each.program and each.program.module}
    groups_of = {
        instruction: each.groups
        for module in modules
        for each in collectives_of(module)
        for instruction in (each.caller, each.instruction)
        # all participants of a permute meet
        if each.groups is not None and not each.pairs and len(each.groups) > 1 and each.device_count <= _MOST_GROUPED
    }
    for code, operation in enumerate(profile.operations):
        groups = groups_of.get(operation.instruction) if operation.instruction is not None else None
        if groups is not None:
            of_device = {device: number for number, group in enumerate(groups) for device in group}
            found[code] = [of_device.get(number, -1) for number in numbers]
    return found


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
    of the steps; without it, the step would be that much shorter. `waited` is the time that all others waited. `cause`
    is the operation that took most more time on it than on the mean of the others, `cause_seconds` how much more;
    None if no operation explains half of the delay. A device `starts_late` if the begin of its runs explains that.
    """

    operation: int
    device: int
    times: int
    steps: int
    delay: float
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
    found = []
    for number, pair in enumerate(pairs.tolist()):
        own = np.flatnonzero(numbers == number)
        operation, device = divmod(pair, count)
        steps = np.unique(profile.step_codes[waits.rows[own]])
        steps = steps[steps != NO_STEP]
        delay = int(waits.delays_ps[own].sum())
        times = int((waits.delays_ps[own] > 0).sum())
        cause, more = _cause(profile, device, steps)
        is_explained = more >= _EXPLAINED * delay
        found.append(
            LateDevice(
                operation,
                device,
                times,
                len(steps),
                delay * PS,
                int(lengths[own].sum()) * PS,
                cause if is_explained else None,
                more * PS if is_explained else 0.0,
                not is_explained and _late_start(profile, device, waits.rows[own]) >= _EXPLAINED * delay,
            )
        )
    return sorted(found, key=lambda each: (-each.delay, each.operation, each.device))


def _cause(profile: Profile, device: int, steps: Integers) -> tuple[int | None, float]:
    """The operation that takes most more time on a device than on the mean of the others, in picoseconds."""
    rows, count = profile.occurrences, len(profile.operations)
    chosen = np.isin(profile.step_codes, steps) if len(steps) else np.ones(len(profile.codes), bool)
    # What a transfer takes more is the wait itself.
    chosen &= ~np.array([is_transfer(each) for each in profile.operations], bool)[profile.codes]
    is_own = chosen & (rows.devices == device)
    others = chosen & (rows.devices != device)
    own, other = (np.bincount(profile.codes[each], rows.self_ps[each], count) for each in (is_own, others))
    more = own - other / max(len(profile.devices) - 1, 1)
    most = int(more.argmax())
    return (most, float(more[most])) if more[most] > 0 else (None, 0.0)


def _late_start(profile: Profile, device: int, waiting: Integers) -> float:
    """By how much a device began the runs of some rows after the last other one did, in picoseconds of all runs."""
    rows = profile.occurrences
    runs, numbers = distinct_of(rows.runs)
    first = np.full((len(runs), len(profile.devices)), np.iinfo(np.int64).max)
    np.minimum.at(first, (numbers, rows.devices), rows.begins_ps)
    of_runs = first[np.unique(numbers[waiting])]
    is_there = of_runs < np.iinfo(np.int64).max
    others = np.delete(np.where(is_there, of_runs, 0), device, axis=1).max(axis=1)
    later = np.where(is_there[:, device], of_runs[:, device] - others, 0)
    return float(np.maximum(later, 0).sum())
