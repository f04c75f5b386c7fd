"""Instructions that only carry values: tuples, their elements, loops, calls, parameters, and ends of async operations.

A carrier has the shape of what it carries. If an element of a loop becomes bf16, the change is that of the instruction
that makes the element; the loop, its parameters, and its tuples follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.matching.changes import PLACE_KINDS, Change
from hlo_cli.analysis.matching.elements import ElementSources, is_passed_on
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import DONES
from hlo_cli.ir.shape import Shape, TupleShape, subshape

_SHAPE_KINDS: Final = frozenset(("shape", "layout", "tiling", "memory_space"))
_CARRIED_KINDS: Final = _SHAPE_KINDS | {*PLACE_KINDS, "operands"}
_TUPLES: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE))
_FIRST: Final = frozenset((opcodes.COPY_DONE, "recv-done"))
"""Ends of operations whose result is the first element of the start, not the second."""


@dataclass(frozen=True, slots=True)
class Carriers:
    """Finds the changes of carriers that follow from changes of what they carry, given the callers in both modules."""

    one: ElementSources
    two: ElementSources

    def own_changes(self, before: Instruction, after: Instruction, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes of a pair without those that follow from what both instructions carry.

        These are shapes, being fused or not, and elements that only one of two tuples has, if the users of the tuples
        take its elements and are compared themselves.
        """
        if before.opcode != after.opcode or not any(change.kind in _CARRIED_KINDS for change in changes):
            return changes
        if is_plumbing(before):
            changes = tuple(change for change in changes if change.kind not in PLACE_KINDS)
        if before.opcode == opcodes.TUPLE and self._are_passed_on(before, after):
            changes = tuple(
                change for change in changes if change.kind != "operands" or (change.before and change.after)
            )
        if _carries(before, self.one) and _carries(after, self.two):
            return tuple(change for change in changes if change.kind not in _SHAPE_KINDS)
        return changes

    def _are_passed_on(self, before: Instruction, after: Instruction) -> bool:
        one, two = self.one.graph, self.two.graph
        return is_passed_on(one, one.node(before)) and is_passed_on(two, two.node(after))


def is_plumbing(instruction: Instruction) -> bool:
    """Whether an instruction makes no value of its own: a tuple, one of its elements, or a parameter of a callee.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT t = (s8[]) tuple(p) }")
    >>> [is_plumbing(instruction) for instruction in module.instructions]
    [False, True]
    """
    if instruction.opcode == opcodes.PARAMETER:
        return not instruction.computation.is_entry
    return instruction.opcode in _TUPLES


def _carries(instruction: Instruction, sources: ElementSources) -> bool:
    """Whether an instruction has the shape of the values that it carries."""
    carried = list(_carried_shapes(instruction, sources))
    return bool(carried) and all(shape is not None and shape == instruction.shape for shape in carried)


def _carried_shapes(instruction: Instruction, sources: ElementSources) -> Iterator[Shape | None]:
    """Shapes that the instruction has if it is a carrier; none for other instructions."""
    operands, called = instruction.operands, instruction.called_computations
    match instruction.opcode:
        case opcodes.TUPLE:
            yield TupleShape(_shapes(operands))
        case opcodes.GET_TUPLE_ELEMENT if operands:
            index = instruction.integer("index")
            yield subshape(operands[0].shape, (index,)) if index is not None else None
        case opcodes.PARAMETER:
            argument = sources.argument(instruction)
            if argument is not None:
                yield argument.shape
        case opcodes.WHILE | opcodes.OPT_BARRIER | opcodes.ASYNC_UPDATE if operands:
            yield operands[0].shape
        case opcodes.CALL | opcodes.CONDITIONAL if called:
            yield from (computation.root.shape if computation.root is not None else None for computation in called)
        case opcodes.ASYNC_START if called and called[0].root is not None:
            yield _started(instruction, called[0].root.shape)
        case opcode if opcode in DONES and len(operands) == 1:
            yield _ended(opcode, operands[0].shape)


def _started(instruction: Instruction, result: Shape) -> Shape | None:
    """Shape of an async-start: its operands, its result, and what it had before in its context."""
    shape = instruction.shape
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        return None
    return TupleShape((TupleShape(_shapes(instruction.operands)), result, *shape.elements[2:]))


def _ended(opcode: str, start: Shape) -> Shape | None:
    """Shape of the end of an async operation whose start has this shape."""
    if not isinstance(start, TupleShape) or opcode == "all-reduce-done":
        return start
    return subshape(start, (0 if opcode in _FIRST else 1,))


def _shapes(instructions: Sequence[Instruction]) -> tuple[Shape, ...]:
    return tuple([instruction.shape for instruction in instructions])
