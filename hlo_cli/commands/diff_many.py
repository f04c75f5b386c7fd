"""`hlo diff OLD NEW` of two directories of dumps: a row for each module that differs, however many there are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hlo_cli.commands.diff_report import answer_of
from hlo_cli.commands.diff_view import View
from hlo_cli.commands.each_options import processes
from hlo_cli.fleet import Asked, Reader
from hlo_cli.inputs.dumps import parse_dump_name
from hlo_cli.inputs.each import Piece, pieces_of, read_piece
from hlo_cli.inputs.input import Input
from hlo_cli.inputs.parallel import in_order
from hlo_cli.ir.module import Module
from hlo_cli.render.numbers import counted
from hlo_cli.render.progress import watched
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic, HloError

Pieces = Mapping[str, Piece]
"""The dumps of a directory, by what tells them apart in both."""

_NO_HLO = "there is no HLO in it"
_COLUMNS = (
    Column("change", "", "change"),
    Column("module", "module", "name", role="name"),
    Column("changed", "changed", "count"),
    Column("added", "added", "count"),
    Column("removed", "removed", "count"),
    Column("moved", "moved", "count", from_width=120),
    Column("answer", "what", from_width=120, rank=1),
)


@dataclass(frozen=True, slots=True)
class Job:
    """Two dumps of one name, to be compared."""

    name: str
    old: Piece
    new: Piece


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of it: whether they differ, in how many instructions and in words; or why nobody knows."""

    name: str
    differs: bool = False
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)
    words: str = ""
    problems: tuple[str, ...] = ()


def named_pieces(folder: str, stage: str | None, module: str | None) -> Pieces:
    """The dumps of a directory and of those in it, by folder and module.

    Where two modules have one name, XLA's number tells them apart; files whose names say nothing go by their names.
    """
    pieces = list(pieces_of([folder], stage=stage, module=module))
    counts = Counter(_name(folder, piece, numbered=False) for piece in pieces)
    return {_name(folder, piece, numbered=counts[_name(folder, piece, numbered=False)] > 1): piece for piece in pieces}


def report_of_many(
    ones: Pieces, twos: Pieces, view: View, *, jobs: int | None, strict: bool, arguments: Sequence[str]
) -> tuple[Report, bool, tuple[Diagnostic, ...]]:
    """One row a module; HloError if there is none in both."""
    if view.name == "text":
        raise HloError("--text shows two modules, and there are more", hint="--module chooses one")
    both = [Job(name, ones[name], twos[name]) for name in ones if name in twos]
    if not both:
        raise HloError(
            f"no module is in both: {_some(ones)} on one side, {_some(twos)} on the other",
            hint="--module chooses one; name the files to compare modules of different names",
        )
    work = in_order(_Comparer(view, Reader(_module, strict)), both, jobs=processes(jobs, len(both)), lost=_lost)
    found = [each for each in watched(work, len(both), "modules") if each is not None]
    alone = [name for name in sorted(set(ones) ^ set(twos)) if _is_dump(ones.get(name) or twos[name])]
    if not (found or alone):
        raise HloError(f"there is no such module in {' and '.join(arguments)}")
    differing = [each for each in found if each.differs]
    rows: list[Row] = [("~", each.name, *each.counts, each.words) for each in differing]
    rows += [("-" if name in ones else "+", name, None, None, None, None, None) for name in alone]
    problems = tuple(Diagnostic("error", f"{each.name}: {problem}") for each in found for problem in each.problems)
    modules = counted(len(found), "modules")
    verb = "differs" if len(differing) == 1 else "differ"
    words = f"{len(differing):,} of {modules} {verb}" if differing else f"No difference in {modules}"
    table = Table("modules", _COLUMNS, tuple(rows), noun="modules")
    report = Report(
        "diff",
        words + (f"; {len(alone):,} on one side only" if alone else ""),
        numbers={"modules": len(found), "differing": len(differing), "alone": len(alone), "problems": len(problems)},
        parts=(table.select(["module"]) if view.name == "name-only" else table,),
        next=tuple(f"hlo diff {ones[each.name].path} {twos[each.name].path}" for each in differing[:1]),
    )
    return report, bool(rows), problems


@dataclass(frozen=True, slots=True)
class _Comparer:
    view: View
    reader: Reader[Module]

    def __call__(self, job: Job) -> Compared | None:
        """What came of a pair of files; None if neither holds what was asked for."""
        old, new = (self._largest(piece) for piece in (job.old, job.new))
        problems = tuple(f"{each.path}: {each.problem}" for each in (old, new) if each.problem)
        if _may_hold_none(job.old) and _may_hold_none(job.new) and _NO_HLO == old.problem == new.problem:
            return None
        if old.answer is None or new.answer is None:
            return Compared(job.name, problems=problems)
        comparison = self.view.compare(old.answer, new.answer)
        if not self.view.differs(comparison):
            return Compared(job.name, problems=problems)
        counts = len(comparison.changed), len(comparison.added), len(comparison.removed), len(comparison.moved)
        return Compared(job.name, True, counts, answer_of(comparison), problems)

    def _largest(self, piece: Piece) -> Asked[Module]:
        """The module in a file, the largest of several."""
        found = self.reader(piece) or (Asked(piece.path, problem=_NO_HLO),)
        return max(found, key=lambda each: each.answer.instruction_count if each.answer is not None else 0)


def _module(module: Module, _input: Input) -> Module:
    return module


def _may_hold_none(piece: Piece) -> bool:
    """Whether only reading tells if there is HLO in a file, or the module that was asked for."""
    return piece.is_guess or piece.module is not None


def _is_dump(piece: Piece) -> bool:
    """Whether a file that is on one side only is one that would have been compared."""
    try:
        return not _may_hold_none(piece) or bool(read_piece(piece))
    except (HloError, OSError):
        return True


def _lost(job: Job) -> Compared | None:
    return Compared(job.name, problems=("the process that compared it ended; there may not be enough memory",))


def _name(folder: str, piece: Piece, *, numbered: bool) -> str:
    """What a dump is called in a directory: its folder in there, and its module, with XLA's number if wanted."""
    within, name = os.path.split(os.path.relpath(piece.path, folder))
    dump = parse_dump_name(name)
    if dump is None:
        return os.path.join(within, name)
    return os.path.join(within, (dump.label if numbered else dump.module) or "") or dump.stage


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
