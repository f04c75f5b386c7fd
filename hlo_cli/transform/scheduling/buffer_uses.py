"""Buffers that each instruction defines, reads, and overwrites, independent of the order.

Mirrors what `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc takes from points-to analysis,
with alias sets: values that must share memory count once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hlo_cli.analysis.dataflow.flat_schedule import Run, flat_schedule
from hlo_cli.analysis.dataflow.value_sets import NO_USE, TOP_ONLY, AliasSets, Dataflow
from hlo_cli.analysis.layout.padding import buffer_bytes
from hlo_cli.analysis.memory.buffers import OrderIndependentFacts, order_independent_facts
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape
from hlo_cli.transform.scheduling.dataflow import Flow, flow_of


@dataclass(frozen=True, slots=True)
class BufferUses:
    """Buffers of a module by number, with the instructions that define, read, and overwrite them.

    - `facts` hold for any order; `runs` are the executed computations, callers first.
    - `size` has the bytes of buffers that the order affects, without arguments and constants; `space` their memory
      space.
    - `home` is the outermost computation in which a buffer is used.
    - `overwritten` are the buffers with several values that a computation, or a callee, writes.
    """

    facts: OrderIndependentFacts
    runs: tuple[Run, ...]
    size: Mapping[int, int]
    space: Mapping[int, int]
    home: Mapping[int, Computation]
    overwritten: Mapping[Computation, frozenset[int]]

    @property
    def dataflow(self) -> Dataflow:
        """Values of the module."""
        return self.facts.dataflow

    @property
    def aliases(self) -> AliasSets:
        """Values that share memory."""
        return self.facts.aliases

    def flows(self) -> Iterator[Flow]:
        """Yields the executed computations in the form of XLA's schedulers, callees first."""
        for run in reversed(self.runs):
            yield flow_of(run.computation, self.dataflow, self.bytes_of)

    def bytes_of(self, shape: Shape) -> int:
        """Buffer size of a shape in bytes."""
        return buffer_bytes(shape, self.facts.target, self.facts.generation)

    def buffers_used(self, instruction: Instruction) -> set[int]:
        """Buffers that are live while an instruction runs: those of its result and operands."""
        return {
            self.aliases.buffer[self.dataflow.value[place]] for place in self._own(instruction)
        } | self.buffers_read(instruction)

    def buffers_read(self, instruction: Instruction) -> set[int]:
        """Buffers that an instruction reads; a root reads the result."""
        at, buffer = self.dataflow.value, self.aliases.buffer
        found = {buffer[at[place]] for place in self._used(instruction)}
        if instruction.is_root:
            found |= {buffer[at[place]] for place in self._own(instruction)}
        return found

    def buffers_written(self, instruction: Instruction) -> set[int]:
        """Buffers with several values that an instruction, or a callee, writes."""
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
        if instruction.opcode in NO_USE:
            return
        places = self.dataflow.places
        for position, operand in enumerate(instruction.operands):
            place = places.operand_place(instruction, position)
            stop = place + 1 if instruction.opcode in TOP_ONLY else places.first[places.number(operand) + 1]
            yield from range(place, stop)


def buffer_uses(module: Module) -> BufferUses:
    """Buffers of a module and their uses.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) b = f32[8] negate(a) ROOT c = f32[8] sine(b) }"
    >>> module = parse_module(text)
    >>> uses = buffer_uses(module)
    >>> [sorted(uses.buffers_used(instruction)) for instruction in module.entry.instructions]
    [[0], [0, 1], [1, 2]]
    >>> uses.size
    {1: 32, 2: 32}
    """
    facts = order_independent_facts(module)
    aliases = facts.aliases
    runs = flat_schedule(facts.places, module.entry, facts.chains).runs
    movable = {
        aliases.buffer[buffer.values[0]]: buffer
        for buffer in facts.buffers
        if buffer.size and buffer.parameter is None and not buffer.is_constant
    }
    size = {name: buffer.size for name, buffer in movable.items()}
    space = {name: buffer.space for name, buffer in movable.items()}
    overwritten: dict[Computation, frozenset[int]] = {}
    uses = BufferUses(facts, runs, size, space, _homes(facts, runs), overwritten)
    for run in reversed(runs):
        written = (uses.buffers_written(instruction) for instruction in run.computation.instructions)
        overwritten[run.computation] = frozenset[int]().union(*written) if aliases.members else frozenset()
    return uses


def _homes(facts: OrderIndependentFacts, runs: tuple[Run, ...]) -> dict[int, Computation]:
    """Outermost computation that uses each buffer."""
    dataflow, aliases, places = facts.dataflow, facts.aliases, facts.places
    homes: dict[int, Computation] = {}
    for run in sorted(runs, key=lambda run: run.depth):
        base = places.base[run.computation]
        for place in range(places.first[base], places.first[base + len(run.computation.instructions)]):
            homes.setdefault(aliases.buffer[dataflow.value[place]], run.computation)
    return homes
