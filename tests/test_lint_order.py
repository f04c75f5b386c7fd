"""What leads: what the user's program can change, by what it costs in the work of all; advice that is followed is not given."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from dumps import FIXTURES
from hlo_cli import parse_module
from hlo_cli.cli import main
from hlo_cli.inputs.files import ProgramLines
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.lint.advice import donation_hint, donations_of
from hlo_cli.lint.rule import LintContext
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.render.draw.verdicts import lines_of_findings
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Cause, Finding, Findings, groups_of
from hlo_cli.report.text import plain_text

SHAPE = "f32[512,512]{1,0}"
PROGRAM = """import jax

def step(x):
    y = jax.nn.relu(x.T)
    return y
"""


def dump_of(name: str, function: str, *, columns: str = "column=8 end_column=24", op_name: str = "max") -> str:
    """A module with one copy that changes a layout, made by line 4 of a program in a function."""
    return f"""HloModule {name}, is_scheduled=true

FileNames
1 "/home/ada/train.py"

FunctionNames
1 "{function}"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=4 end_line=4 {columns}}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}

ENTRY e {{
  x = {SHAPE} parameter(0)
  n = {SHAPE} negate(x)
  ROOT c = f32[512,512]{{0,1}} copy(n), metadata={{op_name="jit({name.removeprefix("jit_")})/{op_name}" stack_frame_id=1}}
}}
"""


def dump(folder: Path, **texts: str) -> str:
    for number, (name, text) in enumerate(texts.items()):
        (folder / f"module_{number:04}.{name}.cpu_after_optimizations.txt").write_text(text)
    return str(folder)


def screen(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(["lint", *arguments, "--select", "HLO102", "--format", "screen"], standalone=False)
    return capsys.readouterr().out


def groups(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    main(["lint", *arguments, "--select", "HLO102", "--format", "json"], standalone=False)
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)["tables"]["groups"]["rows"]
    return rows


# --- helper modules and insides of libraries ---


def test_helper_modules_are_last_and_folded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    helper = dump_of("jit__normal", "main").replace("512,512", "1024,1024")  # costs four times as much
    given = dump(tmp_path, jit__normal=helper, jit_step=dump_of("jit_step", "step"))
    assert [(row["of_library"], str(row["path"]).split(".")[1]) for row in groups(capsys, given)] == [
        (False, "jit_step"),
        (True, "jit__normal"),
    ]
    shown = screen(capsys, given)
    assert shown.count("warning HLO102") == 1
    assert "f32[512,512]" in shown
    assert "1 group in helper modules and libraries: 4 MiB; use --top 0 to show them" in shown
    assert "Found 1 warning: 1 × HLO102 layout-changing copy (1 MiB); 1 more in" in shown
    assert screen(capsys, given, "--top", "0").count("warning HLO102") == 2


@pytest.fixture
def helper_alone(tmp_path: Path) -> str:
    """A dump whose only finding is a warning in a helper module of JAX."""
    clean = dump_of("jit_step", "step").replace("{0,1} copy", "{1,0} negate")
    return dump(tmp_path, jit__normal=dump_of("jit__normal", "main"), jit_step=clean.replace("512,512", "2048,512"))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--format", "junit"), 0),
        (("--top", "0"), 0),
        (("--module", "jit__normal"), 1),  # a helper that is asked for is a module like any other
        (("--module", "jit_step"), 0),
    ],
)
def test_warnings_in_helpers_do_not_fail(
    arguments: tuple[str, ...], code: int, helper_alone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", helper_alone, "--select", "HLO102", *arguments], standalone=False) == code
    assert "<failure" not in capsys.readouterr().out


def test_errors_in_helpers_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is invalid is wrong everywhere."""
    broken = dump_of("jit__normal", "main").replace("negate(x)", "negate(x, x)")
    given = dump(
        tmp_path, jit__normal=broken, jit_step=dump_of("jit_step", "step").replace("{0,1} copy", "{1,0} negate")
    )
    assert main(["lint", given, "--select", "HLO0"], standalone=False) > 0
    assert "error" in capsys.readouterr().out


