"""Inference of origins: for instructions without a source location, the nearest instruction that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.origin.fused import FusionSources
from hlo_cli.analysis.origin.layers import Layers
from hlo_cli.analysis.origin.likeness import Likeness
from hlo_cli.analysis.origin.moves import Moves, Step, Value
from hlo_cli.analysis.origin.nearby import Nearby
from hlo_cli.analysis.origin.nearest import operand_values
from hlo_cli.analysis.origin.original import original_array
from hlo_cli.analysis.origin.walks import Arguments, Tellers
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNCHRONOUS, COLLECTIVES, DONES, MATMULS, RUNNERS
from hlo_cli.ir.shape import ShapeIndex, TupleShape

_MOVED_ONLY: Final = COLLECTIVES | ASYNCHRONOUS | DONES | {opcodes.COPY_START, opcodes.PARAMETER, opcodes.TUPLE}
"""Opcodes of instructions that are not recognized by others that are alike, but by what they move."""
_STRICT: Final = (0, 1, 2)
_LOOSE: Final = (3, 4)
"""Keys of `Likeness` that are asked before and after users from the same line as operands."""
Transfer: TypeAlias = tuple[str, int | None, str | None]
"""The opcode, the channel, and the devices of a collective."""


class Told(NamedTuple):
    """The instruction whose source location a value takes, and what the value is to it.

    `scope` is the value's, if the teller is in another one.
    """

    teller: Instruction
    relation: str
    scope: str = ""


class Inference:
    """The tellers of a module's values."""

    def __init__(
        self, module: Module, arguments: Arguments, place_of: Callable[[Instruction], tuple[str, str] | None]
    ) -> None:
        """Takes the source and scope of instructions that have their own, and finds who tells the others."""
        self.moves: Moves = arguments.moves
        found = ((each, place_of(each)) for each in module.instructions)
        self._place = {each: place for each, place in found if place is not None}
        self._fusions = FusionSources(self._place)
        self._tellers = Tellers(self.moves, self._place, self._fusions)
        self._computations = module.computations
        self._firsts: dict[Computation, Instruction | None] = {}
        self._ancestors: dict[Instruction, Instruction | None] = {}
        self._has_originals = "origin={" in module.source.text
        self._near = Nearby(module, arguments, self._tellers, self._place)
        self._layers = Layers(self._place, self._near.neighbors)
        self._close = Likeness(self._place, self._place.__getitem__, self._near.surroundings)
        self._similar = Likeness(self._place, self._source, self._near.sources)

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
        if instruction.opcode in COLLECTIVES and (told := self._cloned(instruction)) is not None:
            return told
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self._applying(caller[0])) is not None:
            sibling = self._first_of(instruction.computation)
            return Told(teller, "part of") if sibling is None else Told(sibling, "next to")
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

    def _cloned(self, instruction: Instruction) -> Told | None:
        """The same transfer elsewhere: compilers clone collectives into the fusions that start and end them."""
        twin = self._transfers.get(_transfer_of(instruction))
        return Told(twin, "like") if twin is not None else None

    @cached_property
    def _transfers(self) -> dict[Transfer, Instruction | None]:
        """The collectives of each channel and groups, if all come from one place."""
        found: dict[Transfer, Instruction | None] = {}
        for each in self._place:
            if each.opcode in COLLECTIVES and (transfer := _transfer_of(each))[1] is not None:
                first = found.setdefault(transfer, each)
                if first is not None and self._place[first] != self._place[each]:
                    found[transfer] = None
        return found

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
        if alike := self._close.find(instruction, _STRICT):
            return Told(alike[0], "like")
        if (told := self._common(instruction)) is not None:
            return told
        alike = self._close.find(instruction, _LOOSE)
        similar = self._similar.find(instruction)
        if alike and similar and self._source(alike[0]) != self._source(similar[0]):
            similar = alike
        if not alike and not similar:
            return None
        teller, scope = self._layers.choose(similar or alike, instruction)
        return Told(teller, "like", scope)

    def _moved(self, step: Step | None) -> Told | None:
        teller = self._tellers.upward(step.value) if step is not None else None
        return Told(teller, step.relation) if step is not None and teller is not None else None

    def _used(self, value: Value) -> Told | None:
        instruction, index = value
        shape = instruction.shape if not index else None
        elements = range(len(shape.elements)) if isinstance(shape, TupleShape) else ()
        for each in (value, *((instruction, (at,)) for at in elements)):
            if (teller := self._near.down.get(each)) is not None:
                return Told(teller, "used by")
        return None

    def _computed(self, instruction: Instruction) -> Told | None:
        for operand in operand_values(instruction):
            if (teller := self._tellers.upward(operand)) is not None:
                return Told(teller, "computed from")
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self._tellers.upward((caller[0], ()))) is not None:
            return Told(teller, "part of")
        teller = self._ancestor(instruction)
        return Told(teller, "computed from") if teller is not None else None

    def _first_of(self, computation: Computation) -> Instruction | None:
        """The first instruction of a computation with a source location of its own."""
        if computation not in self._firsts:
            self._firsts[computation] = next((each for each in computation.instructions if each in self._place), None)
        return self._firsts[computation]

    def _ancestor(self, instruction: Instruction) -> Instruction | None:
        """The first teller among the instructions that one is computed from, first operands first."""
        found = self._ancestors
        waiting = [(instruction, self._sources_of(instruction))] if instruction not in found else []
        found.setdefault(instruction, None)
        while waiting:
            at, sources = waiting[-1]
            for value in sources:
                if (teller := self._tellers.upward(value) or found.get(value[0])) is not None:
                    found[at] = teller
                    waiting.pop()
                    break
                if value[0] not in found:
                    found[value[0]] = None  # until known: only malformed modules ask again before
                    waiting[-1] = at, chain((value,), sources)  # to be asked again when it is known
                    waiting.append((value[0], self._sources_of(value[0])))
                    break
            else:
                waiting.pop()
        return found[instruction]

    def _sources_of(self, instruction: Instruction) -> Iterator[Value]:
        """What an instruction is computed from: its operands; for a parameter the caller."""
        caller = self.moves.first_caller.get(instruction.computation)
        if instruction.opcode == opcodes.PARAMETER and caller is not None:
            return iter([(caller[0], ())])
        return iter(operand_values(instruction))

    def _common(self, instruction: Instruction) -> Told | None:
        """A user from the same place as an operand: what is between them is from there too."""
        operands = {
            self._place[each][0] for each in map(self._tellers.upward, operand_values(instruction)) if each is not None
        }
        users = [each for each in self._near.users_of(instruction) if each in self._place]
        found = next((each for each in users if self._place[each][0] in operands), None)
        return Told(found, "used by") if found is not None else None

    def _applying(self, caller: Instruction) -> Instruction | None:
        """The instruction that applies a computation to elements, such as a reduction, with a source location."""
        if caller.opcode in RUNNERS or caller.opcode == opcodes.FUSION:
            return None
        return self._tellers.upward((caller, ()))

    def _source(self, instruction: Instruction) -> str:
        return self._place[instruction][0]


def _transfer_of(instruction: Instruction) -> Transfer:
    """The opcode, the channel, which collectives of one program may share, and the devices of a collective."""
    devices = instruction.attribute("replica_groups") or instruction.attribute("source_target_pairs")
    return instruction.opcode, instruction.integer("channel_id"), devices
