"""Which modules are compared? Two files, stages, or directories, the passes of a compilation; or one as text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from shlex import quote
from typing import Final, TypeAlias

from hlo_cli.analysis.cache import sharing
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.analysis.statements.operations import renaming_of
from hlo_cli.analysis.statements.statements import statements_of
from hlo_cli.commands.diff.cache_keys import (
    are_caches,
    different_flags,
    entries_of,
    report_of_caches,
    with_cache_keys,
)
from hlo_cli.commands.diff.conditions import View, failures_of, numbers_against, without_form
from hlo_cli.commands.diff.report import DiffSide, answer_of, answer_of_parts, answer_of_same, report_of_diff
from hlo_cli.commands.diff.sentences import headline, listed
from hlo_cli.commands.modules.loading import Many, flags_of, input_facts, load_one, notes_of, one_or_many
from hlo_cli.commands.options.declaring import processes, timeout_given
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.options.writing import print_diagnostics, write, write_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import (
    DumpName,
    PassName,
    matching_stages,
    not_found_error,
    parse_dump_name,
    pass_between,
    pass_number,
    read_directory,
)
from hlo_cli.inputs.files import is_folder
from hlo_cli.inputs.input import Input, ModuleRef, read_inputs, read_module_ref
from hlo_cli.inputs.parallel import in_order
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_module
from hlo_cli.render.progress import watched
from hlo_cli.render.registry import FORMATS
from hlo_cli.report.figure import Figure, fixed
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Column, Table, rows_from, rows_from_tuples
from hlo_cli.scan_modules import Reader, ScanResult, late_problem
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.transform.normalize import normalize

# --- two directories ---
# `hlo diff OLD NEW` of two directories of dumps: a row for each module that differs.


ModuleSource: TypeAlias = "ModuleRef | Input"
"""A file that is read later, or a module that was found in one."""
ModulesByKey: TypeAlias = "Mapping[str, ModuleSource]"
"""The modules of one side, by the keys that identify them on both sides."""

_NO_HLO_PROBLEM = "contains no HLO"
_MIN_PROGRAM_SIZE = 20
"""Fewer instructions than these are a helper of JAX, such as jit_convert_element_type, beside a model or a step."""
_MIN_FOLDED = 3  # chosen: two rows cost no more than the sentence about them
"""Fewer rows than these are not worth folding."""


@dataclass(frozen=True, slots=True)
class Job:
    """Two dumps of one name to compare."""

    name: str
    old: ModuleSource
    new: ModuleSource


@dataclass(frozen=True, slots=True)
class PairResult:
    """The result for a pair of modules: the counts of changes and a sentence, or the problems that prevented it.

    `change` is `~` if they differ, `=` if only names or source lines do, `-` or `+` if the module is only on the old or
    the new side, else empty. `severity` is the number of changes other than of metadata, and `size` the number of
    instructions of the new module.
    """

    name: str
    change: str = ""
    counts: tuple[int, int, int, int] | None = None  # changed, added, removed, moved
    words: str = ""
    problems: tuple[str, ...] = ()
    paths: tuple[str, str] = ("", "")
    severity: int = 0
    size: int = 0


_MODULE_COLUMNS: tuple[Column[PairResult], ...] = (
    Column("change", "", "change", of=lambda module: module.change),
    Column("module", "module", "name", role="name", of=lambda module: module.name),
    Column("changed", "changed", "count", of=lambda module: module.counts[0] if module.counts else None),
    Column("added", "added", "count", of=lambda module: module.counts[1] if module.counts else None),
    Column("removed", "removed", "count", of=lambda module: module.counts[2] if module.counts else None),
    Column("moved", "moved", "count", from_width=120, of=lambda module: module.counts[3] if module.counts else None),
    Column("summary", "summary", rank=9, of=lambda module: module.words or None),
)


def _side_of_many(many: Many | Input, argument: str) -> ModulesByKey:
    """The modules of one side: of a directory by folder and module, of a file by module.

    Modules of one name are numbered as by XLA; files without a dump name go by their file names.
    """
    if isinstance(many, Input):
        return {many.module or many.source.name: many}
    if many.inputs:
        names = [each.module or each.source.name for each in many.inputs]
        shared = Counter(names)
        return {
            name if shared[name] == 1 else f"{name} #{names[:at].count(name) + 1}": each
            for at, (name, each) in enumerate(zip(names, many.inputs, strict=True))
        }
    folder = argument if is_folder(argument) else _shared_folder(many)
    keys = [_key_of_dump(folder, piece, numbered=False) for piece in many.pieces]
    counts = Counter(keys)
    return {
        key if counts[key] == 1 else _key_of_dump(folder, piece, numbered=True): piece
        for key, piece in zip(keys, many.pieces, strict=True)
    }


def _shared_folder(many: Many) -> str:
    folders = {os.path.dirname(piece.path) for piece in many.pieces}
    return os.path.commonpath(folders) if len(set(map(os.path.isabs, folders))) == 1 else ""


def _report_of_many(
    old: ModulesByKey,
    new: ModulesByKey,
    view: View,
    *,
    jobs: int | None,
    reading: InputOptions,
    arguments: Sequence[str],
) -> tuple[Report, bool, tuple[Diagnostic, ...]]:
    """One row for each module that differs; HloError if no module is on both sides."""
    if view.name == "text":
        raise HloError("--text supports only one pair of modules", hint="select one with --module NAME")
    pairs = [Job(name, old[name], new[name]) for name in old if name in new]
    if not pairs:
        raise HloError(
            f"no module is in both inputs (only in OLD: {listed(old)}; only in NEW: {listed(new)})",
            hint="use --module, or pass two files to compare modules with different names",
        )
    results = _compare_all(pairs, view, jobs, reading)
    missing = [name for name in sorted(set(old) ^ set(new)) if _is_dump(old.get(name) or new[name])]
    if not (results or missing):
        raise HloError(f"module not found in {' or '.join(arguments)}")
    # a module on one side only has nothing to be compared with, and is counted apart
    alone = [each for each in results if each.change in ("-", "+")]
    alone += [PairResult(name, "-" if name in old else "+") for name in missing]
    compared = [each for each in results if each.change not in ("-", "+")]
    differing, helpers = _worst_first([each for each in compared if each.change == "~"])
    same = [each for each in compared if each.change != "~" and not each.problems]
    shown = (*differing, *alone, *helpers)
    rows = rows_from(_MODULE_COLUMNS, shown)
    differing += helpers
    problems = tuple(Diagnostic("error", f"{each.name}: {problem}") for each in results for problem in each.problems)
    table = Table(
        "modules",
        _MODULE_COLUMNS,
        rows,
        noun="modules",
        limit=min(len(rows) - len(helpers), ROWS_FOR_A_PERSON),
        footnote=_folded(same, helpers),
    )
    numbers = {
        "modules": len(compared),
        "differing": len(differing),
        "same_program": len(same),
        "in_one_input": len(alone),
        "problems": len(problems),
    }
    report = Report(
        "diff",
        _many_answer(differing, len(compared), len(alone)),
        numbers=numbers,
        parts=(table.select(["module"]) if view.name == "name-only" else table,),
        next=tuple(_next_command(each, view) for each in differing[:1]),
        notes=_notes_on_unread(old, new),
    )
    return report, bool(rows), problems


def _compare_all(pairs: Sequence[Job], view: View, jobs: int | None, reading: InputOptions) -> list[PairResult]:
    """The results for all pairs, computed side by side in `jobs` processes."""
    comparer, timeout = _Comparer(view, Reader(_module, reading.strict)), timeout_given()
    late = partial(_timed_out, timeout)
    outcomes = in_order(
        comparer, pairs, jobs=processes(jobs, len(pairs)), lost=_worker_died, timeout=timeout, late=late
    )
    return [each for several in watched(outcomes, len(pairs), "modules", quiet=reading.quiet) for each in several]


def _worst_first(differing: Sequence[PairResult]) -> tuple[list[PairResult], list[PairResult]]:
    """The modules that differ, those with the most changes first, and small ones that are folded beside larger ones."""
    # between equal counts, a change in a larger module is the rarer one
    order = sorted(differing, key=lambda each: (-each.severity, -each.size, each.name))
    helpers = [each for each in order if each.size < _MIN_PROGRAM_SIZE]
    # with helpers alone there is nothing that they would hide
    if len(helpers) == len(order) or len(helpers) < _MIN_FOLDED:
        return order, []
    return [each for each in order if each.size >= _MIN_PROGRAM_SIZE], helpers


def _many_answer(differing: Sequence[PairResult], compared: int, alone: int) -> str:
    modules = format_count(compared, "modules")
    words = f"{modules} {verb(compared, 'is', 'are')} the same" if alone and compared else f"No differences ({modules})"
    if differing:
        words = f"{len(differing):,} of {modules} {verb(len(differing), 'differs', 'differ')}{_most_changed(differing)}"
    return words + (f"; {alone:,} in only one input" if alone else "")


def _most_changed(differing: Sequence[PairResult]) -> str:
    """The module with the most changes, as the end of an answer."""
    worst = differing[0]
    if len(differing) == 1:
        return f": {worst.name}"
    return f", most {worst.name} ({format_count(worst.severity, 'changes')})" if worst.severity else ""


def _folded(same: Sequence[PairResult], helpers: Sequence[PairResult]) -> str:
    """How many modules have no row: small ones that differ, and those that are the same program."""
    texts = []
    if helpers:
        number = sum(each.severity for each in helpers)
        size = f"fewer than {_MIN_PROGRAM_SIZE} instructions"
        texts.append(f"~ {len(helpers):,} modules of {size} ({format_count(number, 'changes')})")
    if same:
        lines = sum(each.change == "=" for each in same)
        other = f" ({lines:,} with other names or source lines)" if lines else ""
        texts.append(f"= {format_count(len(same), 'modules')} unchanged{other}")
    return "; ".join(texts)


def _next_command(result: PairResult, view: View) -> str:
    """The command that shows one row as the same comparison."""
    options = [f"--ignore {','.join(view.ignored)}"] if view.ignored else []
    options += [name for name, is_given in (("--schedule", view.with_schedule), ("--exact", view.exact)) if is_given]
    return " ".join(("hlo diff", *map(quote, result.paths), *options))


def _notes_on_unread(*sides: ModulesByKey) -> tuple[Diagnostic, ...]:
    """The notes on dumps in directories that are not read, each once."""
    remarks = dict.fromkeys(given.remark for side in sides for given in side.values())
    return tuple(Diagnostic("note", remark) for remark in remarks if remark)


@dataclass(frozen=True, slots=True)
class _Comparer:
    view: View
    reader: Reader[Module]

    def __call__(self, job: Job) -> tuple[PairResult, ...]:
        """The results for a pair of files, one for each module; empty if neither holds the selected module."""
        olds, news = self._modules(job.old), self._modules(job.new)
        # files that only their content can rule out, such as logs in a dump directory, are no modules and no problems
        if not (olds or news) and _may_hold_none(job.old) and _may_hold_none(job.new):
            return ()
        if len(olds) <= 1 >= len(news):
            sides = (
                results[0] if results else ScanResult[Module](_path_of_source(source), problem=_NO_HLO_PROBLEM)
                for results, source in ((olds, job.old), (news, job.new))
            )
            return (self._compare(job.name, *sides),)
        old, new = _by_name(olds), _by_name(news)
        within = {name: _within(job.name, name) for name in (*old, *new)}
        pairs = [self._compare(within[name], old[name], new[name]) for name in old if name in new]
        pairs += [self._alone(within[name], "-", old[name]) for name in old if name not in new]
        return (*pairs, *(self._alone(within[name], "+", new[name]) for name in new if name not in old))

    def _compare(self, name: str, old: ScanResult[Module], new: ScanResult[Module]) -> PairResult:
        problems = tuple(f"{each.path}: {each.problem}" for each in (old, new) if each.problem)
        paths = old.path, new.path
        if old.answer is None or new.answer is None:
            return PairResult(name, problems=problems, paths=paths)
        comparison = self.view.compare(old.answer, new.answer)
        words = self._words(comparison)
        if not words:
            is_equal = comparison.is_empty and not renaming_of(comparison).count
            return PairResult(name, "" if is_equal else "=", problems=problems, paths=paths)
        counts = len(comparison.changed), len(comparison.added), len(comparison.removed), len(comparison.moved)
        changed = sum(any(change.kind != "metadata" for change in each.changes) for each in comparison.changed)
        severity = changed + len(comparison.added) + len(comparison.removed) + len(comparison.header)
        return PairResult(name, "~", counts, words, problems, paths, severity, new.answer.instruction_count)

    def _words(self, comparison: ModuleDiff) -> str:
        """What differs, or which conditions do not hold; empty if there is nothing."""
        is_asked = bool(self.view.conditions) or self.view.is_finding(comparison)
        if is_asked and (text := answer_of_parts(comparison, checks_conditions=bool(self.view.conditions))):
            return text
        if self.view.conditions:
            comparison = without_form(comparison)
            numbers = numbers_against(comparison, self.view)
            failed = failures_of(self.view.conditions, comparison, statements_of(comparison), numbers)
            return "; ".join(f"{each.condition.text}: {each.text}" for each in failed)
        if not self.view.is_finding(comparison):
            return ""
        if not self.view.differs(comparison):
            return answer_of_same(comparison, self.view)
        return headline(statements_of(comparison)) or answer_of(comparison)

    def _alone(self, name: str, change: str, result: ScanResult[Module]) -> PairResult:
        return PairResult(name, change, problems=(f"{result.path}: {result.problem}",) if result.problem else ())

    def _modules(self, source: ModuleSource) -> tuple[ScanResult[Module], ...]:
        return self.reader(source) if isinstance(source, ModuleRef) else (self.reader.ask_of(source),)


def _by_name(results: Sequence[ScanResult[Module]]) -> dict[str, ScanResult[Module]]:
    """The modules of a file by name, numbered from the second of one name."""
    counts: Counter[str] = Counter()
    named = {}
    for each in results:
        name = each.module or ""
        counts[name] += 1
        named[name if counts[name] == 1 else f"{name} #{counts[name]}"] = each
    return named


def _within(file_name: str, module: str) -> str:
    return file_name if file_name == module else f"{file_name}: {module}"


def _path_of_source(source: ModuleSource) -> str:
    return source.path if isinstance(source, ModuleRef) else source.source.name


def _module(module: Module, _input: Input) -> Module:
    return module


def _may_hold_none(source: ModuleSource) -> bool:
    """Whether the file must be read to know if it holds HLO, or the selected module."""
    return isinstance(source, ModuleRef) and not source.is_certain


def _is_dump(source: ModuleSource) -> bool:
    """Whether a file on only one side would have been compared."""
    try:
        return isinstance(source, Input) or source.is_certain or bool(read_module_ref(source))
    except (HloError, OSError):
        return True


def _worker_died(job: Job) -> tuple[PairResult, ...]:
    return (PairResult(job.name, problems=("worker process died, possibly out of memory",)),)


def _timed_out(timeout: float | None, job: Job) -> tuple[PairResult, ...]:
    return (PairResult(job.name, problems=(late_problem(timeout),)),)


def _key_of_dump(folder: str, piece: ModuleRef, *, numbered: bool) -> str:
    """The name of a dump in a directory: its subfolder and module, with XLA's number if `numbered`."""
    within, name = os.path.split(os.path.relpath(piece.path, folder))
    dump = parse_dump_name(name)
    if dump is None:
        return os.path.join(within, name)
    return os.path.join(within, (dump.label if numbered else dump.module) or "") or dump.stage


