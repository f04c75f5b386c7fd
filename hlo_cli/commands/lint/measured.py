"""How long did the kernels run that findings are about? `hlo lint --profile`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW
from hlo_cli.analysis.profile.operation_times import mean_times
from hlo_cli.analysis.profile.profile import MIN_SHARE, MeasuredProgram, Operation, Profile, module_name, program_of
from hlo_cli.commands.profile.timed import per_words
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.findings import Finding, MeasuredKernel
from hlo_cli.report.numbers import format_count, format_seconds, verb
from hlo_cli.report.table import Cell
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.lint.checking import LintResult
    from hlo_cli.commands.modules.loading import Loaded as LoadedModule
    from hlo_cli.commands.profile.measured import LoadedProfile

_MAX_NAMED: Final = 3  # the note is one sentence


class MeasuredKernels:
    """The kernels of the programs of a profile, with the instructions inside them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        found = mean_times(profile)
        self.per = found.unit
        self.words = per_words(profile, found)
        self.total = sum(each.seconds for each in found.times)
        self._kernels: dict[tuple[MeasuredProgram, str], MeasuredKernel] = {}
        self._inside: dict[tuple[MeasuredProgram, str], MeasuredKernel] = {}
        for operation, time in zip(profile.operations, found.times, strict=True):
            if (program := operation.program) is not None and time.calls:
                kernel = MeasuredKernel(program.name, operation.name, time.seconds)
                self._kernels[program, operation.name] = kernel
                for computation in _computations(operation):
                    self._inside.setdefault((program, computation.name), kernel)
        self._programs = frozenset(program for program, _ in self._kernels)
        self._names = {
            each: frozenset(i.name for i in each.module.instructions)
            for each in profile.programs
            if each.module is not None
        }

    def programs(self, module: str) -> Sequence[MeasuredProgram]:
        """The programs of a module's name that ran."""
        return [each for each in self.profile.programs if each in self._programs and module_name(each.name) == module]

    def of(self, program: MeasuredProgram, found: Finding) -> MeasuredKernel | None:
        """The kernel that runs the instruction of a finding; None if it is not timed."""
        if found.computation is not None and (kernel := self._inside.get((program, found.computation))) is not None:
            return kernel
        return None if found.instruction is None else self._kernels.get((program, found.instruction))

    def has(self, program: MeasuredProgram, name: str) -> bool:
        """Whether the program that ran has an instruction of a name; True if its module is not at hand."""
        return program not in self._names or name in self._names[program]


@dataclass(frozen=True, slots=True)
class MeasuredFindings:
    """Findings with the kernels that run their instructions; times are per `per`, a step or a run, or of the trace.

    `words` and `numbers` say how much of the measured time their kernels take; `notes` what is not in the profile.
    """

    found: tuple[Finding, ...]
    per: str
    words: str
    numbers: Mapping[str, Cell]
    notes: tuple[Diagnostic, ...]


def measured_findings(
    found: Iterable[Finding], result: LintResult, loaded: LoadedProfile, one: LoadedModule | None = None
) -> MeasuredFindings:
    """Findings with measured times from a profile; `one` is the only module, if it is read already.

    HloError if no module ran in the profile.
    """
    kernels = MeasuredKernels(loaded.profile)
    found = tuple(found)
    modules = {each.path: each.module for each in result.modules}
    if len(result.modules) == 1:  # whose path may be that of a file with several modules
        modules = {each.path: result.modules[0].module for each in found}
    names = [each.module for each in result.modules]
    if one is None and names and not any(kernels.programs(name) for name in names if name):
        there = ", ".join(each.name for each in loaded.profile.programs[:_MAX_NAMED]) or "no program"
        words = (
            f"none of {len(names):,} modules is"
            if len(names) > 1
            else f"module {names[0] or result.modules[0].path} is not"
        )
        raise HloError(f"{words} in the profile", hint=f"{loaded.path} has {there}")
    programs, unclear = _programs(modules, kernels, one)
    timed = tuple(
        replace(each, measured=kernels.of(programs[each.path], each)) if each.path in programs else each
        for each in found
    )
    named = {(each.measured.module, each.measured.name): each.measured for each in timed if each.measured is not None}
    seconds = sum(each.seconds for each in named.values())
    numbers = {
        "measured_kernels": len(named),
        "measured_seconds": seconds,
        "measured_total_seconds": kernels.total,
        "measured_unit": kernels.per,
    }
    words = ""
    if named:
        subject = "kernel takes" if len(named) == 1 else f"{len(named):,} kernels take"
        words = f"their {subject} {format_seconds(seconds)} of {format_seconds(kernels.total)} {kernels.words}"
    notes = (*unclear, *_missing(timed, kernels, modules, programs), *loaded.notes)
    return MeasuredFindings(timed, kernels.words, words, numbers, notes)


