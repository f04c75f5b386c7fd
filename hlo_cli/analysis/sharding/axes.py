"""Mesh axes along which the devices of a group differ, and shifts of permutes along them.

The answer is exact: the groups along the axes found are compared with the given ones as sets of sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from hlo_cli.analysis.sharding.device_groups import Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AxisRef, Groups, Mesh
from hlo_cli.ir.layout import unravel
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class Progression:
    """The numbers 0, stride, 2 * stride, … of which there are `count`."""

    stride: int
    count: int


@dataclass(frozen=True, slots=True)
class AxisShift:
    """An axis along which a permute moves data, and by how many places, modulo the axis; None if it differs."""

    axis: AxisRef
    shift: int | None

    def __str__(self) -> str:
        return axes_text((self.axis,)) + (f" {self.shift:+}" if self.shift is not None else "")


def axes_text(axes: Iterable[AxisRef]) -> str:
    """Axes as tables show them: `data`, `data:(1)2` for a part of one, `data,model` for several.

    >>> axes_text((AxisRef("data", 1, 2), AxisRef("model")))
    'data:(1)2,model'
    """
    return ",".join(axis.name + ("" if axis.size is None else f":({axis.pre_size}){axis.size}") for axis in axes)


@lru_cache(maxsize=1024)
def axes_of_groups(groups: Groups, mesh: Mesh) -> tuple[AxisRef, ...] | None:
    """The axes, or parts of axes, that make these groups, major first; None if no axes of this mesh do.

    No axes if every group is a single device. Axes of size 1 are never among them, so the answer is unique.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("data", 4), MeshAxis("model", 2)))
    >>> axes_text(axes_of_groups(((0, 2, 4, 6), (1, 3, 5, 7)), mesh))
    'data'
    >>> axes_text(axes_of_groups(((0, 4), (1, 5), (2, 6), (3, 7)), mesh)), axes_of_groups(((0, 3), (1, 2)), mesh)
    ('data:(1)2', None)
    """
    coordinates = coordinates_by_device(mesh)
    given = [frozenset(group) for group in groups]
    if sum(map(len, given)) != mesh.device_count or not all(id in coordinates for group in given for id in group):
        return None
    first = mesh.devices()[0]
    origin = next((group for group in given if first in group), frozenset[int]())
    axes = list[AxisRef]()
    for at, axis in enumerate(mesh.axes):
        places = {coordinates[id][at] for id in origin}
        found = progressions_of(places)
        if found is None or any(axis.size % (each.stride * each.count) for each in found):
            return None
        for each in reversed(found):
            whole = each.count == axis.size
            pre_size = axis.size // (each.stride * each.count)
            axes.append(AxisRef(axis.name) if whole else AxisRef(axis.name, pre_size, each.count))
    made = mesh.groups(axes) if axes else [(id,) for id in mesh.devices()]
    return tuple(axes) if {frozenset(group) for group in made} == set(given) else None


@lru_cache(maxsize=1024)
def axes_of_pairs(pairs: Pairs, mesh: Mesh) -> tuple[AxisShift, ...] | None:
    """The axes in which sources and targets differ, with the shift; None if a device is not in the mesh.

    A shift by more than half an axis counts backwards. Without a pair of different devices, there are no axes.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("stage", 4), MeshAxis("data", 2)))
    >>> [str(each) for each in axes_of_pairs(((0, 2), (2, 4), (4, 6), (6, 0)), mesh)]
    ['stage +1']
    """
    coordinates = coordinates_by_device(mesh)
    if not all(id in coordinates for pair in pairs for id in pair):
        return None
    moves = [(coordinates[a], coordinates[b]) for a, b in pairs if a != b]
    found = list[AxisShift]()
    for at, axis in enumerate(mesh.axes):
        distances = {(b[at] - a[at]) % axis.size for a, b in moves}
        if distances - {0}:
            shift = distances.pop() if len(distances) == 1 else None
            backwards = shift is not None and shift > axis.size // 2
            found.append(AxisShift(AxisRef(axis.name), shift - axis.size if shift and backwards else shift))
    return tuple(found)


def progressions_of(numbers: Iterable[int]) -> tuple[Progression, ...] | None:
    """The progressions whose sums are these numbers, smallest stride first; None if there are none.

    The numbers have to begin with 0. Progressions that continue each other are joined.

    >>> progressions_of({0, 1, 4, 5}), progressions_of({0, 3, 4})
    ((Progression(stride=1, count=2), Progression(stride=4, count=2)), None)
    """
    rest = sorted(set(numbers))
    if not rest or rest[0]:
        return None
    reached, known, found = [0], set(rest), list[Progression]()
    while len(reached) < len(rest):
        stride, count = rest[len(reached)], 1
        while all(count * stride + number in known for number in reached):
            count += 1
        reached = [step * stride + number for step in range(count) for number in reached]
        if count == 1 or reached != rest[: len(reached)]:
            return None
        found.append(Progression(stride, count))
    return _joined(found)


def _joined(found: Sequence[Progression]) -> tuple[Progression, ...]:
    joined = list[Progression]()
    for each in found:
        if joined and joined[-1].stride * joined[-1].count == each.stride:
            joined[-1] = Progression(joined[-1].stride, joined[-1].count * each.count)
        else:
            joined.append(each)
    return tuple(joined)


@lru_cache(maxsize=64)
def coordinates_by_device(mesh: Mesh) -> Mapping[int, tuple[int, ...]]:
    """The place of each device in the mesh; HloError if the mesh lists another number of devices than it has places.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> coordinates_by_device(Mesh((MeshAxis("x", 2), MeshAxis("y", 4))))[5]
    (1, 1)
    """
    devices = mesh.devices()
    if len(devices) != mesh.device_count:
        raise HloError(f"{mesh} has {mesh.device_count} positions but {len(devices)} devices")
    sizes = tuple(axis.size for axis in mesh.axes)
    return {device: unravel(position, sizes) for position, device in enumerate(devices)}
