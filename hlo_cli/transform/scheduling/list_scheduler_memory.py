"""List scheduler for low memory: always the instruction that frees most.

Mirrors `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, including its ties.
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


def schedule_by_memory(flow: Flow) -> list[int]:
    """Orders ready instructions by bytes freed minus bytes defined, then by number of users; on ties, the last to be
    ready.

    Scalars come as soon as possible. As in XLA, priorities are updated only when an instruction with a common operand
    has run.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.scheduling.buffer_uses import buffer_uses
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[64] broadcast(p)  b = f32[16] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> schedule_by_memory(next(buffer_uses(parse_module(text)).flows()))
    [0, 2, 4, 1, 3, 5]
    """
    return _List(flow).order()


class _List:
    """Ready instructions, and the number of remaining uses of each value."""

    __slots__ = ("_entered", "_flow", "_heap", "_key", "_missing", "_outdated", "_user_sum", "_uses_left")

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._uses_left: dict[int, int] = dict.fromkeys(flow.live_out, 1)
        # the sum of those still to use a value: its last user, once there is but one
        self._user_sum: dict[int, int] = dict.fromkeys(flow.live_out, -1)
        for index, values in enumerate(flow.used):
            for value in values:
                self._uses_left[value] = self._uses_left.get(value, 0) + 1
                self._user_sum[value] = self._user_sum.get(value, 0) + index
        self._heap: list[tuple[int, int, int, int]] = []
        self._key: dict[int, tuple[int, int, int, int]] = {}
        self._outdated: set[int] = set()
        self._entered = 0
        self._missing = [len(o) + len(flow.controls.get(i, ())) for i, o in enumerate(flow.operands)]

    def order(self) -> list[int]:
        """Computes the order."""
        for index in [index for index, count in enumerate(self._missing) if not count]:
            self._enter(index, self._priority(index))
        order: list[int] = []
        while self._heap:
            entry = heappop(self._heap)
            index = entry[3]
            if self._key.get(index) != entry:
                continue  # it has entered again since
            del self._key[index]
            self._outdated.discard(index)
            order.append(index)
            self._run(index)
        return order

    def _run(self, index: int) -> None:
        is_last = False
        for value in self._flow.used[index]:
            self._uses_left[value] -= 1
            self._user_sum[value] -= index
            if self._uses_left[value] == 1:
                is_last = True
                if self._user_sum[value] in self._key:
                    self._outdated.add(self._user_sum[value])
        for later in (*self._flow.users[index], *self._flow.successors.get(index, ())):
            self._missing[later] -= 1
            if not self._missing[later]:
                self._enter(later, self._priority(later))
        if is_last and self._outdated:
            self._reprioritize(index)

    def _reprioritize(self, index: int) -> None:
        """Updates the priorities of ready instructions that share an operand with the last one."""
        stale = self._outdated
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
        """Negated bytes freed minus defined, and negated number of users: the smallest comes first."""
        flow = self._flow
        instruction = flow.computation.instructions[index]
        if _is_scalar(instruction):
            return -_FIRST, -_FIRST
        if (bytes_ := _feed_priority(instruction)) is None:
            bytes_ = (
                sum([flow.size[value] for value in flow.used[index] if self._uses_left[value] == 1])
                - flow.defined_bytes[index]
            )
        return -bytes_, -len(flow.users[index])


def _is_scalar(instruction: Instruction) -> bool:
    shape = instruction.shape
    return isinstance(shape, ArrayShape) and all(bound == 1 for bound in shape.dimensions)


def _feed_priority(instruction: Instruction) -> int | None:
    """Priority of a configured outfeed (early) or infeed (late); None for others."""
    # BytesFreedIfScheduled of ListScheduler: the device or host at the other end gets more time for its work.
    if instruction.opcode == opcodes.OUTFEED and instruction.attribute("outfeed_config"):
        return _MOST
    if instruction.opcode == opcodes.INFEED and instruction.attribute("infeed_config"):
        return _LEAST
    return None
