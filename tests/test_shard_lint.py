"""Rules on shardings that read the dump before optimizations: its shardings of parameters, and its mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import hlo_cli
from dumps import FIXTURES, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.sharding.entry_arrays import entry_arrays
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings

MESHES = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'
BEFORE = (
    f"HloModule m, num_partitions=8, {MESHES}\nENTRY e {{ ROOT p = f32[64] parameter(0), sharding={{replicated}} }}\n"
)
AFTER = """HloModule m, is_scheduled=true, num_partitions=8
ENTRY e_spmd {
  p = f32[64]{0:T(128)} parameter(0)
  a = f32[128]{0:T(128)} all-gather(p), dimensions={0}, channel_id=1, replica_groups=GROUPS, use_global_device_ids=true
  ROOT n = f32[128]{0:T(128)} negate(a)
}
"""


HLO080 = LintSettings(select=("HLO080",))


def found(code: str, path: Path, least: int = 1 << 20) -> list[str]:
    settings = LintSettings(select=(code,), min_replicated_bytes=least)
    return [each.message for each in lint_module(hlo_cli.load(path), settings)]


def test_replicated_arguments_of_a_tpu_program() -> None:
    """After partitioning, they have no shardings of their own."""
    messages = found("HLO504", FIXTURES / "tpu" / "v5e_offload", least=1)
    assert len(messages) == 3
    assert all("is replicated on 4 devices" in each for each in messages)
    assert found("HLO504", FIXTURES / "tpu" / "v4_collectives", least=1) == []


def test_groups_are_compared_with_the_mesh_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "before_optimizations.txt").write_text(BEFORE)
    after = tmp_path / "after_optimizations.txt"
    for groups, is_found in (
        ("{{0,1},{2,3},{4,5},{6,7}}", False),
        ("[2,4]<=[4,2]T(1,0)", False),
        ("{{0,4},{1,5},{2,6},{3,7}}", False),  # a part of the axis data
        ("[1,8]<=[8]", False),
        ("{{0,3},{1,2},{4,7},{5,6}}", True),
        ("mesh['axis_0'=4,'axis_1'=2], device_ids=(0,3,1,2,4,7,5,6) {'axis_1'}", True),
    ):
        after.write_text(AFTER.replace("GROUPS", groups))
        assert bool(found("HLO082", after)) is is_found, groups
    (tmp_path / "before_optimizations.txt").unlink()
    assert found("HLO082", after) == []  # no mesh is named


def test_groups_of_compiled_programs_are_along_axes() -> None:
    settings = LintSettings(select=("HLO082", "HLO083", "HLO509"))
    partitioned = [dump for dump in compiled_dumps() if "num_partitions=" in dump.text]
    assert len(partitioned) > 5
    for dump in partitioned:
        assert lint_module(hlo_cli.load(dump.path), settings) == ()


def test_groups_that_cannot_be_read_are_not_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(AFTER.replace("GROUPS", "torus(2,4)"))
    assert found("HLO083", path) == ["a: could not parse replica_groups=torus(2,4)"]
    assert found("HLO051", path) == found("HLO010", path) == []


def test_copies_of_shards_of_compiled_programs() -> None:
    """What the rule finds is what `hlo shard` finds: copies on some devices, and the bytes that a device would save."""
    settings, count = LintSettings(select=("HLO510",), min_replicated_bytes=1), 0
    for dump in compiled_dumps():
        if "num_partitions=" not in dump.text:
            continue
        module = hlo_cli.load(dump.path)
        arrays = entry_arrays(module)
        expected = [
            each.saving_bytes
            for each in arrays.parameters
            if each.saving_bytes and 1 < (each.replication or 0) < arrays.partitions
        ]
        assert sorted(each.cost_bytes or 0 for each in lint_module(module, settings)) == sorted(expected)
        count += len(expected)
    assert count > 0


THERE, BACK = "{{0,1},{1,2},{2,3},{3,0}}", "{{1,0},{2,1},{3,2},{0,3}}"


@pytest.mark.parametrize(
    ("pairs", "between", "code"),
    [
        (BACK, "t = f32[512,512] tanh(a)", "HLO509"),
        (BACK, "t = f32[512,512] copy(a)", "HLO503"),
        (BACK, "t = f32[512,512] reverse(a), dimensions={0}", "HLO503"),  # each device reverses its own shard
        (THERE, "t = f32[512,512] tanh(a)", None),  # on to the next device
        (BACK, "t = f32[512,512] add(a, x)", None),  # the other operand stays where it is
        ("{{1,0},{2,1}}", "t = f32[512,512] tanh(a)", None),  # some of the data stays
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_permutes_there_and_back(pairs: str, between: str, code: str | None, is_async: bool) -> None:
    def permute(name: str, operand: str, pairs: str) -> str:
        groups = f"channel_id=1, source_target_pairs={pairs}"
        if not is_async:
            return f"{name} = f32[512,512] collective-permute({operand}), {groups}"
        start = f"{name}s = (f32[512,512], f32[512,512], u32[], u32[]) collective-permute-start({operand}), {groups}"
        return f"{start}\n  {name} = f32[512,512] collective-permute-done({name}s)"

    lines = ("x = f32[512,512] parameter(0)", permute("a", "x", THERE), between, permute("b", "t", pairs))
    ends = "\n  ".join((*lines, "ROOT r = f32[512,512] negate(b)"))
    module = hlo_cli.parse_module(f"HloModule m, num_partitions=4\nENTRY e {{\n  {ends}\n}}")
    found = lint_module(module, LintSettings(select=("HLO503", "HLO509")))
    assert [each.code for each in found] == ([code] if code else [])


@pytest.mark.parametrize(
    ("between", "code"),
    [
        ("t = f32[512,512] tanh(a)", "HLO509"),
        ("t = f32[512,512] transpose(a), dimensions={1,0}", "HLO503"),
        ("t = f32[512,512] reverse(a), dimensions={0}", None),
        ("t = f32[512,512] fusion(a), kind=kLoop, calls=turned", None),
    ],
)
def test_a_reverse_between_two_all_to_alls_needs_a_transfer_of_its_own(between: str, code: str | None) -> None:
    """Witness: jax.numpy.flip of a sharded dimension, which XLA makes a reverse and a collective-permute."""

    def all_to_all(name: str, operand: str) -> str:
        return f"{name} = f32[512,512] all-to-all({operand}), channel_id=1, dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}"

    lines = ("x = f32[512,512] parameter(0)", all_to_all("a", "x"), between, all_to_all("b", "t"))
    ends = "\n  ".join((*lines, "ROOT r = f32[512,512] negate(b)"))
    turned = "turned { p = f32[512,512] parameter(0)  ROOT q = f32[512,512] reverse(p), dimensions={0} }"
    module = hlo_cli.parse_module(f"HloModule m, num_partitions=4\n{turned}\nENTRY e {{\n  {ends}\n}}")
    found = lint_module(module, LintSettings(select=("HLO503", "HLO509")))
    assert [each.code for each in found] == ([code] if code else [])


@pytest.mark.parametrize(
    ("body", "operands", "codes"),
    [
        ("b = f32[512,512] broadcast(q), dimensions={}  ROOT r = f32[512,512] multiply(p, b)", "a, k", ["HLO509"]),
        ("ROOT r = f32[512,512] tanh(p)", "a, o", ["HLO509"]),
        ("ROOT r = f32[512,512] multiply(p, q)", "a, x", []),
        ("ROOT r = f32[512,512] tanh(p)", "a, x", []),  # it is read, if for nothing
        ("ROOT r = f32[512,512] transpose(p), dimensions={1,0}", "a, k", ["HLO503", "HLO509"]),
        ("ROOT r = f32[512,512] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "a, k", []),
    ],
)
def test_what_a_fusion_makes_of_one_collective_and_single_elements(body: str, operands: str, codes: list[str]) -> None:
    """Single elements are the same in every sharding; arrays are in one that they have already."""
    shapes = {"k": "f32[]", "o": "f32[1,1]"}
    given = "  ".join(
        f"{name} = {shapes.get(operand, 'f32[512,512]')} parameter({number})"
        for number, (name, operand) in enumerate(zip("pq", operands.split(", "), strict=True))
    )
    exchange = "all-to-all({}), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}"
    module = hlo_cli.parse_module(f"""HloModule m, replica_count=4
