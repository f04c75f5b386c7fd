"""`hlo run DIR --passes`: which compiler pass changes the numbers, from dumps of each pass."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hlo_cli.analysis.comparison.first_difference import FirstDifference
from hlo_cli.analysis.comparison.two_runs import compare_once, compare_runs, revealing_choices
from hlo_cli.analysis.comparison.verdict import Choice, Distance, Verdict, missing_in, verdict_of
from hlo_cli.analysis.evaluate.arguments import Ranges, argument_ranges
from hlo_cli.analysis.evaluate.host import Stub, check_outfeeds
from hlo_cli.analysis.evaluate.run import Run, run
from hlo_cli.analysis.semantics.typed_values import Array, Floats
from hlo_cli.commands.diff.passes import pass_dumps
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.run.arguments import arguments_of
from hlo_cli.commands.run.distances import EXACT, MEANING, VERDICT, WIDENED, distance_cells
from hlo_cli.commands.run.notes import notes_on_arguments
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.parts import difference_facts, difference_numbers
from hlo_cli.commands.run.stubs import feed_from, stubs_from
from hlo_cli.inputs.dumps import pass_between
from hlo_cli.inputs.input import read_inputs
from hlo_cli.ir.attributes.sharding import AnySharding
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input
from hlo_cli.render.progress import watched
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table
from hlo_cli.source import Diagnostic, HloError

_COLUMNS: Final = (
    Column("number", "", "line"),
    Column("pass", "pass", role="name"),
    EXACT,
    WIDENED,
    VERDICT,
    Column("stage", "stage", person=False),
)

_SAME: Final = ("rounding", "unknown")
_LISTED: Final = 3
"""The largest number of names in a sentence, so that it fits a line."""
_WRONG: Final = ("approximation", "different")
"""The verdicts that have a cause to look for."""

Pair = tuple[Run, Run]


def report_of_passes(
    arguments: Sequence[str], reading: InputOptions, options: RunOptions, *, quiet: bool = False
) -> Report:
    """One row for each pass after which the results differ from those before it, and the number of the others."""
    if len(arguments) != 1 or not os.path.isdir(arguments[0]):
        raise HloError(
            "--passes requires a directory of per-pass dumps",
            hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
        )
    found = _changes(arguments[0], reading, options, quiet=quiet)
    cause, count = found.cause, found.dumps - len(found.refused)
    missing = found.coverage.missing
    return Report(
        "run",
        _answer(count, found, missing, is_allowed=options.allow_uncovered),
        version=1,
        numbers={
            "dumps": count,
            "skipped": len(found.refused),
            "changing": sum(verdict != "unknown" for verdict in found.verdicts),
            "same": all(verdict in ("identical", "rounding") for verdict in found.verdicts)
            and (options.allow_uncovered or not missing),
            "argument_sets": 1 + len(found.coverage.choices),
            "not_run": found.coverage.missing,
            **(difference_numbers(None, None) if cause is None else difference_numbers(cause.difference, cause.new)),
        },
        parts=(
            Table("passes", _COLUMNS, tuple(found.rows), noun="passes"),
            *(() if cause is None else (difference_facts(cause.difference, cause.old, cause.new),)),
        ),
        notes=(
            Diagnostic("note", "widened: every float is an f64 that is never rounded"),
            *notes_on_arguments(options, sets=1 + len(found.coverage.choices)),
            *_skipped(found.refused),
        ),
        input={"path": arguments[0]},
    )


class _Changes(NamedTuple):
    """A row and a verdict for each pass that changes results, the dumps that were refused, and the first cause."""

    dumps: int
    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    refused: Sequence[tuple[str, HloError]]
    cause: _Cause | None
    coverage: _Coverage


def _changes(folder: str, reading: InputOptions, options: RunOptions, *, quiet: bool) -> _Changes:
    """Runs the dumps of a folder in order; HloError if none can be evaluated."""
    stubs, feed = stubs_from(options.stub), feed_from(options.feed)
    rows: list[Row] = []
    verdicts: list[Verdict] = []
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
            found = () if before is None or is_same else _compared(before, module, runs, options, stubs, feed, coverage)
        except HloError as error:
            refused.append((dump.stage, error))
            continue
        if before is not None:
            verdict = verdict_of(found)
            if verdict != "identical":
                number, name, _ = pass_between(before[2], dump.stage)
                rows.append((number, name, *distance_cells(found), MEANING[verdict], dump.stage))
                verdicts.append(verdict)
            if verdict in _WRONG and cause is None:
                cause = _cause(before[0], module, options, stubs, feed)
        before = before[0] if before is not None and is_same else module, runs, dump.stage
    if refused and before is None:
        raise refused[0][1]
    return _Changes(len(dumps), rows, verdicts, refused, cause, coverage)


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

    def also(self, module: Module, ran: frozenset[Computation]) -> None:
        """Adds what ran of a dump with other arguments."""
        self._ran[module] = self._ran.get(module, frozenset()) | ran

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the computations that did not run, in the last of the dumps that have them."""
        found = {each.name: each for module, ran in self._ran.items() for each in missing_in(module, ran)}
        return tuple(found)


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
    found: list[Distance] = []
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
        found += compared
        for each, its in zip((before[0], module), ran, strict=True):
            coverage.also(each, its)
    return tuple(found)


def _answer(count: int, found: _Changes, missing: Sequence[str], *, is_allowed: bool) -> str:
    dumps, rows, verdicts, cause = format_count(count, "pass dumps"), found.rows, found.verdicts, found.cause
    if missing and all(verdict in ("identical", "rounding") for verdict in verdicts):
        more = f" and {len(missing) - _LISTED} others" if len(missing) > _LISTED else ""
        never = f"{', '.join(missing[:_LISTED])}{more} never ran"
        if is_allowed:
            return f"{dumps} agree as far as they were compared, but {never}"
        return f"Not fully compared: {dumps} agree, but {never}"
    if not rows:
        return f"{dumps} have identical results"
    different = next((row for row, verdict in zip(rows, verdicts, strict=True) if verdict not in _SAME), None)
    if different is None:
        rounding = verdicts.count("rounding")
        changes = f"{format_count(rounding, 'passes')} {'changes' if rounding == 1 else 'change'} results"
        words = f"; {changes}, by rounding only" if rounding else ""
        if rounding == len(verdicts):
            return f"{dumps} are one program{words}"
        row = rows[verdicts.index("unknown")]
        return f"No differences in {dumps}, but the place of results on devices is unknown at {row[1]}{words}"
    first = "" if cause is None else f", first at {cause.difference.instruction.name}"
    return f"{dumps} are not one program: the results change at {different[1]}{first}"
