"""The GitHub action and the pre-commit hook: their scripts run, what they name is there, and they find what they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from actions import ACTION, inputs, run_step, scripts
from hlo_cli.cli import COMMANDS

ROOT = ACTION.parent
HOOKS = ROOT / ".pre-commit-hooks.yaml"
FIXTURES = ROOT / "fixtures"
WRONG = FIXTURES / "golden" / "lint" / "wrong.hlo"

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checked-out repository with a dump that has findings, its name with a space, and one that has none."""
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(WRONG, folder / "a dump.hlo")
    (folder / "well.hlo").write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n")
    (folder / "expect.toml").write_text('expect = ["none(opcode == parameter)"]\n')
    return folder


@needs_bash
def test_findings_become_annotations_and_fail(workspace: Path, tmp_path: Path) -> None:
    given = {"paths": "a dump.hlo\nwell.hlo\n", "sarif": "found.sarif", "expect": "expect.toml"}
    done = run_step("hlo lint", given, tmp_path, workspace)
    assert (done.code, done.outputs) == (1, {"exit-code": "1"})
    lines = done.log.splitlines()
    assert all(line.startswith("::") for line in lines)
    assert {re.search(r"file=([^,:]+)", line)[1] for line in lines} == {"a dump.hlo", "well.hlo"}  # type: ignore[index]
    assert sum("title=HLO901" in line for line in lines) == 2
    results = json.loads((workspace / "found.sarif").read_text())["runs"][0]["results"]
    assert len(results) == len(lines)
    assert "| HLO901 |" in done.summary


@needs_bash
def test_options_are_handed_on(workspace: Path, tmp_path: Path) -> None:
    given = {"paths": "a dump.hlo", "args": "--select=HLO1\n--set=copy_bytes=1MiB"}
    done = run_step("hlo lint", given, tmp_path, workspace)
    assert (done.code, done.log, done.outputs) == (0, "", {"exit-code": "0"})


@needs_bash
def test_nothing_in_an_input_is_run(workspace: Path, tmp_path: Path) -> None:
    given = {"paths": "$(touch made).hlo\n`touch made`; touch made", "args": "--select=$(touch made)"}
    done = run_step("hlo lint", given, tmp_path, workspace)
    assert done.code == 2
    assert not (workspace / "made").exists()


@needs_bash
@pytest.mark.parametrize("name", list(scripts()))
def test_every_script_is_one(name: str) -> None:
    script, _ = scripts()[name]
    assert "${{" not in script, "an input in a script could run anything"
    assert subprocess.run(["bash", "-n", "-c", script], check=False).returncode == 0


def test_what_the_action_asks_for_is_declared() -> None:
    asked = set(re.findall(r"\$\{\{ inputs\.([\w\-]+) \}\}", ACTION.read_text()))
    assert asked == set(inputs())


@pytest.mark.parametrize(
    ("path", "is_dump"),
    [
        ("dumps/module_0001.jit_f.cpu_after_optimizations.txt", True),
        ("module_0001.jit_f.before_optimizations.txt", True),
        ("d/after_optimizations.txt.gz", True),
        ("d/step.hlo", True),
        ("d/after_optimizations-buffer-assignment.txt", False),
        ("notes.txt", False),
        ("hlo.py", False),
    ],
)
def test_the_hook_takes_dumps_alone(path: str, is_dump: bool) -> None:
    found = re.search(r"^  files: (.+)$", HOOKS.read_text(), re.MULTILINE)
    assert found is not None
    assert (re.search(found[1], path) is not None) is is_dump


def test_the_hook_runs_a_command_that_there_is() -> None:
    found = re.search(r"^  entry: hlo (\S+)$", HOOKS.read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] in COMMANDS
