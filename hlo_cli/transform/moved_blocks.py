"""Compares two orders of a module: blocks of instructions that moved together.

No counterpart in XLA. The longest common subsequence stays; parameters and constants are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.alignment import longest_increasing
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ARGUMENT_OPCODES


@dataclass(frozen=True, slots=True)
class MovedBlock:
    """Consecutive instructions that moved together; `follows` is the instruction before them now, None at the
    beginning.

    `before` are the same instructions in the old module.
    """

    instructions: tuple[Instruction, ...]
    before: tuple[Instruction, ...]
    follows: Instruction | None


def moved_blocks(old: Module, new: Module) -> tuple[MovedBlock, ...]:
    """Blocks that moved between two orders of a module, in the new order.

    >>> from hlo_cli import parse_module
    >>> lines = "p = f32[] parameter(0)", "a = f32[] negate(p)", "b = f32[] sine(p)", "ROOT c = f32[] add(a, b)"
    >>> def module(*order):
    ...     return parse_module("HloModule m  ENTRY e {" + " ".join(lines[n] for n in order) + "}")
    >>> block, = moved_blocks(module(0, 1, 2, 3), module(0, 2, 1, 3))
    >>> block.instructions, block.follows
    ((<sine b>,), None)
    """
    blocks: list[MovedBlock] = []
    for before, after in zip(old.computations, new.computations, strict=True):
        ones = _executed(before)
        place = {instruction.name: position for position, instruction in enumerate(ones)}
        others = tuple(instruction for instruction in _executed(after) if instruction.name in place)
        positions = [place[instruction.name] for instruction in others]
        for first, end in _runs(positions):
            blocks.append(
                MovedBlock(
                    others[first:end],
                    tuple(ones[position] for position in positions[first:end]),
                    others[first - 1] if first else None,
                )
            )
    return tuple(blocks)


def _executed(computation: Computation) -> tuple[Instruction, ...]:
    return tuple(each for each in computation.instructions if each.opcode not in ARGUMENT_OPCODES)


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the ranges of the new order that moved and were consecutive in the old one."""
    stays = longest_increasing(positions)
    at = 0
    while at < len(positions):
        if at in stays:
            at += 1
            continue
        end = at + 1
        while end < len(positions) and end not in stays and positions[end] == positions[end - 1] + 1:
            end += 1
        yield at, end
        at = end
