"""Traces of GPUs: CUDA graphs that are one event, and traces that do not name the instructions of kernels."""

from __future__ import annotations

import pytest

from hlo_cli.analysis.profile.joining import GivenModule
from hlo_cli.analysis.profile.measure import measure
from hlo_cli.analysis.profile.measures import operation_measures
from hlo_cli.analysis.profile.profile import PS, Profile
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import TracedProgram
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.syntax.traces.read import read_trace
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
    return measure(read_trace(file_of([plane]), "t"), no_program, [GivenModule(7, parse_module(text))])


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
