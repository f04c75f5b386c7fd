"""Which device holds which slice of an array, held to JAX and to execution."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hlo_cli import ArrayShape, HloError, parse_shape, shards
from hlo_cli.analysis.sharding.placement import (
    devices_of,
    has_parts,
    mesh_of_tiles,
    partition_spec,
    placement_axes,
    placement_of,
    shard_bytes,
    shard_shape,
    sharded_array,
    sharding_of_placement,
    spec_text,
    whole_sizes,
)
from hlo_cli.ir.attributes.sharding import DimensionSharding, Mesh, MeshAxis, NamedSharding
from shard_cases import random_named, random_sharding, random_tiled, read

NAMES = ("a", "b", "c", "d")


def ask_jax(function: str, cases: list[dict[str, Any]], devices: int) -> list[Any]:
    """The answers of the program in jax."""
    pytest.importorskip("jax")
    program = Path(__file__).parent / "shard_in_jax.py"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, str(program), function, str(devices)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[Any] = json.loads(done.stdout)
    return answers


def random_case(rng: Random, most: int) -> dict[str, Any]:
    """A mesh, a spec over some of its axes, and an even shape."""
    while True:
        sizes = [rng.choice((1, 2, 2, 3, 4, 6)) for _ in range(rng.randint(1, 4))]
        if 2 <= prod(sizes) <= most:
            break
    rank = rng.randint(1, 3)
    spec: list[list[str]] = [[] for _ in range(rank)]
    for name in rng.sample(NAMES[: len(sizes)], len(sizes)):
        if rng.random() < 0.75:
            rng.choice(spec).append(name)
    size_of = dict(zip(NAMES, sizes, strict=False))
    shape = [rng.randint(1, 4) * prod(size_of[name] for name in axes) for axes in spec]
    count = prod(sizes)
    order = rng.sample(range(count), count) if rng.random() < 0.5 else list(range(count))
    return {"sizes": sizes, "names": NAMES[: len(sizes)], "order": order, "spec": spec, "shape": shape}


def mesh_of(case: dict[str, Any]) -> Mesh:
    return Mesh(tuple(map(MeshAxis, case["names"], case["sizes"])))


def spec_code(spec: list[list[str]]) -> str:
    items = [f"({', '.join(map(repr, axes))},)" if axes else "None" for axes in spec]
    return f"P({', '.join(items)})"


def check_slices(seed: int, count: int) -> None:
    """The slices of JAX on every position of the mesh, and the PartitionSpec found again."""
    rng = Random(seed)
    cases = [random_case(rng, 16) for _ in range(count)]
    for case, (made, tiled, slices) in zip(cases, ask_jax("maps", cases, 16), strict=True):
        shape = parse_shape(f"s32[{','.join(map(str, case['shape']))}]")
        mesh = dict(zip(case["names"], case["sizes"], strict=True))
        given = read(spec_code(case["spec"]), mesh=mesh)
        for sharding in (read(made), read(tiled), given):
            found = shards(shape, sharding, device_count=prod(case["sizes"]))
            ours = [list(map(list, zip(each.starts, each.limits, strict=True))) for each in found]
            assert ours == slices, (case, made)
        placement = placement_of(read(tiled))
        spec = partition_spec(placement, mesh_of(case))
        assert spec is not None, case
        wanted = [[name for name in axes if mesh[name] > 1] for axes in case["spec"]]
        if any(wanted):
            assert [[axis.name for axis in axes] for axes in spec] == wanted, case
            assert not has_parts(spec)
        else:
            assert not any(spec)


@pytest.mark.oracle
def test_slices_and_specs_are_those_of_jax() -> None:
    check_slices(seed=1, count=100)


@pytest.mark.long
def test_slices_and_specs_of_2500_shardings_are_those_of_jax() -> None:
    check_slices(seed=2, count=2_500)


def check_specs(seed: int, count: int) -> None:
    """The axes that JAX finds in a tile assignment."""
    rng = Random(seed)
    cases = [random_case(rng, 24) for _ in range(count)]
    for case in cases:
        mesh = dict(zip(case["names"], case["sizes"], strict=True))
        case["text"] = str(sharding_of_placement(placement_of(read(spec_code(case["spec"]), mesh=mesh))))
    for case, theirs in zip(cases, ask_jax("specs", cases, 24), strict=True):
        mesh = dict(zip(case["names"], case["sizes"], strict=True))
        spec = partition_spec(placement_of(read(case["text"])), mesh_of(case))
        assert spec is not None, case
        ours = [[axis.name for axis in axes] for axes in spec]
        wanted = [[name for name in axes if mesh[name] > 1] for axes in theirs]
        wanted += [[]] * (len(ours) - len(wanted))  # JAX omits the last dimensions that are not divided
        assert ours == wanted or not (any(ours) or any(wanted)), (case, theirs)


@pytest.mark.long
def test_two_thousand_specs_are_those_of_jax() -> None:
    check_specs(seed=4, count=2_000)


def slices_of(text: str, sharding: str, **given: Any) -> list[tuple[int, ...]]:
    return [(each.device, *each.starts, *each.limits) for each in shards(parse_shape(text), read(sharding), **given)]


def test_an_uneven_dimension_ends_in_padding_and_empty_shards() -> None:
    # by hand: ceil(5 / 4) = 2, so tiles begin at 0, 2, 4, and 6, which is past the end
    assert slices_of("f32[5]", "{devices=[4]<=[4]}") == [(0, 0, 2), (1, 2, 4), (2, 4, 5), (3, 5, 5)]
    found = shards(parse_shape("f32[5]"), read("{devices=[4]<=[4]}"))
    assert [each.is_empty for each in found] == [False, False, False, True]


@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_shards_at_every_boundary(parts: int) -> None:
    """The shard is the smallest that holds the array in so many parts; the parts join, full ones first, then empty."""
    sharding = read(f"{{devices=[{parts},2]<=[{2 * parts}] last_tile_dim_replicate}}")
    placement = placement_of(sharding)
    for size in range(3 * parts + 2):
        array = parse_shape(f"f32[{size}]{{0:T(4)}}")
        assert isinstance(array, ArrayShape)
        (most,) = shard_shape(array, placement).dimensions
        assert parts * most >= size > parts * (most - 1) or size == most == 0, size
        assert placement.shard_sizes((size,)) == (most,)
        assert shard_bytes(array, placement) == -(-most // 4) * 16
        found = shards(array, sharding)[::2]
        lengths = [*([most] * (size // most if most else 0)), *([size % most] if most and size % most else [])]
        assert [each.sizes[0] for each in found] == lengths + [0] * (parts - len(lengths)), size
        assert [n for each in found for n in range(size)[each.slices[0]]] == list(range(size))
        assert [each.is_empty for each in found] == [at >= len(lengths) for at in range(parts)], size
        assert sharded_array(array, sharding).is_even == (size % parts == 0), size


def test_shards_of_unknown_size_stay_unknown() -> None:
    array = parse_shape("f32[?,7]")
    assert isinstance(array, ArrayShape)
    assert shard_shape(array, placement_of(read("{devices=[1,2]<=[2]}"))).dimensions == (array.dimensions[0], 4)
    with pytest.raises(HloError, match="unknown size"):
        shards(array, read("{devices=[1,2]<=[2]}"))


def test_devices_with_the_same_tile_are_copies() -> None:
    found = shards(parse_shape("f32[4]"), read("{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"))
    assert [(each.device, each.tile, each.copy) for each in found] == [
        (0, (0,), 0),
        (1, (1,), 0),
        (2, (0,), 1),
        (3, (1,), 1),
    ]


def test_shardings_without_tiles() -> None:
    assert slices_of("f32[4]", "{maximal device=3}") == [(3, 0, 4)]
    assert slices_of("f32[4]", "{replicated}", device_count=2) == [(0, 0, 4), (1, 0, 4)]
    assert slices_of("f32[4]", "{mesh['x'=2], replicated}") == [(0, 0, 4), (1, 0, 4)]
    assert slices_of("f32[4]", "{manual}", device_count=2) == [(0, 0, 4), (1, 0, 4)]
    with pytest.raises(HloError, match="does not list its devices"):
        slices_of("f32[4]", "{replicated}")
    with pytest.raises(HloError, match="unknown sharding"):
        slices_of("f32[4]", "{unknown}")
    with pytest.raises(HloError, match="divides 2 dimensions, but the array has 1"):
        slices_of("f32[4]", "{devices=[2,2]<=[4]}")


def test_bytes_are_those_of_the_shard_with_its_padding() -> None:
    # 500 rows are 63 tiles of 8: 504 x 128 x 4 bytes, and not 1000 x 512 x 4 / 8
    placement = placement_of(read("{devices=[2,4]<=[8]}"))
    shape = parse_shape("f32[1000,512]{1,0:T(8,128)}")
    assert isinstance(shape, ArrayShape)
    assert shard_bytes(shape, placement) == 258_048
    assert whole_sizes((500, 128), placement) == (1000, 512)
    assert whole_sizes((500,), placement) is None


@pytest.mark.parametrize(
    ("text", "sizes", "expected"),
    [  # by hand from the device order of the iota
        ("{devices=[2,4]<=[8]}", (2, 4), "P('a', 'b')"),
        ("{devices=[8]<=[2,4]T(1,0)}", (2, 4), "P(('b', 'a'))"),
        ("{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}", (4, 2), "P('b', None)"),
        ("{devices=[4,2]<=[2,2,2]T(2,1,0)}", (4, 2), "P(('b', 'a:(2)2'), 'a:(1)2')"),
        ("{devices=[3,4]<=[12] last_tile_dim_replicate}", (12,), "P('a:(1)3')"),
        ("{devices=[2,6]<=[12] last_tile_dim_replicate}", (12,), "P('a:(1)2')"),
        ("{replicated}", (2, 4), "P()"),
        ("{devices=[8]0,1,2,3,4,5,7,6}", (2, 4), None),
        ("{devices=[4,2]<=[8] last_tile_dims={manual}}", (4, 2), None),
        ("{devices=[2,2]<=[4]}", (2, 4), None),
    ],
)
def test_specs(text: str, sizes: tuple[int, ...], expected: str | None) -> None:
    mesh = Mesh(tuple(map(MeshAxis, NAMES, sizes)))
    spec = partition_spec(placement_of(read(text)), mesh)
    assert (spec_text(spec) if spec is not None else None) == expected


def test_a_spec_over_a_mesh_with_listed_devices() -> None:
    named = read("{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'y'}, {}]}")
    assert isinstance(named, NamedSharding)
    assert isinstance(named.mesh, Mesh)
    assert spec_text(partition_spec(placement_of(named), named.mesh) or ()) == "P('y', None)"


def random_run(rng: Random) -> dict[str, Any]:
    """A random sharding on at most 8 devices and a shape, most often uneven."""
    while True:
        rank = rng.randint(1, 3)
        text = random_sharding(rng, rank)
        if any(word in text for word in ("manual", "unreduced", "maximal", "unknown", "{replicated}")):
            continue
        sharding = read(text)
        count = devices_of(sharding) or 0
        if 2 <= count <= 8:
            break
    shape = [rng.choice((1, 2, 3, 5, 5, 7, 7, 9, 10, 11)) for _ in range(rank)]
    shard = list(placement_of(sharding).shard_sizes(shape))
    tiled = str(sharding_of_placement(placement_of(sharding)))  # the reader of the program has no mesh forms
    return {"text": text, "sharding": tiled, "shape": shape, "shard": shard, "devices": count}


def check_execution(seed: int, count: int) -> tuple[int, int]:
    """What XLA's devices hold of a sharded array; the numbers of uneven cases and of empty shards."""
    import numpy as np

    rng = Random(seed)
    cases = [random_run(rng) for _ in range(count)]
    uneven = empty = 0
    for case, held in zip(cases, ask_jax("run", cases, 8), strict=True):
        shape = case["shape"]
        whole = np.arange(1, prod(shape) + 1).reshape(shape)
        text = f"s32[{','.join(map(str, shape))}]"
        found = shards(parse_shape(text), read(case["text"]), device_count=case["devices"])
        for shard, values in zip(found, held, strict=True):
            part = whole[shard.slices]
            there = np.array(values).reshape(case["shard"])
            assert np.array_equal(there[tuple(map(slice, part.shape))], part), (case, shard)  # the rest is padding
            empty += shard.is_empty
        uneven += any(n % s for n, s in zip(shape, case["shard"], strict=True))
    return uneven, empty


