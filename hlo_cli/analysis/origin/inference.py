"""Inference of origins: for instructions without a source location, the nearest instruction that has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hlo_cli.analysis.fusion.heroes import heroes_of, roots_of
from hlo_cli.analysis.origin.moves import Moves, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module


class Told(NamedTuple):
    """The instruction whose source location a value takes, and what the value is to it."""

    teller: Instruction
    relation: str


class Inference:
    """The tellers of a module's values."""

    def __init__(self, module: Module, has_source: Callable[[Instruction], bool]) -> None:
        """Takes the instructions with a source location of their own, and finds who tells the others."""
        self.moves = Moves(module)
        self._has_source = has_source
        self._sourced = {each for each in module.instructions if has_source(each)}
        self._heroes: dict[Instruction, Instruction | None] = {}
        self._up: dict[Value, Instruction | None] = {}
        self._arguments: dict[Value, Instruction | None] = {}
        self._down = _users(module, self)

    def told(self, value: Value) -> Told | None:
        """Who tells the source location of a value that does not have its own."""
        instruction = value[0]
        if instruction.opcode == opcodes.FUSION and (hero := self.hero(instruction)) is not None:
            return Told(hero, "fusion of")
        step = self.moves.step(value)
        if step is not None and (teller := self.upward(step.value)) is not None:
            return Told(teller, step.relation)
        if (teller := self._down.get(value)) is not None:
            return Told(teller, "used by")
        for at, operand in enumerate(instruction.operands):
            if (teller := self.upward((operand, instruction.operand_index(at)))) is not None:
                return Told(teller, "computed from")
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self.upward((caller[0], ()))) is not None:
            return Told(teller, "part of")
        return None

    def upward(self, value: Value) -> Instruction | None:
        """The first instruction with a source location on the way back through moves."""
        known, passed = self._up, list[Value]()
        found: Instruction | None = None
        while True:
            if value in known:
                found = known[value]
                break
            known[value] = None
            passed.append(value)
            if value[0] in self._sourced:
                found = value[0]
                break
            if value[0].opcode == opcodes.FUSION and (found := self.hero(value[0])) is not None:
                break
            step = self.moves.step(value)
            if step is None:
                break
            value = step.value
        for each in passed:
            known[each] = found
        return found

    def argument(self, value: Value) -> Instruction | None:
        """The entry parameter that a value is, moved; None if it is computed."""
        known, passed = self._arguments, list[Value]()
        found: Instruction | None = None
        while True:
            if value in known:
                found = known[value]
                break
            known[value] = None
            passed.append(value)
            step = self.moves.step(value)
            if step is None:
                instruction = value[0]
                is_argument = instruction.opcode == opcodes.PARAMETER and instruction.computation.is_entry
                found = instruction if is_argument else None
                break
            if not step.is_same:
                break
            value = step.value
        for each in passed:
            known[each] = found
        return found

    def hero(self, fusion: Instruction) -> Instruction | None:
        """The instruction that a fusion is for: its hero, else its root, else the last with a source location."""
        if fusion not in self._heroes:
            self._heroes[fusion] = self._hero(fusion)
        return self._heroes[fusion]

    def _hero(self, fusion: Instruction) -> Instruction | None:
        body: Computation | None = fusion.called_computations[0] if fusion.called_computations else None
        if body is None:
            return None
        choices = (*heroes_of(body), *roots_of(body), *reversed(body.instructions))
        return next((each for each in choices if each in self._sourced), None)

    def is_sourced(self, instruction: Instruction) -> bool:
        """Whether an instruction has a source location of its own."""
        return instruction in self._sourced


def _users(module: Module, inference: Inference) -> dict[Value, Instruction]:
    """For each value the nearest user with a source location, through moves; the first of equally near ones.

    The bodies of fusions tell which of their instructions uses an operand; a fusion itself is asked last.
    """
    found: dict[Value, Instruction] = {}
    sourced = [each for each in module.instructions if inference.is_sourced(each)]
    for is_fusion in (False, True):
        near: list[Value] = []
        for user in sourced:
            if (user.opcode == opcodes.FUSION) is is_fusion:
                near += [value for value in _operands(user) if found.setdefault(value, user) is user]
        while near:
            further: list[Value] = []
            for value in near:
                step = inference.moves.step(value)
                for before in _operands(value[0]) if step is None else (step.value,):
                    if before not in found:
                        found[before] = found[value]
                        further.append(before)
            near = further
    return found


def _operands(instruction: Instruction) -> list[Value]:
    return [(operand, instruction.operand_index(at)) for at, operand in enumerate(instruction.operands)]
