"""Blocks of Markdown that show commands and their outputs: the commands are run again.

A line that begins with `$ ` is a command, lines that begin with `> ` continue it, and the lines up to the next command
are its output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(?ms)^```console([^\n]*)\n(.*?)^```")
COMMAND = re.compile(r"(?m)^\$ .*\n(?:> .*\n)*")


def outputs(
    block: str, *, folder: Path = ROOT, width: int = 80, stderr: bool | None = None, errors: bool = False
) -> Iterator[str]:
    """The commands of a block with their outputs as they are now; those that are not piped show their screen.

    `stderr` is whether standard error is shown too; by default, it is for commands with `parse --strict`. With
    `errors`, it is shown if the exit code is 2.
    """
    for command in COMMAND.findall(block):
        line = command.removeprefix("$ ").rstrip("\n").replace("\n> ", "\n")
        is_screen = line.startswith("hlo ") and not re.search(r"[|>;]| --format | -o |^hlo help", _unquoted(line))
        shown = f"{line} --format screen" if is_screen else line
        script = f'hlo() {{ "{sys.executable}" -m hlo_cli "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n{shown}'
        environment = os.environ | {
            "COLUMNS": str(width), "NO_COLOR": "1", "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)
        }  # fmt: skip
        with_stderr = "parse --strict" in line if stderr is None else stderr
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if with_stderr else subprocess.PIPE,
            check=False,
        )
        shown_errors = done.stderr.decode() if errors and done.returncode == 2 and not with_stderr else ""
        yield command + done.stdout.decode() + shown_errors


def _unquoted(line: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
