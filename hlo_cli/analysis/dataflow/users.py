"""Who uses whom within a computation, and who is how many steps away. Mirrors `HloInstruction::users`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction

Users = dict[Instruction, tuple[Instruction, ...]]


def users_of(computation: Computation) -> Users:
    """The instructions that take the value of each, every user once, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[] parameter(0)  ROOT q = f32[] add(p, p) }").entry
    >>> users_of(entry)
    {<parameter p>: (<add q>,), <add q>: ()}
    """
    return users_among(computation.instructions)


def users_among(instructions: Sequence[Instruction]) -> Users:
    """Which of the instructions take the value of each, of however many computations they are."""
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
    """The instructions that a number of steps lead to, or any number; the starts are among them.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[] parameter(0)  ROOT q = f32[] add(p, p) }").entry
    >>> list(reached([entry.root], lambda instruction: instruction.operands, steps=1))
    [<add q>, <parameter p>]
    """
    found = dict.fromkeys(starts)
    edge = list(found)
    while edge and steps != 0:
        new = dict.fromkeys(other for instruction in edge for other in next_to(instruction) if other not in found)
        found |= new
        edge = list(new)
        steps = None if steps is None else steps - 1
    return found
