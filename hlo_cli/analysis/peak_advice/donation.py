"""Donation: which results the memory of an argument could hold, if callers gave it up.

jax pairs donated arguments with results of equal shape and type, both in their order, as `_set_up_aliases` of
jax/_src/interpreters/mlir.py does. A pair saves memory if the argument is no longer read when the result is made;
otherwise XLA keeps a copy (xla/service/copy_insertion.cc).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from hlo_cli.analysis.dataflow.dependencies import is_elementwise_on, users_of
from hlo_cli.analysis.dataflow.flat_schedule import subshapes_of
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.peak_advice.entry_order import EntryOrder
from hlo_cli.analysis.peak_advice.interface import Argument, Result, arguments_of, results_of
from hlo_cli.analysis.peak_advice.scenario import MemoryScenarios
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Alias
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.shape import ArrayShape, ShapeIndex

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


@dataclass(frozen=True, slots=True)
class Donor:
    """An argument of the user's function with all of its arrays, none of which is donated yet."""

    name: str
    arguments: tuple[Argument, ...]


def donors_of(facts: OrderIndependentFacts) -> tuple[Donor, ...]:
    """Returns the arguments of the user's function of which no array is donated.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
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
        groups.setdefault(argument.root_name or argument.label, []).append(argument)
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
    given: Counter[_Kind] = Counter()
    aliased = {alias.output_index for alias in memory.module.input_output_alias}
    root = memory.module.entry.root
    parts = subshapes_of(root.shape) if root is not None else None
    for index, shape in zip(parts.indices, parts.shapes, strict=True) if parts is not None else ():
        if isinstance(shape, ArrayShape) and index not in aliased:
            results[_kind(shape)] += 1
    for value in space.values if space is not None else ():
        if value.kind == "argument" and isinstance(value.shape, ArrayShape):
            given[_kind(value.shape)] += 1
            bytes_of[_kind(value.shape)] = value.padded_bytes
    return sum(min(count, results[kind]) * bytes_of[kind] for kind, count in given.items())


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
        if argument.shape != result.shape or self._uses[result.value] > 1:
            return unknown
        of_argument, of_result = self._members(argument.place), self._members(result.value)
        if of_argument == of_result or any(map(self._is_fixed, of_result)) or self._has_others(argument, of_argument):
            return unknown
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
        place = copied_place(instruction, self._facts)
        return place is not None and self._owner(place).opcode == opcodes.PARAMETER

    def _has_others(self, argument: Argument, members: tuple[int, ...]) -> bool:
        """Returns whether something other than loops that only read it shares the memory of an argument."""
        return any(value != argument.place and self._is_fixed(value) for value in members)

    def _copied(self, value: int) -> int | None:
        return copied_place(self._owner(value), self._facts)

    def _overlaps(self, value: int, other: int) -> bool:
        ranges = self._interference.ranges
        if value not in ranges.start or other not in ranges.start:
            return False
        # hlo_dataflow_analysis.cc, CanShareOperandBufferWithUser: a sort may overwrite an operand without other users,
        # but copies of arguments that are still to be removed are such users.
        if ranges.end[value] == ranges.start[other] and self._owner(other).opcode == opcodes.SORT:
            return True
        return self._interference.interferes(value, other)


def copied_place(instruction: Instruction, facts: OrderIndependentFacts) -> int | None:
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
    seen = set(waiting)
    while waiting:
        read = waiting.pop()
        for user in users.get(read, ()):
            if user.opcode == opcodes.FUSION:
                return False
            is_tuple = user.opcode == opcodes.TUPLE and user is called[0].root
            if not is_tuple and not is_elementwise_on(user, user.operands.index(read)):
                return False
            if user not in seen:
                seen.add(user)
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
    found: dict[ShapeIndex, _Leaf] = {}
    for result in results:
        queue = queues.get(_kind(result.shape))
        if queue:
            found[result.index] = queue.popleft()
    return found


def _kind(shape: ArrayShape) -> _Kind:
    """Returns what jax compares: the type and the dimensions."""
    return shape.element_type.name, shape.dimensions
