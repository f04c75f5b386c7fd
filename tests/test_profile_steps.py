"""Steps and executions: whole and partial ones, on one host and on several."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.profile.measure import executions, measure, operation_measures
from hlo_cli.analysis.profile.profile import GivenModule, Profile
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import TracedProgram
from hlo_cli.read_input import read_module
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.text.parser import parse_module
from traces_of_xprof import source
from traces_writing import Event, PlaneWriter, Statistic, Unsigned, file_of

MODULE = """HloModule jit_f
ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  b = f32[2] add(a, p)  ROOT c = f32[2] add(b, p) }"""


def no_program(program: TracedProgram) -> Module:
    raise AssertionError(program)


def measured(*files: bytes) -> Profile:
    return measure(
        [read_trace_bytes(each, "t.pb") for each in files], no_program, [GivenModule(7, parse_module(MODULE))]
    )


def core(
    number: int,
    steps: Sequence[Sequence[str]],
    *,
    skew: int = 0,
    has_line: bool = True,
    has_runs: bool = True,
    first_run: int = 0,
) -> PlaneWriter:
    """A TPU with operations of 10 ps each, 100 ps a step."""
    plane = PlaneWriter(f"/device:TPU:{number}", number)
    ops, lines, runs = [], [], []
    for at, names in enumerate(steps):
        begin = 100 * at + skew
        for place, name in enumerate(names):
            facts: dict[str, Statistic] = {"program_id": Unsigned(7), "symbol_id": ord(name[0])}
            ops.append(Event(plane.kind(f"%{name} = f32[2]", name, facts), begin + 12 * place, 10))
        lines.append(Event(plane.kind(str(40 + at)), begin, 12 * len(names)))
        runs.append(Event(plane.kind("jit_f(7)"), begin, 12 * len(names), {"run_id": first_run + at}))
    if has_line:
        plane.line("Steps", lines, id=1)
    if has_runs:
        plane.line("XLA Modules", runs, id=2)
    plane.line("XLA Ops", ops, id=3)
    return plane


def names(profile: Profile) -> list[tuple[str, bool]]:
    return [(step.name, step.is_whole) for step in profile.steps]


def test_a_step_that_lacks_operations_of_the_others_is_partial() -> None:
    profile = measured(file_of([core(0, ["bc", "abc", "abc", "ab"])]))
    assert names(profile) == [("40", False), ("41", True), ("42", True), ("43", False)]
    assert profile.step_source == "line"
    assert profile.step_codes.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]


def test_a_branch_that_some_steps_take_does_not_make_others_partial() -> None:
    profile = measured(file_of([core(0, ["ac", "abc", "ac", "abc"])]))
    assert [is_whole for _, is_whole in names(profile)] == [True] * 4
    for steps in (["adc", "abc", "abc", "abc"], ["abc", "abc", "abc", "adc"]):
        assert [is_whole for _, is_whole in names(measured(file_of([core(0, steps)])))] == [True] * 4


def test_a_step_is_whole_if_it_is_on_every_device() -> None:
    profile = measured(file_of([core(0, ["abc"] * 4), core(1, ["abc"] * 3, skew=7)]))
    assert names(profile) == [("40", True), ("41", True), ("42", True), ("43", False)]
    assert [(step.begin_ps, step.end_ps) for step in profile.steps][:2] == [(0, 43), (100, 143)]
    partial = measured(file_of([core(0, ["abc"] * 4), core(1, ["abc", "abc", "abc", "a"])]))
    assert [is_whole for _, is_whole in names(partial)] == [True, True, True, False]


def test_executions_are_the_steps_of_a_trace_without_any() -> None:
    profile = measured(file_of([core(0, ["abc"] * 3, has_line=False), core(1, ["abc"] * 3, has_line=False)]))
    assert profile.step_source == "executions"
    assert names(profile) == [("0", True), ("1", True), ("2", True)]
    assert profile.occurrences.runs.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] * 2
    apart = [core(device, ["abc"] * 3, has_line=False, first_run=100 * device) for device in range(2)]
    assert names(measured(file_of(apart))) == names(profile)
    without = measured(file_of([core(0, ["abc"] * 3, has_line=False, has_runs=False)]))
    assert without.steps == ()


def test_hosts_add_up_and_their_clocks_are_never_compared() -> None:
    far = 1 << 50
    files = (
        file_of([core(0, ["abc"] * 3)], "one"),
        file_of([core(0, ["abc"] * 3, skew=far)], "two"),
    )
    profile = measured(*files)
    assert profile.devices == ("one TPU:0", "two TPU:0")
    assert names(profile) == [("40", True), ("41", True), ("42", True)]
    assert [step.begin_ps for step in profile.steps] == [0, 100, 200]
    assert profile.step_codes.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] * 2
    assert profile.total_ps == 2 * 236
    assert [
        (each.name, found.calls) for each, found in zip(profile.operations, operation_measures(profile), strict=True)
    ] == [
        ("a", 6),
        ("b", 6),
        ("c", 6),
    ]
    same = measured(file_of([core(0, ["abc"])], "one"), file_of([core(0, ["abc"])], "one"))
    assert len(same.devices) == 2


def test_a_trace_without_operations_is_an_error() -> None:
    with pytest.raises(HloError, match=r"t\.pb has no timed operations"):
        measured(file_of([PlaneWriter("/device:TPU:0")]))


def test_operations_outside_of_the_executions_are_of_the_same_program() -> None:
    plane = core(0, ["abc"] * 2, has_runs=False)
    plane.line("XLA Modules", [Event(plane.kind("jit_f(7)"), 0, 50, {"run_id": 0})], id=2)
    for given in ([GivenModule(7, parse_module(MODULE))], []):
        profile = measure(read_trace_bytes(file_of([plane]), "t.pb"), no_program, given)
        assert [each.name for each in profile.operations] == ["a", "b", "c"]
        assert [each.calls for each in operation_measures(profile)] == [2, 2, 2]
        assert [each.name for each in profile.programs] == ["jit_f"]


@pytest.mark.parametrize("name", ["cpu", "cpu_loops"])
def test_calls_are_executions_times_trips(name: str) -> None:
    trace = source(name)
    profile = measure(trace, lambda program: read_module(Source(program.name, ""), program.proto))
    runs = executions(profile.occurrences, profile.operations, profile.codes)
    checked = 0
    for operation, found in zip(profile.operations, operation_measures(profile), strict=True):
        assert operation.program is not None
        assert operation.program.module is not None
        assert operation.instruction is not None
        times = executions_of(operation.program.module)[operation.instruction.computation]
        if times.known is not None and not times.in_branch:
            checked += 1
            assert found.calls == runs[operation.program] * times.known, operation.name
    assert checked >= len(profile.operations) // 2


def test_a_program_that_cannot_be_read_is_named_and_the_dump_is_used() -> None:
    def corrupt(program: TracedProgram) -> Module:
        raise HloError("corrupt")

    metadata = PlaneWriter("/host:metadata")
    metadata.kind("jit_f(7)", id=7, statistics={"Hlo Proto": b"?", "program_id": Unsigned(7)})
    trace = read_trace_bytes(file_of([core(0, ["abc"]), metadata]), "t.pb")
    for given in ([GivenModule(7, parse_module(MODULE))], []):
        profile = measure(trace, corrupt, given)
        assert [each.is_joined for each in profile.operations] == [bool(given)] * 3
        assert profile.notes == ("the module of jit_f(7) in the trace cannot be read; give a dump of it",)