@pytest.mark.parametrize("format_name", ["md", "html"])
def test_documents_fold_what_libraries_have_to_change(
    format_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    helper = dump_of("jit__normal", "main").replace("512,512", "1024,1024")
    given = dump(tmp_path, jit__normal=helper, jit_step=dump_of("jit_step", "step"))

    def rows(*arguments: str) -> tuple[str, str]:
        main(["lint", given, "--select", "HLO102", "--format", format_name, *arguments], standalone=False)
        shown, _, folded = capsys.readouterr().out.partition("1 group in helper modules and libraries: 4 MiB")
        return shown, folded

    shown, folded = rows()
    assert "module_0001.jit_step" in shown
    assert "module_0000.jit__normal" not in shown
    assert ("module_0000.jit__normal" in folded) == (format_name == "html")  # a page unfolds it
    if format_name == "md":
        assert folded.startswith("; use --top 0 to show them\n")
        assert "module_0000.jit__normal" in rows("--top", "0")[0]


def test_one_change_is_advised_once() -> None:
    """Donating all arguments is the fix of each group: the second refers to the first."""
    hints = ("donate p and m", "donate p and m", "pad x", None)
    found = tuple(
        Finding("warning", f"finding {at}", hint=hint, code="HLO203", cost_bytes=9 - at)
        for at, hint in enumerate(hints)
    )
    shown = [plain_text(line).strip() for line in lines_of_findings(Findings("findings", found, ()), Style())]
    assert [line for line in shown if "help" in line] == ["help: donate p and m", "help: as above", "help: pad x"]


def test_a_module_alone_is_no_helper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = dump(tmp_path, jit__normal=dump_of("jit__normal", "main"))
    assert "warning HLO102" in screen(capsys, given)


def test_a_dump_with_findings_in_helpers_alone_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clean = dump_of("jit_step", "step").replace("{0,1} copy", "{1,0} negate")
    given = dump(tmp_path, jit__normal=dump_of("jit__normal", "main"), jit_step=clean.replace("512,512", "2048,512"))
    shown = screen(capsys, given)
    assert "warning HLO102" not in shown
    assert "Found nothing to change in the program, and 1 warning in helper modules and libraries" in shown.replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    ("op_name", "expected"),
    [
        ("jit(step)/jit(_normal)/jit(_normal_real)/jit(_uniform)/while/body/closed_call/add", True),
        ("jit(step)/jvp(jit(_normal))/jit(_normal_real)/jit(_uniform)/shift_left", True),
        ("jit(step)/jit(searchsorted)/while/body/gather", True),  # a loop in a function of the library
        ("jit(step)/jvp(jit(log_softmax))/reduce_max", False),
        ("jit(step)/jit(_where)/select_n", False),  # one operation stands for the function
        ("jit(step)/while/body/closed_call/add", False),  # the user's own loop
        ("jit(train)/jit(step)/while/body/add", False),  # the stack is cut off above the function
    ],
)
def test_insides_of_functions_of_libraries(op_name: str, expected: bool) -> None:
    text = dump_of("jit_step", "step").replace("jit(step)/max", op_name)
    [found] = lint_module(parse_module(text), LintSettings(("HLO102",)))
    assert found.is_of_library is expected


@pytest.mark.parametrize(("name", "expected"), [("_normal", True), ("simulate", False)])
def test_without_functions_private_names_are_those_of_libraries(name: str, expected: bool) -> None:
    """Older versions of JAX record files and lines alone."""
    place = f'op_name="jit(step)/jit({name})/while/body/add" source_file="/home/ada/train.py" source_line=4'
    text = re.sub(r"metadata=\{.*?\}", f"metadata={{{place}}}", dump_of("jit_step", "step"))
    [found] = lint_module(parse_module(text), LintSettings(("HLO102",)))
    assert (found.location, found.is_of_library) == ("/home/ada/train.py:4", expected)


def test_lines_of_libraries_are_last() -> None:
    text = dump_of("jit_step", "step").replace("/home/ada/train.py", "/x/site-packages/flax/linen/linear.py")
    [found] = lint_module(parse_module(text), LintSettings(("HLO102",)))
    assert found.is_of_library


def test_errors_of_libraries_lead() -> None:
    error = Finding("error", "", is_of_library=True, cause=Cause("a"))
    found = (Finding("warning", "", cost_bytes=9, cause=Cause("b")), error)
    findings = Findings("findings", found, (), ("a", "b"))
    assert findings.groups[0].worst is error
    assert findings.library_groups == ()


