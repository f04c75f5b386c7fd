"""`hlo run`: arguments from files, results to files, comparisons, probes, passes, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hlo_cli import cli

DATA = Path(__file__).parent / "data" / "evaluation"
FIXTURES = Path(__file__).parent.parent / "fixtures"
TEXT = (
    "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] parameter(1)\n  ROOT r = f32[2] OPCODE(a, b)\n}\n"
)


def dump(folder: Path, opcode: str = "add", name: str = "m.txt") -> str:
    path = folder / name
    path.write_text(TEXT.replace("OPCODE", opcode))
    return str(path)


def run(*arguments: str) -> int:
    return cli.main(["run", *arguments], standalone=False)


@pytest.mark.parametrize("form", ["named", "numbered", "files", "json"])
def test_arguments_come_from_files(form: str, tmp_path: Path) -> None:
    a, b = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    match form:
        case "named":
            np.savez(tmp_path / "x.npz", a=a, b=b)
            files = ["x.npz"]
        case "numbered":
            np.savez(tmp_path / "x.npz", a, b)
            files = ["x.npz"]
        case "files":
            np.save(tmp_path / "a.npy", a)
            np.save(tmp_path / "b.npy", b)
            files = ["a.npy", "b.npy"]
        case _:
            (tmp_path / "x.json").write_text(json.dumps({"b": [10, 20], "a": [1, 2]}))
            files = ["x.json"]
    given = [word for file in files for word in ("--args", str(tmp_path / file))]
    out = tmp_path / "out.npz"
    assert run(dump(tmp_path), *given, "-o", str(out), "-q") == 0
    with np.load(out) as found:
        assert found["result"].tolist() == [11.0, 22.0]


def test_values_on_the_way_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(dump(tmp_path), "--at", "r", "--format", "json", "-q") == 0
    answer = json.loads(capsys.readouterr().out)
    [row] = answer["tables"]["values"]["rows"]
    assert (row["value"], row["execution"]) == ("r", 0)
    assert answer["tables"]["results"]["rows"][0]["most"] == row["most"]


def test_other_programs_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = dump(tmp_path), dump(tmp_path, "multiply", "n.txt")
    assert run(one, "--against", one, "--format", "json", "-q") == 0
    assert json.loads(capsys.readouterr().out)["answer"]["verdict"] == "identical"
    assert run(one, "--against", two, "--format", "json", "-q") == 1
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert (answer["verdict"], answer["first_difference"]["instruction"]) == ("different", "r")


def test_the_note_on_arguments_is_about_those_that_were_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bound of 50 is reached by the numbers of a later set only, which are not from N(0, 1)."""
    one, two = tmp_path / "one.hlo", tmp_path / "two.hlo"
    head = "HloModule m\nENTRY e { p = f32[4] parameter(0)  "
    constant = "c = f32[] constant(50)  b = f32[4] broadcast(c), dimensions={}  "
    one.write_text(f"{head}{constant}ROOT r = f32[4] minimum(p, b) }}")
    two.write_text(f"{head}ROOT r = f32[4] copy(p) }}")
    assert run(str(one), "--against", str(two)) == 1
    notes = capsys.readouterr().err
    assert "results agree for the random arguments of seed 0; shown are those for set " in notes
    assert " of seed 1: large floats" in notes
    assert "N(0, 1)" not in notes
    assert run(str(one), "--against", str(one)) == 0
    assert "floats from N(0, 1), integers 0 to 3, and 7 more sets of other values" in capsys.readouterr().err


