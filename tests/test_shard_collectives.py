"""Collectives of modules: every form and wrapper once, with bytes as written out by hand and axes as programmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path

import pytest

from advising import PLUGINS
from hlo_cli import parse_module
from hlo_cli.analysis.sharding.collectives import Collective, collectives_of, mesh_of, payload_bytes, wire_bytes
from hlo_cli.commands.shard.options import ALGORITHMS
from hlo_cli.ir.module import Module
from sharded_programs import PROGRAMS, random_axes

SCRIPT = Path(__file__).parent / "sharded_programs.py"
FIXTURES = Path(__file__).parent.parent / "fixtures"


def module_of(entry: str, *computations: str, partitions: int = 4) -> Module:
    """A module of one replica with this entry and these computations."""
    add = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
    others = "\n".join((add, *computations))
    return parse_module(f"HloModule m, num_partitions={partitions}\n{others}\nENTRY e {{\n{entry}\n}}")


GLOBAL = "channel_id=1, use_global_device_ids=true"
ALL = f"replica_groups={{{{0,1,2,3}}}}, {GLOBAL}"


@pytest.mark.parametrize(
    ("operation", "kind", "operands", "wire", "payload"),
    [
        (f"f32[64] all-reduce(p), to_apply=add, {ALL}", "all-reduce", 256, 384, 256),
        (f"f32[256] all-gather(p), dimensions={{0}}, {ALL}", "all-gather", 256, 768, 1024),
        (f"f32[16] reduce-scatter(p), dimensions={{0}}, to_apply=add, {ALL}", "reduce-scatter", 256, 192, 256),
        ("f32[64] all-to-all(p), dimensions={0}, replica_groups={}, channel_id=1", "all-to-all", 256, 192, 256),
        ("f32[64] collective-permute(p), source_target_pairs={{0,1},{1,2},{3,3}}, channel_id=1", "collective-permute", 256, 128, 256),
        ("f32[64] collective-broadcast(p), replica_groups={{0,1,2,3}}, channel_id=1", "collective-broadcast", 256, 256, 256),
        (f"(f32[64], f32[8]) all-reduce(p, q), to_apply=add, {ALL}", "all-reduce", 288, 432, 288),
        ("(f32[8], f32[8], f32[8], f32[8]) all-to-all(q, q, q, q), replica_groups={{0,1,2,3}}, channel_id=1", "all-to-all", 128, 96, 128),
    ],
)  # fmt: skip
def test_bytes_of_each_kind(operation: str, kind: str, operands: int, wire: int, payload: int) -> None:
    entry = f"p = f32[64] parameter(0)\nq = f32[8] parameter(1)\nROOT r = {operation}"
    [found] = collectives_of(module_of(entry))
    assert (found.kind, found.operand_bytes, whole(found.wire_bytes), found.payload_bytes) == (
        kind,
        operands,
        wire,
        payload,
    )
    assert not found.is_async


def test_a_ragged_exchange_is_an_upper_bound() -> None:
    sizes = "o, o, o, o"
    entry = f"""p = f32[64] parameter(0)
      o = s32[4] parameter(1)
      ROOT r = f32[64] ragged-all-to-all(p, p, {sizes}), replica_groups={{{{0,1,2,3}}}}, channel_id=1"""
    [found] = collectives_of(module_of(entry))
    assert (found.operand_bytes, whole(found.wire_bytes), found.is_bound) == (256, 192, True)


@pytest.mark.parametrize(
    "entry",
    [
        f"""p = f32[64] parameter(0)
          s = (f32[64], f32[256]) all-gather-start(p), dimensions={{0}}, {ALL}
          ROOT d = f32[256] all-gather-done(s)""",
        """p = f32[64] parameter(0)
          s = ((f32[64]), f32[256], u32[]) async-start(p), calls=gather
          u = ((f32[64]), f32[256], u32[]) async-update(s)
          ROOT d = f32[256] async-done(u)""",
        """p = f32[64] parameter(0)
          s = ((f32[64]), f32[256], u32[]) async-start(p), calls=outer
          ROOT d = f32[256] async-done(s)""",
    ],
)
def test_asynchronous_forms_count_once(entry: str) -> None:
    gather = f"gather {{ a = f32[64] parameter(0)  ROOT g = f32[256] all-gather(a), dimensions={{0}}, {ALL} }}"
    outer = "outer { a = f32[64] parameter(0)  ROOT f = f32[256] fusion(a), kind=kLoop, calls=gather }"
    [found] = collectives_of(module_of(entry, gather, outer))
    assert (found.kind, found.operand_bytes, whole(found.wire_bytes), found.is_async) == ("all-gather", 256, 768, True)
    assert found.caller.name == "s"


def test_short_forms_count_once() -> None:
    entry = """p = f32[64] parameter(0)
      s = ((f32[64]), f32[64], u32[]) all-to-all-start(p), dimensions={0}, replica_groups={{0,1},{2,3}}, channel_id=1
      ROOT d = f32[64] all-to-all-done(s)"""
    [found] = collectives_of(module_of(entry))
    assert (found.kind, whole(found.wire_bytes), found.devices, found.is_async) == ("all-to-all", 128, 2, True)


def test_a_start_that_the_compiler_marks_is_synchronous() -> None:
    config = 'backend_config={"collective_backend_config":{"is_sync":true}}'
    entry = f"""p = f32[64] parameter(0)
      s = f32[64] all-reduce-start(p), to_apply=add, {ALL}, {config}
      ROOT d = f32[64] all-reduce-done(s)"""
    [found] = collectives_of(module_of(entry))
    assert not found.is_async


def fused(name: str, slices: str, operand: int = 64) -> str:
    """A fused computation that sums and keeps a slice."""
    return f"""{name} {{ a = f32[{operand}] parameter(0)  z = s32[] constant(0)
      x = f32[{operand}] all-reduce(a), to_apply=add, {ALL}
      {slices} }}"""


def test_a_fused_sum_of_which_a_slice_is_kept_is_a_reduce_scatter() -> None:
    """TPU compilers write it so; the bytes are those of the sum's operand."""
    entry = "p = f32[64] parameter(0)  ROOT r = f32[16] fusion(p), kind=kCustom, calls=f"
    kept = fused("f", "ROOT d = f32[16] dynamic-slice(x, z), dynamic_slice_sizes={16}")
    [found] = collectives_of(module_of(entry, kept))
    assert (found.kind, found.operand_bytes, whole(found.wire_bytes), found.caller.name) == (
        "reduce-scatter",
        256,
        192,
        "r",
    )
    smaller = fused("f", "ROOT d = f32[8] dynamic-slice(x, z), dynamic_slice_sizes={8}")
    [found] = collectives_of(module_of(entry.replace("f32[16]", "f32[8]"), smaller))
    assert found.kind == "all-reduce", "half of what a device would keep"
    used = fused("f", "n = f32[64] negate(x)  ROOT d = f32[16] dynamic-slice(n, z), dynamic_slice_sizes={16}")
    [found] = collectives_of(module_of(entry, used))
    assert found.kind == "all-reduce", "all of the sum is used"


