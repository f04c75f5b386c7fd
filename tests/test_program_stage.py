"""A verdict on a module that is not the program yet says so first, and fails only where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hlo_cli import load, parse_module
from hlo_cli.analysis.query.module_summary import program_stage
from hlo_cli.cli import main
from strategies import FIXTURES

HUGE = """HloModule jit_huge

ENTRY main {
  a = f32[100000,100000]{1,0} parameter(0)
  b = f32[100000,100000]{1,0} sine(a)
  c = f32[100000,100000]{1,0} add(b, a)
  ROOT d = f32[100000,100000]{1,0} multiply(c, b)
}
"""
SCHEDULED = HUGE.replace("jit_huge", "jit_huge, is_scheduled=true")
DUMPS = sorted(path for path in FIXTURES.glob("[cgt]pu/*/*_optimizations.txt"))
BEFORE = [path for path in DUMPS if "before_" in path.name]
AFTER = [path for path in DUMPS if "after_" in path.name]


def _asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, arguments), "--format", "json"], standalone=False)
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return code, found


def _screen(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    main([*map(str, arguments), "--format", "screen"], standalone=False)
    return " ".join(capsys.readouterr().out.partition("\n\n")[0].split())


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_goes_into_a_compiler_is_before_optimization(path: Path) -> None:
    module = load(path)
    assert program_stage(module, "before_optimizations") == "before optimization"
    assert program_stage(module) == "before optimization"


@pytest.mark.parametrize("path", AFTER, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_comes_out_of_a_compiler_is_optimized(path: Path) -> None:
    text = path.read_text()
    assert program_stage(parse_module(text)) == "optimized"
    unscheduled = parse_module(text.replace("is_scheduled=true, ", "", 1).replace(", is_scheduled=true", "", 1))
    assert not unscheduled.is_scheduled
    assert program_stage(unscheduled, "after_optimizations") == "optimized"
    assert program_stage(unscheduled) == "optimized"
    assert program_stage(unscheduled, "0012.fusion.after_fusion") == "during optimization"


@pytest.mark.parametrize("chip", ["v5e", "h100"])
def test_a_chip_fails_no_module_that_is_not_optimized(
    chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "huge.hlo"
    path.write_text(HUGE)
    code, report = _asked(capsys, "memspace", path, "--chip", chip)
    answer = report["answer"]
    assert (code, answer["fits"], answer["program_stage"]) == (0, None, "before optimization")
    assert answer["upper_bound"] is True
    headline = _screen(capsys, "memspace", path, "--chip", chip)
    assert headline.startswith("Upper bound ")
    assert headline.endswith("; it may still fit once optimized")
    code, report = _asked(capsys, "memspace", path, "--chip", chip, "--gate-unoptimized")
    assert (code, report["answer"]["fits"]) == (1, False)
    assert "Does not fit at the pre-optimization upper bound of " in _screen(
        capsys, "memspace", path, "--chip", chip, "--gate-unoptimized"
    )
    path.write_text(SCHEDULED)
    code, report = _asked(capsys, "memspace", path, "--chip", chip)
    assert (code, report["answer"]["fits"], report["answer"]["upper_bound"]) == (1, False, False)
    assert _screen(capsys, "memspace", path, "--chip", chip).startswith("Does not fit: ")


def test_a_limit_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "huge.hlo"
    path.write_text(HUGE)
    code, report = _asked(capsys, "memspace", path, "--limit", "1GiB")
    assert (code, report["answer"]["fits"]) == (1, False)
    code, report = _asked(capsys, "memspace", path, "--limit", "1TiB")
    assert (code, report["answer"]["fits"], report["answer"]["upper_bound"]) == (0, True, True)
    assert main(["memspace", str(path), "--limit", "1GiB", "--gate-unoptimized"], standalone=False) == 2


def test_a_row_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", HUGE), ("b", HUGE.replace("100000", "10")), ("c", SCHEDULED.replace("100000", "10"))):
        (tmp_path / f"{name}.hlo").write_text(text.replace("jit_huge", name))
    code, report = _asked(capsys, "memspace", tmp_path, "--chip", "v5e")
    assert code == 0
    rows = {row["module"]: row for row in report["tables"]["modules"]["rows"]}
    assert {name for name, row in rows.items() if row["upper_bound"]} == {"a", "b"}
    assert {name for name, row in rows.items() if row["fits"] is True} == {"b"}  # c is of a CPU
    assert rows["a"]["fits"] is not False
    assert (report["answer"]["upper_bounds"], report["answer"]["fits"]) == (2, None)
    assert "2 not optimized yet (upper bounds)" in _screen(capsys, "memspace", tmp_path, "--chip", "v5e")
    code, report = _asked(capsys, "memspace", tmp_path, "--chip", "v5e", "--gate-unoptimized")
    assert (code, report["answer"]["fits"]) == (1, False)
    for command, bounds in (("schedule", 0), ("fuse", 2)):  # hlo schedule times them as after fusion
        _, report = _asked(capsys, command, tmp_path, "--chip", "v5e")
        assert report["answer"].get("upper_bounds", 0) == bounds


def test_the_module_named_is_the_one_that_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", HUGE), ("b", SCHEDULED.replace("100000", "90000")), ("c", HUGE.replace("100000", "9"))):
        (tmp_path / f"{name}.hlo").write_text(text.replace("jit_huge", name))
    assert _screen(capsys, "memspace", tmp_path, "--chip", "v5e").startswith("1 of 3 modules does not fit: b needs ")
    (tmp_path / "b.hlo").unlink()
    assert _screen(capsys, "memspace", tmp_path, "--chip", "v5e").startswith("1 of 2 modules fits; unknown for 1: a ")


@pytest.mark.parametrize("command", ["schedule --critical-path time", "fuse", "fuse --cost", "memspace"])
def test_times_of_what_is_not_fused_yet_are_upper_bounds(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = command.split()
    path = tmp_path / "m.hlo"
    path.write_text(HUGE)
    headline = _screen(capsys, name, path, *options, "--chip", "h100")
    assert headline.startswith("Upper bound " if name == "memspace" else "Before optimization (upper bounds): ")
    _, report = _asked(capsys, name, path, *options, "--chip", "h100")
    assert report["answer"]["program_stage"] == "before optimization"
    assert report["answer"]["upper_bound"] is True
    path.write_text(SCHEDULED)
    assert "ptimization" not in _screen(capsys, name, path, *options, "--chip", "h100")


@pytest.mark.parametrize("command", ["schedule", "schedule --sequence"])
def test_executions_are_timed_after_fusion(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, *options = command.split()
    path = tmp_path / "m.hlo"
    path.write_text(HUGE)
    headline = _screen(capsys, name, path, *options, "--chip", "h100")
    assert headline.startswith("Before optimization: ")
    _, report = _asked(capsys, name, path, *options, "--chip", "h100")
    answer = report["answer"]
    assert (answer["program_stage"], answer["upper_bound"]) == ("before optimization", False)
    assert answer["is_fused_by_rule"]
    assert answer["execution_low_seconds"] <= answer["execution_seconds"] <= answer["execution_high_seconds"]
    assert answer["compute_seconds"] <= answer["execution_seconds"]
    path.write_text(SCHEDULED)
    assert "ptimization" not in _screen(capsys, name, path, *options, "--chip", "h100")
    assert not _asked(capsys, name, path, *options, "--chip", "h100")[1]["answer"]["is_fused_by_rule"]
