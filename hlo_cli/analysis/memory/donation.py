"""Which results the memory of an argument could hold if callers gave it up, and what peak that leaves.

What a changed program needs is computed in full; `peak_advice` asks the same of its other changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, Literal

from hlo_cli.analysis.dataflow.dependencies import is_elementwise_on, users_of
from hlo_cli.analysis.dataflow.flat_schedule import FlatSchedule, Places, flat_schedule, subshapes_of
from hlo_cli.analysis.dataflow.value_sets import alias_sets
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes
from hlo_cli.analysis.memory.assignment import assign
from hlo_cli.analysis.memory.buffers import Buffer, OrderIndependentFacts, buffers_of
from hlo_cli.analysis.memory.live_ranges import Interference, LiveRanges, OperandSharing, Release, live_ranges
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.memory.occupancy import timeline
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Alias
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute, Instruction
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import BACKWARD_PASS
from hlo_cli.ir.operations import BLOCK_MOVES, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex
from hlo_cli.lazy_regex import lazy_regex

# --- arguments and results ---
# The arrays that a program takes and returns: what callers control of it.


# JAX names arrays `state.params['w']`. An argument of `*args` is one of them: `donate_argnames` rejects `args`, and
# `donate_argnums` takes its number (tried with jax 0.10.2). A parameter that is only called so reads the same.
_OF_FUNCTION: Final = lazy_regex(r"args\[(\d+)\]|[A-Za-z_][A-Za-z_0-9]*")


def function_argument(name: str) -> str:
    """The argument of the user's function in the name that JAX gives an array of it; empty if there is none.

    >>> function_argument("state.params['w']"), function_argument("args[0]['w']"), function_argument("")
    ('state', 'args[0]', '')
    """
    found = _OF_FUNCTION.match(name)
    return "" if found is None else found[0]


def argnums_of(names: Sequence[str]) -> tuple[int, ...] | None:
    """What `donate_argnums` takes for arguments of `*args`; None if one has a name, for `donate_argnames`.

    >>> argnums_of(["args[0]", "args[2]"]), argnums_of(["args[0]", "m"])
    ((0, 2), None)
    """
    found = [_OF_FUNCTION.match(name) for name in names]
    numbers = tuple(int(each[1]) for each in found if each is not None and each[1] is not None)
    return numbers if len(numbers) == len(names) else None


@dataclass(frozen=True, slots=True)
class Argument:
    """An array among the arguments: its entry parameter, the parameter's number, and the index within its shape.

    `place` identifies the value in the dataflow of the module.
    """

    parameter: Instruction
    number: int
    index: ShapeIndex
    shape: ArrayShape
    place: int

    @property
    def label(self) -> str:
        """The name in the user's program, such as `params['w']`; that of the parameter if the dump has none."""
        return self.parameter.metadata.op_name or self.parameter.name

    @property
    def root_name(self) -> str:
        """The argument of the user's function that it is part of, such as `params`; empty if unknown."""
        return function_argument(self.parameter.metadata.op_name)

    @property
    def whole(self) -> str:
        """What JAX donates as a whole: the argument of the user's function, or the array if that is unknown."""
        return self.root_name or self.label


@dataclass(frozen=True, slots=True)
class Result:
    """An array of the result: its index in the entry's root, its shape, and the place of the value that it is."""

    index: ShapeIndex
    shape: ArrayShape
    value: int


def arguments_of(facts: OrderIndependentFacts) -> tuple[Argument, ...]:
    """Returns the arrays among the arguments, in order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = "ENTRY e { p = (f32[2], s32[]) parameter(0)  ROOT g = s32[] get-tuple-element(p), index=1 }"
    >>> facts = order_independent_facts(parse_module(text))
    >>> [(each.number, each.index, str(each.shape)) for each in arguments_of(facts)]
    [(0, (0,), 'f32[2]{0}'), (0, (1,), 's32[]')]
    """
    parameters = enumerate(facts.module.entry.parameters)
    return tuple(
        Argument(parameter, number, index, shape, place)
        for number, parameter in parameters
        for index, shape, place in _arrays(facts.places, parameter)
    )


def results_of(facts: OrderIndependentFacts) -> tuple[Result, ...]:
    """Returns the arrays of the result, in order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = "ENTRY e { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT t = (f32[2], f32[2]) tuple(n, p) }"
    >>> [(each.index, each.value) for each in results_of(order_independent_facts(parse_module(text)))]
    [((0,), 1), ((1,), 0)]
    """
    root, value_at = facts.module.entry.root, facts.dataflow.value
    if root is None:
        return ()
    return tuple(Result(index, shape, value_at[place]) for index, shape, place in _arrays(facts.places, root))