@pytest.mark.parametrize("seed", range(10))
def test_groups_are_in_the_order_of_cost_times_share(seed: int) -> None:
    """Of one kind; and no group of a library stands before one of the user's."""
    random = Random(seed)
    found = [
        Finding(
            random.choice(("warning", "note")),
            "",
            cost_bytes=random.randint(1, 9) << random.randint(0, 9),
            seconds=random.choice((None, random.random())) if seed % 2 else None,
            share=random.random(),
            is_of_library=random.random() < 0.3,
            cause=Cause(str(number % 12)),
        )
        for number in range(30)
    ]
    ordered = groups_of(found)
    for before, after in pairwise(ordered):
        assert before.is_of_library <= after.is_of_library
        if before.is_of_library == after.is_of_library:
            first, second = (
                ((group.seconds or 0) * group.worst.share, (group.cost_bytes or 0) * group.worst.share)
                for group in (before, after)
            )
            assert first >= second


# --- lines of the program ---


def test_the_line_of_the_program_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found below the working directory, although the dump names a folder of another machine."""
    given = dump(tmp_path, jit_step=dump_of("jit_step", "step"))
    monkeypatch.chdir(tmp_path)
    assert "│" not in screen(capsys, given)
    (tmp_path / "train.py").write_text(PROGRAM)
    main(["lint", given, "--format", "json"], standalone=False)
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert tables["findings"]["rows"][0]["source_line"] == "y = jax.nn.relu(x.T)"
    assert tables["groups"]["rows"][0]["source_line"] == "y = jax.nn.relu(x.T)"
    assert "\n  train.py:4 │ y = jax.nn.relu(x.T)\n" in screen(capsys, given)


def test_a_quoted_line_fits_and_controls_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dump(tmp_path, jit_step=dump_of("jit_step", "step"))
    (tmp_path / "train.py").write_text(PROGRAM.replace("(x.T)", f"(x.T)\t# \x1b[31mred\x07 {'y' * 200}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    [line] = [line for line in screen(capsys, given, "--ascii").splitlines() if "jax.nn" in line]
    assert line.startswith("  train.py:4 | y = jax.nn.relu(x.T)    # \\x1b[31mred\\x07 yyy")
    assert line.endswith("yyy...")
    assert len(line) == 80


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (PROGRAM, "y = jax.nn.relu(x.T)"),
        (PROGRAM.replace("jax.nn.relu(x.T)", "jax.nn.leaky_relu(x.T)"), ""),  # the end of the expression moved
        (PROGRAM.replace("import jax", "import jax\nimport numpy"), ""),  # another line
        (PROGRAM.replace("def step", "def main"), ""),  # another function
        (PROGRAM.replace("    y = jax.nn.relu(x.T)", "    # y = jax.relu(x.T)"), ""),
        ("\n\n\n", ""),
        ("", ""),
    ],
)
def test_a_line_that_was_edited_is_not_quoted(tmp_path: Path, program: str, expected: str) -> None:
    (tmp_path / "train.py").write_text(program)
    assert ProgramLines().of(str(tmp_path / "train.py"), 4, "step", (8, 24)) == expected


def test_only_files_of_python_are_read(tmp_path: Path) -> None:
    for name in ("train.txt", "train"):
        (tmp_path / name).write_text(PROGRAM)
        assert ProgramLines().of(str(tmp_path / name), 4, "step") == ""
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "bytes.py").write_bytes(b"\xff\n" * 9)
    for name in ("folder.py", "bytes.py"):
        assert ProgramLines().of(str(tmp_path / name), 4, "step") == ""


def test_nested_functions_are_known_by_indentation(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "class Model:\n    def loss(self, x):\n        def inner(y):\n            return y\n        return x\n"
    )
    lines = ProgramLines()
    assert lines.of(str(file), 4, "Model.loss.<locals>.inner") == "return y"
    assert lines.of(str(file), 4, "Model.loss") == "return y"
    assert lines.of(str(file), 5, "Model.loss.<locals>.inner") == "", "after the inner function"
    assert lines.of(str(file), 5, "Model.loss.<locals>.<lambda>") == "return x"


def test_lines_are_read_by_a_function_that_is_given() -> None:
    def line_of(frame: SourceLocation) -> str:
        return f"{frame} {frame.columns}"

    text = dump_of("jit_step", "step")
    [found] = lint_module(parse_module(text), LintSettings(("HLO102",)), line_of=line_of)
    assert found.line == "/home/ada/train.py:4 (8, 24)"


# --- advice that is followed ---


def copies(*lines: str, header: str = "") -> list[Finding]:
    text = "\n".join(("HloModule m, is_scheduled=true" + header, "ENTRY e {", *lines, "}"))
    return list(lint_module(parse_module(text), LintSettings(("HLO204",))))


DONATED = ", input_output_alias={ {0}: (0, {}, may-alias) }"
UPDATED = (
    f"p = {SHAPE} parameter(0)",
    f"c = {SHAPE} copy(p)",
    f'u = {SHAPE} negate(c), metadata={{op_name="jit(f)/update"}}',
)


def test_a_copy_of_a_donated_argument_that_nothing_else_reads_is_the_compilers() -> None:
    assert copies(*UPDATED, f"ROOT r = ({SHAPE}) tuple(u)", header=DONATED) == []


def test_a_donated_argument_whose_old_value_is_read_is_copied_for_that() -> None:
    reader = f'o = {SHAPE} tanh(p), metadata={{op_name="jit(f)/attention/tanh"}}'
    [found] = copies(*UPDATED, reader, f"ROOT r = ({SHAPE}, {SHAPE}) tuple(u, o)", header=DONATED)
    assert found.hint == "read the new value in attention/tanh, or the old one before it is updated"


def test_what_reads_the_old_value_has_a_name_of_the_program() -> None:
    [found] = copies(*UPDATED, f"o = {SHAPE} tanh(p)", f"ROOT r = ({SHAPE}, {SHAPE}) tuple(u, o)", header=DONATED)
    assert found.hint is None


def test_what_reads_the_old_value_is_not_the_copy_itself() -> None:
    named = UPDATED[1] + ', metadata={op_name="jit(f)/copy"}'
    reader = f'o = {SHAPE} tanh(p), metadata={{op_name="jit(f)/attention/tanh"}}'
    lines = (UPDATED[0], named, UPDATED[2], reader, f"ROOT r = ({SHAPE}, {SHAPE}) tuple(u, o)")
    [found] = copies(*lines, header=DONATED)
    assert found.hint == "read the new value in attention/tanh, or the old one before it is updated"


def test_an_argument_that_no_result_can_overwrite_cannot_be_donated() -> None:
    total = 't = f32[512]{0} custom-call(u), custom_call_target="sum"'
    assert copies(*UPDATED, total, "ROOT r = (f32[512]{0}) tuple(t)") == []
    [found] = copies(*UPDATED, f"ROOT r = ({SHAPE}) tuple(u)")
    assert found.instruction == "c"


def test_a_copy_that_keeps_the_callers_array_says_so() -> None:
    [found] = copies(*UPDATED, f"ROOT r = ({SHAPE}) tuple(u)")
    assert found.message == "p (f32[512,512], 1 MiB) is copied because it is not donated"
    [group] = groups_of((found, replace(found, instruction="d")))
    assert group.message == "p (f32[512,512], 1 MiB) is copied twice because it is not donated"
    [returned] = copies(f"p = {SHAPE} parameter(0)", f"c = {SHAPE} copy(p)", f"ROOT r = ({SHAPE}) tuple(c)")
    assert returned.message.endswith("is copied needlessly")


LOOP = f"""HloModule m, is_scheduled=true
body {{ p = (s32[], {SHAPE}) parameter(0)  i = s32[] get-tuple-element(p), index=0
  h = {SHAPE} get-tuple-element(p), index=1  c = {SHAPE} copy(OPERAND)  n = {SHAPE} negate(CARRY)
  u = {SHAPE} add(c, n)  ROOT t = (s32[], {SHAPE}) tuple(i, u) }}
