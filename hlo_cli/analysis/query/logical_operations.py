"""Logical operations of a module: an async operation counts once, in any form.

`all-gather`, `all-gather-start` with its done, `async-start` that calls an all-gather, and a fusion that starts one are
all one operation with opcode all-gather, the position of the start, and the shape of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.query.collective_facts import CollectiveFacts
from hlo_cli.analysis.query.fields import Fields, FieldValue, Reader
from hlo_cli.analysis.query.instruction_facts import ReadFact
from hlo_cli.analysis.query.where_fields import fields_of, instruction_fields
from hlo_cli.analysis.query.where_opcodes import check_operation_opcode
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES

_PERFORMED: Final = ("product", "convolution", "library", "trips")
_FIELDS_OF_PERFORMED: Final = ("flops", "transcendentals", "intensity", "called_computations", *_PERFORMED)
"""Fields read from `performed`; all others are read from `instruction`."""


@dataclass(frozen=True, slots=True)
class LogicalOperation:
    """Operation of a module: where it begins, the instruction that it performs, and the one with its result.

    All three are the same instruction unless the operation is async.
    """

    instruction: Instruction
    performed: Instruction
    result: Instruction
    opcode: str
    is_async: bool = False


def logical_operations(module: Module) -> tuple[LogicalOperation, ...]:
    """Logical operations of a module in the order of the text.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[16]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[16] all-gather-done(s) }'''
    >>> [(each.opcode, str(each.result.shape)) for each in logical_operations(parse_module(text))]
    [('parameter', 'f32[4]{0}'), ('all-gather', 'f32[16]{0}')]
    """
    starts = {pair.start: pair for pair in async_pairs(module).pairs}
    ends = {end for pair in starts.values() for end in _updates_and_dones(pair)}
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
    """Fields of logical operations: those of instructions, `async`, `exposed`, and `fusion`.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[2] copy(f32[2] p)")
    >>> fields = operation_fields(module)
    >>> [fields.readers["async"].read(each) for each in logical_operations(module)][-1]
    False
    """

    def by(instruction_of: Callable[[LogicalOperation], Instruction]) -> Fields[LogicalOperation]:
        return fields_of(module, attributes, instruction_of, lambda each: each.result.shape)

    begun, performed, ended = by(lambda each: each.instruction), by(lambda each: each.performed), by(_result)
    read_kernel = instruction_fields(module).readers["kernel"].read
    own: dict[str, Reader[LogicalOperation]] = {
        "opcode": Reader("text", lambda each: each.opcode, check_operation_opcode),
        "collective": Reader("flag", lambda each: each.opcode in COLLECTIVES),
        "async": Reader("flag", lambda each: each.is_async),
        "fusion": Reader("names", _names_of_fusion),
        "op_name": Reader("text", lambda each: _op_name(each.instruction) or _op_name(each.performed)),
        "kernel": Reader("flag", lambda each: read_kernel(each.instruction) or read_kernel(each.performed)),
        "users": ended.readers["users"],
        "is_root": ended.readers["is_root"],
        "bytes": Reader("bytes", lambda each: _bytes(each, performed.readers["bytes"])),
    }
    for name, (kind, read) in CollectiveFacts(module).own_readers().items():
        own[name] = Reader(kind, _of_performed(read))
    performed_readers = {name: performed.readers[name] for name in _FIELDS_OF_PERFORMED}
    return replace(
        begun,
        readers={**begun.readers, **performed_readers, **own},
        places={**begun.places, "attributes": performed.places["attributes"]},
        attribute=performed.attribute,
    )


def _operation(instruction: Instruction, pair: AsyncPair | None) -> LogicalOperation:
    if pair is None:
        return LogicalOperation(instruction, instruction, instruction, instruction.opcode)
    result = pair.dones[0] if pair.dones else instruction
    if pair.form == "generic" and not _wrappers(pair):
        return LogicalOperation(instruction, instruction, result, instruction.opcode, is_async=True)
    return LogicalOperation(instruction, pair.wrapped or instruction, result, pair.operation, is_async=True)


def _updates_and_dones(pair: AsyncPair) -> Iterator[Instruction]:
    """Updates and dones of a pair, without fusions, which also compute."""
    yield from (update for update in pair.updates if update.opcode != opcodes.FUSION)
    yield from pair.dones


def _wrappers(pair: AsyncPair) -> tuple[Computation, ...]:
    """Computation of a generic async operation, if it contains nothing but the operation."""
    computation = pair.computation if pair.form == "generic" else None
    if computation is None or len(computation.instructions) != len(computation.parameters) + 1:
        return ()
    return (computation,)


def _fused_collectives(pair: AsyncPair) -> Iterator[Instruction]:
    """Collectives in the fusions of an async fused collective: its start, updates, and done."""
    for member in pair.members if pair.is_fused else ():
        for computation in member.called_computations:
            yield from (each for each in computation.instructions if each.opcode in COLLECTIVES)


def _of_performed(read: ReadFact) -> Callable[[LogicalOperation], FieldValue]:
    return lambda operation: read(operation.performed)


def _result(operation: LogicalOperation) -> Instruction:
    return operation.result


def _op_name(instruction: Instruction) -> str | None:
    return instruction.metadata.op_name or None


def _names_of_fusion(operation: LogicalOperation) -> FieldValue:
    """Names by which a fusion can be found: its name and op_name, and those of its fused instructions."""
    fusion = operation.instruction
    if operation.opcode != opcodes.FUSION:
        return None
    names = [fusion.name, fusion.metadata.op_name]
    for called in fusion.called_computations:
        names += [called.name, *(each.metadata.op_name for each in called.instructions)]
    return tuple(dict.fromkeys(name for name in names if name))


def _bytes(operation: LogicalOperation, cost: Reader[LogicalOperation]) -> FieldValue:
    """Bytes accessed by the synchronous form, as XLA's cost analysis does not count a start and its done together."""
    if not operation.is_async or operation.performed is not operation.instruction:
        return cost.read(operation)
    shapes = [operand.shape for operand in operation.instruction.operands]
    return sum(shape.logical_bytes for shape in (*shapes, operation.result.shape))
