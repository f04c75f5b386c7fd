"""Times of transfers: how much of each ran next to computation, and how much of it the device waited.

On TPUs a transfer lasts from the begin of its start to the end of its done, which the device spends on other operations
except for the start and the done themselves; a collective without a start is synchronous. On GPUs it is a kernel on a
stream of its own. On CPUs it is synchronous.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.profile.columns import line_times
from hlo_cli.analysis.profile.cpu_events import HOST
from hlo_cli.analysis.profile.intervals import busy_of, divided, union
from hlo_cli.analysis.profile.occurrences import NO_FLOW
from hlo_cli.analysis.profile.profile import PS, Floats, Operation, Profile
from hlo_cli.analysis.schedule.async_overlap import async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.traces.trace import Integers, Line

_WAITING: Final = "Rendezvous"
_STARTS, _DONES = "-start", "-done"
_FLOW_DIRECTION_BITS: Final = 2


@dataclass(frozen=True, slots=True)
class TransferTime:
    """The transfers of one instruction: times in seconds, sums over `calls`.

    `operation` and `done` are indices into `Profile.operations`; `done` is `operation` if there is no done.
    `window` is the time from begin to end. In its part `exposed` no other operation ran, as the start and the done did.
    `waiting` is the part of `exposed` in which a CPU waited for other devices. `idle` is the part of the rest of the
    window in which a TPU ran no operation at all.
    """

    operation: int
    done: int
    calls: int
    window: float
    exposed: float
    waiting: float = 0.0
    idle: float = 0.0

    @property
    def hidden(self) -> float:
        """The rest of the window, in which other operations ran unless the device was idle.

        >>> TransferTime(0, 1, 1, 5.0, 2.0).hidden
        3.0
        """
        return self.window - self.exposed


def transfer_times(profile: Profile) -> Sequence[TransferTime]:
    """The transfers that ran, in the order of `Profile.operations`."""
    match profile.platform:
        case "TPU":
            return sorted(_of_pairs(profile), key=lambda each: each.operation)
        case "GPU":
            return list(_of_streams(profile))
        case _:
            return list(_of_threads(profile))


def _of_pairs(profile: Profile) -> Iterator[TransferTime]:
    rows, ends = profile.occurrences, profile.occurrences.ends_ps
    by_operation = _rows_by_operation(profile)
    for at, each in enumerate(profile.operations):
        if opcode_of(each) in COLLECTIVES:
            own = rows.durations_ps[by_operation[at]]
            yield TransferTime(at, at, int(rows.counts[by_operation[at]].sum()), _seconds(own), _seconds(own))
    found = []
    for start, dones in pairs_of(profile).items():
        begun, done = by_operation[start], np.concatenate([by_operation[each] for each in dones])
        columns = rows.devices[begun], rows.begins_ps[begun], rows.flows[begun]
        first, last = paired(*columns, rows.devices[done], ends[done], rows.flows[done])
        if len(first):
            found.append((start, dones[0], begun[first], done[last]))
    if not found:
        return
    begun, done = (np.concatenate([each[at] for each in found]) for at in (2, 3))
    window = np.maximum(ends[done] - rows.begins_ps[begun], 0)
    own = np.minimum(rows.durations_ps[begun] + rows.durations_ps[done], window)
    idle = window.copy()
    for device, busy in enumerate(busy_of(rows)):
        there = np.flatnonzero(rows.devices[begun] == device)
        idle[there] -= busy.intervals.covered(rows.begins_ps[begun[there]], ends[done[there]])
    idle = np.clip(idle, 0, window - own)
    sums = np.add.reduceat(
        np.stack((window, own, idle)), np.cumsum([0, *(len(each[2]) for each in found[:-1])]), axis=1, dtype=np.float64
    )
    for (start, end, calls, _), (whole, exposed, rest) in zip(found, (sums.T * PS).tolist(), strict=True):
        yield TransferTime(start, end, len(calls), whole, exposed, idle=rest)


def pairs_of(profile: Profile) -> Mapping[int, Sequence[int]]:
    """The timed dones of each timed start, as indices of operations: by the module, else by their names."""
    at = {each.instruction: place for place, each in enumerate(profile.operations) if each.instruction is not None}
    found: dict[int, list[int]] = {}
    for program in profile.programs:
        for pair in async_pairs(program.module).pairs if program.module is not None else ():
            dones = [at[done] for done in pair.dones if done in at]
            if pair.start in at and dones:
                found[at[pair.start]] = dones
    unjoined = {
        (each.program, each.name): place for place, each in enumerate(profile.operations) if each.instruction is None
    }
    for (owner, name), place in unjoined.items():
        head, dot, number = name.partition(".")
        done = unjoined.get((owner, head.removesuffix(_STARTS) + _DONES + dot + number))
        if head.endswith(_STARTS) and done is not None:
            found[place] = [done]
    return dict(sorted(found.items()))


def paired(
    start_devices: Integers,
    begins: Integers,
    start_flows: Integers,
    done_devices: Integers,
    ends: Integers,
    done_flows: Integers,
) -> tuple[Integers, Integers]:
    """The places of the starts and of their dones: by flows if both have them, else in order on each device.

    >>> none = np.zeros(2, np.int64)
    >>> paired(none, np.array([0, 10]), none, none, np.array([5, 15]), none)[1].tolist()
    [0, 1]
    """
    starts, dones = _flow_keys(start_flows, done_flows)
    open_starts: dict[tuple[int, int], list[int]] = {}
    events = sorted(
        [(time, 0, at, (device, flow)) for at, (time, device, flow) in _listed(begins, start_devices, starts)]
        + [(time, 1, at, (device, flow)) for at, (time, device, flow) in _listed(ends, done_devices, dones)]
    )
    first, last = [], []
    taken: dict[tuple[int, int], int] = {}
    for _, is_done, at, key in events:
        waiting = open_starts.setdefault(key, [])
        if not is_done:
            waiting.append(at)
        elif (place := taken.get(key, 0)) < len(waiting):
            taken[key] = place + 1
            first.append(waiting[place])
            last.append(at)
    return np.array(first, np.int64), np.array(last, np.int64)


def _listed(times: Integers, devices: Integers, flows: Integers) -> Iterator[tuple[int, tuple[int, int, int]]]:
    return enumerate(zip(times.tolist(), devices.tolist(), flows.tolist(), strict=True))


def _flow_keys(starts: Integers, dones: Integers) -> tuple[Integers, Integers]:
    """Flows that are equal for a start and its done: without their direction if it is in them; zeros if unknown."""
    if (starts == NO_FLOW).any() or (dones == NO_FLOW).any():
        return np.zeros(len(starts), np.int64), np.zeros(len(dones), np.int64)
    if np.isin(starts, dones).any():
        return starts, dones
    starts, dones = starts >> _FLOW_DIRECTION_BITS, dones >> _FLOW_DIRECTION_BITS
    if np.isin(starts, dones).any():
        return starts, dones
    return np.zeros(len(starts), np.int64), np.zeros(len(dones), np.int64)


def _of_streams(profile: Profile) -> Iterator[TransferTime]:
    rows, ends = profile.occurrences, profile.occurrences.ends_ps
    by_operation = _rows_by_operation(profile)
    exposed = rows.durations_ps.copy()
    chosen = [at for at, each in enumerate(profile.operations) if is_transfer(each)]
    if not chosen:
        return
    of_transfers = np.concatenate([by_operation[at] for at in chosen])
    for device in np.unique(rows.devices[of_transfers]).tolist():
        on_device = rows.devices == device
        own = of_transfers[rows.devices[of_transfers] == device]
        for line in np.unique(rows.lines[own]).tolist():
            there = own[rows.lines[own] == line]
            others = np.flatnonzero(on_device & (rows.lines != line))
            busy = union(rows.begins_ps[others], ends[others])
            exposed[there] -= busy.covered(rows.begins_ps[there], ends[there])
    weights = rows.counts if profile.call_weights is None else profile.call_weights
    for at in chosen:
        own = by_operation[at]
        calls = round(float(weights[own].sum()))
        yield TransferTime(at, at, calls, _seconds(rows.durations_ps[own]), _seconds(exposed[own]))


def _of_threads(profile: Profile) -> Iterator[TransferTime]:
    rows, ends = profile.occurrences, profile.occurrences.ends_ps
    by_operation = _rows_by_operation(profile)
    chosen = [at for at, each in enumerate(profile.operations) if is_transfer(each)]
    waits = _waits(profile) if chosen else {}
    exposed = _exposed_on_threads(profile, [by_operation[at] for at in chosen])
    for at in chosen:
        own = by_operation[at]
        waiting = 0
        for line in np.unique(rows.lines[own]).tolist():
            there = own[rows.lines[own] == line]
            if line in waits:
                waiting += int(union(*waits[line]).covered(rows.begins_ps[there], ends[there]).sum())
        window, alone = _seconds(rows.durations_ps[own]), _seconds(exposed[own])
        weights = rows.counts if profile.call_weights is None else profile.call_weights
        yield TransferTime(at, at, round(float(weights[own].sum())), window, alone, min(waiting * PS, alone))


def _exposed_on_threads(profile: Profile, transfers: Sequence[Integers]) -> Floats:
    """The time of transfers on CPUs, all of which is exposed: time that several of a device share is divided."""
    rows, ends = profile.occurrences, profile.occurrences.ends_ps
    exposed = rows.durations_ps.astype(np.float64)
    every = np.concatenate([np.zeros(0, np.int64), *transfers])
    for device in range(len(profile.devices)):
        own = every[rows.devices[every] == device]
        if union(rows.begins_ps[own], ends[own]).length < rows.durations_ps[own].sum():
            exposed[own] = divided(rows.begins_ps[own], ends[own])
    return exposed


def _waits(profile: Profile) -> Mapping[int, tuple[Integers, Integers]]:
    """Begins and ends of the events in which each thread waited for other devices, by the number of its line."""
    found = {}
    lines: list[Line] = []
    for trace in profile.traces:
        for plane in trace.planes:
            if plane.name == HOST:
                lines += [line for line in plane.lines if (line.statistic("hlo_op").codes >= 0).any()]
    for number, line in enumerate(lines):
        kinds = [kind for kind, each in line.kinds.items() if each.name.startswith(_WAITING)]
        chosen = np.isin(line.events.kinds, kinds)
        begins, durations = line_times(line)
        found[number] = begins[chosen], (begins + durations)[chosen]
    return found


def is_transfer(operation: Operation) -> bool:
    """Whether an operation is a collective or starts an asynchronous operation."""
    opcode = opcode_of(operation)
    return opcode in COLLECTIVES or opcode.endswith(_STARTS)


def opcode_of(operation: Operation) -> str:
    """The opcode of an operation, which its name tells if its instruction is unknown.

    >>> opcode_of(Operation("all-reduce-start.3", None, None))
    'all-reduce-start'
    """
    return operation.name.partition(".")[0] if operation.instruction is None else operation.instruction.opcode


def _rows_by_operation(profile: Profile) -> Sequence[Integers]:
    order = np.argsort(profile.codes, kind="stable")
    bounds = np.searchsorted(profile.codes[order], np.arange(1, len(profile.operations)))
    return np.split(order, bounds)


def _seconds(times: Integers | Floats) -> float:
    return float(times.sum()) * PS
