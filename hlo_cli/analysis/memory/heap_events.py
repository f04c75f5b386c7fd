"""Allocation, sharing, and free events of heap buffers, in the order of the heap's own clock.

Mirrors `HeapSimulator::RunComputation` of xla/service/heap_simulator/heap_simulator.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from hlo_cli.analysis.dataflow.value_sets import AliasSets, Dataflow
from hlo_cli.analysis.memory.live_ranges import LiveRanges
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.placing.heap import HeapGroup
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class HeapRequest:
    """The input of a heap algorithm: sharing groups in the order of their leaders' ranks, and the values of each."""

    groups: tuple[HeapGroup, ...]
    values: tuple[tuple[int, ...], ...]


def heap_request(
    values: Iterable[int],
    size: Mapping[int, int],
    dataflow: Dataflow,
    aliases: AliasSets,
    ranges: LiveRanges,
    sharing: OperandSharing,
    *,
    with_groups: bool = True,
) -> HeapRequest:
    """Returns the sharing groups of values; `size[value]` is the size of its buffer in bytes.

    Without `with_groups`, only the values of each.
    """
    replay = _Replay(dataflow, aliases, ranges, sharing, size)
    replay.run(values)
    return replay.request(with_groups=with_groups)


@dataclass(slots=True)
class _Replay:
    """Replays live ranges position by position; each allocation, share, and free advances the clock by one."""

    dataflow: Dataflow
    aliases: AliasSets
    ranges: LiveRanges
    sharing: OperandSharing
    size: Mapping[int, int]
    clock: int = 0
    candidates: tuple[Instruction | None, Mapping[int, None], list[int]] = field(default_factory=lambda: (None, {}, []))
    times: dict[int, tuple[int, int]] = field(default_factory=dict)
    leader: dict[int, int] = field(default_factory=dict)

    def run(self, values: Iterable[int]) -> None:
        """Allocates, shares, and frees all values."""
        start, end, rank = self.ranges.start, self.ranges.end, self.dataflow.rank

        def order(value: int) -> tuple[int, int, int]:
            """Returns the order in which values of one position start and end."""
            return start[value], end[value], rank[value]

        starting: dict[int, list[int]] = {}
        ending: dict[int, dict[int, None]] = {}
        for value in sorted(values, key=order):
            starting.setdefault(start[value], []).append(value)
            ending.setdefault(end[value], {})[value] = None
        first_of_buffer: dict[int, int] = {}
        for position in sorted(starting.keys() | ending.keys()):
            ending_here = ending.get(position, {})
            for value in starting.get(position, ()):
                first = first_of_buffer.setdefault(self.aliases.buffer[value], value)
                if first != value:
                    self._begin(value, first)
                elif (operand := self._reusable_operand(value, ending_here)) is not None:
                    self._free(operand)
                    del ending_here[operand]
                    self._begin(value, operand)
                else:
                    self._begin(value, value)
            for value in ending_here:
                self._free(value)

    def request(self, *, with_groups: bool) -> HeapRequest:
        """Returns the sharing groups; groups of 0 bytes are omitted."""
        members: dict[int, list[int]] = {}
        for value in self.times:
            members.setdefault(self._leader_of(value), []).append(value)
        leaders = sorted(members, key=self.dataflow.rank.__getitem__)
        groups = []
        for leader in leaders if with_groups else ():
            largest = max(self.size[value] for value in members[leader])
            intervals = (self.times[value] for value in members[leader])
            groups.append(HeapGroup(self.size[leader], largest, tuple(intervals)))
        return HeapRequest(tuple(groups), tuple(tuple(members[leader]) for leader in leaders))

    def _leader_of(self, value: int) -> int:
        """Returns the first value of a sharing group."""
        while self.leader[value] != value:
            value = self.leader[value]
        return value

    def _begin(self, value: int, leader: int) -> None:
        """Starts the interval of a value, in the group of `leader`."""
        if self.size[value]:
            self.leader[value] = leader
            self.times[value] = (self.clock, -1)
            self.clock += 1

    def _free(self, value: int) -> None:
        """Ends the interval of a value."""
        if self.size[value]:
            self.times[value] = (self.times[value][0], self.clock)
            self.clock += 1

    def _reusable_operand(self, value: int, ending_here: Mapping[int, None]) -> int | None:
        """Returns an operand that is last used here and whose memory the value may reuse."""
        places, aliases = self.dataflow.places, self.aliases
        # heap_simulator.cc, RunComputation: neither the value nor the operand may be in an alias set of several values,
        # and a copy never reuses its operand, although CanShareOperandBufferWithUser would allow it.
        if aliases.buffer[value] in aliases.members:
            return None
        instruction = places.instructions[places.owner[value]]
        if instruction.opcode == opcodes.COPY:
            return None
        index, candidates = places.index(value), self._ending_operands(instruction, ending_here)
        for n, operand in enumerate(candidates):
            if operand in ending_here and self.sharing.may_share(operand, instruction, index):
                del candidates[n]
                return operand
        return None

    def _ending_operands(self, instruction: Instruction, ending_here: Mapping[int, None]) -> list[int]:
        """Returns the operands that end at this position and are not yet reused; cached per instruction."""
        user, then, found = self.candidates
        if user is not instruction or then is not ending_here:
            places, aliases = self.dataflow.places, self.aliases
            operand_places = (
                places.operand_place(instruction, position) for position in range(len(instruction.operands))
            )
            values = dict.fromkeys(self.dataflow.value[place] for place in operand_places)
            candidates_alone = [v for v in values if v in ending_here and aliases.buffer[v] not in aliases.members]
            operands = set(instruction.operands)
            found = [v for v in candidates_alone if places.instructions[places.owner[v]] in operands]
            self.candidates = instruction, ending_here, found
        return found