# --- two files or stages ---
# The modules that `hlo diff OLD NEW` compares: of two files, two stages of one module, or two directories.


DiffOutcome = tuple[Report, bool, tuple[Diagnostic, ...]]
"""A report, whether there are differences, and the reading errors."""


def report_of_inputs(
    arguments: Sequence[str], reading: InputOptions, view: View, *, each: bool = False, jobs: int | None = None
) -> DiffOutcome:
    """The differences between two inputs, or between two stages of one; of several modules, a row each."""
    stages = _stages(arguments, reading)
    names = (arguments[0], arguments[-1])
    sides = [one_or_many([name], replace(reading, stage=stage)) for name, stage in zip(names, stages, strict=True)]
    if not each and not all(map(is_folder, names)):
        sides = _namesakes(sides, names)
    old, new = sides
    if isinstance(old, Input) and isinstance(new, Input) and not each:
        # a file or --stage says which stage is meant; in a directory it is only the latest one found
        if old.stage == new.stage or not any(map(is_folder, names)) or reading.stage is not None:
            return _of_two(old, new, reading, view, arguments)
        return _of_other_stages(old, new, reading, view, names)

    old_modules, new_modules = (_side_of_many(side, name) for side, name in zip(sides, names, strict=True))
    if are_caches(old_modules, new_modules):

        def compare(one: Input, other: Input) -> ModuleDiff:
            return view.compare(_read_side(one, reading).module, _read_side(other, reading).module)

        return report_of_caches(old_modules, new_modules, compare)
    # one module on each side is a pair whatever its names are
    if len(old_modules) == 1 == len(new_modules):
        new_modules = dict(zip(old_modules, new_modules.values(), strict=True))
    return _report_of_many(old_modules, new_modules, view, jobs=jobs, reading=reading, arguments=arguments)


