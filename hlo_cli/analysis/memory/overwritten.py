"""Reads of values that another value of the same buffer has overwritten.

Mirrors the guarantee of `CopyInsertion` in xla/service/copy_insertion.cc: after that pass, the values of one alias
set are written and read one after the other, which buffer assignment relies on. A compiled schedule has no such
reads, and no rewrite may create any. The schedule is walked once, with the current value of each shared buffer; loop
bodies and branches are walked at their callers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.flat_schedule import is_async_start
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.memory.shared_buffers import SharedBuffers
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import DeepCall, run_deep
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ARGUMENT_OPCODES, FORWARDING

Path = tuple[Instruction, ...]
"""The call path of an instruction: an instruction of the entry, one of its callee, and so on."""

_FORWARDING: Final = FORWARDING | ARGUMENT_OPCODES | {opcodes.AFTER_ALL, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE}
_READING_UPDATES: Final = frozenset((opcodes.DYNAMIC_UPDATE_SLICE, opcodes.FUSION, opcodes.SCATTER))
"""In-place operations that read their update operands while they write."""
_MIXED: Final = -1


class Access(NamedTuple):
    """A read or write of a value in a shared buffer, by the last instruction of a path, or by the root of `end`."""

    path: Path
    end: Computation | None
    buffer: int
    value: int
    is_write: bool


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A read of a value that an earlier write has overwritten.

    If both have the same path, an instruction overwrites an operand that it still reads.
    """

    reader: Access
    writer: Access


@dataclass(frozen=True, slots=True)
class Walk:
    """All accesses to shared buffers in order, and the conflicts among them.

    `fixed` are arguments and constants that would be overwritten. `together` are loops with carried elements that
    would share a buffer, with the ordinals of these elements.
    """

    accesses: tuple[Access, ...] = ()
    overwritten: tuple[Overwritten, ...] = ()
    fixed: frozenset[int] = frozenset()
    together: tuple[tuple[Instruction, tuple[int, ...]], ...] = ()

    @property
    def count(self) -> int:
        """The number of conflicts."""
        return len(self.overwritten) + len(self.fixed) + len(self.together)


def overwritten_values(facts: OrderIndependentFacts) -> Walk:
    """Returns the accesses and conflicts of a module in the order of its text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] copy(a)  u = f32[2] constant({1, 2})  d = f32[9] dynamic-update-slice(b, u, i)
    ... n = f32[9] negate(b)  ROOT r = f32[9] add(n, d) }'''
    >>> found, = overwritten_values(order_independent_facts(parse_module(text))).overwritten
    >>> found.reader.path, found.writer.path
    ((<negate n>,), (<dynamic-update-slice d>,))
    """
    if not facts.aliases.members:
        return Walk()
    walker = _Walker(facts)
    run_deep(walker.run(facts.module.entry, ()))
    return Walk(tuple(walker.accesses), tuple(walker.found), frozenset(walker.broken), tuple(walker.together))


@dataclass(slots=True, eq=False)
class _BufferState:
    """The current value of a buffer, the access that wrote it, and the previous state."""

    value: int
    writer: Access
    before: _BufferState | None


