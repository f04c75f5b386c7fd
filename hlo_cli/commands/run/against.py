"""`hlo run OLD --against NEW`: whether two modules compute the same, but for rounding."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.comparison.compare import ROUNDING, Distance
from hlo_cli.analysis.comparison.comparison import RunComparison, compare_runs
from hlo_cli.analysis.comparison.first_difference import FirstDifference
from hlo_cli.commands.run.arguments import arguments_of
from hlo_cli.commands.run.distances import MEANING, columns_of, detail_cells, distance_cells, number_cell
from hlo_cli.commands.run.notes import notes_on_arguments, notes_on_assumed, notes_on_draws
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.parts import difference_facts, difference_mark, difference_numbers, values_table
from hlo_cli.commands.run.progress import shown_progress
from hlo_cli.commands.run.results import result_label, result_name
from hlo_cli.commands.run.stubs import checked_stubs, feed_from
from hlo_cli.commands.shared.load import Loaded, input_facts, program_notes
from hlo_cli.ir.module import Module
from hlo_cli.report.cell import Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic

_SHAPE: Final = Column("shape", "shape", "shape")
_TINY: Final = 1e-4


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
                _rows(found, new.module),
                noun="results",
                title="Largest difference over largest magnitude",
            ),
        ),
        next=() if difference is None else _next(old, new, difference),
        notes=(
            *_notes_on_tolerance(found),
            *_notes_on_nan(found),
            *_notes_on_cause(compared),
            *notes_on_arguments(options),
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
        "other_seeds": {str(seed): number_cell(apart) for seed, apart in (compared.other_seeds or {}).items()},
        **difference_numbers(compared.first_difference, new),
    }


def _rows(found: Sequence[Distance], new: Module) -> tuple[Row, ...]:
    root = new.entry.root
    assert root is not None
    leaves = dict(root.shape.leaves)
    return tuple(
        (
            result_label(each.index),
            *distance_cells([each]),
            *detail_cells(each),
            MEANING[each.verdict],
            result_name(root, each.index),
            str(leaves[each.index]),
        )
        for each in sorted(found, key=lambda each: (-each.widened, -each.exact, each.index))
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


def _notes_on_nan(found: Sequence[Distance]) -> tuple[Diagnostic, ...]:
    """How many elements are not compared, because they are NaN in both modules."""
    count = sum(min(each.nan) for each in found)
    if not count:
        return ()
    words = f"{format_count(count, 'elements')} {verb(count, 'is', 'are')} NaN in both modules, and not compared"
    return (Diagnostic("note", words),)


def _notes_on_cause(compared: RunComparison) -> tuple[Diagnostic, ...]:
    """That no instruction is named, if results differ and nothing proves which is the cause."""
    if compared.first_difference is not None or compared.verdict not in ("approximation", "different"):
        return ()
    return (
        Diagnostic("note", "no instruction is named: no change of a single one was found that makes all results agree"),
    )


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
            return f"The same program: {results} identical"
        case "rounding":
            apart = f"{verb(len(found), 'differs', 'differ')} by rounding only, by {_share(worst)} at most"
            return f"The same program: {results} {apart}"
        case "overflow":
            count = sum(each.verdict == "overflow" for each in found)
            which = f"{count:,} of {results} {verb(count, 'has', 'have')} NaN or Inf in one module only"
            return f"The same program without rounding; with it, {which}"
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
