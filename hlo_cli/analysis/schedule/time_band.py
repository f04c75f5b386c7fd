"""Band of the estimated duration of one execution."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hlo_cli.analysis.hardware.estimate import Estimate
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
from hlo_cli.analysis.schedule.simulation import Events, simulate
from hlo_cli.analysis.schedule.step_time import TimeEstimate, events_of
from hlo_cli.analysis.schedule.transfer_time import TransferTime


def time_band(overlap: OverlapAnalysis, step: TimeEstimate) -> Estimate:
    """Returns the duration of one execution with its band.

    Its ends are the durations if all kernels and transfers take the time at that end of their own bands.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> from hlo_cli.analysis.schedule.step_time import estimate_time
    >>> overlap = analyze_overlap(parse_module("r = f32[1000000000] add(f32[1000000000] a, f32[1000000000] b)"))
    >>> found = time_band(overlap, estimate_time(overlap, chip_spec("h100")))
    >>> [f"{seconds * 1e3:.1f} ms" for seconds in (found.low, found.seconds, found.high)]
    ['3.6 ms', '3.6 ms', '6.2 ms']
    """
    low = simulate(overlap, _events_at(overlap, step, "low")).seconds
    high = simulate(overlap, _events_at(overlap, step, "high")).seconds
    sources = frozenset(source for each in step.predicted.values() for source in each.sources)
    return Estimate(min(low, step.seconds), step.seconds, max(high, step.seconds), sources)


def _events_at(overlap: OverlapAnalysis, step: TimeEstimate, end: Literal["low", "high"]) -> Events:
    """Returns the events at each step if all is at this end of its band."""

    def at_end(transfer: TransferTime) -> TransferTime:
        return replace(transfer, seconds=transfer.least_seconds if end == "low" else transfer.most_seconds)

    kernels = step.predicted.items()
    predicted = {kernel: replace(each, seconds=each.low if end == "low" else each.high) for kernel, each in kernels}
    transfers = [at_end(interval.transfer) for interval in step.intervals]
    return events_of(overlap, predicted, transfers, {each: at_end(time) for each, time in step.synchronous.items()})
