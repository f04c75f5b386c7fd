"""The profile that a command line names: its traces, and the modules of a dump for programs that they lack."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.report.table import Cell
from hlo_cli.source import Diagnostic, HloError, Source

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.profile import GivenModule, Profile
    from hlo_cli.ir.module import Module
    from hlo_cli.ir.traces.trace import Trace, TracedProgram

_NAMED: Final = 3
"""How many programs a note names."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A profile with the path of its trace, the arguments that read it again, and the one that reads its modules."""

    profile: Profile
    path: str
    argument: str
    module_argument: str = ""

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
        return tuple(Diagnostic("note", words) for words in (*self._missing, *reported, *self.profile.notes))

    @property
    def _missing(self) -> Sequence[str]:
        """A note that names the programs whose modules are not at hand."""
        names = [program.name for program in self.profile.programs if program.module is None]
        if not names:
            return ()
        shown = ", ".join(names[:_NAMED]) + (f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
        return (f"no module of {shown}; pass a dump of the program after the trace",)


def load_profile(path: str, dump: Sequence[str], reading: InputOptions) -> Loaded:
    """The profile of a trace; `dump` are inputs whose modules are used for programs that the trace does not contain."""
    from hlo_cli.analysis.profile.measure import measure

    traces = _traces(path)
    read = partial(read_program, strict=reading.strict)
    profile = measure(traces, read, given_modules(dump, replace(reading, module=None)))
    argument, modules = InputOptions().command_line([path]), InputOptions().command_line(dump) if dump else ""
    return Loaded(profile, path, f"{argument} {modules}".strip() if argument else "", modules or argument)


def read_profile(path: str, inputs: Sequence[str], reading: InputOptions) -> Loaded:
    """The profile of a trace; the programs that it does not contain are those of the inputs."""
    found = _alone(path, reading.strict)
    is_complete = not inputs or all(each.module is not None for each in found.profile.programs)
    return found if is_complete else load_profile(path, inputs, reading)


@lru_cache(maxsize=1)
def _alone(path: str, strict: bool) -> Loaded:
    """The profile of a trace without a dump, which the reports of several modules share."""
    return load_profile(path, (), InputOptions(strict=strict))


def program_id(given: Input) -> int | None:
    """The id of a program in the name of its dump, such as 18 in module_0018.jit_step.after_optimizations.txt."""
    label = given.dump.label if given.dump is not None else None
    digits = (label or "").partition(".")[0].removeprefix("module_")
    return int(digits) if digits.isdecimal() else None


def _traces(path: str) -> Sequence[Trace]:
    """The traces at a path; HloError that says so if a dump is there."""
    from hlo_cli.read_traces import read_traces

    try:
        found = read_traces([path])
    except HloError:
        _refuse_dump(path)
        raise
    if not any(plane.name.startswith("/") for trace in found for plane in trace.planes):
        _refuse_dump(path)  # the proto of a module can be read as one of a trace
    return found


def _refuse_dump(path: str) -> None:
    """HloError if a dump is at a path."""
    if _is_dump(path):
        command = f"hlo parse {InputOptions().command_line([path])}"
        hint = f"for a dump, run `{command}`; to record a trace, see `hlo help profiles`"
        raise HloError(f"{path} is a dump, not a profiler's trace", hint=hint) from None


def _is_dump(path: str) -> bool:
    """Whether a path has modules, which are not those of a trace; the beginning of a trace may look like a proto."""
    from hlo_cli.inputs.input import read_inputs
    from hlo_cli.read_input import read_input

    with suppress(HloError, OSError):
        found = read_inputs([path]) if path != "-" else ()
        return any(each.looks_like_hlo and (each.proto is None or read_input(each).name) for each in found)
    return False


def read_program(program: TracedProgram, *, strict: bool = False) -> Module:
    """The module of a program that a trace contains."""
    from hlo_cli.read_input import read_input

    return read_input(Input(Source(program.name, ""), None, module=program.name, proto=program.proto), strict=strict)


def given_modules(dump: Sequence[str], reading: InputOptions) -> Sequence[GivenModule]:
    """The modules of a dump, each with the id of its program: the number in the name of its file."""
    if not dump:
        return ()
    from hlo_cli.analysis.profile.profile import GivenModule
    from hlo_cli.inputs.input import read_inputs
    from hlo_cli.read_input import read_input

    found = read_inputs(dump, stage=reading.stage, module=reading.module)
    return tuple(GivenModule(program_id(each), read_input(each, strict=reading.strict)) for each in found)
