"""Tries other forms of instructions until two programs agree: the proof that an instruction is the one that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.comparison.variants import Variant, variants
from hlo_cli.analysis.evaluate.compare import ROUNDING, distance
from hlo_cli.analysis.evaluate.limits import Clock
from hlo_cli.analysis.evaluate.program import MISFITS, Program, constant
from hlo_cli.analysis.evaluate.run import arrays_of
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Kernel, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

_MAX_EXECUTED: Final = 1_500_000
"""The largest number of instructions that all attempts execute together."""
_MORE_ITERATIONS: Final = 16
_MAX_SECONDS: Final = 20.0
_MAX_CONSTANTS: Final = 12


class _Exhausted(Exception):
    """All attempts together have executed as much as they may."""


class _Varied(Program):
    """A program in which one instruction at a time has another form."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("widen", limits=limits, clock=Clock(limits))
        self.varied: Instruction | None = None
        self.variant: Variant | None = None

    def kernel(self, instruction: Instruction, *, on_arrays: bool = False) -> Kernel:
        """The function that computes an instruction, or its other form."""
        own = super().kernel(instruction, on_arrays=on_arrays)

        def run(*operands: Value) -> Value:
            if instruction is not self.varied or self.variant is None:
                return own(*operands)
            return self.variant.kernel(own, operands)

        return run

    def count(self, steps: int, computation: Computation, operations: int = 0) -> None:
        """Counts executed instructions, and ends all attempts after too many."""
        try:
            super().count(steps, computation, operations)
        except HloError as error:
            raise _Exhausted from error
        if self.executed > _MAX_EXECUTED:
            raise _Exhausted


def find_repair(
    new: Module,
    arguments: Sequence[Value],
    expected: Sequence[Array],
    suspects: Sequence[Instruction],
    constants: Mapping[str, Sequence[Array]],
    *,
    executions: int = 1,
) -> tuple[Instruction, str] | None:
    """The first suspect that has a form with which all results are the expected ones, and that form in words.

    `executions` is how often one instruction runs as it is, and loops may not run much longer. None if there is none,
    and if finding it takes too much.

    >>> from hlo_cli import parse_module
    >>> new = parse_module("ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  ROOT n = f32[2] negate(a) }")
    >>> given = [np.array([2.0, 3.0])]
    >>> find_repair(new, given, [np.array([-4.0, -9.0])], new.entry.instructions[1:], {})
    (<add a>, 'multiply')
    """
    program = _Varied(Limits(max_iterations=executions + _MORE_ITERATIONS, max_seconds=_MAX_SECONDS))
    root = new.entry.root
    assert root is not None
    try:
        with np.errstate(all="ignore"):
            function = program.function(new.entry)
            for suspect in dict.fromkeys(suspects):
                for variant in _variants_of(suspect, program, constants):
                    program.varied, program.variant = suspect, variant
                    program.states.clear()
                    if _agrees(lambda: (each for _, each, _ in arrays_of(function(arguments), root.shape)), expected):
                        return suspect, variant.words
    except (_Exhausted, RecursionError, MemoryError):
        pass
    return None


def _variants_of(suspect: Instruction, program: Program, constants: Mapping[str, Sequence[Array]]) -> Sequence[Variant]:
    try:
        return list(variants(suspect, program, constants))
    except (HloError, *MISFITS):
        return ()


def _agrees(run: Callable[[], Iterable[Array]], expected: Sequence[Array]) -> bool:
    try:
        return all(distance(old, new) <= ROUNDING for old, new in zip(expected, run(), strict=True))
    except (HloError, *MISFITS):
        return False


def constants_of(module: Module) -> Mapping[str, Sequence[Array]]:
    """The different scalar constants of a module by element type, the most frequent first, and few of each type."""
    found: dict[str, dict[float | int | complex | bool, tuple[int, Array]]] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            shape, literal = instruction.shape, instruction.literal
            if instruction.opcode != opcodes.CONSTANT or not isinstance(shape, ArrayShape) or literal is None:
                continue
            if shape.elements == 1:
                value = np.asarray(constant(literal, "widen")).reshape(())
                times = found.setdefault(shape.element_type.name, {})
                times[value.item()] = times.get(value.item(), (0, value))[0] + 1, value
    return {
        kind: [value for _, value in sorted(times.values(), key=lambda each: -each[0])[:_MAX_CONSTANTS]]
        for kind, times in found.items()
    }
