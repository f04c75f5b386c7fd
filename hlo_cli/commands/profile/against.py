"""`hlo profile NEW --against OLD`: what changed code costs, and how the rest of the program ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.profile_diff import CHANGED, ComparedKernel, ProfileComparison, compare_profiles
from hlo_cli.commands.profile.against_tables import (
    CODE,
    differences_table,
    kernels_table,
    programs_table,
    sums_table,
    unit_words,
)
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.profile_diff import Body
    from hlo_cli.commands.profile.load import Loaded

_CALM: Final[tuple[Body, ...]] = ("same", "unknown")
_MAX_STATEMENTS: Final = 3
_HALVED: Final = 3
"""From so many steps on, the slowest and the fastest ones do not count: see `unit_times`."""
_MIN_PACE: Final = 0.005
"""The smallest common change of times that the facts name."""


def report_of_against(new: Loaded, old: Loaded) -> Report:
    """The comparison of two profiles."""
    return report_of_comparison(compare_profiles(old.profile, new.profile), new, old)


def report_of_comparison(found: ProfileComparison, new: Loaded, old: Loaded) -> Report:
    """The sums of changed and unchanged code, every changed kernel, and the outliers of unchanged code."""
    kernels = sorted(found.kernels, key=_rank)
    changed = [each for each in kernels if each.body in CHANGED]
    outliers = [each for each in kernels if each.is_outlier]
    sentences = tuple(_sentences(found))
    title = "outliers in unchanged code"
    return Report(
        "profile",
        _answer(found, len(outliers)),
        version=1,
        numbers=_numbers(found, sentences),
        parts=(
            *((Passage("difference", sentences[:_MAX_STATEMENTS]),) if sentences else ()),
            sums_table(found, len(outliers)),
            kernels_table("changes", found, changed),
            kernels_table("outliers", found, outliers, title=title, main=False, person=bool(outliers)),
            kernels_table("unchanged", found, [k for k in kernels if k.body in _CALM], main=False, person=False),
            differences_table(changed),
            programs_table(found.programs),
            Passage("matching", (_facts(found),)),
        ),
        next=_next(found, new, old),
        notes=(*_notes(found), *old.notes, *new.notes),
        input={"before": old.facts, "after": new.facts},
    )


def _rank(kernel: ComparedKernel) -> tuple[float, str]:
    return -abs(kernel.difference_seconds), kernel.operation.name


def _answer(found: ProfileComparison, outliers: int) -> str:
    changed, rest, per = found.sum_of_changed_code(), found.sum_of(*_CALM), unit_words(found)
    unknown = found.sum_of("unknown").kernels
    alone = [words for words, _ in _programs(found)]
    if not changed.kernels and not rest.kernels and alone:
        words = "No program is in both profiles"
    elif not changed.kernels:
        subject = "Kernels matched by name" if unknown else "No kernel changed"
        subject = "Same program" if found.is_same_program else subject
        words = f"{subject}: {format_seconds(rest.before)} → {format_seconds(rest.after)} {per}"
    else:
        cost = changed.difference
        words = f"Changed code takes {format_seconds(abs(cost))} {'more' if cost >= 0 else 'less'} {per}"
        if rest.kernels:
            pace = "slower" if rest.difference >= 0 else "faster"
            words += f"; the rest ran {format_seconds(abs(rest.difference))} {pace}"
            words += "" if unknown else ", unchanged"
    if alone and rest.kernels + changed.kernels:
        words += f"; {alone[0]}" if len(alone) == 1 else f"; {len(alone):,} programs are new or gone"
    if outliers:
        words += f"; {format_count(outliers, 'outliers')} in unchanged code"
    return words


def _programs(found: ProfileComparison) -> Iterator[tuple[str, str]]:
    """The programs that only one of the profiles has, in words, and in words with their time."""
    per = unit_words(found)
    for pair in found.programs:
        if pair.before is None and pair.after is not None:
            total = found.sum_of_program(pair.after)
            yield f"{pair.after.name} is new", f"{pair.after.name}: new program, {format_seconds(total.after)} {per}"
        elif pair.after is None and pair.before is not None:
            total = found.sum_of_program(pair.before)
            yield (
                f"{pair.before.name} is gone",
                f"{pair.before.name}: gone program, {format_seconds(total.before)} {per}",
            )


def _sentences(found: ProfileComparison) -> Iterator[str]:
    """New and gone programs, then what happened to the others, in the sentences of `hlo diff`."""
    from hlo_cli.analysis.statements.statement import CompilationChange
    from hlo_cli.analysis.statements.statements import statements_of
    from hlo_cli.commands.diff.sentences import sentence_of

    yield from (words for _, words in _programs(found))
    several = len(found.programs) > 1
    for pair in found.programs:
        if pair.after is None or pair.difference is None or pair.difference.is_empty:
            continue
        place = f"{pair.after.name}: " if several else ""
        is_changed = any(each.operation.program in (pair.before, pair.after) for each in found.of(*CHANGED))
        for each in statements_of(pair.difference).told:
            if is_changed and isinstance(each, CompilationChange) and each.program == "same":
                yield f"{place}{sentence_of(replace(each, program='other'))}"
            else:
                yield f"{place}{sentence_of(each)}"


def _facts(found: ProfileComparison) -> str:
    """How the kernels were matched, and how many steps were compared."""
    matched = [each for each in found.kernels if each.before is not None and each.after is not None]
    renamed = sum(each.is_renamed for each in matched)
    way = "structure" if any(each.difference is not None for each in found.programs) else "name"
    words = f"{len(matched):,} of {format_count(len(found.kernels), 'kernels')} matched by {way}"
    words += f", {renamed:,} under another name" if renamed else ""
    facts = [words]
    if found.unit != "trace":
        one, two, noun = found.units_before, found.units_after, f"{found.unit}s"
        words = f"{format_count(one, noun)} each" if one == two else f"{one:,} and {format_count(two, noun)}"
        # one slow step is no difference, whereas times of one profile are means of all steps
        facts.append(f"{words} (mean of the middle half)" if max(one, two) >= _HALVED else words)
    rest = found.sum_of(*_CALM)
    if rest.before and rest.after:
        ratio = rest.after / rest.before
        pace = f"{format_percent(abs(ratio - 1))}% {'slower' if ratio >= 1 else 'faster'}"
        facts.append(f"unchanged code {pace if abs(ratio - 1) >= _MIN_PACE else 'as fast'}")
    return " · ".join(facts)


def _notes(found: ProfileComparison) -> Iterator[Diagnostic]:
    unknown = found.sum_of("unknown").kernels
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
    sums = {body: found.sum_of(body) for body in CODE}
    return {
        "unit": found.unit,
        "before_units": found.units_before,
        "after_units": found.units_after,
        "same_program": found.is_same_program,
        "unchanged_ratio": found.drift,
        "outliers": sum(each.is_outlier for each in found.kernels),
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
    has_differences = any(each.difference is not None and not each.difference.is_empty for each in found.programs)
    if not (new.argument and old.argument and has_differences):
        return ()
    return (f"hlo diff {old.argument} {new.argument}",)