def test_the_first_difference_is_shown_with_its_line_and_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = dump(tmp_path), dump(tmp_path, "multiply", "n.txt")
    assert run(one, "--against", two, "--format", "screen") == 1
    printed = capsys.readouterr()
    assert "instruction  r = f32[2]{0} multiply(a, b)" in printed.out
    assert "counterpart  r = f32[2]{0} add(a, b)" in printed.out
    assert "the first module computes another value from the same operands" in " ".join(printed.out.split())
    assert [line.split()[:3] for line in printed.out.splitlines() if line.startswith(("first ", "second "))] == [
        [side, *role] for side in ("first", "second") for role in (["operand", "0"], ["operand", "1"], ["result", "r"])
    ]
    assert "5 │   ROOT r = f32[2] multiply(a, b)" in printed.err
    assert "  │                   ^^^^^^^^\n" in printed.err
    assert run(one, "--against", two, "--json", "-q") == 1
    printed = capsys.readouterr()
    assert not printed.err
    answer = json.loads(printed.out)
    first = answer["answer"]["first_difference"]
    assert (first["line"], first["evidence"], first["counterpart_opcode"]) == (5, "operands", "add")
    assert len(answer["tables"]["first_difference_values"]["rows"]) == 6


def test_a_stage_is_that_of_the_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (FIXTURES / "cpu/softmax/after_optimizations.txt").read_text()
    (tmp_path / "edited.txt").write_text(text)
    directory, file = str(FIXTURES / "cpu/softmax"), str(tmp_path / "edited.txt")
    for one, other in ((directory, file), (file, directory)):
        assert run(one, "--against", other, "--stage", "before_optimizations", "--format", "json", "-q") == 0
        assert json.loads(capsys.readouterr().out)["answer"]["verdict"] == "rounding"
    assert run(file, "--against", file, "--stage", "before_optimizations", "-q") == 2


def test_stages_of_one_dump_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    stages = "before_optimizations..after_optimizations"
    assert run(str(FIXTURES / "cpu/softmax"), "--stage", stages, "--format", "json", "-q") == 0
    assert json.loads(capsys.readouterr().out)["answer"]["verdict"] == "rounding"


def test_probe_exits_with_1_if_it_finds_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("[[0, 1], [0, 1]]")
    given = ["--args", str(tmp_path / "x.json"), "--probe", "nan", "--format", "json", "-q"]
    assert run(dump(tmp_path, "divide"), *given) == 1
    assert json.loads(capsys.readouterr().out)["answer"]["first"] == "r"
    assert run(dump(tmp_path), *given) == 0


