"""Parameters and results: shard shapes, bytes, and copies.

Witness: XLA's own partitioner, in dumps of one program before and after it; and the compiler's buffer assignment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hlo_cli
from dumps import FIXTURES, compiled_dumps
from hlo_cli import parse_module, parse_shape
from hlo_cli.analysis.sharding.entry_arrays import (
    EntryArray,
    array_of_value,
    divided,
    entry_arrays,
    is_partitioned,
    partitions_of,
    prime_factors,
)
from hlo_cli.commands.memspace.compiler_files import attach_compiler_assignment
from hlo_cli.commands.shard.dump import mesh_of, spec_cell
from hlo_cli.inputs.input import read_inputs, select_module
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input

SCRIPT = Path(__file__).parent / "shard_programs.py"


def module_of(*parameters: str, header: str = ", num_partitions=8", name: str = "main") -> Module:
    """A module with parameters p0, p1, … given as shape and attributes."""
    lines = [f"p{n} = {shape} parameter({n}){rest}" for n, (shape, _, rest) in enumerate(map(_cut, parameters))]
    return parse_module(f"HloModule m{header}\nENTRY {name} {{\n" + "\n".join(lines) + "\n ROOT t = () tuple() }\n")


def _cut(text: str) -> tuple[str, str, str]:
    shape, space, sharding = text.partition(" ")
    return shape, space, f", sharding={sharding}" if sharding else ""


@pytest.mark.parametrize(
    ("given", "shard", "copies", "parts"),
    [
        ("f32[64,8] {devices=[4,2]<=[8]}", "f32[16,4]{1,0}", 1, (4, 2)),
        ("f32[64,8] {devices=[4,1,2]<=[8] last_tile_dim_replicate}", "f32[16,8]{1,0}", 2, (4, 1)),
        ("f32[10,6] {devices=[4,2]<=[8]}", "f32[3,3]{1,0}", 1, (4, 2)),
        ("f32[64] {replicated}", "f32[64]{0}", 8, (1,)),
        ("f32[64] {maximal device=3}", "f32[64]{0}", 1, (1,)),
        ("f32[64] {unreduced}", "f32[64]{0}", 1, (1,)),
        ("f32[64] {manual}", "f32[64]{0}", None, None),
        ("f32[64,8] {devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}", "f32[32,8]{1,0}", 2, (2, 1)),
        ("f32[64,8] {mesh['x'=2,'y'=4], [{'y'}, {}]}", "f32[16,8]{1,0}", 2, (4, 1)),
        ("f32[] {replicated}", "f32[]", 8, ()),
    ],
)
def test_before_partitioning(given: str, shard: str, copies: int | None, parts: tuple[int, ...] | None) -> None:
    [found] = entry_arrays(module_of(given)).parameters
    assert (str(found.shard), found.replication, found.parts) == (shard, copies, parts)
    assert found.is_estimated


def test_after_partitioning_the_shape_is_the_shard() -> None:
    [found] = entry_arrays(module_of("f32[500,128]{1,0:T(8,128)} {devices=[2,4]<=[8]}", name="main_spmd")).parameters
    assert (str(found.shard), found.shard_bytes, found.data_bytes) == ("f32[500,128]{1,0:T(8,128)}", 258048, 256000)
    assert found.whole is not None
    assert found.whole.sizes == (1000, 512)
    assert not found.is_estimated


@pytest.mark.parametrize("given", ["f32[8,8]", "f32[8,8] {unknown}"])
def test_without_a_sharding_nothing_is_guessed(given: str) -> None:
    [found] = entry_arrays(module_of(given)).parameters
    assert (found.shard, found.shard_bytes, found.replication, found.saving_bytes) == (None, None, None, None)
    [found] = entry_arrays(module_of("f32[8,8]", name="main_spmd")).parameters
    assert (found.shard_bytes, found.replication, found.saving_bytes) == (256, None, None)


def test_a_sharding_of_another_rank_is_a_problem() -> None:
    [found] = entry_arrays(module_of("f32[8] {devices=[2,4]<=[8]}")).parameters
    assert found.problem == "the sharding divides 2 dimensions, but the array has 1"
    assert found.shard is None


@pytest.mark.parametrize(
    ("sharding", "problem"),
    [
        ("{cube=[2,4]}", "could not parse {cube=[2,4]}"),
        ("{{replicated}, {replicated}}", "2 shardings for 1 leaf"),
        ("{devices=[2,4]<=[6]}", "8 tiles but 6 devices"),
    ],
)
def test_what_is_not_understood_is_unknown(sharding: str, problem: str) -> None:
    """It is not the same as no sharding, and not replicated."""
    [found] = entry_arrays(module_of(f"f32[8,8] {sharding}")).parameters
    assert found.problem is not None
    assert problem in found.problem
    assert (found.shard, found.replication) == (None, None)
    [found] = entry_arrays(module_of(f"f32[8,8] {sharding}", name="main_spmd")).parameters
    assert found.problem is not None
    assert (found.shard_bytes, found.replication) == (256, None)


def test_one_device_has_everything() -> None:
    found = entry_arrays(module_of("f32[8]", header=""))
    assert (found.partitions, found.parameters[0].replication, found.parameters[0].saving_bytes) == (1, 1, 0)


def test_leaves_of_tuples() -> None:
    text = "HloModule m, num_partitions=2 ENTRY e { ROOT p = (f32[8], (s32[4,2], token[])) parameter(0), sharding={"
    found = entry_arrays(parse_module(text + "{devices=[2]<=[2]}, {devices=[1,2]<=[2]}, {replicated}} }"))
    assert [str(each) for each in found.parameters] == ["p{0}", "p{1,0}"]
    assert [each.shard_bytes for each in found.parameters] == [16, 16]
    assert [each.shard_bytes for each in found.results] == [16, 16]


def test_dividing_takes_the_dimension_that_saves_most() -> None:
    shape = module_of("f32[500,128]{1,0:T(8,128)}").entry.parameters[0].shape
    assert isinstance(shape, hlo_cli.ArrayShape)
    assert str(divided(shape, 2)) == "f32[250,128]{1,0:T(8,128)}"
    vector = module_of("f32[512]{0:T(512)}").entry.parameters[0].shape
    assert isinstance(vector, hlo_cli.ArrayShape)
    assert str(divided(vector, 8)) == "f32[64]{0:T(128)}"
    odd = module_of("f32[3,5]{1,0}").entry.parameters[0].shape
    assert isinstance(odd, hlo_cli.ArrayShape)
    assert divided(odd, 8) == odd


def test_copies_of_what_cannot_be_divided_save_nothing() -> None:
    [scalar] = entry_arrays(module_of("f32[] {replicated}")).parameters
    [odd] = entry_arrays(module_of("f32[3,5] {replicated}")).parameters
    assert (scalar.replication, scalar.saving_bytes, odd.saving_bytes) == (8, 0, 0)


def test_partitions_without_a_header() -> None:
    module = module_of("f32[8] {devices=[4]<=[4]}", header="")
    assert (partitions_of(module), is_partitioned(module)) == (4, False)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("HloModule m, is_scheduled=true, num_partitions=2 ENTRY e { ROOT p = f32[2] parameter(0) }", True),
        ("HloModule m, num_partitions=2 ENTRY main.1_spmd { ROOT p = f32[2] parameter(0) }", True),
        ("HloModule m, num_partitions=2 ENTRY e { ROOT p = f32[2] parameter(0), sharding={replicated} }", False),
        (
            (
                'HloModule m, num_partitions=2, frontend_attributes={xla.sdy.meshes={m = #sdy.mesh<["x"=2]>}} '
                "ENTRY e { p = f32[2] parameter(0) ROOT g = f32[4] all-gather(p), dimensions={0}, replica_groups={} }"
            ),
            False,
        ),
        (
            (
                "HloModule m, num_partitions=2 ENTRY e { p = f32[2] parameter(0) "
                "ROOT g = f32[4] all-gather(p), dimensions={0}, replica_groups={{0,1}}, channel_id=1 }"
            ),
            True,
        ),
        (
            (
                "HloModule m, num_partitions=2 ENTRY e { p = f32[2] parameter(0) "
                "ROOT n = f32[2] negate(p), sharding={devices=[2]<=[2]} }"
            ),
            False,
        ),
    ],
)
def test_the_stage_is_told_from_the_text(text: str, answer: bool) -> None:
    assert is_partitioned(parse_module(text)) is answer


def test_a_parameter_by_name_and_an_instruction_with_a_sharding() -> None:
    text = (
        "HloModule m, num_partitions=2 ENTRY e { p = f32[8] parameter(0), sharding={replicated} "
        "n = f32[8] negate(p) ROOT r = f32[8] negate(n), sharding={devices=[2]<=[2]} }"
    )
    module = parse_module(text)
    copies = [array_of_value(module, each) for each in module.entry.instructions]
    assert [each and each.replication for each in copies] == [2, None, 1]


def test_specs_in_tables() -> None:
    module = module_of("f32[8,8] {devices=[4,2]<=[8]}", "f32[8] {replicated}", "f32[8] {maximal device=1}", "f32[8]")
    found = entry_arrays(module).parameters
    assert [spec_cell(each, None) for each in found] == ["4, 2", "replicated", "device 1", "?"]


@pytest.mark.parametrize("name", ["v4_collectives", "v5e_offload"])
def test_parameters_of_a_partitioned_dump_are_found_before_optimizations(name: str) -> None:
    module = hlo_cli.load(FIXTURES / "tpu" / name)
    found = entry_arrays(module)
    assert found.is_partitioned
    assert {each.origin for each in found.parameters} == {"before_optimizations"}
    assert module.program is not None
    before = entry_arrays(module.program)
    assert not before.is_partitioned
    _compare(before.parameters, found.parameters)
    known = mesh_of(module, None)
    assert known is not None
    assert known.origin == "before_optimizations"


def test_padded_bytes_are_those_of_the_buffer_assignment() -> None:
    """Of every parameter of every dump in fixtures."""
    compared = 0
    for dump in compiled_dumps():
        given = select_module(read_inputs([str(dump.path)]))
        module = read_input(given)
        attach_compiler_assignment(module, given)
        if module.buffer_assignment is None:
            continue
        held = {(each.number, each.index): each.shard_bytes for each in entry_arrays(module).parameters}
        for allocation in module.buffer_assignment.allocations:
            place = (allocation.parameter_number, allocation.parameter_shape_index)
            if allocation.parameter_number is not None and place in held:
                assert held[allocation.parameter_number, place[1]] == allocation.size_bytes, (dump, place)
                compared += 1
    assert compared > 100


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("seed", [1])
def test_shards_are_those_of_the_partitioner(tmp_path: Path, seed: int) -> None:
    _judge("cpu", seed, tmp_path)


@pytest.mark.long
@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(3, 13))
@pytest.mark.parametrize("target", ["cpu", "tpu"])
def test_many_shards_are_those_of_the_partitioner(tmp_path: Path, target: str, seed: int) -> None:
    _judge(target, seed, tmp_path)


def _judge(target: str, seed: int, folder: Path) -> None:
    """The shards of 40 random parameters, before and after partitioning, and the specs that JAX was given."""
    pytest.importorskip("jax")
    if target == "tpu":
        pytest.importorskip("libtpu")
    command = [sys.executable, str(SCRIPT), target, str(seed), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    module = hlo_cli.load(folder)
    assert module.program is not None
    before, after = entry_arrays(module.program), entry_arrays(module)
    assert (before.is_partitioned, after.is_partitioned, len(after.parameters)) == (False, True, 40)
    _compare(before.parameters, after.parameters)
    known = mesh_of(module, None)
    assert known is not None
    assert "?" not in {spec_cell(each, known.mesh) for each in after.parameters}
    for each in after.results:
        assert each.whole is not None
        assert each.replication is not None


def _compare(before: tuple[EntryArray, ...], after: tuple[EntryArray, ...]) -> None:
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        assert one.shard is not None
        assert one.shard.sizes == other.shape.sizes
        assert other.whole is not None
        assert one.shape.sizes == other.whole.sizes
        assert one.replication == other.replication
        assert one.shard_bytes == other.shard_bytes


def test_any_number_of_devices_is_factored() -> None:
    """A prime with 19 digits is not searched for its factors; what has small ones is divided by them."""
    shape = parse_shape("f32[64,6]")
    assert divided(shape, 2**61 - 1) == shape
    assert divided(shape, 2 * (2**61 - 1)).elements == shape.elements // 2
    assert [prime_factors(count) for count in (1, 2, 12, 65537 * 2)] == [[], [2], [2, 2, 3], [2, 65537]]
