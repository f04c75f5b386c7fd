"""The least that devices send to go through other shardings: what they get and do not have, for many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.analysis.sharding.reshard_steps import Candidate, Grid
from hlo_cli.ir.attributes.sharding import ShardingType

# A few arrays of 64 Ki floats, 256 KiB each: about the L2 cache of a core; chosen, not measured.
_BLOCK = 1 << 16
"""The number of devices times candidates that are computed at once, few enough for the caches."""

Floats = NDArray[np.float32]


def least_elements(
    grid: Grid, compared: Sequence[Candidate], sizes: Sequence[int], source: Placement, target: Placement
) -> list[float]:
    """The elements, as a mean over devices, that a device needs for each candidate and then for the target.

    Rounding makes them inexact, by less than one in a thousand.

    >>> from hlo_cli.analysis.sharding.reshard_steps import REPLICATED
    >>> grid = Grid((0, 1), (2,), ((0,),))
    >>> least_elements(grid, [((0,),), ((),)], [8], grid.placement(((0,),)), REPLICATED)
    [4.0, 4.0]
    """
    count = max(1, _BLOCK // len(grid.devices))
    ends = [_device_ranges(placement, grid.devices, sizes) for placement in (source, target)]
    result = list[float]()
    for start in range(0, len(compared), count):
        result += _least_of_block(grid, compared[start : start + count], sizes, ends).tolist()
    return result


def _least_of_block(grid: Grid, compared: Sequence[Candidate], sizes: Sequence[int], ends: Sequence[Floats]) -> Floats:
    weights = np.zeros((len(sizes), len(grid.sizes), len(compared)), np.int32)
    shards = np.empty((len(sizes), len(compared)), np.float32)
    for number, candidate in enumerate(compared):
        for dimension, parts in enumerate(candidate):
            weight = 1
            for part in reversed(parts):
                weights[dimension, part, number] = weight
                weight *= grid.sizes[part]
            shards[dimension, number] = -(-sizes[dimension] // weight)
    digits = np.stack(np.unravel_index(np.arange(len(grid.devices)), grid.sizes or (1,)), axis=1).astype(np.int32)
    before = np.ones((len(grid.devices), len(compared)), np.float32)
    after, has = before.copy(), before.copy()
    for dimension, size in enumerate(sizes):
        start = (digits[:, : len(grid.sizes)] @ weights[dimension]) * shards[dimension]  # integers need no threads
        np.minimum(start, size, out=start)
        limit = start + shards[dimension]
        np.minimum(limit, size, out=limit)
        has *= limit - start
        before *= _overlap_lengths(start, limit, ends[0][dimension])
        after *= _overlap_lengths(start, limit, ends[1][dimension])
    # Elements are counted in float32: exact to 2^24 and within 1e-7 above, hence the 0.999 in `_by_need`.
    total = np.prod(ends[1][:, 1] - ends[1][:, 0], axis=0)[:, None]
    has -= before
    has += total - after
    least: Floats = np.mean(has, axis=0)
    return least


def _overlap_lengths(start: Floats, limit: Floats, end: Floats) -> Floats:
    shared: Floats = np.minimum(limit, end[1][:, None])
    shared -= np.maximum(start, end[0][:, None])
    return np.maximum(shared, 0, out=shared)


def _device_ranges(placement: Placement, devices: Sequence[int], sizes: Sequence[int]) -> Floats:
    """Where the part of each device starts and ends in each dimension; nothing on the others of a maximal sharding."""
    result = np.zeros((len(sizes), 2, len(devices)), np.float32)
    position_of = {device: dimension for dimension, device in enumerate(devices)}
    if not placement.is_tiled:
        holders = placement.devices if placement.kind is ShardingType.MAXIMAL else devices
        for dimension, size in enumerate(sizes):
            result[dimension, 1, [position_of[device] for device in holders]] = size
        return result
    order = np.array([position_of[device] for device in placement.devices])
    tiles = np.unravel_index(np.arange(len(order)) // placement.copies, placement.parts)
    for dimension, (size, shard) in enumerate(zip(sizes, placement.shard_sizes(sizes), strict=True)):
        start = np.minimum(tiles[dimension] * shard, size)
        result[dimension, 0, order], result[dimension, 1, order] = start, np.minimum(start + shard, size)
    return result
