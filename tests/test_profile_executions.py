"""Programs that run in turn have executions of their own; each trace is of a known order of real programs on a CPU."""

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
from hlo_cli.analysis.profile.executions import executions_by_program, runs_in_turn, steps_of_program
from hlo_cli.analysis.profile.operation_times import mean_times
from hlo_cli.cli import main

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


def test_times_per_execution_are_those_of_the_own_program(folder: Path) -> None:
    traced = profile(recorded("in_turn", folder))
    means = mean_times(traced)
    assert means.unit == "run"
    for operation, time in zip(traced.operations, means.times, strict=True):
        if operation.program is not None and operation.program.name == "jit_decode":
            own = traced.occurrences.self_ps[traced.codes == traced.operations.index(operation)]
            assert time.seconds == pytest.approx(int(own.sum()) * 1e-12 / 16)


def test_a_program_beside_the_step_leaves_the_steps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("beside", folder)
    traced = profile(path)
    assert counts(traced) == {"jit_prefill": 8, "jit_metrics": 8}
    assert not runs_in_turn(traced)
    screen, _ = facts_and_numbers(capsys, str(path))
    assert "where the time from one execution to the next goes" in screen
    assert "jit_metrics: 8 executions of" in screen


def test_modules_have_the_number_of_their_executions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("in_turn", folder)
    main(["profile", str(path), "--by", "module", "--format", "json"], standalone=False)
    table = json.loads(capsys.readouterr().out)["tables"]["modules"]
    found = {row["module"]: row["module_executions"] for row in table["rows"]}
    assert (found["jit_prefill"], found["jit_decode"]) == (2, 16)
    main(["report", str(path), "--profile", str(path), "--module", "jit_prefill", "--format", "json"], standalone=False)
    rows = json.loads(capsys.readouterr().out)["tables"]["executions"]["rows"]
    assert {row["module"]: row["module_executions"] for row in rows} == {"jit_prefill": 2, "jit_decode": 16}