def _programs(
    modules: Mapping[str, str | None], kernels: MeasuredKernels, one: LoadedModule | None
) -> tuple[Mapping[str, MeasuredProgram], Sequence[Diagnostic]]:
    """The program of the module at each path, and notes on modules that several programs fit."""
    found: dict[str, MeasuredProgram] = {}
    notes: list[Diagnostic] = []
    for path, name in modules.items():
        named = kernels.programs(name or "")
        try:
            program = named[0] if len(named) == 1 else _fitting(path, name, kernels.profile, one) if named else None
        except HloError as error:
            notes.append(Diagnostic("note", str(error.diagnostic), hint="its findings have no measured time"))
            continue
        if program is not None:
            found[path] = program
    return found, notes


def _fitting(path: str, name: str | None, profile: Profile, one: LoadedModule | None) -> MeasuredProgram | None:
    """The program of a module, of several of its name; the module is read again if it is not at hand."""
    from hlo_cli.commands.profile.measured import program_id
    from hlo_cli.inputs.input import read_inputs
    from hlo_cli.read_input import read_input

    given = one.input if one is not None else next(iter(read_inputs([path], module=name)))
    module = one.module if one is not None else read_input(given)
    return program_of(profile, module, proto=given.proto, id=program_id(given))


def _missing(
    found: Sequence[Finding],
    kernels: MeasuredKernels,
    modules: Mapping[str, str | None],
    programs: Mapping[str, MeasuredProgram],
) -> Iterator[Diagnostic]:
    """Notes on what is not in the profile: modules, instructions, and findings without a time."""
    missing = sorted({name for name in modules.values() if name and not kernels.programs(name)})
    if missing:
        more = f" and {format_count(len(missing) - _MAX_NAMED, 'others')}" if len(missing) > _MAX_NAMED else ""
        names = f"{', '.join(missing[:_MAX_NAMED])}{more}"
        yield Diagnostic("note", f"not in the profile: {names}")
    there = [(programs[each.path], each.instruction) for each in found if each.instruction and each.path in programs]
    known = sum(kernels.has(*each) for each in there)
    if known < MIN_SHARE * len(there):
        words = f"only {known:,} of {format_count(len(there), 'instructions')} with findings are in the profile"
        yield Diagnostic("warning", words, hint="profile the same compilation, or lint the trace itself")
    if untimed := sum(each.measured is None for each in found):
        words = f"{format_count(untimed, 'findings')} {verb(untimed, 'has', 'have')} no measured time"
        yield Diagnostic("note", words, hint="their instructions run no kernel, or did not run")


def _computations(operation: Operation) -> Iterator[Computation]:
    """The computations that run inside a kernel."""
    instruction = operation.instruction
    if instruction is None or instruction.opcode in CONTROL_FLOW:
        return
    seen = set(instruction.called_computations)
    waiting = list(seen)
    while waiting:
        computation = waiting.pop()
        yield computation
        inner = {called for each in computation.instructions for called in each.called_computations} - seen
        seen |= inner
        waiting += inner
