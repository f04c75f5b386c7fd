"""What did a run compute? Its results, a value in every iteration, the first NaN, and the progress until then."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, TypeAlias

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.arguments import MAX_INTEGER, argument_ranges, npz_bytes
from hlo_cli.analysis.evaluate.devices import runs_on_devices
from hlo_cli.analysis.evaluate.limits import estimate, work_of
from hlo_cli.analysis.evaluate.run import (
    Execution,
    Occurrence,
    Probe,
    Run,
    Summary,
    Track,
    Watch,
    count_of,
    stacked,
    summary_of,
)
from hlo_cli.analysis.evaluate.settings import PROBES
from hlo_cli.analysis.semantics.elementwise import UNSTATED_DRAWS
from hlo_cli.analysis.semantics.typed_values import arrays_of
from hlo_cli.analysis.sharding.meshes import devices_of
from hlo_cli.commands.modules.instruction_tables import source_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import MATMULS, NO_KERNELS
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.render.progress import counted
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, columns_of_part, rows_from, rows_from_tuples
from hlo_cli.source import Diagnostic

# --- progress ---
# Progress of a run on a terminal: what is expected, said before it starts, and the executed instructions.


_SECONDS_PER_PRODUCT: Final = 1e-10  # numpy multiplies matrices with BLAS
_SECONDS_PER_OPERATION: Final = 2e-9  # elementwise, bound by memory
_SECONDS_PER_EXECUTION: Final = 8e-6  # what an instruction costs in Python, however small its arrays
_SECONDS_PER_INSTRUCTION: Final = 8e-5
"""Multiplications of dots and convolutions, other scalar operations, executed instructions, and those of the text.

