"""`hlo schedule DUMP --chip NAME`: the estimated duration of transfers, and its exposed part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis
from hlo_cli.analysis.schedule.step_time import IntervalTime, Link, TimeEstimate, TransferTime, sum_if_known, sum_known
from hlo_cli.commands.modules.instruction_tables import loops_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, not_partitioned, stage_of
from hlo_cli.commands.options.chips import kernel_times_in_words, time_model, time_notes
from hlo_cli.commands.schedule.messages import count_synchronous, is_or_are, pair_noun, quantified_noun
from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.numbers import (
    format_bytes,
    format_count,
    format_percent,
    format_rate,
    format_seconds,
    format_seconds_range,
)
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, rows_from, unknown_if_none
from hlo_cli.source import Diagnostic
from hlo_cli.transform.module_time import ModuleTime, module_time

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.mesh_orders import MeshOrder, MeshOrders, Reach

_LINK_NAMES: Final[Mapping[Link, str]] = {"links": "interconnect", "memory": "memory", "host": "host"}
_AXIS_PARTS: Final = 1_000_000
"""The resolution of the time axis: its number of parts."""


def step_numbers(step: TimeEstimate, module: ModuleTime) -> Mapping[str, Cell]:
    """Total and compute time per execution, None if unknown; `lower_bounds` names those known in part.

    The total has a band, and a bound that holds for any schedule. It is that of the module after fusion if the module
    is not optimized.
    """
    has_time = step.least_seconds is not None
    compute = module.compute_seconds if module.compute_seconds or step.is_compute_known else None
    named = (
        ("execution_seconds", module.estimate.seconds if has_time else None, step.is_known),
        ("compute_seconds", compute, step.is_compute_known),
    )
    return {
        **{name: seconds for name, seconds, _ in named},
        "launch_seconds": module.launch_seconds,
        "execution_low_seconds": module.estimate.low if has_time else None,
        "execution_high_seconds": module.estimate.high if has_time else None,
        "execution_at_least_seconds": module.at_least_seconds,
        "is_fused_by_rule": module.is_fused,
        **_share_numbers(module),
        "lower_bounds": tuple(name for name, seconds, is_known in named if seconds is not None and not is_known),
    }


def _share_numbers(module: ModuleTime) -> Mapping[str, Cell]:
    """What a device has of a module that is not partitioned, for programs; nothing for others."""
    share = module.share
    if share is None:
        return {}
    return {
        "undivided_seconds": share.undivided.seconds,
        "work_divided_by": share.divisor,
        "added_collectives": len(share.collectives),
        "added_collective_seconds": share.exchange.seconds,
    }


def share_in_words(module: ModuleTime) -> str:
    """What a device has of a module that is not partitioned, in words; empty for others."""
    share = module.share
    if share is None:
        return ""
    from hlo_cli.analysis.sharding.partitioning import groups_in_words  # large imports that only such modules need

    work, exchange = module.estimate.seconds - share.exchange.seconds, format_seconds(share.exchange.seconds)
    words = f"the module is {not_partitioned(share.devices)}, but times are those of one device, as predicted: "
    words += f"1/{share.divisor:.3g} of the work of {format_seconds(share.undivided.seconds)} in {format_seconds(work)}"
    if not share.collectives:
        return f"{words}, and no collectives"
    kinds = " and ".join(groups_in_words(share.collectives))
    payload = sum((each.payload_bytes or 0) * each.runs.count for each in share.collectives)
    return f"{words}, and {kinds} ({format_bytes(payload)}) that the partitioner adds in {exchange}"


def execution_in_words(step: TimeEstimate, module: ModuleTime) -> str:
    """The estimated time per execution on the chip with its band; if a part is unknown, a bound, and which part."""
    unknown = "" if step.is_known or step.least_seconds is None else f" ({_unknown_in_words(step)})"
    share = f" on each of {module.share.devices:,} devices once partitioned" if module.share is not None else ""
    return f"{_seconds_in_words(step, module)} per execution{share} on {step.throughput.chip}{unknown}"


def _seconds_in_words(step: TimeEstimate, module: ModuleTime) -> str:
    if step.least_seconds is None:
        return "unknown time"
    estimate = module.estimate
    if not step.is_known:
        return f"at least {format_seconds(estimate.seconds)}"
    return format_seconds_range(estimate.low, estimate.seconds, estimate.high)


def _unknown_in_words(step: TimeEstimate) -> str:
    """What makes the time of an execution a lower bound."""
    kernels, transfers = step.unknown_kernels, len(step.unknown_transfers)
    parts = (
        f"{format_count(kernels, 'kernels')} of unknown cost" if kernels else "",
        f"{format_count(transfers, 'transfers')} of unknown duration not counted" if transfers else "",
        "loops of unknown trip count counted once" if step.unknown_trip_counts else "",
    )
    return ", ".join(filter(None, parts))


class PairTimes:
    """Time estimates of the pairs that are shown: cells, bars, sums, and notes."""

    def __init__(
        self,
        overlap: OverlapAnalysis,
        step: TimeEstimate,
        intervals: Sequence[AsyncInterval],
        synchronous: Iterable[Instruction],
        *,
        whole: ModuleTime,
    ) -> None:
        self.overlap, self.step, self.whole = overlap, step, whole
        self.intervals = intervals
        self.synchronous = {each: step.synchronous_seconds[each] for each in synchronous}
        starts = (interval.pair.start for interval in overlap.intervals)
        shown = (*(interval.pair.start for interval in intervals), *self.synchronous)
        self.exposed = {each: step.exposed[each] for each in shown}
        self.times: Mapping[Instruction, IntervalTime] = dict(zip(starts, step.intervals, strict=True))

    def columns(self, *, repeated: bool) -> tuple[Column[AsyncInterval], ...]:
        """Columns for the times of a pair; `repeated` if some pairs run more than once."""
        return (
            Column("link", "link", from_width=120, of=lambda interval: self._transfer(interval).link or UNKNOWN),
            Column("link_bytes", "link bytes", "bytes", from_width=200,
                   of=lambda interval: self._transfer(interval).link_bytes),
            Column("devices", "devices", "count", from_width=200, of=lambda interval: self._transfer(interval).devices),
            Column("seconds_per_transfer", "per transfer", "seconds", person=repeated, from_width=120,
                   of=lambda interval: self._if_known(interval, self._transfer(interval).seconds)),
            Column("low_seconds", "low", "seconds", person=False,
                   of=lambda interval: self._if_known(interval, self._transfer(interval).least_seconds)),
            Column("high_seconds", "high", "seconds", person=False,
                   of=lambda interval: self._if_known(interval, self._transfer(interval).most_seconds)),
            Column("total_seconds", "duration", "seconds", total="sum",
                   of=lambda interval: self._if_known(interval, self._time(interval).total_seconds)),
            Column("compute_seconds", "compute", "seconds", from_width=120,
                   of=lambda interval: (
                       UNKNOWN if interval.done_step is None or interval.between.unknown
                       else self._time(interval).compute_seconds)),
            Column("overlapped_seconds", "overlapped", "seconds", total="sum", from_width=120,
                   of=lambda interval: (
                       UNKNOWN if interval.done_step is None
                       else self._if_known(interval, self._time(interval).overlapped_seconds))),
            Column("exposed_seconds", "exposed", "seconds", total="sum", role="waste",
                   of=lambda interval: (
                       UNKNOWN if interval.done_step is None
                       else self._if_known(interval, self._time(interval).exposed_seconds))),
        )  # fmt: skip

    def _time(self, interval: AsyncInterval) -> IntervalTime:
        return self.times[interval.pair.start]

    def _transfer(self, interval: AsyncInterval) -> TransferTime:
        return self._time(interval).transfer

    def _if_known(self, interval: AsyncInterval, seconds: Cell) -> Cell:
        return UNKNOWN if self._time(interval).total_seconds is None else seconds

    def span_column(self) -> Column[AsyncInterval]:
        """The column of bars, on a time axis where every loop runs one iteration."""
        loops = tuple(
            replace(loop, start=self._part(loop.start), end=self._part(loop.end + 1))
            for loop in loops_of(self.overlap.runs)
            if 0 < self._axis < math.inf
        )
        return Column(
            "span", "time", "span", steps=_AXIS_PARTS, seconds=self._axis, loops=loops, machine=False, of=self.span
        )

    def _part(self, step: int) -> int:
        starts = self.step.simulation.start_seconds
        return _part_at(starts[step] if step < len(starts) else self._axis, self._axis)

    @property
    def _axis(self) -> float:
        return self.step.simulation.axis_seconds

    def span(self, interval: AsyncInterval) -> tuple[int, int, bool, int] | None:
        """The bar of a pair with its exposed part; None for what a loop carries into its next iteration.

        The bar is one execution, and its exposed part the mean of all, as the axis shows one iteration of a loop and
        the columns count every one. It is drawn at the end, also where another transfer on the link was waited for.
        """
        played, done = self.step.simulation, interval.done_step
        if done is None or done < interval.start_step or not 0 < self._axis < math.inf:
            return None
        # What the compiler marked is_sync blocks at its start.
        waits_at = interval.bound_step if interval.is_sync else done
        begin, waits_from = played.start_seconds[interval.bound_step], played.start_seconds[waits_at]
        end = waits_from + played.wait_seconds.get(waits_at, 0.0)
        first, last = (_part_at(each, self._axis) for each in (begin, end))
        # A transfer of no duration at the end of the axis keeps one part, so that it is drawn.
        first = min(first, _AXIS_PARTS - 1)
        last = max(last, first + 1)
        exposed = self._exposed_per_execution(interval)
        if exposed is None:  # nothing of it is overlapped, however long it is in flight
            return first, last - 1, True, first
        waiting = max(_part_at(max(end - exposed, begin), self._axis), first)
        return first, last - 1, True, min(waiting, last - 1) if exposed > 0 else last

    def _exposed_per_execution(self, interval: AsyncInterval) -> float | None:
        """The exposed seconds of one execution, on average; None if that is all of its duration."""
        time = self.times[interval.pair.start]
        if not time.exposed_seconds or not interval.executions.count:
            return 0.0
        return None if time.exposed_seconds == time.total_seconds else time.exposed_seconds / interval.executions.count

    def kind_columns(self) -> tuple[Column[str], ...]:
        """Columns for the total and exposed times of an operation by its name, and its share of the execution.

        Synchronous instructions count as exposed.
        """
        return (
            Column(
                "total_seconds",
                "duration",
                "seconds",
                total="sum",
                of=lambda name: unknown_if_none(self._sum_of(name, lambda time: time.total_seconds)),
            ),
            Column(
                "exposed_seconds",
                "exposed",
                "seconds",
                total="sum",
                role="waste",
                of=lambda name: unknown_if_none(self._exposed_of(name)),
            ),
            Column(
                "execution_share",
                "of total",
                "percent",
                total="sum",
                of=lambda name: unknown_if_none(self._share(self._exposed_of(name))),
            ),
        )

    def _exposed_of(self, name: str) -> float | None:
        return self._sum_of(name, lambda time: time.exposed_seconds)

    def _sum_of(self, name: str, part: Callable[[IntervalTime], float | None]) -> float | None:
        times = [self.times[interval.pair.start] for interval in self.intervals if interval.pair.operation == name]
        synchronous = [seconds for each, seconds in self.synchronous.items() if each.opcode == name]
        return sum_if_known((*map(part, times), *synchronous))

    @property
    def exposed_seconds(self) -> float:
        """The known exposed time of the transfers that are shown."""
        return sum_known(self.exposed.values())

    def numbers(self) -> Mapping[str, Cell]:
        """The numbers of the answer, and the time model.

        Values with an unknown part are None, and their known part has a field of its own; only the total and compute
        times per execution are lower bounds, and `lower_bounds` names them.
        """
        times = [self.times[interval.pair.start] for interval in self.intervals]
        sums = {
            "transfer_seconds": [time.total_seconds for time in times],
            "exposed_seconds": list(self.exposed.values()),
            "synchronous_seconds": list(self.synchronous.values()),
        }
        partly = {
            f"known_{name}": sum_known(times_of_sum) if any(each is not None for each in times_of_sum) else None
            for name, times_of_sum in sums.items()
            if None in times_of_sum
        }
        return {
            **step_numbers(self.step, self.whole),
            **{name: sum_if_known(times_of_sum) for name, times_of_sum in sums.items()},
            **partly,
            "exposed_transfers": sum(bool(seconds) for seconds in self.exposed.values()),
            "exposed_share": self._share(sum_if_known(sums["exposed_seconds"])),
            "time_model": time_model(self.step.throughput),
        }

    def _share(self, seconds: float | None) -> float | None:
        """The share of a time in the execution; None if either has an unknown part."""
        return (
            None if seconds is None or not self.step.is_known or not self.step.seconds else seconds / self.step.seconds
        )

    def answer(self, *, is_brief: bool = False) -> str:
        """How many transfers are exposed, and how much of an execution that is.

        A text that `is_brief` is for a screen that says elsewhere how long an execution takes.
        """
        execution = execution_in_words(self.step, self.whole)
        ending = "" if is_brief else f": {execution}"
        exposed_in_words = partial(self._exposed_in_words, is_brief=is_brief)
        synchronous = sum_known(self.synchronous.values())
        # Of synchronous transfers without a known time only the number can be told.
        rest = "" if synchronous else self._synchronous_in_words()
        if not self.intervals:
            if synchronous:
                return exposed_in_words((self._count_synchronous(),))
            return f"No async operations in {format_count(len(self.overlap.sequence), 'steps')}{ending}{rest}"
        exposed = [interval for interval in self.intervals if self.exposed[interval.pair.start]]
        # Nothing can be said of the pairs, so the execution alone is the answer.
        if len(self._unknown) == len(self.intervals):
            if is_brief:
                return f"{quantified_noun(self.intervals)} of unknown time{rest or self._synchronous_in_words()}"
            return f"{execution[0].upper()}{execution[1:]}{rest or self._synchronous_in_words()}"
        if exposed:
            counted = f"{len(exposed):,} of {len(self.intervals):,} {pair_noun(self.intervals)}"
            number = counted if len(exposed) < len(self.intervals) else quantified_noun(self.intervals)
            if not synchronous:
                return f"{exposed_in_words((number,), verb=is_or_are(len(exposed)))}{rest}"
            seconds = sum_known(self.exposed[interval.pair.start] for interval in exposed)
            of_pairs = f"{number} ({'at least ' if self._unknown else ''}{format_seconds(seconds)})"
            return exposed_in_words((of_pairs, f"{self._count_synchronous()} ({self._synchronous_duration()})"))
        known = ", as far as known" if self._unknown else ""
        words = f"{quantified_noun(self.intervals)} {is_or_are(len(self.intervals))} overlapped{known}"
        if synchronous:
            return f"{words}; {exposed_in_words((self._count_synchronous(),))}"
        return f"{words}{ending}{rest}"

    def _exposed_in_words(self, transfers: Sequence[str], *, verb: str | None = None, is_brief: bool = False) -> str:
        """That these transfers are exposed, for how long, and, unless that is brief, of which time."""
        is_known = sum_if_known(self.exposed.values()) is not None
        # A share of a lower bound would look like a number that is known.
        share = self._share(self.exposed_seconds) if is_known else None
        percent = f" ({format_percent(share)}%)" if share is not None else ""
        estimated = "the estimated " if self.step.is_known else ""
        part = f"{'' if is_known else 'at least '}{format_seconds(self.exposed_seconds)}{percent}"
        verb = verb or (is_or_are(len(self.synchronous)) if len(transfers) == 1 else "are")
        whole = f" of {estimated}{_seconds_in_words(self.step, self.whole)} on {self.step.throughput.chip}"
        return f"{' and '.join(transfers)} {verb} exposed: {part}{'' if is_brief else whole}"

    def _count_synchronous(self) -> str:
        number, noun = count_synchronous([each.opcode for each in self.synchronous]).split(" ", 1)
        return f"{number} synchronous {noun}"

    @property
    def _unknown(self) -> list[AsyncInterval]:
        """The pairs of unknown duration."""
        return [interval for interval in self.intervals if self.times[interval.pair.start].total_seconds is None]

    def _synchronous_in_words(self) -> str:
        if not self.synchronous:
            return ""
        number = count_synchronous([each.opcode for each in self.synchronous])
        return f"; {number} ({self._synchronous_duration()}) {is_or_are(len(self.synchronous))} synchronous"

    def _synchronous_duration(self) -> str:
        known, total = sum_known(self.synchronous.values()), sum_if_known(self.synchronous.values())
        if total is None and all(seconds is None for seconds in self.synchronous.values()):
            return "unknown time"
        return format_seconds(known) if total is not None else f"at least {format_seconds(known)}"

    def notes(self) -> Iterable[Diagnostic]:
        """Notes on the time model and on unknown parts."""
        yield from time_notes(self.step.throughput, self.overlap.module)
        yield from band_notes(self.step.throughput, self.whole)
        links = [self.times[interval.pair.start].transfer.link for interval in self._unknown]
        synchronous = [
            self.step.synchronous[each].link for each, seconds in self.synchronous.items() if seconds is None
        ]
        for links_of, noun in ((links, "pairs"), (synchronous, "synchronous transfers")):
            if unknown := [link for link in links_of if link is not None]:
                names = " and ".join(sorted({_LINK_NAMES[link] for link in unknown}))
                why = f"no {names} bandwidth known for chip {self.step.throughput.chip}"
                message = f"no time estimate for {format_count(len(unknown), noun)}: {why}"
                yield Diagnostic("note", message, hint="use --chip-file FILE to specify it")
        if other := links.count(None):
            why = "it also computes" if other == 1 else "they also compute"
            yield Diagnostic("note", f"no time estimate for {format_count(other, 'pairs')}: {why}")
        if self.step.unknown_kernels:
            number = format_count(self.step.unknown_kernels, "kernels")
            have, their = ("has", "its") if self.step.unknown_kernels == 1 else ("have", "their")
            message = f"{number} {have} unknown cost; {their} time is estimated from operand and result bytes"
            yield Diagnostic("note", message)
        if self.step.unknown_trip_counts:
            number = format_count(self.step.unknown_trip_counts, "computations")
            one = self.step.unknown_trip_counts == 1
            loops = "in a loop with unknown trip count is" if one else "in loops with unknown trip count are"
            yield Diagnostic("note", f"{number} {loops} counted once")


def whole_time(loaded: Loaded, overlap: OverlapAnalysis, step: TimeEstimate) -> ModuleTime:
    """The predicted duration of one execution; a module that is not optimized is fused by rule first."""
    is_optimized = stage_of(loaded) != "before optimization"
    return computed_once(
        module_time, loaded.module, step.throughput, is_optimized=is_optimized, overlap=overlap, step=step
    )


def band_notes(chip: ChipSpec, module: ModuleTime) -> Iterable[Diagnostic]:
    """What the duration of an execution assumes."""
    if words := share_in_words(module):
        yield Diagnostic("note", words)
    words = kernel_times_in_words(chip, is_optimized=module.at_least_seconds is not None)
    if module.launch_seconds:
        words += f"; launches take {format_seconds(module.launch_seconds)}"
    if module.is_fused:
        words = f"the module is timed as {format_count(module.kernels, 'kernels')}, after fusion by rule; {words}"
    yield Diagnostic("note", words)


def _part_at(seconds: float, axis_seconds: float) -> int:
    return min(int(seconds / axis_seconds * _AXIS_PARTS), _AXIS_PARTS)


# --- --mesh-order: the order of the axes ---
# `hlo schedule DUMP --chip NAME --mesh-order`: how long collectives take in each order of the axes of the mesh.


_REACH_WORDS: Final[Mapping[Reach, str]] = {
    "links": "links",
    "both": "links and network",
    "network": "network",
}


def report_of_mesh_orders(loaded: Loaded, chip: ChipSpec) -> Report:
    """One row for each order of the axes, the fastest first; HloError without a mesh or the rate of the network."""
    from hlo_cli.analysis.sharding.mesh_orders import mesh_orders
    from hlo_cli.analysis.sharding.meshes import mesh_text

    found = mesh_orders(loaded.module, chip)
    return Report(
        "schedule",
        _orders_answer(found, chip),
        version=2,
        numbers={
            "mesh": mesh_text(found.mesh),
            "domain_devices": found.domain,
            "network_bytes_per_second": found.network.per_second,
            "network_source": found.network.source,
            "collectives": found.collectives,
            "unplaced_collectives": found.unplaced,
            "best_order": ",".join(found.orders[0].axes),
            "time_model": time_model(chip),
        },
        parts=(_orders_table(found),),
        notes=(*_orders_notes(found, chip), *time_notes(chip, loaded.module)),
        input=input_facts(loaded),
    )


def _orders_answer(found: MeshOrders, chip: ChipSpec) -> str:
    """Which order is fastest, and by how much."""
    from hlo_cli.analysis.sharding.meshes import mesh_text

    best, given = found.orders[0], next(each for each in found.orders if each.is_given)
    words = f"Collectives take {_range(best)} per execution on {chip.chip}"
    if not best.estimate.seconds:
        return f"No collectives along known axes of the mesh {mesh_text(found.mesh)}"
    if all(each.estimate.seconds == best.estimate.seconds for each in found.orders):
        return f"{words} in every order of the axes"
    if best.is_given:
        return f"{words} in the given order of the axes, {_order(best)}, the fastest of {len(found.orders)}"
    slower = f"{_range(given)} in the given order, {_order(given)}"
    return f"{words} with the axes in the order {_order(best)}, and {slower}"


def _range(order: MeshOrder) -> str:
    return format_seconds_range(order.estimate.low, order.estimate.seconds, order.estimate.high)


def _order(order: MeshOrder) -> str:
    return ", ".join(order.axes)


def _orders_table(found: MeshOrders) -> Table:
    columns = _order_columns()
    return Table("mesh_orders", columns, rows_from(columns, found.orders), noun="orders", title="Mesh orders")


def _order_columns() -> tuple[Column[MeshOrder], ...]:
    return (
        Column("axes", "order of axes", of=_order),
        Column("total_seconds", "duration", "seconds", of=lambda order: order.estimate.seconds),
        Column("low_seconds", "low", "seconds", of=lambda order: order.estimate.low),
        Column("high_seconds", "high", "seconds", of=lambda order: order.estimate.high),
        Column(
            "reaches",
            "axes over",
            of=lambda order: "; ".join(f"{name}: {_REACH_WORDS[reach]}" for name, reach in order.reaches),
        ),
        Column("is_given", "given", "flag", of=lambda order: order.is_given),
    )


def _orders_notes(found: MeshOrders, chip: ChipSpec) -> Iterable[Diagnostic]:
    """What the durations assume, and what they leave out."""
    rate = format_rate(found.network.per_second, "B")
    words = f"links connect {found.domain:,} devices of {chip.chip}, neighbors along the last axes; each reaches others"
    yield Diagnostic("note", f"{words} over the network at {rate}, without latency ({found.network.source})")
    if found.unplaced:
        left = format_count(found.unplaced, "collectives")
        yield Diagnostic("note", f"{left} along no whole axes of the mesh not in the durations")
    if found.unknown:
        yield Diagnostic("note", f"{format_count(found.unknown, 'collectives')} of unknown duration not counted")
