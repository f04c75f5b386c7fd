"""Instructions of one module only that hang together: by operands, or as a fusion and what is fused in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

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
    """The neighbors of each of some instructions of a module, among them."""

    def __init__(self, module: Module, instructions: Sequence[Instruction]) -> None:
        self.order = tuple(instructions)
        self._among = frozenset(instructions)
        self._users: dict[Instruction, list[Instruction]] = {}
        self._operands: dict[Instruction, list[Instruction]] = {}
        self._inside: dict[Computation, list[Instruction]] = {}
        self._callers: dict[Computation, list[Instruction]] = {}
        fusions = fusion_callers(module)
        for each in instructions:
            self._inside.setdefault(each.computation, []).append(each)
            for operand in each.operands:
                value = _value(operand, self._among, fusions)
                if value in self._among:
                    self._users.setdefault(value, []).append(each)
                    self._operands.setdefault(each, []).append(value)
            for called in each.called_computations:
                self._callers.setdefault(called, []).append(each)

    def of(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yields users and operands, also those outside of a fusion, callers, and what called computations hold."""
        yield from self._users.get(instruction, ())
        yield from self._operands.get(instruction, ())
        yield from self._callers.get(instruction.computation, ())
        for called in instruction.called_computations:
            yield from self._inside.get(called, ())

    def connected(self, seeds: Iterable[Instruction], follows: Callable[[Instruction], bool]) -> list[Instruction]:
        """The seeds, and what a path of neighbors that all follow connects with one, in their order.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT s = f32[2] sine(n) }")
        >>> instructions = module.entry.instructions
        >>> Neighbors(module, instructions).connected(instructions[:1], lambda each: each.opcode == "negate")
        [<parameter p>, <negate n>]
        """
        found = dict.fromkeys(seeds)
        todo = list(found)
        while todo:
            for other in self.of(todo.pop()):
                if other not in found and follows(other):
                    found[other] = None
                    todo.append(other)
        return [each for each in self.order if each in found]


def fusion_callers(module: Module) -> dict[Computation, Instruction]:
    """The only caller of each computation that a fusion or a call runs."""
    found: dict[Computation, list[Instruction]] = {}
    for each in module.instructions:
        if each.opcode in _RUNNING:
            for called in each.called_computations:
                found.setdefault(called, []).append(each)
    return {called: callers[0] for called, callers in found.items() if len(callers) == 1}


_RUNNING: Final = frozenset((opcodes.FUSION, opcodes.CALL))


def _value(
    operand: Instruction, among: frozenset[Instruction], fusions: Mapping[Computation, Instruction]
) -> Instruction:
    """What an operand is: a parameter of a fusion is the fusion's operand."""
    while operand not in among and operand.opcode == opcodes.PARAMETER:
        fusion, number = fusions.get(operand.computation), operand.parameter_number
        if fusion is None or number is None or number >= len(fusion.operands):
            break
        operand = fusion.operands[number]
    return operand
