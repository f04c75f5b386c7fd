"""Fusions: what their bodies calculate, and the bytes that go in and out; what stays inside is never in memory.

Mirrors `HandleFusion`, `FusionProcessOutputBytesAccessed`, `FusionCountConstantsMemoryAccess` and
`FusionParameterReadBytes` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, OPTIMAL_SECONDS, Figures, Number, operand_key, output_key, utilization_key
from hlo_cli.analysis.cost.counting import CostCounter
from hlo_cli.analysis.cost.slices import gather, scatter
from hlo_cli.analysis.cost.tpu_slices import gather_in_tiles, scatter_in_tiles
from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import BLOCK_MOVES
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape

_SLICING: Final = BLOCK_MOVES - {opcodes.COPY}
_MOVES: Final = {opcodes.GATHER: (gather, gather_in_tiles), opcodes.SCATTER: (scatter, scatter_in_tiles)}


def fusion(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """The body's flops; bytes are the arrays of the result, larger constants, and what is read of each parameter.

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
    if (instruction.attribute("kind") or "") == "kCustom" and _moves_slices(body, figures, count):
        return
    figures.clear()
    figures |= count.totals.get(body, {})
    figures[OPTIMAL_SECONDS] = 0
    terms = _written(instruction.shape, body, figures, count)
    constants = (count.value(i) for i in body.instructions if i.opcode == opcodes.CONSTANT)
    terms += [constant.bytes for constant in constants if constant.elements > 1]
    terms += _read(body, figures, count)
    figures[BYTES] = count.sum(terms)


def _moves_slices(body: Computation, figures: Figures, count: CostCounter) -> bool:
    """Count a fusion by its first gather or scatter, if it has one."""
    for inner in body.instructions:
        if inner.opcode in _MOVES:
            handler, in_tiles = _MOVES[inner.opcode]
            handler(inner, figures, count)
            if count.rules.padded:
                in_tiles(inner, figures, count)
            return True
    return False


def _written(shape: Shape, body: Computation, figures: Figures, count: CostCounter) -> list[Number]:
    """The bytes of every array of the result; of one that is updated in place, those of the update."""
    written: list[Number] = []
    for index, leaf in shape.leaves:
        if isinstance(leaf, ArrayShape):
            made = _maker(body, index)
            in_place = made is not None and made.opcode == opcodes.DYNAMIC_UPDATE_SLICE
            size = count.operand(made, 1).bytes if in_place and made is not None else count.measure(leaf).bytes
            figures[output_key(index)] = size
            written.append(size)
    if isinstance(shape, TupleShape):
        figures[output_key(())] = 0
        _add_up(shape, (), figures, count)
    return written


def _maker(body: Computation, index: ShapeIndex) -> Instruction | None:
    """The instruction that makes a result: the root, or for an element of a tuple the root's operand."""
    root = body.root
    if root is not None and len(index) == 1 and root.opcode == opcodes.TUPLE and index[0] < len(root.operands):
        return root.operands[index[0]]
    return root


def _add_up(shape: TupleShape, index: ShapeIndex, figures: Figures, count: CostCounter) -> Number:
    """The bytes of a tuple's elements together, which stand under its own index too.

    A nested tuple that the body has a figure for, under the same index, keeps that.
    """
    name = output_key(index)
    if not figures.get(name):
        parts = [
            _add_up(element, (*index, i), figures, count)
            if isinstance(element, TupleShape)
            else figures.get(output_key((*index, i)), 0)
            for i, element in enumerate(shape.elements)
        ]
        figures[name] = count.sum(parts)
    return figures[name]


def _read(body: Computation, figures: Figures, count: CostCounter) -> list[Number]:
    """The bytes that are read of each parameter, and of each element of one that is a tuple."""
    users = users_of(body)
    read: list[Number] = []
    for number, parameter in enumerate(body.parameters):
        size = count.reads[parameter] = _bytes_read(parameter, users, count)
        if isinstance(parameter.shape, TupleShape):
            size = 0
            for index, _ in parameter.shape.leaves:
                taken = _bytes_read(_element(parameter, index, users), users, count)
                figures[operand_key(number, index)] = taken
                size += taken
        figures[operand_key(number)] = size
        figures[utilization_key(number)] = 1
        read.append(size)
    return read


def _element(parameter: Instruction, index: ShapeIndex, users: Users) -> Instruction:
    """The instruction that takes an element of a tuple; what is nearest to it if none does."""
    found = parameter
    for step in index:
        taking = (u for u in users[found] if u.opcode == opcodes.GET_TUPLE_ELEMENT and u.integer("index") == step)
        found = next(taking, found)
    return found


def _bytes_read(value: Instruction, users: Users, count: CostCounter) -> int:
    """What the users of a value read of it: slices read what they take, most others share one reading of it all."""
    whole = count.measure(value.shape).bytes
    size, shared = 0, False
    for user in users[value]:
        match user.opcode:
            case opcodes.FUSION:
                size += sum(
                    _bytes_read_inside(user, number, users, count)
                    for number, operand in enumerate(user.operands)
                    if operand is value
                )
            case opcodes.BROADCAST | opcodes.RESHAPE:
                size += whole
            case _:
                taken = _taken(value, user, count)
                if taken is not None:
                    size += taken
                elif not shared:
                    shared, size = True, size + whole
    return size


def _bytes_read_inside(inner: Instruction, number: int, users: Users, count: CostCounter) -> int:
    """What is read through an operand of a fusion within a fusion: for its users that slice, only what they take.

    That holds where the operand goes straight to the inner root.
    """
    body = inner.called_computations[0] if inner.called_computations else None
    if body is None or body.root is None or number >= len(body.parameters):
        return 0
    parameter, root = body.parameters[number], body.root
    is_simple = not root.operands or root.operands[0] is parameter
    size, shared = 0, False
    for user in users[inner]:
        slices = is_simple and user.opcode in _SLICING
        taken = _taken(inner, user, count) if slices else None
        if taken is not None:
            size += taken
        elif not shared:
            whole = count.measure(inner.shape).bytes if slices else count.reads.get(parameter, 0)
            shared, size = True, size + whole
    return size


def _taken(value: Instruction, user: Instruction, count: CostCounter) -> int | None:
    """How much of a value is read by a user that takes a part of it; None if it reads all."""
    if user.opcode == opcodes.SLICE:
        return count.measure(user.shape).bytes
    if user.opcode in (opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE) and user.operands[0] is value:
        return count.measure(user.shape).bytes if user.opcode == opcodes.DYNAMIC_SLICE else 0
    return None
