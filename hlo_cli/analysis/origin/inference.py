"""Inference of origins: for instructions without a source location, the nearest instruction that has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.analysis.origin.fused import FusionSources
from hlo_cli.analysis.origin.likeness import Likeness, Place, Surroundings
from hlo_cli.analysis.origin.moves import Moves, Step, Value
from hlo_cli.analysis.origin.nearest import is_filler, nearest_users, operand_values
from hlo_cli.analysis.origin.original import original_array
from hlo_cli.analysis.origin.scopes import scope_of, translate
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNCHRONOUS, COLLECTIVES, DONES, MATMULS, RUNNERS
from hlo_cli.ir.shape import ShapeIndex, TupleShape

_MOVED_ONLY: Final = COLLECTIVES | ASYNCHRONOUS | DONES | {opcodes.COPY_START, opcodes.PARAMETER, opcodes.TUPLE}
"""Opcodes of instructions that are not recognized by others that are alike, but by what they move."""


class Told(NamedTuple):
    """The instruction whose source location a value takes, and what the value is to it.

    `renamed` are pairs of scopes, near the teller and near the value, if the teller may be in another layer.
    """

    teller: Instruction
    relation: str
    renamed: tuple[tuple[str, str], ...] = ()


class Inference:
    """The tellers of a module's values."""

    def __init__(self, module: Module, place_of: Callable[[Instruction], tuple[str, str] | None]) -> None:
        """Takes the source and scope of instructions that have their own, and finds who tells the others."""
        self.moves = Moves(module)
        found = ((each, place_of(each)) for each in module.instructions)
        self._place = {each: place for each, place in found if place is not None}
        self._fusions = FusionSources(self._place)
        self._up: dict[Value, Instruction | None] = {}
        self._arguments: dict[Value, Instruction | None] = {}
        self._computations = module.computations
        self._has_originals = "origin={" in module.source.text
        self._layers: dict[Computation, list[str]] = {}
        self._users: dict[Computation, Users] = {}
        self._surroundings: dict[Instruction, Surroundings] = {}
        self._down = nearest_users(module, self.moves, self._place)
        self._close, self._similar = Likeness(self._place), Likeness(self._place)

    def told(self, value: Value) -> Told | None:
        """Who tells the source location of a value that does not have its own."""
        instruction, index = value
        step = self.moves.step(value)
        if (told := self._originally(instruction, index)) is not None:
            return told
        if index:
            return self._moved(step) or self._used(value) or self.told((instruction, ()))
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT and (told := self._element(instruction)) is not None:
            return told
        if instruction.opcode == opcodes.FUSION and (hero := self._fusions.of(instruction)) is not None:
            return Told(hero, "fusion of")
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self._applying(caller[0])) is not None:
            return Told(teller, "part of")
        if instruction.opcode in MATMULS and caller is not None and caller[0] in self._place:
            return Told(caller[0], "part of")
        if instruction.opcode not in _MOVED_ONLY and (told := self._like(instruction)) is not None:
            return told
        return self._moved(step) or self._used(value) or self._computed(instruction)

    def _originally(self, instruction: Instruction, index: ShapeIndex) -> Told | None:
        """The instruction that XLA recorded as the original one, if the module still has it."""
        array = original_array(instruction, index) if self._has_originals else None
        teller = self._named.get(array.instruction_name) if array is not None else None
        return Told(teller, "original value") if teller in self._place and teller is not None else None

    @cached_property
    def _named(self) -> dict[str, Instruction]:
        return {each.name: each for computation in self._computations for each in computation.instructions}

    def _element(self, instruction: Instruction) -> Told | None:
        """Who tells about a get-tuple-element of a fusion: XLA gives it the metadata of the fusion."""
        made = instruction.operands[0] if instruction.operands else None
        if made is None or made.opcode != opcodes.FUSION:
            return None
        teller = self._fusions.of_elements(made) or (made if made in self._place else self._fusions.of(made))
        return Told(teller, "element of") if teller is not None else None

    def _like(self, instruction: Instruction) -> Told | None:
        """An instruction that is alike, from the same scope if there is one, or a user between equal lines."""
        if twins := self._close.find(instruction, self._place.get, self._layer, self._near, slice(0, 3)):
            return self._twin(twins, instruction)
        if (told := self._common(instruction)) is not None:
            return told
        twins = self._close.find(instruction, self._place.get, self._layer, self._near, slice(3, None))
        twins = twins or self._similar.find(instruction, self._source, self._layer, self._sources)
        return self._twin(twins, instruction) if twins else None

    def _twin(self, twins: Mapping[str, Instruction], instruction: Instruction) -> Told:
        """The one of several instructions that are alike that is in the layer of most neighbors, else any, renamed."""
        layer, twin = next(iter(twins.items()))
        if is_filler(instruction):
            return Told(twin, "like")  # shared by all layers, and told by the one that was first
        around = self._layers_around(instruction)
        fallback = () if layer in around else tuple((layer, other) for other in around)
        renamed = (*_paired(self._near(twin), self._near(instruction)), *fallback)
        wanted = scope_of(translate(f"{layer}/", renamed))
        return Told(twins[wanted], "like") if wanted in twins else Told(twin, "like", renamed)

    def _layers_around(self, instruction: Instruction) -> list[str]:
        """Outermost scopes near an instruction: of operands, users, and caller, then of its fused computation."""
        near = self._near(instruction)
        caller = self.moves.first_caller.get(instruction.computation)
        around = [*near.operands, *sorted(near.users), self._place.get(caller[0]) if caller is not None else None]
        count = Counter(_outermost(each) for each in around if each is not None and each[0])
        computation = instruction.computation
        if computation not in self._layers and caller is not None and caller[0].opcode == opcodes.FUSION:
            inside = Counter(self._layer(each) for each in computation.instructions if each in self._place)
            self._layers[computation] = [layer for layer, _ in inside.most_common()]
        return [*(layer for layer, _ in count.most_common()), *self._layers.get(computation, ())]

    def _layer(self, instruction: Instruction) -> str:
        return _outermost(self._place[instruction])

    def _moved(self, step: Step | None) -> Told | None:
        teller = self.upward(step.value) if step is not None else None
        return Told(teller, step.relation) if step is not None and teller is not None else None

    def _used(self, value: Value) -> Told | None:
        instruction, index = value
        shape = instruction.shape if not index else None
        elements = range(len(shape.elements)) if isinstance(shape, TupleShape) else ()
        for each in (value, *((instruction, (at,)) for at in elements)):
            if (teller := self._down.get(each)) is not None:
                return Told(teller, "used by")
        return None

    def _computed(self, instruction: Instruction) -> Told | None:
        for operand in operand_values(instruction):
            if (teller := self.upward(operand)) is not None:
                return Told(teller, "computed from")
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self.upward((caller[0], ()))) is not None:
            return Told(teller, "part of")
        teller = self._computed_from.get(instruction)
        return Told(teller, "computed from") if teller is not None else None

    @cached_property
    def _computed_from(self) -> dict[Instruction, Instruction]:
        """For each instruction the first teller among those that it is computed from, callers before callees."""
        found: dict[Instruction, Instruction] = {}
        for each in (each for computation in reversed(self._computations) for each in computation.instructions):
            for value in operand_values(each):
                teller = self.upward(value) or found.get(value[0])
                if teller is not None:
                    found[each] = teller
                    break
            else:
                caller = self.moves.first_caller.get(each.computation)
                if each.opcode == opcodes.PARAMETER and caller is not None and caller[0] in found:
                    found[each] = found[caller[0]]
        return found

    def _common(self, instruction: Instruction) -> Told | None:
        """A user from the same place as an operand: what is between them is from there too."""
        operands = {self._place[each][0] for each in map(self.upward, operand_values(instruction)) if each is not None}
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
            tellers = [self.upward(each) for each in operand_values(instruction)]
            users = [place[each] for each in self._users_of(instruction) if each in place]
            if not users and (teller := self._down.get((instruction, ()))) is not None:
                users = [place[teller]]
            caller = self.moves.first_caller.get(instruction.computation)
            if tellers and not users and not any(tellers) and caller is not None and caller[0] in place:
                users = [place[caller[0]]]
            operands = tuple(map(self._from, tellers, instruction.operands))
            found = self._surroundings[instruction] = Surroundings(operands, frozenset(users))
        return found

    def _from(self, teller: Instruction | None, operand: Instruction) -> Place | None:
        """The place of an operand, for a constant its value."""
        if teller is not None:
            return self._place[teller]
        return ("", operand.raw[0]) if operand.opcode == opcodes.CONSTANT else None

    def _sources(self, instruction: Instruction) -> Surroundings:
        """The source locations of operands and users."""
        operands, users = self._near(instruction)
        return Surroundings(tuple([each and each[:1] for each in operands]), frozenset([each[:1] for each in users]))

    def upward(self, value: Value) -> Instruction | None:
        """The first instruction with a source location back through moves; not a constant, as these are shared."""
        known, passed = self._up, list[Value]()
        found: Instruction | None = None
        while True:
            if value in known:
                found = known[value]
                break
            known[value] = None
            passed.append(value)
            if not value[1] and (found := self._teller(value[0])) is not None:
                break
            step = self.moves.step(value)
            if step is None:
                break
            value = step.value
        found = found if found is not None and not is_filler(found) else None
        for each in reversed(passed):
            if found is None and each[0] in self._place and not is_filler(each[0]):
                found = each[0]
            known[each] = found
        return found

    def _teller(self, instruction: Instruction) -> Instruction | None:
        if instruction in self._place:
            return instruction
        return self._fusions.of(instruction) if instruction.opcode == opcodes.FUSION else None

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


def _paired(there: Surroundings, here: Surroundings) -> Iterator[tuple[str, str]]:
    """Scopes of operands and users of two instructions that are alike."""
    users = zip(sorted(there.users), sorted(here.users), strict=False)
    for one, other in (*zip(there.operands, here.operands, strict=False), *users):
        if one is not None and other is not None and one[0] == other[0]:
            yield _scope(one), _scope(other)


def _scope(place: Place) -> str:
    return scope_of(f"{place[1]}/")


def _outermost(place: Place) -> str:
    return _scope(place).partition("/")[0]
