"""Asynchronous operations: they run at their start, or with the update that brings the last operand; done unpacks.

Mirrors `HandleAsyncStart`, `HandleAsyncUpdate`, and `HandleAsyncDone` of xla/hlo/evaluator/hlo_evaluator.cc, and the
sugar of xla/hlo/parser/hlo_parser.cc: `slice-start` is an async-start of a computation with one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import OPCODE_ARITY, wrapped_opcode
from hlo_cli.ir.shape import TupleShape
from hlo_cli.source import HloError


def async_start(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the wrapped computation, if all of its operands are there."""
    return _starting(*_wrapped_computation(instruction, computed))


def async_update(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the wrapped computation with operands that come late; else passes on."""
    return _updating(*_wrapped_computation(start_of(instruction), computed))


def async_done(instruction: Instruction, computed: Computed) -> Kernel:
    """The result."""
    return lambda started: started[1]


def sugared(instruction: Instruction, rule: Rule) -> Rule:
    """The rule of a sugared asynchronous operation, such as slice-start, by the rule of the operation in it."""
    if instruction.opcode.endswith("-done"):
        return async_done
    begins = instruction.opcode.endswith("-start")

    def made(instruction: Instruction, computed: Computed) -> Kernel:
        start = instruction if begins else start_of(instruction)
        opcode = wrapped_opcode(start.opcode)
        assert opcode is not None
        kernel = rule(_operation_in(start, opcode), computed)
        least = max(OPCODE_ARITY[opcode] or 0, len(start.operands))
        return (_starting if begins else _updating)(lambda operands: kernel(*operands), least)

    return made


def start_of(instruction: Instruction) -> Instruction:
    """The start that an update belongs to; HloError if it is passed on by another instruction."""
    start = instruction
    while start.opcode.endswith("-update") and start.operands:
        start = start.operands[0]
    if start.opcode.endswith("-start"):
        return start
    raise HloError(f"cannot evaluate {instruction.name}: no start found for it", instruction.span)


def _wrapped_computation(start: Instruction, computed: Computed) -> tuple[Callable[[Sequence[Value]], Value], int]:
    computation = start.called_computations[0]
    return computed.function(computation), len(computation.parameters)


def _starting(function: Callable[[Sequence[Value]], Value], count: int) -> Kernel:
    """The operands, and the result if all `count` of them are there."""
    return lambda *operands: (operands, function(operands) if len(operands) >= count else None)


def _updating(function: Callable[[Sequence[Value]], Value], count: int) -> Kernel:
    def kernel(started: Value, *more: Value) -> Value:
        assert isinstance(started, tuple)
        given = started[0]
        assert isinstance(given, tuple)
        if not more:
            return started
        operands: Sequence[Value] = (*given, *more)
        return (tuple(operands), function(operands) if len(operands) >= count else None)

    return kernel


def _operation_in(start: Instruction, opcode: str) -> Instruction:
    """The operation that a sugared start stands for."""
    shape = start.shape
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        raise HloError(f"{start.opcode} {start.name} has no tuple of operands and results", start.span)
    inner = Instruction(
        start.name, shape.elements[1], opcode, start.operands, start.computation, start.index, start.text
    )
    inner.called_computations = start.called_computations
    return inner


HANDLERS: Final[dict[str, Rule]] = {
    "async-done": async_done,
    "async-start": async_start,
    "async-update": async_update,
}
"""The rule of each asynchronous operation that is not sugared."""
