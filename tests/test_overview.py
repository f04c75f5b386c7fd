"""The first screen of a dump: the right module, the answers, 24 lines of 80 columns, and no two rows alike."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from hlo_cli import cli, load
from hlo_cli.commands.modules.loading import load_main
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.render.width import cell_width
from hlo_cli.report.numbers import format_bytes, format_count, format_flops
from strategies import FIXTURES

TRAINING = FIXTURES / "programs" / "cpu" / "training"
MAIN = next(TRAINING.glob("module_0050.*"))
HELPERS = sorted(set(TRAINING.iterdir()) - {MAIN})[1::4]
LINES = 24
WIDTH = 80
Answer = tuple[int, str, str]
LISTS = ("parse --each", "memspace", "layout", "schedule", "fuse", "shard")


@pytest.fixture
def hlo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    monkeypatch.setenv("COLUMNS", str(WIDTH))

    def run(*words: str | Path) -> Answer:
        code = cli.main([*map(str, words)], standalone=False)
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def run_of_two(tmp_path: Path) -> Path:
    """The dumps of a training program with a few of its helpers, and two compilations of an evaluation."""
    for path in (MAIN, *HELPERS):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for number, size in ((62, 64), (70, 128)):
        place = 'metadata={op_name="jit(eval_step)/mul" source_file="train.py" source_line='
        text = f"""HloModule jit_eval_step, is_scheduled=true

ENTRY main {{
  x = f32[{size},64]{{1,0}} parameter(0), metadata={{op_name="batch['image']"}}
  y = f32[{size},64]{{1,0}} multiply(x, x), {place}7}}
  ROOT z = f32[{size},64]{{1,0}} add(y, x), {place}8}}
}}
"""
        name = f"module_{number:04d}.jit_eval_step.cpu_after_optimizations.txt.gz"
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    return tmp_path


def fits_a_screen(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) <= LINES and all(cell_width(line) <= WIDTH for line in lines if "hlo " not in line)


DUMPS = [
    TRAINING,
    *(
        FIXTURES / name
        for name in (
            "tpu/7x_transformer",
            "tpu/v5e_offload",
            "gpu/h100_mlp",
            "gpu/h100_transformer",
            "tpu/v6e_embedding",
        )
    ),
]


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name)
def test_it_is_one_screen(dump: Path, hlo: Callable[..., Answer]) -> None:
    code, out, notes = hlo(dump, "--format", "screen")
    assert code == 0
    assert fits_a_screen(out + notes), out + notes
    assert re.search(r"needs|fits|does not fit", out.splitlines()[0])
    assert 1 <= len(re.findall(r"^(?:next:|     ) hlo ", out, re.MULTILINE)) <= 2


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name)
def test_what_is_needed_is_not_what_is_live(dump: Path, hlo: Callable[..., Answer]) -> None:
    """Line 1 has what is allocated, as `hlo memspace` does; the peak of live bytes has its own name and line."""
    _, out, _ = hlo(dump, "--format", "screen")
    _, answer, _ = hlo(dump, "--json")
    _, listed, _ = hlo("memspace", dump, "--module", json.loads(answer)["answer"]["module"], "--json")
    main = json.loads(listed)["tables"]["spaces"]["rows"][0]
    assert json.loads(answer)["answer"]["needed_bytes"] == main["allocated_bytes"]
    needed = re.escape(format_bytes(main["allocated_bytes"]))
    assert re.search(rf"(?:needs |fits \w+ \(){needed} of (?:[\d.]+ GiB )?{main['space']}", " ".join(out.split()))
    assert f"live peak {format_bytes(main['peak_bytes'])} at" in " ".join(out.split())
    assert re.search(r"most (bytes|time)", out)


def test_the_main_module_of_a_program(hlo: Callable[..., Answer]) -> None:
    """Not the helpers, of which there are 25, nor what has the longest text of them."""
    code, out, _ = hlo(TRAINING, "--json")
    found = json.loads(out)
    assert (code, found["answer"]["module"], found["answer"]["modules"]) == (0, "jit_train_step", 26)
    rows = found["tables"]["modules"]["rows"]
    assert [row["module"] for row in rows if not row["is_helper"]] == ["jit_train_step"]
    assert rows[0]["id"] == "0050"
    lines = [row["source"] for row in found["tables"]["lines"]["rows"]]
    assert lines[0].startswith("training.py:")


@pytest.mark.parametrize("command", ["overview", "graph", "parse --tree --module 0050"])
def test_commands_about_one_module_take_the_same(command: str, hlo: Callable[..., Answer]) -> None:
    words = shlex.split(command)
    code, out, notes = hlo(words[0], TRAINING, *words[1:], "--json")
    assert code == 0
    assert json.loads(out)["input"]["module"] == "jit_train_step"
    assert words[0] != "graph" or "using jit_train_step, which costs most in" in notes


def test_run_takes_the_same() -> None:
    """`hlo run`, which takes as long as the program, reads with this function."""
    loaded = load_main([str(TRAINING)], InputOptions())
    assert loaded.module.name == "jit_train_step"
    assert [note for note in loaded.input.notes if "costs most" in note]


@pytest.fixture
def step_and_helper(tmp_path: Path) -> Path:
    """A small step of the user's, and a helper of JAX with a longer text, more memory, and no line of its own."""
    line = 'metadata={op_name="jit(step)/mul" source_file="train.py" source_line='
    step = f"""HloModule jit_step, is_scheduled=true

ENTRY main {{
  x = f32[64,64]{{1,0}} parameter(0)
  doubled = f32[64,64]{{1,0}} add(x, x), {line}7}}
  ROOT squared = f32[64,64]{{1,0}} multiply(doubled, doubled), {line}8}}
}}
"""
    sines = "\n".join(f"  s.{at + 1} = f32[90,90]{{1,0}} sine(s.{at})" for at in range(20))
    head = "HloModule jit__normal, is_scheduled=true\n\nENTRY main {\n  s.0 = f32[90,90]{1,0} parameter(0)\n"
    helper = f"{head}{sines}\n  ROOT r = f32[90,90]{{1,0}} cosine(s.20)\n}}\n"
    for name, text in (("module_0001.jit__normal", helper), ("module_0002.jit_step", step)):
        (tmp_path / f"{name}.cpu_after_optimizations.txt").write_text(text)
    return tmp_path


