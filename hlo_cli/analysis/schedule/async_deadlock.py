"""Deadlocks visible in the schedule of one module: sends and recvs between devices that cannot be matched.

Mirrors `VerifyNoCollectiveDeadlocks` of xla/service/hlo_verifier.cc, which is off by default. It checks sends and
recvs with source-target pairs in the order of a GPU schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.dataflow.computation_contexts import contexts_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.problem import Problem
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, RUNNERS, wrapped_opcode
from hlo_cli.lazy_regex import lazy_regex

_PAIRS_ATTRIBUTE: Final = "_xla_send_recv_source_target_pairs"
_PIPELINE: Final = "_xla_send_recv_pipeline"
"""Sends and recvs with this attribute are skipped, as in XLA: they follow rules of their own."""
_PAIR: Final = lazy_regex(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_MAX_STEPS: Final = 1_000_000
"""Limit on visited instructions: a chain of computations that each call the next twice takes exponential time."""

SourceTargetPairs: TypeAlias = tuple[tuple[int, int], ...]
"""Source and target device of each transfer."""


class Transfer(NamedTuple):
    """A device send or recv: the attribute text, which XLA compares to match two of them, and its pairs."""

    instruction: Instruction
    text: str
    pairs: SourceTargetPairs


def deadlocks(module: Module) -> Iterator[Problem]:
    """Yields possible deadlocks; none for unscheduled modules and on TPU.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)  t = token[] after-all()
    ...   s = (f32[4], u32[], token[]) send(p, t), channel_id=1,
    ...       frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
    ...   ROOT d = token[] send-done(s), channel_id=1 }'''
    >>> [problem.message for problem in deadlocks(parse_module(text))]
    ['s has no matching recv (from 0 to 1)']
    """
    text = module.source.text
    if not module.is_scheduled or (text and _PAIRS_ATTRIBUTE not in text) or target_of(module) == "tpu":
        return
    entered = _with_transfers(module)
    frames = [_Frame(iter(module.entry.instructions), _Walk(), around=None)]
    steps = 0
    while frames and steps < _MAX_STEPS:
        frame = frames[-1]
        instruction = next(frame.left, None)
        if instruction is None:
            frames.pop()
            if frame.is_whole and (frame.around is None or frame.around.expected):
                yield from frame.walk.left()
            continue
        steps += 1
        yield from frame.walk.visit(instruction)
        if instruction.opcode in RUNNERS and not _is_collective(instruction):
            inner = [called for called in instruction.called_computations if called in entered]
            frames += (_frame(instruction, called, frame.walk) for called in reversed(inner))


@dataclass(slots=True)
class Unmatched:
    """Unmatched sends or recvs in the order of execution, indexed by attribute text and by device.

    >>> unmatched = Unmatched()
    >>> unmatched.conflicting(((0, 1),)) is None
    True
    """

    numbers: dict[Instruction, int] = field(default_factory=dict)
    transfers: dict[Instruction, Transfer] = field(default_factory=dict)
    invalid: dict[int, Transfer] = field(default_factory=dict)
    by_text: dict[str, dict[Instruction, None]] = field(default_factory=dict)
    by_device: dict[int, dict[int, Transfer]] = field(default_factory=dict)
    last: int = 0

    def add(self, transfer: Transfer) -> None:
        """Adds an unmatched instruction, unless it is present from an earlier execution."""
        instruction = transfer.instruction
        if instruction in self.numbers:
            return
        self.last += 1
        self.numbers[instruction], self.transfers[instruction] = self.last, transfer
        self.by_text.setdefault(transfer.text, {})[instruction] = None
        if conflict(transfer.pairs) is not None:
            self.invalid[self.last] = transfer
        for device in chain.from_iterable(transfer.pairs):
            self.by_device.setdefault(device, {})[self.last] = transfer

    def match(self, text: str) -> bool:
        """Matches the first instruction with the same attribute text; returns whether there is one."""
        instruction = next(iter(self.by_text.get(text, ())), None)
        if instruction is None:
            return False
        number, transfer = self.numbers.pop(instruction), self.transfers.pop(instruction)
        del self.by_text[text][instruction]
        self.invalid.pop(number, None)
        for device in chain.from_iterable(transfer.pairs):
            self.by_device[device].pop(number, None)
        return True

    def conflicting(self, pairs: SourceTargetPairs) -> Transfer | None:
        """Returns the first unmatched transfer that must not be in flight together with these pairs, or None."""
        if conflict(pairs) is not None:
            return next(iter(self.transfers.values()), None)
        devices = dict.fromkeys(chain.from_iterable(pairs))
        sharing_device = [self.by_device[device].items() for device in devices if device in self.by_device]
        for _, other in merge(self.invalid.items(), *sharing_device, key=itemgetter(0)):
            if conflict((*other.pairs, *pairs)) is not None:
                return other
        return None


@dataclass(slots=True)
class _Walk:
    """The state of the check: unmatched sends and recvs while instructions are visited in execution order.

    `expected` is the opcode that matches the oldest unmatched instruction, "" if there is none.
    """

    sends: Unmatched = field(default_factory=Unmatched)
    recvs: Unmatched = field(default_factory=Unmatched)
    expected: str = ""

    def visit(self, instruction: Instruction) -> Iterator[Problem]:
        """Processes one instruction."""
        if self.expected and _is_collective(instruction):
            first = next(iter((self.sends if self.expected == "recv" else self.recvs).transfers))
            message = f"{instruction.name} is between {first.name} and its matching {self.expected}"
            yield Problem(instruction, message, "warning", f"move the {self.expected} before {instruction.name}")
        transfer = _transfer_of(instruction)
        if transfer is None:
            return
        if (words := conflict(transfer.pairs)) is not None:
            yield Problem(instruction, f"{instruction.name} has {words}: {_format_pairs(transfer.pairs)}", "warning")
        is_send = instruction.opcode == opcodes.SEND
        same_kind, others = (self.sends, self.recvs) if is_send else (self.recvs, self.sends)
        if self.expected != instruction.opcode:
            yield from _check_concurrent(transfer, same_kind) if self.expected else ()
            self.expected = "recv" if is_send else "send"
            same_kind.add(transfer)
        elif not others.match(transfer.text):
            same_kind.add(transfer)
        elif not others.transfers:
            self.expected = ""

    def left(self) -> Iterator[Problem]:
        """Reports all sends and recvs that remain unmatched."""
        unmatched_recvs = Counter(each.text for each in self.recvs.transfers.values())
        for send, text, pairs in self.sends.transfers.values():
            unmatched_recvs[text] -= 1
            if unmatched_recvs[text] < 0:
                yield Problem(send, f"{send.name} has no matching recv ({_format_pairs(pairs)})", "warning")
        for recv, text, pairs in self.recvs.transfers.values():
            unmatched_recvs[text] -= 1
            if unmatched_recvs[text] >= 0:
                yield Problem(recv, f"{recv.name} has no matching send ({_format_pairs(pairs)})", "warning")


@dataclass(slots=True)
class _Frame:
    """A computation under visit: its remaining instructions, and the state of the check.

    Computations that are checked on their own have `is_whole`: the entry, and groups of operations in an async-start.
    XLA requires that all transfers of a group are matched only if the state of its caller, `around`, expects a match.
    """

    left: Iterator[Instruction]
    walk: _Walk
    around: _Walk | None
    is_whole: bool = True


def _frame(caller: Instruction, called: Computation, around: _Walk) -> _Frame:
    """Returns the frame of a called computation; a group of operations has a state of its own."""
    # hlo_verifier.cc checks an async computation of several operations with a fresh state.
    is_group = caller.opcode == opcodes.ASYNC_START and _is_group(called)
    return _Frame(iter(called.instructions), _Walk() if is_group else around, around, is_whole=is_group)


def _with_transfers(module: Module) -> frozenset[Computation]:
    """Returns the computations that contain or reach transfers or collectives; others are not visited."""
    callers = contexts_of(module).callers
    found: set[Computation] = set()
    worklist = [each.computation for each in module.instructions if each.opcode in _TRANSFERS]
    while worklist:
        if (computation := worklist.pop()) not in found:
            found.add(computation)
            worklist.extend(caller.computation for caller in callers.get(computation, ()))
    return frozenset(found)


_TRANSFERS: Final = COLLECTIVES | {f"{opcode}-start" for opcode in COLLECTIVES} | CHANNEL_STARTS


def _is_collective(instruction: Instruction) -> bool:
    """Returns whether XLA treats an instruction as another collective: generic and sugared starts, not native ones."""
    opcode, called = instruction.opcode, instruction.called_computations
    if opcode == opcodes.ASYNC_START and called and called[0].root is not None and not _is_group(called[0]):
        return called[0].root.opcode in COLLECTIVES
    return opcode in COLLECTIVES or (opcode.endswith("-start") and wrapped_opcode(opcode) in COLLECTIVES)


def _is_group(computation: Computation) -> bool:
    """Returns whether a computation contains several operations."""
    return sum(instruction.opcode != opcodes.PARAMETER for instruction in computation.instructions) > 1


def _transfer_of(instruction: Instruction) -> Transfer | None:
    """Returns the transfer of a device send or recv, None for other instructions."""
    if instruction.opcode not in CHANNEL_STARTS or instruction.flag("is_host_transfer"):
        return None
    attributes = instruction.frontend_attributes
    text = attributes.get(_PAIRS_ATTRIBUTE)
    if text is None or attributes.get(_PIPELINE) is not None:
        return None
    return Transfer(instruction, text, tuple((int(source), int(target)) for source, target in _PAIR.findall(text)))


def _check_concurrent(transfer: Transfer, same_kind: Unmatched) -> Iterator[Problem]:
    """Reports a send or recv that shares devices with an unmatched one or forms a cycle with it."""
    if (other := same_kind.conflicting(transfer.pairs)) is not None:
        own, name = f"{transfer.instruction.name} ({_format_pairs(transfer.pairs)})", other.instruction.name
        if other.instruction is transfer.instruction:
            message = f"{own} is executed again before it is matched"
        elif other.pairs == transfer.pairs:
            message = f"{own} has the same pairs as {name}, which is not matched yet"
        else:
            message = f"{own} conflicts with {name} ({_format_pairs(other.pairs)}), which is not matched yet"
        yield Problem(transfer.instruction, message, "warning")


def conflict(pairs: SourceTargetPairs) -> str | None:
    """Returns how pairs are invalid (repeated source, repeated target, or cycle), None if they are valid.

    >>> conflict(((0, 1), (1, 0))), conflict(((0, 1), (1, 2)))
    ('a cycle', None)
    """
    following, seen = dict(pairs), set[int]()
    if len(following) < len(pairs):
        return "the same source twice"
    if len(set(following.values())) < len(pairs):
        return "the same target twice"
    for first in following:
        at = None if first in seen else following.get(first)
        while at is not None and at != first and at not in seen:
            seen.add(at)
            at = following.get(at)
        if at == first:
            return "a cycle"
    return None


def _format_pairs(pairs: SourceTargetPairs) -> str:
    """Formats pairs: `from 0 to 1, from 1 to 2`."""
    return ", ".join(f"from {source} to {target}" for source, target in pairs[:3]) + (", …" if len(pairs) > 3 else "")
