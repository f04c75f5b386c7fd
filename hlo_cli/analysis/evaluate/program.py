"""A module compiled to a list of steps: each instruction reads its attributes once, values are freed when they are dead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlo_cli.analysis.evaluate.number_types import Array, Floats, carrier
from hlo_cli.analysis.evaluate.rules import NEUTRAL, rule_of
from hlo_cli.analysis.evaluate.values import Kernel, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.literal import ArrayLiteral, Literal
from hlo_cli.ir.shape import ArrayShape, ShapeIndex
from hlo_cli.source import HloError

Step = tuple[int, Kernel, tuple[int, ...], tuple[int, ...]]
"""The slot of the result, its kernel, the slots of the operands, and those that are dead afterwards."""


class Program:
    """The computations of a module as functions, compiled on first use."""

    def __init__(self, floats: Floats = "exact", budget: Callable[[Instruction], None] | None = None) -> None:
        self.floats: Floats = floats
        self.budget = budget
        self._functions: dict[Computation, Callable[[Sequence[Value]], Value]] = {}
        self._vectorized: dict[Computation, Callable[[Sequence[Array]], tuple[Array, ...]]] = {}

    def function(self, computation: Computation) -> Callable[[Sequence[Value]], Value]:
        """Runs a computation on the values of its parameters."""
        if computation not in self._functions:
            self._functions[computation] = self._compiled(computation)
        return self._functions[computation]

    def vectorized(self, computation: Computation) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
        """Runs a computation of scalars on whole arrays, element by element."""
        if computation not in self._vectorized:
            run = self._compiled(computation, on_arrays=True)

            def function(arguments: Sequence[Array]) -> tuple[Array, ...]:
                found = run(list(np.broadcast_arrays(*arguments)))
                parts = found if isinstance(found, tuple) else (found,)
                sizes = np.broadcast_shapes(*(each.shape for each in arguments))
                return tuple(
                    np.broadcast_to(part, sizes) for part in parts if isinstance(part, np.ndarray | np.generic)
                )

            self._vectorized[computation] = function
        return self._vectorized[computation]

    def _compiled(self, computation: Computation, *, on_arrays: bool = False) -> Callable[[Sequence[Value]], Value]:
        slots: dict[Instruction, int] = {}
        steps: list[Step] = []
        parameters: list[tuple[int, int]] = []
        last_use: dict[int, int] = {}
        for instruction in computation.instructions:
            slot = slots[instruction] = len(slots)
            if (number := instruction.parameter_number) is not None:
                parameters.append((slot, number))
                continue
            kernel = self._kernel(instruction, on_arrays=on_arrays)
            operands = tuple(slots[operand] for operand in instruction.operands)
            for operand in operands:
                last_use[operand] = len(steps)
            steps.append((slot, kernel, operands, ()))
        assert computation.root is not None
        root = slots[computation.root]
        dead: dict[int, list[int]] = {}
        for slot, at in last_use.items():
            if slot != root:
                dead.setdefault(at, []).append(slot)
        steps = [
            (slot, kernel, operands, tuple(dead.get(at, ()))) for at, (slot, kernel, operands, _) in enumerate(steps)
        ]
        size = len(slots)

        def run(arguments: Sequence[Value]) -> Value:
            values: list[Value] = [None] * size
            for slot, number in parameters:
                values[slot] = arguments[number]
            for slot, kernel, operands, ended in steps:
                values[slot] = kernel(*[values[operand] for operand in operands])
                for each in ended:
                    values[each] = None
            return values[root]

        return run

    def _kernel(self, instruction: Instruction, *, on_arrays: bool) -> Kernel:
        if instruction.opcode == opcodes.CONSTANT:
            literal = instruction.literal
            if literal is None:
                raise HloError(f"constant {instruction.name} has no values", instruction.span)
            value = constant(literal, self.floats)
            return lambda: value
        if on_arrays and instruction.opcode in NEUTRAL and not _changes_type(instruction):
            return lambda x: x
        kernel = rule_of(instruction, on_arrays=on_arrays)(instruction, self)
        indices = [instruction.operand_index(at) for at in range(len(instruction.operands))]
        return _selecting(kernel, indices) if any(indices) else kernel


def _changes_type(instruction: Instruction) -> bool:
    """Whether a bitcast makes another type of the same bits, as compilers write total orders."""
    old, new = instruction.operand_shape(0), instruction.shape
    return isinstance(old, ArrayShape) and isinstance(new, ArrayShape) and old.element_type is not new.element_type


def constant(literal: Literal, floats: Floats) -> Value:
    """The values of a constant."""
    if isinstance(literal, ArrayLiteral):
        return literal.array().astype(carrier(literal.shape.element_type, floats), copy=False)
    return tuple(constant(element, floats) for element in literal.elements)


def _selecting(kernel: Kernel, indices: Sequence[ShapeIndex]) -> Kernel:
    def run(*operands: Value) -> Value:
        return kernel(*(element_of(value, index) for value, index in zip(operands, indices, strict=True)))

    return run


def element_of(value: Value, index: ShapeIndex) -> Value:
    """The element of a tuple at an index."""
    for at in index:
        assert isinstance(value, tuple)
        value = value[at]
    return value
