"""Where did the time go, summed up? By what instructions have in common, by step, by device, and over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.origin.origins import COMPUTED_KEY, NO_SCOPE_KEY, OTHER_KEYS, UNKNOWN_KEY, By, Key, Keys, keys_of
from hlo_cli.analysis.profile.measure import Measure, is_inner, measured_trips, measures
from hlo_cli.analysis.profile.operation_times import Slot, Window, host_of, median_step, rows_of, sums_by, window_of
from hlo_cli.analysis.profile.profile import NO_STEP, PS, MeasuredProgram, Step
from hlo_cli.analysis.query.fields import NO_AXES
from hlo_cli.commands.modules.by import Group, KeyCost, group_by, key_columns, where_key
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.profile.by_operation import (
    facts_of,
    numbers_of,
    rate_columns,
    step_noun,
    time_columns,
)
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import NO_INSTRUCTION, Sum, Timed, sum_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import Integers
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Share, Table, Unit, columns_of_part, rows_from, rows_from_tuples
from hlo_cli.report.text import Line, Passage, Run
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Collective
# --- --by: groups of instructions ---
# `hlo profile TRACE --by GROUP`: measured times, summed up by what the instructions have in common.


NO_COLLECTIVE: Final = "(no collective)"
_OF: Final = " of "
"""What stands between the name of a computation and that of its program, if several programs have such a one."""
_UNNAMED: Final = (*OTHER_KEYS, NO_INSTRUCTION, NO_COLLECTIVE, NO_AXES)
_TABLES: Final = {
    "source": "sources",
    "scope": "scopes",
    "argument": "arguments",
    "opcode": "opcodes",
    "kind": "kinds",
    "axis": "axes",
    "computation": "computations",
    "module": "modules",
}


def report_of_groups(measured: Measured, grouping: str) -> Report:
    """One row for each key of a grouping, the longest first."""
    groups = sorted(
        ((sum_of(group.members), group) for group in group_by(measured.selected, _key_of(measured, grouping))),
        key=lambda found: (-found[0].busy_time, -found[0].self_time, found[1].key),
    )
    return Report(
        "profile",
        _groups_answer(measured, grouping, groups),
        version=1,
        numbers=numbers_of(measured),
        parts=(facts_of(measured), _groups_table(measured, grouping, groups)),
        next=_next_of_groups(measured, grouping, groups),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _groups_table(measured: Measured, grouping: str, groups: Sequence[tuple[Sum, Group[Timed]]]) -> Table:
    by = cause_of(grouping)
    trips = _trips(measured) if grouping == "computation" else {}
    columns: tuple[Column[Sum, Group[Timed]], ...] = (
        *columns_of_part(time_columns(measured), lambda work, group: work),
        Column("instructions", "instr.", "count", total="sum", rank=6, of=lambda work, group: work.operations),
        *columns_of_part(rate_columns(measured, [work for work, _ in groups]), lambda work, group: work),
    )
    if grouping == "computation":
        has_trips = bool(trips)
        loops = Column("trips", "trips", "number", person=has_trips, of=lambda work, group: trips.get(group.key))
        columns = (*columns, loops)
    if by is None:
        unit: Unit = "opcode" if grouping == "opcode" else "text"
        columns = (*columns, Column(grouping, grouping, unit, of=lambda work, group: group.key))
    else:
        columns = (
            *columns,
            *columns_of_part(_key_columns(by, [group for _, group in groups]), lambda work, group: group),
        )
    rows = rows_from_tuples(columns, groups)
    return Table(_TABLES[grouping], columns, rows, noun="rows")


def _trips(measured: Measured) -> Mapping[str, float]:
    """The measured trip counts of loops by the keys of their bodies."""

    calls = [each.measure.calls for each in measured.every]
    found = measured_trips(measured.profile, calls)
    keys = _computation_keys(measured)
    bodies = {loop.called_computations[0]: trips for loop, trips in found.items()}
    return {key: bodies[computation] for (_, computation), key in keys.items() if computation in bodies}


def _computation_key(measured: Measured) -> Callable[[Timed], str]:
    keys = _computation_keys(measured)

    def key(each: Timed) -> str:
        instruction, program = each.operation.instruction, each.operation.program
        return NO_INSTRUCTION if instruction is None or program is None else keys[program, instruction.computation]

    return key


def _computation_keys(measured: Measured) -> Mapping[tuple[MeasuredProgram, Computation], str]:
    """The name of each computation, with that of its program if computations of other programs have the same."""
    found = [
        (program, computation)
        for program in measured.profile.programs
        if program.module is not None
        for computation in program.module.computations
    ]
    counts = Counter(computation.name for _, computation in found)
    return {
        (program, computation): f"{computation.name}{_OF}{program.name}"
        if counts[computation.name] > 1
        else computation.name
        for program, computation in found
    }


def _key_columns(by: By, groups: Sequence[Group[Timed]]) -> tuple[Column[Group[Timed]], ...]:
    """Those of any cost, with the inferred part in seconds."""
    has_inferred = any(group.inferred for group in groups)
    keys = key_columns(by, "self_seconds", groups, has_inferred=has_inferred)
    layers, *_, key = columns_of_part(keys, lambda group: KeyCost(group, 0, 0))
    return (
        layers,
        Column(
            "inferred_seconds",
            "inferred",
            "seconds",
            total="sum",
            person=False,
            of=lambda group: _self_seconds(group.inferred),
        ),
        Column(
            "inferred_share",
            "inferred",
            "percent",
            person=has_inferred,
            from_width=120,
            rank=4,
            of=lambda group: _self_seconds(group.inferred) / whole if (whole := _self_seconds(group.members)) else None,
        ),
        key,
    )


def _self_seconds(timed: Iterable[Timed]) -> float:
    return sum(each.measure.self_time for each in timed)


def _key_of(measured: Measured, grouping: str) -> Callable[[Timed], Key]:
    if (by := cause_of(grouping)) is not None:
        return _cause_key(by)
    read = {
        "opcode": lambda each: each.operation.instruction.opcode,
        "kind": lambda each: each.operation.category,
        "computation": _computation_key(measured),
        "module": lambda each: each.operation.program.name,
        "axis": _axis_key(),
    }[grouping]

    def key(each: Timed) -> Key:
        is_known = each.operation.is_joined if grouping != "module" else each.operation.program is not None
        text = read(each) if is_known else NO_INSTRUCTION
        return Key(text, text)

    return key


def _cause_key(by: By) -> Callable[[Timed], Key]:
    found: dict[Module, Keys] = {}
    nothing = Key(NO_INSTRUCTION, NO_INSTRUCTION)

    def key(each: Timed) -> Key:
        instruction, program = each.operation.instruction, each.operation.program
        if instruction is None or program is None or program.module is None:
            return nothing
        if program.module not in found:
            found[program.module] = keys_of(program.module, by)
        return found[program.module].of(instruction)

    return key


def _axis_key() -> Callable[[Timed], str]:
    """The mesh axes of a collective, and of the start, done, or fusion around it."""
    found: dict[Module, dict[Instruction, Collective]] = {}

    def key(each: Timed) -> str:
        from hlo_cli.analysis.sharding.collectives import collectives_of

        instruction, program = each.operation.instruction, each.operation.program
        if instruction is None or program is None or program.module is None:
            return NO_COLLECTIVE
        if program.module not in found:
            listed = collectives_of(program.module)
            found[program.module] = {
                **{collective.caller: collective for collective in listed},
                **{collective.instruction: collective for collective in listed},
            }
        at = [instruction, *(instruction.operands[:1] if instruction.opcode.endswith("-done") else ())]
        collective = next((found[program.module][each] for each in at if each in found[program.module]), None)
        return NO_COLLECTIVE if collective is None else collective.axis or NO_AXES

    return key


def _groups_answer(measured: Measured, grouping: str, groups: Sequence[tuple[Sum, Group[Timed]]]) -> str:
    if not groups:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    whole, largest = measured.whole, groups[0]
    each, group = next((found for found in groups if found[1].key not in _UNNAMED), largest)
    words = f"{_subject(group.key, grouping)} {'take' if group.key in _UNNAMED else 'takes'}"
    words += f" {format_percent(each.busy_time / whole) if whole else 100}% of {measured.whole_words}"
    if group is not largest[1] and whole:
        share = format_percent(largest[0].busy_time / whole)
        words += f"; {_unnamed_words(largest[1].key, grouping)} take {share}%"
    is_sentence = group.key in _UNNAMED or grouping == "axis"
    return f"{words[0].upper()}{words[1:]}" if is_sentence else words


def _subject(key: str, grouping: str) -> str:
    """A key as the subject of a sentence."""
    if key in _UNNAMED:
        return _unnamed_words(key, grouping)
    if grouping == "source":
        return key.rpartition("/")[2]
    return f"axis {key}" if grouping == "axis" and key != "-" else key


def _unnamed_words(key: str, grouping: str) -> str:
    """What has a key that names no cause."""
    words = {
        NO_INSTRUCTION: "kernels without an instruction",
        NO_COLLECTIVE: "operations that are not collectives",
        NO_AXES: "collectives of no axis",
        UNKNOWN_KEY: f"instructions of unknown {grouping}",
        NO_SCOPE_KEY: "instructions without a scope",
        COMPUTED_KEY: "computed values",
    }
    return words.get(key, key.strip("()"))


def _next_of_groups(measured: Measured, grouping: str, groups: Sequence[tuple[Sum, Group[Timed]]]) -> tuple[str, ...]:
    command, by = measured.command, cause_of(grouping)
    key = next((group.key for _, group in groups if group.key not in _UNNAMED), None)
    if not command or key is None:
        return ()
    if by is not None:
        where = where_key(by, key)
    else:
        field = {"opcode": "opcode", "kind": "category", "axis": "axis", "computation": "computation"}.get(grouping)
        key, _, program = key.partition(_OF) if grouping == "computation" else (key, "", "")
        where = f"--where '{field or 'module'} == \"{key}\"'" if not set(key) & set("'\"\\") else None
        if where is not None and program and measured.module is None:
            where = f"{format_options((('--module', program),))} {where}"
    return () if where is None else (f"{command} {where}",)


# --- --by step or device ---
# `hlo profile TRACE --by step|device`: the time of every step, or of every device, and the idle part of it.


def report_of_steps(measured: Measured) -> Report:
    """One row for each step, in the order of time, and one for what runs outside of steps."""
    steps = measured.profile.steps
    busy = [each * PS for each in measured.profile.step_busy_ps]
    found = _Groups(measured, measured.profile.step_codes, len(steps))
    durations = [step.duration_ps * PS for step in steps]
    devices = max(len(measured.profile.devices), 1)
    rows: list[tuple[_Slice, Step | None]] = [
        (found.slice(at, duration, busy[at], devices), step)
        for at, (step, duration) in enumerate(zip(steps, durations, strict=True))
    ]
    rest = measured.profile.busy_outside_ps * PS
    if (outside := found.outside()) is not None and (outside.events or (rest and not measured.is_narrowed)):
        rows.append((_Slice(outside, None, rest, devices), None))
    group = f"per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""
    columns: tuple[Column[_Slice, Step | None], ...] = (
        *columns_of_part(found.columns(group), lambda slice, step: slice),
        Column(
            "whole_step",
            "whole",
            "flag",
            person=any(not step.is_whole for step in steps),
            of=lambda slice, step: None if step is None else "whole" if step.is_whole else "partial",
        ),
        Column("trace_step", "step", of=lambda slice, step: "(no step)" if step is None else step.name),
    )
    table = Table("steps", columns, rows_from_tuples(columns, rows), noun="steps")
    whole = [duration for step, duration in zip(steps, durations, strict=True) if step.is_whole]
    return _report(measured, _steps_answer(measured, whole), table)


def report_of_devices(measured: Measured) -> Report:
    """One row for each device: its time, and the idle part of it."""
    profile = measured.profile
    found = _Groups(measured, profile.occurrences.devices, len(profile.devices))
    spans, busy = ([each * PS for each in times] for times in (profile.spans_ps, profile.busy_ps))
    columns: tuple[Column[_Slice, str], ...] = (
        *columns_of_part(found.columns(""), lambda slice, device: slice),
        Column("device", "device", of=lambda slice, device: device),
    )
    slices = [found.slice(at, spans[at], busy[at], 1) for at in range(len(profile.devices))]
    rows = rows_from_tuples(columns, zip(slices, profile.devices, strict=True))
    table = Table("devices", columns, rows, noun="devices")
    busiest = max(range(len(rows)), key=lambda at: busy[at])
    name, seconds = profile.devices[busiest], busy[busiest]
    words = f"{name} is busiest: {format_seconds(seconds)} of {format_seconds(spans[busiest])}"
    if len(rows) == 1:
        words = f"{name} is busy for {format_seconds(seconds)} of {format_seconds(spans[0])}"
    return _report(measured, words, table)


def _report(measured: Measured, answer: str, table: Table) -> Report:
    return Report(
        "profile",
        answer,
        version=1,
        numbers=numbers_of(measured),
        parts=(facts_of(measured), table) if table.rows else (facts_of(measured), _nothing(measured), table),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _nothing(measured: Measured) -> Passage:
    annotation = 'with jax.profiler.StepTraceAnnotation("step", step_num=number): ...'
    return Passage("nothing", (f"Steps are those of the trace; annotate them with: {annotation}",))


def _steps_answer(measured: Measured, whole: Sequence[float]) -> str:
    steps = measured.profile.steps
    if not steps:
        return "No steps in this trace"
    if not whole:
        return f"No whole step: {format_count(len(steps), 'partial steps')}"
    words = f"{format_count(len(whole), step_noun(measured))} of {format_seconds(median(whole))}"
    if len(whole) > 1:
        words += f" (median), {format_seconds(min(whole))} to {format_seconds(max(whole))}"
    if partial := len(steps) - len(whole):
        words += f"; {format_count(partial, 'partial steps')} {verb(partial, 'is', 'are')} not counted"
    return words


@dataclass(frozen=True, slots=True)
class _Slice:
    """What ran in a step or on a device: its `time`, the `busy` time of all devices, and its work; None is no amount.

    Busy and idle time are those of the devices, also where only some operations are selected.
    """

    measure: Measure
    time: float | None
    busy: float
    devices: int
    flops: float | None = None
    bytes: float | None = None

    @property
    def idle(self) -> float | None:
        """The idle time of a device."""
        return None if self.time is None else max(self.time - self.busy / self.devices, 0.0)

    def rate(self, amount: float | None) -> float | None:
        """Work in each second of a device."""
        return None if amount is None or not self.time else amount / self.time / self.devices


class _Groups:
    """Times and work of the selected operations in each of several groups of rows."""

    def __init__(self, measured: Measured, groups: Integers, count: int) -> None:
        profile = measured.profile
        self._measured, self._groups, self._rows = measured, groups, None
        if measured.is_narrowed:
            chosen = {each.operation for each in measured.selected}
            self._rows = rows_of(profile, (at for at, each in enumerate(profile.operations) if each in chosen))
        self.measures = measures(profile, groups, count, self._rows)
        chosen = {each.operation for each in measured.selected}
        # as in all sums, loops and calls have the work of what runs inside them, which has rows of its own
        counted = [None if each not in chosen or is_inner(each) else each for each in profile.operations]
        flops, accessed = ([(each and getattr(each, name)) or 0.0 for each in counted] for name in ("flops", "bytes"))
        self._flops, self._bytes = (sums_by(profile, groups, count, amounts) for amounts in (flops, accessed))

    def columns(self, group: str) -> tuple[Column[_Slice], ...]:
        """The times and the work of a slice, those of a device under a header."""
        return (
            Column("time_seconds", "time", "seconds", total="sum", of=lambda slice: slice.time),
            Column("events", "events", "count", total="sum", of=lambda slice: slice.measure.events),
            Column("seconds", "self", "seconds", total="sum", group=group, person=self._rows is not None,
                   of=lambda slice: slice.measure.self_time / slice.devices),
            Column("busy_seconds", "busy", "seconds", total="sum", group=group,
                   of=lambda slice: slice.busy / slice.devices),
            Column("idle_seconds", "idle", "seconds", total="sum", group=group, of=lambda slice: slice.idle),
            Column("idle_share", "idle", "percent", group=group, total=Share("idle_seconds", "time_seconds"),
                   of=lambda slice: slice.idle / slice.time if slice.time and slice.idle is not None else None),
            Column("self_seconds", "self", "seconds", total="sum", person=False,
                   of=lambda slice: slice.measure.self_time),
            Column("flops", "flops", "count", total="sum", person=False, of=lambda slice: slice.flops),
            Column("bytes", "bytes", "bytes", total="sum", person=False, of=lambda slice: slice.bytes),
            Column("flop_rate", "", "flop/second", person=any(self._flops), group=group,
                   of=lambda slice: slice.rate(slice.flops)),
            Column("byte_rate", "", "byte/second", person=any(self._bytes), group=group,
                   of=lambda slice: slice.rate(slice.bytes)),
        )  # fmt: skip

    def slice(self, at: int, time: float, busy: float, devices: int) -> _Slice:
        """A group that took this time; `busy` is that of all devices, shown times are those of one."""
        return _Slice(self.measures[at], time, busy, devices, self._flops[at], self._bytes[at])

    def outside(self) -> Measure | None:
        """The times of the rows in no group."""
        groups = (self._groups == NO_STEP).astype(self._groups.dtype) - 1
        return measures(self._measured.profile, groups, 1, self._rows)[0] if len(groups) else None


# --- --timeline: one step ---
# `hlo profile TRACE --timeline`: what ran when in one step, on every line of every device.


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
        _timeline_answer(window, slots, name, seconds, own),
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
        parts=(facts_of(measured), _figure(window), _timeline_table(window, slots)),
        next=_next_of_timeline(measured, name, slots),
        notes=(*_notes(measured), *measured.notes),
        input=measured.loaded.facts,
    )


def _notes(measured: Measured) -> Iterator[Diagnostic]:
    if host := host_of(measured.profile):
        yield Diagnostic("note", f"showing the devices of {host}; the clocks of hosts differ")


def _timeline_answer(window: Window, slots: Sequence[Slot], name: str | None, seconds: float, own: int) -> str:
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
    return Figure("lanes", draw, data=data, on_pages=False)


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


def _timeline_table(window: Window, slots: Sequence[Slot]) -> Table:
    names = _lane_names(window)
    whole = max(window.end_ps - window.begin_ps, 1)
    columns: tuple[Column[Slot], ...] = (
        Column("begin_seconds", "begin", "seconds", of=lambda slot: slot.begin_ps * PS),
        Column("seconds", "duration", "seconds", of=lambda slot: slot.duration_ps * PS),
        Column("instruction", "instruction", "name", of=lambda slot: slot.operation.name),
        Column("category", "category", from_width=120, of=lambda slot: slot.operation.category or None),
        Column("lane", "line", is_lane=True, of=lambda slot: names[slot.lane]),
        Column("device", "device", person=False, of=lambda slot: window.lanes[slot.lane].device),
        Column("line_name", "line", person=False, of=lambda slot: window.lanes[slot.lane].line),
        Column(
            "span",
            "time",
            "span",
            steps=_PARTS,
            seconds=window.seconds,
            machine=False,
            is_measured=True,
            of=lambda slot: (
                min(slot.begin_ps * _PARTS // whole, _PARTS - 1),
                min(
                    max((slot.begin_ps + slot.duration_ps) * _PARTS // whole - 1, slot.begin_ps * _PARTS // whole),
                    _PARTS - 1,
                ),
                True,
            ),
        ),
    )
    rows = rows_from(columns, slots)
    return Table("timeline", columns, rows, noun="events")


def _next_of_timeline(measured: Measured, step: str | None, slots: Sequence[Slot]) -> tuple[str, ...]:
    if not measured.command or not slots:
        return ()
    chosen = f" --step {step}" if step is not None and step.isalnum() else ""
    longest = max(slots, key=lambda slot: slot.duration_ps)
    return (f"{measured.command} --timeline{chosen} -o timeline.html", f"{measured.command} {longest.operation.name}")
