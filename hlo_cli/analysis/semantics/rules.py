"""The rule of every opcode: how a kernel for an instruction is made."""

from __future__ import annotations

from functools import cache
from typing import Final

from hlo_cli.analysis.semantics import (
    contracting,
    control,
    conversions,
    convolving,
    custom_calls,
    elementwise,
    indexing,
    normalizing,
    ordering,
    random_bits,
    reducing,
    shaping,
    solving,
)  # fmt: skip
from hlo_cli.analysis.semantics.values import Rule
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import HloError

NEUTRAL: Final = frozenset((opcodes.BITCAST, opcodes.BROADCAST, "copy", opcodes.RESHAPE, opcodes.TRANSPOSE))
"""Opcodes that do nothing to a scalar, so that computations of scalars can run on arrays; see `rule_of`."""


_FAMILIES: Final = (
    contracting, control, conversions, convolving, custom_calls, elementwise, indexing, normalizing,
    ordering, random_bits, reducing, shaping, solving,
)  # fmt: skip


@cache
def rules() -> dict[str, Rule]:
    """The rules by opcode."""
    found: dict[str, Rule] = {}
    for module in _FAMILIES:
        found |= module.HANDLERS
    return found


def rule_of(instruction: Instruction, *, on_arrays: bool = False) -> Rule:
    """The rule of an instruction; HloError with its place if its opcode has none.

    With `on_arrays`, an instruction of scalars runs on whole arrays, so bitcasts change the type of each element.
    """
    if on_arrays and instruction.opcode in (opcodes.BITCAST, opcodes.BITCAST_CONVERT):
        return conversions.elementwise_bitcast
    found = rules().get(instruction.opcode)
    if found is None:
        raise HloError(f"cannot evaluate {instruction.opcode} ({instruction.name})", instruction.span)
    return found
