"""Programs of one name in a trace: their times are never mixed up, in `hlo profile`, `report`, and `lint`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hlo_cli.library import parse_module
from in_process import Answer, run
from strategies import FIXTURES
from traces_of_cpus import Ran, cpu_file

LOOP = """HloModule jit_f
body {{ p = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(p), index=0  c = s32[] constant(1)
  x = f32[{n}] get-tuple-element(p), index=1  j = s32[] add(i, c)  y = f32[{n}] negate(x)
  ROOT t = (s32[], f32[{n}]) tuple(j, y) }}
cond {{ p = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(p), index=0  k = s32[] constant(9)
  ROOT r = pred[] compare(i, k), direction=LT }}
ENTRY e {{ a = f32[{n}] parameter(0)  z = s32[] parameter(1)  s = (s32[], f32[{n}]) tuple(z, a)
  ROOT w = (s32[], f32[{n}]) while(s), condition=cond, body=body }}
"""


def hlo(*arguments: str, columns: int = 80) -> Answer:
    settings = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    return run(arguments, folder=Path.cwd(), settings=settings)


def records(*arguments: str) -> dict[str, Any]:
    out, error, code = hlo(*arguments, "--format", "json")
    assert code == 0, error
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """The path of `two_programs`."""
    return two_programs(tmp_path)


def two_programs(folder: Path) -> str:
    """A trace of two programs jit_f: 8 ran two iterations of 10 ns each, 9 three of 100 ns each."""
    files = [
        cpu_file(
            [Ran("y", begin + 200 * at, each, run) for at in range(trips)],
            parse_module(LOOP.format(n=size)),
            id=id,
        )
        for id, size, run, begin, trips, each in ((8, 64, 1, 0, 2, 10), (9, 4096, 2, 1000, 3, 100))
    ]
    path = folder / "t.xplane.pb"
    path.write_bytes(b"".join(files))
    return str(path)


def test_programs_of_one_name_have_their_ids_in_theirs(trace: str) -> None:
    by_module = records("profile", trace, "--by", "module")["tables"]["modules"]["rows"]
    assert {row["module"]: round(row["self_seconds"] * 1e9) for row in by_module} == {"jit_f(8)": 20, "jit_f(9)": 300}
    computations = records("profile", trace, "--by", "computation")["tables"]["computations"]["rows"]
    assert {row["computation"]: row["calls"] for row in computations} == {
        "body of jit_f(8)": 2,
        "body of jit_f(9)": 3,
    }
    assert "jit_f(8) and 1 other module" in " ".join(hlo("profile", trace, "--format", "screen")[0].split())


def test_each_of_them_can_be_selected(trace: str) -> None:
    for id, calls in ((8, 2), (9, 3)):
        answer = records("profile", trace, "y", "--module", f"jit_f({id})")["answer"]
        assert (answer["module"], answer["calls"]) == (f"jit_f({id})", calls)
    assert len(records("profile", trace, "--module", "jit_f")["tables"]["operations"]["rows"]) == 2
    notes = [each["message"] for each in records("profile", trace, "y")["notes"]]
    assert "showing y of jit_f(9); use --module 'jit_f(8)' to show that of jit_f(8)" in notes
    error = hlo("profile", trace, "--module", "jit_f(7)")[1]
    assert "unknown module 'jit_f(7)'" in error


def test_the_next_command_selects_the_same_computation(trace: str) -> None:
    screen = hlo("profile", trace, "--by", "computation", "--format", "screen", columns=200)
    assert """--module 'jit_f(9)' --where 'computation == "body"'""" in screen[0] + screen[1]


def test_a_report_has_the_times_of_its_own_program(trace: str) -> None:
    for number, nanoseconds in ((1, 20), (2, 300)):
        answer = records("report", f"{trace}#{number}", "--profile", trace)["answer"]
        assert answer["profile"]["measured_seconds"] * 1e9 * answer["profile"]["units"] == pytest.approx(nanoseconds)
    assert records("report", trace)["answer"]["profile"]["measured_seconds"] == pytest.approx(300e-9)  # the longest
    assert "f32[64]" in hlo("parse", trace, "--module", "jit_f(8)", "--format", "hlo")[0]


def test_a_dump_has_the_times_of_the_program_that_it_fits(trace: str, tmp_path: Path) -> None:
    for size, nanoseconds in ((64, 20), (4096, 300)):
        dump = tmp_path / f"{size}.txt"
        dump.write_text(LOOP.format(n=size))
        answer = records("report", str(dump), "--profile", trace)["answer"]["profile"]
        assert answer["measured_seconds"] * 1e9 * answer["units"] == pytest.approx(nanoseconds)


def test_findings_have_the_times_of_their_own_program(tmp_path: Path) -> None:
    from hlo_cli.analysis.profile.measure import measure
    from hlo_cli.commands.lint.checking import LintedModule, LintResult
    from hlo_cli.commands.lint.measured import measured_findings
    from hlo_cli.commands.profile.measured import LoadedProfile, read_program
    from hlo_cli.read_traces import read_trace_bytes
    from hlo_cli.report.findings import Finding
    from hlo_cli.source import Source

    path = two_programs(tmp_path)
    profile = measure(read_trace_bytes(Path(path).read_bytes(), path), read_program)
    modules = tuple(LintedModule(f"{path}#{number}", "jit_f", None, 1) for number in (1, 2))
    found = [Finding("note", "m", source=Source(each.path, ""), instruction="y") for each in modules]
    measured = measured_findings(found, LintResult((), (), (), (), modules), LoadedProfile(profile, path, path))
    times = {each.measured.module: each.measured.seconds for each in measured.found if each.measured is not None}
    assert times == pytest.approx({"jit_f(8)": 20e-9, "jit_f(9)": 300e-9})


def test_a_profile_of_other_modules_is_an_error(trace: str) -> None:
    _, error, code = hlo("lint", str(FIXTURES / "cpu/softmax"), "--profile", trace)
    assert (code, "is not in the profile" in error) == (2, True)
