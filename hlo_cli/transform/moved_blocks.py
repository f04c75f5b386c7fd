"""What moved between two orders, as a person reads diffs: blocks that stood together and still do.

Nothing of XLA's does this. As little as possible counts as moved: the longest subsequence in both orders stays, and
arguments and constants, which are there from the beginning, are nothing that moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.alignment import longest_increasing
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ARGUMENT_OPCODES


@dataclass(frozen=True, slots=True)
class MovedBlock:
    """Instructions of the new order that stand together in both and went elsewhere; `behind` is what they follow now,
    None where nothing ran before.

    `before` are the same instructions in the old module.
    """

    instructions: tuple[Instruction, ...]
    before: tuple[Instruction, ...]
    behind: Instruction | None


def moved_blocks(old: Module, new: Module) -> tuple[MovedBlock, ...]:
    """What moved between a module and the same one in another order, by where it stands now.

    >>> from hlo_cli import parse_module
    >>> lines = "p = f32[] parameter(0)", "a = f32[] negate(p)", "b = f32[] sine(p)", "ROOT c = f32[] add(a, b)"
    >>> def module(*order):
    ...     return parse_module("HloModule m  ENTRY e {" + " ".join(lines[n] for n in order) + "}")
    >>> block, = moved_blocks(module(0, 1, 2, 3), module(0, 2, 1, 3))
    >>> block.instructions, block.behind
    ((<sine b>,), None)
    """
    blocks: list[MovedBlock] = []
    for before, after in zip(old.computations, new.computations, strict=True):
        ones = _that_run(before)
        place = {instruction.name: position for position, instruction in enumerate(ones)}
        others = tuple(instruction for instruction in _that_run(after) if instruction.name in place)
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


def _that_run(computation: Computation) -> tuple[Instruction, ...]:
    return tuple(each for each in computation.instructions if each.opcode not in ARGUMENT_OPCODES)


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The stretches of the new order that are no part of what stays, each as it stood in the old one."""
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
