"""Every block of README.md is run: `python tests/test_readme.py --write` puts the outputs in anew."""

from __future__ import annotations

import doctest
import os
import re
import sys
from pathlib import Path

import pytest

from console import BLOCK, COMMAND, ROOT, outputs
from hlo_cli.commands.help.catalog import TOPICS
from hlo_cli.lint.run import RULES

README = ROOT / "README.md"
LONGEST = 230  # lines: what is longer is in `hlo help`


def answered(text: str) -> str:
    """The text with every console block's outputs as they are now; commands that are not piped show their screen."""
    return BLOCK.sub(lambda block: f"```console{block[1]}\n{''.join(outputs(block[2]))}```", text)


@pytest.mark.parametrize(
    "block",
    [block[2] for block in BLOCK.finditer(README.read_text(encoding="utf-8"))],
    ids=lambda block: block.split("\n")[0],
)
def test_every_command_prints_what_the_readme_shows(block: str) -> None:
    assert "".join(outputs(block)) == block


def test_a_newcomer_reads_it_in_one_go() -> None:
    """It opens with the question, shows a result on the first screen, and says what running the tests costs."""
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) < LONGEST
    assert lines[2].startswith("**Why ")
    assert "$ hlo fixtures/tpu/v5e_conv/" in lines[:10]
    assert re.search(r"`make test`[^.]* minutes", " ".join(lines))


def test_what_it_counts_is_right() -> None:
    text = README.read_text(encoding="utf-8")
    assert f"Its {len(RULES)} rules " in text
    assert f"lists {len(TOPICS)} pages" in text


def test_the_demo_shows_the_first_screen() -> None:
    first = COMMAND.search(README.read_text(encoding="utf-8"))
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
