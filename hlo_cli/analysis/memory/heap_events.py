"""The life of buffers as the heap sees it: allocated, shared, freed, each at a time of the heap's own clock.

Mirrors `HeapSimulator::RunComputation` of xla/service/heap_simulator/heap_simulator.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hlo_cli.analysis.dataflow.alias_sets import AliasSets
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.memory.live_ranges import LiveRanges
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.placing.heap import HeapGroup
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class HeapRequest:
    """What a heap has to place: groups in the order of their leaders' ids, and the values of each."""

    groups: tuple[HeapGroup, ...]
    values: tuple[tuple[int, ...], ...]


def heap_request(
    values: Iterable[int],
    size: Mapping[int, int],
    dataflow: Dataflow,
    aliases: AliasSets,
    ranges: LiveRanges,
    sharing: OperandSharing,
) -> HeapRequest:
    """What the values ask of a heap; `size` has the bytes of the buffer of each."""
    replay = _Replay(dataflow, aliases, ranges, sharing, size)
    replay.run(values)
    return replay.request()


class _Replay:
    """Plays the lives of values through, position by position."""

    __slots__ = ("_aliases", "_candidates", "_clock", "_dataflow", "_leader", "_ranges", "_sharing", "_size", "_times")

    def __init__(
        self,
        dataflow: Dataflow,
        aliases: AliasSets,
        ranges: LiveRanges,
        sharing: OperandSharing,
        size: Mapping[int, int],
    ) -> None:
        self._dataflow = dataflow
        self._aliases = aliases
        self._ranges = ranges
        self._sharing = sharing
        self._size = size
        self._candidates: tuple[Instruction | None, Mapping[int, None], list[int]] = None, {}, []
        self._clock = 0
        self._times: dict[int, tuple[int, int]] = {}
        self._leader: dict[int, int] = {}

    def run(self, values: Iterable[int]) -> None:
        """Allocates, shares and frees all values."""
        start, end, rank = self._ranges.start, self._ranges.end, self._dataflow.rank

        def order(value: int) -> tuple[int, int, int]:
            return start[value], end[value], rank[value]

        starting: dict[int, list[int]] = {}
        ending: dict[int, dict[int, None]] = {}
        for value in sorted(values, key=order):
            starting.setdefault(start[value], []).append(value)
            ending.setdefault(end[value], {})[value] = None
        first_of_buffer: dict[int, int] = {}
        for position in sorted(starting.keys() | ending.keys()):
            leaving = ending.get(position, {})
            for value in starting.get(position, ()):
                first = first_of_buffer.setdefault(self._aliases.buffer[value], value)
                if first != value:
                    self._begin(value, first)
                elif (operand := self._dying_operand(value, leaving)) is not None:
                    self._free(operand)
                    del leaving[operand]
                    self._begin(value, operand)
                else:
                    self._begin(value, value)
            for value in leaving:
                self._free(value)

    def request(self) -> HeapRequest:
        """The groups that were shared, without those that have no bytes."""
        members: dict[int, list[int]] = {}
        for value in self._times:
            members.setdefault(self._leader_of(value), []).append(value)
        leaders = sorted(members, key=self._dataflow.rank.__getitem__)
        groups = []
        for leader in leaders:
            largest = max(self._size[value] for value in members[leader])
            intervals = (self._times[value] for value in members[leader])
            groups.append(HeapGroup(self._size[leader], largest, tuple(intervals)))
        return HeapRequest(tuple(groups), tuple(tuple(members[leader]) for leader in leaders))

    def _leader_of(self, value: int) -> int:
        while self._leader[value] != value:
            value = self._leader[value]
        return value

    def _begin(self, value: int, leader: int) -> None:
        if self._size[value]:
            self._leader[value] = leader
            self._times[value] = (self._clock, -1)
            self._clock += 1

    def _free(self, value: int) -> None:
        if self._size[value]:
            self._times[value] = (self._times[value][0], self._clock)
            self._clock += 1

    def _dying_operand(self, value: int, leaving: Mapping[int, None]) -> int | None:
        """An operand that dies as the value begins, and whose place it may take."""
        places, aliases = self._dataflow.places, self._aliases
        if aliases.buffer[value] in aliases.members:
            return None
        instruction = places.instructions[places.owner[value]]
        if instruction.opcode == opcodes.COPY:
            return None
        index, dying = places.index(value), self._dying(instruction, leaving)
        for n, operand in enumerate(dying):
            if operand in leaving and self._sharing.may_share(operand, instruction, index):
                del dying[n]
                return operand
        return None

    def _dying(self, instruction: Instruction, leaving: Mapping[int, None]) -> list[int]:
        """The operands of an instruction that nothing has been put in place of yet, found once for all its values."""
        taker, then, found = self._candidates
        if taker is not instruction or then is not leaving:
            places, aliases = self._dataflow.places, self._aliases
            taken = (places.operand_place(instruction, position) for position in range(len(instruction.operands)))
            values = dict.fromkeys(self._dataflow.value[place] for place in taken)
            alone = [v for v in values if v in leaving and aliases.buffer[v] not in aliases.members]
            makers = set(instruction.operands)
            found = [v for v in alone if places.instructions[places.owner[v]] in makers]
            self._candidates = instruction, leaving, found
        return found
