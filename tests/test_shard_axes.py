"""Mesh axes of groups and of permutes, on known meshes and on meshes found from the groups alone."""

from __future__ import annotations

from math import prod
from random import Random
from time import process_time

import pytest

from hlo_cli import collectives_of, parse_module
from hlo_cli.analysis.sharding.meshes import (
    axes_of_groups,
    axes_of_pairs,
    axes_text,
    inferred_mesh,
    known_mesh,
    mesh_text,
)
from hlo_cli.ir.attributes.sharding import AxisRef, Groups, Mesh, MeshAxis
from hlo_cli.source import HloError

NAMES = ("pod", "data", "fsdp", "model")


def random_mesh(random: Random, *, is_shuffled: bool) -> Mesh:
    """A mesh of one to four axes, of at most 96 devices, some axes of size 1."""
    while True:
        sizes = [random.choice((1, 2, 2, 3, 4, 8)) for _ in range(random.randint(1, 4))]
        if prod(sizes) <= 96:
            break
    count = prod(sizes)
    ids = tuple(random.sample(range(count), count)) if is_shuffled else None
    return Mesh(tuple(map(MeshAxis, NAMES, sizes)), ids)


def shuffled(random: Random, groups: Groups) -> Groups:
    """The same groups in another order, with their devices in another order."""
    return tuple(tuple(random.sample(group, len(group))) for group in random.sample(groups, len(groups)))


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_whole_axes_of_known_meshes(is_shuffled: bool) -> None:
    """The groups along any axes are found to be along them, whatever the order of groups and devices."""
    random = Random(is_shuffled)
    for _ in range(150):
        mesh = random_mesh(random, is_shuffled=is_shuffled)
        used = [axis for axis in mesh.axes if random.random() < 0.5]
        groups = mesh.groups([AxisRef(axis.name) for axis in used])
        found = axes_of_groups(shuffled(random, groups), mesh)
        assert found == tuple(AxisRef(axis.name) for axis in used if axis.size > 1), (str(mesh), used)


def test_parts_of_axes_of_known_meshes() -> None:
    random = Random(2)
    for _ in range(100):
        axes = (MeshAxis("x", 8), MeshAxis("y", random.choice((1, 2, 3))), MeshAxis("z", 12))
        count = prod(axis.size for axis in axes)
        mesh = Mesh(axes, tuple(random.sample(range(count), count)) if random.random() < 0.5 else None)
        parts = random.sample([AxisRef("x", 1, 2), AxisRef("x", 2, 2), AxisRef("x", 4, 2), AxisRef("z", 3, 2)], 2)
        if {parts[0].pre_size, parts[1].pre_size} in ({1, 2}, {2, 4}):
            continue  # neighbors are one part
        in_order = sorted(parts, key=lambda part: (part.name, part.pre_size))
        assert axes_of_groups(shuffled(random, mesh.groups(parts)), mesh) == tuple(in_order)
    assert axes_text((AxisRef("x", 1, 2), AxisRef("z"))) == "x:(1)2,z"


def test_neighboring_parts_are_one() -> None:
    mesh = Mesh((MeshAxis("x", 8),))
    joined = tuple((n, n + 2, n + 4, n + 6) for n in range(2))
    assert axes_text(axes_of_groups(joined, mesh) or ()) == "x:(1)4"
    assert axes_text(axes_of_groups((tuple(range(8)),), mesh) or ()) == "x"


@pytest.mark.parametrize(
    "groups",
    [
        ((0, 3), (1, 2)),  # no digit of any axis
        ((0, 1), (2,), (3,)),  # of different sizes
        ((0, 1),),  # not all devices
        ((0, 1), (2, 9)),  # a device that the mesh does not have
    ],
)
def test_groups_along_no_axes(groups: Groups) -> None:
    assert axes_of_groups(groups, Mesh((MeshAxis("x", 2), MeshAxis("y", 2)))) is None


def test_groups_of_one_device_are_along_no_axes_at_all() -> None:
    assert axes_of_groups(((0,), (1,)), Mesh((MeshAxis("x", 2),))) == ()


@pytest.mark.parametrize(
    ("pairs", "shifts"),
    [
        (((0, 2), (2, 4), (4, 6), (6, 0), (1, 3), (3, 5), (5, 7), (7, 1)), ["stage +1"]),
        (((2, 0), (4, 2), (6, 4)), ["stage -1"]),
        (((0, 1), (1, 0)), ["data +1"]),
        (((0, 4), (4, 0)), ["stage +2"]),
        (((0, 2), (2, 6)), ["stage"]),
        (((0, 0), (1, 2)), ["stage +1", "data +1"]),
        (((0, 0),), []),
        ((), []),
    ],
)
def test_shifts_of_permutes(pairs: tuple[tuple[int, int], ...], shifts: list[str]) -> None:
    found = axes_of_pairs(pairs, Mesh((MeshAxis("stage", 4), MeshAxis("data", 2))))
    assert found is not None
    assert [str(each) for each in found] == shifts