def test_load_takes_the_main_module(step_and_helper: Path) -> None:
    assert load(step_and_helper).name == "jit_step"
    assert load(step_and_helper, module="jit__normal").name == "jit__normal"


def test_names_of_the_main_module_are_completed(step_and_helper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    option = click.Option(["--value"])
    with click.Context(click.Command("memspace", params=[click.Argument(["inputs"], nargs=-1)])) as context:
        context.params["inputs"] = (str(step_and_helper),)
        assert [item.value for item in completion.instructions(context, option, "")] == ["x", "doubled", "squared"]
        monkeypatch.setattr(completion, "_MAXIMUM_PARSED", 100)
        assert "s.20" in [item.value for item in completion.instructions(context, option, "")]


def test_the_peak_of_the_main_module_comes_first(step_and_helper: Path, hlo: Callable[..., Answer]) -> None:
    _, out, _ = hlo("memspace", step_and_helper, "--each", "--format", "screen")
    assert out.startswith("2 modules: jit_step peaks at 32 KiB of RAM; highest peak is 63.3 KiB of RAM in\njit__normal")


@pytest.mark.parametrize("command", ["memspace", "schedule", "fuse", "shard", "parse", "layout"])
def test_a_program_among_helpers_gets_the_full_report(
    command: str, step_and_helper: Path, hlo: Callable[..., Answer]
) -> None:
    alone = hlo(command, step_and_helper, "--module", "jit_step", "--json")
    code, out, _ = hlo(command, step_and_helper, "--json")
    report = json.loads(out)
    assert (code, report["tables"]) == (alone[0], json.loads(alone[1])["tables"])
    note = f"using jit_step, one of 2 modules in {step_and_helper}; the other one is a helper (--each shows all)"
    assert note in [each["message"] for each in report["notes"]]
    assert "modules" in json.loads(hlo(command, step_and_helper, "--each", "--json")[1])["tables"]
    (step_and_helper / "module_0003.jit_eval.cpu_after_optimizations.txt").write_text(
        (step_and_helper / "module_0002.jit_step.cpu_after_optimizations.txt")
        .read_text()
        .replace("jit_step", "jit_eval")
    )
    assert "modules" in json.loads(hlo(command, step_and_helper, "--json")[1])["tables"]


def test_a_limit_checks_helpers_too(step_and_helper: Path, hlo: Callable[..., Answer]) -> None:
    assert hlo("memspace", step_and_helper, "--limit", "40KiB")[0] == 1
    assert hlo("memspace", step_and_helper, "--limit", "80KiB")[0] == 0


@pytest.mark.parametrize("command", LISTS)
def test_lists_have_one_order_and_no_two_rows_alike(command: str, run_of_two: Path, hlo: Callable[..., Answer]) -> None:
    name, *options = command.split()
    code, out, _ = hlo(name, run_of_two, *options, "--json")
    rows = json.loads(out)["tables"]["modules"]["rows"]
    assert code == 0
    assert [row["id"] for row in rows[:3]] == ["0050", "0070", "0062"]
    assert [row["is_helper"] for row in rows] == [False] * 3 + [True] * len(HELPERS)
    _, out, _ = hlo(name, run_of_two, *options, "--format", "screen")
    listed = [line for line in out.splitlines() if line.startswith("jit_")]
    assert len(listed) == 3
    assert len({line.strip() for line in listed}) == 3
    assert re.search(rf"^{len(HELPERS)} helper modules", out, re.MULTILINE)
    _, out, _ = hlo(name, run_of_two, *options, "--format", "screen", "--top", "0")
    listed = [line for line in out.splitlines() if line.startswith("jit_")]
    assert len(listed) == len(set(listed)) == 3 + len(HELPERS)


def test_a_module_is_selected_by_number_and_by_name(run_of_two: Path, hlo: Callable[..., Answer]) -> None:
    _, out, _ = hlo("parse", run_of_two, "--module", "0062", "--json")
    assert json.loads(out)["answer"]["argument_bytes"] == 64 * 64 * 4
    _, out, _ = hlo("overview", run_of_two, "--module", "jit_eval_step", "--format", "screen")
    assert out.startswith("jit_eval_step on CPU (0070): ")
    assert "--module 0070" in out


def test_others_are_named(run_of_two: Path, hlo: Callable[..., Answer]) -> None:
    _, out, _ = hlo("overview", run_of_two, "--format", "screen")
    assert "others     jit_eval_step (0070), jit_eval_step (0062)" in out
    assert f"{len(HELPERS)} modules of JAX's own functions" in out


def test_what_cannot_be_read_is_an_error(run_of_two: Path, hlo: Callable[..., Answer]) -> None:
    (run_of_two / "module_0080.jit_g.cpu_after_optimizations.txt.gz").write_bytes(b"\x1f\x8b broken")
    code, out, errors = hlo("overview", run_of_two, "--format", "screen")
    assert (code, out.split(" ")[0]) == (2, "jit_train_step")
    assert "module_0080" in errors


def test_it_fits_or_not(hlo: Callable[..., Answer]) -> None:
    dump = FIXTURES / "tpu" / "v5e_conv"
    _, out, _ = hlo("overview", dump, "--chip", "v5e", "--json")
    found = json.loads(out)["answer"]
    assert (found["fits"], found["chip"]) == (True, "v5e")
    assert found["execution_seconds"] > 0
    _, out, _ = hlo("overview", dump, "--format", "screen")
    assert "fits" not in out.splitlines()[0], "the dump names no chip"


def test_without_source_lines_the_largest_values_are_shown(tmp_path: Path, hlo: Callable[..., Answer]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m, is_scheduled=true\n\nENTRY e {\n  p = f32[8]{0} parameter(0)\n  ROOT n = f32[8]{0} negate(p)\n}\n"
    )
    _, out, _ = hlo(path, "--format", "screen")
    assert "largest values" in out
    (code, out, _) = hlo(path, "--json")
    assert (code, json.loads(out)["answer"]["module"]) == (0, "m")


def test_code_is_that_of_the_program_that_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hlo: Callable[..., Answer]
) -> None:
    """Of a file below the working directory, and of no other line once it is edited."""
    program = (FIXTURES / "training.py").read_text()

    def code_of(line: int) -> str | None:
        rows = json.loads(hlo(TRAINING, "--json")[1])["tables"]["lines"]["rows"]
        text: str | None = next(row["source_text"] for row in rows if row["source"] == f"training.py:{line}")
        return text

    monkeypatch.chdir(tmp_path)
    assert code_of(42) is None
    (tmp_path / "training.py").write_text(program)
    assert code_of(42) == program.split("\n")[41].strip()
    (tmp_path / "training.py").write_text("# a comment on top\n" * 30 + program)
    assert code_of(42) is None


