"""Which values share a buffer, whatever the order of instructions, and which are read after being overwritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.flat_schedule import (
    AsyncChain,
    InPlace,
    Places,
    async_chains,
    is_async_start,
    places_of,
)
from hlo_cli.analysis.dataflow.value_sets import AliasSets, Dataflow, alias_sets, dataflow_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generation
from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes, generation_of, prefetched_space
from hlo_cli.analysis.memory.live_ranges import Interference, OperandSharing
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.garbage import DeepCall, run_deep
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ARGUMENT_OPCODES, FORWARDING, OUTPUT_TO_OPERAND_ALIASING, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, TupleShape

# --- buffers ---
# Alias sets with size, memory space, and kind.
#
# Mirrors `HloBuffer` of xla/service/hlo_buffer.h and the coloring of xla/service/buffer_assignment.cc. On TPU and GPU,
# the layout of an array in the buffer gives its memory space; tuple tables and all CPU buffers are in main memory.


_AFTER_ALL: Final = 2**63
"""A rank after all others."""

_MAX_COMPARED: Final = 64
"""Equal buffers that are compared in pairs; the order of more in several computations counts as uncertain."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Values that share one memory location, in the order of their ranks.

    `size` is in bytes. `parameter` is the place of the entry parameter in the buffer, if any. `is_live_out` marks
    buffers that hold part of the entry result, `is_local` buffers of embedded computations (such as reducers), which
    are thread-local.
    """

    values: tuple[int, ...]
    size: int
    space: int
    parameter: int | None
    is_constant: bool
    is_tuple: bool
    is_live_out: bool
    is_local: bool


def buffers_of(
    module: Module, dataflow: Dataflow, aliases: AliasSets, target: Target | None, generation: str
) -> tuple[Buffer, ...]:
    """Returns the buffers of a module, in the order of their first values."""
    places = dataflow.places
    root = module.entry.root
    result: set[int] = set()
    if root is not None:
        first = places.first_of(root)
        result = {aliases.buffer[dataflow.value[first + n]] for n in range(len(places.parts(root)))}
    sizes: dict[int, int] = {}
    buffers: list[Buffer] = []
    for name, buffer in aliases.buffer.items():
        if name != buffer:
            continue
        values = aliases.members.get(name, (name,))
        size, space, parameter, is_constant, is_tuple = 0, 0, None, False, False
        for value in values:
            shape = places.shape(value)
            if id(shape) not in sizes:
                sizes[id(shape)] = buffer_bytes(shape, target, generation)
            size = max(size, sizes[id(shape)])
            if isinstance(shape, TupleShape):
                is_tuple = True
            elif isinstance(shape, ArrayShape | BufferShape) and target != "cpu":
                space = shape.layout.memory_space or space
            definer = places.instructions[places.owner[value]]
            if definer.opcode == opcodes.CONSTANT:
                is_constant = True
            elif definer.opcode == opcodes.PARAMETER and definer.computation is module.entry and parameter is None:
                parameter = value
        definer = places.instructions[places.owner[name]]
        is_local = places.contexts.context_of[definer.computation] != "global"
        buffers.append(Buffer(values, size, space, parameter, is_constant, is_tuple, name in result, is_local))
    return tuple(buffers)


def assignment_order(dataflow: Dataflow, module: Module, buffers: tuple[Buffer, ...]) -> list[int]:
    """Returns buffer indices in the order of assignment on CPU and GPU.

    Sorted by size (descending), live-out buffers first, then post-order position of the defining instruction;
    computations in reverse order of the module, the entry first.
    """
    keys = _assignment_keys(dataflow, module, buffers)
    return sorted(range(len(buffers)), key=keys.__getitem__)


def _assignment_keys(
    dataflow: Dataflow, module: Module, buffers: tuple[Buffer, ...]
) -> list[tuple[int, bool, tuple[int, int]]]:
    """Returns the sort keys of buffers in the order of assignment on CPU and GPU."""
    places = dataflow.places
    depth = {called: n for n, called in enumerate(_callers_first(module, places.contexts.context_of))}

    def position(value: int) -> tuple[int, int]:
        """Returns the sort key of a value: index of its computation, then post-order position."""
        number = places.owner[value]
        definer = places.instructions[number]
        # The result of a short-form start is defined by the root of the computation that its syntax omits.
        if definer in depth and value != places.first[number] and places.index(value)[0] == 1:
            return depth[definer], 0
        return depth.get(definer.computation, len(depth)), dataflow.position[number]

    return [(-b.size, not b.is_live_out, min(map(position, b.values))) for b in buffers]


def time_order(numbers: Iterable[int], buffers: tuple[Buffer, ...], interference: Interference) -> list[int]:
    """Returns buffer indices in the order of assignment on TPU: by start of the live range.

    Ties are sorted by size (descending), live-out buffers first, then rank of the first value.
    """
    start, rank = interference.ranges.start, interference.dataflow.rank

    def key(number: int) -> tuple[int, int, bool, int]:
        """Returns the sort key of a buffer; buffers without a live range come first."""
        buffer = buffers[number]
        begin = min((start[value] for value in buffer.values if value in start), default=-1)
        return begin, -buffer.size, not buffer.is_live_out, rank[buffer.values[0]]

    return sorted(numbers, key=key)


class ValueOrder:
    """Which values of different computations XLA certainly numbers in the order of the text.

    hlo_dataflow_analysis.cc numbers values computation by computation, in the module's internal order, which protos
    have. Texts list computations in another one (hlo_module.cc, Print): only callees before callers is certain.
    """

    __slots__ = ("_above", "_dataflow")

    def __init__(self, dataflow: Dataflow) -> None:
        self._dataflow = dataflow
        self._above: dict[Computation, set[Computation]] = {}

    def owner(self, value: int) -> Computation | int:
        """Returns the computation of a value; the value itself if its computation is omitted, as in short forms."""
        places = self._dataflow.places
        instruction = places.instructions[places.owner[value]]
        return value if _omits_computation(instruction) else instruction.computation

    def are_ordered(self, one: Computation | int, other: Computation | int) -> bool:
        """Returns whether two owners are the same, or one reaches the other by calls."""
        if one == other or self._dataflow.is_rank_certain:
            return True
        if isinstance(one, int) or isinstance(other, int):
            return False
        return one in self._callers(other) or other in self._callers(one)

    def are_certain(self, values: Sequence[int], others: Sequence[int]) -> bool:
        """Returns whether it is certain which of two buffers has the first value."""
        ranks: list[dict[Computation | int, int]] = [{}, {}]
        for first, members in zip(ranks, (values, others), strict=True):
            for value in members:
                owner, rank = self.owner(value), self._dataflow.rank[value]
                first[owner] = min(rank, first.get(owner, rank))
        owners = ranks[0].keys() | ranks[1].keys()
        outcomes = {
            ranks[0].get(each, _AFTER_ALL) < ranks[1].get(each, _AFTER_ALL)
            for each in owners
            if not any(other != each and self._is_callee(other, each) for other in owners)
        }
        return len(outcomes) == 1

    def _is_callee(self, one: Computation | int, other: Computation | int) -> bool:
        """Returns whether an owner is certainly numbered before another, which reaches it by calls."""
        return not isinstance(one, int) and not isinstance(other, int) and other in self._callers(one)

    def _callers(self, computation: Computation) -> set[Computation]:
        """Returns all computations from which a computation is reached, itself included."""
        if computation not in self._above:
            callers_and_self, waiting = {computation}, [computation]
            while waiting:
                callers = self._dataflow.places.contexts.callers.get(waiting.pop(), ())
                more = {caller.computation for caller in callers} - callers_and_self
                callers_and_self |= more
                waiting.extend(more)
            self._above[computation] = callers_and_self
        return self._above[computation]


def spaces_with_loose_ties(
    dataflow: Dataflow, module: Module, buffers: tuple[Buffer, ...], interference: Interference
) -> set[int]:
    """Returns the memory spaces of buffers that are assigned in an uncertain order.

    Buffers of one size that begin with one instruction, such as the results of a fusion, are assigned in the order of
    their first values, which may be in different computations.
    """
    # buffer_assignment.cc, AssignBuffersForComputations: the last criterion is the id of the buffer.
    if dataflow.is_rank_certain:
        return set()
    order, loose, start = ValueOrder(dataflow), set[int](), interference.ranges.start
    # The order decides which buffers get the memory of results, and how tuple tables lie; all others go to the heap.
    # Larger buffers are in allocations of their own before any tie matters.
    results = max((buffer.size for buffer in buffers if buffer.is_live_out and not buffer.is_tuple), default=0)
    tied: dict[tuple[object, ...], list[int]] = {}
    for number, (buffer, key) in enumerate(zip(buffers, _assignment_keys(dataflow, module, buffers), strict=True)):
        if not buffer.is_local and buffer.size and (buffer.is_tuple or buffer.size <= results):
            begin = min((start[value] for value in buffer.values if value in start), default=-1)
            tied.setdefault(("by size", key), []).append(number)
            tied.setdefault(("by time", begin, buffer.size, buffer.is_live_out), []).append(number)
    for numbers in tied.values():
        if len({order.owner(value) for number in numbers for value in buffers[number].values}) == 1:
            continue
        pairs = combinations(numbers[:_MAX_COMPARED], 2)
        if len(numbers) > _MAX_COMPARED or not all(
            order.are_certain(buffers[one].values, buffers[other].values) for one, other in pairs
        ):
            loose.add(buffers[numbers[0]].space)
    return loose


def _callers_first(module: Module, contexts: Mapping[Computation, str]) -> list[Computation | Instruction]:
    """Returns the computations that execute, in reverse order of the module, callers before their callees.

    A sugared async start takes the position of the computation that its syntax omits.
    """
    # buffer_assignment.cc, AssignBuffersForComputations: reverse post-order of the call graph, which visits callees in
    # the internal order of instructions. No dump has that order, but texts and protos list computations in the same
    # post-order: 100 % of the offsets of 400 compilations for CPU and GPU agree.
    order: list[Computation | Instruction] = []
    for computation in module.computations:
        if contexts.get(computation) == "global":
            # An omitted computation is in front of its caller; the order of several is not in the text.
            order.extend(i for i in computation.instructions if _omits_computation(i))
            order.append(computation)
    return order[::-1]


def _omits_computation(instruction: Instruction) -> bool:
    """Returns whether an instruction is an async start in the short form, which has no computation in the text.

    >>> from hlo_cli import parse_module
    >>> _omits_computation(parse_module("r = f32[2] negate(f32[2] p)").entry.root)
    False
    """
    return instruction.opcode.endswith("-start") and wrapped_opcode(instruction.opcode) is not None


# --- facts without a schedule ---
# Analyses that do not depend on the schedule: dataflow, alias sets, and buffers.
#
# Mirrors `HloAliasAnalysis` of xla/hlo/analysis/hlo_alias_analysis.cc.


# gpu/alias_info.cc: on GPU, in-place pairs of fusions are also found through reshapes.
_THROUGH_ON_GPU = frozenset((opcodes.BITCAST, opcodes.RESHAPE))
_THROUGH = frozenset((opcodes.BITCAST,))


@dataclass(frozen=True, slots=True)
class OrderIndependentFacts:
    """Results that hold for any order of the instructions; `is_generation_known` is False if it is a guess."""

    module: Module
    target: Target | None
    generation: str
    places: Places
    chains: Mapping[Instruction, AsyncChain]
    dataflow: Dataflow
    in_place: InPlace
    aliases: AliasSets
    buffers: tuple[Buffer, ...]
    is_generation_known: bool


def order_independent_facts(
    module: Module, target: Target | None = None, generation: str | None = None
) -> OrderIndependentFacts:
    """Runs the analyses; `target` and `generation` override what is detected from the text.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }"
    >>> [buffer.size for buffer in order_independent_facts(parse_module(text)).buffers]
    [32, 32]
    """
    target, generation, is_generation_known = known_generation(module, target, generation)
    places = places_of(module)
    chains = async_chains(places.instructions)
    dataflow = dataflow_of(places, chains, module.value_order)
    in_place = in_place_of(target)
    aliases = alias_sets(module, dataflow, in_place)
    buffers = buffers_of(module, dataflow, aliases, target, generation)
    return OrderIndependentFacts(
        module, target, generation, places, chains, dataflow, in_place, aliases, buffers, is_generation_known
    )


def known_generation(module: Module, target: Target | None, generation: str | None) -> tuple[Target | None, str, bool]:
    """Returns the target and the generation of its TPU, both as given or as detected, and whether that is no guess.

    >>> from hlo_cli import parse_module
    >>> known_generation(parse_module("r = f32[2] negate(p)"), "tpu", "v4")
    ('tpu', 'v4', True)
    """
    target = target or target_of(module)
    detected = generation_of(module) if target == "tpu" else USUAL_TPU
    # CMEM in a layout proves the generation, as one TPU generation has it.
    is_told = generation is not None or (target == "tpu" and prefetched_space(target, detected) is TpuMemorySpace.CMEM)
    return target, tpu_generation(generation).name if generation is not None else detected, is_told


def in_place_of(target: Target | None) -> InPlace:
    """Returns the finder of in-place operations for a target.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry.root
    >>> len(in_place_of("gpu").pairs(root))
    1
    """
    return InPlace(_THROUGH_ON_GPU if target == "gpu" else _THROUGH)


# --- values that must not be overwritten ---
# Mirrors the alias queries of `CopyInsertion` in xla/service/copy_insertion.cc.


class SharedBuffers:
    """The shared `buffers` by first value; `fixed` lists their constants and arguments that are not donated.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
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
                # XLA may not overwrite an argument that is not in input_output_alias (copy_insertion.cc).
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
            if instruction.opcode == opcodes.FUSION and OUTPUT_TO_OPERAND_ALIASING in instruction.raw[1]:
                for alias in instruction.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias):
                    output = places.parts(instruction).ordinals.get(alias.output_index)
                    if output is not None:
                        found.add(self.buffer(places.first_of(instruction) + output))
        return found


