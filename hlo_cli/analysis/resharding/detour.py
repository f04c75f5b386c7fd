"""A sharding between two others through which the partitioner goes without full rematerialization.

The one through which a device sends the fewest bytes is taken, then the one of the fewest steps. Candidates are tried
in the order of the bytes that devices need at least, until none can be better.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from hlo_cli.analysis.resharding.detour_candidates import Candidate, Grid, candidates, grid_of
from hlo_cli.analysis.resharding.reshard import Resharding, reshard
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.dataclass import dataclass

MAX_CANDIDATES: Final = 20_000
"""The number of shardings that are compared; fewer on more than 256 devices."""
_MAX_COORDINATES: Final = MAX_CANDIDATES * 256


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


def find_detour(direct: Resharding) -> Detour | None:
    """The best sharding to go through; None if the direct way needs none, or if no candidate avoids the warning.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> source, target = map(sharding_of, ("{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"))
    >>> found = find_detour(reshard(parse_shape("f32[16,16,16]"), source, target))
    >>> found.by.parts, found.first.sent_bytes, found.second.sent_bytes
    ((2, 4, 1), 1536, 1024)
    """
    if not (direct.is_full_rematerialization or direct.problem):
        return None
    sizes = direct.shape.sizes
    grid = grid_of(direct.source, direct.target, direct.devices)
    limit = min(MAX_CANDIDATES, max(1, _MAX_COORDINATES // direct.devices))
    found = list(islice(candidates(grid, sizes), limit + 1))
    is_complete = len(found) <= limit
    del found[limit:]
    best: tuple[tuple[int, int], Placement, Resharding, Resharding] | None = None
    for needed, candidate in _by_need(direct, grid, found):
        if best is not None and needed > best[0][0]:
            break
        by = grid.placement(candidate)
        if by in (direct.source, direct.target):
            continue
        way = _through(direct, by, None if best is None else best[0])
        if way is not None:
            best = way
    if best is None:
        return None
    return Detour(*best[1:], len(found), is_complete)


def _by_need(direct: Resharding, grid: Grid, found: list[Candidate]) -> Iterator[tuple[float, Candidate]]:
    """The candidates with the bytes that devices need at least, the fewest first."""
    from hlo_cli.analysis.resharding.detour_bounds import least_elements

    needs = least_elements(grid, found, direct.shape.sizes, direct.source, direct.target)
    bits = direct.shape.element_bits
    for at in sorted(range(len(found)), key=needs.__getitem__):
        yield needs[at] * 0.999 * bits / 8, found[at]


def _through(
    direct: Resharding, by: Placement, limit: tuple[int, int] | None
) -> tuple[tuple[int, int], Placement, Resharding, Resharding] | None:
    """The way through a sharding with its bytes and steps, if it is better than the limit."""
    first = reshard(direct.shape, direct.source, by, device_count=direct.devices)
    if first.is_full_rematerialization or first.problem:
        return None
    if limit is not None and (first.sent_bytes, len(first.steps)) >= limit:
        return None
    second = reshard(direct.shape, by, direct.target, device_count=direct.devices)
    if second.is_full_rematerialization or second.problem:
        return None
    cost = first.sent_bytes + second.sent_bytes, len(first.steps) + len(second.steps)
    return (cost, by, first, second) if limit is None or cost < limit else None
