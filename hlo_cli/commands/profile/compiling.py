"""How long did the compiler take, and in which pass? From what it says of its passes, or from a trace of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hlo_cli.analysis.profile.compile_times import CompileTimes, PassTime, times_in_trace
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.read_traces import read_traces
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table, rows_from
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError

_PIPELINE_START: Final = "pipeline-start"
"""The pass of each pipeline in which XLA writes the dumps before it, which are most of its time."""
_WORTH_TELLING: Final = 0.1  # of the time in passes: less does not change what is slow


class CompileAnswer(NamedTuple):
    """What is said of the passes of compilations: a sentence, what it means, all passes, and the numbers."""

    sentence: str
    means: Sequence[str]
    table: Table
    numbers: Mapping[str, Cell]


def compile_answer(times: CompileTimes, name: str) -> CompileAnswer:
    """The answer to the passes of a compilation, or of all in a trace; `name` is what took the time."""
    writing = next((each for each in times.passes if each.name == _PIPELINE_START and each.dumps), None)
    written = writing.seconds if writing is not None else 0.0
    passes = [each for each in times.passes if each is not writing] or list(times.passes)
    longest, inside = passes[0], times.inside - written
    share = f" ({format_percent(longest.seconds / inside)}%)" if inside else ""
    whole = f"{name} took {format_seconds(times.seconds)} in {format_count(times.runs, 'pass runs')}"
    means = []
    if times.changed is not None:
        means.append(f"{times.changed:,} of {format_count(times.runs, 'runs')} changed the module.")
    if written > _WORTH_TELLING * times.inside:
        means.append(
            f"{_PIPELINE_START} ({format_seconds(written)}) is mostly the time in which XLA writes dumps; without it, "
            f"the passes take {format_seconds(inside)}."
        )
    return CompileAnswer(
        f"{whole}; {longest.name} took {format_seconds(longest.seconds)}{share}",
        means,
        _table(times, writing, inside),
        {"seconds": times.seconds, "pass_seconds": times.inside, "runs": times.runs, "changed": times.changed},
    )


def _table(times: CompileTimes, writing: PassTime | None, inside: float) -> Table:
    """All passes; shares are of the seconds inside them without those of writing dumps."""

    def share(each: PassTime) -> float | None:
        return each.seconds / inside if inside and each is not writing else None

    columns: tuple[Column[PassTime], ...] = (
        Column("seconds", "time", "seconds", total="sum", of=lambda each: each.seconds),
        Column("share", "share", "percent", of=share),
        Column("runs", "runs", "count", total="sum", of=lambda each: each.runs),
        Column("changed", "changed", "count", total="sum", of=lambda each: each.changed),
        Column("pass", "pass", "name", role="name", of=lambda each: each.name),
        Column("pipelines", "pipeline", of=lambda each: _first_of(each.pipelines)),
    )
    shown = columns if times.changed is not None else (*columns[:3], columns[4])
    return Table("passes", shown, rows_from(shown, times.passes), noun="passes")


def _first_of(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)


def report_of_compiling(path: str) -> Report | None:
    """The report on the compiler's own spans in a trace; None if it has none, or cannot be read."""
    try:
        traces = read_traces([path])
    except HloError:
        return None
    found = [times for times in map(times_in_trace, traces) if times is not None]
    if not found:
        return None
    times = max(found, key=lambda each: each.seconds)
    answer = compile_answer(times, format_count(times.compilations, "compilations"))
    means = [
        *answer.means,
        "The trace has no timed operations of a program. Threads that generate code are not counted.",
    ]
    means += [f"It is the slowest of {format_count(len(found), 'hosts')}."] if len(found) > 1 else []
    return Report(
        "profile",
        answer.sentence,
        numbers={**answer.numbers, "compilations": times.compilations},
        parts=(Passage("text", tuple(means)), answer.table),
        input={"path": InputOptions().command_line([path])},
    )
