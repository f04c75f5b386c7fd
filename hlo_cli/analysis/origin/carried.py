"""The instruction that first defines an element of a tuple, found through tuples, loops, calls, and branches."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.origin.moves import Value
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import FORWARDING
from hlo_cli.ir.shape import ShapeIndex

_MAX_STEPS: Final = 1000
_PASSING: Final = FORWARDING | {opcodes.CALL, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE}


class Carried:
    """Definers of the elements of tuples, looked up on demand."""

    def __init__(self, module: Module) -> None:
        """Prepares the look-up."""
        self._moves = origins_of(module).moves

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
        value, is_changed = (instruction, index), False
        for _ in range(_MAX_STEPS):
            loop = self._loop_of(value)
            if loop is not None:
                body = loop.called_computations[0] if loop.called_computations else None
                is_changed = is_changed or body is None or not self._moves.is_kept(body, value[1])
                value = loop.operands[0], (*loop.operand_index(0), *value[1])
            elif (before := self._before(value)) is not None:
                value = before
            else:
                break
        return *value, is_changed

    def _loop_of(self, value: Value) -> Instruction | None:
        """The loop that carries a value: an element of its result, or of the parameter of its body or condition."""
        instruction, index = value
        if instruction.opcode == opcodes.PARAMETER and not self._moves.is_shared(instruction.computation):
            instruction, _ = self._moves.first_caller.get(instruction.computation, (instruction, 0))
        return instruction if instruction.opcode == opcodes.WHILE and index and instruction.operands else None

    def _before(self, value: Value) -> Value | None:
        """The value that another one is, passed on as it is."""
        instruction, _ = value
        if instruction.opcode not in _PASSING or (
            instruction.opcode == opcodes.PARAMETER and self._moves.is_shared(instruction.computation)
        ):
            return None
        step = self._moves.step(value)
        return step.value if step is not None else None
