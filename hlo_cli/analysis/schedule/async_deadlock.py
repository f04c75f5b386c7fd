"""Deadlocks that the order of one module shows: sends and receives between devices that cannot meet.

Mirrors `VerifyNoCollectiveDeadlocks` of xla/service/hlo_verifier.cc, which is off unless asked for: it looks at sends
and receives that say between which devices they go, in the order of a schedule for GPUs.
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
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, RUNNERS, wrapped_opcode
from hlo_cli.lazy_regex import lazy_regex

_WAYS: Final = "_xla_send_recv_source_target_pairs"
_PIPELINE: Final = "_xla_send_recv_pipeline"
"""XLA leaves out what says this: it has rules of its own, which the check does not know."""
_WAY: Final = lazy_regex(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_MOST_STEPS: Final = 1_000_000
"""What calls twice what calls twice … is gone through no further: it would take for ever."""

Ways: TypeAlias = tuple[tuple[int, int], ...]
"""From which device to which something goes."""


class Transfer(NamedTuple):
    """A send or a receive: XLA compares what two say as it is written, and takes it apart to find conflicts."""

    instruction: Instruction
    text: str
    ways: Ways


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
    text = module.source.text
    if not module.is_scheduled or (text and _WAYS not in text) or target_of(module) == "tpu":
        return
    entered = _with_transfers(module)
    frames = [_Frame(iter(module.entry.instructions), _Walk(), around=None)]
    steps = 0
    while frames and steps < _MOST_STEPS:
        frame = frames[-1]
        instruction = next(frame.left, None)
        if instruction is None:
            frames.pop()
            if frame.is_whole and (frame.around is None or frame.around.expected):
                yield from frame.walk.left()
            continue
        steps += 1
        yield from frame.walk.take(instruction)
        if instruction.opcode in RUNNERS and not _is_collective(instruction):
            inner = [called for called in instruction.called_computations if called in entered]
            frames += (_frame(instruction, called, frame.walk) for called in reversed(inner))


@dataclass(slots=True)
class Unmet:
    """Sends, or receives, that nothing has met, in the order in which they run; by number to find them in.

    >>> unmet = Unmet()
    >>> unmet.disturbing(((0, 1),)) is None
    True
    """

    numbers: dict[Instruction, int] = field(default_factory=dict)
    transfers: dict[Instruction, Transfer] = field(default_factory=dict)
    wrong: dict[int, Transfer] = field(default_factory=dict)
    by_text: dict[str, dict[Instruction, None]] = field(default_factory=dict)
    by_device: dict[int, dict[int, Transfer]] = field(default_factory=dict)
    last: int = 0

    def add(self, transfer: Transfer) -> None:
        """One more that waits; what is run a second time waits already."""
        instruction = transfer.instruction
        if instruction in self.numbers:
            return
        self.last += 1
        self.numbers[instruction], self.transfers[instruction] = self.last, transfer
        self.by_text.setdefault(transfer.text, {})[instruction] = None
        if conflict(transfer.ways) is not None:
            self.wrong[self.last] = transfer
        for device in chain.from_iterable(transfer.ways):
            self.by_device.setdefault(device, {})[self.last] = transfer

    def meet(self, text: str) -> bool:
        """Whether one of them says the same; the first that does is met."""
        instruction = next(iter(self.by_text.get(text, ())), None)
        if instruction is None:
            return False
        number, transfer = self.numbers.pop(instruction), self.transfers.pop(instruction)
        del self.by_text[text][instruction]
        self.wrong.pop(number, None)
        for device in chain.from_iterable(transfer.ways):
            self.by_device[device].pop(number, None)
        return True

    def disturbing(self, ways: Ways) -> Transfer | None:
        """The first that cannot be under way while something goes these ways; those of other devices all can."""
        if conflict(ways) is not None:
            return next(iter(self.transfers.values()), None)
        devices = dict.fromkeys(chain.from_iterable(ways))
        near = [self.by_device[device].items() for device in devices if device in self.by_device]
        for _, other in merge(self.wrong.items(), *near, key=itemgetter(0)):
            if conflict((*other.ways, *ways)) is not None:
                return other
        return None


@dataclass(slots=True)
class _Walk:
    """What waits for its other side on the way through the instructions, in the order in which they run.

    The first of what nothing has met decides whether sends or receives are `expected` of the others.
    """

    sends: Unmet = field(default_factory=Unmet)
    recvs: Unmet = field(default_factory=Unmet)
    expected: str = ""

    def take(self, instruction: Instruction) -> Iterator[Problem]:
        """The next instruction."""
        if self.expected and _is_collective(instruction):
            first = next(iter((self.sends if self.expected == "recv" else self.recvs).transfers))
            message = f"{instruction.name} stands between {first.name} and the {self.expected} that this waits for"
            yield Problem(instruction, message, "warning", f"put the {self.expected} before {instruction.name}")
        transfer = _transfer_of(instruction)
        if transfer is None:
            return
        if (words := conflict(transfer.ways)) is not None:
            yield Problem(instruction, f"{instruction.name} goes {words}: {_in_words(transfer.ways)}", "warning")
        is_send = instruction.opcode == opcodes.SEND
        own, others = (self.sends, self.recvs) if is_send else (self.recvs, self.sends)
        if self.expected != instruction.opcode:
            yield from _beside(transfer, own) if self.expected else ()
            self.expected = "recv" if is_send else "send"
            own.add(transfer)
        elif not others.meet(transfer.text):
            own.add(transfer)
        elif not others.transfers:
            self.expected = ""

    def left(self) -> Iterator[Problem]:
        """Whatever was never met."""
        theirs = Counter(each.text for each in self.recvs.transfers.values())
        for send, text, ways in self.sends.transfers.values():
            theirs[text] -= 1
            if theirs[text] < 0:
                yield Problem(send, f"nothing receives what {send.name} sends {_in_words(ways)}", "warning")
        for recv, text, ways in self.recvs.transfers.values():
            theirs[text] -= 1
            if theirs[text] >= 0:
                yield Problem(recv, f"nothing sends what {recv.name} receives {_in_words(ways)}", "warning")


@dataclass(slots=True)
class _Frame:
    """What is left of a computation that is gone through, and the walk that goes on in it.

    One `is_whole` that has a walk of its own: the entry, and a group of operations that an async-start runs. XLA asks
    whether all of a group have met only where the walk `around` it expects something: others meet another group's.
    """

    left: Iterator[Instruction]
    walk: _Walk
    around: _Walk | None
    is_whole: bool = True


def _frame(caller: Instruction, called: Computation, around: _Walk) -> _Frame:
    is_group = caller.opcode == opcodes.ASYNC_START and _is_group(called)
    return _Frame(iter(called.instructions), _Walk() if is_group else around, around, is_whole=is_group)


def _with_transfers(module: Module) -> frozenset[Computation]:
    """The computations in which, or in what they call, something is exchanged: no others are entered."""
    callers = contexts_of(module).callers
    found: set[Computation] = set()
    waiting = [each.computation for each in module.instructions if each.opcode in _EXCHANGING]
    while waiting:
        if (computation := waiting.pop()) not in found:
            found.add(computation)
            waiting.extend(caller.computation for caller in callers.get(computation, ()))
    return frozenset(found)


_EXCHANGING: Final = COLLECTIVES | {f"{opcode}-start" for opcode in COLLECTIVES} | CHANNEL_STARTS


def _is_collective(instruction: Instruction) -> bool:
    """Whether an instruction is another collective to XLA, or a start that wraps one; native starts are none."""
    opcode, called = instruction.opcode, instruction.called_computations
    if opcode == opcodes.ASYNC_START and called and called[0].root is not None and not _is_group(called[0]):
        return called[0].root.opcode in COLLECTIVES
    return opcode in COLLECTIVES or (opcode.endswith("-start") and wrapped_opcode(opcode) in COLLECTIVES)


def _is_group(computation: Computation) -> bool:
    """Whether a computation is more than one operation."""
    return sum(instruction.opcode != opcodes.PARAMETER for instruction in computation.instructions) > 1


def _transfer_of(instruction: Instruction) -> Transfer | None:
    if instruction.opcode not in CHANNEL_STARTS or instruction.flag("is_host_transfer"):
        return None
    said = instruction.frontend_attributes
    text = said.get(_WAYS)
    if text is None or said.get(_PIPELINE) is not None:
        return None
    return Transfer(instruction, text, tuple((int(source), int(target)) for source, target in _WAY.findall(text)))


def _beside(transfer: Transfer, own: Unmet) -> Iterator[Problem]:
    """Two of a kind may not both be under way between the same devices, or in a circle."""
    if (other := own.disturbing(transfer.ways)) is not None:
        is_same = other.ways == transfer.ways
        name = other.instruction.name
        words = f"as {name} does" if is_same else f"while {name} goes {_in_words(other.ways)}"
        message = f"{transfer.instruction.name} goes {_in_words(transfer.ways)} {words}, which nothing has met"
        yield Problem(transfer.instruction, message, "warning")


def conflict(ways: Ways) -> str | None:
    """Whether ways leave one device twice, come to one twice, or lead in a circle.

    >>> conflict(((0, 1), (1, 0))), conflict(((0, 1), (1, 2)))
    ('in a circle', None)
    """
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
