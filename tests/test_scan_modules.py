"""Many dumps at once: the same answers as one by one, in their order, whatever is wrong with some of them."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from hlo_cli import HloError, Module, load, scan
from hlo_cli.analysis.query.module_summary import SummaryValue, module_summary
from hlo_cli.cli import main
from hlo_cli.inputs.input import list_modules

FIXTURES = Path(__file__).parent.parent / "fixtures"
TPU = FIXTURES / "tpu"


def _count(numbers: Mapping[str, SummaryValue]) -> int:
    return int(numbers["instructions"] or 0)


def test_records_are_those_of_each_dump_alone() -> None:
    folders = sorted(folder for folder in FIXTURES.glob("[cgt]pu/*") if folder.is_dir())
    largest = [max(scan([folder]), key=lambda record: _count(record.numbers)) for folder in folders]
    assert [record.module for record in largest] == [load(folder).name for folder in folders]
    assert [record.numbers for record in largest] == [module_summary(load(folder)) for folder in folders]
    assert not any(record.problem for record in largest)


def test_several_processes_say_the_same_in_the_same_order() -> None:
    assert list(scan([TPU], jobs=3)) == list(scan([TPU]))


def test_a_directory_gives_the_newest_stage_of_all_in_it() -> None:
    found = {record.path: record.stage for record in scan([TPU])}
    assert set(found.values()) == {"after_optimizations"}
    assert {Path(path).parent for path in found} == {folder for folder in TPU.iterdir() if folder.is_dir()}
    earlier = [record.stage for record in scan([TPU], stage="before_opt")]
    assert set(earlier) == {"before_optimizations"}


def test_what_cannot_be_read_is_a_record(tmp_path: Path) -> None:
    whole = tmp_path / "a.txt"
    shutil.copy(TPU / "v2_mlp" / "after_optimizations.txt", whole)
    text = whole.read_text()
    (tmp_path / "b.txt").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "c.txt").write_text("")
    (tmp_path / "d.txt").write_text(text[: len(text) // 2])
    paths = [tmp_path / name for name in ("b.txt", "a.txt", "c.txt", "missing.txt", "d.txt")]
    records = list(scan(paths))
    problems = [record.problem for record in records]
    assert [bool(problem) for problem in problems] == [True, False, True, True, True]
    for problem, word in zip(problems, ("object file", "", "empty", "not found", "line"), strict=True):
        assert word in problem
    assert records[1].numbers == module_summary(load(whole))
    assert 0 < _count(records[4].numbers) < _count(records[1].numbers)


def test_other_files_in_a_directory_without_dumps_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    (tmp_path / "mine.hlo").write_text("HloModule mine\n\nENTRY e {\n  ROOT p = f32[2]{0} parameter(0)\n}\n")
    assert [record.module for record in scan([tmp_path])] == ["mine"]


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HloError, match="is empty"):
        list(scan([tmp_path]))
    with pytest.raises(HloError, match="no files match"):
        list(scan([tmp_path / "*.txt"]))
    with pytest.raises(HloError, match="stage 'nonsense' not found"):
        list(list_modules([str(TPU)], stage="nonsense"))


def _names(module: Module) -> Mapping[str, int]:
    return {computation.name: len(computation.instructions) for computation in module.computations}


def test_a_measure_of_ones_own() -> None:
    [record] = scan([TPU / "v2_mlp"], measure=_names, jobs=2)
    assert record.row() == {
        "path": str(TPU / "v2_mlp" / "after_optimizations.txt"),
        "module": "jit_step",
        "stage": "after_optimizations",
        **_names(load(TPU / "v2_mlp")),
        "problem": None,
    }


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_standard_input_is_read_whatever_the_processes(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = TPU / "v2_mlp" / "after_optimizations.txt", TPU / "v5p_scan" / "after_optimizations.txt"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(first.read_bytes())))
    records = list(scan([second, "-", second], jobs=jobs))
    assert [(record.module, record.problem) for record in records] == [
        (load(each).name, "") for each in (second, first, second)
    ]


@pytest.mark.parametrize("command", ["parse", "layout"])
def test_several_inputs_are_rows(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(TPU / name) for name in ("v2_mlp", "v5p_scan")]
    assert main([command, *folders, "--format", "json"], standalone=False) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["answer"]["modules"] == 2
    assert main([command, *folders, "--each", "--jobs", "2", "--format", "json"], standalone=False) == 0
    assert json.loads(capsys.readouterr().out) == report


def test_a_bad_file_among_good_ones_is_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.hlo").write_text("HloModule bad\n\nENTRY e {\n  ROOT p = f32[2 parameter(0)\n}\n")
    paths = [str(tmp_path / "bad.hlo"), str(TPU / "v2_mlp")]
    assert main(["parse", *paths], standalone=False) == 2
    captured = capsys.readouterr()
    assert "jit_step" in captured.out
    assert "bad.hlo: line 4, column 18" in " ".join(captured.err.split())
    assert main(["parse", *paths, "--each", "--tree"], standalone=False) == 2
    assert "--tree cannot be used with --each" in capsys.readouterr().err
