"""Instructions of one module only that hang together: by operands, or as a fusion and what is fused in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from hlo_cli.ir.instruction import Computation, Instruction

Signature = tuple[str, str]
"""The opcode and the shape without its layout."""


def signature(instruction: Instruction) -> Signature:
    """What an instruction is, without its layout, operands, and attributes.

    >>> from hlo_cli import parse_module
    >>> signature(parse_module("r = f32[2]{0} iota(), iota_dimension=0").entry.root)
    ('iota', 'f32[2]')
    """
    return instruction.opcode, _text(instruction)


def _text(instruction: Instruction) -> str:
    return instruction.shape.to_string(layout=False)


class Neighbors:
    """The neighbors of each of some instructions, among them."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._among = frozenset(instructions)
        self._users: dict[Instruction, list[Instruction]] = {}
        self._inside: dict[Computation, list[Instruction]] = {}
        self._callers: dict[Computation, list[Instruction]] = {}
        for each in instructions:
            self._inside.setdefault(each.computation, []).append(each)
            for operand in each.operands:
                if operand in self._among:
                    self._users.setdefault(operand, []).append(each)
            for called in each.called_computations:
                self._callers.setdefault(called, []).append(each)

    def of(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yields users, operands, callers, and the instructions of called computations."""
        yield from self._users.get(instruction, ())
        yield from (operand for operand in instruction.operands if operand in self._among)
        yield from self._callers.get(instruction.computation, ())
        for called in instruction.called_computations:
            yield from self._inside.get(called, ())


def connected(
    seeds: Iterable[Instruction], among: Sequence[Instruction], follows: Callable[[Instruction], bool]
) -> list[Instruction]:
    """The seeds, and those of `among` that a path of neighbors which all follow connects with one, in their order."""
    neighbors = Neighbors(among)
    found = dict.fromkeys(seeds)
    todo = list(found)
    while todo:
        for other in neighbors.of(todo.pop()):
            if other not in found and follows(other):
                found[other] = None
                todo.append(other)
    return [each for each in among if each in found]
