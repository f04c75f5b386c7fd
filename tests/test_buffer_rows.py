"""Rows of the timeline of `hlo memspace`: they add up to the totals of every memory, and describe their values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import pytest

from dumps import FIXTURES
from hlo_cli import parse_module
from hlo_cli.analysis.dataflow.value_sets import first_users, uses_of_value
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.cli import main
from hlo_cli.commands.memspace.compiler_files import compiler_memory
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.report import report_of_memory
from hlo_cli.commands.modules.loading import load_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.inputs.input import read_inputs, select_module
from hlo_cli.report.timeline import Timeline

FOLDERS = sorted({path.parent for path in FIXTURES.glob("*/*/*after_optimizations.txt*")})
CORPUS = "HLO_CORPUS"
"""The variable of the environment that names a directory of dumps for the long test."""


def timeline_of(folder: Path) -> Timeline:
    loaded = load_one([str(folder)], InputOptions(module=select_module(read_inputs([str(folder)])).module))
    report = report_of_memory(loaded, compiler_memory(loaded), MemspaceOptions(space="all"), "")
    found = [part for part in report.parts if isinstance(part, Timeline)]
    return found[0] if found else Timeline("buffers", ())


def assert_rows_add_up(found: Timeline) -> None:
    """At every step, the bytes of a memory's rows are its total; an array has no more data than bytes."""
    table = found.as_table()
    assert table is not None or not found.tracks
    rows = (
        [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows] if table else []
    )
    for track in found.tracks:
        mine = [row for row in rows if row["space"] == track.name]
        assert sums(mine, "bytes", found.steps) == list(track.totals), track.name
        arrays = [row for row in mine if not str(row["shape"]).startswith("(")]
        assert all(number(row["logical_bytes"]) <= number(row["bytes"]) for row in arrays)


def sums(rows: Sequence[Mapping[str, object]], name: str, steps: int) -> list[int]:
    change = [0] * (steps + 1)
    for row in rows:
        change[number(row["start"])] += number(row[name])
        change[number(row["end"]) + 1] -= number(row[name])
    return list(accumulate(change[:-1]))


def number(cell: object) -> int:
    assert isinstance(cell, int)
    return cell


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_rows_add_up_to_the_totals(folder: Path) -> None:
    assert_rows_add_up(timeline_of(folder))


@pytest.mark.long
@pytest.mark.skipif(CORPUS not in os.environ, reason=f"{CORPUS} does not name a directory of dumps")
def test_rows_of_a_corpus_add_up_to_the_totals() -> None:
    folders = sorted({path.parent for path in Path(os.environ[CORPUS]).glob("**/*after_optimizations.txt*")})
    assert folders
    for folder in folders:
        assert_rows_add_up(timeline_of(folder))


@pytest.mark.parametrize("folder", FOLDERS[::6], ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_first_users_are_those_of_each_value(folder: Path) -> None:
    """Some hundred values of each dump; the users of one value are found in another way."""
    loaded = load_one([str(folder)], InputOptions(module=select_module(read_inputs([str(folder)])).module))
    memory = memory_analysis(loaded.module)
    dataflow = memory.facts.dataflow
    found = first_users(dataflow, memory.sequence, 3)
    for value in dataflow.values[:: max(len(dataflow.values) // 100, 1)]:
        uses = [use for use in uses_of_value(dataflow, value) if use in memory.positions]
        uses.sort(key=memory.positions.__getitem__)
        count, first = found.get(value, (0, ()))
        assert (count, list(first)) == (len(uses), uses[:3])


PROGRAM = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY e {
  p = f32[64]{0} parameter(0)
  q = f32[64]{0} parameter(1), metadata={op_name="weights"}
  a = f32[64]{0} sine(p), metadata={op_name="f/sin" source_file="model.py" source_line=3}
  c = f32[64]{0} copy(a)
  s = (f32[64]{0}, f32[64]{0}) custom-call(c, q), custom_call_target="two"
  x = f32[64]{0} get-tuple-element(s), index=0
  y = f32[64]{0} get-tuple-element(s), index=1
  b = f32[64]{0} add(x, y)
  d = f32[64]{0} multiply(b, x)
  ROOT t = (f32[64]{0}, f32[64]{0}) tuple(d, b)
}
"""


def rows_of(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> dict[str, dict[str, object]]:
    assert main(["memspace", str(path), "--space", "all", "--format", "json", *options], standalone=False) == 0
    return {row["value"]: row for row in json.loads(capsys.readouterr().out)["tables"]["buffers"]["rows"]}


def test_rows_describe_their_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(PROGRAM)
    rows = rows_of(capsys, path)
    assert (rows["s{1}"]["opcode"], rows["s{1}"]["index"], rows["s{1}"]["users"]) == ("custom-call", [1], ["b"])
    assert (rows["s{0}"]["user_count"], rows["s{0}"]["users"]) == (2, ["b", "d"])
    assert (rows["a"]["source"], rows["a"]["origin"], rows["a"]["users"]) == ("model.py:3", None, ["c"])
    assert (rows["c"]["source"], rows["c"]["origin"]) == ("", "model.py:3")
    assert (rows["q"]["origin"], rows["q"]["index"]) == ("(arguments)", None)
    assert all(row["logical_bytes"] == row["bytes"] for row in rows.values())


def test_a_row_that_ends_early_has_the_end_of_its_live_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`b` takes the place of its operand in the step in which that is read last, so one of the two ends earlier."""
    path = tmp_path / "dump.txt"
    path.write_text(PROGRAM)
    for name, row in rows_of(capsys, path).items():
        if row["reused_by"]:
            assert row["live_end"] == int(str(row["end"])) + 1, name
        else:
            assert row["live_end"] is None, name
    values = {str(value): value for value in memory_analysis(parse_module(PROGRAM)).values}
    assert any(row["live_end"] == values[name].end for name, row in rows_of(capsys, path).items())


def test_every_memory_has_its_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = next(each for each in FOLDERS if each.name.startswith("v5e_"))
    assert main(["memspace", str(folder), "--space", "all", "--chip", "v5e", "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)
    chip = find_chip("v5e")
    spaces = {row["space"]: row for row in found["tables"]["spaces"]["rows"]}
    assert len([row for row in spaces.values() if row["limit_bytes"]]) > 1
    for track in found["timelines"]["buffers"]["tracks"]:
        limit = chip.limit(spaces[track["name"]]["memory_space"])
        expected = limit.bytes if limit is not None else None
        assert track["limit_bytes"] == spaces[track["name"]]["limit_bytes"] == expected


def test_a_given_limit_is_that_of_main_memory(capsys: pytest.CaptureFixture[str]) -> None:
    folder = next(each for each in FOLDERS if each.name.startswith("v5e_"))
    main(["memspace", str(folder), "--limit", "16GiB", "--format", "json"], standalone=False)
    rows = json.loads(capsys.readouterr().out)["tables"]["spaces"]["rows"]
    assert {row["space"]: row["limit_bytes"] for row in rows if row["limit_bytes"]} == {"HBM": 16 << 30}