cond {{ p = (s32[], {SHAPE}) parameter(0)  i = s32[] get-tuple-element(p), index=0
  k = s32[] constant(5)  ROOT l = pred[] compare(i, k), direction=LT }}
ENTRY e {{ a = s32[] parameter(0)  x = {SHAPE} parameter(1)  g = (s32[], {SHAPE}) tuple(a, x)
  ROOT w = (s32[], {SHAPE}) while(g), condition=cond, body=body }}"""


def test_the_order_of_reads_of_a_carry_is_not_advised() -> None:
    """A scan in JAX returns the new carry, so that its program cannot read the old one earlier."""
    ordered = "read the old value before it is updated, or the new one instead"
    of_carry = LOOP.replace("OPERAND", "h").replace("CARRY", "h")
    computed = LOOP.replace("c = ", f"m = {SHAPE} tanh(h)  c = ").replace("OPERAND", "m").replace("CARRY", "m")
    hints = [lint_module(parse_module(text), LintSettings(("HLO204",)))[0].hint for text in (of_carry, computed)]
    assert hints[0] != ordered
    assert str(hints[0]).startswith("do not carry it if iterations only read it")
    assert hints[1] == ordered


def test_arrays_without_a_result_count_towards_the_size_of_an_argument() -> None:
    """A user donates all of `p`: 1.25 MiB, of which a result can have only 640 KiB."""
    shape = "f32[160,1024]{1,0}"
    text = f"""HloModule m, is_scheduled=true
