"""In-place pairs: elements of operands that an instruction overwrites with elements of its result.

Mirrors `GetInPlaceInputOutputPairs` of xla/hlo/analysis/alias_info.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ShapeIndex, TupleShape

_OVERWRITTEN_OPERAND = {opcodes.DYNAMIC_UPDATE_SLICE: 0, opcodes.SET_DIMENSION_SIZE: 0, opcodes.RAGGED_ALL_TO_ALL: 1}
"""Operand number that an instruction overwrites."""
_ALIASING = "output_to_operand_aliasing"


class InPlacePair(NamedTuple):
    """An element of an operand, and the element of the result that overwrites it."""

    operand_number: int
    operand_index: ShapeIndex
    output_index: ShapeIndex


class InPlace:
    """Finds in-place pairs; those of fused computations are cached.

    `through` are the opcodes allowed between a fused parameter and the in-place operation.
    """

    __slots__ = ("_fused", "_through")

    def __init__(self, through: frozenset[str] = frozenset((opcodes.BITCAST,))) -> None:
        self._through = through
        self._fused: dict[Computation, tuple[InPlacePair, ...]] = {}

    def pairs(self, instruction: Instruction) -> tuple[InPlacePair, ...]:
        """Returns the pairs of a synchronous instruction.

        >>> from hlo_cli import parse_module
        >>> root = parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry.root
        >>> InPlace().pairs(root)
        (InPlacePair(operand_number=0, operand_index=(), output_index=()),)
        """
        match instruction.opcode:
            case opcodes.DYNAMIC_UPDATE_SLICE | "set-dimension-size" | "ragged-all-to-all":
                return (InPlacePair(_OVERWRITTEN_OPERAND[instruction.opcode], (), ()),)
            case opcodes.SCATTER:
                return _pairs_in_order(len(instruction.operands) // 2)
            case opcodes.ALL_REDUCE_START:
                return _pairs_in_order(len(instruction.operands))
            case opcodes.COLLECTIVE_PERMUTE | opcodes.COLLECTIVE_PERMUTE_START:
                return tuple(_collective_permute_pairs(instruction))
            case opcodes.CUSTOM_CALL:
                return tuple(_declared(instruction))
            case opcodes.FUSION:
                return (*_declared(instruction), *self.of_body(instruction))
        return ()

    def of_body(self, fusion: Instruction) -> tuple[InPlacePair, ...]:
        """Returns the pairs that follow from the body of a fusion."""
        if not fusion.called_computations:
            return ()
        computation = fusion.called_computations[0]
        if computation not in self._fused:
            self._fused[computation] = ()  # for recursive computations in malformed modules
            self._fused[computation] = tuple(self._pairs_of_body(computation))
        return self._fused[computation]

    def _pairs_of_body(self, computation: Computation) -> Iterator[InPlacePair]:
        """Yields the pairs of a fused computation, from its outputs to its parameters."""
        if computation.root is None:
            return
        for output_index, _ in computation.root.shape.leaves:
            found, index = self._origin(computation.root, output_index)
            pairs = self.of_body(found) if found.opcode == opcodes.FUSION else self.pairs(found)
            pair = next((pair for pair in pairs if pair.output_index == index), None)
            if pair is None or not 0 <= pair.operand_number < len(found.operands):
                continue
            found, index = self._origin(found.operands[pair.operand_number], pair.operand_index)
            nested_pairs = self.pairs(found) if found.opcode == opcodes.FUSION else ()
            for nested in nested_pairs:
                if nested.output_index == index:
                    found, index = self._origin(found.operands[nested.operand_number], nested.operand_index)
                    break
            if found.opcode == opcodes.PARAMETER and found in computation.parameters:
                yield InPlacePair(computation.parameters.index(found), index, output_index)

    def _origin(self, instruction: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
        """Follows an element through tuples, then get-tuple-elements, then bitcasts, to its producer."""
        # alias_info.cc: one pass through tuples, then get-tuple-elements, then bitcasts; the sequence is not
        # repeated.
        while instruction.opcode == opcodes.TUPLE and index and index[0] < len(instruction.operands):
            instruction, index = instruction.operands[index[0]], index[1:]
        while instruction.opcode == opcodes.GET_TUPLE_ELEMENT and instruction.operands:
            index = (instruction.integer("index") or 0, *index)
            instruction = instruction.operands[0]
        while instruction.opcode in self._through and instruction.operands and not index:
            instruction = instruction.operands[0]
        return instruction, index


def async_pairs(member: Instruction, start: Instruction) -> Iterator[InPlacePair]:
    """Yields the pairs of a member of an async chain; a done repeats those of the start's output."""
    if member is start or member.opcode.endswith("-update"):
        yield from _declared(member)
        return
    for pair in _declared(start):
        if pair.output_index[:1] == (1,):
            yield InPlacePair(0, (0, pair.operand_number, *pair.operand_index), pair.output_index[1:])


def _declared(instruction: Instruction) -> Iterator[InPlacePair]:
    """Yields the pairs in the attribute output_to_operand_aliasing."""
    if _ALIASING in instruction.raw[1]:
        for alias in instruction.items_of(_ALIASING, OutputOperandAlias):
            yield InPlacePair(alias.operand_number, alias.operand_index, alias.output_index)


def _pairs_in_order(count: int) -> tuple[InPlacePair, ...]:
    """Returns pairs of the first `count` operands with the elements of the result."""
    if count == 1:
        return (InPlacePair(0, (), ()),)
    return tuple(InPlacePair(n, (), (n,)) for n in range(count))


def _collective_permute_pairs(instruction: Instruction) -> Iterator[InPlacePair]:
    """Yields the pairs of a collective-permute with slices, which writes into its second operand."""
    if len(instruction.operands) != 4 or "slice_sizes" not in instruction.raw[1]:
        return
    place: ShapeIndex = (1,) if instruction.opcode.endswith("-start") else ()
    target = instruction.operands[1].shape
    if isinstance(target, TupleShape):
        yield from (InPlacePair(1, (n,), (*place, n)) for n in range(len(target.elements)))
    else:
        yield InPlacePair(1, (), place)