@pytest.mark.parametrize("line", ["parse {} --explain", "parse {} --why", "memspace {} --value", "graph {} --around"])
def test_an_argument_has_its_name_in_the_program(line: str, run_of_two: Path, hlo: Callable[..., Answer]) -> None:
    words = shlex.split(line.format(shlex.quote(str(run_of_two))))
    code, out, errors = hlo(*words, "batch['image']", "--module", "0062", "--json")
    same = hlo(*words, "x", "--module", "0062", "--json")
    assert (code, errors) == (0, same[2])
    assert out == same[1]
    code, _, errors = hlo(*words, "batch['label']", "--module", "0062")
    assert (code, "not found" in errors) == (2, True)


@pytest.mark.parametrize("dump", ["tpu/v5e_conv", "tpu/7x_transformer", "gpu/h100_transformer"])
def test_kernels_are_those_that_fuse_lists(dump: str, hlo: Callable[..., Answer]) -> None:
    screen = hlo("overview", FIXTURES / dump, "--format", "screen")[1]
    listed = json.loads(hlo("fuse", FIXTURES / dump, "--by", "source", "--json")[1])["answer"]["kernels"]
    assert f"runs       {listed} kernels" in screen


@pytest.mark.parametrize("name", ["host", "HOST", "Worker-"])
def test_a_directory_of_hosts_is_answered_for_one_and_compared_next(
    name: str, step_and_helper: Path, tmp_path_factory: pytest.TempPathFactory, hlo: Callable[..., Answer]
) -> None:
    job = tmp_path_factory.mktemp("job")
    for number in range(4):
        shutil.copytree(step_and_helper, job / f"{name}{number}")
    report = json.loads(hlo("overview", job, "--json")[1])
    assert report["answer"]["modules"] == 2
    assert f"{job} has 4 hosts; showing {name}0" in [each["message"] for each in report["notes"]]
    assert f"hlo diff {job}" in hlo("overview", job, "--format", "screen")[1]
    assert hlo("diff", job, "--format", "screen")[1].startswith("Same program on 4 hosts")
    dump = job / f"{name}2" / "module_0002.jit_step.cpu_after_optimizations.txt"
    dump.write_text(dump.read_text().replace("add(x, x)", "multiply(x, x)"))
    told = " ".join(hlo("diff", job, "--format", "screen")[1].split())
    assert f"{name}2 computes other results than the other 3 hosts" in told


