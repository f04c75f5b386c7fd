"""Shapes, layouts, shardings, and replica groups in place of a module: each is explained, in the forms of frameworks too."""

from __future__ import annotations

import itertools
import random
from math import prod

import pytest

from hlo_cli.analysis.sharding.placement import placement_of, sharding_of_placement, tiles_of, whole_sizes
from hlo_cli.commands.prints import shape_text, sharding_text
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.pasted.kinds import PastedKind
from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding
from hlo_cli.report.report import Report
from hlo_cli.source import HloError
from hlo_cli.syntax.values.sharding_forms import read_given_sharding


def report(kind: PastedKind, text: str) -> Report:
    """The report of a kind on a text."""
    functions = {
        "shape": shape_text.shape_report,
        "layout": shape_text.layout_report,
        "sharding": sharding_text.sharding_report,
        "replica-groups": sharding_text.replica_groups_report,
    }
    return functions[kind](PastedText(kind, "-", text))


def rows(found: Report, name: str) -> list[tuple[object, ...]]:
    """The rows of a table of a report."""
    return [tuple(row) for table in found.tables if table.name == name for row in table.rows]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("F32[8]", "f32[8]"),
        ("float32[8,128]", "f32[8,128]"),
        ("bfloat16[4]", "bf16[4]"),
        ("torch.float16[3,4]", "f16[3,4]"),
        ("torch.long[2]", "s64[2]"),
        ("int8[5]", "s8[5]"),
        ("uint32[]", "u32[]"),
        ("bool[7]", "pred[7]"),
        ("complex128[2]", "c128[2]"),
        ("float8_e4m3fn[16]", "f8e4m3fn[16]"),
        ("float8_e5m2[16]", "f8e5m2[16]"),
        ("ShapedArray(float32[8])", "f32[8]"),
        ("ShapedArray(int32[3,4], weak_type=True)", "s32[3,4]"),
        ("tensor<8x128xf32>", "f32[8,128]"),
        ("tensor<f64>", "f64[]"),
        ("tensor<4xi1>", "pred[4]"),
        ("bf16[8,128]{T(8,128)}", "bf16[8,128]{1,0:T(8,128)}"),
        ("(F32[2], S32[])", "(f32[2], s32[])"),
    ],
)
def test_shapes_of_frameworks_become_shapes_of_xla(given: str, expected: str) -> None:
    assert shape_text.shape_text(given) == expected
    found = report("shape", given)
    assert [note.message for note in found.notes][:1] == [f"in the form of XLA: {expected}"]


def test_a_shape_of_xla_has_no_note_and_an_invalid_layout_is_named() -> None:
    assert report("shape", "f32[7,9]").notes == ()
    assert report("shape", "f32[7,9]").answer == "Needs 252 bytes for 63 f32 elements, no padding"
    [note] = report("shape", "f32[7,9]{0}").notes
    assert note.message == "the layout {0} is ignored: layout has 1 dimension, but the shape has 2"


def test_unknown_types_name_the_known_ones() -> None:
    with pytest.raises(HloError) as caught:
        report("shape", "quux[3]")
    assert caught.value.diagnostic.message == "unknown element type 'quux'"
    assert "bf16" in (caught.value.diagnostic.hint or "")


def test_a_layout_is_explained_without_a_shape() -> None:
    found = report("layout", "{0,2,1:T(16,128)(2,1)S(1)}")
    assert found.numbers["minor_to_major"] == (0, 2, 1)
    assert found.numbers["memory_space"] == 1
    assert "dimension 0 is minor, dimension 1 is major; tiles of 16 × 128, each in tiles of 2 × 1" in found.answer
    [tile, *_] = [row for row in rows(found.only("layout", as_rows=True), "layout") if row[1] == "tile"]
    assert tile[3] == "stored in tiles: 128 of dimension 0, 16 of dimension 2; sizes are padded to multiples"
    assert found.next[0] == "hlo layout 'bf16[1024,1024,1024]{0,2,1:T(16,128)(2,1)S(1)}'"
    assert report("layout", "{1,1}").answer == "Invalid layout: duplicate layout dimension 1"


