"""Messages into pipes and files: one a line, however long the paths in them; only a terminal gets them broken."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hlo_cli.cli import main

FIXTURES = Path(__file__).parent.parent / "fixtures"
LENGTHS = (10, 80, 180)
FILES = {
    "empty.hlo": "",
    "broken.hlo": "HloModule m\n\nENTRY e {\n  ROOT p = f32[2 parameter(0)\n}\n",
    "odd.hlo": "HloModule m\n\nENTRY e {\n  p = f32[2] parameter(0), frob=1\n  ROOT q = f32[2] twist(p)\n}\n",
    "known.json": "[]",
    "hlo.toml": "[lint]\npadding_bytes = 'much'\n",
    "expect.toml": "expect = ['none(opcode == )']\n",
    "no-text.pb": "\0\1\2",
}
LINES = (
    *("parse {0}/nothing.hlo", "parse {0}/empty.hlo", "parse {0}/broken.hlo", "parse {0}/odd.hlo --strict"),
    *("parse {0}/odd.hlo --verbose", "parse {0}/*.txt", "parse {0}/nothing/", "parse {0}/no-text.pb", "{0}/odd.hlo"),
    *("parse {0}/odd.hlo -o {0}/nothing/out.txt", "parse {0}/odd.hlo --columns nonsense,{0}"),
    *("parse {0}/empty.hlo {0}/broken.hlo {0}/odd.hlo --each", "parse {0}/dump --stage nonsense"),
    *("parse {0}/dump --module {0}", "layout {0}/broken.hlo", "layout {0}/nothing:p", "layout {0}/odd.hlo:nothing"),
    *("tile-index {0}/odd.hlo:nothing 0", "tile-index f32[2] 0 --format {0}", "memspace {0}/odd.hlo --value {0}"),
    *("memspace {0}/odd.hlo --verbose", "schedule {0}/odd.hlo --verbose", "fuse {0}/odd.hlo --verbose"),
    *("fuse {0}/odd.hlo --unfuse {0}", "diff {0}/odd.hlo {0}/broken.hlo", "diff {0}/odd.hlo {0}/nothing.hlo"),
    *("diff {0}/dump {0}/nothing", "lint {0}/odd.hlo --config {0}/hlo.toml", "lint {0}/odd.hlo --baseline {0}/known.json"),
    *("lint {0}/odd.hlo --expect {0}/expect.toml", "lint {0}/odd.hlo --expect {0}/nothing.toml"),
    *("lint {0}/broken.hlo {0}/nothing.hlo --format concise", "lint {0}/empty.hlo --format json", "help {0}"),
    *("layout {0} {0} {0}", "parse {0}/odd.hlo --where 'opcode == cpoy'", "schedule {0}/nothing --top much"),
)  # fmt: skip


def _folder(length: int) -> Path:
    """A folder whose path is so long, with files that are wrong in some way, and a dump."""
    folder = Path("d" * 9 + "/" + "e" * (length - 10) if length > 10 else "f" * length)
    assert len(str(folder)) == length
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    shutil.copytree(FIXTURES / "cpu" / "feeds", folder / "dump", ignore=shutil.ignore_patterns("passes"))
    return folder


def _errors(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code and the lines on standard error, with the folder's name taken out."""
    code = main(shlex.split(line.format(folder)), standalone=False)
    return code, [each.replace(str(folder), "FOLDER") for each in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_messages_are_the_same_however_long_the_path(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.chdir(tmp_path)
    told = [_errors(line, _folder(length), capsys) for length in LENGTHS]
    assert told[0][0] in (0, 1, 2)
    assert [each for each in told if each != told[0]] == []


def test_all_words_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "two  blanks"
    folder.mkdir()
    assert main(["parse", str(folder / "nothing.hlo")], standalone=False) == 2
    assert f"{folder}/nothing.hlo" in capsys.readouterr().err


def _on_a_terminal(arguments: Sequence[str], columns: int) -> str:
    """What `hlo` writes to standard error where that is a terminal."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "PYTHONPATH": str(FIXTURES.parent)}
    subprocess.run(
        [sys.executable, "-m", "hlo_cli", *arguments],
        stdout=subprocess.DEVNULL, stderr=theirs, env=environment, check=False,
    )  # fmt: skip
    os.close(theirs)
    with open(ours, "rb") as terminal:
        written = b""
        try:
            while piece := terminal.read1():
                written += piece
        except OSError:  # how a terminal ends on Linux
            pass
    return written.decode()


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudoterminals")
def test_a_terminal_gets_lines_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["diff", str(FIXTURES / "tpu" / "v2_mlp"), str(FIXTURES / "cpu" / "feeds"), "--stage", "nonsense"]
    lines = _on_a_terminal(arguments, 50).splitlines()
    assert main(arguments, standalone=False) == 2
    whole = capsys.readouterr().err
    assert len(lines) > len(whole.splitlines())
    assert all(len(line) <= 50 or " " not in line.strip() for line in lines)
    assert " ".join(lines).split() == whole.split()
