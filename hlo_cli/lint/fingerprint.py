"""Fingerprints: by what a finding is known again when instructions have other names, numbers and lines."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, ASYNCHRONOUS
from hlo_cli.lint.run import Found

_LENGTH: Final = 16
_LONGEST_CHAIN: Final = 100


def fingerprint(found: Found) -> str:
    """The rule, and the structure of what it is about: opcode, shape, op_name, and those of operands and callees.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.run import lint_module
    >>> text = "ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[3] negate(p) }"
    >>> [first], [second] = lint_module(parse_module(text)), lint_module(parse_module(text.replace("n =", "other.7 =")))
    >>> fingerprint(first) == fingerprint(second)
    True
    """
    parts = "\n".join((found.rule.code, found.finding.subject, *_structure(found)))
    return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _structure(found: Found) -> Iterator[str]:
    match found.finding.at:
        case Instruction() as instruction:
            yield found.module.name.rstrip(".0123456789")
            yield from _of_instruction(instruction)
            yield instruction.metadata.op_name
            yield from (line for operand in instruction.operands for line in _of_instruction(operand))
            for called in _called(instruction):
                yield from _of_computation(called)
        case Computation() as computation:
            yield from _of_computation(computation)


def _of_instruction(instruction: Instruction) -> Iterator[str]:
    yield f"{_opcode(instruction)} {instruction.shape}"


def _opcode(instruction: Instruction) -> str:
    """The opcode; of the generic spelling of an asynchronous operation, which alone protos know, the short one."""
    wrapped = _wrapped(instruction)
    return instruction.opcode if wrapped is None else wrapped.opcode + instruction.opcode.removeprefix("async")


def _called(instruction: Instruction) -> tuple[Computation, ...]:
    """What an instruction runs, without a computation that is there for the generic spelling alone."""
    if (wrapped := _wrapped(instruction)) is None:
        return instruction.called_computations
    return wrapped.called_computations if instruction.opcode == opcodes.ASYNC_START else ()


def _wrapped(instruction: Instruction) -> Instruction | None:
    """The only operation of what an async-start runs, for it and for what goes on with it; None of all others."""
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
