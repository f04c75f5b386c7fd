"""Cost of operations that are free, or move data in special ways.

Mirrors `HandleParameter`, `HandleTuple`, `HandleTranspose`, `HandleInfeed`, `HandleOutfeed`, and `HandleAllReduce` of
xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, OUTPUT_BYTES, Properties, operand_key, output_key
from hlo_cli.analysis.cost.counting import CostCounter, Handler, array_of
from hlo_cli.ir.instruction import Instruction


def free(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts no bytes and no flops."""
    properties[BYTES] = properties[OUTPUT_BYTES] = 0
    for number in range(len(instruction.operands)):
        properties[operand_key(number)] = 0


def tuple_(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the pointer table, eight bytes per element."""
    free(instruction, properties, counter)
    properties[BYTES] = properties[OUTPUT_BYTES] = counter.measure(instruction.shape).bytes


def transpose(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts nothing if the transpose is a bitcast.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> moved = "r = f32[2,5]{1,0} transpose(f32[5,2]{1,0} a), dimensions={1,0}"
    >>> cost_of(parse_module(moved).entry.root).bytes_accessed
    80
    >>> cost_of(parse_module(moved.replace("{1,0} t", "{0,1} t")).entry.root).bytes_accessed
    0
    """
    # TransposeIsBitcast (xla/shape_util.cc) compares all dimensions, also those of size 1.
    if _is_bitcast(instruction):
        free(instruction, properties, counter)


def infeed(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of every array of the result; the token operand is free."""
    for index, leaf in instruction.shape.leaves:
        properties[output_key(index)] = counter.measure(leaf).bytes
    properties[OUTPUT_BYTES] = properties[BYTES] = sum(counter.measure(instruction.shape).leaf_bytes)


def outfeed(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of every array of the operands."""
    operands = counter.operands(instruction)
    for number, operand in enumerate(operands):
        for index, leaf in operand.shape.leaves:
            properties[operand_key(number, index)] = counter.measure(leaf).bytes
        properties[operand_key(number)] = sum(operand.leaf_bytes)
    properties[BYTES] = counter.sum([sum(operand.leaf_bytes) for operand in operands])


def all_reduce(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts one flop per element, as for two replicas.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost_of(parse_module("r = f32[5] all-reduce(f32[5] a), replica_groups={{0,1,2,3}}").entry.root).flops
    5
    """
    arrays = [counter.measure(leaf) for _, leaf in instruction.shape.leaves if array_of(leaf)]
    written = sum(array.bytes for array in arrays)
    properties |= {FLOPS: sum(array.elements for array in arrays), OUTPUT_BYTES: written}
    properties[BYTES] = written + sum(operand.bytes for operand in counter.operands(instruction))


def _is_bitcast(transpose: Instruction) -> bool:
    """Whether every dimension, including those of size 1, keeps its position in memory."""
    shape, taken = array_of(transpose.shape), array_of(transpose.operand_shape(0)) if transpose.operands else None
    if shape is None or taken is None:
        return False
    permutation, order = transpose.integers("dimensions"), shape.layout.minor_to_major
    if sorted(permutation) != sorted(order) or shape.element_type is not taken.element_type:
        return False
    return tuple(permutation[d] for d in order) == taken.layout.minor_to_major


HANDLERS: Final[dict[str, Handler]] = {
    "all-reduce": all_reduce,
    "all-reduce-start": all_reduce,
    "infeed": infeed,
    "outfeed": outfeed,
    "transpose": transpose,
    "tuple": tuple_,
}
"""What counts the cost of each opcode of this family."""
