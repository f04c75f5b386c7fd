"""Where the steps of a trace went: parts that add up, by a count of every moment, and by causes that were planted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

import numpy as np
import pytest

from hlo_cli import Profile, profile
from hlo_cli.analysis.profile.critical_path import late_devices, waits_of
from hlo_cli.analysis.profile.step_budget import PARTS, Part, StepBudget, step_budget
from hlo_cli.cli import main
from hlo_cli.ir.traces.trace import Trace
from share import every

FIXTURES = Path(__file__).parent.parent / "fixtures"
TRACES = sorted((FIXTURES / "traces").glob("*/*.xplane.pb*"))
Event = tuple[str, int, int, str, dict[str, str]]
"""The thread of an event, its begin and end in microseconds, its name, and its statistics."""


def budget_of(traced: Profile) -> StepBudget:
    found = step_budget(traced)
    assert found is not None
    assert (found.parts_ps >= 0).all()
    assert (found.parts_ps.sum(1) == found.ends_ps - found.begins_ps).all()
    for part in PARTS:
        told = sum(cause.seconds for cause in found.causes if cause.part == part)
        assert told <= found.seconds(part) * len(found.steps) + 1e-15
    return found


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.parent.name)
def test_parts_add_up_to_the_steps(path: Path) -> None:
    traced = profile(path)
    found = budget_of(traced)
    busy = [found.parts_ps[:, PARTS.index(part)] for part in ("compute", "exposed_transfers")]
    assert (sum(busy) <= found.ends_ps - found.begins_ps).all()
    whole = [number for number, step in enumerate(traced.steps) if step.is_whole]
    assert set(found.steps.tolist()) == set(whole)


# --- every moment, counted ---


HOST_NAMES: dict[str, tuple[Part, str]] = {
    "load batch": ("input", "load batch"),
    "$train.py:7 next_batch": ("input", "next_batch (train.py:7)"),
    "IteratorGetNext": ("input", "IteratorGetNext"),
    "PjitFunction(step)": ("launching", "jit(step)"),
    "CommonPjRtLoadedExecutable::Execute": ("launching", "CommonPjRtLoadedExecutable::Execute"),
    "$gc collect": ("host", "garbage collection"),
    "backend_compile_and_load": ("compiling", "backend_compile_and_load"),
    "CpuCompiler::RunBackend": ("compiling", "CpuCompiler::RunBackend"),
}
PLAIN = ("write metrics", "$train.py:12 step", "$time sleep")
"""Events that say nothing of what they are: other work of the host, but inside those above."""


def written(events: list[Event], folder: Path) -> Path:
    threads = {name: number for number, name in enumerate(dict.fromkeys(event[0] for event in events), 1)}
    found: list[dict[str, object]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}}]
    for name, number in threads.items():
        found.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}})
    for thread, begin, end, name, statistics in events:
        shared = {"ph": "X", "pid": 1, "tid": threads[thread], "name": name, "args": statistics}
        found.append({**shared, "ts": begin, "dur": end - begin})
    path = folder / "a.trace.json"
    path.write_text(json.dumps({"traceEvents": found}), encoding="utf-8")
    return path


def step(number: int, begin: int, end: int) -> Event:
    return "python", begin, end, "train", {"step_num": str(number), "_r": "1"}


def operation(name: str, begin: int, end: int, device: int = 0, run: int = 1) -> Event:
    statistics = {"hlo_op": name, "hlo_module": "jit_f", "device_ordinal": str(device), "run_id": str(run)}
    return f"device {device}", begin, end, name, statistics


def nested(random: Random, begin: int, end: int, depth: int = 3) -> Iterator[Event]:
    """Random events of the host in each other, with time between them."""
    cuts = sorted(random.sample(range(begin, end), min(end - begin, random.choice((2, 4)))))
    for first, last in pairwise(cuts):
        if random.random() < 0.6:
            yield "python", first, last, random.choice([*HOST_NAMES, *PLAIN]), {}
            if depth and last - first > 4:
                yield from nested(random, first + 1, last, depth - 1)


def counted(events: list[Event], begin: int, end: int) -> dict[Part, int]:
    """The microseconds of each part of one step on the only device, each by itself."""
    parts: dict[Part, int] = dict.fromkeys(PARTS, 0)
    for moment in range(begin, end):
        running = [event for event in events if event[1] <= moment < event[2]]
        if any("hlo_op" in event[4] for event in running):
            parts["compute"] += 1
            continue
        names = [event[3] for event in running if event[0] == "python" and event[3] != "train"]  # the outer ones first
        known = [HOST_NAMES[name][0] for name in names if name in HOST_NAMES]
        if "compiling" in known:
            parts["compiling"] += 1
        elif known:
            parts[known[-1]] += 1
        else:
            parts["host" if names else "unexplained"] += 1
    return parts


@pytest.mark.parametrize("seed", every(4, range(24)))
def test_every_moment_is_in_the_part_of_what_runs_then(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    begins = sorted(random.sample(range(0, 300, 5), 4))
    ends = [random.randrange(begin + 1, after + 1) for begin, after in pairwise([*begins, begins[-1] + 30])]
    events = [step(number, *times) for number, times in enumerate(zip(begins, ends, strict=True))]
    for begin, end in zip(begins, ends, strict=True):
        first = random.randrange(begin, end)
        events.append(operation("dot.1", first, random.randrange(first, end) + 1))
    events += sorted(nested(random, begins[0], ends[-1] + 40), key=lambda event: (event[1], -event[2]))
    found = budget_of(profile(written(events, tmp_path), skip_steps=0))
    until = dict(zip(begins, [*begins[1:], ends[-1]], strict=True))
    assert len(found.steps) == len(begins)
    for row, begin in enumerate(sorted(begins)):
        expected = counted(events, begin, until[begin])
        assert found.parts_ps[row].tolist() == [expected[part] * 10**6 for part in PARTS]


@pytest.mark.parametrize("name", HOST_NAMES)
def test_a_name_says_what_the_host_does(name: str, tmp_path: Path) -> None:
    part, words = HOST_NAMES[name]
    events = [step(0, 0, 100), operation("dot.1", 90, 100), ("python", 10, 90, name, {})]
    found = budget_of(profile(written(events, tmp_path)))
    cause = found.main_cause(part)
    assert cause is not None
    assert (cause.words, round(cause.seconds * 1e6)) == (words, 80)


def test_copies_for_the_arguments_of_a_launch_are_part_of_it(tmp_path: Path) -> None:
    copy: Event = ("python", 20, 60, "DevicePutWithSharding", {})
    launch: Event = ("python", 10, 70, "PjitFunction(step)", {})
    for events, part in (([copy], "input"), ([launch, copy], "launching")):
        found = budget_of(profile(written([step(0, 0, 100), operation("dot.1", 90, 100), *events], tmp_path)))
        assert max(PARTS[2:-1], key=found.seconds) == part


def test_devices_wait_for_the_last_one_that_comes(tmp_path: Path) -> None:
    """Of the second collective of a run, device 1 is late; the first one has begun on both at once."""
    events = [step(0, 0, 100)]
    for device, begins in ((0, (10, 40)), (1, (10, 70))):
        events += [operation("all-reduce.1", begin, 80 if at else 20, device) for at, begin in enumerate(begins)]
        events.append(operation("dot.1", 20, begins[1], device))
    found = budget_of(profile(written(events, tmp_path)))
    waiting = found.parts_ps[:, PARTS.index("waiting_for_devices")] // 10**6
    assert dict(zip(found.devices.tolist(), waiting.tolist(), strict=True)) == {0: 30, 1: 0}
    cause = found.main_cause("waiting_for_devices")
    assert cause is not None
    assert cause.words == "all-reduce.1: CPU:1 is late"


def test_the_first_line_names_the_largest_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [event for at in range(4) for event in (
        step(at, 100 * at, 100 * at + 90), operation("dot.1", 100 * at + 80, 100 * at + 90, run=at),
        ("python", 100 * at, 100 * at + 70, "load batch", {}),
    )]  # fmt: skip
    assert main(["profile", str(written(events, tmp_path)), "--format", "screen"], standalone=False) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Waiting for input takes 72% of a mean step, 70.0 µs of 97.5 µs: load batch\n")
    assert "total" in shown
    assert main(["profile", str(written(events, tmp_path)), "--format", "json"], standalone=False) == 0
    rows = json.loads(capsys.readouterr().out)["tables"]["step_parts"]["rows"]
    assert sum(row["seconds"] for row in rows) == pytest.approx(97.5e-6)
    assert main(["profile", str(tmp_path), "--where", "opcode == dot", "--format", "json"], standalone=False) == 0
    assert "step_parts" not in json.loads(capsys.readouterr().out)["tables"]


def test_steps_and_devices_have_parts_that_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [step(at, 100 * at, 100 * at + 100) for at in range(3)]
    for device, begins in ((0, (10, 110, 210)), (1, (50, 110, 210))):
        events += [operation("dot.1", begin, 60 + 100 * at, device, at) for at, begin in enumerate(begins)]
    events.append(("python", 260, 300, "load batch", {}))
    path = str(written(events, tmp_path))
    expected: dict[str, list[tuple[str, float]]] = {
        "step": [("idle, unexplained, 50.0 µs", 100e-6)] * 2 + [("waiting for input, 40.0 µs", 100e-6)],
        "device": [("idle, unexplained, 110.0 µs", 300e-6), ("idle, unexplained, 110.0 µs", 300e-6)],
    }
    for by, table in (("step", "steps"), ("device", "devices")):
        assert main(["profile", path, "--by", by, "--format", "json"], standalone=False) == 0
        rows = json.loads(capsys.readouterr().out)["tables"][table]["rows"]
        sums = [sum(row[f"{part}_seconds"] for part in PARTS) for row in rows]
        assert sums == pytest.approx([seconds for _, seconds in expected[by]])
        assert [row["main_part"] for row in rows] == [words for words, _ in expected[by]]
    main(["profile", path, "--by", "device", "--format", "json"], standalone=False)
    late, other = json.loads(capsys.readouterr().out)["tables"]["devices"]["rows"][::-1]
    assert late["waiting_for_devices_seconds"] == pytest.approx(40e-6)
    assert other["waiting_for_devices_seconds"] == 0


# --- planted causes ---


PLANTED: dict[str, tuple[Part, str]] = {
    "loader": ("input", "load batch"),
    "straggler": ("waiting_for_devices", "psum"),
    "recompile": ("compiling", "jit(step)"),
    "callback": ("host", "callback pure_callback"),
    "fast_loader": ("input", "load batch"),
    "iterator": ("input", "__next__ (planted_steps.py:"),
    "sleep": ("host", "time.sleep"),
    "python": ("host", "spin (planted_steps.py:"),
    "annotated_host": ("host", "write metrics"),
    "garbage": ("host", "garbage collection"),
    "launches": ("launching", "operations outside of jit"),
    "reduce": ("exposed_transfers", "psum"),
    "slow_batch": ("input", "load batch"),
    "checkpoint": ("host", "save checkpoint"),
    "queue": ("input", "get_batch (planted_steps.py:"),
    "between": ("input", "load batch"),
    "one_of_four": ("waiting_for_devices", "psum"),
    "group_of_four": ("waiting_for_devices", ""),  # the other group waits until the step ends
    "overlapped": ("input", "load batch"),  # not the sum, which other operations overlap
    "transfer": ("input", "copies to the device"),
    "lock": ("host", "lock.acquire (timed, planted_steps.py:"),
    "growing": ("compiling", "jit(step)"),
}
IN_STEP = {"recompile": "3", "slow_batch": "2", "checkpoint": "5"}
"""The only step with the cause."""
TIMED = (
    "between",
    "checkpoint",
    "queue",
    "loader",
    "callback",
    "fast_loader",
    "iterator",
    "sleep",
    "python",
    "annotated_host",
    "garbage",
    "transfer",
    "lock",
)
"""Causes whose time the program takes itself."""


LATE = {"straggler": 1, "one_of_four": 2, "group_of_four": 3}
"""The late device, which the others in its group wait for."""


@pytest.mark.oracle
@pytest.mark.parametrize("name", every(6, PLANTED, slow=1))
def test_planted_causes_are_named(name: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    script = Path(__file__).parent / "planted_steps.py"
    ran = subprocess.run(
        [sys.executable, str(script), name, str(tmp_path)],
        env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}, check=True, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    took = json.loads(ran.stdout.splitlines()[-1])
    traced = profile(tmp_path)
    found = budget_of(traced)
    part, words = PLANTED[name]
    cause = found.main_cause(part)
    assert cause is not None
    assert cause.words.startswith(words)
    others = [each for each in PARTS if each not in ("compute", part)]
    assert found.seconds(part) > max(map(found.seconds, others))
    if name in TIMED:
        # The innermost function is named, so that those which `spin` calls are causes of their own. What lies before the
        # first step is in none, and the event of a callback has the conversion of its arrays, too.
        # `Event.wait` of the thread that holds the lock acquires one too, hence with the caller.
        function = words if name == "lock" else words.partition(" (")[0]
        told = sum(each.seconds for each in found.causes if function in each.words)
        assert told == pytest.approx(sum(took[name == "between" :]), rel=0.4 if name == "callback" else 0.05)
    if name in IN_STEP:
        assert cause.step == IN_STEP[name]
        assert cause.step_seconds > 0.9 * cause.seconds
    if name == "recompile":
        steps = np.bincount(found.steps, found.parts_ps.sum(1)) * 1e-12
        part_seconds = found.seconds(part) * len(found.steps)
        assert part_seconds == pytest.approx(steps[3] - median(steps), rel=0.15)
    if name in LATE:
        waits = waits_of(traced)
        late = late_devices(traced, waits)
        assert sum(each.waited for each in late) == pytest.approx(rendezvous_waits(traced.traces[0]), rel=0.05)
        assert f"CPU:{LATE[name]}" == traced.devices[late[0].device]
        assert late[0].times == len(traced.steps)
        assert late[0].cause is not None
        if name == "straggler":
            assert cause.words.endswith(": CPU:1 is late")
        if name == "group_of_four":
            own = waits.devices == late[0].device
            assert {traced.devices[each] for each in traced.occurrences.devices[waits.rows[own]].tolist()} == {"CPU:2"}


def rendezvous_waits(trace: Trace) -> float:
    """How long participants of collectives waited until the last one came, as XLA records by itself, in seconds."""
    begins: dict[str, list[int]] = {}
    for line in (line for plane in trace.planes for line in plane.lines):
        chosen = [id for id, kind in line.kinds.items() if kind.name == "Rendezvous"]
        for at in np.flatnonzero(np.isin(line.events.kinds, chosen)).tolist():
            begins.setdefault(str(line.statistic("name").of(at)), []).append(int(line.begins_ps[at]))
    waited = 0
    for key, times in begins.items():
        # Collectives of a shard_map share a key: each has as many participants as devices, one after the other.
        count = key.partition("global_devices=[")[2].partition("]")[0].count(",") + 1
        for first in range(0, len(times), count):
            group = sorted(times)[first : first + count]
            waited += sum(group[-1] - begin for begin in group)
    return waited * 1e-12