@pytest.mark.oracle
def test_devices_hold_what_execution_puts_there() -> None:
    uneven, empty = check_execution(seed=3, count=12)
    assert uneven > 5
    assert empty > 0


@pytest.mark.long
def test_devices_hold_what_300_executions_put_there() -> None:
    uneven, empty = check_execution(seed=2, count=300)
    assert uneven > 150
    assert empty > 100


def test_axes_of_many_primes_are_quick() -> None:
    # the primes of 4096 have 12! orders, all alike; those of 2310 have 120
    mesh = Mesh((MeshAxis("a", 4096), MeshAxis("b", 2)))
    assert partition_spec(placement_of(read("{devices=[2,4096]<=[8192]}")), mesh) is not None
    mesh = Mesh((MeshAxis("a", 2310),))
    spec = partition_spec(placement_of(read("{devices=[11,210]<=[2310]}")), mesh)
    assert spec is not None
    assert spec_text(spec) == "P('a:(1)11', 'a:(11)210')"


def test_axes_of_a_placement_make_the_same_placement() -> None:
    """Parts of axes and listed devices included; the axes of manual and unreduced subgroups too."""
    rng, counted = Random(9), 0
    for _ in range(250):
        rank = rng.randint(1, 4)
        named = read(random_named(rng, rank))
        if not isinstance(named, NamedSharding) or not isinstance(named.mesh, Mesh) or named.mesh.device_count < 2:
            continue
        placement = placement_of(named)
        found = placement_axes(placement, named.mesh)
        assert found is not None, named
        axes = {str(kind): each for kind, each in found.subgroups}
        dimensions = tuple(map(DimensionSharding, found.dimensions)) or (DimensionSharding(),) * rank
        made = NamedSharding(
            named.mesh,
            dimensions,
            unreduced_axes=axes.get("unreduced", ()),
            manual_axes=axes.get("manual", ()),
        )
        if placement.is_tiled and placement.copies > 1:
            used = {axis.name for axis in found.copies}
            assert used
        assert placement_of(made) == placement, named
        counted += 1
    assert counted > 180


def test_the_mesh_of_tiles_alone_explains_them() -> None:
    rng, counted = Random(10), 0
    for _ in range(300):
        placement = placement_of(read(random_tiled(rng, rng.randint(1, 4))))
        mesh = mesh_of_tiles(placement)
        if mesh is None:
            continue
        axes = placement_axes(placement, mesh)
        assert axes is not None
        assert [prod(map(mesh.size_of, each)) for each in axes.dimensions] == list(placement.parts)
        counted += 1
    assert counted > 100
