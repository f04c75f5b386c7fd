"""Many dumps in one table: a row for each module, and what could not be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from hlo_cli.commands.each_options import processes
from hlo_cli.commands.options import Output, Reading, finish
from hlo_cli.fleet import Ask, Asked, ask_each
from hlo_cli.inputs.dumps import parse_dump_name
from hlo_cli.inputs.each import pieces_of
from hlo_cli.render.numbers import counted
from hlo_cli.render.progress import watched
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic, HloError

Answer = TypeVar("Answer")

_NAMED = 3
"""How many inputs an error names."""


def asked_of_each(
    inputs: Sequence[str], reading: Reading, jobs: int | None, ask: Ask[Answer]
) -> Iterator[Asked[Answer]]:
    """What every module answers, with a bar for a person who waits; HloError if there is no module at all."""
    pieces = list(pieces_of(inputs, stage=reading.stage, module=reading.module))
    asked = ask_each(pieces, ask, jobs=processes(jobs, len(pieces)), strict=reading.strict)
    is_any = False
    for each in watched(asked, len(pieces), "dumps"):
        is_any = True
        yield each
    if not is_any:
        wanted = "HLO" if reading.module is None else f"module {reading.module}"
        raise HloError(f"there is no {wanted} in {' '.join(inputs[:_NAMED])}{' …' if len(inputs) > _NAMED else ''}")


def finish_each(
    command: str,
    found: Sequence[Asked[Answer]],
    columns: Sequence[Column],
    cells: Callable[[Answer], Row],
    *,
    answer: str,
    by: str,
    output: Output,
) -> int:
    """Write a table with a row for each module, in the order of a column; the exit code, 2 if any is not whole."""
    around = (
        Column("module", "module", "name", role="name"),
        Column("stage", "stage", from_width=120),
        *columns,
        Column("dump", "dump", "name", machine=False),
        Column("path", "file", person=False),
    )
    short = short_paths([each.path for each in found])
    rows = tuple(
        (each.module, each.stage, *cells(each.answer), dump, each.path)
        for each, dump in zip(found, short, strict=True)
        if each.answer is not None
    )
    problems = [Diagnostic("error", f"{each.path}: {each.problem}") for each in found if each.problem]
    report = Report(
        command,
        answer,
        numbers={"modules": len(rows), "problems": len(problems)},
        parts=(Table("modules", around, rows, noun="modules").sort(by),),
    )
    verb = "was" if len(rows) == 1 else "were"
    return finish(report, output, problems, read=f"{counted(len(rows), 'modules')} {verb} read")


def short_paths(paths: Sequence[str]) -> list[str]:
    """The paths for a person: without the folder they share, and without files named after nothing but a stage.

    Two files never come to the same text: those that would keep more of their paths.

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
    for spellings in (shortest, whole):
        for spelling, path in zip(spellings, paths, strict=True):
            files.setdefault(spelling, set()).add(path)
    return [
        next((spelling for spelling in (short, longer) if files[spelling] == {path}), path)
        for short, longer, path in zip(shortest, whole, paths, strict=True)
    ]


def _without_stage(path: str) -> str:
    folder, name = os.path.split(path)
    dump = parse_dump_name(name)
    return f"{folder}/" if folder and dump is not None and dump.label is None else path
