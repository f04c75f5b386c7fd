"""A sharding between two others through which the partitioner goes without full rematerialization.

The one through which a device sends the fewest bytes is taken, then the one of the fewest steps. Candidates are tried
in the order of the bytes that devices need at least, until none can be better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from hlo_cli.analysis.resharding.detour_candidates import Candidate, Grid, candidates, grid_of, grid_of_mesh
from hlo_cli.analysis.resharding.reshard import Resharding, reshard
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import Mesh

MAX_CANDIDATES: Final = 20_000
"""The number of shardings that are compared; fewer on more than 256 devices."""
_MAX_COORDINATES: Final = MAX_CANDIDATES * 256
_MOST_TRIALS: Final = 2_000
"""The number of shardings whose steps are computed; fewer on more than 256 devices."""
_WHOLE: Final = 100
_PART: Final = 105
"""The weights of bytes for shardings along whole axes, and along parts of axes, which have no PartitionSpec."""
_MOST_WARNED: Final = 3
"""The number of shardings with warnings after which others with the same numbers of parts are not tried."""


@dataclass(frozen=True, slots=True)
class Detour:
    """The way from one sharding to another through `by`: both halves, and the number of shardings that were compared.

    `is_complete` is False if there are more shardings than can be compared.
    """

    by: Placement
    first: Resharding
    second: Resharding
    candidates: int
    is_complete: bool

    @property
    def sent_bytes(self) -> int:
        """The bytes that a device sends on the whole way."""
        return self.first.sent_bytes + self.second.sent_bytes


class _Way(NamedTuple):
    """A way through a sharding: its weighted bytes and its steps, and both halves."""

    cost: tuple[int, int]
    by: Placement
    first: Resharding
    second: Resharding | None


def find_detour(direct: Resharding, mesh: Mesh | None = None) -> Detour | None:
    """The best sharding to go through; None if the direct way needs none, or if no candidate avoids the warning.

    Its axes are those of the mesh, if one is given. One along whole axes is preferred if it sends 5% more at most.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> source, target = map(sharding_of, ("{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"))
    >>> found = find_detour(reshard(parse_shape("f32[16,16,16]"), source, target))
    >>> found.by.parts, found.first.sent_bytes, found.second.sent_bytes
    ((2, 4, 1), 1536, 1024)
    """
    if not (direct.is_full_rematerialization or direct.problem):
        return None
    sizes = direct.shape.sizes
    fits = mesh is not None and mesh.device_count == direct.devices
    grid = grid_of_mesh(mesh) if mesh is not None and fits else grid_of(direct.source, direct.target, direct.devices)
    limit = min(MAX_CANDIDATES, max(1, _MAX_COORDINATES // direct.devices))
    found = list(islice(candidates(grid, sizes, (direct.source, direct.target)), limit + 1))
    is_complete = len(found) <= limit
    del found[limit:]
    best: _Way | None = None
    most = max(1, min(_MOST_TRIALS, _MOST_TRIALS * 256 // direct.devices))
    tried, blocked = 0, Counter[tuple[int, ...]]()
    for needed, candidate in _by_need(direct, grid, found):
        parts = tuple(grid.parts_of(candidate))
        if blocked[parts] >= _MOST_WARNED:
            continue  # whether the partitioner warns rarely depends on more than the numbers of parts
        if best is not None and needed * _WHOLE > best.cost[0]:
            break
        if tried == most:
            is_complete = False
            break
        by = grid.placement(candidate)
        if by in (direct.source, direct.target):
            continue
        tried += 1
        weight = _WHOLE if grid.is_whole(candidate) else _PART
        way = _through(direct, by, weight, None if best is None else best.cost)
        if way is None:
            blocked[parts] += 1
        elif way.second is not None:
            blocked[parts] = -len(found)  # never
            best = way if best is None or way.cost < best.cost else best
    if best is None or best.second is None:
        return None
    return Detour(best.by, best.first, best.second, len(found), is_complete)


def _by_need(direct: Resharding, grid: Grid, found: list[Candidate]) -> Iterator[tuple[float, Candidate]]:
    """The candidates with the bytes that devices need at least, the fewest first."""
    from hlo_cli.analysis.resharding.detour_bounds import least_elements

    needs = least_elements(grid, found, direct.shape.sizes, direct.source, direct.target)
    bits = direct.shape.element_bits
    for at in sorted(range(len(found)), key=needs.__getitem__):
        yield needs[at] * 0.999 * bits / 8, found[at]


def _through(direct: Resharding, by: Placement, weight: int, limit: tuple[int, int] | None) -> _Way | None:
    """The way through a sharding with its bytes and steps, without its second half if the first exceeds the limit.

    None if the partitioner warns.
    """
    first = reshard(direct.shape, direct.source, by, device_count=direct.devices)
    if first.is_full_rematerialization or first.problem:
        return None
    cost = first.sent_bytes * weight, len(first.steps)
    if limit is not None and cost >= limit:
        return _Way(cost, by, first, None)
    second = reshard(direct.shape, by, direct.target, device_count=direct.devices)
    if second.is_full_rematerialization or second.problem:
        return None
    return _Way((cost[0] + second.sent_bytes * weight, cost[1] + len(second.steps)), by, first, second)
