"""`hlo schedule DUMP --chip NAME`: how long transfers take, and how much of that is exposed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis
from hlo_cli.analysis.schedule.step_time import IntervalTime, TimeEstimate, sum_if_known, sum_known
from hlo_cli.commands.schedule.messages import blocking_number, pair_noun, quantified_noun
from hlo_cli.commands.shared.chips import time_model, time_notes
from hlo_cli.commands.shared.loop_brackets import loops_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.cell import UNKNOWN, Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.source import Diagnostic

_PARTS: Final = 1_000_000
"""The resolution of the time axis: its number of parts."""


def step_numbers(step: TimeEstimate) -> Mapping[str, Cell]:
    """Total and compute time per execution, None if unknown; `lower_bounds` names those known in part."""
    work = step.work_seconds if step.work_seconds or step.is_work_known else None
    named = (("step_seconds", step.least_seconds, step.is_known), ("work_seconds", work, step.is_work_known))
    return {
        **{name: seconds for name, seconds, _ in named},
        "lower_bounds": tuple(name for name, seconds, is_known in named if seconds is not None and not is_known),
    }


def length_in_words(step: TimeEstimate, noun: str = "") -> str:
    """The estimated time per execution on the chip, with `at least` if a part of it is unknown."""
    chip = step.throughput.chip
    if step.least_seconds is None:
        return f"unknown time{noun} on {chip}"
    return f"{'' if step.is_known else 'at least '}{format_seconds(step.seconds)}{noun} on {chip}"


class PairTimes:
    """Time estimates of the pairs that are shown: cells, bars, sums, and notes."""

    def __init__(
        self,
        overlap: OverlapAnalysis,
        step: TimeEstimate,
        flights: Sequence[AsyncInterval],
        blocking: Iterable[Instruction],
    ) -> None:
        self.overlap, self.step = overlap, step
        self.intervals = flights
        self.synchronous = {each: step.synchronous_seconds[each] for each in blocking}
        starts = (flight.pair.start for flight in overlap.intervals)
        self.times: Mapping[Instruction, IntervalTime] = dict(zip(starts, step.intervals, strict=True))

    def columns(self, *, repeated: bool) -> tuple[Column, ...]:
        """Columns for the times of a pair; `repeated` if some pairs run more than once."""
        return (
            Column("wire", "wire", from_width=120),
            Column("wire_bytes", "on wire", "bytes", from_width=200),
            Column("devices", "devices", "count", from_width=200),
            Column("transfer_seconds", "once", "seconds", person=repeated, from_width=120),
            Column("total_seconds", "takes", "seconds", total="sum"),
            Column("between_seconds", "work", "seconds", from_width=120),
            Column("hidden_seconds", "hidden", "seconds", total="sum", from_width=120),
            Column("exposed_seconds", "waits", "seconds", total="sum", role="waste"),
        )

    def cells(self, flight: AsyncInterval) -> Row:
        """The cells of a pair for these columns."""
        time = self.times[flight.pair.start]
        transfer = time.transfer
        is_known = time.total_seconds is not None
        is_awaited = flight.done_step is not None
        return (
            transfer.link or UNKNOWN,
            transfer.link_bytes,
            transfer.devices,
            transfer.seconds if is_known else UNKNOWN,
            time.total_seconds if is_known else UNKNOWN,
            time.between_seconds if is_awaited and not flight.between.unknown else UNKNOWN,
            time.hidden_seconds if is_known and is_awaited else UNKNOWN,
            time.exposed_seconds if is_known and is_awaited else UNKNOWN,
        )

    def span_column(self) -> Column:
        """The column of bars, on a time axis where every loop runs one iteration."""
        loops = tuple(
            replace(loop, start=self._part(loop.start), end=self._part(loop.end + 1))
            for loop in loops_of(self.overlap.runs)
            if 0 < self._axis < math.inf
        )
        return Column("span", "time", "span", steps=_PARTS, seconds=self._axis, loops=loops, machine=False)

    def _part(self, step: int) -> int:
        begins = self.step.simulation.begin_seconds
        return _part_at(begins[step] if step < len(begins) else self._axis, self._axis)

    @property
    def _axis(self) -> float:
        return self.step.simulation.axis_seconds

    def span(self, flight: AsyncInterval) -> tuple[int, int, bool, int] | None:
        """The bar of a pair with its exposed part; None for what a loop carries into its next iteration."""
        played, done = self.step.simulation, flight.done_step
        if done is None or done < flight.start_step or not 0 < self._axis < math.inf:
            return None
        waits_at = flight.bound_step if flight.is_sync else done
        begin, waits_from = played.begin_seconds[flight.bound_step], played.begin_seconds[waits_at]
        end = waits_from + played.wait_seconds.get(waits_at, 0.0)
        first, waiting, last = (_part_at(each, self._axis) for each in (begin, waits_from, end))
        first = min(first, _PARTS - 1)
        time = self.times[flight.pair.start]
        if time.total_seconds and time.exposed_seconds == time.total_seconds:
            waiting = first
        return first, max(last - 1, first), True, waiting if last > waiting else max(last, first + 1)

    def kind_columns(self) -> tuple[Column, ...]:
        """Columns for the total and exposed times of an operation, and its share of the execution."""
        return (
            Column("total_seconds", "takes", "seconds", total="sum"),
            Column("exposed_seconds", "waits", "seconds", total="sum", role="waste"),
            Column("step_share", "of step", "percent", total="sum"),
        )

    def kind_cells(self, name: str) -> Row:
        """Total time of an operation's pairs and of its synchronous instructions, which count as waiting."""
        times = [self.times[flight.pair.start] for flight in self.intervals if flight.pair.operation == name]
        blocking = [seconds for each, seconds in self.synchronous.items() if each.opcode == name]
        total = sum_if_known((*(time.total_seconds for time in times), *blocking))
        exposed = sum_if_known((*(time.exposed_seconds for time in times), *blocking))
        return _or_unknown(total), _or_unknown(exposed), _or_unknown(self._share(exposed))

    @property
    def exposed_seconds(self) -> float:
        """The known exposed time of the pairs that are shown."""
        return sum_known(self.times[flight.pair.start].exposed_seconds for flight in self.intervals)

    def numbers(self) -> Mapping[str, Cell]:
        """The numbers of the answer, and the time model.

        Values with an unknown part are None, and their known part has a field of its own; only the total and compute
        times per execution are lower bounds, and `lower_bounds` names them.
        """
        times = [self.times[flight.pair.start] for flight in self.intervals]
        sums = {
            "transfer_seconds": [time.total_seconds for time in times],
            "exposed_seconds": [time.exposed_seconds for time in times],
            "blocking_seconds": list(self.synchronous.values()),
        }
        partly = {
            f"known_{name}": sum_known(found) if any(each is not None for each in found) else None
            for name, found in sums.items()
            if None in found
        }
        return {
            **step_numbers(self.step),
            **{name: sum_if_known(found) for name, found in sums.items()},
            **partly,
            "exposed_share": self._share(sum_if_known(sums["exposed_seconds"])),
            "time_model": time_model(self.step.throughput),
        }

    def _share(self, seconds: float | None) -> float | None:
        """The share of a time in the execution; None if either has an unknown part."""
        return (
            None if seconds is None or not self.step.is_known or not self.step.seconds else seconds / self.step.seconds
        )

    def answer(self) -> str:
        """How much of an execution is exposed, and for how many of the pairs."""
        return self._answer() + self._blocking_in_words()

    def _answer(self) -> str:
        length = length_in_words(self.step, " a step")
        if not self.intervals:
            return f"Nothing is asynchronous in {format_count(len(self.overlap.sequence), 'steps')}: {length}"
        if len(self._unknown) == len(self.intervals):
            number = format_count(len(self.intervals), "pairs")
            return f"How long {number} {'takes' if len(self.intervals) == 1 else 'take'} is unknown: {length}"
        waiting = [flight for flight in self.intervals if self.times[flight.pair.start].exposed_seconds]
        if not waiting:
            verb = "hides" if len(self.intervals) == 1 else "hide"
            known = ", as far as known" if self._unknown else ""
            return f"{quantified_noun(self.intervals)} {verb} behind other work{known}: {length}"
        few = f"{len(waiting):,} of {len(self.intervals):,} {pair_noun(self.intervals)}"
        number = few if len(waiting) < len(self.intervals) else quantified_noun(self.intervals)
        verb = "is" if len(waiting) == 1 else "are"
        least = "at least " if self._unknown else ""
        share = self._share(self.exposed_seconds) if not least else None
        part = f", {format_percent(share)}% of {length}" if share is not None else f" of {length}"
        return f"{number} {verb} waited for: {least}{format_seconds(self.exposed_seconds)}{part}"

    @property
    def _unknown(self) -> list[AsyncInterval]:
        """The pairs of unknown duration."""
        return [flight for flight in self.intervals if self.times[flight.pair.start].total_seconds is None]

    def _blocking_in_words(self) -> str:
        if not self.synchronous:
            return ""
        number = blocking_number([each.opcode for each in self.synchronous])
        verb = "is" if len(self.synchronous) == 1 else "are"
        known, total = sum_known(self.synchronous.values()), sum_if_known(self.synchronous.values())
        took = format_seconds(known) if total is not None else f"at least {format_seconds(known)}"
        if total is None and all(seconds is None for seconds in self.synchronous.values()):
            took = "of unknown time"
        return f"; {number}, {took}, {verb} not asynchronous"

    def notes(self) -> Iterable[Diagnostic]:
        """Notes on the time model and on unknown parts."""
        yield from time_notes(self.step.throughput, self.overlap.module)
        wires = [self.times[flight.pair.start].transfer.link for flight in self._unknown]
        blocking = [self.step.synchronous[each].link for each, seconds in self.synchronous.items() if seconds is None]
        for found, noun in ((wires, "pairs"), (blocking, "transfers that are not asynchronous")):
            if unsaid := [wire for wire in found if wire is not None]:
                words = f"no figure for the {' and the '.join(sorted(set(unsaid)))} of {self.step.throughput.chip}"
                yield Diagnostic(
                    "note", f"{format_count(len(unsaid), noun)} without a time: {words}", hint="--chip-file FILE"
                )
        if other := wires.count(None):
            yield Diagnostic(
                "note", f"{format_count(other, 'pairs')} without a time: more is done there than bytes moved"
            )
        if self.step.unknown_kernels:
            number = format_count(self.step.unknown_kernels, "kernels")
            yield Diagnostic("note", f"{number} of unknown cost: the bytes of operands and results alone take time")
        if self.step.unknown_trip_counts:
            number = format_count(self.step.unknown_trip_counts, "computations")
            yield Diagnostic("note", f"{number} in loops of unknown trip count: counted once")


def _or_unknown(cell: float | None) -> Cell:
    return UNKNOWN if cell is None else cell


def _part_at(seconds: float, axis_seconds: float) -> int:
    return min(int(seconds / axis_seconds * _PARTS), _PARTS)
