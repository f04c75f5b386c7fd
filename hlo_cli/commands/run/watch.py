"""`hlo run DUMP --watch NAME`: a value in every iteration of the loops around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.evaluate.run import Execution, Track, Watch, stacked
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.run.notes import notes_on_devices, notes_on_missing, notes_on_run
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.summaries import summary_cells, summary_columns
from hlo_cli.ir.notation import index_text
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.run import Run
    from hlo_cli.ir.instruction import Instruction

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
    whole = _table("iterations", [(track, track.kept) for track in tracks], main=True, person=not is_long)
    shown = [(track, track.selected(_ENDS) if track.executions > MAX_ROWS else track.kept) for track in tracks]
    parts = [whole]
    if is_long:
        omitted = sum(track.executions - len(executions) for track, executions in shown)
        parts.append(_table("highlights", shown, main=False, person=True, omitted=omitted))
    return Report(
        "run",
        _answer(tracks, instructions),
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
            *notes_on_missing(instructions, {track.instruction for track in tracks}),
            *notes_on_devices(run, options),
            *notes_on_run(loaded.module, options),
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )


def watch_archive(watch: Watch) -> Iterator[bytes]:
    """The values of all executions, stacked, and their iterations."""
    from hlo_cli.analysis.evaluate.arguments import npz_bytes

    yield npz_bytes(stacked(watch))


def _table(
    name: str, tracks: Sequence[tuple[Track, Sequence[Execution]]], *, main: bool, person: bool, omitted: int = 0
) -> Table:
    lines = [(track, each) for track, executions in tracks for each in executions]
    columns = (
        Column("value", "value", "name", person=len({track.instruction for track, _ in lines}) > 1),
        Column("index", "index", person=any(track.index for track, _ in lines)),
        Column("iteration", "iteration", align="right"),
        Column("execution", "run", "count", person=not all(each.iterations for _, each in lines)),
        Column("shape", "shape", "shape", rank=2),
        *summary_columns([each.summary for _, each in lines]),
        Column("event", "event", role="alarm", person=any(_event(track, each) for track, each in lines)),
    )
    rows = tuple(
        (
            track.instruction.name,
            index_text(track.index) if track.index else None,
            ".".join(map(str, each.iterations)) or None,
            each.execution,
            str(each.shape),
            *summary_cells(each.summary),
            _event(track, each) or None,
        )
        for track, each in lines
    )
    footnote = f"{format_count(omitted, 'iterations')} not shown; --json has them" if omitted else ""
    return Table(name, columns, rows, noun="iterations", limit=len(rows), main=main, person=person, footnote=footnote)


def _event(track: Track, each: Execution) -> str:
    constant = ("constant from here",) if each.execution == track.constant_from else ()
    return ", ".join((*each.events, *constant))


def _answer(tracks: Sequence[Track], instructions: Sequence[Instruction]) -> str:
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
            for each in track.kept:
                if what in each.events:
                    where = f" in {track.instruction.name}" if several else ""
                    return f"{what}{where} at {_place(each)}"
    constant = [track for track in tracks if track.constant_from is not None]
    if len(constant) == len(tracks) and len(tracks) == 1:
        [since] = (each for each in tracks[0].kept if each.execution == tracks[0].constant_from)
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
