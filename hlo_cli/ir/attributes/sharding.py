"""Shardings: the part of a value on each device.

Mirrors xla/hlo/ir/hlo_sharding.h. A sharding over the named axes of a mesh is a `NamedSharding`.
"""

from __future__ import annotations

from enum import StrEnum
from math import prod

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.mesh import IotaTransform, check_count
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.shape_text import annotate_indices
from hlo_cli.ir.words import ReductionKind


class ShardingType(StrEnum):
    """The data on a device: a copy, everything on one device, as the program decides, a shard, or a partial sum."""

    REPLICATED = "replicated"
    MAXIMAL = "maximal"
    MANUAL = "manual"
    UNKNOWN = "unknown"
    UNREDUCED = "unreduced"
    TILED = "devices"


@dataclass(frozen=True, slots=True)
class TileAssignment:
    """The device of each tile: `devices` lists them in row-major order, or is the iota that generates them.

    >>> tiles = TileAssignment((2, 2), IotaTransform((2, 2), (1, 0)))
    >>> str(tiles), tiles.device_ids()
    ('[2,2]<=[2,2]T(1,0)', (0, 2, 1, 3))
    """

    dimensions: tuple[int, ...]
    devices: tuple[int, ...] | IotaTransform

    def __str__(self) -> str:
        dimensions = index_text(self.dimensions, "[]")
        if isinstance(self.devices, IotaTransform):
            return f"{dimensions}<={self.devices}"
        return dimensions + ",".join(map(str, self.devices))

    @property
    def device_count(self) -> int:
        """The number of tiles, each on a device of its own."""
        return prod(self.dimensions)

    def device_ids(self) -> tuple[int, ...]:
        """The devices one by one."""
        check_count(self.device_count)
        return self.devices.devices() if isinstance(self.devices, IotaTransform) else self.devices


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Values of one group have the same sharding, or similar ones.

    >>> str(ShardGroup(3, is_like=True))
    'shard_like 3'
    """

    id: int
    is_like: bool = False

    def __str__(self) -> str:
        return f"shard_{'like' if self.is_like else 'as'} {self.id}"


@dataclass(frozen=True, slots=True)
class Sharding:
    """The sharding of one array. A tiled one has its tiles, and the meanings of the last tile dimensions.

    >>> str(Sharding(ShardingType.TILED, TileAssignment((2, 2), (0, 1, 2, 3)), replicate_on_last_tile_dim=True))
    '{devices=[2,2]0,1,2,3 last_tile_dim_replicate}'
    """

    type: ShardingType
    tiles: TileAssignment | None = None
    device: int | None = None
    replicate_on_last_tile_dim: bool = False
    last_tile_dims: tuple[ShardingType, ...] = ()
    reduction: ReductionKind | None = None
    group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] = ()

    def __str__(self) -> str:
        items = [f"devices={self.tiles}" if self.type is ShardingType.TILED else str(self.type)]
        if self.type is ShardingType.MAXIMAL:
            items.append(f"device={self.device}")
        if self.reduction is not None:
            items[0] += f"={self.reduction}"
        if self.replicate_on_last_tile_dim:
            items.append("last_tile_dim_replicate")
        if self.last_tile_dims:
            items.append("last_tile_dims={" + ", ".join(self.last_tile_dims) + "}")
        if self.group is not None:
            items.append(str(self.group))
        if self.metadata:
            listed = ", ".join(map(str, self.metadata))
            items.append(f"metadata={listed if len(self.metadata) == 1 else f'{{{listed}}}'}")
        return "{" + " ".join(items) + "}"

    def tile_counts(self, rank: int) -> tuple[int, ...]:
        """The number of partitions of each dimension of an array of this rank.

        >>> tiles = TileAssignment((2, 1, 2), IotaTransform((4,)))
        >>> Sharding(ShardingType.TILED, tiles, replicate_on_last_tile_dim=True).tile_counts(2)
        (2, 1)
        """
        return self.tiles.dimensions[:rank] if self.tiles is not None else (1,) * rank

    @property
    def problem(self) -> str | None:
        """The reason why XLA rejects the sharding, or None."""
        if self.type is not ShardingType.TILED:
            return self._problem_of_whole()
        if self.tiles is None or not self.tiles.dimensions:
            return "expected devices or one of replicated, maximal, manual, unknown, or unreduced"
        if self.replicate_on_last_tile_dim and self.last_tile_dims:
            return "last_tile_dim_replicate cannot be used with last_tile_dims"
        if (count := len(self.last_tile_dims)) > len(self.tiles.dimensions):
            return f"{count} last_tile_dims but {len(self.tiles.dimensions)} tile dimensions"
        if isinstance(self.tiles.devices, IotaTransform):
            return None
        if len(self.tiles.devices) < 2:
            return "expected more than one device"
        return "expected non-negative sizes" if min(self.tiles.dimensions) < 0 else None

    def _problem_of_whole(self) -> str | None:
        if self.type is ShardingType.MAXIMAL:
            return None if self.device is not None else "maximal sharding needs exactly one device"
        has_devices = self.device is not None or (
            self.tiles is not None and not isinstance(self.tiles.devices, IotaTransform)
        )
        return f"{self.type} sharding cannot have devices" if has_devices else None


@dataclass(frozen=True, slots=True)
class TupleSharding:
    """A sharding for each leaf of a tuple.

    >>> str(TupleSharding((Sharding(ShardingType.REPLICATED), Sharding(ShardingType.MANUAL))))
    '{{replicated}, {manual}}'
    """

    elements: tuple[Sharding | NamedSharding, ...]

    def __str__(self) -> str:
        return "{" + annotate_indices([str(element) for element in self.elements]) + "}"


@dataclass(frozen=True, slots=True)
class Domain:
    """The shardings on both sides of a `domain` instruction.

    >>> str(Domain(Sharding(ShardingType.REPLICATED), Sharding(ShardingType.MAXIMAL, device=0)))
    '{kind="sharding", entry={replicated}, exit={maximal device=0}}'
    """

    entry: Sharding | NamedSharding | TupleSharding
    exit: Sharding | NamedSharding | TupleSharding

    def __str__(self) -> str:
        return f'{{kind="sharding", entry={self.entry}, exit={self.exit}}}'


AnySharding = Sharding | NamedSharding | TupleSharding
