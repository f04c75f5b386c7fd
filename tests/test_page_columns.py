"""Columns that pages read: best orders, kernels, users, and origins; each is checked against another way to find it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dumps import FIXTURES
from hlo_cli import parse_shape
from hlo_cli.analysis.cache import sharing
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.cli import main
from hlo_cli.commands.modules.loading import load_one
from hlo_cli.commands.options.io_options import InputOptions

CONVNET = next(FIXTURES.glob("tpu/v5e_conv*"))
TRAINING = FIXTURES / "tpu" / "v5e_gathered_weights"


def tables(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[dict[str, object]]]:
    assert main([*arguments, "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)["tables"]
    return {name: table["rows"] for name, table in found.items()}


def number(cell: object) -> float:
    assert isinstance(cell, int | float)
    return cell


@pytest.mark.parametrize("grouping", ["shape", "instruction"])
def test_the_best_order_has_the_bytes_it_names(grouping: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Witness: the size of the shape written with that order; without tiles in it, those of the row's own layout."""
    rows = tables(capsys, "layout", str(CONVNET), "--by", grouping)[f"{grouping}s"]
    better = [row for row in rows if row["best_order"] is not None]
    assert better
    for row in rows:
        assert (row["best_order"] is None) == (row["best_order_bytes"] is None) == (row["saving_bytes"] == 0)
    for row in better:
        head, _, layout = str(row["shape"]).partition("{")
        order = str(row["best_order"])
        written = order if ":" in order else f"{order[:-1]}:{layout.partition(':')[2]}"
        size = parse_shape(f"{head}{written}").padded_bytes
        assert (
            number(row["count"]) * size
            == row["best_order_bytes"]
            == number(row["padded_bytes"]) - number(row["saving_bytes"])
        )


def test_groups_of_several_shapes_have_no_best_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert "best_order" not in tables(capsys, "layout", str(CONVNET), "--by", "opcode")["opcodes"][0]


def test_every_kernel_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    found = tables(capsys, "fuse", str(TRAINING), "--chip", "v5e")
    kernels = {row["instruction"]: row for row in found["kernels"]}
    for fusion in found["fusions"]:
        if fusion["fusion"] not in kernels:  # the done of a fused collective waits, and launches nothing
            assert str(fusion["fusion"]).startswith("async-collective-done")
            continue
        row = kernels[fusion["fusion"]]
        same = ("read_bytes", "written_bytes", "saved_bytes", "flops", "bytes", "estimated_seconds", "fused", "source")
        assert {name: row[name] for name in same} == {name: fusion[name] for name in same}
    plain = [row for row in found["kernels"] if row["opcode"] not in ("fusion", "custom-call", "copy-start")]
    computed = [row for row in plain if row["kernel_kind"] == "codegen"]
    assert computed
    for row in computed:
        assert number(row["estimated_seconds"]) >= 0
        assert number(row["read_bytes"]) + number(row["written_bytes"]) == row["bytes"]
        assert (row["saved_bytes"], row["fused"]) == (None, None)
        assert row["source"] is None or row["origin"] is None


KERNELS = """HloModule m

ENTRY e {
  p = f32[64]{0} parameter(0)
  c = f32[64]{0} copy(p)
  a = f32[64]{0} sine(c), metadata={op_name="f/sin" source_file="model.py" source_line=3}
  b = f32[64]{0} copy(a)
  ROOT d = f32[64]{0} multiply(b, b)
}
"""


def test_kernels_without_a_source_have_an_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(KERNELS)
    rows = {row["instruction"]: (row["source"], row["origin"]) for row in tables(capsys, "fuse", str(path))["kernels"]}
    assert rows["a"] == ("model.py:3", None)
    assert rows["b"] == (None, "model.py:3")
    assert rows["c"] == (None, "model.py:3")


def test_instructions_have_their_users(capsys: pytest.CaptureFixture[str]) -> None:
    """Witness: the operands of all instructions."""
    dump = next(path for path in sorted(CONVNET.glob("*after_optimizations.txt*")))
    rows = tables(capsys, "parse", str(dump), "--instructions")["instructions"]
    expected: dict[str, set[str]] = {str(row["name"]): set() for row in rows}
    for row in rows:
        for operand in filter(None, str(row["operands"] or "").split(", ")):
            expected[operand].add(str(row["name"]))
    for row in rows:
        assert row["users"] == len(expected[str(row["name"])])


def test_steps_have_sources_and_origins_when_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(KERNELS)
    steps = {row["instruction"]: row for row in tables(capsys, "schedule", str(path), "--sequence")["steps"]}
    assert (steps["a"]["source"], steps["b"]["source"]) == ("model.py:3", None)
    assert "origin_source" not in steps["a"]
    columns = ("--columns", "instruction,origin_source")
    named = tables(capsys, "schedule", str(path), "--sequence", *columns)["steps"]
    assert {row["instruction"]: row["origin_source"] for row in named}["b"] == "model.py:3"


def test_pairs_have_origins_when_named(capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--columns", "instruction,origin_source")
    rows = tables(capsys, "schedule", str(TRAINING), *columns)["pairs"]
    assert any(str(row["origin_source"]).count(":") for row in rows)


def test_memory_for_a_chip_that_the_dump_tells_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guessed generation gives what a told one does, but for the limit, unless the limit changes the strategy."""
    module = load_one([str(CONVNET)], InputOptions()).module
    alone, told = memory_analysis(module), memory_analysis(module, generation="v5e")
    with sharing():
        first = memory_analysis(module, generation="v5e")
        monkeypatch.setattr("hlo_cli.analysis.memory.memory_analysis.assign", None)
        second = memory_analysis(module)
    assert (first.limit, first.is_generation_known, first.values) == (told.limit, True, told.values)
    assert (second.limit, second.is_generation_known) == (None, False) == (alone.limit, alone.is_generation_known)
    assert (second.values, second.spaces, second.allocations) == (alone.values, alone.spaces, alone.allocations)
