"""Do two values ever need their memory at the same time? Mirrors `LiveRangeInterferes` of buffer_assignment.cc."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import field
from operator import itemgetter
from typing import Literal

from hlo_cli.analysis.dataflow.alias_sets import AliasSets
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.memory.live_ranges import LiveRanges
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.placing.free_intervals import Gaps
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes

_START, _END = itemgetter(0), itemgetter(1)

Release = Literal["0.10.2", "2026-08"]
"""Whose rules are followed where releases of XLA differ: those of jaxlib 0.10.2, or of the source of August 2026."""


@dataclass(slots=True)
class AllocationValues:
    """The values that share one allocation, with start and end, by start; as they follow each other, by end as well.

    `number` is that of the allocation among those whose gaps are known.
    """

    number: int
    lives: list[tuple[int, int, int]] = field(default_factory=list)
    values: set[int] = field(default_factory=set)


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

    def is_free(self, tenants: AllocationValues, values: Iterable[int]) -> bool:
        """Whether an allocation may take these values too."""
        places, start, end, lives = self.dataflow.places, self.ranges.start, self.ranges.end, tenants.lives
        for value in values:
            if value not in start:
                continue
            at = bisect_left(lives, start[value], key=_END)
            while at < len(lives) and lives[at][0] <= end[value]:
                if self.interferes(lives[at][2], value):
                    return False
                at += 1
            maker = places.instructions[places.owner[value]]
            if (
                maker.opcode == opcodes.COPY
                and maker.operands
                and self.dataflow.value[places.operand_place(maker, 0)] in tenants.values
            ):
                return False
        return True

    def enter(self, tenants: AllocationValues, values: Iterable[int], gaps: Gaps) -> None:
        """Puts values into an allocation."""
        start, end, lives = self.ranges.start, self.ranges.end, tenants.lives
        for value in values:
            if value in start:
                begin, last = start[value], end[value]
                at = bisect_right(lives, begin, key=_START)
                while at > 0 and lives[at - 1][1] > last:
                    at -= 1
                before = lives[at - 1][1] if at else None
                behind = lives[at][0] if at < len(lives) else None
                gaps.cut(tenants.number, before, behind, begin, last)
                lives.insert(at, (begin, last, value))
                tenants.values.add(value)

    def _takes_over(self, earlier: int, later: int) -> bool:
        """Whether the later value may be written where the earlier one is read last; copies never are."""
        places = self.dataflow.places
        user, index = places.instructions[places.owner[later]], places.index(later)
        return user.opcode != opcodes.COPY and any(
            self.sharing.first_at(user, places.instructions[places.owner[place]]) is not None
            and self.sharing.may_share(place, user, index)
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
