"""Which profile does a command line name, and which of its operations are selected? What every screen asks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from statistics import median
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.profile.executions import (
    ProgramExecutions,
    executions_by_program,
    main_programs,
    runs_in_turn,
    steps_of_program,
    warm_up_steps,
    without_first_steps,
)
from hlo_cli.analysis.profile.measure import measure, measured_trips, operation_measures, rates_of
from hlo_cli.analysis.profile.operation_times import MeanTimes, mean_times
from hlo_cli.analysis.profile.profile import GivenModule, MeasuredProgram, Profile, module_name, program_of
from hlo_cli.analysis.profile.step_budget import PARTS, StepBudget, step_budget
from hlo_cli.analysis.profile.utilization import Utilization, utilization_of
from hlo_cli.commands.options.io_options import InputOptions, format_options
from hlo_cli.commands.profile.timed import PART_WORDS, Roofs, Sum, Timed, counted_words, sum_of
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input, read_inputs
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS, Trace, TracedProgram
from hlo_cli.report.numbers import ROUNDING, format_bytes, format_number, format_seconds, list_first
from hlo_cli.report.table import Cell
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic, HloError, Source

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.commands.modules.loading import Loaded
# --- the profile of a command line ---


_MAX_PROGRAMS_NAMED: Final = 3
"""How many programs a note names."""


@dataclass(frozen=True, slots=True)
class LoadedProfile:
    """A profile with the path of its trace, the arguments that read it again, and the one that reads its modules.

    `warm_up` says which steps it is without, and why; empty if it has all.
    """

    profile: Profile
    path: str
    argument: str
    module_argument: str = ""
    warm_up: str = ""

    @property
    def facts(self) -> dict[str, Cell]:
        """Facts on the input of a report, for programs."""
        profile = self.profile
        return {
            "path": self.path,
            "format": profile.traces[0].format,
            "platform": profile.platform,
            "devices": profile.devices,
            "modules": tuple(program.name for program in profile.programs),
        }

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """What the profiler, the reader, and the interpretation of the trace report."""
        traces = self.profile.traces
        reported = [each for trace in traces for each in (*trace.errors, *trace.warnings, *trace.notes)]
        return tuple(
            Diagnostic("note", words)
            for words in (*filter(None, [self.warm_up]), *self._missing, *reported, *self.profile.notes)
        )

    @property
    def _missing(self) -> Sequence[str]:
        """A note that names the programs whose modules are not at hand."""
        names = [program.name for program in self.profile.programs if program.module is None]
        if not names:
            return ()
        return (f"no HLO for {list_first(names, _MAX_PROGRAMS_NAMED)}; pass a dump of the program after the trace",)


def load_profile(
    path: str, dump: Sequence[str], reading: InputOptions, *, quiet: bool = True, skip_steps: int | None = None
) -> LoadedProfile:
    """The profile of a trace; `dump` are inputs whose modules are used for programs that the trace does not contain.

    It is without the first `skip_steps` steps, or without those that are warm-up if the number is not given. Unless
    `quiet`, a terminal shows how much is read.
    """
    from hlo_cli.render.progress import counted

    with counted("events", expect=lambda: _reading_words(path), quiet=quiet) as show:
        traces = _traces(path)
        read = partial(read_program, strict=reading.strict)
        profile = measure(traces, read, given_modules(dump, replace(reading, module=None)), watch=show)
    profile, warm_up = without_warm_up(_with_steps_of(profile, reading.module), skip_steps, "--skip-steps 0")
    argument, modules = InputOptions().command_line([path]), InputOptions().command_line(dump) if dump else ""
    again = f"{argument} {modules}".strip() if argument else ""
    return LoadedProfile(profile, path, again, modules or argument, warm_up)


def without_warm_up(profile: Profile, skip_steps: int | None, all_steps: str) -> tuple[Profile, str]:
    """A profile without the first `skip_steps` steps, or without warm-up if the number is None, and which these are.

    `all_steps` is how the caller asks for all of them.
    """
    count = warm_up_steps(profile) if skip_steps is None else skip_steps
    if not count:
        return profile, ""
    words = _warm_up_words(profile, count, all_steps if skip_steps is None else "")
    return without_first_steps(profile, count), words


def _warm_up_words(profile: Profile, count: int, all_steps: str) -> str:
    """Which of the steps of a whole trace are omitted, how long they took, and how long the others.

    `all_steps` is how to see all of them; empty if the number was asked for.
    """
    omitted, others = profile.steps[:count], [step.duration_ps for step in profile.steps[count:] if step.is_whole]
    noun = "execution" if profile.step_source == "executions" else "step"
    names = f"{noun} {omitted[0].name}" if count == 1 else f"{noun}s {omitted[0].name} to {omitted[-1].name}"
    times = list_first([format_seconds(step.duration_ps * PS) for step in omitted], _MAX_PROGRAMS_NAMED)
    usual = median(others) if others else 0
    words = f"{names} ({times}) {'is' if count == 1 else 'are'}"
    if not all_steps:
        return f"{words} omitted"
    factor = format_number(round(max(step.duration_ps for step in omitted) / usual)) if usual else ""
    whole = _parts_of_steps(profile, count)
    return f"{words} omitted as warm-up: {factor} times the median of the others{whole}; {all_steps} counts all steps"


def _parts_of_steps(profile: Profile, count: int) -> str:
    """What took most of the first steps, such as `, mostly compiling`; empty if nothing took more than half."""
    budget = step_budget(profile)
    found = [] if budget is None else [each for each in budget.by_step(len(profile.steps))[:count] if each is not None]
    if not found:
        return ""
    sums = {part: sum(each[part] for each in found) for part in PARTS}
    part = max(PARTS, key=lambda each: sums[each])
    return f", mostly {PART_WORDS[part]}" if sums[part] > sum(sums.values()) / 2 else ""


_LARGE: Final = 10 << 20
"""Bytes of a trace that take about a second: 20 MB/s was measured on xplane files."""


def _reading_words(path: str) -> str:
    """What is read, if that takes longer than a second; else empty."""
    from hlo_cli.read_traces import find_traces

    with suppress(HloError, OSError):
        size = sum(os.path.getsize(each) for each in find_traces(path).paths)
        return f"Reading {format_bytes(size)} of events from {path}" if size > _LARGE else ""
    return ""


def read_profile(path: str, inputs: Sequence[str], reading: InputOptions) -> LoadedProfile:
    """The profile of a trace; the programs that it does not contain are those of the inputs."""
    loaded = _profile_without_dump(path, reading.strict)
    is_complete = not inputs or all(each.module is not None for each in loaded.profile.programs)
    return loaded if is_complete else load_profile(path, inputs, reading)


@lru_cache(maxsize=1)
def _profile_without_dump(path: str, strict: bool) -> LoadedProfile:
    """The profile of a trace without a dump, which the reports of several modules share."""
    return load_profile(path, (), InputOptions(strict=strict))


def program_id(module_input: Input) -> int | None:
    """The id of a program in the name of its dump, such as 18 in module_0018.jit_step.after_optimizations.txt."""
    label = module_input.dump.label if module_input.dump is not None else None
    digits = (label or "").partition(".")[0].removeprefix("module_")
    return int(digits) if digits.isdecimal() else None


def _traces(path: str) -> Sequence[Trace]:
    """The traces at a path; HloError that says so if a dump is there."""
    from hlo_cli.read_traces import read_traces

    try:
        traces = read_traces([path])
    except HloError:
        _refuse_dump(path)
        raise
    if not any(plane.name.startswith("/") for trace in traces for plane in trace.planes):
        _refuse_dump(path)  # the proto of a module can be read as one of a trace
    return traces


def _refuse_dump(path: str) -> None:
    """HloError if a dump is at a path."""
    if _is_dump(path):
        command = f"hlo parse {InputOptions().command_line([path])}"
        hint = f"for a dump, run `{command}`; to record a trace, see `hlo help profiles`"
        raise HloError(f"{path} is a dump, not a profiler's trace", hint=hint) from None


def _is_dump(path: str) -> bool:
    """Whether a path has modules, which are not those of a trace; the beginning of a trace may look like a proto."""
    from hlo_cli.read_input import read_input

    with suppress(HloError, OSError):
        inputs = read_inputs([path]) if path != "-" else ()
        return any(each.looks_like_hlo and (each.proto is None or read_input(each).name) for each in inputs)
    return False


def read_program(program: TracedProgram, *, strict: bool = False) -> Module:
    """The module of a program that a trace contains."""
    from hlo_cli.read_input import read_input

    return read_input(Input(Source(program.name, ""), None, module=program.name, proto=program.proto), strict=strict)


def given_modules(dump: Sequence[str], reading: InputOptions) -> Sequence[GivenModule]:
    """The modules of a dump, each with the id of its program: the number in the name of its file."""
    if not dump:
        return ()
    from hlo_cli.read_input import read_input

    inputs = read_inputs(dump, stage=reading.stage, module=reading.module)
    return tuple(GivenModule(program_id(each), read_input(each, strict=reading.strict)) for each in inputs)


# --- measured trip counts ---
# Of loops whose trip count a module does not determine.


_MAX_LOOPS_NAMED: Final = 3  # the note is one sentence
_MEASURED: Final = "trip counts are measured"
_DIFFERENT: Final = "trip counts differ between runs"


def with_measured_trips(loaded: Loaded, profile: Profile) -> tuple[Loaded, tuple[Diagnostic, ...]]:
    """The module with the trip counts of a profile where it has none of its own, and notes on them.

    A count that differs from run to run is only noted. HloError if several programs of the profile fit the module.
    """
    from hlo_cli.transform.module_time import unknown_loops

    unknown = unknown_loops(loaded.module)
    if not unknown:
        return loaded, ()
    calls = [each.calls for each in operation_measures(profile)]
    program = program_of(profile, loaded.module, proto=loaded.input.proto, id=program_id(loaded.input))
    loops = set() if program is None or program.module is None else set(program.module.instructions)
    measured = {loop.name: trips for loop, trips in measured_trips(profile, calls).items() if loop in loops}
    trips_of = {each.name: measured[each.name] for each in unknown if each.name in measured}
    exact = {name: round(trips) for name, trips in trips_of.items() if abs(trips - round(trips)) < ROUNDING}
    notes = []
    for words, chosen in ((_MEASURED, exact.keys()), (_DIFFERENT, trips_of.keys() - exact)):
        if names_of := sorted(chosen):
            listed = list_first([f"{name} × {format_number(trips_of[name])}" for name in names_of], _MAX_LOOPS_NAMED)
            notes.append(Diagnostic("note", f"{words}: {listed}"))
    return _with_trips(loaded, exact), tuple(notes)


def _with_trips(loaded: Loaded, trips: Mapping[str, int]) -> Loaded:
    from hlo_cli.transform.module_time import with_trip_counts

    with suppress(HloError):  # of a damaged module
        return replace(loaded, module=with_trip_counts(loaded.module, trips))
    return loaded


# --- the selected operations ---


def programs_named(profile: Profile, name: str) -> Sequence[MeasuredProgram]:
    """The program of a name, or all programs of a module with that name."""
    return [each for each in profile.programs if each.name == name] or [
        each for each in profile.programs if module_name(each.name) == name
    ]


def _with_steps_of(profile: Profile, module: str | None) -> Profile:
    """The profile whose steps are the executions of a module, if one is selected and nothing else marks steps."""
    programs = [] if module is None else programs_named(profile, module)
    # Different programs of one name have executions of their own.
    return steps_of_program(profile, programs[0]) if len(programs) == 1 else profile


_DEVICE_NOUNS: Final = {"TPU": "core", "GPU": "GPU", "CPU": "device"}
"""What each platform calls the devices of a trace."""
MIN_OVERLAP: Final = 1.005
"""From which overlap on a note is worth its line: below, shares and idle time add up to 100% as they are rounded."""


class Measured:
    """A profile with its operations: all of them, and those that `--where` selects. Read when first asked for."""

    def __init__(
        self,
        loaded: LoadedProfile,
        *,
        chip: ChipSpec | None = None,
        where: str | None = None,
        module: str | None = None,
    ) -> None:
        """`module` selects the operations of one program, by its name."""
        self.where, self.module = where, module
        # What is loaded without its warm-up already has the steps of the module.
        self.profile: Profile = loaded.profile if loaded.warm_up else _with_steps_of(loaded.profile, module)
        self.loaded = replace(loaded, profile=self.profile)
        self.roofs = Roofs(self.profile.peaks, chip)

    @property
    def chip(self) -> ChipSpec | None:
        """The chip for predictions: that of --chip, else the GPU of the trace, if it is a known one."""
        # Estimates for other devices are lower bounds, which --chip has to ask for.
        if self.roofs.chip is not None or self.profile.platform != "GPU":
            return self.roofs.chip
        return self._chip_of_trace

    @cached_property
    def _chip_of_trace(self) -> ChipSpec | None:
        """The chip that the trace names, if it is a known one."""
        from hlo_cli.analysis.hardware.chip_specs import chip_spec

        names = self.profile.device_type, self.profile.peaks.chip if self.profile.peaks else ""
        for name in filter(None, names):
            with suppress(HloError):
                return chip_spec(name)
        return None

    def matmul_peak(self, kind: str) -> float | None:
        """The peak FLOP/s of a device for matmuls of a type; None if unknown."""
        return self.roofs.matmul_peak(kind, None if self.profile.peaks is None else self._chip_of_trace)

    def matmul_peak_type(self, kind: str) -> str:
        """The type of which `matmul_peak` is the peak, such as bf16 for f32 on TPUs."""
        chip = self.roofs.chip or self._chip_of_trace
        return kind if chip is None else chip.rated_type(kind)

    @cached_property
    def utilization(self) -> Utilization | None:
        """The part of the peak that matmuls use; None without any, and where only some operations are selected."""
        return None if self.is_narrowed else utilization_of(self.profile, self.budget, self.matmul_peak)

    @cached_property
    def every(self) -> Sequence[Timed]:
        """All operations with their times."""
        pairs = zip(self.profile.operations, operation_measures(self.profile), strict=True)
        return tuple(
            Timed(operation, measure, rates_of(operation, measure, self.roofs.peaks(operation)))
            for operation, measure in pairs
        )

    @cached_property
    def _selection(self) -> tuple[tuple[Timed, ...], tuple[Diagnostic, ...]]:
        every = tuple(self.in_module)
        if self.where is None:
            return every, ()
        from hlo_cli.commands.modules.instruction_tables import chosen
        from hlo_cli.commands.profile.measured_fields import timed_where

        return chosen(timed_where(self.where, self.profile), every, "operations")

    def _of_module(self, name: str) -> Sequence[Timed]:
        """The operations of a program, or of all programs of a module with that name."""
        programs = programs_named(self.profile, name)
        matching = [each for each in self.every if each.operation.program in programs]
        if not matching:
            ran = [each.operation.program.name for each in self.every if each.operation.program]
            raise unknown_choice_error("module", name, dict.fromkeys(ran))
        return matching

    @cached_property
    def in_module(self) -> Sequence[Timed]:
        """The operations of the selected module; all without one."""
        return self.every if self.module is None else self._of_module(self.module)

    @cached_property
    def executions(self) -> Sequence[ProgramExecutions]:
        """The executions of each program that takes a part of the time, or of the selected module, the longest first.

        There are none where steps are marked, or executions unknown.
        """
        if self.profile.step_source != "executions":
            return ()
        every = executions_by_program(self.profile)
        if self.module is None:
            return main_programs(every)
        return [each for each in every if each.program in programs_named(self.profile, self.module)]

    @property
    def is_narrowed(self) -> bool:
        """Whether only some operations are selected."""
        return self.where is not None or self.module is not None

    @property
    def selected(self) -> Sequence[Timed]:
        """The operations that `--where` selects; all without it."""
        return self._selection[0]

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Notes on the selection, the peak rates, a chip of another kind than the trace, and the reading."""
        texts = (self.roofs.words, self.other_chip_words)
        noted = (Diagnostic("note", text) for text in texts if text)
        return (*self._selection[1], *self.time_notes, *noted, *self.loaded.notes)

    @property
    def time_notes(self) -> tuple[Diagnostic, ...]:
        """Notes on which events count, and on operations that ran at the same time."""
        texts = (counted_words(self.means), self._overlap_words)
        return tuple(Diagnostic("note", text) for text in texts if text)

    @property
    def _overlap_words(self) -> str:
        """A note if operations ran at the same time, so that their times add up to more than passed; empty if not."""
        if self.overlap == 1:
            return ""
        own, busy = (format_seconds(self.per_device(each)) for each in (self.sum.self_time, self.busy))
        lines = {"CPU": "threads", "GPU": "streams"}.get(self.profile.platform, "lines")
        per = f" per {self.device_noun}" if len(self.profile.devices) > 1 else ""
        words = f"operations on several {lines} overlap: {own} in {busy} of busy time{per}"
        return f"{words}; time that several share is divided between them"

    @property
    def other_chip_words(self) -> str:
        """A note if the chip is of another kind than the devices of the trace; empty if not."""
        name, platform = self.roofs.chip.chip if self.roofs.chip else "", self.profile.platform
        chip = next((each for each in known_chips() if each.name == name), None)
        if chip is None or chip.target.upper() == platform:
            return ""
        return f"{chip.name} is a {chip.target.upper()}, but the trace is of a {platform}"

    @cached_property
    def budget(self) -> StepBudget | None:
        """Where the steps went; None without whole ones, and where operations are selected or programs run in turn."""
        # The time between executions of programs that run in turn is that of other programs.
        return None if self.is_narrowed or runs_in_turn(self.profile) else step_budget(self.profile)

    @cached_property
    def means(self) -> MeanTimes:
        """The times of all operations per step."""
        return mean_times(self.profile)

    @cached_property
    def sum(self) -> Sum:
        """The sum of all operations."""
        return sum_of(self.every)

    @cached_property
    def whole(self) -> float:
        """The time of all devices together, idle time included, in seconds."""
        return self.profile.total_ps * PS

    @cached_property
    def busy(self) -> float:
        """The time in which any operation ran, of all devices together, in seconds."""
        return sum(self.profile.busy_ps) * PS

    @cached_property
    def idle(self) -> float:
        """The time in which no operation ran, of all devices together, in seconds."""
        return sum(self.profile.idle_ps) * PS

    @property
    def overlap(self) -> float:
        """How many operations ran at once on a busy device, in the mean; 1 if they ran one after another."""
        overlap = self.sum.self_time / self.busy if self.busy else 1.0
        return overlap if overlap > MIN_OVERLAP else 1.0

    @property
    def device_noun(self) -> str:
        """What one device is called, such as `core`."""
        return _DEVICE_NOUNS[self.profile.platform]

    @property
    def step_noun(self) -> str:
        """What steps of a trace are: `steps` that the program or the device marks, or `executions` of its program."""
        return "executions" if self.profile.step_source == "executions" else "steps"

    @property
    def whole_words(self) -> str:
        """The time of one device, such as `the 488.0 ms per core`; of the only device, without the noun."""
        devices = len(self.profile.devices)
        words = f"the {format_seconds(self.whole / max(devices, 1))}"
        return f"{words} per {self.device_noun}" if devices > 1 else words

    def per_device(self, seconds: float) -> float:
        """A time of all devices, for one of them."""
        return seconds / max(len(self.profile.devices), 1)

    @property
    def command(self) -> str:
        """The command line that reads the trace again; empty if it cannot be typed."""
        if not self.loaded.argument:
            return ""
        return f"hlo profile {self.loaded.argument} {format_options((('--module', self.module),))}".rstrip()
