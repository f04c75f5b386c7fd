"""`hlo lint`: reads every input, runs the rules on it, and collects the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.modules.loading import Many
from hlo_cli.commands.modules.many import devices_of, map_inputs, notes_on_devices
from hlo_cli.commands.options.chips import time_notes
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.shared.compiler_memory import attach_compiler_assignment
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import STDIN
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.lint.run import lint_module, selected_rules
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Finding
from hlo_cli.scan_modules import ScanResult, remarks_of
from hlo_cli.source import Diagnostic, Source

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_table import ChipSpec
    from hlo_cli.analysis.origin.origins import By
    from hlo_cli.analysis.query.assertions import AssertionResult
    from hlo_cli.commands.lint.assertions import AssertionOutcome
    from hlo_cli.commands.lint.golden import GoldenModules
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.ir.expressions import Expectation

_PART: Final = "this is part of a module; rules that require the whole module are skipped"


@dataclass(frozen=True, slots=True)
class LintedModule:
    """One module that was read, with the number of its instructions."""

    path: str
    module: str | None
    stage: str | None
    instructions: int


@dataclass(frozen=True, slots=True)
class LintResult:
    """The result over all inputs: findings, unreadable inputs, and the modules that were checked."""

    found: tuple[Finding, ...]
    outcomes: tuple[AssertionOutcome, ...]
    errors: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    modules: tuple[LintedModule, ...]
    parts: tuple[str, ...] = ()
    """The inputs that are parts of modules."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The inputs that were read, each once."""
        return tuple(dict.fromkeys(each.path for each in self.modules))

    @property
    def instructions(self) -> int:
        """How many instructions were checked."""
        return sum(each.instructions for each in self.modules)

    @property
    def unread(self) -> frozenset[str]:
        """The inputs that could not be read."""
        return frozenset(error.source.name for error in self.errors if error.source is not None)


def lint_inputs(
    many: Many,
    reading: InputOptions,
    settings: LintSettings,
    *,
    expectations: tuple[Expectation, ...] = (),
    golden: GoldenModules | None = None,
    jobs: int | None = None,
    chip: ChipSpec | None = None,
    by: By | None = None,
    answers_text: bool = False,
) -> LintResult:
    """The findings in every module; unreadable inputs are reported and do not stop the rest.

    With `chip`, they have times, and with `by`, keys to sum them up. With `answers_text`, PastedTextError is raised if
    the only input is a text that can be explained.
    """
    linter = _ModuleLinter(replace(settings, severity=dict(settings.severity)), expectations, golden, chip, by)
    return _collect(map_inputs(many, replace(reading, strict=False), jobs, linter, answers_text=answers_text))


def lint_loaded(loaded: Loaded, settings: LintSettings, *, chip: ChipSpec | None = None) -> LintResult:
    """The findings in one module that is read already, as `lint_inputs` gives them."""
    checked = _ModuleLinter(settings, (), None, chip, None)(loaded.module, loaded.input)
    path, module = loaded.input.path or "-", loaded.module.name
    return _collect([ScanResult(path, module, loaded.input.stage, checked)])


def _collect(results: Iterable[ScanResult[_ModuleResult]]) -> LintResult:
    """The results of all inputs as one; equal findings are numbered."""
    found: list[Finding] = []
    outcomes: list[AssertionOutcome] = []
    errors: list[Diagnostic] = []
    notes: list[Diagnostic] = []
    modules: list[LintedModule] = []
    parts: list[str] = []
    times: Counter[tuple[str, str]] = Counter()
    about_times: dict[Diagnostic, None] = {}
    devices: list[int] = []
    for each in results:
        if each.answer is None:
            notes.extend(remarks_of([each]))
            named = Source(STDIN if each.path == "-" else each.path, "")
            errors.extend(error if error.source is not None else replace(error, source=named) for error in each.errors)
            continue
        checked = each.answer
        modules.append(LintedModule(each.path, each.module, each.stage, checked.instructions))
        devices.append(checked.devices)
        parts += [STDIN if each.path == "-" else each.path] * checked.is_part
        notes.extend(Diagnostic("note", note) for note in checked.notes)
        about_times |= dict.fromkeys(checked.time_notes)
        outcomes.extend(checked.outcomes)
        for one in checked.found:
            key = (one.code, one.fingerprint)
            times[key] += 1
            found.append(replace(one, nth=times[key]))
    return LintResult(
        tuple(found),
        tuple(outcomes),
        tuple(errors),
        (*notes_on_devices(devices), *about_times, *notes),
        tuple(modules),
        tuple(parts),
    )


@dataclass(frozen=True, slots=True)
class _ModuleResult:
    """The result for one module, without the module, as it may come from another process.

    `devices` is the number of devices whose work the module holds together, more than 1 before partitioning.
    """

    found: tuple[Finding, ...]
    outcomes: tuple[AssertionOutcome, ...]
    notes: tuple[str, ...]
    instructions: int
    is_part: bool
    time_notes: tuple[Diagnostic, ...]
    devices: int


@dataclass(frozen=True, slots=True)
class _ModuleLinter:
    """Checks one module; called for every module."""

    settings: LintSettings
    expectations: tuple[Expectation, ...]
    golden: GoldenModules | None
    chip: ChipSpec | None
    by: By | None

    def __call__(self, module: Module, given: Input) -> _ModuleResult:
        rejections: tuple[Diagnostic, ...] = ()
        if given.proto is None and any(rule.reads_again for rule in selected_rules(self.settings)):
            from hlo_cli.syntax.strict_reader import check_strictly

            rejections = check_strictly(given.source)
        attach_compiler_assignment(module, given)
        verdicts: tuple[AssertionResult, ...] = ()
        outcomes: tuple[AssertionOutcome, ...] = ()
        if self.expectations:
            from hlo_cli.commands.lint.assertions import evaluate

            golden = None if self.golden is None else self.golden.of(module.name)
            verdicts, outcomes = evaluate(module, given, self.expectations, golden)
        found = lint_module(module, self.settings, rejections=rejections, verdicts=verdicts, chip=self.chip)
        notes = (*given.notes, _PART) if module.is_part else given.notes
        return _ModuleResult(
            tuple(each.excerpt() for each in (found if self.by is None else _with_keys(found, module, self.by))),
            outcomes,
            notes,
            module.instruction_count,
            module.is_part,
            time_notes(self.chip, module) if self.chip is not None else (),
            devices_of(module, given),
        )


def _with_keys(found: Sequence[Finding], module: Module, by: By) -> Iterator[Finding]:
    """The findings with the keys of their instructions."""
    from hlo_cli.analysis.origin.origins import keys_of

    keys = keys_of(module, by) if found else None
    for each in found:
        at = None
        if each.computation is not None and each.instruction is not None:
            at = module.computation(each.computation).instruction(each.instruction)
        if keys is None or at is None:
            yield each
        else:
            key = keys.of(at)
            yield replace(each, key=(key.text, key.name, key.is_inferred))
