"""Inference of origins: for instructions without a source location, the nearest instruction that has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.analysis.fusion.heroes import heroes_of, roots_of
from hlo_cli.analysis.origin.likeness import Likeness, Surroundings
from hlo_cli.analysis.origin.moves import Moves, Step, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import MATMULS, RUNNERS


class Told(NamedTuple):
    """The instruction whose source location a value takes, and what the value is to it."""

    teller: Instruction
    relation: str


class Inference:
    """The tellers of a module's values."""

    def __init__(self, module: Module, place_of: Callable[[Instruction], tuple[str, str] | None]) -> None:
        """Takes the source and scope of instructions that have their own, and finds who tells the others."""
        self.moves = Moves(module)
        found = ((each, place_of(each)) for each in module.instructions)
        self._place = {each: place for each, place in found if place is not None}
        self._heroes: dict[Instruction, Instruction | None] = {}
        self._up: dict[Value, Instruction | None] = {}
        self._arguments: dict[Value, Instruction | None] = {}
        self._users: dict[Computation, Users] = {}
        self._surroundings: dict[Instruction, Surroundings] = {}
        self._down = _nearest_users(module, self)
        self._close, self._similar = Likeness(self._place), Likeness(self._place)

    def told(self, value: Value) -> Told | None:
        """Who tells the source location of a value that does not have its own."""
        instruction, index = value
        step = self.moves.step(value)
        if index:
            return self._moved(step) or self._used(value)
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT and (made := self._multi_output(instruction)) is not None:
            return Told(made, "element of")
        if instruction.opcode == opcodes.FUSION and (hero := self.hero(instruction)) is not None:
            return Told(hero, "fusion of")
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self._applying(caller[0])) is not None:
            return Told(teller, "part of")
        if instruction.opcode != opcodes.PARAMETER:
            if (twin := self._close.find(instruction, self._place.get, self._near, slice(0, 3))) is not None:
                return Told(twin, "like")
            if (told := self._common(instruction)) is not None:
                return told
            if (twin := self._close.find(instruction, self._place.get, self._near, slice(3, None))) is not None:
                return Told(twin, "like")
            if (twin := self._similar.find(instruction, self._source, self._sources)) is not None:
                return Told(twin, "like")
        if instruction.opcode in MATMULS and caller is not None and caller[0] in self._place:
            return Told(caller[0], "part of")
        return self._moved(step) or self._used(value) or self._computed(instruction)

    def _multi_output(self, element: Instruction) -> Instruction | None:
        """The instruction whose metadata XLA gives to elements of a fusion: the fusion, before matmuls joined it."""
        made = element.operands[0] if element.operands else None
        if made is None or made.opcode != opcodes.FUSION or not made.called_computations:
            return None
        body = made.called_computations[0]
        first = roots_of(body)[:1]
        if first and first[0] in self._place and any(each.opcode in MATMULS for each in body.instructions):
            return first[0]
        return made if made in self._place else self.hero(made)

    def _moved(self, step: Step | None) -> Told | None:
        teller = self.upward(step.value) if step is not None else None
        return Told(teller, step.relation) if step is not None and teller is not None else None

    def _used(self, value: Value) -> Told | None:
        teller = self._down.get(value)
        return Told(teller, "used by") if teller is not None else None

    def _computed(self, instruction: Instruction) -> Told | None:
        for operand in _operands(instruction):
            if (teller := self.upward(operand)) is not None:
                return Told(teller, "computed from")
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self.upward((caller[0], ()))) is not None:
            return Told(teller, "part of")
        return None

    def _common(self, instruction: Instruction) -> Told | None:
        """A user from the same place as an operand: what is between them is from there too."""
        operands = {self._place[each][0] for each in map(self.upward, _operands(instruction)) if each is not None}
        users = [each for each in self._users_of(instruction) if each in self._place]
        found = next((each for each in users if self._place[each][0] in operands), None)
        return Told(found, "used by") if found is not None else None

    def _applying(self, caller: Instruction) -> Instruction | None:
        """The instruction that applies a computation to elements, such as a reduction, with a source location."""
        if caller.opcode in RUNNERS or caller.opcode == opcodes.FUSION:
            return None
        return self.upward((caller, ()))

    def _users_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        computation = instruction.computation
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation].get(instruction, ())

    def _source(self, instruction: Instruction) -> str:
        return self._place[instruction][0]

    def _near(self, instruction: Instruction) -> Surroundings:
        """The places of operands and users, with their scopes."""
        if (found := self._surroundings.get(instruction)) is None:
            place = self._place
            tellers = [self.upward(each) for each in _operands(instruction)]
            users = [place[each] for each in self._users_of(instruction) if each in place]
            if not users and (teller := self._down.get((instruction, ()))) is not None:
                users = [place[teller]]
            operands = tuple([None if each is None else place[each] for each in tellers])
            found = self._surroundings[instruction] = Surroundings(operands, frozenset(users))
        return found

    def _sources(self, instruction: Instruction) -> Surroundings:
        """The source locations of operands and users."""
        operands, users = self._near(instruction)
        return Surroundings(tuple([each and each[0] for each in operands]), frozenset([each[0] for each in users]))

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
            if value[0] in self._place and not value[1]:
                found = value[0] if value[0].opcode != opcodes.CONSTANT else None
                break
            if value[0].opcode == opcodes.FUSION and not value[1] and (found := self.hero(value[0])) is not None:
                break
            step = self.moves.step(value)
            if step is None:
                break
            value = step.value
        for each in reversed(passed):
            if found is None and each[0] in self._place and each[0].opcode != opcodes.CONSTANT:
                found = each[0]
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
        return next((each for each in choices if each in self._place), None)

    def is_sourced(self, instruction: Instruction) -> bool:
        """Whether an instruction has a source location of its own."""
        return instruction in self._place


def _nearest_users(module: Module, inference: Inference) -> dict[Value, Instruction]:
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