def test_found_meshes_explain_the_groups_of_row_major_meshes() -> None:
    """Every axis found is an axis, a join of neighbors nobody separates, or a part: groups are along whole axes."""
    random, exact = Random(4), 0
    for _ in range(150):
        mesh = random_mesh(random, is_shuffled=False)
        axes = [axis for axis in mesh.axes if axis.size > 1]
        sets = [mesh.groups([AxisRef(axis.name)]) for axis in axes if random.random() < 0.8]
        sets += [mesh.groups([AxisRef(axis.name) for axis in axes])]
        found = inferred_mesh(sets, [], mesh.device_count)
        if mesh.device_count == 1:
            assert found is None
            continue
        assert found is not None
        assert found.is_inferred
        for groups in sets:
            along = axes_of_groups(groups, found.mesh)
            assert along
            assert all(axis.size is None for axis in along)
        exact += [axis.size for axis in found.mesh.axes] == [axis.size for axis in axes]
        borders = {prod(axis.size for axis in mesh.axes[at:]) for at in range(len(mesh.axes) + 1)}
        ours = {prod(axis.size for axis in found.mesh.axes[at:]) for at in range(len(found.mesh.axes) + 1)}
        assert ours <= borders, "a border that no axis of the mesh has"
    assert exact > 75


def test_no_single_mesh_for_groups_that_contradict() -> None:
    """Axes of 2 × 3 and 3 × 2 are not of one row-major mesh; nothing is guessed."""
    assert inferred_mesh([((0, 1, 2), (3, 4, 5)), ((0, 1), (2, 3), (4, 5))], [], 6) is None
    assert inferred_mesh([((0, 3), (1, 2))], [], 4) is None
    assert inferred_mesh([], [], 8) is None
    assert inferred_mesh([((0,), (1,))], [((0, 0), (1, 1))], 2) is None


def test_rings_show_an_axis_unless_they_contradict() -> None:
    ring = ((0, 2), (2, 4), (4, 6), (6, 0), (1, 3), (3, 5), (5, 7), (7, 1))
    line = ((1, 0), (3, 2), (5, 4), (7, 6))
    reshard = ((1, 2), (2, 4), (3, 6), (4, 1), (5, 3), (6, 5))
    found = inferred_mesh([], [ring, line, reshard], 8)
    assert found is not None
    assert mesh_text(found.mesh) == "axis0=4,axis1=2"
    whole = inferred_mesh([(tuple(range(8)),)], [reshard], 8)
    assert whole is not None
    assert mesh_text(whole.mesh) == "axis0=8"


HEADER = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'
BODY = "ENTRY e { ROOT p = f32[8] parameter(0) }"


def test_order_of_preference_of_meshes() -> None:
    """Given, header, sibling, named shardings; only meshes of as many devices as the module has."""
    text = "ENTRY e { ROOT p = f32[8] parameter(0), sharding={mesh['x'=8], [{'x'}]} }"
    bare = parse_module(f"HloModule m, num_partitions=8 {text}")
    sibling = parse_module(f"HloModule m, num_partitions=8, {HEADER} {BODY}")
    given = Mesh((MeshAxis("a", 2), MeshAxis("b", 4)))
    found = [
        known_mesh(sibling, given, [bare]),
        known_mesh(sibling),
        known_mesh(bare, None, [sibling]),
        known_mesh(bare),
    ]
    assert [each and (mesh_text(each.mesh), each.origin) for each in found] == [
        ("a=2,b=4", "--mesh"),
        ("data=4,model=2", "the header"),
        ("data=4,model=2", "before_optimizations"),
        ("x=8", "the shardings"),
    ]


def test_meshes_of_another_size_are_not_taken() -> None:
    module = parse_module(f"HloModule m, num_partitions=4, {HEADER} {BODY}")
    assert known_mesh(module) is None
    with pytest.raises(HloError, match="data=4,model=4 is 16 devices, the module has 4"):
        known_mesh(module, Mesh((MeshAxis("data", 4), MeshAxis("model", 4))))


