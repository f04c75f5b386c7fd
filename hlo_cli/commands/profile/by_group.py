"""Where did the time go, summed up? By what instructions have in common, by step, by device, and over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.origin.origins import COMPUTED_KEY, NO_SCOPE_KEY, OTHER_KEYS, UNKNOWN_KEY, By, Key, Keys, keys_of
from hlo_cli.analysis.profile.critical_path import LateDevice, has_one_clock, has_unknown_groups, late_devices, waits_of
from hlo_cli.analysis.profile.executions import ProgramExecutions, executions_by_program, median_step
from hlo_cli.analysis.profile.measure import Measure, is_inner, measured_trips, measures
from hlo_cli.analysis.profile.operation_times import Slot, Window, host_of, rows_of, sums_by, window_of
from hlo_cli.analysis.profile.profile import NO_STEP, MeasuredProgram, Profile, Step
from hlo_cli.analysis.query.fields import NO_AXES
from hlo_cli.commands.modules.by import Group, KeyCost, group_by, key_columns, where_key
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.profile.budget import part_columns
from hlo_cli.commands.profile.by_operation import (
    collectives_by_instruction,
    facts_of,
    numbers_of,
    plural_of_kind,
    rate_columns,
    time_columns,
)
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import BLOCKS, NO_INSTRUCTION, Sum, Timed, sum_of
from hlo_cli.commands.profile.utilization import StepUtilization
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS, Integers
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
_OF_PROGRAM: Final = " of "
"""What stands between the name of a computation and that of its program, if several programs have such a one."""
_KEYS_WITHOUT_NAME: Final = (*OTHER_KEYS, NO_INSTRUCTION, NO_COLLECTIVE, NO_AXES)
_TABLE_NAMES: Final = {
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
        key=lambda row: (-row[0].busy_time, -row[0].self_time, row[1].key),
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
    trips = _trips_of_bodies(measured) if grouping == "computation" else {}
    executions = {each.program.name: each for each in executions_by_program(measured.profile)}
    columns: tuple[Column[Sum, Group[Timed]], ...] = (
        *columns_of_part(time_columns(measured), lambda work, group: work),
        Column("instructions", "instr.", "count", total="sum", rank=6, of=lambda work, group: work.operations),
        *columns_of_part(rate_columns(measured, [work for work, _ in groups]), lambda work, group: work),
    )
    if grouping == "computation":
        has_trips = bool(trips)
        loops = Column("trips", "trips", "number", person=has_trips, of=lambda work, group: trips.get(group.key))
        columns = (*columns, loops)
    if grouping == "module":
        columns = (*columns, *columns_of_part(_EXECUTION_COLUMNS, lambda work, group: executions.get(group.key)))
    if by is None:
        unit: Unit = "opcode" if grouping == "opcode" else "text"
        columns = (*columns, Column(grouping, grouping, unit, of=lambda work, group: group.key))
    else:
        columns = (
            *columns,
            *columns_of_part(_key_columns(by, [group for _, group in groups]), lambda work, group: group),
        )
    rows = rows_from_tuples(columns, groups)
    return Table(_TABLE_NAMES[grouping], columns, rows, noun="rows")


_EXECUTION_COLUMNS: Final[tuple[Column[ProgramExecutions | None], ...]] = (
    Column("module_executions", "runs", "count", rank=6, of=lambda each: None if each is None else len(each)),
    Column("execution_median_seconds", "median", "seconds", rank=6,
           of=lambda each: None if each is None else each.median),
    Column("execution_greatest_seconds", "max", "seconds", rank=4,
           of=lambda each: None if each is None else each.greatest),
)  # fmt: skip
"""How often a module ran, and how long."""


def _trips_of_bodies(measured: Measured) -> Mapping[str, float]:
    """The measured trip counts of loops by the keys of their bodies."""

    calls = [timed.measure.calls for timed in measured.every]
    trip_counts = measured_trips(measured.profile, calls)
    keys = _computation_keys(measured)
    bodies = {loop.called_computations[0]: trips for loop, trips in trip_counts.items()}
    return {key: bodies[computation] for (_, computation), key in keys.items() if computation in bodies}


def _computation_key(measured: Measured) -> Callable[[Timed], str]:
    keys = _computation_keys(measured)

    def key(timed: Timed) -> str:
        instruction, program = timed.operation.instruction, timed.operation.program
        return NO_INSTRUCTION if instruction is None or program is None else keys[program, instruction.computation]

    return key


def _computation_keys(measured: Measured) -> Mapping[tuple[MeasuredProgram, Computation], str]:
    """The name of each computation, with that of its program if computations of other programs have the same."""
    computations = [
        (program, computation)
        for program in measured.profile.programs
        if program.module is not None
        for computation in program.module.computations
    ]
    counts = Counter(computation.name for _, computation in computations)
    return {
        (program, computation): f"{computation.name}{_OF_PROGRAM}{program.name}"
        if counts[computation.name] > 1
        else computation.name
        for program, computation in computations
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
            of=_inferred_share,
        ),
        key,
    )


def _inferred_share(group: Group[Timed]) -> float | None:
    seconds = _self_seconds(group.members)
    return _self_seconds(group.inferred) / seconds if seconds else None


def _self_seconds(timed: Iterable[Timed]) -> float:
    return sum(each.measure.self_time for each in timed)


def _key_of(measured: Measured, grouping: str) -> Callable[[Timed], Key]:
    if (by := cause_of(grouping)) is not None:
        return _cause_key(by)
    read = {
        "opcode": lambda timed: timed.operation.instruction.opcode,
        "kind": lambda timed: timed.operation.category,
        "computation": _computation_key(measured),
        "module": lambda timed: timed.operation.program.name,
        "axis": _axis_key(),
    }[grouping]

    def key(timed: Timed) -> Key:
        is_known = timed.operation.is_joined if grouping != "module" else timed.operation.program is not None
        text = read(timed) if is_known else NO_INSTRUCTION
        return Key(text, text)

    return key


def _cause_key(by: By) -> Callable[[Timed], Key]:
    keys_of_module: dict[Module, Keys] = {}
    nothing = Key(NO_INSTRUCTION, NO_INSTRUCTION)

    def key(timed: Timed) -> Key:
        instruction, program = timed.operation.instruction, timed.operation.program
        if instruction is None or program is None or program.module is None:
            return nothing
        if program.module not in keys_of_module:
            keys_of_module[program.module] = keys_of(program.module, by)
        return keys_of_module[program.module].of(instruction)

    return key


def _axis_key() -> Callable[[Timed], str]:
    """The mesh axes of a collective, and of the start, done, or fusion around it."""
    collectives: dict[Module, dict[Instruction, Collective]] = {}

    def key(timed: Timed) -> str:
        instruction, program = timed.operation.instruction, timed.operation.program
        if instruction is None or program is None or program.module is None:
            return NO_COLLECTIVE
        if program.module not in collectives:
            collectives[program.module] = collectives_by_instruction([program.module])
        # A done has the axes of its start, which is its operand.
        candidates = [instruction, *(instruction.operands[:1] if instruction.opcode.endswith("-done") else ())]
        known = (collectives[program.module].get(each) for each in candidates)
        collective = next((each for each in known if each is not None), None)
        return NO_COLLECTIVE if collective is None else collective.axis or NO_AXES

    return key


def _groups_answer(measured: Measured, grouping: str, groups: Sequence[tuple[Sum, Group[Timed]]]) -> str:
    if not groups:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    seconds, largest = measured.whole, groups[0]
    named, group = next((found for found in groups if found[1].key not in _KEYS_WITHOUT_NAME), largest)
    is_several = grouping in ("kind", "opcode") and len(group.members) > 1 and group.key not in _KEYS_WITHOUT_NAME
    if is_several:
        words = f"{len(group.members):,} {plural_of_kind(group.key)} take"
    else:
        words = f"{_subject(group.key, grouping)} {'take' if group.key in _KEYS_WITHOUT_NAME else 'takes'}"
    words += f" {format_percent(named.busy_time / seconds) if seconds else 100}% of {measured.whole_words}"
    if group is not largest[1] and seconds:
        share = format_percent(largest[0].busy_time / seconds)
        words += f"; {_unnamed_words(largest[1].key, grouping)} take {share}%"
    is_sentence = group.key in _KEYS_WITHOUT_NAME or grouping == "axis"
    return f"{words[0].upper()}{words[1:]}" if is_sentence else words


def _subject(key: str, grouping: str) -> str:
    """A key as the subject of a sentence."""
    if key in _KEYS_WITHOUT_NAME:
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
    key = next((group.key for _, group in groups if group.key not in _KEYS_WITHOUT_NAME), None)
    if not command or key is None:
        return ()
    if by is not None:
        where = where_key(by, key)
    else:
        field = {"opcode": "opcode", "kind": "category", "axis": "axis", "computation": "computation"}.get(grouping)
        # The language of filters has no field for both, so that the program becomes --module.
        key, _, program = key.partition(_OF_PROGRAM) if grouping == "computation" else (key, "", "")
        # A key with quotes would have to be escaped twice, for the shell and for the filter.
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
    spans = [each * PS for each in measured.profile.step_spans_ps]
    groups = _Groups(measured, measured.profile.step_codes, len(steps))
    durations = [step.duration_ps * PS for step in steps]
    devices = max(len(measured.profile.devices), 1)
    rows: list[tuple[_GroupTimes, Step | None]] = [
        (groups.slice(number, duration, spans[number], busy[number], devices), step)
        for number, (step, duration) in enumerate(zip(steps, durations, strict=True))
    ]
    busy_outside = measured.profile.busy_outside_ps * PS
    # Windows of executions that overlap are longer than the time that they share.
    span_outside = max(measured.whole - sum(spans), 0.0)
    outside = groups.outside()
    # Busy time is that of devices: with a selection it may be of operations that are not selected.
    is_worked = outside is not None and (outside.events or (busy_outside and not measured.is_narrowed))
    if outside is not None and (is_worked or _changes_idle(measured, spans, busy)):
        rows.append((_GroupTimes(outside, None, span_outside, busy_outside, devices), None))
    group = f"per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""
    parts = [None] * len(steps) if measured.budget is None else measured.budget.by_step(len(steps))
    parts_of = dict(zip(steps, parts, strict=True))
    used = StepUtilization(measured)
    columns: tuple[Column[_GroupTimes, Step | None], ...] = (
        *columns_of_part(groups.columns(group), lambda slice, step: slice),
        Column(
            "whole_step",
            "whole",
            "flag",
            person=any(not step.is_whole for step in steps),
            of=lambda slice, step: None if step is None else "whole" if step.is_whole else "partial",
        ),
        Column("trace_step", "step", of=lambda slice, step: _no_step(measured, slice) if step is None else step.name),
        *columns_of_part(part_columns(parts), lambda slice, step: None if step is None else parts_of[step]),
        *columns_of_part(used.columns, lambda slice, step: None if step is None else used.of_step(step)),
    )
    table = Table(
        "steps",
        columns,
        rows_from_tuples(columns, rows),
        noun="steps",
        footnote=". ".join(filter(None, (_on_parts(durations, spans, devices), _on_rates(measured)))),
    )
    whole_steps = [duration for step, duration in zip(steps, durations, strict=True) if step.is_whole]
    return _report_of_table(measured, _steps_answer(measured, whole_steps), table)


def _changes_idle(measured: Measured, spans: Sequence[float], busy: Sequence[float]) -> bool:
    """Whether steps alone are idle for another part of their time than the devices are of theirs, as printed."""
    if measured.is_narrowed or not sum(spans) or not measured.whole:
        return False
    return format_percent(1 - sum(busy) / sum(spans)) != format_percent(measured.idle / measured.whole)


def _on_parts(durations: Sequence[float], spans: Sequence[float], devices: int) -> str:
    """Why busy and idle time do not add up to that of a step; empty if they do, as they are printed."""
    if format_percent(sum(spans) / devices / (sum(durations) or 1.0)) == "100":
        return ""
    return "A step lasts from the first begin to the last end on any device; idle is a device within its own part of it"


def _on_rates(measured: Measured) -> str:
    """Which flops the rates of steps and devices count, beside those of matmuls in the facts above."""
    used = measured.utilization
    if used is None or not any(each.operation.flops for each in measured.selected):
        return ""
    again = " and rematerialized" if used.recomputed_flops else ""
    return f"Rates in this table count all flops, elementwise{again} ones too"


def report_of_devices(measured: Measured) -> Report:
    """One row for each device: its time, and the idle part of it."""
    profile = measured.profile
    groups = _Groups(measured, profile.occurrences.devices, len(profile.devices))
    spans, busy = ([each * PS for each in times] for times in (profile.spans_ps, profile.busy_ps))
    devices = len(profile.devices)
    parts = [None] * devices if measured.budget is None else measured.budget.by_device(devices)
    parts_of = dict(zip(profile.devices, parts, strict=True))
    late = [] if measured.is_narrowed else late_devices(profile, waits_of(profile))
    delays: dict[str, float] = {}
    for each in late:
        delays[profile.devices[each.device]] = delays.get(profile.devices[each.device], 0.0) + each.delay
    columns: tuple[Column[_GroupTimes, str], ...] = (
        *columns_of_part(groups.columns(""), lambda slice, device: slice),
        Column(
            "late_seconds",
            "late",
            "seconds",
            person=bool(late),
            role="waste",
            of=lambda slice, device: delays.get(device, 0.0),
        ),
        Column("device", "device", of=lambda slice, device: device),
        *columns_of_part(part_columns(parts), lambda slice, device: parts_of[device]),
    )
    slices = [
        groups.slice(number, spans[number], spans[number], busy[number], 1) for number in range(len(profile.devices))
    ]
    rows = rows_from_tuples(columns, zip(slices, profile.devices, strict=True))
    table = Table("devices", columns, rows, noun="devices", footnote=_on_rates(measured))
    busiest = max(range(len(rows)), key=lambda number: busy[number])
    name, seconds = profile.devices[busiest], busy[busiest]
    words = f"{name} is busiest: {format_seconds(seconds)} of {format_seconds(spans[busiest])}"
    if len(rows) == 1:
        words = f"{name} is busy for {format_seconds(seconds)} of {format_seconds(spans[0])}"
    if late and late[0].delay > _WORTH_NAMING * max(spans, default=0.0):
        words = _late_answer(measured, late)
    report = _report_of_table(measured, words, table)
    if late:
        words = "Replica groups are unknown without HLO: each collective counts as one of all devices."
        remarks = [Passage("remarks", (words,))] if has_unknown_groups(profile) else []
        return replace(report, parts=(*report.parts, _late_table(measured, late), *remarks))
    if remark := _clock_words(profile):
        return replace(report, parts=(*report.parts, Passage("remarks", (remark,))))
    return report


def _clock_words(profile: Profile) -> str:
    """Why it is unknown how long devices wait for each other; empty if it is known."""
    if len(profile.devices) < 2 or has_one_clock(profile):
        return ""
    if len(profile.traces) == 1:
        return "Wait times of devices are unknown: each device has its own clock."
    words = "Wait times of devices are unknown: the clocks of hosts differ"
    return f"{words}." if profile.platform == "TPU" else f"{words}. For those within a host, pass its trace alone."


_WORTH_NAMING: Final = 0.02
"""The least part of the time of a device by which another one is late that the first line names; chosen."""


def _late_answer(measured: Measured, late: Sequence[LateDevice]) -> str:
    """Which device others wait for most, at which collective, and the cause."""
    profile, first = measured.profile, late[0]
    own = [each for each in late if each.device == first.device]
    delay = sum(each.delay for each in own)
    words = f"{profile.devices[first.device]} is late at {profile.operations[first.operation].name}"
    words += f": other devices wait {format_seconds(delay)} in all"
    if steps := _whole_steps(measured):
        in_steps = sum(each.step_delay for each in own)
        words += f", {format_seconds(in_steps / steps)} per {measured.step_noun.removesuffix('s')}"
    return words + (f"; it takes longer for {profile.operations[first.cause].name}" if first.cause is not None else "")


def _whole_steps(measured: Measured) -> int:
    return sum(step.is_whole for step in measured.profile.steps)


def _late_table(measured: Measured, late: Sequence[LateDevice]) -> Table:
    """The devices that others wait for, by collective."""
    profile, steps = measured.profile, max(_whole_steps(measured), 1)

    def reason(each: LateDevice) -> str | None:
        if each.cause is None:
            return "starts later" if each.starts_late else None
        return f"{profile.operations[each.cause].name}, {format_seconds(each.cause_seconds)} more"

    def cause_name(each: LateDevice) -> str | None:
        return None if each.cause is None else profile.operations[each.cause].name

    columns: tuple[Column[LateDevice], ...] = (
        Column("late_seconds", "late", "seconds", total="sum", role="waste", of=lambda each: each.delay),
        Column("late_seconds_per_step", "per step", "seconds", total="sum", of=lambda each: each.step_delay / steps),
        Column("waited_seconds", "wait time", "seconds", total="sum", rank=6, of=lambda each: each.waited),
        Column("late_times", "times", "count", rank=5, of=lambda each: each.times),
        Column("late_steps", "steps", "count", rank=4, of=lambda each: each.steps),
        Column("device", "late device", of=lambda each: profile.devices[each.device]),
        Column("instruction", "at", "name", of=lambda each: profile.operations[each.operation].name),
        Column("late_reason", "cause", of=reason),
        Column("late_cause", "cause", "name", person=False, of=cause_name),
        Column("late_cause_seconds", "cause", "seconds", person=False,
               of=lambda each: each.cause_seconds if each.cause is not None else None),
    )  # fmt: skip
    rows = rows_from(columns, late)
    return Table("late_devices", columns, rows, title="late devices", noun="rows", main=False, limit=10)


def _report_of_table(measured: Measured, answer: str, table: Table) -> Report:
    return Report(
        "profile",
        answer,
        version=1,
        numbers=numbers_of(measured),
        parts=(facts_of(measured), table) if table.rows else (facts_of(measured), _no_steps_passage(measured), table),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _no_steps_passage(measured: Measured) -> Passage:
    annotation = 'with jax.profiler.StepTraceAnnotation("step", step_num=number): ...'
    return Passage("nothing", (f"Steps are those of the trace; annotate them with: {annotation}",))


def _no_step(measured: Measured, outside: _GroupTimes) -> str:
    """What ran in no step: nothing, or other modules, if all of it was executions of some."""
    if not outside.busy and not outside.measure.events:
        return "(between)"
    return "(no step)" if measured.means.outside or not len(measured.executions) > 1 else "(other modules)"


def _steps_answer(measured: Measured, durations: Sequence[float]) -> str:
    steps = measured.profile.steps
    if not steps:
        return "No steps in this trace"
    if not durations:
        return f"No whole step: {format_count(len(steps), 'partial steps')}"
    own = next((f" of {each.program.name}" for each in measured.executions if each.is_step), "")
    noun = format_count(len(durations), measured.step_noun) + (own if len(measured.executions) > 1 else "")
    words = f"{noun} of {format_seconds(median(durations))}"
    if len(durations) > 1:
        words += f" (median), {format_seconds(min(durations))} to {format_seconds(max(durations))}"
    if partial := len(steps) - len(durations):
        words += f"; {format_count(partial, 'partial steps')} {verb(partial, 'is', 'are')} not counted"
    return words


@dataclass(frozen=True, slots=True)
class _GroupTimes:
    """What ran in a step or on a device: its `time`, that of its devices, and its work; None is no amount.

    `span` is the time of all devices together in it, of which `busy` is a part: they begin and end at other times.
    Busy and idle time are those of the devices, also where only some operations are selected.
    """

    measure: Measure
    time: float | None
    span: float
    busy: float
    devices: int
    flops: float | None = None
    bytes: float | None = None

    @property
    def idle(self) -> float:
        """The idle time of a device."""
        return max(self.span - self.busy, 0.0) / self.devices

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

    def columns(self, group: str) -> tuple[Column[_GroupTimes], ...]:
        """The times and the work of a slice, those of a device under a header."""
        return (
            Column("time_seconds", "time", "seconds", total="sum", of=lambda slice: slice.time),
            Column("events", "events", "count", total="sum", of=lambda slice: slice.measure.events),
            Column("seconds", "self", "seconds", total="sum", group=group, person=self._rows is not None,
                   of=lambda slice: slice.measure.self_time / slice.devices),
            Column("busy_seconds", "busy", "seconds", total="sum", group=group,
                   of=lambda slice: slice.busy / slice.devices),
            Column("idle_seconds", "idle", "seconds", total="sum", group=group, of=lambda slice: slice.idle),
            Column("idle_share", "idle", "percent", group=group, total=Share("idle_seconds", "device_seconds"),
                   of=lambda slice: slice.idle * slice.devices / slice.span if slice.span else None),
            Column("device_seconds", "device time", "seconds", total="sum", person=False,
                   of=lambda slice: slice.span / slice.devices),
            Column("self_seconds", "self", "seconds", total="sum", person=False,
                   of=lambda slice: slice.measure.self_time),
            Column("flops", "flops", "flops", total="sum", person=False, of=lambda slice: slice.flops),
            Column("bytes", "bytes", "bytes", total="sum", person=False, of=lambda slice: slice.bytes),
            Column("flop_rate", "", "flop/second", person=any(self._flops), group=group,
                   of=lambda slice: slice.rate(slice.flops)),
            Column("byte_rate", "", "byte/second", person=any(self._bytes), group=group,
                   of=lambda slice: slice.rate(slice.bytes)),
        )  # fmt: skip

    def slice(self, number: int, time: float, span: float, busy: float, devices: int) -> _GroupTimes:
        """A group that took this time; `span` and `busy` are those of all devices, shown times are those of one."""
        return _GroupTimes(self.measures[number], time, span, busy, devices, self._flops[number], self._bytes[number])

    def outside(self) -> Measure | None:
        """The times of the rows in no group."""
        # 0 for rows in no group, -1 (no group) for all others.
        groups = (self._groups == NO_STEP).astype(self._groups.dtype) - 1
        return measures(self._measured.profile, groups, 1, self._rows)[0] if len(groups) else None


# --- --timeline: one step ---
# `hlo profile TRACE --timeline`: what ran when in one step, on every line of every device.


_AXIS_PARTS: Final = 1_000_000
"""The resolution of the time axis: its number of parts."""
_MAX_LANES: Final = 16
"""How many lanes the screen shows."""


def report_of_timeline(measured: Measured, step: str | None) -> Report:
    """The events of a step, by default of the one with the median time; without steps, of the whole trace."""
    profile = measured.profile
    if not has_event_times(measured):
        hint = "record it with events, such as with `rocprofv3 --kernel-trace`"
        raise HloError(f"{measured.loaded.path} has only sums of events, without times", hint=hint)
    step_number = median_step(profile)
    if step is not None:
        names = [each.name for each in profile.steps]
        if step not in names:
            raise unknown_choice_error("step", step, names)
        step_number = names.index(step)
    window = window_of(profile, step_number)
    slots = window.slots()
    if measured.is_narrowed:
        chosen = {each.operation for each in measured.selected}
        slots = [slot for slot in slots if slot.operation in chosen]
    name = None if step_number is None else profile.steps[step_number].name
    seconds = window.seconds if step_number is None else profile.steps[step_number].duration_ps * PS
    own_events = (
        len(slots)
        if step_number is None or measured.is_narrowed
        else int((profile.step_codes[window.rows] == step_number).sum())
    )
    return Report(
        "profile",
        _timeline_answer(window, slots, _place(measured, name), seconds, own_events),
        version=1,
        numbers={
            "step": name,
            "begin_seconds": window.begin_ps * PS,
            "seconds": window.seconds,
            "step_seconds": None if step_number is None else seconds,
            "events": len(slots),
            "step_events": own_events,
            "lanes": len(window.lanes),
        },
        parts=(facts_of(measured), _lanes_figure(window), _timeline_table(window, slots)),
        next=_next_of_timeline(measured, name, slots),
        notes=(*_timeline_notes(measured), *measured.notes),
        input=measured.loaded.facts,
    )


def has_event_times(measured: Measured) -> bool:
    """Whether a trace has the times of events, not only the sums of a table of statistics."""
    return not all(each.measure.events and each.measure.least is None for each in measured.every)


def _timeline_notes(measured: Measured) -> Iterator[Diagnostic]:
    if host := host_of(measured.profile):
        yield Diagnostic("note", f"showing the devices of {host}; the clocks of hosts differ")


def _place(measured: Measured, name: str | None) -> str:
    """What a timeline is of; where several programs ran, an execution of one of them."""
    if name is None:
        return "The trace"
    own = next((each.program.name for each in measured.executions if each.is_step), None)
    return f"Step {name}" if own is None or len(measured.executions) < 2 else f"Execution {name} of {own}"


def _timeline_answer(window: Window, slots: Sequence[Slot], place: str, seconds: float, own_events: int) -> str:
    """How long the step, which is named by `place`, took, as all screens have it; events may begin before it or end
    after it.

    `own_events` are the events of the step; those of others are shown, too, if they run at the same time.
    """
    words = f"{place} takes {format_seconds(seconds)}: {format_count(own_events, 'events')}"
    words += f" and {len(slots) - own_events:,} of other steps" if len(slots) > own_events else ""
    words += f" on {format_count(len(window.lanes), 'lines')}"
    is_longer = window.seconds - seconds > PS
    return f"{words}, within {format_seconds(window.seconds)}" if is_longer else words


def _lanes_figure(window: Window) -> Figure:
    """How busy each lane is over time, a line for each."""
    names = _lane_names(window)[:_MAX_LANES]
    width = max(map(len, names), default=0)
    omitted = len(window.lanes) - len(names)

    def draw(room: int) -> tuple[Line, ...]:
        # Seven columns are for the share and the gaps; below ten parts a lane says nothing, so that lines may be cut.
        parts = max(room - width - 7, 10)
        lines: list[Line] = []
        for lane, name in enumerate(names):
            busy = window.busy(lane, parts)
            share = format_percent(sum(busy) / len(busy))
            lines.append(
                (Run(f"{name:<{width}}  "), Run(f"{share:>3}%", "quiet"), Run(" " + "".join(map(_block, busy))))
            )
        end = format_seconds(window.seconds)
        lines.append((Run(f"{'':<{width}}       0{end:>{max(parts - 1, 1)}}", "quiet"),))
        if omitted:
            lines.append((Run(f"{format_count(omitted, 'more lines')}", "quiet"),))
        return tuple(lines)

    data: dict[str, Cell] = {
        "lanes": tuple(
            {"device": lane.device, "line": lane.line, "busy": tuple(window.busy(number, 100))}
            for number, lane in enumerate(window.lanes)
        )
    }
    return Figure("lanes", draw, data=data, on_pages=False)


def _block(fraction: float) -> str:
    """A block as high as a fraction; blank for 0.

    >>> [_block(each) for each in (0.0, 0.01, 0.5, 1.0)]
    [' ', '▁', '▄', '█']
    """
    return " " if fraction <= 0 else BLOCKS[min(max(-int(-fraction * len(BLOCKS) // 1), 1), len(BLOCKS)) - 1]


def _lane_names(window: Window) -> list[str]:
    """A short name for each lane: the device, and the line where a device has several."""
    devices = [lane.device for lane in window.lanes]
    names = []
    for number, lane in enumerate(window.lanes):
        same = [number for number, device in enumerate(devices) if device == lane.device]
        names.append(lane.device if len(same) == 1 else f"{lane.device} {same.index(number) + 1}")
    return names


def _timeline_table(window: Window, slots: Sequence[Slot]) -> Table:
    names = _lane_names(window)
    duration = max(window.end_ps - window.begin_ps, 1)
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
            steps=_AXIS_PARTS,
            seconds=window.seconds,
            machine=False,
            is_measured=True,
            of=lambda slot: _span_of(slot, duration),
        ),
    )
    rows = rows_from(columns, slots)
    return Table("timeline", columns, rows, noun="events")


def _span_of(slot: Slot, duration: int) -> tuple[int, int, bool]:
    """The first and the last part of the time axis in which an event runs; times are in picoseconds."""
    first = slot.begin_ps * _AXIS_PARTS // duration
    last = max((slot.begin_ps + slot.duration_ps) * _AXIS_PARTS // duration - 1, first)
    # An event at the very end still has a part.
    return min(first, _AXIS_PARTS - 1), min(last, _AXIS_PARTS - 1), True


def _next_of_timeline(measured: Measured, step: str | None, slots: Sequence[Slot]) -> tuple[str, ...]:
    if not measured.command or not slots:
        return ()
    # Other names would need quotes, and the median step comes without.
    chosen = f" --step {step}" if step is not None and step.isalnum() else ""
    longest = max(slots, key=lambda slot: slot.duration_ps)
    return (f"{measured.command} --timeline{chosen} -o timeline.html", f"{measured.command} {longest.operation.name}")
