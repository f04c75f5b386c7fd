"""Every block of README.md is run: `python tests/test_readme.py --write` puts the outputs in anew."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

_BLOCK = re.compile(r"(?s)```console\n(.*?)```")
_COMMAND = re.compile(r"(?m)^\$ .*\n")


def answered(text: str) -> str:
    """The text with every console block's outputs as they are now; commands that are not piped show their screen."""
    return _BLOCK.sub(lambda block: "```console\n" + "".join(_outputs(block[1])) + "```", text)


def _outputs(block: str) -> Iterator[str]:
    for command in _COMMAND.findall(block):
        line = command.removeprefix("$ ").rstrip("\n")
        shown = f"{line} --format screen" if line.startswith("hlo ") and "|" not in line else line
        script = f'hlo() {{ "{sys.executable}" -m hlo_cli "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n{shown}'
        environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if "parse --strict" not in line else subprocess.STDOUT,
            check=False,
        )
        yield command + done.stdout.decode()


@pytest.mark.parametrize(
    "block", _BLOCK.findall(README.read_text(encoding="utf-8")), ids=lambda block: block.split("\n")[0]
)
def test_every_command_prints_what_the_readme_shows(block: str) -> None:
    assert "".join(_outputs(block)) == block


def test_the_demo_shows_the_first_screen() -> None:
    first = _COMMAND.search(README.read_text(encoding="utf-8"))
    recipe = re.search(r"(?m)^demo:.*\n\t@(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert first is not None
    assert recipe is not None
    line = first[0].removeprefix("$ ").rstrip("\n")
    assert recipe[1] == f"COLUMNS=80 $(VENV)/bin/{line} --format screen"


def test_the_library_does_what_the_readme_shows() -> None:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        result = doctest.testfile(str(README), module_relative=False)
    finally:
        os.chdir(before)
    assert result.attempted >= 7
    assert result.failed == 0


if __name__ == "__main__" and "--write" in sys.argv:
    README.write_text(answered(README.read_text(encoding="utf-8")), encoding="utf-8")
