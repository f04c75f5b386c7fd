"""The category of an instruction, as XProf names it from HLO alone.

Mirrors `xla::HloCategory` in tsl/profiler/convert/xla_op_utils and `HloInstruction::ToCategory`.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Instruction

_FORMATTING: Final = frozenset((opcodes.TRANSPOSE, opcodes.COPY, opcodes.RESHAPE, opcodes.DYNAMIC_RESHAPE))


def category_of(instruction: Instruction) -> str:
    """The category, such as `loop fusion` or `data formatting`.

    >>> from hlo_cli import parse_module
    >>> category_of(parse_module("r = f32[4] copy(f32[4] a)").entry.root)
    'data formatting'
    """
    if instruction.opcode in _FORMATTING:
        return "data formatting"
    if instruction.opcode == opcodes.FUSION:
        kind = (instruction.attribute("kind") or "").removeprefix("k").lower()
        return f"{kind} fusion".strip()
    if instruction.opcode in operations.ELEMENTWISE:
        return "non-fusion elementwise"
    return instruction.opcode
