"""Axes of a mesh for each dimension of an array: the PartitionSpec of a placement, found from its devices.

Mirrors `parse_flatten_op_sharding` of jax/_src/sharding_impls.py, and finds parts of axes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, permutations, product
from math import prod
from typing import NamedTuple

from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.ir.attributes.mesh import AxisRef, Mesh
from hlo_cli.ir.attributes.sharding import ShardingType

Spec = tuple[tuple[AxisRef, ...], ...]
"""The axes of each dimension, major to minor."""

_MAX_CUTS = 64
"""The number of ways to cut axes into prime parts that are tried; most meshes have one."""


class _Part(NamedTuple):
    """A prime part of an axis: the axis, the product of the parts above it, its size, and its stride in the mesh."""

    axis: int
    pre_size: int
    size: int
    stride: int


def partition_spec(placement: Placement, mesh: Mesh) -> Spec | None:
    """The axes of the mesh along which each dimension is divided; None if the axes do not explain the placement.

    Axes of size 1 are left out. A part of an axis has `pre_size` and `size`.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> from hlo_cli.ir.attributes.mesh import MeshAxis
    >>> placement = placement_of(sharding_of("{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"))
    >>> partition_spec(placement, Mesh((MeshAxis("data", 2), MeshAxis("model", 4))))
    ((AxisRef(name='model', pre_size=None, size=None),), ())
    """
    if placement.kind is ShardingType.REPLICATED:
        return ()
    devices = mesh.devices()
    if not placement.is_tiled or len(placement.devices) != len(devices):
        return None
    if any(group.kind is not ShardingType.REPLICATED for group in placement.subgroups):
        return None
    tile_of = _tile_of_device(placement)
    if any(device not in tile_of for device in devices):
        return None
    tiles = [tile_of[device] for device in devices]
    for cut in islice(_cuts(mesh), _MAX_CUTS):
        if (weights := _weights(tiles, cut, placement.parts)) is not None:
            return tuple(_joined(found, mesh) for found in weights)
    return None


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


def _tile_of_device(placement: Placement) -> dict[int, int]:
    shared = len(placement.devices) // placement.tiles
    return {device: at // shared for at, device in enumerate(placement.devices)}


def _cuts(mesh: Mesh) -> Iterator[list[_Part]]:
    """The prime parts of all axes, in every order of the primes of each axis."""
    strides = [prod(axis.size for axis in mesh.axes[at + 1 :]) for at in range(len(mesh.axes))]
    orders = [sorted(set(permutations(_primes(axis.size)))) for axis in mesh.axes]
    for chosen in product(*orders):
        found = list[_Part]()
        for axis, primes in enumerate(chosen):
            pre = 1
            for prime in primes:
                below = mesh.axes[axis].size // (pre * prime)
                found.append(_Part(axis, pre, prime, below * strides[axis]))
                pre *= prime
        yield found


def _primes(number: int) -> list[int]:
    found, prime = list[int](), 2
    while prime * prime <= number:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return [*found, number] if number > 1 else found


def _weights(tiles: Sequence[int], cut: Sequence[_Part], parts: Sequence[int]) -> list[list[_Part]] | None:
    """The parts of axes that divide each dimension, major to minor; None if tiles are not a sum over parts of axes."""
    strides = [prod(parts[at + 1 :]) for at in range(len(parts))]
    found: list[list[tuple[int, _Part]]] = [[] for _ in parts]
    if tiles[0] != 0:
        return None
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
