"""Do two modules compute the same, but for rounding, and where do they begin to differ? Also pass by pass."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hlo_cli.analysis.comparison.argument_sets import AGREEING, compare_once, revealing_choices
from hlo_cli.analysis.comparison.coverage import Choice, Coverage, missing_in
from hlo_cli.analysis.comparison.first_difference import DifferingValues, ExecutionValues, FirstDifference
from hlo_cli.analysis.comparison.two_runs import InvalidOrigin, RunComparison, compare_runs
from hlo_cli.analysis.comparison.verdict import ROUNDING, Distance, Verdict, verdict_of
from hlo_cli.analysis.evaluate.arguments import Ranges, argument_ranges
from hlo_cli.analysis.evaluate.host import Stub, check_outfeeds
from hlo_cli.analysis.evaluate.run import Run, Summary, run, summary_of
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, arrays_of
from hlo_cli.commands.diff.inputs import pass_dumps
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.run.argument_files import arguments_of, checked_stubs, feed_from, stubs_from
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.report import (
    notes_on_arguments,
    notes_on_assumed,
    notes_on_draws,
    result_label,
    result_name,
    shown_progress,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import PassName, pass_between
from hlo_cli.inputs.files import is_folder
from hlo_cli.inputs.input import read_inputs
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import AnySharding
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex
from hlo_cli.read_input import read_input
from hlo_cli.render.progress import watched
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Fact, Facts, Table, columns_of_part, rows_from
from hlo_cli.source import Diagnostic, HloError, Span

# --- distances in words ---
# How distances and verdicts read in tables.


MEANING: Final[dict[Verdict, str]] = {
    "identical": "identical",
    "rounding": "rounding",
    "overflow": "overflow by rounding",
    "uncovered": "not fully compared",
    "unknown": "placement unknown",
    "approximation": "constant or approximation",
    "discontinuity": "discontinuity",
    "different": "different",
}


def _distance_cells(distances: Sequence[Distance]) -> tuple[Cell, Cell]:
    """The largest exact and widened distance of those that are known; infinite ones as text, as JSON has no infinity.

    >>> _distance_cells([Distance((0,), 0.5, 0.25), Distance((1,), 0.0, float("inf"))])
    (0.5, 'inf')
    """
    known = [distance for distance in distances if distance.is_known]
    if distances and not known:
        return UNKNOWN, UNKNOWN
    exact, widened = (
        max(values, default=0.0)
        for values in ([distance.exact for distance in known], [distance.widened for distance in known])
    )
    return _number_cell(exact), _number_cell(widened)


def _distance_columns() -> tuple[Column[Sequence[Distance]], Column[Sequence[Distance]]]:
    """The largest distances of some results as both programs compute them, and without rounding."""
    return (
        Column("exact", "exact", "number", of=lambda distances: _distance_cells(distances)[0]),
        Column("widened", "widened", "number", of=lambda distances: _distance_cells(distances)[1]),
    )


def columns_of(distances: Sequence[Distance]) -> tuple[Column[Distance], ...]:
    """The distances of a result, the largest difference in ulp, the exact distance that rounding explains, and counts.

    Counts of NaN and Inf on both sides are for people only where there are some.
    """
    has_counts = any(any((*distance.nan, *distance.inf)) for distance in distances)
    return (
        *columns_of_part(_distance_columns(), lambda distance: [distance]),
        Column("ulp", "ulp", "number", of=lambda distance: _if_known(distance, _number_cell(distance.ulp))),
        Column(
            "rounding_bound",
            "expected",
            "number",
            from_width=120,
            of=lambda distance: _if_known(distance, None if distance.expected is None else distance.expected.bound),
        ),
        *(replace(column, person=has_counts) for column in _COUNTS),
    )


def _if_known(distance: Distance, cell: Cell) -> Cell:
    return cell if distance.is_known else UNKNOWN


_COUNTS: Final[tuple[Column[Distance], ...]] = (
    Column("nan_before", "before", "count", group="NaN", of=lambda distance: _if_known(distance, distance.nan[0])),
    Column(
        "nan_after",
        "after",
        "count",
        group="NaN",
        like="nan_before",
        of=lambda distance: _if_known(distance, distance.nan[1]),
    ),
    Column("inf_before", "before", "count", group="Inf", of=lambda distance: _if_known(distance, distance.inf[0])),
    Column(
        "inf_after",
        "after",
        "count",
        group="Inf",
        like="inf_before",
        of=lambda distance: _if_known(distance, distance.inf[1]),
    ),
)


def _number_cell(distance: float) -> Cell:
    """A number; infinity as text, as JSON has none."""
    return distance if distance < float("inf") else "inf"


# --- where two programs differ ---
# The parts of a comparison on where two programs begin to differ.


_LONGEST_VALUE: Final = 40  # a constant in a line with its name and shape


def _difference_facts(difference: FirstDifference, old: Module, new: Module) -> Part:
    """The instruction, where it is, what it is called by, and why it is named."""
    instruction = difference.instruction
    location = new.location(instruction)
    facts = [
        Fact("instruction", (), _line(instruction), is_whole=True),
        *_place_fact("at", instruction, new),
        *([Fact("in", (), _callers(difference), is_whole=True)] if difference.callers else []),
        *([Fact("device", (), str(difference.place.device))] if difference.place.device else []),
        *([Fact("execution", (), f"{difference.execution:,}, from 0")] if difference.execution else []),
        Fact("evidence", (), _evidence_of(difference), is_whole=True),
        *([Fact("counterpart", (), _line(difference.counterpart), is_whole=True)] if difference.counterpart else []),
        *(_place_fact("its place", difference.counterpart, old) if difference.counterpart is not None else []),
        *([Fact("op_name", (), instruction.metadata.op_name)] if instruction.metadata.op_name else []),
        *([Fact("source", (), str(location))] if location is not None else []),
    ]
    return Facts("first_difference", tuple(facts), title="First instruction that differs")


def _evidence_of(difference: FirstDifference) -> str:
    """Why the instruction is named, and how certain that is."""
    match difference.evidence:
        case "operands":
            return "the first module computes another value from the same operands"
        case "repair":
            where = "" if difference.repair.endswith(" after it") else " in its place"
            return f"with {difference.repair}{where}, all results agree"
        case "counterpart":
            return "the operands are right, and the value of its counterpart is missing; one of its users may be wrong"
        case _:
            return "the operands are right, and the first module does not have its value; one of its users may be wrong"


def _difference_numbers(difference: FirstDifference | None, new: Module | None) -> dict[str, Cell]:
    """The same for programs."""
    if difference is None or new is None:
        return {"first_difference": None}
    instruction, other = difference.instruction, difference.counterpart
    span = instruction.span
    position = new.source.position(span.start) if span is not None else None
    location = new.location(instruction)
    return {
        "first_difference": {
            "instruction": instruction.name,
            "computation": instruction.computation.name,
            "opcode": instruction.opcode,
            "operands": tuple(operand.name for operand in instruction.operands),
            "line": None if position is None else position.line,
            "column": None if position is None else position.column,
            "device": difference.place.device,
            "execution": difference.execution,
            "callers": tuple(caller.name for caller in difference.callers),
            "iterations": difference.iterations,
            "evidence": difference.evidence,
            "repair": difference.repair or None,
            "counterpart": None if other is None else other.name,
            "counterpart_opcode": None if other is None else other.opcode,
            "op_name": instruction.metadata.op_name or None,
            "source": None if location is None else str(location),
        }
    }


def _difference_mark(difference: FirstDifference, new: Module) -> Diagnostic:
    """The line of the instruction with its opcode marked, and the reason."""
    instruction = difference.instruction
    span = instruction.span
    if span is not None:
        offset = new.source.text.find(f"{instruction.opcode}(", span.start)
        end = new.source.text.find("\n", span.start)
        if offset >= 0 and (end < 0 or offset < end):
            span = Span(offset, offset + len(instruction.opcode))
    return Diagnostic(
        "warning",
        f"{instruction.name} is the first instruction that differs: {_evidence_of(difference)}",
        new.source,
        span,
        instruction=instruction.name,
        computation=instruction.computation.name,
    )


def _values_table(values: DifferingValues) -> Table:
    """What goes into the instruction and comes out, in both modules, without rounding."""
    value_rows = [
        value
        for module, side in (("first", values.old), ("second", values.new))
        if side is not None
        for value in _operands_and_result(module, side)
    ]
    rows = rows_from(_VALUES, value_rows)
    title = "Operands and results, widened"
    return Table("first_difference_values", _VALUES, rows, noun="values", title=title, main=False)


@dataclass(frozen=True, slots=True)
class _OneValue:
    """An array that goes into an instruction or comes out, in one of the modules."""

    side: str
    role: str
    name: str
    shape: str
    summary: Summary


_VALUES: Final[tuple[Column[_OneValue], ...]] = (
    Column("side", "module", of=lambda value: value.side),
    Column("value_role", "role", of=lambda value: value.role),
    Column("value", "value", "name", of=lambda value: value.name),
    Column("shape", "shape", "shape", of=lambda value: value.shape),
    Column("least", "least", "number", of=lambda value: value.summary.least),
    Column("most", "most", "number", of=lambda value: value.summary.most),
    Column("mean", "mean", "number", of=lambda value: value.summary.mean),
    Column("rms", "rms", "number", from_width=120, of=lambda value: value.summary.rms),
    Column("nan", "NaN", "count", role="alarm", of=lambda value: value.summary.nan),
    Column("inf", "Inf", "count", role="alarm", of=lambda value: value.summary.inf),
    Column("first", "first elements", from_width=120, of=lambda value: value.summary.first_text),
)


def _operands_and_result(module: str, values: ExecutionValues) -> Iterator[_OneValue]:
    instruction = values.place.instruction
    for index, (operand, value) in enumerate(zip(instruction.operands, values.operands, strict=True)):
        if not instruction.operand_index(index):
            yield from _values(module, f"operand {index}", operand.name, value, operand.shape)
    yield from _values(module, "result", instruction.name, values.result, instruction.shape)


def _values(module: str, role: str, name: str, value: Value, shape: Shape) -> Iterator[_OneValue]:
    for index, array, leaf in arrays_of(value, shape):
        yield _OneValue(module, role, f"{name}{index_text(index)}" if index else name, str(leaf), summary_of(array))


def _line(instruction: Instruction) -> str:
    operands = ", ".join(operand.name for operand in instruction.operands)
    if instruction.opcode == opcodes.CONSTANT:
        value = instruction.raw[0]
        operands = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    return f"{instruction.name} = {instruction.shape} {instruction.opcode}({operands})"


def _place_fact(label: str, instruction: Instruction, module: Module) -> list[Fact]:
    if instruction.span is None:
        return [Fact(label, (), instruction.computation.name)]
    position = module.source.position(instruction.span.start)
    name = module.source.name or "-"
    return [Fact(label, (), f"{name}:{position.line}:{position.column}", is_whole=True)]


def _callers(difference: FirstDifference) -> str:
    words = []
    for caller, iteration in zip(difference.callers, difference.iterations, strict=True):
        words.append(f"{caller.name} (iteration {iteration:,})" if caller.opcode == opcodes.WHILE else caller.name)
    return " > ".join(words)


# --- two modules ---
# `hlo run OLD --against NEW`: whether two modules compute the same, but for rounding.


_TINY: Final = 1e-4  # below a hundredth of a percent, an exponent is easier to read
_LISTED: Final = 3
"""The largest number of names in a sentence, so that it fits a line."""


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
    distances, difference = compared.distances, compared.first_difference
    report = Report(
        "run",
        _against_answer(compared, options.seed),
        version=1,
        numbers=_numbers(compared, new.module),
        parts=(
            *(() if difference is None else (_difference_facts(difference, old.module, new.module),)),
            *(() if compared.values is None else (_values_table(compared.values),)),
            _distances_table(compared, new.module),
            *_missing_table(compared.coverage, (old.module, new.module)),
        ),
        next=() if difference is None else _next(old, new, difference),
        notes=(
            *_notes_on_tolerance(distances),
            *_notes_on_nan(compared, new.module),
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
    return report, None if difference is None else _difference_mark(difference, new.module)


def _numbers(compared: RunComparison, new: Module) -> dict[str, Cell]:
    distances = compared.distances
    exact, widened = _distance_cells(distances)
    return {
        "same": compared.is_same,
        "verdict": compared.verdict,
        "results": len(distances),
        "largest_exact": exact,
        "largest_widened": widened,
        "largest_ulp": _number_cell(max((distance.ulp for distance in distances), default=0.0)),
        "nan": tuple(sum(distance.nan[side] for distance in distances) for side in (0, 1)),
        "inf": tuple(sum(distance.inf[side] for distance in distances) for side in (0, 1)),
        "tolerance": ROUNDING,
        **_coverage_numbers(compared.coverage),
        "other_seeds": {str(seed): _number_cell(apart) for seed, apart in (compared.other_seeds or {}).items()},
        **_difference_numbers(compared.first_difference, new),
    }


def _distances_table(compared: RunComparison, new: Module) -> Table:
    """A row for each result; one with elements that were never compared is not called identical."""
    root = new.entry.root
    assert root is not None
    leaves, uncompared = dict(root.shape.leaves), compared.coverage.uncompared

    def verdict(distance: Distance) -> str:
        return MEANING[
            "uncovered" if distance.verdict in AGREEING and distance.index in uncompared else distance.verdict
        ]

    columns: tuple[Column[Distance], ...] = (
        Column("result", "result", of=lambda distance: result_label(distance.index)),
        *columns_of(compared.distances),
        Column("verdict", "verdict", of=verdict),
        Column("value", "value", "name", of=lambda distance: result_name(root, distance.index)),
        Column("shape", "shape", "shape", of=lambda distance: str(leaves[distance.index])),
    )
    ranked = sorted(compared.distances, key=lambda distance: (-distance.widened, -distance.exact, distance.index))
    title = "Largest relative difference"
    return Table("distances", columns, rows_from(columns, ranked), noun="results", title=title)


def _notes_on_tolerance(distances: Sequence[Distance]) -> tuple[Diagnostic, ...]:
    """What counts as rounding, and which results exceed what is expected of it."""
    words = f"widened: every float is an f64 that is never rounded; differences up to {ROUNDING:g} are rounding"
    amplified = sum(distance.is_amplified for distance in distances)
    if not amplified:
        return (Diagnostic("note", words),)
    count = format_count(amplified, "results")
    more = f"{count} {verb(amplified, 'differs', 'differ')} by more than the (4 + √terms) · u that rounding explains"
    return Diagnostic("note", words), Diagnostic("note", more)


def _notes_on_nan(compared: RunComparison, new: Module) -> tuple[Diagnostic, ...]:
    """Which elements are NaN in both modules with all arguments, and so are not compared, or agree as constants do."""
    if not compared.coverage.uncompared:
        kept, root = compared.coverage.kept_nan, new.entry.root
        if not kept or root is None:
            return ()
        all_ = sum(leaf.elements for _, leaf in root.shape.leaves if isinstance(leaf, ArrayShape))
        words = f"numbers were compared in {all_ - kept:,} of {format_count(all_, 'elements')} of the results"
        return (Diagnostic("note", f"{words}; the others are NaN in both modules, which constants make"),)
    listed = ", ".join(map(result_label, compared.coverage.uncompared[:_LISTED]))
    more = len(compared.coverage.uncompared) - _LISTED
    words = f"elements of result {listed}{f' and {more} others' if more > 0 else ''} are not compared: they are NaN in "
    return (Diagnostic("note", f"{words}both modules, or absent, with all arguments"),)


def _notes_on_unmet(compared: RunComparison) -> tuple[Diagnostic, ...]:
    """The comparisons whose operands were never equal, if results agree: what they do then was not looked at."""
    names = list(dict.fromkeys(instruction.name for instruction in compared.coverage.unmet))
    if not names or compared.verdict_on_results not in AGREEING:
        return ()
    return (
        Diagnostic(
            "note", f"{_listed(names)} never compared equal operands, so LT for LE, or GT for GE, would not be noticed"
        ),
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return f"{', '.join(names[:_LISTED])}{f' and {more} others' if more > 0 else ''}"


def _notes_on_arguments(compared: RunComparison, options: RunOptions) -> tuple[Diagnostic, ...]:
    """With which arguments the reported results were computed."""
    choice = compared.choice
    if choice is None:
        return notes_on_arguments(options, sets=compared.coverage.argument_sets)
    changed = "" if choice.words == f"seed {choice.seed}" else f": {choice.words}"
    words = f"results agree for the random arguments of seed {options.seed}"
    words += f"; shown are those for set {choice.number + 1} of seed {choice.seed}{changed}"
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
    sides = [{id(computation) for computation in module.computations} for module in modules]
    columns = (
        Column("side", "module", of=lambda computation: "first" if id(computation) in sides[0] else "second"),
        Column("computation", "computation", "name", of=lambda computation: computation.name),
        Column("caller", "caller", "name", of=lambda computation: _caller_of(computation, modules)),
    )
    rows = rows_from(columns, coverage.missing)
    title = "Computations that did not run"
    return (Table("not_run", columns, rows, noun="computations", title=title, main=False),)


def _caller_of(computation: Computation, modules: Sequence[Module]) -> str | None:
    callers = (
        instruction
        for module in modules
        for other in module.computations
        for instruction in other.instructions
        if computation in instruction.called_computations
    )
    caller = next(callers, None)
    return None if caller is None else f"{caller.opcode} {caller.name}"


def _coverage_numbers(coverage: Coverage) -> dict[str, Cell]:
    """The coverage for programs."""
    return {
        "computations": coverage.computations,
        "computations_run": coverage.ran,
        "argument_sets": coverage.argument_sets,
        "not_run": tuple(computation.name for computation in coverage.missing),
        "uncompared_results": tuple(map(result_label, coverage.uncompared)),
        "unmet_comparisons": tuple(dict.fromkeys(instruction.name for instruction in coverage.unmet)),
        "undecided_comparisons": tuple(new.name for _, new in coverage.undecided),
        "endless": coverage.endless and coverage.endless[0],
    }


def _coverage_words(coverage: Coverage) -> str:
    """The coverage in a few words; each set of made-up arguments has a seed.

    >>> _coverage_words(Coverage(6, 6, 2)), _coverage_words(Coverage(1, 1, 1))
    ('6 of 6 computations ran, 2 seeds', '1 of 1 computation ran, 1 seed')
    >>> _coverage_words(Coverage(1, 1, 1, is_given=True))
    '1 of 1 computation ran, with the given arguments only'
    """
    ran = f"{coverage.ran:,} of {format_count(coverage.computations, 'computations')} ran"
    if coverage.is_given:
        return f"{ran}, with the given arguments only"
    return f"{ran}, {format_count(coverage.argument_sets, 'seeds')}"


def _next(old: Loaded, new: Loaded, difference: FirstDifference) -> tuple[str, ...]:
    paths = [shlex.quote(side.input.path or "-") for side in (old, new)]
    name = shlex.quote(difference.place.instruction.name)
    stage = f" --stage {new.input.stage}" if paths[0] == paths[1] and new.input.stage else ""
    commands = [f"hlo run {paths[1]}{stage} --at {name}"]
    if paths[0] != paths[1]:
        commands.append(f"hlo diff {paths[0]} {paths[1]}")
    return tuple(commands)


def _share(distance: float) -> str:
    """A relative difference, in percent if it is not tiny.

    >>> _share(0.069), _share(1e-7)
    ('6.9%', '1.0e-07')
    """
    return f"{100 * distance:.2g}%" if distance >= _TINY else f"{distance:.1e}"


def _uncovered(compared: RunComparison) -> str:
    """What was not compared: computations that never ran, by name, elements of results, or equal operands."""
    coverage = compared.coverage
    names = list(dict.fromkeys(computation.name for computation in coverage.missing))
    if names:
        return f"{_listed(names)} never ran ({_coverage_words(coverage)})"
    if coverage.uncompared:
        count = len(coverage.uncompared)
        verb_ = verb(count, "has", "have")
        return (
            f"{format_count(count, 'results')} {verb_} elements that were never compared ({_coverage_words(coverage)})"
        )
    if coverage.endless:
        side, choice = coverage.endless
        return f"the {side} module alone does not finish with {choice.words} ({_coverage_words(coverage)})"
    old, new = coverage.undecided[0]
    directions = f"{new.attribute('direction')} in place of {old.attribute('direction')}"
    others = len(coverage.undecided) - 1
    more = f" (and {format_count(others, 'comparisons')} like it)" if others else ""
    return f"{new.name} is {directions}{more} and never compared equal operands ({_coverage_words(coverage)})"


def _same(compared: RunComparison) -> str:
    return "The same program" if compared.coverage.is_whole else "The same program as far as it was compared"


def _covered(compared: RunComparison) -> str:
    """The end of an answer: the coverage, and what was not compared even if `--allow-uncovered` accepts that."""
    return f" ({_coverage_words(compared.coverage)})" if compared.coverage.is_whole else f", but {_uncovered(compared)}"


def _against_answer(compared: RunComparison, seed: int) -> str:
    distances, difference = compared.distances, compared.first_difference
    results = format_count(len(distances), "results")
    worst = max((distance.exact for distance in distances), default=0.0)
    wide = max((distance.widened for distance in distances), default=0.0)
    first = "" if difference is None else f", first at {difference.instruction.name}"
    different = sum(distance.verdict == "different" for distance in distances)
    match compared.verdict:
        case "identical" if not distances:
            return "Nothing to compare: the modules have no results"
        case "identical":
            return f"{_same(compared)}: {results} identical{_covered(compared)}"
        case "rounding":
            # The others are identical, as the table says of each.
            rounded = sum(distance.verdict != "identical" for distance in distances)
            some = results if rounded == len(distances) else f"{rounded:,} of {results}"
            apart = f"{verb(rounded, 'differs', 'differ')} by rounding only, by {_share(worst)} at most"
            apart += " with these arguments"
            return f"{_same(compared)}: {some} {apart}{_covered(compared)}"
        case "uncovered":
            return (
                f"Not fully compared: {results} {verb(len(distances), 'agrees', 'agree')}, but {_uncovered(compared)}"
            )
        case "overflow":
            count = sum(distance.verdict == "overflow" for distance in distances)
            which = f"{count:,} of {results} {verb(count, 'has', 'have')} NaN or Inf in one module only"
            if compared.invalid_origin is not None:
                return f"{_invalid_words(compared.invalid_origin)}; without rounding, both agree{_covered(compared)}"
            return f"{_same(compared)} without rounding; with it, {which}{_covered(compared)}"
        case "unknown":
            known = [distance for distance in distances if distance.is_known]
            if not known:
                return f"Not compared: the place of {results} on devices is unknown"
            agree = "agrees" if len(known) == 1 else "agree"
            return f"{len(known):,} of {results} {agree}; the place of the others on devices is unknown"
        case "approximation":
            agree = "agrees" if len(distances) == 1 else "agree"
            if compared.invalid_origin is not None:
                # What cancels enlarges all that differs, the rounding of f64 too: no constant need be the cause.
                return f"{_invalid_words(compared.invalid_origin)}; without rounding, {results} {agree} to {wide:.1e}"
            return f"{results} {agree} to {wide:.1e} without rounding: a constant or an approximation differs{first}"
        case "discontinuity":
            others = " and ".join(map(str, compared.other_seeds or ()))
            words = f"{different} of {results} {verb(different, 'differs', 'differ')} with seed {seed}{first}"
            return f"{words}; with seeds {others}, all results agree"
        case _:
            return f"Not the same program: {different} of {results} {verb(different, 'differs', 'differ')}{first}"


def _invalid_words(origin: InvalidOrigin) -> str:
    """Which module makes how many NaN or infinite elements, and where, in the words of the other tables."""
    kind = {"nan": "NaN", "inf": "Inf"}[origin.wanted]
    this, other = ("second", "first") if origin.module else ("first", "second")
    words = f"The {this} module makes {origin.count:,} {kind} that the {other} does not"
    if origin.maker is None:
        return words
    words += f", first at {origin.maker.name}"
    return words if origin.sign_operand is None else f"{words} ({origin.sign_operand.name} is negative by rounding)"


# --- --passes: the pass that changes numbers ---
# `hlo run DIR --passes`: which compiler pass changes the numbers, from dumps of each pass.


_SAME: Final = ("rounding", "unknown")
_WRONG: Final = ("approximation", "different")
"""The verdicts that have a cause to look for."""

Pair = tuple[Run, Run]


def report_of_passes(
    arguments: Sequence[str], reading: InputOptions, options: RunOptions, *, quiet: bool = False
) -> Report:
    """One row for each pass after which the results differ from those before it, and the number of the others."""
    if len(arguments) != 1 or not is_folder(arguments[0]):
        raise HloError(
            "--passes requires a directory of per-pass dumps",
            hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
        )
    changes = _changes(arguments[0], reading, options, quiet=quiet)
    cause, count = changes.cause, changes.dumps - len(changes.refused)
    missing = changes.coverage.missing
    left = _never_compared(missing, len(changes.coverage.uncompared))
    return Report(
        "run",
        _passes_answer(count, changes, left, is_allowed=options.allow_uncovered),
        version=1,
        numbers={
            "dumps": count,
            "skipped": len(changes.refused),
            "changing": sum(change.verdict != "unknown" for change in changes.passes),
            "same": all(change.verdict in ("identical", "rounding") for change in changes.passes)
            and (options.allow_uncovered or not left),
            "argument_sets": 1 + len(changes.coverage.choices),
            "not_run": changes.coverage.missing,
            "uncompared_results": tuple(map(result_label, changes.coverage.uncompared)),
            **(_difference_numbers(None, None) if cause is None else _difference_numbers(cause.difference, cause.new)),
        },
        parts=(
            Table("passes", _PASS_COLUMNS, rows_from(_PASS_COLUMNS, changes.passes), noun="passes"),
            *(() if cause is None else (_difference_facts(cause.difference, cause.old, cause.new),)),
        ),
        notes=(
            Diagnostic("note", "widened: every float is an f64 that is never rounded"),
            *notes_on_arguments(options, sets=1 + len(changes.coverage.choices)),
            *_skipped(changes.refused),
        ),
        input={"path": arguments[0]},
    )


@dataclass(frozen=True, slots=True)
class _PassChange:
    """A pass that changes results, with their distances."""

    name: PassName
    stage: str
    distances: Sequence[Distance]
    verdict: Verdict


_PASS_COLUMNS: Final[tuple[Column[_PassChange], ...]] = (
    Column("number", "", "line", of=lambda change: change.name.number),
    Column("pass", "pass", role="name", of=lambda change: change.name.name),
    *columns_of_part(_distance_columns(), lambda change: change.distances),
    Column("verdict", "verdict", of=lambda change: MEANING[change.verdict]),
    Column("stage", "stage", person=False, of=lambda change: change.stage),
)


class _Changes(NamedTuple):
    """Each pass that changes results, the dumps that were refused, and the first cause."""

    dumps: int
    passes: Sequence[_PassChange]
    refused: Sequence[tuple[str, HloError]]
    cause: _Cause | None
    coverage: _Coverage


def _changes(folder: str, reading: InputOptions, options: RunOptions, *, quiet: bool) -> _Changes:
    """Runs the dumps of a folder in order; HloError if none can be evaluated."""
    stubs, feed = stubs_from(options.stub), feed_from(options.feed)
    passes: list[_PassChange] = []
    refused: list[tuple[str, HloError]] = []
    chosen: AnySharding | None = None
    first: Module | None = None
    before: tuple[Module, Pair, str] | None = None
    coverage = _Coverage(options)
    cause: _Cause | None = None
    dumps = pass_dumps(folder, reading)
    for file_name, dump in watched(dumps, len(dumps), "pass dumps", quiet=quiet):
        module = read_input(read_inputs([os.path.join(folder, file_name)])[0])
        chosen = _root_sharding(module) or chosen
        if module.spmd_output_sharding is None:
            module.spmd_output_sharding = chosen
        if module.program is None and first is not None:
            module.program = first
        first = coverage.begin(first or module)
        try:
            is_same = before is not None and _body(before[0]) == _body(module)
            runs = before[1] if before is not None and is_same else _runs(module, options, stubs, feed, coverage.ranges)
            coverage.add(module, runs, is_same=is_same)
            distances = (
                () if before is None or is_same else _compared(before, module, runs, options, stubs, feed, coverage)
            )
        except HloError as error:
            refused.append((dump.stage, error))
            continue
        if before is not None:
            verdict = verdict_of(distances)
            if verdict != "identical":
                passes.append(_PassChange(pass_between(before[2], dump.stage), dump.stage, distances, verdict))
            if verdict in _WRONG and cause is None:
                cause = _cause(before[0], module, options, stubs, feed)
        before = before[0] if before is not None and is_same else module, runs, dump.stage
    if refused and before is None:
        raise refused[0][1]
    return _Changes(len(dumps), passes, refused, cause, coverage)


class _Cause(NamedTuple):
    """The first instruction that differs between the dumps before and after the first pass that changes results."""

    difference: FirstDifference
    old: Module
    new: Module


def _cause(
    old: Module, new: Module, options: RunOptions, stubs: Mapping[str, Stub], feed: Sequence[Array] | None
) -> _Cause | None:
    """None if no instruction can be shown to be the cause, or both modules together exceed the limits."""
    try:
        compared = compare_runs(
            old,
            new,
            arguments_of(options, old),
            seed=options.seed,
            devices=options.devices,
            limits=options.limits,
            stubs=stubs,
            feed=feed,
        )
    except HloError:
        return None
    difference = compared.first_difference
    return None if difference is None else _Cause(difference, old, new)


def _root_sharding(module: Module) -> AnySharding | None:
    """The sharding of the result, which dumps state from its propagation up to the partitioner."""
    root = module.entry.root
    return None if root is None else root.sharding


def _body(module: Module) -> str:
    """The text without its header, which names the dump."""
    return module.source.text.partition("\n")[2]


def _skipped(refused: Sequence[tuple[str, HloError]]) -> tuple[Diagnostic, ...]:
    """A note on dumps that cannot be evaluated, with the first reason."""
    if not refused:
        return ()
    stage, error = refused[0]
    verb = "was" if len(refused) == 1 else "were"
    words = f"{format_count(len(refused), 'pass dumps')} {verb} skipped; {stage}: {error.diagnostic.message}"
    return (Diagnostic("note", words),)


def _runs(
    module: Module, options: RunOptions, stubs: Mapping[str, Stub], feed: Sequence[Array] | None, ranges: Ranges
) -> Pair:
    arguments = arguments_of(options, module)
    check_outfeeds(module)

    def run_of(floats: Floats) -> Run:
        return run(
            module,
            arguments,
            seed=options.seed,
            floats=floats,
            devices=options.devices,
            limits=options.limits,
            stubs=stubs,
            feed=feed,
            ranges=ranges,
        )

    return run_of("exact"), run_of("widen")


class _Coverage:
    """The argument sets that run all computations of the first dump, and the names of what never ran in any dump."""

    def __init__(self, options: RunOptions) -> None:
        self.choices: tuple[Choice, ...] = ()
        self.ranges: Ranges = {}
        self._options = options
        self._ran: dict[Module, frozenset[Computation]] = {}
        self.uncompared: tuple[ShapeIndex, ...] = ()
        """The results with elements that no arguments compared with those of the dump before; of the dump with most."""

    def begin(self, first: Module) -> Module:
        """The first dump, whose needs decide on the arguments of all."""
        self.ranges = argument_ranges(first)
        return first

    def add(self, module: Module, runs: Pair, *, is_same: bool) -> None:
        """Adds a dump with its runs, unless it is the same as the one before."""
        if is_same:
            return
        ran = runs[0].ran | runs[1].ran
        if not self._ran and not self._options.args:
            self.choices = revealing_choices(
                module, ran, seed=self._options.seed, limits=self._options.limits, before=runs[1].executed
            )
        self.also(module, ran)

    def compared(self, sets: Sequence[Sequence[Distance]]) -> None:
        """Adds the distances of a dump to the one before, for each set of arguments."""
        results = [each for each in zip(*sets, strict=True) if all(distance.uncompared for distance in each)]
        self.uncompared = max(self.uncompared, tuple(each[0].index for each in results), key=len)

    def also(self, module: Module, ran: frozenset[Computation]) -> None:
        """Adds what ran of a dump with other arguments."""
        self._ran[module] = self._ran.get(module, frozenset()) | ran

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the computations that did not run, in the last of the dumps that have them."""
        missing = {
            computation.name: computation
            for module, ran in self._ran.items()
            for computation in missing_in(module, ran)
        }
        return tuple(missing)