@dataclass(slots=True)
class _Walker:
    """Walks the instructions in execution order and tracks the value in each shared buffer."""

    facts: OrderIndependentFacts
    accesses: list[Access] = field(default_factory=list)
    found: list[Overwritten] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    together: list[tuple[Instruction, tuple[int, ...]]] = field(default_factory=list)
    _states: dict[int, _BufferState] = field(default_factory=dict)
    _running: set[Computation] = field(default_factory=set)
    _written: dict[Instruction, set[int]] = field(default_factory=dict)
    _sharing: OperandSharing = field(init=False)
    _shared: SharedBuffers = field(init=False)

    def __post_init__(self) -> None:
        self._sharing = OperandSharing(self.facts.dataflow, self.facts.in_place, self.facts.target)
        self._shared = SharedBuffers(self.facts)

    def run(self, computation: Computation, path: Path) -> DeepCall[None]:
        """Walks a computation, then reads the value of its root."""
        if computation in self._running or computation not in self.facts.places.base:
            return
        self._running.add(computation)
        for instruction in computation.instructions:
            yield self._step(instruction, (*path, instruction))
        if computation.root is not None:
            for place in self._shared.leaves(computation.root):
                self._read(place, path, computation)
        self._running.discard(computation)

    def _step(self, instruction: Instruction, path: Path) -> DeepCall[None]:
        """Processes the reads and writes of one instruction."""
        opcode = instruction.opcode
        match opcode:
            case opcodes.WHILE:
                yield self._loop(instruction, path)
                return
            case opcodes.CONDITIONAL:
                yield self._branches(instruction, path)
                return
            case opcodes.CALL:
                yield self._call(instruction, instruction.called_computations[:1], path)
                return
        own = [place for place in self._shared.leaves(instruction) if self._shared.is_own(place)]
        if opcode in _FORWARDING:
            if opcode != opcodes.PARAMETER or instruction.computation.is_entry:
                for place in own:
                    self._put(place, path, is_write=False)
            return
        reads = list(self._reads(instruction, path))
        chain = self.facts.chains.get(instruction)
        if chain is not None and chain.computation is not None and chain.binding is instruction:
            yield self._call(instruction, (chain.computation,), path)
        for place in own:
            self._check_own(instruction, place, reads, path)
        for place in own:
            self._put(place, path, is_write=True)
        if is_async_start(opcode) or opcode.endswith(("-start", "-update")):
            shared = {
                self._shared.buffer(place) for place in self._shared.leaves(instruction) if self._shared.is_own(place)
            }
            inherited = self._written.get(instruction.operands[0], set()) if instruction.operands else set()
            self._written[instruction] = shared | inherited | self._in_place_of(instruction)

    def _in_place_of(self, start: Instruction) -> set[int]:
        """Returns the buffers that an async operation overwrites, whose old values are lost at its end."""
        chain = self.facts.chains.get(start)
        if chain is None or chain.computation not in self.facts.places.base or chain.computation is None:
            return set()
        places = (place for each in chain.computation.instructions for place in self._shared.leaves(each))
        return {self._shared.buffer(place) for place in places if self._shared.is_own(place)}

    def _reads(self, instruction: Instruction, path: Path) -> Iterator[tuple[int, int]]:
        """Reads the operands; yields operand numbers and the places read."""
        at = self.facts.dataflow.value
        gone = self._written.get(instruction.operands[0], set()) if instruction.operands else set()
        is_end = instruction.opcode.endswith(("-done", "-update"))
        for position in range(len(instruction.operands)):
            leaves = self._shared.operand_leaves(instruction, position)
            if instruction.opcode == opcodes.COPY:
                leaves = [each for each in leaves if each == self.facts.places.operand_place(instruction, position)]
            for each in leaves:
                is_gone = is_end and self._shared.buffer(each) in gone
                if not is_gone and at[each] in self.facts.aliases.buffer:
                    self._read(each, path)
                    yield position, each

    def _check_own(self, instruction: Instruction, place: int, reads: list[tuple[int, int]], path: Path) -> None:
        """Reports operands that an instruction overwrites while it reads them; not checked on TPU."""
        places, at, buffer = self.facts.places, self.facts.dataflow.value, self._shared.buffer(place)
        if buffer not in self._shared.buffers or self.facts.target == "tpu":
            return
        pairs = self.facts.in_place.pairs(instruction)
        index = places.index(place)
        in_place = {pair.operand_number for pair in pairs if pair.output_index == index}
        for position, each in reads:
            if self._shared.buffer(each) != buffer or position in in_place:
                continue
            is_twice = instruction.opcode in _READING_UPDATES and any(
                at[other] == at[each] for number, other in reads if number in in_place
            )
            if is_twice or not self._sharing.may_share(each, instruction, index):
                read = Access(path, None, buffer, at[each], is_write=False)
                self.found.append(Overwritten(read, read._replace(value=at[place], is_write=True)))

    def _loop(self, loop: Instruction, path: Path) -> DeepCall[None]:
        called = loop.called_computations
        if len(called) < 2 or not loop.operands or any(each not in self.facts.places.base for each in called[:2]):
            return
        body, condition = called[:2]
        places = self.facts.places
        for place in self._shared.operand_leaves(loop, 0):
            self._read(place, path)
        self._find_shared_elements(loop, body)
        for computation in (condition, body):
            for parameter in computation.parameters[:1]:
                for place in self._shared.leaves(parameter):
                    self._put(place, path, is_write=False)
            yield self.run(computation, path)
        for place in range(places.first_of(loop), places.first_of(loop) + len(places.parts(loop))):
            if self._shared.is_array(place):
                self._put(place, path, is_write=False)

    def _find_shared_elements(self, loop: Instruction, body: Computation) -> None:
        """Records carried elements of a loop with different values in one buffer."""
        places, at = self.facts.places, self.facts.dataflow.value
        elements: dict[int, dict[int, list[int]]] = {}
        for parameter in body.parameters[:1]:
            first = places.first_of(parameter)
            for place in self._shared.leaves(parameter):
                if self._shared.buffer(place) in self._shared.buffers:
                    elements.setdefault(self._shared.buffer(place), {}).setdefault(at[place], []).append(place - first)
        for found in elements.values():
            if len(found) > 1:
                self.together.append((loop, tuple(n for ordinals in found.values() for n in ordinals)))

    def _branches(self, conditional: Instruction, path: Path) -> DeepCall[None]:
        """Walks all branches from the same state; a buffer with different values afterwards holds an unknown value."""
        for place in self._shared.operand_leaves(conditional, 0):
            self._read(place, path)
        before, ends = dict(self._states), list[dict[int, _BufferState]]()
        for called in conditional.called_computations:
            self._states = dict(before)
            yield self._call(conditional, (called,), path)
            ends.append(self._states)
        if not ends:
            return
        self._states = merged = dict(ends[0])
        for buffer in {buffer for end in ends for buffer in end}:
            state = {id(end.get(buffer)) for end in ends}
            if len(state) > 1:
                writer = next(end[buffer].writer for end in ends if end.get(buffer) is not before.get(buffer))
                mixed = writer._replace(path=path, end=None, value=_MIXED)
                merged[buffer] = _BufferState(_MIXED, mixed, before.get(buffer))
        for place in self._shared.leaves(conditional):
            self._put(place, path, is_write=False)

    def _call(self, caller: Instruction, called: tuple[Computation, ...], path: Path) -> DeepCall[None]:
        for computation in called:
            if computation in self.facts.places.base:
                for parameter in computation.parameters:
                    for place in self._shared.leaves(parameter):
                        if self._shared.is_own(place):  # a phi of several callers
                            self._put(place, path, is_write=False)
                yield self.run(computation, path)

    def _read(self, place: int, path: Path, end: Computation | None = None) -> None:
        """Records a read, and a conflict if the buffer holds another value."""
        value = self.facts.dataflow.value[place]
        buffer = self._shared.of_value(value)
        if buffer not in self._shared.buffers:
            return
        read = Access(path, end, buffer, value, is_write=False)
        self.accesses.append(read)
        state = self._states.get(buffer)
        if state is None or state.value == value:
            return
        first = state
        while state is not None and state.value != value:
            first, state = state, state.before
        self.found.append(Overwritten(read, first.writer))

    def _put(self, place: int, path: Path, *, is_write: bool) -> None:
        """Sets the value in the buffer of a place, unless the buffer holds it already."""
        value = self.facts.dataflow.value[place]
        buffer = self._shared.of_value(value)
        if buffer not in self._shared.buffers:
            return
        state = self._states.get(buffer)
        if state is not None and state.value == value:
            return
        put = Access(path, None, buffer, value, is_write=True)
        self.accesses.append(put)
        self._states[buffer] = _BufferState(value, put, state)
        if is_write:
            self.broken.update(fixed for fixed in self._shared.fixed.get(buffer, ()) if fixed != value)
