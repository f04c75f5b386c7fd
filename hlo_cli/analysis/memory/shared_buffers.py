"""Buffers that several values share, and the values in them that must not be overwritten.

Mirrors the alias queries of `CopyInsertion` in xla/service/copy_insertion.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, BufferShape

_ALIASING: Final = "output_to_operand_aliasing"


class SharedBuffers:
    """The shared `buffers` by first value; `fixed` lists their constants and arguments that are not donated.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = "a = f32[9] parameter(0)  i = s32[] constant(1)  u = f32[2] parameter(1)"
    >>> text += "  ROOT d = f32[9] dynamic-update-slice(a, u, i)"
    >>> shared = SharedBuffers(order_independent_facts(parse_module(f"ENTRY e {{ {text} }}")))
    >>> shared.buffers, shared.fixed
    ({0}, {0: [0]})
    """

    __slots__ = ("_facts", "buffers", "fixed")

    def __init__(self, facts: OrderIndependentFacts) -> None:
        self._facts = facts
        self.buffers = facts.aliases.members.keys() - self._fusion_aliases()
        self.fixed: dict[int, list[int]] = {}
        donated = {(alias.parameter_number, alias.parameter_index) for alias in facts.module.input_output_alias}
        places = facts.places
        numbers = {parameter: number for number, parameter in enumerate(facts.module.entry.parameters)}
        for buffer in sorted(self.buffers):
            for value in facts.aliases.members[buffer]:
                owner = places.instructions[places.owner[value]]
                is_kept = owner in numbers and (numbers[owner], places.index(value)) not in donated
                if owner.opcode == opcodes.CONSTANT or is_kept:
                    self.fixed.setdefault(buffer, []).append(value)

    def buffer(self, place: int) -> int:
        """Returns the buffer of the value at a place."""
        return self.of_value(self._facts.dataflow.value[place])

    def of_value(self, value: int) -> int:
        """Returns the buffer of a value."""
        return self._facts.aliases.buffer.get(value, value)

    def is_own(self, place: int) -> bool:
        """Returns whether a value is defined at a place."""
        return self._facts.dataflow.value[place] == place

    def is_array(self, place: int) -> bool:
        """Returns whether the shape at a place is an array."""
        return isinstance(self._facts.places.shape(place), ArrayShape | BufferShape)

    def leaves(self, instruction: Instruction) -> list[int]:
        """Returns the places of the arrays in an instruction's result."""
        places = self._facts.places
        number = places.number(instruction)
        return [place for place in range(places.first[number], places.first[number + 1]) if self.is_array(place)]

    def operand_leaves(self, instruction: Instruction, position: int) -> list[int]:
        """Returns the places of the arrays in an operand; none if the operand does not exist."""
        if position >= len(instruction.operands):
            return []
        places = self._facts.places
        operand, place = instruction.operands[position], places.operand_place(instruction, position)
        stop = places.first[places.number(operand) + 1]
        if place != places.first_of(operand):
            stop = place + len(places.parts(operand).below(places.index(place)))
        return [each for each in range(place, stop) if self.is_array(each)]

    def _fusion_aliases(self) -> set[int]:
        """Returns the buffers that fusions alias explicitly, such as those that start and end collectives on TPU."""
        places, found = self._facts.places, set[int]()
        for instruction in places.instructions:
            if instruction.opcode == opcodes.FUSION and _ALIASING in instruction.raw[1]:
                for alias in instruction.items_of(_ALIASING, OutputOperandAlias):
                    output = places.parts(instruction).ordinals.get(alias.output_index)
                    if output is not None:
                        found.add(self.buffer(places.first_of(instruction) + output))
        return found