def test_a_tiled_sharding_lists_the_part_of_each_device() -> None:
    found = report("sharding", "sharding={devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}")
    assert found.answer == "Dimension 0 in 3 parts; each of the 3 parts is on 2 of 6 devices"
    assert rows(found, "devices") == [(str(d), (d % 3, 0), d // 3) for d in range(6)]
    assert found.numbers["parts"] == (3, 1)


def test_random_iota_shardings_agree_with_the_definition() -> None:
    source = random.Random(11)
    for _ in range(60):
        sizes = [source.choice((1, 2, 3, 4)) for _ in range(source.randint(1, 4))]
        order = source.sample(range(len(sizes)), len(sizes))
        devices = prod(sizes)
        tiles = [devices, 1]
        for divisor in (2, 3):
            if devices % divisor == 0 and source.random() < 0.7:
                tiles = [divisor, devices // divisor]
        if devices == 1:
            continue
        iota = f"[{','.join(map(str, sizes))}]" + (f"T({','.join(map(str, order))})" if len(sizes) > 1 else "")
        given = read_given_sharding(f"{{devices=[{','.join(map(str, tiles))}]<={iota}}}").sharding
        assert isinstance(given, Sharding)
        cells = list(itertools.product(*map(range, sizes)))
        number = {cell: at for at, cell in enumerate(cells)}
        transposed = itertools.product(*(range(sizes[each]) for each in order))
        listed = []
        for cell in transposed:
            original = [0] * len(sizes)
            for axis, index in zip(order, cell, strict=True):
                original[axis] = index
            listed.append(number[tuple(original)])
        expected = sorted((device, divmod(at, tiles[1])) for at, device in enumerate(listed))
        assert [(each.device, each.tile) for each in tiles_of(placement_of(given))] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("NamedSharding(mesh=Mesh('r': 4, 'c': 2, axis_types=(Auto, Auto)), spec=PartitionSpec(None, 'c'))", "[1,2,4]<=[4,2]T(1,0)"),
        ("NamedSharding(mesh=Mesh('r': 4, 'c': 2), spec=P(('r', 'c'), None), memory_kind=device)", "[8,1]<=[8]"),
        ("NamedSharding(mesh=Mesh('r': 3, 'c': 2), spec=P(('c', 'r')))", "[6]<=[3,2]T(1,0)"),
        ("#sdy.sharding<mesh<[\"r\"=4, \"c\"=2]>, [{\"r\"}, {\"c\"}]>", "[4,2]<=[8]"),
        ("NamedSharding(mesh=Mesh(device_ids=array([[0, 1, 2], [3, 4, 5]]), axis_names=('r', 'c')), spec=P('c'))", "[3,2]<=[2,3]T(1,0)"),
    ],
)  # fmt: skip
def test_shardings_of_jax_and_shardy_have_a_tiled_form(given: str, expected: str) -> None:
    named = read_given_sharding(given).sharding
    assert isinstance(named, NamedSharding)
    tiled = sharding_of_placement(placement_of(named))
    assert str(tiled.tiles) == expected
    parts = {(each.device, each.tile) for each in tiles_of(placement_of(tiled))}
    assert parts == {(each.device, each.tile) for each in tiles_of(placement_of(named))}


def test_a_spec_without_mesh_names_its_axes() -> None:
    found = report("sharding", "PartitionSpec('data', None, ('a', 'b'))")
    assert found.answer == "Divides dimension 0 along data, dimension 2 along a and b"
    assert rows(found, "dimensions") == [("0", "data"), ("1", None), ("2", "a, b")]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("{replicated}", "Every device holds the whole array"),
        ("{maximal device=5}", "Device 5 holds the whole array, the others hold nothing"),
        ("{manual}", "The program decides; the shape is already that of one device"),
        ("{devices=[2,3]<=[8]}", "Invalid sharding: 6 tiles but 8 devices"),
        ("{{replicated}, {manual}}", "One sharding for each of 2 values"),
    ],
)
def test_other_shardings_are_named(given: str, answer: str) -> None:
    assert report("sharding", given).answer == answer


def test_an_elided_device_list_counts_up() -> None:
    found = report("sharding", "{devices=[64,1]0,1,2,...,63}")
    assert found.numbers["devices"] == 64
    assert "elided" in found.notes[0].message


@pytest.mark.parametrize(
    ("given", "answer", "first"),
    [
        ("{{0,1,2},{3,4,5}}", "2 groups of 3 devices, contiguous", ("0", 3, 1, "0, 1, 2")),
        ("replica_groups=[3,2]<=[2,3]T(1,0)", "3 groups of 2 devices, strided by 3", ("0", 2, 3, "0, 3")),
        ("{{0,1,4,5},{2,3,6,7}}", "2 groups of 4 devices, not evenly spaced", ("0", 4, None, "0, 1, 4, 5")),
        ("replica_groups=mesh['x'=2,'y'=3] {'x'}", "3 groups of 2 devices, strided by 3", ("0", 2, 3, "0, 3")),
    ],
)
def test_groups_are_listed(given: str, answer: str, first: tuple[object, ...]) -> None:
    found = report("replica-groups", given)
    assert found.answer == answer
    assert rows(found, "groups")[0] == first


def test_repeated_devices_and_pairs() -> None:
    assert "more than one group" in report("replica-groups", "{{0,1},{1,2}}").notes[0].message
    found = report("replica-groups", "source_target_pairs={{0,1},{1,2},{2,0}}")
    assert found.answer == "3 transfers between 3 devices, a ring of 3 devices shifted by 1"
    found = report("replica-groups", "source_target_pairs={{0,1},{1,2}}")
    assert found.notes[0].message == "devices that receive nothing get zeros: 0"


def test_empty_groups_have_no_mesh() -> None:
    assert report("replica-groups", "{{}}").answer == "1 group of 0 devices, so no data moves"


def test_parts_of_the_whole() -> None:
    tiles = placement_of(read_given_sharding("{devices=[4,1,2]<=[8] last_tile_dim_replicate}").sharding)  # type: ignore[arg-type]
    assert whole_sizes((3, 10), tiles) == (12, 10)
    assert whole_sizes((3,), tiles) is None
    assert tiles.shard_sizes((13, 10)) == (4, 10)
