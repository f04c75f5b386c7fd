"""Cost of fusions: the flops of the body, and the bytes of operands and results; values inside are never in memory.

Mirrors `HandleFusion`, `FusionProcessOutputBytesAccessed`, `FusionCountConstantsMemoryAccess`, and
`FusionParameterReadBytes` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import (
    BYTES,
    OPTIMAL_SECONDS,
    Number,
    Properties,
    operand_key,
    output_key,
    utilization_key,
)
from hlo_cli.analysis.cost.counting import CostCounter, Handler
from hlo_cli.analysis.cost.slices import gather, scatter
from hlo_cli.analysis.cost.tpu_slices import gather_in_tiles, scatter_in_tiles
from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import BLOCK_MOVES
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape

_SLICING: Final = BLOCK_MOVES - {opcodes.COPY}
_SLICING_HANDLERS: Final = {opcodes.GATHER: (gather, gather_in_tiles), opcodes.SCATTER: (scatter, scatter_in_tiles)}


def fusion(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the flops of the body, and the bytes of result arrays, non-scalar constants, and reads of parameters.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''f { p = f32[100] parameter(0)  s = f32[10] slice(p), slice={[0:10]}  ROOT n = f32[10] negate(s) }
    ... ENTRY e { a = f32[100] parameter(0)  ROOT r = f32[10] fusion(a), kind=kLoop, calls=f }'''
    >>> cost = cost_of(parse_module(text).entry.root)
    >>> cost.flops, cost.bytes_accessed, cost.operand_bytes(0)
    (10, 80, 40)
    """
    if not instruction.called_computations or instruction.called_computations[0].root is None:
        return
    body = instruction.called_computations[0]
    # Most fusions are not custom: their attributes need not be split.
    is_custom = "kCustom" in instruction.raw[1] and instruction.attribute("kind") == "kCustom"
    if is_custom and _count_as_slices(body, properties, counter):
        return
    properties.clear()
    properties |= counter.totals.get(body, {})
    properties[OPTIMAL_SECONDS] = 0
    terms = _written(instruction.shape, body, properties, counter)
    constants = (counter.value(i) for i in body.instructions if i.opcode == opcodes.CONSTANT)
    terms += [constant.bytes for constant in constants if constant.elements > 1]
    terms += _read(body, properties, counter)
    properties[BYTES] = counter.sum(terms)


def _count_as_slices(body: Computation, properties: Properties, counter: CostCounter) -> bool:
    """Counts a custom fusion as its first gather or scatter; whether it has one."""
    for inner in body.instructions:
        if inner.opcode in _SLICING_HANDLERS:
            handler, in_tiles = _SLICING_HANDLERS[inner.opcode]
            handler(inner, properties, counter)
            if counter.rules.padded:
                in_tiles(inner, properties, counter)
            return True
    return False


def _written(shape: Shape, body: Computation, properties: Properties, counter: CostCounter) -> list[Number]:
    """Bytes written for each result array; of a dynamic-update-slice, only those of the update."""
    written: list[Number] = []
    for index, leaf in shape.leaves:
        if isinstance(leaf, ArrayShape):
            made = _producer(body, index)
            in_place = made is not None and made.opcode == opcodes.DYNAMIC_UPDATE_SLICE
            size = counter.operand(made, 1).bytes if in_place and made is not None else counter.measure(leaf).bytes
            properties[output_key(index)] = size
            written.append(size)
    if isinstance(shape, TupleShape):
        properties[output_key(())] = 0
        _sum_of_elements(shape, (), properties, counter)
    return written


def _producer(body: Computation, index: ShapeIndex) -> Instruction | None:
    """Instruction that computes a result: the root, or an operand of a root tuple."""
    root = body.root
    if root is not None and len(index) == 1 and root.opcode == opcodes.TUPLE and index[0] < len(root.operands):
        return root.operands[index[0]]
    return root


def _sum_of_elements(shape: TupleShape, index: ShapeIndex, properties: Properties, counter: CostCounter) -> Number:
    """Sum of the bytes of a tuple's elements, stored under the tuple's index.

    A value that the body already has under this index is kept.
    """
    name = output_key(index)
    if not properties.get(name):
        parts = [
            _sum_of_elements(element, (*index, i), properties, counter)
            if isinstance(element, TupleShape)
            else properties.get(output_key((*index, i)), 0)
            for i, element in enumerate(shape.elements)
        ]
        properties[name] = counter.sum(parts)
    return properties[name]


def _read(body: Computation, properties: Properties, counter: CostCounter) -> list[Number]:
    """Bytes read from each parameter, and from each leaf of a tuple parameter."""
    users = users_of(body)
    read: list[Number] = []
    for number, parameter in enumerate(body.parameters):
        size = counter.reads[parameter] = _bytes_read(parameter, users, counter)
        if isinstance(parameter.shape, TupleShape):
            size = 0
            for index, _ in parameter.shape.leaves:
                taken = _bytes_read(_element(parameter, index, users), users, counter)
                properties[operand_key(number, index)] = taken
                size += taken
        properties[operand_key(number)] = size
        properties[utilization_key(number)] = 1
        read.append(size)
    return read


def _element(parameter: Instruction, index: ShapeIndex, users: Users) -> Instruction:
    """get-tuple-element for a tuple element; if there is none, its closest existing parent."""
    found = parameter
    for step in index:
        taking = (u for u in users[found] if u.opcode == opcodes.GET_TUPLE_ELEMENT and u.integer("index") == step)
        found = next(taking, found)
    return found


def _bytes_read(value: Instruction, users: Users, counter: CostCounter) -> int:
    """Bytes that users read from a value: slices read a part; most others share one read of the whole value."""
    whole = counter.measure(value.shape).bytes
    size, shared = 0, False
    for user in users[value]:
        match user.opcode:
            case opcodes.FUSION:
                size += sum(
                    _bytes_read_inside(user, number, users, counter)
                    for number, operand in enumerate(user.operands)
                    if operand is value
                )
            case opcodes.BROADCAST | opcodes.RESHAPE:
                size += whole
            case _:
                taken = _bytes_taken(value, user, counter)
                if taken is not None:
                    size += taken
                elif not shared:
                    shared, size = True, size + whole
    return size


def _bytes_read_inside(inner: Instruction, number: int, users: Users, counter: CostCounter) -> int:
    """Bytes read through an operand of a nested fusion; for users that slice the fusion's result, only their slices.

    That applies only if the operand is used directly by the inner root.
    """
    body = inner.called_computations[0] if inner.called_computations else None
    if body is None or body.root is None or number >= len(body.parameters):
        return 0
    parameter, root = body.parameters[number], body.root
    is_simple = not root.operands or root.operands[0] is parameter
    size, shared = 0, False
    for user in users[inner]:
        slices = is_simple and user.opcode in _SLICING
        taken = _bytes_taken(inner, user, counter) if slices else None
        if taken is not None:
            size += taken
        elif not shared:
            whole = counter.measure(inner.shape).bytes if slices else counter.reads.get(parameter, 0)
            shared, size = True, size + whole
    return size


def _bytes_taken(value: Instruction, user: Instruction, counter: CostCounter) -> int | None:
    """Bytes that `user` reads from a part of `value`; None if it reads all of it."""
    if user.opcode == opcodes.SLICE:
        return counter.measure(user.shape).bytes
    if user.opcode in (opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE) and user.operands[0] is value:
        return counter.measure(user.shape).bytes if user.opcode == opcodes.DYNAMIC_SLICE else 0
    return None


HANDLERS: Final[dict[str, Handler]] = {
    "fusion": fusion,
}
"""What counts the cost of each opcode of this family."""
