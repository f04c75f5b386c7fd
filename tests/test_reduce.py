"""`hlo reduce`: what it answers and writes for each kind of failure, and that a stopped search goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

import hlo_cli
import in_process

GOOD = """HloModule m

f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

ENTRY e {
  p = f32[4,4] parameter(0)
  q = f32[4,4] tanh(p)
  o = f32[] constant(0)
  s = f32[4] reduce(q, o), dimensions={1}, to_apply=f
  w = f32[4] multiply(s, s)
  ROOT r = f32[4] log(s), metadata={op_name="jit(f)/log"}
}
"""
BAD = GOOD.replace("tanh(p)", "cosine(p)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.hlo").write_text(GOOD)
    (tmp_path / "bad.hlo").write_text(BAD)
    return tmp_path


def run(arguments: Sequence[str], *, folder: Path) -> in_process.Answer:
    return in_process.run(arguments, folder=folder, settings={})


def reduce(folder: Path, *arguments: str) -> in_process.Answer:
    return run(["reduce", *arguments, "--format", "screen"], folder=folder)


def still_fails(folder: Path) -> str:
    """The summary of pytest on the folder, which fails."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(folder),
            str(folder),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(hlo_cli.__file__).parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "answer", "last"),
    [
        (("bad.hlo", "--against", "good.hlo"), "to 2 in 2 steps; still computes other results", "cosine(%p)"),
        (("bad.hlo", "--tolerance", "0.01", "--against", "good.hlo"), "still computes other results", "cosine(%p)"),
        (("good.hlo", "--probe", "nan"), "still computes NaN", "log(%s)"),
        (("good.hlo", "--check", "grep -q 'tanh(' {} && exit 7"), "command fail (exit code 7)", "tanh(%p)"),
        (("good.hlo", "--check", "cat {}", "--matching", " log[(]"), "print a match of ' log[(]'", "log(%s)"),
        (("good.hlo", "--oom", "70"), "needs more than 70 bytes at the peak", ""),
    ],
)  # fmt: skip
def test_each_failure_is_reduced_to_a_test_that_fails(
    folder: Path, arguments: tuple[str, ...], answer: str, last: str
) -> None:
    out, err, code = reduce(folder, *arguments, "-o", "out")
    assert code == 0, err
    assert out.startswith("reduced 9 instructions to ")
    assert answer in out.partition("\n\n")[0].replace("\n", " ")
    text = (folder / "out" / "reduced.hlo").read_text()
    assert last in text
    hlo_cli.parse_module(text, strict=True)
    names = {"README.md", "reduced.hlo", "test_reduced.py"}
    if {"--against", "--probe"} & set(arguments):
        arrays = np.load(folder / "out" / "args.npz")
        assert set(arrays) == {each.name for each in hlo_cli.parse_module(text).entry.parameters}
        names |= {"args.npz"} | ({"reference.hlo"} if "--against" in arguments else set())
    assert set(os.listdir(folder / "out")) == names
    assert set(os.listdir(folder)) == {"good.hlo", "bad.hlo", "out"}
    if arguments[1] == "--against":
        assert "1 failed" in still_fails(folder / "out")
    else:  # as pytest runs it, but in this process
        [test] = [each for name, each in run_path(str(folder / "out" / "test_reduced.py")).items() if "test_" in name]
        with pytest.raises(AssertionError):
            test(*([folder] if signature(test).parameters else []))
    page = (folder / "out" / "README.md").read_text()
    assert text.strip() in page
    assert arguments[1] in page


def test_the_page_says_how_to_see_the_failure(folder: Path) -> None:
    reduce(folder, "bad.hlo", "--against", "good.hlo", "-o", "out")
    page = (folder / "out" / "README.md").read_text()
    [command] = re.findall(r"`hlo (run [^`]+)`", page)
    _, _, code = run(command.split(), folder=folder / "out")
    assert code == 1