def _of_other_stages(old: Input, new: Input, reading: InputOptions, view: View, names: tuple[str, str]) -> DiffOutcome:
    """The differences between dumps whose latest stages differ: of a stage that both have, or of both with a warning.

    A program differs from what a compiler made of it everywhere, so no cause of such a difference is one.
    """
    # first the stage of OLD, the dump that is compared against
    for place, side, stage in ((1, new, old.stage), (0, old, new.stage)):
        other = _at_stage(names[place], side, stage, reading) if is_folder(names[place]) else None
        if other is not None:
            pair = (old, other) if place else (other, new)
            report, differs, errors = _of_two(*pair, reading, view, names)
            note = Diagnostic("note", f"using stage {stage}, the latest in both inputs")
            other_notes = (each for each in report.notes if not each.message.startswith("using stage "))
            return replace(report, notes=(note, *other_notes)), differs, errors
    report, differs, errors = _of_two(old, new, reading, view, names)
    stages = ", ".join(f"{side} is {each.stage}" for side, each in (("OLD", old), ("NEW", new)))
    answer = f"The stages differ: {stages}"
    hint = "dump the same stage of both programs, or pass --stage A..B for the stages of one"
    note = Diagnostic("note", "differences between stages are made by the compiler", hint=hint)
    return replace(report, answer=answer, notes=(note, *report.notes)), differs, errors


