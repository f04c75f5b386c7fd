"""A chip is one row: one that is made up while the tests run is known to every command that asks for chips."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from dumps import FIXTURES
from hlo_cli.analysis.hardware import chip_table
from hlo_cli.analysis.hardware.chip_table import Capacity, Chip, TpuGeneration, rate_from
from hlo_cli.analysis.hardware.chips import USUAL_TPU, find_chip, tpu_generation, tpu_generations
from hlo_cli.analysis.layout.buffer_sizes import table_bytes
from hlo_cli.cli import main
from hlo_cli.ir.memory_space import TpuMemorySpace
from parsed import files, nodes_of, text_of

DUMP = str(FIXTURES / "tpu" / "v5e_conv")


def made_up() -> Chip:
    known = find_chip("v5e")
    return replace(
        known,
        name="v9x",
        aliases=("v9 extra",),
        tpu=TpuGeneration("v9x", table_granule=64, heap_limit=None, has_large_tiles=True),
        memories={TpuMemorySpace.HBM: Capacity(1 << 16, "a page"), TpuMemorySpace.VMEM: Capacity(1 << 10, "a page")},
        usable=None,
        spec=replace(known.spec, chip="v9x", memory=rate_from("a page", 1e-6)),
    )


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chip_table, "TPUS", (*chip_table.TPUS, made_up()))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(list(words), standalone=False)
    out, err = capsys.readouterr()
    return out + err


def test_layout_has_its_default_tiles(capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, "layout", "--for", "V9 extra", "s8[300,70]", "--format", "json")
    assert '"generation": "v9x"' in said
    assert "{0,1:T(8,128)(4,1)}" in said


def test_memspace_compares_with_its_memories(capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, "memspace", DUMP, "--chip", "TPU v9x", "--format", "json")
    assert f'"fits": false, "limit_bytes": {1 << 10}' in said


def test_schedule_takes_its_rates(capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, "schedule", DUMP, "--chip", "v9x")
    assert "times are estimates for v9x: 197 Tflop/s in bf16, 1 MB/s memory" in said


def test_fuse_takes_its_rates(capsys: pytest.CaptureFixture[str]) -> None:
    assert "v9x" in answer(capsys, "fuse", DUMP, "--dots", "--chip", "v9x")


def test_costs_round_as_its_compiler_does() -> None:
    tpu = find_chip("v9x").tpu
    assert tpu is not None
    assert tpu.table_granule == 64
    assert table_bytes(3, "tpu", "v9 extra") == 64


def test_the_usual_one_has_the_usual_tiles() -> None:
    assert not tpu_generation(USUAL_TPU).has_large_tiles


def test_its_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "v9x   aliases: v9 extra" in answer(capsys, "help", "chips")
    assert "available: v2," in answer(capsys, "memspace", DUMP, "--chip", "qqq")


@pytest.mark.code
def test_no_other_file_names_a_generation() -> None:
    names = {generation.name for generation in tpu_generations()}
    named = {
        path.name
        for path in files()
        if any(name in text_of(path) for name in names)
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert named == {"chip_table.py", "chips.py"}
