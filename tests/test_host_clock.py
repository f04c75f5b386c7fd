"""The host of a TPU by the clock of its cores: planted distances between the clocks, with and without the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from hlo_cli import Profile, profile
from hlo_cli.analysis.profile.step_budget import PARTS, Part, StepBudget, step_budget
from hlo_cli.cli import main
from share import every
from traces_writing import Event, PlaneWriter, Statistic, file_of

US = 10**6
STEPS = 6


@dataclass(frozen=True)
class Planted:
    """A trace of steps of 1 ms by the clock of the host: 700 µs load a batch, 200 µs run on the cores.

    The profiler places the events of core `k` `errors[k]` µs too late on the time of the host. Of the runtime, there
    are events if `has_runtime`, those with the name `only` if it has one; by their own clock, the cores are 5 s, 7 s, … behind.
    """

    errors: tuple[int, ...] = (0,)
    has_runtime: bool = True
    has_device_clock: bool = True
    latency: int = 10
    has_ordinals: bool = True
    has_infeed: bool = False
    only: str = ""

    def write(self, path: Path) -> Profile:
        host = PlaneWriter("/host:CPU", 1)
        python, runtime = list[Event](), list[Event]()
        for step in range(STEPS):
            begin = 1000 * step * US
            python.append(Event(host.kind("train"), begin, 950 * US, {"step_num": step, "_r": 1}))
            python.append(Event(host.kind("load batch"), begin, 700 * US))
            python.append(Event(host.kind("PjitFunction(step)"), begin + 700 * US, 20 * US))
            for core in range(len(self.errors)):
                # hosts have ids of more bits than devices
                own: dict[str, Statistic] = {"run_id": step + 5 + 3 * (1 << 28), "queue_id": 0}
                own |= {"device_ordinal": core} if self.has_ordinals else {}
                launched, done = (720 - self.latency) * US, (920 + self.latency) * US
                runtime.append(Event(host.kind("DoEnqueueProgram"), begin + launched, 5 * US, own))
                runtime.append(Event(host.kind("CompleteCallbacks"), begin + done - 3 * US, 3 * US, own))
        host.line("python", python, id=1)
        if self.has_runtime:
            kind = host.kind(self.only) if self.only else 0
            host.line("tpu runtime", [each for each in runtime if not kind or each.kind == kind], id=2)
        planes = [self._core(core, error) for core, error in enumerate(self.errors)]
        path.write_bytes(file_of([host, *planes]))
        return profile(path)

    def _core(self, core: int, error: int) -> PlaneWriter:
        plane = PlaneWriter(f"/device:TPU:{core}", core + 3, {"device_type_string": "TPU v5e"})
        lines: dict[str, list[Event]] = {"Steps": [], "XLA Modules": [], "XLA Ops": []}

        def add(line: str, name: str, begin: int, length: int, own: dict[str, Statistic]) -> None:
            times: dict[str, Statistic] = {}
            if self.has_device_clock:
                times = {"device_offset_ps": begin * US + (5 + 2 * core) * 10**12, "device_duration_ps": length * US}
            lines[line].append(Event(plane.kind(name), (begin + error) * US, length * US, times | own))

        for step in range(STEPS):
            begin, run = 1000 * step + 720, {"run_id": step + 5}
            add("Steps", str(step), begin, 200, {})
            add("XLA Modules", "jit_step(12)", begin, 200, dict(run))
            if self.has_infeed:
                add("XLA Ops", "%infeed.1 = ((f32[2]), token[]) infeed(%t)", begin, 50, {"hlo_category": "infeed"})
            first = 50 if self.has_infeed else 0
            add("XLA Ops", "%dot.1 = f32[2] dot(%a, %b)", begin + first, 200 - first, {"hlo_category": "convolution"})
        for number, (name, events) in enumerate(lines.items(), 1):
            plane.line(name, events, id=number, timestamp_ns=10**3)  # what a core's first event has is not 0
        return plane


def budget_of(found: Profile) -> StepBudget:
    budget = step_budget(found)
    assert budget is not None
    assert (budget.parts_ps.sum(1) == budget.ends_ps - budget.begins_ps).all()
    return budget


def microseconds(budget: StepBudget, part: Part, device: int = 0) -> list[int]:
    rows = budget.devices == device
    found: list[int] = (budget.parts_ps[rows, PARTS.index(part)] // US).tolist()
    return found


def is_near(found: list[int], expected: int, error: int) -> bool:
    return all(abs(each - expected) <= error for each in found)


@pytest.mark.parametrize("has_device_clock", [True, False])
@pytest.mark.parametrize("has_runtime", [True, False])
def test_gaps_of_a_core_are_what_its_host_did(has_device_clock: bool, has_runtime: bool, tmp_path: Path) -> None:
    traced = Planted((1, 1), has_runtime, has_device_clock).write(tmp_path / "t.xplane.pb")
    budget = budget_of(traced)
    assert budget.has_host
    for device in (0, 1):
        # a step lasts until the next one begins on the core; the last one ends with its operations
        assert is_near(microseconds(budget, "input", device)[:-1], 700, 3)
        assert is_near(microseconds(budget, "launching", device)[:-1], 20, 3)
        assert is_near(microseconds(budget, "compute", device), 200, 0)
        assert is_near(microseconds(budget, "waiting_for_devices", device), 0, 0)
    cause = budget.main_cause("input")
    assert cause is not None
    assert cause.words == "load batch"


@pytest.mark.parametrize("seed", every(2, range(8)))
def test_the_runtime_corrects_the_profiler(seed: int, tmp_path: Path) -> None:
    """By as much as the runs say: the error that is left is at most the time between a launch and its begin."""
    random = Random(seed)
    errors = tuple(random.randrange(-40_000, 40_000) for _ in range(random.randint(1, 3)))
    planted = Planted(errors, latency=random.choice((1, 10)), has_ordinals=random.random() < 0.5)
    traced = planted.write(tmp_path / "t.xplane.pb")
    budget = budget_of(traced)
    for device in range(len(errors)):
        assert is_near(microseconds(budget, "input", device)[:-1], 700, planted.latency + 1)
    notes = [note for note in traced.notes if "the clock of the host is corrected by" in note]
    largest = max(abs(error) for error in errors)
    assert bool(notes) == (largest > planted.latency)
    for note in notes:
        milliseconds = float(note.partition("corrected by ")[2].partition(" ms")[0])
        assert milliseconds == pytest.approx(largest / 1000, rel=0.005, abs=0.011)
        assert f"so that {STEPS} programs run after they are enqueued" in note


def test_a_clock_that_cannot_be_known_is_said(tmp_path: Path) -> None:
    """The device ran before the host was recorded by the clock of the profiler, and no event of the runtime helps."""
    traced = Planted((-90_000,), has_runtime=False).write(tmp_path / "t.xplane.pb")
    budget = budget_of(traced)
    assert not budget.has_host
    assert microseconds(budget, "unexplained")[0] == 800
    assert "the clock of the host is unknown for TPU:0: what the host did is omitted" in traced.notes


def test_infeeds_are_waiting_for_input(tmp_path: Path) -> None:
    budget = budget_of(Planted(has_infeed=True).write(tmp_path / "t.xplane.pb"))
    assert is_near(microseconds(budget, "compute"), 150, 0)
    words = {cause.words: round(cause.seconds * 1e6) for cause in budget.causes if cause.part == "input"}
    assert words["infeed infeed.1"] == 50 * STEPS


@pytest.mark.parametrize(
    ("has_event", "error", "condition"),
    [("DoEnqueueProgram", -289, "after they are enqueued"), ("CompleteCallbacks", 4_000, "before they are reported")],
)
def test_a_bound_on_one_side_is_called_the_least(has_event: str, error: int, condition: str, tmp_path: Path) -> None:
    """The runtime has events of the one kind alone: the true distance may be any beyond."""
    traced = Planted((error,), only=has_event).write(tmp_path / "t.xplane.pb")
    (note,) = [note for note in traced.notes if "the clock of the host is corrected" in note]
    milliseconds = float(note.partition("corrected by at least ")[2].partition(" ms")[0])
    assert milliseconds == pytest.approx((abs(error) - 10) / 1000, abs=0.0015)
    assert note.endswith(f"so that {STEPS} programs run {condition}")
    assert "±" not in note


def test_the_time_to_the_next_step_is_not_called_that_of_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cores mark steps of 200 µs, one in each ms: the parts add up to more than the steps at the head."""
    Planted().write(tmp_path / "t.xplane.pb")
    assert main(["profile", str(tmp_path / "t.xplane.pb"), "--format", "screen"], standalone=False) == 0
    shown = capsys.readouterr().out
    assert "6 steps of 200.0 µs (median)" in shown
    assert "where the mean time from one step to the next goes" in shown
    assert "where a mean step goes" not in shown
