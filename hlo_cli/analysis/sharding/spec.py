"""Axes of a mesh for each dimension of an array: the PartitionSpec of a placement, found from its devices.

Mirrors `parse_flatten_op_sharding` of jax/_src/sharding_impls.py, and finds parts of axes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from operator import mul
from typing import NamedTuple

from hlo_cli.analysis.sharding.normal_text import strides_of
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AxisRef, Mesh, MeshAxis, ShardingType

Spec = tuple[tuple[AxisRef, ...], ...]
"""The axes of each dimension, major to minor."""


class _Part(NamedTuple):
    """A part of an axis: the axis, the product of the parts above it, its size, and its stride in the mesh."""

    axis: int
    pre_size: int
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class PlacementAxes:
    """The axes of a mesh that explain a placement: of each dimension, and of each subgroup that is not replicated.

    `copies` are the axes, or parts of axes, along which devices hold the same data.
    """

    dimensions: Spec
    subgroups: tuple[tuple[ShardingType, tuple[AxisRef, ...]], ...]
    copies: tuple[AxisRef, ...]


def partition_spec(placement: Placement, mesh: Mesh) -> Spec | None:
    """The axes of the mesh along which each dimension is divided; None if the axes do not explain the placement.

    Axes of size 1 are left out. A part of an axis has `pre_size` and `size`. A placement with manual or unreduced
    subgroups has no spec.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> placement = placement_of(sharding_of("{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"))
    >>> partition_spec(placement, Mesh((MeshAxis("data", 2), MeshAxis("model", 4))))
    ((AxisRef(name='model', pre_size=None, size=None),), ())
    """
    found = placement_axes(placement, mesh)
    return None if found is None or found.subgroups else found.dimensions


def placement_axes(placement: Placement, mesh: Mesh) -> PlacementAxes | None:
    """The axes of the mesh that explain a placement; None if they do not.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("data", 2), MeshAxis("model", 4)))
    >>> found = placement_axes(placement_of(sharding_of("{devices=[2,4]<=[8] last_tile_dims={manual}}")), mesh)
    >>> [(kind, axis.name) for kind, axes in found.subgroups for axis in axes]
    [(<ShardingType.MANUAL: 'manual'>, 'model')]
    """
    if not placement.is_tiled:
        return _of_whole(placement, mesh)
    devices = mesh.devices()
    shared = placement.copies
    tile_of = {device: at // shared for at, device in enumerate(placement.devices)}
    if not len(placement.devices) == len(devices) == mesh.device_count or any(
        device not in tile_of for device in devices
    ):
        return None
    tiles = [tile_of[device] for device in devices]
    groups = [group for group in placement.subgroups if group.kind is not ShardingType.REPLICATED]
    sizes = (*placement.parts, *(group.size for group in groups))
    cut = _cut(mesh, tiles, sizes) if tiles[0] == 0 else None
    if cut is None or (found := _weights(tiles, cut, sizes)) is None:
        return None
    axes = [_joined(parts, mesh) for parts in found]
    rest = [part for part in cut if not any(part in parts for parts in found)]
    rank = len(placement.parts)
    named = zip((group.kind for group in groups), axes[rank:], strict=True)
    return PlacementAxes(tuple(axes[:rank]), tuple(named), _joined(rest, mesh))


def _of_whole(placement: Placement, mesh: Mesh) -> PlacementAxes | None:
    """The axes of a placement that divides nothing: one kind of subgroup along all of them."""
    axes = tuple(AxisRef(axis.name) for axis in mesh.axes if axis.size > 1)
    match placement.kind:
        case ShardingType.REPLICATED:
            return PlacementAxes((), (), axes)
        case ShardingType.MANUAL | ShardingType.UNREDUCED:
            return PlacementAxes((), ((placement.kind, axes),), ())
        case _:
            return None


def mesh_of_tiles(placement: Placement) -> Mesh | None:
    """The coarsest mesh whose axes, named axis0, axis1, …, explain the tiles; None if no row-major mesh does.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> print(mesh_of_tiles(placement_of(sharding_of("{devices=[4,2]<=[8]}"))))
    mesh['axis0'=4,'axis1'=2]
    """
    devices = placement.devices
    if not placement.is_tiled or sorted(devices) != list(range(len(devices))):
        return None
    sizes = (*placement.parts, *(group.size for group in placement.subgroups))
    borders = {1, len(devices)}
    for d, size in enumerate(sizes):
        stride = prod(sizes[d + 1 :])
        along = strides_of([devices[at * stride] - devices[0] for at in range(size)])
        if along is None:
            return None
        borders |= {border for step, count in along for border in (step, step * count)}
    ordered = sorted(borders, reverse=True)
    if ordered[-1] < 1 or any(a % b for a, b in pairwise(ordered)):
        return None
    mesh = Mesh(tuple(MeshAxis(f"axis{at}", a // b) for at, (a, b) in enumerate(pairwise(ordered))))
    return mesh if mesh.axes and placement_axes(placement, mesh) is not None else None


def spec_text(spec: Spec, *, rank: int | None = None) -> str:
    """The spec as Python code, with all dimensions if the `rank` is given.

    >>> spec_text(((AxisRef("data"),), (), (AxisRef("x"), AxisRef("y"))))
    "P('data', None, ('x', 'y'))"
    >>> spec_text((), rank=2), spec_text(())
    ('P(None, None)', 'P()')
    """
    dimensions = [*spec, *((),) * ((rank or 0) - len(spec))]
    texts = ["None" if not axes else _code(axes) for axes in dimensions]
    return f"P({', '.join(texts)})"


def has_parts(spec: Spec) -> bool:
    """Whether a dimension is divided along a part of an axis, for which JAX has no PartitionSpec.

    >>> has_parts(((AxisRef("data", 1, 2),),))
    True
    """
    return any(axis.size is not None for axes in spec for axis in axes)


def _code(axes: Sequence[AxisRef]) -> str:
    names = [repr(axis.name) if axis.size is None else f"'{axis.name}:({axis.pre_size}){axis.size}'" for axis in axes]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _cut(mesh: Mesh, tiles: Sequence[int], sizes: Sequence[int]) -> list[_Part] | None:
    """The axes of the mesh, cut where a part of one begins or ends to change the index of a tile along a dimension.

    None if the index along an axis is no sum over parts of it.
    """
    found, stride = list[_Part](), 1
    for number in reversed(range(len(mesh.axes))):
        size = mesh.axes[number].size
        along = [tiles[at * stride] for at in range(size)]
        borders = {1, size}
        for d, count in enumerate(sizes):
            weight = prod(sizes[d + 1 :])
            steps = strides_of([tile // weight % count for tile in along])
            if steps is None:
                return None
            borders.update(accumulate((count for _, count in reversed(steps)), mul))
        ordered = sorted(borders)
        if any(below % above for above, below in pairwise(ordered)):
            return None
        found += [_Part(number, size // below, below // above, above * stride) for above, below in pairwise(ordered)]
        stride *= size
    return found[::-1]


def _weights(tiles: Sequence[int], cut: Sequence[_Part], parts: Sequence[int]) -> list[list[_Part]] | None:
    """The parts of axes that divide each dimension, major to minor; None if tiles are not a sum over parts of axes."""
    strides = [prod(parts[at + 1 :]) for at in range(len(parts))]
    found: list[list[tuple[int, _Part]]] = [[] for _ in parts]
    for part in cut:
        weight = tiles[part.stride]
        changed = [d for d, size in enumerate(parts) if weight // strides[d] % size]
        if len(changed) > 1:
            return None
        for d in changed:
            found[d].append((weight, part))
    for d, weighted in enumerate(found):
        weighted.sort(key=lambda each: -each[0])
        expected = strides[d] * parts[d]
        for weight, part in weighted:
            if weight * part.size != expected:
                return None
            expected = weight
        if expected != strides[d]:
            return None
    predicted = [0] * len(tiles)
    for weight, part in (each for weighted in found for each in weighted):
        for at in range(len(tiles)):
            predicted[at] += weight * (at // part.stride % part.size)
    return [[part for _, part in weighted] for weighted in found] if predicted == list(tiles) else None


def _joined(parts: Sequence[_Part], mesh: Mesh) -> tuple[AxisRef, ...]:
    """The parts as axes, with neighbors of the same axis as one."""
    runs = [[part] for part in parts[:1]]
    for before, part in pairwise(parts):
        if part.axis == before.axis and part.pre_size == before.pre_size * before.size:
            runs[-1].append(part)
        else:
            runs.append([part])
    refs = list[AxisRef]()
    for run in runs:
        axis, size = mesh.axes[run[0].axis], prod(part.size for part in run)
        refs.append(AxisRef(axis.name) if size == axis.size else AxisRef(axis.name, run[0].pre_size, size))
    return tuple(refs)
