"""`hlo shard SHAPE SHARDING --to SHARDING`: the answer, the axes of steps, and the sharding to go through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hlo_cli import parse_shape, reshard, sharding_of
from hlo_cli.cli import main


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON of a command line."""
    assert main(["shard", *arguments, "--format", "json"], standalone=False) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_steps_have_the_axes_of_the_mesh(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(
        capsys, "f32[2048,2048]", "P('data','model')", "--mesh", "data=2,model=4", "--to", "P('model','data')"
    )
    rows = found["tables"]["steps"]["rows"]
    assert [(row["operation"], row["axis"], row["wire_bytes"]) for row in rows] == [
        ("all-to-all", "model:(2)2", 1 << 20),
        ("collective-permute", "data +1,model +2", 1 << 20),
    ]
    assert [row["moving_devices"] for row in rows] == [8, 4]
    assert found["answer"]["wire_bytes"] == 2 << 20


def test_edges_have_the_axes_that_divide_their_dimension(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(capsys, "f32[10,6]", "P('data','model')", "P('model','data')", "--mesh", "data=4,model=2")
    rows = found["tables"]["steps"]["rows"]
    assert [row["axis"] for row in rows] == ["model", "data:(2)2", "data:(1)2", "data +2,model +1"]


def test_a_detour_is_a_partition_spec_over_the_mesh(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(capsys, "f32[16,16,16]", "P('y',None,'x')", "P(None,('x','y'))", "--mesh", "x=4,y=2")
    assert found["answer"]["full_rematerialization"] is True
    assert found["text"]["constraint"] == ["x = jax.lax.with_sharding_constraint(x, P('y', 'x', None))"]
    assert [row["axis"] for row in found["tables"]["detour"]["rows"]] == ["x", "y"]
    assert (found["answer"]["wire_bytes"], found["answer"]["detour_wire_bytes"]) == (14336, 2560)


@pytest.mark.parametrize(
    ("arguments", "collectives", "sent"),
    [
        (("f32[8]", "{devices=[4]<=[4]}", "{devices=[4]0,1,2,3}"), 0, 0),
        (("f32[8]", "{replicated}", "{devices=[4]<=[4]}"), 0, 0),
        (("bf16[8]", "{devices=[4]<=[4]}", "{replicated}"), 1, 12),
    ],
)
def test_pairs_without_a_warning(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], collectives: int, sent: int
) -> None:
    found = answered(capsys, *arguments)["answer"]
    assert (found["collectives"], found["wire_bytes"], found["detour"]) == (collectives, sent, None)


def test_the_nearest_sharding_without_a_collective(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(capsys, "f32[8,8]", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[1,8]<=[8]}")
    assert "{devices=[8,1]<=[8]}" in found["text"]["nearest"][0]


@pytest.mark.parametrize(
    ("before", "after", "near", "sent"),
    [
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[1,8]<=[8]}", "{devices=[8,1]<=[8]}", 28),
        ("{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}", "{devices=[4,2]<=[8]}", "[4,2]", 24),
        ("{replicated}", "{devices=[4,2]<=[8]}", "{devices=[4,2]<=[8]}", 0),
        ("{devices=[4,2]<=[8]}", "{replicated}", None, None),
        ("{devices=[2,4]<=[8]}", "{devices=[4,2]<=[8]}", None, None),
    ],
)
def test_what_is_nearest_is_always_said(
    capsys: pytest.CaptureFixture[str], before: str, after: str, near: str | None, sent: int | None
) -> None:
    """Only copies can be sliced; what a device keeps is a part of what it has."""
    found = answered(capsys, "f32[8,8]", before, after)
    assert found["answer"]["nearest_wire_bytes"] == sent
    assert near is None or near in found["answer"]["nearest"]
    [said] = found.get("text", {}).get("nearest", [""])
    assert bool(said) is (found["answer"]["collectives"] > 0)
    assert ("no copies to slice" in said) is (near is None)
    if near is not None and sent:
        array = sharding_of(found["answer"]["nearest"])
        first = reshard(parse_shape("f32[8,8]"), sharding_of(before), array)
        assert not first.collectives
        assert reshard(parse_shape("f32[8,8]"), array, sharding_of(after)).sent_bytes == sent


def test_a_crash_of_the_partitioner_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(capsys, "f32[32,16,32,16]", "{devices=[1,2,4,2]<=[16]}", "{devices=[2,1,2,4]<=[16]}")
    assert found["answer"]["wire_bytes"] is None
    assert found["answer"]["detour"] is not None
