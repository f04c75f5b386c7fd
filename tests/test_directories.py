"""Directories of directories: one with dumps stands for these, any other for the dumps of all its subdirectories."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hlo_cli import HloError, load, scan
from hlo_cli.cli import main
from hlo_cli.inputs import dumps
from hlo_cli.inputs.input import list_modules, read_inputs, select_module
from timing import soon

Capture = pytest.CaptureFixture[str]
MODULE = (
    "HloModule {name}\n\nENTRY e {{\n  p = f32[{size}]{{0}} parameter(0)\n  ROOT n = f32[{size}]{{0}} {opcode}(p)\n}}\n"
)
AFTER, BEFORE = "after_optimizations.txt", "before_optimizations.txt"


def write(folder: Path, *names: str, opcode: str = "negate", size: int = 2) -> Path:
    """Creates dumps of modules that have the name of their directory."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(MODULE.format(name=folder.name, opcode=opcode, size=size))
    return folder


def paths_in(folder: Path, **options: Any) -> list[str]:
    return [os.path.relpath(piece.path, folder) for piece in list_modules([str(folder)], **options)]


def report(capsys: Capture, *arguments: object, code: int = 0) -> Any:
    assert main([*map(str, arguments), "--format", "json"], standalone=False) == code
    return json.loads(capsys.readouterr().out)


def messages(notes: Sequence[Any]) -> list[str]:
    return [note["message"] for note in notes]


def test_each_subdirectory_is_a_directory_of_dumps(tmp_path: Path) -> None:
    for name in ("run10", "run9", "deep/er/run1"):
        write(tmp_path / name, BEFORE, AFTER)
    assert paths_in(tmp_path) == [f"{name}/{AFTER}" for name in ("deep/er/run1", "run9", "run10")]
    assert paths_in(tmp_path, stage="before") == [f"{name}/{BEFORE}" for name in ("deep/er/run1", "run9", "run10")]
    assert [record.module for record in scan([tmp_path])] == ["run1", "run9", "run10"]
    assert [record.module for record in scan([tmp_path / "run*"])] == ["run10", "run9"]
    assert [each.module for each in read_inputs([str(tmp_path)])] == ["run1", "run9", "run10"]


def test_the_library_loads_the_largest_module_of_all_subdirectories(tmp_path: Path) -> None:
    write(tmp_path / "small", AFTER)
    write(tmp_path / "large", AFTER, size=4096)
    assert load(tmp_path).name == "large"
    note = select_module(read_inputs([str(tmp_path)])).module_choice
    assert note == f"using large, the largest of 2 modules in {tmp_path}/; use --module to select another"
    assert load(tmp_path, module="small").name == "small"


def test_dumps_of_its_own_come_first_and_a_note_counts_the_others(tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path, "module_0001.a.after_optimizations.txt", "module_0002.b.after_optimizations.txt")
    write(tmp_path / "passes" / "inner", AFTER)
    write(tmp_path / "passes" / "notes", "notes.md")
    assert len(paths_in(tmp_path)) == 2
    one = f"skipped 1 subdirectory of {tmp_path}/ that also has dumps; pass it to include it"
    assert messages(report(capsys, "parse", tmp_path)["notes"]) == [one]
    write(tmp_path / "passes", AFTER)
    many = f"skipped 2 subdirectories of {tmp_path}/ that also have dumps; pass them to include them"
    for command in ("parse", "layout", "memspace", "schedule", "fuse", "lint"):
        assert many in messages(report(capsys, command, tmp_path)["notes"])
        assert many in messages(report(capsys, command, tmp_path, "--each")["notes"])
        assert many in messages(report(capsys, command, tmp_path, "--module", "module_0001.a")["notes"])
    new = write(tmp_path.parent / "new", "module_0001.a.after_optimizations.txt")
    assert messages(report(capsys, "diff", tmp_path, new)["notes"]) == [many]
    assert load(tmp_path, module="module_0002").name == tmp_path.name


def test_a_subdirectory_with_dumps_of_its_own_has_such_a_note(tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path / "a", AFTER)
    write(tmp_path / "b", AFTER)
    write(tmp_path / "b" / "c", AFTER)
    told = report(capsys, "parse", tmp_path)
    assert told["answer"]["modules"] == 2
    assert messages(told["notes"]) == [
        f"skipped 1 subdirectory of {tmp_path}/b/ that also has dumps; pass it to include it"
    ]


