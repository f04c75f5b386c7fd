"""What a module does, each thing once: an asynchronous operation is one, however it is spelled.

`all-gather`, `all-gather-start` with its done, `async-start` that calls an all-gather, and a fusion that starts one
are all an operation with the opcode all-gather, where it begins, with the shape of what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache
from typing import Final

from hlo_cli.analysis.query.where import Fields, FieldValue, Reader
from hlo_cli.analysis.query.where_fields import fields_of
from hlo_cli.analysis.query.where_opcodes import check_operation_opcode
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES

_OF_PERFORMED: Final = ("flops", "transcendentals", "intensity", "called_computations", "product")
"""Fields that the instruction tells which says what is done; all others are those of where it begins."""


@dataclass(frozen=True, slots=True)
class LogicalOperation:
    """Something a module does: `instruction` is where it begins, `performed` says what it does, `result` has its shape.

    All three are one instruction unless it is asynchronous.
    """

    instruction: Instruction
    performed: Instruction
    result: Instruction
    opcode: str
    is_async: bool = False


def operations_of(module: Module) -> tuple[LogicalOperation, ...]:
    """The operations of a module, in the order of its text.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[16]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[16] all-gather-done(s) }'''
    >>> [(each.opcode, str(each.result.shape)) for each in operations_of(parse_module(text))]
    [('parameter', 'f32[4]{0}'), ('all-gather', 'f32[16]{0}')]
    """
    starts = {pair.start: pair for pair in async_pairs(module).pairs}
    ends = {end for pair in starts.values() for end in _ends(pair)}
    inside = {computation for pair in starts.values() for computation in _wrappers(pair)}
    collective = {each for pair in starts.values() for each in _fused_collectives(pair)}
    return tuple(
        _operation(instruction, starts.get(instruction))
        for computation in module.computations
        if computation not in inside
        for instruction in computation.instructions
        if instruction not in ends and instruction not in collective
    )


def operation_fields(module: Module, attributes: Collection[str] = ()) -> Fields[LogicalOperation]:
    """What can be asked of operations: what can be asked of instructions, `async`, `exposed` and `fusion`.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[2] copy(f32[2] p)")
    >>> fields = operation_fields(module)
    >>> [fields.readers["async"].read(each) for each in operations_of(module)][-1]
    False
    """

    def by(instruction_of: Callable[[LogicalOperation], Instruction]) -> Fields[LogicalOperation]:
        return fields_of(module, attributes, instruction_of, lambda each: each.result.shape)

    @cache
    def exposed() -> frozenset[Instruction]:
        overlap = analyze_overlap(module)
        waited_for = (flight.pair.start for flight in overlap.intervals if flight.is_exposed)
        return frozenset((*waited_for, *overlap.synchronous))

    begun, performed, ended = by(lambda each: each.instruction), by(lambda each: each.performed), by(_result)
    own: dict[str, Reader[LogicalOperation]] = {
        "opcode": Reader("text", lambda each: each.opcode, check_operation_opcode),
        "async": Reader("flag", lambda each: each.is_async),
        "exposed": Reader("flag", lambda each: each.instruction in exposed()),
        "fusion": Reader("names", _names_of_fusion),
        "op_name": Reader("text", lambda each: _op_name(each.instruction) or _op_name(each.performed)),
        "users": ended.readers["users"],
        "is_root": ended.readers["is_root"],
        "bytes": Reader("bytes", lambda each: _bytes(each, performed.readers["bytes"])),
    }
    told = {name: performed.readers[name] for name in _OF_PERFORMED}
    return replace(
        begun,
        readers={**begun.readers, **told, **own},
        places={**begun.places, "attributes": performed.places["attributes"]},
        attribute=performed.attribute,
    )


def _operation(instruction: Instruction, pair: AsyncPair | None) -> LogicalOperation:
    if pair is None:
        return LogicalOperation(instruction, instruction, instruction, instruction.opcode)
    result = pair.dones[0] if pair.dones else instruction
    if pair.spelling == "generic" and not _wrappers(pair):
        return LogicalOperation(instruction, instruction, result, instruction.opcode, is_async=True)
    return LogicalOperation(instruction, pair.wrapped or instruction, result, pair.operation, is_async=True)


def _ends(pair: AsyncPair) -> Iterator[Instruction]:
    """What goes on with an operation and what waits for it; fusions that share in it do work of their own."""
    yield from (update for update in pair.updates if update.opcode != opcodes.FUSION)
    yield from pair.dones


def _wrappers(pair: AsyncPair) -> tuple[Computation, ...]:
    """The computation of a generic operation, if there is nothing in it but the operation itself."""
    computation = pair.computation if pair.spelling == "generic" else None
    if computation is None or len(computation.instructions) != len(computation.parameters) + 1:
        return ()
    return (computation,)


def _fused_collectives(pair: AsyncPair) -> Iterator[Instruction]:
    """The collective in the fusions that start a fused one, share in it and wait for it."""
    for member in pair.members if pair.is_fused else ():
        for computation in member.called_computations:
            yield from (each for each in computation.instructions if each.opcode in COLLECTIVES)


def _result(operation: LogicalOperation) -> Instruction:
    return operation.result


def _op_name(instruction: Instruction) -> str | None:
    return instruction.metadata.op_name or None


def _names_of_fusion(operation: LogicalOperation) -> FieldValue:
    """What a fusion may be known by: its name, its op_name, and those of what is fused in it."""
    fusion = operation.instruction
    if operation.opcode != opcodes.FUSION:
        return None
    names = [fusion.name, fusion.metadata.op_name]
    for called in fusion.called_computations:
        names += [called.name, *(each.metadata.op_name for each in called.instructions)]
    return tuple(dict.fromkeys(name for name in names if name))


def _bytes(operation: LogicalOperation, cost: Reader[LogicalOperation]) -> FieldValue:
    """The bytes it moves: what XLA says of the synchronous spelling, which of a start alone it does not."""
    if not operation.is_async or operation.performed is not operation.instruction:
        return cost.read(operation)
    shapes = [operand.shape for operand in operation.instruction.operands]
    return sum(shape.logical_bytes for shape in (*shapes, operation.result.shape))