def _at_stage(name: str, side: Input, stage: str | None, reading: InputOptions) -> Input | None:
    """The dump of a module at a stage in a directory; None if the directory does not have it."""
    if stage is None:
        return None
    try:
        dump = one_or_many([name], replace(reading, stage=stage, module=reading.module or side.module))
    except HloError:
        return None
    return dump if isinstance(dump, Input) and dump.stage == stage else None


def _namesakes(sides: Sequence[Input | Many], names: Sequence[str]) -> list[Input | Many]:
    """Replaces several modules on one side by the one that has the name of the only module on the other side."""
    alone = [side for side in sides if isinstance(side, Input)]
    if len(alone) != 1:
        return list(sides)
    return [
        _namesake(side, alone[0].module, name) if isinstance(side, Many) else side
        for side, name in zip(sides, names, strict=True)
    ]


def _namesake(many: Many, wanted: str | None, place: str) -> Input:

    named = _side_of_many(many, place)
    namesakes = [given for name, given in named.items() if wanted is not None and os.path.basename(name) == wanted]
    modules = [each for given in namesakes for each in _modules_in(given)]
    if not namesakes and wanted is not None:
        modules = [each for given in named.values() for each in _modules_if_readable(given) if each.module == wanted]
    if len(modules) != 1:
        message = f"module '{wanted}' not found in {place} ({format_count(len(named), 'modules')})"
        if modules:
            message = f"{len(modules):,} modules in {place} are named '{wanted}'"
        elif wanted is None:
            message = f"expected one module in {place}, found {len(named):,}"
        raise HloError(message, hint="select one with --module NAME, or pass a file")
    return replace(modules[0], module_choice=f"{wanted}, one of {len(named):,} modules in {place}")