# --- reads of overwritten values ---
# Mirrors the guarantee of `CopyInsertion` in xla/service/copy_insertion.cc: after that pass, the values of one alias
# set are written and read one after the other, which buffer assignment relies on. A compiled schedule has no such
# reads, and no rewrite may create any. The schedule is walked once, with the current value of each shared buffer; loop
# bodies and branches are walked at their callers.


Path = tuple[Instruction, ...]
"""The call path of an instruction: an instruction of the entry, one of its callee, and so on."""

_FORWARDING: Final = FORWARDING | ARGUMENT_OPCODES | {opcodes.AFTER_ALL, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE}
_READING_UPDATES: Final = frozenset((opcodes.DYNAMIC_UPDATE_SLICE, opcodes.FUSION, opcodes.SCATTER))
"""In-place operations that read their update operands while they write."""
_MIXED: Final = -1  # no value, as values are numbers from 0: branches have left different ones


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
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
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
        value_at = self.facts.dataflow.value
        overwritten = self._written.get(instruction.operands[0], set()) if instruction.operands else set()
        is_end = instruction.opcode.endswith(("-done", "-update"))
        for position in range(len(instruction.operands)):
            leaves = self._shared.operand_leaves(instruction, position)
            # A copy of a tuple copies its table, and reads none of the arrays below.
            if instruction.opcode == opcodes.COPY:
                leaves = [each for each in leaves if each == self.facts.places.operand_place(instruction, position)]
            for each in leaves:
                # A start that updates in place passes its operand on in its tuple, where its end does not read it.
                is_gone = is_end and self._shared.buffer(each) in overwritten
                if not is_gone and value_at[each] in self.facts.aliases.buffer:
                    self._read(each, path)
                    yield position, each

    def _check_own(self, instruction: Instruction, place: int, reads: list[tuple[int, int]], path: Path) -> None:
        """Reports operands that an instruction overwrites while it reads them; not checked on TPU."""
        places, value_at, buffer = self.facts.places, self.facts.dataflow.value, self._shared.buffer(place)
        # TPU kernels overwrite operands by rules that dumps list only in part (`aliasing_operands`).
        if buffer not in self._shared.buffers or self.facts.target == "tpu":
            return
        pairs = self.facts.in_place.pairs(instruction)
        index = places.index(place)
        in_place = {pair.operand_number for pair in pairs if pair.output_index == index}
        for position, each in reads:
            if self._shared.buffer(each) != buffer or position in in_place:
                continue
            is_twice = instruction.opcode in _READING_UPDATES and any(
                value_at[other] == value_at[each] for number, other in reads if number in in_place
            )
            if is_twice or not self._sharing.may_share(each, instruction, index):
                read = Access(path, None, buffer, value_at[each], is_write=False)
                self.found.append(Overwritten(read, read._replace(value=value_at[place], is_write=True)))

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
        places, value_at = self.facts.places, self.facts.dataflow.value
        elements: dict[int, dict[int, list[int]]] = {}
        for parameter in body.parameters[:1]:
            first = places.first_of(parameter)
            for place in self._shared.leaves(parameter):
                if self._shared.buffer(place) in self._shared.buffers:
                    elements.setdefault(self._shared.buffer(place), {}).setdefault(value_at[place], []).append(
                        place - first
                    )
        for ordinals_of in elements.values():
            if len(ordinals_of) > 1:
                self.together.append((loop, tuple(n for ordinals in ordinals_of.values() for n in ordinals)))

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
            # What differs between branches is unknown afterwards: each later read of a member is a conflict.
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
        # The write right after the value's own one is what destroyed it.
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
