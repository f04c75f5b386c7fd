"""Where the steps of a profile went: every moment of a step on a device belongs to one part, so that the parts add up.

While a kernel runs, the device computes. Otherwise it is in a transfer, of which it waits for the last participant to
come; or, with nothing to run, it is without work because of what the host does at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.critical_path import Waits, waits_of
from hlo_cli.analysis.profile.host_work import COPIES_WORDS
from hlo_cli.analysis.profile.operation_times import is_transfer
from hlo_cli.analysis.profile.profile import (
    WORKS,
    HostWork,
    Intervals,
    Operation,
    Profile,
    union,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.traces.trace import PS, Integers, distinct_of

Part: TypeAlias = Literal[
    "compute", "exposed_transfers", "waiting_for_devices", "input", "compiling", "launching", "host", "unexplained"
]
PARTS: Final[tuple[Part, ...]] = (
    *("compute", "exposed_transfers", "waiting_for_devices"),
    *("input", "compiling", "launching", "host", "unexplained"),
)
"""The parts of a step, in the order of a screen."""

PartTimes: TypeAlias = Mapping[Part, float]
"""The seconds of each part, of a step or of a device."""
_HostPart: TypeAlias = Literal["compiling", "input", "launching", "host"]
_NAMED_WORK: Final[tuple[_HostPart, ...]] = ("compiling", "input", "launching")
"""What a host does for a reason that it tells; other work may be that it waits for another device."""
_CALLBACK: Final = "callback"
"""What names of the targets of custom calls contain that run a function of Python: jax/_src/interpreters/mlir.py."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a part took time: in words, the seconds of all devices and steps, and those of the step with the most."""

    part: Part
    words: str
    seconds: float
    step: str
    step_seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class StepBudget:
    """The parts of each whole step on each device: row `i` is step `steps[i]` on device `devices[i]`.

    `parts_ps` has a column for each of `PARTS`; a row adds up to the time from the begin of the step to that of the
    next one on the device, the last step to its end. `causes` are in order of time. `has_host` says whether the trace
    tells what the host did at those times.

    >>> from hlo_cli import profile
    >>> from hlo_cli.analysis.profile.step_budget import step_budget
    >>> budget = step_budget(profile("fixtures/traces/cpu_steps/trace.xplane.pb"))
    >>> bool((budget.parts_ps.sum(1) == budget.ends_ps - budget.begins_ps).all())
    True
    """

    steps: Integers
    devices: Integers
    begins_ps: Integers
    ends_ps: Integers
    parts_ps: Integers
    causes: tuple[Cause, ...]
    has_host: bool

    def seconds(self, part: Part) -> float:
        """The mean time of a part per step and device."""
        rows = len(self.steps)
        return float(self.parts_ps[:, PARTS.index(part)].sum()) * PS / rows if rows else 0.0

    def spread(self, part: Part) -> tuple[float, float]:
        """The least and the greatest time of a part in any step on any device."""
        column = self.parts_ps[:, PARTS.index(part)]
        return (float(column.min()) * PS, float(column.max()) * PS) if len(column) else (0.0, 0.0)

    @property
    def step_seconds(self) -> float:
        """The mean time of a step on a device: the sum of all parts."""
        return float(self.parts_ps.sum()) * PS / len(self.steps) if len(self.steps) else 0.0

    def by_step(self, steps: int) -> Sequence[PartTimes | None]:
        """The parts of each of so many steps on the mean device; None for steps that are not whole."""
        return self._by(self.steps, np.bincount(self.steps, minlength=steps))

    def by_device(self, devices: int) -> Sequence[PartTimes | None]:
        """The parts of all steps on each of so many devices; None for devices without whole steps."""
        return self._by(self.devices, (np.bincount(self.devices, minlength=devices) > 0).astype(np.int64))

    def _by(self, numbers: Integers, per: Integers) -> Sequence[PartTimes | None]:
        """The seconds of the rows of each number, divided by `per`; None where that is 0."""
        columns = [np.bincount(numbers, self.parts_ps[:, at], minlength=len(per)) * PS for at in range(len(PARTS))]
        return [
            {part: float(column[number]) / count for part, column in zip(PARTS, columns, strict=True)}
            if count
            else None
            for number, count in enumerate(per.tolist())
        ]

    def main_cause(self, part: Part) -> Cause | None:
        """The cause that took most of a part."""
        return next((cause for cause in self.causes if cause.part == part), None)


