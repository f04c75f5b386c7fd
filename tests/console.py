"""Blocks of Markdown that show commands and their outputs: the commands are run again.

A line that begins with `$ ` is a command, lines that begin with `> ` continue it, and the lines up to the next command
are its output.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import in_process

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(?ms)^```console([^\n]*)\n(.*?)^```")
COMMAND = re.compile(r"(?m)^\$ .*\n(?:> .*\n)*")

_FOR_A_SHELL = re.compile(r"[|&;<>()$`\\*?~#\n]")
"""What a shell understands outside quotes."""


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
        settings = {"COLUMNS": str(width), "NO_COLOR": "1"}
        with_stderr = "parse --strict" in line if stderr is None else stderr
        if shown.startswith("hlo ") and not with_stderr and not _FOR_A_SHELL.search(_unquoted(shown)):
            words = shlex.split(shown)[1:]
            out, err, code = in_process.run(words, folder=folder, settings=settings | {"LINES": "24"})
        elif not with_stderr and shown.startswith("hlo ") and (pipe := in_process.pipe_of(shown)) is not None:
            words = shlex.split(pipe[0])[1:]
            out, err, code = in_process.run(words, folder=folder, settings=settings | {"LINES": "24"})
            out = in_process.through(out, pipe[1], folder=folder, settings=settings)
        else:
            out, err, code = _in_a_shell(shown, folder, settings, with_stderr=with_stderr)
        yield command + out + (err if errors and code == 2 else "")


def _in_a_shell(line: str, folder: Path, settings: dict[str, str], *, with_stderr: bool) -> in_process.Answer:
    """What a shell answers; `with_stderr`, standard error is part of the output."""
    script = f'hlo() {{ "{sys.executable}" -m hlo_cli "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n{line}'
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env=os.environ | settings | {"PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if with_stderr else subprocess.PIPE,
        check=False,
    )
    return done.stdout.decode(), (done.stderr or b"").decode(), done.returncode


def _unquoted(line: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