def _arrays(places: Places, instruction: Instruction) -> Iterator[tuple[ShapeIndex, ArrayShape, int]]:
    parts, first = places.parts(instruction), places.first_of(instruction)
    for n, (index, shape) in enumerate(zip(parts.indices, parts.shapes, strict=True)):
        if isinstance(shape, ArrayShape):
            yield index, shape, first + n


# --- order within the entry ---
# Which instructions of the entry must run before others, whatever order a compiler chooses.
#
# Copies that protect an argument are inserted before the schedule is made, by data dependencies alone
# (`DependencyHloOrdering` of xla/hlo/analysis/hlo_ordering.cc).


_DONE: Final = "-done"
_COPYING: Final = frozenset((opcodes.COPY, opcodes.COPY_START, opcodes.COPY_DONE, opcodes.BITCAST))
_FORWARDING: Final = frozenset((opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT))


class EntryOrder:
    """Dependencies among the instructions of the entry, by their indices there.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = "ENTRY e { p = f32[2] parameter(0)  a = f32[2] negate(p)  b = f32[2] sine(p)  ROOT r = f32[2] add(a,a) }"
    >>> order = EntryOrder(order_independent_facts(parse_module(text)), (2, 3))
    >>> sorted(order.readers(0)), order.is_before(1, 3), order.is_before(1, 2)
    ([1, 2], True, False)
    """

    __slots__ = ("_bits", "_facts", "_reached", "_users")

    def __init__(self, facts: OrderIndependentFacts, targets: Iterable[int]) -> None:
        """Computes from which instructions each of the `targets` can be reached."""
        self._facts = facts
        self._users = users_of_values(facts)
        # Reachability as bits of one integer: targets are few, instructions many.
        self._bits = {target: 1 << n for n, target in enumerate(dict.fromkeys(targets))}
        self._reached = _reached(facts.module.entry.instructions, self._bits)

    def is_before(self, index: int, target: int) -> bool:
        """Returns whether `target`, one of the targets, depends on an instruction or is that instruction."""
        return bool(self._reached[index] & self._bits[target])

    def copies(self, value: int) -> list[Instruction]:
        """Returns the instructions that copy a value without changing its layout."""
        users = (self._facts.module.entry.instructions[index] for index in self._users.get(value, ()))
        # With another layout, a copy is work of its own that donation does not save.
        return [user for user in users if user.opcode == opcodes.COPY and user.shape == user.operand_shape(0)]

    def is_only_fetched(self, value: int) -> bool:
        """Returns whether a value is used, and only to move it or parts of it into fast memory of a TPU."""
        instructions = self._facts.module.entry.instructions
        users = (instructions[index] for index in self._users.get(value, ()))
        starts = [user for user in users if not user.opcode.endswith(_DONE)]
        return bool(starts) and all(map(_fetches, starts))

    def readers(self, value: int, excluded: Collection[int] = ()) -> set[int]:
        """Returns the instructions that read a value, or a copy of it instead of the value, but for those excluded."""
        instructions, readers = self._facts.module.entry.instructions, set[int]()
        waiting, visited = [value], {value}
        while waiting:
            for index in self._users.get(waiting.pop(), ()):
                if index in excluded:
                    continue
                instruction = instructions[index]
                if instruction.opcode not in _COPYING:
                    readers.add(index)
                    continue
                first = self._facts.places.first_of(instruction)
                for place in range(first, first + len(self._facts.places.parts(instruction))):
                    if place not in visited:
                        visited.add(place)
                        waiting.append(place)
        return readers


def _fetches(user: Instruction) -> bool:
    """Returns whether an instruction moves an array or a part of it into fast memory of a TPU."""
    root = user.called_computations[0].root if user.called_computations else None
    moving = root.opcode if root is not None else wrapped_opcode(user.opcode) or user.opcode.removesuffix("-start")
    if moving not in BLOCK_MOVES:
        return False
    spaces = {leaf.memory_space for _, leaf in user.shape.leaves if isinstance(leaf, ArrayShape)}
    return any(space in spaces for space in TpuMemorySpace if space.is_prefetched)


