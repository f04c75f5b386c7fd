"""The cost of full rematerialization: an array is gathered on every device, and each keeps its new part.

Mirrors the last resort of `PartitionedHlo::ReshardNoCache` of xla/service/spmd/spmd_partitioner.cc.
"""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.sharding_tiles import ShardingTiles
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape


@dataclass(frozen=True, slots=True)
class FullRematerialization:
    """The whole array and its parts on one device before and after; None where the ranks do not fit."""

    whole: ArrayShape
    before: ArrayShape | None
    after: ArrayShape | None

    @property
    def received_bytes(self) -> int | None:
        """The bytes that each device receives to hold the whole array."""
        return None if self.before is None else self.whole.logical_bytes - self.before.logical_bytes


def full_rematerialization(
    part: ArrayShape, before: ShardingTiles | None, after: ShardingTiles | None
) -> FullRematerialization:
    """The cost for an instruction of a partitioned module, whose shape is the `part` of one device.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> cost = full_rematerialization(
    ...     parse_shape("f32[1024,64]"), ShardingTiles((2, 32), 4, 256), ShardingTiles((1, 256), 1, 256)
    ... )
    >>> print(cost.whole, cost.after, cost.received_bytes)
    f32[2048,2048]{1,0} f32[2048,8]{1,0} 16515072
    """
    sizes = before.whole_sizes(part.sizes) if before is not None else None
    if sizes is None:
        return FullRematerialization(part, None, _part(part, after))
    whole = replace(part, dimensions=sizes)
    return FullRematerialization(whole, part, _part(whole, after))


def _part(whole: ArrayShape, tiles: ShardingTiles | None) -> ArrayShape | None:
    sizes = tiles.shard_sizes(whole.sizes) if tiles is not None else None
    return replace(whole, dimensions=sizes) if sizes is not None else None
