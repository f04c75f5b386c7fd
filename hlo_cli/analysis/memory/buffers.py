"""Buffers: alias sets with size, memory space, and kind.

Mirrors `HloBuffer` of xla/service/hlo_buffer.h and the coloring of xla/service/buffer_assignment.cc. On TPU and GPU,
the layout of an array in the buffer gives its memory space; tuple tables and all CPU buffers are in main memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.value_sets import AliasSets, Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.layout.padding import buffer_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, TupleShape

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.interference import Interference

_LAST: Final = 2**63
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
    found: list[Buffer] = []
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
        found.append(Buffer(values, size, space, parameter, is_constant, is_tuple, name in result, is_local))
    return tuple(found)


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
        return value if omits_computation(instruction) else instruction.computation

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
            ranks[0].get(each, _LAST) < ranks[1].get(each, _LAST)
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
            found, waiting = {computation}, [computation]
            while waiting:
                callers = self._dataflow.places.contexts.callers.get(waiting.pop(), ())
                more = {caller.computation for caller in callers} - found
                found |= more
                waiting.extend(more)
            self._above[computation] = found
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
    order, found, start = ValueOrder(dataflow), set[int](), interference.ranges.start
    # The order decides which buffers get the memory of results, and how tuple tables lie; all others go to the heap.
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
            found.add(buffers[numbers[0]].space)
    return found


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
            order.extend(i for i in computation.instructions if omits_computation(i))
            order.append(computation)
    return order[::-1]


def omits_computation(instruction: Instruction) -> bool:
    """Returns whether an instruction is an async start in the short form, which has no computation in the text.

    >>> from hlo_cli import parse_module
    >>> omits_computation(parse_module("r = f32[2] negate(f32[2] p)").entry.root)
    False
    """
    return instruction.opcode.endswith("-start") and wrapped_opcode(instruction.opcode) is not None
