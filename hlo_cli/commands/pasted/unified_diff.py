"""What changed, by a unified diff in place of a module? The report of `hlo diff` on its two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.commands.diff.conditions import View
from hlo_cli.commands.diff.report import DiffSide, report_of_diff
from hlo_cli.commands.modules.quoted import instructions_in
from hlo_cli.commands.prints.text_report import explained_parts
from hlo_cli.inputs.logs import EmbeddedModule
from hlo_cli.inputs.pasted.envelopes import PastedText, PastedTextError
from hlo_cli.inputs.pasted.read import read_text
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.read_input import read_module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from_tuples
from hlo_cli.source import Diagnostic, HloError, Source

_SIDES: Final = ("old", "new")
_FILE: Final = lazy_regex(r"(?:diff --git a/(\S++)|\+\+\+ (?:b/)?(\S++))")
_FILES: Final = (
    Column("file", "file", of=lambda file, added, removed: file),
    Column("added", "added", "count", total="sum", of=lambda file, added, removed: added),
    Column("removed", "removed", "count", total="sum", of=lambda file, added, removed: removed),
)


def diff_report(pasted: PastedText) -> Report:
    """The differences between the two sides, as modules or parts of modules; or what there is if one has no HLO."""
    versions = pasted.versions or ("", "")
    read = [_modules(text, f"{pasted.name} ({side})") for side, text in zip(_SIDES, versions, strict=True)]
    if not all(read):
        return _of_one_side(pasted, versions, [bool(modules) for modules in read])
    pairs = _pairs(*read)
    view = View("statements", (), with_schedule=False)
    compared = [(old, new, view.compare(old, new)) for old, new in pairs]
    old, new, comparison = next((each for each in compared if view.differs(each[2])), compared[0])
    before, after = (
        DiffSide(module, f"{pasted.name} ({side})", None) for side, module in zip(_SIDES, (old, new), strict=True)
    )
    report, _ = report_of_diff(comparison, before, after, view, ())
    return replace(report, notes=(*report.notes, *_notes(pairs, (old, new))))


def _modules(text: str, name: str) -> list[Module]:
    """The modules of one side; empty if it has no HLO."""
    try:
        found = read_text(text, name)
    except PastedTextError as error:
        found = (EmbeddedModule(error.pasted.hlo),) if error.pasted.hlo.strip() else ()
    except HloError:
        return []
    modules = list[Module]()
    for each in found:
        try:
            module = read_module(Source(name, each.text, first_line=each.first_line), infer=omitted_shape)
        except HloError:
            continue
        if any(computation.instructions for computation in module.computations):
            modules.append(module)
    return modules


def _pairs(old: Sequence[Module], new: Sequence[Module]) -> list[tuple[Module, Module]]:
    """Modules of one name, or else in order."""
    named = {module.name: module for module in new}
    if len(named) == len(new) and all(module.name in named for module in old):
        return [(module, named[module.name]) for module in old]
    return list(zip(old, new, strict=False))


def _notes(pairs: Sequence[tuple[Module, Module]], chosen: tuple[Module, Module]) -> list[Diagnostic]:
    notes = []
    unread = sum(len(module.errors) for module in chosen)
    if unread:
        notes.append(Diagnostic("note", f"{format_count(unread, 'errors')} in the text; the comparison is of the rest"))
    if len(pairs) > 1:
        notes.append(Diagnostic("note", f"the diff has {len(pairs):,} modules; showing the first one that differs"))
    return notes


def _of_one_side(pasted: PastedText, versions: Sequence[str], has_hlo: Sequence[bool]) -> Report:
    """The files of a diff of which at most one side has HLO, and the instructions there."""
    files = _changed_files(pasted.text)
    found = [each for text, known in zip(versions, has_hlo, strict=True) if known for each in instructions_in(text)]
    added, removed = sum(lines for _, lines, _ in files), sum(lines for *_, lines in files)
    size = f"{format_count(added, 'lines')} added, {removed:,} removed in {format_count(len(files), 'files')}"
    side = next((side for side, known in zip(_SIDES, has_hlo, strict=True) if known), "")
    what = (
        f"Only the {side} side of the diff has HLO, {format_count(len(found), 'instructions')}"
        if side
        else "The diff has no HLO"
    )
    return Report(
        "diff",
        f"{what} ({size})",
        numbers={"added_lines": added, "removed_lines": removed, "files": len(files), "side": side or None},
        parts=(Table("files", _FILES, rows_from_tuples(_FILES, files), noun="files"), *explained_parts(found)),
        next=("hlo help dump",),
        input={"path": pasted.name},
    )


def _changed_files(text: str) -> tuple[tuple[str, int, int], ...]:
    """The files of a diff, each with the numbers of lines that were added and removed."""
    counts, file = dict[str, list[int]](), "-"
    for line in text.split("\n"):
        if (match := _FILE.match(line)) is not None:
            file = match[1] or match[2]
            counts.setdefault(file, [0, 0])
        elif line[:1] in ("+", "-") and line[:3] not in ("+++", "---"):
            counts.setdefault(file, [0, 0])[line[0] == "-"] += 1
    return tuple((file, added, removed) for file, (added, removed) in counts.items())