def users_of_values(facts: OrderIndependentFacts) -> dict[int, list[int]]:
    """Returns the instructions of the entry that use each value, those aside that only pass it on.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = "ENTRY e { p = f32[2] parameter(0)  a = f32[2] negate(p)  ROOT t = (f32[2], f32[2]) tuple(a, p) }"
    >>> {value: users for value, users in users_of_values(order_independent_facts(parse_module(text))).items() if users}
    {0: [1]}
    """
    places, value_at, first = facts.places, facts.dataflow.value, facts.places.first
    users: dict[int, list[int]] = defaultdict(list)
    for index, instruction in enumerate(facts.module.entry.instructions):
        if instruction.opcode in _FORWARDING:
            continue
        for position, operand in enumerate(instruction.operands):
            place = places.operand_place(instruction, position)
            for used in range(place, first[places.number(operand) + 1]):
                if not users[value_at[used]] or users[value_at[used]][-1] != index:
                    users[value_at[used]].append(index)
    return users


def _reached(instructions: Sequence[Instruction], bits: dict[int, int]) -> list[int]:
    """Returns for each instruction the bits of the targets that can be reached from it, itself included."""
    reached = [0] * len(instructions)
    for index in range(len(instructions) - 1, -1, -1):
        reached[index] |= bits.get(index, 0)
        for operand in instructions[index].operands:
            reached[operand.index] |= reached[index]
    return reached


# --- memory after a change ---
# The memory of a program after a change: live ranges, buffer assignment, and peak are computed again.
#
# The instructions and their order stay; which values share memory, where they end, and their sizes may change.


