"""The values of a buffer assignment with all their places and uses.

Mirrors `HloValue::ToString` and `HloUse` of xla/service/hlo_value.h.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_files.buffers import BufferPlace
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.source import Diagnostic, Span


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A use of a value by an instruction: the operand number, and the index in that operand."""

    user: BufferPlace
    operand_number: int
    operand_index: ShapeIndex = ()


@dataclass(frozen=True, slots=True)
class UsedValue:
    """A value with memory: its definition, every place that holds it, and its uses.

    `instruction_span` is the span of the complete defining instruction in the text.
    """

    id: int
    color: int
    defined_at: BufferPlace
    is_phi: bool
    positions: tuple[BufferPlace, ...]
    uses: tuple[ValueUse, ...]
    instruction_span: Span


@dataclass(frozen=True, slots=True)
class UsedValues:
    """All values with memory, and the total size of the allocations."""

    total_bytes: int
    values: tuple[UsedValue, ...]
    notes: tuple[Diagnostic, ...] = ()
