"""Rearrangements of the devices of a tiled sharding: splits and merges of dimensions, moves of cuts, and groups.

Mirrors xla/hlo/utils/hlo_sharding_util.cc. All shardings here are tiled, with replicas or without.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from hlo_cli.analysis.sharding.placement import Placement, Subgroup
from hlo_cli.ir.attributes.sharding import ShardingType, permuted

REPLICATED = Placement(ShardingType.REPLICATED)
"""Every device holds the whole array."""


def tiled(parts: Sequence[int], copies: int, devices: Sequence[int]) -> Placement:
    """The tiled sharding with this number of replicas in normal form; replicated if it cuts no dimension.

    >>> tiled((2, 1), 2, (1, 0, 2, 3)).devices, tiled((1, 1), 2, (0, 1)).kind.value
    ((0, 1, 2, 3), 'replicated')
    """
    if copies == 1:
        return Placement(ShardingType.TILED, tuple(parts), (), tuple(devices))
    if prod(parts) == 1:
        return REPLICATED
    groups = range(0, len(devices), copies)
    ordered = tuple([device for at in groups for device in sorted(devices[at : at + copies])])
    return Placement(ShardingType.TILED, tuple(parts), (Subgroup(ShardingType.REPLICATED, copies),), ordered)


def dimensions_of(placement: Placement) -> tuple[int, ...]:
    """The dimensions of the array of devices: the parts, and the subgroups after them.

    >>> dimensions_of(tiled((2, 1), 2, (0, 1, 2, 3)))
    (2, 1, 2)
    """
    return (*placement.parts, *(group.size for group in placement.subgroups))


def split_dimension(placement: Placement, dimension: int, major: int) -> Placement:
    """The sharding of an array whose dimension is two, the major one in `major` parts.

    >>> split_dimension(tiled((8, 1), 1, range(8)), 0, 2).parts
    (2, 4, 1)
    """
    parts = placement.parts
    new = (*parts[:dimension], major, parts[dimension] // major, *parts[dimension + 1 :])
    return tiled(new, placement.copies, placement.devices)


def merge_dimension(placement: Placement, dimension: int) -> Placement:
    """The sharding of an array whose dimension is joined with the next one.

    >>> merge_dimension(tiled((2, 2, 2), 1, range(8)), 0).parts
    (4, 2)
    """
    parts = placement.parts
    new = (*parts[:dimension], parts[dimension] * parts[dimension + 1], *parts[dimension + 2 :])
    return tiled(new, placement.copies, placement.devices)


def move_cuts(placement: Placement, pairs: Sequence[tuple[int, int]]) -> Placement:
    """The sharding after an all-to-all that moves the cut of each pair from its first dimension to its second.

    Dimensions count replicas as the last one, as XLA does.

    >>> move_cuts(tiled((4, 1), 1, range(4)), [(0, 1)]).parts
    (1, 4)
    """
    dims, devices = list(dimensions_of(placement)), placement.devices
    for source, target in pairs:
        shape, order = list[int](), list[int]()
        moved = {source: dims[source] // dims[target], target: 1}
        added = dict[int, int]()
        for at, size in enumerate(dims):
            order.append(len(shape))
            if at not in moved:
                shape.append(size)
                continue
            shape += [dims[target], moved[at]]
            order.append(len(shape) - 1)
            added[at] = len(shape) - 1
        one, other = order.index(added[source]), order.index(added[target])
        order[one], order[other] = order[other], order[one]
        devices = permuted(devices, shape, order)
        dims[source], dims[target] = dims[target], dims[source]
    rank = len(placement.parts)
    return tiled(dims[:rank], prod(dims[rank:]), devices)


def replicate_dimension(placement: Placement, dimension: int) -> Placement:
    """The sharding that does not cut a dimension; the devices along it hold the same data.

    >>> replicate_dimension(tiled((2, 2), 1, range(4)), 0).devices
    (0, 2, 1, 3)
    """
    dims = dimensions_of(placement)
    rank = len(placement.parts)
    order = [*(at for at in range(len(dims)) if at != dimension), dimension]
    parts = [1 if at == dimension else size for at, size in enumerate(dims[:rank])]
    copies = placement.copies * dims[dimension]
    return tiled(parts, copies, permuted(placement.devices, dims, order))


def cut_copies(placement: Placement, dimension: int) -> Placement:
    """The sharding whose replicas cut a dimension that is whole.

    >>> cut_copies(tiled((2, 1), 2, range(4)), 1).parts
    (2, 2)
    """
    dims = dimensions_of(placement)
    order = list(range(len(dims)))
    order[dimension], order[-1] = order[-1], order[dimension]
    parts = [size if at != dimension else dims[-1] for at, size in enumerate(placement.parts)]
    return tiled(parts, dims[dimension], permuted(placement.devices, dims, order))


class Groups(NamedTuple):
    """Devices in groups along some dimensions, `sizes` groups along each, and the sharding inside of a group.

    The devices of `inner` count from 0 inside of each group.
    """

    devices: tuple[tuple[int, ...], ...]
    dimensions: tuple[int, ...]
    sizes: tuple[int, ...]
    inner: Placement


def group(placement: Placement, dimensions: Sequence[int], kept: Sequence[int] | None = None) -> Groups:
    """The groups of devices along dimensions; `kept` says how often each is still cut inside of a group.

    >>> group(tiled((2, 2), 1, range(4)), [1])[:2]
    (((0, 2), (1, 3)), (1,))
    """
    inside = dict(zip(dimensions, kept or [1] * len(dimensions), strict=True))
    shape, places = list[int](), dict[int, int]()
    for at, size in enumerate(dimensions_of(placement)):
        if at in inside:
            places[at] = len(shape)
            shape.append(size // inside[at])
        shape.append(inside.get(at, size))
    first = [places[at] for at in dimensions]
    devices = permuted(placement.devices, shape, [*first, *(at for at in range(len(shape)) if at not in first)])
    sizes = tuple(shape[at] for at in first)
    length = len(devices) // prod(sizes)
    groups = tuple(devices[at : at + length] for at in range(0, len(devices), length))
    parts = [inside.get(at, size) for at, size in enumerate(placement.parts)]
    is_whole = prod(parts) == 1
    inner = REPLICATED if is_whole else tiled(parts, placement.copies, range(length))
    return Groups(groups, tuple(dimensions), sizes, inner)


def align(groups: Groups, reference: Groups) -> Groups:
    """The groups with the devices of another grouping, whose groups may list the same devices in another order."""
    home = {device: number for number, members in enumerate(reference.devices) for device in members}
    is_same = all(home.get(device) == number for number, members in enumerate(groups.devices) for device in members)
    inner = groups.inner
    if is_same and inner.is_tiled:
        place = {device: at for at, device in enumerate(reference.devices[0])}
        order = [place[device] for device in groups.devices[0]]
        inner = tiled(inner.parts, inner.copies, [order[device] for device in inner.devices])
    return groups._replace(devices=reference.devices, inner=inner)


def ungroup(groups: Groups, rank: int) -> Placement:
    """The sharding of all devices, from that inside of the groups.

    >>> ungroup(group(tiled((2, 2), 1, range(4)), [1]), 2).devices
    (0, 1, 2, 3)
    """
    inner = groups.inner
    length = len(groups.devices[0])
    parts = inner.parts if inner.is_tiled else (1,) * rank
    copies = inner.copies if inner.is_tiled else length
    listed = inner.devices if inner.is_tiled else range(length)
    devices = [members[device] for members in groups.devices for device in listed]
    shape = [*groups.sizes, *parts, copies]
    order, new = list[int](), list[int]()
    for at in range(rank):
        size = parts[at]
        if at in groups.dimensions:
            place = groups.dimensions.index(at)
            order.append(place)
            size *= groups.sizes[place]
        order.append(len(groups.sizes) + at)
        new.append(size)
    order.append(len(shape) - 1)
    return tiled(new, copies, permuted(devices, shape, order))