def step_budget(profile: Profile) -> StepBudget | None:
    """Where the whole steps of a profile went; None if it has none, or if its events have no place in time."""
    rows = profile.occurrences
    if not any(step.is_whole for step in profile.steps) or (rows.counts != 1).any():
        return None
    kinds = np.array([_KINDS.index(_kind_of(operation)) for operation in profile.operations], np.int64)[profile.codes]
    busy = [union(*_times(profile, rows.devices == device)) for device in range(len(profile.devices))]
    late = waits_of(profile)
    tables, causes = [], dict[tuple[Part, str], dict[int, int]]()
    for device in range(len(profile.devices)):
        steps, begins, ends = _windows(profile, device)
        host = profile.hosts[device] if profile.hosts else None
        layers = _layers(profile, device, kinds, busy, late, host)
        parts = np.zeros((len(steps), len(PARTS)), np.int64)
        taken = union(begins[:0], begins[:0])
        for part, words, layer in layers:
            added = union(np.concatenate((taken.begins, layer.begins)), np.concatenate((taken.ends, layer.ends)))
            own = added.covered(begins, ends) - taken.covered(begins, ends)
            parts[:, PARTS.index(part)] += own
            taken = added
            if words:
                by_step = causes.setdefault((part, words), {})
                for step, time in zip(steps.tolist(), own.tolist(), strict=True):
                    by_step[step] = by_step.get(step, 0) + time
        parts[:, PARTS.index("unexplained")] += (ends - begins) - taken.covered(begins, ends)
        tables.append((steps, np.full(len(steps), device), begins, ends, parts))
    steps, devices, begins, ends, parts = (np.concatenate(column) for column in zip(*tables, strict=True))
    has_host = any(host is not None for host in profile.hosts)
    return StepBudget(steps, devices, begins, ends, parts, _causes(profile, causes), has_host)


def _causes(profile: Profile, times: Mapping[tuple[Part, str], Mapping[int, int]]) -> tuple[Cause, ...]:
    found = []
    for (part, words), by_step in times.items():
        if total := sum(by_step.values()):
            step = max(by_step, key=lambda each: by_step[each])
            found.append(Cause(part, words, total * PS, profile.steps[step].name, by_step[step] * PS))
    return tuple(sorted(found, key=lambda cause: (-cause.seconds, cause.part, cause.words)))


def _windows(profile: Profile, device: int) -> tuple[Integers, Integers, Integers]:
    """The whole steps of a device, from the begin of each to that of the next one; the last one to its end."""
    windows = profile.windows
    chosen = np.flatnonzero(windows.devices == device)
    chosen = chosen[np.argsort(windows.begins_ps[chosen], kind="stable")]
    begins, ends = windows.begins_ps[chosen], windows.ends_ps[chosen].copy()
    ends[:-1] = begins[1:]
    is_whole = np.array([profile.steps[step].is_whole for step in windows.steps[chosen].tolist()], bool)
    return windows.steps[chosen][is_whole], begins[is_whole], np.maximum(ends, begins)[is_whole]


_Kind: TypeAlias = Literal["kernel", "transfer", "control", "callback", "infeed"]
_KINDS: Final[tuple[_Kind, ...]] = ("kernel", "transfer", "control", "callback", "infeed")
_INFEEDS: Final = (opcodes.INFEED, "infeed-start", "infeed-done")
"""Operations in which a TPU is blocked until the host has sent the next batch."""
_BLOCKED: Final[dict[_Kind, Part]] = {"callback": "host", "infeed": "input"}
"""Operations that take the time of the host, and the part that this is."""


