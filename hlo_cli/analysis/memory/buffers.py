"""Buffers: alias sets with size, memory space, and kind.

Mirrors `HloBuffer` of xla/service/hlo_buffer.h and the coloring of xla/service/buffer_assignment.cc. On TPU and GPU,
the layout of an array in the buffer gives its memory space; tuple tables and all CPU buffers are in main memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hlo_cli.analysis.dataflow.alias_sets import AliasSets
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.buffer_sizes import buffer_bytes
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, TupleShape

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.interference import Interference


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
    places = dataflow.places
    depth = {called: n for n, called in enumerate(_callers_first(module, places.contexts.context_of))}

    def position(value: int) -> tuple[int, int]:
        """Returns the sort key of a value: index of its computation, then post-order position."""
        number = places.owner[value]
        definer = places.instructions[number]
        if definer in depth and value != places.first[number] and places.index(value)[0] == 1:
            return depth[definer], 0
        return depth.get(definer.computation, len(depth)), dataflow.position[number]

    keys = [(-b.size, not b.is_live_out, min(map(position, b.values))) for b in buffers]
    return sorted(range(len(buffers)), key=keys.__getitem__)


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