ENTRY e {{ a = {shape} parameter(0), metadata={{op_name="p['a']"}}  b = {shape} parameter(1), metadata={{op_name="p['b']"}}
  ROOT n = {shape} add(a, b) }}"""
    module = parse_module(text)
    [found] = lint_module(module, LintSettings(("HLO203",)))
    assert found.cost_bytes == 640 << 10
    assert not lint_module(module, LintSettings(("HLO203",), min_donation_bytes=(1280 << 10) + 1))


def test_the_result_of_another_argument_is_taken() -> None:
    second = (f"q = {SHAPE} parameter(1)", f"d = {SHAPE} copy(q)", f"v = {SHAPE} negate(d)")
    taken = 's = f32[512]{0} custom-call(v), custom_call_target="sum"'
    assert copies(*UPDATED, *second, taken, f"ROOT r = ({SHAPE}, f32[512]{{0}}) tuple(u, s)", header=DONATED) == []


def test_an_argument_that_is_returned_is_reported_whoever_has_its_memory() -> None:
    [found] = copies(f"p = {SHAPE} parameter(0)", f"c = {SHAPE} copy(p)", f"ROOT r = ({SHAPE}) tuple(c)")
    assert found.hint == "do not return p, which the program does not change"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("p['w']", "p['b']"), "p"),
        (("p['w']", "state.params['w']", "state.count"), "p and state"),
        (("args[0]['w']", "args[1][0]", "args[0]['b']"), "args[0] and args[1]"),
        (("a", "b", "c", "d", "e"), "a, b, c, and 2 more"),
    ],
)
def test_whole_arguments_are_donated(names: tuple[str, ...], expected: str) -> None:
    """`donate_argnums` names arguments of the function, not arrays in them."""
    lines = "".join(
        f' p{at} = f32[256] parameter({at}), metadata={{op_name="{name}"}} n{at} = f32[256] negate(p{at})'
        for at, name in enumerate(names)
    )
    results = ", ".join(f"n{at}" for at in range(len(names)))
    shapes = ", ".join(["f32[256]"] * len(names))
    module = parse_module(f"HloModule m, is_scheduled=true ENTRY e {{{lines} ROOT r = ({shapes}) tuple({results}) }}")
    context = LintContext(module, LintSettings())
    donations = donations_of(context.analyses.memory, 1)
    assert len(donations.arguments) == len(names)
    part = replace(donations, saved_bytes=1024)
    hint = donation_hint(context, part, part.arguments[0])
    assert hint == f"donate {expected}: in JAX, donate_argnums of jax.jit; the module then needs 1 KiB less"


def test_what_cannot_be_divided_is_not_to_be_sharded() -> None:
    text = "HloModule m, num_partitions=4 ENTRY e { ROOT p = f32[%s] parameter(0), sharding={replicated} }"
    settings = LintSettings(("HLO504",), min_replicated_bytes=1)
    assert [len(lint_module(parse_module(text % sizes), settings)) for sizes in ("", "1,1", "8")] == [0, 0, 1]


def test_a_constant_that_the_compiler_computed_is_not_closed_over() -> None:
    text = "ENTRY e { x = f32[2] parameter(0)  ROOT c = f32[512,512] constant({...})%s }"
    hints = [
        lint_module(parse_module(text % metadata), LintSettings(("HLO205",)))[0].hint
        for metadata in ("", ', metadata={op_name="jit(f)/iota"}')
    ]
    assert hints == [
        "pass the array as an argument instead of closing over it",
        "compute the array outside of the program, and pass it as an argument",
    ]


# --- a program as users run theirs ---

PROGRAMS = Path(__file__).with_name("user_programs.py")
TRAINING = FIXTURES / "programs" / "cpu" / "training"
LEADING = 0.8
"""The part of the groups on the first screen that must name a line of the user's program."""


