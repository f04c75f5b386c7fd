"""Arrays that instructions define, as opposed to those that they forward.

Mirrors `HloDataflowAnalysis::InitializeInstructionValueSets` of xla/hlo/analysis/hlo_dataflow_analysis.cc. Arrays in
fused computations and reducers are not in memory and are omitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, DONES, FORWARDING, RUNNERS, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, ShapeIndex

_FORWARDING: Final = (
    FORWARDING
    | DONES
    | frozenset("after-all async-update call conditional get-tuple-element partition-id-done tuple while".split())
)
"""Opcodes that define no arrays."""
_ALIASING: Final = "output_to_operand_aliasing"


@dataclass(frozen=True, slots=True)
class Value:
    """An array that an instruction defines, at an index of its result.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> [str(value) for value in values_of(module)]
    ['p']
    """

    instruction: Instruction
    index: ShapeIndex
    shape: ArrayShape

    @property
    def is_context(self) -> bool:
        """Whether the array is a context of an async operation, such as a semaphore."""
        opcode = self.instruction.opcode
        first = 1 if opcode in CHANNEL_STARTS else 2
        return (opcode.endswith("-start") or first == 1) and len(self.index) > 0 and self.index[0] >= first

    def __str__(self) -> str:
        return self.instruction.name + index_suffix(self.index)


def values_of(module: Module) -> Iterator[Value]:
    """Yields the arrays that an execution of the module puts into memory, computation by computation."""
    for computation in sequentially_executed(module):
        for instruction in computation.instructions:
            yield from values_made_by(instruction)


def values_made_by(instruction: Instruction) -> Iterator[Value]:
    """Yields the arrays that one instruction defines."""
    opcode = instruction.opcode
    if opcode in _FORWARDING or _is_sugared_end(opcode):
        return
    if opcode == opcodes.PARAMETER and not instruction.computation.is_entry:
        return
    for index, leaf in instruction.shape.leaves:
        array = leaf.array if isinstance(leaf, BufferShape) else leaf
        if isinstance(array, ArrayShape) and not _is_forwarded(instruction, index):
            yield Value(instruction, index, array)


def sequentially_executed(module: Module) -> tuple[Computation, ...]:
    """Returns the computations that execute instruction by instruction: entry, loop bodies, branches, and callees."""
    found = {module.entry: None}
    worklist = [module.entry]
    while worklist:
        for instruction in worklist.pop().instructions:
            if executes_callees(instruction):
                for called in instruction.called_computations:
                    if called not in found:
                        found[called] = None
                        worklist.append(called)
    return tuple(computation for computation in module.computations if computation in found)


def executes_callees(instruction: Instruction) -> bool:
    """Returns whether an instruction executes its callees as control flow, neither fused nor per element."""
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode
    return opcode in RUNNERS and bool(instruction.called_computations)


def passes_on(fusion: Instruction, index: ShapeIndex) -> bool:
    """Returns whether a fusion only hands on the array at an index of its result, as those of async collectives do.

    On TPU, a collective starts in a fusion with the root `AsyncCollectiveStart`, goes on in fusions that compute
    meanwhile, and ends in one with the root `AsyncCollectiveDone`. Each returns the operand, the output, and semaphores
    again, of which the output (element 1 of the start) alone is an array of its own.
    """
    if _ALIASING not in fusion.raw[1] or not fusion.called_computations:
        return False
    root = fusion.called_computations[0].root
    if root is None:
        return False
    if root.opcode == opcodes.CUSTOM_CALL:
        target = root.string("custom_call_target")
        return (target == "AsyncCollectiveStart" and index != (1,)) or target == "AsyncCollectiveDone"
    if root.opcode != opcodes.TUPLE or not index or index[0] >= len(root.operands):
        return False
    handed = root.operands[index[0]].opcode
    return (handed == opcodes.PARAMETER or handed in COLLECTIVES) and any(
        alias.output_index == index for alias in fusion.items_of(_ALIASING, OutputOperandAlias)
    )


def _is_forwarded(instruction: Instruction, index: ShapeIndex) -> bool:
    """Returns whether an instruction forwards the array at an index of its result."""
    match instruction.opcode:
        case opcodes.COPY_START:
            return index == (1,)
        case opcodes.ALL_GATHER_START | opcodes.COLLECTIVE_PERMUTE_START:
            return index[:1] == (0,)
        case opcodes.SEND:
            return index == (0,)
        case opcodes.FUSION:
            return passes_on(instruction, index)
        case opcode if opcode == opcodes.ASYNC_START or (
            opcode.endswith("-start") and wrapped_opcode(opcode) is not None
        ):
            return index[:1] == (0,) or (index[:1] == (1,) and executes_callees(instruction))
        case _:
            return False


def _is_sugared_end(opcode: str) -> bool:
    """Returns whether an opcode is a sugared update or done."""
    return opcode.endswith(("-done", "-update")) and wrapped_opcode(opcode) is not None
