"""What surprises about shardings and collectives in HLO, each in the smallest program that shows it.

Expectations are by construction; compiled programs are held to the same in test_shard_collectives and
test_shard_groups.
"""

from __future__ import annotations

import re

import pytest

import hlo_cli
from dumps import FIXTURES
from hlo_cli.analysis.sharding.meshes import Devices, device_groups, devices_of

ROOT = FIXTURES.parent
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def module_of(entry: str, header: str = "num_partitions=4") -> hlo_cli.Module:
    return hlo_cli.parse_module(f"HloModule m, {header}\n{ADD}\nENTRY e {{\n{entry}\n}}")


GATHER = "ROOT g = f32[16] all-gather(f32[8] p), dimensions={{0}}, replica_groups={{{{0,1}}}}{}"
EXCHANGE = "ROOT g = f32[8] all-to-all(f32[8] p), dimensions={{0}}, replica_groups={{{{0,1}}}}{}"


@pytest.mark.parametrize(
    ("line", "more", "groups"),
    [
        (GATHER, "", {(0, 2), (1, 3)}),
        (GATHER, ", channel_id=1", {(0, 2, 1, 3)}),  # never cross-partition: no flag is the flag false
        (GATHER, ", channel_id=1, use_global_device_ids=true", {(0, 1)}),
        (EXCHANGE, "", {(0, 2), (1, 3)}),
        (EXCHANGE, ", channel_id=1", {(0, 1), (2, 3)}),
    ],
)
def test_modes_of_groups(line: str, more: str, groups: set[tuple[int, ...]]) -> None:
    """Two replicas of two partitions; the numbers 0 and 1 are replicas, partitions, or devices."""
    text = line.format(more)
    found = device_groups(hlo_cli.parse_module(text).instruction("g"), Devices(2, 2))
    assert {frozenset(group) for group in found} == {frozenset(group) for group in groups}


@pytest.mark.parametrize("width", ["f32", "bf16"])
def test_a_gather_sends_what_it_takes_and_not_the_parameter(width: str) -> None:
    """TPU compilers convert weights to bf16 before the gather: half of the bytes of the parameter."""
    entry = f"""p = f32[64,8] parameter(0)
    c = {width}[64,8] convert(p)
    ROOT g = {width}[256,8] all-gather(c), dimensions={{0}}, channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true"""
    [found] = hlo_cli.collectives_of(module_of(entry))
    assert found.wire_bytes == 3 * 64 * 8 * {"f32": 4, "bf16": 2}[width]


def test_a_sum_and_its_slice_are_an_all_reduce() -> None:
    """CPU programs have no reduce-scatter for it: twice the bytes."""
    entry = """p = f32[64,8] parameter(0)
    i = s32[] parameter(1)
    z = s32[] constant(0)
    s = f32[64,8] all-reduce(p), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=add
    ROOT d = f32[16,8] dynamic-slice(s, i, z), dynamic_slice_sizes={16,8}"""
    [found] = hlo_cli.collectives_of(module_of(entry))
    assert found.kind == "all-reduce"
    assert found.wire_bytes == 2 * 3 * 64 * 8 * 4 // 4


@pytest.mark.parametrize(
    ("parts", "one"),
    [("'a':(1)4,'a':(4)2", "'a'"), ("'a':(1)2,'a':(2)2", "'a':(1)4"), ("'a':(2)2,'a':(4)2", "'a':(2)4")],
)
def test_neighboring_parts_of_an_axis_are_an_error_that_says_what_to_write(parts: str, one: str) -> None:
    """A process with jaxlib ends on these."""
    with pytest.raises(hlo_cli.HloError, match=re.escape(f"must be written as one axis, {one}")):
        hlo_cli.sharding_of(f"{{mesh['a'=8], [{{{parts}}}, {{}}]}}")
    hlo_cli.sharding_of(f"{{mesh['a'=8], [{{{one}}}, {{}}]}}")


def test_devices_are_places_in_the_mesh() -> None:
    """A mesh of shuffled devices has the same text: no answer is about chips."""
    entry = "p = f32[8] parameter(0)\nROOT g = f32[16] all-gather(p), dimensions={0}, channel_id=1, "
    module = module_of(entry + "replica_groups=[2,2]<=[4], use_global_device_ids=true")
    [found] = hlo_cli.collectives_of(module)
    assert devices_of(module).count == 4
    assert found.groups == ((0, 1), (2, 3))


def test_the_example_of_the_help_page() -> None:
    """Its comments are the values."""
    page = (ROOT / "hlo_cli/commands/help/topics/sharding.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", page, re.S)
    names: dict[str, object] = {}
    exec(code.replace("DIR", str(ROOT / "fixtures/tpu/v4_collectives")), names)
    commented = re.findall(r"^(hlo_cli\..*?)  # (.*)$", code, re.M)
    assert len(commented) == 2
    for expression, value in commented:
        assert str(eval(expression, names)) == value
