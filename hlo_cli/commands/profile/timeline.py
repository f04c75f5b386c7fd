"""`hlo profile TRACE --timeline`: what ran when in one step, on every line of every device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.operation_times import Slot, Window, host_of, median_step, window_of
from hlo_cli.analysis.profile.profile import PS
from hlo_cli.commands.profile.words import facts_of
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.report.text import Line, Run
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_PARTS: Final = 1_000_000
"""The resolution of the time axis: its number of parts."""
_LANES: Final = 16
"""How many lanes the screen shows."""


def report_of_timeline(measured: Measured, step: str | None) -> Report:
    """The events of a step, by default of the one with the median time; without steps, of the whole trace."""
    profile = measured.profile
    if all(each.measure.events and each.measure.least is None for each in measured.every):
        hint = "record it with events, such as with `rocprofv3 --kernel-trace`"
        raise HloError(f"{measured.loaded.path} has only sums of events, without times", hint=hint)
    at = median_step(profile)
    if step is not None:
        names = [each.name for each in profile.steps]
        if step not in names:
            raise unknown_choice_error("step", step, names)
        at = names.index(step)
    window = window_of(profile, at)
    slots = window.slots()
    if measured.is_narrowed:
        chosen = {each.operation for each in measured.selected}
        slots = [slot for slot in slots if slot.operation in chosen]
    name = None if at is None else profile.steps[at].name
    seconds = window.seconds if at is None else profile.steps[at].duration_ps * PS
    own = len(slots) if at is None or measured.is_narrowed else int((profile.step_codes[window.rows] == at).sum())
    return Report(
        "profile",
        _answer(window, slots, name, seconds, own),
        version=1,
        numbers={
            "step": name,
            "begin_seconds": window.begin_ps * PS,
            "seconds": window.seconds,
            "step_seconds": None if at is None else seconds,
            "events": len(slots),
            "step_events": own,
            "lanes": len(window.lanes),
        },
        parts=(facts_of(measured), _figure(window), _table(window, slots)),
        next=_next(measured, name, slots),
        notes=(*_notes(measured), *measured.notes),
        input=measured.loaded.facts,
    )


def _notes(measured: Measured) -> Iterator[Diagnostic]:
    if host := host_of(measured.profile):
        yield Diagnostic("note", f"showing the devices of {host}; the clocks of hosts differ")


def _answer(window: Window, slots: Sequence[Slot], name: str | None, seconds: float, own: int) -> str:
    """How long the step took, as all screens have it; events may begin before it or end after it.

    `own` are the events of the step; those of others are shown, too, if they run at the same time.
    """
    place = "The trace" if name is None else f"Step {name}"
    words = f"{place} takes {format_seconds(seconds)}: {format_count(own, 'events')}"
    words += f" and {len(slots) - own:,} of other steps" if len(slots) > own else ""
    words += f" on {format_count(len(window.lanes), 'lines')}"
    is_longer = window.seconds - seconds > PS
    return f"{words}, within {format_seconds(window.seconds)}" if is_longer else words


def _figure(window: Window) -> Figure:
    """How busy each lane is over time, a line for each."""
    names = _lane_names(window)[:_LANES]
    wide = max(map(len, names), default=0)
    left = len(window.lanes) - len(names)

    def draw(room: int) -> tuple[Line, ...]:
        parts = max(room - wide - 7, 10)
        lines: list[Line] = []
        for lane, name in enumerate(names):
            busy = window.busy(lane, parts)
            share = format_percent(sum(busy) / len(busy))
            lines.append(
                (Run(f"{name:<{wide}}  "), Run(f"{share:>3}%", "quiet"), Run(" " + "".join(map(_block, busy))))
            )
        end = format_seconds(window.seconds)
        lines.append((Run(f"{'':<{wide}}       0{end:>{max(parts - 1, 1)}}", "quiet"),))
        if left:
            lines.append((Run(f"{format_count(left, 'more lines')}", "quiet"),))
        return tuple(lines)

    data: dict[str, Cell] = {
        "lanes": tuple(
            {"device": lane.device, "line": lane.line, "busy": tuple(window.busy(at, 100))}
            for at, lane in enumerate(window.lanes)
        )
    }
    return Figure("lanes", draw, data=data)


def _block(fraction: float) -> str:
    """A block as high as a fraction; blank for 0.

    >>> [_block(each) for each in (0.0, 0.01, 0.5, 1.0)]
    [' ', '▁', '▄', '█']
    """
    return " " if fraction <= 0 else _BLOCKS[min(max(-int(-fraction * len(_BLOCKS) // 1), 1), len(_BLOCKS)) - 1]


def _lane_names(window: Window) -> list[str]:
    """A short name for each lane: the device, and the line where a device has several."""
    devices = [lane.device for lane in window.lanes]
    found = []
    for at, lane in enumerate(window.lanes):
        same = [number for number, device in enumerate(devices) if device == lane.device]
        found.append(lane.device if len(same) == 1 else f"{lane.device} {same.index(at) + 1}")
    return found


def _table(window: Window, slots: Sequence[Slot]) -> Table:
    names = _lane_names(window)
    whole = max(window.end_ps - window.begin_ps, 1)
    columns = (
        Column("begin_seconds", "begin", "seconds"),
        Column("seconds", "duration", "seconds"),
        Column("instruction", "instruction", "name"),
        Column("category", "category", from_width=120),
        Column("lane", "line", is_lane=True),
        Column("device", "device", person=False),
        Column("line_name", "line", person=False),
        Column("span", "time", "span", steps=_PARTS, seconds=window.seconds, machine=False, is_measured=True),
    )
    rows = tuple(_row(window, slot, names, whole) for slot in slots)
    return Table("timeline", columns, rows, noun="events")


def _row(window: Window, slot: Slot, names: Sequence[str], whole: int) -> Row:
    lane = window.lanes[slot.lane]
    first = slot.begin_ps * _PARTS // whole
    last = max((slot.begin_ps + slot.duration_ps) * _PARTS // whole - 1, first)
    return (
        slot.begin_ps * PS,
        slot.duration_ps * PS,
        slot.operation.name,
        slot.operation.category or None,
        names[slot.lane],
        lane.device,
        lane.line,
        (min(first, _PARTS - 1), min(last, _PARTS - 1), True),
    )


def _next(measured: Measured, step: str | None, slots: Sequence[Slot]) -> tuple[str, ...]:
    if not measured.command or not slots:
        return ()
    chosen = f" --step {step}" if step is not None and step.isalnum() else ""
    longest = max(slots, key=lambda slot: slot.duration_ps)
    return (f"{measured.command} --timeline{chosen} -o timeline.html", f"{measured.command} {longest.operation.name}")
