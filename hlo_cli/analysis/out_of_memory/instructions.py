"""Candidate instructions of a dump for an allocation in an out-of-memory message."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.out_of_memory import OomAllocation
from hlo_cli.ir.shape import ArrayShape, Shape


def candidate_instructions(allocation: OomAllocation, module: Module) -> tuple[Instruction, ...]:
    """Returns the instruction that the message names, else all with the same opcode, array shape, and op_name.

    GPU messages contain only opcodes. The op_name is ignored if no candidate matches, because the message may come
    from another compilation than the dump.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[8]{0} parameter(0) ROOT r = f32[8]{0} negate(p) }")
    >>> allocation = OomAllocation(32, parse_shape("f32[8]"), opcode="negate")
    >>> [instruction.name for instruction in candidate_instructions(allocation, module)]
    ['r']
    """
    if allocation.place is not None and allocation.place.instruction is not None:
        return (allocation.place.instruction,)
    wanted = _arrays(allocation.shape)
    if not wanted or not allocation.opcode:
        return ()
    listed: Iterable[Instruction] = module.entry.parameters if allocation.is_entry_parameter else module.instructions
    alike = [each for each in listed if each.opcode == allocation.opcode and not wanted.isdisjoint(_arrays(each.shape))]
    if allocation.op_name:
        alike = [each for each in alike if each.metadata.op_name == allocation.op_name] or alike
    return tuple(alike)


def _arrays(shape: Shape | None) -> set[tuple[str, tuple[int, ...]]]:
    """Returns types and dimensions of the arrays in a shape, without layouts; messages and dumps may differ there."""
    leaves = () if shape is None else shape.leaves
    return {(leaf.element_type.name, leaf.dimensions) for _, leaf in leaves if isinstance(leaf, ArrayShape)}
