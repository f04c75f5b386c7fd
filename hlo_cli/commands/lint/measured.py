"""`hlo lint --profile`: the measured times of the kernels that findings are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.computation_contexts import CONTROL_FLOW
from hlo_cli.analysis.profile.call_times import has_steps, unit_times
from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Cell
from hlo_cli.report.finding import Finding, MeasuredKernel
from hlo_cli.report.numbers import format_count, format_seconds, verb
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.profile import Operation, Profile
    from hlo_cli.commands.lint.run import LintResult
    from hlo_cli.commands.profile.load import Loaded
    from hlo_cli.commands.shared.io_options import InputOptions
    from hlo_cli.ir.instruction import Computation

_MIN_FOUND: Final = 0.9
"""The share of instructions that a trace of the same compilation has at least."""
_MAX_NAMED: Final = 3


class MeasuredKernels:
    """The kernels of a profile by the names of their modules, with the instructions inside them."""

    def __init__(self, profile: Profile) -> None:
        found = unit_times(profile, per_step=has_steps(profile))
        self.per = found.unit
        unit = "in the trace" if found.unit == "trace" else f"per {found.unit}"
        self.words = f"{unit} and device" if len(profile.devices) > 1 else unit
        self.total = sum(each.time for each in found.times if each is not None)
        self._kernels: dict[tuple[str, str], MeasuredKernel] = {}
        self._inside: dict[tuple[str, str], MeasuredKernel] = {}
        for operation, time in zip(profile.operations, found.times, strict=True):
            if operation.program is not None and time is not None:
                module = module_name(operation.program.name)
                kernel = MeasuredKernel(module, operation.name, time.time)
                self._kernels[module, operation.name] = kernel
                for computation in _computations(operation):
                    self._inside.setdefault((module, computation.name), kernel)
        self._names: dict[str, frozenset[str]] = {
            module_name(each.name): frozenset(i.name for i in each.module.instructions)
            for each in profile.programs
            if each.module is not None
        }

    @property
    def modules(self) -> frozenset[str]:
        """The names of the modules that ran."""
        return frozenset(module for module, _ in self._kernels)

    def of(self, module: str, found: Finding) -> MeasuredKernel | None:
        """The kernel that runs the instruction of a finding; None if it is not timed."""
        if found.computation is not None and (kernel := self._inside.get((module, found.computation))) is not None:
            return kernel
        return None if found.instruction is None else self._kernels.get((module, found.instruction))

    def has(self, module: str, name: str) -> bool:
        """Whether the module that ran has an instruction of a name; True if the module is not at hand."""
        return module not in self._names or name in self._names[module]


def module_name(program: str) -> str:
    """The name of a module in that of a program, which may end in its id.

    >>> module_name("jit_step(2041036616644817336)")
    'jit_step'
    """
    return program.partition("(")[0]


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


def read_profile(path: str, inputs: Sequence[str], reading: InputOptions) -> Loaded:
    """The profile of a trace; programs that it does not contain are those of the inputs."""
    from hlo_cli.commands.profile.load import load_profile

    loaded = load_profile(path, (), reading)
    is_complete = all(each.module is not None for each in loaded.profile.programs)
    return loaded if is_complete else load_profile(path, inputs, reading)


def measured_findings(found: Iterable[Finding], result: LintResult, loaded: Loaded) -> MeasuredFindings:
    """Findings with measured times from a profile."""
    kernels = MeasuredKernels(loaded.profile)
    found = tuple(found)
    modules = {each.path: each.module for each in result.modules}
    if len(result.modules) == 1:  # whose path may be that of a file with several modules
        modules = {each.path: result.modules[0].module for each in found}
    timed = tuple(replace(each, measured=kernels.of(modules.get(each.path) or "", each)) for each in found)
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
    notes = (*_missing(timed, kernels, modules), *loaded.notes)
    return MeasuredFindings(timed, kernels.words, words, numbers, notes)


def _missing(
    found: Sequence[Finding], kernels: MeasuredKernels, modules: Mapping[str, str | None]
) -> Iterator[Diagnostic]:
    """Notes on what is not in the profile: modules, instructions, and findings without a time."""
    missing = sorted({name for name in modules.values() if name and name not in kernels.modules})
    if missing:
        more = f" and {format_count(len(missing) - _MAX_NAMED, 'others')}" if len(missing) > _MAX_NAMED else ""
        names = f"{', '.join(missing[:_MAX_NAMED])}{more}"
        yield Diagnostic("note", f"not in the profile: {names}")
    there = [
        (name, each.instruction)
        for each in found
        if each.instruction and (name := modules.get(each.path)) and name in kernels.modules
    ]
    known = sum(kernels.has(*each) for each in there)
    if known < _MIN_FOUND * len(there):
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