def _modules_in(source: Input | ModuleRef) -> Sequence[Input]:
    return (source,) if isinstance(source, Input) else read_module_ref(source)


def _modules_if_readable(source: Input | ModuleRef) -> Sequence[Input]:
    """The modules of a file whose name does not identify them; empty if it cannot be read."""
    try:
        return _modules_in(source)
    except (HloError, OSError):
        return ()


def _read_side(input: Input, reading: InputOptions) -> DiffSide:
    """Reads a module; the result has the name of its file and its stage."""
    module = read_module(input.source, input.proto, strict=reading.strict, infer=omitted_shape)
    return DiffSide(module, input.source.name, input.stage)


def _stages(arguments: Sequence[str], reading: InputOptions) -> tuple[str | None, str | None]:
    """The stages of both sides; HloError if there are not two sides."""
    first, between, second = (reading.stage or "").partition("..")
    if len(arguments) == 1 and not between:
        raise HloError("expected two dumps, got one", hint=f"run `hlo diff {arguments[0]} NEW`")
    if len(arguments) not in (1, 2):
        raise HloError(
            f"expected OLD and NEW, got {format_count(len(arguments), 'inputs')}", hint="run `hlo diff OLD NEW`"
        )
    # the first reader would take it all
    if list(arguments).count("-") > 1:
        raise HloError("cannot read stdin more than once", hint="pass one of them as a file")
    if between and not (first and second):
        raise HloError(
            "--stage requires a range A..B to compare one dump",
            hint="for example --stage before_optimizations..after_optimizations",
        )
    return (first, second) if between else (reading.stage, reading.stage)


