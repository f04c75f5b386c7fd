"""Identity of a finding's location that survives renaming and reordering.

It matches findings of different dumps of a program, and of its proto and its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.dataflow.executions import contexts_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, ASYNCHRONOUS

_LONGEST_CHAIN: Final = 100


def structure_of(module: Module, at: Instruction) -> Iterator[str]:
    """Opcode, shape, and op_name of an instruction, and those of operands and callees.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m.7  ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
    >>> list(structure_of(module, module.entry.root))
    ['m', 'negate f32[2]{0}', '', 'parameter f32[2]{0}']
    """
    yield module.name.rstrip(".0123456789")
    yield from _of_instruction(at)
    yield (start_around(module, at) or at).metadata.op_name
    yield from (line for operand in at.operands for line in _of_instruction(operand))
    for called in _called(at):
        yield from _of_computation(called)


def start_around(module: Module, instruction: Instruction) -> Instruction | None:
    """The async-start that wraps an instruction; None if it is not wrapped.

    A wrapped instruction does not keep its metadata: XLA's parser overwrites it with that of the start, the updates,
    and the done (`ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc), and so does a conversion from text to proto.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  w { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }"
    >>> text += " ENTRY e { p = f32[2] parameter(0)  s = ((f32[2]), f32[2], u32[]) async-start(p), calls=w"
    >>> module = parse_module(text + " ROOT d = f32[2] async-done(s) }")
    >>> start_around(module, module.computation("w").root), start_around(module, module.entry.root)
    (<async-start s>, None)
    """
    callers = contexts_of(module).callers.get(instruction.computation, ())
    return next((caller for caller in callers if _wrapped(caller) is instruction), None)


def _of_instruction(instruction: Instruction) -> Iterator[str]:
    yield f"{_opcode(instruction)} {instruction.shape}"


def _opcode(instruction: Instruction) -> str:
    """The opcode; for the generic form of an asynchronous operation, the only one in protos, that of the short form."""
    wrapped = _wrapped(instruction)
    return instruction.opcode if wrapped is None else wrapped.opcode + instruction.opcode.removeprefix("async")


def _called(instruction: Instruction) -> tuple[Computation, ...]:
    """The computations that an instruction calls, without a wrapper that only the generic form has."""
    if (wrapped := _wrapped(instruction)) is None:
        return instruction.called_computations
    return wrapped.called_computations if instruction.opcode == opcodes.ASYNC_START else ()


def _wrapped(instruction: Instruction) -> Instruction | None:
    """The only operation in the computation of an async-start, for its start, updates, and done; None for others."""
    if instruction.opcode not in ASYNCHRONOUS:
        return None
    start = instruction
    for _ in range(_LONGEST_CHAIN):
        if start.opcode not in ASYNC_CONTINUATIONS or not start.operands:
            break
        start = start.operands[0]
    called = start.called_computations[0] if start.opcode == opcodes.ASYNC_START and start.called_computations else None
    if called is None or called.root is None or len(called.instructions) != len(called.parameters) + 1:
        return None
    return called.root if called.root.opcode != opcodes.PARAMETER else None


def _of_computation(computation: Computation) -> Iterator[str]:
    yield str(len(computation.instructions))
    if computation.root is not None:
        yield from _of_instruction(computation.root)
