"""What every command prints, held against the outputs kept in `fixtures/golden/`; `make golden` writes those anew."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import golden
import in_process
from hlo_cli.cli import COMMANDS
from traces_of_xprof import makers


def subject_of(case: Path) -> str:
    """The dump that a case asks about: such cases follow each other, and read it once."""
    with case.open(encoding="utf-8") as lines:
        words = next(lines).split()
    return next((word for word in words if (golden.FIXTURES / word.partition(":")[0]).exists()), "")


CASES: list[Path] = sorted(golden.cases(), key=subject_of)


@pytest.mark.usefixtures("modules_kept")
@pytest.mark.parametrize("case", CASES, ids=golden.name_of)
def test_prints_what_it_printed(case: Path) -> None:
    assert golden.answered(case) == case.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("tpu", "cpu_loops, TPU, steps"),
        ("tpu_sparse_core", "cpu_loops, TPU, sparse core"),
        ("gpu", "cpu_loops, GPU, copies on a stream of their own"),
        ("gpu_streams", "cpu_loops, GPU, overlapping streams"),
    ],
)
def test_traces_of_accelerators_are_those_that_xprof_was_asked_about(name: str, made: str) -> None:
    kept = golden.GOLDEN / "profile" / f"{name}.xplane.pb.gz"
    assert gzip.decompress(kept.read_bytes()) == makers()[made]()


def test_a_text_of_a_module_of_tests_is_a_file_next_to_the_dumps(tmp_path: Path) -> None:
    case = tmp_path / "case.txt"
    case.write_text("$ hlo parse wrong_instructions.TEXT cpu/softmax/ --format csv --columns module,path\n")
    assert [line.rpartition(",")[2] for line in golden.answered(case).splitlines()[2:4]] == [
        "cpu/softmax/after_optimizations.txt",
        "wrong_instructions.TEXT",
    ]


def test_every_case_lies_with_its_command() -> None:
    lines = {case: case.read_text(encoding="utf-8").partition("\n")[0] for case in golden.cases()}
    away = [case for case, line in lines.items() if case.parent.name not in line.split()]
    assert [case for case in away if case.parent.name in COMMANDS] == []


def test_a_case_shows_output_errors_and_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    case = tmp_path / "cli" / "unknown.txt"
    case.parent.mkdir()
    case.write_text("$ hlo layuot\n", encoding="utf-8")
    assert golden.main(["unknown"]) == 1
    assert golden.main(["--write"]) == 0
    assert case.read_text(encoding="utf-8") == (
        "$ hlo layuot\n[stderr]\nerror: 'layuot' is not a command, a file, or a directory\n  help: did you mean 'layout'?\n[exit 2]\n"
    )
    assert golden.main([]) == 0


def test_a_case_may_need_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    for line in ("hlo --version | cut -c1-3", "hlo help dump | head -1"):
        case = tmp_path / "piped.txt"
        case.write_text(f"$ {line}\n", encoding="utf-8")
        kept = golden.answered(case)
        assert kept.count("\n") == 2
        assert "[" not in kept
    assert not golden._needs_a_shell("hlo parse x --where 'a > 1 | b'")


def test_a_case_has_an_environment_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "33")
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    case = tmp_path / "case.txt"
    case.write_text("$ COLUMNS=120 hlo --version\n", encoding="utf-8")
    seen: list[tuple[str | None, str]] = []

    def note(words: list[str], standalone: bool) -> int:
        seen.append(_here())
        return 0

    monkeypatch.setattr(in_process, "main", note)
    golden.answered(case)
    assert seen == [("120", "fixtures")]
    assert _here()[0] == "33"


def _here() -> tuple[str | None, str]:
    import os

    return os.environ.get("COLUMNS"), Path.cwd().name
