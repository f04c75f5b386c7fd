"""Shardings in normal form, held to XLA's own reading of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from hlo_cli import ArrayShape, HloError, parse_shape, sharding_of, shards
from hlo_cli.analysis.sharding.placement import (
    iota_of,
    leaf_shardings,
    placement_of,
    shard_shape,
    sharding_of_placement,
)
from hlo_cli.ir.attributes.sharding import IotaTransform, Sharding, ShardingType, TupleSharding
from shard_cases import random_iota, random_sharding, random_sizes, read


def xla_normal(sharding: Any) -> tuple[Any, ...]:
    """Kind, parts, subgroups, and devices of a sharding as XLA reads it."""
    from jaxlib.xla_client import HloSharding

    v2 = HloSharding.v3_to_v2_sharding(sharding) if "mesh[" in str(sharding) else sharding
    for kind, found in (
        ("replicated", v2.is_replicated()),
        ("manual", v2.is_manual()),
        ("unreduced", v2.is_unreduced()),
        ("unknown", v2.is_unknown()),
    ):
        if found:
            return (kind,)
    dimensions, devices = tuple(v2.tile_assignment_dimensions()), tuple(v2.tile_assignment_devices())
    if v2.is_maximal():
        return "maximal", devices
    kinds = tuple(kind.name.lower() for kind in v2.subgroup_types())
    kinds = ("replicated",) if v2.replicate_on_last_tile_dim() else kinds
    rank = len(dimensions) - len(kinds)
    if kinds and set(dimensions[:rank]) <= {1} and len(kinds) == 1:  # XLA keeps it tiled if a subgroup of 1 was given
        return kinds
    return "devices", dimensions[:rank], tuple(zip(kinds, dimensions[rank:], strict=True)), devices


def our_normal(text: str) -> tuple[Any, ...]:
    """The same by `placement_of`."""
    placement = placement_of(read(text))
    if placement.kind is ShardingType.MAXIMAL:
        return "maximal", placement.devices
    if not placement.is_tiled:
        return (str(placement.kind),)
    groups = tuple((str(group.kind), group.size) for group in placement.subgroups)
    return "devices", placement.parts, groups, placement.devices


def check_random(seed: int, count: int) -> None:
    """Random shardings: tiles, devices, kinds, and shard shapes; a form made of the placement is read the same."""
    import numpy as np
    from jaxlib.xla_client import HloSharding, Shape

    rng = Random(seed)
    for _ in range(count):
        rank = rng.randint(1, 4)
        text, sizes = random_sharding(rng, rank), random_sizes(rng, rank)
        theirs = HloSharding.from_string(text)
        assert our_normal(text) == xla_normal(theirs), text
        sharding, shape = read(text), parse_shape(f"f32[{','.join(map(str, sizes))}]")
        placement = placement_of(sharding)
        if placement.is_tiled or placement.kind is ShardingType.REPLICATED:
            whole = Shape.array_shape(np.dtype("float32"), sizes)
            assert isinstance(shape, ArrayShape)
            assert shard_shape(shape, placement).sizes == theirs.tile(whole).dimensions(), text
        written = str(sharding_of_placement(placement))
        assert xla_normal(HloSharding.from_string(written)) == our_normal(text), (text, written)


@pytest.mark.oracle
def test_random_shardings_are_read_as_by_xla() -> None:
    pytest.importorskip("jaxlib")
    check_random(seed=1, count=300)


@pytest.mark.long
def test_ten_thousand_shardings_are_read_as_by_xla() -> None:
    pytest.importorskip("jaxlib")
    check_random(seed=2, count=10_000)


def check_iotas(seed: int, count: int) -> None:
    """The iota of a sharding, and the one found from its devices, are what XLA prints."""
    from jaxlib.xla_client import HloSharding

    rng = Random(seed)
    for _ in range(count):
        size = rng.choice((2, 3, 4, 6, 8, 12, 16, 24, 32, 36, 64, 96, 128))
        text = f"{{devices=[{size}]<={random_iota(rng, size)}}}"
        printed = str(HloSharding.from_string(text))
        sharding = sharding_of(text)
        assert isinstance(sharding, Sharding)
        assert sharding.tiles is not None
        assert isinstance(sharding.tiles.devices, IotaTransform)
        assert f"{{devices=[{size}]<={iota_of(sharding.tiles.device_ids())}}}" == printed, text
        assert str(sharding_of_placement(placement_of(sharding))) == printed, text


@pytest.mark.oracle
def test_iotas_are_printed_as_by_xla() -> None:
    pytest.importorskip("jaxlib")
    check_iotas(seed=1, count=200)


@pytest.mark.long
def test_three_thousand_iotas_are_printed_as_by_xla() -> None:
    pytest.importorskip("jaxlib")
    check_iotas(seed=2, count=3_000)


def check_tuples(seed: int, count: int) -> None:
    """The elements of tuples are read as by XLA."""
    from jaxlib.xla_client import HloSharding

    rng = Random(seed)
    for _ in range(count):
        texts = [random_sharding(rng, rng.randint(1, 3)) for _ in range(rng.randint(1, 8))]
        text = "{" + ", ".join(f"/*index={at}*/{each}" if at % 5 == 0 < at else each for at, each in enumerate(texts))
        sharding = sharding_of(text + "}")
        assert isinstance(sharding, TupleSharding)
        theirs = HloSharding.from_string(text + "}").tuple_elements()
        assert [our_normal(str(each)) for each in sharding.elements] == list(map(xla_normal, theirs)), text


@pytest.mark.oracle
def test_tuples_of_shardings_are_read_as_by_xla() -> None:
    pytest.importorskip("jaxlib")
    check_tuples(seed=1, count=40)


@pytest.mark.long
def test_three_hundred_tuples_are_read_as_by_xla() -> None:
    pytest.importorskip("jaxlib")
    check_tuples(seed=2, count=300)


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # worked by hand from the rules of hlo_sharding.cc and named_sharding.cc
        ("{devices=[2,2]0,2,1,3}", ("devices", (2, 2), (), (0, 2, 1, 3))),
        ("{devices=[2,4]<=[4,2]T(1,0)}", ("devices", (2, 4), (), (0, 2, 4, 6, 1, 3, 5, 7))),
        ("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", ("devices", (2, 1), (("replicated", 2),), (0, 2, 1, 3))),
        ("{devices=[1,1,4]<=[4] last_tile_dim_replicate}", ("replicated",)),
        ("{devices=[1,4]<=[4] last_tile_dims={manual}}", ("manual",)),
        ("{devices=[1,1]<=[1]}", ("devices", (1, 1), (), (0,))),
        (
            "{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}",
            ("devices", (2,), (("manual", 2), ("replicated", 2)), (0, 2, 1, 3, 4, 6, 5, 7)),
        ),
        ("{devices=[2,4]<=[8] last_tile_dims={unreduced}}", ("devices", (2,), (("unreduced", 4),), tuple(range(8)))),
        (
            "{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'y':(1)2}, {}]}",
            ("devices", (2, 1), (("replicated", 4),), (0, 1, 2, 3, 4, 5, 6, 7)),
        ),
        ("{mesh['x'=2], [{}, {'x', ?}]}", ("devices", (1, 2), (), (0, 1))),
        ("{maximal_mesh[device_id=3]}", ("maximal", (3,))),
        ("{maximal device=3}", ("maximal", (3,))),
        ("{mesh['x'=2,'y'=2], [{}], manual={'x'}, unreduced=max{'y'}}", ("devices", (1,), (("manual", 2), ("unreduced", 2)), (0, 1, 2, 3))),
    ],
)  # fmt: skip
def test_normal_form(text: str, expected: tuple[Any, ...]) -> None:
    assert our_normal(text) == expected


def test_shardings_that_place_alike_are_equal() -> None:
    texts = (
        "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
        "{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dims={replicated}}",
        "{devices=[4,1,2]4,0,5,1,6,2,7,3 last_tile_dim_replicate}",
        "{mesh['x'=2,'y'=4], [{'y'}, {}]}",
        "{mesh['x'=2,'y'=4], [{'y'}, {}], replicated={'x'}}",
        "{mesh['x'=2,'y'=4], [{'y':(1)2, 'y':(2)2}, {}]}".replace("'y':(1)2, 'y':(2)2", "'y'"),
    )
    assert len({placement_of(read(text)) for text in texts}) == 1


def test_the_reduction_of_an_unreduced_sharding_is_kept() -> None:
    named = placement_of(read("{mesh['x'=2,'y'=2], [{'y'}], unreduced=max{'x'}}"))
    tiled = sharding_of_placement(named)
    assert str(tiled) == (
        '{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={unreduced} metadata={op_type="sdy::reduction_op" op_name="MAX"}}'
    )
    assert placement_of(tiled) == named


def test_parts_of_an_axis_that_could_be_one_are_an_error_with_the_fix() -> None:
    with pytest.raises(HloError) as raised:
        sharding_of("{mesh['a'=8], [{'a':(1)4, 'a':(4)2}, {}]}")
    assert raised.value.diagnostic.message == "'a':(1)4, 'a':(4)2 must be written as one axis, 'a'"


@pytest.mark.parametrize("text", ["{devices=[2,2]<=[2,3]T(1,0)}", "{devices=[2,2]0,1,2}", "{devices=[2,2]0,1,2,0}"])
def test_devices_that_do_not_fit_the_tiles_are_an_error(text: str) -> None:
    with pytest.raises(HloError):
        placement_of(read(text))


def test_a_sharding_of_a_tuple_is_that_of_each_leaf() -> None:
    shape = parse_shape("(f32[8], (s32[4], pred[]))")
    found = leaf_shardings(shape, sharding_of("{{devices=[2]<=[2]}, {replicated}, {maximal device=1}}"))
    assert [(index, str(each)) for index, _, each in found] == [
        ((0,), "{devices=[2]<=[2]}"),
        ((1, 0), "{replicated}"),
        ((1, 1), "{maximal device=1}"),
    ]
    with pytest.raises(HloError, match="2 shardings for 3 leaves"):
        leaf_shardings(shape, sharding_of("{{replicated}, {replicated}}"))
    assert leaf_shardings(parse_shape("()"), sharding_of("{}")) == ()


def test_shards_of_no_array() -> None:
    with pytest.raises(HloError, match="is not an array"):
        shards(parse_shape("(f32[8])"), read("{replicated}"))


@pytest.mark.parametrize("dimensions", ["[{'x'}]", "[{}]", "[{'y'}]"])
def test_a_mesh_axis_without_devices_is_an_error(dimensions: str) -> None:
    with pytest.raises(HloError, match="axis x of the mesh has no devices"):
        shards(parse_shape("f32[4]"), read(f"{{mesh['x'=0,'y'=2], {dimensions}}}"))
