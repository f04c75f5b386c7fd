"""Deadlocks visible in the schedule of one module: sends and recvs between devices that cannot be matched.

Mirrors `VerifyNoCollectiveDeadlocks` of xla/service/hlo_verifier.cc, which is off by default. It checks sends and
recvs with source-target pairs in the order of a GPU schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import Final, TypeAlias

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_diagnostics import Problem
from hlo_cli.analysis.schedule.async_pairs import COLLECTIVES
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex

_PAIRS_ATTRIBUTE: Final = "_xla_send_recv_source_target_pairs"
_PAIR: Final = lazy_regex(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_ENTERED: Final = frozenset(("call", "conditional", "while"))

SourceTargetPairs: TypeAlias = tuple[tuple[int, int], ...]
"""Source and target device of each transfer."""


def deadlocks(module: Module) -> Iterator[Problem]:
    """Yields possible deadlocks; none for unscheduled modules and on TPU.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)  t = token[] after-all()
    ...   s = (f32[4], u32[], token[]) send(p, t), channel_id=1,
    ...       frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
    ...   ROOT d = token[] send-done(s), channel_id=1 }'''
    >>> [problem.message for problem in deadlocks(parse_module(text))]
    ['nothing receives what s sends from 0 to 1']
    """
    if not module.is_scheduled or _PAIRS_ATTRIBUTE not in module.source.text or target_of(module) == "tpu":
        return
    # hlo_verifier.cc: an async computation of several operations is checked on its own, apart from its caller.
    entered = {module.entry}
    waiting = [module.entry]
    while waiting:
        walk = _Walk(entered)
        yield from walk.visit(waiting.pop())
        waiting += walk.groups


@dataclass(slots=True)
class _Unmatched:
    """Unmatched sends or recvs in the order of execution, indexed by pairs and by device."""

    numbers: dict[Instruction, int] = field(default_factory=dict)
    pairs: dict[Instruction, SourceTargetPairs] = field(default_factory=dict)
    invalid: dict[int, Instruction] = field(default_factory=dict)
    by_pairs: dict[SourceTargetPairs, dict[Instruction, None]] = field(default_factory=dict)
    by_device: dict[int, dict[int, Instruction]] = field(default_factory=dict)
    last: int = 0

    def add(self, instruction: Instruction, pairs: SourceTargetPairs) -> None:
        """Adds an unmatched instruction."""
        self.last += 1
        self.numbers[instruction], self.pairs[instruction] = self.last, pairs
        self.by_pairs.setdefault(pairs, {})[instruction] = None
        if _invalid_reason(pairs) is not None:
            self.invalid[self.last] = instruction
        for device in chain.from_iterable(pairs):
            self.by_device.setdefault(device, {})[self.last] = instruction

    def remove(self, instruction: Instruction) -> None:
        """Removes a matched instruction."""
        number, pairs = self.numbers.pop(instruction), self.pairs.pop(instruction)
        del self.by_pairs[pairs][instruction]
        self.invalid.pop(number, None)
        for device in chain.from_iterable(pairs):
            self.by_device[device].pop(number, None)

    def conflicting(self, pairs: SourceTargetPairs) -> Instruction | None:
        """Returns the first unmatched instruction that must not be in flight together with these pairs, or None."""
        if _invalid_reason(pairs) is not None:
            return next(iter(self.pairs), None)
        devices = dict.fromkeys(chain.from_iterable(pairs))
        sharing_device = [self.by_device[device].items() for device in devices if device in self.by_device]
        for _, other in merge(self.invalid.items(), *sharing_device, key=itemgetter(0)):
            if self.pairs[other] == pairs or _invalid_reason((*self.pairs[other], *pairs)) is not None:
                return other
        return next(iter(self.by_pairs.get(pairs, ())), None)


@dataclass(slots=True)
class _Walk:
    """Unmatched sends and recvs while instructions are visited in the order of execution.

    `expected` is the opcode that matches the oldest unmatched instruction, "" if there is none. `groups` are
    computations to be checked on their own.
    """

    entered: set[Computation]
    groups: list[Computation] = field(default_factory=list)
    sends: _Unmatched = field(default_factory=_Unmatched)
    recvs: _Unmatched = field(default_factory=_Unmatched)
    expected: str = ""

    def visit(self, computation: Computation) -> Iterator[Problem]:
        """Yields the problems of a computation and of its callees."""
        pairs = [iter(computation.instructions)]
        while pairs:
            instruction = next(pairs[-1], None)
            if instruction is None:
                pairs.pop()
                continue
            yield from self._visit_instruction(instruction)
            for called in instruction.called_computations:
                if instruction.opcode in _ENTERED and called not in self.entered:
                    self.entered.add(called)
                    pairs.append(iter(called.instructions))
                elif instruction.opcode == "async-start" and called not in self.entered and _is_group(called):
                    self.entered.add(called)
                    self.groups.append(called)
        yield from self._report_unmatched()

    def _visit_instruction(self, instruction: Instruction) -> Iterator[Problem]:
        """Processes one instruction."""
        if instruction.opcode in COLLECTIVES and self.expected:
            first = next(iter((self.sends if self.expected == "recv" else self.recvs).pairs))
            message = f"{instruction.name} stands between {first.name} and the {self.expected} that this waits for"
            yield Problem(instruction, message, "warning", f"put the {self.expected} before {instruction.name}")
        pairs = _pairs_of(instruction)
        if pairs is None:
            return
        if (words := _invalid_reason(pairs)) is not None:
            yield Problem(instruction, f"{instruction.name} goes {words}: {_format_pairs(pairs)}", "warning")
        same_kind, others = (self.sends, self.recvs) if instruction.opcode == "send" else (self.recvs, self.sends)
        if self.expected != instruction.opcode:
            yield from self._check_concurrent(instruction, pairs, same_kind)
            self.expected = "recv" if instruction.opcode == "send" else "send"
            same_kind.add(instruction, pairs)
            return
        matched = next(iter(others.by_pairs.get(pairs, ())), None)
        if matched is None:
            same_kind.add(instruction, pairs)
            return
        others.remove(matched)
        self.expected = self.expected if others.pairs else ""

    def _check_concurrent(
        self, instruction: Instruction, pairs: SourceTargetPairs, same_kind: _Unmatched
    ) -> Iterator[Problem]:
        """Reports a send or recv that shares devices with an unmatched one or forms a cycle with it."""
        if (other := same_kind.conflicting(pairs)) is not None:
            other_pairs = same_kind.pairs[other]
            words = (
                f"as {other.name} does"
                if other_pairs == pairs
                else f"while {other.name} goes {_format_pairs(other_pairs)}"
            )
            message = f"{instruction.name} goes {_format_pairs(pairs)} {words}, which nothing has met"
            yield Problem(instruction, message, "warning")

    def _report_unmatched(self) -> Iterator[Problem]:
        """Reports all sends and recvs that remain unmatched."""
        other_pairs = Counter(self.recvs.pairs.values())
        for send, pairs in self.sends.pairs.items():
            other_pairs[pairs] -= 1
            if other_pairs[pairs] < 0:
                yield Problem(send, f"nothing receives what {send.name} sends {_format_pairs(pairs)}", "warning")
        for recv, pairs in self.recvs.pairs.items():
            other_pairs[pairs] -= 1
            if other_pairs[pairs] >= 0:
                yield Problem(recv, f"nothing sends what {recv.name} receives {_format_pairs(pairs)}", "warning")


def _is_group(computation: Computation) -> bool:
    """Returns whether a computation contains several operations."""
    return sum(instruction.opcode != "parameter" for instruction in computation.instructions) > 1


def _pairs_of(instruction: Instruction) -> SourceTargetPairs | None:
    """Returns the source-target pairs of a device send or recv, None for other instructions."""
    if instruction.opcode not in ("send", "recv") or instruction.flag("is_host_transfer"):
        return None
    text = dict(instruction.frontend_attributes.entries).get(_PAIRS_ATTRIBUTE)
    return None if text is None else tuple((int(source), int(target)) for source, target in _PAIR.findall(text))


def _invalid_reason(pairs: SourceTargetPairs) -> str | None:
    """Returns how pairs are invalid (repeated source, repeated target, or cycle), None if they are valid."""
    following, seen = dict(pairs), set[int]()
    if len(following) < len(pairs):
        return "twice from one device"
    if len(set(following.values())) < len(pairs):
        return "twice to one device"
    for first in following:
        at = None if first in seen else following.get(first)
        while at is not None and at != first and at not in seen:
            seen.add(at)
            at = following.get(at)
        if at == first:
            return "in a circle"
    return None


def _format_pairs(pairs: SourceTargetPairs) -> str:
    """Formats pairs: `from 0 to 1, from 1 to 2`."""
    return ", ".join(f"from {source} to {target}" for source, target in pairs[:3]) + (", …" if len(pairs) > 3 else "")
