"""Use-def chains within a computation. Mirrors `HloInstruction::users`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hlo_cli.ir.instruction import Computation, Instruction

Users = dict[Instruction, tuple[Instruction, ...]]
"""The users of each instruction."""


def users_of(computation: Computation) -> Users:
    """Returns the users of each instruction, each user once, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[] parameter(0)  ROOT q = f32[] add(p, p) }").entry
    >>> users_of(entry)
    {<parameter p>: (<add q>,), <add q>: ()}
    """
    return users_among(computation.instructions)


def users_among(instructions: Sequence[Instruction]) -> Users:
    """Returns the users of each instruction among `instructions`, which may belong to several computations."""
    users: dict[Instruction, dict[Instruction, None]] = {instruction: {} for instruction in instructions}
    for user in instructions:
        for operand in user.operands:
            users.setdefault(operand, {})[user] = None
    return {instruction: tuple(using) for instruction, using in users.items()}


def reached(
    starts: Iterable[Instruction],
    next_to: Callable[[Instruction], Iterable[Instruction]],
    *,
    steps: int | None = None,
) -> dict[Instruction, None]:
    """Returns the instructions within a number of steps, or any number, of the starts, which are included.

    `next_to` returns the neighbors of an instruction.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[] parameter(0)  ROOT q = f32[] add(p, p) }").entry
    >>> list(reached([entry.root], lambda instruction: instruction.operands, steps=1))
    [<add q>, <parameter p>]
    """
    found = dict.fromkeys(starts)
    frontier = list(found)
    while frontier and steps != 0:
        new = dict.fromkeys(other for instruction in frontier for other in next_to(instruction) if other not in found)
        found |= new
        frontier = list(new)
        steps = None if steps is None else steps - 1
    return found
