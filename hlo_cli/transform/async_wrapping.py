"""Which part of a sugared asynchronous operation belongs to the start, and which to the operation it wraps.

Mirrors `CreateInstruction` for kAsyncStart and `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.users import Users, reached
from hlo_cli.analysis.shapes.asynchronous import STARTED_LATE
from hlo_cli.ir.attribute_traits import attributes_with
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, wrapped_opcode
from hlo_cli.ir.shape import Shape, TupleShape

THREAD: Final = "async_execution_thread"
OF_THE_START: Final = attributes_with("of a start")
"""Attributes of a sugared start that stay on it."""
OF_BOTH: Final = attributes_with("of what is wrapped")
"""Attributes that the wrapped operation shares; the last operation of the chain that has one says what it is."""

_NOTHING: Final = TupleShape(())


def is_start(opcode: str) -> bool:
    """Whether a sugared opcode begins an asynchronous operation.

    >>> is_start("slice-start"), is_start("slice-done"), is_start("copy-start")
    (True, False, False)
    """
    return opcode.endswith("-start") and wrapped_opcode(opcode) is not None


def chain_of(start: Instruction, users: Users) -> list[Instruction]:
    """The start with the updates and the end that take its value directly, in the order of the text."""
    found = reached([start], lambda i: [user for user in users[i] if user.operands[0] is i and _continues(user, start)])
    return sorted(found, key=lambda instruction: instruction.index)


def _continues(user: Instruction, start: Instruction) -> bool:
    wrapped = wrapped_opcode(start.opcode)
    if wrapped is None:
        return user.opcode in ASYNC_CONTINUATIONS
    return user.opcode in (f"{wrapped}-update", f"{wrapped}-done")


def shared_attributes(chain: list[Instruction]) -> dict[str, tuple[str, Instruction]]:
    """What the operations of a chain say of the one they wrap, and which of them says so."""
    said = {
        attribute.name: (attribute.value, instruction) for instruction in chain for attribute in instruction.attributes
    }
    return {name: said[name] for name in OF_BOTH if name in said}


def wrapped_shapes(
    start: Shape, opcode: str, called: tuple[Computation, ...]
) -> tuple[tuple[Shape, ...], Shape] | None:
    """Parameters and result of the operation that a start of this shape wraps; None if it has no such shape.

    Where operands are bound later, a called computation says what is missing.
    """
    if not isinstance(start, TupleShape) or len(start.elements) < 2 or not isinstance(start.elements[0], TupleShape):
        return None
    bound, result = start.elements[0].elements, start.elements[1]
    if opcode not in STARTED_LATE or not called or called[0].root is None:
        return bound, result
    later = called[0].parameters[len(bound) :]
    return (*bound, *(parameter.shape for parameter in later)), called[0].root.shape if later else result


def late_output(result: Shape, chain: list[Instruction]) -> Shape:
    """The output of a chain whose start has it as `result`: if that binds nothing, what is bound to it in the end.

    Readers before mid-2026 know no late outputs, and take nothing for the output.

    >>> from hlo_cli import parse_shape
    >>> print(late_output(parse_shape("f32[2]"), []))
    f32[2]{0}
    """
    ends = chain[-1:] if chain[-1:] and chain[-1].opcode.endswith("-done") else []
    return ends[0].shape if result == _NOTHING and ends else result