def _kind_of(operation: Operation) -> _Kind:
    instruction = operation.instruction
    if (instruction.opcode if instruction is not None else operation.category) in _INFEEDS:
        return "infeed"
    if is_transfer(operation):
        return "transfer"
    if instruction is None:
        return "kernel"
    if instruction.opcode in (opcodes.WHILE, opcodes.CONDITIONAL, opcodes.CALL):
        return "control"  # its event contains those of its computations
    is_callback = instruction.opcode == opcodes.CUSTOM_CALL and _CALLBACK in (
        instruction.string("custom_call_target") or ""
    )
    return "callback" if is_callback else "kernel"


def _layers(
    profile: Profile,
    device: int,
    kinds: Integers,
    busy: Sequence[Intervals],
    late: Waits,
    host: HostWork | None,
) -> Iterable[tuple[Part, str, Intervals]]:
    """What takes the time of a device, the more certain first: a moment belongs to the first layer that has it."""
    is_own = profile.occurrences.devices == device
    kernels = union(*_times(profile, is_own & (kinds == _KINDS.index("kernel"))))
    yield "compute", "", kernels
    for kind, part in _BLOCKED.items():
        for row in distinct_of(profile.codes[is_own & (kinds == _KINDS.index(kind))])[0].tolist():
            words = f"{kind} {profile.operations[row].name}"
            yield part, words, union(*_times(profile, is_own & (profile.codes == row)))
    for code, waited in late.pairs(is_own):
        chosen = is_own[late.rows] & (profile.codes[late.rows] == code) & (late.devices == waited)
        words = f"{profile.operations[code].name}: {profile.devices[waited]} is late"
        yield "waiting_for_devices", words, union(late.begins_ps[chosen], late.ends_ps[chosen])
    for code in distinct_of(profile.codes[is_own & (kinds == _KINDS.index("transfer"))])[0].tolist():
        yield (
            "exposed_transfers",
            profile.operations[code].name,
            union(*_times(profile, is_own & (profile.codes == code))),
        )
    yield "compute", "", busy[device]
    if host is None:
        return
    for work in _NAMED_WORK:
        yield from _of_host(work, host)
    yield "input", COPIES_WORDS, host.copies
    yield from _others_run(profile, device, busy, host)
    yield from _of_host("host", host)


def _others_run(
    profile: Profile, device: int, busy: Sequence[Intervals], host: HostWork
) -> Iterable[tuple[Part, str, Intervals]]:
    """When other devices of the host run; those of TPUs and of other hosts have clocks of their own."""
    # Devices with the same work of a host have its clock.
    others = [each for other, each in enumerate(busy) if other != device and profile.hosts[other] is host]
    if others:
        begins, ends = (np.concatenate([getattr(each, name) for each in others]) for name in ("begins", "ends"))
        yield "waiting_for_devices", "other devices still run", union(begins, ends)


_MAX_CAUSES: Final = 20
"""The causes of a kind of work that are told apart; each takes a pass over the steps."""


def _of_host(part: _HostPart, host: HostWork) -> Iterable[tuple[Part, str, Intervals]]:
    """The intervals of a kind of work, one layer for each of its main causes."""
    chosen = host.codes == WORKS.index(part)
    lengths = np.bincount(host.causes[chosen], (host.ends_ps - host.begins_ps)[chosen], minlength=len(host.labels))
    for cause in np.argsort(-lengths, kind="stable")[:_MAX_CAUSES].tolist():
        if lengths[cause]:
            own = chosen & (host.causes == cause)
            yield part, host.labels[cause], union(host.begins_ps[own], host.ends_ps[own])
    yield part, "", union(host.begins_ps[chosen], host.ends_ps[chosen])


def _times(
    profile: Profile, chosen: Integers | np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Integers, Integers]:
    rows = profile.occurrences
    return rows.begins_ps[chosen], rows.ends_ps[chosen]


# --- gaps ---
# Times in which no operation runs on a device, by the operations before and after.


@dataclass(frozen=True, slots=True)
class Gap:
    """All gaps between two operations, by their numbers, on all devices: how many, their seconds, and the longest one.

    `part` is what took most of them, `words` its main cause, empty if unknown.
    """

    before: int
    after: int
    count: int
    seconds: float
    longest: float
    part: Part
    words: str


