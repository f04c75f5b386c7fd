"""Which findings do the rules make in all inputs, which of them are new, and how many has each module?"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.commands.memspace.compiler_files import attach_compiler_assignment
from hlo_cli.commands.modules.loading import Loaded, Many, flags_of
from hlo_cli.commands.modules.many import devices_of, map_inputs, notes_on_devices, short_paths
from hlo_cli.commands.options.chips import chip_of, throughput_for, time_notes
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import STDIN, ProgramLines, read_utf8
from hlo_cli.inputs.input import Input, notes_on_stages
from hlo_cli.ir.expressions import Expectation
from hlo_cli.ir.module import Module
from hlo_cli.lint.run import lint_module, selected_rules
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Finding
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, rows_from
from hlo_cli.scan_modules import ScanResult, remarks_of
from hlo_cli.source import Diagnostic, HloError, Severity, Source

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By
    from hlo_cli.analysis.query.assertions import AssertionResult
    from hlo_cli.analysis.query.main_module import ModuleCost
    from hlo_cli.commands.lint.assertion_results import AssertionOutcome, GoldenModules

# --- findings in all inputs ---


_PART_NOTE: Final = "this is part of a module; rules that require the whole module are skipped"


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
    errors: list[Diagnostic] = []
    notes: list[Diagnostic] = []
    modules: list[LintedModule] = []
    checks: list[_ModuleResult] = []
    costs: list[ModuleCost | None] = []
    for result in results:
        if result.answer is None:
            notes.extend(remarks_of([result]))
            source = Source(_shown_path(result.path), "")
            errors.extend(e if e.source is not None else replace(e, source=source) for e in result.errors)
            continue
        checks.append(result.answer)
        costs.append(result.cost)
        modules.append(LintedModule(result.path, result.module, result.stage, result.answer.instructions))
        notes.extend(Diagnostic("note", note) for note in result.answer.notes)
    stages = [(module.stage, check.stage_note) for module, check in zip(modules, checks, strict=True)]
    about_all = (
        *notes_on_devices([check.devices for check in checks]),
        *dict.fromkeys(note for check in checks for note in check.time_notes),
        *(Diagnostic("note", note) for note in notes_on_stages(stages)),
    )
    shares, helpers = _shares(costs, modules)
    return LintResult(
        tuple(_numbered(_placed(checks, shares, helpers))),
        tuple(
            replace(outcome, is_helper=number in helpers)
            for number, check in enumerate(checks)
            for outcome in check.outcomes
        ),
        tuple(errors),
        (*about_all, *notes),
        tuple(modules),
        tuple(_shown_path(module.path) for module, check in zip(modules, checks, strict=True) if check.is_part),
    )


def _shown_path(path: str) -> str:
    return STDIN if path == "-" else path


def _placed(checks: Sequence[_ModuleResult], shares: Sequence[float], helpers: Collection[int]) -> Iterator[Finding]:
    """The findings of all modules, with the share of their module, and whether it is a helper."""
    for number, check in enumerate(checks):
        for finding in check.found:
            is_of_library = finding.is_of_library or number in helpers
            yield replace(finding, share=shares[number], is_of_library=is_of_library)


def _numbered(found: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, with a number in each that counts those of one fingerprint."""
    times: Counter[tuple[str, str]] = Counter()
    for finding in found:
        key = (finding.code, finding.fingerprint)
        times[key] += 1
        yield replace(finding, nth=times[key])


