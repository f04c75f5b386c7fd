"""Scans of many dumps: each module is read, measured, and freed, in several processes if requested.

An unreadable file gives a record with the reason, so that one bad file never stops the rest.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from hlo_cli.analysis.query.module_summary import SummaryValue, module_summary
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input, ModuleRef, list_modules, read_module_ref
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input
from hlo_cli.source import Diagnostic, HloError, Source, expect, internal_error, print_traceback

if TYPE_CHECKING:
    from hlo_cli.analysis.query.main_module import ModuleCost

Answer = TypeVar("Answer")
Ask = Callable[[Module, Input], Answer]

_LONGEST_PROBLEM = 500  # one cell of a table; a traceback of a bug in full would hide the other rows
_SWEPT_AFTER = 1 << 24
"""Characters of text of finished modules after which garbage is collected."""


@dataclass(frozen=True, slots=True)
class ScanResult(Generic[Answer]):
    """The answer of one module of many, or the reason why it has none.

    `path` is its file, with `#2` for the second module in it. `problem` is one line, empty if there is none; a module
    with a few unreadable lines has both an answer and a problem. `errors` are all diagnostics of a module that could
    not be read at all. `remark` is a note on dumps in its directory that are not read. `cost` is that of one execution,
    if it is computed.
    """

    path: str
    module: str | None = None
    stage: str | None = None
    answer: Answer | None = None
    problem: str = ""
    errors: tuple[Diagnostic, ...] = ()
    remark: str | None = None
    cost: ModuleCost | None = None


@dataclass(frozen=True, slots=True)
class ScanRecord:
    """The numbers of one module of many; `problem` describes unreadable parts and is empty if there are none."""

    path: str
    module: str | None
    stage: str | None
    numbers: Mapping[str, SummaryValue]
    problem: str = ""

    def row(self) -> dict[str, SummaryValue]:
        """The record as a flat dictionary, for data frames and other tables; unknown values are None.

        >>> ScanRecord("a.txt", "jit_f", None, {"instructions": 3}).row()
        {'path': 'a.txt', 'module': 'jit_f', 'stage': None, 'instructions': 3, 'problem': None}
        """
        return {
            "path": self.path,
            "module": self.module,
            "stage": self.stage,
            **self.numbers,
            "problem": self.problem or None,
        }


def main_input(inputs: Sequence[Input]) -> Input:
    """The input of the main module of several, as commands take it; the first if none can be read."""
    if len(inputs) == 1:
        return inputs[0]
    from hlo_cli.analysis.query.main_module import cost_of_module, rank_modules  # needed for several modules only

    costs: dict[int, ModuleCost] = {}
    for at, each in enumerate(inputs):
        with suppress(HloError):
            costs[at] = cost_of_module(read_input(each))
    ranking = rank_modules(tuple(costs.values()), [inputs[at].path for at in costs]) if costs else None
    return inputs[0 if ranking is None else tuple(costs)[ranking.main]]


def scan(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    measure: Callable[[Module], Mapping[str, SummaryValue]] = module_summary,
    stage: str | None = None,
    module: str | None = None,
    jobs: int = 1,
) -> Iterator[ScanRecord]:
    """A record for each module in files, directories, and globs, in their order; of a directory, the latest stage.

    `measure` returns the numbers, by default `module_summary`. With several jobs it must be a function
    that can be pickled, and a script needs the guard `if __name__ == "__main__":`. Memory holds one module per job.
    Raises HloError only if there is nothing to read: a directory without dumps, a glob that matches nothing.

    >>> [record.problem for record in scan(["/no/such/dump.txt"])]
    ["directory '/no/such' not found"]
    """
    expect(str | os.PathLike | Iterable, "a path, or several", paths)
    expect(str | None, "the name of a stage", stage, 'such as "before_optimizations"')
    expect(str | None, "the name of a module", module, 'such as "jit_step"')
    expect(int, "a number of jobs", jobs)
    listed = (paths,) if isinstance(paths, str | os.PathLike) else paths
    pieces = list_modules([os.fspath(path) for path in listed], stage=stage, module=module)
    for asked in map_modules(pieces, partial(_measured, measure), jobs=jobs):
        yield ScanRecord(asked.path, asked.module, asked.stage, asked.answer or {}, asked.problem)


def map_modules(
    pieces: Iterable[ModuleRef],
    ask: Ask[Answer],
    *,
    jobs: int = 1,
    strict: bool = False,
    timeout: float | None = None,
    raises_text: bool = False,
) -> Iterator[ScanResult[Answer]]:
    """The result of `ask` for every module in the pieces, in their order.

    With several jobs, or a `timeout` in seconds for each piece, `ask` and its answers are pickled. With `raises_text`,
    which requires a single process, PastedTextError is raised for a text that can be explained.

    >>> list(map_modules([], lambda module, input: module.name))
    []
    """
    reader = Reader(ask, strict, raises_text)

    def lost(piece: ModuleRef) -> tuple[ScanResult[Answer], ...]:
        return _without_answer(piece, "worker process died, possibly out of memory")

    def late(piece: ModuleRef) -> tuple[ScanResult[Answer], ...]:
        return _without_answer(piece, late_problem(timeout))

    results: Iterable[ModuleRef | tuple[ScanResult[Answer], ...]]
    if jobs <= 1 and timeout is None:
        results = map(_ReaderAnywhere(reader), pieces)
    else:
        from hlo_cli.inputs.parallel import in_order  # most inputs need no processes

        results = in_order(_ReaderAnywhere(reader), pieces, jobs=jobs, lost=lost, timeout=timeout, late=late)
    for result in results:
        yield from reader(result) if isinstance(result, ModuleRef) else result


def late_problem(timeout: float | None) -> str:
    """The problem of an input whose worker process did not answer in time.

    >>> late_problem(30)
    'no answer within 30 seconds (--timeout)'
    """
    from hlo_cli.inputs.parallel import DEFAULT_TIMEOUT  # one input needs no processes

    return f"no answer within {DEFAULT_TIMEOUT if timeout is None else timeout:g} seconds (--timeout)"


def _without_answer(piece: ModuleRef, problem: str) -> tuple[ScanResult[Answer], ...]:
    return (ScanResult(piece.path, problem=problem, errors=(Diagnostic("error", f"{piece.path}: {problem}"),)),)


def _measured(
    measure: Callable[[Module], Mapping[str, SummaryValue]], module: Module, _input: Input
) -> Mapping[str, SummaryValue]:
    return dict(measure(module))


@dataclass(slots=True)
class Reader(Generic[Answer]):
    """Reads pieces and calls `ask` for each module; `unswept` is the length of text since the last garbage collection.

    >>> Reader(lambda module, input: module.name, strict=False)(ModuleRef("/no/such/dump.txt"))[0].problem
    "directory '/no/such' not found"

    Modules refer to computations, these to instructions, and these back to their computation: only the garbage
    collector frees them, and it runs only when memory exceeds the previous maximum by a quarter.
    """

    ask: Ask[Answer]
    strict: bool
    raises_text: bool = False
    unswept: int = 0

    def __call__(self, piece: ModuleRef) -> tuple[ScanResult[Answer], ...]:
        try:
            inputs = read_module_ref(piece)
        except (HloError, OSError, MemoryError) as error:
            if self.raises_text and _can_be_explained(error):
                raise
            return (
                ScanResult(piece.path, problem=_in_a_line(error), errors=_excerpts(error, None), remark=piece.remark),
            )
        answers = tuple(self.ask_of(input_) for input_ in inputs)
        self.unswept += sum(input_.size for input_ in inputs)
        if self.unswept > _SWEPT_AFTER:
            self.unswept = 0
            gc.collect()
        return answers

    def ask_of(self, given: Input) -> ScanResult[Answer]:
        """The result of `ask` for the module in an input."""
        name, path = given.module, given.source.name
        try:
            module = read_input(given, strict=self.strict)
            name = module.name or name
            problem = _in_a_line(HloError.of(module.errors)) if module.errors else ""
            return ScanResult(path, name, given.stage, self.ask(module, given), problem, remark=given.remark)
        except Exception as error:  # noqa: BLE001 - a bug in one module of many must not lose the others
            print_traceback(error)
            errors = _excerpts(error, given.source)
            return ScanResult(path, name, given.stage, None, _in_a_line(error), errors, given.remark)


@dataclass(frozen=True, slots=True)
class _ReaderAnywhere(Generic[Answer]):
    """Reads pieces in any process, but returns standard input unread, as only the first process has it."""

    reader: Reader[Answer]

    def __call__(self, piece: ModuleRef) -> tuple[ScanResult[Answer], ...] | ModuleRef:
        return piece if piece.path == "-" else self.reader(piece)


def _can_be_explained(error: Exception) -> bool:
    """Whether an error is about a text of a known kind that is not a module."""
    from hlo_cli.inputs.pasted.envelopes import PastedTextError  # not needed for dumps

    return isinstance(error, PastedTextError)


def remarks_of(found: Iterable[ScanResult[Answer]]) -> tuple[Diagnostic, ...]:
    """The notes on dumps that were not read, each once.

    >>> [note.message for note in remarks_of([ScanResult("a.txt", remark="2 more"), ScanResult("b.txt")])]
    ['2 more']
    """
    return tuple(Diagnostic("note", remark) for remark in dict.fromkeys(input_.remark for input_ in found) if remark)


def _excerpts(error: Exception, source: Source | None) -> tuple[Diagnostic, ...]:
    """All diagnostics of an error, with their input but without its complete text."""
    if not isinstance(error, HloError):
        return (Diagnostic("error", _in_a_line(error), source and Source(source.name, "")),)
    located = (
        diagnostic if diagnostic.source is not None else replace(diagnostic, source=source)
        for diagnostic in error.diagnostics
    )
    return tuple(input_.excerpt() for input_ in located)


def _in_a_line(error: Exception) -> str:
    """The first error, with its line and column, and the number of further errors."""
    if isinstance(error, OSError | MemoryError):
        return f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM]
    if not isinstance(error, HloError):
        return internal_error(error)
    first, *others = error.diagnostics
    place = first.position
    where = f"line {place.line}, column {place.column}: " if place else ""
    more = f" (and {len(others)} more)" if others else ""
    return f"{where}{first.message}{more}"[:_LONGEST_PROBLEM]
