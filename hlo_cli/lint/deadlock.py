"""Whether sends and receives between devices meet in the order of the schedule.

Mirrors the deadlock verification of xla/service/hlo_verifier.cc: an automaton that goes over the entry in the order
of the text and into what it calls, and holds what has been sent and not received, or the other way round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hlo_cli.analysis.dataflow.computation_contexts import contexts_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, RUNNERS
from hlo_cli.lint.waiting import Pairs, Transfer, Waiting

PAIRS: Final = "_xla_send_recv_source_target_pairs"
"""The frontend attribute that says between which devices something is sent."""

_MOST_STEPS: Final = 1_000_000
"""What calls twice what calls twice … is gone through no further: it would take for ever."""

Problem = tuple[Instruction, str]


@dataclass(slots=True)
class _Automaton:
    """What waits for its counterpart: sends for receives, or receives for sends, and more of the same behind them."""

    expected: str = ""
    waiting: Waiting = field(default_factory=Waiting)
    behind: Waiting = field(default_factory=Waiting)


def deadlocks(module: Module) -> Iterator[Problem]:
    """Every place at which the devices may wait for each other for ever.

    >>> from hlo_cli import parse_module
    >>> list(deadlocks(parse_module("ENTRY e { ROOT p = f32[2] parameter(0) }")))
    []
    """
    relevant = _with_transfers(module)
    state = _Automaton()
    frames = [_Frame(iter(module.entry.instructions), state, is_whole=True)]
    steps = 0
    while frames and steps < _MOST_STEPS:
        frame = frames[-1]
        instruction = next(frame.left, None)
        if instruction is None:
            frames.pop()
            yield from _leftovers(frame.state) if frame.is_whole else ()
            continue
        steps += 1
        if instruction.opcode not in RUNNERS:
            yield from _step(instruction, frame.state)
            continue
        for inner in reversed(instruction.called_computations):
            if inner in relevant:
                is_group = instruction.opcode == opcodes.ASYNC_START and _is_group(inner)
                inside = _Automaton() if is_group else frame.state
                frames.append(_Frame(iter(inner.instructions), inside, is_whole=is_group))


@dataclass(slots=True)
class _Frame:
    """What is left of a computation that is gone through."""

    left: Iterator[Instruction]
    state: _Automaton
    is_whole: bool


def _with_transfers(module: Module) -> frozenset[Computation]:
    """The computations in which, or in what they call, something is exchanged: no others are entered."""
    callers = contexts_of(module).callers
    found: set[Computation] = set()
    waiting = [instruction.computation for instruction in module.instructions if _exchanges(instruction)]
    while waiting:
        if (computation := waiting.pop()) not in found:
            found.add(computation)
            waiting.extend(caller.computation for caller in callers.get(computation, ()))
    return frozenset(found)


def _exchanges(instruction: Instruction) -> bool:
    return instruction.opcode in CHANNEL_STARTS or instruction.opcode.removesuffix("-start") in COLLECTIVES


def _is_group(computation: Computation) -> bool:
    """Whether a computation is more than one operation."""
    return sum(i.opcode != opcodes.PARAMETER for i in computation.instructions) > 1


def _step(instruction: Instruction, state: _Automaton) -> Iterator[Problem]:
    opcode = instruction.opcode
    if opcode in CHANNEL_STARTS and not instruction.flag("is_host_transfer"):
        text = instruction.frontend_attributes.get(PAIRS)
        if text is None:
            return
        pairs = _read(text)
        if (message := own_problem(pairs)) is not None:
            yield instruction, f"{instruction.name} {message}"
        yield from _meet((text, pairs, instruction), opcode, state)
    elif state.expected and _exchanges(instruction):
        _, _, other = next(iter(state.waiting or state.behind))
        yield instruction, f"{instruction.name} runs while {other.name} waits for its {state.expected}"


def _meet(transfer: Transfer, opcode: str, state: _Automaton) -> Iterator[Problem]:
    text, _, instruction = transfer
    if not state.expected:
        state.expected = "recv" if opcode == opcodes.SEND else "send"
        state.waiting.add(transfer)
    elif opcode != state.expected:
        is_repeated = text in state.waiting
        state.waiting.add(transfer)
        if is_repeated:
            yield instruction, f"{instruction.name} repeats the pairs of a {opcode} that waits for its {state.expected}"
        elif (message := state.waiting.problem()) is not None:
            yield instruction, f"{instruction.name}, with the {opcode} before it that still waits, {message}"
    else:
        if text in state.waiting:
            state.waiting.remove(text)
        else:
            state.behind.add(transfer)
        if not state.waiting:
            _turn(state)


def _turn(state: _Automaton) -> None:
    """What is left waits now, for the other direction."""
    turned = "send" if state.expected == "recv" else "recv"
    state.expected = turned if state.behind else ""
    state.waiting, state.behind = state.behind, Waiting()


def _leftovers(state: _Automaton) -> Iterator[Problem]:
    left = Counter(text for text, _, _ in state.behind)
    for text, _, instruction in state.waiting:
        left[text] -= 1
        if left[text] < 0:
            yield instruction, f"{instruction.name} waits for a {state.expected} of the same pairs that never comes"


def own_problem(pairs: Pairs) -> str | None:
    """Why a set of pairs cannot be served: a device sends or receives twice, or there is a circle.

    >>> own_problem(((0, 1), (1, 0))), own_problem(((0, 1), (1, 2)))
    ('sends in a circle through device 0', None)
    """
    targets, seen = dict(pairs), set[int]()
    if len(targets) < len(pairs):
        return "sends from one device twice"
    if len(set(targets.values())) < len(pairs):
        return "sends to one device twice"
    for first in targets:
        at = None if first in seen else targets.get(first)
        while at is not None and at not in seen:
            if at == first:
                return f"sends in a circle through device {first}"
            seen.add(at)
            at = targets.get(at)
    return None


def _read(text: str) -> Pairs:
    """The pairs in a text like {{0,1},{1,2}}."""
    numbers = [
        int(word) for word in text.replace("{", " ").replace("}", " ").replace(",", " ").split() if word.isdecimal()
    ]
    return tuple(zip(numbers[::2], numbers[1::2], strict=False))
