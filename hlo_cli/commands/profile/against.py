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
from hlo_cli.analysis.profile.step_budget import step_budget
from hlo_cli.analysis.statements.operations import tally
from hlo_cli.analysis.statements.statement import CompilationChange
from hlo_cli.commands.profile.budget import budgets_answer, budgets_table
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
_SECONDARY_CHANGES: Final = frozenset(("metadata", "operands", *PLACE_KINDS))
"""Kinds of changes that are named only if there is no other."""


def _difference_words(kernel: ComparedKernel) -> str | None:
    """What differs in the code of a kernel, or where the other program has a new or gone one; None if nothing does."""
    match kernel.body:
        case "changed":
            return "; ".join(_difference_parts(kernel.difference)) or "order of operations, or shapes of operands"
        case "new":
            return _place_in_other(kernel, "before")
        case "gone":
            return _place_in_other(kernel, "after")
    return None


def _difference_parts(difference: BodyDifference) -> Iterator[str]:
    removed, added = _opcodes(difference.removed), _opcodes(difference.added)
    if removed and added:
        yield f"{removed} → {added}"
    elif removed or added:
        yield f"{removed or added} {'added' if added else 'removed'}"
    # The same change of many instructions is one change.
    changes = dict.fromkeys(
        _short_change(c) for each in difference.changed for c in each.changes if c.kind not in _SECONDARY_CHANGES
    )
    if changes:
        first, *others = changes
        yield f"{first}{f', {len(others):,} more' if others else ''}"
    elif not (removed or added):
        moved = [each.after for each in difference.changed if any(c.kind == FUSED for c in each.changes)]
        if moved:
            yield f"{_opcodes(moved) or 'operations'} of another fusion"
        elif any(c.kind == "operands" for each in difference.changed for c in each.changes):
            yield "operands of its operations"


def _opcodes(instructions: Iterable[Instruction]) -> str:
    counts = tally(instructions)
    words = [f"{name} ×{number:,}" if number > 1 else name for name, number in counts[:_MAX_OPCODES]]
    return ", ".join(words) + (", …" if len(counts) > _MAX_OPCODES else "")


def _short_change(change: Change) -> str:
    text = str(change)
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _place_in_other(kernel: ComparedKernel, when: str) -> str | None:
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
_SPREAD_COLUMNS: Final = (
    ("calls", "calls", "calls"),
    ("least_seconds", "min", "least"),
    ("median_seconds", "median", "median"),
    ("greatest_seconds", "max", "greatest"),
)
"""Columns of a side, their titles, and the figures of a kernel's time that they show."""


def _unit_words(comparison: ProfileComparison) -> str:
    """The unit in words: `per step`; per device, if there are several."""
    unit = f"per {comparison.unit}" if comparison.unit != "trace" else "in the trace"
    many = max(len(comparison.before.devices), len(comparison.after.devices)) > 1
    return f"{unit} and device" if many else unit


def _sums_table(comparison: ProfileComparison, outliers: int) -> Table:
    """One row for each kind of code, with the sums of the times."""
    columns: tuple[Column[KernelSum, str], ...] = (
        Column("kernels", "kernels", "count", total="sum", of=lambda total, words: total.kernels),
        *columns_of_part(_time_columns(comparison), lambda total, words: (total.before, total.after, total.difference)),
        Column("kernel_code", "code", of=lambda total, words: words),
    )
    sums = [
        (total, _code_words(comparison, body, outliers)) for body in CODE if (total := comparison.sum_of(body)).kernels
    ]
    return Table("sums", columns, rows_from_tuples(columns, sums), noun="kinds of code", main=False)


def _code_words(comparison: ProfileComparison, body: Body, outliers: int) -> str:
    if body != "same":
        return CODE[body]
    few = "; too few calls to compare" if comparison.has_few_calls else "; no outliers"
    return CODE[body] + (f"; {format_count(outliers, 'outliers')}" if outliers else few)


_Times: TypeAlias = tuple[float | None, float | None, float | None]
"""The time before, the time after, and their difference."""


def _time_columns(comparison: ProfileComparison) -> tuple[Column[_Times], ...]:
    group, like = _unit_words(comparison), "before_seconds"
    return (
        Column("before_seconds", "before", "seconds", group=group, total="sum", of=lambda times: times[0]),
        Column("after_seconds", "after", "seconds", group=group, like=like, total="sum", of=lambda times: times[1]),
        Column("difference_seconds", "diff", "seconds", group=group, like=like, total="sum", of=lambda times: times[2]),
    )