def test_a_variadic_sum_of_which_slices_are_kept() -> None:
    body = f"""f {{ a = f32[64] parameter(0)  b = f32[8] parameter(1)  z = s32[] constant(0)
      x = (f32[64], f32[8]) all-reduce(a, b), to_apply=add, {ALL}
      s = f32[64] get-tuple-element(x), index=0  t = f32[8] get-tuple-element(x), index=1
      d = f32[16] dynamic-slice(s, z), dynamic_slice_sizes={{16}}  c = f32[2] dynamic-slice(t, z), dynamic_slice_sizes={{2}}
      ROOT r = (f32[16], f32[2]) tuple(d, c) }}"""
    entry = """p = f32[64] parameter(0)  q = f32[8] parameter(1)
      ROOT r = (f32[16], f32[2]) fusion(p, q), kind=kCustom, calls=f"""
    [found] = collectives_of(module_of(entry, body))
    assert (found.kind, found.operand_bytes, whole(found.wire_bytes)) == ("reduce-scatter", 288, 216)


CONFIG = 'backend_config={"async_collective_fusion_config":{"flag_start":"-1"}}'


def part(name: str, root: str, chain: int = 0) -> str:
    """A fused computation of an async collective, which prints the transfer again."""
    marked = f'{ALL}, frontend_attributes={{chain_id="{chain}"}}, {CONFIG}'
    gather = f"g{name} = f32[256] all-gather(a{name}), dimensions={{0}}, {marked}"
    return f"{name} {{ a{name} = f32[64] parameter(0)  {gather}  {root.replace('G', f'g{name}')} }}"