def gaps_of(profile: Profile) -> Sequence[Gap]:
    """The gaps between operations, those that take most time first."""
    rows = profile.occurrences
    found: list[tuple[Integers, ...]] = []
    covered: list[NDArray[np.float64]] = []
    labels: dict[tuple[Part, str], int] = {}
    singles = [np.flatnonzero((rows.devices == device) & (rows.counts == 1)) for device in range(len(profile.devices))]
    busy_of_devices = [union(rows.begins_ps[own], rows.ends_ps[own]) for own in singles]
    for device, (own, busy) in enumerate(zip(singles, busy_of_devices, strict=True)):
        begins, ends = busy.ends[:-1], busy.begins[1:]
        if not len(begins):
            continue
        # Of operations that end, or begin, together, the shortest is the innermost.
        by_end = own[np.lexsort((-rows.durations_ps[own], rows.ends_ps[own]))]
        by_begin = own[np.lexsort((rows.durations_ps[own], rows.begins_ps[own]))]
        before = profile.codes[by_end[np.searchsorted(rows.ends_ps[by_end], begins, side="right") - 1]]
        after = profile.codes[by_begin[np.searchsorted(rows.begins_ps[by_begin], ends)]]
        found.append((before, after, ends - begins))
        of_causes = np.zeros((len(begins), 0))
        for part, words, intervals in _explanations(profile, device, busy_of_devices):
            at = labels.setdefault((part, words), len(labels))
            of_causes = _widened(of_causes, at + 1)
            of_causes[:, at] += intervals.covered(begins, ends)
        covered.append(of_causes)
    if not found:
        return ()
    before, after, lengths = (np.concatenate(column) for column in zip(*found, strict=True))
    pairs, groups = distinct_of(before * len(profile.operations) + after)
    counts = np.bincount(groups)
    sums = np.bincount(groups, lengths)
    longest = np.zeros(len(pairs), np.int64)
    np.maximum.at(longest, groups, lengths)
    explained = np.zeros((len(pairs), len(labels)))
    np.add.at(explained, groups, np.concatenate([_widened(each, len(labels)) for each in covered]))
    gaps = []
    for number, pair in enumerate(pairs.tolist()):
        part, words = _main_explanation(explained[number], list(labels), float(sums[number]))
        first, last = divmod(pair, len(profile.operations))
        seconds = float(sums[number]) * PS
        gaps.append(Gap(first, last, int(counts[number]), seconds, int(longest[number]) * PS, part, words))
    return sorted(gaps, key=lambda gap: (-gap.seconds, gap.before, gap.after))


def _widened(table: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.pad(table, ((0, 0), (0, max(width - table.shape[1], 0))))


def _explanations(profile: Profile, device: int, busy: Sequence[Intervals]) -> Iterable[tuple[Part, str, Intervals]]:
    """What may have been the reason that nothing ran on a device, each with when that was so."""
    host = profile.hosts[device] if profile.hosts else None
    if host is not None:
        for work in (*_NAMED_WORK, "host"):
            yield from ((part, words, each) for part, words, each in _of_host(work, host) if words)
        yield "input", COPIES_WORDS, host.copies
        yield from _others_run(profile, device, busy, host)


_WORTH_NAMING: Final = 0.25
"""The least part of a gap that what happens meanwhile explains."""


def _main_explanation(times: NDArray[np.float64], labels: Sequence[tuple[Part, str]], whole: float) -> tuple[Part, str]:
    """The part that takes most of some gaps, if it is worth naming, and its main cause."""
    of_part: dict[Part, float] = {}
    for (part, _), time in zip(labels, times.tolist(), strict=True):
        of_part[part] = of_part.get(part, 0.0) + time
    part = max(of_part, key=lambda each: of_part[each], default="unexplained")
    if of_part.get(part, 0.0) < _WORTH_NAMING * whole:
        return "unexplained", ""
    own = [(time, words) for (each, words), time in zip(labels, times.tolist(), strict=True) if each == part]
    return part, max(own)[1]