def kernels_table(
    name: str,
    comparison: ProfileComparison,
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
        *columns_of_part(_time_columns(comparison), _times_of),
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
    before, after = kernel.time_before, kernel.time_after
    return None if before is None else before.time, None if after is None else after.time, kernel.difference_seconds


def _spread_columns(side: Literal["before", "after"]) -> Iterator[Column[ComparedKernel]]:
    """Calls and times on one side, for programs."""
    for field, title, name in _SPREAD_COLUMNS:
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
        Column("kernel", "kernel", "name", of=lambda inner: inner.kernel),
        Column("change", "", "change", of=lambda inner: inner.sign),
        Column("instruction", "instruction", "name", of=lambda inner: inner.instruction.name),
        Column("opcode", "opcode", "opcode", of=lambda inner: inner.instruction.opcode),
        Column("details", "details", of=lambda inner: inner.details),
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
    name, difference = kernel.operation.name, kernel.difference
    for each in difference.changed:
        yield _InnerChange(name, "~", each.after, "; ".join(map(str, each.changes)))
    for sign, instructions in (("+", difference.added), ("-", difference.removed)):
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
        Column("matched", "matched", "count", of=_count_of(lambda difference: difference.matched)),
        Column("changed", "changed", "count", of=_count_of(lambda difference: len(difference.changed))),
        Column("added", "added", "count", of=_count_of(lambda difference: len(difference.added))),
        Column("removed", "removed", "count", of=_count_of(lambda difference: len(difference.removed))),
        Column("moved", "moved", "count", of=_count_of(lambda difference: len(difference.moved))),
        Column("header_changes", "header", "count", of=_count_of(lambda difference: len(difference.header))),
    )
    return Table("programs", columns, rows_from(columns, programs), noun="programs", main=False, person=False)


def _count_of(count: Callable[[ModuleDiff], int]) -> Callable[[ProgramPair], int | None]:
    return lambda pair: None if pair.difference is None else count(pair.difference)


# --- the comparison ---


_UNCHANGED: Final[tuple[Body, ...]] = ("same", "unknown")
_MAX_STATEMENTS: Final = 3  # the largest changes; the table has all
_MIN_HALVED: Final = 3
"""From so many steps on, the slowest and the fastest ones do not count: see `unit_times`."""
_MIN_PACE: Final = 0.005
"""The smallest common change of times that the facts name."""


def report_of_against(new: LoadedProfile, old: LoadedProfile) -> Report:
    """The comparison of two profiles."""
    return report_of_comparison(compare_profiles(old.profile, new.profile), new, old)


def report_of_comparison(comparison: ProfileComparison, new: LoadedProfile, old: LoadedProfile) -> Report:
    """The sums of changed and unchanged code, every changed kernel, and the outliers of unchanged code."""
    kernels = sorted(comparison.kernels, key=_rank_of_kernel)
    changed = [each for each in kernels if each.body in CHANGED]
    outliers = [each for each in kernels if each.is_outlier]
    sentences = tuple(_sentences(comparison))
    budgets = step_budget(comparison.before), step_budget(comparison.after)
    table = budgets_table(*budgets)
    title = "outliers in unchanged code"
    # Steps of other programs do other work: their difference is no gain, and the table alone has it.
    budgets_words = "" if _is_disjoint(comparison) else budgets_answer(*budgets)
    answers = (budgets_words, _against_answer(comparison, len(outliers)))
    return Report(
        "profile",
        "; ".join(filter(None, answers)),
        version=1,
        numbers=_against_numbers(comparison, sentences),
        parts=(
            *((Passage("difference", sentences[:_MAX_STATEMENTS]),) if sentences else ()),
            *(() if table is None else (table,)),
            _sums_table(comparison, len(outliers)),
            kernels_table("changes", comparison, changed),
            kernels_table("outliers", comparison, outliers, title=title, main=False, person=bool(outliers)),
            kernels_table(
                "unchanged", comparison, [k for k in kernels if k.body in _UNCHANGED], main=False, person=False
            ),
            _differences_table(changed),
            _programs_table(comparison.programs),
            Passage("matching", (_matching_words(comparison),)),
        ),
        next=_next_commands(comparison, new, old),
        notes=(*_against_notes(comparison), *_notes_of("before", old), *_notes_of("after", new)),
        input={"before": old.facts, "after": new.facts},
    )


def _notes_of(when: str, loaded: LoadedProfile) -> tuple[Diagnostic, ...]:
    """The notes on one of the traces; both have steps, so that warm-up says of which it is."""
    return replace(loaded, warm_up=loaded.warm_up and f"{when}: {loaded.warm_up}").notes


def _rank_of_kernel(kernel: ComparedKernel) -> tuple[float, str]:
    return -abs(kernel.difference_seconds), kernel.operation.name


def _against_answer(comparison: ProfileComparison, outliers: int) -> str:
    changed, rest, per = comparison.sum_of_changed_code(), comparison.sum_of(*_UNCHANGED), _unit_words(comparison)
    unknown = comparison.sum_of("unknown").kernels
    alone = [words for words, _ in _programs_of_one(comparison)]
    if _is_disjoint(comparison):
        words = "No program is in both profiles"
    elif not changed.kernels:
        subject = "Kernels matched by name" if unknown else "No kernel changed"
        subject = "Same program" if comparison.is_same_program else subject
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