def test_an_archive_is_answered_as_its_directory(step_and_helper: Path, hlo: Callable[..., Answer]) -> None:
    """Sizes of members are unknown, and a helper may come first: one without a line that tells who wrote it."""
    text = "HloModule jit_stage\n\nENTRY main {\n  ROOT p = f32[2]{0} parameter(0)\n}\n"
    (step_and_helper / "module_0000.jit_stage.cpu_after_optimizations.txt").write_text(text)
    archive = shutil.make_archive(str(step_and_helper / "dump"), "zip", step_and_helper)
    assert "using jit_step, one of 3 modules" in hlo("memspace", archive, "--json")[1]


def test_assertions_on_helpers_are_last_and_folded(step_and_helper: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (step_and_helper.parent / "expect.toml").write_text('expect = ["none(dtype == f64)"]\n')
    asked = ["lint", str(step_and_helper), "--expect", str(step_and_helper.parent / "expect.toml"), "--select", "HLO9"]
    assert cli.main([*asked, "--json"], standalone=False) == 0
    rows = json.loads(capsys.readouterr().out)["tables"]["assertions"]["rows"]
    assert [(row["module"], row["is_helper"]) for row in rows] == [("jit_step", False), ("jit__normal", True)]


@pytest.mark.parametrize("name", ["tpu/v5e_offload", "tpu/v5p_scan", "gpu/h100_transformer", "cpu/softmax"])
def test_the_work_is_that_of_the_kernels(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Launches, flops, and bytes have one number here, in `hlo fuse`, and in its sums by kind and by line."""

    def answer(*words: str) -> Any:
        assert cli.main([*words, "--json", "-q"], standalone=False) in (0, 1)
        return json.loads(capsys.readouterr().out)

    path = str(FIXTURES / name)
    fuse, by_source = answer("fuse", path), answer("fuse", path, "--by", "source")
    kinds, lines = fuse["tables"]["kernel_kinds"]["rows"], by_source["tables"]["by_source"]["rows"]
    launches = fuse["answer"]["launches"]
    assert sum(row["launches"] or 0 for row in kinds) == sum(row["launches"] for row in lines) == launches
    for of_kind, of_line in (("flops", "total_flops"), ("bytes", "total_bytes")):
        assert sum(row[of_kind] or 0 for row in kinds) == by_source["answer"][of_line]
        assert sum(row[of_line] for row in lines) == by_source["answer"][of_line]
    work = by_source["answer"]
    assert answer(path)["facts"]["module"]["runs"]["note"] == (
        f"{format_count(launches, 'kernels')}, {format_flops(work['total_flops'])}, "
        f"{format_bytes(work['total_bytes'])} accessed"
    )
