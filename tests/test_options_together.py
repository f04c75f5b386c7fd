"""Options of `hlo lint` and `hlo diff` in pairs: both count, or the second is refused; none is passed over in silence."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from itertools import product
from pathlib import Path

import pytest

from hlo_cli.cli import main
from strategies import FIXTURES

WRONG = FIXTURES / "golden" / "lint" / "wrong.hlo"
SOFTMAX = FIXTURES / "cpu" / "softmax"
OLD = """HloModule m, is_scheduled=true
ENTRY main {
  a = f32[64,4]{1,0} parameter(0), metadata={op_name="first"}
  s = f32[64,4]{1,0} add(a, a)
  n = f32[64,4]{1,0} negate(a)
  t = f32[64,4]{0,1} tanh(n)
  ROOT r = (f32[64,4]{1,0}, f32[64,4]{0,1}) tuple(s, t)
}
"""
S = "  s = f32[64,4]{1,0} add(a, a)\n"
N = "  n = f32[64,4]{1,0} negate(a)\n"
NEW = OLD.replace(S, "").replace(N, N.replace("{1,0}", "{0,1}") + S).replace("first", "second").replace("tanh", "sine")

LINT_WAYS = (
    *("--explain HLO101", "--list-rules", "--show-settings", "--write-baseline written.json", "--statistics"),
    *(
        f"--format {name}"
        for name in ("full", "concise", "summary", "github", "gitlab", "junit", "sarif", "json", "csv")
    ),
)
LINT_OPTIONS = (
    *(
        "--select HLO102",
        "--ignore HLO010",
        "--min-severity error",
        "--set min_copy_bytes=1MiB",
        "--baseline known.json",
    ),
    *("--expect expect.toml", "--statistics", "--exit-zero", "--top 1", "--sort line", "--columns code"),
)
SAME_THERE = {("--write-baseline written.json", "--exit-zero")}
"""What says the same there by its meaning: what is written does not fail."""

DIFF_WAYS = (
    "--normalize",
    "--text",
    "--stat",
    "--name-only",
    "--schedule",
    "--format json",
    "--format jsonl",
    "--format md",
)
DIFF_OPTIONS = (
    *("--schedule", "--ignore layout", "--ignore opcode", "--exit-code", "--format json", "--format md", "--top 1"),
    *("--sort name", "--columns name", "--passes", "--jobs 2"),
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(WRONG, "wrong.hlo")
    Path("old.hlo").write_text(OLD)
    Path("new.hlo").write_text(NEW)
    Path("expect.toml").write_text('expect = ["none(opcode == copy)"]\n')
    assert answer("lint wrong.hlo --select HLO071 --write-baseline known.json", capsys)[0] == 0


def answer(line: str, capsys: Capture) -> tuple[object, ...]:
    """What a command line comes to: the exit code, what it says, and what it writes."""
    capsys.readouterr()
    code = main(line.split(), standalone=False)
    written = Path("written.json")
    kept = written.read_text() if written.exists() else ""
    written.unlink(missing_ok=True)
    return (code, *capsys.readouterr(), kept)


_ALONE: dict[str, tuple[object, ...]] = {}


def answer_alone(line: str, capsys: Capture) -> tuple[object, ...]:
    """The answer to a line without the option, which is the same next to every one."""
    if line not in _ALONE:
        _ALONE[line] = answer(line, capsys)
    return _ALONE[line]


def pairs(ways: tuple[str, ...], options: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(way, option) for way, option in product(ways, options) if way.split()[0] != option.split()[0]]


@pytest.mark.parametrize(("way", "option"), pairs(LINT_WAYS, LINT_OPTIONS))
def test_lint_options_count_or_are_refused(way: str, option: str, capsys: Capture) -> None:
    alone, both = answer_alone(f"lint wrong.hlo {way}", capsys), answer(f"lint wrong.hlo {way} {option}", capsys)
    assert alone[0] in (0, 1)
    if both[0] == 2:
        is_about_rows = option.split()[0] in ("--sort", "--columns") and re.search("table|column", str(both[2]))
        assert is_about_rows or all(word.split()[0] in str(both[2]) for word in (way, option)), "the error names both"
    else:
        assert (both != alone) is ((way, option) not in SAME_THERE)


@pytest.mark.parametrize(("way", "option"), pairs(DIFF_WAYS, DIFF_OPTIONS))
def test_diff_options_count_or_are_refused(way: str, option: str, capsys: Capture) -> None:
    inputs = "old.hlo" if "--normalize" in way else "old.hlo new.hlo"
    alone, both = answer_alone(f"diff {inputs} {way}", capsys), answer(f"diff {inputs} {way} {option}", capsys)
    assert alone[0] == 0
    if both[0] == 2:
        assert option.split()[0] in str(both[2]) or option.split()[-1] in str(both[2])
    elif option == "--jobs 2":
        assert both == alone, "two files are one piece of work"
    else:
        assert (both != alone) is ((way, option) != ("--stat", "--top 1"))


@pytest.mark.parametrize(
    "line",
    [
        "diff {0}/passes --passes --jobs 2",
        "diff {0}/passes --passes --stage call-inliner",
        "diff old.hlo new.hlo --normalize",
        "diff old.hlo --normalize --format svg",
        "diff old.hlo new.hlo --schedule --ignore schedule",
        "diff {0} {0} --stat --schedule",
    ],
)
def test_what_makes_no_sense_is_refused(line: str, capsys: Capture) -> None:
    code, out, err, _ = answer(line.format(SOFTMAX), capsys)
    assert (code, out) == (2, "")
    assert "help: " in str(err)


def test_directories_are_told_apart_in_the_way_that_is_asked_for(capsys: Capture) -> None:
    for folder, text in (("ones", OLD), ("twos", NEW)):
        Path(folder).mkdir()
        for number, name in enumerate(("first", "second")):
            path = Path(folder, f"module_000{number}.{name}.cpu_after_optimizations.txt")
            path.write_text(text.replace("HloModule m", f"HloModule {name}"))
    _, names, _, _ = answer("diff ones twos --name-only", capsys)
    assert str(names).split() == ["#module", "first", "second"]
    code, _, err, _ = answer("diff ones twos --text", capsys)
    assert code == 2
    assert "--module" in str(err)


def test_what_moved_is_shown_in_the_text_where_it_was_and_is(capsys: Capture) -> None:
    """So that each side of the text has its instructions in their order there."""
    names = [re.findall(r"(\w+) = ", text) for text in (OLD, NEW)]
    for option, is_shown in (("", False), (" --schedule", True)):
        _, out, _, _ = answer(f"diff old.hlo new.hlo --text{option}", capsys)
        lines = str(out).splitlines()[3:]
        sides = [re.findall(r"(\w+) = ", "\n".join(each for each in lines if each[0] in (" ", sign))) for sign in "-+"]
        assert (sides == [each[: len(sides[0])] for each in names]) is is_shown


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_a_normalised_module_for_machines(format_: str, capsys: Capture) -> None:
    """The digest is that of the text itself, and the same whatever names and order a module has."""
    _, text, _, _ = answer("diff old.hlo --normalize", capsys)
    digests = set()
    for name in ("old.hlo", "other.hlo"):
        Path("other.hlo").write_text(
            OLD.replace(S, "").replace(N, N + S).replace(" t = ", " other = ").replace(", t)", ", other)")
        )
        found = json.loads(str(answer(f"diff {name} --normalize --format {format_}", capsys)[1]))
        row = found["tables"]["modules"]["rows"][0] if format_ == "json" else found
        assert (row["module"], row["text"], row["instructions"]) == ("m", text, 5)
        digests.add(row["sha256"])
        assert format_ == "jsonl" or found["answer"]["sha256"] == row["sha256"]
    assert digests == {hashlib.sha256(str(text).encode()).hexdigest()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("schedule", str(WRONG), "--desugar", "--sugar"), "--desugar cannot be used with --sugar"),
        (("lint", str(WRONG), "--select", "hlo9"), "--select HLO9 requires --expect FILE"),
        (("fuse", str(WRONG), "--why"), "did you mean '--why-not'?"),
        (("layout", str(WRONG), "--chip", "v5e"), "run `hlo layout --help` to list all options"),
        (("parse", "f32[8]{0}"), "to explain a shape, run `hlo layout 'f32[8]{0}'`"),
        (("tiling",), "run `hlo help tiling` to read this topic"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else "",
)
def test_mistakes_have_a_hint(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments, standalone=False) == 2
    assert message in capsys.readouterr().err