def _shares(
    costs: Sequence[ModuleCost | None], modules: Sequence[LintedModule]
) -> tuple[Sequence[float], Collection[int]]:
    """The share of each module in the work of all, and the indices of helpers; modules read alone are no helpers."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < max(len(costs), 2):
        return [1.0] * len(costs), ()
    from hlo_cli.analysis.query.main_module import rank_modules  # needed for several modules only

    ranking = rank_modules(known, [each.path for each in modules])
    # Whose a module is that no version of JAX named is unknown: its findings are not hidden.
    helpers = [at for at in ranking.helpers if _is_of_jax(modules[at].module)]
    return ranking.shares, helpers


def _is_of_jax(name: str | None) -> bool:
    return (name or "").startswith("jit_")


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
    stage_note: str


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
            from hlo_cli.commands.lint.assertion_results import evaluate

            golden = None if self.golden is None else self.golden.of(module.name)
            verdicts, outcomes = evaluate(module, given, self.expectations, golden)
        lines = ProgramLines()
        settings, chip = self.settings, self.chip
        if chip is None and settings.chip is None:
            settings = replace(settings, chip=chip_of(given, None))
            chip = throughput_for(given, None, None)
        found = lint_module(
            module,
            settings,
            rejections=rejections,
            verdicts=verdicts,
            chip=chip,
            line_of=lambda frame: lines.of(frame.file, frame.line, frame.function, frame.columns),
            flags_of=cache(partial(flags_of, given, with_tpu=True)),
        )
        own = tuple(note for note in given.notes if note != given.stage_note)
        notes = (*own, _PART_NOTE) if module.is_part else own
        return _ModuleResult(
            tuple(each.excerpt() for each in (found if self.by is None else _with_keys(found, module, self.by))),
            outcomes,
            notes,
            module.instruction_count,
            module.is_part,
            time_notes(chip, module) if chip is not None else (),
            devices_of(module, given),
            given.stage_note,
        )


def _with_keys(found: Sequence[Finding], module: Module, by: By) -> Iterator[Finding]:
    """The findings with the keys of their instructions."""
    from hlo_cli.analysis.origin.origins import keys_of

    keys = keys_of(module, by) if found else None
    for finding in found:
        instruction = None
        if finding.computation is not None and finding.instruction is not None:
            instruction = module.computation(finding.computation).instruction(finding.instruction)
        if keys is None or instruction is None:
            yield finding
        else:
            key = keys.of(instruction)
            yield replace(finding, key=(key.text, key.name, key.is_inferred))


# --- baselines of accepted findings ---
# Fingerprints identify them, which do not depend on names and numbers.


SCHEMA: Final = "hlo.lint-baseline/1"
NOT_IN_BASELINE: Final = frozenset(("HLO901",))
"""Rules that a baseline does not hide: assertions can be changed instead."""


def baseline_text(found: Iterable[Finding]) -> str:
    """A baseline with these findings: one line for each kind, ordered for small diffs.

    >>> print(baseline_text([]), end="")
    {"schema": "hlo.lint-baseline/1", "findings": [
    ]}
    """
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for finding in found:
        key = (finding.code, finding.fingerprint)
        counts[key] += 1
        examples.setdefault(key, finding.message)
    lines = (
        json.dumps({"code": code, "fingerprint": fingerprint, "count": count, "example": examples[code, fingerprint]})
        for (code, fingerprint), count in sorted(counts.items())
    )
    return f'{{"schema": "{SCHEMA}", "findings": [\n' + ",\n".join(lines) + ("\n" if counts else "") + "]}\n"


def read_baseline(path: str) -> Counter[tuple[str, str]]:
    """The number of accepted findings by code and fingerprint; HloError if the file is not a baseline."""
    hint = "create a baseline with `hlo lint DUMP --write-baseline FILE`"
    try:
        content = json.loads(read_utf8(path))
    except FileNotFoundError as error:
        create = f"create it with `hlo lint DUMP --write-baseline {path}`"
        raise HloError(f"baseline '{path}' not found", hint=create) from error
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not valid JSON"
        raise HloError(f"cannot read baseline {os.fspath(path)}: {reason}", hint=hint) from error
    entries = content.get("findings") if isinstance(content, dict) and content.get("schema") == SCHEMA else None
    if not isinstance(entries, list):
        raise HloError(f"{path} is not an hlo lint baseline", hint=hint)
    known: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        match entry:
            case {"code": str(code), "fingerprint": str(fingerprint), "count": int(count)}:
                known[code, fingerprint] += count
            case _:
                # As much as one line of a terminal shows next to the path.
                raise HloError(f"invalid entry in {path}: {str(entry)[:60]}")
    return known


def new_findings(found: Iterable[Finding], known: Counter[tuple[str, str]]) -> Iterator[Finding]:
    """The findings that are not in a baseline; of a kind with more findings than before, the last ones."""
    left = Counter(known)
    for finding in found:
        key = (finding.code, finding.fingerprint)
        if left[key] > 0 and finding.code not in NOT_IN_BASELINE:
            left[key] -= 1
        else:
            yield finding


# --- --each: the number of findings in each module ---


_COUNTED_SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


def by_module(report: Report, result: LintResult, found: Sequence[Finding]) -> Report:
    """The report with a row for each module instead of each finding; modules with most errors first."""
    has_unread = bool(result.unread)
    columns: tuple[Column[_ModuleRow], ...] = (
        Column("module", "module", "name", role="name", of=lambda row: row.module),
        Column("stage", "stage", from_width=120, of=lambda row: row.stage),
        Column("errors", "errors", "count", total="sum", of=lambda row: row.count("error")),
        Column("warnings", "warnings", "count", total="sum", of=lambda row: row.count("warning")),
        Column("notes", "notes", "count", total="sum", of=lambda row: row.count("note")),
        Column("instructions", "instructions", "count", total="sum", from_width=120, of=lambda row: row.instructions),
        Column("dump", "dump", "name", machine=False, of=lambda row: row.dump),
        Column("path", "file", person=False, of=lambda row: row.path),
        Column("problem", "problem", person=has_unread, rank=1, of=lambda row: row.problem),
    )
    table = Table("modules", columns, rows_from(columns, _rows(result, found)), noun="modules")
    return replace(report, parts=(table,), next=())


@dataclass(frozen=True, slots=True)
class _ModuleRow:
    """An input: its module with the number of findings by severity, or the problem that prevented reading it."""

    dump: str
    path: str
    counts: Mapping[Severity, int] | None = None
    module: str | None = None
    stage: str | None = None
    instructions: Cell = UNKNOWN
    problem: str | None = None

    def count(self, severity: Severity) -> Cell:
        """The number of findings; unknown if the input was not read."""
        return UNKNOWN if self.counts is None else self.counts[severity]


def _rows(result: LintResult, found: Sequence[Finding]) -> tuple[_ModuleRow, ...]:
    """Modules with most findings first, then what could not be read."""
    counts = Counter((each.path, each.severity) for each in found)
    unread = {error.source.name: error.message for error in reversed(result.errors) if error.source is not None}
    short = short_paths([*(each.path for each in result.modules), *unread])
    read = [
        _ModuleRow(
            dump,
            each.path,
            {s: counts[each.path, s] for s in _COUNTED_SEVERITIES},
            each.module,
            each.stage,
            each.instructions,
        )
        for each, dump in zip(result.modules, short, strict=False)
    ]
    read.sort(key=lambda row: tuple(-count for count in (row.counts or {}).values()))
    others = [
        _ModuleRow(dump, path, problem=problem)
        for (path, problem), dump in zip(unread.items(), short[len(result.modules) :], strict=True)
    ]
    return (*read, *others)