def test_hidden_directories_and_links_are_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b", AFTER)
    write(tmp_path / ".git" / "c", AFTER)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to("self")
    (tmp_path / "again").symlink_to(tmp_path / "a")
    assert paths_in(tmp_path) == [f"a/b/{AFTER}"]
    assert paths_in(tmp_path / "again") == [f"b/{AFTER}"]
    assert paths_in(tmp_path / ".git") == [f"c/{AFTER}"]
    (tmp_path / "a" / "b" / BEFORE).symlink_to(tmp_path / "a" / "b" / AFTER)
    assert paths_in(tmp_path, stage="before") == [f"a/b/{BEFORE}"]


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that cannot be listed, next to one with a dump."""
    write(tmp_path / "open", AFTER)
    locked, scandir = write(tmp_path / "locked", AFTER), os.scandir

    def refuse(path: Any) -> Any:
        if os.fspath(path) == str(locked):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    return locked


def test_an_unreadable_subdirectory_is_a_row_with_its_problem(locked: Path, capsys: Capture) -> None:
    problem = f"cannot read {locked}: permission denied"
    records = list(scan([locked.parent]))
    assert [(record.module, record.problem) for record in records] == [(None, problem), ("open", "")]
    for command in ("parse", "lint"):
        assert main([command, str(locked.parent), "--each"], standalone=False) == 2
        assert problem in " ".join(capsys.readouterr().err.split())
    for path in (locked, locked.parent):
        with pytest.raises(HloError, match=problem):
            load(path)


def test_trees_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write(tmp_path / "wide" / str(number), AFTER)
    write(tmp_path / "high" / "1" / "2" / "3", AFTER)
    monkeypatch.setattr(dumps, "MAX_DIRECTORIES", 4)
    monkeypatch.setattr(dumps, "MAX_DEPTH", 2)
    for name, message in (
        ("wide", "contains too many directories (limit 4)"),
        ("high", "is nested too deeply (limit 2 directories)"),
    ):
        with pytest.raises(HloError) as caught:
            paths_in(tmp_path / name)
        assert caught.value.diagnostic.message == f"{tmp_path / name} {message}"
        assert caught.value.diagnostic.hint == "pass one of its subdirectories"


def test_what_no_subdirectory_has_is_an_error(tmp_path: Path) -> None:
    for module in ("jit_f", "jit_g"):
        write(tmp_path / module, f"module_0001.{module}.before_optimizations.txt")
    for options, message, hint in (
        ({"stage": "final"}, "stage 'final'", "available: before_optimizations"),
        ({"module": "other"}, "module 'other'", "available: jit_f, jit_g"),
        ({"module": "other", "stage": "before"}, "module 'other'", "available: jit_f, jit_g"),
        ({"module": "jit_f", "stage": "final"}, "stage 'final'", "available: before_optimizations"),
    ):
        for read in (
            lambda **given: list(list_modules([str(tmp_path)], **given)),
            lambda **given: load(tmp_path, **given),
        ):
            with pytest.raises(HloError) as caught:
                read(**options)
            assert caught.value.diagnostic.message.startswith(f"{message} not found in {tmp_path}")
            assert caught.value.diagnostic.hint == hint


def test_two_trees_are_compared_by_relative_path(tmp_path: Path, capsys: Capture) -> None:
    for side, opcode in (("old", "negate"), ("new", "cosine")):
        write(tmp_path / side / "x" / "run", AFTER)
        write(tmp_path / side / "y" / "run", AFTER, opcode=opcode)
        write(tmp_path / side / side, AFTER)
    told = report(capsys, "diff", tmp_path / "old", tmp_path / "new", "--exit-code", code=1)
    rows = [(row["change"], row["module"]) for row in told["tables"]["modules"]["rows"]]
    assert rows == [("~", "y/run/"), ("+", "new/"), ("-", "old/")]


@pytest.mark.parametrize("folders", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_thousands_of_files_are_listed_in_time(folders: int, tmp_path: Path) -> None:
    for number in range(folders):
        names = [f"module_{module:04}.jit_f.after_optimizations.txt" for module in range(100)]
        write(tmp_path / f"run{number}")
        for name in names:
            (tmp_path / f"run{number}" / name).touch()
    with soon(folders / 20):
        assert len(paths_in(tmp_path)) == 100 * folders
