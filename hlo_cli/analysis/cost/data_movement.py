"""Operations that cost nothing, or only move data in ways of their own.

Mirrors `HandleParameter`, `HandleTuple`, `HandleTranspose`, `HandleInfeed`, `HandleOutfeed` and `HandleAllReduce` of
xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, OUTPUT_BYTES, Figures, operand_key, output_key
from hlo_cli.analysis.cost.counting import CostCounter, array_of
from hlo_cli.ir.instruction import Instruction


def free(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Touches no memory and calculates nothing."""
    figures[BYTES] = figures[OUTPUT_BYTES] = 0
    for number in range(len(instruction.operands)):
        figures[operand_key(number)] = 0


def tuple_(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Writes its table of pointers, eight bytes each."""
    free(instruction, figures, count)
    figures[BYTES] = figures[OUTPUT_BYTES] = count.measure(instruction.shape).bytes


def transpose(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Free where only the layout changes, as the elements stay where they are.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> moved = "r = f32[2,5]{1,0} transpose(f32[5,2]{1,0} a), dimensions={1,0}"
    >>> cost_of(parse_module(moved).entry.root).bytes_accessed
    80
    >>> cost_of(parse_module(moved.replace("{1,0} t", "{0,1} t")).entry.root).bytes_accessed
    0
    """
    if _is_bitcast(instruction):
        free(instruction, figures, count)


def infeed(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Writes every array of its result; reading the token costs nothing."""
    for index, leaf in instruction.shape.leaves:
        figures[output_key(index)] = count.measure(leaf).bytes
    figures[OUTPUT_BYTES] = figures[BYTES] = sum(count.measure(instruction.shape).leaf_bytes)


def outfeed(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Reads every array of its operands."""
    operands = count.operands(instruction)
    for number, operand in enumerate(operands):
        for index, leaf in operand.shape.leaves:
            figures[operand_key(number, index)] = count.measure(leaf).bytes
        figures[operand_key(number)] = sum(operand.leaf_bytes)
    figures[BYTES] = count.sum([sum(operand.leaf_bytes) for operand in operands])


def all_reduce(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """One flop an element, as if two replicas took part.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost_of(parse_module("r = f32[5] all-reduce(f32[5] a), replica_groups={{0,1,2,3}}").entry.root).flops
    5
    """
    arrays = [count.measure(leaf) for _, leaf in instruction.shape.leaves if array_of(leaf)]
    written = sum(array.bytes for array in arrays)
    figures |= {FLOPS: sum(array.elements for array in arrays), OUTPUT_BYTES: written}
    figures[BYTES] = written + sum(operand.bytes for operand in count.operands(instruction))


def _is_bitcast(transpose: Instruction) -> bool:
    """Whether every dimension keeps its place in memory; those of size 1 must too."""
    shape, taken = array_of(transpose.shape), array_of(transpose.operand_shape(0))
    if shape is None or taken is None:
        return False
    permutation, order = transpose.integers("dimensions"), shape.layout.minor_to_major
    if sorted(permutation) != sorted(order) or shape.element_type is not taken.element_type:
        return False
    return tuple(permutation[d] for d in order) == taken.layout.minor_to_major
