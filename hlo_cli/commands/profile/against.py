"""Did an edit make the program faster? `--against OLD`: what changed code costs, and how the rest ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from hlo_cli.analysis.matching.changes import FUSED, PLACE_KINDS, Change
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.profile.profile import Operation
from hlo_cli.analysis.profile.profile_diff import (
    CHANGED,
    Body,
    BodyDifference,
    ComparedKernel,
    KernelSum,
    ProfileComparison,
    ProgramPair,
    compare_profiles,
)
from hlo_cli.analysis.statements.operations import tally
from hlo_cli.analysis.statements.statement import CompilationChange
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table, Unit, columns_of_part, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import LoadedProfile

# --- the difference of a kernel ---
# In a few words, as `hlo diff` names operations and changes.


_MAX_OPCODES: Final = 3  # they describe a kernel in a cell
_MAX_TEXT: Final = 40  # a cell beside the times
_FOLLOWING: Final = frozenset(("metadata", "operands", *PLACE_KINDS))
"""Kinds of changes that are named only if there is no other."""


def _difference_words(kernel: ComparedKernel) -> str | None:
    """What differs in the code of a kernel, or where the other program has a new or gone one; None if nothing does."""
    match kernel.body:
        case "changed":
            return "; ".join(_parts(kernel.difference)) or "order of operations, or shapes of operands"
        case "new":
            return _place(kernel, "before")
        case "gone":
            return _place(kernel, "after")
    return None


def _parts(found: BodyDifference) -> Iterator[str]:
    removed, added = _opcodes(found.removed), _opcodes(found.added)
    if removed and added:
        yield f"{removed} → {added}"
    elif removed or added:
        yield f"{removed or added} {'added' if added else 'removed'}"
    changes = dict.fromkeys(_short(c) for each in found.changed for c in each.changes if c.kind not in _FOLLOWING)
    if changes:
        first, *others = changes
        yield f"{first}{f', {len(others):,} more' if others else ''}"
    elif not (removed or added):
        moved = [each.after for each in found.changed if any(c.kind == FUSED for c in each.changes)]
        if moved:
            yield f"{_opcodes(moved) or 'operations'} of another fusion"
        elif any(c.kind == "operands" for each in found.changed for c in each.changes):
            yield "operands of its operations"


def _opcodes(instructions: Iterable[Instruction]) -> str:
    counts = tally(instructions)
    words = [f"{name} ×{number:,}" if number > 1 else name for name, number in counts[:_MAX_OPCODES]]
    return ", ".join(words) + (", …" if len(counts) > _MAX_OPCODES else "")


def _short(change: Change) -> str:
    text = str(change)
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _place(kernel: ComparedKernel, when: str) -> str | None:
    """Where the other program computes what a kernel of one profile does; else what the kernel does."""
    other, owner = kernel.difference.other, kernel.difference.owner
    if owner is not None:
        return f"part of {owner.name} {when}"
    if other is not None:
        return f"{other.name} {when}, not timed"
    instruction = kernel.operation.instruction
    if instruction is None:
        return None
    called = instruction.called_computations
    return _opcodes(called[0].instructions if called else (instruction,)) or None


# --- tables of two profiles ---


_SIGNS: Final[Mapping[Body, str | None]] = {"changed": "~", "new": "+", "gone": "-", "same": None, "unknown": None}
CODE: Final[Mapping[Body, str]] = {
    "changed": "changed",
    "new": "new",
    "gone": "gone",
    "same": "unchanged",
    "unknown": "unknown, without a module",
}
"""What the code of a kernel is, in words."""
_SPREAD: Final = (
    ("calls", "calls", "calls"),
    ("least_seconds", "min", "least"),
    ("median_seconds", "median", "median"),
    ("greatest_seconds", "max", "greatest"),
)
"""Columns of a side, their titles, and the figures of a kernel's time that they show."""


def _unit_words(found: ProfileComparison) -> str:
    """The unit in words: `per step`; per device, if there are several."""
    unit = f"per {found.unit}" if found.unit != "trace" else "in the trace"
    many = max(len(found.before.devices), len(found.after.devices)) > 1
    return f"{unit} and device" if many else unit


