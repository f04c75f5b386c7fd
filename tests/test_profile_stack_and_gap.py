"""`hlo profile --by stack` and `--by gap`: sums of the whole busy and idle time, by calls and by neighbors in time."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hlo_cli import parse_module, profile
from hlo_cli.analysis.profile.step_budget import gaps_of
from hlo_cli.cli import main
from share import every
from strategies import FIXTURES
from test_step_budget import operation, step, written
from traces_of_cpus import Ran, cpu_file

STEPS = str(FIXTURES / "traces/cpu_steps/trace.xplane.pb")
MODULE = """HloModule jit_f

FileNames
1 "/home/me/train.py"
2 "/home/me/model.py"

FunctionNames
1 "main"
2 "layer"
3 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=3 end_line=3 column=1 end_column=2}
3 {file_name_id=2 function_name_id=2 line=4 end_line=4 column=1 end_column=2}
4 {file_name_id=1 function_name_id=3 line=20 end_line=20 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=2}
4 {file_location_id=4 parent_frame_id=2}

ENTRY e {
  a = f32[8] parameter(0)
  x = f32[8] exponential(a), metadata={op_name="x" stack_frame_id=2}
  y = f32[8] negate(x), metadata={op_name="y" stack_frame_id=3}
  z = f32[8] tanh(y), metadata={op_name="z" stack_frame_id=4}
  ROOT w = f32[8] copy(z), metadata={op_name="w" stack_frame_id=1}
}
"""


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main(["profile", *arguments, "--json"], standalone=False) == 0
    return json.loads(capsys.readouterr().out)


def test_calls_are_a_tree_with_the_time_of_all_that_they_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = [Ran("x", 0, 10), Ran("y", 10, 20), Ran("z", 30, 5), Ran("w", 40, 1)]
    path = tmp_path / "t.xplane.pb"
    path.write_bytes(cpu_file(ran, parse_module(MODULE)))
    found = answer(capsys, str(path), "--by", "stack")
    rows = [
        (
            row["depth"],
            row["stack_call"],
            row["source"].rpartition("/")[2],
            round(row["busy_seconds"] * 1e9),
            round(row["own_seconds"] * 1e9),
        )
        for row in found["tables"]["stacks"]["rows"]
    ]
    assert rows == [
        (0, "main (train.py:9)", "train.py:9", 36, 1),
        (1, "layer (model.py:4)", "model.py:4", 20, 20),
        (1, "layer (model.py:3)", "model.py:3", 10, 10),
        (1, "loss (train.py:20)", "train.py:20", 5, 5),
    ]


def test_a_real_trace_has_all_of_its_busy_time_in_stacks(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, STEPS, "--by", "stack")
    rows = found["tables"]["stacks"]["rows"]
    devices = found["answer"]["devices"]
    assert sum(row["own_seconds"] for row in rows) * devices == pytest.approx(found["answer"]["busy_seconds"])
    assert sum(row["busy_seconds"] for row in rows if not row["depth"]) * devices == pytest.approx(
        found["answer"]["busy_seconds"]
    )
    assert any("tracing.py:41" in row["stack_call"] for row in rows)


@pytest.mark.parametrize("seed", every(2, range(8)))
def test_gaps_are_those_of_a_count(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    events, expected = [step(0, 0, 1000)], defaultdict[tuple[str, str], list[int]](list)
    for device in range(2):
        at, before = random.randrange(10), ""
        for _ in range(20):
            gap, length = random.randrange(1, 9), random.randrange(1, 9)
            name = random.choice(("dot.1", "add.2", "copy.3"))
            if before:
                expected[before, name].append(gap)
            at += gap
            events.append(operation(name, at, at + length, device))
            at, before = at + length, name
    found = profile(written(events, tmp_path))
    gaps = {(found.operations[each.before].name, found.operations[each.after].name): each for each in gaps_of(found)}
    assert gaps.keys() == expected.keys()
    for pair, each in gaps.items():
        times = expected[pair]
        assert (each.count, round(each.seconds * 1e6), round(each.longest * 1e6)) == (
            len(times),
            sum(times),
            max(times),
        )


def test_a_gap_says_what_happened_meanwhile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [step(0, 0, 100), operation("dot.1", 0, 10), operation("add.2", 60, 70)]
    events += [("python", 20, 58, "load batch", {}), operation("dot.1", 80, 90, 1)]
    path = str(written(events, tmp_path))
    found = answer(capsys, path, "--by", "gap")
    (row,) = found["tables"]["gaps"]["rows"]
    assert (row["gap_before"], row["gap_after"], row["gaps"]) == ("dot.1", "add.2", 1)
    assert (row["gap_part"], row["main_cause"]) == ("waiting for input", "load batch")
    assert main(["profile", path, "--by", "gap", "--format", "screen"], standalone=False) == 0
    assert "100% of that between dot.1 and add.2: load batch" in " ".join(capsys.readouterr().out.split())
    assert main(["profile", path, "--by", "gap", "--where", "opcode == dot"], standalone=False) == 2
    assert "--by gap cannot be used with --where" in capsys.readouterr().err
