"""`hlo run OLD --against NEW`: whether two modules compute the same, but for rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.evaluate.compare import Distance, verdict_of
from hlo_cli.analysis.evaluate.comparison import compare_runs
from hlo_cli.analysis.evaluate.parting import Parting
from hlo_cli.commands.run.arguments import arguments_of
from hlo_cli.commands.run.distances import EXACT, MEANING, VERDICT, WIDENED, distance_cells
from hlo_cli.commands.run.notes import notes_on_arguments, notes_on_assumed, notes_on_draws
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.parts import parting_facts, parting_numbers
from hlo_cli.commands.run.progress import shown_progress
from hlo_cli.commands.run.stubs import checked_stubs, feed_from
from hlo_cli.commands.shared.load import Loaded, input_facts, program_notes
from hlo_cli.ir import opcodes
from hlo_cli.ir.index_text import index_text
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic

_COLUMNS: Final = (
    Column("result", "result"),
    EXACT,
    WIDENED,
    VERDICT,
    Column("value", "value", "name"),
    Column("shape", "shape", "shape"),
)
_TINY: Final = 1e-4


def report_of_comparison(old: Loaded, new: Loaded, options: RunOptions, *, quiet: bool = False) -> Report:
    """Runs both with the same arguments, as the texts say and with every float as f64, and compares the results."""
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
    found, verdict, parting = compared.distances, compared.verdict, compared.first_difference
    root = new.module.entry.root
    assert root is not None
    leaves = dict(root.shape.leaves)
    rows = tuple(
        (
            index_text(each.index) if len(each.index) > 1 else str(each.index[0]) if each.index else "0",
            *distance_cells([each]),
            MEANING[each.verdict],
            root.operands[each.index[0]].name if root.opcode == opcodes.TUPLE and each.index else root.name,
            str(leaves[each.index]),
        )
        for each in sorted(found, key=lambda each: (-each.widened, -each.exact, each.index))
    )
    exact, widened = distance_cells(found)
    facts = () if parting is None else (parting_facts(parting, new.module),)
    return Report(
        "run",
        _answer(found, parting),
        version=1,
        numbers={
            "same": compared.is_same,
            "verdict": verdict,
            "results": len(found),
            "largest_exact": exact,
            "largest_widened": widened,
            **parting_numbers(parting),
        },
        parts=(
            *facts,
            Table("distances", _COLUMNS, rows, noun="results", title="Largest difference over largest magnitude"),
        ),
        notes=(
            Diagnostic("note", "widened: every float is an f64 that is never rounded"),
            *notes_on_arguments(options),
            *notes_on_draws(old.module, new.module),
            *notes_on_assumed(compared.assumed),
            *program_notes(old),
            *program_notes(new),
        ),
        input={"before": input_facts(old), "after": input_facts(new)},
    )


def _share(distance: float) -> str:
    """A relative difference, in percent if it is not tiny.

    >>> _share(0.069), _share(1e-7)
    ('6.9%', '1.0e-07')
    """
    return f"{100 * distance:.2g}%" if distance >= _TINY else f"{distance:.1e}"


def _answer(found: Sequence[Distance], parting: Parting | None) -> str:
    results = format_count(len(found), "results")
    worst = max((each.exact for each in found), default=0.0)
    wide = max((each.widened for each in found), default=0.0)
    first = "" if parting is None else f", first at {parting.instruction.name}"
    different = sum(each.verdict == "different" for each in found)
    match verdict_of(found):
        case "identical":
            return f"The same program: {results} identical"
        case "rounding":
            return f"The same program: {results} {_differ(len(found))} by rounding only, by {_share(worst)} at most"
        case "unknown":
            known = [each for each in found if each.is_known]
            if not known:
                return f"Not compared: the place of all {results} on devices is unknown"
            agree = "agrees" if len(known) == 1 else "agree"
            return f"{len(known):,} of {results} {agree}; the place of the others on devices is unknown"
        case "approximation":
            agree = "agrees" if len(found) == 1 else "agree"
            return f"{results} {agree} to {wide:.1e} without rounding: a constant or an approximation differs{first}"
        case _:
            return f"Not the same program: {different} of {results} {_differ(different)}{first}"


def _differ(count: int) -> str:
    return "differs" if count == 1 else "differ"
