"""How did one instruction run, and as predicted? Its calls, its work, predictions of all, and what calibrates those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost_analysis import element_count
from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.profile.critical_path import waited_by_operation
from hlo_cli.analysis.profile.measure import Measure, is_inner, measured_trips, over_peak
from hlo_cli.analysis.profile.operation_times import (
    Calls,
    TouchedTiles,
    calls_of,
    histogram,
    is_transfer,
    neighbors,
    touched_tiles,
    two_modes,
)
from hlo_cli.commands.options.io_options import format_options, requirement_error
from hlo_cli.commands.options.writing import print_diagnostics, write
from hlo_cli.commands.profile.by_operation import facts_of, numbers_of, source_of
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import BLOCKS, Timed, longest_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import (
    format_bytes,
    format_count,
    format_number,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
    verb,
)
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Fact, Facts, LazyRows, Table, row_from, rows_from
from hlo_cli.report.text import Line, line_of
from hlo_cli.source import Diagnostic, HloError, did_you_mean, nearest

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.hardware.time_model import Estimate
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.commands.options.io_options import OutputOptions
# --- the operation of a name ---


def _find_timed(measured: Measured, name: str) -> Timed:
    """The operation of a name, with or without %; of several programs, that which took most time. HloError if none."""
    plain = name.removeprefix("%")
    matching = [each for each in measured.selected if each.operation.name == plain]
    # Kernels have names of their own in traces of GPUs, which is what other profilers show.
    matching = matching or [each for each in measured.selected if plain in each.operation.kernels]
    if matching:
        return longest_of(matching)
    for program in measured.profile.programs:
        if program.module is not None and (reason := _reason_without_events(program.module, plain)):
            raise HloError(f"'{plain}' of {program.name} has no events in this trace", hint=reason)
    names = [each.operation.name for each in measured.selected]
    # A name without its number is meant more likely than one of similar letters.
    near = next((each for each in names if each.startswith(plain)), None) or nearest(plain, names)
    hint = did_you_mean(near) or f"run `{measured.command or 'hlo profile TRACE'}` to list all instructions"
    raise HloError(f"instruction '{plain}' not found in this trace", hint=hint)


def _reason_without_events(module: Module, name: str) -> str:
    """Why an instruction has no events of its own; empty if the module has none of that name."""
    instruction = next((each for each in module.instructions if each.name == name), None)
    if instruction is None:
        return ""
    callers = (each for each in module.instructions if instruction.computation in each.called_computations)
    caller = next((each for each in callers if each.opcode == opcodes.FUSION), None)
    if caller is not None:
        return f"it is part of {caller.name}"
    return "it runs no kernel, or it did not run while the trace was recorded"


# --- figures ---


_MAX_BINS: Final = 60  # a histogram on a wide terminal is not easier to read with more


def _histogram_of(calls: Calls) -> Figure:
    """How many events took how long, from the least to the greatest time."""
    seconds = calls.seconds
    least, greatest = format_seconds(min(seconds)), format_seconds(max(seconds))

    def draw(room: int) -> tuple[Line, ...]:
        bins = max(min(room - len(least) - len(greatest) - 2, _MAX_BINS), 1)
        counts = histogram(seconds, bins)
        most = max(counts)
        bars = "".join(BLOCKS[-(-count * len(BLOCKS) // most) - 1] if count else " " for count in counts)
        return (line_of(f"{least} {bars} {greatest}"),)

    data: dict[str, Cell] = {
        "least_seconds": min(seconds),
        "greatest_seconds": max(seconds),
        "counts": tuple(histogram(seconds, 20)),
    }
    return Figure("histogram", draw, data=data)


def _bars_of(measured: Measured, timed: Timed, tiles: Sequence[TouchedTiles]) -> Figure | None:
    """The measured time of a call next to the times that its bytes and its tiles take at the peak bandwidth."""
    peaks = measured.roofs.peaks(timed.operation)
    if not tiles or peaks is None or not peaks.main_bytes or not timed.measure.calls:
        return None
    touched = sum(each.bytes for each in tiles)
    rows = [("bytes, XLA's count", (timed.operation.bytes or 0.0) / peaks.main_bytes)]
    rows.append(("tiles, once", touched / peaks.main_bytes))
    if any(each.is_written for each in tiles):
        written = sum(each.bytes for each in tiles if each.is_written)
        rows.append(("tiles, read and written", (touched + written) / peaks.main_bytes))
    rows.append(("measured", timed.measure.total / timed.measure.calls))
    longest = max(seconds for _, seconds in rows)
    names = max(len(name) for name, _ in rows)
    times = [format_seconds(seconds) for _, seconds in rows]
    width = max(map(len, times))

    def draw(room: int) -> tuple[Line, ...]:
        bars = max(room - names - width - 4, 1)
        return tuple(
            line_of(f"{time:>{width}}  {name:<{names}}  {'▇' * max(round(seconds / longest * bars), 1)}")
            for time, (name, seconds) in zip(times, rows, strict=True)
        )

    title = f"At {format_rate(peaks.main_bytes, 'B')}"
    return Figure("tile_times", draw, title=title, data=dict(rows))


# --- predicted times ---


def _prediction_of(measured: Measured, timed: Timed) -> Estimate | None:
    """The predicted time of one call; None without a chip, and for what the time model does not cover."""
    return _estimates(measured, [timed]).get(timed)


def _predictions_of(measured: Measured) -> Mapping[Timed, Estimate]:
    """The predicted times of a call of the selected operations, without those that the time model does not cover."""
    return _estimates(measured, measured.selected)


def _prediction_words(estimate: Estimate, timed: Timed, chip: str) -> str:
    """A prediction with its band, and where the measured time is."""
    mean = timed.measure.total / max(timed.measure.calls, 1)
    low, high = format_seconds(estimate.low), format_seconds(estimate.high)
    band = f"{format_seconds(estimate.seconds)} ({low} to {high}) on {chip}"
    if estimate.low <= mean <= estimate.high:
        return f"{band}; measured within the band"
    return f"{band}; measured {format_ratio(mean / estimate.seconds)}"


def _estimates(measured: Measured, timed: Sequence[Timed]) -> Mapping[Timed, Estimate]:
    chip = measured.chip
    if chip is None:
        return {}
    from hlo_cli.analysis.schedule.kernel_times import predicted_times
    from hlo_cli.analysis.sharding.collectives import predicted_collective_time

    # What runs inside a loop or call is predicted in rows of its own.
    leaves = [each for each in timed if each.operation.instruction is not None and not is_inner(each.operation)]
    kernels = predicted_times([each.operation.instruction for each in leaves if each.operation.instruction], chip)
    collectives = _collectives(leaves)
    estimates = {}
    for each in leaves:
        instruction = each.operation.instruction
        if instruction is None:
            continue
        collective = collectives.get(instruction)
        estimate = kernels.get(instruction) if collective is None else predicted_collective_time(collective, chip)
        if estimate is not None and estimate.seconds and each.measure.calls:
            estimates[each] = estimate
    return estimates


def _collectives(timed: Sequence[Timed]) -> Mapping[Instruction, Collective]:
    """The synchronous collectives by instruction: the time of a start or a done is not that of the transfer."""
    from hlo_cli.analysis.sharding.collectives import collectives_of

    programs = {each.operation.program for each in timed}
    modules = [program.module for program in programs if program is not None and program.module is not None]
    listed = (collective for module in modules for collective in collectives_of(module))
    return {each.caller: each for each in listed if not each.is_async}


# --- one instruction ---
# `hlo profile TRACE NAME`: the calls of one instruction, its work, its neighbors in time, and its prediction.


_MAX_NEIGHBORS: Final = 3
"""How many neighbors on each side the screen shows."""


def report_of_instruction(measured: Measured, name: str) -> Report:
    """Everything about one operation; HloError if the trace has none of that name."""
    timed = _find_timed(measured, name)
    calls = calls_of(measured.profile, timed.operation)
    tiles = () if timed.operation.instruction is None else touched_tiles(timed.operation.instruction)
    parts: list[Part] = [Facts("operation", tuple(_instruction_facts(measured, timed, calls, tiles)))]
    if timed.measure.least is not None and timed.measure.least != timed.measure.greatest:
        parts.append(_histogram_of(calls))
    parts += [
        part
        for part in (_bars_of(measured, timed, tiles), _neighbors_table(calls), _events_table(calls))
        if part is not None
    ]
    return Report(
        "profile",
        _instruction_answer(timed, calls, tiles),
        version=1,
        numbers=_instruction_numbers(measured, timed, calls),
        parts=tuple(parts),
        next=_next_of_instruction(measured, timed, tiles),
        notes=(*_other_modules_note(measured, timed), *measured.notes),
        input=measured.loaded.facts,
    )


def _other_modules_note(measured: Measured, timed: Timed) -> Iterator[Diagnostic]:
    """A note on operations of the same name in other modules."""
    name, own = timed.operation.name, timed.operation.program
    programs = [each.operation.program for each in measured.selected if each.operation.name == name]
    others = [program.name for program in programs if program is not None and program is not own]
    if own is not None and others:
        choice = format_options((("--module", others[0]),))
        yield Diagnostic("note", f"showing {name} of {own.name}; use {choice} to show that of {others[0]}")


def _instruction_answer(timed: Timed, calls: Calls, tiles: Sequence[TouchedTiles]) -> str:
    measure, name = timed.measure, timed.operation.name
    # A mean of two modes is a time that no call took.
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
    # Faster than the peak rates allow: the count of work or the peak is not that of this kernel.
    if per_call < floor:
        why = over_peak(timed.operation, timed.rates)
        return f"{words}, at {format_percent(floor / per_call)}% of the roofline: {why}"
    if partial := [each for each in tiles if each.used]:
        used, length = partial[0].used[0]
        verb = "writes" if partial[0].is_written else "reads"
        return f"{words}, {format_ratio(per_call / floor)} its least time: it {verb} {used} of {length} rows of a tile"
    return f"{words}, {format_ratio(per_call / floor)} its least time at the peak rates"


def _instruction_facts(measured: Measured, timed: Timed, calls: Calls, tiles: Sequence[TouchedTiles]) -> Iterator[Fact]:
    operation, measure = timed.operation, timed.measure
    yield Fact("calls", remark=_calls_words(measured, timed, calls), is_whole=True)
    noun = f" per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""
    yield Fact("self", remark=_own_words(measured, measure, noun), is_whole=True)
    if measure.total > measure.self_time:
        yield Fact("total", remark=f"{format_seconds(measured.per_device(measure.total))}{noun}, with what runs inside")
    if measure.least is not None and measure.events > 1:
        amounts = ("min", measure.least), ("median", measure.median), ("max", measure.greatest)
        words = [f"{format_seconds(value or 0.0)} {name}" for name, value in amounts]
        yield Fact("event", remark=" · ".join((*words, f"{format_seconds(measure.deviation or 0.0)} deviation")))
    if operation.instruction is not None and operation.instruction.opcode == opcodes.WHILE:
        yield from _trips_fact(measured, operation.instruction)
    yield from _work_fact(timed)
    for each in tiles:
        yield Fact("writes" if each.is_written else "reads", remark=f"{each.slice}  {format_bytes(each.data_bytes)}")
        yield Fact("into" if each.is_written else "of", remark=str(each.array))
        yield Fact("tiles", remark=_tiles_words(each), is_whole=True)
    if (prediction := _prediction_of(measured, timed)) is not None and measured.chip is not None:
        yield Fact("predicted", remark=_prediction_words(prediction, timed, measured.chip.chip), is_whole=True)
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


def _calls_words(measured: Measured, timed: Timed, calls: Calls) -> str:
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


def _trips_fact(measured: Measured, loop: Instruction) -> Iterator[Fact]:
    """The trip count of a loop: the measured one, and that of the text."""
    trips = measured_trips(measured.profile, [each.measure.calls for each in measured.every]).get(loop)
    if trips is None:
        return
    known = trip_count(loop)
    words = "unknown from the text" if known is None else f"{known:,} in the text"
    yield Fact("trips", remark=f"{format_number(trips)} measured, {words}")


def _work_fact(timed: Timed) -> Iterator[Fact]:
    operation, rates = timed.operation, timed.rates
    amounts = [f"{round(operation.flops):,} flops"] if operation.flops else []
    amounts += [format_bytes(round(operation.bytes))] if operation.bytes else []
    if not amounts:
        return
    speeds = [format_rate(rates.flops, "flop")] if operation.flops and rates.flops else []
    speeds += [format_rate(rates.bytes, "B")] if operation.bytes and rates.bytes else []
    roof = (
        f"; {format_percent(rates.efficiency)}% of the roofline, bound by {rates.bound_by}" if rates.efficiency else ""
    )
    yield Fact("work", remark=f"{', '.join(amounts)} a call: {', '.join(speeds)}{roof}", is_whole=True)


def _tiles_words(tiles: TouchedTiles) -> str:
    counts = " × ".join(f"{count:,}" for count in tiles.counts if count != 1) or "1"
    used = ", ".join(f"{size} of {length} rows used" for size, length in tiles.used)
    words = f"{counts} of {format_bytes(tiles.tile_bytes)}: {format_bytes(tiles.bytes)} touched"
    return f"{words}, {used}" if used else words


def _neighbors_table(calls: Calls) -> Table | None:
    all_neighbors = neighbors(calls)
    if not all_neighbors:
        return None
    columns = (
        Column("when", "when", of=lambda neighbor: "before" if neighbor.is_before else "after"),
        Column("events", "events", "count", of=lambda neighbor: neighbor.events),
        Column("gap_seconds", "gap", "seconds", of=lambda neighbor: neighbor.gap),
        Column("instruction", "instruction", "name", of=lambda neighbor: neighbor.operation.name),
        Column("category", "category", from_width=120, of=lambda neighbor: neighbor.operation.category or None),
    )
    nearest = (
        neighbor
        for is_before in (True, False)
        for neighbor in [one for one in all_neighbors if one.is_before == is_before][:_MAX_NEIGHBORS]
    )
    rows = rows_from(columns, nearest)
    return Table("neighbors", columns, rows, noun="neighbors", main=False, limit=0)


def _events_table(calls: Calls) -> Table:
    columns = (
        Column("begin_seconds", "begin", "seconds", of=lambda event: event.begin),
        Column("seconds", "time", "seconds", of=lambda event: event.seconds),
        Column("self_seconds", "self", "seconds", of=lambda event: event.self_seconds),
        Column("trace_step", "step", of=lambda event: event.step),
        Column("device", "device", of=lambda event: event.device),
        Column("line_name", "line", of=lambda event: event.line),
        Column("kernel", "kernel", of=lambda event: event.kernel or None),
    )
    rows = LazyRows(len(calls.rows), lambda: (row_from(columns, event) for event in calls.events()))
    return Table("events", columns, rows, noun="events", person=False)


def _instruction_numbers(measured: Measured, timed: Timed, calls: Calls) -> dict[str, Cell]:
    operation, measure, rates = timed.operation, timed.measure, timed.rates
    modes = two_modes(calls.seconds) if measure.least is not None else None
    predicted = _prediction_of(measured, timed)
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


def _next_of_instruction(measured: Measured, timed: Timed, tiles: Sequence[TouchedTiles]) -> tuple[str, ...]:
    argument = measured.loaded.module_argument
    commands = [f"hlo layout '{tiles[0].array}'"] if tiles else []
    if argument and timed.operation.instruction is not None:
        program = timed.operation.program
        is_one = program is None or len(measured.profile.programs) == 1
        module = "" if is_one or program is None else f" {format_options((('--module', program.name),))}"
        commands.append(f"hlo parse {argument}{module} --explain {timed.operation.name}")
    return tuple(commands)


# --- --predicted: the worst predictions ---
# `hlo profile TRACE --predicted --chip NAME`: predicted times next to measured ones, the worst predictions first.
#
# What the time model does not cover has a row, too: its measured time is in the sum, and only like is compared with
# like.


@dataclass(frozen=True, slots=True)
class _Prediction:
    """An operation with the predicted time of a call, None if the time model does not cover it.

    What runs inside an operation has rows of its own, so `seconds` is the self time of all calls.
    """

    timed: Timed
    estimate: Estimate | None

    @property
    def seconds(self) -> float:
        """The measured time of all calls."""
        return self.timed.measure.self_time

    @property
    def mean(self) -> float:
        """The measured time of a call."""
        return self.seconds / max(self.timed.measure.calls, 1)

    @property
    def predicted(self) -> float:
        """The predicted time of all calls; 0 where it is unknown."""
        return 0.0 if self.estimate is None else self.estimate.seconds * self.timed.measure.calls

    @property
    def difference(self) -> float | None:
        """The measured time of all calls less the predicted one; None if that is unknown."""
        return None if self.estimate is None else self.seconds - self.predicted

    @property
    def unexplained(self) -> float:
        """The measured time that the prediction does not explain: all of it where there is none."""
        return self.seconds if self.difference is None else abs(self.difference)

    @property
    def is_within(self) -> bool | None:
        """Whether the measured time is within the band; None without one."""
        return None if self.estimate is None else self.estimate.low <= self.mean <= self.estimate.high


@dataclass(frozen=True, slots=True)
class _Predictions:
    """All selected operations: those with a prediction, and the others; `ranked` has both, as they are shown."""

    ranked: Sequence[_Prediction]
    known: Sequence[_Prediction]
    unknown: Sequence[_Prediction]

    @property
    def measured(self) -> float:
        """The measured time of those with a prediction."""
        return sum(each.seconds for each in self.known)

    @property
    def predicted(self) -> float:
        """The predicted time of the same."""
        return sum(each.predicted for each in self.known)

    @property
    def unpredicted(self) -> float:
        """The measured time of the others."""
        return sum(each.seconds for each in self.unknown)


def report_of_predictions(measured: Measured) -> Report:
    """One row for each operation, those with the largest difference of all calls first; HloError without a chip."""
    chip = measured.chip
    if chip is None:
        raise requirement_error("--predicted", "--chip NAME", hint="run `hlo help chips` to list all chips")
    predictions = _all_predictions(measured)
    return Report(
        "profile",
        _predicted_answer(measured, predictions, chip.chip),
        version=1,
        numbers={
            **numbers_of(measured),
            "predicted_instructions": len(predictions.known),
            "unpredicted_instructions": sum(each.timed.operation.is_joined for each in predictions.unknown),
            "unpredicted_operations": len(predictions.unknown),
            "measured_seconds": predictions.measured,
            "predicted_seconds": predictions.predicted,
            "unpredicted_seconds": predictions.unpredicted,
            "within_band": sum(bool(each.is_within) for each in predictions.known),
        },
        parts=(facts_of(measured), _accounts_table(measured, predictions), _predictions_table(measured, predictions)),
        next=_next_of_predicted(measured, predictions, chip.chip),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _all_predictions(measured: Measured) -> _Predictions:
    estimates = _predictions_of(measured)
    predictions = [_Prediction(each, estimates.get(each)) for each in measured.selected]
    predictions.sort(key=lambda each: (-each.unexplained, each.timed.operation.name))
    known = [each for each in predictions if each.estimate is not None]
    return _Predictions(predictions, known, [each for each in predictions if each.estimate is None])


def _predicted_answer(measured: Measured, predictions: _Predictions, chip: str) -> str:
    """Predicted and measured time of the same operations, then what has no prediction."""
    number = len(predictions.known)
    if not predictions.known:
        words = f"No predictions for {format_count(len(measured.selected), 'operations')} on {chip}"
        return (
            f"{words}: they take {format_seconds(measured.per_device(predictions.unpredicted))}"
            if predictions.unknown
            else words
        )
    within = [each for each in predictions.known if each.is_within]
    part = sum(each.seconds for each in within)
    words = f"Predicted {format_seconds(measured.per_device(predictions.predicted))} on {chip}"
    words += f", measured {format_seconds(measured.per_device(predictions.measured))}"
    words += f" ({format_ratio(predictions.measured / predictions.predicted)})" if predictions.predicted else ""
    if predictions.unpredicted:
        words += f" for {format_count(number, 'operations')}; {_unknown_words(measured, predictions)}"
    share = format_percent(part / predictions.measured) if predictions.measured else "0"
    count = format_count(number, "measured times")
    return f"{words}; {len(within):,} of {count} in the predicted range ({share}% of the time)"


def _unknown_words(measured: Measured, predictions: _Predictions) -> str:
    """How much has no prediction, such as `4 custom-call instructions of 6.7 ms have no prediction`."""
    instructions = [each.timed.operation.instruction for each in predictions.unknown]
    opcodes = {"" if each is None else each.opcode for each in instructions}
    kind, number = opcodes.pop() if len(opcodes) == 1 else "", len(predictions.unknown)
    count = format_count(number, f"{kind} instructions" if kind else "operations")
    time = format_seconds(measured.per_device(predictions.unpredicted))
    return f"{count} of {time} {verb(number, 'has', 'have')} no prediction"


def _predictions_table(measured: Measured, predictions: _Predictions) -> Table:
    many = f"per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""
    reasons = _reasons(measured, predictions)
    columns: tuple[Column[_Prediction], ...] = (
        Column("seconds", "measured", "seconds", total="sum", group=many,
               of=lambda row: measured.per_device(row.seconds)),
        Column("predicted_total_seconds", "predicted", "seconds", total="sum", group=many,
               of=lambda row: None if row.estimate is None else measured.per_device(row.predicted)),
        Column("difference_seconds", "difference", "seconds", total="sum", group=many,
               of=lambda row: None if row.difference is None else measured.per_device(row.difference)),
        Column("calls", "calls", "count", from_width=120, of=lambda row: row.timed.measure.calls),
        Column("call_seconds", "measured", "seconds", group="per call", from_width=100, of=lambda row: row.mean),
        Column("predicted_seconds", "predicted", "seconds", like="call_seconds", group="per call", from_width=100,
               of=lambda row: row.estimate.seconds if row.estimate else None),
        Column("predicted_low_seconds", "low", "seconds", like="call_seconds", from_width=120,
               of=lambda row: row.estimate.low if row.estimate else None),
        Column("predicted_high_seconds", "high", "seconds", like="call_seconds", from_width=120,
               of=lambda row: row.estimate.high if row.estimate else None),
        Column("predicted_launch_seconds", "launch", "seconds", person=False,
               of=lambda row: row.estimate.launch_seconds if row.estimate else None),
        Column("factor", "factor", "ratio",
               of=lambda row: row.mean / row.estimate.seconds if row.estimate else None),
        Column("within_band", "in range", "flag", from_width=120, of=lambda row: row.is_within),
        Column("prediction_model", "model", from_width=120,
               of=lambda row: ", ".join(sorted(row.estimate.sources)) if row.estimate else None),
        Column("slower_because", "slower by", rank=7, of=lambda row: reasons.get(row.timed)),
        Column("instruction", "instruction", "name", of=lambda row: row.timed.operation.name),
        Column("category", "category", from_width=120, of=lambda row: row.timed.operation.category),
        Column("source", "source", "source", from_width=120, of=lambda row: source_of(row.timed)),
    )  # fmt: skip
    rows = rows_from(columns, predictions.ranked)
    return Table("predictions", columns, rows, noun="instructions")


# --- why operations are slower than predicted ---


_AS_PREDICTED: Final = "as predicted"
_NO_PREDICTION: Final = "no prediction"
_IDLE: Final = "idle"
_THREADS_OF_A_CORE: Final = 1024
"""Elements for each core of a GPU below which a kernel cannot fill it: half of the threads that an SM holds."""
_MOSTLY: Final = 0.5  # the part of a time from which on it is the reason


def _reasons(measured: Measured, predictions: _Predictions) -> Mapping[Timed, str]:
    """Why each operation takes longer than its range: one word for what limits it."""
    profile = measured.profile
    waited_of = dict(zip(profile.operations, waited_by_operation(profile), strict=True))
    found = {}
    for row in predictions.known:
        if row.estimate is not None and row.mean > row.estimate.high:
            found[row.timed] = _reason_of(measured, row, row.estimate, waited_of[row.timed.operation])
    return found


def _reason_of(measured: Measured, row: _Prediction, estimate: Estimate, waited: float) -> str:
    operation, rates, chip = row.timed.operation, row.timed.rates, measured.chip
    if is_transfer(operation):
        return "waiting" if waited >= _MOSTLY * (row.seconds - row.predicted) else "link bandwidth"
    instruction = operation.instruction
    if instruction is not None and touched_tiles(instruction):
        return "layout"  # whole tiles are read and written for a part of them
    if estimate.launch_seconds >= _MOSTLY * estimate.seconds:
        return "small"  # what a kernel takes to start and end is most of it
    if instruction is not None and chip is not None and measured.profile.platform == "GPU" and chip.cores:
        shapes = (instruction.shape, *(instruction.operand_shape(at) for at in range(len(instruction.operands))))
        elements = max((element_count(shape) or 0 for shape in shapes), default=0)
        if elements < chip.cores * _THREADS_OF_A_CORE:
            return "occupancy"
    return "compute" if (rates.compute_use or 0.0) > (rates.memory_use or 0.0) else "bandwidth"


@dataclass(frozen=True, slots=True)
class _Account:
    """A part of the measured time of all devices, in seconds, with the operations that it is of."""

    words: str
    seconds: float
    operations: int


def _accounts_table(measured: Measured, predictions: _Predictions) -> Table:
    """The whole measured time: what is as predicted, what is above by reason, what has no prediction, and idle time."""
    reasons = _reasons(measured, predictions)
    seconds: dict[str, float] = {_AS_PREDICTED: 0.0}
    counts: dict[str, int] = {_AS_PREDICTED: 0}
    for row in predictions.ranked:
        busy = row.timed.measure.busy_time
        words = _NO_PREDICTION if row.estimate is None else reasons.get(row.timed, _AS_PREDICTED)
        explained = busy
        if words == _NO_PREDICTION:
            explained = 0.0
        elif words != _AS_PREDICTED:
            explained = busy * min(row.predicted / row.seconds, 1.0) if row.seconds else 0.0
        seconds[_AS_PREDICTED] += explained
        seconds[words] = seconds.get(words, 0.0) + (busy - explained if words != _AS_PREDICTED else 0.0)
        counts[words] = counts.get(words, 0) + 1
    accounts = [_Account(words, seconds[words], counts[words]) for words in seconds]
    if not measured.is_narrowed:
        accounts.append(_Account(_IDLE, measured.idle, 0))
    accounts.sort(
        key=lambda each: (each.words == _IDLE, each.words == _NO_PREDICTION, each.words != _AS_PREDICTED, -each.seconds)
    )
    many = f", per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""
    columns: tuple[Column[_Account], ...] = (
        Column("account", "time", of=lambda each: _account_words(each.words)),
        Column("account_seconds", "time", "seconds", total="sum", of=lambda each: measured.per_device(each.seconds)),
        Column("share", "share", "percent", total="sum",
               of=lambda each: each.seconds / measured.whole if measured.whole else None),
        Column("operations", "operations", "count", total="sum", of=lambda each: each.operations or None),
    )  # fmt: skip
    rows = rows_from(columns, [each for each in accounts if each.seconds or each.words == _AS_PREDICTED])
    return Table("accounts", columns, rows, title=f"all of the measured time{many}", noun="rows", main=False, limit=12)


_ACCOUNT_WORDS: Final = {
    "waiting": "waiting for other devices",
    "link bandwidth": "slower transfers",
    "layout": "layout: parts of tiles",
    "small": "small kernels",
    "occupancy": "occupancy: too few elements",
    "bandwidth": "memory bandwidth not reached",
    "compute": "peak flops not reached",
}


def _account_words(words: str) -> str:
    return _ACCOUNT_WORDS.get(words, words)


def _next_of_predicted(measured: Measured, predictions: _Predictions, chip: str) -> tuple[str, ...]:
    if not measured.command or not predictions.known:
        return ()
    return (f"{measured.command} {predictions.known[0].timed.operation.name} --chip {chip}",)


# --- --calibrate: what predictions need ---
# `hlo profile TRACE --calibrate -o FILE`: measured times of classes of kernels, as a file for `--chip-file`.


_MAX_NAMED: Final = 4  # classes in a note, which is one line


def write_calibration(measured: Measured, output: OutputOptions) -> int:
    """Writes the file, and notes what it covers; HloError for a format that has no such file."""
    if output.format not in ("table", "toml"):
        raise HloError(f"--calibrate cannot be used with --format {output.format}", hint="use -o FILE.toml")
    from hlo_cli.analysis.profile.calibration import calibrate, calibration_text

    known = measured.chip
    names = ", ".join(program.name for program in measured.profile.programs)
    source = f"measured in {measured.loaded.path}: {names}" if names else f"measured in {measured.loaded.path}"
    chip, samples = calibrate(measured.profile, known, measured.profile.platform.lower(), source)
    write([calibration_text(chip, is_known=known is not None)], output.path)
    words = [measured.other_chip_words, *_calibration_words(chip, len(samples), output.path)]
    notes = tuple(Diagnostic("note", each) for each in words if each)
    return print_diagnostics((*notes, *measured.loaded.notes), (), replace(output, verbose=True))


def _calibration_words(chip: ChipSpec, kernels: int, path: str | None) -> list[str]:
    """What was fitted, how well, and how to use it."""
    from hlo_cli.analysis.hardware.chip_table import FEW_KERNELS

    calibration = chip.calibration
    if calibration is None:
        return []
    listed = [
        f"{name} {format_count(found.kernels, 'kernels')} ({found.low:.2f} to {found.high:.2f})"
        for name, found in calibration.classes.items()
        if found.kernels >= FEW_KERNELS
    ][:_MAX_NAMED]
    words = [f"{format_count(kernels, 'kernels')} in {format_count(len(calibration.classes), 'classes')}"]
    words[0] += f", {format_seconds(calibration.seconds_per_kernel)} for each kernel"
    if listed:
        words.append(f"8 of 10 of the measured time is in these ranges around the fit: {'; '.join(listed)}")
    few = [name for name, found in calibration.classes.items() if found.kernels < FEW_KERNELS]
    if few:
        more = f", and {len(few) - _MAX_NAMED} more" if len(few) > _MAX_NAMED else ""
        words.append(
            f"fewer than {FEW_KERNELS} kernels, so their range is a factor of 2: {'; '.join(few[:_MAX_NAMED])}{more}"
        )
    if path is not None:
        words.append(f"to use it: hlo schedule DUMP --chip-file {path}")
    return words
