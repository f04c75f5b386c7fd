"""`hlo profile TRACE NAME`: the calls of one instruction, its work, its neighbors in time, and its prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.measure import over_peak
from hlo_cli.analysis.profile.operation_times import Calls, TouchedTiles, calls_of, neighbors, touched_tiles, two_modes
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.profile.find import find_timed
from hlo_cli.commands.profile.instruction_figures import bars_of, histogram_of
from hlo_cli.commands.profile.operations import source_of
from hlo_cli.commands.profile.prediction import prediction_of, prediction_words
from hlo_cli.ir import opcodes
from hlo_cli.report.numbers import (
    format_bytes,
    format_count,
    format_number,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
)
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Fact, Facts, LazyRows, Table
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.measure import Measure
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed
    from hlo_cli.ir.instruction import Instruction

_NEIGHBORS: Final = 3
"""How many neighbors on each side the screen shows."""


def report_of_instruction(measured: Measured, name: str) -> Report:
    """Everything about one operation; HloError if the trace has none of that name."""
    timed = find_timed(measured, name)
    calls = calls_of(measured.profile, timed.operation)
    tiles = () if timed.operation.instruction is None else touched_tiles(timed.operation.instruction)
    parts: list[Part] = [Facts("operation", tuple(_facts(measured, timed, calls, tiles)))]
    if timed.measure.least is not None and timed.measure.least != timed.measure.greatest:
        parts.append(histogram_of(calls))
    parts += [part for part in (bars_of(measured, timed, tiles), _neighbors(calls), _events(calls)) if part is not None]
    return Report(
        "profile",
        _answer(timed, calls, tiles),
        version=1,
        numbers=_numbers(measured, timed, calls),
        parts=tuple(parts),
        next=_next(measured, timed, tiles),
        notes=(*_others(measured, timed), *measured.notes),
        input=measured.loaded.facts,
    )


def _others(measured: Measured, timed: Timed) -> Iterator[Diagnostic]:
    """A note on operations of the same name in other modules."""
    name, own = timed.operation.name, timed.operation.program
    programs = [each.operation.program for each in measured.selected if each.operation.name == name]
    others = [program.name for program in programs if program is not None and program is not own]
    if own is not None and others:
        choice = format_options((("--module", others[0]),))
        yield Diagnostic("note", f"showing {name} of {own.name}; use {choice} to show that of {others[0]}")


def _answer(timed: Timed, calls: Calls, tiles: Sequence[TouchedTiles]) -> str:
    measure, name = timed.measure, timed.operation.name
    if measure.least is not None and (modes := two_modes(calls.seconds)) is not None:
        fast, slow = format_seconds(modes.fast_seconds), format_seconds(modes.slow_seconds)
        counts = f"{modes.fast:,} near {fast}, {modes.slow:,} near {slow}"
        noun = "an event" if measure.events != measure.calls else "a call"
        return f"{name} takes {format_seconds(measure.mean)} {noun} in two modes: {counts}"
    words = f"{name} takes {format_seconds(measure.total / max(measure.calls, 1))} a call"
    if measure.events != measure.calls and measure.calls:
        words += f" of {format_number(measure.events / measure.calls)} events"
    floor = timed.floor / measure.calls if timed.floor else None
    if not floor or not measure.calls:
        return words
    per_call = measure.total / measure.calls
    if per_call < floor:
        return f"{words}, at {format_percent(floor / per_call)}% of the roof: {over_peak(timed.operation, timed.rates)}"
    if partial := [each for each in tiles if each.used]:
        used, length = partial[0].used[0]
        verb = "writes" if partial[0].is_written else "reads"
        return f"{words}, {format_ratio(per_call / floor)} its least time: it {verb} {used} of {length} rows of a tile"
    return f"{words}, {format_ratio(per_call / floor)} its least time at the peak rates"


def _facts(measured: Measured, timed: Timed, calls: Calls, tiles: Sequence[TouchedTiles]) -> Iterator[Fact]:
    operation, measure = timed.operation, timed.measure
    yield Fact("calls", remark=_calls(measured, timed, calls), is_whole=True)
    noun = f" per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""
    yield Fact("self", remark=_own_words(measured, measure, noun), is_whole=True)
    if measure.total > measure.self_time:
        yield Fact("total", remark=f"{format_seconds(measured.per_device(measure.total))}{noun}, with what runs inside")
    if measure.least is not None and measure.events > 1:
        amounts = ("min", measure.least), ("median", measure.median), ("max", measure.greatest)
        words = [f"{format_seconds(value or 0.0)} {name}" for name, value in amounts]
        yield Fact("event", remark=" · ".join((*words, f"{format_seconds(measure.deviation or 0.0)} deviation")))
    if operation.instruction is not None and operation.instruction.opcode == opcodes.WHILE:
        yield from _trips(measured, operation.instruction)
    yield from _work(timed)
    for each in tiles:
        yield Fact("writes" if each.is_written else "reads", remark=f"{each.slice}  {format_bytes(each.data_bytes)}")
        yield Fact("into" if each.is_written else "of", remark=str(each.array))
        yield Fact("tiles", remark=_tiles(each), is_whole=True)
    if (found := prediction_of(measured, timed)) is not None and measured.chip is not None:
        yield Fact("predicted", remark=prediction_words(found, timed, measured.chip.chip), is_whole=True)
    if operation.instruction is not None and not tiles:
        yield Fact("result", remark=operation.instruction.shape.to_string(layout=True))
    kernels = [name for name in operation.kernels if name != operation.name]
    if kernels:
        yield Fact("kernels", remark=", ".join(kernels), is_whole=True)
    origin = "  ".join(part for part in (operation.op_name, source_of(timed) or "") if part)
    if origin:
        yield Fact("from", remark=origin, is_whole=True)


def _own_words(measured: Measured, measure: Measure, noun: str) -> str:
    """The self time, and its share; the part of the busy time between them, if operations ran at the same time."""
    words = f"{format_seconds(measured.per_device(measure.self_time))}{noun}"
    if measured.overlap > 1:
        words += f", {format_seconds(measured.per_device(measure.busy_time))} of busy time"
    if not measured.whole:
        return words
    return f"{words}, {format_percent(measure.busy_time / measured.whole)}% of {measured.whole_words}"


def _calls(measured: Measured, timed: Timed, calls: Calls) -> str:
    """The number of calls, and how executions, trips, and devices make it."""
    measure = timed.measure
    words = f"{measure.calls:,}"
    if measure.events != measure.calls:
        words += f" ({format_count(measure.events, 'events')})"
    if calls.executions:
        executions = format_count(calls.executions, "executions")
        trips, rest = divmod(measure.calls, calls.executions)
        words += f": {format_count(trips, 'trips')} × {executions}" if trips > 1 and not rest else f" in {executions}"
    places = [format_count(calls.devices, f"{measured.device_noun}s")] if calls.devices > 1 else []
    noun = "threads" if measured.profile.platform == "CPU" else "lines"
    places += [format_count(calls.lines, noun)] if calls.lines > 1 else []
    return f"{words} on {', '.join(places)}" if places else words


def _trips(measured: Measured, loop: Instruction) -> Iterator[Fact]:
    """The trip count of a loop: the measured one, and that of the text."""
    from hlo_cli.analysis.dataflow.executions import trip_count
    from hlo_cli.analysis.profile.measure import measured_trips

    trips = measured_trips(measured.profile, [each.measure.calls for each in measured.every]).get(loop)
    if trips is None:
        return
    known = trip_count(loop)
    words = "unknown from the text" if known is None else f"{known:,} in the text"
    yield Fact("trips", remark=f"{format_number(trips)} measured, {words}")


def _work(timed: Timed) -> Iterator[Fact]:
    operation, rates = timed.operation, timed.rates
    amounts = [f"{round(operation.flops):,} flops"] if operation.flops else []
    amounts += [format_bytes(round(operation.bytes))] if operation.bytes else []
    if not amounts:
        return
    speeds = [format_rate(rates.flops, "flop")] if operation.flops and rates.flops else []
    speeds += [format_rate(rates.bytes, "B")] if operation.bytes and rates.bytes else []
    roof = f"; {format_percent(rates.efficiency)}% of the roof, bound by {rates.bound_by}" if rates.efficiency else ""
    yield Fact("work", remark=f"{', '.join(amounts)} a call: {', '.join(speeds)}{roof}", is_whole=True)


def _tiles(each: TouchedTiles) -> str:
    counts = " × ".join(f"{count:,}" for count in each.counts if count != 1) or "1"
    used = ", ".join(f"{size} of {length} rows used" for size, length in each.used)
    words = f"{counts} of {format_bytes(each.tile_bytes)}: {format_bytes(each.bytes)} touched"
    return f"{words}, {used}" if used else words


def _neighbors(calls: Calls) -> Table | None:
    found = neighbors(calls)
    if not found:
        return None
    columns = (
        Column("when", "when"),
        Column("events", "events", "count"),
        Column("gap_seconds", "gap", "seconds"),
        Column("instruction", "instruction", "name"),
        Column("category", "category", from_width=120),
    )
    rows = tuple(
        (
            "before" if each.is_before else "after",
            each.events,
            each.gap,
            each.operation.name,
            each.operation.category or None,
        )
        for is_before in (True, False)
        for each in [one for one in found if one.is_before == is_before][:_NEIGHBORS]
    )
    return Table("neighbors", columns, rows, noun="neighbors", main=False, limit=0)


def _events(calls: Calls) -> Table:
    columns = (
        Column("begin_seconds", "begin", "seconds"),
        Column("seconds", "time", "seconds"),
        Column("self_seconds", "self", "seconds"),
        Column("trace_step", "step"),
        Column("device", "device"),
        Column("line_name", "line"),
        Column("kernel", "kernel"),
    )
    rows = LazyRows(
        len(calls.rows),
        lambda: (
            (each.begin, each.seconds, each.self_seconds, each.step, each.device, each.line, each.kernel or None)
            for each in calls.events()
        ),
    )
    return Table("events", columns, rows, noun="events", person=False)


def _numbers(measured: Measured, timed: Timed, calls: Calls) -> dict[str, Cell]:
    operation, measure, rates = timed.operation, timed.measure, timed.rates
    modes = two_modes(calls.seconds) if measure.least is not None else None
    predicted = prediction_of(measured, timed)
    return {
        "instruction": operation.name,
        "module": None if operation.program is None else operation.program.name,
        "calls": measure.calls,
        "events": measure.events,
        "executions": calls.executions,
        "total_seconds": measure.total,
        "self_seconds": measure.self_time,
        "busy_seconds": measure.busy_time,
        "mean_seconds": measure.mean,
        "least_seconds": measure.least,
        "median_seconds": measure.median,
        "greatest_seconds": measure.greatest,
        "deviation_seconds": measure.deviation,
        "modes": None
        if modes is None
        else (
            {"events": modes.fast, "median_seconds": modes.fast_seconds},
            {"events": modes.slow, "median_seconds": modes.slow_seconds},
        ),
        "flops": operation.flops,
        "bytes": operation.bytes,
        "flop_rate": rates.flops,
        "byte_rate": rates.bytes,
        "roofline_fraction": rates.efficiency or None,
        "predicted_seconds": None if predicted is None else predicted.seconds,
        "predicted_low_seconds": None if predicted is None else predicted.low,
        "predicted_high_seconds": None if predicted is None else predicted.high,
    }


def _next(measured: Measured, timed: Timed, tiles: Sequence[TouchedTiles]) -> tuple[str, ...]:
    argument = measured.loaded.module_argument
    found = [f"hlo layout '{tiles[0].array}'"] if tiles else []
    if argument and timed.operation.instruction is not None:
        program = timed.operation.program
        is_one = program is None or len(measured.profile.programs) == 1
        module = "" if is_one or program is None else f" {format_options((('--module', program.name),))}"
        found.append(f"hlo parse {argument}{module} --explain {timed.operation.name}")
    return tuple(found)