def _compared(
    before: tuple[Module, Pair, str],
    module: Module,
    runs: Pair,
    options: RunOptions,
    stubs: Mapping[str, Stub],
    feed: Sequence[Array] | None,
    coverage: _Coverage,
) -> tuple[Distance, ...]:
    """The distances of a dump to the one before, with all sets of arguments."""
    old_root, new_root = before[0].entry.root, module.entry.root
    assert old_root is not None
    assert new_root is not None
    if sum(1 for _ in old_root.shape.leaves) != sum(1 for _ in new_root.shape.leaves):
        raise HloError(f"the number of results changes between {before[2]} and the next dump")
    (exact, widened), (new_exact, new_widened) = before[1], runs
    distances: list[Sequence[Distance]] = []
    for choice in (None, *coverage.choices):
        try:
            compared, ran = compare_once(
                before[0],
                module,
                None if choice is not None else arguments_of(options, module),
                seed=options.seed,
                devices=options.devices,
                limits=options.limits,
                is_rewrite=exact.unknown == new_exact.unknown,
                stubs=stubs,
                feed=feed,
                choice=choice,
                ranges=coverage.ranges,
                runs=((exact, new_exact), (widened, new_widened)) if choice is None else None,
            )
        except HloError:
            if choice is None:
                raise
            continue  # a loop that ends in the first dump may be too long in this one
        distances.append(compared)
        for dump_module, its in zip((before[0], module), ran, strict=True):
            coverage.also(dump_module, its)
    coverage.compared(distances)
    return tuple(distance for each in distances for distance in each)


