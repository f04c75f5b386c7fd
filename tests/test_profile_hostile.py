"""Traces with impossible times, ids, and statistics of the wrong type are measured, or are an error in one line."""

from __future__ import annotations

from random import Random

import pytest

from hlo_cli.analysis.profile.measure import (
    measure,
    measured_trips,
    operation_measures,
    over_peak,
    program_rates,
    rates,
)
from hlo_cli.analysis.profile.operation_times import transfer_times
from hlo_cli.analysis.profile.profile import GivenModule
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import TracedProgram
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import HloError
from hlo_cli.syntax.text.parser import parse_module
from traces_writing import Event, PlaneWriter, Reference, Statistic, Unsigned, file_of

PLANES = ("/device:TPU:0", "/device:TPU:1 SparseCore 0", "/device:GPU:0", "/device:GPU:x", "/host:CPU", "/device:TPU:")
LINES = (
    "XLA Ops", "XLA Modules", "Steps", "Async XLA Ops", "Stream #7(Kernel)", "tf_XLA", "Framework Ops",
    "Sparse Core Ops", "Sparse Core Modules", "python",
)  # fmt: skip
NAMES = (
    "hlo_op", "hlo_module", "program_id", "run_id", "symbol_id", "device_ordinal", "step_num", "correlation_id",
    "device_offset_ps", "device_duration_ps", "flops", "model_flops", "bytes_accessed", "memory_access_breakdown",
    "hlo_category", "tf_op", "source", "flow", "peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second",
    "core_count", "clock_rate", "memory_bandwidth", "compute_cap_major", "device_vendor", "has_merged_vmem",
    "cuda_graph_exec_id", "offload_core_id", "tc_offload_start_id",
)  # fmt: skip
NUMBERS = (0, 1, 2, 5, 7, -1, -7, 1 << 31, -(1 << 63), (1 << 63) - 1, 1 << 40, 1000)
TEXTS = (
    "",
    "a",
    "w",
    "all-reduce-start.1",
    "all-reduce-done.1",
    "jit_f(7)",
    "CudaGraphExec:1",
    "a::r",
    "9" * 40,
    "%a = (",
)
COUNT = 30
MODULE = """HloModule jit_f
c { p = (s32[]) parameter(0)  ROOT l = pred[] constant(false) }
b { p = (s32[]) parameter(0)  g = s32[] get-tuple-element(p), index=0  a = s32[] add(g, g)  ROOT t = (s32[]) tuple(a) }
ENTRY e { p = (s32[]) parameter(0)  ROOT w = (s32[]) while(p), condition=c, body=b }"""


def statistic(random: Random) -> Statistic:
    number, text = random.choice(NUMBERS), random.choice(TEXTS)
    return random.choice(
        (
            number,
            Unsigned(number % (1 << 64)),
            text,
            Reference(text),
            text.encode(),
            random.randbytes(9),
            random.choice((0.5, float("nan"), float("inf"), -1e300)),
        )
    )


def statistics(random: Random) -> dict[str, Statistic]:
    return {name: statistic(random) for name in NAMES if random.random() < 0.3}


def hostile_file(random: Random) -> bytes:
    planes = []
    for name in random.sample(PLANES, random.randint(1, 3)):
        plane = PlaneWriter(name, random.choice(NUMBERS), statistics(random))
        kinds = [
            plane.kind(random.choice(TEXTS), random.choice(TEXTS), statistics(random), key=str(number))
            for number in range(6)
        ]
        for line in random.sample(LINES, random.randint(1, 5)):
            events = [
                Event(
                    random.choice([*kinds, 99]),
                    random.choice((*NUMBERS, random.randrange(50))),
                    random.choice((*NUMBERS, random.randrange(50))),
                    statistics(random),
                    random.choice((0, 0, 0, 3, -4)),
                )
                for _ in range(random.randrange(12))
            ]
            plane.line(line, events, id=random.choice(NUMBERS), timestamp_ns=random.choice((0, 0, *NUMBERS)))
        planes.append(plane)
    return file_of(planes)


def no_program(program: TracedProgram) -> Module:
    raise AssertionError(program)


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 6))])
def test_whatever_a_trace_holds_is_measured_or_refused(part: int) -> None:
    given = [GivenModule(7, parse_module(MODULE))]
    measured = 0
    for seed in range(part * COUNT, part * COUNT + COUNT):
        data = [hostile_file(Random(seed)), *([hostile_file(Random(seed + 1))] if seed % 5 == 0 else [])]
        try:
            profile = measure([read_trace_bytes(each, "t") for each in data], no_program, given)
        except HloError:
            continue
        measured += 1
        found = operation_measures(profile)
        achieved = rates(profile, found)
        program_rates(profile, found)
        transfer_times(profile)
        measured_trips(profile, [each.calls for each in found])
        assert [over_peak(*each) for each in zip(profile.operations, achieved, strict=True)]
        assert profile.total_ps >= 0
        assert all(each.total >= 0 for each in found)
    assert measured >= COUNT // 3