_ALIASES = "input_output_alias"
_MAX_STEPS = 2000
"""Number of steps up to which allocations are computed again."""
_AFTER_SLOTS = 1 << 60
"""A number beyond those of slots."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes to a program, by the places of the values in its dataflow.

    `aliases` replaces `input_output_alias`, if it is not None. `copied` are arguments that results overwrite too, but
    of which a copy at the start of the program is read, because some reads may come later. Pairs of values that are
    `joined` share memory, because a copy of one into the other is not needed. `removed` are values that no longer need
    memory, `sizes` the bytes of values that become larger or smaller, `ends` the steps to which values are live, and
    `results` values that become results. `extra` are further values: first step, last step, and bytes.
    """

    aliases: tuple[Alias, ...] | None = None
    copied: tuple[Alias, ...] = ()
    joined: tuple[tuple[int, int], ...] = ()
    removed: frozenset[int] = frozenset()
    sizes: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    results: frozenset[int] = frozenset()
    extra: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Main memory in a scenario: the peak of live bytes, its step, and the total of all allocations.

    The total is None for large programs, whose values keep their slots, because heaps take long to fill.
    """

    peak_bytes: int
    peak_step: int
    allocated_bytes: int | None


class MemoryScenarios:
    """Computes the main memory of one program in several scenarios."""

    __slots__ = ("_bytes", "_slots", "facts", "ranges", "release", "schedule")

    def __init__(self, memory: MemoryAnalysis) -> None:
        """Prepares what does not depend on the scenario."""
        self.facts: OrderIndependentFacts = memory.facts
        self.schedule: FlatSchedule = flat_schedule(self.facts.places, memory.module.entry, self.facts.chains)
        self.release: Release = memory.release
        self.ranges: LiveRanges = memory.ranges
        self._bytes: dict[int, int] = {}
        # Heaps of large programs take long to fill anew, so values keep the slots that they have.
        self._slots: dict[int, int] | None = self._known_slots(memory) if len(memory.sequence) > _MAX_STEPS else None

    @no_garbage_collection()
    def outcome(self, scenario: Scenario) -> Outcome:
        """Returns the main memory in a scenario.

        >>> from hlo_cli import memory_analysis, parse_module
        >>> text = "HloModule m, is_scheduled=true  ENTRY e { p = f32[64] parameter(0)  ROOT n = f32[64] negate(p) }"
        >>> scenarios = MemoryScenarios(memory_analysis(parse_module(text)))
        >>> scenarios.outcome(Scenario()), scenarios.outcome(Scenario((Alias((), 0, ()),))).peak_bytes
        (Outcome(peak_bytes=512, peak_step=1, allocated_bytes=512), 256)
        """
        facts, ranges = self.facts, self.ranges
        if scenario.aliases is not None:
            facts = self._with_aliases(scenario.aliases, scenario)
            ranges = self._ranges(facts)
        if scenario.removed or scenario.ends:
            ranges = _changed(ranges, scenario)
        if scenario.removed or scenario.sizes or scenario.results:
            facts = replace(facts, buffers=tuple(self._changed(facts.buffers, scenario)))
        if self._slots is None:
            assigned = assign(facts, ranges, self.release).allocations
            total = sum(each.size for each in assigned if not each.space and each.role != "thread-local")
            total += sum(size for _, _, size in scenario.extra)
            chosen = [pair for each in assigned for pair in zip(each.buffers, each.slots, strict=True)]
        else:
            total = None
            chosen = [(n, self._slots.get(buffer.values[0], -1 - n)) for n, buffer in enumerate(facts.buffers)]
        copies = {self._place_of(alias) for alias in scenario.copied}
        slots: list[tuple[int, int, int, int]] = []
        for number, slot in chosen:
            buffer = facts.buffers[number]
            for value in buffer.values if not buffer.space else ():
                if value in ranges.start:
                    size = scenario.sizes.get(value, self.bytes_of(value))
                    # A copy cannot share the memory of its argument, which holds the result later.
                    at = -_AFTER_SLOTS - value if value in copies else slot
                    last = ranges.last(value)
                    slots.append((ranges.start[value], last, size, at))
        slots += [(start, end, size, _AFTER_SLOTS + number) for number, (start, end, size) in enumerate(scenario.extra)]
        live = timeline(sorted(slots, key=lambda each: each[:2]), self.schedule.end)
        peak = max(range(len(live)), key=live.__getitem__)
        return Outcome(live[peak], peak, total)

    def ranges_with(self, aliases: tuple[Alias, ...]) -> LiveRanges:
        """Returns the live ranges if arguments of `aliases` end at their last use, before results overwrite them."""
        return self._ranges(replace(self.facts, module=_with_aliases(self.facts.module, aliases)))

    def interference(self, ranges: LiveRanges) -> Interference:
        """Returns the interference of values with these live ranges."""
        facts = self.facts
        sharing = OperandSharing(facts.dataflow, facts.in_place, facts.target)
        release: Release = "2026-08" if facts.target == "tpu" else self.release
        return Interference(facts.dataflow, facts.aliases, ranges, sharing, release)

    def bytes_of(self, value: int) -> int:
        """Returns the padded bytes of a value."""
        shape = self.facts.places.shape(value)
        size = self._bytes.get(id(shape))
        if size is None:
            size = self._bytes[id(shape)] = self.bytes_of_shape(shape)
        return size

    def bytes_of_shape(self, shape: Shape) -> int:
        """Returns the padded bytes of a shape on the target."""
        return buffer_bytes(shape, self.facts.target, self.facts.generation)

    def _known_slots(self, memory: MemoryAnalysis) -> dict[int, int]:
        """Returns the slot of each value."""
        places = self.facts.places
        found: dict[int, int] = {}
        for value in memory.values:
            place = places.first_of(value.instruction) + places.parts(value.instruction).ordinals[value.index]
            found[place] = value.slot
        return found

    def _ranges(self, facts: OrderIndependentFacts) -> LiveRanges:
        return live_ranges(facts.module, facts.dataflow, self.schedule, facts.aliases, facts.target)

    def _with_aliases(self, aliases: tuple[Alias, ...], scenario: Scenario) -> OrderIndependentFacts:
        """Returns the facts with other aliases; a copied argument is a temporary, and its result in its place."""
        facts = self.facts
        sets = alias_sets(_with_aliases(facts.module, aliases), facts.dataflow, facts.in_place, scenario.joined)
        module = _with_aliases(facts.module, (*aliases, *scenario.copied))
        buffers = buffers_of(module, facts.dataflow, sets, facts.target, facts.generation)
        copies = {self._place_of(alias) for alias in scenario.copied}
        if copies:
            buffers = tuple(replace(each, parameter=None) if each.parameter in copies else each for each in buffers)
        return replace(facts, module=module, aliases=sets, buffers=buffers)

    def _place_of(self, alias: Alias) -> int:
        """Returns the place of the argument of an alias."""
        parameter, places = self.facts.module.entry.parameters[alias.parameter_number], self.facts.places
        return places.first_of(parameter) + places.parts(parameter).ordinals[alias.parameter_index]

    def _changed(self, buffers: tuple[Buffer, ...], scenario: Scenario) -> list[Buffer]:
        found: list[Buffer] = []
        for buffer in buffers:
            values = tuple(value for value in buffer.values if value not in scenario.removed)
            if len(values) < len(buffer.values) or any(value in scenario.sizes for value in values):
                sizes = [scenario.sizes.get(value, self.bytes_of(value)) for value in values]
                buffer = replace(buffer, values=values, size=max(sizes, default=0))
            if not scenario.results.isdisjoint(values):
                buffer = replace(buffer, is_live_out=True)
            if values:
                found.append(buffer)
        return found


def _with_aliases(module: Module, aliases: tuple[Alias, ...]) -> Module:
    """The module with another `input_output_alias`."""
    header = tuple(attribute for attribute in module.header if attribute.name != _ALIASES)
    text = "{ " + ", ".join(map(str, aliases)) + " }"
    return replace(module, header=(*header, Attribute(_ALIASES, text)) if aliases else header)


def _changed(ranges: LiveRanges, scenario: Scenario) -> LiveRanges:
    start = {value: tick for value, tick in ranges.start.items() if value not in scenario.removed}
    return replace(ranges, start=start, end={value: scenario.ends.get(value, ranges.end[value]) for value in start})


# --- donation ---
# jax pairs donated arguments with results of equal shape and type, both in their order, as `_set_up_aliases` of
# jax/_src/interpreters/mlir.py does. A pair saves memory if the argument is no longer read when the result is made;
# otherwise XLA keeps a copy (xla/service/copy_insertion.cc).


_Leaf = tuple[int, ShapeIndex]
_Kind = tuple[str, tuple[int, ...]]

PairKind = Literal["free", "copied", "fetched", "overwritten", "unknown"]
"""What a pair of a donated argument and a result needs."""


@dataclass(frozen=True, slots=True)
class DonationPair:
    """An argument and the result that its memory would hold, and what that needs.

    `free` if the result is made after all that reads the argument; `copied` if a copy of the argument is needed for
    other reads; `fetched` if all reads are of copies in fast memory, which a TPU compiler makes anyway; `overwritten`
    if an elementwise kernel of a TPU reads it last and makes the result; `unknown` if it depends on the compiler.
    `joined` are copies of the argument, for updates in place, that are no longer needed.
    """

    argument: Argument
    result: Result
    kind: PairKind
    joined: tuple[int, ...] = ()

    @property
    def alias(self) -> Alias:
        """The entry of `input_output_alias`."""
        return Alias(self.result.index, self.argument.number, self.argument.index)


def condition_of_donation(kernels: Iterable[Instruction], given: str) -> str:
    """Returns when arguments may be donated whose memory these kernels would write on; empty if there is no condition.

    A gradient has the shape of the weights, which whatever updates them reads again. JAX has transpose(…) in the names
    of its operations.

    >>> from hlo_cli import parse_module
    >>> line = 'metadata={op_name="jit(f)/transpose(jvp())/mul"}'
    >>> module = parse_module(f"ENTRY e {{ p = f32[2] parameter(0)  ROOT n = f32[2] negate(p), {line} }}")
    >>> condition_of_donation([module.entry.root], "p")
    'Only if the program does not read p again, as an update with these gradients does'
    """
    if not any(BACKWARD_PASS in kernel.metadata.op_name for kernel in kernels):
        return ""
    return f"Only if the program does not read {given} again, as an update with these gradients does"


@dataclass(frozen=True, slots=True)
class Donor:
    """An argument of the user's function with all of its arrays, none of which is donated yet."""

    name: str
    arguments: tuple[Argument, ...]


