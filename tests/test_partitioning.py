"""What the partitioner makes of a module, as predicted, against what XLA's partitioner made of the same programs."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

import pytest

from dumps import FIXTURES
from hlo_cli import chip_spec, parse_module
from hlo_cli.analysis.sharding.collectives import wire_bytes
from hlo_cli.analysis.sharding.partitioning import predicted_partitioning
from hlo_cli.cli import main
from hlo_cli.ir.module import Module
from hlo_cli.transform.module_time import module_time

SQUARE = "p = f32[8,8] parameter(0), sharding={devices=[8,1]<=[8]}"
PAIR = "p = (f32[8], f32[8]) parameter(0), sharding={{devices=[8]<=[8]}, {replicated}}"
FOLDER = FIXTURES / "partitioning"
TRUTH: dict[str, list[tuple[str, int, int, int]]] = json.loads((FOLDER / "truth.json").read_text())


def module_of(name: str) -> Module:
    return parse_module((FOLDER / f"{name}.hlo").read_text())


@pytest.mark.parametrize("name", TRUTH)
def test_the_collectives_are_those_of_the_partitioner(name: str) -> None:
    """Kinds, group sizes, and bytes; a compiler may combine several of one kind."""
    found = predicted_partitioning(module_of(name))
    assert found is not None
    predicted, true = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    sent = Fraction(0)
    for each in found.collectives:
        predicted[each.kind, each.devices or 0] += each.runs.count
        sent += (each.wire_bytes or 0) * each.runs.count
    measured = Fraction(0)
    for kind, devices, operand_bytes, runs in TRUTH[name]:
        true[kind, devices] += runs
        measured += wire_bytes(kind, operand_bytes, devices) * runs
    assert predicted.keys() == true.keys()
    assert all(predicted[key] >= number - 1 for key, number in true.items())
    assert float(sent) == pytest.approx(float(measured), rel=0.2)


@pytest.mark.parametrize("name", TRUTH)
def test_a_device_has_a_part_of_the_work(name: str) -> None:
    module = module_of(name)
    whole = module_time(module, chip_spec("h100"), is_optimized=False)
    share = whole.share
    assert share is not None
    assert 1 <= share.divisor <= 8
    assert share.devices == 8
    assert whole.estimate.low <= whole.estimate.seconds <= whole.estimate.high
    assert whole.estimate.seconds >= share.undivided.seconds / 8 + share.exchange.seconds * 0.999
    assert whole.estimate.seconds <= share.undivided.seconds + share.exchange.seconds * 1.001


def test_the_shares_of_dots_are_known() -> None:
    for name in ("rows_by_rows", "contracted"):
        found = predicted_partitioning(module_of(name))
        assert found is not None
        assert [count for each, count in found.parts.items() if each.opcode == "dot"] == [8]


def test_a_program_of_one_device_is_not_divided() -> None:
    plain = parse_module("ENTRY e { p = f32[64] parameter(0)  ROOT n = f32[64] negate(p) }")
    assert predicted_partitioning(plain) is None
    assert module_time(plain, chip_spec("h100"), is_optimized=False).share is None


@pytest.mark.parametrize(
    "body",
    [
        "p = f32[8,4] parameter(0), sharding={devices=[3,1]<=[3]}  ROOT n = f32[8,4] negate(p)",
        "p = f32[8] parameter(0), sharding={devices=[8]<=[8]}  ROOT r = f32[3,3] reshape(p)",
        "p = f32[8] parameter(0), sharding={maximal device=3}  ROOT r = f32[8,8] broadcast(p), dimensions={7}",
        f"{SQUARE} ROOT r = f32[] dot(p, p), lhs_contracting_dims={{0,1}}, rhs_contracting_dims={{0}}",
        f"{PAIR} ROOT r = f32[8] get-tuple-element(p), index=5",
    ],
)
def test_odd_shardings_end_in_an_answer(body: str) -> None:
    module = parse_module(f"HloModule m, num_partitions=8\nENTRY main {{ {body} }}")
    found = predicted_partitioning(module)
    assert found is not None
    assert all(1 <= each <= 8 for each in found.parts.values())


def test_schedule_and_shard_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(FOLDER / "rows_by_rows.hlo")
    assert main(["schedule", path, "--chip", "h100", "--format", "screen"], standalone=False) in (0, None)
    out, err = capsys.readouterr()
    assert "on each of 8 devices once partitioned" in " ".join(out.split())
    assert "1/8 of the work" in err
    assert "an all-gather (4 MiB) that the partitioner adds" in err
    assert main(["shard", path, "--comms"], standalone=False) in (0, None)
    assert "predicted: an all-gather, in which a device sends 3.5 MiB" in capsys.readouterr().err
