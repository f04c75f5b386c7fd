"""Runs steps of the GitHub action of this repository as a runner would: their scripts, their environment, their files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ACTION = Path(__file__).parent.parent / "action.yml"

_STEP = re.compile(r"^    - name: (?P<name>.+)\n(?P<body>(?:(?:      .*)?\n)+)", re.MULTILINE)
_RUN = re.compile(r"^      run: \|\n(?P<script>(?:        .*\n|\n)+)", re.MULTILINE)
_VARIABLE = re.compile(r"^        (?P<name>[A-Z_]+): \$\{\{ (?P<value>[\w.\-]+) \}\}$", re.MULTILINE)
_INPUT = re.compile(
    r"^  (?P<name>[\w\-]+):\n    description: .+\n    (?:required: true|default: (?P<default>.+))\n", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Done:
    """What a step left behind."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    path: str


def inputs() -> dict[str, str]:
    """The inputs of the action with their defaults; what has to be given is empty."""
    part = ACTION.read_text(encoding="utf-8").partition("\ninputs:\n")[2].partition("\noutputs:\n")[0]
    return {match["name"]: (match["default"] or "").strip('"') for match in _INPUT.finditer(part)}


def scripts() -> dict[str, tuple[str, dict[str, str]]]:
    """The script of every step that has one, and its environment with the expressions as they are written."""
    text = ACTION.read_text(encoding="utf-8")
    found = {}
    for step in _STEP.finditer(text):
        if script := _RUN.search(step["body"]):
            variables = {match["name"]: match["value"] for match in _VARIABLE.finditer(step["body"])}
            found[step["name"]] = (textwrap.dedent(script["script"]), variables)
    return found


def run_step(name: str, given: Mapping[str, str], folder: Path, workspace: Path) -> Done:
    """Run the script of a step in a workspace, with files of the runner and a command `hlo` in a folder."""
    script, variables = scripts()[name]
    values = {f"inputs.{key}": value for key, value in {**inputs(), **given}.items()}
    values["github.action_path"] = str(folder / "the action")
    files = {key: folder / key.lower() for key in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    for file in files.values():
        file.touch()
    hlo = folder / "hlo"
    hlo.write_text(f'#!/bin/sh\nPYTHONPATH="{ACTION.parent}" exec "{sys.executable}" -m hlo_cli "$@"\n')
    hlo.chmod(0o755)
    environment = {
        **os.environ,
        **{key: str(file) for key, file in files.items()},
        **{key: values[value] for key, value in variables.items()},
        "RUNNER_TEMP": str(folder / "runner"),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True, check=False)
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    summary, path = (files[key].read_text() for key in ("GITHUB_STEP_SUMMARY", "GITHUB_PATH"))
    return Done(done.returncode, done.stdout, outputs, summary, path)
