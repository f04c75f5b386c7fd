"""Alias sets: values that must share memory. Each set is one buffer.

Mirrors xla/hlo/analysis/hlo_alias_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from hlo_cli.analysis.dataflow.in_place import InPlace, async_pairs
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import IN_PLACE


@dataclass(frozen=True, slots=True)
class AliasSets:
    """The alias set of each value.

    `buffer[value]` is the first value of its set. `members` lists the sets of two or more values, in the order of
    their ranks.
    """

    buffer: Mapping[int, int]
    members: Mapping[int, tuple[int, ...]]

    def of(self, value: int) -> tuple[int, ...]:
        """Returns the values that share memory with a value, itself included.

        >>> sets = AliasSets({1: 1, 2: 1, 3: 3}, {1: (1, 2)})
        >>> sets.of(2), sets.of(3)
        ((1, 2), (3,))
        """
        return self.members.get(self.buffer[value], (value,))


def alias_sets(
    module: Module, dataflow: Dataflow, in_place: InPlace, joined: Iterable[tuple[int, int]] = ()
) -> AliasSets:
    """Computes the alias sets of a module by union of aliased places, and of the pairs that are `joined`."""
    parent = {value: value for value in dataflow.values}

    def find(value: int) -> int:
        """Returns the representative of a set, with path compression."""
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    rank, at = dataflow.rank, dataflow.value
    for place, other in chain(aliased_places(module, dataflow, in_place), joined):
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
    """Yields pairs of places whose values must share memory."""
    places = dataflow.places
    root, parameters = module.entry.root, module.entry.parameters
    # hlo_alias_analysis.cc: may-alias and must-alias pairs are united alike.
    for alias in module.input_output_alias:
        if root is None or alias.parameter_number >= len(parameters):
            continue
        parameter = parameters[alias.parameter_number]
        output = places.parts(root).ordinals.get(alias.output_index)
        operand_ordinal = places.parts(parameter).ordinals.get(alias.parameter_index)
        if output is not None and operand_ordinal is not None:
            yield places.first_of(root) + output, places.first_of(parameter) + operand_ordinal
    for instruction in places.instructions:
        opcode = instruction.opcode
        if opcode == opcodes.WHILE:
            yield from _loop(dataflow, instruction)
        elif opcode == opcodes.CONDITIONAL:
            # hlo_alias_analysis.cc: a branch root shares the buffer of the conditional, but the parameter of a branch
            # does not.
            for called in instruction.called_computations:
                if called.root is not None and called in places.base:
                    yield from _zip_places(dataflow, instruction, called.root)
        elif opcode in IN_PLACE:
            for number, index, output_index in in_place.pairs(instruction):
                yield from _pair(dataflow, instruction, number, index, output_index)
        elif instruction in dataflow.chains:
            for number, index, output_index in async_pairs(instruction, dataflow.chains[instruction].start):
                yield from _pair(dataflow, instruction, number, index, output_index)


def _loop(dataflow: Dataflow, loop: Instruction) -> Iterator[tuple[int, int]]:
    """Yields the aliased places of a while loop: operand, parameters, body root, and result."""
    places = dataflow.places
    first, count = places.first_of(loop), len(places.parts(loop))
    if loop.operands:
        origin = places.operand_place(loop, 0)
        yield from ((first + n, origin + n) for n in range(min(count, len(places) - origin)))
    for n, called in enumerate(loop.called_computations):
        if called in places.base:
            for parameter in called.parameters[:1]:
                yield from _zip_places(dataflow, loop, parameter)
            if n == 0 and called.root is not None:
                yield from _zip_places(dataflow, loop, called.root)


def _zip_places(dataflow: Dataflow, first: Instruction, second: Instruction) -> Iterator[tuple[int, int]]:
    """Yields the places of two instructions of equal shape, index by index."""
    places = dataflow.places
    here, there = places.first_of(first), places.first_of(second)
    count = min(len(places.parts(first)), len(places.parts(second)))
    yield from ((here + n, there + n) for n in range(count))


def _pair(
    dataflow: Dataflow, instruction: Instruction, number: int, index: tuple[int, ...], output_index: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Yields the places of an in-place pair, if the operand and the output exist."""
    places = dataflow.places
    if not 0 <= number < len(instruction.operands):
        return
    operand = places.operand_place(instruction, number)
    operand_ordinal = places.parts(instruction.operands[number]).ordinals.get((*places.index(operand), *index))
    output = places.parts(instruction).ordinals.get(output_index)
    if operand_ordinal is not None and output is not None:
        yield places.first_of(instruction.operands[number]) + operand_ordinal, places.first_of(instruction) + output
