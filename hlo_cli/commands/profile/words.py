"""The first line of a profile, and the facts below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.measure import MAIN, over_peak, program_rates
from hlo_cli.analysis.profile.profile import PS
from hlo_cli.commands.profile.timed import longest_of, longest_program, sum_of
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Passage

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed

_NOUNS: Final = {"TPU": "core"}
_NAMED: Final = 3
"""How many instructions above the roof a sentence names."""
_PART: Final = 3
"""The first line names a kind of instructions if the longest one takes less than this part of the kind's time."""


def answer_of(measured: Measured) -> str:
    """What takes most of the time: an instruction, a kind of instructions, kernels without one, or waiting for work."""
    selected, whole = measured.selected, measured.whole
    if not selected:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    longest = longest_of(selected)
    if not whole or not longest.measure.self_time:
        return f"{format_count(sum(each.measure.events for each in selected), 'events')} of no measurable time"
    if measured.is_narrowed:
        words = f"{format_count(len(selected), 'operations')}: {_share(measured, selected)}"
        return f"{words} of {measured.whole_words}"
    if measured.idle > whole / 2:
        is_one = len(measured.profile.devices) == 1
        subject = f"The {measured.device_noun} is" if is_one else f"The {measured.device_noun}s are"
        idle = f"{subject} idle for {format_percent(measured.idle / whole)}% of {measured.whole_words}"
        return f"{idle}; {_subject(measured, longest)} takes {_share(measured, [longest])}"
    kind = _largest_kind(selected)
    if len(kind) > 1 and longest.measure.busy_time < sum(each.measure.busy_time for each in kind) / _PART:
        first = longest_of(kind)
        name, roof = kind[0].operation.category, sum_of(kind).roof
        words = f"{name[0].upper()}{name[1:]} takes {_share(measured, kind)} of {measured.whole_words}"
        words += f" at {format_percent(roof)}% of the roof" if roof else ""
        count = format_count(len(kind), "instructions")
        return f"{words} in {count}; the longest, {first.operation.name}, {_share(measured, [first])}"
    return (
        f"{_subject(measured, longest)} takes {_share(measured, [longest])} of {measured.whole_words}{_roof(longest)}"
    )


def _share(measured: Measured, timed: Sequence[Timed]) -> str:
    """The part of the time of all devices that operations take, in percent."""
    return f"{format_percent(sum(each.measure.busy_time for each in timed) / measured.whole)}%"


def _largest_kind(selected: Sequence[Timed]) -> Sequence[Timed]:
    """The instructions of the category that takes most time."""
    kinds: dict[str, list[Timed]] = {}
    for each in selected:
        if each.operation.is_joined and each.operation.category:
            kinds.setdefault(each.operation.category, []).append(each)
    return max(kinds.values(), key=lambda kind: sum(each.measure.busy_time for each in kind), default=[])


def _subject(measured: Measured, longest: Timed) -> str:
    """The longest operation, with its module if that is not the one that takes most time."""
    operation = longest.operation
    if not longest.is_named:
        return f"kernel {operation.name}"
    kind = operation.category if operation.category not in ("", operation.name.partition(".")[0]) else ""
    words = f"{operation.name} ({kind})" if kind else operation.name
    program, largest = operation.program, longest_program(measured.every)
    return words if program is None or largest in (None, program) else f"{words} of {program.name}"


def _roof(longest: Timed) -> str:
    """How much of the peak the longest operation reaches; empty if unknown."""
    rates = longest.rates
    if not rates.efficiency:
        return ""
    limit = {"compute": "flops", MAIN: "memory bandwidth"}.get(rates.bound_by, f"{rates.bound_by} bandwidth")
    reason = over_peak(longest.operation, rates)
    return f", at {format_percent(rates.efficiency)}% of the peak {limit}{f': {reason}' if reason else ''}"


