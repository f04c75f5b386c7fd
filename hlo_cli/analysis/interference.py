"""Do two values ever need their memory at the same time? Mirrors `LiveRangeInterferes` of buffer_assignment.cc."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hlo_cli.analysis.alias_sets import AliasSets
from hlo_cli.analysis.dataflow import Dataflow
from hlo_cli.analysis.gaps import Gaps
from hlo_cli.analysis.live_ranges import LiveRanges
from hlo_cli.analysis.operand_sharing import OperandSharing

Release = Literal["0.10.2", "2026-08"]
"""Whose rules are followed where releases of XLA differ: those of jaxlib 0.10.2, or of the source of August 2026."""


@dataclass(slots=True)
class Tenants:
    """The values that share one allocation, by start; as they follow each other, by end as well.

    `gaps` names the time before each value, and behind the last.
    """

    gaps: list[int]
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)


class Interference:
    """Answers for the values of one module."""

    __slots__ = ("_positions", "aliases", "dataflow", "ranges", "release", "sharing")

    def __init__(
        self,
        dataflow: Dataflow,
        aliases: AliasSets,
        ranges: LiveRanges,
        sharing: OperandSharing,
        release: Release = "0.10.2",
    ) -> None:
        self.dataflow = dataflow
        self.aliases = aliases
        self.ranges = ranges
        self.sharing = sharing
        self.release = release
        self._positions: dict[int, list[int]] | None = None

    def interferes(self, first: int, second: int) -> bool:
        """Whether two values are alive together; one may end where the other begins if that may take its place."""
        start, end = self.ranges.start, self.ranges.end
        if start[first] > end[second] or start[second] > end[first]:
            return False
        if end[first] == start[second]:
            return not self._takes_over(first, second)
        if end[second] == start[first]:
            return not self._takes_over(second, first)
        return True

    def is_free(self, tenants: Tenants, values: Iterable[int]) -> bool:
        """Whether an allocation may take these values too."""
        places, start, end = self.dataflow.places, self.ranges.start, self.ranges.end
        for value in values:
            if value not in start:
                continue
            at = bisect_left(tenants.ends, start[value])
            while at < len(tenants.values) and tenants.starts[at] <= end[value]:
                if self.interferes(tenants.values[at], value):
                    return False
                at += 1
            maker = places.instructions[places.owner[value]]
            if (
                maker.opcode == "copy"
                and maker.operands
                and self.dataflow.value[places.operand_place(maker, 0)] in tenants.values
            ):
                return False
        return True

    def enter(self, tenants: Tenants, values: Iterable[int], gaps: Gaps) -> None:
        """Puts values into an allocation."""
        start, end = self.ranges.start, self.ranges.end
        for value in values:
            if value in start:
                at = bisect_right(tenants.starts, start[value])
                while at > 0 and tenants.ends[at - 1] > end[value]:
                    at -= 1
                tenants.starts.insert(at, start[value])
                tenants.ends.insert(at, end[value])
                tenants.values.insert(at, value)
                tenants.gaps.insert(at + 1, gaps.split(tenants.gaps[at], start[value], end[value]))

    def _takes_over(self, earlier: int, later: int) -> bool:
        places = self.dataflow.places
        user, index = places.instructions[places.owner[later]], places.index(later)
        return any(
            places.instructions[places.owner[place]] in user.operands and self.sharing.may_share(place, user, index)
            for place in self._asked(earlier)
        )

    def _asked(self, value: int) -> Iterable[int]:
        """The places of a value where the later one may take over: the last alone, in newer releases all."""
        if self.release == "0.10.2":
            return (self.ranges.last[value],)
        if self._positions is None:
            self._positions = {}
            for place, standing in enumerate(self.dataflow.value):
                self._positions.setdefault(standing, []).append(place)
        return self._positions[value]