def test_a_transfer_that_several_fusions_print_counts_once() -> None:
    start = 'ROOT s = (f32[256], u32[]) custom-call(G), custom_call_target="AsyncCollectiveStart"'
    parts = [
        part("first", start),
        part("second", "ROOT n = f32[256] negate(G)"),
        part("third", 'ROOT d = f32[256] custom-call(G), custom_call_target="AsyncCollectiveDone"'),
        part("other", start, chain=1),
    ]
    entry = """p = f32[64] parameter(0)
      q = f32[64] parameter(1)
      s = (f32[256], u32[]) fusion(p), kind=kCustom, calls=first
      t = f32[256] fusion(p), kind=kLoop, calls=second
      u = (f32[256], u32[]) fusion(q), kind=kCustom, calls=other
      ROOT d = f32[256] fusion(p), kind=kCustom, calls=third"""
    found = collectives_of(module_of(entry, *parts))
    assert [(each.caller.name, each.is_async) for each in found] == [("s", True), ("u", True)]


def test_a_shared_channel_does_not_join_collectives() -> None:
    """Everything in a shard_map has channel 1."""
    lines = [f"x{at} = f32[64] all-reduce(p), to_apply=add, {ALL}" for at in range(3)]
    entry = "p = f32[64] parameter(0)\n" + "\n".join(lines) + "\nROOT r = f32[64] add(x0, x1)"
    assert len(collectives_of(module_of(entry))) == 3


def looped(config: str) -> Module:
    """A sum in the body of a loop, and a gather in its condition."""
    state = "(s32[], f32[64])"
    body = f"""body {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
      x = f32[64] get-tuple-element(s), index=1  y = f32[64] all-reduce(x), to_apply=add, {ALL}
      ROOT t = {state} tuple(i, y) }}"""
    condition = f"""condition {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
      x = f32[64] get-tuple-element(s), index=1  y = f32[256] all-gather(x), dimensions={{0}}, {ALL}
      ROOT t = pred[] compare(i, i), direction=LT }}"""
    entry = f"p = {state} parameter(0)\nROOT w = {state} while(p), condition=condition, body=body{config}"
    return module_of(entry, body, condition)


def test_runs_in_loops() -> None:
    known = collectives_of(looped(', backend_config={"known_trip_count":{"n":"6"}}'))
    assert [(each.kind, each.runs.known) for each in known] == [("all-reduce", 6), ("all-gather", 7)]
    unknown = collectives_of(looped(""))
    assert [each.runs.known for each in unknown] == [None, None]


def test_branches_are_marked() -> None:
    branch = f"yes {{ a = f32[64] parameter(0)  ROOT x = f32[64] all-reduce(a), to_apply=add, {ALL} }}"
    other = "no { a = f32[64] parameter(0)  ROOT x = f32[64] negate(a) }"
    entry = """p = f32[64] parameter(0)  q = pred[] parameter(1)
      ROOT r = f32[64] conditional(q, p, p), true_computation=yes, false_computation=no"""
    [found] = collectives_of(module_of(entry, branch, other))
    assert (found.runs.known, found.runs.in_branch) == (1, True)


def test_unknown_groups_are_unknown() -> None:
    entry = f"p = f32[64] parameter(0)  ROOT r = f32[64] all-reduce(p), to_apply=add, replica_groups=tree(4), {GLOBAL}"
    [found] = collectives_of(module_of(entry))
    assert (found.groups, found.devices, found.wire_bytes, found.axis) == (None, None, None, None)
    assert found.problem == "cannot read the replica groups tree(4)"


def test_groups_of_different_sizes() -> None:
    """Three devices exchange, one does not: the mean over devices."""
    entry = f"p = f32[64] parameter(0)  ROOT r = f32[64] all-reduce(p), to_apply=add, replica_groups={{{{0,1,2}},{{3}}}}, {GLOBAL}"
    [found] = collectives_of(module_of(entry))
    assert (found.devices, found.wire_bytes) == (3, 256 * Fraction(4, 3) * Fraction(3, 4))