def _of_two(old: Input, new: Input, reading: InputOptions, view: View, arguments: Sequence[str]) -> DiffOutcome:
    before, after = _read_side(old, reading), _read_side(new, reading)
    with sharing():  # matching, statements, and numbers need the same analyses
        comparison = view.compare(before.module, after.module)
        report, is_finding = report_of_diff(comparison, before, after, view, arguments)
    notes = tuple(Diagnostic("note", note) for each in (old, new) for note in each.notes)
    if before.module.is_part or after.module.is_part:
        words = "these are parts of modules; only instructions in the text are compared"
        notes = (*notes, Diagnostic("note", words))
    entries = entries_of(old, new)
    if entries is None and (flags := _flags_between(old, new)):
        notes = (*notes, Diagnostic("note", f"compiled with different flags: {flags}"))
    if entries is not None:
        report = with_cache_keys(report, entries, comparison)
    errors = (*before.module.errors, *after.module.errors)
    return replace(report, notes=(*notes, *report.notes)), is_finding, errors


def _flags_between(old: Input, new: Input) -> str:
    """The flags that differ between two inputs; empty if those of one are not known, or not with the defaults."""
    if (old.options is None) != (new.options is None):
        return ""  # the file has only what differs from the defaults
    before, after = flags_of(old), flags_of(new)
    return "" if before is None or after is None else different_flags(before, after)


# --- --passes: dumps of each pass ---
# `hlo diff DIR --passes`: the changes of each pass, from the dumps that `--xla_dump_hlo_pass_re` makes.


_HOW_TO_DUMP = "create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'"


@dataclass(frozen=True, slots=True)
class _PassStep:
    """The changes between two consecutive dumps: the stage of the second, and the differences."""

    stage: str
    before: str
    comparison: ModuleDiff
    with_schedule: bool

    @property
    def change_kinds(self) -> str | None:
        """What changed, in the words of the options; None if only instructions were added or removed."""
        comparison = self.comparison
        kinds = dict.fromkeys(change.kind.replace("_", " ") for each in comparison.changed for change in each.changes)
        schedule = ["schedule"] if self.with_schedule and comparison.moved else []
        header = [f"header {change.name}" for change in comparison.header]
        return ", ".join((*kinds, *schedule, *header)) or None

    @property
    def between(self) -> PassName:
        """The pass that ran between the two dumps."""
        return pass_between(self.before, self.stage)