def _sums_table(found: ProfileComparison, outliers: int) -> Table:
    """One row for each kind of code, with the sums of the times."""
    columns: tuple[Column[KernelSum, str], ...] = (
        Column("kernels", "kernels", "count", total="sum", of=lambda total, words: total.kernels),
        *columns_of_part(_time_columns(found), lambda total, words: (total.before, total.after, total.difference)),
        Column("kernel_code", "code", of=lambda total, words: words),
    )
    sums = [(total, _code_words(found, body, outliers)) for body in CODE if (total := found.sum_of(body)).kernels]
    return Table("sums", columns, rows_from_tuples(columns, sums), noun="kinds of code", main=False)


def _code_words(found: ProfileComparison, body: Body, outliers: int) -> str:
    if body != "same":
        return CODE[body]
    few = "; too few calls to compare" if found.has_few_calls else "; no outliers"
    return CODE[body] + (f"; {format_count(outliers, 'outliers')}" if outliers else few)


_Times: TypeAlias = tuple[float | None, float | None, float | None]
"""The time before, the time after, and their difference."""


def _time_columns(found: ProfileComparison) -> tuple[Column[_Times], ...]:
    group, like = _unit_words(found), "before_seconds"
    return (
        Column("before_seconds", "before", "seconds", group=group, total="sum", of=lambda times: times[0]),
        Column("after_seconds", "after", "seconds", group=group, like=like, total="sum", of=lambda times: times[1]),
        Column("difference_seconds", "diff", "seconds", group=group, like=like, total="sum", of=lambda times: times[2]),
    )


def kernels_table(
    name: str,
    found: ProfileComparison,
    kernels: Sequence[ComparedKernel],
    *,
    title: str = "",
    main: bool = True,
    person: bool = True,
) -> Table:
    """One row for each kernel, with its difference and its times."""
    columns: tuple[Column[ComparedKernel], ...] = (
        Column("change", "", "change", person=any(each.body in CHANGED for each in kernels),
               of=lambda kernel: _SIGNS[kernel.body]),
        *columns_of_part(_time_columns(found), _times_of),
        Column("ranges", "ranges", of=lambda kernel: kernel.ranges or kernel.body),
        Column("kernel", "kernel", "name", of=lambda kernel: kernel.operation.name),
        Column("source", "source", "source", rank=5, of=lambda kernel: _source(kernel.operation)),
        Column("difference", "difference", from_width=120, rank=7, of=lambda kernel: _difference_words(kernel)),
        Column("before", "before", "name", from_width=120, rank=4, person=any(each.is_renamed for each in kernels),
               of=lambda kernel: None if kernel.before is None else kernel.before.name),
        Column("kernel_code", "code", person=False, of=lambda kernel: CODE[kernel.body]),
        Column("module", "module", person=False,
               of=lambda kernel: None if kernel.operation.program is None else kernel.operation.program.name),
        Column("is_outlier", "outlier", "flag", person=False, of=lambda kernel: kernel.is_outlier),
        *_spread_columns("before"),
        *_spread_columns("after"),
    )  # fmt: skip
    return Table(
        name, columns, rows_from(columns, kernels), title=title, noun="kernels", main=main, person=person, limit=12
    )


def _times_of(kernel: ComparedKernel) -> _Times:
    one, two = kernel.time_before, kernel.time_after
    return None if one is None else one.time, None if two is None else two.time, kernel.difference_seconds


def _spread_columns(side: Literal["before", "after"]) -> Iterator[Column[ComparedKernel]]:
    """Calls and times on one side, for programs."""
    for field, title, name in _SPREAD:
        unit: Unit = "number" if field == "calls" else "seconds"
        yield Column(f"{side}_{field}", title, unit, person=False, of=_figure_of(side, name))


def _figure_of(side: Literal["before", "after"], name: str) -> Callable[[ComparedKernel], Cell]:
    def figure(kernel: ComparedKernel) -> Cell:
        time = kernel.time_before if side == "before" else kernel.time_after
        return None if time is None else getattr(time, name)

    return figure


def _differences_table(kernels: Sequence[ComparedKernel]) -> Table:
    """One row for each instruction inside a kernel that was changed, added, or removed."""
    columns: tuple[Column[_InnerChange], ...] = (
        Column("kernel", "kernel", "name", of=lambda each: each.kernel),
        Column("change", "", "change", of=lambda each: each.sign),
        Column("instruction", "instruction", "name", of=lambda each: each.instruction.name),
        Column("opcode", "opcode", "opcode", of=lambda each: each.instruction.opcode),
        Column("details", "details", of=lambda each: each.details),
    )
    rows = rows_from(columns, (change for kernel in kernels for change in _inner_changes(kernel)))
    return Table("differences", columns, rows, noun="instructions", main=False, person=False)


