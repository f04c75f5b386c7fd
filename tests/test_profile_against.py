"""`hlo profile NEW --against OLD`: what it shows of a program whose activation function changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hlo_cli.cli import main
from hlo_cli.render.draw.table import lines_of_table
from hlo_cli.render.style import Style
from hlo_cli.report.table import Column, Table
from in_process import Answer, run
from strategies import FIXTURES
from test_step_budget import operation, step, written

OLD, NEW = (str(FIXTURES / f"traces/cpu_edit/{name}.xplane.pb.gz") for name in ("before", "after"))


def hlo(*arguments: str) -> Answer:
    return run(arguments, folder=FIXTURES, settings={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"})


def screen(*arguments: str) -> str:
    return hlo(*arguments, "--format", "screen")[0]


def records(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hlo(*arguments, "--format", "json")[0])
    return found


def test_changed_code_and_the_rest_are_apart() -> None:
    report = records("profile", NEW, "--against", OLD)
    answer, tables = report["answer"], report["tables"]
    assert (answer["unit"], answer["before_units"], answer["after_units"]) == ("step", 20, 19)
    assert (answer["changed_kernels"], answer["same_kernels"], answer["outliers"]) == (3, 7, 0)
    assert answer["statements"][0].startswith("tanh ×3 became")
    rows = tables["changes"]["rows"]
    assert {row["before"] for row in rows} == {"wrapped_tanh", "wrapped_tanh.1", "wrapped_tanh.2"}
    assert all(row["difference"].startswith("tanh → multiply") and row["ranges"] == "apart" for row in rows)
    assert sum(row["difference_seconds"] for row in rows) == pytest.approx(answer["changed_difference_seconds"])
    assert len(tables["unchanged"]["rows"]) == 7
    inside = tables["differences"]["rows"]
    assert {row["kernel"] for row in inside} == {row["kernel"] for row in rows}
    assert [row["opcode"] for row in inside if row["change"] == "-"] == ["tanh"] * 3
    (program,) = tables["programs"]["rows"]
    assert (program["before"], program["after"]) == ("jit_forward", "jit_forward")


def test_the_first_line_has_both_sums() -> None:
    done = screen("profile", NEW, "--against", OLD)
    first = done.partition("\n\n")[0].replace("\n", " ")
    assert first == "Changed code takes 157.7 µs more per step; the rest ran 25.8 µs slower, unchanged"
    assert "10 of 10 kernels matched by structure, 3 under another name · 20 and 19 steps" in done
    back = screen("profile", OLD, "--against", NEW)
    first = back.partition("\n\n")[0].replace("\n", " ")
    assert first == "Changed code takes 157.7 µs less per step; the rest ran 25.8 µs faster, unchanged"


def test_the_pace_of_unchanged_code_is_that_of_its_sum() -> None:
    numbers = records("profile", NEW, "--against", OLD)["answer"]
    share = round(100 * (numbers["same_after_seconds"] / numbers["same_before_seconds"] - 1))
    assert f"unchanged code {share}% slower" in screen("profile", NEW, "--against", OLD).replace("\n", " ")


def test_columns_with_one_unit_have_that_of_the_largest_total() -> None:
    columns = (
        Column("instruction", "instruction", "name"),
        Column("before_seconds", "before", "seconds", total="sum"),
        Column("after_seconds", "after", "seconds", like="before_seconds", total="sum"),
    )
    table = Table("t", columns, (("a", 6e-3, 1e-3), ("b", 6e-3, 1e-3)))
    drawn = "\n".join(map(str, lines_of_table(table, Style())))
    assert "ms" in drawn and "2,000" not in drawn  # noqa: PT018


def test_a_trace_of_the_same_program_says_so() -> None:
    done = screen("profile", OLD, "--against", OLD)
    assert done.startswith("Same program: 126.3 µs → 126.3 µs per step\n")
    assert "hlo diff" not in done
    single = str(FIXTURES / "traces/cpu/trace.xplane.pb")
    done = screen("profile", single, "--against", single)
    assert "unchanged; too few calls to compare" in done


def test_programs_are_matched_by_name() -> None:
    report = records("profile", NEW, "--against", str(FIXTURES / "traces/cpu/trace.xplane.pb"))
    rows = report["tables"]["programs"]["rows"]
    assert {(row["before"], row["after"]) for row in rows} == {
        ("jit_step", None),
        ("jit_loss", None),
        (None, "jit_forward"),
    }
    assert {row["kernel_code"] for row in report["tables"]["changes"]["rows"]} == {"new", "gone"}
    statements = report["answer"]["statements"]
    assert [each.partition(",")[0] for each in statements] == [
        "jit_loss: gone program",
        "jit_step: gone program",
        "jit_forward: new program",
    ]
    assert all(" per " in each or "in the trace" in each for each in statements)


@pytest.mark.parametrize("options", [("--where", "calls > 1"), ("--by", "source"), ("fusion.1",)])
def test_options_without_an_effect_conflict(options: tuple[str, ...]) -> None:
    _, error, code = hlo("profile", NEW, *options, "--against", OLD)
    assert code == 2
    assert "cannot be used with" in error
    assert "--against" in error


def test_a_missing_trace_is_an_error(tmp_path: Path) -> None:
    _, error, code = hlo("profile", NEW, "--against", str(tmp_path / "no.xplane.pb"))
    assert (code, "not found" in error) == (2, True)
    assert "--against-dump requires --against OLD" in hlo("profile", NEW, "--against-dump", OLD)[1]


def test_what_the_host_did_more_is_named_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty microseconds of each step were of the loader, and are sixty."""
    for name, load in (("before", 20), ("after", 60)):
        events = []
        for at in range(4):
            begin = 200 * at
            events += [step(at, begin, begin + load + 40), operation("dot.1", begin + load, begin + load + 40, run=at)]
            events.append(("python", begin, begin + load, "load batch", {}))
        (tmp_path / name).mkdir()
        written(events, tmp_path / name)
    arguments = [str(tmp_path / "after"), "--against", str(tmp_path / "before")]
    assert main(["profile", *arguments, "--json"], standalone=False) == 0
    rows = {row["step_part"]: row for row in json.loads(capsys.readouterr().out)["tables"]["step_parts"]["rows"]}
    assert rows["waiting for input"]["before_seconds"] == pytest.approx(20e-6)
    assert rows["waiting for input"]["difference_seconds"] == pytest.approx(40e-6)
    assert rows["compute"]["difference_seconds"] == pytest.approx(0)
    assert main(["profile", *arguments, "--format", "screen"], standalone=False) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("Waiting for input takes 40.0 µs more per step: load batch; ")


def test_steps_of_other_programs_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The loader took 40 microseconds more, but no program is in both profiles."""
    for name, load in (("before", 20), ("after", 60)):
        events = []
        for at in range(4):
            begin = 200 * at
            thread, first, last, kernel, statistics = operation("dot.1", begin + load, begin + load + 40, run=at)
            statistics = {**statistics, "hlo_module": f"jit_{name}"}
            events += [step(at, begin, begin + load + 40), (thread, first, last, kernel, statistics)]
            events.append(("python", begin, begin + load, "load batch", {}))
        (tmp_path / name).mkdir()
        written(events, tmp_path / name)
    arguments = [str(tmp_path / "after"), "--against", str(tmp_path / "before")]
    assert main(["profile", *arguments, "--format", "screen"], standalone=False) == 0
    assert capsys.readouterr().out.splitlines()[0] == "No program is in both profiles"
