"""Shapes that are answered without click have the same answers as by it: all of the goldens, with and without a command."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from hlo_cli.cli import main
from hlo_cli.commands.front import plain_shapes
from hlo_cli.commands.layout.command import LayoutOptions
from hlo_cli.commands.options.declaring import declarations
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.tile_index.options import TileIndexOptions

GOLDEN = Path(__file__).parent.parent / "fixtures" / "golden"
ODD = (
    ["f32[8,128]", "f32[128,8]"],
    ["layout", "f32[8,128]{0,1}", "(f32[2], bf16[3])"],
    ["layout", "(f32[2],bf16[3])"],
    ["layout", "f32[<=8,?]"],
    ["layout", "token[]"],
    ["layout", "f32[8,128"],
    ["layout", "f33[8]"],
    ["torch.float32[8]"],
    ["f32[8,128]", "{replicated}"],
    ["layout", "no_such_file"],
    ["layout", "f32[8]", "no_such_file"],
    ["layout"],
    ["tile-index", "f32[8,128]"],
    ["tile-index", "f32[8,128]", "9,5"],
    ["tile-index", "f32[8,128]", "3,5", "0:2,4"],
    ["tile-index", "f32[8,128]", "x"],
    ["tile-index", "f32[8,128]{1,0}", "f32[8,128]{0,1}"],
    ["tile-index", "f32[8,128]{1,0}", "f32[8,128]{0,1}", "3,5"],
    ["tile-index", "token[]", "0"],
    ["tile-index", "bf16[300,70]{1,0:T(8,128)(2,1)SC(0:1)}", "3,5"],
    ["p = f32[2] parameter(0)"],
)


def lines() -> list[list[str]]:
    """The words of goldens about shapes, without options."""
    found = {tuple(words) for words in ODD}
    for command in ("layout", "tile-index", "cli"):
        for path in sorted((GOLDEN / command).glob("*.txt")):
            first = path.read_text(encoding="utf-8").partition("\n")[0]
            if not first.startswith("$ hlo ") or "|" in first or ">" in first:
                continue
            words = [each for each in shlex.split(first)[2:] if not each.startswith("-") and each != "screen"]
            if any("[" in each for each in words):
                found.add(tuple(words))
    return sorted(map(list, found))


@pytest.mark.parametrize("words", lines(), ids=" ".join)
def test_an_answer_without_click_is_that_of_the_command(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code = main(words, standalone=False)
    plain = code, capfd.readouterr()
    with patch.object(plain_shapes, "answered", lambda words: None):
        assert (main(words, standalone=False), capfd.readouterr()) == plain


def test_only_shapes_without_options_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HLO_ASCII", raising=False)
    assert plain_shapes.answered(["f32[8]"]) == 0
    assert plain_shapes.answered(["layout", "f32[8]"]) == 0
    assert plain_shapes.answered(["tile-index", "f32[8]", "3"]) == 0
    for words in (["layout", "f32[8]", "-q"], ["f32[8]", "{1}"], ["layout", "f32[8]{1}"], ["r = f32[8] add(x, y)"]):
        assert plain_shapes.answered(words) is None
    (tmp_path / "f328").touch()
    assert plain_shapes.answered(["f32[8]"]) is None
    assert plain_shapes.answered(["layout", "f32[8]"]) == 0
    (tmp_path / "3").touch()
    assert plain_shapes.answered(["tile-index", "f32[8]", "3"]) is None
    monkeypatch.setenv("HLO_ASCII", "1")
    assert plain_shapes.answered(["layout", "f32[8]"]) is None
    capfd.readouterr()


def test_the_environment_sets_no_other_option() -> None:
    """A shape is not answered without click if the environment has an option."""
    classes = OutputOptions, InputOptions, LayoutOptions, TileIndexOptions
    declared = [each.click.get("envvar") for options in classes for each in declarations(options).values()]
    assert {name for name in declared if name} == {"HLO_ASCII"}


def test_a_shape_needs_neither_click_nor_inspect() -> None:
    code = (
        "import sys; from hlo_cli.cli import main; main(['f32[8,128]'], standalone=False); "
        "print({'click', 'ast', 'numpy', 'rich', 'pyparsing'} & set(sys.modules), "
        "__import__('inspect').signature(main).parameters['standalone'].default)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "set() True"
