"""`hlo run DIR --passes`: places of results that the partitioner chose, and dumps that cannot be evaluated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_cli import cli

BEFORE = """HloModule m, num_partitions=2
ENTRY main { p = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT r = f32[4,2] negate(p)SHARDING }"""
PLACED = BEFORE.replace("SHARDING", ", sharding={devices=[2,1]<=[2]}")
AFTER = """HloModule m, num_partitions=2
ENTRY main_spmd { p = f32[2,2] parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT r = f32[2,2] negate(p) }"""
UNKNOWN = AFTER.replace("negate(p)", 'custom-call(p), custom_call_target="my_op"')


def report(folder: Path, capsys: pytest.CaptureFixture[str], *texts: str) -> tuple[int, str]:
    for at, text in enumerate(texts):
        name = f"module_0000.m.{at:04}.pipeline.after_a{at}.before_a{at + 1}.txt"
        (folder / name).write_text(text.replace("SHARDING", ""))
    code = cli.main(["run", str(folder), "--passes", "--format", "json"], standalone=False)
    found = json.loads(capsys.readouterr().out)
    return code, json.dumps([found["tables"]["passes"]["rows"], found["notes"]])


def test_places_of_results_are_those_before_the_partitioner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(tmp_path, capsys, BEFORE, PLACED, AFTER, AFTER)
    assert code == 0
    assert found.startswith("[[], ")


def test_places_of_results_that_no_dump_states_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(tmp_path, capsys, BEFORE, AFTER)
    assert code == 1
    assert "placement unknown" in found


def test_dumps_that_cannot_be_evaluated_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = AFTER.replace("negate", "abs")
    code, found = report(tmp_path, capsys, PLACED, AFTER, UNKNOWN, AFTER)
    assert code == 0
    assert "1 pass dump was skipped" in found
    code, found = report(tmp_path, capsys, PLACED, AFTER, UNKNOWN, changed)
    assert code == 1
    assert '"pass": "a3"' in found


def test_an_error_if_no_dump_can_be_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "module_0000.m.0000.pipeline.after_a.before_b.txt").write_text(UNKNOWN)
    (tmp_path / "module_0000.m.0001.pipeline.after_b.before_c.txt").write_text(UNKNOWN)
    assert cli.main(["run", str(tmp_path), "--passes"], standalone=False) == 2
    assert "my_op is unknown" in capsys.readouterr().err


def test_results_that_are_nan_with_all_arguments_are_not_called_identical(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """ENTRY e { p = f32[4] parameter(0)  m = f32[4] multiply(p, p)  n = f32[4] negate(m)
      l = f32[4] log(n)  ROOT t = (f32[4], f32[4]) tuple(l, p) }"""
    for at, each in enumerate(
        (text, text.replace("tuple(l, p)", "tuple(sine, p)").replace("ROOT", "sine = f32[4] sine(l)  ROOT"))
    ):
        (tmp_path / f"module_0000.m.{at:04}.pipeline.after_a{at}.before_a{at + 1}.txt").write_text(each)
    assert cli.main(["run", str(tmp_path), "--passes", "--format", "json"], standalone=False) == 1
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert (answer["same"], answer["uncompared_results"], answer["not_run"]) == (False, ["0"], [])
