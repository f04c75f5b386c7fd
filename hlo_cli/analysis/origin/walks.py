"""Walks back from values through moves, to the instruction that tells their source, or to the argument they are."""

from __future__ import annotations

from collections.abc import Callable, Container

from hlo_cli.analysis.origin.fused import FusionSources
from hlo_cli.analysis.origin.moves import Moves, Value
from hlo_cli.analysis.origin.nearest import is_filler
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction


class Arguments:
    """The arguments that values are, each value visited once."""

    __slots__ = ("_ends", "moves")

    def __init__(self, moves: Moves) -> None:
        """Takes the steps back of a module's values."""
        self.moves = moves
        self._ends: dict[Value, Instruction | None] = {}

    def argument(self, value: Value) -> Instruction | None:
        """The entry parameter that a value is, moved; None if it is computed.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] copy(p) }")
        >>> Arguments(Moves(module)).argument((module.entry.root, ()))
        <parameter p>
        """
        end = self._end(value)
        return end if end is not None and end.computation.is_entry else None

    def is_of_several_callers(self, value: Value) -> bool:
        """Whether several callers pass what a value is, moved: they may pass several arguments.

        >>> from hlo_cli import parse_module
        >>> called = "f { q = f32[2] parameter(0)  ROOT c = f32[2] copy(q) }"
        >>> calls = "x = f32[2] call(p), to_apply=f  ROOT y = f32[2] call(r), to_apply=f"
        >>> parameters = "p = f32[2] parameter(0)  r = f32[2] parameter(1)"
        >>> module = parse_module(f"HloModule m  {called}  ENTRY e {{ {parameters}  {calls} }}")
        >>> Arguments(Moves(module)).is_of_several_callers((module.instruction("c"), ()))
        True
        """
        end = self._end(value)
        return end is not None and not end.computation.is_entry

    def _end(self, value: Value) -> Instruction | None:
        """The entry parameter that a value is, or a parameter that several callers pass."""
        ends = self._ends
        return ends[value] if value in ends else _walk(value, ends, self._before, _no_instruction)

    def _before(self, value: Value) -> tuple[Value | None, Instruction | None]:
        step = self.moves.step(value)
        if step is not None and step.is_same:
            return step.value, None
        if step is not None:
            return None, value[0] if self.moves.is_of_several_callers(value) else None
        instruction = value[0]
        is_argument = instruction.opcode == opcodes.PARAMETER and instruction.computation.is_entry
        return None, instruction if is_argument else None


class Tellers:
    """The instructions that tell the source of values, each value visited once."""

    __slots__ = ("_fusions", "_known", "_moves", "_sourced")

    def __init__(self, moves: Moves, sourced: Container[Instruction], fusions: FusionSources) -> None:
        """Takes the instructions with a source location of their own, and the sources of fusions."""
        self._moves = moves
        self._sourced = sourced
        self._fusions = fusions
        self._known: dict[Value, Instruction | None] = {}

    def upward(self, value: Value) -> Instruction | None:
        """The first instruction with a source location back through moves; not a constant, as these are shared.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m ENTRY e { p = f32[2] parameter(0) n = negate(p) ROOT c = copy(n) }")
        >>> negated = {module.instruction("n")}
        >>> Tellers(Moves(module), negated, FusionSources(negated)).upward((module.entry.root, ()))
        <negate n>
        """
        known = self._known
        return known[value] if value in known else _walk(value, known, self._before, self._passed)

    def _before(self, value: Value) -> tuple[Value | None, Instruction | None]:
        instruction, index = value
        if not index:
            teller = instruction if instruction in self._sourced else None
            if teller is None and instruction.opcode == opcodes.FUSION:
                teller = self._fusions.of(instruction)
            if teller is not None:
                return None, None if is_filler(teller) else teller
        step = self._moves.step(value)
        return (step.value if step is not None else None), None

    def _passed(self, value: Value) -> Instruction | None:
        instruction = value[0]
        return instruction if instruction in self._sourced and not is_filler(instruction) else None


def _walk(
    value: Value,
    known: dict[Value, Instruction | None],
    before: Callable[[Value], tuple[Value | None, Instruction | None]],
    passed_by: Callable[[Value], Instruction | None],
) -> Instruction | None:
    """The end of a walk, kept for all values on the way.

    `before` returns the next value, or else what is found; if that is nothing, the last value that `passed_by` takes.
    """
    passed: list[Value] = []
    found: Instruction | None = None
    at: Value | None = value
    while at is not None:
        if at in known:
            found = known[at]
            break
        known[at] = None
        passed.append(at)
        at, found = before(at)
    for each in reversed(passed):
        found = known[each] = found if found is not None else passed_by(each)
    return found


def _no_instruction(_: Value) -> None:
    return None
