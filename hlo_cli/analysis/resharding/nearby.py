"""Shardings near to the given ones: those that need no collective, and a mesh that can name the axes of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, permutations, product
from math import prod
from typing import Final

from hlo_cli.analysis.resharding.detour_candidates import Grid, grid_of
from hlo_cli.analysis.resharding.reshard import Resharding, reshard
from hlo_cli.analysis.resharding.tile_arrays import tiled
from hlo_cli.analysis.sharding.division import prime_factors
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.analysis.sharding.spec import has_parts, partition_spec
from hlo_cli.ir.attributes.sharding import IotaTransform, Mesh, MeshAxis, permuted

_MOST: Final = 2_000
"""The number of shardings without a collective that are compared."""
_LETTERS: Final = "abcdefghijklmnopqrstuvw"


def nearest_without_collectives(direct: Resharding) -> Resharding | None:
    """The way to the target from the nearest sharding that devices reach by slicing what they hold.

    Of several from which a device sends equally little, the one with the largest shards. None if the direct way needs
    no collective, if devices have no copies to slice, or if a device sends more from every other sharding.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> texts = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[1,4]<=[4]}"
    >>> found = nearest_without_collectives(reshard(parse_shape("f32[8,8]"), *map(sharding_of, texts)))
    >>> found.source.parts, found.sent_bytes
    ((4, 1), 48)
    """
    if direct.source.copies == 1 or not direct.collectives:
        return None
    best: Resharding | None = None
    for near in islice(_sliced(direct.source, direct.shape.sizes), _MOST):
        way = reshard(direct.shape, near, direct.target, device_count=direct.devices)
        if way.problem or way.is_full_rematerialization:
            continue
        if way.sent_bytes > direct.sent_bytes:
            continue
        if best is None or _distance(way) < _distance(best):
            best = way
    return best


def _distance(way: Resharding) -> tuple[int, int]:
    """What is left to do from a sharding: the bytes to send, then those to slice off."""
    return way.sent_bytes, -way.source_shard.logical_bytes


def _sliced(source: Placement, sizes: Sequence[int]) -> Iterator[Placement]:
    """The shardings whose parts are within those of a partly replicated one."""
    primes = prime_factors(source.copies)
    rank = len(source.parts)
    shape = [*source.parts, *primes]
    for homes in product(range(rank + 1), repeat=len(primes)):
        on = [[rank + at for at, home in enumerate(homes) if home == d] for d in range(rank + 1)]
        parts = [source.parts[d] * prod(shape[at] for at in on[d]) for d in range(rank)]
        if parts == list(source.parts) or any(count > size for count, size in zip(parts, sizes, strict=True)):
            continue
        for orders in product(*map(permutations, on[:-1])):
            order = [*chain.from_iterable((d, *added) for d, added in enumerate(orders)), *on[-1]]
            yield tiled(parts, prod(shape[at] for at in on[-1]), permuted(source.devices, shape, order))


def mesh_for(placements: Sequence[Placement], devices: int) -> Mesh | None:
    """A mesh with axes a, b, … in which all shardings divide dimensions along whole axes; None if there is none.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> texts = "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"
    >>> print(mesh_for([placement_of(sharding_of(text)) for text in texts], 8))
    mesh['a'=4,'b'=2]
    """
    divided = [placement for placement in placements if placement.is_tiled]
    if not divided:
        return None
    grid = grid_of(divided[0], divided[-1], devices)
    fine = [(part,) for part in range(len(grid.sizes))]
    for axes in (grid.axes, fine):
        mesh = _mesh(grid, axes)
        if mesh is None:
            continue
        specs = [partition_spec(placement, mesh) for placement in divided]
        if all(spec is not None and not has_parts(spec) for spec in specs):
            return mesh
    return None


def _mesh(grid: Grid, axes: Sequence[Sequence[int]]) -> Mesh | None:
    if len(axes) > len(_LETTERS):
        return None
    named = tuple(
        MeshAxis(name, prod(grid.sizes[part] for part in axis)) for name, axis in zip(_LETTERS, axes, strict=False)
    )
    count = len(grid.devices)
    is_iota = grid.devices == IotaTransform((count,)).devices()
    return Mesh(named, None if is_iota else grid.devices)