def over_peak_words(found: Sequence[Timed]) -> Iterator[str]:
    """A sentence for each reason why instructions exceed the roof."""
    reasons: dict[str, list[str]] = {}
    for each in found:
        if reason := over_peak(each.operation, each.rates):
            reasons.setdefault(reason, []).append(each.operation.name)
    for reason, names in reasons.items():
        shown = ", ".join(names[:_NAMED]) + (f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
        yield f"Over 100% of the roof: {shown}; {reason}."


def facts_of(measured: Measured) -> Passage:
    """Devices, steps, idle time, and programs, in one paragraph."""
    profile, whole = measured.profile, measured.whole
    named = [each for each in measured.every if each.is_named]
    kind = profile.device_type or (profile.peaks.chip.upper() if profile.peaks else "") or profile.platform
    noun = "" if profile.platform == "GPU" and kind != "GPU" else f" {_NOUNS.get(profile.platform, 'device')}"
    count = len(profile.devices)
    facts = [f"{count:,} {kind}{noun}{'s' if noun and count != 1 else ''}", *_steps(measured)]
    facts += [f"{format_percent(measured.idle / whole)}% idle"] if whole else []
    facts.append(f"{format_count(len(named), 'instructions')}{_modules(named)}")
    if len(named) < len(measured.every):
        others = [each for each in measured.every if not each.is_named]
        part = sum(each.measure.busy_time for each in others) / whole if whole else 0.0
        facts.append(f"{format_count(len(others), 'kernels')} without an instruction ({format_percent(part)}%)")
    return Passage("facts", (" · ".join(facts),))


def step_noun(measured: Measured) -> str:
    """What the steps of a trace are: `steps` that the program or the device marks, or `executions` of its program."""
    return "executions" if measured.profile.step_source == "executions" else "steps"


def _steps(measured: Measured) -> list[str]:
    steps, noun = measured.profile.steps, step_noun(measured)
    whole = [step.duration_ps * PS for step in steps if step.is_whole]
    found = []
    if whole:
        time = format_seconds(median(whole))
        found.append(f"{format_count(len(whole), noun)} of {time}{' (median)' if len(whole) > 1 else ''}")
    if partial := len(steps) - len(whole):
        found.append(format_count(partial, f"partial {noun}"))
    return found or ["no steps"]


def _modules(named: Sequence[Timed]) -> str:
    counts: dict[str, int] = {}
    for each in named:
        if each.operation.program is not None:
            counts[each.operation.program.name] = counts.get(each.operation.program.name, 0) + 1
    if not counts:
        return ""
    first = max(counts, key=lambda name: counts[name])
    return f" of {first}" + (f" and {format_count(len(counts) - 1, 'other modules')}" if len(counts) > 1 else "")


def numbers_of(measured: Measured) -> dict[str, Cell]:
    """The numbers of the first lines, for programs; times are those of all devices together."""
    profile = measured.profile
    whole = [step.duration_ps * PS for step in profile.steps if step.is_whole]
    others = [each.measure for each in measured.every if not each.operation.is_joined]
    program = program_rates(profile, [each.measure for each in measured.every])
    return {
        "devices": len(profile.devices),
        "steps": len(whole),
        "partial_steps": len(profile.steps) - len(whole),
        "step_seconds": median(whole) if whole else None,
        "seconds": measured.whole,
        "busy_seconds": measured.busy,
        "self_seconds": measured.sum.self_time,
        "idle_seconds": measured.idle,
        "operations": len(measured.every),
        "selected_operations": len(measured.selected),
        "selected_self_seconds": sum(each.measure.self_time for each in measured.selected),
        "events": measured.sum.events,
        "events_without_instruction": sum(measure.events for measure in others),
        "seconds_without_instruction": sum(measure.self_time for measure in others),
        "flop_rate": program.flops,
        "byte_rate": program.bytes,
        "roofline_fraction": program.efficiency,
        **measured.roofs.facts,
    }
