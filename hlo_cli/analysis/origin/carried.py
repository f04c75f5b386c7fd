"""The instruction that first defines an element of a tuple, found through tuples, loops, calls, and branches."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.computation_contexts import contexts_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import FORWARDING
from hlo_cli.ir.shape import ShapeIndex

_MAX_STEPS: Final = 1000
_COPIES: Final = FORWARDING | {opcodes.COPY}


class Carried:
    """Definers of the elements of tuples, looked up on demand."""

    def __init__(self, module: Module) -> None:
        """Prepares the look-up."""
        self._callers = contexts_of(module).callers
        self._is_invariant: dict[tuple[Instruction, int], bool] = {}

    def definer(self, instruction: Instruction, index: ShapeIndex = ()) -> tuple[Instruction, ShapeIndex, bool]:
        """Returns the instruction that defines an element first, its index there, and whether a loop changes it.

        Beginning at an instruction that is neither a tuple nor carried by a loop, the result is that instruction.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m
        ... b { p = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(p), index=0  j = s32[] negate(i)
        ...   w = f32[2] get-tuple-element(p), index=1  ROOT t = (s32[], f32[2]) tuple(j, w) }
        ... c { p = (s32[], f32[2]) parameter(0)  ROOT q = pred[] custom-call(p) }
        ... ENTRY e { z = s32[] constant(0)  a = f32[2] parameter(0)  t = (s32[], f32[2]) tuple(z, a)
        ...   ROOT l = (s32[], f32[2]) while(t), condition=c, body=b }'''
        >>> module = parse_module(text)
        >>> [(d.name, changed) for d, _, changed in (Carried(module).definer(module.entry.root, (n,)) for n in (0, 1))]
        [('z', True), ('a', False)]
        """
        is_changed = False
        for _ in range(_MAX_STEPS):
            operands = instruction.operands
            match instruction.opcode:
                case opcodes.GET_TUPLE_ELEMENT if operands:
                    taken = (*instruction.operand_index(0), instruction.integer("index") or 0)
                    instruction, index = operands[0], (*taken, *index)
                case opcodes.TUPLE if index and index[0] < len(operands):
                    instruction, index = operands[index[0]], (*instruction.operand_index(index[0]), *index[1:])
                case opcode if opcode in FORWARDING and operands:
                    instruction, index = operands[0], (*instruction.operand_index(0), *index)
                case opcodes.WHILE if index and operands:
                    is_changed = is_changed or not self._is_carried_unchanged(instruction, index[0])
                    instruction, index = operands[0], (*instruction.operand_index(0), *index)
                case opcodes.CALL if instruction.called_computations and instruction.called_computations[0].root:
                    instruction = instruction.called_computations[0].root
                case opcodes.PARAMETER if (caller := self._caller(instruction)) is not None:
                    operand, is_loop = caller
                    if is_loop and index:
                        loop = self._callers[instruction.computation][0]
                        is_changed = is_changed or not self._is_carried_unchanged(loop, index[0])
                    instruction = operand
                case _:
                    return instruction, index, is_changed
        return instruction, index, is_changed

    def _caller(self, parameter: Instruction) -> tuple[Instruction, bool] | None:
        """The operand that the only caller passes to a parameter, and whether it is a loop; None if not known."""
        callers = self._callers.get(parameter.computation, ())
        if len(callers) != 1:
            return None
        [caller] = callers
        number = _number_of(parameter)
        match caller.opcode:
            case opcodes.WHILE:
                return (caller.operands[0], True) if caller.operands else None
            case opcodes.CALL | opcodes.FUSION | opcodes.ASYNC_START:
                return (caller.operands[number], False) if number < len(caller.operands) else None
            case opcodes.CONDITIONAL:
                branch = caller.called_computations.index(parameter.computation) + 1
                is_one = caller.called_computations.count(parameter.computation) == 1
                return (caller.operands[branch], False) if is_one and branch < len(caller.operands) else None
            case _:
                return None

    def _is_carried_unchanged(self, loop: Instruction, element: int) -> bool:
        """Whether the body of a loop returns an element of the carried tuple as it got it."""
        key = loop, element
        if key not in self._is_invariant:
            body = loop.called_computations[0] if loop.called_computations else None
            self._is_invariant[key] = body is not None and _returns_unchanged(body, element)
        return self._is_invariant[key]


def _returns_unchanged(body: Computation, element: int) -> bool:
    """Whether a computation returns an element of its parameter, possibly copied, at the same index of its result."""
    if body.root is None or body.root.opcode != opcodes.TUPLE or element >= len(body.root.operands):
        return False
    found = body.root.operands[element]
    while found.opcode in _COPIES and found.operands:
        found = found.operands[0]
    return (
        found.opcode == opcodes.GET_TUPLE_ELEMENT
        and (found.integer("index") or 0) == element
        and bool(found.operands)
        and found.operands[0].opcode == opcodes.PARAMETER
    )


def _number_of(parameter: Instruction) -> int:
    parameters = parameter.computation.parameters
    return next((number for number, each in enumerate(parameters) if each is parameter), len(parameters))