@pytest.mark.parametrize(
    ("case", "code", "first"),
    [
        ("masked_nan", 0, "No result has NaN elements (2 intermediate values do)"),
        ("fusion_nan", 1, "s makes NaN elements"),
    ],
)
def test_probe_asks_what_reaches_a_result(case: str, code: int, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(DATA / f"{case}.hlo"), "--probe", "nan", "--format", "screen", "-q") == code
    screen = capsys.readouterr().out
    assert screen.startswith(first)
    assert ("contains s" in screen) is (case == "fusion_nan")
    assert "made here" not in next(line for line in screen.splitlines() if line.startswith(("q ", "fill ")))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--args", "missing.npz"), "cannot read missing.npz"),
        (("--at", "zz"), "zz"),
        (("--at", "r", "--probe", "nan"), "cannot be used with"),
        (("--max-operations", "1"), "above the limit"),
        (("--passes",), "requires a directory"),
    ],
)
def test_errors(arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(dump(tmp_path), *arguments) == 2
    assert words in capsys.readouterr().err


def test_wrong_sizes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("[[1, 2, 3], [1, 2]]")
    assert run(dump(tmp_path), "--args", str(tmp_path / "x.json")) == 2
    assert "argument 0 has sizes [3]" in capsys.readouterr().err


_TWO_DEVICES = """HloModule m, num_partitions=2
f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  l = f32[2] log(p)
  r = f32[2] all-reduce(l), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=f
  ROOT t = (f32[2], f32[2]) tuple(l, r)
}
"""


@pytest.fixture
def two_devices(tmp_path: Path) -> tuple[str, ...]:
    """A module of two devices, and arguments of which only the second one makes a NaN."""
    (tmp_path / "two.hlo").write_text(_TWO_DEVICES)
    (tmp_path / "a.json").write_text("[[1, 2, 4, -1]]")
    return str(tmp_path / "two.hlo"), "--args", str(tmp_path / "a.json")


def test_probe_looks_at_all_devices(two_devices: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*two_devices, "--probe", "nan", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    rows = answer["tables"]["sightings"]["rows"]
    assert [(row["value"], row["device"], row["count"], row["execution"]) for row in rows] == [
        ("l", 1, 1, 0),
        ("r", 0, 1, 0),
    ]


def test_values_of_device_0_are_told_as_such(
    two_devices: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*two_devices, "--at", "l", "--json") == 0
    printed = capsys.readouterr()
    [row] = json.loads(printed.out)["tables"]["values"]["rows"]
    assert (row["least"], row["nan"]) == (0.0, 0)
    assert "values of --at are those of device 0 of 2" in printed.err
    assert run(*two_devices, "-o", str(tmp_path / "r.npz")) == 0
    assert "2 results are shown for device 0 of 2" in capsys.readouterr().err


def test_nothing_is_claimed_of_results_that_are_not_compared(
    two_devices: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, *rest = two_devices
    (tmp_path / "whole.hlo").write_text(
        "ENTRY e { p = f32[4] parameter(0)  l = f32[4] log(p)  ROOT t = (f32[4], f32[4]) tuple(l, p) }"
    )
    assert run(path, *rest, "--against", str(tmp_path / "whole.hlo"), "--json") == 1
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert (answer["largest_exact"], answer["largest_widened"]) == (None, None)
    assert run(path, *rest, "--against", path, "--json") == 1  # the logarithm of -1 is NaN in both
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"]["verdict"], found["answer"]["uncompared_results"]) == ("uncovered", ["1"])
    verdicts = {row["result"]: row["verdict"] for row in found["tables"]["distances"]["rows"]}
    assert verdicts == {"0": "identical", "1": "not fully compared"}
    assert run(path, *rest, "--against", path, "--allow-uncovered", "--json") == 0


_CALLS = "\n".join(
    f"f{at} {{ p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f{at - 1} }}" for at in range(1, 1500)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("r = f32[4] add(f32[4] a, f32[3] b)", "expected operands of the same sizes"),
        ("r = f32[2,2] dot(f32[2,3] a, f32[2,3] b), lhs_contracting_dims={7}, rhs_contracting_dims={1}", "out of range"),
        ("r = f32[3,2] transpose(f32[2,3] a), dimensions={1,5}", "out of range"),
        ("r = f32[4] slice(f32[4] a), slice={[0:4:0]}", "a stride of at least 1"),
        ("r = f32[4] iota(), iota_dimension=4", "iota_dimension below 1"),
        ("r = f32[3] bitcast(f32[2,2] a)", "its sizes or attributes contradict each other"),
        ("r = f32[4] dynamic-slice(f32[4] a), dynamic_slice_sizes={4}", "expected 1 ind"),
        ("r = f32[1] pad(f32[4] a, f32[] b), padding=-9_-9", "negative padding"),
        ("ENTRY e { p = f32[2] parameter(3)  ROOT r = f32[2] negate(p) }", "have the numbers 3, not 0 to 0"),
        ("ENTRY e { p = f32[?,3] parameter(0)  ROOT r = f32[?,3] negate(p) }", "are unknown"),
        (
            _TWO_DEVICES.replace("devices=[2]<=[2]", "devices=[4]<=[4]"),
            "names device 2, but there are 2 devices",
        ),
        (
            "HloModule m\nf0 { p = f32[] parameter(0)  ROOT r = f32[] negate(p) }\n" + _CALLS
            + "\nENTRY e { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f1499 }",
            "too deeply",
        ),
    ],
)  # fmt: skip
def test_modules_that_break_rules_are_rejected(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.hlo").write_text(text)
    assert run(str(tmp_path / "m.hlo")) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array(["a", "b"]), "elements of type <U1"),
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), "elements of type datetime64"),
        (np.array([1j, 2j]), "elements of type complex128"),
        (np.array([(1,), (2,)], [("x", "f4")]), "elements of type"),
    ],
)
def test_arguments_have_to_be_numbers(
    array: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez(tmp_path / "x.npz", array, array)
    assert run(dump(tmp_path), "--args", str(tmp_path / "x.npz")) == 2
    assert words in capsys.readouterr().err


def test_arguments_nested_too_deeply_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("[" * 100_000)
    assert run(dump(tmp_path), "--args", str(tmp_path / "x.json")) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--max-operations", "inf"), "--max-operations requires a finite number"),
        (("--max-operations", "nan"), "--max-operations requires a finite number"),
        (("--max-seconds", "nan"), "--max-seconds requires a finite number"),
        (("--floats", "widen", "--against", "x"), "cannot be used with"),
    ],
)
def test_options_without_meaning_are_rejected(
    options: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(dump(tmp_path), *options) == 2
    assert words in capsys.readouterr().err


TUPLE = """ENTRY e { p = f32[2] parameter(0)
  c = (f32[2], f32[2]) custom-call(p), custom_call_target="my_op"
  g = f32[2] get-tuple-element(c), index=1
  ROOT r = f32[2] negate(g) }"""


def test_probe_names_the_maker_of_an_element_of_a_tuple(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(TUPLE)
    (tmp_path / "s.py").write_text("def stub(x):\n    return x, x * float('nan')\n")
    stub = f"my_op={tmp_path / 's.py'}"
    assert run(str(tmp_path / "m.hlo"), "--stub", stub, "--probe", "nan", "--json") == 1
    assert json.loads(capsys.readouterr().out)["answer"]["first"] == "c"


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("u8[2]", [1, 300], "argument 0 has numbers that u8 cannot hold"),
        ("s32[2]", [1.5, 2], "argument 0 has numbers that s32 cannot hold"),
        ("pred[2]", [0, 2], "argument 0 has numbers that pred cannot hold"),
        ("f32[2]", [[1], [2, 3]], "expected lists of equal lengths"),
    ],
)
def test_arguments_are_checked(
    kind: str, given: list[object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.hlo").write_text(f"ENTRY e {{ ROOT p = {kind} parameter(0) }}")
    (tmp_path / "a.json").write_text(json.dumps([given]))
    assert run(str(tmp_path / "m.hlo"), "--args", str(tmp_path / "a.json")) == 2
    assert words in capsys.readouterr().err


def test_arguments_of_devices_have_sizes_that_the_parts_make(
    two_devices: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text("[[1, 2, 3, 4, 5]]")
    assert run(two_devices[0], "--args", str(tmp_path / "a.json")) == 2
    assert "p has sizes [5], which 2 parts of f32[2]" in capsys.readouterr().err


def test_two_stages_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    for stages in ("..", "..after_optimizations", "after_optimizations..after_optimizations"):
        assert run(str(FIXTURES / "cpu/softmax"), "--stage", stages) == 2
        assert "--stage A..B requires two different stages" in capsys.readouterr().err


def test_devices_without_effect_are_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(dump(tmp_path), "--devices", "4") == 0
    assert "--devices has no effect" in capsys.readouterr().err


STARTS = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[4] parameter(0)
  s = (f32[4], f32[4], u32[]) copy-start(p)
  d = f32[4] copy-done(s)
  a = ((f32[4]), f32[2], s32[]) slice-start(d), slice={[0:2]}
  ROOT r = f32[2] slice-done(a)
}"""


@pytest.mark.parametrize(("name", "count"), [("s", 2), ("a", 2)])
@pytest.mark.parametrize("options", [("--at",), ("--watch",)])
def test_values_of_starts_are_those_of_their_arrays(
    name: str, count: int, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.hlo").write_text(STARTS)
    assert run(str(tmp_path / "m.hlo"), *options, name, "--json") == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    rows = next(table["rows"] for key, table in tables.items() if key in ("values", "iterations"))
    assert len(rows) == count
    assert run(str(tmp_path / "m.hlo"), *options, name, "-o", str(tmp_path / "x.npz"), "-q") == 0
    assert run(str(tmp_path / "m.hlo"), "--probe", "nan", "-q") == 0