def donors_of(facts: OrderIndependentFacts) -> tuple[Donor, ...]:
    """Returns the arguments of the user's function of which no array is donated.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = '''HloModule m, input_output_alias={{}: (2, {})}  ENTRY e {
    ...   a = f32[2] parameter(0), metadata={op_name="p['a']"}  b = f32[2] parameter(1), metadata={op_name="p['b']"}
    ...   c = f32[2] parameter(2)  d = f32[2] parameter(3)  ROOT r = f32[2] add(c, d) }'''
    >>> [(each.name, len(each.arguments)) for each in donors_of(order_independent_facts(parse_module(text)))]
    [('p', 2), ('d', 1)]
    """
    module = facts.module
    given = {(alias.parameter_number, alias.parameter_index) for alias in module.input_output_alias}
    given |= {(donor.parameter_number, donor.parameter_index) for donor in module.buffer_donor}
    groups: dict[str, list[Argument]] = {}
    for argument in arguments_of(facts):
        groups.setdefault(argument.whole, []).append(argument)
    return tuple(
        Donor(name, tuple(arguments))
        for name, arguments in groups.items()
        if not any((each.number, each.index) in given for each in arguments)
    )


def donatable_bytes(memory: MemoryAnalysis) -> int:
    """Returns at most how many bytes of results arguments could hold, by their types and dimensions alone.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "ENTRY e { p = f32[8] parameter(0)  ROOT t = (f32[8], f32[8]) tuple(f32[8] negate(p), f32[8] sine(p)) }"
    >>> donatable_bytes(memory_analysis(parse_module(text)))
    32
    """
    space = memory.space(MemorySpace.MAIN)
    results: Counter[_Kind] = Counter()
    bytes_of: dict[_Kind, int] = {}
    arguments: Counter[_Kind] = Counter()
    aliased = {alias.output_index for alias in memory.module.input_output_alias}
    root = memory.module.entry.root
    parts = subshapes_of(root.shape) if root is not None else None
    for index, shape in zip(parts.indices, parts.shapes, strict=True) if parts is not None else ():
        if isinstance(shape, ArrayShape) and index not in aliased:
            results[_kind(shape)] += 1
    for value in space.values if space is not None else ():
        if value.kind == "argument" and isinstance(value.shape, ArrayShape):
            arguments[_kind(value.shape)] += 1
            bytes_of[_kind(value.shape)] = value.padded_bytes
    return sum(min(count, results[kind]) * bytes_of[kind] for kind, count in arguments.items())