def test_factors_of_algorithms() -> None:
    """The table of NVIDIA/nccl-tests doc/PERFORMANCE.md, and that of a ring in both directions by counting hops."""
    for n in range(2, 17):
        reduced = [wire_bytes("all-reduce", 1, n, each) for each in ALGORITHMS]
        assert reduced == [Fraction(2 * (n - 1), n), Fraction(n - 1, n), n - 1]
        gathered = [wire_bytes("all-gather", 1, n, each) for each in ALGORITHMS]
        assert gathered == [n - 1, Fraction(n - 1, 2), n - 1]
        exchanged = [wire_bytes("all-to-all", 1, n, each) for each in ALGORITHMS]
        hops = sum(min(distance, n - distance) for distance in range(n))
        assert exchanged == [Fraction(n - 1, n), Fraction(hops, 2 * n), Fraction(n - 1, n)]
        assert [wire_bytes("reduce-scatter", 1, n, each) for each in ALGORITHMS][::2] == [Fraction(n - 1, n)] * 2
    assert payload_bytes("all-gather", 3, 4) == 12
    assert not any(wire_bytes(kind, 8, 1) for kind in ("all-reduce", "all-gather", "collective-permute"))


AXES = tuple(f"axes:{seed}" for seed in range(6))


@cache
def compiled(platform: str, *names: str) -> dict[str, dict[str, str]]:
    """The texts of programs before and after compilation."""
    if find_spec("jax") is None or find_spec(PLUGINS[platform]) is None:
        pytest.skip(f"{PLUGINS[platform]} is not installed")
    search = os.pathsep.join((str(FIXTURES), os.environ.get("PYTHONPATH", "")))
    asked = subprocess.run(
        [sys.executable, str(SCRIPT), platform, *names],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": search},
    )
    assert asked.returncode == 0, asked.stderr[-2000:]
    found: dict[str, dict[str, str]] = json.loads(asked.stdout.splitlines()[-1])
    return found


def analyzed(texts: dict[str, str]) -> tuple[Collective, ...]:
    """The collectives after compilation, with the mesh that the text before it names."""
    module = parse_module(texts["after"])
    known = mesh_of(module, None, [parse_module(texts["before"])])
    assert known is not None
    assert not known.is_inferred
    return collectives_of(module, known.mesh)


def whole(number: Fraction | None) -> int | Fraction | None:
    """A whole number as such, so that it compares with one."""
    return int(number) if number is not None and number.denominator == 1 else number


def sums(found: tuple[Collective, ...]) -> dict[tuple[str | None, str], tuple[int, Fraction]]:
    """By axis and kind, the operands and the bytes that a device sends, over all runs."""
    totals = dict[tuple[str | None, str], tuple[int, Fraction]]()
    for each in found:
        assert each.runs.known is not None
        assert each.wire_bytes is not None
        operands, wire = totals.get((each.axis, each.kind), (0, Fraction(0)))
        runs = each.runs.known
        totals[each.axis, each.kind] = operands + runs * each.operand_bytes, wire + runs * each.wire_bytes
    return totals


LAYER = 256 * 256 * 4
"""The rows of x on one device, f32[512,256] over data=2, which each layer sums over model=4."""
SHARD = 256 * 1024 * 4 // 8
"""A weight of FSDP on one device; two of them are gathered."""
GRADIENTS = 2 * 256 * 1024 * 4
TOKENS = 4 * 64 * 256 * 4
STAGE = 1024 * 256 * 4 // 8

