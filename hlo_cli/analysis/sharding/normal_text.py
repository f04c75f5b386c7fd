"""A placement as a sharding in XLA's shortest form: an iota where one generates the devices, else their list.

Mirrors `CanonicalizeIotaDims` of xla/hlo/ir/tile_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.sharding import IotaTransform, Sharding, ShardingType, TileAssignment


def sharding_of_placement(placement: Placement) -> Sharding:
    """The sharding that XLA prints for a placement.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> named = sharding_of("{mesh['x'=2,'y'=4], [{'y'}, {}]}")
    >>> print(sharding_of_placement(placement_of(named)))
    {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
    """
    if placement.kind is ShardingType.MAXIMAL:
        return Sharding(placement.kind, device=placement.devices[0] if placement.devices else None)
    if not placement.is_tiled:
        return Sharding(placement.kind, reduction=placement.reduction)
    kinds = tuple(group.kind for group in placement.subgroups)
    dimensions = (*placement.parts, *(group.size for group in placement.subgroups))
    devices = iota_of(placement.devices) or placement.devices
    is_replicated = kinds == (ShardingType.REPLICATED,)
    metadata: tuple[Metadata, ...] = ()
    if placement.reduction is not None:
        metadata = (Metadata(op_type="sdy::reduction_op", op_name=placement.reduction.upper()),)
    return Sharding(
        ShardingType.TILED,
        TileAssignment(dimensions, devices),
        replicate_on_last_tile_dim=is_replicated,
        last_tile_dims=() if is_replicated else kinds,
        metadata=metadata,
    )


def iota_of(devices: Sequence[int]) -> IotaTransform | None:
    """The shortest iota that generates these devices, None if there is none.

    >>> print(iota_of((0, 4, 1, 5, 2, 6, 3, 7)), iota_of((0, 1, 2, 3)), iota_of((0, 2, 3, 1)))
    [2,4]T(1,0) [4] None
    """
    strides = strides_of(devices)
    if strides is None:
        return None
    placed = sorted(strides, key=lambda each: -each[0])
    expected = 1
    for stride, size in reversed(placed):
        if stride != expected:
            return None
        expected *= size
    return IotaTransform(tuple(size for _, size in placed) or (1,), tuple(map(placed.index, strides)) or (0,))


def strides_of(devices: Sequence[int]) -> list[tuple[int, int]] | None:
    """The stride and the size of each dimension of an array of devices in row-major order, as few as possible.

    None if the devices are no such array.

    >>> strides_of((0, 4, 1, 5)), strides_of((0, 1, 2, 3)), strides_of((0, 2, 3, 1))
    ([(1, 2), (4, 2)], [(1, 4)], None)
    """
    found, length = list[tuple[int, int]](), 1
    while length < len(devices):
        stride, size = devices[length], 2
        while length * size < len(devices) and devices[length * size] == stride * size:
            size += 1
        if len(devices) % (length * size):
            return None
        found.append((stride, size))
        length *= size
    expected = [0]
    for stride, size in found:
        expected = [base + stride * at for at in range(size) for base in expected]
    return found[::-1] if expected == list(devices) else None
