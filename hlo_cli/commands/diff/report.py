"""`hlo diff OLD NEW`: whether two modules differ, the changes, and their effect on memory and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.matching.changes import KINDS
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.statements.operations import Renaming, is_same_text, omitted_constants, renaming_of
from hlo_cli.analysis.statements.statement import Fold
from hlo_cli.analysis.statements.statements import ModuleNumbers, Statements, statements_of
from hlo_cli.commands.diff.golden import (
    answer_of_failures,
    failures_of,
    numbers_against,
    parts_of_failures,
    without_form,
)
from hlo_cli.commands.diff.numbers import in_words, numbers_between, worth_showing
from hlo_cli.commands.diff.partial import answer_of_parts, truncated_sides
from hlo_cli.commands.diff.summary import collective_table, record_of, summary_tables
from hlo_cli.commands.diff.tables import change_table, header_table, stat_table
from hlo_cli.commands.diff.told import headline, passage_of, records_of, statement_table, with_statements
from hlo_cli.commands.diff.view import View
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One of the two modules, with the name of its file and its stage."""

    module: Module
    path: str
    stage: str | None


def report_of_diff(
    comparison: ModuleDiff, before: DiffSide, after: DiffSide, view: View, arguments: Sequence[str]
) -> tuple[Report, bool]:
    """The answer, the numbers before and after, and the changes in the selected view; and whether there is any.

    With conditions, whether any does not hold.
    """
    facts = {"before": _facts(before), "after": _facts(after)}
    if view.by is not None:
        from hlo_cli.commands.diff.causes import report_of_causes

        report = report_of_causes(comparison, view.by, facts)
        return replace(report, answer=answer_of_parts(comparison) or report.answer), view.is_finding(comparison)
    if view.conditions:
        comparison = without_form(comparison)
    differs = view.differs(comparison)
    fails = False
    parts: tuple[Part, ...] = () if differs else _nothing_changed(comparison, view)
    metrics: Mapping[str, Cell] = {}
    answer = answer_of(comparison) if differs else answer_of_same(comparison, view)
    is_partial = bool(truncated_sides(comparison))
    if is_partial:
        answer = answer_of_parts(comparison, checks_conditions=bool(view.conditions))
    if is_partial and differs and view.name in ("statements", "rows"):
        parts = (change_table(comparison, view),)
    elif differs and view.name in ("statements", "rows"):
        told = statements_of(comparison)
        numbers = numbers_against(comparison, view)
        parts, metrics = _in_full(comparison, told, numbers, view)
        answer = headline(told) or answer
        if comparison.is_same_program:
            answer = _of_same_program(answer, caveats_of(comparison, view))
        if view.conditions:
            found = failures_of(view.conditions, comparison, told, numbers)
            answer, fails = answer_of_failures(view.conditions, found), bool(found)
            parts = (*parts_of_failures(view.conditions, found), *parts)
    elif differs:
        parts = (_in_brief(comparison, before, after, view),)
    report = Report(
        "diff",
        answer,
        numbers={
            "matched": comparison.matched,
            "changed": len(comparison.changed),
            "added": len(comparison.added),
            "removed": len(comparison.removed),
            "moved": len(comparison.moved),
            "header": len(comparison.header),
            "same_program": comparison.is_same_program,
            "same_text": is_same_text(comparison),
            **metrics,
        },
        parts=parts,
        next=_next(arguments, view, has_statements=bool(metrics.get("statements"))) if differs else (),
        notes=tuple(_notes(comparison, view)),
        input=facts,
    )
    return report, fails if view.conditions else view.is_finding(comparison)


def _facts(side: DiffSide) -> Mapping[str, str | None]:
    facts = {"path": side.path, "module": side.module.name, "stage": side.stage}
    return facts | {"problem": "truncated"} if side.module.is_truncated else facts