Fitted to the processor time of 115 runs of dumps of CPU, GPU, and TPU on one thread: the 13 that took 0.5 to 6
seconds are expected to take 0.6 to 1.5 times that.
"""


def shown_progress(
    modules: Sequence[Module], *, runs: int = 1, quiet: bool = False
) -> AbstractContextManager[Callable[[int], None] | None]:
    """The function that shows progress while the modules run, each of them `runs` times; None without a terminal."""
    return counted("executed instructions", expect=lambda: expectation(modules, runs), quiet=quiet)


def expectation(modules: Sequence[Module], runs: int = 1) -> str:
    """What the runs take, in one sentence if that is more than a second, else nothing.

    >>> from hlo_cli import parse_module
    >>> expectation([parse_module("r = f32[20000,20000] negate(f32[20000,20000] a)")], 2)
    'Evaluating 8.0e+08 scalar operations, in about 2 s'
    >>> expectation([parse_module("r = f32[8] negate(f32[8] a)")])
    ''
    """
    sound = [module for module in modules if not module.errors]
    seconds = runs * sum(map(_seconds, sound))
    if seconds <= 1:
        return ""
    estimates = [estimate(module) for module in sound]
    operations = runs * sum(estimate.operations for estimate in estimates)
    least = "at least " if any(estimate.is_bound for estimate in estimates) else "about "
    return f"Evaluating {operations:.1e} scalar operations, in {least}{seconds:,.0f} s"


def _seconds(module: Module) -> float:
    """The processor time that a run of a module takes on all of its devices."""
    seconds, instructions = 0.0, 0
    for computation, execution in executions_of(module).items():
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode in NO_KERNELS:
                continue
            instructions += 1
            seconds += execution.count * _SECONDS_PER_EXECUTION
            per_operation = _SECONDS_PER_PRODUCT if opcode in MATMULS else _SECONDS_PER_OPERATION
            seconds += work_of(instruction).operations * execution.count * per_operation
    devices = devices_of(module).count if runs_on_devices(module) else 1
    return seconds * devices + instructions * _SECONDS_PER_INSTRUCTION


# --- names of results ---
# How results are called in tables: their index, and the instruction that makes them.


def result_label(index: ShapeIndex) -> str:
    """The number of a result; the index of one in nested tuples.

    >>> result_label(()), result_label((3,)), result_label((1, 0))
    ('0', '3', '{1,0}')
    """
    return index_text(index) if len(index) > 1 else str(index[0]) if index else "0"


def result_name(root: Instruction, index: ShapeIndex) -> str:
    """The name of the instruction that makes a result: the operand of a tuple, or the root."""
    return root.operands[index[0]].name if root.opcode == opcodes.TUPLE and index else root.name


# --- columns of summaries ---
# The columns of summaries: what is least useful is left to wide screens, so that names and shapes stay readable.


def _summary_columns(summaries: Sequence[Summary]) -> tuple[Column[Summary], ...]:
    """The columns of some summaries; a screen shows NaN and Inf only if one of them has some.

    >>> [column.name for column in _summary_columns([]) if column.person and not column.from_width]
    ['least', 'most', 'mean', 'first']
    """
    return (
        Column("least", "least", "number", of=lambda summary: summary.least),
        Column("most", "most", "number", of=lambda summary: summary.most),
        Column("mean", "mean", "number", of=lambda summary: summary.mean),
        Column("rms", "rms", "number", from_width=120, of=lambda summary: summary.rms),
        Column("zeros", "zeros", "count", from_width=120, of=lambda summary: summary.zeros),
        Column("nan", "NaN", "count", role="alarm", person=any(summary.nan for summary in summaries),
               of=lambda summary: summary.nan),
        Column("inf", "Inf", "count", role="alarm", person=any(summary.inf for summary in summaries),
               of=lambda summary: summary.inf),
        Column("first", "first elements", rank=1, of=lambda summary: summary.first_text),
    )  # fmt: skip


# --- notes ---
# Notes on runs: made-up arguments, arithmetic, and values of one device out of several.


def notes_on_run(module: Module, options: RunOptions) -> tuple[Diagnostic, ...]:
    """Notes on the arguments and the arithmetic of a run."""
    floats = (Diagnostic("note", "every float is an f64 that is never rounded"),) if options.floats == "widen" else ()
    return (*notes_on_arguments(options), *_notes_on_ranges(module, options), *floats, *notes_on_draws(module))


def _notes_on_ranges(module: Module, options: RunOptions) -> tuple[Diagnostic, ...]:
    """A note on made-up arguments that are not any numbers: the program takes their root, or uses them as indices."""
    count = 0 if options.args and not options.fills else sum(map(len, argument_ranges(module).values()))
    if not count:
        return ()
    are, their = ("is", "its") if count == 1 else ("are", "their")
    words = f"{format_count(count, 'random arguments')} {are} within the range of {their} use, such as a square root"
    return (Diagnostic("note", words),)


def notes_on_draws(*modules: Module) -> tuple[Diagnostic, ...]:
    """A note on random numbers that no dump states, if a module has them."""
    opcodes = sorted(
        {
            instruction.opcode
            for module in modules
            for computation in module.computations
            for instruction in computation.instructions
        }
        & UNSTATED_DRAWS
    )
    if not opcodes:
        return ()
    words = f"the numbers of {' and '.join(opcodes)} are the same each time, but not those of the compiled program"
    return (Diagnostic("note", words),)


def notes_on_arguments(options: RunOptions, *, sets: int = 1) -> tuple[Diagnostic, ...]:
    """A note on random arguments; `sets` is the number of those that a comparison used.

    >>> notes_on_arguments(RunOptions(), sets=3)[0].message
    'random arguments (seed 0): floats from N(0, 1), integers 0 to 3, and 2 more sets of other values; use --args FILE \
for real ones'
    """
    if options.args and not options.fills:
        return ()
    missing = " for those that --args does not have" if options.fills and options.args else ""
    words = f"random arguments{missing} (seed {options.seed}): floats from N(0, 1), integers 0 to {MAX_INTEGER}"
    words += f", and {format_count(sets - 1, 'more sets')} of other values" if sets > 1 else ""
    return (Diagnostic("note", words if options.args else f"{words}; use --args FILE for real ones"),)


def notes_on_assumed(targets: Sequence[str]) -> tuple[Diagnostic, ...]:
    """A note on functions of unknown meaning that two programs have in common."""
    if not targets:
        return ()
    words = f"the meaning of {', '.join(targets)} is unknown: results are made up, the same for equal operands"
    return (Diagnostic("note", words),)


def _notes_on_missing(instructions: Iterable[Instruction], seen: Container[Instruction]) -> tuple[Diagnostic, ...]:
    """Notes on instructions without values."""
    return tuple(
        Diagnostic(
            "note", f"{instruction.name} has no value: it does not run, or runs on whole arrays inside of another"
        )
        for instruction in instructions
        if instruction not in seen
    )


def notes_on_devices(run: Run, options: RunOptions) -> tuple[Diagnostic, ...]:
    """Notes on what is shown of device 0 only, and on what had no effect."""
    notes = []
    if options.devices is not None and run.devices == 1:
        notes.append(Diagnostic("note", "--devices has no effect: the module exchanges nothing between devices"))
    if options.feed and run.unread:
        count, was = format_count(run.unread, "arrays"), verb(run.unread, "was", "were")
        notes.append(Diagnostic("note", f"{count} of --feed {was} not read to the end"))
    if run.unknown:
        results = format_count(len(run.unknown), "results")
        are, its = ("is", "its") if len(run.unknown) == 1 else ("are", "their")
        words = f"{results} {are} shown for device 0 of {run.devices:,}: the dump does not state {its} sharding"
        notes.append(Diagnostic("note", words))
    for name, is_given in (("--at", options.at), ("--watch", options.watch), ("outfeeds", run.outfed)):
        if is_given and run.devices > 1:
            notes.append(Diagnostic("note", f"values of {name} are those of device 0 of {run.devices:,}"))
    return tuple(notes)


# --- results ---
# `hlo run DUMP`: a summary of every result, of the values of --at, and of what outfeeds wrote.


def report_of_run(loaded: Loaded, run: Run, options: RunOptions, watched: Sequence[Instruction]) -> Report:
    """The results, or the values of the instructions that were asked for."""
    module = loaded.module
    root = module.entry.root
    assert root is not None
    lines = list(_result_lines(run, root))
    columns: tuple[Column[_Result], ...] = (
        Column("result", "result", of=lambda result: result.label),
        _value_column(),
        _shape_column(),
    )
    results = _results_table("results", columns, lines, main=not watched)
    parts = [results]
    if run.outfed:
        parts.append(_outfed_table(run))
    if watched:
        parts.insert(0, _watched_table(run, watched))
    bad = sum(1 for _, summary in lines if summary.nan or summary.inf)
    state = "all finite" if not bad else f"{bad} of {len(lines)} with NaN or Inf"
    return Report(
        "run",
        f"Ran {format_count(run.executed, 'instructions')}: {format_count(len(lines), 'results')}, {state}",
        version=1,
        numbers={
            "executed_instructions": run.executed,
            "results": len(lines),
            "operations": run.estimate.operations,
            "live_bytes": run.estimate.live_bytes,
            "floats": options.floats,
            "seed": None if options.args and not options.fills else options.seed,
        },
        parts=tuple(parts),
        notes=(
            *_notes_on_missing(watched, {instruction for instruction in watched if run.watched[instruction]}),
            *notes_on_devices(run, options),
            *notes_on_run(module, options),
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )


@dataclass(frozen=True, slots=True)
class _Result:
    """An array with the name of its value; `label` is that of a result, `execution` and `index` which of several."""

    value: str
    shape: str
    label: str = ""
    execution: int = 0
    index: ShapeIndex = ()


Line: TypeAlias = tuple[_Result, Summary]
"""An array in a table, and its summary."""


def _value_column() -> Column[_Result]:
    return Column("value", "value", "name", of=lambda result: result.value)


def _shape_column() -> Column[_Result]:
    return Column("shape", "shape", "shape", of=lambda result: result.shape)


def _results_table(
    name: str, columns: tuple[Column[_Result], ...], lines: Sequence[Line], *, noun: str = "results", main: bool = True
) -> Table:
    summaries = _summary_columns([summary for _, summary in lines])
    every: tuple[Column[_Result, Summary], ...] = (
        *columns_of_part(columns, lambda result, summary: result),
        *columns_of_part(summaries, lambda result, summary: summary),
    )
    return Table(name, every, rows_from_tuples(every, lines), noun=noun, main=main)


def _result_lines(run: Run, root: Instruction) -> Iterator[Line]:
    for index, array, shape in arrays_of(run.result, root.shape):
        whole = replace(shape, dimensions=array.shape) if array.ndim == len(shape.dimensions) else shape
        yield _Result(result_name(root, index), str(whole), result_label(index)), summary_of(array)


def _watched_table(run: Run, watched: Sequence[Instruction]) -> Table:
    lines = [
        (_Result(instruction.name, str(shape), execution=execution, index=index), summary_of(array))
        for instruction in watched
        for execution, value in enumerate(run.watched[instruction])
        for index, array, shape in arrays_of(value, instruction.shape)
    ]
    columns: tuple[Column[_Result], ...] = (
        _value_column(),
        Column(
            "execution",
            "run",
            "count",
            person=any(result.execution for result, _ in lines),
            of=lambda result: result.execution,
        ),
        Column(
            "index",
            "index",
            person=any(result.index for result, _ in lines),
            of=lambda result: index_text(result.index) if result.index else None,
        ),
        _shape_column(),
    )
    return _results_table("values", columns, lines, noun="values")


def _outfed_table(run: Run) -> Table:
    lines = [
        (_Result(instruction.name, str(shape), execution=execution, index=index), summary_of(array))
        for execution, (instruction, value) in enumerate(run.outfed)
        for index, array, shape in arrays_of(value, instruction.operand_shape(0))
    ]
    columns: tuple[Column[_Result], ...] = (
        Column("execution", "run", "count", of=lambda result: result.execution),
        _value_column(),
        Column(
            "index",
            "index",
            person=any(result.index for result, _ in lines),
            of=lambda result: index_text(result.index) if result.index else None,
        ),
        _shape_column(),
    )
    return _results_table("outfed", columns, lines, noun="values", main=False)


# --- --watch: every iteration ---
# `hlo run DUMP --watch NAME`: a value in every iteration of the loops around it.


MAX_ROWS: Final = 24
"""Executions of one array that a screen shows in full."""
_ENDS: Final = 5
"""Of more executions, a screen shows so many at the beginning and at the end, and those with an event."""


def report_of_watch(
    loaded: Loaded, run: Run, watch: Watch, instructions: Sequence[Instruction], options: RunOptions
) -> Report:
    """All executions for machines; for people, the first and last ones of long loops, and those with an event."""
    tracks = watch.tracks
    is_long = any(track.executions > MAX_ROWS for track in tracks)
    whole = _iterations_table(
        "iterations", [(track, track.recorded) for track in tracks], main=True, person=not is_long
    )
    shown = [(track, track.selected(_ENDS) if track.executions > MAX_ROWS else track.recorded) for track in tracks]
    parts = [whole]
    if is_long:
        omitted = sum(track.executions - len(executions) for track, executions in shown)
        parts.append(_iterations_table("highlights", shown, main=False, person=True, omitted=omitted))
    return Report(
        "run",
        _watch_answer(tracks, instructions),
        version=1,
        numbers={
            "executed_instructions": run.executed,
            "executions": sum(track.executions for track in tracks),
            "omitted": sum(track.omitted for track in tracks),
            "floats": options.floats,
        },
        parts=tuple(parts),
        notes=(
            *_omissions(tracks),
            *_notes_on_missing(instructions, {track.instruction for track in tracks}),
            *notes_on_devices(run, options),
            *notes_on_run(loaded.module, options),
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )


def watch_archive(watch: Watch) -> Iterator[bytes]:
    """The values of all executions, stacked, and their iterations."""
    yield npz_bytes(stacked(watch))


def _iterations_table(
    name: str, tracks: Sequence[tuple[Track, Sequence[Execution]]], *, main: bool, person: bool, omitted: int = 0
) -> Table:
    lines = [(track, execution) for track, executions in tracks for execution in executions]
    columns: tuple[Column[Track, Execution], ...] = (
        Column("value", "value", "name", person=len({track.instruction for track, _ in lines}) > 1,
               of=lambda track, recorded: track.instruction.name),
        Column("index", "index", person=any(track.index for track, _ in lines),
               of=lambda track, recorded: index_text(track.index) if track.index else None),
        Column("iteration", "iteration", align="right",
               of=lambda track, recorded: ".".join(map(str, recorded.iterations)) or None),
        Column("execution", "run", "count", person=not all(recorded.iterations for _, recorded in lines),
               of=lambda track, recorded: recorded.execution),
        Column("shape", "shape", "shape", rank=2, of=lambda track, recorded: str(recorded.shape)),
        *columns_of_part(
            _summary_columns([recorded.summary for _, recorded in lines]), lambda track, recorded: recorded.summary
        ),
        Column("event", "event", role="alarm", person=any(_event(track, recorded) for track, recorded in lines),
               of=lambda track, recorded: _event(track, recorded) or None),
    )  # fmt: skip
    rows = rows_from_tuples(columns, lines)
    footnote = f"{format_count(omitted, 'iterations')} not shown; --json has them" if omitted else ""
    return Table(name, columns, rows, noun="iterations", limit=len(rows), main=main, person=person, footnote=footnote)


def _event(track: Track, each: Execution) -> str:
    constant = ("constant from here",) if each.execution == track.constant_from else ()
    return ", ".join((*each.events, *constant))


def _watch_answer(tracks: Sequence[Track], instructions: Sequence[Instruction]) -> str:
    names = instructions[0].name if len(instructions) == 1 else format_count(len(instructions), "values")
    if not tracks:
        return f"Watched {names}: no executions"
    longest = max(tracks, key=lambda track: track.executions)
    executions = format_count(longest.executions, "executions")
    if len({track.executions for track in tracks}) > 1:
        executions = f"up to {executions}"
    return f"Watched {names} in {executions}: {_state(tracks)}"


def _state(tracks: Sequence[Track]) -> str:
    several = len({track.instruction for track in tracks}) > 1
    for what in ("first NaN", "first Inf"):
        for track in tracks:
            for recorded in track.recorded:
                if what in recorded.events:
                    where = f" in {track.instruction.name}" if several else ""
                    return f"{what}{where} at {_place(recorded)}"
    constant = [track for track in tracks if track.constant_from is not None]
    if len(constant) == len(tracks) and len(tracks) == 1:
        [since] = (recorded for recorded in tracks[0].recorded if recorded.execution == tracks[0].constant_from)
        return f"all finite, constant from {_place(since)}"
    return "all finite"


def _place(each: Execution) -> str:
    return f"iteration {'.'.join(map(str, each.iterations))}" if each.iterations else f"execution {each.execution}"


def _omissions(tracks: Sequence[Track]) -> tuple[Diagnostic, ...]:
    omitted = sum(track.omitted for track in tracks)
    if not omitted:
        return ()
    words = f"summaries of {format_count(omitted, 'executions')} between the first and the last were not kept"
    return (Diagnostic("note", words),)


# --- --probe: the first such number ---
# `hlo run DUMP --probe nan`: the first instruction that makes such a number, and how it goes on.


_SOURCES: Final = {opcodes.CONSTANT: opcodes.CONSTANT, opcodes.PARAMETER: "argument"}
"""Where elements come from that no operation makes."""


def report_of_probe(loaded: Loaded, run: Run, probe: Probe, notes: Sequence[Diagnostic]) -> Report:
    """Every instruction with such elements: what reaches a result before the rest, and of that, what makes them."""
    seen = list(probe.occurrences(loaded.module))
    first = _first(seen)
    if first is not None:
        seen.remove(first)
        seen.insert(0, first)
    root = loaded.module.entry.root
    reaches = root is not None and count_of(run.result, probe.wanted, root.shape) > 0
    reaches = reaches or any(occurrence.reaches_result for occurrence in seen)
    columns: tuple[Column[Occurrence], ...] = (
        Column("value", "value", "name", of=lambda occurrence: occurrence.instruction.name),
        Column("opcode", "opcode", "opcode", of=lambda occurrence: occurrence.instruction.opcode),
        Column("count", "count", "count", of=lambda occurrence: occurrence.count),
        Column("elements", "of", "count", of=lambda occurrence: occurrence.elements),
        Column("execution", "run", "count", of=lambda occurrence: occurrence.execution),
        Column("device", "device", "count", person=run.devices != 1, of=lambda occurrence: occurrence.device),
        Column("origin", "why", of=_why),
        Column("reaches_result", "in result", "flag", of=lambda occurrence: occurrence.reaches_result),
        Column("computation", "computation", "name", of=lambda occurrence: occurrence.instruction.computation.name),
        Column("source", "source", "source", of=lambda occurrence: source_of(loaded.module, occurrence.instruction)),
    )
    rows = rows_from(columns, seen)
    return Report(
        "run",
        _probe_answer(probe, first, run, len(rows), reaches=reaches),
        version=1,
        numbers={
            "probe": probe.wanted,
            "values": len(rows),
            "first": None if first is None else first.instruction.name,
            "reaches_result": reaches,
            "executed_instructions": run.executed,
        },
        parts=(Table("sightings", columns, rows, noun="values"),),
        notes=(*notes, *program_notes(loaded)),
        input=input_facts(loaded),
    )


def _first(seen: Sequence[Occurrence]) -> Occurrence | None:
    """The first instruction that makes such elements; of those that reach a result if there are any."""
    reaching = [occurrence for occurrence in seen if occurrence.reaches_result] or seen
    return next((occurrence for occurrence in reaching if occurrence.is_maker), next(iter(reaching), None))


def _probe_answer(probe: Probe, first: Occurrence | None, run: Run, values: int, *, reaches: bool) -> str:
    what = PROBES[probe.wanted]
    executed = format_count(run.executed, "instructions")
    if run.devices > 1:
        executed = f"{executed} on {run.devices:,} devices"
    if first is None and not reaches:
        return f"No {what} elements in {executed}"
    if first is None or (reaches and not first.reaches_result):
        return f"A result has {what} elements; no instruction makes them; checked {executed}"
    if not first.reaches_result:
        others = format_count(values, "intermediate values")
        return f"No result has {what} elements ({others} {verb(values, 'does', 'do')}); checked {executed}"
    has = "has" if first.instruction.opcode in _SOURCES else "makes" if first.is_maker else "is the first with"
    counted = f"({first.count:,} of {first.elements:,})"
    return f"{first.instruction.name} {has} {what} elements {counted} that reach a result; checked {executed}"


def _why(occurrence: Occurrence) -> str:
    if occurrence.operands:
        return f"from {', '.join(operand.name for operand in occurrence.operands)}"
    if occurrence.inside:
        return f"contains {', '.join(inner.name for inner in occurrence.inside)}"
    return _SOURCES.get(occurrence.instruction.opcode, "made here")
