"""Two profiles: the programs decide which kernels changed; a test on ranges decides which of the others are outliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from hlo_cli.analysis.profile.measure import measure
from hlo_cli.analysis.profile.operation_times import MIN_CALLS, Drift, ranges_of, unit_times
from hlo_cli.analysis.profile.profile import (
    NO_STEP,
    MeasuredProgram,
    OccurrenceList,
    Operation,
    OperationKey,
    Profile,
    Step,
)
from hlo_cli.analysis.profile.profile_diff import CHANGED, ProfileComparison, compare_profiles
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import Integers
from hlo_cli.library import parse_module
from hlo_cli.read_input import read_module
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import Source
from strategies import FIXTURES

TRACE = FIXTURES / "traces/cpu/trace.xplane.pb"
STEP_PS = 1_000_000_000
MODULE = """HloModule m

f1 {
  a = f32[64] parameter(0)
  b = f32[64] parameter(1)
  c = f32[64] add(a, b)
  ROOT d = f32[64] tanh(c)
}

f2 {
  a = f32[64] parameter(0)
  ROOT s = f32[64] sine(a)
}

ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  first = f32[64] fusion(x, y), kind=kLoop, calls=f1
  second = f32[64] fusion(first), kind=kLoop, calls=f2
  sorted = f32[64] copy(second)
  ROOT r = (f32[64], f32[64]) tuple(sorted, first)
}
"""


def profile_of(
    module: Module, durations: Mapping[str, Sequence[float]], steps: int = 20, whole: int | None = None
) -> Profile:
    """A profile with a row for each duration, in nanoseconds: one after the other in steps, or without steps."""
    rows = OccurrenceList()
    device = rows.device("GPU:0")
    program = MeasuredProgram(1, module.name, module)
    for line, (name, each) in enumerate(durations.items()):
        key = rows.key(OperationKey(1, module.name, name))
        times = np.round(np.array(each) * 1000).astype(np.int64)
        at = np.arange(len(times)) % max(steps, 1)
        begins = at * STEP_PS + line
        rows.add_line(name, np.full(len(times), key), device, at, begins, times, times)
    occurrences = rows.occurrences()
    marks = tuple(
        Step(str(at), at * STEP_PS, (at + 1) * STEP_PS, is_whole=whole is None or at < whole) for at in range(steps)
    )
    names = {instruction.name: instruction for instruction in module.instructions}
    operations = tuple(Operation(key.op, program, names.get(key.op)) for key in occurrences.keys)
    at_steps = occurrences.begins_ps // STEP_PS if steps else np.full(len(occurrences), NO_STEP)
    return Profile((), "GPU", (program,), operations, occurrences, occurrences.codes, marks, at_steps, (0,))


def compare(before: str, after: str, one: Mapping[str, float], two: Mapping[str, float]) -> ProfileComparison:
    return compare_profiles(
        *(
            profile_of(
                parse_module(text), {name: list(np.linspace(each, each * 1.1, 20)) for name, each in times.items()}
            )
            for text, times in ((before, one), (after, two))
        )
    )


def bodies(found: ProfileComparison) -> list[tuple[str, str | None, str | None]]:
    def name(operation: Operation | None) -> str | None:
        return None if operation is None else operation.name

    return [(each.body, name(each.before), name(each.after)) for each in found.kernels]


ONE = {"first": 100.0, "second": 50.0, "sorted": 10.0}


def test_names_metadata_and_order_are_no_change_of_code() -> None:
    text = (
        MODULE.replace("first", "zeroth")
        .replace("f1", "g9")
        .replace("c = f32[64] add(a, b)", 'c = f32[64] add(a, b), metadata={op_name="q"}')
    )
    found = compare(MODULE, text, ONE, {"zeroth": 100.0, "second": 50.0, "sorted": 10.0})
    assert bodies(found) == [("same", "first", "zeroth"), ("same", "second", "second"), ("same", "sorted", "sorted")]
    assert not any(found.of(*CHANGED))
    assert [each.is_renamed for each in found.kernels] == [True, False, False]


def test_a_kernel_whose_body_changed_is_listed_with_its_difference() -> None:
    text = MODULE.replace("ROOT s = f32[64] sine(a)", "s = f32[64] sine(a)\n  ROOT t = f32[64] exponential(s)")
    found = compare(MODULE, text, ONE, {**ONE, "second": 80.0})
    (changed,) = found.of("changed")
    assert changed.operation.name == "second"
    assert [each.name for each in changed.difference.added] == ["t"]
    assert changed.ranges == "apart"
    assert changed.difference_seconds == pytest.approx(30e-9 * 1.05)
    assert [each.operation.name for each in found.of("same")] == ["first", "sorted"]
    same = found.sum_of("same")
    assert (same.kernels, same.difference) == (2, 0)


def test_layouts_and_attributes_are_code() -> None:
    text = MODULE.replace("kind=kLoop, calls=f2", "kind=kInput, calls=f2")
    assert bodies(compare(MODULE, text, ONE, ONE))[1][0] == "changed"
    text = MODULE.replace("f32[64] copy(", "f32[64]{0:T(128)} copy(")
    assert bodies(compare(MODULE, text, ONE, ONE))[2][0] == "changed"


def test_new_and_gone_kernels_are_listed() -> None:
    text = MODULE.replace("tuple(sorted, first)", "tuple(second, first)").replace(
        "  sorted = f32[64] copy(second)\n", ""
    )
    two = {name: each for name, each in ONE.items() if name != "sorted"}
    found = compare(MODULE, text, ONE, two)
    assert ("gone", "sorted", None) in bodies(found)
    assert ("new", None, "sorted") in bodies(compare(text, MODULE, two, ONE))
    (gone,) = found.of("gone")
    assert gone.ranges is None
    assert gone.difference_seconds == pytest.approx(-10e-9 * 1.05)


def test_only_whole_steps_count() -> None:
    module = parse_module(MODULE)
    whole = profile_of(module, {"first": [100.0] * 20})
    cut = profile_of(module, {"first": [100.0] * 10 + [900.0] * 10}, whole=10)
    found = compare_profiles(whole, cut)
    assert (found.unit, found.units_before, found.units_after) == ("step", 20, 10)
    assert found.kernels[0].seconds == pytest.approx((100e-9, 100e-9))


def test_without_steps_times_are_per_run_of_the_largest_program() -> None:
    module = parse_module(MODULE)
    profile = replace(profile_of(module, {"first": [100.0] * 6, "second": [10.0] * 12}, steps=6), steps=())
    times = unit_times(replace(profile, step_codes=np.full(18, NO_STEP)), per_step=False)
    assert (times.unit, times.count) == ("run", 6)
    assert [each.time for each in times.times if each] == pytest.approx([100e-9, 20e-9])
    assert [each.calls for each in times.times if each] == [1, 2]


def test_a_kernel_of_some_steps_counts_by_its_share() -> None:
    module = parse_module(MODULE)
    times = unit_times(profile_of(module, {"first": [100.0] * 20, "second": [40.0] * 5}), per_step=True)
    assert times.times[1] is not None
    assert times.times[1].time == pytest.approx(10e-9)
    assert times.times[1].calls == 0.25


def test_times_add_up_to_those_of_typical_steps() -> None:
    spikes = {
        name: [900.0 if step % 3 == at else 100.0 for step in range(18)]
        for at, name in enumerate(("first", "second", "sorted"))
    }
    times = unit_times(profile_of(parse_module(MODULE), spikes, steps=18), per_step=True)
    assert sum(each.time for each in times.times if each) == pytest.approx(1100e-9)  # as each step takes


def test_a_slow_step_is_not_typical() -> None:
    slow = {"first": [100.0] * 19 + [9000.0], "second": [40.0] * 20}
    times = unit_times(profile_of(parse_module(MODULE), slow), per_step=True)
    assert [each.time for each in times.times if each] == pytest.approx([100e-9, 40e-9])


def test_runs_of_several_devices_are_one() -> None:
    rows = OccurrenceList()
    module = parse_module(MODULE)
    for number in range(2):
        device = rows.device(f"TPU:{number}")
        key = rows.key(OperationKey(1, "m", "first"))
        begins = np.arange(6) * STEP_PS + number * 10
        times = np.full(6, 1000)
        rows.add_line("ops", np.full(6, key), device, np.arange(6) + 100 * number, begins, times, times)
    found = rows.occurrences()
    program = MeasuredProgram(1, "m", module)
    operation = Operation("first", program, None)
    profile = Profile((), "TPU", (program,), (operation,), found, found.codes, (), np.full(12, NO_STEP), (0, 0))
    times_of_runs = unit_times(profile, per_step=False)
    assert times_of_runs.count == 6
    assert [each.time for each in times_of_runs.times if each] == pytest.approx([1e-9])


def test_the_trace_of_a_program_is_that_of_the_same_program() -> None:
    one, two = (
        measure(
            read_trace_bytes(TRACE.read_bytes(), "t"),
            lambda program: read_module(Source(program.name, ""), program.proto),
        )
        for _ in range(2)
    )
    found = compare_profiles(one, two)
    assert found.is_same_program
    assert {each.body for each in found.kernels} == {"same"}
    assert {each.before.name for each in found.programs if each.before} == {each.name for each in one.programs}
    assert found.sum_of("same").difference == 0
    assert found.drift == 1


def samples(random: np.random.Generator, calls: int, kernels: int, *, drift: float) -> list[Integers]:
    """Sorted calls of the kernels of one profile: noise of 2 to 30 %, in two modes, with outliers, on a machine that
    drifts from call to call.
    """
    found = []
    walk = np.exp(np.cumsum(random.normal(0, 0.02, calls)) + drift)
    for _ in range(kernels):
        noise = np.exp(random.normal(0, random.uniform(0.02, 0.3), calls))
        mode = np.where(random.random(calls) < 0.5, random.choice([1.0, 1.0, 3.0]), 1.0)
        outlier = np.where(random.random(calls) < 0.03, random.uniform(2, 50), 1.0)
        # what is bound by memory follows a slower clock less than what is bound by compute
        found.append(np.sort((100_000 * noise * mode * outlier * walk ** random.uniform(0.5, 1)).astype(np.int64)))
    return found


@pytest.mark.parametrize("calls", [MIN_CALLS, 20, 50])
def test_few_kernels_of_unchanged_code_are_outliers(calls: int) -> None:
    random = np.random.default_rng(calls)
    named = count = 0
    for _ in range(20):
        pairs = list(
            zip(
                samples(random, calls, 100, drift=random.normal(0, 0.15)),
                samples(random, calls, 100, drift=random.normal(0, 0.15)),
                strict=True,
            )
        )
        found = Drift(pairs)
        named += sum(found.is_outlier(*each) for each in pairs)
        count += len(pairs)
    assert named <= 0.005 * count


def test_a_machine_that_is_slower_makes_no_outliers() -> None:
    random = np.random.default_rng(1)
    pairs = [(np.sort(random.integers(1000, 1050, 20)), np.sort(random.integers(1500, 1575, 20))) for _ in range(50)]
    assert {ranges_of(*each) for each in pairs} == {"apart"}
    found = Drift(pairs)
    assert not any(found.is_outlier(*each) for each in pairs)
    assert found.ratio == pytest.approx(1.5, rel=0.02)


def test_a_kernel_that_is_slower_than_the_others_is_an_outlier() -> None:
    random = np.random.default_rng(2)
    pairs = [(np.sort(random.integers(1000, 1100, 20)), np.sort(random.integers(1000, 1100, 20))) for _ in range(50)]
    slow = pairs[0][0], pairs[0][1] * 3 // 2
    found = Drift([*pairs[1:], slow])
    assert found.is_outlier(*slow)
    assert not any(found.is_outlier(*each) for each in pairs)
    assert not found.is_outlier(slow[0][:9], slow[1][:9])