def test_json_has_the_module(folder: Path) -> None:
    out, _, code = run(["reduce", "bad.hlo", "--against", "good.hlo", "--json"], folder=folder)
    answer = json.loads(out)["answer"]
    assert code == 0
    assert (answer["instructions_before"], answer["instructions"], answer["minimal"]) == (9, 2, True)
    assert "cosine" in answer["reduced"]
    assert "tanh" in answer["reference"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("good.hlo",), "one of --against, --passes, --probe, --check, --finding, or --oom is required"),
        (("good.hlo", "--against", "good.hlo"), "do not differ by more than rounding: there is nothing to look for"),
        (("good.hlo", "--probe", "inf"), "no result has an element of --probe inf: there is nothing to look for"),
        (("good.hlo", "--check", "true"), "the command succeeds: there is nothing to look for"),
        (("good.hlo", "--check", "true", "--matching", "("), "is not a regular expression"),
        (("good.hlo", "--finding", "HLO102"), "no finding of HLO102: there is nothing to look for"),
        (("good.hlo", "--oom", "1GiB"), "the peak is not above 1GiB: there is nothing to look for"),
        (("good.hlo", "--passes"), "--passes requires a directory of per-pass dumps"),
        (("good.hlo", "--probe", "nan", "--tolerance", "1"), "--tolerance requires --against or --passes"),
        (("good.hlo", "--probe", "nan", "--oom", "1"), "cannot be used"),
        (("good.hlo", "--probe", "nan", "-o", "bad.hlo"), "cannot write bad.hlo: it exists"),
        (("good.hlo", "--probe", "nan", "-o", "no/out"), "does not exist"),
    ],
)
def test_what_cannot_be_reduced_is_an_error(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    _, err, code = reduce(folder, *arguments)
    assert code == 2
    assert words in err
    assert set(os.listdir(folder)) == {"good.hlo", "bad.hlo"}


def test_parameters_of_other_sizes_are_an_error(folder: Path) -> None:
    (folder / "other.hlo").write_text(GOOD.replace("4,4", "4,3"))
    _, err, code = reduce(folder, "good.hlo", "--against", "other.hlo")
    assert (code, "the parameters of the two modules have different types or sizes" in err) == (2, True)


def test_several_jobs_find_the_same(folder: Path) -> None:
    found = [
        reduce(folder, "good.hlo", "--check", "grep -q 'reduce(' {} && exit 7", "-q", "--jobs", jobs)[0]
        for jobs in ("1", "3")
    ]
    assert found[0] == found[1]


def test_a_module_that_xla_refuses_is_reduced_by_a_command(folder: Path) -> None:
    """It may be what makes a compiler crash: then candidates may be refused as well."""
    (folder / "odd.hlo").write_text(GOOD.replace("f32[4,4] tanh(p)", "f32[4,4] tanh(p), odd_attribute=3"))
    _, err, code = reduce(folder, "odd.hlo", "--check", "grep -q odd_attribute {} && exit 7", "-o", "out")
    assert code == 0, err
    text = (folder / "out" / "reduced.hlo").read_text()
    assert text.count(" = ") == 2
    assert "odd_attribute=3" in text


PARSE = "import sys; from jaxlib import _hlo; _hlo.hlo_module_from_text(open(sys.argv[1]).read())"


@pytest.mark.oracle
def test_a_crash_of_the_parser_of_xla_is_reduced_to_the_literal(folder: Path) -> None:
    if find_spec("jaxlib") is None:
        pytest.skip("jaxlib is not installed")
    (folder / "crash.hlo").write_text(GOOD.replace("constant(0)", "constant(true)"))
    (folder / "parse.py").write_text(PARSE)
    check = f"{sys.executable} {folder / 'parse.py'} {{}}"
    _, err, code = reduce(folder, "crash.hlo", "--check", check, "-o", "out")
    assert code == 0, err
    lines = (folder / "out" / "reduced.hlo").read_text().split("\n")
    assert [line.strip() for line in lines if " = " in line] == ["ROOT %o = f32[] constant(true)"]


def test_passes_are_reduced_to_the_one_that_changes_results(folder: Path) -> None:
    dumps = folder / "dumps"
    dumps.mkdir()
    for number, (name, text) in enumerate(
        [("start", GOOD), ("dce", GOOD.replace("  w = f32[4] multiply(s, s)\n", "")), ("algsimp", BAD)]
    ):
        (dumps / f"module_0001.jit_f.cpu.{number:04}.pipeline.after_{name}.before_end.txt").write_text(text)
    _, err, code = reduce(folder, "dumps", "--passes", "-o", "out")
    assert code == 0, err
    assert "cosine(%p)" in (folder / "out" / "reduced.hlo").read_text()
    assert "tanh(%p)" in (folder / "out" / "reference.hlo").read_text()


@pytest.mark.slow
def test_a_partitioned_program_is_reduced_against_the_whole_one(folder: Path) -> None:
    """A fault of jaxlib 0.10.2: a collective-permute that the reference does not have."""
    dumps = sorted((Path(__file__).parent / "data" / "mesh3d").iterdir())
    _, err, code = reduce(folder, str(dumps[1]), "--against", str(dumps[0]), "-o", "out")
    assert code == 0, err
    texts = [(folder / "out" / f"{name}.hlo").read_text() for name in ("reduced", "reference")]
    assert ["collective-permute" in text for text in texts] == [True, False]
    assert texts[0].count(" = ") <= 4
    assert "1 failed" in still_fails(folder / "out")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_search_that_was_stopped_goes_on(folder: Path, number: signal.Signals) -> None:
    chain = "  ".join(f"a{at + 1} = f32[] negate(a{at})" for at in range(40))
    text = f"HloModule m  ENTRY e {{ a0 = f32[] parameter(0)  {chain}  t = f32[] tanh(a40)  ROOT r = f32[] abs(t) }}"
    (folder / "chain.hlo").write_text(text)
    log = folder / "log"
    check = f"echo x >> {log}; grep -q 'tanh(' {{}} || exit 0; sleep 0.05; exit 7"
    command = [sys.executable, "-m", "hlo_cli", "reduce", "chain.hlo", "--check", check, "-o", "out"]
    environment = {**os.environ, "PYTHONPATH": str(Path(hlo_cli.__file__).parents[1])}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    process = start()
    verdicts = folder / "out.part" / "verdicts"
    while not verdicts.exists() or len(verdicts.read_text().splitlines()) < 4:
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(number)
    process.wait(20)
    temporary = [name for name in os.listdir(folder / "out.part") if name != "verdicts"]
    assert len(temporary) == (1 if number == signal.SIGKILL else 0), "what the next search removes"
    known = len(verdicts.read_text().splitlines()) - 1
    assert not (folder / "out").exists()
    ran = len(log.read_text().splitlines())
    assert start().wait(60) == 0
    again = len(log.read_text().splitlines()) - ran
    assert set(os.listdir(folder)) >= {"out"}
    assert "out.part" not in os.listdir(folder)
    page = (folder / "out" / "README.md").read_text()
    steps = int(re.findall(r"in ([\d,]+) steps", page)[0])
    assert again <= steps - known + 1
