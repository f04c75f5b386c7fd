"""Traces of GPUs: CUDA graphs that are one event, and traces that do not name the instructions of kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_cli.analysis.hardware.chip_specs import gpu_in_trace, traced_gpus
from hlo_cli.analysis.profile.measure import measure, operation_measures, peaks_of
from hlo_cli.analysis.profile.profile import GivenModule, Profile
from hlo_cli.cli import main
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS, Plane, TracedProgram
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.syntax.text.parser import parse_module
from traces_writing import Event, PlaneWriter, Statistic, Unsigned, file_of

MODULE = """HloModule jit_f, is_scheduled=true
command_buffer {
  p = f32[1000000] parameter(0)
  small.1 = f32[] constant(1)
  big.1 = f32[1000000] add(p, p)
  big-2.1 = f32[1000000] add(big.1, p)
  s = f32[10] slice(p), slice={[0:10]}
  ROOT t = (f32[1000000], f32[10]) tuple(big-2.1, s)
}
ENTRY e {
  p = f32[1000000] parameter(0)
  first.3 = f32[1000000] negate(p)
  call.5 = (f32[1000000], f32[10]) call(first.3), to_apply=command_buffer
  ROOT last = f32[1000000] get-tuple-element(call.5), index=0
}"""


def no_program(program: TracedProgram) -> Module:
    raise AssertionError(program)


def profile_of(plane: PlaneWriter, text: str = MODULE) -> Profile:
    return measure(read_trace_bytes(file_of([plane]), "t"), no_program, [GivenModule(7, parse_module(text))])


def graph_plane(*, is_annotated: bool = True) -> PlaneWriter:
    """Three runs of 1,000,000 ps, of which the graph takes 700,000."""
    plane = PlaneWriter("/device:GPU:0")
    facts: dict[str, Statistic] = {"hlo_module": "jit_f", "program_id": Unsigned(7)}
    events = []
    for run in range(3):
        for kernel, op, begin, duration in (
            ("first_3", "first.3", 0, 200_000),
            ("CudaGraphExec:4", "call.5", 250_000, 700_000),
        ):
            own = {**facts, "hlo_op": op} if is_annotated else {}
            events.append(Event(plane.kind(kernel), run * 1_000_000 + begin, duration, own))
    plane.line("Stream #1(Kernel)", events)
    return plane


def test_operations_of_a_graph_share_its_time_in_order() -> None:
    profile = profile_of(graph_plane())
    found = dict(zip([each.name for each in profile.operations], operation_measures(profile), strict=True))
    assert set(found) == {"first.3", "big.1", "big-2.1", "s"}
    assert [each.name for each in profile.operations if each.is_estimated] == ["big.1", "big-2.1", "s"]
    assert found["first.3"].total == pytest.approx(600_000 * PS)
    parts = [found[name].total for name in ("big.1", "big-2.1", "s")]
    assert sum(parts) == pytest.approx(2_100_000 * PS)
    assert parts[0] == pytest.approx(parts[1], abs=3 * PS)
    assert parts[2] < parts[0] / 2
    assert all(each.calls == each.events == 3 for each in found.values())
    rows = profile.occurrences
    assert sorted(rows.begins_ps.tolist()) == rows.begins_ps.tolist()
    assert rows.ends_ps[3] == 950_000
    assert rows.runs.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert [step.name for step in profile.steps] == ["0", "1", "2"]


def test_kernels_without_annotations_are_joined_by_their_names() -> None:
    profile = profile_of(graph_plane(is_annotated=False))
    assert [(each.name, each.is_joined) for each in profile.operations] == [
        ("first.3", True),
        ("CudaGraphExec:4", False),
    ]
    assert profile.operations[0].kernels == ("first_3",)


def test_what_is_missing_or_estimated_is_said() -> None:
    plane = graph_plane()
    plane.line("Stream #2(Kernel)", [Event(plane.kind(name), 0, 5) for name in ("lost", "lost", "MemcpyD2H")], id=2)
    plane.statistics = {"dropped_traces": 12}
    assert profile_of(plane).notes == (
        "the profiler dropped 12 events",
        "times of 3 instructions are shares of CUDA graphs, by the roofline",
        "2 kernels without an annotation of their instruction",
    )


def test_kernels_with_an_ambiguous_name_are_not_joined() -> None:
    profile = profile_of(
        graph_plane(is_annotated=False), MODULE.replace("ROOT last", "first-3 = f32[1000000] negate(p)\n  ROOT last")
    )
    assert not any(each.is_joined for each in profile.operations)


def test_a_module_without_most_of_the_operations_is_refused() -> None:
    profile = profile_of(graph_plane(), MODULE.replace("first.3", "first.4"))
    assert not any(each.is_joined for each in profile.operations)
    assert profile.notes == ("jit_f of the dump has only 50% of the operations that ran; not used",)


def device(vendor: str, capability: str, cores: int, gib: float, memory: float, ghz: float, name: str = "") -> Plane:
    """The plane of a GPU as its profiler describes it: `memory` is the rate that it computes, in TB/s."""
    major, _, minor = capability.partition(".")
    facts: dict[str, Statistic] = {
        "device_vendor": vendor,
        "compute_cap_major": Unsigned(int(major)),
        "compute_cap_minor": Unsigned(int(minor)),
        "core_count": Unsigned(cores),
        "memory_size": Unsigned(int(gib * 2**30)),
        "memory_bandwidth": Unsigned(int(memory * 1e12)),
        "clock_rate": Unsigned(int(ghz * 1e6)),
    }
    if name:
        facts["gpu_device_name"] = name
    plane = PlaneWriter("/device:GPU:0", 1, facts)
    plane.line("Stream #1(Kernel)", [Event(plane.kind("k"), 0, 5)])
    (found,) = read_trace_bytes(file_of([plane]), "t").planes
    return found


@pytest.mark.parametrize(
    ("plane", "flops", "memory"),
    [
        # rates of memory as rocm_collector.cc computes them: 2 × clock × width, half of HBM3's and HBM3E's
        (device("AMD", "9.0", 110, 64, 1.6384, 1.7), 191.5, 1.6384),  # a die of MI250X
        (device("AMD", "9.0", 104, 64, 1.6384, 1.7), 181, 1.6384),  # a die of MI250, and MI210
        (device("AMD", "9.0", 120, 32, 1.2288, 1.502), 184.6, 1.2288),  # MI100
        (device("AMD", "9.4", 228, 128, 2.6624, 2.1), 980.6, 5.3),  # MI300A
        (device("AMD", "9.4", 304, 192, 2.6624, 2.1), 1307.4, 5.3),  # MI300X
        (device("AMD", "9.4", 304, 0, 2.6624, 2.1), 1307.4, 5.3),
        (device("AMD", "9.4", 304, 256, 3.072, 2.1), 1307.4, 6),  # MI325X
        (device("AMD", "9.4", 304, 0, 3.072, 2.1), 1307.4, 6),
        (device("AMD", "9.5", 256, 288, 4.096, 2.2), 2306.9, 6.81),  # MI350X
        (device("AMD", "9.5", 256, 252, 4.096, 2.4), 2516.6, 8),  # MI355X
        (device("Nvidia", "7.0", 80, 15.8, 0.898, 1.53), 125, 0.898),
        (device("Nvidia", "7.5", 40, 14.6, 0.32, 1.59), 65, 0.32),
        (device("Nvidia", "8.0", 108, 39.4, 1.5552, 1.41), 312, 1.5552),
        (device("Nvidia", "8.0", 108, 79.3, 2.039, 1.41), 312, 2.039),
        (device("Nvidia", "8.6", 84, 47.5, 0.768, 1.8), 154.8, 0.768),
        (device("Nvidia", "8.9", 58, 22, 0.3, 2.04), 121, 0.3),
        (device("Nvidia", "8.9", 142, 44.5, 0.864, 2.52), 362, 0.864),  # L40S
        (device("Nvidia", "9.0", 132, 79.1, 3.352, 1.98), 989.4, 3.352),
        (device("Nvidia", "9.0", 114, 79.1, 2.039, 1.755), 757.2, 2.039),
        (device("Nvidia", "9.0", 132, 93, 3.938, 1.785), 835.5, 3.9),  # H100 NVL
        (device("Nvidia", "9.0", 132, 140, 4.8, 1.98), 989.4, 4.8),
        (device("Nvidia", "10.0", 148, 178, 7.672, 1.965), 2250, 7.672),
        (device("Nvidia", "10.0", 152, 184, 7.928, 2.062), 2500, 7.928),
        (device("Nvidia", "12.0", 188, 95, 1.792, 2.6), 503.8, 1.792),
    ],
)
def test_peaks_are_those_of_the_gpu_whatever_the_trace_computes(plane: Plane, flops: float, memory: float) -> None:
    found = peaks_of(plane)
    assert found is not None
    assert found.flops / 1e12 == pytest.approx(flops, rel=0.16)  # boost clocks are not those of data sheets
    assert found.main_bytes / 1e12 == pytest.approx(memory, rel=0.02)


def test_where_trace_and_table_differ_is_noted_and_what_is_near_stays() -> None:
    half = peaks_of(device("AMD", "9.4", 304, 192, 2.6624, 2.1))
    assert half is not None
    assert (half.source, half.chip, half.traced_bytes, half.traced_flops) == (
        "the trace and mi300x", "mi300x", 2.6624e12, 0,
    )  # fmt: skip
    near = peaks_of(device("Nvidia", "9.0", 132, 79.1, 3.352, 1.98))
    assert near is not None
    assert (near.source, near.traced_bytes, near.main_bytes) == ("the trace", 0, 3.352e12)
    part = peaks_of(device("Nvidia", "9.0", 16, 9.8, 3.352, 1.98))  # a slice of an H100 is no chip of the table
    assert part is not None
    assert (part.source, part.chip) == ("the trace", "")


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("AMD Instinct MI325X", "mi325x"),
        ("NVIDIA H100 NVL", "h100 nvl"),
        ("NVIDIA L40S", "l40s"),
    ],
)
def test_a_name_decides_between_gpus_of_the_same_cores(name: str, chip: str) -> None:
    (row,) = [each for each in traced_gpus() if each.name == chip]
    found = gpu_in_trace(row.vendor, row.capability, row.cores, name=name)
    assert found is not None
    assert found.name == chip


def test_an_addition_on_an_mi300x_is_below_its_roof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1.2 GB in 280 µs: 4.3 of 5.3 TB/s, and 161% of what the profiler computes for the memory."""
    facts: dict[str, Statistic] = {"device_vendor": "AMD", "core_count": 304, "memory_bandwidth": 2_662_400_000_000}
    facts |= {"clock_rate": 2_100_000, "compute_cap_major": 9, "compute_cap_minor": 4}
    plane = PlaneWriter("/device:GPU:0", 1, facts)
    annotation: dict[str, Statistic] = {"hlo_op": "add.1", "hlo_module": "jit_add", "program_id": 7}
    kernel = plane.kind("add_kernel.kd")
    plane.line("Stream #3(Kernel)", [Event(kernel, 400_000_000 * at, 280_000_000, annotation) for at in range(6)])
    trace, dump = tmp_path / "t.xplane.pb", tmp_path / "m.hlo"
    trace.write_bytes(file_of([plane]))
    size = "f32[100000000]{0}"
    lines = f"a = {size} parameter(0)\n  b = {size} parameter(1)\n  ROOT add.1 = {size} add(a, b)"
    dump.write_text(f"HloModule jit_add, is_scheduled=true\n\nENTRY main {{\n  {lines}\n}}\n", encoding="utf-8")
    assert main(["profile", str(trace), str(dump), "--format", "screen"], standalone=False) == 0
    out, err = capsys.readouterr()
    words = " ".join(out.split())
    assert words.startswith(
        "add.1 (non-fusion elementwise) takes 74% of the 2.3 ms, at 81% of the peak memory bandwidth"
    )
    assert "1 MI300X ·" in words
    assert "5.3 TB/s memory; the memory rate in the trace is 2.7 TB/s (50%)" in err
