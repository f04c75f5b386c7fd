"""The first line of a profile, and the facts below it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from hlo_cli.analysis.profile.profile import PS
from hlo_cli.commands.profile.sums import DEVICE_NOUNS
from hlo_cli.report.cell import Cell
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.report.text import Passage

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.measures import Measure
    from hlo_cli.analysis.profile.profile import Operation, Profile

Measured: TypeAlias = "Sequence[tuple[Operation, Measure]]"


def answer_of(profile: Profile, measured: Measured) -> str:
    """What takes most of the time: an instruction, kernels without one, or waiting for work."""
    whole = profile.total_ps * PS
    idle = idle_of(profile, measured)
    time = whole_words(profile)
    operation, measure = max(measured, key=lambda each: each[1].self_time)
    if not whole or not measure.self_time:
        return f"{format_count(sum(each.events for _, each in measured), 'events')} of no measurable time"
    kind = operation.category if operation.category not in ("", operation.name) else ""
    subject = f"{operation.name} ({kind})" if kind else operation.name
    if not operation.is_joined:
        subject = f"{operation.name}, a kernel without an instruction,"
    takes = f"{format_percent(measure.self_time / whole)}%"
    if idle > whole / 2:
        busy = "device is" if len(profile.devices) == 1 else f"{DEVICE_NOUNS[profile.platform]} are"
        return f"The {busy} idle for {format_percent(idle / whole)}% of {time}; {subject} takes {takes}"
    return f"{subject} takes {takes} of {time}"


def whole_words(profile: Profile) -> str:
    """The measured time, such as `488.0 ms per core`."""
    seconds = profile.total_ps * PS / max(len(profile.devices), 1)
    noun = DEVICE_NOUNS[profile.platform].removesuffix("s")
    return f"{format_seconds(seconds)} per {noun}" if len(profile.devices) > 1 else format_seconds(seconds)


def idle_of(profile: Profile, measured: Measured) -> float:
    """The time in which no operation ran, of all devices together, in seconds."""
    return max(profile.total_ps * PS - sum(measure.self_time for _, measure in measured), 0.0)


def facts_of(profile: Profile, measured: Measured) -> Passage:
    """Devices, steps, idle time, and programs, in one paragraph."""
    joined = [operation for operation, _ in measured if operation.is_joined]
    whole = profile.total_ps * PS
    facts = [f"{len(profile.devices):,} {profile.platform} {_devices(profile)}", *_steps(profile)]
    facts += [f"{format_percent(idle_of(profile, measured) / whole)}% idle"] if whole else []
    facts.append(f"{format_count(len(joined), 'instructions')}{_modules(joined)}")
    return Passage("facts", (" · ".join(facts),))


def _devices(profile: Profile) -> str:
    noun = DEVICE_NOUNS[profile.platform] if profile.platform != "GPU" else "devices"
    return noun if len(profile.devices) != 1 else noun.removesuffix("s")


def _steps(profile: Profile) -> list[str]:
    whole = [step.duration_ps * PS for step in profile.steps if step.is_whole]
    partial = len(profile.steps) - len(whole)
    found = []
    if whole:
        time = format_seconds(median(whole))
        found.append(f"{format_count(len(whole), 'steps')} of {time}{' (median)' if len(whole) > 1 else ''}")
    if partial:
        found.append(format_count(partial, "partial steps"))
    return found or ["no steps"]


def _modules(joined: Sequence[Operation]) -> str:
    names = list(dict.fromkeys(operation.program.name for operation in joined if operation.program is not None))
    if not names:
        return ""
    sizes = {name: sum(each.program is not None and each.program.name == name for each in joined) for name in names}
    first = max(names, key=lambda name: sizes[name])
    return f" of {first}" + (f" and {format_count(len(names) - 1, 'other modules')}" if len(names) > 1 else "")


def numbers_of(profile: Profile, measured: Measured) -> dict[str, Cell]:
    """The numbers of the first lines, for programs; times are those of all devices together."""
    whole = [step.duration_ps * PS for step in profile.steps if step.is_whole]
    others = [measure for operation, measure in measured if not operation.is_joined]
    return {
        "devices": len(profile.devices),
        "steps": len(whole),
        "partial_steps": len(profile.steps) - len(whole),
        "step_seconds": median(whole) if whole else None,
        "seconds": profile.total_ps * PS,
        "self_seconds": sum(measure.self_time for _, measure in measured),
        "idle_seconds": idle_of(profile, measured),
        "instructions": sum(operation.is_joined for operation, _ in measured),
        "events": sum(measure.events for _, measure in measured),
        "events_without_instruction": sum(measure.events for measure in others),
        "seconds_without_instruction": sum(measure.self_time for measure in others),
    }