def _nothing_changed(comparison: ModuleDiff, view: View) -> tuple[Part, ...]:
    """The tables of a view without rows, so that a pipe has the same columns as with differences."""
    changes = change_table(comparison, view)
    if view.name not in ("statements", "rows"):
        return (changes,)
    told = Statements((), Fold())
    changes = with_statements(told, changes)
    statements = statement_table(told, changes)
    if renaming_of(comparison).count:  # the only statement there is, for programs
        row = (1, "names", 0, None, None, answer_of_same(comparison, view), None)
        statements = replace(statements, rows=(row,))
    return (statements, changes) if view.name == "statements" else (changes,)


def _in_full(
    comparison: ModuleDiff, told: Statements, numbers: tuple[ModuleNumbers, ModuleNumbers], view: View
) -> tuple[tuple[Part, ...], Mapping[str, Cell]]:
    """Statements, the numbers, and every change, which people see in their own view; and all numbers."""
    old, new = numbers
    target = target_of(comparison.after) or target_of(comparison.before)
    changes = with_statements(told, change_table(comparison, view))
    tables = (
        *summary_tables(old, new, target),
        collective_table(old, new),
        _kind_table(comparison),
        *((header_table(comparison),) if comparison.header else ()),
    )
    metrics: Mapping[str, Cell] = {
        "statements": records_of(told),
        "before": record_of(old, target),
        "after": record_of(new, target),
    }
    statements = statement_table(told, changes)
    if view.name == "rows":
        return (*tables, changes, replace(statements, main=False)), metrics
    lines = Passage("numbers", tuple(in_words(worth_showing(tuple(numbers_between(old, new, target))))))
    moved = len(comparison.moved) if view.with_schedule else 0
    passage = passage_of(told, moved, lines, with_first=bool(view.conditions))
    listed = told.rest.rows + sum(each.fold.rows for each in told.told if each.fold.rows < _MIN_FOLD)
    is_open = 2 * listed > len(changes.rows) or not told.told
    quiet = (replace(table, person=False) for table in tables)
    return (*((passage,) if passage else ()), statements, lines, *quiet, replace(changes, person=is_open)), metrics


_MIN_FOLD = 3
"""Statements of fewer rows fold nothing: a reader wants to see the rows."""


def _in_brief(comparison: ModuleDiff, before: DiffSide, after: DiffSide, view: View) -> Part:
    match view.name:
        case "stat":
            return stat_table(comparison)
        case "name-only":
            return change_table(comparison, view).select(["name"])
    from hlo_cli.commands.diff.text import text_diff

    return text_diff(comparison, before.path, after.path, with_schedule=view.with_schedule)


def answer_of(comparison: ModuleDiff) -> str:
    """The numbers of matched, changed, added, removed, and moved instructions, with the most frequent changes."""
    changed, matched = len(comparison.changed), comparison.matched
    instructions = format_count(matched, "instructions")
    kinds = _kinds(comparison)
    if not changed:
        words = f"{instructions} matched, 0 changed"
    else:
        amount = "all" if changed == matched else f"{changed:,}"
        words = f"{instructions} matched, {amount} changed ({_describe_kinds(kinds, matched)})"
    moved = f", {len(comparison.moved):,} moved" if comparison.moved else ""
    header = f"; header changed: {', '.join(c.name for c in comparison.header)}" if comparison.header else ""
    return f"{words}; {len(comparison.added):,} added, {len(comparison.removed):,} removed{moved}{header}"


def _notes(comparison: ModuleDiff, view: View) -> Iterator[Diagnostic]:
    """Notes on names that matter, and on words of --ignore that name neither a kind of change nor anything there."""
    before, after = comparison.before, comparison.after
    renaming = renaming_of(comparison)
    if comparison.is_same_program and renaming.changes_cache_key:
        words = f"names of functions are part of JAX's compilation cache key: {_names_of(renaming)}"
        yield Diagnostic("note", words, hint="see https://github.com/jax-ml/jax/issues/38828")
    texts = (before.source.text, after.source.text)
    for word in view.ignored if all(texts) else ():  # a proto has no text
        if word not in KINDS and not any(word in text for text in texts):
            kinds = ", ".join(kind.replace("_", " ") for kind in KINDS)
            yield Diagnostic("note", f"--ignore {word} has no effect", hint=f"it takes an attribute, or one of {kinds}")


