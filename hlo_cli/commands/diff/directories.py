"""`hlo diff OLD NEW` of two directories of dumps: a row for each module that differs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from shlex import quote
from typing import TypeAlias

from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.statements.operations import renaming_of
from hlo_cli.analysis.statements.statements import statements_of
from hlo_cli.commands.diff.golden import failures_of, numbers_against, without_form
from hlo_cli.commands.diff.partial import answer_of_parts
from hlo_cli.commands.diff.report import answer_of, answer_of_same
from hlo_cli.commands.diff.told import headline
from hlo_cli.commands.diff.view import View
from hlo_cli.commands.modules.loading import Many
from hlo_cli.commands.options.declaring import processes, timeout_given
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import parse_dump_name
from hlo_cli.inputs.input import Input, ModuleRef, read_module_ref
from hlo_cli.inputs.parallel import in_order
from hlo_cli.ir.module import Module
from hlo_cli.render.progress import watched
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Column, Row, Table
from hlo_cli.scan_modules import Reader, ScanResult, late_problem
from hlo_cli.source import Diagnostic, HloError

Given: TypeAlias = "ModuleRef | Input"
"""A file that is read later, or a module that was found in one."""
Side: TypeAlias = "Mapping[str, Given]"
"""The modules of one side, by the keys that identify them on both sides."""

_NO_HLO = "contains no HLO"
_HELPER = 20
"""Fewer instructions than these are a helper of JAX, such as jit_convert_element_type, beside a model or a step."""
_MIN_FOLDED = 3
"""Fewer rows than these are not worth folding."""
_COLUMNS = (
    Column("change", "", "change"),
    Column("module", "module", "name", role="name"),
    Column("changed", "changed", "count"),
    Column("added", "added", "count"),
    Column("removed", "removed", "count"),
    Column("moved", "moved", "count", from_width=120),
    Column("summary", "summary", rank=9),
)


@dataclass(frozen=True, slots=True)
class Job:
    """Two dumps of one name to compare."""

    name: str
    old: Given
    new: Given


@dataclass(frozen=True, slots=True)
class Compared:
    """The result for a pair of modules: the counts of changes and a sentence, or the problems that prevented it.

    `change` is `~` if they differ, `=` if only names or source lines do, `-` or `+` if the module is only on the old or
    the new side, else empty. `severity` is the number of changes other than of metadata, and `size` the number of
    instructions of the new module.
    """

    name: str
    change: str = ""
    counts: tuple[int, int, int, int] | None = None
    words: str = ""
    problems: tuple[str, ...] = ()
    paths: tuple[str, str] = ("", "")
    severity: int = 0
    size: int = 0


def side_of_many(many: Many | Input, argument: str) -> Side:
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
    folder = argument if os.path.isdir(argument) else _shared_folder(many)
    counts = Counter(_name(folder, piece, numbered=False) for piece in many.pieces)
    return {
        _name(folder, piece, numbered=counts[_name(folder, piece, numbered=False)] > 1): piece for piece in many.pieces
    }


def _shared_folder(many: Many) -> str:
    folders = {os.path.dirname(piece.path) for piece in many.pieces}
    return os.path.commonpath(folders) if len(set(map(os.path.isabs, folders))) == 1 else ""


def report_of_many(
    ones: Side, twos: Side, view: View, *, jobs: int | None, reading: InputOptions, arguments: Sequence[str]
) -> tuple[Report, bool, tuple[Diagnostic, ...]]:
    """One row for each module that differs; HloError if no module is on both sides."""
    if view.name == "text":
        raise HloError("--text supports only one pair of modules", hint="select one with --module NAME")
    both = [Job(name, ones[name], twos[name]) for name in ones if name in twos]
    if not both:
        raise HloError(
            f"no module is in both inputs (only in OLD: {_some(ones)}; only in NEW: {_some(twos)})",
            hint="use --module, or pass two files to compare modules with different names",
        )
    comparer, timeout = _Comparer(view, Reader(_module, reading.strict)), timeout_given()
    late = partial(_late, timeout)
    work = in_order(comparer, both, jobs=processes(jobs, len(both)), lost=_lost, timeout=timeout, late=late)
    found = [each for several in watched(work, len(both), "modules", quiet=reading.quiet) for each in several]
    missing = [name for name in sorted(set(ones) ^ set(twos)) if _is_dump(ones.get(name) or twos[name])]
    if not (found or missing):
        raise HloError(f"module not found in {' or '.join(arguments)}")
    alone = [each for each in found if each.change in ("-", "+")]
    alone += [Compared(name, "-" if name in ones else "+") for name in missing]
    compared = [each for each in found if each.change not in ("-", "+")]
    differing, helpers = _worst_first([each for each in compared if each.change == "~"])
    same = [each for each in compared if each.change != "~" and not each.problems]
    shown = (*differing, *alone, *helpers)
    rows: list[Row] = [(each.change, each.name, *(each.counts or (None,) * 4), each.words or None) for each in shown]
    differing += helpers
    problems = tuple(Diagnostic("error", f"{each.name}: {problem}") for each in found for problem in each.problems)
    modules = format_count(len(compared), "modules")
    verb = "differs" if len(differing) == 1 else "differ"
    words = f"{len(differing):,} of {modules} {verb}{_most(differing)}" if differing else f"No differences ({modules})"
    table = Table(
        "modules",
        _COLUMNS,
        tuple(rows),
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
        words + (f"; {len(alone):,} in only one input" if alone else ""),
        numbers=numbers,
        parts=(table.select(["module"]) if view.name == "name-only" else table,),
        next=tuple(_command(each, view) for each in differing[:1]),
        notes=_remarks(ones, twos),
    )
    return report, bool(rows), problems


def _worst_first(found: Sequence[Compared]) -> tuple[list[Compared], list[Compared]]:
    """The modules that differ, those with the most changes first, and small ones that are folded beside larger ones."""
    order = sorted(found, key=lambda each: (-each.severity, -each.size, each.name))
    helpers = [each for each in order if each.size < _HELPER]
    if len(helpers) == len(order) or len(helpers) < _MIN_FOLDED:
        return order, []
    return [each for each in order if each.size >= _HELPER], helpers


def _most(differing: Sequence[Compared]) -> str:
    """The module with the most changes, as the end of an answer."""
    worst = differing[0]
    if len(differing) == 1:
        return f": {worst.name}"
    return f", most {worst.name} ({format_count(worst.severity, 'changes')})" if worst.severity else ""


def _folded(same: Sequence[Compared], helpers: Sequence[Compared]) -> str:
    """How many modules have no row: small ones that differ, and those that are the same program."""
    texts = []
    if helpers:
        number = sum(each.severity for each in helpers)
        texts.append(
            f"~ {len(helpers):,} modules of fewer than {_HELPER} instructions ({format_count(number, 'changes')})"
        )
    if same:
        lines = sum(each.change == "=" for each in same)
        other = f" ({lines:,} with other names or source lines)" if lines else ""
        texts.append(f"= {format_count(len(same), 'modules')} unchanged{other}")
    return "; ".join(texts)


def _command(each: Compared, view: View) -> str:
    """The command that shows one row as the same comparison."""
    options = [f"--ignore {','.join(view.ignored)}"] if view.ignored else []
    options += [name for name, is_given in (("--schedule", view.with_schedule), ("--exact", view.exact)) if is_given]
    return " ".join(("hlo diff", *map(quote, each.paths), *options))


def _remarks(*sides: Side) -> tuple[Diagnostic, ...]:
    """The notes on dumps in directories that are not read, each once."""
    remarks = dict.fromkeys(given.remark for side in sides for given in side.values())
    return tuple(Diagnostic("note", remark) for remark in remarks if remark)


@dataclass(frozen=True, slots=True)
class _Comparer:
    view: View
    reader: Reader[Module]

    def __call__(self, job: Job) -> tuple[Compared, ...]:
        """The results for a pair of files, one for each module; empty if neither holds the selected module."""
        olds, news = self._modules(job.old), self._modules(job.new)
        if not (olds or news) and _may_hold_none(job.old) and _may_hold_none(job.new):
            return ()
        if len(olds) <= 1 >= len(news):
            old, new = (
                found[0] if found else ScanResult[Module](_path_of(given), problem=_NO_HLO)
                for found, given in ((olds, job.old), (news, job.new))
            )
            return (self._compare(job.name, old, new),)
        ones, twos = _by_name(olds), _by_name(news)
        pairs = [self._compare(_within(job.name, name), ones[name], twos[name]) for name in ones if name in twos]
        pairs += [self._alone(_within(job.name, name), "-", ones[name]) for name in ones if name not in twos]
        return (*pairs, *(self._alone(_within(job.name, name), "+", twos[name]) for name in twos if name not in ones))

    def _compare(self, name: str, old: ScanResult[Module], new: ScanResult[Module]) -> Compared:
        problems = tuple(f"{each.path}: {each.problem}" for each in (old, new) if each.problem)
        paths = old.path, new.path
        if old.answer is None or new.answer is None:
            return Compared(name, problems=problems, paths=paths)
        comparison = self.view.compare(old.answer, new.answer)
        words = self._words(comparison)
        if not words:
            is_equal = comparison.is_empty and not renaming_of(comparison).count
            return Compared(name, "" if is_equal else "=", problems=problems, paths=paths)
        counts = len(comparison.changed), len(comparison.added), len(comparison.removed), len(comparison.moved)
        changed = sum(any(change.kind != "metadata" for change in each.changes) for each in comparison.changed)
        severity = changed + len(comparison.added) + len(comparison.removed) + len(comparison.header)
        return Compared(name, "~", counts, words, problems, paths, severity, new.answer.instruction_count)

    def _words(self, comparison: ModuleDiff) -> str:
        """What differs, or which conditions do not hold; empty if there is nothing."""
        is_asked = bool(self.view.conditions) or self.view.is_finding(comparison)
        if is_asked and (text := answer_of_parts(comparison, checks_conditions=bool(self.view.conditions))):
            return text
        if self.view.conditions:
            comparison = without_form(comparison)
            numbers = numbers_against(comparison, self.view)
            found = failures_of(self.view.conditions, comparison, statements_of(comparison), numbers)
            return "; ".join(f"{each.condition.text}: {each.text}" for each in found)
        if not self.view.is_finding(comparison):
            return ""
        if not self.view.differs(comparison):
            return answer_of_same(comparison, self.view)
        return headline(statements_of(comparison)) or answer_of(comparison)

    def _alone(self, name: str, change: str, each: ScanResult[Module]) -> Compared:
        return Compared(name, change, problems=(f"{each.path}: {each.problem}",) if each.problem else ())

    def _modules(self, given: Given) -> tuple[ScanResult[Module], ...]:
        return self.reader(given) if isinstance(given, ModuleRef) else (self.reader.ask_of(given),)


def _by_name(found: Sequence[ScanResult[Module]]) -> dict[str, ScanResult[Module]]:
    """The modules of a file by name, numbered from the second of one name."""
    seen: Counter[str] = Counter()
    named = {}
    for each in found:
        name = each.module or ""
        seen[name] += 1
        named[name if seen[name] == 1 else f"{name} #{seen[name]}"] = each
    return named


def _within(file_name: str, module: str) -> str:
    return file_name if file_name == module else f"{file_name}: {module}"


def _path_of(given: Given) -> str:
    return given.path if isinstance(given, ModuleRef) else given.source.name


def _module(module: Module, _input: Input) -> Module:
    return module


def _may_hold_none(given: Given) -> bool:
    """Whether the file must be read to know if it holds HLO, or the selected module."""
    return isinstance(given, ModuleRef) and not given.is_certain


def _is_dump(given: Given) -> bool:
    """Whether a file on only one side would have been compared."""
    try:
        return isinstance(given, Input) or given.is_certain or bool(read_module_ref(given))
    except (HloError, OSError):
        return True


def _lost(job: Job) -> tuple[Compared, ...]:
    return (Compared(job.name, problems=("worker process died, possibly out of memory",)),)


def _late(timeout: float | None, job: Job) -> tuple[Compared, ...]:
    return (Compared(job.name, problems=(late_problem(timeout),)),)


def _name(folder: str, piece: ModuleRef, *, numbered: bool) -> str:
    """The name of a dump in a directory: its subfolder and module, with XLA's number if `numbered`."""
    within, name = os.path.split(os.path.relpath(piece.path, folder))
    dump = parse_dump_name(name)
    if dump is None:
        return os.path.join(within, name)
    return os.path.join(within, (dump.label if numbered else dump.module) or "") or dump.stage


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f", and {len(listed) - 3:,} more" if len(listed) > 3 else "")
