"""How do many dumps become one table? A row for each module, by cost, and the inputs that could not be read.

The order is the same in all commands, so that a module is found where it was: what fails, then by cost, helpers last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from hlo_cli.commands.modules.loading import (
    Loaded,
    Many,
    devices_together,
    no_module,
    number_of_module,
    partition_notes_on,
    unique_name,
)
from hlo_cli.commands.options.declaring import processes, timeout_given
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, format_options
from hlo_cli.commands.options.writing import write_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import parse_dump_name
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.render.progress import watched
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import (
    ROWS_FOR_A_PERSON,
    Cell,
    Column,
    Table,
    columns_of_part,
    rows_from_tuples,
    unknown_without,
)
from hlo_cli.scan_modules import Ask, Reader, ScanResult, map_modules, remarks_of
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.query.main_module import ModuleCost, ModuleRanking

Answer = TypeVar("Answer")


def map_inputs(
    many: Many, reading: InputOptions, jobs: int | None, ask: Ask[Answer], *, answers_text: bool = False
) -> Iterator[ScanResult[Answer]]:
    """The answers of all modules and what they cost, with a progress bar on a terminal; HloError if there is no module.

    With `answers_text`, PastedTextError is raised if the only input is a text that can be explained.
    """
    costed = _Costed(ask)
    if many.inputs:
        yield from map(_with_cost, map(Reader(costed, reading.strict).ask_of, many.inputs))
        return
    number, timeout = processes(jobs, len(many.pieces)), timeout_given()
    raises = answers_text and len(many.arguments) == len(many.pieces) == 1 and number == 1 and timeout is None
    asked = map_modules(many.pieces, costed, jobs=number, strict=reading.strict, timeout=timeout, raises_text=raises)
    is_any = False
    for each in watched(asked, len(many.pieces), "dumps", quiet=reading.quiet):
        is_any = True
        yield _with_cost(each)
    if not is_any:
        raise no_module(many, reading)


@dataclass(frozen=True, slots=True)
class _Costed(Generic[Answer]):
    """Computes the answer of one module, and what an execution of it costs; called for every module."""

    ask: Ask[Answer]

    def __call__(self, module: Module, given: Input) -> tuple[Answer, ModuleCost]:
        from hlo_cli.analysis.query.main_module import cost_of_module  # needed for several modules only

        return self.ask(module, given), cost_of_module(module)


def _with_cost(found: ScanResult[tuple[Answer, ModuleCost]]) -> ScanResult[Answer]:
    answer, cost = found.answer or (None, None)
    return ScanResult(found.path, found.module, found.stage, answer, found.problem, found.errors, found.remark, cost)


@dataclass(frozen=True, slots=True)
class ModuleAnswer:
    """The numbers of the report on one module of many, and the rules that the module violates.

    `devices` is the number of devices whose work the numbers hold together, more than 1 before partitioning.
    """

    is_program: bool
    numbers: Mapping[str, Cell]
    broken: tuple[Diagnostic, ...]
    devices: int = 1

    @property
    def errors(self) -> int:
        """The number of rule violations."""
        return sum(each.severity == "error" for each in self.broken)


UPPER_BOUND: Final[Column[ModuleAnswer]] = Column(
    "upper_bound", "upper bound", "flag", of=lambda answer: not answer.is_program
)
"""Whether the numbers of a module are upper bounds, as it is not the final program."""
ERRORS: Final[Column[ModuleAnswer]] = Column("errors", "errors", "count", total="sum", of=lambda answer: answer.errors)
"""The rules of its command that a module violates."""


@dataclass(frozen=True, slots=True)
class Rows(Generic[Answer]):
    """The table of the answers of many modules: its columns.

    `findings` are the violations of the command's rules in each module, `fails` whether an
    answer leads to exit code 1, and `devices` the number of devices whose work its numbers hold together.
    """

    columns: Sequence[Column[Answer]]
    findings: Callable[[Answer], Sequence[Diagnostic]] = lambda _: ()
    fails: Callable[[Answer], bool] = lambda _: False
    devices: Callable[[Answer], int] = lambda _: 1


def finish_each(
    command: str,
    many: Many,
    reading: InputOptions,
    found: Sequence[ScanResult[Answer]],
    rows: Rows[Answer],
    *,
    answer: str,
    output: OutputOptions,
    numbers: Mapping[str, Cell] | None = None,
    unfinished: int | None = None,
    next: Sequence[str] | None = None,
    version: int = 2,
    shown: Sequence[ScanResult[Answer]] | None = None,
    write: Callable[..., int] = write_report,
) -> int:
    """Writes a table with a row for each module, including unreadable ones, and returns the highest exit code.

    It is 2 if an input is not read completely, else 1 if any fails. `unfinished` describes how many modules are not
    optimized yet, if that makes their numbers upper bounds; `next` replaces the command for the module on top. `shown`
    are the results as the report names them, if not by their paths. `write` writes the report, as `write_report` does.
    """
    listed = _listing(found, rows)
    table = _table(found if shown is None else shown, rows, listed)
    answers = [each.answer for each in found if each.answer is not None]
    problems = [Diagnostic("error", named(each.path, each.problem)) for each in found if each.problem]
    unread = len(found) - len(answers)
    answer += f"; {unfinished:,} not optimized yet (upper bounds)" if unfinished else ""
    answer += f"; {unread:,} unreadable" if unread else ""
    bounds: Mapping[str, Cell] = {} if unfinished is None else {"upper_bounds": unfinished}
    report = Report(
        command,
        answer,
        numbers={"modules": len(answers), "problems": len(problems), **(numbers or {}), **bounds},
        version=version,
        parts=(table,),
        next=_next(command, many, reading, found, listed) if next is None else tuple(next),
        notes=(
            *notes_on_devices([rows.devices(each) for each in answers]),
            *remarks_of(found if shown is None else shown),
        ),
    )
    verb = "was" if len(answers) == 1 else "were"
    findings = [finding for each in answers for finding in rows.findings(each)]
    code = write(report, output, (*problems, *findings), read=f"{format_count(len(answers), 'modules')} {verb} read")
    return code if problems else int(any(map(rows.fails, answers)))


def devices_of(module: Module, given: Input) -> int:
    """The number of devices whose work a module holds together; one with a schedule is partitioned, which comes first.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=8  ENTRY e { ROOT p = f32[8] parameter(0) }")
    >>> devices_of(module, Input(module.source, None))
    8
    """
    if module.is_scheduled:
        return 1

    return devices_together(Loaded(module, given))


def notes_on_devices(devices: Sequence[int]) -> tuple[Diagnostic, ...]:
    """The notes on modules that are not partitioned yet; `devices` are those of each module."""
    if max(devices, default=1) == 1:
        return ()

    return partition_notes_on(devices)


def named(path: str, problem: str) -> str:
    """A problem prefixed with the path, unless the message has it, such as that of a missing file."""
    return problem if path in problem else f"{path}: {problem}"


@dataclass(frozen=True, slots=True)
class _Listing:
    """The order of the modules in a table: those that fail, then by cost, then helpers, which a screen folds.

    `indices` are those of the results, `shares` the shares of the cost of all modules that were read.
    """

    indices: tuple[int, ...]
    failing: int
    helpers: int
    shares: Mapping[int, float]


def _listing(found: Sequence[ScanResult[Answer]], rows: Rows[Answer]) -> _Listing:
    """The same order for all commands, but for the modules that decide the exit code, which are on top."""
    ranking, read = ranking_of(found)
    by_cost = [read[at] for at in ranking.order]
    failing = [at for at in by_cost if (answer := found[at].answer) is not None and rows.fails(answer)]
    unread = [at for at, each in enumerate(found) if each.cost is None]
    helpers = [read[at] for at in ranking.order if at in ranking.helpers and read[at] not in failing]
    others = [at for at in by_cost if at not in helpers]
    indices = tuple(dict.fromkeys((*failing, *others, *unread, *helpers)))
    return _Listing(indices, len(failing), len(helpers), dict(zip(read, ranking.shares, strict=True)))


def ranking_of(found: Sequence[ScanResult[Answer]]) -> tuple[ModuleRanking, Sequence[int]]:
    """The ranking of the modules that were read, and the indices of their results."""
    from hlo_cli.analysis.query.main_module import rank_modules

    costs = {at: each.cost for at, each in enumerate(found) if each.cost is not None}
    return rank_modules(tuple(costs.values()), [found[at].path for at in costs]), tuple(costs)


def _next(
    command: str, many: Many, reading: InputOptions, found: Sequence[ScanResult[Answer]], listed: _Listing
) -> tuple[str, ...]:
    """The command for the full report on the module on top."""
    arguments = arguments_of(many, reading, found, listed.indices[0]) if listed.indices else ""
    return (f"hlo {command} {arguments}",) if arguments else ()


def arguments_of(many: Many, reading: InputOptions, found: Sequence[ScanResult[Answer]], at: int) -> str:
    """The arguments that select one module of many, as short as they can be typed; empty for standard input."""
    if "-" in many.arguments:
        return ""
    chosen = found[at]
    name = unique_name(found, at)
    if name is None or len(many.arguments) > 1:
        return format_options((("", chosen.path), ("--stage", reading.stage)))
    return format_options((("", many.arguments[0]), ("--stage", reading.stage), ("--module", name)))


def modules_table(found: Sequence[ScanResult[Answer]]) -> Table:
    """The modules by cost, with their names alone."""
    rows = Rows[Answer](())
    return _table(found, rows, _listing(found, rows))


def _table(found: Sequence[ScanResult[Answer]], rows: Rows[Answer], listed: _Listing) -> Table:
    has_unread = any(each.answer is None for each in found)
    answered = unknown_without(rows.columns)
    dumps = short_paths([each.path for each in found])
    ids = [number_of_module(each.path) for each in found]
    is_numbered = None not in ids
    is_ambiguous = not is_numbered or len(set(ids)) < len(ids)
    has_stages = len({each.stage for each in found}) > 1
    helpers = frozenset(listed.indices[len(listed.indices) - listed.helpers :])
    columns: tuple[Column[ScanResult[Answer], int], ...] = (
        Column("module", "module", "name", role="name", of=lambda found, at: found.module),
        Column("id", "id", person=is_numbered, of=lambda found, at: ids[at]),
        Column("stage", "stage", person=has_stages, from_width=120, of=lambda found, at: found.stage),
        *columns_of_part(answered, lambda found, at: found.answer),
        Column("cost_share", "likely cost", "percent", from_width=120, of=lambda found, at: listed.shares.get(at)),
        # Paths are long: what comes after them is out of sight on a narrow page.
        Column("dump", "dump", "name", machine=False, person=is_ambiguous, of=lambda found, at: dumps[at]),
        Column("path", "file", person=False, of=lambda found, at: found.path),
        Column(
            "is_helper",
            "helper",
            "flag",
            person=False,
            of=lambda found, at: at in helpers if found.cost is not None else None,
        ),
        Column("problem", "problem", person=has_unread, rank=1, of=lambda found, at: found.problem or None),
    )  # fmt: skip
    ordered = [(found[at], at) for at in listed.indices]
    shown = len(found) - listed.helpers
    return Table(
        "modules",
        columns,
        rows_from_tuples(columns, ordered),
        noun="modules",
        limit=min(shown, ROWS_FOR_A_PERSON),
        folded="helper modules" if listed.helpers and shown <= ROWS_FOR_A_PERSON else "",
        marked=frozenset(range(listed.failing)),
    )


def short_paths(paths: Sequence[str]) -> list[str]:
    """Paths without their common folder, and without file names that consist of a stage alone.

    Shortened paths stay distinct: those that would clash keep more of their text.

    >>> short_paths(["d/a/after_optimizations.txt", "d/b/after_optimizations.txt", "d/c.hlo"])
    ['a/', 'b/', 'c.hlo']
    >>> short_paths(["d/a/before_optimizations.txt", "d/a/after_optimizations.txt", "d/c.hlo"])
    ['a/before_optimizations.txt', 'a/after_optimizations.txt', 'c.hlo']
    """
    folders = {os.path.dirname(path) for path in paths}
    shared = os.path.commonpath(folders) if len(folders) > 1 and len(set(map(os.path.isabs, folders))) == 1 else ""
    whole = [os.path.relpath(path, shared) if shared else path for path in paths]
    shortest = [_without_stage(path) for path in whole]
    files: dict[str, set[str]] = {}
    for forms in (shortest, whole):
        for form, path in zip(forms, paths, strict=True):
            files.setdefault(form, set()).add(path)
    return [
        next((form for form in (short, longer) if files[form] == {path}), path)
        for short, longer, path in zip(shortest, whole, paths, strict=True)
    ]


def _without_stage(path: str) -> str:
    folder, name = os.path.split(path)
    dump = parse_dump_name(name)
    return f"{folder}/" if folder and dump is not None and dump.label is None else path
