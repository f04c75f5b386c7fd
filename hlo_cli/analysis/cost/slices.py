"""Operations that read or write a part of an array: what they do not touch costs nothing.

Mirrors `HandleSlice`, `HandleDynamicSlice`, `HandleDynamicUpdateSlice`, `HandleGather` and `HandleScatter` of
xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from math import copysign, inf, nan

from hlo_cli.analysis.cost.apply_ops import apply_body
from hlo_cli.analysis.cost.cost import BYTES, OUTPUT_BYTES, Figures, Number, operand_key, utilization_key
from hlo_cli.analysis.cost.counting import CostCounter, int64
from hlo_cli.ir.instruction import Instruction


def slice_(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Reads what it writes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[2] slice(f32[8] a), slice={[1:3]}").entry.root)
    >>> cost.bytes_accessed, cost.operand_bytes(0), cost.operand_utilization(0)
    (16, 8, 0.25)
    """
    result = count.measure(instruction.shape)
    figures |= {BYTES: 2 * result.bytes, OUTPUT_BYTES: result.bytes, operand_key(0): result.bytes}
    figures[utilization_key(0)] = _part(result.elements, count.operand(instruction, 0).elements)


def dynamic_slice(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Reads what it writes, and where it starts; of several starts only the first is in the sum, as for XLA."""
    slice_(instruction, figures, count)
    start = count.operand(instruction, 1).bytes
    figures |= {BYTES: 2 * count.measure(instruction.shape).bytes + start, operand_key(1): start}


def dynamic_update_slice(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Reads and writes the update; the array it is put into stays where it is.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = "r = f32[100] dynamic-update-slice(f32[100] a, f32[2] u, s32[] i)"
    >>> cost = cost_of(parse_module(text).entry.root)
    >>> cost.bytes_accessed, cost.operand_bytes(0), cost.output_bytes, cost.operand_utilization(0)
    (20, 0, 8, 0.98)
    """
    update, start = count.operand(instruction, 1), count.operand(instruction, 2).bytes
    elements = count.measure(instruction.shape).elements
    figures |= {
        BYTES: 2 * update.bytes + start,
        OUTPUT_BYTES: update.bytes,
        operand_key(0): 0,
        operand_key(1): update.bytes,
        operand_key(2): start,
        utilization_key(0): _part(int64(elements - update.elements), elements),
    }


def gather(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Reads what it writes, and the indices."""
    slice_(instruction, figures, count)
    indices = count.operand(instruction, 1).bytes
    figures |= {BYTES: 2 * count.measure(instruction.shape).bytes + indices, operand_key(1): indices}


def scatter(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Reads the updates, reads and writes as much of what they change, and reads the indices."""
    inputs = len(instruction.operands) // 2
    updates = [count.operand(instruction, inputs + 1 + i) for i in range(inputs)]
    indices, total = count.operand(instruction, inputs).bytes, sum(update.bytes for update in updates)
    figures |= {operand_key(i): update.bytes for i, update in enumerate(updates)}
    figures |= {operand_key(inputs + 1 + i): update.bytes for i, update in enumerate(updates)}
    figures |= {operand_key(inputs): indices, BYTES: 3 * total + indices, OUTPUT_BYTES: total}
    apply_body(instruction, figures, count, updates[0].elements if updates else 0)


def _part(elements: int, of: int) -> Number:
    """The quotient as C++ has it."""
    if of:
        return elements / of
    return copysign(inf, elements) if elements else nan
