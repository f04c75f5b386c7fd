"""Interference: whether the live ranges of two values overlap.

Mirrors `BufferAssigner::LiveRangeInterferes` and `MaybeAssignBuffer` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import field
from operator import itemgetter
from typing import Literal

from hlo_cli.analysis.dataflow.value_sets import AliasSets, Dataflow
from hlo_cli.analysis.memory.live_ranges import LiveRanges
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.placing.free_intervals import FreeIntervals
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes

_START, _END = itemgetter(0), itemgetter(1)

Release = Literal["0.10.2", "2026-08"]
"""The XLA release whose rules apply where releases differ: jaxlib 0.10.2, or the source of August 2026."""


@dataclass(slots=True)
class AllocationValues:
    """The values in one allocation as (start, end, value), sorted by start; they do not overlap, so also by end.

    `number` is the index of the allocation in `FreeIntervals`.
    """

    number: int
    live_ranges: list[tuple[int, int, int]] = field(default_factory=list)
    values: set[int] = field(default_factory=set)


class Interference:
    """Interference queries on the values of one module."""

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
        """Returns whether two values need memory at the same time.

        Live ranges that touch do not interfere if the later value may overwrite the earlier one in place.
        """
        start, end = self.ranges.start, self.ranges.end
        if start[first] > end[second] or start[second] > end[first]:
            return False
        if end[first] == start[second]:
            return not self._can_overwrite(first, second)
        if end[second] == start[first]:
            return not self._can_overwrite(second, first)
        return True

    def is_free(self, occupants: AllocationValues, values: Iterable[int]) -> bool:
        """Returns whether an allocation may also hold these values."""
        places, start, end, live_ranges = (
            self.dataflow.places,
            self.ranges.start,
            self.ranges.end,
            occupants.live_ranges,
        )
        for value in values:
            if value not in start:
                continue
            at = bisect_left(live_ranges, start[value], key=_END)
            while at < len(live_ranges) and live_ranges[at][0] <= end[value]:
                if self.interferes(live_ranges[at][2], value):
                    return False
                at += 1
            definer = places.instructions[places.owner[value]]
            if (
                definer.opcode == opcodes.COPY
                and definer.operands
                and self.dataflow.value[places.operand_place(definer, 0)] in occupants.values
            ):
                return False
        return True

    def enter(self, occupants: AllocationValues, values: Iterable[int], free_intervals: FreeIntervals) -> None:
        """Adds values to an allocation."""
        start, end, live_ranges = self.ranges.start, self.ranges.end, occupants.live_ranges
        for value in values:
            if value in start:
                begin, last = start[value], end[value]
                at = bisect_right(live_ranges, begin, key=_START)
                while at > 0 and live_ranges[at - 1][1] > last:
                    at -= 1
                before = live_ranges[at - 1][1] if at else None
                after = live_ranges[at][0] if at < len(live_ranges) else None
                free_intervals.cut(occupants.number, before, after, begin, last)
                live_ranges.insert(at, (begin, last, value))
                occupants.values.add(value)

    def _can_overwrite(self, earlier: int, later: int) -> bool:
        """Returns whether the instruction of `later` may write its result over its operand `earlier`."""
        places = self.dataflow.places
        # buffer_assignment.cc, LiveRangeInterferes and MaybeAssignBuffer: a copy never shares a buffer with its
        # operand.
        user, index = places.instructions[places.owner[later]], places.index(later)
        return user.opcode != opcodes.COPY and any(
            self.sharing.first_operand_number(user, places.instructions[places.owner[place]]) is not None
            and self.sharing.may_share(place, user, index)
            for place in self._checked_places(earlier)
        )

    def _checked_places(self, value: int) -> Iterable[int]:
        """Returns the places of a value at which in-place reuse is checked."""
        # buffer_assignment.cc, LiveRangeInterferes: jaxlib 0.10.2 checks only the position at which the live range ends
        # (`end_position`); the source of August 2026 checks every position of the value.
        if self.release == "0.10.2":
            return (self.ranges.last_place[value],)
        if self._positions is None:
            self._positions = {}
            for place, value_there in enumerate(self.dataflow.value):
                self._positions.setdefault(value_there, []).append(place)
        return self._positions[value]
