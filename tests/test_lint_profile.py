"""`hlo lint DUMP --profile TRACE`: findings in the order of the measured time of their kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hlo_cli.library import load
from hlo_cli.report.findings import Cause, Finding, MeasuredKernel, groups_of
from in_process import Answer, run
from strategies import FIXTURES

TRACE = str(FIXTURES / "traces/cpu_steps/trace.xplane.pb")

LOOPS = str(FIXTURES / "traces/cpu_loops/trace.xplane.pb.gz")


def hlo(*arguments: str) -> Answer:
    return run(arguments, folder=FIXTURES, settings={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"})


def records(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hlo(*arguments, "--format", "json")[0])
    return found


def test_findings_have_the_time_of_their_kernel(tmp_path: Path) -> None:
    dump = tmp_path / "module_0001.jit_train_step.cpu_after_optimizations.txt"
    dump.write_text(load(TRACE, module="jit_train_step").to_string() + "\n")
    report = records("lint", str(dump), "--profile", TRACE)
    (row,) = report["tables"]["findings"]["rows"]
    (timed,) = (
        each
        for each in records("profile", TRACE)["tables"]["operations"]["rows"]
        if each["instruction"] == row["instruction"] and each["module"] == "jit_train_step"
    )
    assert row["kernel"] == row["instruction"]
    assert row["measured_seconds"] < timed["self_seconds"]  # of one step and device, not of all
    assert report["answer"]["measured_seconds"] == row["measured_seconds"]
    assert report["answer"]["measured_unit"] == "step"
    (group,) = report["tables"]["groups"]["rows"]
    assert group["measured_seconds"] == row["measured_seconds"]
    screen = hlo("lint", str(dump), "--profile", TRACE, "--format", "screen")[0]
    assert "· measured 18.3 µs per step and device" in screen
    assert "their kernel takes 18.3 µs of 5.2 ms per step and device" in screen.replace("\n", " ")


def test_the_trace_is_the_input_by_default_and_what_did_not_run_is_said() -> None:
    assert "measured 18.3 µs per step and device" in hlo("lint", "--profile", TRACE, "--format", "screen")[0]
    notes = [each["message"] for each in records("lint", "--profile", LOOPS)["notes"]]
    assert "not in the profile: jit__multi_slice, jit_broadcast_in_dim, jit_convert_element_type" in notes


def test_without_a_profile_there_are_no_columns_of_measured_times() -> None:
    (row,) = records("lint", TRACE)["tables"]["findings"]["rows"]
    assert not {"measured_seconds", "kernel"} & row.keys()


def test_another_compilation_is_a_warning(tmp_path: Path) -> None:
    dump = tmp_path / "m.txt"
    dump.write_text(load(TRACE, module="jit_train_step").to_string().replace("copy.19", "copy.91") + "\n")
    _, err, _ = hlo("lint", str(dump), "--profile", TRACE)
    assert "only 0 of 1 instruction with findings are in the profile" in err
    assert "1 finding has no measured time" in err


def test_groups_are_in_the_order_of_measured_time() -> None:
    def found(name: str, cost: int, kernel: str, seconds: float) -> Finding:
        measured = MeasuredKernel("m", kernel, seconds)
        return Finding("warning", name, cost_bytes=cost, cause=Cause(name), measured=measured)

    large, small = found("large", 1000, "a", 1e-6), found("small", 8, "b", 5e-6)
    twice = found("small", 4, "b", 5e-6)
    groups = groups_of([large, small, twice])
    assert [each.worst.message for each in groups] == ["small", "large"]
    assert groups[0].measured_seconds == 5e-6  # one kernel, however many findings it has
