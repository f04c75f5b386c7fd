"""`hlo run OLD --against NEW`: whether two modules compute the same, but for rounding."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.comparison.first_difference import FirstDifference
from hlo_cli.analysis.comparison.two_runs import AGREEING, RunComparison, compare_runs
from hlo_cli.analysis.comparison.verdict import ROUNDING, Coverage, Distance
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.run.arguments import arguments_of
from hlo_cli.commands.run.distances import MEANING, columns_of, detail_cells, distance_cells, number_cell
from hlo_cli.commands.run.notes import notes_on_arguments, notes_on_assumed, notes_on_draws
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.parts import difference_facts, difference_mark, difference_numbers, values_table
from hlo_cli.commands.run.progress import shown_progress
from hlo_cli.commands.run.results import result_label, result_name
from hlo_cli.commands.run.stubs import checked_stubs, feed_from
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.source import Diagnostic

_SHAPE: Final = Column("shape", "shape", "shape")
_TINY: Final = 1e-4
_LISTED: Final = 3
"""The largest number of names in a sentence, so that it fits a line."""
_MISSING: Final = (
    Column("side", "module"),
    Column("computation", "computation", "name"),
    Column("caller", "caller", "name"),
)


def report_of_comparison(
    old: Loaded, new: Loaded, options: RunOptions, *, quiet: bool = False
) -> tuple[Report, Diagnostic | None]:
    """Runs both with the same arguments, with floats of their types and widened, and compares the results.

    Also returns the line of the first instruction that differs, to quote it.
    """
    arguments = arguments_of(options, old.module)
    stubs, feed = checked_stubs(options.stub, old.module, new.module), feed_from(options.feed)
    with shown_progress([old.module, new.module], runs=2, quiet=quiet) as progress:
        compared = compare_runs(
            old.module,
            new.module,
            arguments,
            seed=options.seed,
            devices=options.devices,
            limits=options.limits,
            progress=progress,
            stubs=stubs,
            feed=feed,
            allow_uncovered=options.allow_uncovered,
        )
    found, difference = compared.distances, compared.first_difference
    columns = (Column("result", "result"), *columns_of(found), Column("value", "value", "name"), _SHAPE)
    report = Report(
        "run",
        _answer(compared, options.seed),
        version=1,
        numbers=_numbers(compared, new.module),
        parts=(
            *(() if difference is None else (difference_facts(difference, old.module, new.module),)),
            *(() if compared.values is None else (values_table(compared.values),)),
            Table(
                "distances",
                columns,
                _rows(compared, new.module),
                noun="results",
                title="Largest difference over magnitude",
            ),
            *_missing_table(compared.coverage, (old.module, new.module)),
        ),
        next=() if difference is None else _next(old, new, difference),
        notes=(
            *_notes_on_tolerance(found),
            *_notes_on_nan(compared),
            *_notes_on_unmet(compared),
            *_notes_on_cause(compared),
            *_notes_on_arguments(compared, options),
            *notes_on_draws(old.module, new.module),
            *notes_on_assumed(compared.assumed),
            *program_notes(old),
            *program_notes(new),
        ),
        input={"before": input_facts(old), "after": input_facts(new)},
    )
    return report, None if difference is None else difference_mark(difference, new.module)


def _numbers(compared: RunComparison, new: Module) -> dict[str, Cell]:
    found = compared.distances
    exact, widened = distance_cells(found)
    return {
        "same": compared.is_same,
        "verdict": compared.verdict,
        "results": len(found),
        "largest_exact": exact,
        "largest_widened": widened,
        "largest_ulp": number_cell(max((each.ulp for each in found), default=0.0)),
        "nan": tuple(sum(each.nan[side] for each in found) for side in (0, 1)),
        "inf": tuple(sum(each.inf[side] for each in found) for side in (0, 1)),
        "tolerance": ROUNDING,
        **coverage_numbers(compared.coverage),
        "other_seeds": {str(seed): number_cell(apart) for seed, apart in (compared.other_seeds or {}).items()},
        **difference_numbers(compared.first_difference, new),
    }


def _rows(compared: RunComparison, new: Module) -> tuple[Row, ...]:
    """A row for each result; one with elements that were never compared is not called identical."""
    root = new.entry.root
    assert root is not None
    leaves, uncompared = dict(root.shape.leaves), compared.coverage.uncompared
    return tuple(
        (
            result_label(each.index),
            *distance_cells([each]),
            *detail_cells(each),
            MEANING["uncovered" if each.verdict in AGREEING and each.index in uncompared else each.verdict],
            result_name(root, each.index),
            str(leaves[each.index]),
        )
        for each in sorted(compared.distances, key=lambda each: (-each.widened, -each.exact, each.index))
    )


def _notes_on_tolerance(found: Sequence[Distance]) -> tuple[Diagnostic, ...]:
    """What counts as rounding, and which results exceed what is expected of it."""
    words = f"widened: every float is an f64 that is never rounded; differences up to {ROUNDING:g} are rounding"
    amplified = sum(each.is_amplified for each in found)
    if not amplified:
        return (Diagnostic("note", words),)
    count = format_count(amplified, "results")
    more = f"{count} {verb(amplified, 'differs', 'differ')} by more than the (4 + √terms) · u that rounding explains"
    return Diagnostic("note", words), Diagnostic("note", more)


def _notes_on_nan(compared: RunComparison) -> tuple[Diagnostic, ...]:
    """Which results have elements that are NaN in both modules with all arguments, and so are not compared."""
    if not compared.coverage.uncompared:
        return ()
    listed = ", ".join(map(result_label, compared.coverage.uncompared[:_LISTED]))
    more = len(compared.coverage.uncompared) - _LISTED
    words = f"elements of result {listed}{f' and {more} others' if more > 0 else ''} are not compared: they are NaN in "
    return (Diagnostic("note", f"{words}both modules, or absent, with all arguments"),)


def _notes_on_unmet(compared: RunComparison) -> tuple[Diagnostic, ...]:
    """The comparisons whose operands were never equal, if results agree: what they do then was not looked at."""
    names = list(dict.fromkeys(each.name for each in compared.coverage.unmet))
    if not names or compared.verdict_on_results not in AGREEING:
        return ()
    return (Diagnostic("note", f"{_listed(names)} never met equal operands, where LT and LE, and GT and GE, differ"),)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return f"{', '.join(names[:_LISTED])}{f' and {more} others' if more > 0 else ''}"


def _notes_on_arguments(compared: RunComparison, options: RunOptions) -> tuple[Diagnostic, ...]:
    """With which arguments the reported results were computed."""
    choice = compared.choice
    if choice is None:
        return notes_on_arguments(options, sets=compared.coverage.argument_sets)
    changed = "" if choice.words == f"seed {choice.seed}" else f": {choice.words}"
    words = f"results agree with the arguments made up with seed {options.seed}"
    words += f"; these are of set {choice.number + 1}, made up with seed {choice.seed}{changed}"
    return (Diagnostic("note", f"{words}; use --args FILE for real ones"),)


def _notes_on_cause(compared: RunComparison) -> tuple[Diagnostic, ...]:
    """That no instruction is named, if results differ and nothing proves which is the cause."""
    if compared.first_difference is not None or compared.verdict not in ("approximation", "different"):
        return ()
    return (
        Diagnostic("note", "no instruction is named: no change of a single one was found that makes all results agree"),
    )


def _missing_table(coverage: Coverage, modules: Sequence[Module]) -> tuple[Table, ...]:
    """The computations that did not run with any arguments, and what calls them."""
    if not coverage.missing:
        return ()
    sides = [{id(each) for each in module.computations} for module in modules]
    rows = tuple(
        ("first" if id(each) in sides[0] else "second", each.name, _caller_of(each, modules))
        for each in coverage.missing
    )
    title = "Computations that did not run"
    return (Table("not_run", _MISSING, rows, noun="computations", title=title, main=False),)


def _caller_of(computation: Computation, modules: Sequence[Module]) -> str | None:
    callers = (
        each
        for module in modules
        for other in module.computations
        for each in other.instructions
        if computation in each.called_computations
    )
    caller = next(callers, None)
    return None if caller is None else f"{caller.opcode} {caller.name}"


def coverage_numbers(coverage: Coverage) -> dict[str, Cell]:
    """The coverage for programs."""
    return {
        "computations": coverage.computations,
        "computations_run": coverage.ran,
        "argument_sets": coverage.argument_sets,
        "not_run": tuple(each.name for each in coverage.missing),
        "uncompared_results": tuple(map(result_label, coverage.uncompared)),
        "unmet_comparisons": tuple(dict.fromkeys(each.name for each in coverage.unmet)),
        "undecided_comparisons": tuple(new.name for _, new in coverage.undecided),
        "endless": coverage.endless and coverage.endless[0],
    }


def coverage_words(coverage: Coverage) -> str:
    """The coverage in a few words; each set of made-up arguments has a seed.

    >>> coverage_words(Coverage(6, 6, 2)), coverage_words(Coverage(1, 1, 1))
    ('6 of 6 computations ran, 2 seeds', '1 of 1 computation ran, 1 seed')
    """
    ran = f"{coverage.ran:,} of {format_count(coverage.computations, 'computations')} ran"
    return f"{ran}, {format_count(coverage.argument_sets, 'seeds')}"


def _next(old: Loaded, new: Loaded, difference: FirstDifference) -> tuple[str, ...]:
    paths = [shlex.quote(each.input.path or "-") for each in (old, new)]
    name = shlex.quote(difference.place.instruction.name)
    stage = f" --stage {new.input.stage}" if paths[0] == paths[1] and new.input.stage else ""
    found = [f"hlo run {paths[1]}{stage} --at {name}"]
    if paths[0] != paths[1]:
        found.append(f"hlo diff {paths[0]} {paths[1]}")
    return tuple(found)


def _share(distance: float) -> str:
    """A relative difference, in percent if it is not tiny.

    >>> _share(0.069), _share(1e-7)
    ('6.9%', '1.0e-07')
    """
    return f"{100 * distance:.2g}%" if distance >= _TINY else f"{distance:.1e}"


def _uncovered(compared: RunComparison) -> str:
    """What was not compared: computations that never ran, by name, elements of results, or equal operands."""
    coverage = compared.coverage
    names = list(dict.fromkeys(each.name for each in coverage.missing))
    if names:
        return f"{_listed(names)} never ran ({coverage_words(coverage)})"
    if coverage.uncompared:
        count = len(coverage.uncompared)
        verb_ = verb(count, "has", "have")
        return (
            f"{format_count(count, 'results')} {verb_} elements that were never compared ({coverage_words(coverage)})"
        )
    if coverage.endless:
        side, choice = coverage.endless
        return f"the {side} module alone does not finish with {choice.words} ({coverage_words(coverage)})"
    old, new = coverage.undecided[0]
    directions = f"{new.attribute('direction')} in place of {old.attribute('direction')}"
    others = len(coverage.undecided) - 1
    more = f" (and {format_count(others, 'comparisons')} like it)" if others else ""
    return f"{new.name} is {directions}{more} and never met equal operands ({coverage_words(coverage)})"


def _same(compared: RunComparison) -> str:
    return "The same program" if compared.coverage.is_whole else "The same program as far as it was compared"


def _covered(compared: RunComparison) -> str:
    """The end of an answer: the coverage, and what was not compared even if `--allow-uncovered` accepts that."""
    return f" ({coverage_words(compared.coverage)})" if compared.coverage.is_whole else f", but {_uncovered(compared)}"


def _answer(compared: RunComparison, seed: int) -> str:
    found, difference = compared.distances, compared.first_difference
    results = format_count(len(found), "results")
    worst = max((each.exact for each in found), default=0.0)
    wide = max((each.widened for each in found), default=0.0)
    first = "" if difference is None else f", first at {difference.instruction.name}"
    different = sum(each.verdict == "different" for each in found)
    match compared.verdict:
        case "identical" if not found:
            return "Nothing to compare: the modules have no results"
        case "identical":
            return f"{_same(compared)}: {results} identical{_covered(compared)}"
        case "rounding":
            apart = f"{verb(len(found), 'differs', 'differ')} by rounding only, by {_share(worst)} at most"
            return f"{_same(compared)}: {results} {apart}{_covered(compared)}"
        case "uncovered":
            return f"Not fully compared: {results} {verb(len(found), 'agrees', 'agree')}, but {_uncovered(compared)}"
        case "overflow":
            count = sum(each.verdict == "overflow" for each in found)
            which = f"{count:,} of {results} {verb(count, 'has', 'have')} NaN or Inf in one module only"
            return f"{_same(compared)} without rounding; with it, {which}{_covered(compared)}"
        case "unknown":
            known = [each for each in found if each.is_known]
            if not known:
                return f"Not compared: the place of {results} on devices is unknown"
            agree = "agrees" if len(known) == 1 else "agree"
            return f"{len(known):,} of {results} {agree}; the place of the others on devices is unknown"
        case "approximation":
            agree = "agrees" if len(found) == 1 else "agree"
            return f"{results} {agree} to {wide:.1e} without rounding: a constant or an approximation differs{first}"
        case "discontinuity":
            others = " and ".join(map(str, compared.other_seeds or ()))
            words = f"{different} of {results} {verb(different, 'differs', 'differ')} with seed {seed}{first}"
            return f"{words}; with seeds {others}, all results agree"
        case _:
            return f"Not the same program: {different} of {results} {verb(different, 'differs', 'differ')}{first}"
