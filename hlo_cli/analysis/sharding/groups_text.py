"""Groups of devices as text, short enough for a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.sharding.collectives import Collective
from hlo_cli.ir.notation import index_text

MAX_DEVICES: Final = 16
"""The number of devices in a text before the rest is counted."""


def groups_text(collective: Collective) -> str | None:
    """The groups or pairs of flattened device ids, cut with a count; None if they are unknown.

    >>> from hlo_cli import collectives_of, parse_module
    >>> text = "r = f32[64] all-gather(f32[2] a), dimensions={0}, replica_groups=[2,32]<=[64]"
    >>> groups_text(collectives_of(parse_module(text))[0])
    '2 groups of 32: {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,…}, …'
    """
    if collective.groups is None:
        return None
    if collective.pairs:
        return _listed([index_text(pair) for pair in collective.pairs], MAX_DEVICES // 2, ", ")
    groups = collective.groups
    if sum(map(len, groups)) <= MAX_DEVICES:
        return ", ".join(map(index_text, groups))
    first = _listed(list(map(str, groups[0])), MAX_DEVICES)
    sizes = {len(group) for group in groups}
    size = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    more = ", \N{HORIZONTAL ELLIPSIS}" if len(groups) > 1 else ""
    return f"{len(groups)} {'group' if len(groups) == 1 else 'groups'} of {size}: {{{first}}}{more}"


def _listed(items: Sequence[str], limit: int, comma: str = ",") -> str:
    return comma.join([*items[:limit], *(["\N{HORIZONTAL ELLIPSIS}"] if len(items) > limit else [])])
