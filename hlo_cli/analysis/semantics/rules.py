"""The rule of every opcode: how a kernel for an instruction is made."""

from __future__ import annotations

from functools import cache
from typing import Final

from hlo_cli.analysis.semantics import (
    asynchronous,
    contracting,
    control,
    conversions,
    convolving,
    custom_calls,
    elementwise,
    indexing,
    normalizing,
    ordering,
    ragged,
    random_bits,
    reducing,
    shaping,
    solving,
)  # fmt: skip
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ELEMENTWISE, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

NEUTRAL: Final = frozenset((opcodes.BITCAST, opcodes.BROADCAST, "copy", opcodes.RESHAPE, opcodes.TRANSPOSE))
"""Opcodes that do nothing to a scalar, so that computations of scalars can run on arrays; see `rule_of`."""


_FAMILIES: Final = (
    asynchronous.HANDLERS,
    contracting.HANDLERS,
    control.HANDLERS,
    conversions.HANDLERS,
    convolving.HANDLERS,
    custom_calls.HANDLERS,
    elementwise.HANDLERS,
    indexing.HANDLERS,
    normalizing.HANDLERS,
    ordering.HANDLERS,
    ragged.HANDLERS,
    random_bits.HANDLERS,
    reducing.HANDLERS,
    shaping.HANDLERS,
    solving.HANDLERS,
)
"""The rules of each chapter, by opcode."""


@cache
def rules() -> dict[str, Rule]:
    """The rules by opcode."""
    found: dict[str, Rule] = {}
    for family in _FAMILIES:
        found |= family
    return found


def rule_of(instruction: Instruction, *, on_arrays: bool = False) -> Rule:
    """The rule of an instruction; HloError with its place if its opcode has none.

    With `on_arrays`, an instruction of scalars runs on whole arrays, so bitcasts change the type of each element.
    """
    if on_arrays and instruction.opcode in (opcodes.BITCAST, opcodes.BITCAST_CONVERT):
        return conversions.elementwise_bitcast
    found = rules().get(instruction.opcode)
    if found is None:
        wrapped = rules().get(wrapped_opcode(instruction.opcode) or "")
        if wrapped is None:
            raise HloError(f"cannot evaluate {instruction.opcode} ({instruction.name})", instruction.span)
        return asynchronous.sugared(instruction, wrapped)
    if _mixes_sizes(instruction):
        return _of_common_size(found)
    return found


def has_rule(opcode: str) -> bool:
    """Whether instructions of an opcode can be evaluated on one device.

    >>> has_rule("slice-start"), has_rule("all-reduce")
    (True, False)
    """
    return opcode in rules() or wrapped_opcode(opcode) in rules()


def _mixes_sizes(instruction: Instruction) -> bool:
    """Whether operands of an elementwise opcode may have the bound of a dynamic size, or the size at run time."""
    if instruction.opcode not in ELEMENTWISE or len(instruction.operands) < 2:
        return False
    return isinstance(instruction.shape, ArrayShape) and instruction.shape.is_dynamic


def _of_common_size(rule: Rule) -> Rule:
    """The rule on the elements that all operands have at run time; scalars are operands of any size."""

    def made(instruction: Instruction, computed: Computed) -> Kernel:
        kernel = rule(instruction, computed)

        def run(*operands: Array) -> Value:
            shapes = [each.shape for each in operands if each.ndim]
            if len(set(shapes)) < 2:
                return kernel(*operands)
            common = tuple(slice(0, min(sizes)) for sizes in zip(*shapes, strict=True))
            return kernel(*(each[common] if each.ndim else each for each in operands))

        return run

    return made
