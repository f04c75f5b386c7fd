"""What is of unknown cost: neither 0 in a column, nor more or less than a number in a condition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_cli import Source, memory_analysis, parse_module
from hlo_cli.analysis.query.assertions import check_assertions
from hlo_cli.cli import main
from hlo_cli.commands.modules.instruction_tables import chosen, instructions_where
from hlo_cli.syntax.expectations import read_expectations

_CALLS = """HloModule m, is_scheduled=true
body {
  p = f32[8] parameter(0)
  c = f32[8] custom-call(p), custom_call_target="mine"
  ROOT n = f32[8] negate(c)
}
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] add(a, a)
  x = f32[8] custom-call(b), custom_call_target="mine"
  d = f32[8] call(x), to_apply=body
  ROOT r = f32[8] multiply(d, b)
}
"""
"""Of `c` and `x` no cost is known, and `d` costs at least the 8 flops of `n`."""


@pytest.mark.parametrize(
    ("expression", "expected", "passed_over"),
    [
        ("flops > 5", "nbdr", 2),
        ("not flops > 5", "pa", 2),
        ("flops < 5", "pa", 2),
        ("flops <= 8", "pnabr", 3),
        ("flops != 7", "pnabdr", 2),
        ("flops in (0, 9)", "pa", 3),
        ("bytes == 0", "pa", 2),
        ("transcendentals == 0", "pnabr", 3),
        ("intensity > 1000", "", 3),
        ("bytes > flops", "nbr", 3),
        ("opcode == custom-call and flops == 0", "", 2),
        ("opcode == add and flops > 5", "b", 0),
        ("opcode == custom-call or flops > 5", "cnbxdr", 0),
        ("not has(flops)", "cxd", 0),
    ],
)
def test_an_unknown_cost_compares_neither_way(expression: str, expected: str, passed_over: int) -> None:
    module = parse_module(_CALLS)
    found, notes = chosen(instructions_where(expression, module), module.instructions, "instructions")
    assert "".join(instruction.name for instruction in found) == expected
    assert [note.message.split()[0] for note in notes] == [str(passed_over)] * (passed_over > 0)


@pytest.mark.parametrize("command", ["parse --instructions", "layout --by instruction", "schedule --sequence"])
def test_an_unknown_cost_is_none_in_columns(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.joinpath("m.txt").write_text(_CALLS)
    name, *options = command.split()
    label = "name" if name == "parse" else "instruction"
    columns = [label, "flops", "transcendentals", "bytes", "intensity"]
    main(
        [name, str(tmp_path / "m.txt"), *options, "--columns", ",".join(columns), "--format", "json"], standalone=False
    )
    tables = json.loads(capsys.readouterr().out)["tables"]
    [rows] = [each["rows"] for each in tables.values() if set(each["rows"][0]) == set(columns)]
    found = {row[label]: [row[column] for column in columns[1:]] for row in rows}
    assert found["b"] == [8, 0, 96, 8 / 96]
    assert {name for name, figures in found.items() if figures == [None] * 4} == {"c", "x", "d"} & set(found)


def test_sums_with_unknown_parts_are_least_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.joinpath("m.txt").write_text(_CALLS)
    path = str(tmp_path / "m.txt")
    main(["parse", path, "--computation", "e", "--columns", "name,flops,bytes", "--format", "screen"], standalone=False)
    assert "at least 24 flops, 0 transcendentals, and 256 B accessed; 2 operations of" in capsys.readouterr().out
    main(["fuse", path, "--cost", "--format", "screen"], standalone=False)
    assert "m: at least 24 flops" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    ["parse --where", "parse --select", "layout --where", "fuse --cost --where", "schedule --sequence --where"],
)
def test_a_note_tells_how_many_are_passed_over(
    options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.joinpath("m.txt").write_text(_CALLS)
    name, *others = options.split()
    main([name, str(tmp_path / "m.txt"), *others, "flops == 3"], standalone=False)
    assert " skipped: --where depends on an unknown value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stated", "is_met"),
    [
        ("sum(flops) < 3", False),
        ("sum(flops) < 300", None),
        ("sum(flops) > 3", True),
        ("max(flops) > 3", True),
        ("max(flops) < 300", None),
        ("min(bytes) >= 0", None),
        ("none(flops > 100)", None),
        ("none(flops > 5)", False),
        ("exists(flops > 5)", True),
        ("exists(flops > 100)", None),
        ("count(flops == 7) < 9", True),
        ("sum(bytes, opcode == add) == 96", True),
    ],
)
def test_an_expectation_of_an_unknown_cost_is_told_only_if_the_rest_decides(stated: str, is_met: bool | None) -> None:
    expectations = read_expectations(Source("e.toml", f'expect = ["{stated}"]'))
    module = parse_module(_CALLS)
    [verdict] = check_assertions(module, expectations, memory=lambda: memory_analysis(module))
    assert verdict.is_met is is_met
    assert ("could not be evaluated: unknown cost of" in verdict.remark) is (is_met is None)
