"""`hlo profile NEW --against OLD`: what changed code costs, and how the rest of the program ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.comparison import CHANGED, ComparedKernel, ProfileComparison, compare_profiles
from hlo_cli.commands.profile.differences import difference_words
from hlo_cli.report.cell import Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.matched_kernels import Body, ProgramPair
    from hlo_cli.analysis.profile.profile import Operation
    from hlo_cli.commands.profile.load import Loaded

_SIGNS: Final[dict[Body, str | None]] = {"changed": "~", "new": "+", "gone": "-", "same": None, "unknown": None}
_CODE: Final[dict[Body, str]] = {
    "changed": "changed",
    "new": "new",
    "gone": "gone",
    "same": "unchanged",
    "unknown": "unknown, without a module",
}
_CALM: Final[tuple[Body, ...]] = ("same", "unknown")
_MAX_STATEMENTS: Final = 3


def report_of_against(new: Loaded, old: Loaded) -> Report:
    """The sums of changed and unchanged code, every changed kernel, and those of unchanged code that stand out."""
    found = compare_profiles(old.profile, new.profile)
    kernels = sorted(found.kernels, key=_rank)
    changed = [each for each in kernels if each.body in CHANGED]
    standing = [each for each in kernels if each.stands_out]
    sentences = tuple(_sentences(found))
    title = "unchanged code that ran unlike the rest"
    return Report(
        "profile",
        _answer(found, len(standing)),
        version=1,
        numbers=_numbers(found, sentences),
        parts=(
            *((Passage("difference", sentences[:_MAX_STATEMENTS]),) if sentences else ()),
            _sums(found, len(standing)),
            _table("changes", found, changed),
            _table("standing_out", found, standing, title=title, main=False, person=bool(standing)),
            _table("unchanged", found, [k for k in kernels if k.body in _CALM], main=False, person=False),
            _programs(found.programs),
            Passage("matching", (_facts(found),)),
        ),
        next=_next(found, new, old),
        notes=(*_notes(found), *old.notes, *new.notes),
        input={"before": old.facts, "after": new.facts},
    )


def _rank(kernel: ComparedKernel) -> tuple[float, str]:
    return -abs(kernel.difference_seconds), kernel.operation.name


def _per(found: ProfileComparison) -> str:
    """The unit in words: `per step`; per device, if there are several."""
    unit = f"per {found.unit}" if found.unit != "trace" else "in the trace"
    many = max(len(found.before.devices), len(found.after.devices)) > 1
    return f"{unit} and device" if many else unit


def _answer(found: ProfileComparison, standing: int) -> str:
    changed, rest, per = found.sum_of(CHANGED), found.sum_of(_CALM), _per(found)
    if not changed.kernels:
        subject = "Same program" if found.is_same_program else "No kernel changed"
        words = f"{subject}: {format_seconds(rest.before)} → {format_seconds(rest.after)} {per}"
    else:
        cost = changed.difference
        words = f"Changed code takes {format_seconds(abs(cost))} {'more' if cost >= 0 else 'less'} {per}"
        if rest.kernels:
            pace = "slower" if rest.difference >= 0 else "faster"
            words += f"; the rest ran {format_seconds(abs(rest.difference))} {pace}, unchanged"
    if standing:
        words += f"; {format_count(standing, 'kernels')} of unchanged code {verb(standing, 'stands', 'stand')} out"
    return words


def _sums(found: ProfileComparison, standing: int) -> Table:
    """One row for each kind of code, with the sums of the times."""
    rows: list[Row] = []
    for body, words in _CODE.items():
        total = found.sum_of((body,))
        if body == "same" and total.kernels:
            few = "; too few calls to compare" if found.has_few_calls else "; none stands out"
            words += f"; {standing:,} {verb(standing, 'stands', 'stand')} out" if standing else few
        if total.kernels:
            rows.append((total.kernels, total.before, total.after, total.difference, words))
    columns = (
        Column("kernels", "kernels", "count", total="sum"),
        *_time_columns(found),
        Column("code", "code"),
    )
    return Table("sums", columns, tuple(rows), noun="kinds of code", main=False)


def _time_columns(found: ProfileComparison) -> tuple[Column, ...]:
    group, like = _per(found), "before_seconds"
    return (
        Column("before_seconds", "before", "seconds", group=group, total="sum"),
        Column("after_seconds", "after", "seconds", group=group, like=like, total="sum"),
        Column("difference_seconds", "diff", "seconds", group=group, like=like, total="sum"),
    )


def _table(
    name: str,
    found: ProfileComparison,
    kernels: Sequence[ComparedKernel],
    *,
    title: str = "",
    main: bool = True,
    person: bool = True,
) -> Table:
    """One row for each kernel, with its difference and its times."""
    columns = (
        Column("change", "", "change"),
        *_time_columns(found),
        Column("ranges", "ranges"),
        Column("kernel", "kernel", "name"),
        Column("source", "source", "source", rank=5),
        Column("difference", "difference", from_width=120, rank=7),
        Column("before", "before", "name", from_width=120, rank=4, person=any(each.is_renamed for each in kernels)),
        Column("code", "code", person=False),
        Column("module", "module", person=False),
        Column("stands_out", "stands out", "flag", person=False),
        *(
            Column(f"{side}_{field}", field, "seconds" if field.endswith("seconds") else "number", person=False)
            for side in ("before", "after")
            for field in ("calls", "least_seconds", "median_seconds", "greatest_seconds")
        ),
    )
    return Table(
        name, columns, tuple(map(_row, kernels)), title=title, noun="kernels", main=main, person=person, limit=12
    )


def _row(kernel: ComparedKernel) -> Row:
    one, two, operation = kernel.time_before, kernel.time_after, kernel.operation
    return (
        _SIGNS[kernel.body],
        None if one is None else one.time,
        None if two is None else two.time,
        kernel.difference_seconds,
        kernel.ranges or kernel.body,
        operation.name,
        _source(operation),
        difference_words(kernel),
        None if kernel.before is None else kernel.before.name,
        _CODE[kernel.body],
        None if operation.program is None else operation.program.name,
        kernel.stands_out,
        *(
            value
            for each in (one, two)
            for value in ((None,) * 4 if each is None else (each.calls, each.least, each.median, each.greatest))
        ),
    )


def _source(operation: Operation) -> str | None:
    module = None if operation.program is None else operation.program.module
    if module is None or operation.instruction is None:
        return operation.source or None
    location = module.location(operation.instruction)
    return None if location is None else str(location)


def _programs(programs: Sequence[ProgramPair]) -> Table:
    """One row for each program, with the numbers of `hlo diff`."""
    columns = (
        Column("before", "before", "name"),
        Column("after", "after", "name"),
        *(Column(name, name, "count") for name in ("matched", "changed", "added", "removed", "moved", "header")),
    )
    rows = tuple(
        (
            None if each.before is None else each.before.name,
            None if each.after is None else each.after.name,
            *((None,) * 6 if each.difference is None else _counts(each)),
        )
        for each in programs
    )
    return Table("programs", columns, rows, noun="programs", main=False, person=False)


def _counts(pair: ProgramPair) -> Row:
    found = pair.difference
    assert found is not None
    return found.matched, *map(len, (found.changed, found.added, found.removed, found.moved, found.header))


def _sentences(found: ProfileComparison) -> Iterator[str]:
    """What happened to the programs, in the sentences of `hlo diff`."""
    from hlo_cli.analysis.statements.statements import statements_of
    from hlo_cli.commands.diff.sentences import sentence_of

    several = len(found.programs) > 1
    for pair in found.programs:
        program = pair.after or pair.before
        assert program is not None
        place = f"{program.name}: " if several else ""
        if pair.before is None or pair.after is None:
            yield f"{place}{'new' if pair.before is None else 'gone'} program"
        elif pair.difference is not None and not pair.difference.is_empty:
            told = statements_of(pair.difference)
            yield from (f"{place}{sentence_of(each)}" for each in told.told)


def _facts(found: ProfileComparison) -> str:
    """How the kernels were matched, and how many steps were compared."""
    matched = [each for each in found.kernels if each.before is not None and each.after is not None]
    renamed = sum(each.is_renamed for each in matched)
    words = f"{len(matched):,} of {format_count(len(found.kernels), 'kernels')} matched by structure"
    words += f", {renamed:,} under another name" if renamed else ""
    facts = [words]
    if found.unit != "trace":
        facts.append(f"{found.units_before:,} and {format_count(found.units_after, f'{found.unit}s')}")
    if any(each.ranges in ("apart", "overlap") for each in found.of(_CALM)):
        pace = f"{format_percent(abs(found.drift - 1))}% {'slower' if found.drift >= 1 else 'faster'}"
        facts.append(f"unchanged code {pace} (median)")
    return " · ".join(facts)


def _notes(found: ProfileComparison) -> Iterator[Diagnostic]:
    unknown = sum(1 for _ in found.of(("unknown",)))
    if unknown:
        words = f"{format_count(unknown, 'kernels')} without a module {verb(unknown, 'is', 'are')} matched by name"
        yield Diagnostic("note", words, hint="pass the dumps of both programs to compare their code")
    outside = sum(1 for each in found.kernels if each.time_before is None and each.time_after is None)
    if outside:
        words = (
            f"{format_count(outside, 'kernels')} ran outside of whole steps and {verb(outside, 'has', 'have')} no time"
        )
        yield Diagnostic("note", words)


def _numbers(found: ProfileComparison, sentences: Sequence[str]) -> dict[str, Cell]:
    sums = {body: found.sum_of((body,)) for body in _CODE}
    return {
        "unit": found.unit,
        "before_units": found.units_before,
        "after_units": found.units_after,
        "same_program": found.is_same_program,
        "unchanged_ratio": found.drift,
        "standing_out": sum(each.stands_out for each in found.kernels),
        "too_few_calls": found.has_few_calls,
        "renamed": sum(each.is_renamed for each in found.kernels),
        "statements": tuple(sentences),
        **{
            f"{body}_{name}": value
            for body, each in sums.items()
            for name, value in (
                ("kernels", each.kernels),
                ("before_seconds", each.before),
                ("after_seconds", each.after),
                ("difference_seconds", each.difference),
            )
        },
    }


def _next(found: ProfileComparison, new: Loaded, old: Loaded) -> tuple[str, ...]:
    if not (new.argument and old.argument) or found.is_same_program:
        return ()
    return (f"hlo diff {old.argument} {new.argument}",)