@dataclass(frozen=True, slots=True)
class _InnerChange:
    """An instruction inside a kernel that changed (`~`), was added, or was removed."""

    kernel: str
    sign: str
    instruction: Instruction
    details: str | None = None


def _inner_changes(kernel: ComparedKernel) -> Iterator[_InnerChange]:
    name, found = kernel.operation.name, kernel.difference
    for each in found.changed:
        yield _InnerChange(name, "~", each.after, "; ".join(map(str, each.changes)))
    for sign, instructions in (("+", found.added), ("-", found.removed)):
        yield from (_InnerChange(name, sign, instruction) for instruction in instructions)


def _source(operation: Operation) -> str | None:
    module = None if operation.program is None else operation.program.module
    if module is None or operation.instruction is None:
        return operation.source or None
    location = module.location(operation.instruction)
    return None if location is None else str(location)


def _programs_table(programs: Sequence[ProgramPair]) -> Table:
    """One row for each program, with the numbers of `hlo diff`."""
    columns: tuple[Column[ProgramPair], ...] = (
        Column("before", "before", "name", of=lambda pair: None if pair.before is None else pair.before.name),
        Column("after", "after", "name", of=lambda pair: None if pair.after is None else pair.after.name),
        Column("matched", "matched", "count", of=_count_of(lambda found: found.matched)),
        Column("changed", "changed", "count", of=_count_of(lambda found: len(found.changed))),
        Column("added", "added", "count", of=_count_of(lambda found: len(found.added))),
        Column("removed", "removed", "count", of=_count_of(lambda found: len(found.removed))),
        Column("moved", "moved", "count", of=_count_of(lambda found: len(found.moved))),
        Column("header_changes", "header", "count", of=_count_of(lambda found: len(found.header))),
    )
    return Table("programs", columns, rows_from(columns, programs), noun="programs", main=False, person=False)


def _count_of(count: Callable[[ModuleDiff], int]) -> Callable[[ProgramPair], int | None]:
    return lambda pair: None if pair.difference is None else count(pair.difference)


# --- the comparison ---


_CALM: Final[tuple[Body, ...]] = ("same", "unknown")
_MAX_STATEMENTS: Final = 3  # the largest changes; the table has all
_HALVED: Final = 3
"""From so many steps on, the slowest and the fastest ones do not count: see `unit_times`."""
_MIN_PACE: Final = 0.005
"""The smallest common change of times that the facts name."""


def report_of_against(new: LoadedProfile, old: LoadedProfile) -> Report:
    """The comparison of two profiles."""
    return report_of_comparison(compare_profiles(old.profile, new.profile), new, old)


def report_of_comparison(found: ProfileComparison, new: LoadedProfile, old: LoadedProfile) -> Report:
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
            _sums_table(found, len(outliers)),
            kernels_table("changes", found, changed),
            kernels_table("outliers", found, outliers, title=title, main=False, person=bool(outliers)),
            kernels_table("unchanged", found, [k for k in kernels if k.body in _CALM], main=False, person=False),
            _differences_table(changed),
            _programs_table(found.programs),
            Passage("matching", (_facts(found),)),
        ),
        next=_next(found, new, old),
        notes=(*_notes(found), *old.notes, *new.notes),
        input={"before": old.facts, "after": new.facts},
    )


def _rank(kernel: ComparedKernel) -> tuple[float, str]:
    return -abs(kernel.difference_seconds), kernel.operation.name


def _answer(found: ProfileComparison, outliers: int) -> str:
    changed, rest, per = found.sum_of_changed_code(), found.sum_of(*_CALM), _unit_words(found)
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
    per = _unit_words(found)
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
    from hlo_cli.analysis.statements.statements import statements_of
    from hlo_cli.commands.diff.sentences import sentence_of

    yield from (words for _, words in _programs(found))
    several = len(found.programs) > 1
    for pair in found.programs:
        if pair.after is None or pair.difference is None or pair.difference.is_empty:
            continue
        place = f"{pair.after.name}: " if several else ""
        is_changed = any(each.operation.program in (pair.before, pair.after) for each in found.of(*CHANGED))
        for each in statements_of(pair.difference).ordered:
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


def _next(found: ProfileComparison, new: LoadedProfile, old: LoadedProfile) -> tuple[str, ...]:
    has_differences = any(each.difference is not None and not each.difference.is_empty for each in found.programs)
    if not (new.argument and old.argument and has_differences):
        return ()
    return (f"hlo diff {old.argument} {new.argument}",)