f {{ {given}  {body} }}
ENTRY e {{
  x = f32[512,512] parameter(0)
  k = f32[] parameter(1)
  o = f32[1,1] parameter(2)
  a = f32[512,512] {exchange.format("x")}
  t = f32[512,512] fusion({operands}), kind=kLoop, calls=f
  ROOT b = f32[512,512] {exchange.format("t")}
}}""")
    found = lint_module(module, LintSettings(select=("HLO503", "HLO509")))
    assert sorted(each.code for each in found) == codes


@pytest.mark.parametrize(
    ("gathered", "used", "is_found"),
    [
        ("all-gather(x), dimensions={0}", "f32[1024,128] dynamic-slice(g, z, i), dynamic_slice_sizes={1024,128}", True),
        ("all-gather(x), dimensions={0}", "f32[256,512] dynamic-slice(g, i, z), dynamic_slice_sizes={256,512}", True),
        ("all-gather(x), dimensions={0}", "f32[256,512] slice(g), slice={[0:256], [0:512]}", True),
        ("all-gather(x), dimensions={0}", "f32[512,512] slice(g), slice={[0:512], [0:512]}", False),  # more than a part
        ("all-gather(x), dimensions={0}", "f32[1024,512] tanh(g)", False),
    ],
)
def test_a_gather_that_a_slice_undoes(gathered: str, used: str, is_found: bool) -> None:
    module = hlo_cli.parse_module(f"""HloModule m, is_scheduled=true, num_partitions=4
