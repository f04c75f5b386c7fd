"""The GitHub action and the pre-commit hook: their scripts run, what they name is there, and they find what they should."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
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
@pytest.mark.slow
def test_paths_and_files_with_spaces(workspace: Path, tmp_path: Path) -> None:
    """Directories, globs, an expectation and a baseline whose names have spaces; empty lines are nothing."""
    folder = workspace / "some dumps"
    folder.mkdir()
    shutil.copy(WRONG, folder / "module_0001.jit_f.cpu_after_optimizations.txt")
    shutil.copy(workspace / "expect.toml", workspace / "what we expect.toml")
    subprocess.run(
        [sys.executable, "-m", "hlo_cli", "lint", "a dump.hlo", "--write-baseline", "known ones.json"],
        cwd=workspace, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True,
    )  # fmt: skip
    given = {"paths": "\nsome dumps/\n\n*.hlo\n", "baseline": "known ones.json", "expect": "what we expect.toml"}
    done = run_step("hlo lint", given, tmp_path, workspace)
    found = [re.search(r"title=(HLO\d+)[^:]*?,file=([^,:]+)", line) for line in done.log.splitlines()]
    told = {(match[1], match[2]) for match in found if match is not None}
    named = ("some dumps/module_0001.jit_f.cpu_after_optimizations.txt", "a dump.hlo", "well.hlo")
    assert {pair for pair in told if pair[0] == "HLO901"} == {("HLO901", path) for path in named}
    assert {path for code, path in told if code != "HLO901"} == {"a dump.hlo"}, "one of two alike is known"
    assert done.code == 1


@needs_bash
def test_what_cannot_be_read_is_an_annotation_and_in_the_summary(workspace: Path, tmp_path: Path) -> None:
    given = {"paths": "well.hlo\ngone dump.hlo", "sarif": "found here.sarif"}
    done = run_step("hlo lint", given, tmp_path, workspace)
    assert (done.code, done.outputs) == (2, {"exit-code": "2"})
    assert done.log.startswith("::error title=unreadable,file=gone dump.hlo::")
    assert "1 input unreadable" in done.summary
    [invocation] = json.loads((workspace / "found here.sarif").read_text())["runs"][0]["invocations"]
    assert not invocation["executionSuccessful"]


@needs_bash
@pytest.mark.parametrize("folder", ["bin", "Scripts"])
def test_what_is_installed_is_the_action_itself(folder: str, workspace: Path, tmp_path: Path) -> None:
    """In an environment of its own, whose programs later steps find; on Windows they lie elsewhere."""
    programs = {
        "recorder": f'#!/bin/sh\nfor each in "$@"; do echo "$each"; done > "{tmp_path}/asked"\n',
        "python": f'#!/bin/sh\nmkdir -p "$3/{folder}" && cp "{tmp_path}/recorder" "$3/{folder}/python"\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = run_step("Install hlo", {}, tmp_path, workspace)
    assert (done.code, done.path) == (0, f"{tmp_path}/runner/hlo/{folder}\n")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert (asked[:3], asked[-1]) == (["-m", "pip", "install"], f"{tmp_path}/the action")


@needs_bash
@pytest.mark.slow
def test_options_are_handed_on(workspace: Path, tmp_path: Path) -> None:
    given = {"paths": "a dump.hlo", "args": "--select=HLO1\n--set=min_copy_bytes=1MiB"}
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


@needs_bash
@pytest.mark.slow
@pytest.mark.parametrize(
    ("golden", "code", "words"),
    [
        ("well.hlo\n", 0, ""),
        (
            "other.hlo\n",
            1,
            "::error file=same.hlo,title=hlo run::Not the same program: 1 of 1 result differs, first at n",
        ),
        ("gone.hlo\n", 2, "::error file=same.hlo,title=hlo run::error: file 'gone.hlo' not found"),
        ("well.hlo\nother.hlo\n", 2, "::error title=hlo run::golden has 2 lines, and paths 1"),
    ],
)
def test_modules_are_compared_with_golden_ones(
    golden: str, code: int, words: str, workspace: Path, tmp_path: Path
) -> None:
    text = "HloModule m\nENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }\n"
    for name, content in (("same", text), ("well", text), ("other", text.replace("negate", "cosine"))):
        (workspace / f"{name}.hlo").write_text(content)
    (tmp_path / "runner").mkdir()
    done = run_step("hlo run", {"paths": "same.hlo\n", "golden": golden}, tmp_path, workspace)
    assert (done.code, done.outputs) == (code, {"same": str(code)})
    assert done.log.strip() == words
    assert ("same program" in done.summary) is (code < 2)


def test_what_the_action_asks_for_is_declared() -> None:
    asked = set(re.findall(r"\$\{\{ [^}]*?inputs\.([\w\-]+)[^}]* \}\}", ACTION.read_text()))
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


def test_the_hooks_run_commands_that_there_are() -> None:
    found = re.findall(r"^  entry: hlo (\S+)", HOOKS.read_text(), re.MULTILINE)
    assert found == ["lint", "run"]
    assert set(found) <= set(COMMANDS)
