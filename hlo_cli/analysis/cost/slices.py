"""Cost of operations that read or write a part of an array; untouched elements cost nothing.

Mirrors `HandleSlice`, `HandleDynamicSlice`, `HandleDynamicUpdateSlice`, `HandleGather`, and `HandleScatter` of
xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from math import copysign, inf, nan
from typing import Final

from hlo_cli.analysis.cost.apply_ops import apply_body
from hlo_cli.analysis.cost.cost import BYTES, OUTPUT_BYTES, Number, Properties, operand_key, utilization_key
from hlo_cli.analysis.cost.counting import CostCounter, Handler, int64
from hlo_cli.ir.instruction import Instruction


def slice_(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the result twice: read and written.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[2] slice(f32[8] a), slice={[1:3]}").entry.root)
    >>> cost.bytes_accessed, cost.operand_bytes(0), cost.operand_utilization(0)
    (16, 8, 0.25)
    """
    result = counter.measure(instruction.shape)
    properties |= {BYTES: 2 * result.bytes, OUTPUT_BYTES: result.bytes, operand_key(0): result.bytes}
    properties[utilization_key(0)] = _utilization(result.elements, counter.operand(instruction, 0).elements)


def dynamic_slice(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the result twice, and those of the first start index."""
    slice_(instruction, properties, counter)
    # HandleDynamicSlice adds one start index, as if all were in one operand.
    start = counter.operand(instruction, 1).bytes
    properties |= {BYTES: 2 * counter.measure(instruction.shape).bytes + start, operand_key(1): start}


def dynamic_update_slice(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the update twice, and those of the first start index; the updated array costs nothing.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = "r = f32[100] dynamic-update-slice(f32[100] a, f32[2] u, s32[] i)"
    >>> cost = cost_of(parse_module(text).entry.root)
    >>> cost.bytes_accessed, cost.operand_bytes(0), cost.output_bytes, cost.operand_utilization(0)
    (20, 0, 8, 0.98)
    """
    update, start = counter.operand(instruction, 1), counter.operand(instruction, 2).bytes
    elements = counter.measure(instruction.shape).elements
    properties |= {
        BYTES: 2 * update.bytes + start,
        OUTPUT_BYTES: update.bytes,
        operand_key(0): 0,
        operand_key(1): update.bytes,
        operand_key(2): start,
        utilization_key(0): _utilization(int64(elements - update.elements), elements),
    }


def gather(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the result twice, and those of the indices."""
    slice_(instruction, properties, counter)
    indices = counter.operand(instruction, 1).bytes
    properties |= {BYTES: 2 * counter.measure(instruction.shape).bytes + indices, operand_key(1): indices}


def scatter(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the updates three times (read, and the elements they change read and written), and the
    indices.
    """
    inputs = len(instruction.operands) // 2
    updates = [counter.operand(instruction, inputs + 1 + i) for i in range(inputs)]
    indices, total = counter.operand(instruction, inputs).bytes, sum(update.bytes for update in updates)
    properties |= {operand_key(i): update.bytes for i, update in enumerate(updates)}
    properties |= {operand_key(inputs + 1 + i): update.bytes for i, update in enumerate(updates)}
    properties |= {operand_key(inputs): indices, BYTES: 3 * total + indices, OUTPUT_BYTES: total}
    apply_body(instruction, properties, counter, updates[0].elements if updates else 0)


def _utilization(elements: int, of: int) -> Number:
    """Quotient of element counts with the results of C++ for division by 0."""
    if of:
        return elements / of
    return copysign(inf, elements) if elements else nan


HANDLERS: Final[dict[str, Handler]] = {
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter,
    "slice": slice_,
}
"""What counts the cost of each opcode of this family."""