_PASS_COLUMNS: tuple[Column[_PassStep], ...] = (
    Column("number", "", "line", of=lambda step: step.between.number),
    Column("pass", "pass", role="name", of=lambda step: step.between.name),
    Column("before", "before", "count", group="instructions", of=lambda step: step.comparison.before.instruction_count),
    Column("after", "after", "count", group="instructions", of=lambda step: step.comparison.after.instruction_count),
    Column("changed", "changed", "count", of=lambda step: len(step.comparison.changed)),
    Column("added", "added", "count", of=lambda step: len(step.comparison.added)),
    Column("removed", "removed", "count", of=lambda step: len(step.comparison.removed)),
    Column("change_kinds", "change", rank=2, of=lambda step: step.change_kinds),
    Column("pipeline", "pipeline", rank=1, from_width=120, of=lambda step: step.between.pipeline),
    Column("stage", "stage", person=False, of=lambda step: step.stage),
)  # fmt: skip


def report_of_passes(arguments: Sequence[str], reading: InputOptions, view: View) -> DiffOutcome:
    """One row for each pass that changed something, and the number of those that did not."""
    if len(arguments) != 1 or not is_folder(arguments[0]):
        raise HloError("--passes requires a directory of per-pass dumps", hint=_HOW_TO_DUMP)
    steps: list[_PassStep] = []
    errors: list[Diagnostic] = []
    previous = None
    for file_name, dump in pass_dumps(arguments[0], reading):
        (input,) = read_inputs([os.path.join(arguments[0], file_name)])[:1]
        side = _read_side(input, reading)
        errors += side.module.errors
        if previous is not None:
            steps.append(_PassStep(dump.stage, previous[1], view.compare(previous[0], side.module), view.with_schedule))
        previous = side.module, dump.stage
    changing = [step for step in steps if view.differs(step.comparison)]
    numbers = {"passes": len(steps), "changing": len(changing)}
    table = Table(
        "passes",
        _PASS_COLUMNS,
        rows_from(_PASS_COLUMNS, changing),
        noun="passes",
        footnote=_unchanged(steps, changing),
    )
    report = Report(
        "diff",
        _passes_answer(steps, changing),
        numbers=numbers,
        parts=(table,),
        next=_next_of_passes(arguments[0], changing),
    )
    return report, bool(changing), tuple(errors)


def pass_dumps(folder: str, reading: InputOptions) -> list[tuple[str, DumpName]]:
    """The dumps of one module, in the order in which they were made."""
    dumps = list(read_directory(folder).dumps)
    if reading.module is not None:
        chosen = matching_stages(reading.module, [dump.names for _, dump in dumps])
        if not chosen:
            raise not_found_error("module", reading.module, [dump.module for _, dump in dumps], folder)
        dumps = [dumps[at] for at in chosen]
    groups: dict[str, list[tuple[str, DumpName]]] = {}
    for name, dump in dumps:
        groups.setdefault(dump.group, []).append((name, dump))
    # of several modules, the hint names the one that is most likely meant
    largest: list[tuple[str, DumpName]] = max(groups.values(), key=len) if groups else []
    if (several := sum(len(group) > 1 for group in groups.values())) > 1:
        name = largest[0][1].label or largest[0][1].group
        raise HloError(
            f"--passes requires the dumps of one module, and {folder} has {several:,} modules",
            hint=f"use --module {name} for the module with the most dumps",
        )
    ordered = sorted(largest, key=lambda each: each[1].order)
    # one dump has nothing before it
    if len(ordered) < 2:
        raise HloError(f"no per-pass dumps in {folder}", hint=_HOW_TO_DUMP)
    return ordered


def _passes_answer(steps: Sequence[_PassStep], changing: Sequence[_PassStep]) -> str:
    if not changing:
        return f"No changes in {format_count(len(steps), 'passes')}"
    first, last = steps[0].comparison.before.instruction_count, steps[-1].comparison.after.instruction_count
    most = max(changing, key=lambda step: _size_of_change(step.comparison))
    words = f"{len(changing):,} of {format_count(len(steps), 'passes')} changed the module"
    words += f" ({first:,} → {last:,} instructions)"
    return f"{words}. Largest change: {pass_between(most.before, most.stage).name} ({_counts(most.comparison)})"


def _counts(comparison: ModuleDiff) -> str:
    """The changes by kind, without those that are zero."""
    counts = {
        "changed": len(comparison.changed),
        "added": len(comparison.added),
        "removed": len(comparison.removed),
        "moved": len(comparison.moved),
        "in the header": len(comparison.header),
    }
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)


