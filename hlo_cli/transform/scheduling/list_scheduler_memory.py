"""The list scheduler that keeps memory low: always the instruction that frees most.

Mirrors `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, its ties and all.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.scheduling.dataflow import Flow

_FIRST: Final = (1 << 63) - 1
_MOST, _LEAST = (1 << 31) - 1, -(1 << 31)

Priority = tuple[int, int]


def by_memory(flow: Flow) -> list[int]:
    """What is ready by the bytes that it frees less those that it makes, then by users; of equals the last to be ready.

    Scalars come as soon as they can. What an instruction would free is counted anew only when one that shares an
    operand with it has run, as XLA does it.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.scheduling.buffer_uses import buffer_uses
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[64] broadcast(p)  b = f32[16] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> by_memory(next(buffer_uses(parse_module(text)).flows()))
    [0, 2, 4, 1, 3, 5]
    """
    return _List(flow).order()


class _List:
    """What is ready, and how often each value is still to be used."""

    __slots__ = ("_count", "_entered", "_flow", "_heap", "_key", "_left", "_rest", "_stale")

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._left: dict[int, int] = dict.fromkeys(flow.leave, 1)
        # the sum of those still to use a value: its last user, once there is but one
        self._rest: dict[int, int] = dict.fromkeys(flow.leave, -1)
        for index, values in enumerate(flow.used):
            for value in values:
                self._left[value] = self._left.get(value, 0) + 1
                self._rest[value] = self._rest.get(value, 0) + index
        self._heap: list[tuple[int, int, int, int]] = []
        self._key: dict[int, tuple[int, int, int, int]] = {}
        self._stale: set[int] = set()
        self._entered = 0
        self._count = [len(o) + len(flow.controls.get(i, ())) for i, o in enumerate(flow.operands)]

    def order(self) -> list[int]:
        """The new order."""
        for index in [index for index, count in enumerate(self._count) if not count]:
            self._enter(index, self._priority(index))
        order: list[int] = []
        while self._heap:
            entry = heappop(self._heap)
            index = entry[3]
            if self._key.get(index) != entry:
                continue  # it has entered again since
            del self._key[index]
            self._stale.discard(index)
            order.append(index)
            self._run(index)
        return order

    def _run(self, index: int) -> None:
        is_last = False
        for value in self._flow.used[index]:
            self._left[value] -= 1
            self._rest[value] -= index
            if self._left[value] == 1:
                is_last = True
                if self._rest[value] in self._key:
                    self._stale.add(self._rest[value])
        for later in (*self._flow.users[index], *self._flow.successors.get(index, ())):
            self._count[later] -= 1
            if not self._count[later]:
                self._enter(later, self._priority(later))
        if is_last and self._stale:
            self._count_anew(index)

    def _count_anew(self, index: int) -> None:
        """Those that share an operand with what has just run enter again, if what they would free has changed."""
        stale = self._stale
        for operand in self._flow.operands[index]:
            users = self._flow.users[operand]
            if len(stale) < len(users):
                users = tuple(sorted(each for each in stale if operand in self._flow.operands[each]))
            for user in users:
                if user in stale:
                    stale.discard(user)
                    priority = self._priority(user)
                    if priority != self._key[user][:2]:
                        self._enter(user, priority)

    def _enter(self, index: int, priority: Priority) -> None:
        self._entered += 1
        entry = self._key[index] = (*priority, -self._entered, index)
        heappush(self._heap, entry)

    def _priority(self, index: int) -> Priority:
        """Bytes made less bytes freed, and users, negative: the smallest comes first."""
        flow = self._flow
        instruction = flow.computation.instructions[index]
        if _is_scalar(instruction):
            return -_FIRST, -_FIRST
        if (bytes_ := _of_feed(instruction)) is None:
            bytes_ = sum([flow.size[value] for value in flow.used[index] if self._left[value] == 1]) - flow.made[index]
        return -bytes_, -len(flow.users[index])


def _is_scalar(instruction: Instruction) -> bool:
    shape = instruction.shape
    return isinstance(shape, ArrayShape) and all(bound == 1 for bound in shape.dimensions)


def _of_feed(instruction: Instruction) -> int | None:
    """Outfeeds come early and infeeds late, where they are configured."""
    if instruction.opcode == opcodes.OUTFEED and instruction.attribute("outfeed_config"):
        return _MOST
    if instruction.opcode == opcodes.INFEED and instruction.attribute("infeed_config"):
        return _LEAST
    return None
