"""Whether sends and receives between devices meet in the order of the schedule.

Mirrors the deadlock verification of xla/service/hlo_verifier.cc: an automaton that goes over the entry in the order
of the text and into what it calls, and holds what has been sent and not received, or the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hlo_cli.analysis.async_pairs import COLLECTIVES
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

PAIRS: Final = "_xla_send_recv_source_target_pairs"
"""The frontend attribute that says between which devices something is sent."""

Problem = tuple[Instruction, str]
Pairs = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Automaton:
    """What waits for its counterpart: sends for receives, or receives for sends, and more of the same behind them."""

    expected: str = ""
    waiting: list[tuple[str, Pairs, Instruction]] = field(default_factory=list)
    behind: list[tuple[str, Pairs, Instruction]] = field(default_factory=list)


def deadlocks(module: Module) -> Iterator[Problem]:
    """Every place at which the devices may wait for each other for ever.

    >>> from hlo_cli import parse_module
    >>> list(deadlocks(parse_module("ENTRY e { ROOT p = f32[2] parameter(0) }")))
    []
    """
    yield from _run(module.entry, _Automaton())


def _run(computation: Computation, state: _Automaton, *, is_whole: bool = True) -> Iterator[Problem]:
    for instruction in computation.instructions:
        called = instruction.called_computations
        if instruction.opcode == "async-start":
            for inner in called:
                is_group = sum(i.opcode != "parameter" for i in inner.instructions) > 1
                yield from _run(inner, _Automaton() if is_group else state, is_whole=is_group)
        elif instruction.opcode in ("call", "while", "conditional"):
            for inner in called:
                yield from _run(inner, state, is_whole=False)
        else:
            yield from _step(instruction, state)
    if is_whole:
        yield from _leftovers(state)


def _step(instruction: Instruction, state: _Automaton) -> Iterator[Problem]:
    opcode = instruction.opcode
    if opcode in ("send", "recv") and not instruction.flag("is_host_transfer"):
        text = instruction.frontend_attributes.get(PAIRS)
        if text is None:
            return
        pairs = _read(text)
        if (message := _own_problem(pairs)) is not None:
            yield instruction, f"{instruction.name} {message}"
        yield from _meet(instruction, opcode, text, pairs, state)
    elif opcode.removesuffix("-start") in COLLECTIVES and state.expected:
        other = state.waiting[0][2].name if state.waiting else state.behind[0][2].name
        yield instruction, f"{instruction.name} runs while {other} waits for its {state.expected}"


def _meet(instruction: Instruction, opcode: str, text: str, pairs: Pairs, state: _Automaton) -> Iterator[Problem]:
    if not state.expected:
        state.expected = "recv" if opcode == "send" else "send"
        state.waiting.append((text, pairs, instruction))
    elif opcode != state.expected:
        all_pairs = [pair for _, listed, _ in state.waiting for pair in listed]
        if any(text == other for other, _, _ in state.waiting):
            yield instruction, f"{instruction.name} repeats the pairs of a {opcode} that waits for its {state.expected}"
        elif (message := _own_problem((*all_pairs, *pairs))) is not None:
            yield instruction, f"{instruction.name}, with the {opcode} before it that still waits, {message}"
        state.waiting.append((text, pairs, instruction))
    else:
        match = next((each for each in state.waiting if each[0] == text), None)
        if match is None:
            state.behind.append((text, pairs, instruction))
        else:
            state.waiting.remove(match)
        if not state.waiting:
            state.expected, state.waiting, state.behind = _turned(state)


def _turned(
    state: _Automaton,
) -> tuple[str, list[tuple[str, Pairs, Instruction]], list[tuple[str, Pairs, Instruction]]]:
    """What is left waits now, for the other direction."""
    if not state.behind:
        return "", [], []
    return ("send" if state.expected == "recv" else "recv"), state.behind, []


def _leftovers(state: _Automaton) -> Iterator[Problem]:
    left = [text for text, _, _ in state.behind]
    for text, _, instruction in state.waiting:
        if text in left:
            left.remove(text)
        else:
            yield instruction, f"{instruction.name} waits for a {state.expected} of the same pairs that never comes"


def _own_problem(pairs: Pairs) -> str | None:
    """Why a set of pairs cannot be served: a device sends or receives twice, or there is a circle."""
    targets = dict(pairs)
    if len(targets) < len(pairs):
        return "sends from one device twice"
    if len(set(targets.values())) < len(pairs):
        return "sends to one device twice"
    for first in targets:
        at, steps = targets.get(first), 0
        while at is not None and steps <= len(pairs):
            if at == first:
                return f"sends in a circle through device {first}"
            at, steps = targets.get(at), steps + 1
    return None


def _read(text: str) -> Pairs:
    """The pairs in a text like {{0,1},{1,2}}."""
    numbers = [
        int(word) for word in text.replace("{", " ").replace("}", " ").replace(",", " ").split() if word.isdecimal()
    ]
    return tuple(zip(numbers[::2], numbers[1::2], strict=False))
