"""Deadlocks that the order of one module shows: sends and receives between devices that cannot meet.

Mirrors `VerifyNoCollectiveDeadlocks` of xla/service/hlo_verifier.cc, which is off unless asked for: it looks at sends
and receives that say between which devices they go, in the order of a schedule for GPUs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import Final, TypeAlias

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_diagnostics import Problem
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNCHRONOUS, CHANNEL_STARTS, COLLECTIVES, RUNNERS

_WAYS: Final = "_xla_send_recv_source_target_pairs"
_WAY: Final = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_ENTERED: Final = RUNNERS - ASYNCHRONOUS

Ways: TypeAlias = tuple[tuple[int, int], ...]
"""From which device to which something goes."""


def deadlocks(module: Module) -> Iterator[Problem]:
    """Where devices may wait for each other for ever; nothing for a module without a schedule, or for TPUs.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)  t = token[] after-all()
    ...   s = (f32[4], u32[], token[]) send(p, t), channel_id=1,
    ...       frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
    ...   ROOT d = token[] send-done(s), channel_id=1 }'''
    >>> [problem.message for problem in deadlocks(parse_module(text))]
    ['nothing receives what s sends from 0 to 1']
    """
    if not module.is_scheduled or _WAYS not in module.source.text or target_of(module) == "tpu":
        return
    entered = {module.entry}
    waiting = [module.entry]
    while waiting:
        walk = _Walk(entered)
        yield from walk.through(waiting.pop())
        waiting += walk.groups


@dataclass(slots=True)
class _Unmet:
    """Sends, or receives, that nothing has met, in the order in which they run; by number to find them in."""

    numbers: dict[Instruction, int] = field(default_factory=dict)
    ways: dict[Instruction, Ways] = field(default_factory=dict)
    wrong: dict[int, Instruction] = field(default_factory=dict)
    by_ways: dict[Ways, dict[Instruction, None]] = field(default_factory=dict)
    by_device: dict[int, dict[int, Instruction]] = field(default_factory=dict)
    last: int = 0

    def add(self, instruction: Instruction, ways: Ways) -> None:
        """One more that waits."""
        self.last += 1
        self.numbers[instruction], self.ways[instruction] = self.last, ways
        self.by_ways.setdefault(ways, {})[instruction] = None
        if _wrong(ways) is not None:
            self.wrong[self.last] = instruction
        for device in chain.from_iterable(ways):
            self.by_device.setdefault(device, {})[self.last] = instruction

    def remove(self, instruction: Instruction) -> None:
        """One that is met."""
        number, ways = self.numbers.pop(instruction), self.ways.pop(instruction)
        del self.by_ways[ways][instruction]
        self.wrong.pop(number, None)
        for device in chain.from_iterable(ways):
            self.by_device[device].pop(number, None)

    def disturbing(self, ways: Ways) -> Instruction | None:
        """The first that cannot be under way while something goes these ways; those of other devices all can."""
        if _wrong(ways) is not None:
            return next(iter(self.ways), None)
        devices = dict.fromkeys(chain.from_iterable(ways))
        near = [self.by_device[device].items() for device in devices if device in self.by_device]
        for _, other in merge(self.wrong.items(), *near, key=itemgetter(0)):
            if self.ways[other] == ways or _wrong((*self.ways[other], *ways)) is not None:
                return other
        return next(iter(self.by_ways.get(ways, ())), None)


@dataclass(slots=True)
class _Walk:
    """What waits for its other side on the way through the instructions, in the order in which they run.

    `sends` and `recvs` are those that nothing has met; the first of them decides which of the two is `expected` by the
    others. `groups` are computations that run by themselves.
    """

    entered: set[Computation]
    groups: list[Computation] = field(default_factory=list)
    sends: _Unmet = field(default_factory=_Unmet)
    recvs: _Unmet = field(default_factory=_Unmet)
    expected: str = ""

    def through(self, computation: Computation) -> Iterator[Problem]:
        """The problems of a computation and of what it calls."""
        ways = [iter(computation.instructions)]
        while ways:
            instruction = next(ways[-1], None)
            if instruction is None:
                ways.pop()
                continue
            yield from self._take(instruction)
            for called in instruction.called_computations:
                if instruction.opcode in _ENTERED and called not in self.entered:
                    self.entered.add(called)
                    ways.append(iter(called.instructions))
                elif instruction.opcode == opcodes.ASYNC_START and called not in self.entered and _is_group(called):
                    self.entered.add(called)
                    self.groups.append(called)
        yield from self._left()

    def _take(self, instruction: Instruction) -> Iterator[Problem]:
        if instruction.opcode in COLLECTIVES and self.expected:
            first = next(iter((self.sends if self.expected == "recv" else self.recvs).ways))
            message = f"{instruction.name} stands between {first.name} and the {self.expected} that this waits for"
            yield Problem(instruction, message, "warning", f"put the {self.expected} before {instruction.name}")
        ways = _ways_of(instruction)
        if ways is None:
            return
        if (words := _wrong(ways)) is not None:
            yield Problem(instruction, f"{instruction.name} goes {words}: {_in_words(ways)}", "warning")
        own, others = (self.sends, self.recvs) if instruction.opcode == opcodes.SEND else (self.recvs, self.sends)
        if self.expected != instruction.opcode:
            yield from self._beside(instruction, ways, own)
            self.expected = "recv" if instruction.opcode == opcodes.SEND else "send"
            own.add(instruction, ways)
            return
        met = next(iter(others.by_ways.get(ways, ())), None)
        if met is None:
            own.add(instruction, ways)
            return
        others.remove(met)
        self.expected = self.expected if others.ways else ""

    def _beside(self, instruction: Instruction, ways: Ways, own: _Unmet) -> Iterator[Problem]:
        """Two of a kind may not both be under way between the same devices, or in a circle."""
        if (other := own.disturbing(ways)) is not None:
            theirs = own.ways[other]
            words = f"as {other.name} does" if theirs == ways else f"while {other.name} goes {_in_words(theirs)}"
            message = f"{instruction.name} goes {_in_words(ways)} {words}, which nothing has met"
            yield Problem(instruction, message, "warning")

    def _left(self) -> Iterator[Problem]:
        """Whatever was never met."""
        theirs = Counter(self.recvs.ways.values())
        for send, ways in self.sends.ways.items():
            theirs[ways] -= 1
            if theirs[ways] < 0:
                yield Problem(send, f"nothing receives what {send.name} sends {_in_words(ways)}", "warning")
        for recv, ways in self.recvs.ways.items():
            theirs[ways] -= 1
            if theirs[ways] >= 0:
                yield Problem(recv, f"nothing sends what {recv.name} receives {_in_words(ways)}", "warning")


def _is_group(computation: Computation) -> bool:
    """Whether a computation is more than one operation."""
    return sum(instruction.opcode != opcodes.PARAMETER for instruction in computation.instructions) > 1


def _ways_of(instruction: Instruction) -> Ways | None:
    if instruction.opcode not in CHANNEL_STARTS or instruction.flag("is_host_transfer"):
        return None
    text = dict(instruction.frontend_attributes.entries).get(_WAYS)
    return None if text is None else tuple((int(source), int(target)) for source, target in _WAY.findall(text))


def _wrong(ways: Ways) -> str | None:
    """Whether ways leave one device twice, come to one twice, or lead in a circle."""
    following, seen = dict(ways), set[int]()
    if len(following) < len(ways):
        return "twice from one device"
    if len(set(following.values())) < len(ways):
        return "twice to one device"
    for first in following:
        at = None if first in seen else following.get(first)
        while at is not None and at != first and at not in seen:
            seen.add(at)
            at = following.get(at)
        if at == first:
            return "in a circle"
    return None


def _in_words(ways: Ways) -> str:
    """The ways in prose: `from 0 to 1, from 1 to 2`."""
    return ", ".join(f"from {source} to {target}" for source, target in ways[:3]) + (", …" if len(ways) > 3 else "")
