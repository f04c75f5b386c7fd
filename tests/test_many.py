"""Any number of inputs means the same in every command: a row each, each held to what the command checks."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hlo_cli.cli import main
from strategies import FIXTURES

_PADDING = "\n".join(f"  x{n} = f32[2]{{0}} negate({'p' if n == 0 else f'x{n - 1}'})" for n in range(40))
FINE = f"HloModule jit_fine, is_scheduled=true\n\nENTRY e {{\n  p = f32[2]{{0}} parameter(0)\n{_PADDING}\n  ROOT r = f32[2]{{0}} sine(x39)\n}}\n"
"""A module whose text is the largest, and with which nothing is wrong."""
WRONG = {
    "memspace": "HloModule jit_wrong, is_scheduled=true\n\nENTRY e {\n  ROOT p = f32[40,1000000000]{1,0} parameter(0)\n}\n",
    "schedule": """HloModule jit_wrong, is_scheduled=true

ENTRY e {
  a = f32[4]{0} parameter(0)
  lost = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(a)
  ROOT b = f32[4]{0} negate(a)
}
""",
    "fuse": """HloModule jit_wrong, is_scheduled=true

f {
  given = f32[8]{0} parameter(0)
  ROOT negative = f32[8]{0} negate(given)
}

ENTRY e {
  a = f32[4]{0} parameter(0)
  ROOT b = f32[8]{0} fusion(a), kind=kLoop, calls=f
}
""",
    "lint": "HloModule jit_wrong, is_scheduled=true\n\nENTRY e {\n  p = f32[2]{0} parameter(0)\n  ROOT r = f32[3]{0} negate(p)\n}\n",
}
CHECKS = {
    "memspace --limit 1MiB": "memspace",
    "memspace --chip v5e": "memspace",
    "memspace --chip h100 --jobs 2": "memspace",
    "schedule": "schedule",
    "schedule --chip v5e": "schedule",
    "schedule --each --jobs 2": "schedule",
    "fuse": "fuse",
    "fuse --chip v5e --each": "fuse",
    "lint": "lint",
    "lint --each --jobs 2": "lint",
}
ROWS = (
    "parse",
    "layout",
    "memspace",
    "memspace --limit 1GiB",
    "schedule",
    "schedule --chip h100",
    "fuse",
    "fuse --chip v5e",
)
ABOUT_ONE = (
    *("parse --tree", "parse --explain p", "parse --format hlo", "parse --where unused", "layout --by opcode"),
    *("layout --where padding", "memspace --value p", "memspace --at p", "memspace --traffic", "memspace --compare"),
    *("memspace --by source", "memspace --space all", "schedule --sequence"),
    *("schedule --critical-path bytes", "schedule --reorder memory", "schedule --desugar", "schedule --where unoverlapped"),
    *("fuse --cost", "fuse --dots", "fuse --custom-calls", "fuse --why-not", "fuse --run-pass", "fuse --computation e"),
)  # fmt: skip

Run = Callable[..., "tuple[int, dict[str, Any], str]"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def ask(command: str, *inputs: object) -> tuple[int, dict[str, Any], str]:
        name, *options = command.split()
        code = main([name, *map(str, inputs), *options, "--format", "json"], standalone=False)
        captured = capsys.readouterr()
        return code, json.loads(captured.out), captured.err

    return ask


def _spread(folder: Path, wrong: str, how: str) -> list[Path]:
    """The fine module and a wrong one in a directory of dumps or of loose files, as files, a glob or one file."""
    texts = {"jit_fine": FINE, "jit_wrong": wrong}
    assert len(wrong) < len(FINE)
    if how == "one file":
        (folder / "both.txt").write_text("\n".join(texts.values()))
        return [folder / "both.txt"]
    for number, (name, text) in enumerate(texts.items()):
        loose = how in ("loose files", "glob", "files")
        stem = name if loose else f"module_{number:04}.{name}.cpu_after_optimizations"
        place = folder / f"run{number}" if how == "folders" else folder
        place.mkdir(exist_ok=True)
        (place / f"{stem}.{'hlo' if loose else 'txt'}").write_text(text)
    if how == "files":
        return sorted(folder.glob("*.hlo"))
    return [folder / "*.hlo" if how == "glob" else folder]


@pytest.mark.parametrize(
    ("command", "how"),
    [  # each command with two ways, and each way with three commands or more
        pytest.param(command, how, marks=pytest.mark.slow if (number + at) % 3 else ())
        for number, command in enumerate(CHECKS)
        for at, how in enumerate(("dumps", "loose files", "folders", "files", "glob", "one file"))
    ],
)
def test_a_small_module_that_fails_is_never_passed_over(command: str, how: str, tmp_path: Path, run: Run) -> None:
    inputs = _spread(tmp_path, WRONG[CHECKS[command]], how)
    code, report, _ = run(command, *inputs)
    assert code == 1
    if command != "lint":
        assert {row["module"] for row in report["tables"]["modules"]["rows"]} == {"jit_fine", "jit_wrong"}
    code, report, _ = run(command, *inputs, "--module", "jit_fine")
    assert code == 0
    code, report, _ = run(command.replace(" --jobs 2", "").replace(" --each", ""), *inputs, "--module", "jit_wrong")
    assert code == 1
    assert report["input"].get("module", "jit_wrong") == "jit_wrong"


@pytest.mark.parametrize("command", ROWS)
@pytest.mark.parametrize("count", [3])
def test_every_input_has_a_row(command: str, count: int, tmp_path: Path, run: Run) -> None:
    paths = [tmp_path / f"m{number}.hlo" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_text(FINE.replace("jit_fine", f"jit_{number}"))
    for inputs in ([tmp_path], paths, [tmp_path / "*.hlo"]):
        code, report, errors = run(command, *inputs)
        assert (code, errors) == (0, "")
        rows = report["tables"]["modules"]["rows"]
        assert sorted(row["path"] for row in rows) == list(map(str, paths))
        assert report["answer"]["modules"] == count
        if inputs is paths:  # the processes get files, however they were named
            assert run(f"{command} --each --jobs 2", *inputs)[1] == report


def test_times_on_a_chip_are_those_of_all_kernels(tmp_path: Path, run: Run) -> None:
    (tmp_path / "m.hlo").write_text(FINE)
    (tmp_path / "n.hlo").write_text(WRONG["fuse"].replace("f32[4]", "f32[8]"))
    rows = run("fuse --chip v5e", tmp_path)[1]["tables"]["modules"]["rows"]
    for row in rows:
        tables = run("fuse --chip v5e", row["path"])[1]["tables"]
        costs = run("fuse --chip v5e --cost", row["path"])[1]["tables"]["costs"]["rows"]
        for name in ("estimated_seconds", "minimum_seconds"):
            whole = sum(cost[name] or 0 for cost in costs)  # none for what launches no kernel
            assert whole > 0
            assert sum(kernel[name] for kernel in tables["kernels"]["rows"]) == pytest.approx(whole)
            assert sum(kind[name] for kind in tables["kernel_kinds"]["rows"]) == pytest.approx(whole)
        assert row["estimated_seconds"] == pytest.approx(sum(cost["estimated_seconds"] or 0 for cost in costs))


@pytest.mark.parametrize("command", [*ROWS, "lint"])
def test_each_gives_a_row_for_one_module_too(command: str, tmp_path: Path, run: Run) -> None:
    (tmp_path / "m.hlo").write_text(FINE)
    _, report, _ = run(f"{command} --each", tmp_path / "m.hlo")
    assert [row["module"] for row in report["tables"]["modules"]["rows"]] == ["jit_fine"]


@pytest.mark.parametrize("command", [*ROWS, "lint --each"])
def test_what_cannot_be_read_has_a_row_and_fails(command: str, tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.hlo").write_text(FINE)
    (tmp_path / "b.hlo").write_bytes(b"\x7fELF\0\0\0")
    code, report, errors = run(command, tmp_path / "a.hlo", tmp_path / "b.hlo", tmp_path / "no.hlo")
    assert code == 2
    rows = {Path(row["path"]).name: row for row in report["tables"]["modules"]["rows"]}
    assert set(rows) == {"a.hlo", "b.hlo", "no.hlo"}
    assert rows["a.hlo"]["problem"] is None
    assert "is an object file" in rows["b.hlo"]["problem"]
    assert "not found" in rows["no.hlo"]["problem"]
    assert "b.hlo" in errors
    assert errors.count("no.hlo") == 1, "an error names its file once"
    assert {type(cell) for name, cell in rows["b.hlo"].items() if name not in ("path", "problem")} <= {type(None), str}


@pytest.mark.parametrize("command", ["memspace", "schedule", "fuse"])
def test_a_module_that_is_cut_short_is_a_problem_of_its_row(command: str, tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.hlo").write_text(FINE)
    (tmp_path / "b.hlo").write_text(FINE[: len(FINE) // 2])
    code, report, _ = run(command, tmp_path)
    assert code == 2
    problems = [row["problem"] for row in report["tables"]["modules"]["rows"]]
    assert sum("entry computation is incomplete" in (problem or "") for problem in problems) == 1


@pytest.mark.parametrize("command", ABOUT_ONE)
def test_a_question_about_one_module_of_several_is_an_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("jit_a", "jit_b"):
        (tmp_path / f"{name}.hlo").write_text(FINE.replace("jit_fine", name))
    option = command.split()[1]
    more = (
        FINE.replace("jit_fine", "jit_b").replace("ROOT r =", "r =").replace("}\n", "  ROOT s = f32[2]{0} sine(r)\n}\n")
    )
    (tmp_path / "jit_b.hlo").write_text(more)
    assert main([*command.split(), str(tmp_path / "jit_a.hlo"), str(tmp_path / "jit_b.hlo")], standalone=False) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert option in told
    assert "requires a single module, but these 2 inputs contain 2 modules" in told
    assert "use --module jit_b to select the one that costs most" in told


@pytest.mark.parametrize("command", ABOUT_ONE)
def test_a_question_about_one_module_of_a_dump_takes_the_main_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jit_a.hlo").write_text(FINE.replace("jit_fine", "jit_a"))
    (tmp_path / "jit_b.hlo").write_text(
        FINE.replace("jit_fine", "jit_b").replace("ROOT r =", "r =").replace("}\n", "  ROOT s = f32[2]{0} sine(r)\n}\n")
    )
    # what cannot be answered for this module is an error about it, not about their number
    main([*command.split(), str(tmp_path)], standalone=False)
    told = " ".join("".join(capsys.readouterr()).split())
    assert "requires a single module" not in told
    if "error:" not in told:
        assert "using jit_b, which costs most" in told or "jit_b" in told


def test_a_name_in_a_dump_is_one_of_the_main_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _spread(tmp_path, WRONG["memspace"], "dumps")
    for command in (["layout", f"{tmp_path}:p", "--draw"], ["tile-index", f"{tmp_path}:p", "1"]):
        assert main(command, standalone=False) == 0
        capsys.readouterr()
    assert main(["tile-index", f"{tmp_path}:p", "1", "--module", "jit_fine"], standalone=False) == 0


def test_an_answer_about_the_module_that_was_named_does_not_repeat_its_name(tmp_path: Path, run: Run) -> None:
    _spread(tmp_path, WRONG["memspace"], "dumps")
    _, report, _ = run("memspace --module jit_fine", tmp_path)
    assert report["input"]["module"] == "jit_fine"
    assert not any("jit_fine" in note["message"] for note in report["notes"])


def test_a_directory_with_stages_of_one_module_is_one_module(run: Run) -> None:
    for command in ("parse", "layout", "memspace", "schedule", "fuse"):
        _, report, _ = run(command, FIXTURES / "tpu" / "v5e_conv")
        assert report["input"]["module"] == "jit_classify"
        assert "modules" not in report["tables"]


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def put(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return put


def test_several_modules_on_standard_input(stdin: Callable[[str], None], run: Run) -> None:
    stdin(f"{FINE}\n{WRONG['memspace']}")
    code, report, _ = run("memspace --limit 1MiB", "-")
    assert (code, report["answer"]["modules"], report["answer"]["failing"]) == (1, 2, 1)
    stdin(FINE)
    code, report, _ = run("memspace --limit 1MiB", "-")
    assert (code, report["answer"]["fits"]) == (0, True)


@pytest.mark.parametrize("how", ["dumps", "loose files", "folders", "one file"])
def test_a_difference_in_the_small_module_counts(how: str, tmp_path: Path, run: Run) -> None:
    small = WRONG["lint"].replace("f32[3]", "f32[2]")
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, text in ((old, small), (new, small.replace("negate", "cosine"))):
        folder.mkdir()
        _spread(folder, text, how)
    sides = [side / "both.txt" if how == "one file" else side for side in (old, new)]
    code, report, _ = run("diff --exit-code", *sides)
    assert code == 1
    assert report["answer"]["modules"] == 2
    assert [row["module"].rpartition("/")[2] for row in report["tables"]["modules"]["rows"]] == (
        ["jit_wrong.hlo"] if how == "loose files" else ["jit_wrong"]
    )
    code, report, _ = run("diff --exit-code", sides[0], sides[0])
    assert (code, report["answer"]["differing"]) == (0, 0)


def test_one_file_is_compared_with_its_namesake_among_many(tmp_path: Path, run: Run) -> None:
    _spread(tmp_path, WRONG["lint"], "dumps")
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "new.txt").write_text(WRONG["lint"].replace("negate", "cosine"))
    code, report, _ = run("diff --exit-code", tmp_path, alone / "new.txt")
    assert code == 1
    assert any("jit_wrong, one of 2 modules" in note["message"] for note in report["notes"])
    (alone / "new.txt").write_text(WRONG["lint"].replace("jit_wrong", "jit_other"))
    code, report, errors = run("diff --exit-code", tmp_path, alone / "new.txt")
    assert code == 2
    assert "module 'jit_other' not found in" in " ".join(errors.split())


def test_a_namesake_in_a_loose_file_is_found_by_what_the_file_holds(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for file, name in (("x", "jit_fine"), ("y", "jit_other"), ("z", "jit_other")):
        (many / f"{file}.hlo").write_text(FINE.replace("jit_fine", name))
    (many / "broken.hlo").write_bytes(b"\x7fELF")
    for name, code, words in (
        ("jit_fine", 0, "jit_fine, one of 4 modules"),
        ("jit_other", 2, "2 modules in"),
        ("jit_no", 2, "module 'jit_no' not found in"),
    ):
        (tmp_path / "one.hlo").write_text(FINE.replace("jit_fine", name))
        assert main(["diff", str(tmp_path / "one.hlo"), str(many)], standalone=False) == code
        assert words in capsys.readouterr().err


def test_each_compares_two_files_as_a_row(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.txt").write_text(FINE)
    (tmp_path / "b.txt").write_text(FINE.replace("sine", "cosine"))
    code, report, _ = run("diff --each --exit-code", tmp_path / "a.txt", tmp_path / "b.txt")
    assert code == 1
    assert [row["change"] for row in report["tables"]["modules"]["rows"]] == ["~"]


def test_modules_that_fail_come_first(tmp_path: Path, run: Run) -> None:
    for number in range(30):
        (tmp_path / f"m{number}.hlo").write_text(FINE)
    (tmp_path / "wrong.hlo").write_text(WRONG["fuse"])
    for command in ("fuse", "memspace --limit 1KiB"):
        rows = run(command, tmp_path)[1]["tables"]["modules"]["rows"]
        assert len(rows) == 31
    assert run("fuse", tmp_path)[1]["tables"]["modules"]["rows"][0]["module"] == "jit_wrong"


def test_a_space_that_no_module_has_is_an_error(tmp_path: Path, run: Run) -> None:
    _spread(tmp_path, WRONG["memspace"], "dumps")
    assert run("memspace --space VMEM", tmp_path)[0] == 2
    assert {row["space"] for row in run("memspace --space 0", tmp_path)[1]["tables"]["modules"]["rows"]} == {"RAM"}
    assert run("memspace --space 0 --limit 1GiB", tmp_path)[0] == 2


def test_passes_are_those_of_one_module(tmp_path: Path, run: Run) -> None:
    for number, name in enumerate(("jit_a", "jit_b")):
        for step in range(2 + number):
            path = tmp_path / f"module_{number:04}.{name}.{step:04}.pipeline.after_p{step}.before_p{step + 1}.txt"
            path.write_text(FINE.replace("jit_fine", name).replace("x39", f"x{38 + step % 2}"))
    code, report, errors = run("diff --passes", tmp_path)
    assert code == 2
    assert "use --module module_0001.jit_b for the module with the most dumps" in " ".join(errors.split())
    code, report, _ = run("diff --passes --module jit_a", tmp_path)
    assert (code, report["answer"]["passes"]) == (0, 1)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("memspace --limit 20KiB", ("fits", "needed_bytes", "limit_bytes", "steps")),
        ("schedule", ("steps", "pairs", "bytes", "synchronous_bytes", "unoverlapped", "unoverlapped_bytes")),
        ("fuse", ("kernels", "fusions", "saved_bytes", "flops")),
        ("parse", ("instructions", "computations", "argument_bytes")),
        ("layout", ("values", "padded_bytes", "saving_bytes")),
    ],
)
def test_a_row_has_the_numbers_and_the_code_of_the_answer_about_one(
    command: str, names: tuple[str, ...], run: Run
) -> None:
    code, report, _ = run(command, FIXTURES / "gpu")
    rows = report["tables"]["modules"]["rows"]
    codes = set()
    for row in rows:
        alone, answer, _ = run(command, row["path"])
        assert {name: row[name] for name in names} == {name: answer["answer"][name] for name in names}
        codes.add(alone)
    assert len(rows) == 8
    assert code == max(codes)