class Donations:
    """Pairs donated arguments with results, as jax does, and finds what each pair needs."""

    __slots__ = ("_arguments", "_callers", "_facts", "_interference", "_order", "_results", "_uses")

    def __init__(self, scenarios: MemoryScenarios) -> None:
        """Prepares the live ranges that arguments would have, were they donated."""
        facts = self._facts = scenarios.facts
        self._arguments = arguments_of(facts)
        self._results = results_of(facts)
        self._uses = Counter(each.value for each in self._results)
        aliases = tuple(Alias((), each.number, each.index) for each in self._arguments)
        self._interference = scenarios.interference(scenarios.ranges_with(aliases))
        self._callers = {run.computation: run.caller for run in scenarios.schedule.runs}
        copies = [c for c in facts.module.entry.instructions if self._is_copied_argument(c)]
        values = [each.value for each in self._results] + [facts.places.first_of(copy) for copy in copies]
        shared = (other for value in values for other in self._members(value))
        self._order = EntryOrder(facts, (self._entry_index(value) for value in shared))

    def pairs(self, donors: Iterable[Donor]) -> tuple[DonationPair, ...]:
        """Returns the pairs that donating these arguments adds."""
        donated = {(each.number, each.index) for donor in donors for each in donor.arguments}
        known = self._facts.module.input_output_alias
        fixed = {alias.output_index: (alias.parameter_number, alias.parameter_index) for alias in known}
        paired = _paired(self._arguments, self._results, {*fixed.values()})
        if paired == fixed:  # the pairs of the module are those of jax, which makes all of them anew
            paired = _paired(self._arguments, self._results, {*fixed.values(), *donated})
        else:
            free = [result for result in self._results if result.index not in fixed]
            paired = _paired(self._arguments, free, donated)
        arguments = {(each.number, each.index): each for each in self._arguments}
        return tuple(
            self._pair(argument, result)
            for result in self._results
            if (leaf := paired.get(result.index)) is not None and leaf in donated
            for argument in (arguments[leaf],)
        )

    def _pair(self, argument: Argument, result: Result) -> DonationPair:
        """Returns the pair, with what it needs: the same layout, and no reads of what the result overwrites."""
        unknown = DonationPair(argument, result, "unknown")
        # Two results of one value need memory of their own each.
        if argument.shape != result.shape or self._uses[result.value] > 1:
            return unknown
        of_argument, of_result = self._members(argument.place), self._members(result.value)
        if of_argument == of_result or any(map(self._is_fixed, of_result)) or self._has_others(argument, of_argument):
            return unknown
        # What is a copy of the argument writes nothing new into its memory.
        written = [value for value in of_result if self._copied(value) != argument.place]
        kind = self._order_of(of_argument, written, without=of_result)
        if kind != "free":
            if kind == "copied" and self._facts.target == "tpu" and self._order.is_only_fetched(argument.place):
                kind = "fetched"
            if kind == "unknown" and self._is_overwritten(argument, result):
                kind = "overwritten"
            return DonationPair(argument, result, kind if len(written) == len(of_result) else "unknown")
        joined: list[int] = []
        for copy in self._copies(argument, of_result):
            inside = self._members(copy)
            changed = [value for value in inside if self._copied(value) != argument.place]
            if changed and self._order_of(of_argument, changed, without=inside) == "free":
                if self._order_of(inside, written, without=of_result) != "free":
                    return unknown
                joined.append(copy)
        return DonationPair(argument, result, "free", tuple(joined))

    def _is_overwritten(self, argument: Argument, result: Result) -> bool:
        """Returns whether an elementwise kernel of a TPU reads an argument last and makes the result.

        Which operands a kernel may overwrite is listed in the dump, but not for arguments that are not donated.
        """
        kernel, facts = self._owner(result.value), self._facts
        if facts.target != "tpu" or kernel.computation is not facts.module.entry:
            return False
        places = (facts.places.operand_place(kernel, number) for number in range(len(kernel.operands)))
        read = [number for number, place in enumerate(places) if facts.dataflow.value[place] == argument.place]
        if not read or not all(
            is_elementwise_on(kernel, number) or _is_read_in_place(kernel, number) for number in read
        ):
            return False
        readers = self._order.readers(argument.place)
        return all(reader == kernel.index or self._order.is_before(reader, kernel.index) for reader in readers)

    def _order_of(self, read: Sequence[int], written: Sequence[int], *, without: Sequence[int]) -> PairKind:
        """Returns whether values are written after all reads of other ones, which share memory with them then.

        Copies that are `without` effect then do not read.
        """
        excluded = {self._entry_index(value) for value in without if value not in written}
        readers = {reader for value in read for reader in self._order.readers(value, excluded)}
        targets = {self._entry_index(value) for value in written}
        if any(self._overlaps(value, other) for value in read for other in written):
            return "unknown"
        users = readers | excluded
        if not all(any(self._order.is_before(user, target) for user in users) for target in targets):
            return "unknown"  # what is written does not depend on what is read
        is_after_all = all(self._order.is_before(reader, target) for reader in readers for target in targets)
        return "free" if is_after_all else "copied"

    def _copies(self, argument: Argument, members: Sequence[int]) -> list[int]:
        """Returns the copies of an argument that are not among the members."""
        copies = (self._facts.places.first_of(each) for each in self._order.copies(argument.place))
        return [place for place in copies if place not in members]

    def _members(self, value: int) -> tuple[int, ...]:
        """Returns the values that share the memory of a value, itself included."""
        return self._facts.aliases.of(value)

    def _owner(self, value: int) -> Instruction:
        return self._facts.places.instructions[self._facts.places.owner[value]]

    def _entry_index(self, value: int) -> int:
        """Returns the index of the instruction of the entry that defines a value, itself or in what it calls."""
        owner = self._owner(value)
        while owner.computation is not self._facts.module.entry:
            caller = self._callers.get(owner.computation)
            if caller is None:
                # Without a known caller as early as anything, so that nothing is before it.
                return 0
            owner = caller
        return owner.index

    def _is_fixed(self, value: int) -> bool:
        """Returns whether the memory of a value is that of an argument or a constant."""
        owner = self._owner(value)
        if owner.opcode == opcodes.CONSTANT:
            return True
        return owner.opcode == opcodes.PARAMETER and owner.computation is self._facts.module.entry

    def _is_copied_argument(self, instruction: Instruction) -> bool:
        place = _copied_place(instruction, self._facts)
        return place is not None and self._owner(place).opcode == opcodes.PARAMETER

    def _has_others(self, argument: Argument, members: tuple[int, ...]) -> bool:
        """Returns whether something other than loops that only read it shares the memory of an argument."""
        return any(value != argument.place and self._is_fixed(value) for value in members)

    def _copied(self, value: int) -> int | None:
        return _copied_place(self._owner(value), self._facts)

    def _overlaps(self, value: int, other: int) -> bool:
        ranges = self._interference.ranges
        if value not in ranges.start or other not in ranges.start:
            return False
        # hlo_dataflow_analysis.cc, CanShareOperandBufferWithUser: a sort may overwrite an operand without other users,
        # but copies of arguments that are still to be removed are such users.
        if ranges.end[value] == ranges.start[other] and self._owner(other).opcode == opcodes.SORT:
            return True
        return self._interference.interferes(value, other)


