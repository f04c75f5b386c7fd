"""Splits the attributes and shapes of a sugared async operation between the start and the wrapped operation.

Mirrors `CreateInstruction` for kAsyncStart and `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.dependencies import Users, reached
from hlo_cli.analysis.shapes.calling import STARTED_LATE
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, attributes_with, wrapped_opcode
from hlo_cli.ir.shape import Shape, TupleShape

THREAD: Final = "async_execution_thread"
START_ATTRIBUTES: Final = attributes_with("of a start")
"""Attributes of a sugared start that stay on the async-start."""
SHARED_ATTRIBUTES: Final = attributes_with("of what is wrapped")
"""Attributes that the wrapped operation shares; the last operation of the chain with one determines its value."""

_EMPTY_TUPLE: Final = TupleShape(())


def is_start(opcode: str) -> bool:
    """Whether a sugared opcode starts an async operation.

    >>> is_start("slice-start"), is_start("slice-done"), is_start("copy-start")
    (True, False, False)
    """
    return opcode.endswith("-start") and wrapped_opcode(opcode) is not None


def chain_of(start: Instruction, users: Users) -> list[Instruction]:
    """Start, updates, and done of an async operation, in the order of the text."""
    found = reached([start], lambda i: [user for user in users[i] if user.operands[0] is i and _continues(user, start)])
    return sorted(found, key=lambda instruction: instruction.index)


def _continues(user: Instruction, start: Instruction) -> bool:
    wrapped = wrapped_opcode(start.opcode)
    if wrapped is None:
        return user.opcode in ASYNC_CONTINUATIONS
    return user.opcode in (f"{wrapped}-update", f"{wrapped}-done")


def shared_attributes(chain: list[Instruction]) -> dict[str, tuple[str, Instruction]]:
    """Shared attributes of the wrapped operation: value, and the operation of the chain that has it."""
    attributes_by_name = {
        attribute.name: (attribute.value, instruction) for instruction in chain for attribute in instruction.attributes
    }
    return {name: attributes_by_name[name] for name in SHARED_ATTRIBUTES if name in attributes_by_name}


def wrapped_shapes(
    start: Shape, opcode: str, called: tuple[Computation, ...]
) -> tuple[tuple[Shape, ...], Shape] | None:
    """Parameter and result shapes of the operation that a start of this shape wraps; None for another shape.

    Operands that are bound after the start are those of the called computation.
    """
    if not isinstance(start, TupleShape) or len(start.elements) < 2 or not isinstance(start.elements[0], TupleShape):
        return None
    bound, result = start.elements[0].elements, start.elements[1]
    if opcode not in STARTED_LATE or not called or called[0].root is None:
        return bound, result
    later = called[0].parameters[len(bound) :]
    return (*bound, *(parameter.shape for parameter in later)), called[0].root.shape if later else result


def late_output(result: Shape, chain: list[Instruction]) -> Shape:
    """Output of a chain whose start has the output `result`: that of the done, if the start's is empty.

    XLA before mid-2026 does not support late outputs, and reads an empty output.

    >>> from hlo_cli import parse_shape
    >>> print(late_output(parse_shape("f32[2]"), []))
    f32[2]{0}
    """
    ends = chain[-1:] if chain[-1:] and chain[-1].opcode.endswith("-done") else []
    return ends[0].shape if result == _EMPTY_TUPLE and ends else result
