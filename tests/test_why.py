"""`hlo parse --why`: the answer, the stack, the argument, the pass, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from dumps import FIXTURES
from hlo_cli.cli import main

SCAN = str(FIXTURES / "tpu/v5p_scan")
PASSES = FIXTURES / "cpu/softmax"
TEXT = """HloModule m, is_scheduled=true
FileNames
1 "/home/me/model.py"

FunctionNames
1 "block"
2 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=92 end_line=92 column=1 end_column=9}
2 {file_name_id=1 function_name_id=2 line=7 end_line=7 column=1 end_column=9}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

ENTRY e {
  w = f32[8,8]{1,0:T(8,128)} parameter(0), metadata={op_name="params['layers'][3]['w']"}
  s = (f32[8,8]{1,0:T(8,128)S(1)}, f32[8,8]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(w)
  d = f32[8,8]{1,0:T(8,128)S(1)} copy-done(s)
  ROOT n = f32[8,8]{1,0:T(8,128)} negate(d), metadata={op_name="jit(f)/layers_3/attention/neg" stack_frame_id=2}
}
"""


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """A dump with a prefetched argument."""
    path = tmp_path / "after_optimizations.txt"
    path.write_text(TEXT)
    return str(path)


def why(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """The answer to `--why` as JSON."""
    assert main(["parse", *arguments, "--format", "json"], standalone=False) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def screen(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that a person sees."""
    assert main(["parse", *arguments, "--format", "screen"], standalone=False) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("d", "d is a prefetch of params['layers'][3]['w'] (inferred), for model.py:92 in layers_3/attention"),
        ("s{1}", "s{1} is a prefetch of params['layers'][3]['w'] (inferred), for model.py:92 in layers_3/attention"),
        ("w", "w is argument 0, params['layers'][3]['w'], for model.py:92 in layers_3/attention (inferred)"),
        ("%n", "n is from model.py:92 in layers_3/attention"),
    ],
)
def test_line_1_is_the_answer(name: str, answer: str, dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = screen(capsys, dump, "--why", name)
    assert " ".join(lines[: lines.index("")]) == answer


def test_the_stack_is_told_call_by_call(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = why(capsys, dump, "--why", "d")
    rows = found["tables"]["stack"]["rows"]  # type: ignore[index]
    assert [(row["call"], row["source"], row["function"]) for row in rows] == [
        (0, "/home/me/model.py:92", "block"),
        (1, "/home/me/model.py:7", "main"),
    ]


def test_programs_get_every_fact(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = why(capsys, dump, "--why", "d")["answer"]
    assert isinstance(answer, dict)
    assert answer["argument"] == "params['layers'][3]['w']"
    assert (answer["argument_number"], answer["argument_parameter"]) == (0, "w")
    assert (answer["inferred_from"], answer["relation"], answer["is_inferred"]) == ("n", "used by", True)
    assert (answer["source"], answer["scope"]) == ("/home/me/model.py:92", "layers_3/attention")
    assert (answer["pass"], answer["original_value"]) == (None, None)


def test_what_has_no_origin_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.hlo"
    path.write_text("HloModule m  ENTRY e { ROOT k = f32[] constant(1) }")
    assert screen(capsys, str(path), "--why", "k")[0].startswith("The origin of k is unknown")


def test_the_next_command_explains_the_instruction(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    last = [line for line in screen(capsys, dump, "--why", "d") if line.startswith("next:")]
    assert last == [f"next: hlo parse {dump} --explain d"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--why", "nn"), "instruction 'nn' not found in m"),
        (("--why", "n{1}"), "n has no element {1}"),
        (("--why", "a b"), "invalid instruction name 'a b'"),
        (("--why", "add{,}"), "invalid instruction name 'add{,}'"),
        (("--why", "n", "--tree"), "--tree cannot be used with --why"),
        (("--why", "n", "--explain", "n"), "--explain cannot be used with --why"),
        (("--why", "n", "--where", "rank > 1"), "--where cannot be used with --why"),
    ],
)
def test_what_cannot_be_told_is_an_error(
    arguments: tuple[str, ...], message: str, dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parse", dump, *arguments], standalone=False) == 2
    assert message in capsys.readouterr().err


def test_the_pass_is_the_one_after_which_the_name_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Each fusion of the program stands in the dump after its pass, and in none before."""
    text = (PASSES / "after_optimizations.txt").read_text()
    names = re.findall(r"^  (?:ROOT )?%(\S+) = \S+ fusion\(", text, re.MULTILINE)
    assert names
    for name in names[:3]:
        answer = why(capsys, str(PASSES / "after_optimizations.txt"), "--why", name)["answer"]
        assert isinstance(answer, dict)
        number = answer["pass_number"]
        dumps = sorted((PASSES / "passes").iterdir())
        with_it = [f"%{name} = " in each.read_text() for each in dumps]
        assert isinstance(number, int)
        assert not any(with_it[:number])
        assert all(with_it[number:])


def test_dumps_of_passes_may_be_in_the_same_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for each in (*(PASSES / "passes").iterdir(), PASSES / "after_optimizations.txt"):
        shutil.copy(each, tmp_path)
    text = (PASSES / "after_optimizations.txt").read_text()
    name = re.findall(r"^  (?:ROOT )?%(\S+) = \S+ fusion\(", text, re.MULTILINE)[0]
    beside = why(capsys, str(tmp_path / "after_optimizations.txt"), "--why", name)["answer"]
    below = why(capsys, str(PASSES / "after_optimizations.txt"), "--why", name)["answer"]
    assert beside == below


def test_every_instruction_has_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    text = next(Path(SCAN).glob("*after_optimizations.txt*"))
    lines = screen(
        capsys, str(text), "--where", "opcode == copy or opcode == fusion", "--columns", "name", "--top", "6"
    )
    names = [line.split()[0] for line in lines if re.match(r"(copy|fusion)[\w.-]*$", line.strip())]
    for name in names:
        assert re.match(rf"(The origin of )?{re.escape(name)} is ", screen(capsys, str(text), "--why", name)[0])