def _is_disjoint(comparison: ProfileComparison) -> bool:
    """Whether the profiles are of different programs, so that no kernel has a counterpart."""
    is_one_sided = next(_programs_of_one(comparison), None) is not None
    return is_one_sided and not (comparison.sum_of_changed_code().kernels or comparison.sum_of(*_UNCHANGED).kernels)


def _programs_of_one(comparison: ProfileComparison) -> Iterator[tuple[str, str]]:
    """The programs that only one of the profiles has, in words, and in words with their time."""
    per = _unit_words(comparison)
    for pair in comparison.programs:
        if pair.before is None and pair.after is not None:
            total = comparison.sum_of_program(pair.after)
            yield f"{pair.after.name} is new", f"{pair.after.name}: new program, {format_seconds(total.after)} {per}"
        elif pair.after is None and pair.before is not None:
            total = comparison.sum_of_program(pair.before)
            yield (
                f"{pair.before.name} is gone",
                f"{pair.before.name}: gone program, {format_seconds(total.before)} {per}",
            )


def _sentences(comparison: ProfileComparison) -> Iterator[str]:
    """New and gone programs, then what happened to the others, in the sentences of `hlo diff`."""
    from hlo_cli.analysis.statements.statements import statements_of
    from hlo_cli.commands.diff.sentences import sentence_of

    yield from (words for _, words in _programs_of_one(comparison))
    several = len(comparison.programs) > 1
    for pair in comparison.programs:
        if pair.after is None or pair.difference is None or pair.difference.is_empty:
            continue
        place = f"{pair.after.name}: " if several else ""
        is_changed = any(each.operation.program in (pair.before, pair.after) for each in comparison.of(*CHANGED))
        for each in statements_of(pair.difference).ordered:
            if is_changed and isinstance(each, CompilationChange) and each.program == "same":
                yield f"{place}{sentence_of(replace(each, program='other'))}"
            else:
                yield f"{place}{sentence_of(each)}"


def _matching_words(comparison: ProfileComparison) -> str:
    """How the kernels were matched, and how many steps were compared."""
    matched = [each for each in comparison.kernels if each.before is not None and each.after is not None]
    renamed = sum(each.is_renamed for each in matched)
    evidence = "structure" if any(each.difference is not None for each in comparison.programs) else "name"
    words = f"{len(matched):,} of {format_count(len(comparison.kernels), 'kernels')} matched by {evidence}"
    words += f", {renamed:,} under another name" if renamed else ""
    facts = [words]
    if comparison.unit != "trace":
        before, after, noun = comparison.units_before, comparison.units_after, f"{comparison.unit}s"
        words = (
            f"{format_count(before, noun)} each" if before == after else f"{before:,} and {format_count(after, noun)}"
        )
        # one slow step is no difference, whereas times of one profile are means of all steps
        facts.append(f"{words} (mean of the middle half)" if max(before, after) >= _MIN_HALVED else words)
    rest = comparison.sum_of(*_UNCHANGED)
    if rest.before and rest.after:
        ratio = rest.after / rest.before
        pace = f"{format_percent(abs(ratio - 1))}% {'slower' if ratio >= 1 else 'faster'}"
        facts.append(f"unchanged code {pace if abs(ratio - 1) >= _MIN_PACE else 'as fast'}")
    return " · ".join(facts)


def _against_notes(comparison: ProfileComparison) -> Iterator[Diagnostic]:
    unknown = comparison.sum_of("unknown").kernels
    if unknown:
        words = f"{format_count(unknown, 'kernels')} without a module {verb(unknown, 'is', 'are')} matched by name"
        yield Diagnostic("note", words, hint="pass the dumps of both programs to compare their code")
    outside = sum(1 for each in comparison.kernels if each.time_before is None and each.time_after is None)
    if outside:
        words = (
            f"{format_count(outside, 'kernels')} ran outside of whole steps and {verb(outside, 'has', 'have')} no time"
        )
        yield Diagnostic("note", words)


def _against_numbers(comparison: ProfileComparison, sentences: Sequence[str]) -> dict[str, Cell]:
    sums = {body: comparison.sum_of(body) for body in CODE}
    return {
        "unit": comparison.unit,
        "before_units": comparison.units_before,
        "after_units": comparison.units_after,
        "same_program": comparison.is_same_program,
        "unchanged_ratio": comparison.drift,
        "outliers": sum(each.is_outlier for each in comparison.kernels),
        "too_few_calls": comparison.has_few_calls,
        "renamed": sum(each.is_renamed for each in comparison.kernels),
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


def _next_commands(comparison: ProfileComparison, new: LoadedProfile, old: LoadedProfile) -> tuple[str, ...]:
    has_differences = any(each.difference is not None and not each.difference.is_empty for each in comparison.programs)
    if not (new.argument and old.argument and has_differences):
        return ()
    return (f"hlo diff {old.argument} {new.argument}",)
