"""Which buffers each instruction makes, takes and overwrites, before anybody decides on an order.

Mirrors what `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc asks points-to analysis; alias
sets say more: values that must be the same memory count once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hlo_cli.analysis.alias_sets import AliasSets, alias_sets
from hlo_cli.analysis.async_chains import async_chains
from hlo_cli.analysis.buffer_sizes import generation_of
from hlo_cli.analysis.buffers import buffers_of
from hlo_cli.analysis.dataflow import Dataflow, dataflow_of
from hlo_cli.analysis.flat_schedule import Run, flat_schedule
from hlo_cli.analysis.memory_of import in_place_of
from hlo_cli.analysis.places import places_of
from hlo_cli.analysis.target import target_of
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

_NO_USE: Final = frozenset(("tuple", "domain"))
_TOP_ONLY: Final = frozenset(("get-tuple-element", "copy"))


@dataclass(frozen=True, slots=True)
class BufferUses:
    """The buffers of a module, each known by a number, with who makes, takes and overwrites them.

    `runs` are the computations that run, callers before what they call. `size` has the bytes of the buffers that an
    order can do something about, which constants and arguments are not; `space` says where they lie. `home` is the
    computation that a buffer lives in, the outermost in which it is seen. `overwritten` are the buffers of several
    values that a computation, or what it calls, writes.
    """

    dataflow: Dataflow
    aliases: AliasSets
    runs: tuple[Run, ...]
    size: Mapping[int, int]
    space: Mapping[int, int]
    home: Mapping[int, Computation]
    overwritten: Mapping[Computation, frozenset[int]]

    def held(self, instruction: Instruction) -> set[int]:
        """The buffers that must be there while an instruction runs: those of its result and of what it takes."""
        return {self.aliases.buffer[self.dataflow.value[place]] for place in self._own(instruction)} | self.taken(
            instruction
        )

    def taken(self, instruction: Instruction) -> set[int]:
        """The buffers that an instruction reads; a root reads what it returns."""
        at, buffer = self.dataflow.value, self.aliases.buffer
        found = {buffer[at[place]] for place in self._used(instruction)}
        if instruction.is_root:
            found |= {buffer[at[place]] for place in self._own(instruction)}
        return found

    def written(self, instruction: Instruction) -> set[int]:
        """The buffers of several values that an instruction puts one of them into, itself or in what it calls."""
        at, buffer, shared = self.dataflow.value, self.aliases.buffer, self.aliases.members
        found = {name for p in self._own(instruction) if at[p] == p and (name := buffer[p]) in shared}
        for called in instruction.called_computations:
            found |= self.overwritten.get(called, frozenset())
        return found

    def _own(self, instruction: Instruction) -> range:
        places = self.dataflow.places
        number = places.number(instruction)
        return range(places.first[number], places.first[number + 1])

    def _used(self, instruction: Instruction) -> Iterator[int]:
        if instruction.opcode in _NO_USE:
            return
        places = self.dataflow.places
        for position, operand in enumerate(instruction.operands):
            place = places.operand_place(instruction, position)
            behind = place + 1 if instruction.opcode in _TOP_ONLY else places.first[places.number(operand) + 1]
            yield from range(place, behind)


def buffer_uses(module: Module) -> BufferUses:
    """The buffers of a module and their uses.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) b = f32[8] negate(a) ROOT c = f32[8] sine(b) }"
    >>> module = parse_module(text)
    >>> uses = buffer_uses(module)
    >>> [sorted(uses.held(instruction)) for instruction in module.entry.instructions]
    [[0], [0, 1], [1, 2]]
    >>> uses.size
    {1: 32, 2: 32}
    """
    target = target_of(module)
    places = places_of(module)
    chains = async_chains(places.instructions)
    dataflow = dataflow_of(places, chains)
    aliases = alias_sets(module, dataflow, in_place_of(target))
    runs = flat_schedule(places, module.entry, chains).runs
    generation = generation_of(module) if target == "tpu" else "v5e"
    buffers = buffers_of(module, dataflow, aliases, target, generation)
    movable = {
        aliases.buffer[buffer.values[0]]: buffer
        for buffer in buffers
        if buffer.size and not buffer.is_constant and buffer.parameter is None
    }
    size = {name: buffer.size for name, buffer in movable.items()}
    space = {name: buffer.space for name, buffer in movable.items()}
    overwritten: dict[Computation, frozenset[int]] = {}
    uses = BufferUses(dataflow, aliases, runs, size, space, _homes(dataflow, aliases, runs), overwritten)
    for run in reversed(runs):
        written = (uses.written(instruction) for instruction in run.computation.instructions)
        overwritten[run.computation] = frozenset[int]().union(*written) if aliases.members else frozenset()
    return uses


def _homes(dataflow: Dataflow, aliases: AliasSets, runs: tuple[Run, ...]) -> dict[int, Computation]:
    """Of each buffer the outermost computation that has a place with it."""
    places, homes = dataflow.places, dict[int, Computation]()
    for run in sorted(runs, key=lambda run: run.depth):
        base = places.base[run.computation]
        for place in range(places.first[base], places.first[base + len(run.computation.instructions)]):
            homes.setdefault(aliases.buffer[dataflow.value[place]], run.computation)
    return homes
