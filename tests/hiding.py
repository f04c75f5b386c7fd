"""Metadata hidden and recovered: the judge of inferred origins."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hlo_cli import parse_module
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.analysis.origin.scopes_and_moves import Origin, all_general
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\}')


@dataclass
class Score:
    """How many hidden instructions there were, and for how many the same was recovered.

    A line is the innermost one: `file:line`. `stacks` also counts lines that the other's stack has further out. Scopes
    agree if one continues the other; an empty scope agrees with an empty one only.
    """

    hidden: int = 0
    lines: int = 0
    stacks: int = 0
    scopes: int = 0
    equal_scopes: int = 0

    def add(self, truth: Origin, found: Origin) -> None:
        """Counts one hidden instruction."""
        self.hidden += 1
        self.lines += truth.source == found.source
        self.stacks += found.source in map(str, truth.stack) or truth.source in map(str, found.stack)
        self.scopes += agree(truth.scope, found.scope)
        self.equal_scopes += truth.scope == found.scope

    def share(self, count: int) -> float:
        """A share of the hidden instructions."""
        return count / max(1, self.hidden)

    def __str__(self) -> str:
        return (
            f"{self.hidden} hidden: line {self.share(self.lines):.1%}, in the stack {self.share(self.stacks):.1%}, "
            f"scope prefix {self.share(self.scopes):.1%}, scope {self.share(self.equal_scopes):.1%}"
        )


def agree(one: str, other: str) -> bool:
    """Whether one scope continues the other; `*` matches any number."""
    if not one or not other:
        return one == other
    first, second = one.split("/"), other.split("/")
    shared = min(len(first), len(second))
    return all(_is_same(*parts) for parts in zip(first[:shared], second[:shared], strict=True))


def _is_same(one: str, other: str) -> bool:
    starred = next((part for part in (one, other) if "*" in part), None)
    return one == other if starred is None else all_general(one) == all_general(other)


def sample(share: float, seed: int) -> Callable[[list[Instruction]], list[Instruction]]:
    """A choice of instructions at random."""
    return lambda known: random.Random(seed).sample(known, min(len(known), max(1, round(len(known) * share))))


def of_opcodes(*starts: str) -> Callable[[list[Instruction]], list[Instruction]]:
    """All instructions of some kinds."""
    return lambda known: [each for each in known if each.opcode.startswith(starts)]


def recover(text: str, choose: Callable[[list[Instruction]], list[Instruction]], score: Score) -> None:
    """Hides the metadata of chosen instructions in the text and scores the origins found without it."""
    module = parse_module(text)
    truth = origins_of(module)
    chosen = choose([each for each in module.instructions if truth.own(each).stack])
    bare = parse_module(without_metadata(text, chosen))
    found = origins_of(bare)
    for here, there in zip(module.computations, bare.computations, strict=True):
        for each in (each for each in chosen if each.computation is here):
            blind = there.instructions[each.index]
            assert blind.name == each.name
            assert not found.own(blind).op_name, f"{each.name} still has metadata"
            score.add(truth.own(each), found.of(blind))


def without_metadata(text: str, instructions: Iterable[Instruction]) -> str:
    """The text without the metadata of some instructions."""
    parts, at = [], 0
    for span in sorted((each.span for each in instructions if each.span is not None), key=lambda span: span.start):
        if (match := METADATA.search(text, span.start, span.end)) is not None:
            parts.append(text[at : match.start()])
            at = match.end()
    return "".join((*parts, text[at:]))


def unsourced(module: Module, *, own: bool) -> float:
    """The share of the bytes of a module's arrays without a source line, in their own metadata or at all."""
    from hlo_cli.analysis.dataflow.dependencies import values_of

    origins, total, missing = origins_of(module), 0, 0
    for value in (value for value in values_of(module) if not value.is_context):
        size = value.shape.padded_bytes
        origin = origins.own(value.instruction) if own else origins.of_value(value.instruction, value.index)
        total += size
        missing += size * (not origin.source)
    return missing / total if total else 0.0