ENTRY e {{
  x = f32[256,512] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  g = f32[1024,512] {gathered}, channel_id=1, replica_groups={{{{0,1,2,3}}}}, use_global_device_ids=true
  y = {used}
  ROOT n = {used.split()[0]} negate(y)
}}""")
    found = lint_module(module, LintSettings(select=("HLO501",), min_transfer_bytes=1))
    assert bool(found) is is_found


@pytest.mark.parametrize(
    ("groups", "is_found"),
    [("{{0},{1},{2},{3}}", True), ("[4,1]<=[4]", True), ("[2,2]<=[4]", False), ("mesh['a'=4,'one'=1] {'one'}", True)],
)
@pytest.mark.parametrize("opcode", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_a_collective_on_an_axis_of_size_one(opcode: str, groups: str, is_found: bool) -> None:
    reducer = "add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }"
    size = 1 if is_found else 2
    sizes = {"all-gather": 64 * size, "reduce-scatter": 64 // size}.get(opcode, 64)
    more = ", to_apply=add" if "reduce" in opcode else ""
    more += "" if opcode == "all-reduce" else ", dimensions={0}"
    module = hlo_cli.parse_module(f"""HloModule m, is_scheduled=true, num_partitions=4
{reducer}
ENTRY e {{
  x = f32[64,8] parameter(0)
  g = f32[{sizes},8] {opcode}(x), channel_id=1, replica_groups={groups}, use_global_device_ids=true{more}
  ROOT n = f32[{sizes},8] negate(g)
}}""")
    found = lint_module(module, LintSettings(select=("HLO506",)))
    assert bool(found) is is_found


@pytest.mark.parametrize(
    ("shape", "sharding", "problem"),
    [
        ("f32[4]", "{maximal device=3}", None),
        ("f32[4]", "{maximal device=4}", "device 4 is out of range (the module has 4 partitions)"),
        ("f32[4]", "{maximal_mesh[device_id=3]}", None),
        ("f32[4]", "{maximal_mesh[device_id=4]}", "device 4 is out of range (the module has 4 partitions)"),
        ("f32[4]", "{mesh['a'=2], [{'a'}, {}]}", "the sharding has 2 dimensions, but the array has 1"),
        ("f32[4]", "{mesh['a'=2], [{}, {}]}", None),
        ("f32[4,2]", "{mesh['a'=2], replicated}", None),
        ("token[]", "{mesh['a'=2], [{'a'}]}", None),
        ("(f32[4], f32[4,2])", "{mesh['a'=2], [{'a'}]}", "the sharding has 1 dimension, but the array has 2"),
        ("b(f32[4])", "{mesh['a'=2], [{'a'}]}", None),
        ("b(f32[4])", "{mesh['a'=2], [{'a'}, {}]}", "the sharding has 2 dimensions, but the array has 1"),
        ("f32[4,4]", "{devices=[2,2]0,1,1,2}", "device 1 is assigned two tiles"),
        ("f32[4,4]", "{devices=[2,2]0,1,2}", "the tile assignment has 4 tiles but 3 devices"),
        ("f32[4]", "{devices=[4]0,1,2,3,3}", "device 3 is assigned two tiles"),
        ("f32[4]", "{devices=[4]0,1,2,-1}", "device -1 is out of range"),
        ("f32[4]", "{devices=[4]0,1,2,3}", None),
        ("f32[8]", "{devices=[5]<=[5]}", "device 4 is out of range (the module has 4 partitions)"),
        ("token[]", "{devices=[4]<=[4]}", None),
        ("b(f32[4])", "{devices=[4]<=[4]}", None),
        ("b(f32[4,2])", "{devices=[4]<=[4]}", "the tile assignment has 1 dimension, but the array has 2"),
        ("(f32[4], f32[4])", "{{devices=[4]<=[4]}, {devices=[2]<=[2]}}", None),
        ("(f32[4], f32[4])", "{{devices=[4]<=[4]}}", "the tuple has 2 leaves but 1 sharding"),
        ("(f32[4], f32[4,4])", "{{replicated}, {devices=[4]<=[4]}}", "the tile assignment has 1 dimension, but the array has 2"),
        ("()", "{{replicated}}", None),  # HloSharding::RequiredLeaves: an empty tuple has one
        ("()", "{}", "the tuple has 1 leaf but 0 shardings"),
    ],
)  # fmt: skip
def test_a_sharding_fits_each_leaf_and_the_devices(shape: str, sharding: str, problem: str | None) -> None:
    """As `HloSharding::Validate` of xla/hlo/ir/hlo_sharding.cc asks; without a number of partitions any device is one."""
    line = f"ENTRY e {{ ROOT x = {shape} parameter(0), sharding={sharding} }}"
    expected = [] if problem is None else [f"x: {problem}"]
    given = parse_module(f"HloModule m, num_partitions=4  {line}")
    assert [each.message for each in lint_module(given, HLO080)] == expected
    asked = replace(HLO080, num_partitions=4)
    assert [each.message for each in lint_module(parse_module(f"HloModule m  {line}"), asked)] == expected
    without = [each.message for each in lint_module(parse_module(f"HloModule m  {line}"), HLO080)]
    assert without == ([] if problem is None or "partitions" in problem else [f"x: {problem}"])