def _copied_place(instruction: Instruction, facts: OrderIndependentFacts) -> int | None:
    """Returns the place of the value that an instruction copies without changes, None if it does something else."""
    if instruction.opcode != opcodes.COPY or instruction.shape != instruction.operand_shape(0):
        return None
    return facts.dataflow.value[facts.places.operand_place(instruction, 0)]


def _is_read_in_place(fusion: Instruction, number: int) -> bool:
    """Returns whether a fusion computes each element of all its results from the operand's at the same index.

    Updates of weights and of their moments are one such fusion.
    """
    called = fusion.called_computations[:1] if fusion.opcode == opcodes.FUSION else ()
    if not called or number >= len(called[0].parameters):
        return False
    users, waiting = users_of(called[0]), [called[0].parameters[number]]
    visited = set(waiting)
    while waiting:
        read = waiting.pop()
        for user in users.get(read, ()):
            # Whether a nested fusion reads at the same index is not followed.
            if user.opcode == opcodes.FUSION:
                return False
            is_tuple = user.opcode == opcodes.TUPLE and user is called[0].root
            if not is_tuple and not is_elementwise_on(user, user.operands.index(read)):
                return False
            if user not in visited:
                visited.add(user)
                waiting.append(user)
    return True


def _paired(
    arguments: Sequence[Argument], results: Sequence[Result], donated: Collection[_Leaf]
) -> dict[ShapeIndex, _Leaf]:
    """Returns the donated argument of each result: the first of those left with its type and dimensions."""
    queues: dict[_Kind, deque[_Leaf]] = defaultdict(deque)
    for argument in arguments:
        if (leaf := (argument.number, argument.index)) in donated:
            queues[_kind(argument.shape)].append(leaf)
    paired: dict[ShapeIndex, _Leaf] = {}
    for result in results:
        queue = queues.get(_kind(result.shape))
        if queue:
            paired[result.index] = queue.popleft()
    return paired


