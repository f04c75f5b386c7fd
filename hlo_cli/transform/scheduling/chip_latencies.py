"""Latency model of a chip, for the latency-hiding scheduler."""

from __future__ import annotations

from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.schedule.async_overlap import AsyncPair, OverlapAnalysis, analyze_overlap
from hlo_cli.analysis.schedule.step_time import estimate_time, path_seconds
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.scheduling.async_latencies import LatencyModel


def times_on_chip(overlap: OverlapAnalysis, throughput: ChipSpec) -> LatencyModel:
    """Latency model in seconds: rooflines of kernels, and bytes at the bandwidth of links.

    An async operation of unknown duration takes the time of the whole module, so that it overlaps as much as possible.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> overlap = analyze_overlap(parse_module("r = f32[2048] add(f32[2048] a, f32[2048] b)"))
    >>> times = times_on_chip(overlap, chip_spec("v5e"))
    >>> f"{times.of_instruction(overlap.module.entry.root):.1e}", times.model
    ('3.0e-08', 'time on v5e')
    """
    step = estimate_time(overlap, throughput)
    seconds = path_seconds(step, overlap)
    times = zip(overlap.intervals, step.intervals, strict=True)
    transfers = {interval.pair.start: time.transfer.seconds for interval, time in times}

    def of_instruction(instruction: Instruction) -> float:
        return seconds.get(instruction, 0.0)

    def of_pair(pair: AsyncPair) -> float:
        known = transfers.get(pair.start)
        return step.seconds if known is None else known

    def exposed(module: Module) -> float:
        return estimate_time(analyze_overlap(module), throughput).exposed_seconds

    return LatencyModel(of_instruction, of_pair, f"time on {throughput.chip}", exposed)
