"""The mesh of a module that names none: the coarsest row-major mesh that explains all groups of devices.

Axes over which no collective communicates alone stay joined, and part of an axis looks like an axis, so a mesh found
here has *at least* these axes. If no mesh explains all groups, there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise

from hlo_cli.analysis.sharding.axes import axes_of_groups, progressions_of
from hlo_cli.analysis.sharding.device_groups import Pairs
from hlo_cli.analysis.sharding.meshes import KnownMesh
from hlo_cli.ir.attributes.sharding import MAX_DEVICES, Groups, Mesh, MeshAxis


def inferred_mesh(groups: Iterable[Groups], pairs: Iterable[Pairs], device_count: int) -> KnownMesh | None:
    """The coarsest mesh whose whole axes make all of these groups, with axes named axis0, axis1, … from major to minor.

    Permutes between neighbors in a ring or a line show an axis too, if it fits the groups. None if no mesh explains
    all groups, or nothing is sent.

    >>> rows, columns = ((0, 1), (2, 3), (4, 5), (6, 7)), ((0, 2, 4, 6), (1, 3, 5, 7))
    >>> print(inferred_mesh([rows, columns], [], 8).mesh, inferred_mesh([((0, 3), (1, 2))], [], 4))
    mesh['axis0'=4,'axis1'=2] None
    """
    if device_count > MAX_DEVICES:
        return None
    distinct = [each for each in dict.fromkeys(groups) if any(len(group) > 1 for group in each)]
    borders: set[int] | None = {1, device_count}
    for each in distinct:
        borders = _with_borders(borders, each)
    if borders is None or (mesh := _mesh_of(borders)) is None or not _explains(mesh, distinct):
        return None
    permutes = [rings for each in dict.fromkeys(pairs) if (rings := _rings_of(each, device_count))]
    refused = set[frozenset[int]]()
    for rings in permutes:
        finer = _with_borders(borders, rings)
        if finer is None or finer == borders or finer in refused:
            continue
        candidate = _mesh_of(finer)
        if candidate is None or not _explains(candidate, distinct):
            refused.add(frozenset(finer))
        elif _explains(candidate, [rings]):
            borders, mesh = finer, candidate
    number = len(distinct) + len(permutes)
    origin = f"inferred from {number} {'group' if number == 1 else 'groups'}"
    return KnownMesh(mesh, origin, is_inferred=True) if number else None


def _with_borders(borders: set[int] | None, groups: Groups) -> set[int] | None:
    """The borders with those of one set of groups; None if the group of device 0 is not a sum of progressions."""
    origin = next((group for group in groups if 0 in group), ())
    found = progressions_of(origin)
    if borders is None or found is None:
        return None
    return borders.union(*((each.stride, each.stride * each.count) for each in found))


def _mesh_of(borders: set[int]) -> Mesh | None:
    """The mesh whose axes end at these borders; None if one does not divide the next."""
    ordered = sorted(borders)
    if any(after % before for before, after in pairwise(ordered)):
        return None
    sizes = [after // before for before, after in pairwise(ordered)]
    return Mesh(tuple(MeshAxis(f"axis{at}", size) for at, size in enumerate(reversed(sizes))))


def _explains(mesh: Mesh, groups: Iterable[Groups]) -> bool:
    """Whether whole axes of a mesh make each set of groups."""
    found = [axes_of_groups(each, mesh) for each in groups]
    return all(axes is not None and all(axis.size is None for axis in axes) for axes in found)


def _rings_of(pairs: Pairs, device_count: int) -> Groups:
    """The rings or lines of devices in which each sends to the next, or each to the one before; empty if others do."""
    target_of = {source: target for source, target in pairs if source != target}
    if len(set(target_of.values())) < len(target_of) or max(chain(*pairs, (0,))) >= device_count:
        return ()
    starts = target_of.keys() - target_of.values()
    rings, seen = list[tuple[int, ...]](), set[int]()
    for first in (*sorted(starts), *sorted(target_of)):
        ring, device = list[int](), first
        while device not in seen:
            seen.add(device)
            ring.append(device)
            device = target_of.get(device, device)
        if ring:
            rings.append(_ascending(ring))
    rings += [(device,) for device in range(device_count) if device not in seen]
    return tuple(rings) if all(rings) and any(len(ring) > 1 for ring in rings) else ()


def _ascending(ring: list[int]) -> tuple[int, ...]:
    """The devices of a ring in ascending order; empty if they do not send to the next one in this order, or back."""
    ordered = sorted(ring)
    turned = ring[ring.index(ordered[0]) :] + ring[: ring.index(ordered[0])]
    backwards = [turned[0], *reversed(turned[1:])]
    return tuple(ordered) if ordered in (turned, backwards) else ()
