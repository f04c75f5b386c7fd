"""Alias sets: values that must lie in the same memory, each set one buffer.

Mirrors xla/hlo/analysis/hlo_alias_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hlo_cli.analysis.dataflow.in_place import InPlace, async_pairs
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import IN_PLACE


@dataclass(frozen=True, slots=True)
class AliasSets:
    """`buffer[value]` names the set of a value by its first value; `members` has the sets of more than one value,
    in the order of their ranks.
    """

    buffer: Mapping[int, int]
    members: Mapping[int, tuple[int, ...]]

    def of(self, value: int) -> tuple[int, ...]:
        """All values that lie where this one does, itself among them."""
        buffer = self.buffer[value]
        return self.members.get(buffer, (buffer,))


def alias_sets(module: Module, dataflow: Dataflow, in_place: InPlace) -> AliasSets:
    """The buffers of a module."""
    parent = {value: value for value in dataflow.values}

    def find(value: int) -> int:
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    rank, at = dataflow.rank, dataflow.value
    for place, other in aliased_places(module, dataflow, in_place):
        first, second = find(at[place]), find(at[other])
        if rank[first] > rank[second]:
            first, second = second, first
        parent[second] = first
    buffer = {value: find(value) for value in dataflow.values}
    members: dict[int, list[int]] = {}
    for value, name in buffer.items():
        if value != name:
            members.setdefault(name, [name]).append(value)
    return AliasSets(buffer, {name: tuple(sorted(found, key=rank.__getitem__)) for name, found in members.items()})


def aliased_places(module: Module, dataflow: Dataflow, in_place: InPlace) -> Iterator[tuple[int, int]]:
    """Pairs of places that are the same memory."""
    places = dataflow.places
    root, parameters = module.entry.root, module.entry.parameters
    for alias in module.input_output_alias:
        if root is None or alias.parameter_number >= len(parameters):
            continue
        parameter = parameters[alias.parameter_number]
        output = places.parts(root).ordinals.get(alias.output_index)
        given = places.parts(parameter).ordinals.get(alias.parameter_index)
        if output is not None and given is not None:
            yield places.first_of(root) + output, places.first_of(parameter) + given
    for instruction in places.instructions:
        opcode = instruction.opcode
        if opcode == opcodes.WHILE:
            yield from _loop(dataflow, instruction)
        elif opcode == opcodes.CONDITIONAL:
            for called in instruction.called_computations:
                if called.root is not None and called in places.base:
                    yield from _side_by_side(dataflow, instruction, called.root)
        elif opcode in IN_PLACE:
            for number, index, output_index in in_place.pairs(instruction):
                yield from _pair(dataflow, instruction, number, index, output_index)
        elif instruction in dataflow.chains:
            for number, index, output_index in async_pairs(instruction, dataflow.chains[instruction].start):
                yield from _pair(dataflow, instruction, number, index, output_index)


def _loop(dataflow: Dataflow, loop: Instruction) -> Iterator[tuple[int, int]]:
    places = dataflow.places
    first, count = places.first_of(loop), len(places.parts(loop))
    if loop.operands:
        origin = places.operand_place(loop, 0)
        yield from ((first + n, origin + n) for n in range(min(count, len(places) - origin)))
    for n, called in enumerate(loop.called_computations):
        if called in places.base:
            for parameter in called.parameters[:1]:
                yield from _side_by_side(dataflow, loop, parameter)
            if n == 0 and called.root is not None:
                yield from _side_by_side(dataflow, loop, called.root)


def _side_by_side(dataflow: Dataflow, first: Instruction, second: Instruction) -> Iterator[tuple[int, int]]:
    places = dataflow.places
    here, there = places.first_of(first), places.first_of(second)
    count = min(len(places.parts(first)), len(places.parts(second)))
    yield from ((here + n, there + n) for n in range(count))


def _pair(
    dataflow: Dataflow, instruction: Instruction, number: int, index: tuple[int, ...], output_index: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    places = dataflow.places
    if number >= len(instruction.operands):
        return
    operand = places.operand_place(instruction, number)
    given = places.parts(instruction.operands[number]).ordinals.get((*places.index(operand), *index))
    output = places.parts(instruction).ordinals.get(output_index)
    if given is not None and output is not None:
        yield places.first_of(instruction.operands[number]) + given, places.first_of(instruction) + output
