"""Trip counts that a profile measured take the place of unknown ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.library import load
from hlo_cli.transform.module_time import unknown_loops, with_trip_counts
from in_process import Answer, run
from strategies import FIXTURES

LOOPS = str(FIXTURES / "traces/cpu_loops/trace.xplane.pb.gz")
NAME = "jit_repeat"  # a loop that ends by a value, after four iterations


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / f"module_0001.{NAME}.cpu_after_optimizations.txt"
    path.write_text(load(LOOPS, module=NAME).to_string() + "\n")
    return str(path)


def hlo(*arguments: str) -> Answer:
    return run(arguments, folder=FIXTURES, settings={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"})


def records(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hlo(*arguments, "--format", "json")[0])
    return found


def test_the_tree_has_measured_trip_counts(dump: str) -> None:
    for options, trips in (((), "?"), (("--profile", LOOPS), "4")):
        (line,) = (
            each
            for each in hlo("parse", dump, "--tree", *options, "--format", "screen")[0].splitlines()
            if "while.5" in each
        )
        assert line.split()[2] == trips
    assert hlo("parse", dump, "--profile", LOOPS)[1].startswith("error: --profile requires --tree")


def test_a_module_is_written_with_measured_trip_counts(dump: str, tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    note = "note: trip counts are measured: while.5 × 4\n"
    _, errors, code = hlo("parse", dump, "--profile", LOOPS, "-o", str(path))
    assert (errors.startswith(f"{note}note: wrote {path} ("), code) == (True, 0)
    module = load(str(path))
    assert [trip_count(each) for each in module.instructions if each.opcode == "while"] == [4]
    assert "loop of unknown trip count" not in hlo("fuse", str(path), "--format", "screen")[0]


def test_a_report_with_a_profile_has_executions_of_loops(dump: str) -> None:
    before = records("report", dump)["tables"]["kernels"]["rows"]
    report = records("report", dump, "--profile", LOOPS)
    after = {row["instruction"]: row["execution_count"] for row in report["tables"]["kernels"]["rows"]}
    unknown = [row["instruction"] for row in before if not isinstance(row["execution_count"], int)]
    assert unknown
    assert {after[name] for name in unknown} <= {4, 5}  # the body, and the condition
    calls = {row["instruction"]: row["calls"] for row in report["tables"]["measured"]["rows"]}
    assert all(after[name] == calls[name] / calls["while.5"] for name in unknown)
    assert "trip counts are measured: while.5 × 4" in [each["message"] for each in report["notes"]]


@pytest.mark.parametrize("trips", [1, 12])
def test_a_loop_with_a_trip_count_is_otherwise_the_same(trips: int) -> None:
    module = load(LOOPS, module=NAME)
    (loop,) = unknown_loops(module)
    found = with_trip_counts(module, {loop.name: trips, "nosuch": 3})
    assert trip_count(found.instruction(loop.name)) == trips
    assert unknown_loops(found) == ()
    config = f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
    assert found.to_string().replace(config, "") == module.to_string()
    assert with_trip_counts(module, {"nosuch": 3}) is module