BY_HAND = {
    "cpu": {
        "tensor_parallel": {("model", "all-reduce"): (6 * LAYER, 6 * LAYER * 2 * Fraction(3, 4))},
        "fsdp": {("fsdp", "all-gather"): (2 * SHARD, 2 * SHARD * 7)},
        # XLA's CPU has no reduce-scatter made from an all-reduce and a slice: twice the bytes.
        "fsdp_gradient": {
            ("fsdp", "all-gather"): (2 * SHARD, 2 * SHARD * 7),
            ("fsdp", "all-reduce"): (GRADIENTS, GRADIENTS * 2 * Fraction(7, 8)),
        },
        "experts": {("expert", "all-to-all"): (2 * TOKENS, 2 * TOKENS * Fraction(3, 4))},
        "ring": {("stage", "collective-permute"): (3 * STAGE, 3 * STAGE)},
        "line": {("stage", "collective-permute"): (STAGE, STAGE * Fraction(3, 4))},
    },
    # Two gathers are one with two operands.
    "gpu": {
        "tensor_parallel": {("model", "all-reduce"): (6 * LAYER, 6 * LAYER * 2 * Fraction(3, 4))},
        "fsdp": {("fsdp", "all-gather"): (2 * SHARD, 2 * SHARD * 7)},
        "fsdp_gradient": {
            ("fsdp", "all-gather"): (2 * SHARD, 2 * SHARD * 7),
            ("fsdp", "reduce-scatter"): (GRADIENTS, GRADIENTS * Fraction(7, 8)),
        },
        "experts": {("expert", "all-to-all"): (2 * TOKENS, 2 * TOKENS * Fraction(3, 4))},
        "ring": {("stage", "collective-permute"): (3 * STAGE, 3 * STAGE)},
        "line": {("stage", "collective-permute"): (STAGE, STAGE * Fraction(3, 4))},
    },
    # A TPU gathers and exchanges what the matmul takes: bf16.
    "tpu": {
        "tensor_parallel": {("model", "all-reduce"): (6 * LAYER, 6 * LAYER * 2 * Fraction(3, 4))},
        "fsdp": {("fsdp", "all-gather"): (SHARD, SHARD * 7)},
        "fsdp_gradient": {
            ("fsdp", "all-gather"): (SHARD, SHARD * 7),
            ("fsdp", "reduce-scatter"): (GRADIENTS, GRADIENTS * Fraction(7, 8)),
        },
        "experts": {("expert", "all-to-all"): (TOKENS * 3 // 2, TOKENS * 3 // 2 * Fraction(3, 4))},
        "ring": {("stage", "collective-permute"): (3 * STAGE, 3 * STAGE)},
        "line": {("stage", "collective-permute"): (STAGE, STAGE * Fraction(3, 4))},
    },
}


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cpu", "tpu", "gpu"])
def test_bytes_by_axis_of_compiled_programs(platform: str) -> None:
    """Witness: the compilers' programs, against sums written out by hand."""
    texts = compiled(platform, *PROGRAMS, *AXES)
    found = {name: sums(analyzed(texts[name])) for name in PROGRAMS}
    assert found == BY_HAND[platform]
    assert found["tensor_parallel"]["model", "all-reduce"] == (1_572_864, Fraction(2_359_296))


def check_axes(programs: dict[str, dict[str, str]]) -> int:
    """Asserts that collectives are over the axes of the program, and that meshes found without names are never wrong."""
    exact = 0
    for name, texts in programs.items():
        axes, steps = random_axes(int(name.removeprefix("axes:")))
        programmed = Counter(",".join(axis for axis in used if axes[axis] > 1) for _, used in steps)
        del programmed[""]
        found = Counter(each.axis for each in analyzed(texts))
        del found["-"]  # a permute along an axis of size 1
        assert found == programmed, name
        inferred = mesh_of(parse_module(texts["after"]))
        if inferred is None:
            continue
        sizes = [axis.size for axis in inferred.mesh.axes]
        users = [size for size in axes.values() if size > 1]
        exact += sizes == users
        assert {prod(sizes[at:]) for at in range(len(sizes))} <= {prod(users[at:]) for at in range(len(users))}, name
    return exact


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cpu", "tpu", "gpu"])
def test_axes_of_compiled_programs(platform: str) -> None:
    """Witness: collectives over the axes that shard_map names, on shuffled meshes too."""
    texts = compiled(platform, *PROGRAMS, *AXES)
    assert check_axes({name: texts[name] for name in AXES}) >= 5


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize("platform", ["cpu", "tpu", "gpu"])
def test_axes_of_many_compiled_programs(platform: str) -> None:
    check_axes(compiled(platform, *(f"axes:{seed}" for seed in range(100, 180))))