def _kind(shape: ArrayShape) -> _Kind:
    """Returns what jax compares: the type and the dimensions."""
    return shape.element_type.name, shape.dimensions


# --- arguments donated together ---


_MAX_SINGLE_DONORS = 4  # each takes a scenario; the largest are the ones to find
_MAX_TRIED_DONORS = 64  # pairing is linear in all arguments for each donor; chosen, not measured
_MIN_DONOR_SHARE = 0.01
"""Share of the peak below which the arrays of a donor do not matter."""


def certain_sets(
    donations: Donations, donors: Sequence[Donor], scenarios: MemoryScenarios, peak_bytes: int, *, is_strict: bool
) -> Iterator[tuple[Donor, ...]]:
    """Yields sets of donors whose pairs are all certain: the largest one first, then single donors.

    If `is_strict`, no pair may need a copy.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.analysis.memory.donation import donors_of
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[64] parameter(0)  b = f32[64] parameter(1)
    ...   n = f32[64] negate(b)  s = f32[64] sine(a)  ROOT t = (f32[64], f32[64]) tuple(n, s) }'''
    >>> scenarios = MemoryScenarios(memory_analysis(parse_module(text)))
    >>> sets = certain_sets(Donations(scenarios), donors_of(scenarios.facts), scenarios, 1024, is_strict=False)
    >>> [[donor.name for donor in each] for each in sets]
    [['b']]
    """

    def is_sure(pair: DonationPair) -> bool:
        return pair.kind == "free" or (pair.kind in ("copied", "fetched") and not is_strict)

    donated = tuple(donors)
    while donated:
        pairs = donations.pairs(donated)
        uncertain = {pair.argument for pair in pairs if not is_sure(pair)}
        paired = _paired_bytes(pairs, scenarios)
        large = {d for d in donated if sum(paired[each] for each in set(d.arguments)) >= _MIN_DONOR_SHARE * peak_bytes}
        remaining = tuple(d for d in donated if d in large and not uncertain.intersection(d.arguments))
        # Without some donors, others pair with results that were taken: the set is tried again.
        if remaining == donated:
            yield donated
            break
        donated = remaining
    singles = [(donor, donations.pairs([donor])) for donor in donors[:_MAX_TRIED_DONORS]]
    sure = [(d, pairs) for d, pairs in singles if (d,) != donated and pairs and all(map(is_sure, pairs))]
    sure.sort(key=lambda each: -sum(_paired_bytes(each[1], scenarios).values()))
    yield from ((donor,) for donor, _ in sure[:_MAX_SINGLE_DONORS])


def _paired_bytes(pairs: Sequence[DonationPair], scenarios: MemoryScenarios) -> Counter[Argument]:
    """Returns the bytes of each argument that is in a pair; a pair is hashed once, not once for each donor."""
    bytes_of: Counter[Argument] = Counter()
    for pair in pairs:
        bytes_of[pair.argument] += scenarios.bytes_of(pair.argument.place)
    return bytes_of