def answer_of_same(comparison: ModuleDiff, view: View) -> str:
    """The answer if nothing differs, or nothing but names; what could not be compared is said.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> one, two = (parse_module(f"ENTRY e {{ ROOT {name} = s8[2] parameter(0) }}") for name in "pq")
    >>> answer_of_same(diff(one, two), View("statements", (), with_schedule=False))
    'Same program, but not the same text: instruction p → q (1 instruction)'
    """
    instructions = format_count(comparison.matched, "instructions")
    renaming = renaming_of(comparison)
    caveats = caveats_of(comparison, view)
    if renaming.count:
        words = f"{'No differences' if caveats else 'Same program'}, but not the same text: {_names_of(renaming)}"
        words = f"{words} ({instructions})"
    elif view.exact and not is_same_text(comparison):
        words = f"Same program, but not the same text: order of lines or annotations ({instructions})"
    else:
        words = f"No differences ({instructions})"
    if comparison.moved:
        words += f"; {len(comparison.moved):,} at a different schedule position"
    return words + caveats


def caveats_of(comparison: ModuleDiff, view: View) -> str:
    """What was not compared, in the words that an answer ends with; empty if everything was."""
    found = [f"ignoring {', '.join(view.ignored).replace('_', ' ')}"] if view.ignored else []
    if number := omitted_constants(comparison):
        found.append(f"{format_count(number, 'omitted constants')} not compared")
    if comparison.before.errors or comparison.after.errors:
        found.append("lines with errors not compared")
    return "".join(f"; {each}" for each in found)


def _of_same_program(answer: str, caveats: str) -> str:
    """An answer about names: that the program is the same is only said if everything was compared."""
    _, found, words = answer.rpartition("Same program: ")
    if caveats:
        return f"No differences but names: {words}{caveats}" if found else f"{answer}{caveats}"
    return answer if found else f"Same program: {answer[:1].lower()}{answer[1:]}"


def _names_of(renaming: Renaming) -> str:
    """The names that differ: of the module, of computations, and of instructions."""
    texts = [f"module {renaming.module}"] if renaming.module is not None else []
    for noun, changes in (("computation", renaming.computations), ("instruction", renaming.instructions)):
        if len(changes) == 1:
            texts.append(f"{noun} {changes[0]}")
        elif changes:
            texts.append(f"{format_count(len(changes), f'{noun}s')}, such as {changes[0]}")
    return "; ".join(texts)


def _kinds(comparison: ModuleDiff) -> Counter[str]:
    """The number of changed instructions by kind of change."""
    found = Counter(kind for each in comparison.changed for kind in {change.kind for change in each.changes})
    return Counter({kind: found[kind] for kind in sorted(found, key=KINDS.index)})


def _describe_kinds(kinds: Counter[str], of: int) -> str:
    def words(kind: str, number: int) -> str:
        return kind.replace("_", " ") + (f" {number:,}" if number < of else "")

    ranked = kinds.most_common()
    listed = [words(*each) for each in ranked[:_MAX_KINDS]]
    more = f", and {format_count(len(ranked) - _MAX_KINDS, 'other kinds')}" if len(ranked) > _MAX_KINDS else ""
    return ", ".join(listed) + more


_MAX_KINDS = 3


def _kind_table(comparison: ModuleDiff) -> Table:
    columns = (Column("kind", "change"), Column("instructions", "instructions", "count"))
    rows = tuple((kind.replace("_", " "), number) for kind, number in _kinds(comparison).most_common())
    return Table("change_kinds", columns, rows, noun="kinds", main=False, person=False)


def _next(arguments: Sequence[str], view: View, *, has_statements: bool) -> tuple[str, ...]:
    if "-" in arguments or not arguments:
        return ()
    given = " ".join(arguments)
    other = "--rows" if view.name == "statements" and has_statements else "--text" if view.name != "text" else "--stat"
    return (f"hlo diff {given} {other}",) if len(arguments) == 2 else ()
