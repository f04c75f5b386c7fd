"""Programs that run in turn have executions of their own, and warm-up is no usual step; each trace is of a known order of real programs on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo_cli import Profile, profile
from hlo_cli.analysis.profile.executions import (
    executions_by_program,
    runs_in_turn,
    steps_of_program,
    warm_up_steps,
    without_first_steps,
)
from hlo_cli.analysis.profile.operation_times import mean_times
from hlo_cli.cli import main

FIXTURES = Path(__file__).parent.parent / "fixtures"
SCRIPT = Path(__file__).parent / "planted_executions.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jax")
    return tmp_path_factory.mktemp("traces")


@cache
def recorded(case: str, folder: Path) -> Path:
    path = folder / case
    subprocess.run([sys.executable, str(SCRIPT), case, str(path)], env=dict(os.environ), check=True, timeout=200)
    return path


def counts(traced: Profile) -> dict[str, int]:
    found = {each.program.name: len(each) + each.partial for each in executions_by_program(traced)}
    return {name: count for name, count in found.items() if name in ("jit_prefill", "jit_decode", "jit_metrics")}


def facts_and_numbers(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, Any]:
    main(["profile", *arguments, "--format", "screen"], standalone=False)
    screen = capsys.readouterr().out
    main(["profile", *arguments, "--format", "json"], standalone=False)
    return " ".join(screen.split()), json.loads(capsys.readouterr().out)


@pytest.mark.oracle
def test_programs_in_turn_have_their_own_executions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("in_turn", folder)
    traced = profile(path)
    assert counts(traced) == {"jit_prefill": 2, "jit_decode": 16}
    assert runs_in_turn(traced)
    screen, _ = facts_and_numbers(capsys, str(path))
    assert "jit_prefill: 2 executions of" in screen
    assert "jit_decode: 16 executions of" in screen
    assert "--by module" in screen
    assert "where the time from one execution to the next goes" not in screen
    assert "events outside of executions" not in screen


@pytest.mark.oracle
def test_a_selected_module_has_its_executions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("in_turn", folder)
    traced = profile(path)
    own = steps_of_program(traced, next(each for each in traced.programs if each.name == "jit_decode"))
    durations = [step.duration_ps for step in own.steps]
    assert len(durations) == 16
    screen, document = facts_and_numbers(capsys, str(path), "--module", "jit_decode")
    assert "16 executions of" in screen
    assert "jit_prefill" not in screen
    assert document["answer"]["steps"] == 16
    assert document["answer"]["step_seconds"] == pytest.approx(float(np.median(durations)) * 1e-12)


@pytest.mark.oracle
def test_times_per_execution_are_those_of_the_own_program(folder: Path) -> None:
    traced = profile(recorded("in_turn", folder))
    means = mean_times(traced)
    assert means.unit == "run"
    for operation, time in zip(traced.operations, means.times, strict=True):
        if operation.program is not None and operation.program.name == "jit_decode":
            own = traced.occurrences.self_ps[traced.codes == traced.operations.index(operation)]
            assert time.seconds == pytest.approx(int(own.sum()) * 1e-12 / 16)


@pytest.mark.oracle
def test_a_program_beside_the_step_leaves_the_steps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("beside", folder)
    traced = profile(path)
    assert counts(traced) == {"jit_prefill": 8, "jit_metrics": 8}
    assert not runs_in_turn(traced)
    screen, _ = facts_and_numbers(capsys, str(path), "--skip-steps", "0")  # a busy machine is slow at first
    assert "where the time from one execution to the next goes" in screen
    assert "jit_metrics: 8 executions of" in screen


@pytest.mark.oracle
def test_modules_have_the_number_of_their_executions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("in_turn", folder)
    main(["profile", str(path), "--by", "module", "--format", "json"], standalone=False)
    table = json.loads(capsys.readouterr().out)["tables"]["modules"]
    found = {row["module"]: row["module_executions"] for row in table["rows"]}
    assert (found["jit_prefill"], found["jit_decode"]) == (2, 16)
    main(["report", str(path), "--profile", str(path), "--module", "jit_prefill", "--format", "json"], standalone=False)
    rows = json.loads(capsys.readouterr().out)["tables"]["executions"]["rows"]
    assert {row["module"]: row["module_executions"] for row in rows} == {"jit_prefill": 2, "jit_decode": 16}


# --- warm-up ---


@pytest.mark.oracle
def test_a_slow_first_step_is_named_and_omitted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("slow_first", folder)
    assert warm_up_steps(profile(path, skip_steps=0)) == 1
    main(["profile", str(path), "--format", "json"], standalone=False)
    document = json.loads(capsys.readouterr().out)
    answer = document["answer"]
    assert answer["steps"] == 7
    assert any("step 0" in each["message"] and "warm-up" in each["message"] for each in document["notes"])
    main(["profile", str(path), "--skip-steps", "0", "--format", "json"], standalone=False)
    with_first = json.loads(capsys.readouterr().out)["answer"]
    assert answer["seconds"] + 0.2 < with_first["seconds"]  # the first step alone slept for as long
    mean = sum(row["seconds"] for row in document["tables"]["step_parts"]["rows"])
    assert mean < 2 * answer["step_seconds"]  # the mean and the median of a step do not contradict each other


@pytest.mark.oracle
def test_all_steps_are_counted_on_demand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("slow_first", folder)
    main(["profile", str(path), "--skip-steps", "0", "--format", "json"], standalone=False)
    document = json.loads(capsys.readouterr().out)
    assert document["answer"]["steps"] == 8
    assert document["answer"]["seconds"] > 0.2
    main(["profile", str(path), "--by", "step", "--format", "json"], standalone=False)
    assert len(json.loads(capsys.readouterr().out)["tables"]["steps"]["rows"]) >= 8
    assert main(["profile", str(path), "--skip-steps", "8"], standalone=False) == 2
    assert "cannot omit 8 steps" in capsys.readouterr().err


@pytest.mark.oracle
@pytest.mark.parametrize("case", ["slow_later", "steady", "in_turn"])
def test_other_slow_steps_are_no_warm_up(case: str, folder: Path) -> None:
    assert warm_up_steps(profile(recorded(case, folder), skip_steps=0)) == 0


@pytest.mark.oracle
def test_a_slow_first_execution_is_omitted(folder: Path) -> None:
    traced = profile(recorded("executions", folder), skip_steps=0)
    assert warm_up_steps(traced) == 1
    left = without_first_steps(traced, 1)
    assert len(left.steps) == 7
    assert left.total_ps < traced.total_ps - traced.steps[0].duration_ps


@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "traces").glob("*/*.xplane.pb*")), ids=lambda path: path.parent.name
)
def test_what_is_left_is_the_rest(path: Path) -> None:
    traced = profile(path, skip_steps=0)
    for count in range(1, len(traced.steps)):
        left = without_first_steps(traced, count)
        chosen = traced.step_codes >= count
        assert int(left.occurrences.self_ps[left.step_codes >= 0].sum()) == int(
            traced.occurrences.self_ps[chosen].sum()
        )
        assert [each.name for each in left.steps] == [each.name for each in traced.steps[count:]]
        assert left.total_ps <= traced.total_ps
        assert all(busy <= span for busy, span in zip(left.busy_ps, left.spans_ps, strict=True))
        assert {each.name for each in left.operations} == {
            left.operations[code].name for code in set(left.codes.tolist())
        }