def test_the_first_screen_is_about_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """25 helper modules and the insides of `jax.random` cost more, and are one row."""
    main(["lint", str(TRAINING), "--format", "json"], standalone=False)
    rows = json.loads(capsys.readouterr().out)["tables"]["groups"]["rows"]
    own, others = ([row for row in rows if row["of_library"] is side] for side in (False, True))
    assert rows == own + others
    named = [
        row for row in own[:10] if "jit_train_step" in row["path"] and (row["source"] or "").startswith("training.py:")
    ]
    assert len(named) >= LEADING * len(own[:10]) > 0
    assert max(row["cost_bytes"] for row in others) > max(row["cost_bytes"] for row in own)
    assert {"jit__normal", "jit_train_step"} == {Path(row["path"]).name.split(".")[1] for row in others}


def test_lines_of_the_program_are_in_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines of the program at hand are quoted, and are what the file has there."""
    monkeypatch.chdir(FIXTURES)
    main(["lint", str(TRAINING), "--format", "json"], standalone=False)
    rows = json.loads(capsys.readouterr().out)["tables"]["findings"]["rows"]
    program = (FIXTURES / "training.py").read_text().splitlines()
    sourced = [row for row in rows if row["source"]]
    assert len(sourced) > 10
    for row in sourced:
        assert row["source_line"] == program[int(row["source"].rpartition(":")[2]) - 1].strip()


USERS = re.findall(r"@program\ndef (\w+)", PROGRAMS.read_text())
"""The programs; every twentieth is compiled by `make oracle`, all by `make judge`."""


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if at % 20 else []) for at, name in enumerate(USERS)]
)
def test_first_screens_of_programs_are_about_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dumped as this is read. What the program compiles has the name of a function in it; helpers are JAX's own."""
    pytest.importorskip("jax")
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    subprocess.run([sys.executable, str(PROGRAMS), name], env=environment, check=True, capture_output=True, timeout=200)
    main(["lint", str(tmp_path), "--format", "json"], standalone=False)
    tables = json.loads(capsys.readouterr().out)["tables"]
    rows = [row for row in tables["groups"]["rows"] if not row["of_library"]][:10]
    text = PROGRAMS.read_text()
    named = [
        row
        for row in rows
        if f"def {Path(row['path']).name.split('.')[1].removeprefix('jit_')}(" in text
        and (row["source"] or "").startswith(f"{PROGRAMS}:")
        and row["source_line"]
    ]
    assert len(named) >= LEADING * len(rows)


def test_a_donation_under_a_condition_comes_after_what_is_certain() -> None:
    """Gradients could overwrite the weights, which their update reads again: less to gain than a smaller sure saving."""
    certain, conditional = (
        Finding("warning", "", cost_bytes=1),
        Finding("warning", "", cost_bytes=8, is_conditional=True),
    )
    assert certain.rank < conditional.rank < Finding("warning", "", cost_bytes=9, is_of_library=True).rank
    weights = """HloModule m, is_scheduled=true  ENTRY e { w = f32[512,512]{1,0} parameter(0)
      ROOT g = f32[512,512]{1,0} negate(w)NAME }"""
    name = ', metadata={op_name="jit(f)/transpose(jvp())/neg"}'
    found = [lint_module(parse_module(weights.replace("NAME", each)), LintSettings(("HLO203",))) for each in ("", name)]
    assert [each.is_conditional for each, *_ in found] == [False, True]
