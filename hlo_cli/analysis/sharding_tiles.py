"""Which part of an array each device holds: the tiles of a sharding.

Mirrors `HloSharding` of xla/hlo/ir/hlo_sharding.cc and `IotaTileAssignment` of xla/hlo/ir/tile_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.mesh import IotaTransform, Mesh
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import Sharding, ShardingType, TileAssignment
from hlo_cli.source import HloError


class DeviceTile(NamedTuple):
    """The tile of a device: its index along each dimension, and the number of its copy."""

    device: int
    tile: tuple[int, ...]
    copy: int


@dataclass(frozen=True, slots=True)
class ShardingTiles:
    """The number of parts of each dimension, of devices that hold the same part, and of all devices.

    `devices` is None if the sharding does not tell. `copies_as` is what the devices with the same part are to each
    other: replicated, manual, or unreduced.
    """

    parts: tuple[int, ...]
    copies: int
    devices: int | None
    copies_as: tuple[ShardingType, ...] = ()

    @property
    def tiles(self) -> int:
        """The number of distinct parts."""
        return prod(self.parts)

    def shard_sizes(self, sizes: Sequence[int]) -> tuple[int, ...] | None:
        """The sizes of the part on one device, rounded up; None if the number of dimensions differs.

        >>> ShardingTiles((2, 4), 1, 8).shard_sizes((10, 6)), ShardingTiles((2,), 1, 2).shard_sizes((10, 6))
        ((5, 2), None)
        """
        if not self.parts:
            return tuple(sizes)
        if len(sizes) != len(self.parts) or min(self.parts) < 1:
            return None
        return tuple(-(-size // parts) for size, parts in zip(sizes, self.parts, strict=True))

    def whole_sizes(self, sizes: Sequence[int]) -> tuple[int, ...] | None:
        """The sizes of the array whose part has these sizes, an upper bound if it is uneven; None if ranks differ.

        >>> ShardingTiles((2, 32), 4, 256).whole_sizes((1024, 64))
        (2048, 2048)
        """
        if not self.parts:
            return tuple(sizes)
        if len(sizes) != len(self.parts):
            return None
        return tuple(size * parts for size, parts in zip(sizes, self.parts, strict=True))


def sharding_tiles(sharding: Sharding | NamedSharding) -> ShardingTiles:
    """The tiles of a sharding of one array.

    >>> from hlo_cli.ir.attributes.mesh import IotaTransform
    >>> tiles = TileAssignment((2, 1, 4), IotaTransform((8,)))
    >>> sharding_tiles(Sharding(ShardingType.TILED, tiles, replicate_on_last_tile_dim=True))
    ShardingTiles(parts=(2, 1), copies=4, devices=8, copies_as=(<ShardingType.REPLICATED: 'replicated'>,))
    """
    if isinstance(sharding, NamedSharding):
        return _named(sharding)
    tiles = sharding.tiles
    if tiles is None or sharding.type is not ShardingType.TILED:
        one = sharding.type is ShardingType.MAXIMAL
        return ShardingTiles((), 1, None, () if one else (sharding.type,))
    kinds = (ShardingType.REPLICATED,) if sharding.replicate_on_last_tile_dim else sharding.last_tile_dims
    rank = len(tiles.dimensions) - len(kinds)
    return ShardingTiles(tiles.dimensions[:rank], prod(tiles.dimensions[rank:]), tiles.device_count, kinds)


def device_tiles(sharding: Sharding | NamedSharding) -> tuple[DeviceTile, ...]:
    """The tile of each device, by device; HloError if the devices cannot be listed or do not fit the tiles.

    >>> tiles = TileAssignment((1, 2, 2), IotaTransform((2, 2), (1, 0)))
    >>> [tuple(each) for each in device_tiles(Sharding(ShardingType.TILED, tiles, replicate_on_last_tile_dim=True))]
    [(0, (0, 0), 0), (1, (0, 1), 0), (2, (0, 0), 1), (3, (0, 1), 1)]
    """
    return tuple(sorted(_device_tiles(sharding)))


def tiled_form(sharding: NamedSharding) -> Sharding | None:
    """The sharding without names of axes, as `devices=[…]<=[…]`; None if it is not a plain split of whole axes.

    >>> from hlo_cli.ir.attributes.mesh import AxisRef, MeshAxis
    >>> from hlo_cli.ir.attributes.named_sharding import DimensionSharding
    >>> mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 4)))
    >>> print(tiled_form(NamedSharding(mesh, (DimensionSharding((AxisRef("y"),)), DimensionSharding()))))
    {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
    """
    mesh = sharding.mesh
    if not isinstance(mesh, Mesh) or mesh.device_ids is not None or sharding.whole or not sharding.dim_shardings:
        return None
    used = [axis for dimension in sharding.dim_shardings for axis in dimension.axes]
    if sharding.unreduced_axes or sharding.manual_axes or any(axis.size is not None for axis in used):
        return None
    tiles = _named(sharding)
    if tiles.tiles == 1:
        return Sharding(ShardingType.REPLICATED)
    names = [axis.name for axis in mesh.axes]
    order = [names.index(axis.name) for axis in used]
    order += [number for number in range(len(names)) if number not in order]
    sizes = (*tiles.parts, tiles.copies) if tiles.copies > 1 else tiles.parts
    transform = _simple_iota([axis.size for axis in mesh.axes], order)
    return Sharding(ShardingType.TILED, TileAssignment(sizes, transform), replicate_on_last_tile_dim=tiles.copies > 1)


def _simple_iota(sizes: Sequence[int], order: Sequence[int]) -> IotaTransform:
    """The transform without dimensions of 1, and with those joined that stay neighbors."""
    runs = list[list[int]]()
    for number in (each for each in order if sizes[each] > 1):
        between = sizes[runs[-1][-1] + 1 : number] if runs else []
        if runs and number > runs[-1][-1] and all(size == 1 for size in between):
            runs[-1].append(number)
        else:
            runs.append([number])
    placed = sorted(runs)
    if len(runs) < 2:
        return IotaTransform((prod(sizes),))
    return IotaTransform(
        tuple(prod(sizes[each] for each in run) for run in placed), tuple(placed.index(run) for run in runs)
    )


def _named(sharding: NamedSharding) -> ShardingTiles:
    if not isinstance(sharding.mesh, Mesh):
        return ShardingTiles((), 1, None)
    devices = sharding.mesh.device_count
    parts = sharding.tile_counts(len(sharding.dim_shardings))
    kinds = [ShardingType.REPLICATED] if not sharding.whole else [ShardingType(sharding.whole)]
    kinds += [ShardingType.MANUAL] if sharding.manual_axes else []
    kinds += [ShardingType.UNREDUCED] if sharding.unreduced_axes else []
    return ShardingTiles(parts, devices // max(prod(parts), 1), devices, tuple(kinds))


def _device_tiles(sharding: Sharding | NamedSharding) -> Iterator[DeviceTile]:
    tiles = sharding_tiles(sharding)
    if isinstance(sharding, NamedSharding):
        if isinstance(sharding.mesh, Mesh):
            axes = [axis for dimension in sharding.dim_shardings for axis in dimension.axes]
            for copy, group in enumerate(sharding.mesh.groups(axes)):
                for number, device in enumerate(group):
                    yield DeviceTile(device, _unravel(number, tiles.parts), copy)
        return
    if sharding.tiles is None:
        return
    listed = sharding.tiles.device_ids()
    if len(listed) != sharding.tiles.device_count:
        raise HloError(f"{sharding.tiles.device_count} tiles but {len(listed)} devices")
    for at, device in enumerate(listed):
        number, copy = divmod(at, tiles.copies)
        yield DeviceTile(device, _unravel(number, tiles.parts), copy)


def _unravel(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    index = list[int]()
    for size in reversed(sizes):
        number, rest = divmod(number, size)
        index.append(rest)
    return tuple(reversed(index))
