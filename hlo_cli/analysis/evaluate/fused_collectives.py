"""Asynchronous collectives of TPU programs that are parts of fusions, on simulated devices.

A compiler prints the whole collective in each fusion that takes part: in the one whose root is an
`AsyncCollectiveStart`, in those that compute meanwhile, and in the one whose root is the `AsyncCollectiveDone`. Each
gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from hlo_cli.analysis.semantics.custom_calls import target_of_call
from hlo_cli.analysis.semantics.values import Computed, Value, zeros_of
from hlo_cli.analysis.sharding.device_groups import collective_kind
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

Lockstep: TypeAlias = "Callable[[Sequence[Sequence[Value]]], list[Value]]"
"""From the arguments of each device to the result of each."""

_START: Final = "AsyncCollectiveStart"
_DONE: Final = "AsyncCollectiveDone"


def is_fused_part(instruction: Instruction) -> bool:
    """Whether an instruction starts or ends a collective of a fusion."""
    return instruction.opcode == opcodes.CUSTOM_CALL and target_of_call(instruction) in (_START, _DONE)


def fused_problem(instruction: Instruction) -> str:
    """Why the value of such an instruction is unknown; empty if it is known."""
    target = target_of_call(instruction)
    collective = _collective(instruction)
    if collective is None:
        return f"the collective of its {target} is unknown"
    wanted: Sequence[Shape] = (collective.shape,)
    found: Sequence[Shape] = (instruction.shape,)
    if target == _START:
        shape = instruction.shape
        wanted = (*(collective.operand_shape(at) for at in range(len(collective.operands))), collective.shape)
        found = shape.elements[: len(wanted)] if isinstance(shape, TupleShape) else ()
    is_same = len(wanted) == len(found) and all(map(_is_same, wanted, found))
    return "" if is_same else f"the results of its {target} are not those of {collective.name}"


def _collective(instruction: Instruction) -> Instruction | None:
    """The collective of a start, which is its operand, and of a done, which has one as operand."""
    found = [each for each in instruction.operands if collective_kind(each.opcode) == each.opcode]
    return found[0] if len(found) == 1 else None


def _is_same(old: Shape, new: Shape) -> bool:
    return (
        isinstance(old, ArrayShape)
        and isinstance(new, ArrayShape)
        and old.dimensions == new.dimensions
        and old.element_type is new.element_type
    )


def inputs_of(instruction: Instruction) -> tuple[Instruction, ...]:
    """The values that an instruction takes: its operands, and of a start those of its collective, which it hands on."""
    if not is_fused_part(instruction):
        return tuple(instruction.operands)
    collective = _collective(instruction)
    if collective is None:
        return tuple(instruction.operands)
    return (*collective.operands, collective) if target_of_call(instruction) == _START else (collective,)


def fused_part(instruction: Instruction, computed: Computed) -> Lockstep | None:
    """What a start or a done makes of the values of `inputs_of`; None for other instructions."""
    if not is_fused_part(instruction):
        return None
    if target_of_call(instruction) == _DONE:
        return lambda given: [each[0] for each in given]
    shape = instruction.shape
    assert isinstance(shape, TupleShape)
    others = [zeros_of(each, computed) for each in shape.elements]
    return lambda given: [(*each, *others[len(each) :]) for each in given]
