"""The cases of ../shared/cases/attack and their kinds: an answer or an error of one line, never the line about a bug."""

from __future__ import annotations

import csv
import inspect
import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deep_modules import NESTS
from hlo_cli import cli
from hlo_cli.ir.attributes.metadata import MOST_CALLS, FileLocation, SourceLocation, StackFrame, StackFrames

HUGE = 10**40
ASYNC_START = """ENTRY e {{
  a = bf16[{size},8192] parameter(0)
  b = (bf16[4096,1024], s32[]) async-start({operand})
  ROOT c = bf16[8192,4096] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}
}}
"""
HOSTILE_NAME = (
    '</style><script>alert(1)</script>\\"\' onload=\\"alert(1)&#60;x ]]> --> url(http://x) javascript:alert(1)'
)


def hlo(*arguments: str) -> int:
    return cli.main(list(arguments), standalone=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- sizes past 2^63 ---


@pytest.mark.parametrize("operand", ["", "a"])
@pytest.mark.parametrize("size", [8192, 2**31, 2**62, 2**63, 2**64, HUGE])
def test_sizes_are_never_a_bug(size: int, operand: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A start without an operand, first in the schedule, had a live range that began before the program."""
    (folder / "m.hlo").write_text(ASYNC_START.format(size=size, operand=operand))
    for line in (("memspace", "m.hlo"), ("report", "-q", "m.hlo"), ("schedule", "m.hlo"), ("layout", "m.hlo")):
        assert hlo(*line) in ((2,) if size >= 2**63 else (0, 1, 2))
        assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("layout", "code"),
    [
        ("{1,9223372036854775808}", 2),
        ("{1,9223372036854775807}", 2),
        ("{1,1}", 2),
        ("{0,1}", 0),
        ("{1,0:T(8,128)}", 0),
    ],
)
@pytest.mark.parametrize("kind", ["constant(0)", "constant({...})"])
def test_literals_of_layouts_that_are_none(
    layout: str, code: int, kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.hlo").write_text(
        f"HloModule m\nENTRY e {{\n  a = f32[8,2048]{{1,0}} parameter(0)\n  b = f32[8,2048]{layout} {kind}\n"
        "  ROOT c = f32[8,2048]{1,0} add(a, b)\n}\n"
    )
    assert hlo("parse", "-o", "x.pb", "m.hlo") in (code, 0)
    error = capsys.readouterr().err
    assert "internal error" not in error
    if code == 2 and kind == "constant(0)":
        assert "cannot be written as bytes: " in error
        assert not (folder / "x.pb").exists()


# --- depth ---


COMMANDS = tuple(
    line.split()
    for line in """parse F --tree
parse F --instructions
parse F --strict
parse F -o x.pb
layout F
memspace F
memspace F --by op_name
memspace F --traffic
memspace F --chip v5e
schedule F
schedule F --critical-path
schedule F --reorder memory
schedule F --reorder latency
fuse F
fuse F --cost
fuse F --kernels
fuse F --chip h100
fuse F --dots
fuse F --unfuse all
fuse F --run-pass
fuse F --run-pass --chip h100
fuse F --why-not
shard F --comms
diff F F
diff F operands.hlo
graph F --format dot
graph F -o x.html
graph F -o x.svg
report F -o x.html
run F
run F --against F
lint F""".splitlines()
)
FRAMES = 400
"""Python frames that a command may take; loading modules takes up to 200. Every nest is deeper but that of tuples,
which the readers limit to 100 levels."""


def _stack() -> int:
    """The frames of Python's stack."""
    return len(inspect.stack(0))


def _runs(kind: str, line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command on a nest with a small stack, on which recursion shows early."""
    words = [word.replace("F", f"{kind}.hlo") if word == "F" else word for word in line]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_stack() + FRAMES)
    try:
        code = hlo(*words)
    finally:
        sys.setrecursionlimit(before)
    error = capsys.readouterr().err
    assert code in (0, 1, 2), error
    assert "Recursion" not in error, error


@pytest.fixture
def nests(folder: Path) -> None:
    for kind, make in NESTS.items():
        (folder / f"{kind}.hlo").write_text(make(30 if kind.startswith("tuple") else FRAMES + 20))


@pytest.mark.slow
@pytest.mark.parametrize("at", range(len(COMMANDS)), ids=lambda at: "_".join(COMMANDS[at]).replace("/", "_"))
def test_no_command_recurses_over_depth(at: int, nests: None, capsys: pytest.CaptureFixture[str]) -> None:
    """One kind of nest for each command, another for the next; `make judge` takes all."""
    _runs(list(NESTS)[at % len(NESTS)], COMMANDS[at], capsys)


@pytest.mark.long
@pytest.mark.parametrize("kind", NESTS)
def test_no_command_recurses_over_any_depth(kind: str, nests: None, capsys: pytest.CaptureFixture[str]) -> None:
    for line in COMMANDS:
        _runs(kind, line, capsys)


@pytest.mark.parametrize("depth", [51, 2000])
def test_fusions_too_deep_are_named(depth: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(NESTS["fusions"](depth))
    assert hlo("parse", "m.hlo", "--verbose") == 0
    assert "fusions are nested too deeply (limit 50)" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("parse", "--tree"), ("memspace",), ("lint",)])
@pytest.mark.parametrize("kind", ["calls", "fusions", "operands", "tuple_shape", "tuples"])
def test_deep_nests_are_answered(
    kind: str, command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.hlo").write_text(NESTS[kind](99 if kind == "tuples" else 2000))
    assert hlo(command[0], "m.hlo", *command[1:]) in (0, 1, 2)
    assert "internal error" not in capsys.readouterr().err


# --- what others open ---


FORMULAS = ('=HYPERLINK(\\"http://127.0.0.1/?\\"&A1)', "=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "＝1")


def _named(*names: str) -> str:
    lines = "".join(
        f'  a{at} = f32[8]{{0}} negate(p), metadata={{op_name="{name}"}}\n' for at, name in enumerate(names)
    )
    return f"HloModule m\nENTRY e {{\n  p = f32[8]{{0}} parameter(0)\n{lines}}}\n"


def _op_names(text: str, delimiter: str = ",") -> list[str]:
    return [row["op_name"] for row in csv.DictReader(io.StringIO(text), delimiter=delimiter) if row["op_name"]]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_formulas_stay_for_programs_and_are_quoted_for_spreadsheets(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.hlo").write_text(_named(*FORMULAS, "-0.5", "-", "jit(f)/add"))
    plain = [each.replace('\\"', '"') for each in FORMULAS]
    quoting = {"delimiter": "\t"} if name == "x.tsv" else {}
    assert hlo("parse", "m.hlo", "--instructions", "-o", name) == 0
    assert f"note: 6 texts in {name} begin like formulas, which a spreadsheet runs" in capsys.readouterr().err
    text = (folder / name).read_text()
    assert name == "x.tsv" or _op_names(text, **quoting) == [*plain, "-0.5", "-", "jit(f)/add"]
    assert hlo("parse", "m.hlo", "--instructions", "-o", name, "--spreadsheet") == 0
    assert "formulas" not in capsys.readouterr().err
    text = (folder / name).read_text()
    assert name == "x.tsv" or _op_names(text) == [*(f"'{each}" for each in plain), "-0.5", "-", "jit(f)/add"]
    assert text.count("'=HYPERLINK") == 1


def test_spreadsheet_is_of_csv(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(_named("=1"))
    assert hlo("parse", "m.hlo", "--spreadsheet", "--json") == 2
    assert "--spreadsheet requires --format csv or tsv" in capsys.readouterr().err
    assert hlo("parse", "m.hlo", "--instructions", "--format", "csv") == 0
    assert "formula" not in capsys.readouterr().err  # a note is for files: a pipe is read by a program


ELEMENTS = frozenset("svg g defs style title desc path rect text tspan line polyline polygon circle ellipse marker clipPath use".split())  # fmt: skip
"""The elements of our pictures: none runs a script, loads a file, or holds HTML, as script, image, a, and others do."""


@pytest.mark.parametrize(
    "line",
    [("graph", "m.hlo"), ("memspace", "m.hlo"), ("schedule", "m.hlo"), ("layout", "bf16[300,70]{1,0:T(8,128)(2,1)}")],
)
def test_pictures_have_no_place_for_a_script(
    line: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names of everything are hostile, and the picture is a tree of harmless elements all the same."""
    name = "jit_f" + re.sub(r"[^!#-~]", "", "</style><script>alert(1)</script>'onload='alert(1)").replace(",", "")
    (folder / "m.hlo").write_text(
        f'HloModule "{HOSTILE_NAME}", is_scheduled=true\nENTRY %e {{\n'
        f'  p = f32[8]{{0}} parameter(0), metadata={{op_name="{HOSTILE_NAME}" source_file="{HOSTILE_NAME}" source_line=1}}\n'
        f'  ROOT r = f32[8]{{0}} custom-call(p), custom_call_target="{HOSTILE_NAME}", '
        f'metadata={{op_name="{HOSTILE_NAME}/{name}"}}\n}}\n'
    )
    code = hlo(*line, "-o", "x.svg")
    error = capsys.readouterr().err
    assert "internal error" not in error
    if code and "no figure to draw" in error:
        return
    text = (folder / "x.svg").read_text()
    tree = ElementTree.fromstring(text)
    assert text.count("<style") == 1
    for element in tree.iter():
        assert element.tag.rpartition("}")[2] in ELEMENTS, element.tag
        for key, value in element.attrib.items():
            plain = key.rpartition("}")[2].lower()
            assert not plain.startswith("on"), key
            assert plain not in ("href", "src") or value.startswith("#"), value
            assert not re.search(r"url\((?!#)|javascript:", value), value
        if element.tag.endswith("style"):
            assert not re.search(r"url\(|@import|expression", element.text or "")


# --- the last handler ---


def test_help_has_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert hlo("help", "exit-codes") == 0
    assert re.search(r"\b70\b.*internal error", capsys.readouterr().out)


@pytest.mark.parametrize("line", [("memspace", "m.hlo"), ("memspace", "m.hlo", "m.hlo"), ("lint", "m.hlo"), ("diff", "d", "d")])  # fmt: skip
@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
def test_a_bug_in_one_of_many_is_code_70_and_loses_no_other(
    line: tuple[str, ...], jobs: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """With processes too, whose bugs come back as what was found of their module."""
    from hlo_cli import scan_modules

    (folder / "m.hlo").write_text(_named("x"))
    (folder / "d").mkdir()
    for name in ("f", "g"):
        (folder / "d" / f"module_0001.jit_{name}.after_optimizations.txt").write_text(_named("x"))
    monkeypatch.delenv("HLO_TRACEBACK", raising=False)

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no\nway")

    monkeypatch.setattr(scan_modules, "read_input", fails)
    monkeypatch.setattr("hlo_cli.commands.modules.loading.read_input", fails)
    assert hlo(*line, *jobs) == 70
    error = capsys.readouterr().err
    assert "internal error, please report: hlo " in error
    assert "(ZeroDivisionError: no way)" in error
    assert "Traceback" not in error


# --- growth ---


def undonated(count: int) -> str:
    """So many arguments that could be donated, all of one shape."""
    lines = [f"  p{at} = f32[64,128]{{1,0}} parameter({at})" for at in range(count)]
    lines += [f"  n{at} = f32[64,128]{{1,0}} negate(p{at})" for at in range(count)]
    shape = ", ".join(["f32[64,128]{1,0}"] * count)
    lines.append(f"  ROOT r = ({shape}) tuple({', '.join(f'n{at}' for at in range(count))})")
    return "HloModule m, is_scheduled=true\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


def stacks(depth: int) -> str:
    """A chain of instructions, each in a frame called by that of the one before it."""
    numbers = range(1, depth + 1)
    tables = "FileNames\n" + "".join(f'{n} "f{n}.py"\n' for n in numbers)
    tables += "\nFunctionNames\n" + "".join(f'{n} "g{n}"\n' for n in numbers)
    tables += "\nFileLocations\n" + "".join(
        f"{n} {{file_name_id={n} function_name_id={n} line={n} end_line={n} column=1 end_column=9}}\n" for n in numbers
    )
    tables += "\nStackFrames\n" + "".join(f"{n} {{file_location_id={n} parent_frame_id={n}}}\n" for n in numbers)
    lines = ["  a0 = f32[64]{0} parameter(0)"]
    lines += [f"  a{n} = f32[64]{{0}} negate(a{n - 1}), metadata={{stack_frame_id={n}}}" for n in numbers]
    return f"HloModule m, is_scheduled=true\n\n{tables}\n\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def test_stacks_that_share_their_callers_are_those_of_each_frame() -> None:
    from hlo_cli import parse_module

    frames = parse_module(stacks(40)).stack_frames
    assert len(frames.frames) == 40
    for order in (range(1, 41), range(40, 0, -1), (7, 40, 7, 1, 20)):
        known: dict[int, tuple[SourceLocation, ...]] = {}
        for frame in order:
            assert frames.stack_sharing(frame, known) == frames.stack(frame) == known[frame]
            assert frames.innermost(frame) == frames.stack(frame)[0]
    assert frames.stack_sharing(0, {}) == () == frames.stack(41)


def test_of_very_deep_stacks_the_innermost_calls_are_told() -> None:
    count = MOST_CALLS + 50
    locations = tuple(FileLocation(1, 1, line, line, 1, 9) for line in range(1, count + 1))
    frames = StackFrames(("f.py",), ("g",), locations, tuple(StackFrame(k, k) for k in range(1, count + 1)))
    known: dict[int, tuple[SourceLocation, ...]] = {}
    for frame in (count - 20, count, 3):
        stack = frames.stack_sharing(frame, known)
        assert stack == frames.stack(frame) == known[frame]
        assert [each.line for each in stack] == list(range(frame, max(frame - MOST_CALLS, 0), -1))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "line"), [(undonated, ("memspace",)), (stacks, ("memspace", "--by", "source"))])
def test_time_grows_as_the_text(
    make: Callable[[int], str], line: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, each pair of an argument and a result of one shape was hashed, and each instruction walked its stack."""

    def seconds(size: int) -> float:
        (folder / "m.hlo").write_text(make(size))
        began = time.process_time()
        assert hlo(line[0], "m.hlo", *line[1:], "-q") == 0
        return time.process_time() - began

    seconds(100)  # imports
    small = min(seconds(500) for _ in range(3))
    assert min(seconds(2000) for _ in range(2)) < small * 4**1.3 + 0.05