def _never_compared(missing: Sequence[str], uncompared: int) -> str:
    """What no arguments compared: computations by name, or elements of results; empty if there is nothing.

    >>> _never_compared(("f", "g"), 1), _never_compared((), 1)
    ('f, g never ran', '1 result has elements that are NaN with all arguments')
    """
    if missing:
        more = f" and {len(missing) - _LISTED} others" if len(missing) > _LISTED else ""
        return f"{', '.join(missing[:_LISTED])}{more} never ran"
    if not uncompared:
        return ""
    has = verb(uncompared, "has", "have")
    return f"{format_count(uncompared, 'results')} {has} elements that are NaN with all arguments"


def _passes_answer(count: int, changes: _Changes, left: str, *, is_allowed: bool) -> str:
    dumps, passes, verdicts, cause = (
        format_count(count, "pass dumps"),
        changes.passes,
        [pass_.verdict for pass_ in changes.passes],
        changes.cause,
    )
    if left and all(verdict in ("identical", "rounding") for verdict in verdicts):
        if is_allowed:
            return f"{dumps} agree as far as they were compared, but {left}"
        return f"Not fully compared: {dumps} agree, but {left}"
    if not passes:
        return f"{dumps} have identical results"
    different = next((change for change in passes if change.verdict not in _SAME), None)
    if different is None:
        rounding = verdicts.count("rounding")
        count_words = f"{format_count(rounding, 'passes')} {'changes' if rounding == 1 else 'change'} results"
        words = f"; {count_words}, by rounding only" if rounding else ""
        if rounding == len(verdicts):
            return f"{dumps} are one program{words}"
        unknown = passes[verdicts.index("unknown")]
        return (
            f"No differences in {dumps}, but the place of results on devices is unknown at {unknown.name.name}{words}"
        )
    first = "" if cause is None else f", first at {cause.difference.instruction.name}"
    return f"{dumps} are not one program: the results change at {different.name.name}{first}"
