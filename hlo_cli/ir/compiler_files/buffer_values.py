"""The values of a buffer assignment with all places where they are and all that use them.

Mirrors `HloValue::ToString` and `HloUse` of xla/service/hlo_value.h.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_files.buffers import BufferPlace
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.source import Diagnostic, Span


@dataclass(frozen=True, slots=True)
class ValueUse:
    """An instruction takes a value: as which operand, and as which element of that."""

    user: BufferPlace
    operand_number: int
    operand_index: ShapeIndex = ()


@dataclass(frozen=True, slots=True)
class UsedValue:
    """A value that has memory: where it is defined, every place that holds it, and who takes it.

    `instruction_span` is where the text prints the instruction that defines it, whole.
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
    """All values that have memory, and what all allocations take together."""

    total_bytes: int
    values: tuple[UsedValue, ...]
    notes: tuple[Diagnostic, ...] = ()