def test_meshes_that_the_partitioner_makes_are_not_the_users() -> None:
    """`axis_0` of two instructions are different things."""
    groups = "replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}, channel_id=1, use_global_device_ids=true"
    entry = f"ENTRY e {{ p = f32[8] parameter(0)  ROOT g = f32[32] all-gather(p), dimensions={{0}}, {groups} }}"
    assert known_mesh(parse_module(f"HloModule m, num_partitions=8 {entry}")) is None


def test_of_several_meshes_the_one_that_explains_the_groups() -> None:
    meshes = 'a = #sdy.mesh<["x"=8]>, b = #sdy.mesh<["y"=4, "z"=2]>, c = #sdy.mesh<["w"=3]>'
    text = f"HloModule m, num_partitions=8, frontend_attributes={{xla.sdy.meshes={{{meshes}}}}} {BODY}"
    module = parse_module(text)
    found = known_mesh(module, explains=lambda mesh: len(mesh.axes) == 2)
    assert found is not None
    assert (mesh_text(found.mesh), [mesh_text(mesh) for mesh in found.others]) == ("y=4,z=2", ["x=8"])


def test_meshes_with_listed_devices() -> None:
    header = (
        'frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\\"x\\"=2, \\"y\\"=2], device_ids=[3, 1, 0, 2]>}"}'
    )
    found = known_mesh(parse_module(f"HloModule m, num_partitions=4, {header} {BODY}"))
    assert found is not None
    assert found.mesh.devices() == (3, 1, 0, 2)
    iota = "sharding={mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}]}"
    module = parse_module(f"HloModule m, num_partitions=4 ENTRY e {{ ROOT p = f32[8] parameter(0), {iota} }}")
    shuffled_mesh = known_mesh(module)
    assert shuffled_mesh is not None
    assert shuffled_mesh.mesh.devices() == (0, 2, 1, 3)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("replica_groups=[4,2]<=[2,4]T(1,0)", "in a row-major mesh axis0=2,axis1=4, these are the groups along axis0"),
        ("replica_groups={{0,1,4,5},{2,3,6,7}}", "mesh axis0=2,axis1=2,axis2=2, these are the groups along axis0 and axis2"),
        ("source_target_pairs={{0,2},{2,0},{1,3},{3,1}}", "in a row-major mesh axis0=2,axis1=2, data moves along axis0 +1"),
        ("replica_groups={{0,3},{1,2}}", None),
        ("replica_groups={{0,1,2,3}}", None),
    ],
)  # fmt: skip
def test_axes_of_pasted_groups(text: str, note: str | None) -> None:
    """Groups alone tell of a mesh only if it has several axes."""
    from hlo_cli.commands.prints.sharding_text import replica_groups_report
    from hlo_cli.inputs.pasted.envelopes import PastedText

    messages = [each.message for each in replica_groups_report(PastedText("replica-groups", "<stdin>", text)).notes]
    assert [message for message in messages if "mesh" in message] == ([] if note is None else messages[-1:])
    assert note is None or messages[-1].endswith(note)


def test_a_huge_device_number_is_not_counted_up_to() -> None:
    """Without a number of devices in the header, one more than the largest id; no mesh has so many."""
    started = process_time()
    assert inferred_mesh([], [((0, 10**9),)], 10**9 + 1) is None
    permute = "a = f32[2] collective-permute(p), source_target_pairs={{0,999999999}}"
    gather = "ROOT r = f32[2] all-gather(a), dimensions={0}, replica_groups={}"
    text = f"ENTRY e {{ p = f32[2] parameter(0)  {permute}  {gather} }}"
    _, found = collectives_of(parse_module(text))
    assert found.groups is None
    assert "too many to list" in found.problem
    assert process_time() - started < 2


def test_permutes_that_add_no_axis_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are compared with a mesh once, however many permutes would make the same mesh."""
    compared = []

    def counted(groups: Groups, mesh: Mesh) -> tuple[AxisRef, ...] | None:
        compared.append(groups)
        return axes_of_groups(groups, mesh)

    monkeypatch.setattr("hlo_cli.analysis.sharding.meshes.axes_of_groups", counted)
    mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 3), MeshAxis("z", 2)))
    groups = [mesh.groups([AxisRef("x")]), mesh.groups([AxisRef("z")]), mesh.groups([AxisRef("y"), AxisRef("z")])]
    lines = [((0, 2), (2, 4), *((1, 1),) * count) for count in range(40)]
    found = inferred_mesh(groups, lines, 12)
    assert found is not None
    assert mesh_text(found.mesh) == "axis0=2,axis1=3,axis2=2"
    assert len(compared) < 2 * len(groups) + len(lines)