def _size_of_change(comparison: ModuleDiff) -> int:
    return len(comparison.changed) + len(comparison.added) + len(comparison.removed)


def _unchanged(steps: Sequence[_PassStep], changing: Sequence[_PassStep]) -> str:
    unchanged = len(steps) - len(changing)
    return f"{format_count(unchanged, 'passes')} without changes" if unchanged else ""


def _next_of_passes(folder: str, changing: Sequence[_PassStep]) -> tuple[str, ...]:
    if not changing:
        return ()
    most = max(changing, key=lambda step: _size_of_change(step.comparison))
    numbers = [pass_number(stage) or stage for stage in (most.before, most.stage)]
    return (f"hlo diff {folder} --stage {numbers[0]}..{numbers[1]}",)


# --- --normalize: one module as text ---
# `hlo diff DUMP --normalize`: one module as text that is independent of names and order.


# no format was chosen for the first two: a golden file is written by redirection
_TEXT_FORMATS: Final = ("table", "screen", "hlo")
# a change of a line number or of the schedule would make a golden file fail
_ALWAYS_OMITTED: Final = frozenset(("metadata", "schedule"))
_PARTS_OF_SHAPES: Final = frozenset(("layout", "tiling", "memory_space"))
_OMISSIBLE_ATTRIBUTES: Final = frozenset(("sharding", "backend_config"))
_FINGERPRINT_COLUMNS: Final[tuple[Column[Module, str, str], ...]] = (
    Column("module", "module", "name", of=lambda module, digest, text: module.name),
    Column("instructions", "instructions", "count", of=lambda module, digest, text: module.instruction_count),
    Column("sha256", "sha256", of=lambda module, digest, text: digest),
    Column("text", "text", of=lambda module, digest, text: text),
)


def write_normalized(
    arguments: Sequence[str], reading: InputOptions, ignored: Sequence[str], output: OutputOptions
) -> int:
    """Writes the text itself, or a report that holds it with its digest, and returns the exit code."""
    _check_normalize(arguments, output)
    loaded = load_one(arguments, reading, about="--normalize")
    module = loaded.module
    if module.errors:
        return print_diagnostics(notes_of(loaded), module.errors, output)
    chunks = normalize(module, ignored).chunks()
    if output.format in _TEXT_FORMATS:
        write(chunks, output.path)
        return print_diagnostics(notes_of(loaded), (), output)
    text = "".join(chunks)
    # bytes that are no UTF-8 stay the bytes of the dump
    digest = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    rows = rows_from_tuples(_FINGERPRINT_COLUMNS, [(module, digest, text)])
    report = Report(
        "diff-normalized",
        f"{format_count(module.instruction_count, 'instructions')}, sha256 {digest}",
        numbers={"module": module.name, "instructions": module.instruction_count, "sha256": digest},
        parts=(
            Table("modules", _FINGERPRINT_COLUMNS, rows, noun="modules", person=False),
            Figure("text", fixed(*text.rstrip().splitlines()), data={"lines": text.count("\n")}),
        ),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )
    return write_report(report, output)


def check_ignorable_kinds(ignored: Iterable[str], kinds: Iterable[str]) -> None:
    """Raises HloError for kinds of changes that no text can omit, such as opcodes and operands."""
    omissible = _PARTS_OF_SHAPES | _OMISSIBLE_ATTRIBUTES | _ALWAYS_OMITTED
    for word in ignored:
        if word in kinds and word not in omissible:
            hint = f"--normalize supports --ignore with {', '.join(sorted(omissible))}, or an attribute name"
            raise HloError(f"'{word}' cannot be omitted", hint=hint)


def _check_normalize(arguments: Sequence[str], output: OutputOptions) -> None:
    if len(arguments) > 1:
        raise HloError(
            f"--normalize requires exactly one input, got {len(arguments)}", hint="run `hlo diff DUMP --normalize`"
        )
    known = (*_TEXT_FORMATS, *(each.name for each in FORMATS if each.holds_text))
    if output.format not in known:
        raise HloError(f"--normalize does not support --format {output.format}", hint=f"available: {', '.join(known)}")
