"""Errors and notes that name the way out: the command, the option, or the file that was meant."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from hlo_cli import cli

FIXTURES = Path(__file__).parent.parent / "fixtures"
DUMP = str(FIXTURES / "tpu" / "v5e_kernel")
COLLECTIVES = str(FIXTURES / "gpu" / "h100_collectives")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hlo(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(list(arguments), standalone=False)
        return code, *capsys.readouterr()

    return run


def test_sort_without_a_column(hlo: Run) -> None:
    assert hlo("parse", DUMP, "--sort", "") == (
        2,
        "",
        "error: --sort requires a column\n  help: run `hlo help glossary` to list all columns\n",
    )


@pytest.mark.parametrize(("name", "has_note"), [("x.foo", True), ("x.Cvs", True), ("x.txt", False), ("x.2026", False)])
def test_a_file_with_an_unknown_extension(name: str, has_note: bool, tmp_path: Path, hlo: Run) -> None:
    path = tmp_path / name
    code, _, err = hlo("parse", DUMP, "-o", str(path))
    assert (code, path.read_text()[:1]) == (0, "#")
    assert ("use --format to select a format" in err) is has_note
    assert "no format has" not in hlo("parse", DUMP, "-o", str(path), "--format", "table")[2]


@pytest.mark.parametrize("group", ["HLO1", "HLO", "hlo40"])
def test_a_group_of_rules_names_its_rules(group: str, hlo: Run) -> None:
    code, _, err = hlo("lint", "--explain", group)
    assert code == 2
    assert f"'{group}' is a group of " in err
    command = err.rpartition("run `")[2].partition("`")[0]
    assert hlo(*shlex.split(command)[1:])[0] == 0


def test_an_unknown_rule(hlo: Run) -> None:
    assert "unknown rule 'HLO999'" in hlo("lint", "--explain", "HLO999")[2]


def test_ignoring_what_is_not_there(hlo: Run) -> None:
    other = str(FIXTURES / "tpu" / "v5e_conv")
    code, _, err = hlo("diff", DUMP, other, "--ignore", "frob,layout,op_name,frontend_attributes")
    assert code == 0
    assert err.count("has no effect") == 1
    assert "--ignore frob has no effect; it takes an attribute, or one of opcode, shape, " in " ".join(err.split())


def test_a_chip_in_a_next_command_can_be_used(hlo: Run) -> None:
    _, out, _ = hlo("schedule", COLLECTIVES, "--format", "screen")
    line = next(line for line in out.splitlines() if "--chip" in line)
    assert hlo(*shlex.split(line.removeprefix("next:"))[1:])[0] == 0


@pytest.mark.parametrize("arguments", [("parse", DUMP, "--explain", "qqq"), ("memspace", DUMP, "--value", "qqq")])
def test_an_instruction_that_is_not_there(arguments: tuple[str, ...], hlo: Run) -> None:
    assert "run `hlo parse DUMP --instructions` to list all instructions" in hlo(*arguments)[2]


@pytest.mark.parametrize(
    ("data", "advice"), [(b"\x7fELF\0\0", "pass an HLO dump"), (b"BC\xc0\xde\0", "pass the HLO dump")]
)
def test_binary_files_name_the_right_one(data: bytes, advice: str, tmp_path: Path, hlo: Run) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(data)
    code, _, err = hlo(str(path))
    assert (code, f"help: {advice}" in err) == (2, True)
